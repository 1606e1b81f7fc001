//! Finds the cores of a query: the parts whose rows are retained between executions. A core joins
//! all patterns of one group that read a named graph or the default graph, at least one of them a
//! window, and applies the conditions that depend on those patterns alone. In the remaining tree, a
//! scan of the retained rows replaces the core.
//!
//! The one thing to know before changing it: the rows of a core have values for all variables of
//! its patterns. So a row identifies the statements that it was made from, and no row occurs twice.

use super::folds::{Fold, SORTED};
use super::is_grouped;
use crate::algebra::expression::Expr;
use crate::algebra::flatten::{group_node, join, union};
use crate::algebra::logical::{
    Aggregate, GraphPosition, Group, Node, NodeId, Operator, Position, QuadPattern,
    RetainedScan as Leaf, Values,
};
use crate::algebra::varset::VarSet;
use crate::prepared::Prepared;
use crate::view::graph_view::{Dataset, Source};
use rustc_hash::FxHashSet;
use somersault_lang::{AggregateFunction, Function, VarId};
use somersault_model::TermId;
use std::sync::{Arc, OnceLock};

/// The most cores that a UNION in a group is multiplied out into.
const MOST_CORES: usize = 8;

/// A part of a query whose rows are retained: the patterns it joins and the conditions on them.
pub(super) struct Core {
    group: Group,
    /// The sources that each pattern of the group reads.
    pub(super) reads: Vec<PatternReads>,
    /// The variables of its rows.
    pub(super) variables: Arc<[VarId]>,
    /// The windows that its patterns read, ascending.
    pub(super) windows: Vec<usize>,
    /// All of its rows.
    pub(super) whole: Prepared,
    /// Per pattern: a query for the rows that are new through it, made at its first use.
    variants: Vec<OnceLock<Prepared>>,
}

/// The sources that a pattern reads.
#[derive(Debug, Clone, Default)]
pub(super) struct PatternReads {
    pub(super) windows: Vec<usize>,
    pub(super) stored: Vec<TermId>,
}

impl Core {
    fn new(group: Group, reads: Vec<PatternReads>, of: &Prepared) -> Core {
        let variables: Arc<[VarId]> = group.core_certain().iter().collect();
        let mut windows: Vec<usize> = reads.iter().flat_map(|r| r.windows.clone()).collect();
        windows.sort_unstable();
        windows.dedup();
        let variants = group.patterns.iter().map(|_| OnceLock::new()).collect();
        Core {
            whole: of.part(&variables, group_node(group.clone())),
            group,
            reads,
            variables,
            windows,
            variants,
        }
    }

    pub(super) fn patterns(&self) -> &[QuadPattern] {
        &self.group.patterns
    }

    /// The rows in which the statement of this pattern is new, and of no pattern before it.
    pub(super) fn variant(&self, at: usize) -> &Prepared {
        self.variants[at].get_or_init(|| {
            let mut group = self.group.clone();
            for before in (0..at).filter(|before| !self.reads[*before].windows.is_empty()) {
                let new = Expr::IsFresh(self.fresh(before));
                group.filters.push(Arc::new(Expr::Not(Box::new(new))));
            }
            group.patterns[at] = self.fresh(at);
            self.whole.part(&self.variables, group_node(group))
        })
    }

    /// A pattern, over the statements that are new in the windows that it reads.
    pub(super) fn fresh(&self, at: usize) -> QuadPattern {
        let pattern = self.group.patterns[at];
        let graph = match pattern.graph {
            GraphPosition::Named(Position::Constant(name)) => GraphPosition::FreshNamed(name),
            _ => GraphPosition::FreshDefault,
        };
        QuadPattern { graph, ..pattern }
    }
}

/// Takes the cores out of a query.
pub(super) struct Splitter<'s> {
    pub(super) prepared: &'s Prepared,
    pub(super) dataset: &'s Dataset,
    /// The ids of the query's constants.
    pub(super) constants: &'s [TermId],
    pub(super) cores: Vec<Core>,
    /// Groupings of rows of cores.
    pub(super) folds: Vec<Fold>,
    /// Why a grouping is evaluated over all rows at each execution.
    pub(super) unfolded: Option<&'static str>,
}

