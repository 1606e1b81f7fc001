//! The runtime from outside: its fabrics, and the driver with a host that only writes down.

#![allow(clippy::unwrap_used)]

mod ahead;
mod checkpoints;
mod credit;
mod driver;
mod fabrics;
