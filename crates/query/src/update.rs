//! Updates: the graphs that they name, and their blank nodes. A transaction carries out their
//! operations (`procedure/updates.rs`).

pub(crate) mod graphs;

use crate::value::random::Random;
use oxrdf::{BlankNode, GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use rustc_hash::FxHashMap;

/// Graphs of more statements than this are emptied by name. Those of fewer are listed statement by
/// statement, so that the effects of usual updates are net.
pub const MOST_LISTED: u64 = 4096;

/// The dataset that the SPARQL protocol gives for the WHERE clauses of an update, instead of what
/// its text says (`using-graph-uri`, `using-named-graph-uri`).
#[derive(Debug, Clone, Default)]
pub struct Using {
    /// The graphs whose merge is the default graph.
    pub default: Vec<NamedNode>,
    /// The named graphs.
    pub named: Vec<NamedNode>,
}

/// The statement with a new blank node for each label; `labels` are those of the whole request.
pub(crate) fn relabelled(
    quad: Quad,
    labels: &mut FxHashMap<BlankNode, BlankNode>,
    random: &mut Random,
) -> Quad {
    let mut of = |node: BlankNode| {
        let new = labels.entry(node).or_insert_with(|| random.blank_node());
        new.clone()
    };
    Quad {
        subject: match quad.subject {
            NamedOrBlankNode::BlankNode(node) => of(node).into(),
            named => named,
        },
        predicate: quad.predicate,
        object: relabelled_term(quad.object, &mut of),
        graph_name: match quad.graph_name {
            GraphName::BlankNode(node) => of(node).into(),
            other => other,
        },
    }
}

fn relabelled_term(term: Term, of: &mut impl FnMut(BlankNode) -> BlankNode) -> Term {
    match term {
        Term::BlankNode(node) => of(node).into(),
        Term::Triple(triple) => {
            let mut triple = *triple;
            if let NamedOrBlankNode::BlankNode(node) = triple.subject {
                triple.subject = of(node).into();
            }
            triple.object = relabelled_term(triple.object, of);
            triple.into()
        }
        other => other,
    }
}
