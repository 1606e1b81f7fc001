//! Queries of one shape, evaluated together: their constants are variables here, and a step of the
//! plan joins with the [`Cells`], the distinct constants of all members. The planner chooses the
//! place of that step: first, so that the plan starts from the constants, or after the windows, so
//! that it keeps only rows that a member asked for. The answer is split by cell.
//!
//! The one thing to know before changing it: for each cell the rows must be those of the query with
//! that cell's constants alone, as a bag. So a constant may become a variable only where joining
//! afterwards is the same as writing the value there before, and [`Generaliser`] refuses everything
//! for which that is not certain; a query that it refuses is evaluated cell by cell, and that is
//! also the oracle in the tests.

use crate::algebra::compile::Compiled;
use crate::algebra::error::QueryError;
use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::flatten::{group_node, union};
use crate::algebra::logical::{Group, Node, NodeId, Operator, Position, QuadPattern, Tail};
use crate::algebra::varset::VarSet;
use crate::context::cells::Cells;
use crate::context::execution::Execution;
use crate::context::group_answer::GroupAnswer;
use crate::continuous::incremental::IncrementalQuery;
use crate::exec::explain::Explanation;
use crate::prepared::execute::Invocation;
use crate::prepared::parameters::Arguments;
use crate::prepared::{Cohort, Prepared};
use crate::view::graph_view::GraphView;
use somersault_lang::{QueryForm, VarId};
use std::sync::Arc;

/// A prepared query with parameters that is evaluated for many values at once.
pub struct Grouped {
    /// With the parameters as variables.
    together: Prepared,
}

impl Grouped {
    /// `None` where the query has to be evaluated cell by cell.
    pub fn new(single: &Prepared) -> Option<Grouped> {
        let together = generalised(single)?;
        Some(Grouped { together })
    }

    /// Evaluates the query for all cells.
    ///
    /// # Errors
    /// As [`Prepared::run`]; all cells together must stay within the limits but for that of
    /// rows.
    pub fn run(
        &self,
        cells: &Cells,
        view: &dyn GraphView,
        execution: &Execution,
    ) -> Result<GroupAnswer, QueryError> {
        self.together.run_cells(cells, view, execution)
    }

    /// Splits the query, to retain rows of all cells between executions. The view must have the
    /// dataset that all executions will have.
    ///
    /// # Errors
    /// As [`IncrementalQuery::new`].
    pub fn maintained(&self, view: &dyn GraphView) -> Result<IncrementalQuery, &'static str> {
        IncrementalQuery::new(&self.together, &[], view)
    }

    /// Explains its evaluation for these cells.
    ///
    /// # Errors
    /// There is no time to plan.
    pub fn explain(
        &self,
        cells: &Cells,
        view: &dyn GraphView,
        execution: &Execution,
    ) -> Result<Explanation, QueryError> {
        let invocation = Invocation::of(Arguments::Cells(cells), view, execution);
        self.together.explain(invocation, false)
    }
}

/// The query with its parameters as variables, joined with the cells.
fn generalised(single: &Prepared) -> Option<Prepared> {
    let inner = single.inner();
    if !matches!(inner.query.form, QueryForm::Select { .. }) || inner.parameters.is_empty() {
        return None;
    }
    let compiled = &inner.compiled;
    let mut of = vec![None; compiled.constants.terms.len()];
    let mut variables = Vec::with_capacity(inner.parameters.len());
    for (parameter, number) in inner.parameters.iter().zip(compiled.variables..) {
        // No two parameters share a placeholder.
        of[parameter.constant.index()] = Some(VarId(number));
        variables.push(VarId(number));
    }
    let variables: Arc<[VarId]> = variables.into();
    let generaliser = Generaliser {
        of,
        all: VarSet::of(variables.iter().copied()),
        variables: Arc::clone(&variables),
    };
    let compiled = Compiled {
        root: generaliser.core(&compiled.root)?,
        variables: compiled.variables + variables.len() as u32,
        constants: compiled.constants.clone(),
    };
    Some(Prepared::of_cohort(
        inner.query.clone(),
        compiled,
        Cohort { variables },
    ))
}

