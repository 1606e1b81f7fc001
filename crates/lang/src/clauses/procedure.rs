//! The header of CREATE PROCEDURE: parameters, consumed streams, owned windows. Its steps and
//! triggers are read by `parser::procedure`.

use crate::algebra::procedure::{
    BatchExtent, ConsumedStream, CreateProcedure, OwnedExtent, OwnedWindow, Parameter,
    ParameterKind, Step,
};
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::Names;
use crate::text::time_clause::positive_duration;
use crate::token::duration::spell;
use crate::token::{Place, Token, TokenKind};
use oxrdf::NamedNode;
use std::fmt;

impl CreateProcedure {
    /// The place of a step in the text.
    #[must_use]
    pub fn place(&self, step: &Step) -> Place {
        Place::of(&self.text, step.span.start)
    }
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterKind::Any => f.write_str("ANY"),
            ParameterKind::Iri => f.write_str("IRI"),
            ParameterKind::Literal => f.write_str("LITERAL"),
            ParameterKind::Datatype(datatype) => datatype.fmt(f),
        }
    }
}

impl fmt::Display for BatchExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchExtent::Messages(1) => f.write_str("BATCH 1 MESSAGE"),
            BatchExtent::Messages(count) => write!(f, "BATCH {count} MESSAGES"),
            BatchExtent::Time(span) => write!(f, "BATCH {}", spell(*span)),
        }
    }
}

impl fmt::Display for OwnedExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnedExtent::Last { messages, slide } => {
                write!(f, "LAST {messages} MESSAGES SLIDE {slide}")
            }
            OwnedExtent::Range { range, slide } => {
                write!(f, "RANGE {} SLIDE {}", spell(*range), spell(*slide))
            }
        }
    }
}

/// The header of a procedure, without its name.
#[derive(Debug, Default)]
pub(crate) struct ProcedureHeader {
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) consumes: Vec<ConsumedStream>,
    pub(crate) windows: Vec<OwnedWindow>,
    /// The streams that a native body may emit into, with the place of the clause.
    pub(crate) emits: Option<(usize, Vec<NamedNode>)>,
}

impl ProcedureHeader {
    /// The header of a procedure that is declared.
    pub(crate) fn of(procedure: &CreateProcedure) -> ProcedureHeader {
        ProcedureHeader {
            parameters: procedure.parameters.clone(),
            consumes: procedure.consumes.clone(),
            windows: procedure.windows.clone(),
            emits: None,
        }
    }

    /// Whether the procedure consumes a stream.
    pub(crate) fn consumes(&self, stream: &NamedNode) -> bool {
        self.consumes.iter().any(|one| one.stream == *stream)
    }

    /// Whether it owns a window.
    pub(crate) fn owns(&self, window: &NamedNode) -> bool {
        self.windows.iter().any(|one| one.name == *window)
    }

