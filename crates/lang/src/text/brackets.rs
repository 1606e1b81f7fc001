//! Brackets: a walk past what they enclose, and the check that each has its partner.
//!
//! A reader that cuts SPARQL out of a declaration checks the brackets of the whole text first, so
//! that a missing one is reported where it stands.

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::token::{Place, Token, TokenKind};

/// Refuses characters that are no token, and brackets without a partner.
pub(crate) fn check_brackets(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    if let Some(error) = cursor.first_bad_token() {
        return Err(error);
    }
    let source = cursor.source;
    let mut open: Vec<(Token, &str)> = Vec::new();
    for token in cursor.tokens {
        if token.kind != TokenKind::Punctuation {
            continue;
        }
        let text = token.text(source);
        let partner = match text {
            "{" => "}",
            "(" => ")",
            "[" => "]",
            "{|" => "|}",
            "}" | ")" | "]" | "|}" => match open.pop() {
                Some((_, partner)) if partner == text => continue,
                Some((opened, partner)) => {
                    let place = Place::of(source, opened.start);
                    let opened = opened.text(source);
                    let message = format!(
                        "found `{text}`, but the `{opened}` of {place} is not closed; add `{partner}` before it"
                    );
                    return Err(ParseError::syntax(source, token.start, message));
                }
                None => {
                    let message = format!("this `{text}` closes nothing; remove it");
                    return Err(ParseError::syntax(source, token.start, message));
                }
            },
            _ => continue,
        };
        open.push((*token, partner));
    }
    let Some((opened, partner)) = open.pop() else {
        return Ok(());
    };
    let message = format!(
        "this `{}` is never closed; add `{partner}`",
        opened.text(source)
    );
    Err(ParseError::syntax(source, opened.start, message))
}

/// Goes one token further, or over all that stands in the brackets that open here.
pub(crate) fn skip_bracketed(cursor: &mut Cursor<'_>) {
    let mut depth = 0usize;
    while let Some(token) = cursor.bump() {
        if token.kind == TokenKind::Punctuation {
            match token.text(cursor.source) {
                "{" | "(" | "[" | "{|" => depth += 1,
                "}" | ")" | "]" | "|}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth == 0 {
            return;
        }
    }
}
