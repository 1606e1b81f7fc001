//! Writing a file in one pass, block by block.

use super::{
    BLOCK_BYTES, FRAME_BYTES, FileHeader, FileSummary, TRAILER_BYTES, block_checksum, id_number,
    place,
};
use crate::error::CheckpointError;
use somersault_disk::{Disk, DiskFile, NameTaken, create_unfinished, finish};
use somersault_model::TermId;
use std::io;

/// A file is synced after this number of bytes. A log on the same disk that syncs meanwhile waits
/// for what is being flushed, so that should never be much.
const SYNCED_BYTES: u64 = 4 << 20;

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
    /// Bytes that were written since the last sync.
    unsynced: u64,
    summary: FileSummary,
}

impl FileWriter {
    /// Creates the file that the header names.
    ///
    /// # Errors
    /// Those of the disk; also if the name is taken.
    pub fn create(disk: &dyn Disk, header: &FileHeader) -> Result<FileWriter, CheckpointError> {
        FileWriter::begin(disk, header, |disk, name| disk.create(name))
    }

    /// As [`FileWriter::create`], under another name until [`FileWriter::finish_as_named`].
    pub(crate) fn create_unfinished(
        disk: &dyn Disk,
        header: &FileHeader,
    ) -> Result<FileWriter, CheckpointError> {
        FileWriter::begin(disk, header, create_unfinished)
    }

    fn begin(
        disk: &dyn Disk,
        header: &FileHeader,
        create: impl FnOnce(&dyn Disk, &str) -> io::Result<Box<dyn DiskFile>>,
    ) -> Result<FileWriter, CheckpointError> {
        let name = header.name.to_string();
        let place = place(disk, &name);
        let created = create(disk, &name);
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
            unsynced: 0,
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

    /// The length of the file so far, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.summary.length + self.block.len() as u64
    }

    /// The file as messages name it.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The length of the content so far.
    #[must_use]
    pub fn content_length(&self) -> u64 {
        self.content + (self.block.len() - FRAME_BYTES) as u64
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
        self.end()?;
        self.sync()?;
        Ok(self.summary)
    }

    /// As [`FileWriter::finish`], for a file that [`FileWriter::create_unfinished`] made: gives it
    /// its name, durably.
    pub(crate) fn finish_as_named(mut self, disk: &dyn Disk) -> Result<(), CheckpointError> {
        self.end()?;
        let name = self.header.name.to_string();
        finish(disk, &name, self.file, NameTaken::Refuse)
            .map_err(|error| CheckpointError::io("finish", &self.place, &error))
    }

    /// Writes what is left, and the trailer.
    fn end(&mut self) -> Result<(), CheckpointError> {
        if self.block.len() > FRAME_BYTES {
            self.end_block()?;
        }
        let mut content = [0; TRAILER_BYTES];
        content[..8].copy_from_slice(&self.blocks.to_le_bytes());
        content[8..].copy_from_slice(&self.content.to_le_bytes());
        self.block.extend_from_slice(&content);
        self.frame(0);
        self.append_block()
    }

    fn sync(&mut self) -> Result<(), CheckpointError> {
        self.unsynced = 0;
        let synced = self.file.sync();
        synced.map_err(|error| CheckpointError::io("sync", &self.place, &error))
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
        self.unsynced += self.block.len() as u64;
        self.block.clear();
        self.block.resize(FRAME_BYTES, 0);
        match self.unsynced >= SYNCED_BYTES {
            true => self.sync(),
            false => Ok(()),
        }
    }
}
