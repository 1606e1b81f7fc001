//! The difference that changed statements of stored graphs make to the solutions of a query that
//! has no window. Nothing is retained: solutions that came are found in the graphs as they are, and
//! those that left in the graphs as they were, both from the changed statements on.
//!
//! 1. A statement that was absent and is present has come; one that was present and is absent has
//!    left ([`StoredDelta::run`]).
//! 2. For each pattern, the changed statements that match it are a table, which the other patterns
//!    are joined with. A row with changed statements in several patterns is found by the first.
//! 3. The plan above, which looks at each row alone, makes solutions of the rows.
//!
//! The one thing to know before changing it: a row has values for all variables of the patterns. So
//! it tells which statements it was made from, and exists where all of them are present. Anything
//! that makes a solution depend on other rows is an obstacle.

use super::cores::{is_of_its_row, narrows, obstacle, tells};
use super::rows::Statements;
use super::{MOST_CONSTANTS, constants};
use crate::algebra::error::QueryError;
use crate::algebra::flatten::group_node;
use crate::algebra::logical::{
    GraphPosition, Group, Node, NodeId, Operator, Position, QuadPattern, RetainedScan,
};
use crate::context::answer::{Answer, Solutions};
use crate::context::execution::Execution;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::prepared::Prepared;
use crate::prepared::execute::Invocation;
use crate::prepared::parameters::Arguments;
use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::snapshot_view::SnapshotView;
use rustc_hash::FxHashSet;
use somersault_lang::{QueryForm, VarId};
use somersault_model::{QuadIds, TermId};
use std::sync::{Arc, OnceLock};

/// A query whose solutions follow from changed statements.
pub struct StoredDelta {
    group: Group,
    /// The variables of the patterns.
    variables: Arc<[VarId]>,
    /// Per pattern: the rows that come of a table of statements in its place.
    variants: Vec<OnceLock<Prepared>>,
    /// Makes solutions of rows.
    above: Prepared,
}

/// The solutions that came and left.
#[derive(Debug, Clone)]
pub struct StoredDifference {
    /// Solutions that were not there before.
    pub came: Solutions,
    /// Solutions that are no longer there.
    pub left: Solutions,
}

impl StoredDifference {
    /// The number of its solutions.
    pub fn rows(&self) -> usize {
        self.came.len() + self.left.len()
    }
}

