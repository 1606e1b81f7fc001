//! The tokenizer: any text to a list of tokens with byte positions. It never fails and never panics.
//!
//! What cannot be a token becomes a [`TokenKind::Bad`] that knows what is wrong with it, so that whoever meets it
//! can say so. Tokens are those of SPARQL 1.2, and three of our own: words with hyphens (bare names), durations
//! and the brackets of windows (which are SPARQL's).

use crate::scan::{Scanner, is_name_start};
use std::fmt;
use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// `<http://…>`
    Iri,
    /// `p:name`, `p:` or `:name`
    PrefixedName,
    /// `_:b`
    BlankLabel,
    /// `?v` or `$v`
    Variable,
    /// A string of one of the four kinds, with its quotes.
    String,
    /// `@en`, `@en--ltr`
    LanguageTag,
    /// `10`
    Integer,
    /// `1.5`
    Decimal,
    /// `1e5`
    Double,
    /// `10s`, `500ms`, `PT0.5S`
    Duration,
    /// A keyword or a bare name: letters, digits, `_` and inner `-`.
    Word,
    /// An operator or bracket.
    Punctuation,
    /// Something that is no token.
    Bad(Fault),
}

/// Why something is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A string without its closing quote.
    UnterminatedString,
    /// `\x` where x is no escape, or a `\u` without its hexadecimal digits.
    BadEscape,
    /// A character that starts no token.
    StrayCharacter,
}

/// One token: its kind and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

impl Token {
    /// The token's bytes as a range.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The token's text.
    #[must_use]
    pub fn text<'t>(&self, source: &'t str) -> &'t str {
        &source[self.range()]
    }
}

/// Line and column of a place in a text, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Place {
    /// The place of a byte offset; offsets past the end are the end.
    #[must_use]
    pub fn of(source: &str, offset: usize) -> Place {
        let mut offset = offset.min(source.len());
        while !source.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &source[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place {
            line: count(before.bytes().filter(|&b| b == b'\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

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

/// Whether two texts have the same tokens, so that they differ in white space and comments alone. Both
/// mean the same then: the grammar puts no meaning between tokens. Spaces in strings and IRIs count.
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
