//! `GRAPH ?g` around what has to run once per named graph.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Child, Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::exec::step::Plan;
use somersault_lang::VarId;

/// Runs the plan in each named graph, and joins with the graph's name.
#[derive(Debug)]
pub(crate) struct EachGraph {
    pub(crate) variable: VarId,
    pub(crate) plan: Plan,
    pub(crate) yields: VarSet,
}

impl PhysicalOperator for EachGraph {
    fn binds(&self, bound: &mut VarSet) {
        bound.extend(&self.yields);
    }

    fn mentioned(&self) -> VarSet {
        self.yields.union(&VarSet::of([self.variable]))
    }

    fn prune(&mut self, needed: VarSet, once: bool) -> VarSet {
        let mut inner = needed.intersection(&self.yields);
        inner.insert(self.variable);
        self.plan.prune(&inner, once);
        VarSet::new()
    }

    fn children(&self) -> Vec<Child<'_>> {
        vec![Child::alone(&self.plan)]
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        format!("in each named graph {}", names.variable(self.variable))
    }

    fn run(&self, _input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let mut all: Option<Table> = None;
        let mut held = 0;
        for (name, [source]) in runner.graphs.named().to_vec() {
            let before = runner.graphs.set_current(Some(source));
            let result = runner.run(&self.plan, Table::unit());
            runner.graphs.set_current(before);
            let mut table = result?;
            // Where the pattern binds the variable itself, it has to be this graph's name.
            if let Some(column) = table.take(self.variable) {
                let all = table.variables();
                table = runner.select(table, &all, |row| {
                    column[row].is_unbound() || column[row] == name
                });
            }
            table.set(self.variable, vec![name; table.rows]);
            let bytes = table.bytes();
            match &mut all {
                Some(all) => all.append(table, runner.workspace),
                None => all = Some(table),
            }
            runner.limiter.reserve(bytes)?;
            held += bytes;
        }
        runner.limiter.release(held);
        Ok(all.unwrap_or_else(|| Table::of([], 0)))
    }
}
