//! The suite for files. A file that is stopped is moved away.

use crate::suite::{Broker, suite};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

struct Lines {
    folder: tempfile::TempDir,
    is_away: bool,
}

impl Lines {
    fn path(&self) -> PathBuf {
        let name = if self.is_away { "away" } else { "lines" };
        self.folder.path().join(name)
    }
}

impl Broker for Lines {
    fn start() -> Option<Lines> {
        let mut lines = Lines {
            folder: tempfile::tempdir().expect("a folder"),
            is_away: false,
        };
        lines.send(&[]);
        Some(lines)
    }

    fn origin(&self) -> String {
        format!("FILE (path = '{}')", self.path().display())
    }

    fn send(&mut self, messages: &[String]) {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.path());
        let mut file = file.expect("it can be written");
        for message in messages {
            file.write_all(message.as_bytes()).expect("written");
            file.write_all(b"\n").expect("written");
        }
    }

    fn stop(&mut self) {
        let before = self.path();
        self.is_away = true;
        std::fs::rename(before, self.path()).expect("renamed");
    }

    fn go_on(&mut self) {
        let before = self.path();
        self.is_away = false;
        std::fs::rename(before, self.path()).expect("renamed");
    }
}

suite!(Lines);
