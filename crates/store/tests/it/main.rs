//! The store from outside: against plain sets, under concurrency, and over windows.

mod reference;
mod stress;
mod windows;
