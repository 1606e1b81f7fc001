//! BIND: adds a column with the values of an expression, or joins with a column that is there.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::eval::evaluate::Row;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use somersault_lang::VarId;
use somersault_model::TermId;
use std::sync::Arc;

/// Adds a column, or checks it where it is there.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) variable: VarId,
    pub(crate) expr: Arc<Expr>,
}

impl PhysicalOperator for Bind {
    fn binds(&self, bound: &mut VarSet) {
        bound.insert(self.variable);
    }

    fn mentioned(&self) -> VarSet {
        let mut set = self.expr.variables();
        set.insert(self.variable);
        set
    }

    /// A volatile function has a value for each row of the whole table.
    fn may_split(&self) -> bool {
        !self.is_volatile()
    }

    fn is_volatile(&self) -> bool {
        self.expr.is_volatile()
    }

    /// A volatile function gives each row a value of its own.
    fn may_drop_repeats(&self, once: bool) -> bool {
        once && !self.is_volatile()
    }

    fn may_multiply(&self) -> bool {
        false
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let variable = names.variable(self.variable);
        format!("bind {variable} = {}", names.expr(&self.expr))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let (mut table, keep) = (input.table, &input.step.keep);
        let Bind { variable, expr } = self;
        if !keep.contains(*variable) && table.column(*variable).is_none() {
            return Ok(table);
        }
        let mut column = runner.workspace.ids();
        if let Expr::Variable(other) = &**expr
            && let Some(same) = table.column(*other)
        {
            column.extend_from_slice(same);
        }
        for at in column.len()..table.rows {
            runner.limiter.tick()?;
            let row = Row { table: &table, at };
            let evaluation = &mut *runner.evaluation;
            let evaluated = evaluation.evaluate(expr, row);
            column.push(evaluated.map_or(TermId::UNBOUND, |e| evaluation.id(e)));
            runner.limiter.check_memory(evaluation.held_bytes())?;
        }
        let workspace = &mut *runner.workspace;
        let Some(before) = table.take(*variable) else {
            table.set_kept(*variable, column, keep, workspace);
            return Ok(table);
        };
        // The variable has values already: a join with what the expression says.
        let mut kept = workspace.rows();
        for (at, (id, before)) in column.iter_mut().zip(before).enumerate() {
            if id.is_unbound() || before.is_unbound() || *id == before {
                kept.push(at as u32);
            }
            if id.is_unbound() {
                *id = before;
            }
        }
        table.set_kept(*variable, column, keep, workspace);
        let table = table.gather(&kept, keep, workspace);
        workspace.give_rows(kept);
        Ok(table)
    }
}
