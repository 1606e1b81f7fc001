//! Finds the groupings whose groups are retained between executions: GROUP BY and DISTINCT directly
//! over cores, or over a UNION of cores. In the remaining tree, a table of the groups replaces
//! them.
//!
//! The one thing to know before changing it: the grouped rows must be exactly the rows of the
//! cores, so that a group changes only when a row is added or removed.

use super::cores::is_of_its_row;
use super::states::Function;
use crate::algebra::expression::Expr;
use crate::algebra::logical::{Aggregate, Group, Node, Operator};
use crate::algebra::varset::VarSet;
use somersault_lang::{AggregateFunction, VarId};
use std::sync::Arc;

/// A grouping whose groups are retained: the cores it is over, its keys and its measures.
pub(super) struct Fold {
    /// The numbers of the cores whose rows are grouped. The table of the groups has the number of
    /// the first.
    pub(super) cores: Vec<usize>,
    pub(super) keys: Vec<VarId>,
    pub(super) measures: Vec<Measure>,
    /// Arguments of measures that are computed once, when a row comes.
    pub(super) expressions: Vec<Expression>,
}

/// An aggregate.
pub(super) struct Measure {
    pub(super) variable: VarId,
    pub(super) function: Function,
    /// Whether each value counts once in a group: only of columns.
    pub(super) distinct: bool,
    pub(super) argument: Argument,
}

/// The argument of a measure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Argument {
    /// The row itself.
    Row,
    Column(VarId),
    /// One of the expressions.
    Computed(usize),
}

/// An expression, where it stands.
pub(super) enum Expression {
    Aggregated(Arc<[(VarId, Aggregate)]>, usize),
    Bound(Arc<Expr>),
}

impl Expression {
    pub(super) fn get(&self) -> &Expr {
        match self {
            Expression::Bound(expr) => expr,
            Expression::Aggregated(aggregates, at) => match &aggregates[*at].1 {
                Aggregate::Of { expression, .. } => expression,
                Aggregate::CountSolutions { .. } => unreachable!("it is of no expression"),
            },
        }
    }
}

const BETWEEN: &str = "an operator stands between the grouping and the retained rows (OPTIONAL, MINUS, EXISTS, a path, a \
    subquery, a condition on a value of BIND)";
const KEYS: &str = "it groups by a value of BIND";
const SOLUTIONS: &str = "it counts DISTINCT solutions";
const VALUES: &str = "an aggregate is over DISTINCT values of an expression";
const COMPUTED: &str =
    "an aggregate is over an expression that depends on more than the values in its row";
const EXTREME: &str = "MIN or MAX is over an expression that is not arithmetic";
const CUSTOM: &str = "it has an aggregate that is not one of COUNT, SUM, AVG, MIN and MAX";
/// The obstacle of a sort by variables that DISTINCT drops.
pub(super) const SORTED: &str = "it is sorted by a value that is not among its DISTINCT values";

/// The kept rows below a grouping.
#[derive(Default)]
struct Below {
    cores: Vec<usize>,
    binds: Vec<(VarId, Arc<Expr>)>,
    /// The variables of the rows.
    variables: VarSet,
}

impl Below {
    /// Whether a node consists of retained scans and binds only.
    fn collect(&mut self, node: &Node, folds: &[Fold]) -> bool {
        match &node.operator {
            Operator::Retained(leaf) => {
                self.cores.push(leaf.number);
                self.variables.extend(&node.possible);
                !folds.iter().any(|fold| fold.cores.contains(&leaf.number))
            }
            Operator::Project(inner) => self.collect(inner, folds),
            Operator::Union(list) => {
                let before = self.binds.len();
                // A bind in one branch does not hold in the others.
                list.iter().all(|branch| self.collect(branch, folds)) && self.binds.len() == before
            }
            Operator::Group(group) => {
                let [block] = &group.blocks[..] else {
                    return false;
                };
                let Group {
                    patterns,
                    paths,
                    graphs,
                    filters,
                    tails,
                    ..
                } = group;
                let is_plain = patterns.is_empty()
                    && paths.is_empty()
                    && graphs.is_empty()
                    && filters.is_empty()
                    && tails.is_empty();
                self.binds.extend(group.binds.iter().cloned());
                is_plain && self.collect(block, folds)
            }
            _ => false,
        }
    }

