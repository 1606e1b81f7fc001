//! Every source passes one suite, against a real broker where it has one.

mod files;
#[cfg(feature = "mqtt")]
mod manual;
#[cfg(feature = "mqtt")]
mod mosquitto;
mod suite;
