//! SERVICE: what another endpoint answers, joined with the rows so far. It is asked once for each
//! endpoint, in the order in which the rows name them.

use crate::algebra::error::QueryError;
use crate::algebra::logical::{Position, Service};
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use oxrdf::Term;
use somersault_model::TermId;
use std::sync::Arc;

/// Joins the rows with what an endpoint answers.
#[derive(Debug)]
pub(crate) struct CallService(pub(crate) Arc<Service>);

impl PhysicalOperator for CallService {
    fn binds(&self, bound: &mut VarSet) {
        let variables = self.0.variables.iter();
        variables.for_each(|(variable, _)| bound.insert(*variable));
    }

    fn mentioned(&self) -> VarSet {
        let answers = self.0.variables.iter().map(|(variable, _)| *variable);
        VarSet::of(answers.chain(self.0.name.variable()))
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let variables = self.0.variables.iter().map(|(variable, _)| *variable);
        let name = names.position(self.0.name);
        format!("service {name} ({})", names.list(variables))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let Input { table, step, .. } = input;
        runner.service(&self.0, &step.keep, table)
    }
}

impl Runner<'_, '_> {
    /// Joins a table with what the endpoints answer that its rows name.
    fn service(
        &mut self,
        service: &Service,
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        // A query that has to be light must not wait for the network.
        self.limiter.refuse_light()?;
        if table.rows == 0 {
            return Ok(Table::empty_like(&table));
        }
        let variable = match service.name {
            Position::Constant(constant) => {
                let name = self.evaluation.constants[constant.index()];
                return self.service_at(service, name, keep, table);
            }
            Position::Variable(variable) => variable,
        };
        let mut names: Vec<TermId> = Vec::new();
        for row in 0..table.rows {
            let name = table.get(variable, row);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut all = Table::empty_like(&table);
        for name in names {
            let rows: Vec<u32> = (0..table.rows as u32)
                .filter(|row| table.get(variable, *row as usize) == name)
                .collect();
            let own = table.copy(self.workspace);
            let own = own.gather(&rows, &table.variables(), self.workspace);
            let joined = self.service_at(service, name, keep, own)?;
            all.append(joined, self.workspace);
            self.limiter.check_memory(all.bytes())?;
        }
        Ok(all)
    }

    fn service_at(
        &mut self,
        service: &Service,
        name: TermId,
        keep: &VarSet,
        table: Table,
    ) -> Result<Table, QueryError> {
        match self.ask(service, name) {
            Ok(right) => {
                self.limiter.check_memory(table.bytes() + right.bytes())?;
                let shared = VarSet::of(service.variables.iter().map(|(v, _)| *v));
                self.join(table, right, &shared, keep)
            }
            // One empty solution.
            Err(_) if service.silent => Ok(table),
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, service: &Service, name: TermId) -> Result<Table, QueryError> {
        let Some(Term::NamedNode(endpoint)) = self.evaluation.term(name) else {
            return Err(QueryError::Evaluation {
                message: "the endpoint of a SERVICE is not an IRI. Bind its variable before".into(),
            });
        };
        let what = format!("SERVICE {endpoint}");
        let Some(remote) = self.limiter.remote() else {
            return Err(QueryError::RemoteNotAllowed { what });
        };
        let answer = remote
            .select(endpoint.as_str(), &service.text)
            .map_err(|message| QueryError::Remote { what, message })?;
        let mut columns = Vec::with_capacity(service.variables.len());
        for (variable, name) in &service.variables {
            let place = answer.variables.iter().position(|other| other == name);
            let Some(place) = place else { continue };
            let mut column = Vec::with_capacity(answer.rows.len());
            for row in &answer.rows {
                let term = row.get(place).cloned().flatten();
                let evaluation = &mut *self.evaluation;
                column.push(term.map_or(TermId::UNBOUND, |term| {
                    evaluation.local.id(term, evaluation.dictionary)
                }));
            }
            self.limiter.check_memory(self.evaluation.held_bytes())?;
            columns.push((*variable, column));
        }
        Ok(Table::of(columns, answer.rows.len()))
    }
}
