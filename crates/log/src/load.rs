//! Load segments: statements loaded in bulk, as N-Quads compressed by zstd, in a file of their own
//! beside the log.
//!
//! A load segment is durable, in content and name, before the `Load` record that names it is
//! appended. Opening renames finished ones that no record names, and removes unfinished ones, which
//! no record can name. The SHA-256 is verified before the first statement is handed out.

use crate::error::LogError;
use crate::file::{free_name, place};
use crate::progress::{Counted, OpenProgress};
use crate::record::LoadSegment;
use oxrdf::{Quad, QuadRef};
use oxttl::NQuadsParser;
use oxttl::nquads::{LowLevelNQuadsSerializer, NQuadsSerializer};
use sha2::{Digest, Sha256};
use somersault_disk::{
    Disk, DiskFile, NameTaken, UNFINISHED, create_unfinished, finish, unfinished,
};
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

/// The ending that opening gives to a finished load segment that no record names.
const ORPHAN: &str = ".orphan";
/// zstd's fastest useful level: a load is bound by parsing, not by the disk.
const COMPRESSION_LEVEL: i32 = 1;
const BUFFER_BYTES: usize = 1 << 18;
/// Text of this length is compressed at once.
const PART_BYTES: usize = 1 << 20;

fn load_name(number: u64) -> String {
    format!("load-{number:010}.nq.zst")
}

/// The number in the name of a load segment: finished, unfinished, or set aside.
pub(crate) fn load_number(name: &str) -> Option<u64> {
    let number: u64 = name
        .strip_prefix("load-")?
        .split('.')
        .next()?
        .parse()
        .ok()?;
    let finished = load_name(number);
    let rest = name.strip_prefix(finished.as_str())?;
    ["", UNFINISHED, ORPHAN].contains(&rest).then_some(number)
}

/// Whether this is a load segment, finished or not, that was not set aside.
pub(crate) fn is_load_file(name: &str) -> bool {
    load_number(name).is_some() && !name.ends_with(ORPHAN)
}

/// Whether this is a load segment whose writing was not finished.
pub(crate) fn is_unfinished(name: &str) -> bool {
    is_load_file(name) && name.ends_with(UNFINISHED)
}

/// Gives another name to a finished load segment that no record names.
///
/// # Errors
/// Those of the disk.
pub(crate) fn set_orphan_aside(
    disk: &dyn Disk,
    names: &[String],
    name: &str,
) -> Result<(), LogError> {
    disk.rename(name, &free_name(names, name, ORPHAN))
        .map_err(|error| LogError::io("set aside", &place(disk, name), &error))
}

/// Writes a load segment. Dropping it unfinished removes the file.
///
/// The file is a row of zstd frames, one per [`LoadPart`], so that several threads can write and
/// compress parts; it reads as one stream.
pub struct LoadSegmentWriter {
    name: String,
    statements: u64,
    target: Target,
}

enum Target {
    /// Nowhere: the log is volatile.
    Nowhere,
    Disk(Box<DiskTarget>),
    Finished,
}

struct DiskTarget {
    disk: Arc<dyn Disk>,
    file: HashedFile,
    /// The statements written by [`LoadSegmentWriter::write`] since the last part.
    open: LoadPart,
}

/// A run of statements of a load segment that is not in it yet.
pub struct LoadPart {
    /// `None` for a volatile log: statements are only counted.
    lines: Option<(LowLevelNQuadsSerializer, Vec<u8>)>,
    statements: u64,
}

/// A part, compressed, ready to be appended to the file.
pub struct CompressedPart {
    frame: Vec<u8>,
    statements: u64,
}

impl LoadPart {
    fn new(is_kept: bool) -> LoadPart {
        let lines = is_kept.then(|| (NQuadsSerializer::new().low_level(), Vec::new()));
        LoadPart {
            lines,
            statements: 0,
        }
    }

    /// Another empty part of the same segment.
    pub fn another(&self) -> LoadPart {
        LoadPart::new(self.lines.is_some())
    }

