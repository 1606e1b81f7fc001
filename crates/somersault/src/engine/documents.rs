//! Documents: plain JSON and CSV for streams that are declared with `MAPPED BY` or `CONTEXT`.
//!
//! The one thing to know before changing it: a mapping is compiled once for a declaration, and kept
//! as long as the stream has that declaration.

use super::Engine;
use super::messages::MessageFeed;
use crate::access::RightKind;
use crate::error::EngineError;
use crate::mapping::{MappedMessage, Mapping};
use crate::push::messages::{DocumentPush, MessageSender, MessagesReceipt};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use somersault_lang::{CreateStream, StreamSource, TimeDomain};
use somersault_model::EventTime;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The compiled mappings of streams.
#[derive(Default)]
pub(super) struct Mappings {
    by_stream: Mutex<FxHashMap<String, Compiled>>,
}

struct Compiled {
    declaration: Arc<CreateStream>,
    mapping: Arc<Mapping>,
}

impl Mappings {
    /// The mapping of a declaration, if it was compiled.
    fn get(&self, declaration: &Arc<CreateStream>) -> Option<Arc<Mapping>> {
        let known = self.by_stream.lock();
        let compiled = known.get(declaration.iri.as_str())?;
        let is_same = Arc::ptr_eq(&compiled.declaration, declaration);
        is_same.then(|| Arc::clone(&compiled.mapping))
    }

    fn put(&self, declaration: Arc<CreateStream>, mapping: &Arc<Mapping>) {
        let stream = declaration.iri.as_str().to_owned();
        let compiled = Compiled {
            declaration,
            mapping: Arc::clone(mapping),
        };
        self.by_stream.lock().insert(stream, compiled);
    }

    /// Forgets the mapping of a stream that is dropped.
    pub(super) fn forget(&self, stream: &str) {
        self.by_stream.lock().remove(stream);
    }
}

/// # Documents
///
/// Plain JSON and CSV, which the mapping of a stream turns into messages.
impl Engine {
    /// Returns the mapping of a stream; `None` if it is declared without `MAPPED BY` and `CONTEXT`.
    /// See [`Mapping`] for an example.
    ///
    /// # Errors
    /// There is no such stream, or the handle may not push into it.
    pub fn mapping(&self, stream: &str) -> Result<Option<Arc<Mapping>>, EngineError> {
        self.admit(RightKind::Push, Some(stream))?;
        let declaration = self.inner.driver.declaration(stream)?;
        if let Some(mapping) = self.inner.mappings.get(&declaration) {
            return Ok(Some(mapping));
        }
        let number = self.inner.documents.fetch_add(1, Ordering::Relaxed);
        let key = self.inner.epoch.rotate_left(32) ^ number;
        let driver = Arc::downgrade(&self.inner.driver);
        let now = move || EventTime(driver.upgrade().map_or(0, |driver| driver.now_ms()));
        let limits = &self.inner.config.limits;
        let contexts = self.context_table();
        let Some(mapping) = Mapping::of(&declaration, contexts, limits, key, now) else {
            return Ok(None);
        };
        let mapping = Arc::new(mapping);
        self.inner.mappings.put(declaration, &mapping);
        Ok(Some(mapping))
    }

