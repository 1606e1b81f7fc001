//! The algebra of a query in the form that planning needs: joins are flat groups of patterns,
//! blocks, filters, binds, and a tail of OPTIONAL and MINUS. The one thing to know before changing
//! it: parts are flattened only where SPARQL's bottom-up scoping gives the same answer;
//! `compile.rs` has the conditions for that. Parts that a plan refers to are counted (`Arc`), so
//! that plans outlive the planning and are shared between executions.

use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::varset::VarSet;
use somersault_lang::{AggregateFunction, PathExpression, VarId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A subject, predicate, object or graph of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Position {
    Constant(ConstantId),
    Variable(VarId),
}

impl Position {
    pub(crate) fn variable(self) -> Option<VarId> {
        match self {
            Position::Variable(v) => Some(v),
            Position::Constant(_) => None,
        }
    }
}

/// Which graph a pattern reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum GraphPosition {
    Default,
    /// The named graph that the enclosing [`Operator::EachGraph`] is evaluating.
    Current,
    Named(Position),
    /// The statements that arrived in the windows of the default graph since the last execution
    /// (`incremental`).
    FreshDefault,
    /// The same for the window that is this named graph.
    FreshNamed(ConstantId),
}

impl GraphPosition {
    pub(crate) fn variable(self) -> Option<VarId> {
        match self {
            GraphPosition::Named(position) => position.variable(),
            GraphPosition::Default
            | GraphPosition::Current
            | GraphPosition::FreshDefault
            | GraphPosition::FreshNamed(_) => None,
        }
    }
}

/// A triple pattern in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuadPattern {
    pub(crate) subject: Position,
    pub(crate) predicate: Position,
    pub(crate) object: Position,
    pub(crate) graph: GraphPosition,
}

impl QuadPattern {
    pub(crate) fn variables(&self) -> VarSet {
        VarSet::of(
            [self.subject, self.predicate, self.object]
                .into_iter()
                .filter_map(Position::variable)
                .chain(self.graph.variable()),
        )
    }
}

/// A property path in a graph.
#[derive(Debug)]
pub(crate) struct PathPattern {
    pub(crate) subject: Position,
    pub(crate) path: Path,
    pub(crate) object: Position,
    pub(crate) graph: GraphPosition,
    pub(crate) text: PathExpression,
}

impl PathPattern {
    pub(crate) fn variables(&self) -> VarSet {
        VarSet::of(
            [self.subject, self.object]
                .into_iter()
                .filter_map(Position::variable)
                .chain(self.graph.variable()),
        )
    }
}

/// A property path with its constants resolved.
#[derive(Debug)]
pub(crate) enum Path {
    Predicate(ConstantId),
    Inverse(Box<Path>),
    Sequence(Vec<Path>),
    Alternative(Vec<Path>),
    ZeroOrMore(Box<Path>),
    OneOrMore(Box<Path>),
    ZeroOrOne(Box<Path>),
    Negated(Vec<ConstantId>),
}

impl Path {
    /// Whether some part of it may be repeated any number of times.
    pub(crate) fn has_closure(&self) -> bool {
        match self {
            Path::Predicate(_) | Path::Negated(_) => false,
            Path::Inverse(path) | Path::ZeroOrOne(path) => path.has_closure(),
            Path::Sequence(parts) | Path::Alternative(parts) => parts.iter().any(Path::has_closure),
            Path::ZeroOrMore(_) | Path::OneOrMore(_) => true,
        }
    }

    /// Whether it connects a vertex to itself without a step.
    pub(crate) fn is_nullable(&self) -> bool {
        match self {
            Path::Predicate(_) | Path::Negated(_) => false,
            Path::Inverse(path) | Path::OneOrMore(path) => path.is_nullable(),
            Path::Sequence(parts) => parts.iter().all(Path::is_nullable),
            Path::Alternative(parts) => parts.iter().any(Path::is_nullable),
            Path::ZeroOrMore(_) | Path::ZeroOrOne(_) => true,
        }
    }
}

/// An operator that follows a join, in the order of the text.
#[derive(Debug, Clone)]
pub(crate) enum Tail {
    Optional { node: Node, filters: Vec<Arc<Expr>> },
    Minus(Node),
}

impl Tail {
    pub(crate) fn node(&self) -> &Node {
        match self {
            Tail::Optional { node, .. } | Tail::Minus(node) => node,
        }
    }

    /// The variables that its effect depends on.
    pub(crate) fn mentioned(&self) -> VarSet {
        let mut set = self.node().mentioned();
        if let Tail::Optional { filters, .. } = self {
            filters.iter().for_each(|f| set.extend(&f.variables()));
        }
        set
    }
}

/// The join of all its patterns and blocks, with binds and filters as soon as their variables have
/// values, followed by the tails.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    pub(crate) patterns: Vec<QuadPattern>,
    pub(crate) paths: Vec<Arc<PathPattern>>,
    /// `GRAPH name {}`: whether the named graph exists.
    pub(crate) graphs: Vec<Position>,
    pub(crate) blocks: Vec<Node>,
    pub(crate) binds: Vec<(VarId, Arc<Expr>)>,
    pub(crate) filters: Vec<Arc<Expr>>,
    pub(crate) tails: Vec<Tail>,
}

