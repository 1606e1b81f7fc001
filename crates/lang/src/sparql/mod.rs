//! From tokens to `spargebra` and back: bare names are written out, and refusals are put in our own
//! words.

pub(crate) mod columns;
pub(crate) mod convert;
pub(crate) mod ground_data;
pub(crate) mod rewrite;
pub mod spareval;
pub mod star;
pub(crate) mod template;
pub(crate) mod timestamp;

use crate::grammar::{Grammar, template_with_graph};
use crate::sparql::columns::ColumnIris;
use crate::sparql::spareval::pattern_mut;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};
use spargebra::term::QuadPattern;
use std::collections::HashSet;
use std::ops::Range;

/// SPARQL inside a text: the text, and those of its tokens that are SPARQL.
#[derive(Default)]
pub(crate) struct Sparql<'t> {
    pub(crate) source: &'t str,
    pub(crate) tokens: Vec<Token>,
    /// Bytes of the text that are not SPARQL.
    pub(crate) blanks: Vec<Range<usize>>,
    /// Bytes of the text, with their replacements.
    pub(crate) edits: Vec<(Range<usize>, String)>,
    /// Whether window blocks may stand where GRAPH may.
    pub(crate) has_windows: bool,
}

/// Bytes of a text, and their replacement.
type Edit = (Range<usize>, String);

/// A query as `spargebra` gives it.
pub(crate) struct ParsedQuery {
    pub(crate) algebra: spargebra::Query,
    /// The template of a CONSTRUCT with GRAPH in it; that of `algebra` is empty then.
    pub(crate) template: Option<Vec<QuadPattern>>,
}

/// The result of `spargebra` for a text, and whether the text has bare names.
pub(crate) struct Parsed<T> {
    pub(crate) value: T,
    pub(crate) bare: bool,
}

impl<'t> Sparql<'t> {
    pub(crate) fn query(
        &self,
        base: Option<&str>,
        names: &Names,
    ) -> Result<Parsed<ParsedQuery>, ParseError> {
        let template = self.quad_template();
        let columns = ColumnIris::new(self.source, &self.tokens);
        let read = |parser: spargebra::SparqlParser, written: &[Edit]| {
            let Some(template) = &template else {
                let mut algebra = parser.parse_query(&self.text(written))?;
                if !written.is_empty() {
                    columns.restore(pattern_mut(&mut algebra));
                }
                return Ok(ParsedQuery {
                    algebra,
                    template: None,
                });
            };
            let quads = self.template_quads(parser.clone(), template, written)?;
            let inside =
                |range: &Range<usize>| template.start <= range.start && range.end <= template.end;
            let mut outside: Vec<Edit> = (written.iter())
                .filter(|(range, _)| !inside(range))
                .cloned()
                .collect();
            outside.push((template.clone(), "{ }".to_owned()));
            let mut algebra = parser.parse_query(&self.text(&outside))?;
            columns.restore(pattern_mut(&mut algebra));
            Ok(ParsedQuery {
                algebra,
                template: Some(quads),
            })
        };
        self.parse(base, names, read, |grammar| grammar.query_unit())
    }

    /// The bytes of a CONSTRUCT template with GRAPH in it, which `spargebra` does not know.
    fn quad_template(&self) -> Option<Range<usize>> {
        let mut cursor = Cursor::new(self.source, &self.tokens);
        // The grammar reports a malformed prologue.
        while cursor.is_any_keyword(&["PREFIX", "BASE", "VERSION"]) {
            cursor.at += 2 + usize::from(cursor.is_keyword("PREFIX"));
        }
        if !cursor.take_keyword("CONSTRUCT") || !cursor.is_punctuation("{") {
            return None;
        }
        let tokens = template_with_graph(&cursor)?;
        Some(self.tokens[tokens.start].start..self.tokens[tokens.end - 1].end)
    }

    /// The quads of such a template: it is read as that of an INSERT, at the same place of the
    /// text.
    fn template_quads(
        &self,
        parser: spargebra::SparqlParser,
        template: &Range<usize>,
        written: &[Edit],
    ) -> Result<Vec<QuadPattern>, spargebra::SparqlSyntaxError> {
        let construct = (self.tokens.iter())
            .rfind(|token| token.end <= template.start)
            .expect("CONSTRUCT stands before its template");
        let mut edits: Vec<Edit> = (written.iter())
            .filter(|(range, _)| range.end <= template.end)
            .cloned()
            .collect();
        edits.push((construct.range(), "INSERT   ".to_owned()));
        edits.push((template.end..self.source.len(), " WHERE { }".to_owned()));
        let ends_before = |range: &Range<usize>| range.end <= template.end;
        let text = self.text_of(0..self.source.len(), |range| ends_before(range), &edits);
        let mut update = parser.parse_update(&text)?;
        Ok(match update.operations.pop() {
            Some(spargebra::GraphUpdateOperation::DeleteInsert { insert, .. }) => insert,
            _ => Vec::new(),
        })
    }