    /// Pushes documents into a stream that is declared with `MAPPED BY`, while the text is read;
    /// returns when the messages made of them are durable. Each document is taken or refused by
    /// itself, and a refused one goes to the stream's dead letters, where it has some.
    ///
    /// ```
    /// use somersault::{DocumentPush, DocumentSyntax, Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let text = "PREFIX xyz: <http://sparql.xyz/facade-x/data/>
    /// CREATE STREAM <urn:s> IDLE NEVER TIMESTAMP <urn:at>
    /// MAPPED BY CONSTRUCT { [] <urn:celsius> ?celsius ; <urn:at> ?ms }
    ///           WHERE { ?d xyz:celsius ?celsius ; xyz:ms ?ms }";
    /// engine.create_stream(None, text)?;
    /// let lines = "{\"celsius\": 20.5, \"ms\": 1000}
    /// {\"celsius\": 21}
    /// {\"celsius\": 22, \"ms\": 2000}";
    /// let push = DocumentPush::new(DocumentSyntax::NdJson);
    /// let receipt = engine.push_documents("urn:s", push, lines.as_bytes())?;
    /// assert_eq!((receipt.taken.count(), receipt.refused.runs()), (2, &[(2, 2)][..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, it is declared without `MAPPED BY` and `CONTEXT`, or the first
    /// documents cannot be taken for want of room. Nothing was taken then; after the log has
    /// failed, that is not known.
    pub fn push_documents(
        &self,
        stream: &str,
        push: DocumentPush,
        text: impl Read,
    ) -> Result<MessagesReceipt, EngineError> {
        let mapping = self.mapping(stream)?.ok_or_else(|| no_mapping(stream))?;
        let mut messages = mapping.messages(text, push.syntax);
        MessageFeed::begin(self, stream, push.sender)?.run(|| messages.next())
    }

    /// Pushes messages that a mapping has made, of one text or of several: for a connector whose
    /// documents come one by one. Otherwise as [`Engine::push_documents`]. The number of a message
    /// is that of the sender plus its [`ordinal`](crate::Message::ordinal), and ordinals ascend.
    ///
    /// ```
    /// use somersault::{DocumentSyntax, Engine, EngineConfig, MessageSender};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # let text = "PREFIX xyz: <http://sparql.xyz/facade-x/data/>
    /// #   CREATE STREAM <urn:s> ARRIVAL TIME
    /// #   MAPPED BY CONSTRUCT { [] <urn:celsius> ?celsius } WHERE { ?d xyz:celsius ?celsius }";
    /// # engine.create_stream(None, text)?;
    /// let mapping = engine.mapping("urn:s")?.expect("the stream is mapped");
    /// let mut mapped = Vec::new();
    /// // Two documents that a broker has numbered 7 and 9.
    /// for (offset, text) in [(7, r#"{"celsius": 20}"#), (9, r#"{"celsius": 21}"#)] {
    ///     for message in mapping.messages(text.as_bytes(), DocumentSyntax::Json) {
    ///         let mut message = message?;
    ///         message.message.ordinal = offset - 7;
    ///         mapped.push(message);
    ///     }
    /// }
    /// let source = Some("topic/0".to_owned());
    /// let sender = MessageSender { source, seq: Some(7), at: None };
    /// let receipt = engine.push_mapped("urn:s", sender, mapped)?;
    /// assert_eq!(receipt.taken.runs(), [(7, 7), (9, 9)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::push_documents`].
    pub fn push_mapped(
        &self,
        stream: &str,
        sender: MessageSender,
        messages: impl IntoIterator<Item = MappedMessage>,
    ) -> Result<MessagesReceipt, EngineError> {
        self.admit(RightKind::Push, Some(stream))?;
        let mut messages = messages.into_iter();
        MessageFeed::begin(self, stream, sender)?.run(|| messages.next().map(Ok))
    }

    /// Checks that a stream can take dead letters, which have no event time.
    pub(super) fn check_dead_letters(&self, stream: &str) -> Result<(), EngineError> {
        let declaration = self.inner.driver.declaration(stream)?;
        let is_suited = declaration.time == TimeDomain::Arrival
            && declaration.source == StreamSource::Outside
            && declaration.mapping.is_none()
            && declaration.context.is_none();
        match is_suited {
            true => Ok(()),
            false => Err(EngineError::Invalid(format!(
                "<{stream}> cannot take dead letters, which have no event time and are no documents; declare it with ARRIVAL TIME and without MAPPED BY and CONTEXT, or name another stream"
            ))),
        }
    }
}

fn no_mapping(stream: &str) -> EngineError {
    EngineError::Invalid(format!(
        "the stream <{stream}> does not say what its documents mean; declare it with MAPPED BY CONSTRUCT or CONTEXT, or push RDF"
    ))
}
