//! The names of checkpoint files: `checkpoint-0000000007-0002.terms` is the second further file of
//! its kind that checkpoint 7 wrote.
//!
//! Before changing it: files with other names are not touched by anything here, and the numbers of
//! kinds are written to disk.

use std::fmt;
use std::str::FromStr;

/// The kind of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum FileKind {
    /// The list of a checkpoint's files.
    Manifest = 1,
    /// Permanent terms that became known since the checkpoint before.
    Terms = 2,
    /// Terms that only timing statements mention.
    TransientTerms = 3,
    /// All lists of a range of virtual shards, or a stretch of them.
    Image = 4,
    /// The lists of a range of virtual shards that have changed, or a stretch of them.
    Delta = 5,
    /// Closed batches of streams.
    Slices = 6,
    /// The state of the coordinator.
    Core = 7,
    /// Answers that are kept.
    Answers = 8,
    /// Procedures and dataflows, and the state of the core of transactions.
    Transactions = 9,
}

impl FileKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [FileKind; 9] = [
        FileKind::Manifest,
        FileKind::Terms,
        FileKind::TransientTerms,
        FileKind::Image,
        FileKind::Delta,
        FileKind::Slices,
        FileKind::Core,
        FileKind::Answers,
        FileKind::Transactions,
    ];

    /// The number that headers and manifests show.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The kind with this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<FileKind> {
        FileKind::ALL
            .into_iter()
            .find(|kind| *kind as u32 == number)
    }

    /// The version of this kind's content that this build writes; it reads all up to this.
    #[must_use]
    pub const fn version(self) -> u32 {
        match self {
            // Version 1 had no times.
            FileKind::Manifest => 2,
            // Version 1 named no pieces of earlier files.
            FileKind::Slices | FileKind::Core | FileKind::Answers => 2,
            // In version 1 a single file holds them all.
            FileKind::Image | FileKind::Delta => 2,
            _ => 1,
        }
    }

    /// Whether content of this version names pieces of earlier files.
    pub(crate) const fn names_earlier_pieces(self, version: u32) -> bool {
        match self {
            FileKind::Slices | FileKind::Core | FileKind::Answers => version > 1,
            FileKind::Transactions => true,
            _ => false,
        }
    }

    fn extension(self) -> &'static str {
        match self {
            FileKind::Manifest => "manifest",
            FileKind::Terms => "terms",
            FileKind::TransientTerms => "transient",
            FileKind::Image => "image",
            FileKind::Delta => "delta",
            FileKind::Slices => "slices",
            FileKind::Core => "core",
            FileKind::Answers => "answers",
            FileKind::Transactions => "transactions",
        }
    }
}

/// The name of a checkpoint file. It tells the file apart from every other of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// The number of the checkpoint that wrote the file; later ones may name it too.
    pub checkpoint: u64,
    /// The kind of its content.
    pub kind: FileKind,
    /// Its number among the files of its kind, from 0.
    pub part: u32,
}

impl FileName {
    /// The name of a checkpoint's manifest.
    #[must_use]
    pub const fn manifest(checkpoint: u64) -> FileName {
        FileName {
            checkpoint,
            kind: FileKind::Manifest,
            part: 0,
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extension = self.kind.extension();
        write!(
            f,
            "checkpoint-{:010}-{:04}.{extension}",
            self.checkpoint, self.part
        )
    }
}

/// Fails for every other name.
impl FromStr for FileName {
    type Err = ();

    fn from_str(text: &str) -> Result<FileName, ()> {
        let rest = text.strip_prefix("checkpoint-").ok_or(())?;
        let (numbers, extension) = rest.split_once('.').ok_or(())?;
        let (checkpoint, part) = numbers.split_once('-').ok_or(())?;
        let mut kinds = FileKind::ALL.into_iter();
        let name = FileName {
            checkpoint: checkpoint.parse().map_err(|_| ())?,
            kind: (kinds.find(|kind| kind.extension() == extension)).ok_or(())?,
            part: part.parse().map_err(|_| ())?,
        };
        // One name has one spelling.
        if name.to_string() == text {
            Ok(name)
        } else {
            Err(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_not_taken() {
        for (number, kind) in (1..).zip(FileKind::ALL) {
            assert_eq!(kind.number(), number);
            assert_eq!(FileKind::of_number(number), Some(kind));
            for checkpoint in [0, 7, 99_999_999_999] {
                let part = 12_345;
                let name = FileName {
                    checkpoint,
                    kind,
                    part,
                };
                assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
        assert_eq!(
            FileName::manifest(7).to_string(),
            "checkpoint-0000000007-0000.manifest"
        );
        for other in [
            "checkpoint-7-0000.manifest",
            "checkpoint-0000000007-0000.manifest.tmp",
            "checkpoint-0000000007-0000.torn",
            "checkpoint-+000000007-0000.core",
            "log-0000000001.seg",
            "",
        ] {
            assert_eq!(other.parse::<FileName>(), Err(()), "{other}");
        }
    }
}