impl Splitter<'_> {
    /// The tree with retained scans in place of its cores. A part without a core stays unchanged.
    pub(super) fn split(&mut self, node: &Node) -> Node {
        let one = |this: &mut Self, inner: &Node| Box::new(this.split(inner));
        let operator = match &node.operator {
            Operator::Group(group) => return self.group(group, node),
            Operator::Union(list) => {
                Operator::Union(list.iter().map(|branch| self.split(branch)).collect())
            }
            Operator::Aggregate {
                inner,
                keys,
                aggregates,
            } => {
                let before = self.cores.len();
                let inner = one(self, inner);
                match Fold::new(&inner, keys.to_vec(), aggregates, &self.folds) {
                    Ok(fold) => return self.folded(fold, node),
                    Err(why) => self.note(why, before),
                }
                Operator::Aggregate {
                    inner,
                    keys: Arc::clone(keys),
                    aggregates: Arc::clone(aggregates),
                }
            }
            Operator::OrderBy { inner, keys } => Operator::OrderBy {
                inner: one(self, inner),
                keys: Arc::clone(keys),
            },
            Operator::Project(inner) => Operator::Project(one(self, inner)),
            Operator::Distinct(inner) => return self.distinct(inner, node),
            Operator::Slice {
                inner,
                offset,
                limit,
            } => Operator::Slice {
                inner: one(self, inner),
                offset: *offset,
                limit: *limit,
            },
            // The other operators are not searched: their input depends on the rows around them, or
            // on a named graph.
            Operator::Service(_)
            | Operator::Values(_)
            | Operator::Cells(_)
            | Operator::Retained(_)
            | Operator::EachGraph { .. } => return node.clone(),
        };
        Node {
            operator,
            ..node.clone()
        }
    }

    fn distinct(&mut self, inner: &Node, node: &Node) -> Node {
        let before = self.cores.len();
        let inner = Box::new(self.split(inner));
        // Distinct rows keep the order of the input, which is sorted first.
        let (sorted, order) = match &inner.operator {
            Operator::Project(below) => match &below.operator {
                Operator::OrderBy { inner, keys } => (&**inner, Some(keys)),
                _ => (&*inner, None),
            },
            _ => (&*inner, None),
        };
        let reads = |(key, _): &(Expr, bool)| node.possible.includes(&key.variables());
        let may_sort = order.is_none_or(|keys| keys.iter().all(reads));
        let fold = match may_sort {
            // Without columns, no rows also make one group.
            true if node.possible.is_empty() => None,
            true => {
                let keys = node.possible.iter().collect();
                Some(Fold::new(sorted, keys, &[].into(), &self.folds))
            }
            false => Some(Err(SORTED)),
        };
        match fold {
            Some(Ok(fold)) => {
                let groups = self.folded(fold, node);
                let Some(keys) = order else { return groups };
                return Node {
                    operator: Operator::OrderBy {
                        inner: Box::new(groups),
                        keys: Arc::clone(keys),
                    },
                    ..node.clone()
                };
            }
            Some(Err(why)) => self.note(why, before),
            None => {}
        }
        Node {
            operator: Operator::Distinct(inner),
            ..node.clone()
        }
    }

    /// Retained groups, in place of the node that makes them.
    fn folded(&mut self, fold: Fold, node: &Node) -> Node {
        let operator = Operator::Retained(Leaf {
            number: fold.cores[0],
            variables: node.possible.iter().collect(),
        });
        self.folds.push(fold);
        Node {
            operator,
            ..node.clone()
        }
    }

    /// Records why a grouping is rebuilt each time. `before`: how many cores came before the rows
    /// that it groups.
    fn note(&mut self, why: &'static str, before: usize) {
        // Groups above groups are few.
        if (before..self.cores.len()).any(|core| !is_grouped(&self.folds, core)) {
            self.unfolded.get_or_insert(why);
        }
    }

    /// Splits each block of a group independently, since the join around a block does not reach
    /// into it.
    fn blocks(&mut self, blocks: &[Node]) -> Vec<Node> {
        blocks.iter().map(|block| self.split(block)).collect()
    }

    /// A group whose own patterns stay as they are.
    fn around(&mut self, group: &Group, node: &Node) -> Node {
        let around = Group {
            blocks: self.blocks(&group.blocks),
            ..group.clone()
        };
        Node {
            operator: Operator::Group(around),
            ..node.clone()
        }
    }

    fn group(&mut self, group: &Group, node: &Node) -> Node {
        if group.patterns.is_empty() {
            return self.around(group, node);
        }
        if let Some(mut branches) = self.multiplied(group) {
            // A condition that every branch can evaluate is moved into all branches.
            let (inside, outside): (Vec<_>, Vec<_>) = (group.filters.iter().cloned())
                .partition(|f| is_of_its_row(f) && branches.iter().all(|b| tells(b, f)));
            for branch in &mut branches {
                branch.filters.extend(inside.iter().cloned());
            }
            let branches = branches.into_iter().map(group_node).collect();
            let around = Group {
                patterns: Vec::new(),
                blocks: vec![self.split(&union(branches))],
                filters: outside,
                ..group.clone()
            };
            return Node {
                operator: Operator::Group(around),
                ..node.clone()
            };
        }
        let (patterns, others): (Vec<_>, Vec<_>) =
            (group.patterns.iter()).partition(|pattern| self.reads(pattern).is_some());
        let reads: Vec<PatternReads> = patterns.iter().filter_map(|p| self.reads(p)).collect();
        if reads.iter().all(|reads| reads.windows.is_empty()) {
            return self.around(group, node);
        }
        let mut core = Group {
            patterns,
            ..Group::default()
        };
        let bound = core.core_certain();
        let mut around = Group {
            patterns: others,
            ..group.clone()
        };
        let (inside, outside): (Vec<_>, Vec<_>) =
            (group.blocks.iter().cloned()).partition(|block| narrows(block, &bound));
        core.blocks = inside;
        around.blocks = self.blocks(&outside);
        let (inside, outside): (Vec<_>, Vec<_>) =
            (group.filters.iter().cloned()).partition(|f| is_of_its_row(f) && tells(&core, f));
        core.filters = inside;
        around.filters = outside;
        let core = Core::new(core, reads, self.prepared);
        around.blocks.push(Node {
            id: NodeId::new(),
            operator: Operator::Retained(Leaf {
                number: self.cores.len(),
                variables: Arc::clone(&core.variables),
            }),
            certain: bound.clone(),
            possible: bound,
        });
        self.cores.push(core);
        Node {
            operator: Operator::Group(around),
            ..node.clone()
        }
    }

    /// Turns a join with a UNION in it into a UNION of joins, so that each branch is a core.
    fn multiplied(&self, group: &Group) -> Option<Vec<Group>> {
        let own = Group {
            patterns: group.patterns.clone(),
            ..Group::default()
        };
        let [block] = &group.blocks[..] else {
            return None;
        };
        let Operator::Union(branches) = &block.operator else {
            return None;
        };
        if self.cores.len() + branches.len() > MOST_CORES {
            return None;
        }
        let branches: Vec<Group> = (branches.iter())
            .map(|branch| join(vec![group_node(own.clone()), branch.clone()]))
            .collect();
        // A branch that is no plain group stays beside the patterns, so multiplying out gains
        // nothing.
        let plain = branches.iter().all(|branch| branch.blocks.is_empty());
        plain.then_some(branches)
    }

    /// The sources that a pattern reads; `None` where they are unknown before the execution.
    fn reads(&self, pattern: &QuadPattern) -> Option<PatternReads> {
        let named;
        let sources = match pattern.graph {
            GraphPosition::Default => &self.dataset.default[..],
            GraphPosition::Named(Position::Constant(name)) => {
                named = self.dataset.named_source(self.constants[name.index()]);
                named.as_slice()
            }
            _ => return None,
        };
        let mut reads = PatternReads::default();
        for source in sources {
            match source {
                Source::Window(at) => reads.windows.push(*at),
                Source::Stored(graph) => reads.stored.push(*graph),
            }
        }
        Some(reads)
    }
}

