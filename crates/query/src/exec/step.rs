//! Physical plans: sequences of steps over a binding table. The one thing to know before changing
//! them: a plan is made from the statistics of one view and kept for others (`plan_memory.rs`), so that
//! nothing in it may hold an id, or be right for some constants or some data only.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{
    Aggregate, PathPattern, Position, QuadPattern, RetainedScan, Service, Values,
};
use crate::algebra::varset::VarSet;
use crate::exec::degrees::Degrees;
use somersault_lang::VarId;
use std::sync::Arc;

/// The steps of a plan, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// What it needs of the rows that it starts from.
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
    /// How many rows it is expected to leave.
    pub(crate) estimate: f64,
    /// The variables that something still needs afterwards.
    pub(crate) keep: VarSet,
    /// The plans of the EXISTS in its expressions.
    pub(crate) exists: Vec<(usize, Plan)>,
    /// Whether it may run on parts of the table: what it makes of a row depends on that row alone, and
    /// it costs nothing that would be repeated for each part.
    pub(crate) by_part: bool,
    /// Whether of rows that it makes of one row, and that are the same in all that is kept, one is
    /// enough: nothing that follows counts them.
    pub(crate) once: bool,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum StepKind {
    /// Reads a pattern for every row: from an index vertex, along an edge, or as a check.
    Scan(QuadPattern),
    /// Binds one variable to what all these patterns allow: shortest list first, the others checked.
    Intersect {
        variable: VarId,
        patterns: Vec<QuadPattern>,
    },
    /// Keeps the rows whose value has an edge as the pattern wants it, whatever its other end.
    Reduce {
        variable: VarId,
        pattern: QuadPattern,
    },
    /// Follows a property path.
    Path(Arc<PathPattern>),
    /// Binds or checks the name of a named graph.
    GraphName(Position),
    /// Keeps the rows for which the condition is true.
    Filter(Arc<Expr>),
    /// Adds a column, or checks it where it is there.
    Bind(VarId, Arc<Expr>),
    /// Concatenates what each branch makes of the rows.
    Union(Vec<Plan>),
    /// Joins the rows with those of a plan that starts by itself.
    Join {
        plan: Plan,
        shared: VarSet,
        yields: VarSet,
    },
    /// Joins the rows with constants.
    Values(Arc<Values>),
    /// Joins the rows with the cells: keeps those with the constants of one, where these variables have values.
    Cells(Arc<[VarId]>),
    /// Joins the rows with those that are kept from one execution to the next.
    Retained(RetainedScan),
    /// Joins the rows with what an endpoint answers.
    Service(Arc<Service>),
    /// Extends the rows by what the plan makes of them; rows that it drops stay as they are.
    Optional { plan: Plan },
    /// The same with a plan that starts by itself.
    OptionalJoin {
        plan: Plan,
        shared: VarSet,
        yields: VarSet,
        filters: Plan,
    },
    /// Runs the plan in each named graph, and joins with the graph's name.
    EachGraph {
        variable: VarId,
        plan: Plan,
        yields: VarSet,
    },
    /// Drops the rows that the plan finds something for.
    AntiSemi { plan: Plan },
    /// Drops the rows that are compatible with one of the plan's, and share a variable with it.
    Minus { plan: Plan, shared: VarSet },
    /// One row per group.
    Aggregate {
        keys: Arc<[VarId]>,
        aggregates: Arc<[(VarId, Aggregate)]>,
    },
    /// One row per vertex that has edges, with how many it has.
    Degrees(Degrees),
    /// Sorts; of the sorted rows nothing after the first `limit` is wanted. With a limit, the order of
    /// equal rows is that of their terms (S6).
    OrderBy {
        keys: Arc<[(Expr, bool)]>,
        limit: Option<usize>,
    },
    /// Drops repeats of these columns together.
    Distinct(VarSet),
    /// Puts the rows in the order of their terms, for a step that draws something for each (S6).
    InTermOrder,
    /// Passes over the first rows, and keeps some.
    Slice { offset: usize, limit: Option<usize> },
}

impl Plan {
    /// How many rows all steps together are expected to make.
    pub(crate) fn expected_rows(&self) -> f64 {
        self.steps.iter().map(Step::expected_rows).sum()
    }

