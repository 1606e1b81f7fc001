//! From the parser's algebra to the form that planning needs. Every query has one: nothing is
//! refused here, and argument errors of functions show only when they are called.

use crate::algebra::expression::{Constants, Exists, Expr};
use crate::algebra::flatten::{group_node, into_group, join, union, with_bind, with_tail};
use crate::algebra::logical::{
    Aggregate, GraphPosition, Group, Node, NodeId, Operator, Path, PathPattern, Position,
    QuadPattern, Service, Tail, Values,
};
use crate::algebra::text_pattern::regex;
use crate::algebra::varset::VarSet;
use oxrdf::Term;
use oxrdf::vocab::xsd;
use regex::Regex;
use somersault_lang as lang;
use somersault_lang::{Expression, Function, NameOrVariable, Pattern, TermPattern, VarId};
use std::sync::Arc;

/// A query in the form that planning needs.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) root: Node,
    /// The number of variables, including those without a name.
    pub(crate) variables: u32,
    pub(crate) constants: Constants,
}

/// Compiles a pattern of a query: its own, or the one with constants in the places of variables.
pub(crate) fn compile(query: &lang::Query, pattern: &Pattern) -> Compiled {
    compile_with(query, pattern, None)
}

/// Compiles a SELECT whose rows come in its order, and in the order of the terms of these columns
/// where its order leaves them equal or it has none.
pub(crate) fn compile_in_order(
    query: &lang::Query,
    pattern: Pattern,
    columns: &[VarId],
) -> Compiled {
    compile_with(query, &with_order(pattern), Some(columns))
}

fn compile_with(query: &lang::Query, pattern: &Pattern, last_keys: Option<&[VarId]>) -> Compiled {
    let mut compiler = Compiler {
        constants: Constants::default(),
        exists: 0,
        query,
        fresh: query.variables.len() as u32,
        last_keys,
    };
    let root = compiler.node(pattern, GraphPosition::Default);
    Compiled {
        root,
        variables: compiler.fresh,
        constants: compiler.constants,
    }
}

/// The pattern of a SELECT with an ORDER BY of its own, which may have no keys.
fn with_order(pattern: Pattern) -> Pattern {
    match pattern {
        Pattern::Slice {
            inner,
            offset,
            limit,
        } => Pattern::Slice {
            inner: Box::new(with_order(*inner)),
            offset,
            limit,
        },
        Pattern::Distinct(inner) => Pattern::Distinct(Box::new(with_order(*inner))),
        Pattern::Reduced(inner) => Pattern::Reduced(Box::new(with_order(*inner))),
        Pattern::Project { inner, variables } => Pattern::Project {
            inner: match *inner {
                ordered @ Pattern::OrderBy { .. } => Box::new(ordered),
                rows => Box::new(without_keys(rows)),
            },
            variables,
        },
        rows => without_keys(rows),
    }
}

fn without_keys(rows: Pattern) -> Pattern {
    Pattern::OrderBy {
        inner: Box::new(rows),
        keys: Vec::new(),
    }
}

struct Compiler<'q> {
    constants: Constants,
    exists: usize,
    query: &'q lang::Query,
    /// The number of the next variable that does not occur in the text.
    fresh: u32,
    /// The last keys of the first ORDER BY.
    last_keys: Option<&'q [VarId]>,
}

