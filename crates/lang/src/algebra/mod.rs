//! The algebra that the engine plans and executes: graph patterns, paths and templates.
//!
//! It follows section 18 of SPARQL 1.1 with two differences that help planning: joins and unions
//! are lists, and every variable is a number. Blank nodes of a pattern are variables that no
//! projection can name; the variables of a sub-select that it does not project get numbers of their
//! own, so that one [`VarId`] always means one variable of one scope.

pub mod arguments;
pub mod connector;
mod constants;
pub mod continuous;
pub mod expression;
pub mod footprint;
mod parts;
pub mod procedure;
pub(crate) mod query;
pub(crate) mod reads;
pub(crate) mod statement;
pub(crate) mod stream;
pub(crate) mod substitute;
pub mod update;

use expression::{Aggregate, Expression, OrderKey};
use oxrdf::{NamedNode, Term};

/// A variable: the index into [`Query::variables`](crate::Query::variables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(pub u32);

impl VarId {
    /// The variable as an index into the query's variable table.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A place in a pattern that holds an IRI or a variable: a predicate, a graph name, a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NameOrVariable {
    /// A constant IRI.
    NamedNode(NamedNode),
    /// A variable.
    Variable(VarId),
}

/// A subject or object of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TermPattern {
    /// A constant: an IRI, a literal, or a triple term without variables. Never a blank node.
    Term(Term),
    /// A variable, or a blank node of the text.
    Variable(VarId),
    /// A triple term (SPARQL 1.2) that holds at least one variable.
    Triple(Box<TriplePattern>),
}

/// One triple pattern of a basic graph pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TriplePattern {
    /// The subject.
    pub subject: TermPattern,
    /// The predicate.
    pub predicate: NameOrVariable,
    /// The object.
    pub object: TermPattern,
}

/// A property path (SPARQL 1.1, section 9).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathExpression {
    /// One edge.
    Predicate(NamedNode),
    /// `^path`.
    Inverse(Box<PathExpression>),
    /// `a / b / …`
    Sequence(Vec<PathExpression>),
    /// `a | b | …`
    Alternative(Vec<PathExpression>),
    /// `path*`.
    ZeroOrMore(Box<PathExpression>),
    /// `path+`.
    OneOrMore(Box<PathExpression>),
    /// `path?`.
    ZeroOrOne(Box<PathExpression>),
    /// `!(a | b | …)`, forward edges only: inverse members are an [`Inverse`](Self::Inverse) of a
    /// set of their own.
    Negated(Vec<NamedNode>),
}

/// A graph pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    /// A basic graph pattern. Without triples it is the one empty solution.
    Bgp(Vec<TriplePattern>),
    /// A property path that is not a plain triple pattern.
    Path {
        /// The start of the path.
        subject: TermPattern,
        /// The path.
        path: PathExpression,
        /// The end of the path.
        object: TermPattern,
    },
    /// The join of all members, in the order of the text.
    Join(Vec<Pattern>),
    /// `left OPTIONAL { right FILTER filter }`; the filter sees both sides.
    LeftJoin {
        /// The pattern that must match.
        left: Box<Pattern>,
        /// The pattern that may match.
        right: Box<Pattern>,
        /// The condition of the join.
        filter: Option<Expression>,
    },
    /// `MINUS`.
    Minus {
        /// The solutions.
        left: Box<Pattern>,
        /// The pattern whose compatible solutions are removed.
        right: Box<Pattern>,
    },
    /// The concatenation of all members.
    Union(Vec<Pattern>),
    /// The solutions for which the condition is true.
    Filter {
        /// The solutions.
        inner: Box<Pattern>,
        /// The condition.
        condition: Expression,
    },
    /// `BIND`, `(expression AS ?v)`: one more column; unbound where the expression is an error.
    Extend {
        /// The solutions.
        inner: Box<Pattern>,
        /// The new variable.
        variable: VarId,
        /// Its value.
        expression: Expression,
    },
    /// `GRAPH name { … }`.
    Graph {
        /// The graph, or the variable that ranges over the dataset's named graphs.
        name: NameOrVariable,
        /// The pattern to match in it.
        inner: Box<Pattern>,
    },
    /// `VALUES`: one row for each entry, `None` = UNDEF.
    Values {
        /// The columns.
        variables: Vec<VarId>,
        /// The rows, as wide as `variables`.
        rows: Vec<Vec<Option<Term>>>,
    },
    /// Grouping and aggregation. Without keys there is one group, even over no solutions.
    Group {
        /// The solutions.
        inner: Box<Pattern>,
        /// The grouping variables (expressions are bound by [`Extend`](Self::Extend) below).
        keys: Vec<VarId>,
        /// Each aggregate with the variable that takes its value.
        aggregates: Vec<(VarId, Aggregate)>,
    },
    /// `ORDER BY`.
    OrderBy {
        /// The solutions.
        inner: Box<Pattern>,
        /// The sort keys, first is strongest.
        keys: Vec<OrderKey>,
    },
    /// The named columns and no others.
    Project {
        /// The solutions.
        inner: Box<Pattern>,
        /// The columns, in order.
        variables: Vec<VarId>,
    },
    /// `DISTINCT`.
    Distinct(Box<Pattern>),
    /// `REDUCED`.
    Reduced(Box<Pattern>),
    /// `OFFSET` and `LIMIT`.
    Slice {
        /// The solutions.
        inner: Box<Pattern>,
        /// The number of solutions to skip.
        offset: usize,
        /// The largest number of solutions to keep.
        limit: Option<usize>,
    },
    /// `SERVICE` (SPARQL 1.1 Federated Query).
    Service {
        /// The endpoint.
        name: NameOrVariable,
        /// Whether a failing endpoint counts as one empty solution.
        silent: bool,
        /// The pattern that the endpoint evaluates.
        inner: Box<Pattern>,
        /// The same as SPARQL, with every name in full.
        text: String,
    },
}

/// A term of a CONSTRUCT template or of an INSERT / DELETE template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TemplateTerm {
    /// A constant.
    Term(Term),
    /// A variable of the pattern; where it is unbound the statement is left out.
    Variable(VarId),
    /// A blank node: one new node per solution and number.
    BlankNode(u32),
    /// A triple term that holds a variable or a blank node.
    Triple(Box<TripleTemplate>),
}

/// A triple of a CONSTRUCT template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TripleTemplate {
    /// The subject.
    pub subject: TemplateTerm,
    /// The predicate.
    pub predicate: NameOrVariable,
    /// The object.
    pub object: TemplateTerm,
}

/// The graph of a [`QuadTemplate`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TemplateGraph {
    /// The default graph.
    Default,
    /// A named graph, constant or from the solution.
    Named(NameOrVariable),
}

/// A quad of an INSERT or DELETE template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuadTemplate {
    /// The triple.
    pub triple: TripleTemplate,
    /// Its graph.
    pub graph: TemplateGraph,
}

/// The graphs that CLEAR and DROP address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GraphTarget {
    /// `GRAPH iri`.
    Graph(NamedNode),
    /// `DEFAULT`.
    Default,
    /// `NAMED`: every named graph.
    AllNamed,
    /// `ALL`.
    All,
}
