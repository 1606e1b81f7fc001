//! Physical plans: sequences of steps over a binding table. The one thing to know before changing
//! them: a plan is made from the statistics of one view and kept for others (`plan_memory.rs`), so
//! that nothing in it may hold an id, or be correct for some constants or some data only.

use crate::algebra::logical::Position;
use crate::algebra::varset::VarSet;
use crate::exec::operators::{Scan, StepKind};

/// The steps of a plan, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// The variables that it needs of the rows that it starts from.
    pub(crate) input: VarSet,
    /// The variables that its steps read or bind: of rows that it starts from, nothing else can
    /// matter to what it makes of them. What merely passes through is not among them.
    pub(crate) mentioned: VarSet,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its number in the whole plan, for EXPLAIN's actual figures.
    pub(crate) number: usize,
    pub(crate) kind: StepKind,
    /// The number of rows that it is expected to leave.
    pub(crate) estimate: f64,
    /// The variables that something still needs afterwards.
    pub(crate) keep: VarSet,
    /// The plans of the EXISTS in its expressions.
    pub(crate) exists: Vec<(usize, Plan)>,
    /// Whether it may run on parts of the table: what it makes of a row depends on that row alone,
    /// and no work is repeated for each part.
    pub(crate) by_part: bool,
    /// Whether of rows that it makes of one row, and that are the same in all that is kept, one is
    /// enough: nothing that follows counts them.
    pub(crate) once: bool,
}

impl Plan {
    /// The number of rows that all steps together are expected to make.
    pub(crate) fn expected_rows(&self) -> f64 {
        self.steps.iter().map(Step::expected_rows).sum()
    }

    /// Whether its rows are in the order of their terms, what was bound since aside. A row keeps
    /// its number over several binds, for BNODE of one name is one node in all of them.
    pub(crate) fn ends_in_term_order(&self) -> bool {
        (self.steps.iter().rev())
            .find(|step| !matches!(step.kind, StepKind::Bind(_)))
            .is_some_and(|step| matches!(step.kind, StepKind::InTermOrder(_)))
    }

    /// Whether all its steps may run on parts of their tables.
    pub(crate) fn is_by_part(&self) -> bool {
        self.steps.iter().all(|step| step.by_part)
    }

    /// Adds the variables that may have values after it.
    pub(crate) fn binds(&self, bound: &mut VarSet) {
        let steps = self.steps.iter();
        steps.for_each(|step| step.kind.operator().binds(bound));
    }

    /// Records for every step which columns are needed after it, and whether repeated rows are,
    /// going backwards from what the result needs. Returns what is needed of the input.
    pub(crate) fn prune(&mut self, needed: &VarSet, once: bool) -> VarSet {
        let read = self.prune_steps(needed, once);
        if self.list_before_everything() {
            return self.prune_steps(needed, once);
        }
        read
    }

    /// Improves a plan that reads every statement of its predicates and vertices and then looks for
    /// those vertices in one list: the list is read first. The predicates of a vertex can be found
    /// from it, and the search for an order did not know that the other ends are not needed.
    fn list_before_everything(&mut self) -> bool {
        let [first, second, ..] = self.steps.as_mut_slice() else {
            return false;
        };
        let (StepKind::Scan(Scan(all)), StepKind::Scan(Scan(one))) = (&first.kind, &second.kind)
        else {
            return false;
        };
        let ends = [all.subject, all.object];
        let is_dead = |end: &Position| end.variable().is_some_and(|v| !first.keep.contains(v));
        let is_list = match (one.subject, one.predicate, one.object) {
            (vertex @ Position::Variable(_), Position::Constant(_), Position::Constant(_))
            | (Position::Constant(_), Position::Constant(_), vertex @ Position::Variable(_)) => {
                ends.contains(&vertex)
            }
            _ => false,
        };
        let reads_all = all.predicate.variable().is_some() && all.graph.variable().is_none();
        let swaps = first.once && reads_all && is_list && ends.iter().any(is_dead);
        if swaps {
            std::mem::swap(&mut first.kind, &mut second.kind);
            first.estimate = second.estimate;
        }
        swaps
    }

    fn prune_steps(&mut self, needed: &VarSet, once: bool) -> VarSet {
        let (mut needed, mut once) = (needed.clone(), once);
        for step in self.steps.iter_mut().rev() {
            step.keep = needed.clone();
            step.once = once;
            needed = step.kind.operator_mut().prune(needed, once);
            once = step.kind.operator().may_drop_repeats(once);
            for (_, plan) in &mut step.exists {
                let read = plan.prune(&VarSet::new(), true);
                needed.extend(&read);
            }
            let operator = step.kind.operator();
            let mut exists = step.exists.iter();
            step.by_part = operator.may_split() && exists.all(|(_, plan)| plan.is_by_part());
            self.mentioned.extend(&operator.mentioned());
            for (_, plan) in &step.exists {
                self.mentioned.extend(&plan.mentioned);
            }
        }
        self.input = needed.clone();
        needed
    }
}

impl Step {
    fn expected_rows(&self) -> f64 {
        let children = self.kind.operator().children();
        let inner: f64 = children.iter().map(|c| c.plan.expected_rows()).sum();
        let exists: f64 = self.exists.iter().map(|(_, p)| p.expected_rows()).sum();
        self.estimate + inner + exists
    }
}