    /// `( ?var [kind] {, …} )`, if parentheses stand here.
    pub(crate) fn read_parameters(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<(), ParseError> {
        if !cursor.take_punctuation("(") || cursor.take_punctuation(")") {
            return Ok(());
        }
        loop {
            let Some(variable) = cursor.take_kind(TokenKind::Variable) else {
                return Err(cursor.unexpected("a parameter such as `?amount xsd:integer`"));
            };
            let name = variable_name(cursor.source, variable);
            if self.parameters.iter().any(|known| known.name == name) {
                let message = format!(
                    "the parameter ?{name} is declared a second time here; choose another name"
                );
                return refuse(cursor.source, variable.start, message);
            }
            self.parameters.push(Parameter {
                name: name.to_owned(),
                kind: read_kind(cursor, names)?,
            });
            if cursor.take_punctuation(")") {
                return Ok(());
            }
            if !cursor.take_punctuation(",") {
                return Err(cursor.unexpected(
                    "IRI, LITERAL, ANY, the IRI of a datatype, `,` or `)` behind a parameter",
                ));
            }
        }
    }

    /// `ON STREAM iri BATCH …`, with the cursor behind ON.
    pub(crate) fn read_consumed(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<(), ParseError> {
        cursor.expect_keyword("STREAM")?;
        let token = source_token(cursor, "the IRI of a stream")?;
        let stream = names.resolve(cursor.source, token)?;
        if self.consumes(&stream) {
            let message = format!(
                "the procedure consumes {stream} already; a procedure consumes a stream once"
            );
            return refuse(cursor.source, token.start, message);
        }
        if !self.parameters.is_empty() {
            let message = "a procedure that consumes a stream cannot be called, and so has no parameters; \
                           take the parameters or ON STREAM away";
            return refuse(cursor.source, token.start, message);
        }
        cursor.expect_keyword("BATCH")?;
        let batch = read_batch(cursor)?;
        self.consumes.push(ConsumedStream { stream, batch });
        Ok(())
    }

    /// `OWNS WINDOW iri ON iri [ … ]`, with the cursor behind OWNS. Gives the place of the stream.
    pub(crate) fn read_window(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<usize, ParseError> {
        cursor.expect_keyword("WINDOW")?;
        let token = source_token(cursor, "the name of the window, an IRI,")?;
        let name = names.resolve(cursor.source, token)?;
        if self.owns(&name) {
            let message = format!("the window {name} is declared already; choose another name");
            return refuse(cursor.source, token.start, message);
        }
        cursor.expect_keyword("ON")?;
        let token = source_token(cursor, "the IRI of a consumed stream")?;
        let stream = names.resolve(cursor.source, token)?;
        let extent = read_owned_extent(cursor)?;
        self.windows.push(OwnedWindow {
            name,
            stream,
            extent,
        });
        Ok(token.start)
    }

    /// `EMITS INTO iri {, iri}`, with the cursor behind EMITS.
    pub(crate) fn read_emits(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<(), ParseError> {
        let (_, emits) = self
            .emits
            .get_or_insert_with(|| (cursor.tokens[cursor.at - 1].start, Vec::new()));
        cursor.expect_keyword("INTO")?;
        loop {
            let token = source_token(cursor, "the IRI of an interior stream")?;
            let stream = names.resolve(cursor.source, token)?;
            if emits.contains(&stream) {
                let message = format!("{stream} is named twice behind EMITS INTO; name it once");
                return refuse(cursor.source, token.start, message);
            }
            emits.push(stream);
            if !cursor.take_punctuation(",") {
                return Ok(());
            }
        }
    }
}

/// A refusal of something well formed that cannot hold.
pub(crate) fn refuse<T>(
    source: &str,
    offset: usize,
    message: impl Into<String>,
) -> Result<T, ParseError> {
    Err(ParseError::semantics(source, offset, message))
}

/// The name of a variable, without its `?`.
pub(crate) fn variable_name(source: &str, variable: Token) -> &str {
    &source[variable.start + 1..variable.end]
}

fn read_kind(cursor: &mut Cursor<'_>, names: &Names) -> Result<ParameterKind, ParseError> {
    for (word, kind) in [
        ("ANY", ParameterKind::Any),
        ("IRI", ParameterKind::Iri),
        ("LITERAL", ParameterKind::Literal),
    ] {
        if cursor.take_keyword(word) {
            return Ok(kind);
        }
    }
    match cursor.peek_kind() {
        Some(TokenKind::Iri | TokenKind::PrefixedName) => {
            let token = cursor.bump().expect("a token was just seen");
            let datatype = names.resolve(cursor.source, token)?;
            Ok(ParameterKind::Datatype(datatype))
        }
        _ => Ok(ParameterKind::Any),
    }
}

/// `[n] MESSAGE[S]` or a duration.
fn read_batch(cursor: &mut Cursor<'_>) -> Result<BatchExtent, ParseError> {
    if take_messages(cursor) {
        return Ok(BatchExtent::Messages(1));
    }
    let is_count = cursor.peek_kind() == Some(TokenKind::Integer)
        && (cursor.is_keyword_at(1, "MESSAGE") || cursor.is_keyword_at(1, "MESSAGES"));
    if is_count {
        return read_count(cursor, "BATCH").map(BatchExtent::Messages);
    }
    match cursor.peek_kind() {
        Some(TokenKind::Integer | TokenKind::Duration) => {
            positive_duration(cursor, "BATCH").map(BatchExtent::Time)
        }
        _ => {
            Err(cursor.unexpected("a number of messages or a duration, such as 1 MESSAGE or 10s,"))
        }
    }
}

fn take_messages(cursor: &mut Cursor<'_>) -> bool {
    cursor.take_keyword("MESSAGES") || cursor.take_keyword("MESSAGE")
}

/// `n MESSAGE[S]`.
fn read_count(cursor: &mut Cursor<'_>, of: &str) -> Result<u64, ParseError> {
    let count = read_number(cursor, of)?;
    match take_messages(cursor) {
        true => Ok(count),
        false => Err(cursor.unexpected("MESSAGES")),
    }
}

/// A whole number from 1 on.
fn read_number(cursor: &mut Cursor<'_>, of: &str) -> Result<u64, ParseError> {
    let number = match cursor.peek_kind() {
        Some(TokenKind::Integer) => cursor.peek_text().parse().ok(),
        _ => None,
    };
    let Some(number) = number.filter(|&number| number > 0) else {
        return Err(cursor.unexpected(&format!("a whole number above 0 after {of}")));
    };
    cursor.bump();
    Ok(number)
}

/// `'[' (LAST n MESSAGES [SLIDE m] | RANGE dur [SLIDE dur]) ']'`
fn read_owned_extent(cursor: &mut Cursor<'_>) -> Result<OwnedExtent, ParseError> {
    cursor.expect_punctuation("[")?;
    let extent = if cursor.take_keyword("LAST") {
        let messages = read_count(cursor, "LAST")?;
        let slide = match cursor.take_keyword("SLIDE") {
            true => read_number(cursor, "SLIDE")?,
            false => 1,
        };
        if cursor.is_any_keyword(&["MESSAGE", "MESSAGES"]) {
            cursor.bump();
        }
        OwnedExtent::Last { messages, slide }
    } else if cursor.take_keyword("RANGE") {
        let range = positive_duration(cursor, "RANGE")?;
        let slide = match cursor.take_keyword("SLIDE") {
            true => positive_duration(cursor, "SLIDE")?,
            false => range,
        };
        OwnedExtent::Range { range, slide }
    } else if cursor.is_any_keyword(&["ELEMENTS", "TRIPLES"]) {
        let message = "an owned window holds messages; write LAST 100 MESSAGES SLIDE 10, or RANGE 30s SLIDE 10s";
        return Err(ParseError::syntax(cursor.source, cursor.offset(), message));
    } else {
        return Err(cursor.unexpected("LAST and a number of messages, or RANGE and a duration,"));
    };
    if cursor.is_keyword("STEP") {
        let message = "an owned window slides; write SLIDE instead of STEP";
        return Err(ParseError::syntax(cursor.source, cursor.offset(), message));
    }
    match cursor.take_punctuation("]") {
        true => Ok(extent),
        false => Err(cursor.unexpected("SLIDE or `]`")),
    }
}
