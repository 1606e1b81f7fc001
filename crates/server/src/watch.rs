//! Files that a running server reads again when they change: tokens, certificates, keys.
//!
//! The one thing to know before changing it: a file that cannot be read or understood changes
//! nothing. What was read before stays in force, and the trouble is reported until it is over. It
//! is tried again at each look, because a file may be caught while it is being written.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// What tells one state of a file from another: its time and size; `None` = it is not there.
type Stamp = Option<(SystemTime, u64)>;

/// The files, and what was found at the last look.
#[derive(Debug)]
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    stamps: Vec<Stamp>,
    looked: Instant,
    /// Which earlier state stays in force while the files cannot be used, as a sentence.
    remains: &'static str,
    trouble: Option<String>,
}

impl Watch {
    /// Begins before the files are read for the first time, so that no change is missed.
    pub(crate) fn new(paths: Vec<PathBuf>, remains: &'static str) -> Watch {
        Watch {
            stamps: stamps(&paths),
            looked: Instant::now(),
            paths,
            remains,
            trouble: None,
        }
    }

    /// Reads the files if they have changed, at most once a second. Returns what was read.
    pub(crate) fn look<T, E: Display>(&mut self, read: impl FnOnce() -> Result<T, E>) -> Option<T> {
        if self.looked.elapsed() < PAUSE {
            return None;
        }
        self.looked = Instant::now();
        let is_new = self.trouble.is_some() || stamps(&self.paths) != self.stamps;
        is_new.then(|| self.read_again(read)).flatten()
    }

    /// Reads the files whether they have changed or not. Returns what was read.
    pub(crate) fn read_again<T, E: Display>(
        &mut self,
        read: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let stamps = stamps(&self.paths);
        match read() {
            Ok(found) => {
                self.stamps = stamps;
                self.trouble = None;
                Some(found)
            }
            Err(error) => {
                let sentence = format!("{error}. {}", self.remains);
                if self.trouble.as_ref() != Some(&sentence) {
                    tracing::error!("{sentence}");
                }
                self.trouble = Some(sentence);
                None
            }
        }
    }

    /// Why the files cannot be used at present.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Lets the next look happen at once.
    #[cfg(test)]
    pub(crate) fn end_pause(&mut self) {
        self.looked -= PAUSE;
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    paths.iter().map(|path| stamp(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn changed_files_are_read_and_bad_ones_are_reported_until_they_are_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "1").expect("written");
        let mut watch = Watch::new(vec![one.clone(), two.clone()], "The old one stays");
        let read = || fs::read_to_string(&two).map_err(|_| "there is no file two");
        let unread = || -> Result<String, &str> { panic!("nothing has changed") };
        assert_eq!(watch.look(unread), None, "the pause is not over");
        watch.end_pause();
        assert_eq!(watch.look(unread), None);
        fs::write(&one, "12").expect("written");
        for _ in 0..2 {
            watch.end_pause();
            assert_eq!(watch.look(read), None);
            let said = watch.trouble().expect("it is reported");
            assert_eq!(said, "there is no file two. The old one stays");
        }
        fs::write(&two, "2").expect("written");
        watch.end_pause();
        assert_eq!(watch.look(read).as_deref(), Some("2"));
        assert_eq!(watch.trouble(), None);
        watch.end_pause();
        assert_eq!(watch.look(unread), None);
        assert_eq!(watch.read_again(read).as_deref(), Some("2"));
    }
}
