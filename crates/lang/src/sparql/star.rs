//! The columns of `SELECT *`: in the order in which the variables first stand in the text. The
//! syntax library gives them in alphabetical order.

use crate::token::{Token, TokenKind};
use spargebra::algebra::GraphPattern;

/// Puts the columns of an outermost `SELECT *` in order of appearance; other queries stay as they
/// are.
pub(crate) fn order_columns(text: &str, tokens: &[Token], pattern: &mut GraphPattern) {
    if !selects_star(text, tokens) {
        return;
    }
    let mut outermost = pattern;
    loop {
        match outermost {
            GraphPattern::Distinct { inner }
            | GraphPattern::Reduced { inner }
            | GraphPattern::Slice { inner, .. } => outermost = inner,
            GraphPattern::Project { variables, .. } => {
                variables
                    .sort_by_cached_key(|variable| appearance(text, tokens, variable.as_str()));
                return;
            }
            _ => return,
        }
    }
}

/// Whether the first SELECT of the text, which is the outermost one, is followed by `*`.
fn selects_star(text: &str, tokens: &[Token]) -> bool {
    let word = |token: &Token, word: &str| {
        token.kind == TokenKind::Word && text[token.start..token.end].eq_ignore_ascii_case(word)
    };
    let Some(select) = tokens.iter().position(|token| word(token, "SELECT")) else {
        return false;
    };
    tokens[select + 1..]
        .iter()
        .find(|token| !word(token, "DISTINCT") && !word(token, "REDUCED"))
        .is_some_and(|token| &text[token.start..token.end] == "*")
}

/// The first place of a variable in the text; after all others if it has none.
fn appearance(text: &str, tokens: &[Token], name: &str) -> usize {
    tokens
        .iter()
        .filter(|token| token.kind == TokenKind::Variable)
        .position(|token| &text[token.start + 1..token.end] == name)
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use crate::Parser;

    #[test]
    fn columns_of_select_star_are_in_order_of_appearance() {
        let columns = |text: &str| {
            let query = Parser::default().parse_query(text).expect("it parses");
            let names = query
                .projection()
                .iter()
                .map(|&id| query.variable_name(id).to_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            columns("SELECT * { ?s ?p ?o OPTIONAL { ?a ?b ?s } }"),
            ["s", "p", "o", "a", "b"]
        );
        assert_eq!(
            columns("SELECT DISTINCT * { ?s ?p ?o } LIMIT 1"),
            ["s", "p", "o"]
        );
        assert_eq!(
            columns("SELECT ?o ?s { ?s ?p ?o { SELECT * { ?z ?y ?x } } }"),
            ["o", "s"]
        );
    }
}
