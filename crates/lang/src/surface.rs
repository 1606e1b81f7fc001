//! The surface of a continuous query: the registration header and the dataset clauses with their windows.
//!
//! They are read on our tokens and taken out; what remains is SPARQL with every token at its old place.

use crate::continuous::{RegistrationKind, WindowClause};
use crate::cursor::Cursor;
use crate::duration::{self, DurationFault};
use crate::error::ParseError;
use crate::names::Names;
use crate::token::{Place, Token, TokenKind};
use crate::words;
use oxrdf::NamedNode;
use somersault_model::Millis;
use std::ops::Range;

/// `REGISTER (QUERY|STREAM) name [COMPUTED EVERY dur] [AS]`
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) kind: RegistrationKind,
    pub(crate) name: Token,
    pub(crate) computed_every: Option<Millis>,
    /// Where REGISTER stands.
    pub(crate) offset: usize,
}

/// What was found around the SPARQL of a text.
#[derive(Debug)]
pub(crate) struct Surface {
    pub(crate) header: Option<Header>,
    pub(crate) windows: Vec<WindowClause>,
    /// Where the source of each window stands.
    pub(crate) window_offsets: Vec<usize>,
    /// The sources of FROM and FROM NAMED without a window.
    pub(crate) stored: Vec<Token>,
    /// Whether a source was a bare name.
    pub(crate) bare: bool,
    pub(crate) names: Names,
    /// The tokens, as index ranges, that are not SPARQL.
    pub(crate) removed: Vec<Range<usize>>,
}

/// Whether a text registers something or has a window: what a one-shot query must not.
pub(crate) fn is_continuous(source: &str, tokens: &[Token]) -> Option<usize> {
    let mut cursor = Cursor::new(source, tokens);
    let mut depth = 0usize;
    while let Some(token) = cursor.peek() {
        match token.text(source) {
            "{" | "(" => depth += 1,
            "}" | ")" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if cursor.is_keyword("REGISTER") => return Some(token.start),
            _ if cursor.is_keyword("FROM") => {
                let named = usize::from(cursor.is_keyword_at(1, "NAMED"));
                let stream = cursor.is_keyword_at(1 + named, "STREAM");
                let window = cursor.is_keyword_at(1 + named, "WINDOW")
                    && !cursor.is_punctuation_at(2 + named, "{");
                if stream || window || cursor.is_punctuation_at(2 + named, "[") {
                    return Some(token.start);
                }
            }
            _ => {}
        }
        cursor.bump();
    }
    None
}

/// Reads the surface of a text.
pub(crate) fn read(source: &str, tokens: &[Token], names: Names) -> Result<Surface, ParseError> {
    let mut surface = Surface {
        header: None,
        windows: Vec::new(),
        window_offsets: Vec::new(),
        stored: Vec::new(),
        bare: false,
        names,
        removed: Vec::new(),
    };
    let mut cursor = Cursor::new(source, tokens);
    surface.names.read_prologue(&mut cursor)?;
    if cursor.is_keyword("REGISTER") {
        let start = cursor.at;
        surface.header = Some(read_header(&mut cursor)?);
        surface.removed.push(start..cursor.at);
        surface.names.read_prologue(&mut cursor)?;
    }
    refuse_stream_operator(&cursor)?;
    surface.read_dataset(cursor)?;
    Ok(surface)
}

