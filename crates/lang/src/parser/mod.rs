//! The entry points: text to queries, updates and statements.

mod mapping;
mod procedure;
pub(crate) mod script;
mod standalone;

use crate::algebra::VarId;
use crate::algebra::continuous::{
    ContinuousQuery, DerivedStream, Dialect, Overload, RegistrationKind,
};
use crate::algebra::query::{Query, QueryForm};
use crate::algebra::statement::Statement;
use crate::algebra::update::{DeleteInsert, Update, UpdateOperation};
use crate::clauses::blocks;
use crate::clauses::connector;
use crate::clauses::declare;
use crate::clauses::live;
use crate::clauses::options;
use crate::clauses::surface::{self, Surface};
use crate::sparql::columns::let_having_read_columns;
use crate::sparql::convert::Converter;
use crate::sparql::ground_data;
use crate::sparql::rewrite;
use crate::sparql::spareval::pattern_mut;
use crate::sparql::star::order_columns;
use crate::sparql::template::{
    convert_dataset, convert_graph_name, convert_ground_quad, convert_quad, convert_target,
};
use crate::sparql::timestamp;
use crate::sparql::{ParsedQuery, Sparql};
use crate::text::cursor::Cursor;
use crate::text::error::{ParseError, ParseErrorKind};
use crate::text::name_clause::name_text;
use crate::text::names::Names;
use crate::text::nesting;
use crate::token::{Token, TokenKind, tokenize};
use oxiri::Iri;
use oxrdf::NamedNode;
use somersault_model::EventTime;
use spargebra::algebra as al;
use std::collections::HashSet;
use std::sync::Arc;

/// The tokens that a quick parser reads at most: some milliseconds.
const QUICKLY_READ: usize = 8 * 1024;

/// Reads every text that the engine takes. Cheap to make and to clone.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// The namespace that bare names are resolved by (the server's `--namespace`).
    pub default_namespace: Option<String>,
    /// The base IRI of relative IRIs where the text has no `BASE`.
    pub base: Option<String>,
    is_quick: bool,
}

