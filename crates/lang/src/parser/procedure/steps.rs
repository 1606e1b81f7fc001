//! The steps of a procedure. Each is cut out by its brackets, and the SPARQL in it is parsed by
//! itself.

use super::part::Readable;
use super::scope::{ValueScope, assigned};
use crate::algebra::Pattern;
use crate::algebra::expression::Expression;
use crate::algebra::procedure::{Bound, Branch, Slot, Step, StepKind, StepQuery, StepWrite};
use crate::algebra::query::{Query, QueryForm};
use crate::algebra::update::UpdateOperation;
use crate::clauses::procedure::{ProcedureHeader, refuse, variable_name};
use crate::parser::Parser;
use crate::parser::standalone::Standalone;
use crate::text::brackets::skip_bracketed;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};
use oxrdf::NamedNode;
use std::ops::Range;

/// The greatest depth of blocks in each other.
const DEEPEST_BLOCKS: usize = 32;
/// The greatest number of steps of a procedure.
const MOST_STEPS: usize = 4_096;

const STEPS: &str = "a step: INSERT, DELETE, LET, IF, FOR EACH, EMIT INTO, ABORT or RETURN";

/// Reads the blocks of one procedure.
pub(super) struct StepReader<'t, 'h> {
    source: &'t str,
    tokens: &'t [Token],
    names: &'t Names,
    /// For the SPARQL of steps, which has its declarations in front.
    parser: Parser,
    header: &'h ProcedureHeader,
    pub(super) scope: ValueScope<'t>,
    /// The stream of the `WHEN INTO` that is read.
    emitted: Option<NamedNode>,
    /// Whether RETURN has no place in the block that is read, and why.
    no_return: Option<&'static str>,
    depth: usize,
    count: usize,
}

impl<'t, 'h> StepReader<'t, 'h> {
    pub(super) fn new(
        parser: &Parser,
        cursor: &Cursor<'t>,
        names: &'t Names,
        header: &'h ProcedureHeader,
    ) -> Self {
        let no_return = match header.consumes.is_empty() {
            true => None,
            false => Some("a procedure that consumes a stream is not called, and answers nothing"),
        };
        StepReader {
            source: cursor.source,
            tokens: cursor.tokens,
            names,
            parser: Parser {
                base: None,
                is_quick: false,
                ..parser.clone()
            },
            header,
            scope: ValueScope::default(),
            emitted: None,
            no_return,
            depth: 0,
            count: 0,
        }
    }

    /// The block of a trigger. `emitted` is the stream of WHEN INTO.
    pub(super) fn trigger_block(
        &mut self,
        cursor: &mut Cursor<'t>,
        emitted: Option<&NamedNode>,
    ) -> Result<Vec<Step>, ParseError> {
        let outer = self.no_return.replace("a trigger answers no call");
        self.emitted = emitted.cloned();
        let steps = self.block(cursor);
        self.emitted = None;
        self.no_return = outer;
        steps
    }

    /// A query by itself, up to the end of the text.
    pub(super) fn query_alone(&mut self, cursor: &mut Cursor<'t>) -> Result<Step, ParseError> {
        let start = cursor.offset();
        let tokens = step_end(cursor);
        let forms = ["SELECT", "ASK", "CONSTRUCT"];
        let (query, _) = self.query(tokens, "SELECT, ASK or CONSTRUCT", &forms)?;
        let end = self.source.len();
        match cursor.is_end() {
            true => Ok(Step {
                kind: StepKind::Return(query),
                span: start..end,
            }),
            false => Err(cursor.unexpected("the end of the query")),
        }
    }

    /// `write {; write} [;]`, up to the end of the text.
    pub(super) fn writes_alone(
        &mut self,
        cursor: &mut Cursor<'t>,
    ) -> Result<Vec<Step>, ParseError> {
        let mut steps = Vec::new();
        while steps.is_empty() || !cursor.is_end() {
            let is_write = cursor.is_any_keyword(&["INSERT", "DELETE", "WITH"]);
            if !is_write {
                return Err(cursor.unexpected("INSERT, DELETE or WITH"));
            }
            steps.push(self.step(cursor)?);
            if !cursor.take_punctuation(";") && !cursor.is_end() {
                return Err(cursor.unexpected("`;` and another operation, or the end of the text,"));
            }
        }
        Ok(steps)
    }

