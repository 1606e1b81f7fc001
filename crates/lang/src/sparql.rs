//! From tokens to `spargebra` and back: bare names are written out, and refusals are put in our own words.

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::grammar::{Grammar, template_with_graph};
use crate::names::Names;
use crate::token::Token;
use spargebra::term::QuadPattern;
use std::ops::Range;

/// SPARQL inside a text: the text, and those of its tokens that are SPARQL.
#[derive(Default)]
pub(crate) struct Sparql<'t> {
    pub(crate) source: &'t str,
    pub(crate) tokens: Vec<Token>,
    /// Bytes of the text that are not SPARQL.
    pub(crate) blanks: Vec<Range<usize>>,
    /// Bytes of the text with what stands for them.
    pub(crate) edits: Vec<(Range<usize>, String)>,
    /// Whether window blocks may stand where GRAPH may.
    pub(crate) has_windows: bool,
}

/// Bytes of a text, and what stands there instead.
type Edit = (Range<usize>, String);

/// What was read of a query.
pub(crate) struct ParsedQuery {
    pub(crate) algebra: spargebra::Query,
    /// The template of a CONSTRUCT with GRAPH in it; that of `algebra` is empty then.
    pub(crate) template: Option<Vec<QuadPattern>>,
}

/// What `spargebra` made of a text, and whether there were bare names in it.
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
        let read = |parser: spargebra::SparqlParser, written: &[Edit]| {
            let Some(template) = &template else {
                let algebra = parser.parse_query(&self.text(written))?;
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
            Ok(ParsedQuery {
                algebra: parser.parse_query(&self.text(&outside))?,
                template: Some(quads),
            })
        };
        self.parse(base, names, read, |grammar| grammar.query_unit())
    }

    /// The bytes of a CONSTRUCT template with GRAPH in it, which `spargebra` does not know.
    fn quad_template(&self) -> Option<Range<usize>> {
        let mut cursor = Cursor::new(self.source, &self.tokens);
        // What is malformed in it the grammar will say.
        while cursor.is_any_keyword(&["PREFIX", "BASE", "VERSION"]) {
            cursor.at += 2 + usize::from(cursor.is_keyword("PREFIX"));
        }
        if !cursor.take_keyword("CONSTRUCT") || !cursor.is_punctuation("{") {
            return None;
        }
        let tokens = template_with_graph(&cursor)?;
        Some(self.tokens[tokens.start].start..self.tokens[tokens.end - 1].end)
    }

    /// The quads of such a template: it is read as that of an INSERT, at the same place of the text.
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
        let text = self.text_of(|range| ends_before(range), &edits);
        let mut update = parser.parse_update(&text)?;
        Ok(match update.operations.pop() {
            Some(spargebra::GraphUpdateOperation::DeleteInsert { insert, .. }) => insert,
            _ => Vec::new(),
        })
    }

    pub(crate) fn update(
        &self,
        base: Option<&str>,
        names: &Names,
    ) -> Result<Parsed<spargebra::Update>, ParseError> {
        self.parse(
            base,
            names,
            |parser, written| parser.parse_update(&self.text(written)),
            |grammar| grammar.update_unit(),
        )
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
        let mut written = Vec::new();
        for &index in grammar.bare_names.iter().chain(&grammar.respelled) {
            let token = self.tokens[index];
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
        if written.is_empty() {
            return Err(self.in_own_words(&first));
        }
        match read(parser, &written) {
            Ok(value) => Ok(Parsed {
                value,
                bare: !grammar.bare_names.is_empty(),
            }),
            Err(error) => Err(self.in_own_words(&error)),
        }
    }

    /// The text for `spargebra`: what is not SPARQL blanked out, replacements written in. Lines stay lines.
    fn text(&self, written: &[Edit]) -> String {
        self.text_of(|_| true, written)
    }

    /// The same with those blanks and edits of its own alone that are wanted.
    fn text_of(&self, wanted: impl Fn(&Range<usize>) -> bool, written: &[Edit]) -> String {
        let blanks =
            (self.blanks.iter().filter(|range| wanted(range))).map(|range| (range.clone(), None));
        let own = self.edits.iter().filter(|(range, _)| wanted(range));
        let written =
            (own.chain(written)).map(|(range, text)| (range.clone(), Some(text.as_str())));
        let mut edits: Vec<(Range<usize>, Option<&str>)> = blanks.chain(written).collect();
        edits.sort_by_key(|(range, _)| range.start);
        let mut out = String::with_capacity(self.source.len());
        let mut at = 0;
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
        out.push_str(&self.source[at..]);
        out
    }

    /// The error for a text that `spargebra` refuses and our grammar finds no fault with: its reasons are rules
    /// about meaning, and the place it gives is where it stopped reading.
    fn in_own_words(&self, error: &spargebra::SparqlSyntaxError) -> ParseError {
        let said = error.to_string();
        let (offset, reason) = self.place_in(&said);
        if let Some(label) = said
            .strip_prefix("The blank node ")
            .and_then(|rest| rest.split(' ').next())
        {
            let offset = self.source.rfind(label).unwrap_or(0);
            return ParseError::semantics(
                self.source,
                offset,
                format!(
                    "the blank node {label} is used in two INSERT DATA operations, where it cannot be the same node; use an IRI, or join the operations"
                ),
            );
        }
        let known = KNOWN_REASONS.iter().find(|(part, _)| reason.contains(part));
        let message = match known {
            Some((_, words)) => (*words).to_owned(),
            None => {
                let mut cursor = Cursor::new(self.source, &self.tokens);
                cursor.at = self.tokens.partition_point(|token| token.end <= offset);
                format!(
                    "{}, and the query cannot go on like this; compare it with the SPARQL grammar from here backwards",
                    cursor.describe_next()
                )
            }
        };
        ParseError::syntax(self.source, offset, message)
    }

    /// Takes `error at LINE:COLUMN: expected REASON` apart; the text was not moved, except behind bare names.
    fn place_in<'e>(&self, said: &'e str) -> (usize, &'e str) {
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
            return (0, said);
        };
        let line_start: usize = self
            .source
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
            .sum();
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

/// Parts of `spargebra`'s reasons and what we say instead.
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