impl StoredDelta {
    /// Splits a query without parameters. The view must have the dataset that all executions will
    /// have.
    ///
    /// # Errors
    /// Why the difference does not follow from the changed statements, phrased to follow "because".
    pub fn new(prepared: &Prepared, view: &dyn GraphView) -> Result<StoredDelta, &'static str> {
        let inner = prepared.inner();
        if !matches!(inner.query.form, QueryForm::Select { .. }) {
            return Err("it is ASK, or CONSTRUCT without ISTREAM and DSTREAM");
        }
        if inner.compiled.constants.terms.len() > MOST_CONSTANTS {
            return Err("it has too many constants");
        }
        if let Some(obstacle) = obstacle(&inner.compiled.root) {
            return Err(obstacle);
        }
        let root = &inner.compiled.root;
        let group = match &root.operator {
            Operator::Project(below) => &below.operator,
            other => other,
        };
        let Operator::Group(group) = group else {
            return Err("it has UNION, DISTINCT, GROUP BY, ORDER BY or LIMIT");
        };
        let ids = constants(prepared, Arguments::NONE, view);
        let mut patterns = group.patterns.iter();
        if !patterns.all(|pattern| graph_of(pattern, view.dataset(), &ids).is_some()) {
            return Err("a pattern reads several graphs, or GRAPH with a variable");
        }
        let (core, around) = split(group)?;
        let variables: Arc<[VarId]> = core.core_certain().iter().collect();
        let rows = RetainedScan {
            number: 0,
            variables: Arc::clone(&variables),
        };
        let above = Group {
            blocks: vec![retained(rows)],
            ..around
        };
        let above = match &root.operator {
            Operator::Project(below) => Node {
                operator: Operator::Project(Box::new(Node {
                    operator: Operator::Group(above),
                    ..(**below).clone()
                })),
                ..root.clone()
            },
            _ => Node {
                operator: Operator::Group(above),
                ..root.clone()
            },
        };
        Ok(StoredDelta {
            variants: core.patterns.iter().map(|_| OnceLock::new()).collect(),
            above: prepared.with_root(above),
            group: core,
            variables,
        })
    }

    /// The solutions that came and left between two views, of which these statements may differ.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run(
        &self,
        changed: &[QuadIds],
        before: &SnapshotView,
        now: &SnapshotView,
        execution: &Execution,
    ) -> Result<StoredDifference, QueryError> {
        let holds = |view: &SnapshotView, quad: &QuadIds| view.snapshot().contains(*quad);
        let (mut came, mut left) = (FxHashSet::default(), FxHashSet::default());
        for quad in changed {
            match (holds(before, quad), holds(now, quad)) {
                (false, true) => _ = came.insert(*quad),
                (true, false) => _ = left.insert(*quad),
                (true, true) | (false, false) => {}
            }
        }
        Ok(StoredDifference {
            came: self.solutions(&came, now, execution)?,
            left: self.solutions(&left, before, execution)?,
        })
    }

    /// The solutions on a view that have at least one of these statements.
    fn solutions(
        &self,
        changed: &FxHashSet<QuadIds>,
        view: &SnapshotView,
        execution: &Execution,
    ) -> Result<Solutions, QueryError> {
        let ids = constants(&self.above, Arguments::NONE, view);
        // Of this view: the name of a graph may have had no id before.
        let graph = |pattern| graph_of(pattern, view.dataset(), &ids);
        let graphs: Vec<Option<TermId>> = self.group.patterns.iter().map(graph).collect();
        let mut rows = Table::of(self.variables.iter().map(|v| (*v, Vec::new())), 0);
        for at in 0..self.group.patterns.len() {
            let Some(graph) = graphs[at] else {
                continue;
            };
            let matching = [self.matching((at, graph), changed, &ids)];
            if matching[0].rows == 0 {
                continue;
            }
            let variant = self.variant(at);
            let mut found = variant.evaluate_over(
                Invocation::new(view, execution),
                |run| {
                    run.evaluation.maintained = &matching;
                    Ok(())
                },
                |run, table, workspace| {
                    workspace.give_ids(run.evaluation.constants);
                    Ok(table)
                },
            )?;
            let known = self.known(&graphs[..at], changed, &found, &ids);
            if !known.is_empty() {
                found.remove(&known);
            }
            Workspace::of_thread(|workspace| rows.append(found, workspace));
        }
        let rows = [rows];
        let answer = self.above.evaluate_over(
            Invocation::new(view, execution),
            |run| {
                run.evaluation.maintained = &rows;
                Ok(())
            },
            |run, table, workspace| run.answer(&self.above, table, workspace),
        )?;
        match answer {
            Answer::Solutions(solutions) => Ok(solutions),
            _ => unreachable!("a delta is made of SELECT alone"),
        }
    }

    /// The query for the rows with statements of a table in the place of a pattern.
    fn variant(&self, at: usize) -> &Prepared {
        self.variants[at].get_or_init(|| {
            let mut group = self.group.clone();
            let pattern = group.patterns.remove(at);
            group.blocks.push(retained(RetainedScan {
                number: 0,
                variables: pattern.variables().iter().collect(),
            }));
            self.above.part(&self.variables, group_node(group))
        })
    }

    /// The values that these statements give to the variables of a pattern, where they match it.
    fn matching(
        &self,
        (at, graph): (usize, TermId),
        changed: &FxHashSet<QuadIds>,
        ids: &[TermId],
    ) -> Table {
        let pattern = &self.group.patterns[at];
        let variables: Vec<VarId> = pattern.variables().iter().collect();
        let mut columns = vec![Vec::new(); variables.len()];
        let mut rows = 0;
        'statements: for quad in changed.iter().filter(|quad| quad.graph == graph) {
            let mut values = vec![None; variables.len()];
            for (position, term) in [
                (pattern.subject, quad.subject),
                (pattern.predicate, quad.predicate),
                (pattern.object, quad.object),
            ] {
                let wanted = match position {
                    Position::Constant(constant) => ids[constant.index()],
                    Position::Variable(variable) => {
                        let place = variables.iter().position(|other| *other == variable);
                        let place = place.expect("a pattern knows its variables");
                        *values[place].get_or_insert(term)
                    }
                };
                if wanted != term {
                    continue 'statements;
                }
            }
            for (column, value) in columns.iter_mut().zip(values) {
                column.extend(value);
            }
            rows += 1;
        }
        Table::of(variables.into_iter().zip(columns), rows)
    }

    /// The rows that an earlier pattern has found; the earlier ones read these graphs.
    fn known(
        &self,
        graphs: &[Option<TermId>],
        changed: &FxHashSet<QuadIds>,
        table: &Table,
        ids: &[TermId],
    ) -> Vec<u32> {
        let earlier = self.group.patterns.iter().zip(graphs);
        let earlier: Vec<(Statements<'_>, TermId)> = earlier
            .filter_map(|(pattern, graph)| Some((Statements::of(pattern, table, ids), (*graph)?)))
            .collect();
        let is_known = |row: &u32| {
            let mut statements = earlier.iter();
            statements.any(|(of, graph)| changed.contains(&of.at(*row).in_graph(*graph)))
        };
        (0..table.rows as u32).filter(is_known).collect()
    }
}

