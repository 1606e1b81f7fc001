//! Text to algebra: SPARQL, C-SPARQL, the dialect of the Wukong+S paper, and stream declarations.
//!
//! The one thing to know before changing it: this is the only crate that names `spargebra`. SPARQL itself is
//! read by `spargebra` and converted to the algebra here; everything around it (registration headers, windows,
//! bare names, `CREATE STREAM`) and the wording of every error is our own, on our own tokenizer. What `spareval`
//! needs leaves as opaque values of the [`spareval`] module.
#![warn(missing_docs)]

pub mod algebra;
pub mod continuous;
mod cursor;
mod duration;
mod error;
pub mod expression;
mod parser;
mod query;
mod scan;
pub mod spareval;
pub mod statement;
pub mod token;
pub mod update;
mod words;

pub use algebra::{
    GraphTarget, NameOrVariable, PathExpression, Pattern, QuadTemplate, TemplateGraph, TemplateTerm,
    TermPattern, TriplePattern, TripleTemplate, VarId,
};
pub use continuous::{ContinuousQuery, Dialect, RegistrationKind, WindowClause};
pub use error::{ParseError, ParseErrorKind};
pub use expression::{Aggregate, AggregateFunction, Arithmetic, Comparison, Expression, Function, OrderKey};
pub use parser::Parser;
pub use query::{DatasetClause, Query, QueryForm};
pub use statement::{Classification, CreateStream, LatePolicy, Statement, TimeDomain};
pub use update::{DeleteInsert, Update, UpdateOperation};