impl Compiler<'_> {
    fn node(&mut self, pattern: &Pattern, graph: GraphPosition) -> Node {
        let group = match pattern {
            Pattern::Bgp(patterns) => self.basic(patterns, graph),
            Pattern::Path {
                subject,
                path,
                object,
            } => {
                let mut group = Group::default();
                let path = PathPattern {
                    subject: self.position(subject, &mut group),
                    path: self.path(path),
                    object: self.position(object, &mut group),
                    graph,
                    text: path.clone(),
                };
                group.paths.push(Arc::new(path));
                group
            }
            Pattern::Join(members) => {
                let nodes = members.iter().map(|m| self.node(m, graph)).collect();
                join(nodes)
            }
            Pattern::LeftJoin {
                left,
                right,
                filter,
            } => {
                let left = self.node(left, graph);
                let node = self.node(right, graph);
                let mut filters = Vec::new();
                if let Some(filter) = filter {
                    self.conjuncts(filter, graph, &mut filters);
                }
                with_tail(left, Tail::Optional { node, filters })
            }
            Pattern::Minus { left, right } => {
                let left = self.node(left, graph);
                let right = self.node(right, graph);
                with_tail(left, Tail::Minus(right))
            }
            Pattern::Filter { inner, condition } => {
                let mut group = into_group(self.node(inner, graph));
                self.conjuncts(condition, graph, &mut group.filters);
                group
            }
            Pattern::Extend {
                inner,
                variable,
                expression,
            } => {
                let inner = self.node(inner, graph);
                let expression = self.expression(expression, graph);
                with_bind(inner, *variable, Arc::new(expression))
            }
            Pattern::Graph { name, inner } => {
                let name = self.name(name);
                return match name.variable() {
                    Some(variable) => self.each_graph(variable, inner),
                    None => self.one_graph(name, inner),
                };
            }
            _ => return self.operator(pattern, graph),
        };
        group_node(group)
    }

    /// Without such a graph there is no solution (SPARQL 1.1 Query, section 18.6). Most patterns
    /// have none in an empty graph; before the others the graph is looked for.
    fn one_graph(&mut self, name: Position, inner: &Pattern) -> Node {
        let node = self.node(inner, GraphPosition::Named(name));
        if needs_statements(inner) {
            return node;
        }
        let graph = Group {
            graphs: vec![name],
            ..Group::default()
        };
        group_node(join(vec![group_node(graph), node]))
    }

    fn each_graph(&mut self, variable: VarId, inner: &Pattern) -> Node {
        let node = self.node(inner, GraphPosition::Current);
        if reads_bound_graph(inner) && !node.mentioned().contains(variable) {
            return self.node(inner, GraphPosition::Named(Position::Variable(variable)));
        }
        let name = VarSet::of([variable]);
        Node {
            id: NodeId::new(),
            certain: node.certain.union(&name),
            possible: node.possible.union(&name),
            operator: Operator::EachGraph {
                variable,
                inner: Box::new(node),
            },
        }
    }

    fn operator(&mut self, pattern: &Pattern, graph: GraphPosition) -> Node {
        match pattern {
            Pattern::Union(members) => {
                let nodes = members.iter().map(|m| self.node(m, graph)).collect();
                union(nodes)
            }
            Pattern::Values { variables, rows } => self.values(variables, rows),
            Pattern::Group {
                inner,
                keys,
                aggregates,
            } => self.aggregate(inner, keys, aggregates, graph),
            Pattern::OrderBy { inner, keys } => {
                let last_keys = self.last_keys.take().unwrap_or_default();
                let inner = self.node(inner, graph);
                let keys = keys
                    .iter()
                    .map(|key| (self.expression(&key.expression, graph), key.descending));
                let has_column = |column: &&VarId| inner.possible.contains(**column);
                let last_keys = last_keys.iter().filter(has_column);
                let last_keys = last_keys.map(|column| (Expr::TermKey(*column), false));
                let keys = keys.chain(last_keys).collect();
                same_variables(inner, |inner| Operator::OrderBy { inner, keys })
            }
            Pattern::Project { inner, variables } => {
                let inner = Box::new(self.node(inner, graph));
                let kept = VarSet::of(variables.iter().copied());
                Node {
                    id: NodeId::new(),
                    certain: inner.certain.intersection(&kept),
                    possible: inner.possible.intersection(&kept),
                    operator: Operator::Project(inner),
                }
            }
            // REDUCED may drop repeats; dropping all of them is what spareval does.
            Pattern::Distinct(inner) | Pattern::Reduced(inner) => {
                same_variables(self.node(inner, graph), Operator::Distinct)
            }
            Pattern::Slice {
                inner,
                offset,
                limit,
            } => same_variables(self.node(inner, graph), |inner| Operator::Slice {
                inner,
                offset: *offset,
                limit: *limit,
            }),
            Pattern::Service {
                name,
                silent,
                inner,
                text,
            } => self.service(name, *silent, inner, text),
            _ => unreachable!("the other patterns are groups"),
        }
    }

    fn basic(&mut self, patterns: &[lang::TriplePattern], graph: GraphPosition) -> Group {
        let mut group = Group::default();
        if patterns.is_empty()
            && let GraphPosition::Named(name) = graph
        {
            group.graphs.push(name);
        }
        for pattern in patterns {
            let pattern = QuadPattern {
                subject: self.position(&pattern.subject, &mut group),
                predicate: self.name(&pattern.predicate),
                object: self.position(&pattern.object, &mut group),
                graph,
            };
            group.patterns.push(pattern);
        }
        // A repeated pattern adds nothing, and order in the text must not matter.
        group.patterns.sort_unstable();
        group.patterns.dedup();
        group
    }

    fn service(
        &mut self,
        name: &NameOrVariable,
        silent: bool,
        inner: &Pattern,
        text: &str,
    ) -> Node {
        let scope = self.node(inner, GraphPosition::Default);
        let variables = scope.possible.iter().map(|v| {
            let name = self.query.variables.get(v.index()).cloned();
            (v, name.unwrap_or_default())
        });
        let variables: Vec<_> = variables.filter(|(_, name)| !name.is_empty()).collect();
        Node {
            id: NodeId::new(),
            // Only the other side knows which variables it leaves unbound.
            certain: VarSet::new(),
            possible: VarSet::of(variables.iter().map(|(v, _)| *v)),
            operator: Operator::Service(Arc::new(Service {
                name: self.name(name),
                silent,
                text: format!("SELECT * WHERE {{ {text} }}"),
                variables,
            })),
        }
    }

    fn values(&mut self, variables: &[VarId], rows: &[Vec<Option<Term>>]) -> Node {
        let rows: Vec<Vec<_>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|cell| cell.as_ref().map(|term| self.constants.add(term)))
                    .collect()
            })
            .collect();
        let bound_by = |every: bool| {
            VarSet::of(variables.iter().enumerate().filter_map(|(at, v)| {
                let bound = if every {
                    rows.iter().all(|row| row[at].is_some())
                } else {
                    rows.iter().any(|row| row[at].is_some())
                };
                bound.then_some(*v)
            }))
        };
        Node {
            id: NodeId::new(),
            certain: bound_by(true),
            possible: VarSet::of(variables.iter().copied()),
            operator: Operator::Values(Arc::new(Values {
                variables: variables.to_vec(),
                rows,
            })),
        }
    }

    fn aggregate(
        &mut self,
        inner: &Pattern,
        keys: &[VarId],
        aggregates: &[(VarId, lang::Aggregate)],
        graph: GraphPosition,
    ) -> Node {
        let inner = Box::new(self.node(inner, graph));
        let mut compiled = Vec::with_capacity(aggregates.len());
        for (variable, aggregate) in aggregates {
            let aggregate = match aggregate {
                lang::Aggregate::CountSolutions { distinct } => Aggregate::CountSolutions {
                    distinct: *distinct,
                    scope: self.written(&inner.possible),
                },
                lang::Aggregate::Of {
                    function,
                    distinct,
                    expression,
                } => Aggregate::Of {
                    function: function.clone(),
                    distinct: *distinct,
                    expression: self.expression(expression, graph),
                },
            };
            compiled.push((*variable, aggregate));
        }
        let key_set = VarSet::of(keys.iter().copied());
        let mut possible = key_set.intersection(&inner.possible);
        compiled.iter().for_each(|(v, _)| possible.insert(*v));
        // A count always has a value; an error may leave the other aggregates without one.
        let mut certain = key_set.intersection(&inner.certain);
        for (variable, aggregate) in &compiled {
            if matches!(aggregate, Aggregate::CountSolutions { .. }) {
                certain.insert(*variable);
            }
        }
        Node {
            id: NodeId::new(),
            certain,
            possible,
            operator: Operator::Aggregate {
                inner,
                keys: keys.into(),
                aggregates: compiled.into(),
            },
        }
    }

    /// Those of the variables that the text names. Blank nodes, and what stands between the steps
    /// of a path, are not part of a solution.
    fn written(&self, variables: &VarSet) -> Vec<VarId> {
        let is_written = |v: &VarId| self.query.is_written(*v);
        variables.iter().filter(is_written).collect()
    }

    fn name(&mut self, name: &NameOrVariable) -> Position {
        match name {
            NameOrVariable::NamedNode(node) => {
                Position::Constant(self.constants.add(&node.clone().into()))
            }
            NameOrVariable::Variable(v) => Position::Variable(*v),
        }
    }

    /// A term of a pattern. A triple term with variables is taken apart: a new variable stands for
    /// it, and its parts are bound, or checked, once that variable has a value.
    fn position(&mut self, term: &TermPattern, group: &mut Group) -> Position {
        match term {
            TermPattern::Term(term) => Position::Constant(self.constants.add(term)),
            TermPattern::Variable(v) => Position::Variable(*v),
            TermPattern::Triple(triple) => {
                let whole = VarId(self.fresh);
                self.fresh += 1;
                let of = |function| Expr::Call(function, vec![Expr::Variable(whole)]);
                group.filters.push(Arc::new(of(Function::IsTriple)));
                let subject = self.position(&triple.subject, group);
                let predicate = self.name(&triple.predicate);
                let object = self.position(&triple.object, group);
                let parts = [
                    (subject, Function::Subject),
                    (predicate, Function::Predicate),
                    (object, Function::Object),
                ];
                for (part, function) in parts {
                    match part {
                        Position::Variable(v) => group.binds.push((v, Arc::new(of(function)))),
                        Position::Constant(c) => {
                            let constant = Box::new(Expr::Constant(c));
                            let same = Expr::SameTerm(Box::new(of(function)), constant);
                            group.filters.push(Arc::new(same));
                        }
                    }
                }
                Position::Variable(whole)
            }
        }
    }

    fn path(&mut self, path: &lang::PathExpression) -> Path {
        use lang::PathExpression as P;
        let mut one = |p: &P| Box::new(self.path(p));
        match path {
            P::Predicate(node) => Path::Predicate(self.constants.add(&node.clone().into())),
            P::Inverse(p) => Path::Inverse(one(p)),
            P::ZeroOrMore(p) => Path::ZeroOrMore(one(p)),
            P::OneOrMore(p) => Path::OneOrMore(one(p)),
            P::ZeroOrOne(p) => Path::ZeroOrOne(one(p)),
            P::Sequence(list) => Path::Sequence(list.iter().map(|p| self.path(p)).collect()),
            P::Alternative(list) => Path::Alternative(list.iter().map(|p| self.path(p)).collect()),
            P::Negated(list) => Path::Negated(
                list.iter()
                    .map(|node| self.constants.add(&node.clone().into()))
                    .collect(),
            ),
        }
    }

    /// A condition as a list of conjuncts.
    fn conjuncts(
        &mut self,
        condition: &Expression,
        graph: GraphPosition,
        into: &mut Vec<Arc<Expr>>,
    ) {
        if let Expression::And(list) = condition {
            list.iter().for_each(|e| self.conjuncts(e, graph, into));
            return;
        }
        into.push(Arc::new(self.expression(condition, graph)));
    }

    fn expression(&mut self, e: &Expression, graph: GraphPosition) -> Expr {
        use Expression as E;
        match e {
            E::Constant(term) => Expr::Constant(self.constants.add(term)),
            E::Variable(v) => Expr::Variable(*v),
            E::Bound(v) => Expr::Bound(*v),
            E::Or(list) => Expr::Or(self.expressions(list, graph)),
            E::And(list) => Expr::And(self.expressions(list, graph)),
            E::Not(a) => Expr::Not(self.boxed(a, graph)),
            E::Compare(op, a, b) => Expr::Compare(*op, self.boxed(a, graph), self.boxed(b, graph)),
            E::SameTerm(a, b) => Expr::SameTerm(self.boxed(a, graph), self.boxed(b, graph)),
            E::In(a, list) => Expr::In(self.boxed(a, graph), self.expressions(list, graph)),
            E::Arithmetic(op, a, b) => {
                Expr::Arithmetic(*op, self.boxed(a, graph), self.boxed(b, graph))
            }
            E::UnaryPlus(a) => Expr::UnaryPlus(self.boxed(a, graph)),
            E::UnaryMinus(a) => Expr::UnaryMinus(self.boxed(a, graph)),
            E::Exists(pattern) => {
                let node = self.node(pattern, graph);
                let at = self.exists;
                self.exists += 1;
                Expr::Exists(Box::new(Exists { at, node }))
            }
            E::If(a, b, c) => Expr::If(
                self.boxed(a, graph),
                self.boxed(b, graph),
                self.boxed(c, graph),
            ),
            E::Coalesce(list) => Expr::Coalesce(self.expressions(list, graph)),
            E::Call(function, arguments) => self.call(function, arguments, graph),
        }
    }

    fn call(
        &mut self,
        function: &Function,
        arguments: &[Expression],
        graph: GraphPosition,
    ) -> Expr {
        let mut compiled = self.expressions(arguments, graph);
        if *function == Function::Regex
            && let Some(regex) = constant_regex(arguments)
        {
            return Expr::Matches(Box::new(compiled.swap_remove(0)), regex);
        }
        Expr::Call(function.clone(), compiled)
    }

    fn expressions(&mut self, list: &[Expression], graph: GraphPosition) -> Vec<Expr> {
        list.iter().map(|e| self.expression(e, graph)).collect()
    }

    fn boxed(&mut self, e: &Expression, graph: GraphPosition) -> Box<Expr> {
        Box::new(self.expression(e, graph))
    }
}