    /// Reads an update in sections, each of them a prologue with the operations behind it:
    /// `spargebra` reads a prologue at the beginning of a text only. A section is given the base
    /// and the prefixes of the prologues before it.
    pub(crate) fn update(&self, mut names: Names) -> Result<Vec<spargebra::Update>, ParseError> {
        let has_base = names.base().is_some();
        let mut grammar: Option<Grammar<'_>> = None;
        let mut updates: Vec<spargebra::Update> = Vec::new();
        let mut labels = HashSet::new();
        let columns = ColumnIris::new(self.source, &self.tokens);
        for section in self.sections() {
            let tokens = &self.tokens[section.clone()];
            let bytes = self.section_bytes(&section);
            let parser = self.section_parser(&names, tokens, bytes.start)?;
            // The grammar, which runs where the parse fails, says what is wrong in a prologue.
            let _ = names.read_prologue(&mut Cursor::new(self.source, tokens));
            let text = self.text_of(bytes.clone(), |_| true, &[]);
            let update = match parser.clone().parse_update(&text) {
                Ok(update) => update,
                Err(error) => {
                    let grammar = match &mut grammar {
                        Some(grammar) => grammar,
                        none => {
                            let bare = names.has_default_namespace();
                            let mut whole = Grammar::new(self.source, &self.tokens, bare, has_base);
                            whole.update_unit()?;
                            none.insert(whole)
                        }
                    };
                    let written = self.respell(grammar, &section, &names)?;
                    if written.is_empty() {
                        return Err(self.in_own_words(&error, bytes.start));
                    }
                    let text = self.text_of(bytes.clone(), |_| true, &written);
                    let mut update = (parser.parse_update(&text))
                        .map_err(|error| self.in_own_words(&error, bytes.start))?;
                    for operation in &mut update.operations {
                        if let spargebra::GraphUpdateOperation::DeleteInsert { pattern, .. } =
                            operation
                        {
                            columns.restore(pattern);
                        }
                    }
                    update
                }
            };
            timestamp::refuse(self.source, tokens, &names)?;
            self.refuse_shared_labels(&update, &mut labels, bytes.start)?;
            updates.push(update);
        }
        Ok(updates)
    }

