//! The dictionary from outside: against maps and plain twins, and under concurrency.
#![allow(clippy::unwrap_used)]

mod dictionary;
mod export;
mod transient;
