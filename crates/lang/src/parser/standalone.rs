//! SPARQL that is cut out of a declaration: a text that stands alone.
//!
//! It has the declarations that it needs in front. The parser reads it by itself, and errors are
//! put back to their places in the declaration.

use crate::text::error::ParseError;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// A text that stands alone, made of pieces of another.
#[derive(Debug, Default)]
pub(super) struct Standalone {
    text: String,
    pieces: Vec<Piece>,
}

/// Bytes of the text from `start` on, up to the next piece.
#[derive(Debug)]
struct Piece {
    start: usize,
    /// Where they come from, or what they stand for.
    original: usize,
    is_copy: bool,
}

impl Standalone {
    /// The declarations that these tokens need, a line each.
    pub(super) fn with_declarations(source: &str, tokens: &[Token], names: &Names) -> Standalone {
        let mut lines = String::new();
        if let Some(base) = names.base() {
            let _ = writeln!(lines, "BASE <{base}>");
        }
        let prefixed = (tokens.iter()).filter(|token| token.kind == TokenKind::PrefixedName);
        let prefixes: BTreeSet<&str> = prefixed
            .filter_map(|token| token.text(source).split(':').next())
            .collect();
        for prefix in prefixes {
            if let Some(namespace) = names.namespace(prefix) {
                let _ = writeln!(lines, "PREFIX {prefix}: <{namespace}>");
            }
        }
        let mut made = Standalone::default();
        made.insert(&lines, tokens.first().map_or(source.len(), |it| it.start));
        made
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds words that stand for those at a place.
    pub(super) fn insert(&mut self, words: &str, original: usize) {
        self.piece(original, false);
        self.text.push_str(words);
    }

    /// Adds bytes of the source.
    pub(super) fn copy(&mut self, source: &str, bytes: Range<usize>) {
        self.piece(bytes.start, true);
        self.text.push_str(&source[bytes]);
    }

    fn piece(&mut self, original: usize, is_copy: bool) {
        self.pieces.push(Piece {
            start: self.text.len(),
            original,
            is_copy,
        });
    }

    /// An error of this text as one of the source.
    pub(super) fn error_in(&self, source: &str, error: ParseError) -> ParseError {
        let piece = (self.pieces.iter()).rfind(|piece| piece.start <= error.offset);
        let offset = piece.map_or(0, |piece| match piece.is_copy {
            true => piece.original + error.offset - piece.start,
            false => piece.original,
        });
        let message = match error.message.strip_prefix("the text ends here") {
            Some(rest) => format!("the step ends here{rest}"),
            None => error.message,
        };
        ParseError::at(source, offset, error.kind, message)
    }
}
