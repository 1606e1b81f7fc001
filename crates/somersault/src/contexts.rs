//! The JSON-LD contexts of a data folder: one file beside the log, written whole.
//!
//! The one thing to know before changing it: contexts say what a push means while it is read, and
//! never what the log means. So they are in no record, and a replay does not need them.

use crate::error::EngineError;
use oxrdfio::{JsonLdProfile, LoadedDocument, RdfFormat};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use somersault_disk::{Disk, NameTaken, write_whole};
use somersault_lines::Contexts;
use std::error::Error;
use std::io::Read;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The name of the file.
pub(crate) const CONTEXTS_FILE: &str = "contexts.json";
/// The version of its format.
const VERSION: u64 = 1;
/// The bytes that one context may have.
const CONTEXT_BYTES: usize = 1 << 20;
/// The number of contexts that may be registered.
const MOST_CONTEXTS: usize = 1_000;
/// Values of a context nested deeper than this are refused.
const DEEPEST: usize = 64;

/// A registered context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextInfo {
    /// Its URL.
    pub url: String,
    /// The bytes of its text.
    pub bytes: usize,
}

/// The contexts, and where they are kept.
pub(crate) struct ContextStore {
    table: Contexts,
    /// `None` if they are kept in memory alone.
    disk: Option<Arc<dyn Disk>>,
    is_read_only: bool,
    /// Held while the file is written.
    turn: Mutex<()>,
}

impl ContextStore {
    /// The contexts of a folder, or none.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub(crate) fn open(
        disk: Option<Arc<dyn Disk>>,
        is_read_only: bool,
    ) -> Result<ContextStore, EngineError> {
        let table = Contexts::default();
        if let Some(disk) = &disk {
            for (url, text) in read_file(&**disk)? {
                table.insert(&url, &text);
            }
        }
        Ok(ContextStore {
            table,
            disk,
            is_read_only,
            turn: Mutex::new(()),
        })
    }

    /// The table that parsers read.
    pub(crate) fn table(&self) -> &Contexts {
        &self.table
    }

    /// Registers a context, durably. Returns whether there was none of this URL.
    pub(crate) fn put(&self, url: &str, text: &str) -> Result<bool, EngineError> {
        check_url(url)?;
        check_text(text)?;
        let _turn = self.turn.lock();
        let mut all = self.table.list();
        match all.iter().position(|(known, _)| known == url) {
            Some(at) => all[at].1 = text.into(),
            None if all.len() == MOST_CONTEXTS => {
                return Err(EngineError::Conflict(format!(
                    "{MOST_CONTEXTS} contexts are registered, and there may be no more; delete one first"
                )));
            }
            None => all.push((url.to_owned(), text.into())),
        }
        self.write(&all)?;
        Ok(self.table.insert(url, text).is_none())
    }

    /// Takes a context away, durably.
    pub(crate) fn remove(&self, url: &str) -> Result<(), EngineError> {
        let _turn = self.turn.lock();
        let mut all = self.table.list();
        let before = all.len();
        all.retain(|(known, _)| known != url);
        if all.len() == before {
            return Err(no_context(url));
        }
        self.write(&all)?;
        self.table.remove(url);
        Ok(())
    }

    /// The content of the file, for a copy of the folder; `None` if no context is registered.
    pub(crate) fn file(&self) -> Option<Vec<u8>> {
        let all = self.table.list();
        (!all.is_empty()).then(|| content(&all))
    }

    fn write(&self, all: &[(String, Arc<str>)]) -> Result<(), EngineError> {
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        if self.is_read_only {
            return Err(EngineError::Conflict(
                "the data folder is open to read alone, so no context can be registered".to_owned(),
            ));
        }
        let written = write_whole(&**disk, CONTEXTS_FILE, &content(all), NameTaken::Replace);
        written.map_err(|source| EngineError::Io {
            context: format!("{}/{CONTEXTS_FILE} cannot be written", disk.describe()),
            source,
        })
    }
}

/// The error for a URL without a context.
pub(crate) fn no_context(url: &str) -> EngineError {
    EngineError::NotFound(format!(
        "there is no context <{url}>; see all with GET /contexts"
    ))
}

fn content(all: &[(String, Arc<str>)]) -> Vec<u8> {
    let contexts = all
        .iter()
        .map(|(url, text)| (url.clone(), text.to_string().into()));
    let contexts: Map<String, Value> = contexts.collect();
    let mut text = serde_json::json!({ "version": VERSION, "contexts": contexts }).to_string();
    text.push('\n');
    text.into_bytes()
}