    /// Whether its rows are in the order of their terms, what was bound since aside. A row keeps its
    /// number over several binds, for BNODE of one name is one node in all of them.
    pub(crate) fn ends_in_term_order(&self) -> bool {
        (self.steps.iter().rev())
            .find(|step| !matches!(step.kind, StepKind::Bind(..)))
            .is_some_and(|step| matches!(step.kind, StepKind::InTermOrder))
    }

    fn is_by_part(&self) -> bool {
        self.steps.iter().all(|step| step.by_part)
    }

    /// Notes for every step which columns are needed after it, and whether repeats of rows are,
    /// going backwards from what is needed of the result; returns what is needed of the input.
    pub(crate) fn prune(&mut self, needed: &VarSet, once: bool) -> VarSet {
        let read = self.prune_steps(needed, once);
        if self.list_before_everything() {
            return self.prune_steps(needed, once);
        }
        read
    }

    /// Where a plan reads every statement there is for its predicates and vertices, and then looks for
    /// those vertices in one list: the list is read first. The predicates of a vertex are at hand, and
    /// the search for an order did not know that nobody asks for the other ends.
    fn list_before_everything(&mut self) -> bool {
        let [first, second, ..] = self.steps.as_mut_slice() else {
            return false;
        };
        let (StepKind::Scan(all), StepKind::Scan(one)) = (&first.kind, &second.kind) else {
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
            needed = step.kind.prune(needed, once);
            once = step.kind.may_drop_repeats(once);
            for (_, plan) in &mut step.exists {
                let read = plan.prune(&VarSet::new(), true);
                needed.extend(&read);
            }
            step.by_part = step.find_by_part();
            self.mentioned.extend(&step.kind.mentioned());
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
        let inner: f64 = match &self.kind {
            StepKind::Union(plans) => plans.iter().map(Plan::expected_rows).sum(),
            StepKind::Join { plan, .. }
            | StepKind::Optional { plan }
            | StepKind::EachGraph { plan, .. }
            | StepKind::AntiSemi { plan }
            | StepKind::Minus { plan, .. } => plan.expected_rows(),
            StepKind::OptionalJoin { plan, filters, .. } => {
                plan.expected_rows() + filters.expected_rows()
            }
            _ => 0.0,
        };
        let exists: f64 = self.exists.iter().map(|(_, p)| p.expected_rows()).sum();
        self.estimate + inner + exists
    }

    /// What [`Step::by_part`] says, from its parts.
    fn find_by_part(&self) -> bool {
        self.kind.is_by_part() && self.exists.iter().all(|(_, plan)| plan.is_by_part())
    }
}

impl StepKind {
    /// [`Step::by_part`], its EXISTS aside.
    fn is_by_part(&self) -> bool {
        match self {
            StepKind::Scan(_)
            | StepKind::Intersect { .. }
            | StepKind::Reduce { .. }
            | StepKind::Path(_)
            | StepKind::GraphName(_)
            | StepKind::Values(_)
            | StepKind::Cells(_) => true,
            // A volatile function has a value for each row of the whole table.
            StepKind::Filter(_) | StepKind::Bind(..) => !self.is_volatile(),
            StepKind::AntiSemi { plan } => plan.is_by_part(),
            StepKind::Union(plans) => plans.iter().all(Plan::is_by_part),
            StepKind::Optional { plan } => plan.is_by_part(),
            _ => false,
        }
    }

    /// Whether it draws something for each row, so that the order of the rows shows.
    pub(crate) fn is_volatile(&self) -> bool {
        match self {
            StepKind::Filter(expr) | StepKind::Bind(_, expr) => expr.is_volatile(),
            StepKind::OrderBy { keys, .. } => keys.iter().any(|(key, _)| key.is_volatile()),
            StepKind::Aggregate { aggregates, .. } => {
                (aggregates.iter()).any(|(_, aggregate)| match aggregate {
                    Aggregate::Of { expression, .. } => expression.is_volatile(),
                    Aggregate::CountSolutions { .. } => false,
                })
            }
            _ => false,
        }
    }

    /// Of a step that looks at each row alone: whether what it makes comes in the order of the rows,
    /// and for each row in an order of its own, so that it is the same in whatever parts it is made.
    pub(crate) fn keeps_order(&self) -> bool {
        match self {
            StepKind::Union(_) => false,
            // For one row the plan may make many, which a UNION in it takes in parts.
            StepKind::Optional { plan } => plan.steps.iter().all(|step| step.kind.keeps_order()),
            _ => true,
        }
    }

