//! The guard before `spargebra`: texts whose parse would exhaust the stack, or take forever, are refused.
//!
//! Its parser and everything behind it recurse over the nesting of a text, and it reads the arguments of some
//! functions twice, so that nesting these costs a power of two.

use crate::error::ParseError;
use crate::token::{Token, TokenKind};

/// How deep brackets and prefix operators may nest.
pub(crate) const DEEPEST: usize = 100;
/// How deep calls of functions with optional arguments may nest.
const DEEPEST_OPTIONAL_CALLS: usize = 12;
/// How many operators or groups may follow one another at one level: each makes the algebra one deeper.
pub(crate) const LONGEST_CHAIN: usize = 500;

/// Refuses texts that are too deep or chained too long.
pub(crate) fn check(source: &str, tokens: &[Token]) -> Result<(), ParseError> {
    let mut open: Vec<Level> = vec![Level::default()];
    let mut prefix_run = 0;
    let mut optional_calls = 0;
    for (index, token) in tokens.iter().enumerate() {
        let text = token.text(source);
        let is_punctuation = token.kind == TokenKind::Punctuation;
        prefix_run = if is_punctuation && matches!(text, "!" | "-" | "+" | "^") {
            prefix_run + 1
        } else {
            0
        };
        if open.len() + prefix_run > DEEPEST {
            return Err(ParseError::semantics(
                source,
                token.start,
                format!(
                    "brackets and operators nest more than {DEEPEST} deep here; split the query, or take brackets away"
                ),
            ));
        }
        let is_outermost = open.len() == 1;
        let level = open.last_mut().expect("the outermost level stays");
        if is_outermost && is_punctuation && text == ";" {
            // Operations of an update become a list, however many there are.
            level.links = 0;
        }
        if !level.is_data && is_link(text, token.kind) {
            level.links += 1;
            if level.links > LONGEST_CHAIN {
                return Err(ParseError::semantics(
                    source,
                    token.start,
                    format!(
                        "more than {LONGEST_CHAIN} operators or groups follow one another here; use IN or VALUES for long lists"
                    ),
                ));
            }
        }
        if is_punctuation && matches!(text, "(" | "{" | "[" | "<<" | "{|") {
            let is_optional_call =
                index > 0 && has_optional_arguments(tokens[index - 1].text(source));
            optional_calls += usize::from(is_optional_call);
            if optional_calls > DEEPEST_OPTIONAL_CALLS {
                return Err(ParseError::semantics(
                    source,
                    token.start,
                    format!(
                        "calls of REPLACE, REGEX, SUBSTR and GROUP_CONCAT nest more than {DEEPEST_OPTIONAL_CALLS} deep here; split them with BIND"
                    ),
                ));
            }
            let is_data = text == "{"
                && index > 0
                && tokens[index - 1].text(source).eq_ignore_ascii_case("DATA");
            open.push(Level {
                is_optional_call,
                is_data,
                links: 0,
            });
        } else if is_punctuation && matches!(text, ")" | "}" | "]" | ">>" | "|}") && open.len() > 1
        {
            optional_calls -= usize::from(open.pop().is_some_and(|level| level.is_optional_call));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Level {
    is_optional_call: bool,
    /// Data of an update becomes a list, however many groups it has.
    is_data: bool,
    links: usize,
}

fn has_optional_arguments(word: &str) -> bool {
    ["REPLACE", "REGEX", "SUBSTR", "GROUP_CONCAT"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// Whether a token makes the algebra of its level one deeper.
fn is_link(text: &str, kind: TokenKind) -> bool {
    match kind {
        TokenKind::Punctuation => matches!(text, "||" | "&&" | "+" | "-" | "*" | "/" | "|" | "{"),
        TokenKind::Word => ["BIND", "FILTER", "VALUES", "OPTIONAL", "MINUS"]
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text)),
        _ => false,
    }
}
