//! Tests of checkpoint files through the crate's public face, on the simulated disk.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod container;
mod crash;
mod damage;
mod dictionary;
mod documented;
mod format;
mod lists;
mod pieces;
mod samples;
mod slices;
mod verify;
mod whole;
