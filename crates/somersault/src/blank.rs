//! Blank nodes belong to the document that contains them. Their labels are replaced by a hash of
//! (scope, label) before anything is logged, so that recovery sees the same nodes as the live run
//! (S6). Those of pushes are renamed later, by the coordinator, because it knows which pushes are
//! the same.

use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term, Triple};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// The number of labels that are remembered. When it is reached, all are forgotten and hashed
/// again as they occur.
const KNOWN: usize = 1 << 16;

/// Renames the blank nodes of one scope. Its clones rename them in the same way.
#[derive(Clone)]
pub(crate) struct Scope {
    hasher: Sha256,
    known: HashMap<String, BlankNode>,
}

impl Scope {
    /// Returns the scope of the `number`-th document since the engine was opened on a log that held
    /// `epoch` records; no two documents of one log share one.
    pub(crate) fn of_document(epoch: u64, number: u64) -> Scope {
        let mut hasher = Sha256::new();
        hasher.update(b"document");
        hasher.update(epoch.to_le_bytes());
        hasher.update(number.to_le_bytes());
        Scope {
            hasher,
            known: HashMap::new(),
        }
    }

    /// Renames every blank node of the statement.
    pub(crate) fn rename(&mut self, quad: &mut Quad) {
        if let NamedOrBlankNode::BlankNode(node) = &mut quad.subject {
            *node = self.renamed(node);
        }
        self.rename_term(&mut quad.object);
        if let GraphName::BlankNode(node) = &mut quad.graph_name {
            *node = self.renamed(node);
        }
    }

    fn rename_term(&mut self, term: &mut Term) {
        match term {
            Term::BlankNode(node) => *node = self.renamed(node),
            Term::Triple(triple) => self.rename_triple(triple),
            Term::NamedNode(_) | Term::Literal(_) => {}
        }
    }

    fn rename_triple(&mut self, triple: &mut Triple) {
        if let NamedOrBlankNode::BlankNode(node) = &mut triple.subject {
            *node = self.renamed(node);
        }
        self.rename_term(&mut triple.object);
    }

    fn renamed(&mut self, node: &BlankNode) -> BlankNode {
        if let Some(known) = self.known.get(node.as_str()) {
            return known.clone();
        }
        let mut hasher = self.hasher.clone();
        hasher.update(node.as_str().as_bytes());
        let mut label = String::with_capacity(33);
        label.push('b');
        for byte in &hasher.finalize()[..16] {
            label.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            label.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        let renamed = BlankNode::new_unchecked(label);
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(node.as_str().to_owned(), renamed.clone());
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::NamedNode;

    fn quad(label: &str) -> Quad {
        Quad::new(
            BlankNode::new_unchecked(label),
            NamedNode::new_unchecked("urn:p"),
            BlankNode::new_unchecked("o"),
            GraphName::DefaultGraph,
        )
    }

    fn renamed(scope: &mut Scope, label: &str) -> Quad {
        let mut quad = quad(label);
        scope.rename(&mut quad);
        quad
    }

    #[test]
    fn one_scope_one_node_per_label() {
        let mut scope = Scope::of_document(5, 7);
        let first = renamed(&mut scope, "x");
        assert_eq!(first, renamed(&mut Scope::of_document(5, 7), "x"));
        assert_ne!(first.subject, renamed(&mut scope, "y").subject);
        for mut other in [Scope::of_document(5, 8), Scope::of_document(6, 7)] {
            assert_ne!(first.subject, renamed(&mut other, "x").subject);
        }
    }
}