fn read_header(cursor: &mut Cursor<'_>) -> Result<Header, ParseError> {
    let offset = cursor.offset();
    cursor.expect_keyword("REGISTER")?;
    if cursor.is_any_keyword(&["RSTREAM", "ISTREAM", "DSTREAM"]) {
        let what = format!(
            "REGISTER {} of RSP-QL; use REGISTER QUERY",
            cursor.peek_text().to_ascii_uppercase()
        );
        return Err(ParseError::not_yet(cursor.source, cursor.offset(), &what));
    }
    let kind = if cursor.take_keyword("QUERY") {
        RegistrationKind::Query
    } else if cursor.is_keyword("STREAM") {
        return Err(ParseError::not_yet(
            cursor.source,
            cursor.offset(),
            "REGISTER STREAM (a derived stream); use REGISTER QUERY and push its answers yourself",
        ));
    } else {
        return Err(cursor.unexpected("QUERY or STREAM after REGISTER"));
    };
    let name = name_token(cursor, "the name of the query")?;
    let computed_every = if cursor.take_keyword("COMPUTED") {
        cursor.expect_keyword("EVERY")?;
        Some(positive_duration(cursor, "COMPUTED EVERY")?)
    } else {
        None
    };
    refuse_options(cursor)?;
    cursor.take_keyword("AS");
    Ok(Header {
        kind,
        name,
        computed_every,
        offset,
    })
}

/// A name: an IRI, a prefixed name, a string or a word.
pub(crate) fn name_token(cursor: &mut Cursor<'_>, expected: &str) -> Result<Token, ParseError> {
    let is_name = match cursor.peek_kind() {
        Some(TokenKind::Iri | TokenKind::PrefixedName | TokenKind::String) => true,
        Some(TokenKind::Word) => !words::is_keyword(cursor.peek_text()),
        _ => false,
    };
    if !is_name {
        return Err(cursor.unexpected(&format!("{expected} (a word, a string or an IRI)")));
    }
    Ok(cursor.bump().expect("a token was just seen"))
}

/// The name that a token gives to a query: words and strings as they are, IRIs resolved.
pub(crate) fn name_text(source: &str, token: Token, names: &Names) -> Result<String, ParseError> {
    let text = token.text(source);
    Ok(match token.kind {
        TokenKind::Word => text.to_owned(),
        TokenKind::String => text.trim_matches(['"', '\'']).to_owned(),
        _ => names.resolve(source, token)?.into_string(),
    })
}

/// ISTREAM and its relatives after the query form.
fn refuse_stream_operator(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    let found = ["RSTREAM", "ISTREAM", "DSTREAM"]
        .into_iter()
        .find(|word| cursor.is_keyword_at(1, word));
    match found {
        Some(word) => Err(ParseError::not_yet(
            cursor.source,
            cursor.tokens[cursor.at + 1].start,
            &format!("{word} of RSP-QL; without it every firing gives the whole answer"),
        )),
        None => Ok(()),
    }
}

/// Options that language.md knows and this parser does not do yet.
fn refuse_options(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    let what = if cursor.is_keyword("STARTING") && cursor.is_keyword_at(1, "AT") {
        "STARTING AT; windows close at whole multiples of STEP since the Unix epoch"
    } else if cursor.is_keyword("REPORT")
        && (cursor.is_keyword_at(1, "ON") || cursor.is_keyword_at(1, "NON"))
    {
        "REPORT; every due close is answered"
    } else if cursor.is_keyword("ON") && cursor.is_keyword_at(1, "OVERLOAD") {
        "ON OVERLOAD; every due close is answered"
    } else {
        return Ok(());
    };
    Err(ParseError::not_yet(cursor.source, cursor.offset(), what))
}

impl Surface {
    /// Goes over the query at its outermost level, from its form to its WHERE, and reads the dataset clauses.
    fn read_dataset(&mut self, mut cursor: Cursor<'_>) -> Result<(), ParseError> {
        let mut depth = 0usize;
        let is_construct = cursor.is_keyword("CONSTRUCT");
        let mut groups = 0;
        while let Some(token) = cursor.peek() {
            match token.text(cursor.source) {
                "{" if depth == 0 && (!is_construct || groups > 0) => return Ok(()),
                "{" | "(" => {
                    groups += 1;
                    depth += 1;
                }
                "}" | ")" => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if cursor.is_keyword("WHERE") => return Ok(()),
                _ if cursor.is_keyword("FROM") => {
                    self.read_clause(&mut cursor)?;
                    continue;
                }
                _ => refuse_options(&cursor)?,
            }
            cursor.bump();
        }
        Ok(())
    }

