//! Reading a file in one pass, block by block, with every checksum.

use super::header::{u32_at, u64_at};
use super::{
    BLOCK_BYTES, FRAME_BYTES, FileHeader, FileSummary, HEADER_BYTES, ID_ROTATION, TRAILER_BYTES,
    block_checksum, place,
};
use crate::error::CheckpointError;
use crate::name::FileName;
use somersault_disk::Disk;
use somersault_model::TermId;
use std::io::{self, Read};

/// The most bytes of a number of 64 bits.
const LONGEST_NUMBER: usize = 10;

/// A checkpoint file that is being read. It holds one block in memory, and a longer item that
/// spans blocks.
pub struct FileReader {
    source: Box<dyn Read + Send>,
    place: String,
    header: FileHeader,
    header_checksum: u32,
    block: Vec<u8>,
    /// The part of the block that has been taken.
    at: usize,
    /// An item that spans blocks.
    spanning: Vec<u8>,
    blocks: u64,
    content: u64,
    /// Of the bytes read so far.
    summary: FileSummary,
    /// What a manifest says of the whole file.
    expected: Option<FileSummary>,
    is_ended: bool,
}

impl FileReader {
    /// Opens a file and reads its header, which must be of the file that has this name.
    ///
    /// # Errors
    /// Damage, another file under this name, a newer version, or IO.
    pub fn open(disk: &dyn Disk, name: FileName) -> Result<FileReader, CheckpointError> {
        let text = name.to_string();
        let place = place(disk, &text);
        let opened = disk.read(&text);
        let mut source = opened.map_err(|error| CheckpointError::io("open", &place, &error))?;
        let mut summary = FileSummary::default();
        let mut bytes = [0; HEADER_BYTES];
        read_exact(&mut *source, &place, &mut summary, &mut bytes)?;
        let (header, header_checksum) = FileHeader::read(&place, &bytes)?;
        if header.name != name {
            let what = format!("it was written as {}", header.name);
            return Err(CheckpointError::foreign(&place, what));
        }
        Ok(FileReader {
            source,
            place,
            header,
            header_checksum,
            block: Vec::new(),
            at: 0,
            spanning: Vec::new(),
            blocks: 0,
            content: 0,
            summary,
            expected: None,
            is_ended: false,
        })
    }

    /// Also checks the whole file, at its end, against what a manifest says of it.
    #[must_use]
    pub fn expecting(mut self, summary: FileSummary) -> FileReader {
        self.expected = Some(summary);
        self
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// An error that says that the content at this place is not what it should be.
    #[must_use]
    pub fn damaged(&self, what: impl Into<String>) -> CheckpointError {
        CheckpointError::damaged(&self.place, self.summary.length, what)
    }

    /// Whether all content has been taken. At the end it has checked the trailer.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn is_at_end(&mut self) -> Result<bool, CheckpointError> {
        while self.at == self.block.len() {
            if !self.next_block()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// Damage, which includes content that ends before, or IO.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&[u8], CheckpointError> {
        if length > self.block.len() - self.at {
            return self.take_spanning(length);
        }
        self.at += length;
        Ok(&self.block[self.at - length..self.at])
    }

    /// Takes the next bytes of a fixed number.
    ///
    /// # Errors
    /// As [`FileReader::take`].
    #[inline]
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], CheckpointError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Takes a number that [`FileWriter::write_number`](super::FileWriter::write_number) wrote.
    ///
    /// # Errors
    /// As [`FileReader::take`].
    #[inline]
    pub fn take_number(&mut self) -> Result<u64, CheckpointError> {
        // Most numbers do not span blocks.
        let ahead = self.block[self.at..].first_chunk::<LONGEST_NUMBER>();
        if let Some((number, length)) = ahead.and_then(number_of) {
            self.at += length;
            return Ok(number);
        }
        self.take_number_bytewise()
    }

    #[cold]
    fn take_number_bytewise(&mut self) -> Result<u64, CheckpointError> {
        let mut bytes = [0; LONGEST_NUMBER];
        for byte in &mut bytes {
            [*byte] = self.take_array()?;
            if *byte < 0x80 {
                break;
            }
        }
        let number = number_of(&bytes).map(|(number, _)| number);
        number.ok_or_else(|| self.damaged("a number has more than 64 bits"))
    }

    /// Takes a number that must fit its type.
    ///
    /// # Errors
    /// As [`FileReader::take`]; also if it does not fit.
    #[inline]
    pub fn take_small<T: TryFrom<u64>>(&mut self) -> Result<T, CheckpointError> {
        let number = self.take_number()?;
        T::try_from(number).map_err(|_| self.damaged(format!("{number} is too large here")))
    }

    /// Takes an id that [`FileWriter::write_id`](super::FileWriter::write_id) wrote.
    ///
    /// # Errors
    /// As [`FileReader::take`].
    #[inline]
    pub fn take_id(&mut self) -> Result<TermId, CheckpointError> {
        let number = self.take_number()?;
        Ok(TermId::from_raw(number.rotate_right(ID_ROTATION)))
    }

    /// Takes a text that [`FileWriter::write_text`](super::FileWriter::write_text) wrote.
    ///
    /// # Errors
    /// As [`FileReader::take`]; also if it is no UTF-8.
    pub fn take_text(&mut self) -> Result<&str, CheckpointError> {
        let length: usize = self.take_small()?;
        let spans = length > self.block.len() - self.at;
        self.take(length)?;
        let bytes = match spans {
            true => &self.spanning[..],
            false => &self.block[self.at - length..self.at],
        };
        std::str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    /// Reads the next block and checks it, and passes over its content. `false` at the end, when
    /// the file has been checked as a whole.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn pass_block(&mut self) -> Result<bool, CheckpointError> {
        self.next_block()
    }

