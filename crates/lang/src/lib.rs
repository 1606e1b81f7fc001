//! Text to algebra: SPARQL, C-SPARQL, the dialect of the Wukong+S paper, and declarations of
//! streams, procedures and connectors.
//!
//! The one thing to know before changing it: this is the only crate that names `spargebra`. SPARQL
//! itself is read by `spargebra` and converted to the algebra here; everything around it
//! (registration headers, windows, bare names, `CREATE STREAM`) and the wording of every error is
//! our own, on our own tokenizer. Queries for `spareval` leave as opaque values of the [`spareval`]
//! module.
//!
//! Rooms, lowest first: algebra, token, text, grammar, lift, sparql, clauses, parser.
//!
//! The room `algebra` holds what a text means, and imports nothing; `token` and `text` hold what
//! every reader needs; `grammar` finds the words for errors; `sparql` is the way through
//! `spargebra`; `clauses` are what stands around SPARQL; `parser` has the entry points.
#![warn(missing_docs)]

pub mod algebra;
mod clauses;
mod grammar;
pub mod lift;
mod parser;
mod sparql;
mod text;
pub mod token;

pub use algebra::arguments::Argument;
pub use algebra::connector::{
    ConnectorCommand, ConnectorOption, ConnectorSort, CreateSink, CreateSource, Endpoint,
    ManageConnector,
};
pub use algebra::continuous::{
    ContinuousQuery, DerivedStream, Dialect, Extent, Overload, RegistrationKind, Report,
    StreamOperator, WindowClause,
};
pub use algebra::expression::{
    Aggregate, AggregateFunction, Arithmetic, Comparison, Expression, Function, OrderKey,
};
pub use algebra::footprint::{Footprint, Graphs};
pub use algebra::procedure::{
    BatchExtent, Bound, Branch, Call, ConsumedStream, CreateDataflow, CreateProcedure,
    DataflowPart, DropProcedure, KeptGraph, NativeBody, Nest, OnAbort, OwnedExtent, OwnedWindow,
    Parameter, ParameterKind, Recovery, Slot, Step, StepKind, StepQuery, StepWrite, Trigger,
    TriggerEvent,
};
pub use algebra::query::{DatasetClause, Query, QueryForm};
pub use algebra::reads::{ReadGraphs, StoredPattern};
pub use algebra::statement::Statement;
pub use algebra::stream::{
    AheadLimit, Classification, CreateStream, LatePolicy, StreamMapping, StreamSource, TimeDomain,
};
pub use algebra::substitute::{Assigned, Substituted};
pub use algebra::update::{DeleteInsert, Update, UpdateOperation};
pub use algebra::{
    GraphTarget, NameOrVariable, PathExpression, Pattern, QuadTemplate, TemplateGraph,
    TemplateTerm, TermPattern, TriplePattern, TripleTemplate, VarId,
};
pub use algebra::{continuous, expression, procedure, update};
pub use parser::Parser;
pub use parser::script::ScriptStatement;
pub use sparql::{spareval, star};
pub use text::error::{ParseError, ParseErrorKind};

/// Runs the recogniser alone, which finds the words for errors. For tests, and for editors that
/// check while typing.
///
/// # Errors
/// Where the text is not in the SPARQL grammar, or breaks one of the rules that the recogniser
/// knows.
pub fn check_grammar(text: &str, is_update: bool, has_base: bool) -> Result<(), ParseError> {
    let tokens = token::tokenize(text);
    text::nesting::check(text, &tokens)?;
    let mut grammar = grammar::Grammar::new(text, &tokens, false, has_base);
    if is_update {
        grammar.update_unit()
    } else {
        grammar.query_unit()
    }
}
