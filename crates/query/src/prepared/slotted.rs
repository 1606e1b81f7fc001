//! A query of a procedure's step. Its variables that stand for values of the procedure (slots) are
//! parameters of the compiled query, so that it is planned once and not for each call.
//!
//! The one thing to know before changing it: a slot without a value leaves its variable a variable.
//! So there is one compiled query for each set of slots that have values. All but the first, in
//! which all have, are made when they are needed.

use crate::algebra::compile::{Compiled, compile, compile_in_order};
use crate::algebra::error::QueryError;
use crate::prepared::Prepared;
use crate::prepared::parameters::placeholder;
use crate::prepared::point::PointQuery;
use oxrdf::{NamedNode, Term};
use parking_lot::RwLock;
use somersault_lang::{Bound, DatasetClause, KeptGraph, Query, QueryForm, VarId};
use somersault_model::TermId;
use std::borrow::Cow;
use std::sync::Arc;

/// A query of a step, with the batches and windows that it reads as parameters, too.
pub(crate) struct SlottedQuery {
    query: Query,
    bound: Vec<Bound>,
    /// Whether rows that ORDER BY leaves equal come in the order of their terms.
    in_term_order: bool,
    /// The query for the case that all slots have values.
    whole: Variant,
    /// The other ones, with the slots that have values.
    others: RwLock<Vec<(Box<[bool]>, Variant)>>,
}

/// A compiled query for one set of slots that have values.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) prepared: Prepared,
    /// The same query on one row, if it is such a query.
    pub(crate) point: Option<Arc<PointQuery>>,
    /// Per parameter, what gives it its value.
    arguments: Box<[ValueSource]>,
}

/// What gives a parameter its value.
#[derive(Clone, Copy)]
enum ValueSource {
    /// A slot.
    Slot(usize),
    /// A batch or a window: its number among those of the procedure.
    Graph(usize),
}

impl Variant {
    /// The values of its parameters.
    pub(crate) fn arguments(&self, slots: &[TermId], graphs: &[TermId], ids: &mut Vec<TermId>) {
        ids.clear();
        ids.extend(self.arguments.iter().map(|argument| match argument {
            ValueSource::Slot(slot) => slots[*slot],
            ValueSource::Graph(graph) => graphs[*graph],
        }));
    }
}

impl SlottedQuery {
    /// Compiles a query for the case that all its slots have values. `kept` are the batches and
    /// windows of the procedure.
    ///
    /// # Errors
    /// The pattern gives a variable its value that stands for a slot.
    pub(crate) fn new(
        query: Query,
        bound: Vec<Bound>,
        kept: &[KeptGraph],
        in_term_order: bool,
    ) -> Result<SlottedQuery, QueryError> {
        let has_value = vec![true; bound.len()];
        let whole = variant(&query, &bound, &has_value, kept, in_term_order)?;
        Ok(SlottedQuery {
            query,
            bound,
            in_term_order,
            whole,
            others: RwLock::default(),
        })
    }

    /// The dataset clause.
    pub(crate) fn dataset(&self) -> &DatasetClause {
        &self.query.dataset
    }

    /// The depth to which its patterns are nested.
    pub(crate) fn depth(&self) -> usize {
        self.whole.prepared.depth()
    }

    /// The compiled query for these values.
    pub(crate) fn variant(
        &self,
        slots: &[TermId],
        kept: &[KeptGraph],
    ) -> Result<Cow<'_, Variant>, QueryError> {
        let has_value = |bound: &Bound| !slots[bound.slot.0 as usize].is_unbound();
        if self.bound.iter().all(has_value) {
            return Ok(Cow::Borrowed(&self.whole));
        }
        let values: Box<[bool]> = self.bound.iter().map(has_value).collect();
        let known = |others: &[(Box<[bool]>, Variant)]| {
            let found = others.iter().find(|(of, _)| *of == values);
            found.map(|(_, variant)| variant.clone())
        };
        if let Some(variant) = known(&self.others.read()) {
            return Ok(Cow::Owned(variant));
        }
        let made = variant(&self.query, &self.bound, &values, kept, self.in_term_order)?;
        self.others.write().push((values, made.clone()));
        Ok(Cow::Owned(made))
    }
}

/// Compiles a query for the case that these of its slots have values.
fn variant(
    query: &Query,
    bound: &[Bound],
    has_value: &[bool],
    kept: &[KeptGraph],
    in_term_order: bool,
) -> Result<Variant, QueryError> {
    let given = bound.iter().zip(has_value).filter(|(_, has)| **has);
    let given: Vec<&Bound> = given.map(|(bound, _)| bound).collect();
    let name = |bound: &Bound| placeholder(&query.text, bound.slot.0 as usize);
    let constants: Vec<(VarId, NamedNode)> =
        given.iter().map(|one| (one.variable, name(one))).collect();
    let mut query = query.clone();
    let before = query.variables.len();
    let mut fresh = before as u32;
    let substituted = query.pattern.substitute_keys(&constants, &mut fresh);
    let pattern = substituted.map_err(|assigned| QueryError::Parameters {
        message: format!(
            "?{} has a value already and gets another one in the query; choose another name there",
            query.variable_name(assigned.0)
        ),
    })?;
    let added = (before..fresh as usize).map(|number| format!(".key.{number}"));
    query.variables.extend(added);
    let compiled = match (&query.form, in_term_order) {
        (QueryForm::Select { projection }, true) => {
            compile_in_order(&query, pattern.pattern, projection)
        }
        _ => compile(&query, &pattern.pattern),
    };
    let mut arguments: Vec<ValueSource> = Vec::new();
    let mut placeholders = Vec::new();
    for (bound, (variable, name)) in given.iter().zip(constants) {
        arguments.push(ValueSource::Slot(bound.slot.0 as usize));
        placeholders.push((Term::from(name), Some(variable)));
    }
    for (number, name) in graphs_of(&compiled, kept) {
        arguments.push(ValueSource::Graph(number));
        placeholders.push((name, None));
    }
    let query = query.without_pattern();
    let prepared = Prepared::with_placeholders(query, compiled, placeholders)?;
    Ok(Variant {
        point: PointQuery::of(&prepared).map(Arc::new),
        prepared,
        arguments: arguments.into(),
    })
}

/// The batches and windows that a query reads: their numbers among those of the procedure, and
/// their names.
fn graphs_of(compiled: &Compiled, kept: &[KeptGraph]) -> Vec<(usize, Term)> {
    let terms = compiled.constants.terms.iter();
    let found = terms.filter_map(|term| {
        let Term::NamedNode(name) = term else {
            return None;
        };
        let graph = KeptGraph::of(name)?;
        let number = kept.iter().position(|other| *other == graph)?;
        Some((number, term.clone()))
    });
    found.collect()
}
