//! `f:timestamp(?s, ?p, ?o)` of C-SPARQL: finds its calls, and refuses those that are not allowed.

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};

/// The function's IRI.
pub(crate) const F_TIMESTAMP: &str = "http://larkc.eu/csparql/sparql/jena/ext#timestamp";

/// Refuses the function in a one-shot query.
pub(crate) fn refuse(source: &str, tokens: &[Token], names: &Names) -> Result<(), ParseError> {
    let why = "this is no continuous query; register it, or take f:timestamp away";
    refuse_because(source, tokens, names, why)
}

/// Refuses the function in a live query, which has no windows.
pub(crate) fn refuse_live(source: &str, tokens: &[Token], names: &Names) -> Result<(), ParseError> {
    let why =
        "this query has none; add FROM STREAM <iri> [RANGE 10s STEP 1s], or take f:timestamp away";
    refuse_because(source, tokens, names, why)
}

fn refuse_because(
    source: &str,
    tokens: &[Token],
    names: &Names,
    why: &str,
) -> Result<(), ParseError> {
    let Some(at) = calls(source, tokens, names).next() else {
        return Ok(());
    };
    let message = format!("f:timestamp is the event time of a statement in a window, and {why}");
    Err(ParseError::semantics(source, tokens[at].start, message))
}

/// Refuses calls that do not have a subject, a predicate and an object.
pub(crate) fn check(source: &str, tokens: &[Token], names: &Names) -> Result<(), ParseError> {
    for at in calls(source, tokens, names) {
        let mut cursor = Cursor::new(source, tokens);
        cursor.at = at + 1;
        let arguments = arguments(cursor);
        if arguments != 3 {
            return Err(ParseError::semantics(
                source,
                tokens[at].start,
                format!(
                    "f:timestamp takes a subject, a predicate and an object, and has {arguments} arguments here; write f:timestamp(?s, ?p, ?o)"
                ),
            ));
        }
    }
    Ok(())
}

/// The tokens that call the function.
fn calls<'t>(
    source: &'t str,
    tokens: &'t [Token],
    names: &'t Names,
) -> impl Iterator<Item = usize> + 't {
    (0..tokens.len()).filter(move |at| {
        let token = tokens[*at];
        let is_name = matches!(token.kind, TokenKind::Iri | TokenKind::PrefixedName);
        let next = tokens.get(at + 1);
        let is_call = is_name && next.is_some_and(|next| next.text(source) == "(");
        is_call && (names.resolve(source, token)).is_ok_and(|iri| iri.as_str() == F_TIMESTAMP)
    })
}

/// The number of arguments that stand in the brackets that begin here.
fn arguments(mut cursor: Cursor<'_>) -> usize {
    let (mut depth, mut count, mut is_empty) = (0usize, 1, true);
    while let Some(token) = cursor.bump() {
        match token.text(cursor.source) {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth = depth.saturating_sub(1),
            "," if depth == 1 => count += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_empty &= token.text(cursor.source) == "(";
    }
    if is_empty { 0 } else { count }
}
