//! Changes of the stored graph: updates, graph operations and bulk loads.

mod clearing;
mod isolation;
mod loading;
