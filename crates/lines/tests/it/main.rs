//! The readers of lines from outside, against `oxttl` alone, and the readers and writers of messages.

#![allow(clippy::unwrap_used)]

mod documents;
mod lines;
mod messages;
mod timed;
