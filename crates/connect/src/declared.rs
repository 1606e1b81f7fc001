//! The file of declared sources and sinks, in the data folder, and the notes of sources beside it.
//!
//! The one thing to know before changing it: declarations are beside the log and not in it. A
//! backup or a copy of the log must hold neither passwords of brokers nor a second client of the
//! same id (ADR 80). How far a source is, stands in the log: it is its stream's.

use crate::error::ConnectError;
use serde_json::{Map, Value, json};
use somersault_lang::ConnectorSort;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The name of the file in a data folder.
const FILE: &str = "connectors.json";
/// The folder of the notes of sources.
const NOTES: &str = "source-notes";
const VERSION: u64 = 1;

/// A sort and a name: what a declaration is found by.
pub(crate) type Key = (ConnectorSort, String);

/// A declaration as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The text.
    pub(crate) text: String,
    /// Whether it is paused.
    pub(crate) is_paused: bool,
}

/// The declarations of a server. Without a folder they are in memory.
#[derive(Debug)]
pub(crate) struct Declarations {
    folder: Option<PathBuf>,
    all: BTreeMap<Key, Declared>,
}

impl Declarations {
    /// No declaration; those that are made are in memory.
    pub(crate) fn in_memory() -> Declarations {
        Declarations {
            folder: None,
            all: BTreeMap::new(),
        }
    }

    /// Reads the file of a data folder. It need not exist.
    ///
    /// # Errors
    /// It cannot be read, or is not understood.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Declarations, ConnectError> {
        let mut declarations = Declarations {
            folder: folder.map(Path::to_owned),
            ..Declarations::in_memory()
        };
        let Some(path) = declarations.path() else {
            return Ok(declarations);
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(declarations),
            Err(source) => {
                let what = "read";
                return Err(ConnectError::Io { path, what, source });
            }
        };
        declarations.all =
            read(&text).map_err(|message| ConnectError::Damaged { path, message })?;
        Ok(declarations)
    }

    pub(crate) fn all(&self) -> &BTreeMap<Key, Declared> {
        &self.all
    }

    /// Declares, changes or drops one, durably. If that fails, nothing has changed.
    pub(crate) fn set(&mut self, key: Key, declared: Option<Declared>) -> Result<(), ConnectError> {
        let mut all = self.all.clone();
        match declared {
            Some(declared) => _ = all.insert(key, declared),
            None => _ = all.remove(&key),
        }
        if let Some(path) = self.path() {
            let written = write_whole(&path, &format!("{:#}\n", to_json(&all)));
            written.map_err(|source| ConnectError::Io {
                path,
                what: "written",
                source,
            })?;
        }
        self.all = all;
        Ok(())
    }

    /// The place of a source's note; `None` if notes are in memory.
    pub(crate) fn note_path(&self, source: &str) -> Option<PathBuf> {
        // A name may hold any character; its bytes as hexadecimal digits may stand in a path.
        let name: String = source.bytes().map(|byte| format!("{byte:02x}")).collect();
        let folder = self.folder.as_ref()?.join(NOTES);
        Some(folder.join(format!("{name}.json")))
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(FILE))
    }
}

fn to_json(all: &BTreeMap<Key, Declared>) -> Value {
    let of = |wanted: ConnectorSort| -> Vec<Value> {
        let of_sort = all.iter().filter(|((sort, _), _)| *sort == wanted);
        let entries = of_sort.map(|((_, name), declared)| {
            json!({ "name": name, "text": declared.text, "paused": declared.is_paused })
        });
        entries.collect()
    };
    json!({
        "version": VERSION,
        "sources": of(ConnectorSort::Source),
        "sinks": of(ConnectorSort::Sink),
    })
}

/// Reads the text of the file.
pub(crate) fn read(text: &str) -> Result<BTreeMap<Key, Declared>, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match json["version"].as_u64() {
        Some(VERSION) => {}
        Some(newer) => {
            return Err(format!(
                "it has version {newer}, and this program knows {VERSION}"
            ));
        }
        None => return Err("it has no version".to_owned()),
    }
    let mut all = BTreeMap::new();
    for (sort, member) in [
        (ConnectorSort::Source, "sources"),
        (ConnectorSort::Sink, "sinks"),
    ] {
        let list = json[member].as_array();
        for entry in list.ok_or_else(|| format!("it has no list \"{member}\""))? {
            let entry = entry.as_object().ok_or("a declaration is no object")?;
            let declared = Declared {
                text: text_of(entry, "text")?,
                is_paused: entry.get("paused") == Some(&Value::Bool(true)),
            };
            all.insert((sort, text_of(entry, "name")?), declared);
        }
    }
    Ok(all)
}

fn text_of(entry: &Map<String, Value>, member: &str) -> Result<String, String> {
    let text = entry.get(member).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("a declaration has no text \"{member}\""))
}

/// Writes a file that only its owner may read: a new one takes the place of the old one, so that no
/// reader and no crash sees half of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = match options.open(&new) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(folder)?;
            options.open(&new)
        }
        opened => opened,
    };
    let mut file = opened?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sort: ConnectorSort, name: &str) -> Key {
        (sort, name.to_owned())
    }

    fn declared(text: &str, is_paused: bool) -> Declared {
        Declared {
            text: text.to_owned(),
            is_paused,
        }
    }

    #[test]
    fn declarations_are_kept_and_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Declarations::open(Some(folder.path())).expect("readable");
        let mut declarations = open();
        assert!(declarations.all().is_empty(), "no file is no declarations");
        let (source, sink) = (
            key(ConnectorSort::Source, "a"),
            key(ConnectorSort::Sink, "a"),
        );
        let text = "CREATE SINK a …";
        declarations
            .set(source.clone(), Some(declared("CREATE SOURCE a …", false)))
            .expect("written");
        declarations
            .set(sink.clone(), Some(declared(text, true)))
            .expect("written");
        assert_eq!(open().all(), declarations.all());
        declarations.set(source, None).expect("written");
        let all = open().all().clone();
        assert_eq!(all.len(), 1);
        assert_eq!(all[&sink], declared(text, true));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let file = folder.path().join(FILE).metadata().expect("there");
            assert_eq!(file.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_file_says_what_is_wrong() {
        for (text, said) in [
            ("{", "EOF"),
            ("{}", "no version"),
            (r#"{"version": 7}"#, "version 7"),
            (r#"{"version": 1}"#, "\"sources\""),
            (r#"{"version": 1, "sources": []}"#, "\"sinks\""),
            (
                r#"{"version": 1, "sources": [3], "sinks": []}"#,
                "no object",
            ),
            (
                r#"{"version": 1, "sources": [{"name": "a"}], "sinks": []}"#,
                "\"text\"",
            ),
        ] {
            let message = read(text).expect_err(text);
            assert!(message.contains(said), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_written_has_not_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("data");
        let mut declarations = Declarations::open(Some(&place)).expect("nothing is there");
        std::fs::write(&place, "a file").expect("written");
        let refused = declarations.set(
            key(ConnectorSort::Sink, "a"),
            Some(declared("CREATE SINK a …", false)),
        );
        assert!(matches!(refused, Err(ConnectError::Io { .. })));
        assert!(declarations.all().is_empty());
    }
}
