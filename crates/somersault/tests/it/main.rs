//! The engine end to end, on cases small enough to be worked out by hand.
//!
//! Each room is a folder of tests on one topic; `support` holds what they share.

#![allow(clippy::unwrap_used)]

mod durability;
mod folders;
mod limits;
mod queries;
mod streams;
mod support;
mod transactions;
mod updates;
