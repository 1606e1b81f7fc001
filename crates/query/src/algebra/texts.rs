//! The texts that a compiled query holds outside of its table of constants. A parameter must not
//! occur in one of them: its value comes later, and would not be written there.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{Aggregate, Node, Operator, Tail};
use somersault_lang::{AggregateFunction, Function, PathExpression};

impl Node {
    /// Whether the compiled query holds this text outside of its constants.
    pub(crate) fn holds_text(&self, text: &str) -> bool {
        let of_expr = |expr: &Expr| expr.holds_text(text);
        let of_node = |node: &Node| node.holds_text(text);
        match &self.operator {
            Operator::Group(group) => {
                group.paths.iter().any(|path| is_in_path(&path.text, text))
                    || group.blocks.iter().any(of_node)
                    || group.binds.iter().any(|(_, expr)| of_expr(expr))
                    || group.filters.iter().any(|expr| of_expr(expr))
                    || group.tails.iter().any(|tail| tail.holds_text(text))
            }
            Operator::Service(service) => service.text.contains(text),
            Operator::Union(list) => list.iter().any(of_node),
            Operator::Values(_) | Operator::Cells(_) | Operator::Retained(_) => false,
            Operator::Aggregate {
                inner, aggregates, ..
            } => of_node(inner) || aggregates.iter().any(|(_, a)| a.holds_text(text)),
            Operator::OrderBy { inner, keys } => {
                of_node(inner) || keys.iter().any(|(expr, _)| of_expr(expr))
            }
            Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::EachGraph { inner, .. }
            | Operator::Slice { inner, .. } => of_node(inner),
        }
    }
}

impl Tail {
    fn holds_text(&self, text: &str) -> bool {
        let filters: &[_] = match self {
            Tail::Optional { filters, .. } => filters,
            Tail::Minus(_) => &[],
        };
        self.node().holds_text(text) || filters.iter().any(|expr| expr.holds_text(text))
    }
}

impl Aggregate {
    fn holds_text(&self, text: &str) -> bool {
        match self {
            Aggregate::CountSolutions { .. } => false,
            Aggregate::Of {
                function,
                expression,
                ..
            } => {
                let is_in_function = match function {
                    AggregateFunction::GroupConcat { separator } => separator.contains(text),
                    AggregateFunction::Custom(name) => name.as_str().contains(text),
                    _ => false,
                };
                is_in_function || expression.holds_text(text)
            }
        }
    }
}

impl Expr {
    fn holds_text(&self, text: &str) -> bool {
        let holds = match self {
            Expr::Matches(_, regex) => regex.as_str().contains(text),
            Expr::Call(Function::Custom(name), _) => name.as_str().contains(text),
            Expr::Exists(exists) => exists.node.holds_text(text),
            _ => false,
        };
        holds || self.children().any(|expr| expr.holds_text(text))
    }
}

fn is_in_path(path: &PathExpression, text: &str) -> bool {
    use PathExpression as P;
    match path {
        P::Predicate(name) => name.as_str().contains(text),
        P::Inverse(path) | P::ZeroOrMore(path) | P::OneOrMore(path) | P::ZeroOrOne(path) => {
            is_in_path(path, text)
        }
        P::Sequence(parts) | P::Alternative(parts) => {
            parts.iter().any(|part| is_in_path(part, text))
        }
        P::Negated(names) => names.iter().any(|name| name.as_str().contains(text)),
    }
}
