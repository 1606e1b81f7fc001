//! The guard before `spargebra`: texts whose parse would exhaust the stack, or take forever, are
//! refused.
//!
//! Its parser and everything behind it recurse over the nesting of a text, and it reads the
//! arguments of some functions twice, so that nesting these costs a power of two.

use crate::text::error::ParseError;
use crate::token::{Token, TokenKind};
use std::collections::HashSet;

/// The greatest depth of brackets and prefix operators.
pub(crate) const DEEPEST: usize = 100;
/// The greatest depth of calls of functions with optional arguments.
const DEEPEST_OPTIONAL_CALLS: usize = 12;
/// The greatest number of operators or groups that may follow one another at one level: each makes
/// the algebra one deeper.
pub(crate) const LONGEST_CHAIN: usize = 500;

/// The number of triple patterns that a text may have, without its data and templates. Planning
/// looks at each pattern for each that it places.
const MOST_PATTERNS: usize = 16_384;
/// The number of variables that a text may have: `spargebra` compares each with all before it.
const MOST_VARIABLES: usize = 16_384;

/// Refuses texts that are too deep, chained too long or too large.
pub(crate) fn check(source: &str, tokens: &[Token]) -> Result<(), ParseError> {
    check_nesting(source, tokens)?;
    check_size(source, tokens)
}

/// Refuses texts with too many patterns or variables.
fn check_size(source: &str, tokens: &[Token]) -> Result<(), ParseError> {
    let refused = |token: &Token, count: usize, what: &str| {
        let message = format!(
            "the query has more than {count} {what} up to here; split it, or give lists of terms with VALUES"
        );
        Err(ParseError::semantics(source, token.start, message))
    };
    let mut variables = HashSet::new();
    let mut patterns = 0;
    // For each open bracket, whether it holds patterns.
    let mut open: Vec<bool> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let text = token.text(source);
        if token.kind == TokenKind::Variable && variables.insert(&text[1..]) {
            if variables.len() > MOST_VARIABLES {
                return refused(token, MOST_VARIABLES, "variables");
            }
        } else if token.kind == TokenKind::Punctuation {
            match text {
                "{" => open.push(index == 0 || !begins_data(tokens[index - 1].text(source))),
                "[" => open.push(open.last().copied().unwrap_or_default()),
                "(" | "<<" | "{|" => open.push(false),
                "}" | "]" | ")" | ">>" | "|}" => {
                    open.pop();
                }
                "." | ";" | "," if open.last() == Some(&true) => {
                    patterns += 1;
                    if patterns > MOST_PATTERNS {
                        return refused(token, MOST_PATTERNS, "triple patterns");
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether what a word's braces hold are triples to be made, and not patterns.
fn begins_data(word: &str) -> bool {
    (["DATA", "INSERT", "DELETE", "CONSTRUCT"].iter()).any(|name| name.eq_ignore_ascii_case(word))
}

fn check_nesting(source: &str, tokens: &[Token]) -> Result<(), ParseError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parser;

    fn refusal(text: &str) -> Option<String> {
        Parser::new()
            .parse_query(text)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn too_many_patterns_or_variables_are_refused() {
        let patterns = |count: usize| -> String {
            (0..count)
                .map(|n| format!("?a <http://x/{n}> ?b . "))
                .collect()
        };
        let refused = refusal(&format!("ASK {{ {} }}", patterns(MOST_PATTERNS + 1)));
        let refused = refused.expect("one pattern too many");
        assert!(
            refused.contains("more than 16384 triple patterns"),
            "{refused}"
        );
        let objects = "<http://x/o>, ".repeat(MOST_PATTERNS + 1);
        assert!(refusal(&format!("ASK {{ ?a <http://x/p> {objects} 1 }}")).is_some());
        // It is not parsed any further: that alone would take seconds.
        let variables: String = (0..33_000)
            .map(|n| format!("?s{n} ?p{n} ?o{n} . "))
            .collect();
        let refused = refusal(&format!("ASK {{ {variables} }}")).expect("too many variables");
        assert!(refused.contains("more than 16384 variables"), "{refused}");
        assert_eq!(refusal(&format!("ASK {{ {} }}", patterns(2_000))), None);
    }

    #[test]
    fn data_and_templates_may_be_large() {
        let triples = "<http://x/s> <http://x/p> 1 . ".repeat(MOST_PATTERNS + 1);
        let check = |text: &str| {
            let tokens = crate::token::tokenize(text);
            check(text, &tokens)
        };
        assert!(check(&format!("INSERT DATA {{ {triples} }}")).is_ok());
        assert!(check(&format!("INSERT {{ {triples} }} WHERE {{}}")).is_ok());
        assert!(check(&format!("CONSTRUCT {{ {triples} }} WHERE {{}}")).is_ok());
        assert!(check(&format!("INSERT {{}} WHERE {{ {triples} }}")).is_err());
    }
}