impl Parser {
    /// A parser without a default namespace and without a base.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the namespace that bare names are resolved by: `po` becomes `<namespace + "po">`.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = Some(namespace.into());
        self
    }

    /// Makes the parser give up a query, with [`ParseErrorKind::TooLong`], whose text takes more
    /// than some milliseconds to parse.
    #[must_use]
    pub fn quickly(mut self) -> Self {
        self.is_quick = true;
        self
    }

    /// Sets the base IRI.
    #[must_use]
    pub fn with_base(mut self, base: impl Into<String>) -> Self {
        self.base = Some(base.into());
        self
    }

    /// Parses a one-shot query. In the paper's dialect (where there are bare names) `FROM g` also
    /// names `g`.
    ///
    /// # Errors
    /// If the text is not a SPARQL query, or is a continuous one.
    pub fn parse_query(&self, text: &str) -> Result<Query, ParseError> {
        let tokens = tokenize(text);
        let read = nesting::check(text, &tokens)?;
        if self.is_quick && read > QUICKLY_READ {
            let message = "the text takes long to parse";
            let kind = ParseErrorKind::TooLong;
            return Err(ParseError {
                kind,
                ..ParseError::semantics(text, 0, message)
            });
        }
        let names = self.names_of(text, &tokens)?;
        let sparql = Sparql {
            source: text,
            tokens,
            ..Sparql::default()
        };
        match sparql.query(self.base.as_deref(), &names) {
            Ok(parsed) => {
                timestamp::refuse(text, &sparql.tokens, &names)?;
                Ok(build_query(text, &sparql.tokens, parsed.value, parsed.bare))
            }
            Err(error) => Err(surface::is_continuous(text, &sparql.tokens).map_or(error, |offset| {
                ParseError::semantics(
                    text,
                    offset,
                    "this is a continuous query, and was sent as a one-shot one; register it, or take REGISTER and the windows away",
                )
            })),
        }
    }

    /// Parses an update request.
    ///
    /// # Errors
    /// If the text is not a SPARQL update.
    pub fn parse_update(&self, text: &str) -> Result<Update, ParseError> {
        let tokens = tokenize(text);
        nesting::check(text, &tokens)?;
        match self.plain_data(text, &tokens) {
            Some(update) => Ok(update),
            None => self.update_of_any_kind(text, tokens),
        }
    }

    /// As [`Parser::parse_update`], without the short way for plain data: for tests that compare
    /// the two.
    #[doc(hidden)]
    pub fn parse_update_the_long_way(&self, text: &str) -> Result<Update, ParseError> {
        let tokens = tokenize(text);
        nesting::check(text, &tokens)?;
        self.update_of_any_kind(text, tokens)
    }

    fn update_of_any_kind(&self, text: &str, tokens: Vec<Token>) -> Result<Update, ParseError> {
        let sparql = Sparql {
            source: text,
            tokens,
            ..Sparql::default()
        };
        let sections = sparql.update(self.start_names()?)?;
        Ok(build_update(text, &sparql.tokens, &sections))
    }

    /// The update, if its only operation is plain data.
    fn plain_data(&self, text: &str, tokens: &[Token]) -> Option<Update> {
        let mut names = self.start_names().ok()?;
        let mut cursor = Cursor::new(text, tokens);
        names.read_prologue(&mut cursor).ok()?;
        let prologue = &tokens[..cursor.at];
        let is_version = |token: &Token| token.text(text).eq_ignore_ascii_case("VERSION");
        if prologue.iter().any(is_version) {
            return None;
        }
        let operation = ground_data::read(cursor, &names)?;
        Some(Update {
            operations: vec![operation],
            base: names.base().map(str::to_owned),
            text: text.to_owned(),
        })
    }

    /// Parses a continuous query, with or without a `REGISTER` header. Without a window it is a
    /// live query.
    ///
    /// # Errors
    /// If the text is not a continuous query, or says something that cannot hold.
    pub fn parse_continuous(&self, text: &str) -> Result<ContinuousQuery, ParseError> {
        let tokens = tokenize(text);
        nesting::check(text, &tokens)?;
        if let Some(error) = Cursor::new(text, &tokens).first_bad_token() {
            return Err(error);
        }
        let (mut surface, pattern) = surface::read(text, &tokens, self.start_names()?)?;
        blocks::read(&mut surface, pattern)?;
        surface.check(text)?;
        timestamp::check(text, &tokens, &surface.names)?;
        let sparql = remaining_sparql(text, &tokens, &surface);
        let parsed = sparql.query(self.base.as_deref(), &surface.names)?;
        let is_live = surface.windows.is_empty();
        let bare = parsed.bare || surface.bare;
        let is_paper = bare && surface.dialect == Some(Dialect::CSparql);
        let query = build_query(text, &tokens, parsed.value, is_paper);
        let header = surface.header.as_ref();
        options::check_report(text, surface.operator, &surface.options)?;
        match is_live {
            true => live::check(text, &tokens, &surface, &query)?,
            false => live::refuse_every(text, &surface)?,
        }
        let derives: Option<DerivedStream> = header
            .filter(|header| header.kind == RegistrationKind::Stream)
            .map(|header| {
                let offset = header.offset;
                options::check_derivation(text, offset, &query, &surface.options)?;
                let iri = surface.names.resolve(text, header.name)?;
                Ok::<_, ParseError>(header.stream.derived(iri))
            })
            .transpose()?;
        Ok(ContinuousQuery {
            // A derived stream has one name, however it is written.
            name: match (&derives, header) {
                (Some(stream), _) => Some(stream.iri.as_str().to_owned()),
                (None, Some(header)) => Some(name_text(text, header.name, &surface.names)?),
                (None, None) => None,
            },
            derives,
            report: match is_live {
                true => live::report(surface.operator, surface.options.report),
                false => surface.options.report,
            },
            overload: surface
                .options
                .overload
                .map_or_else(Overload::default, |it| it.0),
            kind: header.map_or(RegistrationKind::Query, |header| header.kind),
            operator: surface.operator,
            windows: surface.windows,
            computed_every: header.and_then(|header| header.computed_every),
            every: header.and_then(|header| Some(header.every?.0)),
            starting_at: (surface.starting_at)
                .or(header.and_then(|header| header.starting_at))
                .unwrap_or(EventTime(0)),
            query,
            dialect: match surface.dialect {
                Some(dialect @ (Dialect::RspQl | Dialect::CqelsQl)) => dialect,
                _ if is_paper => Dialect::Paper,
                _ => Dialect::CSparql,
            },
            text: text.to_owned(),
        })
    }

    /// Parses a statement: CREATE STREAM, PROCEDURE, DATAFLOW, SOURCE or SINK, DROP, PAUSE, RESUME,
    /// REGISTER, CALL.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse_statement(&self, text: &str) -> Result<Statement, ParseError> {
        let tokens = tokenize(text);
        let mut names = self.start_names()?;
        let mut cursor = Cursor::new(text, &tokens);
        names.read_prologue(&mut cursor)?;
        if cursor.is_keyword("REGISTER") {
            return Ok(Statement::Register(Box::new(self.parse_continuous(text)?)));
        }
        if let Some(statement) = connector::read_statement(&mut cursor, &names)? {
            return Ok(statement);
        }
        if let Some(statement) = procedure::read_statement(self, &mut cursor, &names)? {
            return Ok(statement);
        }
        declare::read_statement(&mut cursor, &names, &|cursor, tokens| {
            self.mapping(cursor, tokens, &names)
        })
    }

    /// Whether a text is a CALL, by its first word behind the prologue. Reads no further.
    ///
    /// ```
    /// use somersault_lang::Parser;
    /// assert!(Parser::is_call("PREFIX e: <urn:e> # of a bank\ncall transfer(e:a, 1)"));
    /// assert!(!Parser::is_call("INSERT DATA { <urn:call> <urn:p> 1 }"));
    /// ```
    #[must_use]
    pub fn is_call(text: &str) -> bool {
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            if let Some(comment) = rest.strip_prefix('#') {
                rest = comment.split_once('\n').map_or("", |(_, after)| after);
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_alphabetic());
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
            if !is("PREFIX") && !is("BASE") {
                return is("CALL");
            }
            rest = after.split_once('>').map_or("", |(_, after)| after);
        }
    }

    /// The CALL of a text `EXPLAIN ANALYZE CALL …`, with blanks in the place of the first words,
    /// so that errors have their places; `None` if the text is none.
    ///
    /// ```
    /// use somersault_lang::Parser;
    /// let call = Parser::explained_call("explain analyze call p()");
    /// assert_eq!(call.as_deref(), Some("                call p()"));
    /// assert_eq!(Parser::explained_call("CALL p()"), None);
    /// ```
    #[must_use]
    pub fn explained_call(text: &str) -> Option<String> {
        let mut rest = text;
        for keyword in ["EXPLAIN", "ANALYZE"] {
            rest = rest.trim_start();
            let word = rest.get(..keyword.len())?;
            if !word.eq_ignore_ascii_case(keyword) {
                return None;
            }
            rest = &rest[keyword.len()..];
            if !rest.starts_with(char::is_whitespace) {
                return None;
            }
        }
        let before = &text[..text.len() - rest.len()];
        let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
        let call: String = before.chars().map(blank).chain(rest.chars()).collect();
        Parser::is_call(&call).then_some(call)
    }

    /// The names in force before the text says anything.
    pub(crate) fn start_names(&self) -> Result<Names, ParseError> {
        let base = self
            .base
            .clone()
            .map(Iri::parse)
            .transpose()
            .map_err(|fault| ParseError {
                line: 1,
                column: 1,
                offset: 0,
                message: format!(
                    "the base IRI given with this text is not valid ({fault}); correct it"
                ),
                kind: ParseErrorKind::Syntax,
            })?;
        Ok(Names::new(base, self.default_namespace.clone()))
    }

    /// The names in force after the prologue; a prologue with faults is left to the grammar.
    fn names_of(&self, text: &str, tokens: &[Token]) -> Result<Names, ParseError> {
        let mut names = self.start_names()?;
        // The grammar, which runs where the parse fails, reports faults of the prologue.
        let _ = names.read_prologue(&mut Cursor::new(text, tokens));
        Ok(names)
    }
}