/// An aggregate over a group of solutions.
#[derive(Debug)]
pub(crate) enum Aggregate {
    CountSolutions {
        distinct: bool,
        /// The variables in scope of the grouped pattern.
        scope: Vec<VarId>,
    },
    Of {
        function: AggregateFunction,
        distinct: bool,
        expression: Expr,
    },
}

impl Aggregate {
    /// Whether the aggregate has the same value over solutions without repeats.
    pub(crate) fn passes_over_repeats(&self) -> bool {
        match self {
            Aggregate::CountSolutions { distinct, .. } => *distinct,
            Aggregate::Of {
                function,
                distinct,
                expression,
            } => {
                let any = matches!(function, AggregateFunction::Min | AggregateFunction::Max);
                (*distinct || any) && !expression.is_volatile()
            }
        }
    }
}

/// Rows of constants.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) variables: Vec<VarId>,
    pub(crate) rows: Vec<Vec<Option<ConstantId>>>,
}

/// Rows that are retained between executions (`incremental`), or groups of such rows.
#[derive(Debug, Clone)]
pub(crate) struct RetainedScan {
    /// The number of the retained table.
    pub(crate) number: usize,
    pub(crate) variables: Arc<[VarId]>,
}

/// SERVICE: the answer of another endpoint.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: Position,
    /// Whether an endpoint that fails counts as one empty solution.
    pub(crate) silent: bool,
    /// The text of the query to send.
    pub(crate) text: String,
    /// The variables of its answer, and their names there.
    pub(crate) variables: Vec<(VarId, String)>,
}

/// An operator.
#[derive(Debug, Clone)]
pub(crate) enum Operator {
    Group(Group),
    Service(Arc<Service>),
    Union(Vec<Node>),
    Values(Arc<Values>),
    /// The constants of all queries that are evaluated together, as values of these variables.
    Cells(Arc<[VarId]>),
    Retained(RetainedScan),
    Aggregate {
        inner: Box<Node>,
        keys: Arc<[VarId]>,
        aggregates: Arc<[(VarId, Aggregate)]>,
    },
    OrderBy {
        inner: Box<Node>,
        keys: Arc<[(Expr, bool)]>,
    },
    /// The node's own sets say which variables remain; the parser gave those that do not remain
    /// numbers of their own.
    Project(Box<Node>),
    Distinct(Box<Node>),
    /// `GRAPH ?variable`: the pattern evaluated by itself in each named graph, joined with its
    /// name.
    EachGraph {
        variable: VarId,
        inner: Box<Node>,
    },
    Slice {
        inner: Box<Node>,
        offset: usize,
        limit: Option<usize>,
    },
}

/// The identity of a node. No two nodes have the same, whatever queries they belong to.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(u64);

impl NodeId {
    pub(crate) fn new() -> NodeId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NodeId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that stands for it.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

/// A copy of a node is another node.
impl Clone for NodeId {
    fn clone(&self) -> NodeId {
        NodeId::new()
    }
}

/// An operator with the variables of its solutions.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) operator: Operator,
    /// Bound in every solution.
    pub(crate) certain: VarSet,
    /// Bound in some solutions, perhaps.
    pub(crate) possible: VarSet,
}

impl Node {
    /// The nesting depth of its operators, including EXISTS in filters.
    pub(crate) fn depth(&self) -> usize {
        let deepest = |nodes: &mut dyn Iterator<Item = &Node>| nodes.map(Node::depth).max();
        let below = match &self.operator {
            Operator::Group(group) => {
                let nodes = group
                    .blocks
                    .iter()
                    .chain(group.tails.iter().map(Tail::node));
                let binds = group.binds.iter().map(|(_, bind)| bind);
                let expressions = group.filters.iter().chain(binds).map(|e| e.depth());
                deepest(&mut nodes.into_iter()).max(expressions.max())
            }
            Operator::Union(list) => deepest(&mut list.iter()),
            Operator::Values(_)
            | Operator::Cells(_)
            | Operator::Retained(_)
            | Operator::Service(_) => None,
            Operator::Aggregate { inner, .. }
            | Operator::OrderBy { inner, .. }
            | Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::EachGraph { inner, .. }
            | Operator::Slice { inner, .. } => Some(inner.depth()),
        };
        1 + below.unwrap_or(0)
    }