    /// Adds the variables that may have values after it.
    pub(crate) fn binds(&self, bound: &mut VarSet) {
        let of_plan = |plan: &Plan, bound: &mut VarSet| {
            plan.steps.iter().for_each(|step| step.kind.binds(bound));
        };
        match self {
            StepKind::Scan(pattern) => bound.extend(&pattern.variables()),
            StepKind::Intersect { variable, .. } | StepKind::Bind(variable, _) => {
                bound.insert(*variable);
            }
            StepKind::Path(pattern) => bound.extend(&pattern.variables()),
            StepKind::GraphName(name) => bound.extend(&VarSet::of(name.variable())),
            StepKind::Union(plans) => plans.iter().for_each(|plan| of_plan(plan, bound)),
            StepKind::Optional { plan } => of_plan(plan, bound),
            StepKind::Join { yields, .. }
            | StepKind::OptionalJoin { yields, .. }
            | StepKind::EachGraph { yields, .. } => bound.extend(yields),
            StepKind::Values(values) => values.variables.iter().for_each(|v| bound.insert(*v)),
            StepKind::Cells(variables) => variables.iter().for_each(|v| bound.insert(*v)),
            StepKind::Retained(rows) => rows.variables.iter().for_each(|v| bound.insert(*v)),
            StepKind::Service(service) => {
                service.variables.iter().for_each(|(v, _)| bound.insert(*v));
            }
            StepKind::Aggregate { keys, aggregates } => {
                *bound = VarSet::of(keys.iter().copied());
                aggregates.iter().for_each(|(v, _)| bound.insert(*v));
            }
            StepKind::Degrees(degrees) => *bound = degrees.binds(),
            StepKind::Distinct(columns) => *bound = columns.clone(),
            StepKind::Reduce { .. }
            | StepKind::Filter(_)
            | StepKind::AntiSemi { .. }
            | StepKind::Minus { .. }
            | StepKind::OrderBy { .. }
            | StepKind::InTermOrder
            | StepKind::Slice { .. } => {}
        }
    }

    /// Whether it gives the same, repeats of rows aside, of input without repeats; `once`: what
    /// follows it does not count rows.
    fn may_drop_repeats(&self, once: bool) -> bool {
        match self {
            StepKind::Distinct(_) => true,
            StepKind::Aggregate { aggregates, .. } => aggregates
                .iter()
                .all(|(_, aggregate)| aggregate.passes_over_repeats()),
            StepKind::Slice { .. } => false,
            StepKind::OrderBy {
                limit: Some(limit), ..
            } if *limit < usize::MAX => false,
            // Each row has a value of its own.
            StepKind::Filter(expr) | StepKind::Bind(_, expr) => once && !expr.is_volatile(),
            _ => once,
        }
    }

    /// Whether more rows can come out than go in.
    pub(crate) fn may_multiply(&self) -> bool {
        !matches!(
            self,
            StepKind::Reduce { .. }
                | StepKind::Filter(_)
                | StepKind::Bind(..)
                | StepKind::AntiSemi { .. }
        )
    }

    /// The variables that it reads or binds, once its plans are pruned.
    fn mentioned(&self) -> VarSet {
        match self {
            StepKind::Scan(pattern) => pattern.variables(),
            StepKind::Intersect { patterns, .. } => (patterns.iter())
                .fold(VarSet::new(), |set, pattern| {
                    set.union(&pattern.variables())
                }),
            StepKind::Reduce { variable, .. } => VarSet::of([*variable]),
            StepKind::Path(pattern) => pattern.variables(),
            StepKind::GraphName(name) => VarSet::of(name.variable()),
            StepKind::Filter(condition) => condition.variables(),
            StepKind::Bind(variable, expr) => {
                let mut set = expr.variables();
                set.insert(*variable);
                set
            }
            StepKind::Union(plans) => {
                (plans.iter()).fold(VarSet::new(), |set, plan| set.union(&plan.mentioned))
            }
            StepKind::Join { shared, yields, .. } => shared.union(yields),
            StepKind::Values(values) => VarSet::of(values.variables.iter().copied()),
            StepKind::Cells(variables) => VarSet::of(variables.iter().copied()),
            StepKind::Retained(rows) => VarSet::of(rows.variables.iter().copied()),
            StepKind::Service(service) => {
                let answers = service.variables.iter().map(|(variable, _)| *variable);
                VarSet::of(answers.chain(service.name.variable()))
            }
            StepKind::Optional { plan } | StepKind::AntiSemi { plan } => plan.mentioned.clone(),
            StepKind::OptionalJoin {
                shared,
                yields,
                filters,
                ..
            } => shared.union(yields).union(&filters.mentioned),
            StepKind::EachGraph {
                variable, yields, ..
            } => yields.union(&VarSet::of([*variable])),
            StepKind::Minus { shared, .. } => shared.clone(),
            StepKind::Aggregate { keys, aggregates } => aggregated(keys, aggregates),
            StepKind::Degrees(degrees) => degrees.binds(),
            StepKind::OrderBy { keys, .. } => {
                (keys.iter()).fold(VarSet::new(), |set, (key, _)| set.union(&key.variables()))
            }
            StepKind::Distinct(columns) => columns.clone(),
            StepKind::InTermOrder | StepKind::Slice { .. } => VarSet::new(),
        }
    }

