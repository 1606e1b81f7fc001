//! The store from outside: against plain sets, under concurrency, and over windows.

mod columns;
mod dictionary;
mod images;
mod merged_ahead;
mod passing;
mod reference;
mod stress;
mod windows;
