//! Files of pieces: slices, and records of the coordinator, answers and transactions. A checkpoint
//! writes a piece once, and later ones name it in the file where it is.
//!
//! ```text
//! content := number of earlier files | (checkpoint, part)* | item*          (all numbers)
//! item    := 0 piece
//!          | number of an earlier file, from 1 | pieces passed over there
//! ```
//! The pieces of a file are those that stand in it, in their order. The items of a checkpoint name
//! the pieces of each earlier file in that order too, so that all files are read once, side by
//! side. Version 1 had neither earlier files nor items: its content is pieces.
//!
//! Before changing it: a piece is told from all others by its key, which its caller chooses. Equal
//! keys stand for equal bytes.

use crate::container::{FileReader, FileWriter};
use crate::error::CheckpointError;
use crate::manifest::{Coverage, ListedFile, Manifest, NewCheckpoint};
use crate::name::FileName;
use crate::records::{encoded, until_error};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use somersault_disk::Disk;
use std::collections::{BTreeMap, BTreeSet};

/// This many files of similar sizes become one.
const MERGED: usize = 8;
/// A file goes once its pieces that are still needed take less than this part of its content.
const LEAST_USED: u64 = 2;
/// Shorter records are written each time: naming them saves little.
const SHORT_RECORD: usize = 256;

/// The files of pieces that the newest checkpoint has, of one kind.
#[derive(Clone, Debug, Default)]
pub struct PieceRuns {
    /// Oldest first.
    files: Vec<PieceFile>,
}

#[derive(Clone, Debug)]
struct PieceFile {
    file: ListedFile,
    /// The length of its content.
    content: u64,
    /// Its pieces that have keys, in their order.
    pieces: Vec<KeyedPiece>,
    /// The bytes of those that the newest checkpoint has.
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct KeyedPiece {
    key: u128,
    /// Its number among all pieces of the file.
    number: u64,
    length: u64,
}

impl PieceFile {
    fn level(&self) -> u32 {
        self.used.max(1).ilog(MERGED as u64)
    }
}

impl PieceRuns {
    /// Forgets these files: their pieces are written again.
    pub fn forget(&mut self, files: &BTreeSet<FileName>) {
        self.files.retain(|file| !files.contains(&file.file.name));
    }

    /// The files that the next checkpoint may name: of those that are mostly needed, all but the
    /// newest ones, if these are enough of similar sizes to become one.
    fn offered(&self) -> Vec<PieceFile> {
        let is_needed = |file: &&PieceFile| file.used * LEAST_USED >= file.content;
        let mut files: Vec<PieceFile> = self.files.iter().filter(is_needed).cloned().collect();
        let newest = files.last().map_or(0, PieceFile::level);
        let similar = files.iter().rev();
        let similar = similar.take_while(|file| file.level() <= newest).count();
        if similar >= MERGED {
            files.truncate(files.len() - similar);
        }
        files.iter_mut().for_each(|file| file.used = 0);
        files
    }
}

/// Writes pieces, and names those that earlier files have.
pub struct PieceWriter {
    file: FileWriter,
    earlier: Vec<PieceFile>,
    /// By its key, the file of a piece and the piece's place among those with keys.
    places: BTreeMap<u128, (usize, usize)>,
    /// For each earlier file, the number of the piece behind the last one that was named.
    next: Vec<u64>,
    own: Vec<KeyedPiece>,
    count: u64,
}

impl PieceWriter {
    /// Pieces are the content of this file. `runs` are those of the checkpoint before.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn new(mut file: FileWriter, runs: &PieceRuns) -> Result<PieceWriter, CheckpointError> {
        let earlier = runs.offered();
        file.write_number(earlier.len() as u64)?;
        let mut places = BTreeMap::new();
        for (at, of) in earlier.iter().enumerate() {
            file.write_number(of.file.name.checkpoint)?;
            file.write_number(of.file.name.part.into())?;
            let pieces = of.pieces.iter().enumerate();
            places.extend(pieces.map(|(place, piece)| (piece.key, (at, place))));
        }
        Ok(PieceWriter {
            file,
            next: vec![0; earlier.len()],
            earlier,
            places,
            own: Vec::new(),
            count: 0,
        })
    }

