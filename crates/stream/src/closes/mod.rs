//! When queries fire: schedules of closes, groups of queries with equal closes, cuts, and the
//! firings that are not done.

pub(crate) mod close_group;
pub(crate) mod close_groups;
pub(crate) mod cuts;
pub(crate) mod schedule;
pub(crate) mod unfinished;
