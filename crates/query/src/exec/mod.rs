//! The steps of a plan and how they run: scans, joins, paths, groups, sorting, on a binding table
//! in columns. Imports `eval` and the rooms below it. It does not know the planner, which is above
//! it and makes the steps.

pub(crate) mod aggregate;
pub(crate) mod assemble;
pub(crate) mod column_scan;
pub(crate) mod construct;
pub(crate) mod describe;
pub(crate) mod distinct_rows;
pub(crate) mod explain;
pub(crate) mod explore;
pub(crate) mod intersect;
pub(crate) mod join;
pub(crate) mod morsels;
pub(crate) mod names;
pub(crate) mod operators;
pub(crate) mod path;
pub(crate) mod row_scan;
pub(crate) mod run;
pub(crate) mod sort;
pub(crate) mod starts;
pub(crate) mod step;
pub(crate) mod term_order;
