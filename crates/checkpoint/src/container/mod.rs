//! The container of every checkpoint file: a header, blocks of content, and a trailer.
//!
//! ```text
//! file    := header block* trailer                              (little endian)
//! header  := magic "SOMERCKP" | container version u32 | kind u32 | content version u32 | part u32
//!            checkpoint u64 | log identity 16 bytes | incarnation u64 | crc32c u32     (60 bytes)
//! block   := length u32 (1 to 1 MiB) | crc32c u32 | content
//! trailer := 0 u32 | crc32c u32 | number of blocks u64 | length of all content u64
//! ```
//! The checksum of a block covers the header's checksum, the block's number and its length too. So
//! a block is valid in one place of one file, and a file that was cut at a block's end is told from
//! a whole one by its trailer.
//!
//! Before changing anything here: readers hold one block at a time, whatever a length says, and
//! content is used only after the checksum of its block.

mod header;
mod reader;
mod writer;

pub use header::{FileHeader, LogOrigin};
pub use reader::FileReader;
pub use writer::FileWriter;

pub(crate) use header::HEADER_BYTES;

use somersault_disk::Disk;
use somersault_model::TermId;

/// The longest block.
const BLOCK_BYTES: usize = 1 << 20;
/// The length and the checksum before a block's content.
const FRAME_BYTES: usize = 8;
/// What a trailer has behind its frame.
const TRAILER_BYTES: usize = 16;

/// Ids are written with their upper bits last: tag, virtual shard and the mark of transient terms.
const ID_ROTATION: u32 = 17;

/// The number that stands for an id.
pub(crate) fn id_number(id: TermId) -> u64 {
    id.raw().rotate_left(ID_ROTATION)
}

/// The number of bytes that a number takes.
pub(crate) fn number_bytes(number: u64) -> u32 {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7)
}

/// The length and the checksum of a whole file, its header and trailer included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileSummary {
    /// The length in bytes.
    pub length: u64,
    /// The CRC-32C of all bytes.
    pub checksum: u32,
}

impl FileSummary {
    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
    }
}

/// The checksum of a block, or of a trailer, whose length is given as 0.
fn block_checksum(header: u32, number: u64, length: u32, content: &[u8]) -> u32 {
    let checksum = crc32c::crc32c(&header.to_le_bytes());
    let checksum = crc32c::crc32c_append(checksum, &number.to_le_bytes());
    let checksum = crc32c::crc32c_append(checksum, &length.to_le_bytes());
    crc32c::crc32c_append(checksum, content)
}

/// A file of the data folder as messages name it.
pub(crate) fn place(disk: &dyn Disk, name: &str) -> String {
    format!("{}/{name}", disk.describe())
}
