//! MQTT 3.1.1: a source that subscribes to topics of a broker, and a sink that publishes answers.
//!
//! The one thing to know before changing it: both use QoS 1 with a fixed client id. The broker
//! keeps the session of the source, and sends a message again, under the same packet number, until
//! it is acknowledged.

mod link;
mod options;
mod sink;
mod source;

pub use options::MqttOptions;
pub use sink::MqttSink;
pub use source::MqttSource;