    /// The sections of an update, as ranges of tokens: the first begins with the text, each other
    /// with the prologue behind a `;`.
    fn sections(&self) -> Vec<Range<usize>> {
        let mut starts = vec![0];
        let mut depth = 0usize;
        let mut cursor = Cursor::new(self.source, &self.tokens);
        while let Some(token) = cursor.bump() {
            if token.kind != TokenKind::Punctuation {
                continue;
            }
            match token.text(self.source) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                ";" if depth == 0 && cursor.is_any_keyword(&["PREFIX", "BASE", "VERSION"]) => {
                    starts.push(cursor.at);
                }
                _ => {}
            }
        }
        let ends = starts[1..].iter().copied().chain([self.tokens.len()]);
        starts
            .iter()
            .copied()
            .zip(ends)
            .map(|(start, end)| start..end)
            .collect()
    }

    /// The bytes of a section: up to the next one, or to the end of the text.
    fn section_bytes(&self, section: &Range<usize>) -> Range<usize> {
        let start = match section.start {
            0 => 0,
            first => self.tokens[first].start,
        };
        let next = self.tokens.get(section.end);
        start..next.map_or(self.source.len(), |token| token.start)
    }

    /// A parser that knows what the sections before declare, as far as these tokens need it.
    fn section_parser(
        &self,
        names: &Names,
        tokens: &[Token],
        offset: usize,
    ) -> Result<spargebra::SparqlParser, ParseError> {
        let refuse = |fault: &dyn std::fmt::Display| {
            let message =
                format!("a prefix or base declared before this is not valid ({fault}); correct it");
            ParseError::syntax(self.source, offset, message)
        };
        let mut parser = spargebra::SparqlParser::new();
        if let Some(base) = names.base() {
            parser = parser.with_base_iri(base).map_err(|fault| refuse(&fault))?;
        }
        let prefixed = tokens
            .iter()
            .filter(|token| token.kind == TokenKind::PrefixedName);
        let prefixes: HashSet<&str> = prefixed
            .filter_map(|token| token.text(self.source).split(':').next())
            .collect();
        for prefix in prefixes {
            if let Some(namespace) = names.namespace(prefix) {
                parser = (parser.with_prefix(prefix, namespace)).map_err(|fault| refuse(&fault))?;
            }
        }
        Ok(parser)
    }

    /// Refuses a label of a blank node that INSERT DATA of an earlier section used
    /// (SPARQL 1.1 Query, §19.6). `spargebra` looks at the operations of one section alone.
    fn refuse_shared_labels(
        &self,
        update: &spargebra::Update,
        earlier: &mut HashSet<String>,
        offset: usize,
    ) -> Result<(), ParseError> {
        let mut labels = HashSet::new();
        for operation in &update.operations {
            let spargebra::GraphUpdateOperation::InsertData { data } = operation else {
                continue;
            };
            for quad in data {
                if let oxrdf::NamedOrBlankNode::BlankNode(node) = &quad.subject {
                    labels.insert(node.to_string());
                }
                if let oxrdf::Term::BlankNode(node) = &quad.object {
                    labels.insert(node.to_string());
                }
            }
        }
        match labels.iter().filter(|label| earlier.contains(*label)).min() {
            Some(label) => {
                let place = self.source[offset..].find(label.as_str()).unwrap_or(0);
                Err(self.shared_label(label, offset + place))
            }
            None => {
                earlier.extend(labels);
                Ok(())
            }
        }
    }

    fn shared_label(&self, label: &str, offset: usize) -> ParseError {
        let message = format!(
            "the blank node {label} is used in two INSERT DATA operations, where it cannot be the same node; use an IRI, or join the operations"
        );
        ParseError::semantics(self.source, offset, message)
    }

    /// Tries the text as it is; where that fails, the grammar finds the error or the bare names.
    fn parse<T>(
        &self,
        base: Option<&str>,
        names: &Names,
        read: impl Fn(spargebra::SparqlParser, &[Edit]) -> Result<T, spargebra::SparqlSyntaxError>,
        check: impl Fn(&mut Grammar<'_>) -> Result<(), ParseError>,
    ) -> Result<Parsed<T>, ParseError> {
        let mut parser = spargebra::SparqlParser::new();
        if let Some(base) = base {
            parser = parser.with_base_iri(base).map_err(|fault| {
                ParseError::syntax(self.source, 0, format!("the base IRI <{base}> given with this text is not valid ({fault}); correct it"))
            })?;
        }
        let first = match read(parser.clone(), &[]) {
            Ok(value) => return Ok(Parsed { value, bare: false }),
            Err(error) => error,
        };
        let mut grammar = Grammar::new(
            self.source,
            &self.tokens,
            names.has_default_namespace(),
            base.is_some(),
        );
        grammar.accept_windows = self.has_windows;
        check(&mut grammar)?;
        let written = self.respell(&grammar, &(0..self.tokens.len()), names)?;
        if written.is_empty() {
            return Err(self.in_own_words(&first, 0));
        }
        match read(parser, &written) {
            Ok(value) => Ok(Parsed {
                value,
                bare: !grammar.bare_names.is_empty(),
            }),
            Err(error) => Err(self.in_own_words(&error, 0)),
        }
    }

    /// The edits for the tokens of a section that `spargebra` reads in another spelling only.
    fn respell(
        &self,
        grammar: &Grammar<'_>,
        section: &Range<usize>,
        names: &Names,
    ) -> Result<Vec<Edit>, ParseError> {
        let mut written = Vec::new();
        for index in grammar.bare_names.iter().chain(&grammar.respelled) {
            if !section.contains(index) {
                continue;
            }
            let token = self.tokens[*index];
            if self.edits.iter().any(|(range, _)| *range == token.range()) {
                continue;
            }
            let spelling = match token.text(self.source) {
                word if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => {
                    word.to_ascii_lowercase()
                }
                _ => format!("<{}>", names.resolve(self.source, token)?.as_str()),
            };
            written.push((token.range(), spelling));
        }
        let columns = ColumnIris::new(self.source, &self.tokens);
        let earlier = grammar.earlier_columns.iter();
        written.extend(
            (earlier.filter(|index| section.contains(index)))
                .map(|index| (self.tokens[*index].range(), columns.spelling(*index))),
        );
        Ok(written)
    }

    /// The text for `spargebra`: what is not SPARQL blanked out, replacements written in. Line ends
    /// stay.
    fn text(&self, written: &[Edit]) -> String {
        self.text_of(0..self.source.len(), |_| true, written)
    }

    /// These bytes of the text, with those of its own blanks and edits that `wanted` accepts.
    fn text_of(
        &self,
        bytes: Range<usize>,
        wanted: impl Fn(&Range<usize>) -> bool,
        written: &[Edit],
    ) -> String {
        let blanks =
            (self.blanks.iter().filter(|range| wanted(range))).map(|range| (range.clone(), None));
        let own = self.edits.iter().filter(|(range, _)| wanted(range));
        let written =
            (own.chain(written)).map(|(range, text)| (range.clone(), Some(text.as_str())));
        let mut edits: Vec<(Range<usize>, Option<&str>)> = blanks.chain(written).collect();
        edits.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(bytes.len());
        let mut at = bytes.start;
        for (range, text) in edits {
            out.push_str(&self.source[at..range.start]);
            match text {
                Some(text) => out.push_str(text),
                None => out.extend(
                    self.source[range.clone()]
                        .chars()
                        .map(|c| if c == '\n' { '\n' } else { ' ' }),
                ),
            }
            at = range.end;
        }
        out.push_str(&self.source[at..bytes.end]);
        out
    }

    /// The error for a text that `spargebra` refuses and our grammar finds no fault with: its
    /// reasons are rules about meaning, and the place it gives is where it stopped reading. `start`
    /// is the byte that the text given to it began with.
    fn in_own_words(&self, error: &spargebra::SparqlSyntaxError, start: usize) -> ParseError {
        let said = error.to_string();
        let (offset, reason) = self.place_in(&said, start);
        if let Some(label) = said
            .strip_prefix("The blank node ")
            .and_then(|rest| rest.split(' ').next())
        {
            return self.shared_label(label, self.source.rfind(label).unwrap_or(0));
        }
        let known = KNOWN_REASONS.iter().find(|(part, _)| reason.contains(part));
        let message = match known {
            Some((_, words)) => (*words).to_owned(),
            None => {
                let mut cursor = Cursor::new(self.source, &self.tokens);
                cursor.at = self.tokens.partition_point(|token| token.end <= offset);
                format!(
                    "{}, and the text cannot go on like this; the fault lies here or before this place: compare it with the SPARQL grammar",
                    cursor.describe_next()
                )
            }
        };
        ParseError::syntax(self.source, offset, message)
    }

    /// Takes `error at LINE:COLUMN: expected REASON` apart; the text was not moved, except behind
    /// bare names.
    fn place_in<'e>(&self, said: &'e str, start: usize) -> (usize, &'e str) {
        let parts = said.strip_prefix("error at ").and_then(|rest| {
            let (place, reason) = rest.split_once(": expected ")?;
            let (line, column) = place.split_once(':')?;
            Some((
                line.parse::<usize>().ok()?,
                column.parse::<usize>().ok()?,
                reason,
            ))
        });
        let Some((line, column, reason)) = parts else {
            return (start, said);
        };
        let lines = self.source[start..].split_inclusive('\n');
        let before: usize = lines.take(line.saturating_sub(1)).map(str::len).sum();
        let line_start = start + before;
        let in_line = self.source[line_start.min(self.source.len())..]
            .char_indices()
            .nth(column.saturating_sub(1));
        let end = self.source.trim_end().len();
        (
            in_line.map_or(end, |(at, _)| line_start + at).min(end),
            reason,
        )
    }
}

