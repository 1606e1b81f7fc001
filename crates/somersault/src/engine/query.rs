//! One-shot queries and explanations. `execute.rs` executes queries.

use super::execute::Wanted;
use super::{Engine, FastPath, QueryOptions};
use crate::access::RightKind;
use crate::error::{EngineError, LimitKind};
use somersault_continuous::continuous_dataset;
use somersault_lang::lift::Shape;
use somersault_lang::{ParseErrorKind, Parser};
use somersault_model::Sn;
use somersault_query::{BoundQuery, Invocation, Prepared, SnapshotView};
use somersault_runtime::window_version;
use somersault_store::WindowVersion;
use somersault_stream::{QueryDeclaration, WindowDeclaration};
use std::sync::Arc;

impl Engine {
    /// Answers a query here if it is light, and otherwise returns it for the query pool.
    pub(super) fn begin_query(
        &self,
        text: &str,
        options: &QueryOptions,
    ) -> Result<FastPath, EngineError> {
        let begun = self
            .check_running()
            .and_then(|()| self.cached(text, options.base.as_deref(), Parser::quickly))
            .and_then(|query| match query {
                Some(query) => self.start_query(query, options),
                None => {
                    let query = Wanted::Text(text.to_owned());
                    Ok(FastPath::Deferred(self.deferred(query, options)?))
                }
            });
        if begun.is_err() {
            self.inner.counters.stripe().failed();
        }
        begun
    }

    /// Returns the prepared query of a text, or none if its text takes long to parse and the
    /// parser is a quick one.
    pub(super) fn cached(
        &self,
        text: &str,
        base: Option<&str>,
        settings: impl Fn(Parser) -> Parser,
    ) -> Result<Option<Arc<BoundQuery>>, EngineError> {
        self.check_text(text)?;
        let parse = |text: &str| settings(self.parser(base)).parse_query(text);
        let scope = self.access.scope();
        match self.inner.plans.get_or_prepare(text, base, scope, parse) {
            Ok(query) => Ok(Some(query)),
            Err(error) if error.kind == ParseErrorKind::TooLong => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn check_text(&self, text: &str) -> Result<(), EngineError> {
        let limit = self.inner.config.limits.query_text_bytes;
        if text.len() as u64 > limit {
            return Err(EngineError::Limit {
                which: LimitKind::QueryText,
                message: format!(
                    "the text has {} bytes, more than {limit}; shorten it, load data instead of writing it into an update, or raise the limit (query_text_bytes)",
                    text.len()
                ),
            });
        }
        Ok(())
    }

    /// Describes how a one-shot or continuous query would be run.
    pub(super) fn explain_text(
        &self,
        text: &str,
        options: &QueryOptions,
        analyze: bool,
    ) -> Result<String, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let base = options.base.as_deref();
        if let Some(shown) = self.explain_call(text, base, analyze)? {
            return Ok(shown);
        }
        let parser = self.parser(base);
        let one_shot = match parser.parse_query(text) {
            Ok(query) => Prepared::new(query),
            Err(error) => {
                return match parser.parse_continuous(text) {
                    Ok(query) => self.explain_continuous(&query, options, analyze),
                    Err(other) if is_continuous(text) => Err(other.into()),
                    Err(_) => Err(error.into()),
                };
            }
        };
        let clause = options.dataset(&one_shot.query().dataset);
        let dataset = self.dataset(&clause);
        let snapshot = self.pin_stable(self.query_time(options.timeout));
        let view = SnapshotView::new(snapshot, Vec::new(), dataset);
        self.explain_on(&one_shot, &view, options, analyze)
    }

    fn explain_continuous(
        &self,
        query: &somersault_lang::ContinuousQuery,
        options: &QueryOptions,
        analyze: bool,
    ) -> Result<String, EngineError> {
        self.access.require_all(&query.footprint())?;
        let declaration = QueryDeclaration::from(query);
        let mut text = declaration.explain();
        let snapshot = self.pin_stable(self.query_time(options.timeout));
        let windows: Vec<_> = declaration
            .windows
            .iter()
            .map(|window| self.latest_window(&declaration, window, snapshot.sn()))
            .collect();
        let dataset = continuous_dataset(query, &self.inner.store);
        let view = SnapshotView::new(snapshot, windows, dataset);
        let prepared = Prepared::new(query.query.clone());
        text.push_str(&self.explain_on(&prepared, &view, options, analyze)?);
        let continuous = &self.inner.continuous;
        text.push_str(&continuous.explain_query(query, &prepared, &view));
        text.push_str(&self.explain_group(query, &view, options)?);
        Ok(text)
    }

    /// Describes how the registered queries of this shape are evaluated, if there are any.
    fn explain_group(
        &self,
        query: &somersault_lang::ContinuousQuery,
        view: &SnapshotView,
        options: &QueryOptions,
    ) -> Result<String, EngineError> {
        let namespace = self.inner.config.default_namespace.as_deref();
        let shape = Shape::of(&query.text).map(|(shape, _)| shape);
        let cohort = shape.and_then(|shape| self.inner.driver.group_of(shape, namespace));
        // The members of a group may be those of others.
        let cohort = cohort.filter(|_| self.access.allows(RightKind::Monitor, None));
        let Some(cohort) = cohort else {
            return Ok(String::new());
        };
        let execution = self.one_shot_execution(options.timeout, options.result_rows);
        let continuous = &self.inner.continuous;
        let described = continuous.explain_cohort(cohort, view, &execution)?;
        Ok(described.unwrap_or_default())
    }

    /// Returns the window at its latest close, as this SN shows it and as far as its slices still
    /// exist.
    fn latest_window(
        &self,
        query: &QueryDeclaration,
        window: &WindowDeclaration,
        sn: Sn,
    ) -> Arc<WindowVersion> {
        let status = self.inner.driver.stream(window.stream.as_str());
        status
            .and_then(|status| window.latest(query.starting_at, &status))
            .map_or_else(WindowVersion::empty, |batches| {
                window_version(&self.inner.store, &batches, sn)
            })
    }

    fn explain_on(
        &self,
        prepared: &Prepared,
        view: &SnapshotView,
        options: &QueryOptions,
        analyze: bool,
    ) -> Result<String, EngineError> {
        let execution = self.one_shot_execution(options.timeout, options.result_rows);
        let explanation = prepared.explain(Invocation::new(view, &execution), analyze)?;
        Ok(explanation.to_string())
    }
}

/// Whether a text that does not parse was meant as a continuous query.
fn is_continuous(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.contains("REGISTER") || (upper.contains("FROM") && upper.contains("RANGE"))
}
