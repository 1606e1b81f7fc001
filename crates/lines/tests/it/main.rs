//! The readers of lines from outside, against `oxttl` alone.

#![allow(clippy::unwrap_used)]

mod lines;
mod timed;