    /// Whether one of its patterns reads named graphs; EXISTS in filters is ignored.
    pub(crate) fn reads_named(&self) -> bool {
        match &self.operator {
            Operator::Group(group) => {
                group.patterns.iter().any(|p| {
                    !matches!(
                        p.graph,
                        GraphPosition::Default | GraphPosition::FreshDefault
                    )
                }) || group
                    .paths
                    .iter()
                    .any(|p| p.graph != GraphPosition::Default)
                    || !group.graphs.is_empty()
                    || group.blocks.iter().any(Node::reads_named)
                    || group.tails.iter().any(|tail| tail.node().reads_named())
            }
            Operator::Union(list) => list.iter().any(Node::reads_named),
            Operator::Values(_)
            | Operator::Cells(_)
            | Operator::Retained(_)
            | Operator::Service(_) => false,
            Operator::EachGraph { .. } => true,
            Operator::Aggregate { inner, .. }
            | Operator::OrderBy { inner, .. }
            | Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::Slice { inner, .. } => inner.reads_named(),
        }
    }

    /// Every variable in it that could influence its solutions if it were bound from outside: those
    /// it binds, and those its expressions read.
    pub(crate) fn mentioned(&self) -> VarSet {
        let mut set = self.possible.clone();
        match &self.operator {
            Operator::Group(group) => {
                group.blocks.iter().for_each(|b| set.extend(&b.mentioned()));
                for (_, expr) in &group.binds {
                    set.extend(&expr.variables());
                }
                group
                    .filters
                    .iter()
                    .for_each(|f| set.extend(&f.variables()));
                group.tails.iter().for_each(|t| set.extend(&t.mentioned()));
            }
            Operator::Union(list) => list.iter().for_each(|n| set.extend(&n.mentioned())),
            Operator::Values(_) | Operator::Cells(_) | Operator::Retained(_) => {}
            Operator::Service(service) => set.extend(&VarSet::of(service.name.variable())),
            Operator::Aggregate { inner, .. }
            | Operator::OrderBy { inner, .. }
            | Operator::Project(inner)
            | Operator::Distinct(inner)
            | Operator::EachGraph { inner, .. }
            | Operator::Slice { inner, .. } => set.extend(&inner.mentioned()),
        }
        set
    }

    /// Whether evaluating it on rows that already have values for `input` gives the same as
    /// evaluating it alone and joining (SPARQL's bottom-up scoping). Inside EXISTS, the variables
    /// from `outside` stand for their values, and expressions are meant to see them.
    pub(crate) fn takes_input(&self, input: &VarSet, outside: &VarSet) -> bool {
        match &self.operator {
            Operator::Group(group) => group.takes_input(input, outside),
            Operator::Union(list) => list.iter().all(|n| n.takes_input(input, outside)),
            Operator::Project(inner) => inner.takes_input(input, outside),
            // Joined by hash in any case.
            Operator::Values(_)
            | Operator::Cells(_)
            | Operator::Retained(_)
            | Operator::Service(_) => true,
            Operator::Aggregate { .. }
            | Operator::OrderBy { .. }
            | Operator::Distinct(_)
            | Operator::EachGraph { .. }
            | Operator::Slice { .. } => false,
        }
    }
}

impl Group {
    /// Bound in every solution of the join, before the tails.
    pub(crate) fn core_certain(&self) -> VarSet {
        let mut set = VarSet::new();
        self.patterns
            .iter()
            .for_each(|p| set.extend(&p.variables()));
        self.paths.iter().for_each(|p| set.extend(&p.variables()));
        self.graphs
            .iter()
            .filter_map(|g| g.variable())
            .for_each(|v| set.insert(v));
        self.blocks.iter().for_each(|b| set.extend(&b.certain));
        set
    }

    /// Bound in some solution of the join, before the tails.
    pub(crate) fn core_possible(&self) -> VarSet {
        let mut set = self.core_certain();
        self.blocks.iter().for_each(|b| set.extend(&b.possible));
        self.binds.iter().for_each(|(v, _)| set.insert(*v));
        set
    }

    /// Bound in some solution, with the tails.
    pub(crate) fn possible(&self) -> VarSet {
        let mut set = self.core_possible();
        for tail in &self.tails {
            if let Tail::Optional { node, .. } = tail {
                set.extend(&node.possible);
            }
        }
        set
    }

    /// Whether a bind or a filter has a different value at each evaluation.
    pub(crate) fn is_volatile(&self) -> bool {
        self.binds.iter().any(|(_, e)| e.is_volatile())
            || self.filters.iter().any(|f| f.is_volatile())
    }

    fn takes_input(&self, input: &VarSet, outside: &VarSet) -> bool {
        if self.is_volatile() {
            return false;
        }
        let free = input.difference(&self.core_certain());
        let hidden = free.difference(outside);
        let reads_hidden = |set: VarSet| !set.is_disjoint(&hidden);
        if self.binds.iter().any(|(_, e)| reads_hidden(e.variables()))
            || self.filters.iter().any(|f| reads_hidden(f.variables()))
        {
            return false;
        }
        self.tails.iter().all(|tail| match tail {
            // MINUS asks which variables both sides share: one from outside must not count.
            Tail::Minus(node) => node.mentioned().is_disjoint(&free),
            Tail::Optional { .. } => !reads_hidden(tail.mentioned()),
        })
    }
}
