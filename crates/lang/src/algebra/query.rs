//! A parsed query: form, dataset clause, variables and pattern, with its text.

use crate::algebra::{Pattern, QuadTemplate, VarId};
use oxrdf::NamedNode;
use std::sync::Arc;

/// The form of a query: what it returns.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryForm {
    /// Solutions with these columns, in order.
    Select {
        /// The columns.
        projection: Vec<VarId>,
    },
    /// A boolean.
    Ask,
    /// A graph: the template, instantiated for each solution. With a named graph in the template it
    /// is a dataset.
    Construct {
        /// The template.
        template: Vec<QuadTemplate>,
    },
    /// A graph: the description of every value of these variables (constants are bound by the
    /// pattern).
    Describe {
        /// The variables whose values are described.
        projection: Vec<VarId>,
    },
}

/// `FROM` and `FROM NAMED` (in an update: `USING`, `WITH`). Windows are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetClause {
    /// Whether there was any clause; without one the store's own dataset is read.
    pub present: bool,
    /// The graphs whose merge is the default graph.
    pub default: Vec<NamedNode>,
    /// The graphs that `GRAPH` reads.
    pub named: Vec<NamedNode>,
    /// All named graphs are readable whatever `named` says: the `WITH` of an update changes the
    /// default graph only.
    pub all_named: bool,
}

/// A one-shot query, or the body of a continuous one.
#[derive(Debug, Clone)]
pub struct Query {
    /// The form.
    pub form: QueryForm,
    /// The stored graphs it reads.
    pub dataset: DatasetClause,
    /// The names of the variables; [`VarId`] is the index. Names that start with `_:` (blank nodes
    /// of the pattern) or `.` (made by the parser, or local to a sub-select) were not written by
    /// the user.
    pub variables: Vec<String>,
    /// The pattern, with the solution modifiers as its outermost operators.
    pub pattern: Pattern,
    /// The base IRI in force at the end of the prologue.
    pub base: Option<String>,
    /// The text as given. Empty in an operation of an update, which has it once for all of them.
    pub text: String,
    /// The same query for `spareval`, without its dataset clause.
    /// `None` after [`Query::without_pattern`].
    pub(crate) algebra: Option<Arc<spargebra::Query>>,
    pub(crate) reads_now: bool,
}

impl Query {
    /// The query without its pattern and text, for a query that is compiled and kept: together with
    /// the algebra for `spareval` they take most of its memory.
    #[must_use]
    pub fn without_pattern(self) -> Query {
        Query {
            pattern: Pattern::Bgp(Vec::new()),
            algebra: None,
            text: String::new(),
            ..self
        }
    }

    /// The name of a variable, without `?`.
    ///
    /// # Panics
    /// If `variable` is not of this query.
    #[must_use]
    pub fn variable_name(&self, variable: VarId) -> &str {
        &self.variables[variable.index()]
    }

    /// Whether the text names a variable, at least in a sub-select. The others are blank nodes, and
    /// what the parser or a compiler added.
    #[must_use]
    pub fn is_written(&self, variable: VarId) -> bool {
        let name = self.variables.get(variable.index());
        name.is_some_and(|name| match name.strip_prefix('.') {
            Some(name) => name.contains('.'),
            None => !name.starts_with("_:"),
        })
    }

    /// The columns of the answer: of SELECT and DESCRIBE; empty for ASK and CONSTRUCT.
    #[must_use]
    pub fn projection(&self) -> &[VarId] {
        match &self.form {
            QueryForm::Select { projection } | QueryForm::Describe { projection } => projection,
            QueryForm::Ask | QueryForm::Construct { .. } => &[],
        }
    }
}