/// The text without its header and windows.
fn remaining_sparql<'t>(text: &'t str, tokens: &[Token], surface: &Surface) -> Sparql<'t> {
    let is_removed = |index: usize| surface.removed.iter().any(|range| range.contains(&index));
    Sparql {
        source: text,
        tokens: tokens
            .iter()
            .enumerate()
            .filter(|(index, _)| !is_removed(*index))
            .map(|(_, token)| *token)
            .collect(),
        blanks: surface
            .removed
            .iter()
            .filter(|range| !range.is_empty())
            .map(|range| tokens[range.start].start..tokens[range.end - 1].end)
            .collect(),
        edits: surface.edits.clone(),
        has_windows: true,
    }
}

/// The names of the variables that stand in the text.
fn written_variables<'t>(text: &'t str, tokens: &[Token]) -> HashSet<&'t str> {
    let variables = tokens
        .iter()
        .filter(|token| token.kind == TokenKind::Variable);
    variables
        .map(|token| &text[token.start + 1..token.end])
        .collect()
}

fn build_query(text: &str, tokens: &[Token], parsed: ParsedQuery, is_paper_dialect: bool) -> Query {
    let ParsedQuery {
        mut algebra,
        template: quads,
    } = parsed;
    order_columns(text, tokens, pattern_mut(&mut algebra));
    let_having_read_columns(pattern_mut(&mut algebra));
    let written = written_variables(text, tokens);
    let mut converter = Converter::new(&written);
    let (pattern, projection) = converter.outermost(pattern_mut(&mut algebra));
    let form = match &algebra {
        spargebra::Query::Select { .. } => QueryForm::Select { projection },
        spargebra::Query::Describe { .. } => QueryForm::Describe { projection },
        spargebra::Query::Ask { .. } => QueryForm::Ask,
        spargebra::Query::Construct { template, .. } => QueryForm::Construct {
            template: match &quads {
                Some(quads) => converter.insert_template(quads),
                None => converter.template(template),
            },
        },
    };
    let (clause, base) = match &mut algebra {
        spargebra::Query::Select {
            dataset, base_iri, ..
        }
        | spargebra::Query::Construct {
            dataset, base_iri, ..
        }
        | spargebra::Query::Describe {
            dataset, base_iri, ..
        }
        | spargebra::Query::Ask {
            dataset, base_iri, ..
        } => (dataset.take(), base_iri.as_ref()),
    };
    let base = base.map(|base| base.as_str().to_owned());
    let mut dataset = convert_dataset(clause.as_ref());
    if is_paper_dialect {
        let unnamed: Vec<NamedNode> = dataset
            .default
            .iter()
            .filter(|graph| !dataset.named.contains(graph))
            .cloned()
            .collect();
        dataset.named.extend(unnamed);
    }
    let reads_now = key_and_find_now(pattern_mut(&mut algebra));
    Query {
        form,
        dataset,
        variables: converter.names,
        pattern,
        base,
        text: text.to_owned(),
        algebra: Some(Arc::new(algebra)),
        reads_now,
    }
}