/// Whether the patterns of a group bind all variables of a condition.
pub(super) fn tells(group: &Group, condition: &Expr) -> bool {
    group.core_certain().includes(&condition.variables())
}

/// Whether a block only drops rows that have values for these variables: constants or cells, each
/// combination once.
pub(super) fn narrows(block: &Node, bound: &VarSet) -> bool {
    let has = |variables: &[VarId]| variables.iter().all(|v| bound.contains(*v));
    match &block.operator {
        Operator::Cells(variables) => has(variables),
        Operator::Values(values) => {
            let Values { variables, rows } = &**values;
            let mut seen = FxHashSet::default();
            has(variables)
                && (rows.iter()).all(|row| row.iter().all(Option::is_some) && seen.insert(row))
        }
        _ => false,
    }
}

/// Whether the value of an expression depends on its row alone, and not on when and where it is
/// evaluated.
pub(super) fn is_of_its_row(expr: &Expr) -> bool {
    match expr {
        Expr::Exists(_) | Expr::IsFresh(_) => false,
        Expr::Call(Function::Now | Function::Timestamp, _) => false,
        _ => !expr.is_volatile() && expr.children().all(is_of_its_row),
    }
}

/// Why a query's rows cannot be retained although its patterns could be: its answer must not depend
/// on how it is evaluated.
pub(super) fn obstacle(node: &Node) -> Option<&'static str> {
    const DRAWS: &str =
        "it draws values (RAND, UUID, STRUUID or BNODE), which follow the order of its rows";
    const ORDER: &str =
        "its answer depends on row order (LIMIT or OFFSET without ORDER BY, SAMPLE, GROUP_CONCAT)";
    match &node.operator {
        Operator::Group(group) => {
            if group.is_volatile() {
                return Some(DRAWS);
            }
            let tails = group.tails.iter().map(|tail| tail.node());
            let exists = (group.filters.iter())
                .chain(group.binds.iter().map(|(_, bind)| bind))
                .flat_map(|expr| expr.exists());
            let inside = exists.map(|exists| &exists.node);
            let mut nodes = group.blocks.iter().chain(tails).chain(inside);
            nodes.find_map(obstacle)
        }
        Operator::Union(list) => list.iter().find_map(obstacle),
        Operator::Values(_) | Operator::Cells(_) | Operator::Retained(_) | Operator::Service(_) => {
            None
        }
        Operator::Aggregate {
            inner, aggregates, ..
        } => {
            for (_, aggregate) in aggregates.iter() {
                if let Aggregate::Of {
                    function,
                    expression,
                    ..
                } = aggregate
                {
                    if expression.is_volatile() {
                        return Some(DRAWS);
                    }
                    if matches!(
                        function,
                        AggregateFunction::Sample | AggregateFunction::GroupConcat { .. }
                    ) {
                        return Some(ORDER);
                    }
                }
            }
            obstacle(inner)
        }
        Operator::OrderBy { inner, keys } => {
            let draws = keys.iter().any(|(key, _)| key.is_volatile());
            draws.then_some(DRAWS).or_else(|| obstacle(inner))
        }
        Operator::Project(inner)
        | Operator::Distinct(inner)
        | Operator::EachGraph { inner, .. } => obstacle(inner),
        Operator::Slice { inner, .. } => match is_ordered(inner) {
            true => obstacle(inner),
            false => Some(ORDER),
        },
    }
}

/// Whether the query defines the order of the rows. Among equal rows their terms decide (S6).
fn is_ordered(node: &Node) -> bool {
    match &node.operator {
        Operator::OrderBy { .. } => true,
        Operator::Project(inner) | Operator::Distinct(inner) => is_ordered(inner),
        _ => false,
    }
}
