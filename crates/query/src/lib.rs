//! Planner and exploration over a graph view: algebra in, answers out.
//!
//! A plan is a sequence of steps over a binding table in columns of term ids; what no step covers
//! is answered by `spareval` over the same view. The one thing to know before changing it: every
//! answer must equal spareval's (EX-1), and the tests compare the two on generated queries and data.
//! This crate knows no stream; a window is a source like a stored graph.

mod answer;
mod cache;
mod error;
mod exact_sum;
mod execution;
mod explain;
mod overlay;
mod prepared;
mod snapshot_view;
mod update;
mod view;

pub use answer::{Answer, Solutions};
pub use cache::PlanCache;
pub use error::QueryError;
pub use execution::{Execution, Remote, RemoteSolutions};
pub use explain::Explanation;
pub use prepared::Prepared;
pub use snapshot_view::SnapshotView;
pub use update::{Effects, Using, evaluate_update};
pub use view::{Dataset, GraphView, NamedGraphs, Source};
