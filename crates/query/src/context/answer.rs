//! Answers: columns of ids, decoded to terms only when they are read. Decoding needs the dictionary
//! and no snapshot, so an answer outlives the pin it was computed under (S9). It holds what of its
//! terms the dictionary would reclaim when their windows have passed (DI-1).

use crate::view::term_source::TermSource;
use oxrdf::{Quad, Term, Triple};
use somersault_dictionary::{Dictionary, TermPin};
use somersault_model::{Tag, TermId};
use std::sync::Arc;

/// The answer of a query.
#[derive(Debug, Clone)]
pub enum Answer {
    /// SELECT.
    Solutions(Solutions),
    /// ASK.
    Boolean(bool),
    /// CONSTRUCT and DESCRIBE: a set of triples, without repeats.
    Graph(Vec<Triple>),
    /// CONSTRUCT with GRAPH in its template: a set of quads, without repeats.
    Dataset(Vec<Quad>),
}

impl Answer {
    /// Memory that it takes, roughly.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Answer::Solutions(solutions) => solutions.memory_bytes(),
            Answer::Boolean(_) => 0,
            Answer::Graph(triples) => triples.len() * (size_of::<Triple>() + TEXT_BYTES),
            Answer::Dataset(quads) => quads.len() * (size_of::<Quad>() + TEXT_BYTES),
        }
    }
}

/// The bytes reserved for the texts of a triple.
const TEXT_BYTES: usize = 150;

/// A bag of solutions, in columns.
#[derive(Debug, Clone)]
pub struct Solutions {
    pub(crate) variables: Arc<[String]>,
    pub(crate) columns: Vec<Vec<TermId>>,
    pub(crate) rows: usize,
    /// The terms that only this answer has; `None` = there are none.
    pub(crate) local: Option<Arc<[Term]>>,
    /// The terms that it holds in the dictionary; `None` = nothing.
    pub(crate) held: Option<Arc<TermPin>>,
}

impl Solutions {
    /// Solutions from their columns, which are as many as `variables` and have `rows` ids each. An
    /// id with [`Tag::Local`] is an index into `local`.
    pub fn new(
        variables: Arc<[String]>,
        columns: Vec<Vec<TermId>>,
        rows: usize,
        local: Arc<[Term]>,
    ) -> Solutions {
        assert_eq!(columns.len(), variables.len(), "a column per variable");
        assert!(columns.iter().all(|ids| ids.len() == rows), "equal columns");
        Solutions {
            variables,
            columns,
            rows,
            local: (!local.is_empty()).then_some(local),
            held: None,
        }
    }

    /// The same, holding its transient terms in this dictionary.
    pub fn holding(mut self, dictionary: &Dictionary) -> Solutions {
        self.held = dictionary.hold(self.columns.iter().flatten());
        self
    }

    /// The terms that it holds in the dictionary.
    pub fn held(&self) -> Option<&TermPin> {
        self.held.as_deref()
    }

    /// The names of the columns, without `?`.
    pub fn variables(&self) -> &Arc<[String]> {
        &self.variables
    }

    /// The number of solutions, repeats counted.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no solution.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The ids of a column, one per row; [`TermId::UNBOUND`] where it is unbound. Ids with
    /// [`Tag::Local`] are of this answer alone.
    pub fn column(&self, column: usize) -> &[TermId] {
        &self.columns[column]
    }

    /// The answer's own terms: an id with [`Tag::Local`] is an index into them.
    pub fn local_terms(&self) -> &[Term] {
        self.local.as_deref().unwrap_or_default()
    }

    /// The term of an id of this answer; `None` for unbound.
    pub fn decode<'d>(&self, id: TermId, dictionary: impl Into<TermSource<'d>>) -> Option<Term> {
        if id.tag() == Tag::Local {
            let local = self.local.as_deref().unwrap_or_default();
            return local.get(id.payload() as usize).cloned();
        }
        if id.is_unbound() {
            return None;
        }
        dictionary.into().decode(id)
    }

    /// One cell.
    pub fn term<'d>(
        &self,
        row: usize,
        column: usize,
        dictionary: impl Into<TermSource<'d>>,
    ) -> Option<Term> {
        self.decode(self.columns[column][row], dictionary)
    }

    /// The rows one after the other, each as wide as [`Solutions::variables`].
    pub fn rows<'a>(
        &'a self,
        dictionary: impl Into<TermSource<'a>>,
    ) -> impl Iterator<Item = Vec<Option<Term>>> + 'a {
        let dictionary = dictionary.into();
        (0..self.rows).map(move |row| {
            (0..self.columns.len())
                .map(|column| self.term(row, column, dictionary))
                .collect()
        })
    }

    /// Memory of the ids and of the answer's own terms, roughly.
    pub fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|ids| ids.len() * 8).sum::<usize>()
            + self.local.as_deref().map_or(0, |local| local.len() * 64)
    }
}
