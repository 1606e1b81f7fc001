//! JSON-LD contexts by their URLs. Parsers ask here for a context that a document names, and
//! nothing is ever fetched.
//!
//! The one thing to know: a URL is compared letter by letter, after the parser has resolved it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A table of contexts. Clones are handles to the same table.
///
/// ```
/// use somersault_lines::Contexts;
/// let contexts = Contexts::default();
/// let reader = contexts.clone();
/// contexts.insert("https://example.org/c", r#"{"@context": {"at": "urn:at"}}"#);
/// assert!(reader.load("https://example.org/c").is_ok());
/// assert!(reader.load("https://example.org/other").unwrap_err().contains("not registered"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Contexts(Arc<RwLock<BTreeMap<String, Arc<str>>>>);

impl Contexts {
    /// The text of a context.
    #[must_use]
    pub fn get(&self, url: &str) -> Option<Arc<str>> {
        self.read().get(url).cloned()
    }

    /// Adds a context, or replaces it; returns the one before.
    pub fn insert(&self, url: &str, text: &str) -> Option<Arc<str>> {
        self.write().insert(url.to_owned(), text.into())
    }

    /// Takes a context away.
    pub fn remove(&self, url: &str) -> Option<Arc<str>> {
        self.write().remove(url)
    }

    /// All contexts, by URL.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Arc<str>)> {
        let table = self.read();
        let entries = table.iter();
        entries
            .map(|(url, text)| (url.clone(), Arc::clone(text)))
            .collect()
    }

    /// The bytes of a context, for a parser.
    ///
    /// # Errors
    /// A sentence: it is not registered.
    pub fn load(&self, url: &str) -> Result<Vec<u8>, String> {
        match self.get(url) {
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => Err(format!(
                "the context {url} is not registered here, and nothing is fetched; register it (PUT /contexts/…), or write the context into the document"
            )),
        }
    }

    // A panic elsewhere leaves the table whole: each change of it is one call.
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<str>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<str>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
