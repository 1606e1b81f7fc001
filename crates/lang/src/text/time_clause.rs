//! Durations and instants in clauses, with the messages that name the clause.

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::token::TokenKind;
use crate::token::duration::{DurationFault, parse};
use oxrdf::Literal;
use oxrdf::vocab::xsd;
use somersault_model::{EventTime, Millis, inline};

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
    parse(&text).map_err(|fault| {
        let message = match fault {
            DurationFault::Unit => format!("`{text}` after {of} has an unknown unit; the units are ms, s, m, h and d"),
            DurationFault::Value => format!("`{text}` after {of} is no whole number of milliseconds, or too long; write {EXPECTED}"),
        };
        ParseError::syntax(cursor.source, offset, message)
    })
}

/// An instant: milliseconds since 1970, or an xsd:dateTime as a string; UTC where it names no
/// offset.
pub(crate) fn instant(cursor: &mut Cursor<'_>, of: &str) -> Result<EventTime, ParseError> {
    let expected = format!(
        "an instant after {of}: whole milliseconds since 1970, or a dateTime such as \"2026-01-01T00:00:00Z\""
    );
    let text = cursor.peek_text();
    let found = match cursor.peek_kind() {
        Some(TokenKind::Integer) => text.parse().ok().map(EventTime),
        Some(TokenKind::String) => {
            let literal =
                Literal::new_typed_literal(text.trim_matches(['"', '\'']), xsd::DATE_TIME);
            let id = inline::encode(literal.as_ref());
            id.and_then(inline::date_time).map(|time| time.utc)
        }
        _ => None,
    };
    let Some(instant) = found else {
        return Err(cursor.unexpected(&expected));
    };
    cursor.bump();
    Ok(instant)
}

/// Whether STARTING AT stands here.
pub(crate) fn at_starting(cursor: &Cursor<'_>) -> bool {
    cursor.is_keyword("STARTING") && cursor.is_keyword_at(1, "AT")
}

/// `STARTING AT instant`: closes are counted from then.
pub(crate) fn read_starting_at(cursor: &mut Cursor<'_>) -> Result<EventTime, ParseError> {
    cursor.bump();
    cursor.bump();
    instant(cursor, "STARTING AT")
}
