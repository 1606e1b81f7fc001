//! `spargebra`'s algebra to ours: numbered variables, flat joins and unions, blank nodes as
//! variables.
//!
//! Numbers are given in order of appearance, and the random names that `spargebra` makes up are
//! replaced, so that one text always gives one algebra.

use crate::algebra::expression::{
    Aggregate, AggregateFunction, Arithmetic, Comparison, Expression, Function, OrderKey,
    with_functions,
};
use crate::algebra::{NameOrVariable, PathExpression, Pattern, TermPattern, TriplePattern, VarId};
use crate::sparql::timestamp::F_TIMESTAMP;
use oxrdf::{NamedOrBlankNode, Term, Triple};
use spargebra::algebra as al;
use spargebra::term as at;
use std::collections::{HashMap, HashSet};

/// Converts one query; holds its variable table.
pub(crate) struct Converter<'n> {
    /// The names of all variables so far.
    pub(crate) names: Vec<String>,
    /// The variables that the user wrote; others were made up.
    written: &'n HashSet<&'n str>,
    /// The variables of the scopes we are in, innermost last. Blank nodes are in them as `_:label`.
    scopes: Vec<HashMap<String, VarId>>,
    /// The blank nodes of the template that is being read.
    pub(crate) template_nodes: HashMap<String, u32>,
}

impl<'n> Converter<'n> {
    pub(crate) fn new(written: &'n HashSet<&'n str>) -> Self {
        Converter {
            names: Vec::new(),
            written,
            scopes: vec![HashMap::new()],
            template_nodes: HashMap::new(),
        }
    }

    fn named_variable(&mut self, name: &str) -> VarId {
        let nested = self.scopes.len() > 1;
        let next = self.names.len();
        let scope = self
            .scopes
            .last_mut()
            .expect("there is always the outermost scope");
        if let Some(&known) = scope.get(name) {
            return known;
        }
        let id = VarId(u32::try_from(next).expect("a text of at most 4 GiB has fewer variables"));
        scope.insert(name.to_owned(), id);
        let is_blank = name.starts_with("_:");
        self.names
            .push(match (is_blank, self.written.contains(name), nested) {
                (true, ..) => format!("_:{next}"),
                (false, true, false) => name.to_owned(),
                (false, true, true) => format!(".{name}.{next}"),
                (false, false, _) => format!(".{next}"),
            });
        id
    }

    pub(crate) fn variable(&mut self, variable: &at::Variable) -> VarId {
        self.named_variable(variable.as_str())
    }

    fn variables(&mut self, variables: &[at::Variable]) -> Vec<VarId> {
        variables
            .iter()
            .map(|variable| self.variable(variable))
            .collect()
    }

    /// The outermost pattern: the solution modifiers, then the projection, whose columns it gives.
    pub(crate) fn outermost(&mut self, pattern: &al::GraphPattern) -> (Pattern, Vec<VarId>) {
        match pattern {
            al::GraphPattern::Project { inner, variables } => {
                let variables = self.variables(variables);
                let inner = Box::new(self.pattern(inner));
                (
                    Pattern::Project {
                        inner,
                        variables: variables.clone(),
                    },
                    variables,
                )
            }
            al::GraphPattern::Distinct { inner } => {
                let (inner, variables) = self.outermost(inner);
                (Pattern::Distinct(Box::new(inner)), variables)
            }
            al::GraphPattern::Reduced { inner } => {
                let (inner, variables) = self.outermost(inner);
                (Pattern::Reduced(Box::new(inner)), variables)
            }
            al::GraphPattern::Slice {
                inner,
                start,
                length,
            } => {
                let (inner, variables) = self.outermost(inner);
                (
                    Pattern::Slice {
                        inner: Box::new(inner),
                        offset: *start,
                        limit: *length,
                    },
                    variables,
                )
            }
            other => (self.pattern(other), Vec::new()),
        }
    }

