//! The registry of continuous queries, driven by a fake driver: without log, fabric and streams.

mod checkpoints;
mod fake_driver;
mod registry;
