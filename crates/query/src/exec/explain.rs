//! EXPLAIN: the steps of a plan as a tree, with estimates, and after a run with actual rows and
//! times.

use crate::algebra::varset::VarSet;
use crate::exec::names::Names;
use crate::exec::run::StepFigures;
use crate::exec::step::{Plan, Step};
use std::fmt;

/// The steps of a plan; [`fmt::Display`] writes them one a line, the plans inside them indented.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The steps, in the order in which they run.
    pub steps: Vec<ExplainedStep>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct ExplainedStep {
    /// The step in words.
    pub text: String,
    /// The number of rows that it is expected to leave.
    pub estimate: f64,
    /// The measured figures of the step; `None` where the plan was not run.
    pub actual: Option<StepFigures>,
    /// The plans that it runs.
    pub plans: Vec<ExplainedPlan>,
}

/// A plan inside a step.
#[derive(Debug, Clone)]
pub struct ExplainedPlan {
    /// The role of a sub-plan for its step, where it needs a name.
    pub label: Option<String>,
    /// Its steps; with none it leaves the rows as they are.
    pub steps: Vec<ExplainedStep>,
}

/// Explains plans.
pub(crate) struct Explainer<'e> {
    pub(crate) names: Names<'e>,
    /// Per step; empty where nothing was run.
    pub(crate) actual: &'e [StepFigures],
}

impl Explainer<'_> {
    pub(crate) fn plan(&self, plan: &Plan) -> Explanation {
        Explanation {
            steps: self.steps(plan, VarSet::new()),
        }
    }

    /// The steps of a plan that starts from rows with values for `bound`.
    fn steps(&self, plan: &Plan, mut bound: VarSet) -> Vec<ExplainedStep> {
        let steps = plan.steps.iter().map(|step| {
            let explained = self.step(step, &bound);
            step.kind.operator().binds(&mut bound);
            explained
        });
        steps.collect()
    }

    fn step(&self, step: &Step, bound: &VarSet) -> ExplainedStep {
        let operator = step.kind.operator();
        let mut text = operator.explain(&self.names, bound);
        let dead = dead_ends(step, bound);
        if !dead.is_empty() {
            text = format!("{text}, any {}", self.names.list(dead.iter()));
        }
        let exists = step.exists.iter().map(|(at, plan)| ExplainedPlan {
            label: Some(format!("exists #{at}:")),
            steps: self.steps(plan, bound.clone()),
        });
        let mut plans: Vec<ExplainedPlan> = exists.collect();
        plans.extend(operator.children().iter().map(|child| {
            let mut before = match child.from_rows {
                true => bound.clone(),
                false => VarSet::new(),
            };
            if let Some(variables) = child.with {
                before.extend(variables);
            }
            ExplainedPlan {
                label: child.label.map(str::to_owned),
                steps: self.steps(child.plan, before),
            }
        }));
        ExplainedStep {
            text,
            estimate: step.estimate,
            actual: self.actual.get(step.number).copied(),
            plans,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_steps(&self.steps, 0, f)
    }
}

fn write_steps(steps: &[ExplainedStep], depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if steps.is_empty() {
        indent(depth, f)?;
        writeln!(f, "(the rows as they are)")?;
    }
    for step in steps {
        indent(depth, f)?;
        writeln!(f, "{step}")?;
        for plan in &step.plans {
            let mut inner = depth + 1;
            if let Some(label) = &plan.label {
                indent(inner, f)?;
                writeln!(f, "{label}")?;
                inner += 1;
            }
            write_steps(&plan.steps, inner, f)?;
        }
    }
    Ok(())
}

fn indent(depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:width$}", "", width = depth * 2)
}

/// The line of the step alone.
impl fmt::Display for ExplainedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ~{}", self.text, rounded(self.estimate))?;
        let Some(actual) = self.actual else {
            return Ok(());
        };
        write!(f, "  rows {}", actual.rows)?;
        if actual.runs > 0 {
            let error = error(self.estimate, actual.rows as f64);
            write!(f, " (×{})", rounded(error))?;
        }
        write!(f, "  {:.1} µs", actual.time.as_secs_f64() * 1e6)?;
        if actual.runs > 1 {
            write!(f, "  in {} runs", actual.runs)?;
        }
        Ok(())
    }
}

/// By what factor an estimate is off, at least 1 (the q-error); less than one row counts as one.
fn error(estimate: f64, actual: f64) -> f64 {
    let (estimate, actual) = (estimate.max(1.0), actual.max(1.0));
    (estimate / actual).max(actual / estimate)
}

/// The variables that a step looks for without saying which values it found.
fn dead_ends(step: &Step, bound: &VarSet) -> VarSet {
    let mut found = VarSet::new();
    let operator = step.kind.operator();
    if step.once && operator.may_leave_ends_open() {
        operator.binds(&mut found);
    }
    found.difference(bound).difference(&step.keep)
}

fn rounded(estimate: f64) -> String {
    if estimate >= 10.0 || estimate == 0.0 {
        format!("{estimate:.0}")
    } else {
        format!("{estimate:.2}")
    }
}