/// The contexts of the file of a folder; none if there is no such file.
pub(crate) fn read_file(disk: &dyn Disk) -> Result<Vec<(String, String)>, EngineError> {
    let unread = |source| EngineError::Io {
        context: format!("{}/{CONTEXTS_FILE} cannot be read", disk.describe()),
        source,
    };
    let names = disk.list().map_err(unread)?;
    if !names.iter().any(|name| name == CONTEXTS_FILE) {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    let mut file = disk.read(CONTEXTS_FILE).map_err(unread)?;
    file.read_to_end(&mut bytes).map_err(unread)?;
    contexts_of(&bytes).map_err(|found| EngineError::Damaged {
        file: CONTEXTS_FILE.into(),
        offset: 0,
        message: format!(
            "{}/{CONTEXTS_FILE} {found}; restore it from a copy, or move it away and register the contexts again",
            disk.describe()
        ),
    })
}

/// The contexts in the content of a file.
///
/// # Errors
/// The end of a sentence about the file.
pub fn contexts_of(bytes: &[u8]) -> Result<Vec<(String, String)>, String> {
    let file: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("is no JSON ({error})"))?;
    match file["version"].as_u64() {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!(
                "is of version {other}, and this program reads version {VERSION}"
            ));
        }
        None => return Err("has no version".to_owned()),
    }
    let contexts = file["contexts"].as_object();
    let contexts = contexts.ok_or_else(|| "has no contexts".to_owned())?;
    let texts = contexts.iter().map(|(url, text)| match text.as_str() {
        Some(text) => Ok((url.clone(), text.to_owned())),
        None => Err(format!("has no text for the context {url}")),
    });
    texts.collect()
}

fn check_url(url: &str) -> Result<(), EngineError> {
    oxrdf::NamedNode::new(url).map(drop).map_err(|fault| {
        EngineError::Invalid(format!(
            "<{url}> is no absolute IRI ({fault}), and a document names a context by one; correct it"
        ))
    })
}

/// Checks that a text is a document with a context.
fn check_text(text: &str) -> Result<(), EngineError> {
    if text.len() > CONTEXT_BYTES {
        return Err(EngineError::Invalid(format!(
            "the context has {} bytes, and may have {CONTEXT_BYTES}; register a smaller one",
            text.len()
        )));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| EngineError::Data {
        line: error.line() as u64,
        column: error.column() as u64,
        message: format!("the context is no JSON: {error}"),
    })?;
    if !value.is_object() || value.get("@context").is_none() {
        return Err(EngineError::Invalid(
            "the document has no \"@context\"; a context is an object with that member".to_owned(),
        ));
    }
    match depth(&value) > DEEPEST {
        true => Err(EngineError::Invalid(format!(
            "the values of the context are nested more than {DEEPEST} deep; flatten it"
        ))),
        false => Ok(()),
    }
}

/// How deep values are nested. The reader of JSON has refused what is too deep to recurse.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(elements) => elements.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// What a parser of JSON-LD asks for the contexts that a document names.
///
/// ```
/// use somersault::{RdfFormat, document_loader, Contexts};
/// use oxrdfio::{JsonLdProfileSet, RdfParser};
/// let contexts = Contexts::default();
/// contexts.insert("https://example.org/c", r#"{"@context": {"at": "urn:at"}}"#);
/// let text = r#"{"@context": "https://example.org/c", "at": 5}"#;
/// let parser = RdfParser::from_format(RdfFormat::JsonLd { profile: JsonLdProfileSet::empty() });
/// let parser = parser.for_slice(text).with_document_loader(document_loader(&contexts));
/// let quads: Vec<_> = parser.collect::<Result<_, _>>()?;
/// assert_eq!(quads[0].predicate.as_str(), "urn:at");
/// # Ok::<_, oxrdfio::RdfSyntaxError>(())
/// ```
pub fn document_loader(
    contexts: &Contexts,
) -> impl Fn(&str) -> Result<LoadedDocument, Box<dyn Error + Send + Sync>>
+ Send
+ Sync
+ UnwindSafe
+ RefUnwindSafe
+ use<> {
    let contexts = contexts.clone();
    move |url| {
        Ok(LoadedDocument {
            url: url.to_owned(),
            content: contexts.load(url)?,
            format: RdfFormat::JsonLd {
                profile: JsonLdProfile::Context.into(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(all in prop::collection::btree_map(any::<String>(), any::<String>(), 0..5)) {
            let entries = all.iter().map(|(url, text)| (url.clone(), Arc::from(text.as_str())));
            let entries: Vec<(String, Arc<str>)> = entries.collect();
            let read = contexts_of(&content(&entries)).expect("it was written so");
            prop_assert_eq!(read, all.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = contexts_of(&bytes);
        }
    }

    #[test]
    fn other_versions_and_missing_parts_are_refused() {
        for (text, said) in [
            ("{\"version\": 2, \"contexts\": {}}", "version 2"),
            ("{\"contexts\": {}}", "no version"),
            ("{\"version\": 1}", "no contexts"),
            (
                "{\"version\": 1, \"contexts\": {\"u\": 5}}",
                "no text for the context u",
            ),
            ("{", "no JSON"),
        ] {
            let refused = contexts_of(text.as_bytes()).expect_err(text);
            assert!(refused.contains(said), "{refused}");
        }
    }
}