    fn binds(&self, variable: VarId) -> bool {
        self.binds.iter().any(|(bound, _)| *bound == variable)
    }

    /// The aggregated expression; for a variable that a bind defines, the expression of that bind.
    fn expression(
        &self,
        aggregates: &Arc<[(VarId, Aggregate)]>,
        at: usize,
        expr: &Expr,
    ) -> Expression {
        let bind = match expr {
            Expr::Variable(variable) => self.binds.iter().find(|(bound, _)| bound == variable),
            _ => None,
        };
        match bind {
            Some((_, bind)) => Expression::Bound(Arc::clone(bind)),
            None => Expression::Aggregated(Arc::clone(aggregates), at),
        }
    }

    /// Whether an expression has the same value for a row wherever it is evaluated, before any bind
    /// above the row.
    fn is_of_rows(&self, expr: &Expr) -> bool {
        is_of_its_row(expr) && !expr.variables().iter().any(|variable| self.binds(variable))
    }
}

impl Fold {
    /// The groups of the rows below.
    ///
    /// # Errors
    /// Why they cannot be retained, phrased to follow "because".
    pub(super) fn new(
        inner: &Node,
        keys: Vec<VarId>,
        aggregates: &Arc<[(VarId, Aggregate)]>,
        folds: &[Fold],
    ) -> Result<Fold, &'static str> {
        let mut below = Below::default();
        if !below.collect(inner, folds) {
            return Err(BETWEEN);
        }
        if keys.iter().any(|key| below.binds(*key)) {
            return Err(KEYS);
        }
        // A bind of a variable that already has a value is a join.
        let mut bound = below.variables.clone();
        for (variable, _) in &below.binds {
            if bound.contains(*variable) {
                return Err(BETWEEN);
            }
            bound.insert(*variable);
        }
        let mut expressions = Vec::new();
        let measures = (0..aggregates.len())
            .map(|at| measure(aggregates, at, &below, &mut expressions))
            .collect::<Result<Vec<Measure>, _>>();
        Ok(Fold {
            measures: measures?,
            cores: below.cores,
            keys,
            expressions,
        })
    }
}

fn measure(
    aggregates: &Arc<[(VarId, Aggregate)]>,
    at: usize,
    below: &Below,
    expressions: &mut Vec<Expression>,
) -> Result<Measure, &'static str> {
    let (variable, aggregate) = &aggregates[at];
    let (function, distinct, expr) = match aggregate {
        Aggregate::CountSolutions { distinct: true, .. } => return Err(SOLUTIONS),
        Aggregate::CountSolutions { .. } => {
            return Ok(Measure {
                variable: *variable,
                function: Function::Count,
                distinct: false,
                argument: Argument::Row,
            });
        }
        Aggregate::Of {
            function,
            distinct,
            expression,
        } => (function, distinct, expression),
    };
    let function = match function {
        AggregateFunction::Count => Function::Count,
        AggregateFunction::Sum => Function::Sum,
        AggregateFunction::Avg => Function::Average,
        AggregateFunction::Min => Function::Least,
        AggregateFunction::Max => Function::Greatest,
        AggregateFunction::Sample
        | AggregateFunction::GroupConcat { .. }
        | AggregateFunction::Custom(_) => return Err(CUSTOM),
    };
    let is_extreme = matches!(function, Function::Least | Function::Greatest);
    let argument = match expr {
        Expr::Variable(variable) if !below.binds(*variable) => Argument::Column(*variable),
        _ => {
            let expression = below.expression(aggregates, at, expr);
            let expr = expression.get();
            if !below.is_of_rows(expr) {
                return Err(COMPUTED);
            }
            if *distinct && !is_extreme {
                return Err(VALUES);
            }
            // Other expressions may pass on a term with its spelling, which would have to be
            // retained.
            let is_number = matches!(
                expr,
                Expr::Arithmetic(..) | Expr::UnaryPlus(_) | Expr::UnaryMinus(_)
            );
            if is_extreme && !is_number {
                return Err(EXTREME);
            }
            expressions.push(expression);
            Argument::Computed(expressions.len() - 1)
        }
    };
    Ok(Measure {
        variable: *variable,
        function,
        // MIN and MAX are the same over distinct values.
        distinct: *distinct && !is_extreme,
        argument,
    })
}
