//! A file that grows, is rotated, cut and replaced, while it is followed and between two starts.

use super::*;
use crate::source::MessageBody;
use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::Write as _;

/// A stream that takes everything, and a note.
#[derive(Default)]
struct Book {
    taken: RefCell<Option<u64>>,
    note: RefCell<Option<Value>>,
}

impl Ledger for Book {
    fn position(&self, _partition: &str) -> Result<Option<u64>, SourceError> {
        Ok(*self.taken.borrow())
    }

    fn note(&self) -> Option<Value> {
        self.note.borrow().clone()
    }

    fn keep(&self, note: Value) -> Result<(), SourceError> {
        *self.note.borrow_mut() = Some(note);
        Ok(())
    }
}

struct World {
    folder: tempfile::TempDir,
    book: Book,
    source: TailSource,
    stop: StopSignal,
}

impl World {
    fn new(start: TailStart, text: &str) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        fs::write(&path, text).expect("written");
        let mut world = World {
            source: TailSource::new("s", path, start),
            folder,
            book: Book::default(),
            stop: StopSignal::default(),
        };
        world.start();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As after a crash: the source knows nothing, the book is there.
    fn start(&mut self) {
        let path = self.path("log");
        self.source = TailSource::new("s", path, self.source.start);
        self.source.open(&self.book, &self.stop).expect("it opens");
    }

    fn append(&self, name: &str, text: &str) {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.path(name));
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.expect("written");
    }

    fn rotate(&self) {
        fs::rename(self.path("log"), self.path("log.1")).expect("renamed");
        self.append("log", "");
    }

    /// The next messages, until none comes; the stream takes them, if `takes`.
    fn read(&mut self, takes: bool) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        // A rotation is seen at one look, and followed at the next.
        let mut quiet = 0;
        while quiet < 2 {
            let next = self.source.next(&self.book, &self.stop);
            let Some(portion) = next.expect("it is readable") else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            assert!(portion.partition.starts_with("s/"), "{}", portion.partition);
            for message in portion.messages {
                let MessageBody::Whole(bytes) = message.body else {
                    panic!("no line is that long");
                };
                all.push((message.position, String::from_utf8(bytes).expect("text")));
                if takes {
                    *self.book.taken.borrow_mut() = Some(message.position);
                }
            }
        }
        all
    }

    #[track_caller]
    fn brings(&mut self, expected: &[(u64, &str)]) {
        let read = self.read(true);
        let read: Vec<(u64, &str)> = read.iter().map(|(at, line)| (*at, line.as_str())).collect();
        assert_eq!(read, expected);
    }
}

#[test]
fn lines_come_when_they_are_whole_with_the_position_behind_them() {
    let mut world = World::new(TailStart::Begin, "a\nbb\n# no message\n\nc");
    world.brings(&[(2, "a"), (5, "bb")]);
    world.append("log", "c\r\n");
    world.brings(&[(23, "cc")]);
    assert_eq!(world.source.lag(), Some(0));
}

#[test]
fn a_start_goes_on_behind_what_the_stream_has_taken() {
    let mut world = World::new(TailStart::Begin, "a\nb\n");
    world.brings(&[(2, "a"), (4, "b")]);
    world.append("log", "c\n");
    world.read(false);
    world.start();
    world.brings(&[(6, "c")]);
}

#[test]
fn a_file_is_followed_from_its_end() {
    let mut world = World::new(TailStart::End, "old\n");
    world.brings(&[]);
    world.start();
    world.append("log", "new\n");
    world.start();
    world.brings(&[(8, "new")]);
}

#[test]
fn a_rotated_file_is_read_to_its_end_before_the_next() {
    let mut world = World::new(TailStart::Begin, "a\n");
    world.brings(&[(2, "a")]);
    world.rotate();
    world.append("log.1", "late\n");
    world.append("log", "b\n");
    world.brings(&[(7, "late"), (9, "b")]);
    // Half a line at the end of a file that is replaced is a line.
    world.append("log", "half");
    world.rotate();
    world.append("log", "c\n");
    world.brings(&[(13, "half"), (15, "c")]);
}

#[test]
fn a_file_that_was_rotated_meanwhile_is_found_by_its_number() {
    let mut world = World::new(TailStart::Begin, "a\n");
    world.brings(&[(2, "a")]);
    world.append("log", "b\n");
    world.rotate();
    world.append("log", "c\n");
    world.start();
    world.brings(&[(4, "b"), (6, "c")]);
    world.start();
    world.brings(&[]);
}

#[test]
fn a_file_that_is_gone_is_followed_by_the_next_one() {
    let mut world = World::new(TailStart::Begin, "a\n");
    world.brings(&[(2, "a")]);
    fs::remove_file(world.path("log")).expect("removed");
    // Its number may be that of the removed one; its first bytes are not.
    world.append("log", "other\nlines\n");
    world.start();
    world.brings(&[(8, "other"), (14, "lines")]);
}

#[test]
fn a_file_that_is_cut_begins_again() {
    let mut world = World::new(TailStart::Begin, "a\nb\n");
    world.brings(&[(2, "a"), (4, "b")]);
    fs::write(world.path("log"), "c\n").expect("cut and written");
    world.brings(&[(6, "c")]);
    fs::write(world.path("log"), "").expect("cut");
    world.start();
    world.append("log", "d\n");
    world.brings(&[(8, "d")]);
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_passes() {
    let world = World::new(TailStart::Begin, "a\n");
    fs::remove_file(world.path("log")).expect("removed");
    let mut source = TailSource::new("s", world.path("log"), TailStart::Begin);
    let refused = source.open(&Book::default(), &world.stop);
    assert!(matches!(refused, Err(SourceError::File { .. })));
    world.append("log", "b\n");
    source.open(&world.book, &world.stop).expect("it is there");
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let begin = FileBegin {
        identity: FileIdentity {
            device: 3,
            number: u64::MAX,
        },
        head: vec![0, 255, 10],
        base: 7,
        first: 9,
    };
    assert_eq!(FileBegin::of_json(&begin.to_json()), Some(begin));
    assert_eq!(FileBegin::of_json(&json!({ "base": 3 })), None);
}
