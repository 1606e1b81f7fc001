//! EXPLAIN: the steps of a plan as text, with estimates, and after a run with actual rows and times.

use crate::algebra::expression::{ConstantId, Constants, Expr};
use crate::algebra::logical::{Aggregate, GraphPosition, Path, Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::exec::run::Actual;
use crate::exec::step::{Plan, Step, StepKind};
use oxrdf::Term;
use somersault_lang::{AggregateFunction, Arithmetic, Comparison, VarId};
use std::fmt::{self, Write};

/// The steps of a plan; [`fmt::Display`] writes them one per line, sub-plans indented.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub(crate) text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes plans.
pub(crate) struct Explainer<'e> {
    pub(crate) terms: &'e Constants,
    pub(crate) variables: &'e [String],
    /// Per step; empty where nothing was run.
    pub(crate) actual: &'e [Actual],
}

impl Explainer<'_> {
    pub(crate) fn plan(&self, plan: &Plan) -> String {
        let mut text = String::new();
        self.steps(plan, 0, VarSet::new(), &mut text);
        text
    }

    /// The steps of a plan that starts from rows with values for `bound`.
    fn steps(&self, plan: &Plan, depth: usize, mut bound: VarSet, into: &mut String) {
        if plan.steps.is_empty() {
            self.line(depth, "(the rows as they are)", into);
        }
        for step in &plan.steps {
            self.line(depth, &self.step_line(step, &bound), into);
            for (at, plan) in &step.exists {
                self.line(depth + 1, &format!("exists #{at}:"), into);
                self.steps(plan, depth + 2, bound.clone(), into);
            }
            match &step.kind {
                StepKind::Union(branches) => {
                    for plan in branches {
                        self.line(depth + 1, "branch:", into);
                        self.steps(plan, depth + 2, bound.clone(), into);
                    }
                }
                StepKind::Optional { plan } | StepKind::AntiSemi { plan } => {
                    self.steps(plan, depth + 1, bound.clone(), into);
                }
                StepKind::Join { plan, .. }
                | StepKind::EachGraph { plan, .. }
                | StepKind::Minus { plan, .. } => {
                    self.steps(plan, depth + 1, VarSet::new(), into);
                }
                StepKind::OptionalJoin {
                    plan,
                    yields,
                    filters,
                    ..
                } => {
                    self.steps(plan, depth + 1, VarSet::new(), into);
                    if !filters.steps.is_empty() {
                        self.line(depth + 1, "on:", into);
                        self.steps(filters, depth + 2, bound.union(yields), into);
                    }
                }
                _ => {}
            }
            step.kind.binds(&mut bound);
        }
    }

    fn line(&self, depth: usize, text: &str, into: &mut String) {
        let _ = writeln!(into, "{:indent$}{text}", "", indent = depth * 2);
    }

    fn step_line(&self, step: &Step, bound: &VarSet) -> String {
        let mut line = self.kind(&step.kind, bound);
        let dead = dead_ends(step, bound);
        if !dead.is_empty() {
            let _ = write!(line, ", any {}", self.list(dead.iter()));
        }
        let _ = write!(line, "  ~{}", rounded(step.estimate));
        if let Some(actual) = self.actual.get(step.number) {
            let micros = actual.time.as_secs_f64() * 1e6;
            let _ = write!(line, "  rows {}", actual.rows);
            if actual.runs > 0 {
                let error = error(step.estimate, actual.rows as f64);
                let _ = write!(line, " (×{})", rounded(error));
            }
            let _ = write!(line, "  {micros:.1} µs");
            if actual.runs > 1 {
                let _ = write!(line, "  in {} runs", actual.runs);
            }
        }
        line
    }

    fn kind(&self, kind: &StepKind, bound: &VarSet) -> String {
        match kind {
            StepKind::Scan(pattern) => format!(
                "{} {}",
                reading(pattern, bound),
                pattern_text(pattern, self.terms, self.variables)
            ),
            StepKind::Intersect { variable, patterns } => {
                let list: Vec<String> = patterns
                    .iter()
                    .map(|p| pattern_text(p, self.terms, self.variables))
                    .collect();
                format!(
                    "intersect {} in {}",
                    self.variable(*variable),
                    list.join(" and ")
                )
            }
            StepKind::Reduce { variable, pattern } => format!(
                "reduce {} by {}",
                self.variable(*variable),
                pattern_text(pattern, self.terms, self.variables)
            ),
            StepKind::Path(pattern) => format!(
                "path {} {} {}{}",
                self.position(pattern.subject),
                self.path(&pattern.path),
                self.position(pattern.object),
                graph_text(pattern.graph, self.terms, self.variables)
            ),
            StepKind::GraphName(name) => format!("graph {}", self.position(*name)),
            StepKind::Filter(condition) => format!("filter {}", self.expr(condition)),
            StepKind::Bind(variable, expr) => {
                format!("bind {} = {}", self.variable(*variable), self.expr(expr))
            }
            StepKind::Union(_) => "union".to_owned(),
            StepKind::Join { shared, .. } => format!("join on ({})", self.list(shared.iter())),
            StepKind::Values(values) => format!(
                "values ({}) {} rows",
                self.list(values.variables.iter().copied()),
                values.rows.len()
            ),
            StepKind::Cells(variables) => {
                format!("cells ({})", self.list(variables.iter().copied()))
            }
            StepKind::Retained(rows) => {
                format!("maintained ({})", self.list(rows.variables.iter().copied()))
            }
            StepKind::Optional { .. } => "optional".to_owned(),
            StepKind::EachGraph { variable, .. } => {
                format!("in each named graph {}", self.variable(*variable))
            }
            StepKind::OptionalJoin { shared, .. } => {
                format!("optional join on ({})", self.list(shared.iter()))
            }
            StepKind::AntiSemi { .. } => "without".to_owned(),
            StepKind::Minus { shared, .. } => format!("minus on ({})", self.list(shared.iter())),
            StepKind::Aggregate { keys, aggregates } => {
                let list: Vec<String> = aggregates
                    .iter()
                    .map(|(v, a)| format!("{} = {}", self.variable(*v), self.aggregate(a)))
                    .collect();
                let keys = self.list(keys.iter().copied());
                format!("group by ({keys}) {}", list.join(", "))
            }
            StepKind::Degrees(degrees) => format!(
                "count edges {} by {} as {}",
                pattern_text(&degrees.pattern, self.terms, self.variables),
                self.variable(degrees.key),
                self.list(degrees.counts.iter().copied())
            ),
            StepKind::OrderBy { keys, limit } => {
                let list: Vec<String> = keys
                    .iter()
                    .map(|(key, descending)| {
                        let key = self.expr(key);
                        if *descending {
                            format!("desc {key}")
                        } else {
                            key
                        }
                    })
                    .collect();
                let keys = list.join(", ");
                match limit {
                    Some(usize::MAX) => format!("order by {keys}, equal ones by terms"),
                    Some(limit) => format!("order by {keys}, first {limit}"),
                    None => format!("order by {keys}"),
                }
            }
            StepKind::Service(service) => format!(
                "service {} ({})",
                self.position(service.name),
                self.list(service.variables.iter().map(|(v, _)| *v))
            ),
            StepKind::Distinct(columns) => format!("distinct ({})", self.list(columns.iter())),
            StepKind::InTermOrder => "in the order of terms".to_owned(),
            StepKind::Slice { offset, limit } => match limit {
                Some(limit) => format!("slice from {offset}, {limit} rows"),
                None => format!("slice from {offset}"),
            },
        }
    }

    fn list(&self, variables: impl Iterator<Item = VarId>) -> String {
        let names: Vec<String> = variables.map(|v| self.variable(v)).collect();
        names.join(" ")
    }

    fn variable(&self, variable: VarId) -> String {
        variable_text(variable, self.variables)
    }

    fn position(&self, position: Position) -> String {
        position_text(position, self.terms, self.variables)
    }

    fn constant(&self, constant: ConstantId) -> String {
        term_text(self.terms.term(constant))
    }

    fn path(&self, path: &Path) -> String {
        let list = |parts: &[Path], between: &str| {
            let parts: Vec<String> = parts.iter().map(|p| self.path(p)).collect();
            format!("({})", parts.join(between))
        };
        match path {
            Path::Predicate(predicate) => self.constant(*predicate),
            Path::Inverse(path) => format!("^{}", self.path(path)),
            Path::Sequence(parts) => list(parts, "/"),
            Path::Alternative(parts) => list(parts, "|"),
            Path::ZeroOrMore(path) => format!("{}*", self.path(path)),
            Path::OneOrMore(path) => format!("{}+", self.path(path)),
            Path::ZeroOrOne(path) => format!("{}?", self.path(path)),
            Path::Negated(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.constant(*p)).collect();
                format!("!({})", parts.join("|"))
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        let (name, distinct, argument) = match aggregate {
            Aggregate::CountSolutions { distinct, .. } => ("COUNT", *distinct, "*".to_owned()),
            Aggregate::Of {
                function,
                distinct,
                expression,
            } => {
                let name = match function {
                    AggregateFunction::Count => "COUNT",
                    AggregateFunction::Sum => "SUM",
                    AggregateFunction::Avg => "AVG",
                    AggregateFunction::Min => "MIN",
                    AggregateFunction::Max => "MAX",
                    AggregateFunction::Sample => "SAMPLE",
                    AggregateFunction::GroupConcat { .. } => "GROUP_CONCAT",
                    AggregateFunction::Custom(_) => "CUSTOM",
                };
                (name, *distinct, self.expr(expression))
            }
        };
        let distinct = if distinct { "DISTINCT " } else { "" };
        format!("{name}({distinct}{argument})")
    }

    fn expr(&self, expr: &Expr) -> String {
        let list = |parts: &[Expr], between: &str| {
            let parts: Vec<String> = parts.iter().map(|e| self.expr(e)).collect();
            parts.join(between)
        };
        match expr {
            Expr::Constant(constant) => self.constant(*constant),
            Expr::Variable(v) => self.variable(*v),
            Expr::EqualityKey(v) => format!("key of {}", self.variable(*v)),
            Expr::IsFresh(pattern) => {
                format!("new({})", pattern_text(pattern, self.terms, self.variables))
            }
            Expr::Bound(v) => format!("BOUND({})", self.variable(*v)),
            Expr::Or(parts) => format!("({})", list(parts, " || ")),
            Expr::And(parts) => format!("({})", list(parts, " && ")),
            Expr::Not(e) => format!("!{}", self.expr(e)),
            Expr::Compare(op, a, b) => {
                let op = match op {
                    Comparison::Equal => "=",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                format!("({} {op} {})", self.expr(a), self.expr(b))
            }
            Expr::SameTerm(a, b) => format!("sameTerm({}, {})", self.expr(a), self.expr(b)),
            Expr::In(a, parts) => format!("({} IN ({}))", self.expr(a), list(parts, ", ")),
            Expr::Arithmetic(op, a, b) => {
                let op = match op {
                    Arithmetic::Add => '+',
                    Arithmetic::Subtract => '-',
                    Arithmetic::Multiply => '*',
                    Arithmetic::Divide => '/',
                };
                format!("({} {op} {})", self.expr(a), self.expr(b))
            }
            Expr::UnaryPlus(e) => format!("+{}", self.expr(e)),
            Expr::UnaryMinus(e) => format!("-{}", self.expr(e)),
            Expr::Exists(exists) => format!("EXISTS #{}", exists.at),
            Expr::If(a, b, c) => {
                format!("IF({}, {}, {})", self.expr(a), self.expr(b), self.expr(c))
            }
            Expr::Coalesce(parts) => format!("COALESCE({})", list(parts, ", ")),
            Expr::Matches(e, regex) => format!("REGEX({}, {:?})", self.expr(e), regex.as_str()),
            Expr::Call(function, parts) => format!("{function:?}({})", list(parts, ", ")),
        }
    }
}

/// How a pattern is read where these variables have values: from an index vertex or one list, along
/// an edge from each row, or as a question whether the edge is there.
fn reading(pattern: &QuadPattern, bound: &VarSet) -> &'static str {
    let variables = pattern.variables();
    if variables.is_subset(bound) {
        "check"
    } else if variables.is_disjoint(bound) {
        "scan"
    } else {
        "expand"
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
    if step.once && matches!(step.kind, StepKind::Scan(_) | StepKind::Intersect { .. }) {
        step.kind.binds(&mut found);
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

fn variable_text(variable: VarId, variables: &[String]) -> String {
    match variables.get(variable.index()) {
        Some(name) => format!("?{name}"),
        None => format!("?{}", variable.index()),
    }
}

/// A term, IRIs shortened to what follows the last `/` or `#`.
fn term_text(term: &Term) -> String {
    match term {
        Term::NamedNode(node) => {
            let iri = node.as_str();
            let short = iri.rsplit(['/', '#']).find(|part| !part.is_empty());
            format!("<{}>", short.unwrap_or(iri))
        }
        other => other.to_string(),
    }
}

pub(crate) fn position_text(position: Position, terms: &Constants, variables: &[String]) -> String {
    match position {
        Position::Constant(constant) => term_text(terms.term(constant)),
        Position::Variable(variable) => variable_text(variable, variables),
    }
}

fn graph_text(graph: GraphPosition, terms: &Constants, variables: &[String]) -> String {
    match graph {
        GraphPosition::Default => String::new(),
        GraphPosition::Current => " in each".to_owned(),
        GraphPosition::FreshDefault => " in what is new".to_owned(),
        GraphPosition::FreshNamed(name) => format!(
            " in what is new in {}",
            position_text(Position::Constant(name), terms, variables)
        ),
        GraphPosition::Named(name) => {
            format!(" in {}", position_text(name, terms, variables))
        }
    }
}

/// A pattern as it stands in a plan.
pub(crate) fn pattern_text(
    pattern: &QuadPattern,
    terms: &Constants,
    variables: &[String],
) -> String {
    format!(
        "{} {} {}{}",
        position_text(pattern.subject, terms, variables),
        position_text(pattern.predicate, terms, variables),
        position_text(pattern.object, terms, variables),
        graph_text(pattern.graph, terms, variables)
    )
}
