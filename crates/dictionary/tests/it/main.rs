//! The dictionary from outside: against maps and plain twins, and under concurrency.

mod dictionary;
mod transient;
