//! SPARQL Update: the operations in order. ADD, MOVE and COPY are already rewritten to the others.

use crate::algebra::query::Query;
use crate::algebra::{
    GraphTarget, NameOrVariable, Pattern, QuadTemplate, TemplateGraph, TemplateTerm, TermPattern,
    TripleTemplate,
};
use oxrdf::{GraphName, NamedNode, Quad};

/// An update request: its operations run in order, each sees the effects of those before it.
#[derive(Debug, Clone)]
pub struct Update {
    /// The operations.
    pub operations: Vec<UpdateOperation>,
    /// The base IRI in force at the end.
    pub base: Option<String>,
    /// The text as given.
    pub text: String,
}

impl Update {
    /// Whether it may call other machines: by LOAD, or by SERVICE in a WHERE clause.
    pub fn calls_other_machines(&self) -> bool {
        self.operations.iter().any(|operation| match operation {
            UpdateOperation::Load { .. } => true,
            UpdateOperation::DeleteInsert(change) => change.query.pattern.has_service(),
            _ => false,
        })
    }
}

/// One operation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum UpdateOperation {
    /// `INSERT DATA`. Blank nodes stand for new ones; one label is one node in the whole request.
    InsertData(Vec<Quad>),
    /// `DELETE DATA`; holds no blank nodes.
    DeleteData(Vec<Quad>),
    /// `DELETE … INSERT … WHERE …`, also `DELETE WHERE`, ADD, COPY and MOVE.
    DeleteInsert(Box<DeleteInsert>),
    /// `LOAD`.
    Load {
        /// Whether failing is fine.
        silent: bool,
        /// The document.
        source: NamedNode,
        /// The graph it goes to.
        into: GraphName,
    },
    /// `CLEAR`.
    Clear {
        /// Whether failing is fine.
        silent: bool,
        /// The graphs to empty.
        target: GraphTarget,
    },
    /// `CREATE GRAPH`.
    Create {
        /// Whether failing is fine.
        silent: bool,
        /// The new graph.
        graph: NamedNode,
    },
    /// `DROP`.
    Drop {
        /// Whether failing is fine.
        silent: bool,
        /// The graphs to remove.
        target: GraphTarget,
    },
}

/// The solutions of `query` instantiate the templates: first all deletes take effect, then all
/// inserts.
#[derive(Debug, Clone)]
pub struct DeleteInsert {
    /// The statements to delete; holds no blank nodes.
    pub delete: Vec<QuadTemplate>,
    /// The statements to insert.
    pub insert: Vec<QuadTemplate>,
    /// The WHERE clause as a SELECT of the variables that the templates use; its dataset clause is
    /// that of `USING` or `WITH`. The templates' variables are this query's.
    pub query: Query,
}

impl DeleteInsert {
    /// Where the operation only deletes all statements that one pattern of three variables finds:
    /// the graph to delete from, and the named graph that the pattern reads (`None` for the default
    /// graph of the dataset). Both may be the same fourth variable: each graph that it finds.
    pub fn whole_graph(&self) -> Option<(&TemplateGraph, Option<&NameOrVariable>)> {
        let [QuadTemplate { triple, graph }] = &*self.delete else {
            return None;
        };
        let (named, inner) = match unwrapped(&self.query.pattern) {
            Pattern::Graph { name, inner } => (Some(name), unwrapped(inner)),
            pattern => (None, pattern),
        };
        let (
            TripleTemplate {
                subject: TemplateTerm::Variable(s),
                predicate: NameOrVariable::Variable(p),
                object: TemplateTerm::Variable(o),
            },
            Pattern::Bgp(triples),
        ) = (triple, inner)
        else {
            return None;
        };
        let [found] = &**triples else {
            return None;
        };
        let is_same = found.subject == TermPattern::Variable(*s)
            && found.predicate == NameOrVariable::Variable(*p)
            && found.object == TermPattern::Variable(*o);
        let is_other = |graph: &NameOrVariable| {
            let of_triple = [s, p, o].into_iter();
            let mut of_triple = of_triple.map(|variable| NameOrVariable::Variable(*variable));
            of_triple.all(|variable| variable != *graph)
        };
        let is_all = is_same
            && (s != p && p != o && s != o)
            && named.is_none_or(is_other)
            && self.insert.is_empty();
        is_all.then_some((graph, named))
    }
}

/// A pattern without projections and joins of one member around it.
fn unwrapped(pattern: &Pattern) -> &Pattern {
    match pattern {
        Pattern::Project { inner, .. } => unwrapped(inner),
        Pattern::Join(members) if members.len() == 1 => unwrapped(&members[0]),
        pattern => pattern,
    }
}
