//! Flattening combines operators into one group of patterns, blocks, binds, filters and tails. The
//! one thing to know before changing it: a part is lifted into the group around it only where it
//! would see the same variables there (SPARQL's scoping is bottom-up); otherwise it stays a block
//! of its own.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{Group, Node, NodeId, Operator, Tail};
use crate::algebra::varset::VarSet;
use somersault_lang::VarId;
use std::sync::Arc;

pub(crate) fn group_node(group: Group) -> Node {
    let mut certain = group.core_certain();
    let possible = group.possible();
    // An expression without a value leaves its variable unbound.
    for (variable, expr) in &group.binds {
        if let Expr::Constant(_) = **expr {
            certain.insert(*variable);
        }
    }
    Node {
        id: NodeId::new(),
        certain,
        possible,
        operator: Operator::Group(group),
    }
}

/// A node as a group; a node that is not one becomes the only block of a group.
pub(crate) fn into_group(node: Node) -> Group {
    match node.operator {
        Operator::Group(group) => group,
        _ => Group {
            blocks: vec![node],
            ..Group::default()
        },
    }
}

pub(crate) fn union(nodes: Vec<Node>) -> Node {
    let mut flat = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.operator {
            Operator::Union(list) => flat.extend(list),
            _ => flat.push(node),
        }
    }
    let possible = flat
        .iter()
        .fold(VarSet::new(), |set, n| set.union(&n.possible));
    let certain = flat
        .iter()
        .map(|n| n.certain.clone())
        .reduce(|a, b| a.intersection(&b))
        .unwrap_or_default();
    Node {
        id: NodeId::new(),
        operator: Operator::Union(flat),
        certain,
        possible,
    }
}

/// The join of nodes as one flat group. A member's filters, binds and tails are lifted into it if
/// the variables that they read are bound by the member itself, or by no other member.
pub(crate) fn join(nodes: Vec<Node>) -> Group {
    let others: Vec<VarSet> = (0..nodes.len())
        .map(|at| {
            nodes
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .fold(VarSet::new(), |set, (_, node)| set.union(&node.possible))
        })
        .collect();
    let mut all = Group::default();
    for (node, others) in nodes.into_iter().zip(others) {
        let lifts = matches!(&node.operator, Operator::Group(_))
            && node.takes_input(&others, &VarSet::new());
        match node.operator {
            Operator::Group(group) if lifts => {
                all.patterns.extend(group.patterns);
                all.paths.extend(group.paths);
                all.graphs.extend(group.graphs);
                all.blocks.extend(group.blocks);
                all.binds.extend(group.binds);
                all.filters.extend(group.filters);
                all.tails.extend(group.tails);
            }
            _ => all.blocks.push(node),
        }
    }
    all.patterns.sort_unstable();
    all.patterns.dedup();
    all
}

/// `node` followed by OPTIONAL or MINUS. Its filters must not see what the tail binds.
pub(crate) fn with_tail(node: Node, tail: Tail) -> Group {
    let mut group = into_group(node);
    let certain = group.core_certain();
    let bound = match &tail {
        Tail::Optional { node, .. } => node.possible.difference(&certain),
        Tail::Minus(_) => VarSet::new(),
    };
    let sees = |expr: &Expr| !expr.variables().is_disjoint(&bound);
    if group.is_volatile()
        || group.filters.iter().any(|f| sees(f))
        || group.binds.iter().any(|(_, e)| sees(e))
    {
        group = Group {
            blocks: vec![group_node(group)],
            ..Group::default()
        };
    }
    group.tails.push(tail);
    group
}

/// `node` with one more column.
pub(crate) fn with_bind(node: Node, variable: VarId, expression: Arc<Expr>) -> Group {
    let mut group = into_group(node);
    // A filter inside, or an earlier tail, must not see the new variable.
    let sees = |set: VarSet| set.contains(variable);
    if group.filters.iter().any(|f| sees(f.variables()))
        || group.tails.iter().any(|t| sees(t.mentioned()))
        || group.binds.iter().any(|(_, e)| sees(e.variables()))
    {
        group = Group {
            blocks: vec![group_node(group)],
            ..Group::default()
        };
    }
    group.binds.push((variable, expression));
    group
}