    /// `FROM [NAMED] [STREAM] iri ['[' window ']']`
    fn read_clause(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        let start = cursor.at;
        cursor.bump();
        let only_named = cursor.take_keyword("NAMED");
        if cursor.is_keyword("WINDOW") && !cursor.is_punctuation_at(1, "[") {
            return Err(ParseError::not_yet(
                cursor.source,
                cursor.offset(),
                "FROM NAMED WINDOW … ON … of RSP-QL; write FROM NAMED STREAM <iri> [RANGE … STEP …]",
            ));
        }
        let says_stream = cursor.take_keyword("STREAM");
        let expected = if says_stream {
            "the IRI of a stream"
        } else {
            "the IRI of a graph or STREAM and the IRI of a stream"
        };
        let stream = source_token(cursor, expected)?;
        self.bare |= stream.kind == TokenKind::Word;
        if !cursor.is_punctuation("[") {
            if says_stream {
                return Err(
                    cursor.unexpected("the window of the stream, such as [RANGE 10s STEP 1s],")
                );
            }
            self.stored.push(stream);
            return Ok(());
        }
        let iri = self.names.resolve(cursor.source, stream)?;
        let (range, step) = read_window(cursor)?;
        let place = Place::of(cursor.source, cursor.tokens[start].start);
        self.windows.push(WindowClause {
            name: iri.clone(),
            stream: iri,
            range,
            step,
            in_default: !only_named,
            named: true,
            line: place.line,
            column: place.column,
        });
        self.window_offsets.push(stream.start);
        self.removed.push(start..cursor.at);
        Ok(())
    }

    /// What holds of the clauses together.
    pub(crate) fn check(&self, source: &str) -> Result<(), ParseError> {
        for (index, window) in self.windows.iter().enumerate() {
            let first = self.windows[..index]
                .iter()
                .find(|earlier| earlier.stream == window.stream);
            if let Some(first) = first {
                return Err(ParseError::semantics(
                    source,
                    self.window_offsets[index],
                    format!(
                        "the stream {} has a window already (line {}, column {}), and in C-SPARQL a query windows a stream once; \
                         remove one of the two, or register two queries",
                        window.stream, first.line, first.column
                    ),
                ));
            }
        }
        for token in &self.stored {
            let graph = self.names.resolve(source, *token)?;
            if self.is_windowed(&graph) {
                return Err(ParseError::semantics(
                    source,
                    token.start,
                    format!(
                        "{graph} is a windowed stream of this query and cannot be a stored graph of it as well; remove this FROM, or rename one of the two"
                    ),
                ));
            }
        }
        Ok(())
    }

    fn is_windowed(&self, graph: &NamedNode) -> bool {
        self.windows.iter().any(|window| window.stream == *graph)
    }
}

/// An IRI, prefixed name or bare name.
pub(crate) fn source_token(cursor: &mut Cursor<'_>, expected: &str) -> Result<Token, ParseError> {
    let is_name = match cursor.peek_kind() {
        Some(TokenKind::Iri | TokenKind::PrefixedName) => true,
        Some(TokenKind::Word) => !words::is_keyword(cursor.peek_text()),
        _ => false,
    };
    if !is_name {
        return Err(cursor.unexpected(expected));
    }
    Ok(cursor.bump().expect("a token was just seen"))
}

