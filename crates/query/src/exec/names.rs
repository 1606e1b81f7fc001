//! The parts of a plan as text: variables by their names, IRIs shortened, expressions as in SPARQL.
//! The planner also sorts by these texts, so that no plan depends on the order of a query's text.

use crate::algebra::expression::{ConstantId, Constants, Expr};
use crate::algebra::logical::{Aggregate, GraphPosition, Path, Position, QuadPattern};
use oxrdf::Term;
use somersault_lang::{AggregateFunction, Arithmetic, Comparison, VarId};

/// The names of the numbers in a plan.
#[derive(Clone, Copy)]
pub(crate) struct Names<'n> {
    pub(crate) terms: &'n Constants,
    pub(crate) variables: &'n [String],
}

impl Names<'_> {
    pub(crate) fn list(&self, variables: impl Iterator<Item = VarId>) -> String {
        let names: Vec<String> = variables.map(|v| self.variable(v)).collect();
        names.join(" ")
    }

    pub(crate) fn variable(&self, variable: VarId) -> String {
        match self.variables.get(variable.index()) {
            Some(name) => format!("?{name}"),
            None => format!("?{}", variable.index()),
        }
    }

    pub(crate) fn position(&self, position: Position) -> String {
        match position {
            Position::Constant(constant) => self.constant(constant),
            Position::Variable(variable) => self.variable(variable),
        }
    }

    fn constant(&self, constant: ConstantId) -> String {
        term_text(self.terms.term(constant))
    }

    /// A pattern as it stands in a plan.
    pub(crate) fn pattern(&self, pattern: &QuadPattern) -> String {
        format!(
            "{} {} {}{}",
            self.position(pattern.subject),
            self.position(pattern.predicate),
            self.position(pattern.object),
            self.graph(pattern.graph)
        )
    }

    /// The words behind a pattern that name the graph it reads.
    pub(crate) fn graph(&self, graph: GraphPosition) -> String {
        match graph {
            GraphPosition::Default => String::new(),
            GraphPosition::Current => " in each".to_owned(),
            GraphPosition::FreshDefault => " in what is new".to_owned(),
            GraphPosition::FreshNamed(name) => {
                format!(" in what is new in {}", self.constant(name))
            }
            GraphPosition::Named(name) => format!(" in {}", self.position(name)),
        }
    }

    pub(crate) fn path(&self, path: &Path) -> String {
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

    pub(crate) fn aggregate(&self, aggregate: &Aggregate) -> String {
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

    pub(crate) fn expr(&self, expr: &Expr) -> String {
        let list = |parts: &[Expr], between: &str| {
            let parts: Vec<String> = parts.iter().map(|e| self.expr(e)).collect();
            parts.join(between)
        };
        match expr {
            Expr::Constant(constant) => self.constant(*constant),
            Expr::Variable(v) => self.variable(*v),
            Expr::EqualityKey(v) => format!("key of {}", self.variable(*v)),
            Expr::TermKey(v) => format!("term {}", self.variable(*v)),
            Expr::IsFresh(pattern) => {
                format!("new({})", self.pattern(pattern))
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
