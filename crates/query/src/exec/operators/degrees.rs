//! The number of edges of each vertex: the result of GROUP BY over one pattern where only its
//! solutions are counted. The lengths of the lists give it, and no solution is made. This is right
//! because a graph is a set: each edge of a vertex is one solution, with one other end.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::logical::{Aggregate, GraphPosition, Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::explore::Explorer;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::value::term_value::Value;
use crate::view::sources::{self, Lists};
use somersault_lang::{AggregateFunction, VarId};
use somersault_model::{Direction, TermId};

/// Vertices that are counted for between two looks at the limits.
const VERTICES_PER_LOOK: usize = 1 << 12;

/// Counts of the edges of each vertex.
#[derive(Debug)]
pub(crate) struct Degrees {
    pattern: QuadPattern,
    /// The end that is grouped by.
    key: VarId,
    direction: Direction,
    /// The variables that get the number.
    counts: Vec<VarId>,
}

impl Degrees {
    /// Groups of the solutions of a pattern, if their aggregates are such counts.
    pub(crate) fn of(
        pattern: &QuadPattern,
        keys: &[VarId],
        aggregates: &[(VarId, Aggregate)],
    ) -> Option<Degrees> {
        let (
            &[key],
            Position::Variable(subject),
            Position::Constant(_),
            Position::Variable(object),
        ) = (keys, pattern.subject, pattern.predicate, pattern.object)
        else {
            return None;
        };
        let (direction, other) = match key {
            _ if subject == object => return None,
            key if key == subject => (Direction::Out, object),
            key if key == object => (Direction::In, subject),
            _ => return None,
        };
        if matches!(pattern.graph, GraphPosition::Named(Position::Variable(_))) {
            return None;
        }
        let counts = |aggregate: &Aggregate| match aggregate {
            // A blank node at the other end is not part of a solution: it makes none distinct.
            Aggregate::CountSolutions { distinct, scope } => !*distinct || scope.contains(&other),
            Aggregate::Of {
                function: AggregateFunction::Count,
                distinct,
                expression: Expr::Variable(variable),
            } => *variable == other || (*variable == key && !*distinct),
            Aggregate::Of { .. } => false,
        };
        (aggregates.iter().all(|(_, aggregate)| counts(aggregate))).then(|| Degrees {
            pattern: *pattern,
            key,
            direction,
            counts: aggregates.iter().map(|(variable, _)| *variable).collect(),
        })
    }

    /// The vertices that have edges, and how many each has.
    fn count(
        &self,
        explorer: &mut Explorer<'_, '_>,
    ) -> Result<(Vec<TermId>, Vec<usize>), QueryError> {
        let constants = explorer.constants;
        let graphs = explorer.graphs;
        let reads = graphs.reads(self.pattern.graph, |c| constants[c.index()]);
        let predicate = match self.pattern.predicate {
            Position::Constant(constant) => constants[constant.index()],
            Position::Variable(_) => TermId::UNBOUND,
        };
        let (view, direction) = (graphs.view(), self.direction);
        let most = sources::vertices_at_most(view, &reads, predicate, direction);
        explorer.limiter.check_memory(most * 16)?;
        let mut lists = Lists::default();
        let vertices = sources::vertices_with(view, &reads, predicate, direction, &mut lists);
        let vertices = vertices.to_vec();
        let mut counts = Vec::with_capacity(vertices.len());
        for part in vertices.chunks(VERTICES_PER_LOOK) {
            explorer.limiter.check_memory(vertices.len() * 16)?;
            explorer.limiter.check_interrupt()?;
            counts.extend(part.iter().map(|vertex| {
                let lists = &mut lists;
                sources::neighbours(view, &reads, *vertex, predicate, direction, lists).len()
            }));
        }
        Ok((vertices, counts))
    }
}

impl PhysicalOperator for Degrees {
    fn binds(&self, bound: &mut VarSet) {
        *bound = self.mentioned();
    }

    fn mentioned(&self) -> VarSet {
        VarSet::of(self.counts.iter().copied().chain([self.key]))
    }

    fn prune(&mut self, _needed: VarSet, _once: bool) -> VarSet {
        VarSet::new()
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!(
            "count edges {} by {} as {}",
            names.pattern(&self.pattern),
            names.variable(self.key),
            names.list(self.counts.iter().copied())
        )
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        debug_assert!(input.table.origin.is_none() && input.table.rows == 1);
        let explorer = &mut runner.explorer(input.step, input.wanted);
        let (vertices, counts) = self.count(explorer)?;
        let mut table = Table::of([(self.key, vertices)], counts.len());
        for variable in &self.counts {
            let number = |count: &usize| Value::Integer((*count as i64).into());
            let ids = counts.iter();
            let ids = ids.map(|count| runner.evaluation.id(number(count).into()));
            table.set(*variable, ids.collect());
        }
        Ok(table)
    }
}