/// Writes variables in the place of parameters.
struct Generaliser {
    /// Per constant: the variable of the parameter that it stands for.
    of: Vec<Option<VarId>>,
    /// All of these variables.
    all: VarSet,
    variables: Arc<[VarId]>,
}

impl Generaliser {
    fn constant(&self, constant: ConstantId) -> Option<VarId> {
        self.of.get(constant.index()).copied().flatten()
    }

    fn position(&self, position: Position) -> Position {
        match position {
            Position::Constant(c) => self.constant(c).map_or(position, Position::Variable),
            Position::Variable(_) => position,
        }
    }

    fn pattern(&self, pattern: &QuadPattern) -> QuadPattern {
        QuadPattern {
            subject: self.position(pattern.subject),
            predicate: self.position(pattern.predicate),
            object: self.position(pattern.object),
            graph: pattern.graph,
        }
    }

    /// The variables that the parameters in a node become.
    fn within(&self, node: &Node) -> VarSet {
        let mut set = VarSet::new();
        self.collect(node, &mut set);
        set
    }

    fn note(&self, position: Position, set: &mut VarSet) {
        if let Position::Constant(c) = position
            && let Some(variable) = self.constant(c)
        {
            set.insert(variable);
        }
    }

    fn collect(&self, node: &Node, set: &mut VarSet) {
        match &node.operator {
            Operator::Group(group) => {
                for pattern in &group.patterns {
                    for position in [pattern.subject, pattern.predicate, pattern.object] {
                        self.note(position, set);
                    }
                }
                for path in &group.paths {
                    self.note(path.subject, set);
                    self.note(path.object, set);
                }
                group.graphs.iter().for_each(|name| self.note(*name, set));
                group
                    .blocks
                    .iter()
                    .for_each(|block| self.collect(block, set));
                let binds = group.binds.iter().map(|(_, expr)| expr);
                (group.filters.iter().chain(binds)).for_each(|expr| self.collect_expr(expr, set));
                for tail in &group.tails {
                    self.collect(tail.node(), set);
                    if let Tail::Optional { filters, .. } = tail {
                        filters.iter().for_each(|expr| self.collect_expr(expr, set));
                    }
                }
            }
            Operator::Union(list) => list.iter().for_each(|node| self.collect(node, set)),
            Operator::Service(service) => self.note(service.name, set),
            Operator::Values(_) | Operator::Cells(_) | Operator::Retained(_) => {}
            Operator::Aggregate {
                inner, aggregates, ..
            } => {
                self.collect(inner, set);
                for (_, aggregate) in aggregates.iter() {
                    if let crate::algebra::logical::Aggregate::Of { expression, .. } = aggregate {
                        self.collect_expr(expression, set);
                    }
                }
            }
            Operator::OrderBy { inner, keys } => {
                self.collect(inner, set);
                keys.iter().for_each(|(key, _)| self.collect_expr(key, set));
            }
            Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::EachGraph { inner, .. }
            | Operator::Slice { inner, .. } => self.collect(inner, set),
        }
    }

    fn collect_expr(&self, expr: &Expr, set: &mut VarSet) {
        match expr {
            Expr::Constant(c) => self.note(Position::Constant(*c), set),
            Expr::Exists(exists) => self.collect(&exists.node, set),
            _ => (expr.children()).for_each(|child| self.collect_expr(child, set)),
        }
    }

    fn mentions(&self, expr: &Expr) -> bool {
        let mut set = VarSet::new();
        self.collect_expr(expr, &mut set);
        !set.is_empty()
    }

    /// The outermost node, joined with the cells as far inside as that means the same: there the
    /// group has all parameters, those in its filters alone too.
    fn core(&self, node: &Node) -> Option<Node> {
        let operator = match &node.operator {
            Operator::Project(inner) => Operator::Project(Box::new(self.core(inner)?)),
            Operator::Distinct(inner) => Operator::Distinct(Box::new(self.core(inner)?)),
            Operator::OrderBy { inner, keys } => {
                if keys.iter().any(|(key, _)| self.mentions(key)) {
                    return None;
                }
                Operator::OrderBy {
                    inner: Box::new(self.core(inner)?),
                    keys: Arc::clone(keys),
                }
            }
            // Without keys there is a row for no solution, too: nothing would make it for each
            // cell.
            Operator::Aggregate {
                inner,
                keys,
                aggregates,
            } if !keys.is_empty() && self.within(inner) == self.within(node) => {
                Operator::Aggregate {
                    inner: Box::new(self.core(inner)?),
                    keys: keys.iter().copied().chain(self.all.iter()).collect(),
                    aggregates: Arc::clone(aggregates),
                }
            }
            Operator::Group(group) => return self.core_group(group, node),
            _ => return self.beside_cells(self.all_bound(node)?),
        };
        Some(Node {
            id: NodeId::new(),
            operator,
            certain: node.certain.union(&self.all),
            possible: node.possible.union(&self.all),
        })
    }

