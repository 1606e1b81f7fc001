//! JSON-LD contexts: registered here, because nothing is fetched.

use super::Engine;
use crate::access::RightKind;
use crate::contexts::{ContextInfo, no_context};
use crate::error::EngineError;
use somersault_lines::Contexts;
use std::sync::Arc;

/// # JSON-LD contexts
///
/// Documents of JSON-LD name contexts by URL. The engine knows those that are registered, and
/// fetches none.
impl Engine {
    /// Registers the context of a URL, durably, or replaces it: a JSON document with the member
    /// `@context`. Documents that are read later see it. Returns whether the URL had none.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, MessagePush, MessageSyntax};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> IDLE NEVER TIMESTAMP <urn:at>")?;
    /// let context = r#"{"@context": {"at": "urn:at"}}"#;
    /// assert!(engine.put_context("https://example.org/c", context)?);
    /// let text = r#"{"@context": "https://example.org/c", "at": 1000}"#;
    /// let (source, seq, at, syntax) = (None, None, None, MessageSyntax::NdJsonLd);
    /// let push = MessagePush { source, seq, at, syntax };
    /// assert_eq!(engine.push_messages("urn:s", push, text.as_bytes())?.accepted, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The URL is no absolute IRI, the text is no document with a context, it cannot be written, or
    /// the handle lacks the right `admin`.
    pub fn put_context(&self, url: &str, text: &str) -> Result<bool, EngineError> {
        self.admit(RightKind::Admin, None)?;
        self.inner.contexts.put(url, text)
    }

    /// Takes the context of a URL away, durably.
    ///
    /// # Errors
    /// There is none, it cannot be written, or the handle lacks the right `admin`.
    pub fn drop_context(&self, url: &str) -> Result<(), EngineError> {
        self.admit(RightKind::Admin, None)?;
        self.inner.contexts.remove(url)
    }

    /// Returns the text of the context of a URL, as it was registered.
    ///
    /// # Errors
    /// There is none.
    pub fn context(&self, url: &str) -> Result<Arc<str>, EngineError> {
        self.inner
            .contexts
            .table()
            .get(url)
            .ok_or_else(|| no_context(url))
    }

    /// Returns all contexts, by URL.
    pub fn contexts(&self) -> Vec<ContextInfo> {
        let all = self.inner.contexts.table().list().into_iter();
        all.map(|(url, text)| ContextInfo {
            url,
            bytes: text.len(),
        })
        .collect()
    }

    /// Returns the table of contexts, for a parser of JSON-LD
    /// ([`document_loader`](crate::document_loader)).
    pub fn context_table(&self) -> &Contexts {
        self.inner.contexts.table()
    }
}
