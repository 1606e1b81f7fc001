//! Live queries: continuous queries without a window, which fire when the stored graphs change.
//! Which clauses go with them, and which of their firings are reported.

use crate::algebra::continuous::{RegistrationKind, Report, StreamOperator};
use crate::algebra::query::{Query, QueryForm};
use crate::clauses::surface::Surface;
use crate::sparql::timestamp;
use crate::text::error::ParseError;
use crate::token::Token;

/// Refuses what a live query cannot have.
pub(crate) fn check(
    text: &str,
    tokens: &[Token],
    surface: &Surface,
    query: &Query,
) -> Result<(), ParseError> {
    timestamp::refuse_live(text, tokens, &surface.names)?;
    let header = surface.header.as_ref();
    let start = header.map_or(0, |header| header.offset);
    let refuse = |offset: usize, message: &str| Err(ParseError::semantics(text, offset, message));
    if header.is_some_and(|header| header.kind == RegistrationKind::Stream) {
        return refuse(
            start,
            "this query has no window, and a derived stream takes its times from the closes of windows; add FROM STREAM <iri> [RANGE 10s STEP 1s], or write REGISTER QUERY",
        );
    }
    if header.is_some_and(|header| header.computed_every.is_some()) {
        return refuse(
            start,
            "COMPUTED EVERY sets the closes of windows, and this query has none: it fires when the stored graphs change; write EVERY for the shortest time between two firings, or add a window such as FROM STREAM <iri> [RANGE 10s STEP 1s]",
        );
    }
    let starting_at = header.and_then(|header| header.starting_at);
    if surface.starting_at.or(starting_at).is_some() {
        return refuse(
            start,
            "STARTING AT moves the closes of windows, and this query has none: it fires when the stored graphs change; leave it out, or add a window such as FROM STREAM <iri> [RANGE 10s STEP 1s]",
        );
    }
    if let Some((_, offset)) = surface.options.overload {
        return refuse(
            offset,
            "a query without windows joins the changes that it cannot keep up with by itself; leave ON OVERLOAD out",
        );
    }
    if matches!(query.form, QueryForm::Describe { .. }) {
        let offset = tokens.get(surface.form).map_or(start, |form| form.start);
        return refuse(
            offset,
            "a query without windows fires when what it reads changes, and a DESCRIBE may read anything; write CONSTRUCT",
        );
    }
    Ok(())
}

/// Refuses EVERY in a query with windows.
pub(crate) fn refuse_every(text: &str, surface: &Surface) -> Result<(), ParseError> {
    let every = surface.header.as_ref().and_then(|header| header.every);
    match every {
        None => Ok(()),
        Some((_, offset)) => Err(ParseError::semantics(
            text,
            offset,
            "EVERY is the shortest time between two firings of a query without windows, and this one has some; write COMPUTED EVERY for the times at which it fires",
        )),
    }
}

/// The firings of a live query that are reported: those whose answer is another one, and of ISTREAM
/// and DSTREAM those with a difference.
pub(crate) fn report(operator: StreamOperator, given: Report) -> Report {
    Report {
        on_change: !operator.compares(),
        non_empty: given.non_empty || operator.compares(),
    }
}
