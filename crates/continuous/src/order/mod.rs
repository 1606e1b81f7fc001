//! The order of firings: which of a query's firings may run ([`firing_slots`]), and the order in
//! which their answers are published ([`resequencer`]).

pub(crate) mod firing_slots;
pub(crate) mod resequencer;