fn constant_regex(arguments: &[Expression]) -> Option<Regex> {
    let text = |e: &Expression| match e {
        Expression::Constant(Term::Literal(literal)) if literal.datatype() == xsd::STRING => {
            Some(literal.value().to_owned())
        }
        _ => None,
    };
    let flags = match arguments.get(2) {
        Some(flags) => text(flags)?,
        None => String::new(),
    };
    regex(&text(arguments.get(1)?)?, &flags)
}

/// Whether a pattern inside `GRAPH ?g` may read the graph that `?g` is bound to, instead of being
/// evaluated again in each graph: all its parts are joined with a triple pattern, which binds `?g`,
/// and none can observe the difference.
fn reads_bound_graph(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Bgp(patterns) => !patterns.is_empty(),
        Pattern::Join(list) => {
            list.iter().any(reads_bound_graph)
                && list
                    .iter()
                    .all(|p| matches!(p, Pattern::Values { .. }) || reads_bound_graph(p))
        }
        Pattern::Union(list) => list.iter().all(reads_bound_graph),
        Pattern::LeftJoin {
            left,
            right,
            filter,
        } => {
            !filter.as_ref().is_some_and(has_exists)
                && reads_bound_graph(left)
                && reads_bound_graph(right)
        }
        Pattern::Filter {
            inner,
            condition: expression,
        }
        | Pattern::Extend {
            inner, expression, ..
        } => !has_exists(expression) && reads_bound_graph(inner),
        _ => false,
    }
}

