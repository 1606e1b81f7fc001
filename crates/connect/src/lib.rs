//! Sinks deliver the answers of continuous queries to a file or to an HTTP address. Each answer
//! arrives, also after crashes and restarts.
//!
//! A sink is the reader of a durable subscription of its own name. The engine keeps an answer until
//! the sink has it: it is delivered, then acknowledged. After a crash between the two, the answer
//! is delivered again under the same key. The sink's class ([`SinkClass`]) says which side drops
//! the repeat.
//!
//! The clients of this program at https addresses are here as well ([`tls`]).
//!
//! Rooms, lowest first: error, line, sink, file, tls, webhook, spec, monitor, runner.

mod error;
mod file;
mod line;
mod monitor;
mod runner;
mod sink;
mod spec;
pub mod tls;
mod webhook;

pub use error::SinkError;
pub use file::FileSink;
pub use line::{AnswerKey, members};
pub use monitor::{SinkMonitor, SinkStatus};
pub use runner::Sinks;
pub use sink::{Sink, SinkClass, StopSignal};
pub use spec::{SinkSpec, SinkTarget};
pub use tls::ClientTls;
pub use webhook::WebhookSink;
