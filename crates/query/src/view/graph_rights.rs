//! The stored graphs that an execution may read and write.
//!
//! The one thing to know before changing it: a graph that may not be read is as if it were empty.
//! So rights narrow the dataset of a query ([`Dataset::narrowed`](crate::Dataset::narrowed)), and
//! whatever reads through a dataset needs no check of its own. A write is refused.

use crate::view::term_source::TermSource;
use oxrdf::{GraphNameRef, NamedNodeRef, Term};
use somersault_dictionary::Dictionary;
use somersault_model::TermId;
use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::sync::Arc;

/// A set of names: all names, or some that are listed and all that begin with a listed text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameSet {
    has_all: bool,
    names: BTreeSet<Box<str>>,
    beginnings: BTreeSet<Box<str>>,
}

impl NameSet {
    /// The set of all names.
    pub fn all() -> NameSet {
        NameSet {
            has_all: true,
            ..NameSet::default()
        }
    }

    /// Adds one name.
    pub fn add(&mut self, name: &str) {
        self.names.insert(name.into());
    }

    /// Adds all names that begin with this text.
    pub fn add_beginning(&mut self, beginning: &str) {
        self.beginnings.insert(beginning.into());
    }

    /// Adds all names.
    pub fn add_all(&mut self) {
        self.has_all = true;
    }

    /// Whether it has all names.
    pub fn is_all(&self) -> bool {
        self.has_all
    }

    /// Whether it has no name.
    pub fn is_empty(&self) -> bool {
        !self.has_all && self.names.is_empty() && self.beginnings.is_empty()
    }

    /// Whether it has a name.
    pub fn contains(&self, name: &str) -> bool {
        self.has_all
            || self.names.contains(name)
            || (self.beginnings.iter()).any(|beginning| name.starts_with(&**beginning))
    }

    /// The names, if all of them are listed.
    pub fn listed(&self) -> Option<impl Iterator<Item = &str>> {
        (!self.has_all && self.beginnings.is_empty()).then(|| self.names.iter().map(|name| &**name))
    }
}

/// A set of stored graphs: the default graph or not, and named ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphSet {
    /// Whether it has the default graph.
    pub default: bool,
    /// The named graphs.
    pub named: NameSet,
}

impl GraphSet {
    /// The set of all graphs.
    pub fn all() -> GraphSet {
        GraphSet {
            default: true,
            named: NameSet::all(),
        }
    }

    /// Whether it has all graphs.
    pub fn is_all(&self) -> bool {
        self.default && self.named.is_all()
    }

    /// Whether it has a graph. A graph that has a blank node for its name belongs to the sets of
    /// all named graphs alone.
    pub fn contains(&self, graph: GraphNameRef<'_>) -> bool {
        match graph {
            GraphNameRef::DefaultGraph => self.default,
            GraphNameRef::NamedNode(name) => self.named.contains(name.as_str()),
            GraphNameRef::BlankNode(_) => self.named.is_all(),
        }
    }

    /// Whether it has a stored graph, by the id of its name.
    pub(crate) fn contains_id(&self, graph: TermId, dictionary: TermSource<'_>) -> bool {
        if graph == TermId::DEFAULT_GRAPH {
            return self.default;
        }
        self.named.is_all()
            || matches!(dictionary.decode(graph), Some(Term::NamedNode(name)) if self.named.contains(name.as_str()))
    }
}

/// The graphs that an execution may read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphRights {
    /// The graphs that it may read.
    pub read: GraphSet,
    /// The graphs that it may write.
    pub write: GraphSet,
}

/// The stored named graphs that a query may read, where a dataset lists none.
#[derive(Clone)]
pub struct ReadableGraphs {
    rights: Arc<GraphRights>,
    dictionary: Arc<Dictionary>,
}

impl ReadableGraphs {
    /// Those of these rights, whose ids are of this dictionary.
    pub(crate) fn new(rights: &Arc<GraphRights>, dictionary: &Arc<Dictionary>) -> ReadableGraphs {
        ReadableGraphs {
            rights: Arc::clone(rights),
            dictionary: Arc::clone(dictionary),
        }
    }

    /// Whether a named graph is one of them.
    pub fn contains(&self, graph: TermId) -> bool {
        let read = &self.rights.read;
        graph != TermId::DEFAULT_GRAPH
            && read.contains_id(graph, TermSource::Here(&self.dictionary))
    }

    /// The ids of their names in ascending order, if all of them are listed. The graphs may be
    /// empty.
    pub(crate) fn listed(&self) -> Option<Vec<TermId>> {
        let names = self.rights.read.named.listed()?;
        let id = |name| {
            self.dictionary
                .lookup(NamedNodeRef::new_unchecked(name).into())
        };
        let mut ids: Vec<TermId> = names.filter_map(id).collect();
        ids.sort_unstable();
        Some(ids)
    }
}

impl Debug for ReadableGraphs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rights.read.named.fmt(formatter)
    }
}

impl PartialEq for ReadableGraphs {
    fn eq(&self, other: &ReadableGraphs) -> bool {
        self.rights == other.rights && self.dictionary.number() == other.dictionary.number()
    }
}

impl Eq for ReadableGraphs {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_what_was_added() {
        let mut set = NameSet::default();
        assert!(set.is_empty() && !set.contains("urn:a"));
        set.add("urn:a");
        assert_eq!(
            set.listed().map(|names| names.collect::<Vec<_>>()),
            Some(vec!["urn:a"])
        );
        set.add_beginning("urn:b:");
        for (name, has) in [("urn:a", true), ("urn:a1", false), ("urn:b:1", true)] {
            assert_eq!(set.contains(name), has, "{name}");
        }
        assert!(set.listed().is_none() && !set.is_all());
        set.add_all();
        assert!(set.contains("anything") && set.is_all());
    }

    #[test]
    fn a_blank_graph_is_in_no_listed_set() {
        let blank = oxrdf::BlankNode::default();
        let mut set = GraphSet::default();
        set.named.add_beginning("");
        assert!(!set.contains(blank.as_ref().into()));
        assert!(GraphSet::all().contains(blank.as_ref().into()));
    }
}
