//! Connectors: sources bring messages of files and brokers into streams, and sinks deliver the
//! answers of continuous queries to files, HTTP addresses and brokers.
//!
//! A message has a partition and a position, which are the source and the sequence number of its
//! push. So the engine itself drops repeats, and its log says how far each source is. A message is
//! acknowledged at its broker when it is durable here.
//!
//! A sink is the reader of a durable subscription of its own name. The engine keeps an answer until
//! the sink has it: it is delivered, then acknowledged. After a crash between the two, the answer
//! is delivered again under the same key. The sink's class ([`SinkClass`]) says which side drops
//! the repeat.
//!
//! The clients of this program at https addresses are here as well ([`tls`]).
//!
//! Rooms, lowest first: error, worker, identity, options, line, sink, source, file, tls, webhook,
//! tail, mqtt, spec, source_spec, declared, ledger, monitor, letter, runner, feeder, connectors,
//! any_input.

#[doc(hidden)]
pub mod any_input;
mod connectors;
mod declared;
mod error;
mod feeder;
mod file;
mod identity;
mod ledger;
mod letter;
mod line;
mod monitor;
#[cfg(feature = "mqtt")]
mod mqtt;
mod options;
mod runner;
mod sink;
mod source;
mod source_spec;
mod spec;
mod tail;
pub mod tls;
mod webhook;
mod worker;

pub use connectors::{Connectors, Listed};
pub use error::{ConnectError, SinkError, SourceError};
pub use file::FileSink;
pub use line::{AnswerKey, members};
pub use monitor::{SinkStatus, SourceCounts, SourceStatus};
#[cfg(feature = "mqtt")]
pub use mqtt::{MqttOptions, MqttSink, MqttSource};
pub use sink::{Sink, SinkClass};
pub use somersault_lang::{ConnectorCommand, ConnectorSort, ManageConnector};
pub use source::{Ledger, MessageBody, Portion, Source, SourceClass, SourceMessage};
pub use source_spec::{SourceFormat, SourceOrigin, SourceSpec};
pub use spec::{SinkSpec, SinkTarget};
pub use tail::{TailSource, TailStart};
pub use tls::ClientTls;
pub use webhook::WebhookSink;
pub use worker::StopSignal;