    /// `{ step {; step} [;] }`
    pub(super) fn block(&mut self, cursor: &mut Cursor<'t>) -> Result<Vec<Step>, ParseError> {
        let open = cursor.offset();
        cursor.expect_punctuation("{")?;
        if self.depth == DEEPEST_BLOCKS {
            let message = format!(
                "blocks stand in each other more than {DEEPEST_BLOCKS} deep here; split the procedure"
            );
            return refuse(self.source, open, message);
        }
        self.depth += 1;
        let around = self.scope.enter();
        let mut steps = Vec::new();
        loop {
            steps.push(self.step(cursor)?);
            let goes_on = cursor.take_punctuation(";");
            if cursor.take_punctuation("}") {
                break;
            }
            if !goes_on {
                return Err(cursor.unexpected("`;` and another step, or `}`"));
            }
        }
        self.scope.leave(around);
        self.depth -= 1;
        Ok(steps)
    }

    fn step(&mut self, cursor: &mut Cursor<'t>) -> Result<Step, ParseError> {
        let start = cursor.offset();
        self.count += 1;
        if self.count > MOST_STEPS {
            let message =
                format!("the procedure has more than {MOST_STEPS} steps up to here; split it");
            return refuse(self.source, start, message);
        }
        let kind = if cursor.is_any_keyword(&["INSERT", "DELETE", "WITH"]) {
            self.write(cursor)?
        } else if cursor.take_keyword("LET") {
            self.let_step(cursor)?
        } else if cursor.is_keyword("IF") {
            self.if_step(cursor)?
        } else if cursor.take_keyword("FOR") {
            cursor.expect_keyword("EACH")?;
            self.for_each(cursor)?
        } else if cursor.take_keyword("EMIT") {
            self.emit(cursor)?
        } else if cursor.take_keyword("ABORT") {
            self.abort(cursor)?
        } else if cursor.take_keyword("RETURN") {
            self.return_step(cursor, start)?
        } else {
            return Err(self.no_step(cursor));
        };
        let end = cursor.tokens[cursor.at - 1].end;
        Ok(Step {
            kind,
            span: start..end,
        })
    }

    /// The error for something that is no step.
    fn no_step(&self, cursor: &Cursor<'_>) -> ParseError {
        let word = cursor.peek_text().to_ascii_uppercase();
        let message = match &*word {
            "LOAD" => "LOAD cannot stand in a procedure, whose outcome follows from the log alone; load the document before, by an update of its own".to_owned(),
            "CLEAR" | "CREATE" | "DROP" | "ADD" | "MOVE" | "COPY" if cursor.peek_kind() == Some(TokenKind::Word) => format!(
                "{word} is about whole graphs and cannot stand in a procedure; write DELETE {{ … }} WHERE {{ … }} and INSERT {{ … }} WHERE {{ … }}, or send it as an update of its own"
            ),
            "SELECT" | "ASK" | "CONSTRUCT" | "DESCRIBE" => format!(
                "{word} by itself has no effect; write LET (…) BE SELECT, IF ASK, EMIT INTO <stream> CONSTRUCT, or RETURN before it"
            ),
            "ELSE" => "found ELSE without an IF before it; ELSE follows the `}` of IF, without `;`".to_owned(),
            "}" | ";" => format!("found `{word}`, but {STEPS} was expected; a block has one step at least"),
            _ => return cursor.unexpected(STEPS),
        };
        ParseError::syntax(cursor.source, cursor.offset(), message)
    }

    fn write(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        let tokens = step_end(cursor);
        let part = self.standalone(tokens.clone())?;
        let update = (self.parser.parse_update(part.text()))
            .map_err(|error| part.error_in(self.source, error))?;
        let mut operations = update.operations.into_iter();
        let (Some(mut operation), None) = (operations.next(), operations.next()) else {
            return Err(cursor.unexpected(STEPS));
        };
        let mut bound = Vec::new();
        if let UpdateOperation::DeleteInsert(change) = &mut operation {
            bound = self.bound(&change.query, &tokens)?;
        }
        Ok(StepKind::Write(StepWrite { operation, bound }))
    }

