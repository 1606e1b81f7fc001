//! Sinks: the answers of continuous queries are delivered to a file or to an HTTP address, each of
//! them also over crashes and restarts.
//!
//! A sink is the reader of a durable subscription of its own name. The engine keeps an answer until
//! the sink has it: it is delivered, then acknowledged. A crash between the two delivers it again
//! under the same key, and what the sink's class says about repeats holds.
//!
//! Rooms, lowest first: error, line, sink, file, webhook, spec, runner.

mod error;
mod file;
mod line;
mod runner;
mod sink;
mod spec;
mod webhook;

pub use error::SinkError;
pub use file::FileSink;
pub use line::AnswerKey;
pub use runner::Sinks;
pub use sink::{Sink, SinkClass};
pub use spec::{SinkSpec, SinkTarget};
pub use webhook::WebhookSink;
