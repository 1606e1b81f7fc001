//! Procedures: compiled steps, and the transactions that run them over a snapshot and what has
//! committed since. `lang` says what a step means.
//!
//! 1. `CompiledProcedure::new` compiles each query of each step once; values of the scope are
//!    parameters of it.
//! 2. A `TransactionState` holds the data: a snapshot, in two layers what committed on it since,
//!    and the owned windows. It outlives transactions.
//! 3. A `Txn` writes into the newer layer and keeps a journal. `Txn::execute` runs one procedure on
//!    its batches: slides with their triggers, then the steps, each of which sees what those before
//!    it wrote.
//! 4. `Txn::commit` gives the net effects; dropping it, or `Txn::rollback`, undoes by the journal.
//!
//! The one thing to know before changing it: nothing here may depend on a clock, on ids or on the
//! order of a hash map, since recovery may run the steps again and must get the same.

pub(crate) mod compiled;
pub(crate) mod effects;
pub(crate) mod graphs;
pub(crate) mod native;
pub(crate) mod rows;
pub(crate) mod state;
pub(crate) mod steps;
pub(crate) mod stop;
pub(crate) mod template;
pub(crate) mod trace;
pub(crate) mod txn;
pub(crate) mod updates;
