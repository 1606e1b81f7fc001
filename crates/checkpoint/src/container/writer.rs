//! Writing a file in one pass, block by block.

use super::{
    BLOCK_BYTES, FRAME_BYTES, FileHeader, FileSummary, TRAILER_BYTES, block_checksum, id_number,
    place,
};
use crate::error::CheckpointError;
use somersault_disk::{Disk, DiskFile};
use somersault_model::TermId;

/// A checkpoint file that is being written. It holds one block in memory.
///
/// A failure leaves an unfinished file behind, which no manifest names.
pub struct FileWriter {
    file: Box<dyn DiskFile>,
    place: String,
    header: FileHeader,
    header_checksum: u32,
    /// Room for the frame, then content.
    block: Vec<u8>,
    blocks: u64,
    content: u64,
    summary: FileSummary,
}

impl FileWriter {
    /// Creates the file that the header names.
    ///
    /// # Errors
    /// Those of the disk; also if the name is taken.
    pub fn create(disk: &dyn Disk, header: &FileHeader) -> Result<FileWriter, CheckpointError> {
        FileWriter::create_as(disk, &header.name.to_string(), header)
    }

    /// As [`FileWriter::create`], under another name for now.
    pub(crate) fn create_as(
        disk: &dyn Disk,
        name: &str,
        header: &FileHeader,
    ) -> Result<FileWriter, CheckpointError> {
        let place = place(disk, name);
        let created = disk.create(name);
        let file = created.map_err(|error| CheckpointError::io("create", &place, &error))?;
        let (bytes, header_checksum) = header.bytes();
        let mut writer = FileWriter {
            file,
            place,
            header: *header,
            header_checksum,
            block: Vec::with_capacity(FRAME_BYTES + BLOCK_BYTES),
            blocks: 0,
            content: 0,
            summary: FileSummary::default(),
        };
        writer.block.extend_from_slice(&bytes);
        writer.append_block()?;
        Ok(writer)
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The file as messages name it.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Adds content.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), CheckpointError> {
        loop {
            let room = FRAME_BYTES + BLOCK_BYTES - self.block.len();
            if bytes.len() < room {
                self.block.extend_from_slice(bytes);
                return Ok(());
            }
            let (now, later) = bytes.split_at(room);
            self.block.extend_from_slice(now);
            self.end_block()?;
            bytes = later;
        }
    }

    /// Adds a number: seven bits a byte, the lowest first; the upper bit says that more follow.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write_number(&mut self, mut number: u64) -> Result<(), CheckpointError> {
        let mut bytes = [0; 10];
        let mut length = 0;
        while number >= 0x80 {
            bytes[length] = number as u8 | 0x80;
            number >>= 7;
            length += 1;
        }
        bytes[length] = number as u8;
        self.write(&bytes[..=length])
    }

    /// Adds an id, as a number: few bytes if its sequence or inline value is small.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write_id(&mut self, id: TermId) -> Result<(), CheckpointError> {
        self.write_number(id_number(id))
    }

    /// Adds a text: its length as a number, then its bytes.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write_text(&mut self, text: &str) -> Result<(), CheckpointError> {
        self.write_number(text.len() as u64)?;
        self.write(text.as_bytes())
    }

    /// Writes what is left and the trailer, and makes the content durable; the name becomes durable
    /// with the folder.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<FileSummary, CheckpointError> {
        if self.block.len() > FRAME_BYTES {
            self.end_block()?;
        }
        let mut content = [0; TRAILER_BYTES];
        content[..8].copy_from_slice(&self.blocks.to_le_bytes());
        content[8..].copy_from_slice(&self.content.to_le_bytes());
        self.block.extend_from_slice(&content);
        self.frame(0);
        self.append_block()?;
        let synced = self.file.sync();
        synced.map_err(|error| CheckpointError::io("sync", &self.place, &error))?;
        Ok(self.summary)
    }

    fn end_block(&mut self) -> Result<(), CheckpointError> {
        let length = self.block.len() - FRAME_BYTES;
        self.frame(length as u32);
        self.append_block()?;
        self.blocks += 1;
        self.content += length as u64;
        Ok(())
    }

    /// Writes the frame of the block that is held.
    fn frame(&mut self, length: u32) {
        let content = &self.block[FRAME_BYTES..];
        let checksum = block_checksum(self.header_checksum, self.blocks, length, content);
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.block[4..FRAME_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Appends what is held to the file, and leaves room for the next frame.
    fn append_block(&mut self) -> Result<(), CheckpointError> {
        let appended = self.file.append(&self.block);
        appended.map_err(|error| CheckpointError::io("write", &self.place, &error))?;
        self.summary.add(&self.block);
        self.block.clear();
        self.block.resize(FRAME_BYTES, 0);
        Ok(())
    }
}
