//! The store from outside: against plain sets, under concurrency, and over windows.

mod columns;
mod images;
mod lists;
mod merged_ahead;
mod prepared;
mod reference;
mod stress;
mod windows;
