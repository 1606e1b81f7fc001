//! Statements as ids, and the changes that can be made to them.

use crate::{EventTime, TermId};
use serde::{Deserialize, Serialize};

/// Which way an edge is followed: `Out` from subject to object, `In` from object to subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the subject to its objects.
    Out,
    /// From the object to its subjects.
    In,
}

impl Direction {
    /// The other way.
    #[inline]
    pub const fn reverse(self) -> Direction {
        match self {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
        }
    }
}

/// A triple of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TripleIds {
    /// The subject.
    pub subject: TermId,
    /// The predicate.
    pub predicate: TermId,
    /// The object.
    pub object: TermId,
}

impl TripleIds {
    /// A triple of these ids.
    pub const fn new(subject: TermId, predicate: TermId, object: TermId) -> TripleIds {
        TripleIds {
            subject,
            predicate,
            object,
        }
    }

    /// This triple as a statement of a graph ([`TermId::DEFAULT_GRAPH`] for the default graph).
    pub const fn in_graph(self, graph: TermId) -> QuadIds {
        QuadIds {
            graph,
            subject: self.subject,
            predicate: self.predicate,
            object: self.object,
        }
    }
}

/// A statement: a triple in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuadIds {
    /// The graph's name, or [`TermId::DEFAULT_GRAPH`].
    pub graph: TermId,
    /// The subject.
    pub subject: TermId,
    /// The predicate.
    pub predicate: TermId,
    /// The object.
    pub object: TermId,
}

impl QuadIds {
    /// The triple without its graph.
    pub const fn triple(self) -> TripleIds {
        TripleIds {
            subject: self.subject,
            predicate: self.predicate,
            object: self.object,
        }
    }
}

/// A triple of a stream with its event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimedTriple {
    /// When it happened.
    pub at: EventTime,
    /// The triple.
    pub triple: TripleIds,
}

/// The effect of a mutation on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Make the statement hold; nothing changes if it does already.
    Insert,
    /// Make the statement not hold; nothing changes if it does not.
    Delete,
}

/// One change of the stored graphs. Of several mutations of one statement in one SN the last wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mutation {
    /// The statement.
    pub quad: QuadIds,
    /// The effect on it.
    pub operation: Operation,
}

impl Mutation {
    /// An insertion.
    pub const fn insert(quad: QuadIds) -> Mutation {
        Mutation {
            quad,
            operation: Operation::Insert,
        }
    }

    /// A deletion.
    pub const fn delete(quad: QuadIds) -> Mutation {
        Mutation {
            quad,
            operation: Operation::Delete,
        }
    }
}
