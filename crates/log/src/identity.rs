//! The identity of a log, and of the opening in which a part of it was written.
//!
//! Before changing anything here: checksums of frames begin with both, so bytes of another log, or
//! of an earlier opening of this one, never read as a part of this one.

use std::fmt;

/// 16 random bytes that are made with a log and tell it from all others. They stand in each of its
/// segments and in its checkpoints.
///
/// ```
/// let identity = somersault_log::LogIdentity::new([0xab; 16]);
/// assert_eq!(identity.bytes(), [0xab; 16]);
/// assert_eq!(identity.to_string(), "ab".repeat(16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogIdentity([u8; 16]);

impl LogIdentity {
    /// The identity with these bytes.
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> LogIdentity {
        LogIdentity(bytes)
    }

    /// The bytes, as files hold them.
    #[must_use]
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The log that a file belongs to, and the opening in which it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) identity: LogIdentity,
    /// Counts the openings to write, from 1.
    pub(crate) incarnation: u64,
}

impl Origin {
    /// The length of [`Origin::bytes`].
    pub(crate) const BYTES: usize = 24;

    /// The bytes as headers hold them.
    pub(crate) fn bytes(&self) -> [u8; Origin::BYTES] {
        let mut bytes = [0; Origin::BYTES];
        bytes[..16].copy_from_slice(&self.identity.0);
        bytes[16..].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    /// Reads [`Origin::bytes`].
    pub(crate) fn of(bytes: &[u8; Origin::BYTES]) -> Origin {
        let (mut identity, mut incarnation) = ([0; 16], [0; 8]);
        identity.copy_from_slice(&bytes[..16]);
        incarnation.copy_from_slice(&bytes[16..]);
        Origin {
            identity: LogIdentity(identity),
            incarnation: u64::from_le_bytes(incarnation),
        }
    }

    /// The value that checksums of frames begin with.
    pub(crate) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.bytes())
    }
}