    fn core_group(&self, group: &Group, node: &Node) -> Option<Node> {
        // HAVING, or what else stands around one operator.
        let only = match &group.blocks[..] {
            [block] if group.patterns.is_empty() && group.paths.is_empty() => Some(block),
            _ => None,
        };
        if let Some(block) = only.filter(|block| self.within(block) == self.within(node))
            && let Operator::Aggregate { .. } | Operator::Distinct(_) | Operator::Project(_) =
                block.operator
        {
            let mut around = group.clone();
            around.blocks = vec![self.core(block)?];
            return Some(group_node(around));
        }
        let mut made = self.joined(group)?;
        // Rows are joined with the cells by what the patterns say; by nothing they would be
        // multiplied.
        if made.core_certain().is_disjoint(&self.all) {
            return None;
        }
        made.blocks.push(self.cells());
        self.rest(group, made)
    }

    fn cells(&self) -> Node {
        Node {
            id: NodeId::new(),
            operator: Operator::Cells(Arc::clone(&self.variables)),
            certain: self.all.clone(),
            possible: self.all.clone(),
        }
    }

    fn beside_cells(&self, node: Node) -> Option<Node> {
        node.certain.includes(&self.all).then(|| {
            group_node(Group {
                blocks: vec![node, self.cells()],
                ..Group::default()
            })
        })
    }

    /// A node inside, whose parameters get their values from its own patterns.
    fn node(&self, node: &Node) -> Option<Node> {
        let within = self.within(node);
        if within.is_empty() {
            return Some(node.clone());
        }
        let operator = match &node.operator {
            Operator::Group(group) => return self.rest(group, self.joined(group)?),
            Operator::Union(list) => {
                return Some(union(
                    list.iter().map(|n| self.node(n)).collect::<Option<_>>()?,
                ));
            }
            Operator::Project(inner) => Operator::Project(Box::new(self.node(inner)?)),
            Operator::Distinct(inner) => Operator::Distinct(Box::new(self.all_bound(inner)?)),
            Operator::OrderBy { inner, keys } => {
                if keys.iter().any(|(key, _)| self.mentions(key)) {
                    return None;
                }
                Operator::OrderBy {
                    inner: Box::new(self.node(inner)?),
                    keys: Arc::clone(keys),
                }
            }
            Operator::Aggregate {
                inner,
                keys,
                aggregates,
            } => {
                // Without keys there is a row for no solution, too: nothing would make it for each
                // cell.
                let is_of_keys = !keys.is_empty() && self.within(inner) == within;
                let inner = Box::new(self.all_bound(inner).filter(|_| is_of_keys)?);
                Operator::Aggregate {
                    inner,
                    keys: keys.iter().copied().chain(within.iter()).collect(),
                    aggregates: Arc::clone(aggregates),
                }
            }
            Operator::Values(_)
            | Operator::Cells(_)
            | Operator::Retained(_)
            | Operator::Service(_)
            | Operator::EachGraph { .. }
            | Operator::Slice { .. } => return None,
        };
        let inner = match &operator {
            Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::OrderBy { inner, .. }
            | Operator::Aggregate { inner, .. } => inner,
            _ => return None,
        };
        let certain = node.certain.union(&inner.certain.intersection(&within));
        let possible = node.possible.union(&within);
        Some(Node {
            id: NodeId::new(),
            operator,
            certain,
            possible,
        })
    }

    /// The node, if its parameters have values in all of its solutions.
    fn all_bound(&self, node: &Node) -> Option<Node> {
        let within = self.within(node);
        self.node(node)
            .filter(|node| node.certain.includes(&within))
    }

