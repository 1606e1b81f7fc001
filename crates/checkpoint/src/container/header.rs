//! The header of a file: what it is, and which checkpoint of which log wrote it.

use crate::error::CheckpointError;
use crate::name::{FileKind, FileName};

const MAGIC: [u8; 8] = *b"SOMERCKP";
const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 60;

/// The log that a checkpoint belongs to, and the opening of it that wrote the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogOrigin {
    /// The identity of the log, chosen when it was created.
    pub log: [u8; 16],
    /// The number of times that the log had been opened to write.
    pub incarnation: u64,
}

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The name that the file was given.
    pub name: FileName,
    /// The version of its content.
    pub version: u32,
    /// The log that it belongs to.
    pub origin: LogOrigin,
}

impl FileHeader {
    /// The header of a new file, with the newest version of its kind.
    #[must_use]
    pub fn new(name: FileName, origin: LogOrigin) -> FileHeader {
        FileHeader {
            name,
            version: name.kind.version(),
            origin,
        }
    }

    /// The bytes of the header, and its checksum, which is the last four of them.
    pub(super) fn bytes(&self) -> ([u8; HEADER_BYTES], u32) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.name.kind.number().to_le_bytes());
        bytes[16..20].copy_from_slice(&self.version.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.name.part.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.name.checkpoint.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.origin.log);
        bytes[48..56].copy_from_slice(&self.origin.incarnation.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        (bytes, checksum)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Damage, or a version that this build does not know.
    pub(super) fn read(
        file: &str,
        bytes: &[u8; HEADER_BYTES],
    ) -> Result<(FileHeader, u32), CheckpointError> {
        let newer = |what: String| CheckpointError::Newer {
            file: file.to_owned(),
            what,
        };
        let damaged = |what: &str| CheckpointError::damaged(file, 0, what);
        if bytes[..8] != MAGIC {
            return Err(damaged("it does not begin like a checkpoint file"));
        }
        let (version, checksum) = (u32_at(bytes, 8), u32_at(bytes, 56));
        if checksum != crc32c::crc32c(&bytes[..56]) {
            return Err(damaged("its header does not match its checksum"));
        }
        if version != VERSION {
            let what = format!("it has container version {version}, this build reads {VERSION}");
            return Err(newer(what));
        }
        let number = u32_at(bytes, 12);
        let Some(kind) = FileKind::of_number(number) else {
            return Err(newer(format!("it is a file of kind {number}")));
        };
        let header = FileHeader {
            name: FileName {
                checkpoint: u64_at(bytes, 24),
                kind,
                part: u32_at(bytes, 20),
            },
            version: u32_at(bytes, 16),
            origin: LogOrigin {
                log: std::array::from_fn(|at| bytes[32 + at]),
                incarnation: u64_at(bytes, 48),
            },
        };
        match header.version {
            0 => Err(damaged("its content has version 0")),
            known if known <= kind.version() => Ok((header, checksum)),
            newest => Err(newer(format!("its content has version {newest}"))),
        }
    }
}

/// The number at this place.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// The number at this place.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}