    /// Adds a statement, with the graph that it will be stored in.
    ///
    /// # Errors
    /// None that is known: it is written to memory.
    pub fn write<'a>(&mut self, quad: impl Into<QuadRef<'a>>) -> Result<(), LogError> {
        if let Some((lines, text)) = &mut self.lines {
            lines
                .serialize_quad(quad, text)
                .map_err(|error| LogError::io("write", "a part of a load segment", &error))?;
        }
        self.statements += 1;
        Ok(())
    }

    /// Compresses the part and leaves an empty one in its place.
    ///
    /// # Errors
    /// If zstd fails.
    pub fn take_compressed(&mut self) -> Result<CompressedPart, LogError> {
        let mut frame = Vec::new();
        if let Some((_, text)) = &mut self.lines {
            frame = zstd::bulk::compress(text, COMPRESSION_LEVEL)
                .map_err(|error| LogError::io("compress", "a part of a load segment", &error))?;
            text.clear();
        }
        Ok(CompressedPart {
            frame,
            statements: std::mem::take(&mut self.statements),
        })
    }

    fn bytes(&self) -> usize {
        self.lines.as_ref().map_or(0, |(_, text)| text.len())
    }
}

impl LoadSegmentWriter {
    pub(crate) fn new(disk: Option<Arc<dyn Disk>>, number: u64) -> Result<Self, LogError> {
        let name = load_name(number);
        let target = match disk {
            None => Target::Nowhere,
            Some(disk) => {
                let failed = |error| LogError::io("create", &place(&*disk, &name), &error);
                let file = create_unfinished(&*disk, &name).map_err(failed)?;
                let file = HashedFile::new(file);
                Target::Disk(Box::new(DiskTarget {
                    disk,
                    file,
                    open: LoadPart::new(true),
                }))
            }
        };
        Ok(LoadSegmentWriter {
            name,
            statements: 0,
            target,
        })
    }

    /// Adds a statement, with the graph that it will be stored in.
    ///
    /// # Errors
    /// Those of the disk; the segment cannot be finished then.
    pub fn write<'a>(&mut self, quad: impl Into<QuadRef<'a>>) -> Result<(), LogError> {
        match &mut self.target {
            Target::Disk(target) => {
                target.open.write(quad)?;
                if target.open.bytes() >= PART_BYTES {
                    self.close_part()?;
                }
            }
            Target::Nowhere | Target::Finished => self.statements += 1,
        }
        Ok(())
    }

    /// An empty part of this segment, to be written elsewhere and given to
    /// [`LoadSegmentWriter::append`].
    pub fn part(&self) -> LoadPart {
        LoadPart::new(matches!(self.target, Target::Disk(_)))
    }

    /// Adds a part after all that was written so far.
    ///
    /// # Errors
    /// Those of the disk; the segment cannot be finished then.
    pub fn append(&mut self, part: &CompressedPart) -> Result<(), LogError> {
        self.close_part()?;
        self.append_frame(part)
    }

    /// Adds what was written since the last part.
    fn close_part(&mut self) -> Result<(), LogError> {
        if let Target::Disk(target) = &mut self.target
            && target.open.statements > 0
        {
            let part = target.open.take_compressed()?;
            self.append_frame(&part)?;
        }
        Ok(())
    }

    fn append_frame(&mut self, part: &CompressedPart) -> Result<(), LogError> {
        if let Target::Disk(target) = &mut self.target {
            let DiskTarget { disk, file, .. } = &mut **target;
            file.write_all(&part.frame)
                .map_err(|error| LogError::io("write", &place(&**disk, &self.name), &error))?;
        }
        self.statements += part.statements;
        Ok(())
    }

    /// Makes the segment durable, to be named by a `Load` record.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<LoadSegment, LogError> {
        self.close_part()?;
        if self.statements == 0 {
            // A file without any frame would not read as an empty one.
            let empty = self.part().take_compressed()?;
            self.append_frame(&empty)?;
        }
        let name = self.name.clone();
        let mut hash = [0; 32];
        if let Target::Disk(target) = std::mem::replace(&mut self.target, Target::Finished) {
            let DiskTarget { disk, file, .. } = *target;
            hash = file.finish(&*disk, &name).map_err(|error| {
                // The write's error is the one to report; the next start removes the leftover.
                let _ = disk.remove(&unfinished(&name));
                LogError::io("write", &place(&*disk, &name), &error)
            })?;
        }
        Ok(LoadSegment {
            name,
            hash,
            statements: self.statements,
        })
    }
}

