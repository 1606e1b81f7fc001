//! The surface of a continuous query: the registration header, the dataset clauses with their
//! windows, and (in `blocks`) the windows inside WHERE.
//!
//! They are read from our tokens, and removed or replaced by SPARQL. Every other token keeps its
//! place.

use crate::algebra::continuous::{Dialect, RegistrationKind, StreamOperator, WindowClause};
use crate::clauses::declare::Clauses;
use crate::clauses::extent::read_extent;
use crate::clauses::options::Options;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::{name_token, source_token};
use crate::text::names::Names;
use crate::text::time_clause::{at_starting, positive_duration, read_starting_at};
use crate::token::{Place, Token, TokenKind};
use oxrdf::NamedNode;
use somersault_model::{EventTime, Millis};
use std::ops::Range;

/// `REGISTER (QUERY|STREAM|RSTREAM|ISTREAM|DSTREAM) name [COMPUTED EVERY dur] [EVERY dur]
/// [STARTING AT instant] [options] [AS]`
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) kind: RegistrationKind,
    pub(crate) operator: Option<StreamOperator>,
    pub(crate) name: Token,
    pub(crate) computed_every: Option<Millis>,
    /// The shortest time between firings of a live query, and the place of EVERY.
    pub(crate) every: Option<(Millis, usize)>,
    pub(crate) starting_at: Option<EventTime>,
    /// The clauses of REGISTER STREAM about the stream.
    pub(crate) stream: Clauses,
    /// The place of REGISTER.
    pub(crate) offset: usize,
}

/// The parts of a text around its SPARQL.
#[derive(Debug)]
pub(crate) struct Surface {
    pub(crate) header: Option<Header>,
    pub(crate) operator: StreamOperator,
    /// The token of the query's form: SELECT, CONSTRUCT, ASK or DESCRIBE.
    pub(crate) form: usize,
    pub(crate) windows: Vec<WindowClause>,
    /// The place of each window's source.
    pub(crate) window_offsets: Vec<usize>,
    /// The sources of FROM and FROM NAMED without a window.
    pub(crate) stored: Vec<Token>,
    /// Whether a source was a bare name.
    pub(crate) bare: bool,
    pub(crate) names: Names,
    /// The tokens, as index ranges, that are not SPARQL.
    pub(crate) removed: Vec<Range<usize>>,
    /// Places of the text, with the SPARQL that replaces them.
    pub(crate) edits: Vec<(Range<usize>, String)>,
    pub(crate) options: Options,
    /// STARTING AT behind the dataset clauses.
    pub(crate) starting_at: Option<EventTime>,
    /// The dialect of the windows so far.
    pub(crate) dialect: Option<Dialect>,
}

/// Whether a text registers something or has a window, which no one-shot query may.
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

/// Reads the surface of a text up to its pattern, where the cursor stands then. The windows inside
/// of the pattern are read by `blocks`.
pub(crate) fn read<'t>(
    source: &'t str,
    tokens: &'t [Token],
    names: Names,
) -> Result<(Surface, Cursor<'t>), ParseError> {
    let mut surface = Surface {
        header: None,
        operator: StreamOperator::default(),
        form: 0,
        windows: Vec::new(),
        window_offsets: Vec::new(),
        stored: Vec::new(),
        bare: false,
        names,
        removed: Vec::new(),
        edits: Vec::new(),
        options: Options::default(),
        starting_at: None,
        dialect: None,
    };
    let mut cursor = Cursor::new(source, tokens);
    surface.names.read_prologue(&mut cursor)?;
    if cursor.is_keyword("REGISTER") {
        let start = cursor.at;
        let header = read_header(&mut cursor, &surface.names, &mut surface.options)?;
        surface.header = Some(header);
        surface.removed.push(start..cursor.at);
        surface.names.read_prologue(&mut cursor)?;
    }
    surface.form = cursor.at;
    surface.operator = read_operator(surface.header.as_ref(), &cursor)?;
    if operator_at(&cursor, 1).is_some() {
        surface.removed.push(cursor.at + 1..cursor.at + 2);
    }
    surface.read_dataset(&mut cursor)?;
    Ok((surface, cursor))
}