/// Parts of `spargebra`'s reasons, with our sentences for them.
const KNOWN_REASONS: [(&str, &str); 12] = [
    (
        "BIND is overriding",
        "BIND gives a value to a variable that the pattern before it binds already; choose another name",
    ),
    (
        "SELECT contains a variable that is unbound",
        "SELECT names a variable that is neither grouped nor aggregated; add it to GROUP BY, or take an aggregate such as SAMPLE",
    ),
    (
        "SELECT contains an expression with a variable",
        "an expression of SELECT reads a variable that is neither grouped nor aggregated; add it to GROUP BY, or take an aggregate such as SAMPLE",
    ),
    (
        "SELECT overrides an existing",
        "an expression of SELECT has the name of a variable that the pattern binds already; choose another name after AS",
    ),
    (
        "Duplicated variable name",
        "SELECT names one column twice; remove one of the two",
    ),
    (
        "SELECT * is not authorized",
        "SELECT * cannot stand with GROUP BY; name the columns",
    ),
    (
        "Repeated variables",
        "VALUES names one variable twice; name each once",
    ),
    (
        "VALUES clause rows",
        "a row of VALUES has another number of values than there are variables; write UNDEF where a value is unknown",
    ),
    (
        "Blank nodes are not allowed in DELETE",
        "blank nodes cannot stand in DELETE; use a variable",
    ),
    (
        "Already used blank node",
        "a blank node label is used in two separate patterns, where it cannot be the same node; use a variable",
    ),
    (
        "language tag parsing failed",
        "a language tag here is not valid; write one such as @en or @en-GB",
    ),
    (
        "base directions",
        "the base direction after a language tag is `--ltr` or `--rtl`; correct it",
    ),
];
