//! The proof file: how much of the log was durable, and where the log begins, kept in a second
//! place beside the segments.
//!
//! ```text
//! proof := magic "SOMERPRF" | version u32 | closed u32 | segment u64 | length u64
//!          durable u64 | oldest u64 | identity 16 bytes | incarnation u64 | crc32c u32
//! ```
//! It proves this and no more: when it was written, a sync had returned for the first `length`
//! bytes of segment `segment`, and for all records through `durable`; segments before `oldest` are
//! no part of the log any more. At its end the log only grows, so a log that reads back fewer
//! records has lost some of them. `closed` says that the log was closed in order at that length.
//! Records behind `durable` may have been acknowledged too: the proof is a lower bound, which
//! follows the log at every opening and every new segment, after every
//! [`crate::LogOptions::proof_groups`] groups, when the log has been idle for
//! [`crate::LogOptions::idle_proof`], and when it is closed. It never costs a sync for each group.
//!
//! Before changing anything here: the file is written under another name, synced, and then takes
//! the place of the one before, so a crash leaves one of the two whole. A proof that does not read
//! back is therefore damage. Logs of before this file have none, and open without it; in version 1
//! it ends with `durable`.

use crate::error::LogError;
use crate::file::{place, read_file};
use crate::identity::Origin;
use crate::record::Position;
use crate::segment::{u32_at, u64_at};
use parking_lot::Mutex;
use somersault_disk::{Disk, NameTaken, write_whole};
use std::sync::Arc;

pub(crate) const PROOF_FILE: &str = "log.proof";
const MAGIC: [u8; 8] = *b"SOMERPRF";
const VERSION: u32 = 2;
const BYTES: usize = 76;
/// The length in version 1.
const FIRST_BYTES: usize = 44;

/// A lower bound of what the log holds; the file header says what it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) segment: u64,
    pub(crate) length: u64,
    pub(crate) durable: Position,
    pub(crate) closed: bool,
    /// The number of the oldest segment that belongs to the log; 1 in version 1.
    pub(crate) oldest: u64,
    /// The log, and the opening that wrote the proof; `None` in version 1.
    pub(crate) origin: Option<Origin>,
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
        let is_proof = bytes.len() >= 12 && bytes[..8] == MAGIC;
        let version = if is_proof { u32_at(&bytes, 8) } else { 0 };
        if version > VERSION {
            let what = format!("it has version {version}");
            return Err(LogError::Newer {
                file,
                offset: 8,
                what,
            });
        }
        let expected = if version == VERSION {
            BYTES
        } else {
            FIRST_BYTES
        };
        let is_whole = version > 0
            && bytes.len() == expected
            && u32_at(&bytes, expected - 4) == crc32c::crc32c(&bytes[..expected - 4]);
        if !is_whole {
            return Err(LogError::DamagedProof { file });
        }
        let origin = (version == VERSION).then(|| {
            let mut origin = [0; Origin::BYTES];
            origin.copy_from_slice(&bytes[48..72]);
            Origin::of(&origin)
        });
        Ok(Some(Proof {
            closed: u32_at(&bytes, 12) != 0,
            segment: u64_at(&bytes, 16),
            length: u64_at(&bytes, 24),
            durable: Position(u64_at(&bytes, 32)),
            oldest: origin.map_or(1, |_| u64_at(&bytes, 40)),
            origin,
        }))
    }

    /// Takes the place of the proof before, durably.
    ///
    /// # Errors
    /// Those of the disk; one of the two proofs is there then.
    fn write(&self, disk: &dyn Disk) -> Result<(), LogError> {
        write_whole(disk, PROOF_FILE, &self.bytes(), NameTaken::Replace)
            .map_err(|error| LogError::io("write", &place(disk, PROOF_FILE), &error))
    }

    /// Only proofs of this version are written; they have an origin.
    pub(crate) fn bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.closed).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.oldest.to_le_bytes());
        if let Some(origin) = &self.origin {
            bytes[48..72].copy_from_slice(&origin.bytes());
        }
        let crc = crc32c::crc32c(&bytes[..72]);
        bytes[72..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The proof file of a log that is written. The committer moves its end, trimming its beginning.
pub(crate) struct ProofFile {
    disk: Arc<dyn Disk>,
    newest: Mutex<Proof>,
}

impl ProofFile {
    /// Writes the first proof of an opening.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn begin(disk: &Arc<dyn Disk>, proof: Proof) -> Result<ProofFile, LogError> {
        proof.write(&**disk)?;
        Ok(ProofFile {
            disk: Arc::clone(disk),
            newest: Mutex::new(proof),
        })
    }

    /// Writes down a new end, unless a later one was: these bytes of this segment and the records
    /// through `durable` are durable.
    ///
    /// # Errors
    /// Those of the disk; the proof before is there then.
    pub(crate) fn prove(
        &self,
        segment: u64,
        length: u64,
        durable: Position,
        closed: bool,
    ) -> Result<(), LogError> {
        let mut newest = self.newest.lock();
        if (segment, length) < (newest.segment, newest.length) {
            return Ok(());
        }
        let proof = Proof {
            segment,
            length,
            durable,
            closed,
            ..*newest
        };
        proof.write(&*self.disk)?;
        *newest = proof;
        Ok(())
    }

    /// Writes down that the log begins with segment `oldest`.
    ///
    /// # Errors
    /// Those of the disk; the proof before is there then.
    pub(crate) fn trim(&self, oldest: u64) -> Result<(), LogError> {
        let mut newest = self.newest.lock();
        let proof = Proof { oldest, ..*newest };
        proof.write(&*self.disk)?;
        *newest = proof;
        Ok(())
    }
}
