//! Tests of the log through its public face, on the simulated disk and on a real one.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod ahead;
mod any_bytes;
mod commit;
mod crash;
mod damage;
mod documented;
mod foreign;
mod format;
mod full;
mod load_segments;
mod samples;
mod shorter;
mod transactions;
mod trim;
mod verify;
