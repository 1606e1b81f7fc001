//! Text to algebra: SPARQL, C-SPARQL, the dialect of the Wukong+S paper, and stream declarations.
//!
//! The one thing to know before changing it: this is the only crate that names `spargebra`. SPARQL
//! itself is read by `spargebra` and converted to the algebra here; everything around it
//! (registration headers, windows, bare names, `CREATE STREAM`) and the wording of every error is
//! our own, on our own tokenizer. Queries for `spareval` leave as opaque values of the [`spareval`]
//! module.
#![warn(missing_docs)]

pub mod algebra;
mod blocks;
mod columns;
pub mod continuous;
mod convert;
mod cursor;
mod declare;
mod display;
mod error;
mod extent;
mod grammar;
pub mod lift;
mod name_clause;
mod names;
mod nesting;
mod options;
mod parser;
mod query;
mod rewrite;
mod script;
pub mod spareval;
mod sparql;
pub mod star;
mod statement;
mod stream;
mod substitute;
mod surface;
mod template;
mod time_clause;
mod timestamp;
pub mod token;
pub mod update;
mod words;

pub use algebra::expression;
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
pub use statement::Statement;
pub use stream::{AheadLimit, Classification, CreateStream, LatePolicy, TimeDomain};
pub use substitute::{Assigned, Substituted};
pub use update::{DeleteInsert, Update, UpdateOperation};

/// Runs the recogniser alone, which finds the words for errors. For tests, and for editors that
/// check while typing.
///
/// # Errors
/// Where the text is not in the SPARQL grammar, or breaks one of the rules that the recogniser
/// knows.
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
