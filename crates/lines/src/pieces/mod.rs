//! Cuts a text that comes in parts into pieces: messages, lines, elements of a JSON array, records
//! of CSV.
//!
//! The one thing to know before changing it: a piece is held in memory, and one that has more bytes
//! than the limit is passed over without its bytes.

pub(crate) mod delimiters;
mod elements;
mod records;

use delimiters::{Cutter, Delimiter};
pub(crate) use elements::ElementCutter;
pub(crate) use records::RecordCutter;
use std::io::{self, Read};
use std::ops::Range;

/// The bytes that are asked of the source at once.
const READ_BYTES: usize = 64 << 10;

/// What ends a piece.
#[derive(Debug)]
pub(crate) enum Cut {
    /// A delimiter of messages.
    Delimiters(Cutter),
    /// The end of a line.
    LineEnds,
    /// The end of an element of the array that the text is.
    Elements(ElementCutter),
    /// The end of a record of CSV.
    Records(RecordCutter),
}

/// The text between two delimiters.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Its bytes; empty if there were too many.
    pub(crate) text: Vec<u8>,
    /// Whether it has more bytes than the limit.
    pub(crate) is_too_long: bool,
    /// The place of its first byte.
    pub(crate) place: Place,
    /// The line of its first word.
    pub(crate) line: u64,
    /// The depth of its triple terms.
    pub(crate) deepest: usize,
    /// The delimiter behind it; `None` at the end of the text.
    pub(crate) delimiter: Option<Delimiter>,
}

/// The place of a byte in the whole text, from line 1, column 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl Place {
    /// The place behind these bytes. Lines end with `\n`; columns count characters.
    pub(crate) fn behind(self, bytes: &[u8]) -> Place {
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        let line_start = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let is_first_of_character = |byte: &&u8| **byte & 0xc0 != 0x80;
        let columns = bytes[line_start..].iter().filter(is_first_of_character);
        let columns = columns.count() as u64;
        match lines {
            0 => Place {
                column: self.column + columns,
                ..self
            },
            _ => Place {
                line: self.line + lines,
                column: columns + 1,
            },
        }
    }
}

/// Cuts what a source gives into pieces.
#[derive(Debug)]
pub(crate) struct Pieces {
    cut: Cut,
    /// Bytes of pieces that were handed out, then those of the piece that is read and maybe of
    /// those behind it.
    buffer: Vec<u8>,
    /// The number of the former. They are removed before more is read, all at once.
    taken: usize,
    /// The number of bytes behind them in which no delimiter was found.
    scanned: usize,
    /// The bytes that the source gave last.
    read: Box<[u8]>,
    /// The place of the first byte of the piece, and of the first byte that is not taken.
    start: Place,
    at: Place,
    /// Whether the first bytes of the piece were dropped.
    is_too_long: bool,
    is_at_end: bool,
}

impl Pieces {
    /// The pieces of a text, from its beginning.
    pub(crate) fn new(cut: Cut) -> Pieces {
        let start = Place { line: 1, column: 1 };
        Pieces {
            cut,
            buffer: Vec::new(),
            taken: 0,
            scanned: 0,
            read: vec![0; READ_BYTES].into(),
            start,
            at: start,
            is_too_long: false,
            is_at_end: false,
        }
    }

    /// The next piece. The one without a delimiter is the last.
    pub(crate) fn next(&mut self, source: &mut impl Read, limit: usize) -> io::Result<Piece> {
        loop {
            if let Some(delimiter) = self.scan() {
                return Ok(self.piece(Some(delimiter), limit));
            }
            if self.is_at_end {
                return Ok(self.piece(None, limit));
            }
            if self.is_too_long || self.rest().len() > limit {
                self.is_too_long = true;
                self.drop_scanned();
            }
            self.buffer.drain(..std::mem::take(&mut self.taken));
            let length = read_some(source, &mut self.read)?;
            self.buffer.extend_from_slice(&self.read[..length]);
            self.is_at_end = length == 0;
        }
    }

    /// What cuts the text.
    pub(crate) fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The bytes that no piece has taken.
    fn rest(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    fn scan(&mut self) -> Option<Delimiter> {
        let bytes = &self.buffer[self.taken..];
        let found = match &mut self.cut {
            Cut::Delimiters(cutter) => cutter.next(bytes, &mut self.scanned),
            Cut::Elements(cutter) => cutter.next(bytes, &mut self.scanned),
            Cut::Records(cutter) => cutter.next(bytes, &mut self.scanned),
            Cut::LineEnds => {
                let rest = &bytes[self.scanned..];
                let length = memchr::memchr(b'\n', rest);
                let start = self.scanned + length.unwrap_or(rest.len());
                self.scanned = start + usize::from(length.is_some());
                length.map(|_| Delimiter::plain(start..start + 1))
            }
        };
        match &mut self.cut {
            Cut::Delimiters(cutter) if found.is_none() && self.is_at_end => cutter.end(bytes.len()),
            _ => found,
        }
    }

    fn drop_scanned(&mut self) {
        self.at = self.at.behind(&self.rest()[..self.scanned]);
        self.taken += self.scanned;
        if let Cut::Delimiters(cutter) = &mut self.cut {
            cutter.forget(self.scanned);
        }
        self.scanned = 0;
    }

    fn piece(&mut self, delimiter: Option<Delimiter>, limit: usize) -> Piece {
        let length = self.rest().len();
        let (start, end) = delimiter.map_or((length, length), |it| (it.start.min(it.end), it.end));
        let is_too_long = std::mem::take(&mut self.is_too_long) || start > limit;
        let (deepest, versions) = match &mut self.cut {
            Cut::Delimiters(cutter) => cutter.begin(),
            _ => (0, Vec::new()),
        };
        let mut text = match is_too_long {
            true => Vec::new(),
            false => self.rest()[..start].to_vec(),
        };
        versions
            .into_iter()
            .for_each(|line| blank_version(&mut text, line));
        let first_word = text
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let place = self.start;
        let line = place.behind(&text[..first_word]).line;
        self.at = self.at.behind(&self.rest()[..end]);
        self.start = self.at;
        self.taken += end;
        if let Cut::Delimiters(cutter) = &mut self.cut {
            cutter.forget(end);
        }
        self.scanned = self.scanned.saturating_sub(end);
        Piece {
            text,
            is_too_long,
            place,
            line,
            deepest,
            delimiter,
        }
    }
}

/// Blanks a line `VERSION "…"`, which `oxttl` does not know in N-Triples and N-Quads. A malformed
/// one stays, for the parser to refuse.
fn blank_version(text: &mut [u8], line: Range<usize>) {
    let Some(line) = text.get_mut(line) else {
        return;
    };
    let words = String::from_utf8_lossy(line);
    let rest = words["VERSION".len()..].trim();
    let is_version = ['"', '\''].iter().any(|quote| {
        let inside = rest
            .strip_prefix(*quote)
            .and_then(|rest| rest.split_once(*quote));
        inside.is_some_and(|(_, behind)| {
            behind.trim().is_empty() || behind.trim_start().starts_with('#')
        })
    });
    if is_version {
        line.fill(b' ');
    }
}

fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
