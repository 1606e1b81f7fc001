//! Planner and exploration over a graph view: algebra in, answers out.
//!
//! A plan is a sequence of steps over a binding table in columns of term ids. The one thing to know
//! before changing it: every answer must equal spareval's (EX-1), and the tests compare the two on
//! generated queries and data; nothing but tests calls spareval. This crate knows no stream; a
//! window is a source like a stored graph.
//!
//! Where spareval departs from the specification the engine does not follow it, and the generated
//! queries leave these out: alternatives of a path keep repeats, a path of no step leads from any
//! constant, `GRAPH ?g` does not bind `?g` inside, COUNT passes over errors, GROUP_CONCAT joins
//! what STR gives and has no language, xsd:date is compared by value, and STR, MIN, MAX and SAMPLE
//! keep the spelling of the data.
//!
//! Rooms, lowest first: algebra, view, value, context, eval, exec, plan, prepared, document,
//! continuous, update, procedure.
//!
//! A room is a folder; its `mod.rs` says what it is for. A room imports from rooms before it in
//! that list, never from one after it. The planner (`plan`) comes after the steps that it makes
//! (`exec`), so that all that concerns one operator can stand in one file.
//!
//! The way of a query: [`Prepared::new`] compiles the parser's algebra (`algebra`). Each execution
//! looks its constants up, makes a plan from the view's statistics (`plan`) and runs its steps
//! (`exec`) on a binding table.

mod algebra;
mod context;
mod continuous;
mod document;
mod eval;
mod exec;
mod plan;
mod prepared;
mod procedure;
mod update;
mod value;
mod view;

pub use algebra::error::QueryError;
pub use context::answer::{Answer, Solutions};
pub use context::cells::Cells;
pub use context::environment::Environment;
pub use context::execution::{Execution, PlanChoices, Remote, RemoteSolutions};
pub use context::group_answer::GroupAnswer;
pub use context::watch::Watch;
pub use continuous::difference::{Bounds, Template};
pub use continuous::grouped::Grouped;
pub use continuous::incremental::{
    Grouping, IncrementalQuery, Mode, RetainedRows, StoredDelta, StoredDifference,
};
pub use document::{DocumentGraph, DocumentQuery};
pub use exec::explain::{ExplainedPlan, ExplainedStep, Explanation};
pub use exec::run::StepFigures;
pub use prepared::Prepared;
pub use prepared::cache::PlanCache;
pub use prepared::execute::Invocation;
pub use prepared::parameters::BoundQuery;
pub use procedure::compiled::CompiledProcedure;
pub use procedure::effects::{Effects, decode, evaluate_update};
pub use procedure::native::{NativeRun, NativeSteps};
pub use procedure::state::{Procedure, TransactionState};
pub use procedure::steps::{Executed, ProcedureInput, WindowSlide};
pub use procedure::stop::{Abort, AbortCause};
pub use procedure::trace::StepTrace;
pub use procedure::txn::{Emission, ExecutionKey, NetEffects, Savepoint, Txn, UpdateKey};
pub use update::{MOST_LISTED, Using};
pub use view::graph_rights::{GraphRights, GraphSet, NameSet, ReadableGraphs};
pub use view::graph_view::{Columns, Dataset, GraphView, NamedGraphs, Source};
pub use view::held_view::HeldView;
pub use view::snapshot_view::SnapshotView;
pub use view::term_source::TermSource;
