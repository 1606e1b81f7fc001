//! Numbers about the statements of a predicate.

/// Statistics of a predicate in a graph or a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PredicateStatistics {
    /// Statements with this predicate.
    pub statements: u64,
    /// Distinct subjects of them.
    pub subjects: u64,
    /// Distinct objects of them.
    pub objects: u64,
}