    fn prune(&mut self, mut needed: VarSet, once: bool) -> VarSet {
        match self {
            StepKind::Scan(pattern) => needed.extend(&pattern.variables()),
            StepKind::Intersect { patterns, .. } => {
                patterns.iter().for_each(|p| needed.extend(&p.variables()));
            }
            StepKind::Reduce { variable, .. } => needed.insert(*variable),
            StepKind::Path(pattern) => needed.extend(&pattern.variables()),
            StepKind::GraphName(name) => name.variable().into_iter().for_each(|v| needed.insert(v)),
            StepKind::Filter(condition) => needed.extend(&condition.variables()),
            StepKind::Bind(variable, expr) => {
                needed.insert(*variable);
                needed.extend(&expr.variables());
            }
            StepKind::Union(branches) => {
                return branches.iter_mut().fold(VarSet::new(), |set, plan| {
                    set.union(&plan.prune(&needed, once))
                });
            }
            StepKind::Join {
                plan,
                shared,
                yields,
            } => {
                plan.prune(&needed.intersection(yields).union(shared), once);
                needed.extend(shared);
            }
            StepKind::Values(values) => {
                (values.variables.iter()).for_each(|v| needed.insert(*v));
            }
            StepKind::Cells(variables) => variables.iter().for_each(|v| needed.insert(*v)),
            StepKind::Retained(rows) => rows.variables.iter().for_each(|v| needed.insert(*v)),
            StepKind::Service(service) => {
                needed.extend(&VarSet::of(service.name.variable()));
                service
                    .variables
                    .iter()
                    .for_each(|(v, _)| needed.insert(*v));
            }
            StepKind::Optional { plan } => {
                let read = plan.prune(&needed, once);
                needed.extend(&read);
            }
            StepKind::OptionalJoin {
                plan,
                shared,
                yields,
                filters,
            } => {
                needed = filters.prune(&needed, once);
                plan.prune(&needed.intersection(yields).union(shared), once);
                needed.extend(shared);
            }
            StepKind::EachGraph {
                variable,
                plan,
                yields,
            } => {
                let mut inner = needed.intersection(yields);
                inner.insert(*variable);
                plan.prune(&inner, once);
                return VarSet::new();
            }
            StepKind::AntiSemi { plan } => {
                let read = plan.prune(&VarSet::new(), true);
                needed.extend(&read);
            }
            StepKind::Minus { plan, shared } => {
                plan.prune(shared, true);
                needed.extend(shared);
            }
            StepKind::Aggregate { keys, aggregates } => return aggregated(keys, aggregates),
            StepKind::Degrees(_) => return VarSet::new(),
            StepKind::OrderBy { keys, .. } => {
                keys.iter()
                    .for_each(|(key, _)| needed.extend(&key.variables()));
            }
            StepKind::Distinct(columns) => return columns.clone(),
            StepKind::InTermOrder | StepKind::Slice { .. } => {}
        }
        needed
    }
}

fn aggregated(keys: &[VarId], aggregates: &[(VarId, Aggregate)]) -> VarSet {
    let mut needed = VarSet::of(keys.iter().copied());
    for (_, aggregate) in aggregates {
        match aggregate {
            Aggregate::CountSolutions {
                distinct: true,
                scope,
            } => scope.iter().for_each(|v| needed.insert(*v)),
            Aggregate::CountSolutions { .. } => {}
            Aggregate::Of { expression, .. } => needed.extend(&expression.variables()),
        }
    }
    needed
}
