//! The proof file: how much of the log was durable, kept in a second place beside the segments.
//!
//! ```text
//! proof := magic "SOMERPRF" | version u32 | closed u32 | segment u64 | length u64
//!          durable u64 | crc32c u32
//! ```
//! It proves this and no more: when it was written, a sync had returned for the first `length`
//! bytes of segment `segment`, and for all records through `durable`. The log only grows, so a log
//! that reads back fewer records has lost some of them. `closed` says that the log was closed in
//! order at that length. Records behind `durable` may have been acknowledged too: the proof is a
//! lower bound, which follows the log at every new segment, after every
//! [`crate::LogOptions::proof_groups`] groups, when the log has been idle for
//! [`crate::LogOptions::idle_proof`], and when it is closed. It never costs a sync for each group.
//!
//! Before changing anything here: the file is written under another name, synced, and then takes
//! the place of the one before, so a crash leaves one of the two whole. A proof that does not read
//! back is therefore damage. Logs of before this file have none, and open without it.

use crate::error::LogError;
use crate::file::{place, read_file};
use crate::record::Position;
use crate::segment::{u32_at, u64_at};
use somersault_disk::Disk;

pub(crate) const PROOF_FILE: &str = "log.proof";
const UNFINISHED: &str = "log.proof.tmp";
const MAGIC: [u8; 8] = *b"SOMERPRF";
const VERSION: u32 = 1;
const BYTES: usize = 44;

/// A lower bound of what the log holds; the file header says what it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) segment: u64,
    pub(crate) length: u64,
    pub(crate) durable: Position,
    pub(crate) closed: bool,
}

impl Proof {
    /// Reads the proof of a folder with these files; `None` if it has none.
    ///
    /// # Errors
    /// Damage, a newer version, or IO.
    pub(crate) fn read(disk: &dyn Disk, names: &[String]) -> Result<Option<Proof>, LogError> {
        if !names.iter().any(|name| name == PROOF_FILE) {
            return Ok(None);
        }
        let bytes = read_file(disk, PROOF_FILE, u64::MAX)?;
        let file = place(disk, PROOF_FILE);
        if bytes.len() >= 12 && bytes[..8] == MAGIC && u32_at(&bytes, 8) > VERSION {
            let what = format!("it has version {}", u32_at(&bytes, 8));
            return Err(LogError::Newer {
                file,
                offset: 8,
                what,
            });
        }
        let is_whole = bytes.len() == BYTES
            && bytes[..8] == MAGIC
            && u32_at(&bytes, BYTES - 4) == crc32c::crc32c(&bytes[..BYTES - 4]);
        if !is_whole {
            let what = "it does not read back, so how much the log must hold is not known";
            return Err(LogError::Damaged {
                file,
                offset: 0,
                what: what.to_owned(),
            });
        }
        Ok(Some(Proof {
            closed: u32_at(&bytes, 12) != 0,
            segment: u64_at(&bytes, 16),
            length: u64_at(&bytes, 24),
            durable: Position(u64_at(&bytes, 32)),
        }))
    }

    /// Takes the place of the proof before, durably.
    ///
    /// # Errors
    /// Those of the disk; one of the two proofs is there then.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let failed = |action| {
            let file = place(disk, PROOF_FILE);
            move |error| LogError::io(action, &file, &error)
        };
        let is_left = disk.list().map_err(failed("write"))?;
        if is_left.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED).map_err(failed("write"))?;
        }
        let mut file = disk.create(UNFINISHED).map_err(failed("write"))?;
        file.append(&self.bytes()).map_err(failed("write"))?;
        file.sync().map_err(failed("sync"))?;
        drop(file);
        disk.replace(UNFINISHED, PROOF_FILE)
            .map_err(failed("write"))?;
        disk.sync_folder().map_err(failed("sync the folder of"))
    }

    fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.closed).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.0.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..40]);
        bytes[40..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}
