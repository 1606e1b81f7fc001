//! Joins by equal values: parts of a group that only `FILTER(?a = ?b)` connects are run by
//! themselves and joined by hash, instead of making all pairs. The hashed key is one that equal
//! values have in common; the filter still decides, as values with one key need not be equal.

use crate::algebra::expression::Expr;
use crate::algebra::logical::Group;
use crate::algebra::varset::VarSet;
use crate::exec::operators::{Bind, Join};
use crate::exec::step::Plan;
use crate::plan::cost;
use crate::plan::estimate::State;
use crate::plan::planner::Planner;
use crate::plan::unplaced::{Orderable, Unplaced};
use somersault_lang::{Comparison, VarId};
use std::sync::Arc;

/// Parts that run by themselves, and the variables that are to be equal.
pub(crate) struct Apart<'q> {
    parts: Vec<Orderable<'q>>,
    variables: VarSet,
    /// The variable of the rows that they are joined with, and their own.
    equal: (VarId, VarId),
}

impl Planner<'_> {
    /// Takes from a group what is joined by equal values with the rest of it.
    pub(crate) fn apart<'q>(&self, left: &mut Unplaced<'q>, state: &State) -> Vec<Apart<'q>> {
        // Inside EXISTS a part that runs by itself would not see what stands for values.
        if !self.outside.is_empty() || left.core.len() < 2 {
            return Vec::new();
        }
        let equalities = left.filters.iter().filter_map(|filter| match &***filter {
            Expr::Compare(Comparison::Equal, a, b) => match (&**a, &**b) {
                (Expr::Variable(a), Expr::Variable(b)) => Some((*a, *b)),
                _ => None,
            },
            _ => None,
        });
        let equalities: Vec<(VarId, VarId)> = equalities.collect();
        if equalities.is_empty() {
            return Vec::new();
        }
        let mut components = components(left, state);
        let mut known = state.certain.union(&components.remove(0).1);
        let mut apart = Vec::new();
        // Each that is joined may be what another one is joined with.
        while let Some((at, equal)) = components.iter().enumerate().find_map(|(at, (_, own))| {
            let both_ways = equalities.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
            let mut fitting =
                both_ways.filter(|(there, here)| known.contains(*there) && own.contains(*here));
            fitting.next().map(|equal| (at, equal))
        }) {
            let (parts, variables) = components.remove(at);
            known.extend(&variables);
            let parts: Vec<_> = (parts.iter())
                .filter_map(|at| left.core[*at].take())
                .collect();
            let all = (parts.iter()).fold(VarSet::new(), |set, part| set.union(&part.variables()));
            left.later.push(all);
            apart.push(Apart {
                parts,
                variables,
                equal,
            });
        }
        left.core.retain(Option::is_some);
        apart
    }

    /// Runs parts by themselves, and joins the rows so far with them.
    pub(crate) fn join_apart<'q>(
        &mut self,
        group: &Group,
        apart: Apart<'q>,
        left: &mut Unplaced<'q>,
        state: &mut State,
        plan: &mut Plan,
    ) {
        let key = VarId(self.fresh);
        self.fresh += 1;
        let variables = apart.variables;
        let own_filters = |filter: &&'q Arc<Expr>| {
            let simple = !filter.is_volatile() && filter.exists().is_empty();
            simple && filter.variables().is_subset(&variables)
        };
        let mut own = Unplaced {
            core: apart.parts.into_iter().map(Some).collect(),
            later: Vec::new(),
            binds: Vec::new(),
            filters: left.filters.iter().copied().filter(own_filters).collect(),
            tails: Vec::new(),
        };
        left.filters.retain(|filter| !own_filters(filter));
        left.later.remove(0);
        let (mut own_state, mut own_plan) = (State::unit(), Plan::default());
        self.place_core(group, &mut own, &mut own_state, &mut own_plan);
        self.place_ready(&mut own, &mut own_state, &mut own_plan);
        // A condition that is not ready there waits for something here.
        left.filters.append(&mut own.filters);
        let (there, here) = apart.equal;
        self.push_key(key, here, &mut own_state, &mut own_plan);
        self.push_key(key, there, state, plan);
        let values = state.distinct(there).max(own_state.distinct(here));
        let rows = state.rows * own_state.rows / values.max(1.0);
        for variable in own_state.possible.iter() {
            state.bind(variable, own_state.distinct(variable));
        }
        state.certain.extend(&own_state.certain);
        state.cost += own_state.cost + cost::hash(state.flow(rows), own_state.rows);
        state.advance(rows);
        let join = Join {
            plan: own_plan,
            shared: VarSet::of([key]),
            yields: own_state.possible,
        };
        self.push(plan, join, rows);
    }

    fn push_key(&mut self, key: VarId, of: VarId, state: &mut State, plan: &mut Plan) {
        let values = state.distinct(of);
        state.bind(key, values);
        state.cost += state.rows * 20.0;
        let (variable, expr) = (key, Arc::new(Expr::EqualityKey(of)));
        self.push(plan, Bind { variable, expr }, state.rows);
    }
}

/// The parts of a group by what they are connected with, each with the variables that its patterns
/// bind in every row; the first is connected with the rows so far, if there are any.
fn components(left: &Unplaced<'_>, state: &State) -> Vec<(Vec<usize>, VarSet)> {
    let mut open: Vec<usize> = (0..left.core.len()).collect();
    let variables: Vec<VarSet> = (left.core.iter())
        .map(|part| part.as_ref().map_or_else(VarSet::new, Orderable::mentioned))
        .collect();
    // A bind leads from the variables that it reads to the one that it gives a value.
    let binds: Vec<VarSet> = (left.binds.iter())
        .map(|(v, e)| e.variables().union(&VarSet::of([*v])))
        .collect();
    let mut components = Vec::new();
    // A part that shares nothing with the rows so far is joined with them all the same.
    let is_reached = variables
        .iter()
        .any(|own| !own.is_disjoint(&state.possible));
    while !open.is_empty() {
        let mut parts = Vec::new();
        let mut reach = if components.is_empty() && is_reached {
            state.possible.clone()
        } else {
            VarSet::new()
        };
        if reach.is_empty() {
            reach.extend(&variables[open[0]]);
            parts.push(open.remove(0));
        }
        loop {
            let before = parts.len();
            let mut grown = false;
            for bind in &binds {
                if !bind.is_disjoint(&reach) && !bind.is_subset(&reach) {
                    reach.extend(bind);
                    grown = true;
                }
            }
            open.retain(|at| {
                let joins = variables[*at].is_empty() || !variables[*at].is_disjoint(&reach);
                if joins {
                    reach.extend(&variables[*at]);
                    parts.push(*at);
                }
                !joins
            });
            if parts.len() == before && !grown {
                break;
            }
        }
        parts.sort_unstable();
        let mut certain = VarSet::new();
        for at in &parts {
            if let Some(part) = &left.core[*at] {
                certain.extend(&part.certain());
            }
        }
        components.push((parts, certain));
    }
    components
}