/// Whether a pattern has no solution in a graph without statements. False is always safe.
fn needs_statements(pattern: &Pattern) -> bool {
    match pattern {
        // An empty one looks for the graph itself.
        Pattern::Bgp(_) => true,
        Pattern::Join(list) => list.iter().any(needs_statements),
        Pattern::Union(list) => list.iter().all(needs_statements),
        Pattern::LeftJoin { left, .. } | Pattern::Minus { left, .. } => needs_statements(left),
        Pattern::Filter { inner, .. } | Pattern::Extend { inner, .. } => needs_statements(inner),
        Pattern::Group { inner, keys, .. } => !keys.is_empty() && needs_statements(inner),
        Pattern::Distinct(inner)
        | Pattern::Reduced(inner)
        | Pattern::OrderBy { inner, .. }
        | Pattern::Project { inner, .. }
        | Pattern::Slice { inner, .. } => needs_statements(inner),
        _ => false,
    }
}

/// Whether an expression contains EXISTS: its pattern would be compiled a second time.
fn has_exists(expression: &Expression) -> bool {
    matches!(expression, Expression::Exists(_)) || expression.children().into_iter().any(has_exists)
}

/// A node that binds the variables that its one input binds.
fn same_variables(inner: Node, operator: impl FnOnce(Box<Node>) -> Operator) -> Node {
    Node {
        id: NodeId::new(),
        certain: inner.certain.clone(),
        possible: inner.possible.clone(),
        operator: operator(Box::new(inner)),
    }
}