/// `'[' RANGE dur (STEP dur | SLIDE dur | TUMBLING) ']'`: its range and step.
fn read_window(cursor: &mut Cursor<'_>) -> Result<(Millis, Millis), ParseError> {
    let open = cursor.offset();
    cursor.expect_punctuation("[")?;
    let not_yet = |cursor: &Cursor<'_>, what: &str| {
        Err(ParseError::not_yet(cursor.source, cursor.offset(), what))
    };
    if cursor.is_any_keyword(&["ELEMENTS", "TRIPLES"]) {
        return not_yet(
            cursor,
            "windows of a number of statements; use [RANGE 10s STEP 1s]",
        );
    }
    if cursor.is_any_keyword(&["NOW", "ALL", "FROM"]) {
        return not_yet(cursor, "this window; use [RANGE 10s STEP 1s]");
    }
    if !cursor.take_keyword("RANGE") {
        return Err(cursor.unexpected("RANGE and a duration, as in [RANGE 10s STEP 1s],"));
    }
    if cursor.is_keyword("TRIPLES") {
        return not_yet(
            cursor,
            "windows of a number of statements (RANGE TRIPLES); use [RANGE 10s STEP 1s]",
        );
    }
    let range = positive_duration(cursor, "RANGE")?;
    let step = if cursor.take_keyword("TUMBLING") {
        range
    } else if cursor.is_any_keyword(&["STEP", "SLIDE"]) {
        let keyword = cursor.peek_text().to_ascii_uppercase();
        cursor.bump();
        positive_duration(cursor, &keyword)?
    } else if cursor.is_punctuation("]") {
        let range = duration::spell(range);
        return Err(ParseError::syntax(
            cursor.source,
            open,
            format!(
                "this window says how far back it reaches but not how often it closes; write [RANGE {range} STEP 1s], or [RANGE {range} TUMBLING]"
            ),
        ));
    } else {
        return Err(cursor.unexpected("STEP and a duration, or TUMBLING,"));
    };
    refuse_options(cursor)?;
    if !cursor.take_punctuation("]") {
        return Err(cursor.unexpected("`]` at the end of the window"));
    }
    Ok((range, step))
}

/// A duration of at least 1 ms.
pub(crate) fn positive_duration(cursor: &mut Cursor<'_>, of: &str) -> Result<Millis, ParseError> {
    let offset = cursor.offset();
    let span = any_duration(cursor, of)?;
    if span.0 > 0 {
        return Ok(span);
    }
    Err(ParseError::semantics(
        cursor.source,
        offset,
        format!("{of} must be longer than 0; write a duration such as 1s or 100ms"),
    ))
}

/// A duration: `10s`, `10 s`, `PT10S`.
pub(crate) fn any_duration(cursor: &mut Cursor<'_>, of: &str) -> Result<Millis, ParseError> {
    const EXPECTED: &str = "a duration such as 10s, 500ms, 1m, 2h, 1d or PT0.5S";
    let offset = cursor.offset();
    if cursor.is_punctuation("-") {
        return Err(ParseError::semantics(
            cursor.source,
            offset,
            format!("{of} cannot be negative; write {EXPECTED}"),
        ));
    }
    let text = match cursor.peek_kind() {
        Some(TokenKind::Duration) => cursor.peek_text().to_owned(),
        Some(TokenKind::Integer) => {
            let number = cursor.peek_text().to_owned();
            cursor.bump();
            if !cursor.is_any_keyword(&["ms", "s", "m", "h", "d"]) {
                return Err(ParseError::syntax(
                    cursor.source,
                    offset,
                    format!(
                        "the duration {number} after {of} has no unit; write {number}s or {number}ms"
                    ),
                ));
            }
            number + cursor.peek_text()
        }
        _ => return Err(cursor.unexpected(&format!("{EXPECTED} after {of}"))),
    };
    cursor.bump();
    duration::parse(&text).map_err(|fault| {
        let message = match fault {
            DurationFault::Unit => format!("`{text}` after {of} has an unknown unit; the units are ms, s, m, h and d"),
            DurationFault::Value => format!("`{text}` after {of} is no whole number of milliseconds, or too long; write {EXPECTED}"),
        };
        ParseError::syntax(cursor.source, offset, message)
    })
}