/// Renames the keyed functions; tells whether there is a `NOW()`.
fn key_and_find_now(pattern: &mut al::GraphPattern) -> bool {
    let mut reads_now = false;
    rewrite::each_expression(pattern, &mut |expression| {
        reads_now |= rewrite::is_now(expression);
        rewrite::key_functions(expression);
    });
    reads_now
}

fn build_update(text: &str, tokens: &[Token], sections: &[spargebra::Update]) -> Update {
    let mut written = written_variables(text, tokens);
    // ADD, COPY and MOVE are rewritten with variables that no text has.
    written.extend(["s", "p", "o"]);
    let last_base = sections.last().and_then(|last| last.base_iri.as_ref());
    let operations = sections.iter().flat_map(|section| {
        let written = &written;
        (section.operations.iter())
            .map(move |operation| build_operation(written, operation, section))
    });
    Update {
        operations: operations.collect(),
        base: last_base.map(|base| base.as_str().to_owned()),
        text: text.to_owned(),
    }
}

fn build_operation(
    written: &HashSet<&str>,
    operation: &spargebra::GraphUpdateOperation,
    section: &spargebra::Update,
) -> UpdateOperation {
    use spargebra::GraphUpdateOperation as U;
    match operation {
        U::InsertData { data } => {
            UpdateOperation::InsertData(data.iter().map(convert_quad).collect())
        }
        U::DeleteData { data } => {
            UpdateOperation::DeleteData(data.iter().map(convert_ground_quad).collect())
        }
        U::DeleteInsert { .. } => UpdateOperation::DeleteInsert(Box::new(build_delete_insert(
            written, operation, section,
        ))),
        U::Load {
            silent,
            source,
            destination,
        } => UpdateOperation::Load {
            silent: *silent,
            source: source.clone(),
            into: convert_graph_name(destination),
        },
        U::Clear { silent, graph } => UpdateOperation::Clear {
            silent: *silent,
            target: convert_target(graph),
        },
        U::Create { silent, graph } => UpdateOperation::Create {
            silent: *silent,
            graph: graph.clone(),
        },
        U::Drop { silent, graph } => UpdateOperation::Drop {
            silent: *silent,
            target: convert_target(graph),
        },
    }
}

