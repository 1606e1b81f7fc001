//! The messages of interior streams, for readers outside of transactions.
//!
//! The one thing to know before changing it: a message is read when its transaction is stable, once
//! by its place.

use super::Engine;
use super::dataflows::not_found;
use crate::access::RightKind;
use crate::error::EngineError;
use somersault_runtime::{FeedReader, FeedStart};

/// # Messages out
///
/// What procedures emit, as it comes.
impl Engine {
    /// Returns a reader of the messages of an interior stream, in the order of emission. Each has a
    /// place, and a reader that was cut off goes on behind a place. The newest messages since the
    /// first reader came are kept (100,000 statements of each stream), also while there is no
    /// reader; not over a restart.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, FeedStart};
    /// use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:out> INTERIOR")?;
    /// engine.declare(
    ///     "CREATE PROCEDURE say(?what) AS {
    ///        EMIT INTO <urn:out> CONSTRUCT { <urn:a> <urn:says> ?what } WHERE { } }",
    /// )?;
    /// let mut messages = engine.messages("urn:out", FeedStart::Now)?;
    /// engine.call_text("CALL say(1)", None)?.expect("it is a CALL").run()?;
    /// let message = messages.next_within(Duration::from_secs(10))?.expect("it was emitted");
    /// assert_eq!((message.place.0, message.statements.len()), (1, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, or clients push into it.
    pub fn messages(&self, stream: &str, start: FeedStart) -> Result<FeedReader, EngineError> {
        self.admit(RightKind::Window, Some(stream))?;
        let reader = self.inner.driver.read_messages(stream, start)?;
        reader.ok_or_else(|| not_found("stream", stream))
    }
}