    /// Adds a piece: names it if an earlier file has one of its key, and else has it written.
    /// Without a key it is always written.
    ///
    /// # Errors
    /// Those of the disk, and of `write`.
    pub fn push(
        &mut self,
        key: Option<u128>,
        write: impl FnOnce(&mut FileWriter) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        if let Some(key) = key
            && self.name_earlier(key)?
        {
            return Ok(());
        }
        self.file.write_number(0)?;
        let before = self.file.content_length();
        write(&mut self.file)?;
        let (length, number) = (self.file.content_length() - before, self.count);
        self.own.extend(key.map(|key| KeyedPiece {
            key,
            number,
            length,
        }));
        self.count += 1;
        Ok(())
    }

    /// Adds a value as a record, in postcard's encoding.
    ///
    /// # Errors
    /// Those of the disk, and of a value that postcard cannot write.
    pub fn push_value(&mut self, value: &impl Serialize) -> Result<(), CheckpointError> {
        let record = encoded(&self.file, value)?;
        self.push_record(&record)
    }

    /// Adds a record, by its content.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push_record(&mut self, record: &[u8]) -> Result<(), CheckpointError> {
        let key = (record.len() >= SHORT_RECORD).then(|| key_of(record));
        self.push(key, |file| {
            file.write_number(record.len() as u64)?;
            file.write(record)
        })
    }

    /// Names a piece of an earlier file, unless it stands before one that was named already.
    fn name_earlier(&mut self, key: u128) -> Result<bool, CheckpointError> {
        let Some(&(at, place)) = self.places.get(&key) else {
            return Ok(false);
        };
        let piece = self.earlier[at].pieces[place];
        let Some(passed) = piece.number.checked_sub(self.next[at]) else {
            return Ok(false);
        };
        self.file.write_number(at as u64 + 1)?;
        self.file.write_number(passed)?;
        self.next[at] = piece.number + 1;
        self.earlier[at].used += piece.length;
        Ok(true)
    }

    /// Finishes the file, and lists it and the earlier ones whose pieces it names. Returns the
    /// runs that there are once the checkpoint is committed.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(
        self,
        new: &mut NewCheckpoint<'_>,
        coverage: Coverage,
    ) -> Result<PieceRuns, CheckpointError> {
        let mut files = self.earlier;
        files.retain(|file| file.used > 0);
        files.iter().for_each(|file| new.carry_over(&file.file));
        let content = self.file.content_length();
        files.push(PieceFile {
            file: new.add(self.file, coverage)?,
            content,
            used: self.own.iter().map(|piece| piece.length).sum(),
            pieces: self.own,
        });
        Ok(PieceRuns { files })
    }
}

/// The key of a record: half of its SHA-256.
fn key_of(record: &[u8]) -> u128 {
    let digest: [u8; 32] = Sha256::digest(record).into();
    let (half, _) = digest.split_first_chunk().expect("16 of 32 bytes");
    u128::from_le_bytes(*half)
}

/// Reads the pieces of a checkpoint, in the order in which they were added.
pub struct PieceReader {
    own: PieceSource,
    /// The earlier files that the content lists; `None` for those that the manifest does not name,
    /// of which no piece is needed.
    earlier: Vec<Option<PieceSource>>,
}

/// One file that is being read.
struct PieceSource {
    file: FileReader,
    /// Whether its content has items: version 1 had pieces alone.
    has_items: bool,
    /// The names of earlier files, as their checkpoints and parts.
    table: Vec<(u64, u32)>,
}

enum Item {
    /// A piece follows.
    Own,
    /// A piece of an earlier file, and the number of those passed over.
    Earlier(usize, u64),
}

impl PieceSource {
    fn new(mut file: FileReader) -> Result<PieceSource, CheckpointError> {
        let header = file.header();
        let has_items = header.name.kind.names_earlier_pieces(header.version);
        let mut table = Vec::new();
        if has_items {
            for _ in 0..file.take_number()? {
                table.push((file.take_number()?, file.take_small()?));
            }
        }
        Ok(PieceSource {
            file,
            has_items,
            table,
        })
    }

