//! The planner: from a query's groups to steps in an order, by statistics and samples of the view.
//! Imports `exec`, whose steps it makes, and the rooms below it.

pub(crate) mod cost;
pub(crate) mod equality;
pub(crate) mod estimate;
pub(crate) mod join_graph;
pub(crate) mod modifiers;
pub(crate) mod optional_minus;
pub(crate) mod order;
pub(crate) mod placement;
pub(crate) mod planner;
pub(crate) mod reduction;
pub(crate) mod sample;
pub(crate) mod selectivity;
pub(crate) mod trial_run;
pub(crate) mod unplaced;
