//! Cuts bytes at line ends, and knows the position of each line.

use crate::source::{KEPT_OF_TOO_LONG, LONGEST_MESSAGE, MessageBody, SourceMessage};

/// The lines of a file that grows. The position of a line is that of the byte behind it.
#[derive(Debug)]
pub(crate) struct LineCutter {
    /// What no line end follows yet. Of a line that is too long, its beginning.
    rest: Vec<u8>,
    /// The bytes of that line.
    length: u64,
    /// The position of the next byte.
    position: u64,
    longest: usize,
}

impl LineCutter {
    /// Begins at a position, at the beginning of a line.
    pub(crate) fn at(position: u64) -> LineCutter {
        LineCutter {
            rest: Vec::new(),
            length: 0,
            position,
            longest: LONGEST_MESSAGE,
        }
    }

    /// The position of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next bytes, and hands out the lines that they end.
    pub(crate) fn cut(&mut self, bytes: &[u8], lines: &mut Vec<SourceMessage>) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.add(piece);
            if piece.ends_with(b"\n") {
                self.end_line(lines);
            }
        }
    }

    /// Hands out what no line end follows: the file has ended for good.
    pub(crate) fn end(&mut self, lines: &mut Vec<SourceMessage>) {
        if self.length > 0 {
            self.end_line(lines);
        }
    }

    fn add(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        self.position += piece.len() as u64;
        // One byte more than the longest line, and its line end.
        let room = (self.longest + 2).saturating_sub(self.rest.len());
        self.rest.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn end_line(&mut self, lines: &mut Vec<SourceMessage>) {
        let mut line = std::mem::take(&mut self.rest);
        let bytes = std::mem::take(&mut self.length);
        let body = if bytes > self.longest as u64 + 1 {
            line.truncate(KEPT_OF_TOO_LONG);
            MessageBody::TooLong {
                beginning: line,
                bytes,
            }
        } else {
            line.pop_if(|byte| *byte == b'\n');
            line.pop_if(|byte| *byte == b'\r');
            if line.is_empty() || line.starts_with(b"#") {
                return;
            }
            MessageBody::Whole(line)
        };
        lines.push(SourceMessage {
            position: self.position,
            at: None,
            body,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cutter(longest: usize) -> LineCutter {
        LineCutter {
            longest,
            ..LineCutter::at(7)
        }
    }

    /// The dull twin: all of the text at once.
    fn split(text: &[u8], longest: usize) -> Vec<SourceMessage> {
        let mut position = 7;
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            position += line.len() as u64;
            let inside = line.strip_suffix(b"\n").unwrap_or(line);
            let inside = inside.strip_suffix(b"\r").unwrap_or(inside);
            let is_long = line.len() > longest + 1;
            if !is_long && (inside.is_empty() || inside.starts_with(b"#")) {
                continue;
            }
            let body = match is_long {
                true => MessageBody::TooLong {
                    beginning: line[..line.len().min(longest + 2)].to_vec(),
                    bytes: line.len() as u64,
                },
                false => MessageBody::Whole(inside.to_vec()),
            };
            lines.push(SourceMessage {
                position,
                at: None,
                body,
            });
        }
        lines
    }

    proptest! {
        #[test]
        fn pieces_give_the_lines_of_the_whole(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'#'), Just(b'a')], 0..60),
            cuts in prop::collection::vec(0usize..60, 0..6),
            longest in 1usize..8,
        ) {
            let mut cutter = cutter(longest);
            let mut lines = Vec::new();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            for piece in cuts.windows(2) {
                cutter.cut(&text[piece[0]..piece[1]], &mut lines);
            }
            cutter.end(&mut lines);
            prop_assert_eq!(cutter.position(), 7 + text.len() as u64);
            prop_assert_eq!(lines, split(&text, longest));
        }
    }
}
