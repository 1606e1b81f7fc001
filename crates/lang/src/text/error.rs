//! Parse errors: a sentence that says what was found, where, what was expected, and the remedy.

use crate::token::Place;
use std::fmt;

/// Why a text was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is not in the language.
    Syntax,
    /// The text is well formed, but says something that cannot hold (a stream windowed twice, a
    /// window of 0 s…).
    Semantics,
    /// The text takes longer to parse than [`Parser::quickly`](crate::Parser::quickly) allows.
    /// Nothing is wrong with it so far.
    TooLong,
}

/// A refused text. [`Display`](fmt::Display) gives `line 3, column 7: ` and the sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Byte offset into the text.
    pub offset: usize,
    /// The sentence.
    pub message: String,
    /// The kind of refusal.
    pub kind: ParseErrorKind,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.message
        )
    }
}

impl ParseError {
    /// An error of a kind at a byte offset of a text.
    pub(crate) fn at(
        source: &str,
        offset: usize,
        kind: ParseErrorKind,
        message: impl Into<String>,
    ) -> Self {
        let Place { line, column } = Place::of(source, offset);
        ParseError {
            line,
            column,
            offset: offset.min(source.len()),
            message: message.into(),
            kind,
        }
    }

    pub(crate) fn syntax(source: &str, offset: usize, message: impl Into<String>) -> Self {
        Self::at(source, offset, ParseErrorKind::Syntax, message)
    }

    pub(crate) fn semantics(source: &str, offset: usize, message: impl Into<String>) -> Self {
        Self::at(source, offset, ParseErrorKind::Semantics, message)
    }
}