/// The stored graph that a pattern reads, if it is one.
fn graph_of(pattern: &QuadPattern, dataset: &Dataset, ids: &[TermId]) -> Option<TermId> {
    let source = match pattern.graph {
        GraphPosition::Default => match &dataset.default[..] {
            [source] => *source,
            _ => return None,
        },
        GraphPosition::Named(Position::Constant(name)) => {
            dataset.named_source(ids[name.index()])?
        }
        _ => return None,
    };
    match source {
        Source::Stored(graph) => Some(graph),
        Source::Window(_) => None,
    }
}

/// The patterns of a group with the conditions on their variables, and the rest.
fn split(group: &Group) -> Result<(Group, Group), &'static str> {
    if !group.paths.is_empty() || !group.graphs.is_empty() {
        return Err("it has a path, or GRAPH without a pattern");
    }
    if group.patterns.is_empty() {
        return Err("it has GROUP BY, UNION or a sub-select around all patterns, or no pattern");
    }
    if !group.tails.is_empty() {
        return Err("it has OPTIONAL or MINUS");
    }
    let binds = group.binds.iter().map(|(_, expr)| expr);
    if !group
        .filters
        .iter()
        .chain(binds)
        .all(|expr| is_of_its_row(expr))
    {
        return Err("it has EXISTS, NOW() or RAND() and the like");
    }
    let core = Group {
        patterns: group.patterns.clone(),
        ..Group::default()
    };
    let bound = core.core_certain();
    if !group.blocks.iter().all(|block| narrows(block, &bound)) {
        return Err("it has UNION, a sub-select, SERVICE or VALUES with other variables");
    }
    let (inside, outside): (Vec<_>, Vec<_>) =
        (group.filters.iter().cloned()).partition(|filter| tells(&core, filter));
    let core = Group {
        blocks: group.blocks.clone(),
        filters: inside,
        ..core
    };
    let around = Group {
        binds: group.binds.clone(),
        filters: outside,
        ..Group::default()
    };
    Ok((core, around))
}

fn retained(rows: RetainedScan) -> Node {
    let variables = rows.variables.iter().copied();
    let bound = crate::algebra::varset::VarSet::of(variables);
    Node {
        id: NodeId::new(),
        operator: Operator::Retained(rows),
        certain: bound.clone(),
        possible: bound,
    }
}
