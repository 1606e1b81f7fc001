//! When queries fire: schedules, groups of queries with equal closes, cuts and amendments.

pub(crate) mod amend;
pub(crate) mod cuts;
pub(crate) mod groups;
pub(crate) mod schedule;
