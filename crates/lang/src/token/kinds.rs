//! Tokens: their kinds, their bytes, and the faults of characters that are no token.

use std::ops::Range;

/// The kinds of tokens.
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
