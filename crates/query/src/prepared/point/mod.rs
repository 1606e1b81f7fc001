//! Point queries: those that find one row at most as long as each list that they read has one id
//! at most. Most steps of procedures are such. They run on one row in place, without a plan and
//! without a table for each step.
//!
//! 1. [`PointQuery::of`] puts the parts of a query in an order in which each pattern has a known
//!    end or reads a batch (`order`), or finds that there is none.
//! 2. [`PointQuery::table`] follows it (`run`). As soon as a list has several ids it gives up, and
//!    the query runs by its plan. Only the last list may have a few, each of which is a row.
//!
//! The one thing to know before changing it: the plan is the dull twin. Whatever might differ there
//! is no point query: a function whose value depends on the number of calls before, a variable that
//! gets its value in two places.

mod order;
mod run;

use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use somersault_lang::VarId;
use somersault_model::Direction;
use std::sync::Arc;

/// A query as steps on one row.
#[derive(Debug)]
pub(crate) struct PointQuery {
    steps: Vec<PointStep>,
    reads_subjects: bool,
    /// Whether the last list may have several ids: nothing in the query looks at other rows than
    /// one.
    takes_rows: bool,
}

/// A step. It may end the search without a row.
#[derive(Debug)]
enum PointStep {
    /// Reads the only id of a list.
    Follow {
        graph: GraphPosition,
        from: Position,
        predicate: ConstantId,
        direction: Direction,
        to: VarId,
    },
    /// Reads the only statement of a batch that has the predicate.
    Read {
        batch: ConstantId,
        predicate: ConstantId,
        subject: VarId,
        object: VarId,
    },
    /// Looks for a statement.
    Check(QuadPattern, ConstantId),
    Bind(VarId, Arc<Expr>),
    Filter(Arc<Expr>),
    /// OPTIONAL: its variables have values if all its steps find a row.
    Optional(NestedSteps),
    /// Finds out whether an EXISTS holds, for the expression that comes next.
    Exists(usize, NestedSteps),
}

/// Steps that begin with the row and may fail.
#[derive(Debug)]
struct NestedSteps {
    steps: Vec<PointStep>,
    /// The variables to which they give values.
    variables: Vec<VarId>,
}

impl PointQuery {
    /// Whether it reads lists of subjects, which not every view has at hand.
    pub(crate) fn reads_subjects(&self) -> bool {
        self.reads_subjects
    }
}
