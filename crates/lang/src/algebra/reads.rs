//! What a query reads of the stored graphs: the statements that may change its answer.
//!
//! Before changing anything here: a pattern that is left out lets a live query miss a change of its
//! answer. So whatever is not understood is read as any statement.

use crate::algebra::query::{DatasetClause, Query};
use crate::algebra::{NameOrVariable, PathExpression, Pattern, TermPattern, TriplePattern};
use oxrdf::{NamedNode, Term};
use std::fmt;

/// Statements that a query reads: those with these terms, in these graphs. `None` is any term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredPattern {
    /// Their graphs.
    pub graphs: ReadGraphs,
    /// Their subject.
    pub subject: Option<Term>,
    /// Their predicate.
    pub predicate: Option<NamedNode>,
    /// Their object.
    pub object: Option<Term>,
}

/// The graphs that a pattern reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReadGraphs {
    /// The default graph of the store.
    Default,
    /// One named graph.
    Named(NamedNode),
    /// All named graphs.
    AllNamed,
}

/// As a pattern of SPARQL, with its graphs in words.
impl fmt::Display for StoredPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn place(term: Option<&impl fmt::Display>, name: &str) -> String {
            term.map_or_else(|| format!("?{name}"), ToString::to_string)
        }
        let subject = place(self.subject.as_ref(), "s");
        let predicate = place(self.predicate.as_ref(), "p");
        let object = place(self.object.as_ref(), "o");
        write!(f, "{subject} {predicate} {object} in ")?;
        match &self.graphs {
            ReadGraphs::Default => f.write_str("the default graph"),
            ReadGraphs::Named(graph) => write!(f, "{graph}"),
            ReadGraphs::AllNamed => f.write_str("all named graphs"),
        }
    }
}

impl Query {
    /// The statements of the stored graphs that its answer may depend on, each pattern once. A
    /// DESCRIBE reads more than these.
    #[must_use]
    pub fn stored_reads(&self) -> Vec<StoredPattern> {
        let mut reads = Reads {
            dataset: &self.dataset,
            patterns: Vec::new(),
        };
        let graphs = reads.default_graphs();
        reads.pattern(&self.pattern, &graphs, false);
        reads.patterns
    }
}

struct Reads<'q> {
    dataset: &'q DatasetClause,
    patterns: Vec<StoredPattern>,
}

impl Reads<'_> {
    fn default_graphs(&self) -> Vec<ReadGraphs> {
        match self.dataset.present {
            true => named(&self.dataset.default),
            false => vec![ReadGraphs::Default],
        }
    }

    /// The graphs that `GRAPH name` reads.
    fn graphs(&self, name: &NameOrVariable) -> Vec<ReadGraphs> {
        match name {
            NameOrVariable::NamedNode(name) => vec![ReadGraphs::Named(name.clone())],
            NameOrVariable::Variable(_) if self.dataset.present && !self.dataset.all_named => {
                named(&self.dataset.named)
            }
            NameOrVariable::Variable(_) => vec![ReadGraphs::AllNamed],
        }
    }

    /// `ranges`: whether a variable ranges over the graphs, so that their number counts even where
    /// none of their statements does.
    fn pattern(&mut self, pattern: &Pattern, graphs: &[ReadGraphs], ranges: bool) {
        let is_constant = match pattern {
            Pattern::Bgp(triples) => triples.is_empty(),
            Pattern::Values { .. } => true,
            _ => false,
        };
        if ranges && is_constant {
            self.add(graphs, (None, None, None));
        }
        match pattern {
            Pattern::Bgp(triples) => triples.iter().for_each(|it| self.triple(it, graphs)),
            Pattern::Path {
                subject,
                path,
                object,
            } => self.path((subject, object), path, graphs),
            // What an endpoint holds is no stored graph.
            Pattern::Service { .. } => {}
            Pattern::Graph { name, inner } => {
                let ranges = matches!(name, NameOrVariable::Variable(_));
                self.pattern(inner, &self.graphs(name), ranges);
            }
            other => {
                for inner in other.inner_patterns() {
                    self.pattern(inner, graphs, ranges);
                }
            }
        }
    }

    fn triple(&mut self, triple: &TriplePattern, graphs: &[ReadGraphs]) {
        let predicate = match &triple.predicate {
            NameOrVariable::NamedNode(predicate) => Some(predicate.clone()),
            NameOrVariable::Variable(_) => None,
        };
        let terms = (
            constant(&triple.subject),
            predicate,
            constant(&triple.object),
        );
        self.add(graphs, terms);
    }

    /// A path of one step reads like a triple; of others, the ends need not be those of a
    /// statement.
    fn path(
        &mut self,
        (subject, object): (&TermPattern, &TermPattern),
        path: &PathExpression,
        graphs: &[ReadGraphs],
    ) {
        match path {
            PathExpression::Predicate(predicate) => {
                let terms = (constant(subject), Some(predicate.clone()), constant(object));
                self.add(graphs, terms);
            }
            PathExpression::Inverse(path) => self.path((object, subject), path, graphs),
            PathExpression::Alternative(paths) => {
                (paths.iter()).for_each(|path| self.path((subject, object), path, graphs));
            }
            other => self.steps(other, graphs),
        }
    }

    fn steps(&mut self, path: &PathExpression, graphs: &[ReadGraphs]) {
        match path {
            PathExpression::Predicate(predicate) => {
                self.add(graphs, (None, Some(predicate.clone()), None));
            }
            PathExpression::Inverse(path) | PathExpression::OneOrMore(path) => {
                self.steps(path, graphs);
            }
            PathExpression::Sequence(paths) | PathExpression::Alternative(paths) => {
                paths.iter().for_each(|path| self.steps(path, graphs));
            }
            // A path of length zero begins at every node of the graph.
            PathExpression::ZeroOrMore(_)
            | PathExpression::ZeroOrOne(_)
            | PathExpression::Negated(_) => self.add(graphs, (None, None, None)),
        }
    }

    fn add(
        &mut self,
        graphs: &[ReadGraphs],
        (subject, predicate, object): (Option<Term>, Option<NamedNode>, Option<Term>),
    ) {
        for graphs in graphs {
            let pattern = StoredPattern {
                graphs: graphs.clone(),
                subject: subject.clone(),
                predicate: predicate.clone(),
                object: object.clone(),
            };
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
        }
    }
}

fn named(graphs: &[NamedNode]) -> Vec<ReadGraphs> {
    graphs.iter().cloned().map(ReadGraphs::Named).collect()
}

fn constant(term: &TermPattern) -> Option<Term> {
    match term {
        TermPattern::Term(term) => Some(term.clone()),
        TermPattern::Variable(_) | TermPattern::Triple(_) => None,
    }
}