impl Drop for LoadSegmentWriter {
    fn drop(&mut self) {
        if let Target::Disk(target) = std::mem::replace(&mut self.target, Target::Finished) {
            let disk = Arc::clone(&target.disk);
            drop(target);
            // Dropping cannot report an error; the next start removes the leftover.
            let _ = disk.remove(&unfinished(&self.name));
        }
    }
}

/// A file that hashes what is written to it.
struct HashedFile {
    file: Box<dyn DiskFile>,
    hash: Sha256,
    buffer: Vec<u8>,
}

impl HashedFile {
    fn new(file: Box<dyn DiskFile>) -> HashedFile {
        HashedFile {
            file,
            hash: Sha256::new(),
            buffer: Vec::with_capacity(BUFFER_BYTES),
        }
    }

    /// Gives the file this name, durably. Returns the hash of its content.
    fn finish(mut self, disk: &dyn Disk, name: &str) -> io::Result<[u8; 32]> {
        self.flush()?;
        finish(disk, name, self.file, NameTaken::Refuse)?;
        Ok(self.hash.finalize().into())
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// The text of a verified load segment: N-Quads.
pub type LoadSegmentText = zstd::Decoder<'static, BufReader<Box<dyn Read + Send>>>;

/// Opens a load segment once its hash has been verified.
pub(crate) fn segment_text(
    disk: &dyn Disk,
    segment: &LoadSegment,
    progress: &Arc<OpenProgress>,
) -> Result<LoadSegmentText, LogError> {
    let file = place(disk, &segment.name);
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound {
            let what = "the log says that it was loaded".to_owned();
            LogError::Missing {
                file: file.clone(),
                what,
            }
        } else {
            LogError::io("read", &file, &error)
        }
    };
    let mut hash = Sha256::new();
    let mut reader = disk.read(&segment.name).map_err(failed)?;
    let mut chunk = vec![0; BUFFER_BYTES];
    loop {
        match reader.read(&mut chunk).map_err(failed)? {
            0 => break,
            read => {
                hash.update(&chunk[..read]);
                progress.add(read);
            }
        }
    }
    if <[u8; 32]>::from(hash.finalize()) != segment.hash {
        let what = "its SHA-256 is not the one in the log".to_owned();
        return Err(LogError::Damaged {
            file,
            offset: 0,
            what,
        });
    }
    let reader: Box<dyn Read + Send> = Box::new(Counted {
        inner: disk.read(&segment.name).map_err(failed)?,
        progress: Arc::clone(progress),
    });
    zstd::Decoder::new(reader).map_err(failed)
}

/// The statements of a verified load segment.
pub struct LoadSegmentReader {
    file: String,
    quads: oxttl::nquads::ReaderNQuadsParser<LoadSegmentText>,
    left: u64,
    ended: bool,
}

impl LoadSegmentReader {
    pub(crate) fn new(
        disk: &dyn Disk,
        segment: &LoadSegment,
        progress: &Arc<OpenProgress>,
    ) -> Result<Self, LogError> {
        let text = segment_text(disk, segment, progress)?;
        Ok(LoadSegmentReader {
            file: place(disk, &segment.name),
            quads: NQuadsParser::new().lenient().for_reader(text),
            left: segment.statements,
            ended: false,
        })
    }

    fn wrong(&self, message: String) -> LogError {
        LogError::Segment {
            file: self.file.clone(),
            message,
        }
    }
}

impl Iterator for LoadSegmentReader {
    type Item = Result<Quad, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match self.quads.next() {
            Some(Ok(_)) if self.left == 0 => Some(Err(
                self.wrong("it holds more statements than the log says".to_owned())
            )),
            Some(Ok(quad)) => {
                self.left -= 1;
                Some(Ok(quad))
            }
            Some(Err(error)) => Some(Err(self.wrong(error.to_string()))),
            None if self.left > 0 => Some(Err(
                self.wrong(format!("{} statements are missing at its end", self.left))
            )),
            None => None,
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
