//! Changes of the stored graph: updates, graph operations and bulk loads.

mod clearing;
mod concurrent;
mod isolation;
mod loading;