    fn next_item(&mut self) -> Result<Option<Item>, CheckpointError> {
        if self.file.is_at_end()? {
            return Ok(None);
        }
        if !self.has_items {
            return Ok(Some(Item::Own));
        }
        let item = match self.file.take_small::<usize>()?.checked_sub(1) {
            None => Item::Own,
            Some(at) => Item::Earlier(at, self.file.take_number()?),
        };
        Ok(Some(item))
    }

    /// Reads the own piece behind this number of others.
    fn take_behind<T>(
        &mut self,
        mut passed: u64,
        read: impl Fn(&mut FileReader) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        loop {
            match self.next_item()? {
                None => return Err(self.file.damaged("it has fewer pieces than are named")),
                Some(Item::Earlier(..)) => {}
                Some(Item::Own) => {
                    let piece = read(&mut self.file)?;
                    match passed.checked_sub(1) {
                        None => return Ok(piece),
                        Some(left) => passed = left,
                    }
                }
            }
        }
    }
}

impl PieceReader {
    /// The pieces of this file of a checkpoint, and those of earlier files that it names.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn open(
        disk: &dyn Disk,
        manifest: &Manifest,
        file: &ListedFile,
    ) -> Result<PieceReader, CheckpointError> {
        let mut reader = PieceReader::alone(manifest.open(disk, file)?)?;
        for (checkpoint, part) in &reader.own.table {
            let kind = file.name.kind;
            let name = FileName {
                checkpoint: *checkpoint,
                kind,
                part: *part,
            };
            let mut others = manifest.files_of(kind).filter(|of| of.name != file.name);
            let earlier = others.find(|of| of.name == name);
            let opened = earlier.map(|of| PieceSource::new(manifest.open(disk, of)?));
            reader.earlier.push(opened.transpose()?);
        }
        Ok(reader)
    }

    /// The pieces of one file, which names none of others.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn alone(file: FileReader) -> Result<PieceReader, CheckpointError> {
        Ok(PieceReader {
            own: PieceSource::new(file)?,
            earlier: Vec::new(),
        })
    }

    /// Takes the next piece, which `read` takes from its file; `None` at the end, when all files
    /// have been checked as a whole.
    ///
    /// # Errors
    /// Damage, IO, or those of `read`.
    pub fn take<T>(
        &mut self,
        read: impl Fn(&mut FileReader) -> Result<T, CheckpointError>,
    ) -> Result<Option<T>, CheckpointError> {
        let (at, passed) = match self.own.next_item()? {
            None => {
                let mut earlier = self.earlier.drain(..).flatten();
                earlier.try_for_each(|of| of.file.finish().map(drop))?;
                return Ok(None);
            }
            Some(Item::Own) => return read(&mut self.own.file).map(Some),
            Some(Item::Earlier(at, passed)) => (at, passed),
        };
        match self.earlier.get_mut(at) {
            Some(Some(source)) => source.take_behind(passed, read).map(Some),
            _ => Err(self
                .own
                .file
                .damaged("it names a piece of an unlisted file")),
        }
    }

    /// The records that are left, as bytes. An error is the last item.
    pub fn into_record_bytes(mut self) -> impl Iterator<Item = Result<Vec<u8>, CheckpointError>> {
        until_error(move || self.take(take_record))
    }

    /// The records that are left, all of one type. An error is the last item.
    pub fn into_records<T: DeserializeOwned>(
        mut self,
    ) -> impl Iterator<Item = Result<T, CheckpointError>> {
        until_error(move || {
            let Some(bytes) = self.take(take_record)? else {
                return Ok(None);
            };
            match postcard::take_from_bytes(&bytes) {
                Ok((record, [])) => Ok(Some(record)),
                _ => Err(self.own.file.damaged("a record does not decode")),
            }
        })
    }
}

fn take_record(file: &mut FileReader) -> Result<Vec<u8>, CheckpointError> {
    let length = file.take_small()?;
    file.take(length).map(<[u8]>::to_vec)
}
