//! The store from outside: against plain sets, under concurrency, and over windows.

mod dictionary;
mod reference;
mod stress;
mod windows;