    pub(crate) fn pattern(&mut self, pattern: &al::GraphPattern) -> Pattern {
        use al::GraphPattern as G;
        match pattern {
            G::Bgp { patterns } => {
                Pattern::Bgp(patterns.iter().map(|triple| self.triple(triple)).collect())
            }
            G::Path {
                subject,
                path,
                object,
            } => Pattern::Path {
                subject: self.term(subject),
                path: convert_path(path),
                object: self.term(object),
            },
            G::Join { left, right } => {
                let mut members = Vec::new();
                for side in [left, right] {
                    match self.pattern(side) {
                        Pattern::Join(inner) => members.extend(inner),
                        other => members.push(other),
                    }
                }
                Pattern::Join(members)
            }
            G::LeftJoin {
                left,
                right,
                expression,
            } => Pattern::LeftJoin {
                left: self.boxed(left),
                right: self.boxed(right),
                filter: expression
                    .as_ref()
                    .map(|expression| self.expression(expression)),
            },
            G::Minus { left, right } => Pattern::Minus {
                left: self.boxed(left),
                right: self.boxed(right),
            },
            G::Union { left, right } => {
                let mut members = Vec::new();
                for side in [left, right] {
                    match self.pattern(side) {
                        Pattern::Union(inner) => members.extend(inner),
                        other => members.push(other),
                    }
                }
                Pattern::Union(members)
            }
            G::Filter { expr, inner } => {
                let inner = self.boxed(inner);
                Pattern::Filter {
                    inner,
                    condition: self.expression(expr),
                }
            }
            G::Extend {
                inner,
                variable,
                expression,
            } => {
                let inner = self.boxed(inner);
                let expression = self.expression(expression);
                Pattern::Extend {
                    inner,
                    variable: self.variable(variable),
                    expression,
                }
            }
            G::Graph { name, inner } => Pattern::Graph {
                name: self.name(name),
                inner: self.boxed(inner),
            },
            G::Values {
                variables,
                bindings,
            } => Pattern::Values {
                variables: self.variables(variables),
                rows: bindings
                    .iter()
                    .map(|row| {
                        row.iter()
                            .map(|value| value.as_ref().map(|term| Term::from(term.clone())))
                            .collect()
                    })
                    .collect(),
            },
            G::Group {
                inner,
                variables,
                aggregates,
            } => Pattern::Group {
                inner: self.boxed(inner),
                keys: self.variables(variables),
                aggregates: aggregates
                    .iter()
                    .map(|(variable, aggregate)| {
                        let aggregate = self.aggregate(aggregate);
                        (self.variable(variable), aggregate)
                    })
                    .collect(),
            },
            G::OrderBy { inner, expression } => {
                let inner = self.boxed(inner);
                Pattern::OrderBy {
                    inner,
                    keys: expression.iter().map(|key| self.order_key(key)).collect(),
                }
            }
            G::Project { inner, variables } => self.sub_select(inner, variables),
            G::Distinct { inner } => Pattern::Distinct(self.boxed(inner)),
            G::Reduced { inner } => Pattern::Reduced(self.boxed(inner)),
            G::Slice {
                inner,
                start,
                length,
            } => Pattern::Slice {
                inner: self.boxed(inner),
                offset: *start,
                limit: *length,
            },
            G::Service {
                name,
                inner,
                silent,
            } => Pattern::Service {
                name: self.name(name),
                silent: *silent,
                text: inner.to_string(),
                inner: self.boxed(inner),
            },
        }
    }

    fn boxed(&mut self, pattern: &al::GraphPattern) -> Box<Pattern> {
        Box::new(self.pattern(pattern))
    }

    /// A sub-select: what it does not project is not visible outside, whatever its name.
    fn sub_select(&mut self, inner: &al::GraphPattern, projected: &[at::Variable]) -> Pattern {
        let variables = self.variables(projected);
        let visible = projected
            .iter()
            .map(|name| name.as_str().to_owned())
            .zip(variables.iter().copied());
        self.scopes.push(visible.collect());
        let inner = self.boxed(inner);
        self.scopes.pop();
        Pattern::Project { inner, variables }
    }

    pub(crate) fn name(&mut self, name: &at::NamedNodePattern) -> NameOrVariable {
        match name {
            at::NamedNodePattern::NamedNode(node) => NameOrVariable::NamedNode(node.clone()),
            at::NamedNodePattern::Variable(variable) => {
                NameOrVariable::Variable(self.variable(variable))
            }
        }
    }

