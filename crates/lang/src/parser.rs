//! The entry points.

use crate::continuous::ContinuousQuery;
use crate::error::ParseError;
use crate::query::Query;
use crate::statement::Statement;
use crate::update::Update;

/// Reads every text that the engine takes. Cheap to make and to clone.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// The namespace that bare names are resolved by (the server's `--namespace`).
    pub default_namespace: Option<String>,
    /// The base IRI of relative IRIs where the text has no `BASE`.
    pub base: Option<String>,
}

impl Parser {
    /// A parser without a default namespace and without a base.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the namespace that bare names are resolved by: `po` becomes `<namespace + "po">`.
    #[must_use]
    pub fn with_default_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.default_namespace = Some(namespace.into());
        self
    }

    /// Sets the base IRI.
    #[must_use]
    pub fn with_base(mut self, base: impl Into<String>) -> Self {
        self.base = Some(base.into());
        self
    }

    /// Parses a one-shot query.
    ///
    /// # Errors
    /// If the text is not a SPARQL query, or is a continuous one.
    pub fn parse_query(&self, text: &str) -> Result<Query, ParseError> {
        let _ = text;
        unimplemented!()
    }

    /// Parses an update request.
    ///
    /// # Errors
    /// If the text is not a SPARQL update.
    pub fn parse_update(&self, text: &str) -> Result<Update, ParseError> {
        let _ = text;
        unimplemented!()
    }

    /// Parses a continuous query, with or without a `REGISTER` header.
    ///
    /// # Errors
    /// If the text is not a continuous query, has no window, or uses what is not supported yet.
    pub fn parse_continuous(&self, text: &str) -> Result<ContinuousQuery, ParseError> {
        let _ = text;
        unimplemented!()
    }

    /// Parses a statement: CREATE STREAM, DROP, PAUSE, RESUME, REGISTER.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse_statement(&self, text: &str) -> Result<Statement, ParseError> {
        let _ = text;
        unimplemented!()
    }
}