fn read_header(
    cursor: &mut Cursor<'_>,
    names: &Names,
    options: &mut Options,
) -> Result<Header, ParseError> {
    let offset = cursor.offset();
    cursor.expect_keyword("REGISTER")?;
    let operator = operator_at(cursor, 0);
    cursor.at += usize::from(operator.is_some());
    let kind = if operator.is_some() || cursor.take_keyword("QUERY") {
        RegistrationKind::Query
    } else if cursor.take_keyword("STREAM") {
        RegistrationKind::Stream
    } else {
        return Err(cursor.unexpected("QUERY, STREAM, RSTREAM, ISTREAM or DSTREAM after REGISTER"));
    };
    let name = match kind {
        RegistrationKind::Query => name_token(cursor, "the name of the query")?,
        RegistrationKind::Stream => source_token(cursor, "the IRI of the derived stream")?,
    };
    let mut header = Header {
        kind,
        operator,
        name,
        computed_every: None,
        every: None,
        starting_at: None,
        stream: Clauses::default(),
        offset,
    };
    loop {
        if header.computed_every.is_none() && cursor.take_keyword("COMPUTED") {
            cursor.expect_keyword("EVERY")?;
            header.computed_every = Some(positive_duration(cursor, "COMPUTED EVERY")?);
        } else if header.every.is_none() && cursor.is_keyword("EVERY") {
            let at = cursor.offset();
            cursor.bump();
            header.every = Some((positive_duration(cursor, "EVERY")?, at));
        } else if header.starting_at.is_none() && at_starting(cursor) {
            header.starting_at = Some(read_starting_at(cursor)?);
        } else if !(options.read(cursor)?
            || kind == RegistrationKind::Stream && header.stream.read_derived(cursor, names)?)
        {
            break;
        }
    }
    cursor.take_keyword("AS");
    Ok(header)
}

/// The stream operator that the token at this distance is.
fn operator_at(cursor: &Cursor<'_>, ahead: usize) -> Option<StreamOperator> {
    let named = [
        ("RSTREAM", StreamOperator::RStream),
        ("ISTREAM", StreamOperator::IStream),
        ("DSTREAM", StreamOperator::DStream),
    ];
    (named.into_iter())
        .find_map(|(word, operator)| cursor.is_keyword_at(ahead, word).then_some(operator))
}

/// The operator of a query with its cursor at the query form: `SELECT ISTREAM …` and the header
/// must not differ, and there must be solutions to compare.
fn read_operator(
    header: Option<&Header>,
    cursor: &Cursor<'_>,
) -> Result<StreamOperator, ParseError> {
    let refuse = |ahead: usize, message: &str| {
        let offset = cursor.tokens.get(cursor.at + ahead).map_or(0, |t| t.start);
        Err(ParseError::semantics(cursor.source, offset, message))
    };
    let (given, of_header) = (operator_at(cursor, 1), header.and_then(|h| h.operator));
    if let (Some(given), Some(of_header)) = (given, of_header)
        && given != of_header
    {
        return refuse(
            1,
            "REGISTER says another stream operator than this; write one of them, or the same in both places",
        );
    }
    let operator = given.or(of_header).unwrap_or_default();
    if operator.compares() && cursor.is_any_keyword(&["ASK", "DESCRIBE"]) {
        return refuse(
            0,
            "ISTREAM and DSTREAM compare solutions with those of the firing before, and ASK and DESCRIBE give none; \
             use SELECT or CONSTRUCT, or leave the operator out",
        );
    }
    Ok(operator)
}