fn build_delete_insert(
    written: &HashSet<&str>,
    operation: &spargebra::GraphUpdateOperation,
    update: &spargebra::Update,
) -> DeleteInsert {
    let spargebra::GraphUpdateOperation::DeleteInsert {
        delete,
        insert,
        using,
        pattern,
    } = operation
    else {
        unreachable!("the caller gives a DELETE/INSERT operation only")
    };
    let mut converter = Converter::new(written);
    let mut pattern = (**pattern).clone();
    let_having_read_columns(&mut pattern);
    let inner = converter.pattern(&pattern);
    let delete = converter.delete_template(delete);
    let insert = converter.insert_template(insert);
    let projection: Vec<VarId> = (0..converter.names.len())
        .filter(|&index| !converter.names[index].starts_with(['_', '.']))
        .map(|index| VarId(u32::try_from(index).expect("variables are numbered in 32 bits")))
        .collect();
    let mut algebra = spargebra::Query::Select {
        dataset: None,
        pattern: al::GraphPattern::Project {
            inner: Box::new(pattern),
            variables: projection
                .iter()
                .map(|id| oxrdf::Variable::new_unchecked(&converter.names[id.index()]))
                .collect(),
        },
        base_iri: update.base_iri.clone(),
    };
    let reads_now = key_and_find_now(pattern_mut(&mut algebra));
    let query = Query {
        form: QueryForm::Select {
            projection: projection.clone(),
        },
        dataset: convert_dataset(using.as_ref()),
        variables: converter.names,
        pattern: crate::Pattern::Project {
            inner: Box::new(inner),
            variables: projection,
        },
        base: update
            .base_iri
            .as_ref()
            .map(|base| base.as_str().to_owned()),
        // The update has it: a copy for each operation would take its square in memory.
        text: String::new(),
        algebra: Some(Arc::new(algebra)),
        reads_now,
    };
    DeleteInsert {
        delete,
        insert,
        query,
    }
}
