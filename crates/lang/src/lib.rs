//! Text to algebra: SPARQL, C-SPARQL, the dialect of the Wukong+S paper, and stream declarations.
//!
//! The one thing to know before changing it: this is the only crate that names `spargebra`. SPARQL itself is
//! read by `spargebra` and converted to the algebra here; everything around it (registration headers, windows,
//! bare names, `CREATE STREAM`) and the wording of every error is our own, on our own tokenizer. What `spareval`
//! needs leaves as opaque values of the [`spareval`] module.
#![warn(missing_docs)]

pub mod algebra;
mod blocks;
mod columns;
pub mod continuous;
mod convert;
mod cursor;
mod declare;
mod display;
mod duration;
mod error;
pub mod expression;
mod extent;
mod grammar;
pub mod lift;
mod names;
mod nesting;
mod options;
mod parser;
mod query;
mod rewrite;
mod scan;
mod script;
pub mod spareval;
mod sparql;
pub mod star;
mod statement;
mod substitute;
mod surface;
mod template;
mod timestamp;
pub mod token;
pub mod update;
mod words;

pub use algebra::{
    GraphTarget, NameOrVariable, PathExpression, Pattern, QuadTemplate, TemplateGraph,
    TemplateTerm, TermPattern, TriplePattern, TripleTemplate, VarId,
};
pub use continuous::{
    ContinuousQuery, DerivedStream, Dialect, Extent, Overload, RegistrationKind, Report,
    StreamOperator, WindowClause,
};
pub use error::{ParseError, ParseErrorKind};
pub use expression::{
    Aggregate, AggregateFunction, Arithmetic, Comparison, Expression, Function, OrderKey,
};
pub use parser::Parser;
pub use query::{DatasetClause, Query, QueryForm};

pub use script::ScriptStatement;
pub use statement::{AheadLimit, Classification, CreateStream, LatePolicy, Statement, TimeDomain};
pub use substitute::{Assigned, Substituted};
pub use update::{DeleteInsert, Update, UpdateOperation};

/// Runs the recogniser alone: what finds the words for errors. For tests and for editors that check while typing.
///
/// # Errors
/// Where the text is not in the SPARQL grammar, or breaks one of the rules that the recogniser knows.
pub fn check_grammar(text: &str, is_update: bool, has_base: bool) -> Result<(), ParseError> {
    let tokens = token::tokenize(text);
    nesting::check(text, &tokens)?;
    let mut grammar = grammar::Grammar::new(text, &tokens, false, has_base);
    if is_update {
        grammar.update_unit()
    } else {
        grammar.query_unit()
    }
}
