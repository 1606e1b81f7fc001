//! Planner and exploration over a graph view: algebra in, answers out.
//!
//! A plan is a sequence of steps over a binding table in columns of term ids. The one thing to know
//! before changing it: every answer must equal spareval's (EX-1), and the tests compare the two on
//! generated queries and data; nothing but tests calls spareval.
//! This crate knows no stream; a window is a source like a stored graph.
//!
//! Where spareval departs from the specification the engine does not follow it, and the
//! generated queries leave these out: alternatives of a path keep repeats, a path of no step leads
//! from any constant, `GRAPH ?g` does not bind `?g` inside, COUNT passes over errors, GROUP_CONCAT
//! has no language, xsd:date is compared by value, and STR, MIN, MAX and SAMPLE keep the spelling of
//! the data.
//!
//! The way of a query: [`Prepared::new`] compiles the parser's algebra (`compile`, `flatten`,
//! `identity` → `logical`); each execution looks its constants up, makes a plan from the view's statistics
//! (`planner`, `choose`, `estimate` → `plan`) and runs it (`execute`, `run`, `explore`, `intersect`, `join`,
//! `path`, `evaluate`, `aggregate`, `degrees`).

mod aggregate;
mod answer;
mod assemble;
mod by_row;
mod cache;
mod cast;
mod cells;
mod choose;
mod columns;
mod compile;
mod construct;
mod cost;
mod degrees;
mod delta;
mod describe;
mod difference;
mod digest;
mod equality;
mod error;
mod estimate;
mod evaluate;
mod exact_order;
mod exact_sum;
mod execute;
mod execution;
mod explain;
mod explore;
mod expression;
mod filter;
mod flatten;
mod functions;
mod group;
mod grouped;
mod identity;
mod intersect;
mod join;
mod kept;
mod local;
mod logical;
mod modifiers;
mod morsels;
mod number;
mod order;
mod overlay;
mod parameters;
mod parts;
mod path;
mod pilot;
mod placement;
mod plan;
mod planner;
mod prepared;
mod random;
mod reduce;
mod reduction;
mod rows;
mod run;
mod sample;
mod selectivity;
mod service;
mod snapshot_view;
mod sort;
mod sources;
mod starts;
mod sum;
mod table;
mod tails;
mod term_order;
mod text_test;
mod update;
mod value;
mod varset;
mod view;
mod watch;
mod workspace;

pub use answer::{Answer, Solutions};
pub use cache::PlanCache;
pub use cells::Cells;
pub use delta::{Grouping, KeptRows, Maintained, Way};
pub use difference::{Bounds, Template};
pub use error::QueryError;
pub use execution::{Crew, Execution, PlanChoices, Remote, RemoteSolutions};
pub use explain::Explanation;
pub use grouped::{GroupAnswer, Grouped};
pub use parameters::Bound;
pub use prepared::Prepared;
pub use snapshot_view::SnapshotView;
pub use update::{Effects, Using, evaluate_update};
pub use view::{Dataset, GraphView, NamedGraphs, Source};
pub use watch::Watch;
