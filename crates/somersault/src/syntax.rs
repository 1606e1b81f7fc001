//! Whether a text parses, without an engine.

use crate::error::EngineError;
use somersault_lang::Parser;

/// Checks whether a query parses, without evaluating it; `base` is the IRI that relative IRIs are
/// resolved against.
///
/// ```
/// use somersault::{EngineError, syntax};
/// assert!(syntax::check_query("SELECT * { ?s ?p ?o }", None).is_ok());
/// let refused = syntax::check_query("SELECT * { ?s ?p }", None);
/// assert!(matches!(refused, Err(EngineError::Parse { line: 1, .. })));
/// ```
///
/// # Errors
/// [`EngineError::Parse`] with the place if it does not.
pub fn check_query(text: &str, base: Option<&str>) -> Result<(), EngineError> {
    parser(base).parse_query(text)?;
    Ok(())
}

/// Checks whether an update parses, as [`check_query`] does for a query.
///
/// ```
/// use somersault::syntax;
/// assert!(syntax::check_update("CLEAR ALL", None).is_ok());
/// assert!(syntax::check_update("CLEAR EVERYTHING", None).is_err());
/// ```
///
/// # Errors
/// [`EngineError::Parse`] with the place if it does not.
pub fn check_update(text: &str, base: Option<&str>) -> Result<(), EngineError> {
    parser(base).parse_update(text)?;
    Ok(())
}

fn parser(base: Option<&str>) -> Parser {
    match base {
        Some(base) => Parser::new().with_base(base),
        None => Parser::new(),
    }
}

/// Whether a text is `EXPLAIN ANALYZE CALL …`, for
/// [`Engine::explain_call_text`](crate::Engine::explain_call_text).
///
/// ```
/// use somersault::syntax;
/// assert!(syntax::is_explained_call("EXPLAIN ANALYZE CALL transfer()"));
/// assert!(!syntax::is_explained_call("CALL transfer()"));
/// ```
pub fn is_explained_call(text: &str) -> bool {
    Parser::explained_call(text).is_some()
}
