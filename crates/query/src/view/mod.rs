//! The data that a query reads: the `GraphView` trait, a snapshot with its windows, the layers
//! of a transaction, and terms of one execution alone. Imports `algebra`.

pub(crate) mod batch_graph;
pub(crate) mod graph_rights;
pub(crate) mod graph_view;
pub(crate) mod held_view;
pub(crate) mod id_entries;
pub(crate) mod kept_edges;
pub(crate) mod layer;
pub(crate) mod layered_view;
pub(crate) mod local_terms;
pub(crate) mod snapshot_view;
pub(crate) mod sources;
pub(crate) mod term_source;
