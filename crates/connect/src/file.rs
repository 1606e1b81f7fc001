//! The file sink: answers are appended to a file as lines of JSON, with their keys.
//!
//! The one thing to know before changing it: an answer counts as delivered once its whole line is
//! durable. A line ends with its line break, so a reader that takes lines takes no half one. What a
//! crash has left behind the last whole line is cut off when the file is opened again. An answer
//! that is not after the file's last key is dropped only if its own key is there: a file of another
//! data folder must not swallow answers.

use crate::error::SinkError;
use crate::identity::is_at;
use crate::line::{AnswerKey, line};
use crate::sink::{Sink, SinkClass};
use crate::worker::StopSignal;
use somersault::FiringResult;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The part of the file that is read first when it is opened.
const TAIL_BYTES: u64 = 1 << 20;

/// Appends answers to a file. It is *transactional*: an answer and its key are one line.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    file: Option<File>,
    /// The key of the last line.
    last: Option<AnswerKey>,
    /// The newest answer that was acknowledged when the file was opened.
    acknowledged: Option<AnswerKey>,
    /// The answers after it that the file held then.
    repeats: BTreeSet<AnswerKey>,
}

impl FileSink {
    /// Returns a sink for this file, which is made when answers come.
    pub fn new(path: impl Into<PathBuf>) -> FileSink {
        FileSink {
            path: path.into(),
            file: None,
            last: None,
            acknowledged: None,
            repeats: BTreeSet::new(),
        }
    }

    fn failed(&self, source: io::Error) -> SinkError {
        SinkError::File {
            file: self.path.clone(),
            source,
        }
    }

    /// Appends the lines of these answers that are not there yet, and makes them durable.
    fn append(&mut self, answers: Vec<(AnswerKey, Vec<u8>)>) -> Result<(), SinkError> {
        let (mut lines, mut last) = (Vec::new(), self.last);
        for (key, line) in answers {
            if last.is_none_or(|last| last < key) {
                lines.extend(line);
                last = Some(key);
            } else if !self.has(key) {
                return Err(SinkError::OtherAnswers {
                    file: self.path.clone(),
                    key: format!("{}:{}", key.uid, key.close_ms),
                });
            }
        }
        let Some(file) = &mut self.file else {
            return Err(self.failed(io::Error::other("it is not open")));
        };
        let is_there = is_at(file, &self.path).and_then(|is_there| match is_there {
            true => Ok(()),
            false => Err(io::Error::other(
                "it was moved or removed, and is made again",
            )),
        });
        let written = is_there.and_then(|()| file.write_all(&lines));
        let written = written.and_then(|()| file.sync_data());
        if let Err(error) = written {
            // A part of the lines may be there: opening cuts it off, or finds its keys. A file
            // that was moved away gets nothing more.
            self.file = None;
            return Err(self.failed(error));
        }
        self.last = last;
        Ok(())
    }

    /// Whether an answer that comes again was delivered before.
    fn has(&self, key: AnswerKey) -> bool {
        self.acknowledged.is_some_and(|newest| key <= newest) || self.repeats.contains(&key)
    }
}

impl Sink for FileSink {
    fn class(&self) -> SinkClass {
        SinkClass::Transactional
    }

    fn open(&mut self, acknowledged: Option<AnswerKey>) -> Result<(), SinkError> {
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path);
        let mut file = opened.map_err(|error| self.failed(error))?;
        let synced = sync_parent(&self.path).and_then(|()| Tail::read(&mut file, acknowledged));
        let tail = synced.map_err(|error| self.failed(error))?;
        if let Some(line) = tail.foreign_line {
            return Err(SinkError::NotAnswers {
                file: self.path.clone(),
                line,
            });
        }
        let cut = file.set_len(tail.whole).and_then(|()| file.sync_all());
        cut.map_err(|error| self.failed(error))?;
        self.last = tail.last;
        self.acknowledged = acknowledged;
        self.repeats = tail.repeats;
        self.file = Some(file);
        Ok(())
    }

    fn deliver(
        &mut self,
        answers: &[Arc<FiringResult>],
        _stop: &StopSignal,
    ) -> Result<(), (usize, SinkError)> {
        let lines = answers
            .iter()
            .map(|answer| Ok((AnswerKey::of(answer), line(answer)?)));
        let lines = lines.collect::<Result<_, SinkError>>();
        let appended = lines.and_then(|lines| self.append(lines));
        appended.map_err(|error| (0, error))
    }
}