    /// The patterns that a group joins.
    fn joined(&self, group: &Group) -> Option<Group> {
        let mut path_ends = VarSet::new();
        for path in &group.paths {
            self.note(path.subject, &mut path_ends);
            self.note(path.object, &mut path_ends);
        }
        group
            .graphs
            .iter()
            .for_each(|name| self.note(*name, &mut path_ends));
        // A path of no step leads from a constant to itself even where no graph has it.
        if group.is_volatile() || !path_ends.is_empty() {
            return None;
        }
        Some(Group {
            patterns: group.patterns.iter().map(|p| self.pattern(p)).collect(),
            paths: group.paths.clone(),
            graphs: group.graphs.clone(),
            blocks: (group.blocks.iter().map(|b| self.node(b))).collect::<Option<_>>()?,
            ..Group::default()
        })
    }

    /// The rest of a group, over what it joins.
    fn rest(&self, group: &Group, mut made: Group) -> Option<Node> {
        let bound = made.core_certain();
        // An expression over variables that the joined parts do not bind would have another meaning
        // there than a constant has.
        let expr = |expr: &Arc<Expr>| -> Option<Arc<Expr>> {
            let mut set = VarSet::new();
            self.collect_expr(expr, &mut set);
            match (set.is_empty(), bound.includes(&set)) {
                (true, _) => Some(Arc::clone(expr)),
                (_, true) => Some(Arc::new(self.expr(expr)?)),
                _ => None,
            }
        };
        made.filters = group.filters.iter().map(expr).collect::<Option<_>>()?;
        for (variable, bind) in &group.binds {
            made.binds.push((*variable, expr(bind)?));
        }
        for tail in &group.tails {
            made.tails.push(match tail {
                Tail::Optional { node, filters } => {
                    if !bound.includes(&self.within(node)) {
                        return None;
                    }
                    Tail::Optional {
                        node: self.node(node)?,
                        filters: filters.iter().map(expr).collect::<Option<_>>()?,
                    }
                }
                // MINUS asks which variables both sides have in common.
                Tail::Minus(node) if self.within(node).is_empty() => tail.clone(),
                Tail::Minus(_) => return None,
            });
        }
        Some(group_node(made))
    }

    fn expr(&self, expr: &Expr) -> Option<Expr> {
        let one = |e: &Expr| self.expr(e).map(Box::new);
        let all = |list: &[Expr]| {
            list.iter()
                .map(|e| self.expr(e))
                .collect::<Option<Vec<_>>>()
        };
        Some(match expr {
            Expr::Constant(c) => self.constant(*c).map_or(Expr::Constant(*c), Expr::Variable),
            Expr::Variable(v) => Expr::Variable(*v),
            Expr::Bound(v) => Expr::Bound(*v),
            Expr::EqualityKey(v) => Expr::EqualityKey(*v),
            Expr::TermKey(v) => Expr::TermKey(*v),
            Expr::IsFresh(pattern) => Expr::IsFresh(self.pattern(pattern)),
            Expr::Or(list) => Expr::Or(all(list)?),
            Expr::And(list) => Expr::And(all(list)?),
            Expr::Coalesce(list) => Expr::Coalesce(all(list)?),
            Expr::Call(function, list) => Expr::Call(function.clone(), all(list)?),
            Expr::Not(a) => Expr::Not(one(a)?),
            Expr::UnaryPlus(a) => Expr::UnaryPlus(one(a)?),
            Expr::UnaryMinus(a) => Expr::UnaryMinus(one(a)?),
            Expr::Compare(op, a, b) => Expr::Compare(*op, one(a)?, one(b)?),
            Expr::SameTerm(a, b) => Expr::SameTerm(one(a)?, one(b)?),
            Expr::Arithmetic(op, a, b) => Expr::Arithmetic(*op, one(a)?, one(b)?),
            Expr::In(a, list) => Expr::In(one(a)?, all(list)?),
            Expr::If(a, b, c) => Expr::If(one(a)?, one(b)?, one(c)?),
            Expr::Matches(a, regex) => Expr::Matches(one(a)?, regex.clone()),
            // Its pattern would have to be rewritten.
            Expr::Exists(_) => return None,
        })
    }
}