    fn let_step(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        let variables = self.variables(cursor)?;
        cursor.expect_keyword("BE")?;
        let tokens = step_end(cursor);
        let select = self.select(tokens, "LET", &variables)?;
        let slots = self.declare(&variables)?;
        Ok(StepKind::Let { slots, select })
    }

    fn for_each(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        let variables = self.variables(cursor)?;
        cursor.expect_keyword("IN")?;
        let tokens = self.query_before_block(cursor, "FOR EACH", "SELECT")?;
        let select = self.select(tokens, "FOR EACH", &variables)?;
        let around = self.scope.enter();
        let slots = self.declare(&variables)?;
        let steps = self.block(cursor)?;
        self.scope.leave(around);
        Ok(StepKind::ForEach {
            slots,
            select,
            steps,
        })
    }

    fn if_step(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        while cursor.take_keyword("IF") {
            let tokens = self.query_before_block(cursor, "IF", "ASK")?;
            let (condition, _) = self.query(tokens, "ASK after IF", &["ASK"])?;
            let steps = self.block(cursor)?;
            branches.push(Branch { condition, steps });
            if !cursor.take_keyword("ELSE") {
                break;
            }
            if !cursor.is_keyword("IF") {
                otherwise = self.block(cursor)?;
                break;
            }
        }
        Ok(StepKind::If {
            branches,
            otherwise,
        })
    }

    fn emit(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        cursor.expect_keyword("INTO")?;
        let token = source_token(cursor, "the IRI of an interior stream")?;
        let stream = self.names.resolve(self.source, token)?;
        if self.header.consumes(&stream) {
            let message = format!(
                "the procedure consumes {stream} and would feed itself; emit into another stream"
            );
            return refuse(self.source, token.start, message);
        }
        let tokens = step_end(cursor);
        let (construct, _) = self.query(tokens, "CONSTRUCT after EMIT INTO", &["CONSTRUCT"])?;
        Ok(StepKind::Emit { stream, construct })
    }

    fn return_step(
        &mut self,
        cursor: &mut Cursor<'t>,
        start: usize,
    ) -> Result<StepKind, ParseError> {
        if let Some(reason) = self.no_return {
            let message = format!("RETURN cannot stand here: {reason}; take it away");
            return refuse(self.source, start, message);
        }
        let tokens = step_end(cursor);
        let forms = ["SELECT", "ASK", "CONSTRUCT"];
        let (query, _) = self.query(tokens, "SELECT, ASK or CONSTRUCT after RETURN", &forms)?;
        Ok(StepKind::Return(query))
    }

    /// The expression becomes the column of a SELECT with one row.
    fn abort(&mut self, cursor: &mut Cursor<'t>) -> Result<StepKind, ParseError> {
        let tokens = step_end(cursor);
        let Some((first, last)) = self.first_and_last(&tokens) else {
            return Err(cursor.unexpected("the reason, an expression, after ABORT"));
        };
        let mut column = "reason".to_owned();
        while self.source[first.start..last.end].contains(&column) {
            column.push('_');
        }
        let mut part = self.declarations(&tokens);
        part.insert("SELECT (", first.start);
        self.copy(&mut part, &tokens)?;
        part.insert(&format!(" AS ?{column}) WHERE {{ }}"), last.end);
        let query = self.parse(&part, &tokens)?;
        let bound = self.bound(&query, &tokens)?;
        if let Some(name) = unbound_in_columns(&query, &bound) {
            let variables = self.tokens[tokens].iter();
            let token = variables
                .filter(|token| token.kind == TokenKind::Variable)
                .find(|token| variable_name(self.source, **token) == name);
            let message = format!(
                "?{name} has no value here, so there would be no reason; give it one with LET before"
            );
            return refuse(
                self.source,
                token.map_or(first.start, |it| it.start),
                message,
            );
        }
        Ok(StepKind::Abort(StepQuery { query, bound }))
    }

