//! The operators of a plan, one a file: its data, what it reads and binds, how it is explained, and
//! how it runs. The one thing to know before changing them: what an operator says of itself here
//! steers how its plan is cut into parts and pruned, so it must hold for any data.
//!
//! To add an operator, write its file, and name it in `operators!`.
//! All that depends on the kind of a step is asked through [`PhysicalOperator`], once a step and
//! not once a row.

mod anti_semi;
mod bind;
mod call_service;
mod degrees;
mod distinct;
mod each_graph;
mod filter_rows;
mod follow_path;
mod graph_name;
mod group_by;
mod in_term_order;
mod intersect;
mod join;
mod join_cells;
mod join_retained;
mod join_values;
mod minus;
mod optional;
mod optional_join;
mod order_by;
mod reduce;
mod scan;
mod slice;
mod union;

pub(crate) use anti_semi::AntiSemi;
pub(crate) use bind::Bind;
pub(crate) use call_service::CallService;
pub(crate) use degrees::Degrees;
pub(crate) use distinct::Distinct;
pub(crate) use each_graph::EachGraph;
pub(crate) use filter_rows::FilterRows;
pub(crate) use follow_path::FollowPath;
pub(crate) use graph_name::GraphName;
pub(crate) use group_by::GroupBy;
pub(crate) use in_term_order::InTermOrder;
pub(crate) use intersect::Intersect;
pub(crate) use join::Join;
pub(crate) use join_cells::JoinCells;
pub(crate) use join_retained::JoinRetained;
pub(crate) use join_values::JoinValues;
pub(crate) use minus::Minus;
pub(crate) use optional::Optional;
pub(crate) use optional_join::OptionalJoin;
pub(crate) use order_by::OrderBy;
pub(crate) use reduce::Reduce;
pub(crate) use scan::Scan;
pub(crate) use slice::Slice;
pub(crate) use union::Union;

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::run::Runner;
use crate::exec::step::{Plan, Step};

/// Declares the operators: each is a variant of [`StepKind`].
macro_rules! operators {
    ($($operator:ident),+ $(,)?) => {
        /// The operator of a step.
        #[derive(Debug)]
        pub(crate) enum StepKind {
            $($operator($operator)),+
        }

        $(impl From<$operator> for StepKind {
            fn from(operator: $operator) -> Self {
                Self::$operator(operator)
            }
        })+

        impl StepKind {
            /// The operator of this kind.
            pub(crate) fn operator(&self) -> &dyn PhysicalOperator {
                match self {
                    $(Self::$operator(operator) => operator),+
                }
            }

            /// The same, to be pruned.
            pub(crate) fn operator_mut(&mut self) -> &mut dyn PhysicalOperator {
                match self {
                    $(Self::$operator(operator) => operator),+
                }
            }
        }
    };
}

operators!(
    Scan,
    Intersect,
    Reduce,
    FollowPath,
    GraphName,
    FilterRows,
    Bind,
    Union,
    Join,
    JoinValues,
    JoinCells,
    JoinRetained,
    CallService,
    Optional,
    OptionalJoin,
    EachGraph,
    AntiSemi,
    Minus,
    GroupBy,
    Degrees,
    OrderBy,
    Distinct,
    InTermOrder,
    Slice,
);

/// What a step runs on.
pub(crate) struct Input<'s> {
    pub(crate) table: Table,
    pub(crate) step: &'s Step,
    /// More rows than that need not come out.
    pub(crate) wanted: usize,
}

/// One kind of step: what it says of itself to the planner and to EXPLAIN, and how it runs.
pub(crate) trait PhysicalOperator {
    /// Adds the variables that may have values after it.
    fn binds(&self, _bound: &mut VarSet) {}

    /// The variables that it reads or binds, once its plans are pruned.
    fn mentioned(&self) -> VarSet;

    /// Prunes its plans, where `needed` is needed of its rows; returns what is needed of its input.
    /// `once`: nothing that follows counts its rows.
    fn prune(&mut self, needed: VarSet, _once: bool) -> VarSet {
        needed.union(&self.mentioned())
    }

    /// Whether it may run on parts of the table, the plans of its EXISTS aside: what it makes of a
    /// row depends on that row alone, and it repeats no work for each part.
    fn may_split(&self) -> bool {
        false
    }

    /// Whether it draws something for each row, so that the order of the rows shows.
    fn is_volatile(&self) -> bool {
        false
    }

    /// For an operator that may split: whether its rows follow the order of the input, and those of
    /// one input row an order of their own, so that they are the same however the input is divided.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Whether it gives the same, repeats of rows aside, of input without repeats. `once`: what
    /// follows it does not count rows.
    fn may_drop_repeats(&self, once: bool) -> bool {
        once
    }

    /// Whether more rows can come out than go in.
    fn may_multiply(&self) -> bool {
        true
    }

    /// Whether it may look for variables without saying which values it found.
    fn may_leave_ends_open(&self) -> bool {
        false
    }

    /// The plans that it runs.
    fn children(&self) -> Vec<Child<'_>> {
        Vec::new()
    }

    /// The operator's line in EXPLAIN, where these variables have values in its input.
    fn explain(&self, names: &Names<'_>, bound: &VarSet) -> String;

    /// Runs it on a table.
    ///
    /// # Errors
    /// A limit was reached, the query was cancelled, or a remote part failed.
    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError>;
}

/// A plan that an operator runs, as EXPLAIN shows it.
pub(crate) struct Child<'p> {
    pub(crate) plan: &'p Plan,
    /// A line above it.
    pub(crate) label: Option<&'static str>,
    /// Whether it starts from the operator's rows, and not by itself.
    pub(crate) from_rows: bool,
    /// Variables that have values in its input beside those.
    pub(crate) with: Option<&'p VarSet>,
}

impl<'p> Child<'p> {
    /// A plan that starts from the operator's rows.
    fn from_rows(plan: &'p Plan) -> Child<'p> {
        Child {
            plan,
            label: None,
            from_rows: true,
            with: None,
        }
    }

    /// A plan that starts by itself.
    fn alone(plan: &'p Plan) -> Child<'p> {
        Child {
            from_rows: false,
            ..Child::from_rows(plan)
        }
    }

    fn labelled(self, label: &'static str) -> Child<'p> {
        let label = Some(label);
        Child { label, ..self }
    }

    fn with(self, variables: &'p VarSet) -> Child<'p> {
        let with = Some(variables);
        Child { with, ..self }
    }
}