/// Makes the name of a new file durable.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// The end of a file of answers.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
    /// The length of the file up to the end of the last good line.
    whole: u64,
    last: Option<AnswerKey>,
    /// The answers that are not acknowledged.
    repeats: BTreeSet<AnswerKey>,
    /// The number of a line that is no answer and was there before the last acknowledgement.
    foreign_line: Option<usize>,
}

impl Tail {
    /// Reads back to an answer that is acknowledged: what lies before was durable by then, and what
    /// lies behind it may be damaged anywhere.
    fn read(file: &mut File, acknowledged: Option<AnswerKey>) -> io::Result<Tail> {
        let length = file.seek(SeekFrom::End(0))?;
        let mut from = length.saturating_sub(TAIL_BYTES);
        loop {
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            (&mut *file).take(length - from).read_to_end(&mut bytes)?;
            let begin = match from {
                0 => Some(0),
                _ => bytes
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map(|at| at + 1),
            };
            if let Some(begin) = begin
                && let Some(tail) = Tail::of(&bytes[begin..], from == 0, acknowledged)
            {
                return Ok(Tail {
                    whole: from + begin as u64 + tail.whole,
                    ..tail
                });
            }
            from = from.saturating_sub((length - from).max(TAIL_BYTES));
        }
    }

    /// The end of these lines; `None` if the file must be read from further back.
    fn of(bytes: &[u8], is_all: bool, acknowledged: Option<AnswerKey>) -> Option<Tail> {
        let mut tail = Tail {
            whole: 0,
            last: None,
            repeats: BTreeSet::new(),
            foreign_line: None,
        };
        for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let whole = line.strip_suffix(b"\n");
            let key = whole.and_then(AnswerKey::read);
            let Some(key) = key.filter(|key| tail.last.is_none_or(|last| last < *key)) else {
                let is_durable = whole.is_some() && tail.last < acknowledged;
                tail.foreign_line = (is_durable || (at == 0 && whole.is_some())).then_some(at + 1);
                break;
            };
            if !is_all && at == 0 && acknowledged.is_none_or(|acknowledged| key > acknowledged) {
                return None;
            }
            tail.whole += line.len() as u64;
            tail.last = Some(key);
            if acknowledged < tail.last {
                tail.repeats.insert(key);
            }
        }
        (is_all || tail.last.is_some() || tail.foreign_line.is_some()).then_some(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(close_ms: i64) -> AnswerKey {
        AnswerKey {
            uid: 3,
            sn: close_ms as u64 + 1,
            close_ms,
            ordinal: 0,
            revision: 0,
        }
    }

    fn text(close_ms: i64) -> String {
        let sn = close_ms + 1;
        format!(
            "{{\"uid\":3,\"sn\":{sn},\"close_ms\":{close_ms},\"ordinal\":0,\"revision\":0,\"results\":\"x\"}}\n"
        )
    }

    fn lines(of: impl IntoIterator<Item = i64>) -> Vec<u8> {
        of.into_iter().map(text).collect::<String>().into_bytes()
    }

    fn deliver(sink: &mut FileSink, closes_ms: &[i64]) -> Result<(), String> {
        let answers = closes_ms.iter();
        let answers = answers.map(|close_ms| (key(*close_ms), text(*close_ms).into_bytes()));
        let appended = sink.append(answers.collect());
        appended.map_err(|error| error.to_string())
    }

    fn closes_in(path: &Path) -> Vec<i64> {
        let text = std::fs::read(path).unwrap();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let keys = lines.map(|line| AnswerKey::read(line).unwrap());
        keys.map(|key| key.close_ms).collect()
    }

    /// A data folder that was begun again counts from the start, and its answers are new.
    #[test]
    fn a_file_with_later_answers_swallows_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers");
        let mut sink = FileSink::new(&path);
        sink.open(None).unwrap();
        deliver(&mut sink, &[10, 20, 30]).unwrap();
        // Repeats after a crash, and after an acknowledgement.
        for acknowledged in [None, Some(key(10)), Some(key(30))] {
            let mut sink = FileSink::new(&path);
            sink.open(acknowledged).unwrap();
            deliver(&mut sink, &[10, 20, 30]).unwrap();
        }
        assert_eq!(closes_in(&path), [10, 20, 30]);
        let mut sink = FileSink::new(&path);
        sink.open(None).unwrap();
        let refused = deliver(&mut sink, &[5, 40]).unwrap_err();
        assert!(refused.contains("another data folder"), "{refused}");
        assert_eq!(closes_in(&path), [10, 20, 30]);
        std::fs::remove_file(&path).unwrap();
        sink.open(None).unwrap();
        deliver(&mut sink, &[5, 40]).unwrap();
        assert_eq!(closes_in(&path), [5, 40]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_moved_or_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("answers"), folder.path().join("old"));
        let mut sink = FileSink::new(&path);
        sink.open(None).unwrap();
        deliver(&mut sink, &[1]).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let refused = deliver(&mut sink, &[2]).unwrap_err();
        assert!(refused.contains("moved or removed"), "{refused}");
        sink.open(Some(key(1))).unwrap();
        deliver(&mut sink, &[2]).unwrap();
        assert_eq!((closes_in(&moved), closes_in(&path)), (vec![1], vec![2]));
        std::fs::remove_file(&path).unwrap();
        deliver(&mut sink, &[3]).unwrap_err();
        sink.open(Some(key(2))).unwrap();
        deliver(&mut sink, &[3]).unwrap();
        assert_eq!(closes_in(&path), [3]);
    }