    /// Reads what is left, and returns the length and the checksum of the whole file.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn finish(mut self) -> Result<FileSummary, CheckpointError> {
        while self.next_block()? {}
        Ok(self.summary)
    }

    #[cold]
    fn take_spanning(&mut self, length: usize) -> Result<&[u8], CheckpointError> {
        self.spanning.clear();
        while self.spanning.len() < length {
            if self.is_at_end()? {
                return Err(self.damaged("its content ends too early"));
            }
            let wanted = length - self.spanning.len();
            let end = self.block.len().min(self.at + wanted);
            self.spanning.extend_from_slice(&self.block[self.at..end]);
            self.at = end;
        }
        Ok(&self.spanning)
    }

    /// Reads the next block and checks it; `false` at the end.
    fn next_block(&mut self) -> Result<bool, CheckpointError> {
        if self.is_ended {
            return Ok(false);
        }
        let start = self.summary.length;
        let mut frame = [0; FRAME_BYTES];
        self.read_exact(&mut frame)?;
        let (length, checksum) = (u32_at(&frame, 0), u32_at(&frame, 4));
        if length as usize > BLOCK_BYTES {
            let what = format!("a block claims {length} bytes");
            return Err(CheckpointError::damaged(&self.place, start, what));
        }
        let mut block = std::mem::take(&mut self.block);
        self.at = 0;
        block.resize(
            if length == 0 {
                TRAILER_BYTES
            } else {
                length as usize
            },
            0,
        );
        self.read_exact(&mut block)?;
        if block_checksum(self.header_checksum, self.blocks, length, &block) != checksum {
            let what = "a block does not match its checksum";
            return Err(CheckpointError::damaged(&self.place, start, what));
        }
        if length > 0 {
            self.blocks += 1;
            self.content += u64::from(length);
            self.block = block;
            return Ok(true);
        }
        self.is_ended = true;
        if (u64_at(&block, 0), u64_at(&block, 8)) != (self.blocks, self.content) {
            return Err(self.damaged("its trailer counts other blocks"));
        }
        self.check_end()?;
        Ok(false)
    }

    /// Nothing follows a trailer, and the file is the one that was expected.
    fn check_end(&mut self) -> Result<(), CheckpointError> {
        let read = io::copy(&mut self.source.by_ref().take(1), &mut io::sink());
        match read.map_err(|error| CheckpointError::io("read", &self.place, &error))? {
            0 => {}
            _ => return Err(self.damaged("bytes follow its end")),
        }
        if self
            .expected
            .is_some_and(|expected| expected != self.summary)
        {
            return Err(CheckpointError::foreign(
                &self.place,
                "it is whole, but its length or checksum is not the one in the manifest",
            ));
        }
        Ok(())
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), CheckpointError> {
        read_exact(&mut *self.source, &self.place, &mut self.summary, bytes)
    }
}

/// The number at the start of these bytes, and its length; `None` if it has more than 64 bits.
#[inline]
fn number_of(bytes: &[u8; LONGEST_NUMBER]) -> Option<(u64, usize)> {
    let (eight, _) = bytes.split_first_chunk()?;
    let eight = u64::from_le_bytes(*eight);
    // The last byte of a number has no upper bit.
    let ends = !eight & 0x8080_8080_8080_8080;
    if ends == 0 {
        return long_number_of(bytes);
    }
    let last = ends.trailing_zeros();
    // Seven bits of each byte, then fourteen of two, then twenty-eight of four.
    let bits = eight & (u64::MAX >> (63 - last)) & 0x7f7f_7f7f_7f7f_7f7f;
    let bits = bits & 0x007f_007f_007f_007f | (bits & 0x7f00_7f00_7f00_7f00) >> 1;
    let bits = bits & 0x0000_3fff_0000_3fff | (bits & 0x3fff_0000_3fff_0000) >> 2;
    let bits = bits & 0x0000_0000_0fff_ffff | (bits & 0x0fff_ffff_0000_0000) >> 4;
    Some((bits, (last / 8 + 1) as usize))
}

/// The same, byte by byte.
#[cold]
fn long_number_of(bytes: &[u8; LONGEST_NUMBER]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            let fits = at + 1 < LONGEST_NUMBER || *byte <= 1;
            return fits.then_some((number, at + 1));
        }
    }
    None
}

fn read_exact(
    source: &mut dyn Read,
    place: &str,
    summary: &mut FileSummary,
    bytes: &mut [u8],
) -> Result<(), CheckpointError> {
    source
        .read_exact(bytes)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                CheckpointError::damaged(place, summary.length, "the file ends too early")
            }
            _ => CheckpointError::io("read", place, &error),
        })?;
    summary.add(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_byte_by_byte(mut bytes: [u8; LONGEST_NUMBER], length in 0usize..11) {
            for (at, byte) in bytes.iter_mut().enumerate() {
                match at + 1 == length {
                    true => *byte &= 0x7f,
                    false if at < length => *byte |= 0x80,
                    false => {}
                }
            }
            prop_assert_eq!(number_of(&bytes), long_number_of(&bytes));
        }
    }
}