impl Surface {
    /// Goes over the query at its outermost level, from its form to its WHERE, and reads the
    /// dataset clauses.
    fn read_dataset(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
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
                    self.read_clause(cursor)?;
                    continue;
                }
                _ if at_starting(cursor) => {
                    let start = cursor.at;
                    self.starting_at = Some(read_starting_at(cursor)?);
                    self.removed.push(start..cursor.at);
                    continue;
                }
                _ => {
                    let start = cursor.at;
                    if self.options.read(cursor)? {
                        self.removed.push(start..cursor.at);
                        continue;
                    }
                }
            }
            cursor.bump();
        }
        Ok(())
    }

    /// `FROM [NAMED] [STREAM] iri ['[' window ']']` or `FROM NAMED WINDOW iri ON iri '[' window
    /// ']'`
    fn read_clause(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        let start = cursor.at;
        cursor.bump();
        let only_named = cursor.take_keyword("NAMED");
        let window_name = if cursor.is_keyword("WINDOW") && !cursor.is_punctuation_at(1, "[") {
            self.read_window_name(cursor, only_named)?
        } else {
            None
        };
        let says_stream = window_name.is_some() || cursor.take_keyword("STREAM");
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
        if window_name.is_none() {
            self.is_of(Dialect::CSparql, cursor)?;
        }
        let iri = self.names.resolve(cursor.source, stream)?;
        let dialect = match window_name {
            Some(_) => Dialect::RspQl,
            None => Dialect::CSparql,
        };
        let extent = read_extent(cursor, dialect)?;
        let place = Place::of(cursor.source, cursor.tokens[start].start);
        let (name, name_offset) = window_name.unwrap_or_else(|| (iri.clone(), stream.start));
        self.windows.push(WindowClause {
            name,
            stream: iri,
            extent,
            in_default: !only_named,
            named: true,
            line: place.line,
            column: place.column,
        });
        self.window_offsets.push(name_offset);
        self.removed.push(start..cursor.at);
        Ok(())
    }

    /// `WINDOW iri ON`: the name, and where it stands.
    fn read_window_name(
        &mut self,
        cursor: &mut Cursor<'_>,
        only_named: bool,
    ) -> Result<Option<(NamedNode, usize)>, ParseError> {
        if !only_named {
            return Err(cursor.unexpected("NAMED before WINDOW, as windows of RSP-QL are named,"));
        }
        self.is_of(Dialect::RspQl, cursor)?;
        cursor.bump();
        let name = source_token(cursor, "the name of the window, an IRI,")?;
        self.bare |= name.kind == TokenKind::Word;
        cursor.expect_keyword("ON")?;
        let iri = self.names.resolve(cursor.source, name)?;
        Ok(Some((iri, name.start)))
    }

    /// Records the dialect of the window here. A query is in one dialect, because GRAPH reads other
    /// graphs in each.
    pub(crate) fn is_of(
        &mut self,
        dialect: Dialect,
        cursor: &Cursor<'_>,
    ) -> Result<(), ParseError> {
        let words = |dialect: Dialect| match dialect {
            Dialect::CSparql | Dialect::Paper => {
                "FROM STREAM <stream> [ … ] and GRAPH <stream> { … }"
            }
            Dialect::RspQl => "FROM NAMED WINDOW <name> ON <stream> [ … ] and WINDOW <name> { … }",
            Dialect::CqelsQl => "STREAM <stream> [ … ] { … } inside WHERE",
        };
        match self.dialect {
            Some(before) if before != dialect => Err(ParseError::semantics(
                cursor.source,
                cursor.offset(),
                format!(
                    "this query has windows written as {} before, and cannot mix them with {}; write all of them in one way",
                    words(before),
                    words(dialect)
                ),
            )),
            _ => {
                self.dialect = Some(dialect);
                Ok(())
            }
        }
    }

    /// Checks the clauses against each other.
    pub(crate) fn check(&self, source: &str) -> Result<(), ParseError> {
        for (index, window) in self.windows.iter().enumerate() {
            let first = self.windows[..index]
                .iter()
                .find(|earlier| earlier.name == window.name);
            let Some(first) = first else { continue };
            let (line, column) = (first.line, first.column);
            let message = match self.dialect {
                Some(Dialect::RspQl) => format!(
                    "the name {} is that of another window (line {line}, column {column}); choose another one",
                    window.name
                ),
                _ => format!(
                    "the stream {} has a window already (line {line}, column {column}), and in C-SPARQL a query windows a stream once; \
                     remove one of the two, or write the query in RSP-QL, with FROM NAMED WINDOW <name> ON {} [ … ]",
                    window.stream, window.stream
                ),
            };
            return Err(ParseError::semantics(
                source,
                self.window_offsets[index],
                message,
            ));
        }
        for token in &self.stored {
            let graph = self.names.resolve(source, *token)?;
            if self.windows.iter().any(|window| window.name == graph) {
                return Err(ParseError::semantics(
                    source,
                    token.start,
                    format!(
                        "{graph} is a window of this query and cannot be a stored graph of it as well; remove this FROM, or rename one of the two"
                    ),
                ));
            }
        }
        Ok(())
    }
}
