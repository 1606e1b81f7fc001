//! The loop over a text: each character begins a token of some kind, and the scanner takes it.

use super::kinds::{Fault, Token, TokenKind};
use super::scan::{Scanner, is_name_start};
use std::ops::Range;

/// Two-character operators; longest match first.
const PAIRS: [&str; 10] = ["&&", "||", "!=", "<=", ">=", "^^", "<<", ">>", "{|", "|}"];

/// The tokens of a text, in order. White space and comments lie between them.
#[must_use]
pub fn tokenize(source: &str) -> Vec<Token> {
    let mut scanner = Scanner::new(source);
    let mut tokens = Vec::with_capacity(source.len() / 5);
    loop {
        scanner.skip_blank();
        let start = scanner.at();
        let Some(first) = scanner.peek() else {
            return tokens;
        };
        let kind = next_kind(&mut scanner, first);
        debug_assert!(
            scanner.at() > start,
            "every token has at least one character"
        );
        tokens.push(Token {
            kind,
            start,
            end: scanner.at(),
        });
    }
}

/// Whether two texts have the same tokens, so that they differ in white space and comments alone.
/// Both mean the same then: the grammar puts no meaning between tokens. Spaces in strings and IRIs
/// count.
#[must_use]
pub fn have_same_tokens(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let words = |text: &str| -> Vec<(TokenKind, Range<usize>)> {
        tokenize(text)
            .into_iter()
            .map(|token| (token.kind, token.range()))
            .collect()
    };
    let (ours, theirs) = (words(one), words(other));
    ours.len() == theirs.len()
        && ours
            .into_iter()
            .zip(theirs)
            .all(|((kind, our), (other_kind, their))| {
                kind == other_kind && one[our] == other[their]
            })
}

fn next_kind(scanner: &mut Scanner<'_>, first: char) -> TokenKind {
    match first {
        '<' if scanner.take_iri() => TokenKind::Iri,
        '"' | '\'' => match scanner.take_string() {
            Ok(()) => TokenKind::String,
            Err(fault) => TokenKind::Bad(fault),
        },
        '?' | '$' if scanner.take_variable() => TokenKind::Variable,
        '@' if scanner.take_language_tag() => TokenKind::LanguageTag,
        '_' if scanner.take_blank_label() => TokenKind::BlankLabel,
        ':' => {
            scanner.bump();
            scanner.take_local_name();
            TokenKind::PrefixedName
        }
        '0'..='9' => scanner.take_number(),
        '.' if scanner.peek_second().is_some_and(|c| c.is_ascii_digit()) => scanner.take_number(),
        _ if is_name_start(first) => take_word(scanner),
        _ => take_punctuation(scanner, first),
    }
}

fn take_word(scanner: &mut Scanner<'_>) -> TokenKind {
    if scanner.take_prefixed_name() {
        return TokenKind::PrefixedName;
    }
    if scanner.take_iso_duration() {
        return TokenKind::Duration;
    }
    scanner.take_bare_word();
    TokenKind::Word
}

fn take_punctuation(scanner: &mut Scanner<'_>, first: char) -> TokenKind {
    if PAIRS.iter().any(|pair| scanner.take_literally(pair)) {
        return TokenKind::Punctuation;
    }
    scanner.bump();
    match first {
        '{' | '}' | '(' | ')' | '[' | ']' | '.' | ',' | ';' | '*' | '/' | '+' | '-' | '!' | '='
        | '<' | '>' | '|' | '^' | '?' | '~' | '$' => TokenKind::Punctuation,
        _ => TokenKind::Bad(Fault::StrayCharacter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_comments_make_no_other_text() {
        let text = "REGISTER QUERY q AS SELECT * { ?s <urn:p> 'a b' . ?s ?p 1 }";
        for same in [
            "  REGISTER QUERY q AS\n\tSELECT * { ?s <urn:p> 'a b'.\r\n?s ?p 1 }\n",
            "# why\nREGISTER QUERY q AS SELECT*{?s<urn:p>'a b' . # here\n ?s ?p 1}",
        ] {
            assert!(have_same_tokens(text, same), "{same}");
        }
        for other in [
            "REGISTER QUERY q AS SELECT * { ?s <urn:p> 'a  b' . ?s ?p 1 }",
            "REGISTER QUERY q AS SELECT * { ?s <urn:p> 'a b' . ?s ?p 1. }",
            "REGISTER QUERY q AS SELECT * { ?s <urn:p> 'a b' . ?s ?p 2 }",
            "REGISTER QUERY q AS SELECT * { ?s <urn:p#> 'a b' . ?s ?p 1 }",
            "REGISTER QUERY q AS SELECT * { ?s <urn:p> \"a b\" . ?s ?p 1 }",
            "",
        ] {
            assert!(!have_same_tokens(text, other), "{other}");
        }
    }
}