    fn triple(&mut self, triple: &at::TriplePattern) -> TriplePattern {
        TriplePattern {
            subject: self.term(&triple.subject),
            predicate: self.name(&triple.predicate),
            object: self.term(&triple.object),
        }
    }

    fn term(&mut self, term: &at::TermPattern) -> TermPattern {
        match term {
            at::TermPattern::NamedNode(node) => TermPattern::Term(node.clone().into()),
            at::TermPattern::Literal(literal) => TermPattern::Term(literal.clone().into()),
            at::TermPattern::BlankNode(node) => {
                TermPattern::Variable(self.named_variable(&node.to_string()))
            }
            at::TermPattern::Variable(variable) => TermPattern::Variable(self.variable(variable)),
            at::TermPattern::Triple(triple) => {
                let triple = self.triple(triple);
                match constant_triple(&triple) {
                    Some(constant) => TermPattern::Term(constant.into()),
                    None => TermPattern::Triple(Box::new(triple)),
                }
            }
        }
    }

    fn expressions(&mut self, expressions: &[al::Expression]) -> Vec<Expression> {
        expressions
            .iter()
            .map(|expression| self.expression(expression))
            .collect()
    }

    fn boxed_expression(&mut self, expression: &al::Expression) -> Box<Expression> {
        Box::new(self.expression(expression))
    }

    pub(crate) fn expression(&mut self, expression: &al::Expression) -> Expression {
        use al::Expression as E;
        match expression {
            E::NamedNode(node) => Expression::Constant(node.clone().into()),
            E::Literal(literal) => Expression::Constant(literal.clone().into()),
            E::Variable(variable) => Expression::Variable(self.variable(variable)),
            E::Bound(variable) => Expression::Bound(self.variable(variable)),
            E::Or(a, b) => {
                let mut members = Vec::new();
                for side in [a, b] {
                    match self.expression(side) {
                        Expression::Or(inner) => members.extend(inner),
                        other => members.push(other),
                    }
                }
                Expression::Or(members)
            }
            E::And(a, b) => {
                let mut members = Vec::new();
                for side in [a, b] {
                    match self.expression(side) {
                        Expression::And(inner) => members.extend(inner),
                        other => members.push(other),
                    }
                }
                Expression::And(members)
            }
            E::Not(a) => Expression::Not(self.boxed_expression(a)),
            E::Equal(a, b) => self.compare(Comparison::Equal, a, b),
            E::Less(a, b) => self.compare(Comparison::Less, a, b),
            E::LessOrEqual(a, b) => self.compare(Comparison::LessOrEqual, a, b),
            E::Greater(a, b) => self.compare(Comparison::Greater, a, b),
            E::GreaterOrEqual(a, b) => self.compare(Comparison::GreaterOrEqual, a, b),
            E::SameTerm(a, b) => {
                Expression::SameTerm(self.boxed_expression(a), self.boxed_expression(b))
            }
            E::In(a, list) => Expression::In(self.boxed_expression(a), self.expressions(list)),
            E::Add(a, b) => self.arithmetic(Arithmetic::Add, a, b),
            E::Subtract(a, b) => self.arithmetic(Arithmetic::Subtract, a, b),
            E::Multiply(a, b) => self.arithmetic(Arithmetic::Multiply, a, b),
            E::Divide(a, b) => self.arithmetic(Arithmetic::Divide, a, b),
            E::UnaryPlus(a) => Expression::UnaryPlus(self.boxed_expression(a)),
            E::UnaryMinus(a) => Expression::UnaryMinus(self.boxed_expression(a)),
            E::Exists(pattern) => Expression::Exists(self.boxed(pattern)),
            E::If(a, b, c) => Expression::If(
                self.boxed_expression(a),
                self.boxed_expression(b),
                self.boxed_expression(c),
            ),
            E::Coalesce(list) => Expression::Coalesce(self.expressions(list)),
            E::FunctionCall(function, arguments) => {
                Expression::Call(convert_function(function), self.expressions(arguments))
            }
        }
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        a: &al::Expression,
        b: &al::Expression,
    ) -> Expression {
        Expression::Compare(
            comparison,
            self.boxed_expression(a),
            self.boxed_expression(b),
        )
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        a: &al::Expression,
        b: &al::Expression,
    ) -> Expression {
        Expression::Arithmetic(operator, self.boxed_expression(a), self.boxed_expression(b))
    }

