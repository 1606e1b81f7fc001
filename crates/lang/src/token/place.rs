//! Places of a text by line and column.

use std::fmt;

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