    fn read(bytes: &[u8], acknowledged: Option<AnswerKey>) -> Tail {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Tail::read(&mut file, acknowledged).unwrap()
    }

    #[test]
    fn what_a_crash_left_behind_the_last_whole_line_is_cut_off() {
        let whole = lines(0..5);
        for cut in 0..=whole.len() {
            let left = &whole[..cut];
            let tail = read(left, None);
            let count = left.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(tail.whole as usize, lines(0..count as i64).len());
            assert_eq!(
                tail.last,
                (count as i64).checked_sub(1).filter(|n| *n >= 0).map(key)
            );
            assert_eq!(tail.foreign_line, None);
        }
    }

    /// A crash of the machine may leave zeros where lines were written and not yet synced.
    #[test]
    fn lines_that_were_not_acknowledged_may_be_damaged_anywhere() {
        let mut bytes = lines(0..6);
        let third = lines(0..3).len();
        bytes[third + 2..third + 20].fill(0);
        let tail = read(&bytes, Some(key(2)));
        assert_eq!((tail.whole as usize, tail.last), (third, Some(key(2))));
        assert_eq!(tail.foreign_line, None);
        // The damage of a durable line is no crash.
        assert_eq!(read(&bytes, Some(key(4))).foreign_line, Some(4));
        assert_eq!(read(b"a list of things\n", None).foreign_line, Some(1));
    }

    #[test]
    fn a_long_file_is_read_from_its_end() {
        let count = 40_000;
        let mut bytes = lines(0..count);
        assert!(bytes.len() as u64 > 2 * TAIL_BYTES);
        let whole = bytes.len() as u64;
        bytes.extend_from_slice(b"{\"uid\":3,");
        for acknowledged in [None, Some(key(0)), Some(key(100)), Some(key(count - 2))] {
            let tail = read(&bytes, acknowledged);
            assert_eq!((tail.whole, tail.last), (whole, Some(key(count - 1))));
        }
    }
}
