//! Cuts a document at line ends into chunks that can be parsed separately.

use std::io::{self, Read};

/// A longer line is refused: it could fill the memory before anything checks it.
const LONGEST_LINE: usize = 256 << 20;

pub(super) struct Chunks<R> {
    reader: R,
    length: usize,
    /// The beginning of the line before which the last chunk was cut.
    begun: Vec<u8>,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    /// Chunks of about `length` bytes.
    pub(super) fn new(reader: R, length: usize) -> Chunks<R> {
        Chunks {
            reader,
            length,
            begun: Vec::new(),
            ended: false,
        }
    }

    /// Whether the document has been read to its end.
    pub(super) fn is_at_end(&self) -> bool {
        self.ended
    }

    /// Fills `chunk` with the next whole lines. Returns false if there are no more.
    ///
    /// # Errors
    /// Those of the reader, and a line that is too long.
    pub(super) fn next_into(&mut self, chunk: &mut Vec<u8>) -> io::Result<bool> {
        chunk.clear();
        chunk.append(&mut self.begun);
        let mut searched = 0;
        while !self.ended {
            // At least doubled, so that a huge line is not searched and grown repeatedly.
            let wanted = self.length.max(chunk.len());
            // Without this the reader would be asked in small pieces whether there is more.
            chunk.reserve(wanted);
            let read = (&mut self.reader).take(wanted as u64).read_to_end(chunk)?;
            self.ended = read < wanted;
            if self.ended {
                break;
            }
            let newest = &chunk[searched..];
            if let Some(last) = newest.iter().rposition(|byte| *byte == b'\n') {
                let end = searched + last + 1;
                self.begun.extend_from_slice(&chunk[end..]);
                chunk.truncate(end);
                return Ok(true);
            }
            searched = chunk.len();
            if searched > LONGEST_LINE {
                let limit = LONGEST_LINE >> 20;
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a line is longer than {limit} MiB"),
                ));
            }
        }
        Ok(!chunk.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_whole_lines_and_lose_nothing() {
        let text = b"one\ntwo two\r\n\n# a much longer line than any chunk\nfive\nno end";
        for length in 1..text.len() + 2 {
            let mut chunks = Chunks::new(&text[..], length);
            let (mut chunk, mut all) = (Vec::new(), Vec::new());
            while chunks.next_into(&mut chunk).unwrap() {
                all.extend_from_slice(&chunk);
                let is_last = all.len() == text.len();
                assert!(is_last || chunk.ends_with(b"\n"), "{length}");
            }
            assert_eq!(all, text);
            assert!(chunks.is_at_end());
        }
    }
}
