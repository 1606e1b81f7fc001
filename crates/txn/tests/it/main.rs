//! The transaction core from outside: driven by scripted procedures, against a serial twin.

mod checkpoints;
mod declarations;
mod driver;
mod generated;
mod laws;
mod planted;
mod rules;
mod suites;
mod twin;
