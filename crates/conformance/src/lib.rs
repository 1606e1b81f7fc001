//! The public test suites and our own, run by one program: W3C suites against the engine and its
//! server, windowed queries over recorded streams, and suites of transactions. Skipped tests
//! are listed as data with reasons; an unexpected pass is a failure too.

pub mod bag;
pub mod error;
pub mod jena;
pub mod rsp;
pub mod script;
pub mod txn;
pub mod w3c;

pub use error::ConformanceError;
