//! Planner and exploration over a graph view
