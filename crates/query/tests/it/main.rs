//! The tests of the crate as a whole: native answers against spareval's (EX-1), and against answers
//! written down by hand; plans as golden files; limits; updates.

mod answers;
mod delta;
mod delta_cells;
mod delta_groups;
mod documents;
mod equals_spareval;
mod functions;
mod grouped;
mod held_views;
mod layers;
mod limits;
mod morsels;
mod naive;
mod operators;
mod parameters;
mod plans;
mod point_queries;
mod procedures;
mod rights;
mod sequence;
mod shapes;
mod slots;
mod stored;
mod turns;
mod updates;