    /// `( ?var+ )`
    fn variables(&self, cursor: &mut Cursor<'t>) -> Result<Vec<Token>, ParseError> {
        cursor.expect_punctuation("(")?;
        let mut variables = Vec::new();
        while let Some(variable) = cursor.take_kind(TokenKind::Variable) {
            variables.push(variable);
        }
        if cursor.is_punctuation(",") {
            return Err(cursor.unexpected("a variable or `)`, with nothing between variables,"));
        }
        if variables.is_empty() || !cursor.take_punctuation(")") {
            return Err(cursor.unexpected("a variable or `)`"));
        }
        Ok(variables)
    }

    fn declare(&mut self, variables: &[Token]) -> Result<Vec<Slot>, ParseError> {
        let mut slots = Vec::with_capacity(variables.len());
        for variable in variables {
            slots.push(self.scope.declare(self.source, *variable)?);
        }
        Ok(slots)
    }

    /// A SELECT with a column for each variable.
    fn select(
        &mut self,
        tokens: Range<usize>,
        of: &str,
        variables: &[Token],
    ) -> Result<StepQuery, ParseError> {
        let (select, columns) = self.query(tokens, &format!("SELECT in {of}"), &["SELECT"])?;
        if columns == variables.len() {
            return Ok(select);
        }
        let things = |count: usize, what: &str| match count {
            1 => format!("one {what}"),
            _ => format!("{count} {what}s"),
        };
        let message = format!(
            "{of} names {}, and its SELECT has {}; name each column once, in their order",
            things(variables.len(), "variable"),
            things(columns, "column")
        );
        refuse(self.source, variables[0].start, message)
    }

    /// A query of one of these forms, and the number of its columns.
    fn query(
        &mut self,
        tokens: Range<usize>,
        expected: &str,
        forms: &[&str],
    ) -> Result<(StepQuery, usize), ParseError> {
        let cursor = self.at(tokens.start);
        if tokens.is_empty() || !cursor.is_any_keyword(forms) {
            return Err(cursor.unexpected(expected));
        }
        let part = self.standalone(tokens.clone())?;
        let mut query = self.parse(&part, &tokens)?;
        let bound = self.bound(&query, &tokens)?;
        let mut columns = 0;
        if let QueryForm::Select { projection } = &mut query.form {
            if self.selects_all(&tokens) {
                // A value in the place of a variable is no column of `*`.
                projection.retain(|column| bound.iter().all(|one| one.variable != *column));
            }
            columns = projection.len();
        }
        Ok((StepQuery { query, bound }, columns))
    }

    fn selects_all(&self, tokens: &Range<usize>) -> bool {
        let mut cursor = self.at(tokens.start + 1);
        if cursor.is_any_keyword(&["DISTINCT", "REDUCED"]) {
            cursor.bump();
        }
        cursor.is_punctuation("*")
    }