    fn order_key(&mut self, key: &al::OrderExpression) -> OrderKey {
        let (expression, descending) = match key {
            al::OrderExpression::Asc(expression) => (expression, false),
            al::OrderExpression::Desc(expression) => (expression, true),
        };
        OrderKey {
            expression: self.expression(expression),
            descending,
        }
    }

    fn aggregate(&mut self, aggregate: &al::AggregateExpression) -> Aggregate {
        match aggregate {
            al::AggregateExpression::CountSolutions { distinct } => Aggregate::CountSolutions {
                distinct: *distinct,
            },
            al::AggregateExpression::FunctionCall {
                name,
                expr,
                distinct,
            } => Aggregate::Of {
                function: convert_aggregate(name),
                distinct: *distinct,
                expression: self.expression(expr),
            },
        }
    }
}

/// The triple as a term, if it holds no variable.
fn constant_triple(triple: &TriplePattern) -> Option<Triple> {
    let TermPattern::Term(subject) = &triple.subject else {
        return None;
    };
    let NameOrVariable::NamedNode(predicate) = &triple.predicate else {
        return None;
    };
    let TermPattern::Term(object) = &triple.object else {
        return None;
    };
    let subject = match subject {
        Term::NamedNode(node) => NamedOrBlankNode::from(node.clone()),
        Term::BlankNode(node) => NamedOrBlankNode::from(node.clone()),
        Term::Literal(_) | Term::Triple(_) => return None,
    };
    Some(Triple::new(subject, predicate.clone(), object.clone()))
}

fn convert_path(path: &al::PropertyPathExpression) -> PathExpression {
    use al::PropertyPathExpression as P;
    match path {
        P::NamedNode(node) => PathExpression::Predicate(node.clone()),
        P::Reverse(inner) => PathExpression::Inverse(Box::new(convert_path(inner))),
        P::Sequence(a, b) => {
            let mut members = Vec::new();
            for side in [a, b] {
                match convert_path(side) {
                    PathExpression::Sequence(inner) => members.extend(inner),
                    other => members.push(other),
                }
            }
            PathExpression::Sequence(members)
        }
        P::Alternative(a, b) => {
            let mut members = Vec::new();
            for side in [a, b] {
                match convert_path(side) {
                    PathExpression::Alternative(inner) => members.extend(inner),
                    other => members.push(other),
                }
            }
            PathExpression::Alternative(members)
        }
        P::ZeroOrMore(inner) => PathExpression::ZeroOrMore(Box::new(convert_path(inner))),
        P::OneOrMore(inner) => PathExpression::OneOrMore(Box::new(convert_path(inner))),
        P::ZeroOrOne(inner) => PathExpression::ZeroOrOne(Box::new(convert_path(inner))),
        P::NegatedPropertySet(nodes) => PathExpression::Negated(nodes.clone()),
    }
}

fn convert_aggregate(function: &al::AggregateFunction) -> AggregateFunction {
    use al::AggregateFunction as A;
    match function {
        A::Count => AggregateFunction::Count,
        A::Sum => AggregateFunction::Sum,
        A::Avg => AggregateFunction::Avg,
        A::Min => AggregateFunction::Min,
        A::Max => AggregateFunction::Max,
        A::Sample => AggregateFunction::Sample,
        A::GroupConcat { separator } => AggregateFunction::GroupConcat {
            separator: separator.clone().unwrap_or_else(|| " ".to_owned()),
        },
        A::Custom(name) => AggregateFunction::Custom(name.clone()),
    }
}

macro_rules! define_conversion {
    ($($name:ident,)*) => {
        fn convert_function(function: &al::Function) -> Function {
            match function {
                $(al::Function::$name => Function::$name,)*
                al::Function::Custom(name) if name.as_str() == F_TIMESTAMP => Function::Timestamp,
                al::Function::Custom(name) => Function::Custom(name.clone()),
            }
        }
    };
}

with_functions!(define_conversion);