    fn at(&self, at: usize) -> Cursor<'t> {
        Cursor {
            source: self.source,
            tokens: self.tokens,
            at,
        }
    }

    fn declarations(&self, tokens: &Range<usize>) -> Standalone {
        let tokens = &self.tokens[tokens.clone()];
        Standalone::with_declarations(self.source, tokens, self.names)
    }

    fn copy(&self, part: &mut Standalone, tokens: &Range<usize>) -> Result<(), ParseError> {
        let readable = Readable {
            header: self.header,
            emitted: self.emitted.as_ref(),
        };
        let tokens = &self.tokens[tokens.clone()];
        part.copy_step(self.source, tokens, self.names, &readable)
    }

    fn standalone(&self, tokens: Range<usize>) -> Result<Standalone, ParseError> {
        let mut part = self.declarations(&tokens);
        self.copy(&mut part, &tokens)?;
        Ok(part)
    }

    fn parse(&self, part: &Standalone, tokens: &Range<usize>) -> Result<Query, ParseError> {
        let query = (self.parser.parse_query(part.text()))
            .map_err(|error| part.error_in(self.source, error))?;
        let text = (self.first_and_last(tokens))
            .map_or("", |(first, last)| &self.source[first.start..last.end]);
        Ok(Query {
            text: text.to_owned(),
            ..query
        })
    }

    fn first_and_last(&self, tokens: &Range<usize>) -> Option<(Token, Token)> {
        let tokens = &self.tokens[tokens.clone()];
        tokens.first().copied().zip(tokens.last().copied())
    }

    /// Which variables of a query stand for slots. None of them may get a value in it.
    fn bound(&self, query: &Query, tokens: &Range<usize>) -> Result<Vec<Bound>, ParseError> {
        let bound = self.scope.bound(&query.variables);
        let Some(variable) = assigned(&query.pattern, &bound) else {
            return Ok(bound);
        };
        let slot = bound.iter().find(|one| one.variable == variable);
        let is_it = |token: &Token| {
            token.kind == TokenKind::Variable
                && self.scope.slot(variable_name(self.source, *token)) == slot.map(|it| it.slot)
        };
        let tokens = &self.tokens[tokens.clone()];
        let given = |at: &usize| {
            let before = at.checked_sub(1).map(|at| tokens[at].text(self.source));
            before.is_some_and(|word| {
                ["AS", "VALUES"]
                    .iter()
                    .any(|it| it.eq_ignore_ascii_case(word))
            })
        };
        let mut places = (0..tokens.len()).filter(|at| is_it(&tokens[*at]));
        let first = places.clone().next();
        let Some(token) = places.find(given).or(first).map(|at| tokens[at]) else {
            return Ok(bound);
        };
        let message = format!(
            "{} has a value here already, which stands in its place; choose another name",
            token.text(self.source)
        );
        refuse(self.source, token.start, message)
    }

    /// The tokens of a query that stands before a block, where the cursor stands then.
    fn query_before_block(
        &self,
        cursor: &mut Cursor<'t>,
        of: &str,
        form: &str,
    ) -> Result<Range<usize>, ParseError> {
        let start = cursor.at;
        if !cursor.is_keyword(form) {
            return Err(cursor.unexpected(&format!("{form} in {of}")));
        }
        let end = step_end(&mut cursor.clone()).end;
        let (mut has_pattern, mut in_values) = (false, false);
        while cursor.at < end {
            in_values |= cursor.is_keyword("VALUES");
            if !cursor.is_punctuation("{") {
                skip_bracketed(cursor);
                continue;
            }
            let before = cursor.tokens[cursor.at - 1].text(self.source);
            let is_of_query = in_values || before.eq_ignore_ascii_case("EXISTS") || !has_pattern;
            if !is_of_query {
                return Ok(start..cursor.at);
            }
            has_pattern |= !in_values;
            in_values = false;
            skip_bracketed(cursor);
        }
        let message = format!("{of} has no steps; write them in braces behind its {form}");
        Err(ParseError::syntax(self.source, cursor.offset(), message))
    }
}

/// The tokens from the cursor to the `;` or `}` behind the step; the cursor stands there then.
fn step_end(cursor: &mut Cursor<'_>) -> Range<usize> {
    let start = cursor.at;
    while !cursor.is_end() && !cursor.is_punctuation(";") && !cursor.is_punctuation("}") {
        skip_bracketed(cursor);
    }
    start..cursor.at
}

/// The name of a variable that a column reads and nothing gives a value.
fn unbound_in_columns(query: &Query, bound: &[Bound]) -> Option<String> {
    let mut patterns = vec![&query.pattern];
    let mut expressions: Vec<&Expression> = Vec::new();
    let mut made = Vec::new();
    while let Some(pattern) = patterns.pop() {
        match pattern {
            Pattern::Extend {
                inner,
                variable,
                expression,
            } => {
                made.push(*variable);
                expressions.push(expression);
                patterns.push(inner);
            }
            Pattern::Project { inner, .. } => patterns.push(inner),
            Pattern::Group { aggregates, .. } => {
                made.extend(aggregates.iter().map(|(variable, _)| *variable));
            }
            _ => {}
        }
    }
    while let Some(expression) = expressions.pop() {
        if let Expression::Variable(variable) = expression
            && !made.contains(variable)
            && bound.iter().all(|one| one.variable != *variable)
        {
            return Some(query.variable_name(*variable).to_owned());
        }
        expressions.extend(expression.children());
    }
    None
}
