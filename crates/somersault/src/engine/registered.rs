//! Continuous queries: registered, replaced, paused and dropped, listed, and read.
//!
//! Before changing anything here: the driver tells the cohorts of a record before it answers any
//! read, so a name that is found leads to a member that they know. The member may be dropped or
//! replaced before it is asked, though. There may be a million queries, so a list that a user
//! waits for comes a page at a time.

use super::Engine;
use super::batch::Replacement;
use crate::access::RightKind;
use crate::error::{EngineError, LimitKind};
use crate::info::{GroupInfo, QueryInfo, StreamProgress, WindowInfo};
use somersault_continuous::{SubscribeOptions, Subscription};
use somersault_lang::{Extent, QuadTemplate, QueryForm, TemplateGraph};
use somersault_log::{Replaced, Resolved};
use somersault_model::EventTime;
use somersault_results::AnswerKind;
use somersault_runtime::{InputReceipt, Outcome};
use somersault_stream::{Input, ParsedQuery, QueryDeclaration, QueryStatus, WindowDeclaration};
use std::time::Duration;

/// Each of these rights shows the query that it names.
const SEE_QUERY: &[RightKind] = &[
    RightKind::Subscribe,
    RightKind::Register,
    RightKind::Monitor,
];
/// The number of names that are looked at together.
const NAMES_AT_ONCE: usize = 1_000;

/// Some of the continuous queries.
#[derive(Clone, Debug)]
pub struct QueryPage {
    /// The queries, in the order of their names.
    pub queries: Vec<QueryInfo>,
    /// Number of registered queries in total.
    pub total: usize,
    /// Whether there are more with later names.
    pub more: bool,
}

/// # Continuous queries
///
/// Queries over windows of streams, which fire by themselves whenever a window closes, and live
/// queries over the stored graphs alone, which fire whenever their answer changes.
impl Engine {
    /// Registers a continuous query. If `name` is given, the text must not say another one.
    /// The same text again changes nothing; another text under a taken name is a conflict.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// let query = engine.register(Some("seen"), text)?;
    /// assert_eq!(query.windows[0].range_ms, Some(2_000));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse, a window is over an unknown stream, BATCH does not divide it, or
    /// the name is taken.
    pub fn register(&self, name: Option<&str>, text: &str) -> Result<QueryInfo, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let (name, _) = self.declare_query(name.map(str::to_owned), text, false)?;
        self.declared_query(&name)
    }

    /// Registers a continuous query in place of the one of its name, if there is one, in one step:
    /// each close is answered by one of the two. The old query answers what is due by then, and its
    /// subscriptions end; the new one begins with the next close. The same text again changes
    /// nothing.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, Replacement};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let text = "SELECT ?p FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// let (_, replacement) = engine.replace(Some("seen"), text)?;
    /// assert!(matches!(replacement, Replacement::Replaced { .. }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::register`], or the old query derives a stream that others window. The old query
    /// is unchanged then.
    pub fn replace(
        &self,
        name: Option<&str>,
        text: &str,
    ) -> Result<(QueryInfo, Replacement), EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let (name, resolved) = self.declare_query(name.map(str::to_owned), text, true)?;
        let replacement = match resolved {
            None => Replacement::Unchanged,
            Some(resolved) => match resolved.replaced {
                None => Replacement::Created,
                Some(Replaced { query, after }) => Replacement::Replaced {
                    uid: query.0,
                    after: (after > EventTime::MIN).then_some(after),
                },
            },
        };
        Ok((self.declared_query(&name)?, replacement))
    }

    /// Shows a query that this caller has declared.
    fn declared_query(&self, name: &str) -> Result<QueryInfo, EngineError> {
        let info = self.query_info(name);
        info.map_err(|error| error.if_dropped(&format!("query {name}")))
    }

    /// The name that a query is registered under now, and what that came to unless it was before.
    fn declare_query(
        &self,
        name: Option<String>,
        text: &str,
        replaces: bool,
    ) -> Result<(String, Option<Resolved>), EngineError> {
        let (name, input) = self.registration(name, text, replaces)?;
        let is_new = self.inner.driver.query(&name).is_none();
        if is_new && self.room_for_queries() == 0 {
            return Err(self.too_many_queries());
        }
        let done = self.inner.driver.log_input(input)?;
        let resolved = match done.outcome {
            Outcome::Command(resolved) => Some(resolved),
            _ => None,
        };
        Ok((name, resolved))
    }

    /// Returns the name of a query that is to be registered, and the input that registers it.
    pub(super) fn registration(
        &self,
        name: Option<String>,
        text: &str,
        replaces: bool,
    ) -> Result<(String, Input), EngineError> {
        let query = self.parser(None).parse_continuous(text)?;
        let name = one_name(name, query.name.clone())?;
        self.access.require(RightKind::Register, Some(&name))?;
        self.access.require_all(&query.footprint())?;
        let input = Input::RegisterQuery {
            received_ms: self.now_ms(),
            name: name.clone(),
            text: text.to_owned(),
            namespace: self.inner.config.default_namespace.clone(),
            query: ParsedQuery::of(text, QueryDeclaration::from(&query)),
            replaces,
        };
        Ok((name, input))
    }

    /// Returns how many more queries may be registered.
    pub(super) fn room_for_queries(&self) -> usize {
        let limit = self.inner.config.limits.registered_queries;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        limit.saturating_sub(self.inner.driver.query_count())
    }

    pub(super) fn too_many_queries(&self) -> EngineError {
        let limit = self.inner.config.limits.registered_queries;
        EngineError::Limit {
            which: LimitKind::RegisteredQueries,
            message: format!(
                "{limit} continuous queries are registered, as many as there may be; drop some, or raise the limit (registered_queries)"
            ),
        }
    }

    /// Drops a continuous query; its subscriptions end.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// engine.drop_query("seen")?;
    /// assert!(engine.queries().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn drop_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::DropQuery { received_ms, name },
            name,
        )
    }

    /// Stops a query from firing until it is resumed.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// engine.pause_query("seen")?;
    /// assert!(engine.query_info("seen")?.paused);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn pause_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::PauseQuery { received_ms, name },
            name,
        )
    }

    /// Lets a paused query fire again.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.pause_query("seen")?;
    /// engine.resume_query("seen")?;
    /// assert!(!engine.query_info("seen")?.paused);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn resume_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::ResumeQuery { received_ms, name },
            name,
        )
    }

    fn command(
        &self,
        input: impl FnOnce(i64, String) -> Input,
        name: &str,
    ) -> Result<(), EngineError> {
        self.admit(RightKind::Register, Some(name))?;
        let input = input(self.now_ms(), name.to_owned());
        let _: InputReceipt = self.inner.driver.log_input(input)?;
        Ok(())
    }

    /// Returns all continuous queries, by name.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let names: Vec<String> = engine.queries().into_iter().map(|query| query.name).collect();
    /// assert_eq!(names, ["seen"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queries(&self) -> Vec<QueryInfo> {
        let queries = self.inner.driver.queries();
        let is_seen = |status: &QueryStatus| self.access.allows_one(SEE_QUERY, &status.name);
        queries
            .into_iter()
            .filter(is_seen)
            .map(|status| self.describe(status))
            .collect()
    }

    /// Returns up to `most` continuous queries whose names come after this one, in the order of
    /// their names. Queries that are registered or dropped meanwhile may be among them or not.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let page = engine.queries_after(None, 100);
    /// assert_eq!((page.total, page.more), (1, false));
    /// # Ok(())
    /// # }
    /// ```
    pub fn queries_after(&self, after: Option<&str>, most: usize) -> QueryPage {
        let driver = &self.inner.driver;
        let wanted = most.saturating_add(1);
        let (mut names, total) = match self.access.is_full() {
            true => (driver.query_names(after, wanted), driver.query_count()),
            false => self.seen_queries(after, wanted),
        };
        let more = names.len() > most;
        names.truncate(most);
        let found = names.iter().filter_map(|name| driver.query(name));
        QueryPage {
            queries: found.map(|status| self.describe(status)).collect(),
            total,
            more,
        }
    }

    /// The names of the first queries after a name that this handle may see, and the number of all
    /// that it may see.
    fn seen_queries(&self, after: Option<&str>, most: usize) -> (Vec<String>, usize) {
        let (mut found, mut total) = (Vec::new(), 0);
        let mut last: Option<String> = None;
        loop {
            let names = self
                .inner
                .driver
                .query_names(last.as_deref(), NAMES_AT_ONCE);
            let is_last = names.len() < NAMES_AT_ONCE;
            for name in names {
                if self.access.allows_one(SEE_QUERY, &name) {
                    total += 1;
                    if found.len() < most && after.is_none_or(|after| *name > *after) {
                        found.push(name.clone());
                    }
                }
                last = Some(name);
            }
            if is_last {
                return (found, total);
            }
        }
    }

    /// Returns one continuous query.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// let query = engine.query_info("seen")?;
    /// assert_eq!((query.firings, query.paused), (0, false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn query_info(&self, name: &str) -> Result<QueryInfo, EngineError> {
        self.access.require_one(SEE_QUERY, name)?;
        Ok(self.describe(self.query_status(name)?))
    }

    /// Returns the shape of a query's answers.
    ///
    /// ```
    /// use somersault::{AnswerKind, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let text = "ASK FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// engine.register(Some("seen"), text)?;
    /// assert_eq!(engine.answer_kind("seen")?, AnswerKind::Boolean);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn answer_kind(&self, name: &str) -> Result<AnswerKind, EngineError> {
        self.admit(RightKind::Subscribe, Some(name))?;
        let status = self.query_status(name)?;
        let query = self.parser(None).parse_continuous(&status.text)?;
        Ok(match &query.query.form {
            QueryForm::Select { .. } => AnswerKind::Solutions,
            QueryForm::Ask => AnswerKind::Boolean,
            QueryForm::Describe { .. } => AnswerKind::Graph,
            QueryForm::Construct { template } => {
                let is_named = |quad: &QuadTemplate| quad.graph != TemplateGraph::Default;
                match template.iter().any(is_named) {
                    true => AnswerKind::Dataset,
                    false => AnswerKind::Graph,
                }
            }
        })
    }

    /// Reads the firings of a query: the kept ones, then the live ones.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime, SubscribeOptions, SubscriptionEvent};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.advance([("urn:s", EventTime(0))])?;
    /// let subscription = engine.subscribe("seen", SubscribeOptions::default())?;
    /// engine.advance([("urn:s", EventTime(1_000))])?;
    /// if let Some(SubscriptionEvent::Firing(firing)) = subscription.recv() {
    ///     assert_eq!(firing.close, EventTime(1_000));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn subscribe(
        &self,
        name: &str,
        mut options: SubscribeOptions,
    ) -> Result<Subscription, EngineError> {
        self.admit(RightKind::Subscribe, Some(name))?;
        let mut unknown = None;
        loop {
            let status = self.query_status(name)?;
            options.empties |= reports_empties(&status);
            if let Some(subscription) = self.inner.continuous.subscribe(&status, &options) {
                return Ok(match self.inner.config.process.clone() {
                    None => subscription,
                    Some(process) => subscription.by_turns(move || process.take_turn()),
                });
            }
            // It has been dropped or replaced since; the uid under the name says which.
            if unknown == Some(status.uid) {
                return Err(EngineError::Internal(format!(
                    "the query {name} is registered, and no cohort knows it"
                )));
            }
            unknown = Some(status.uid);
        }
    }

    pub(super) fn query_status(&self, name: &str) -> Result<QueryStatus, EngineError> {
        self.inner.driver.query(name).ok_or_else(|| {
            EngineError::NotFound(format!(
                "there is no continuous query {name}; register it first, or look at the list of queries"
            ))
        })
    }

    pub(super) fn describe(&self, status: QueryStatus) -> QueryInfo {
        let summary = self.inner.continuous.summary(status.member);
        let group = summary.as_ref().zip(status.group);
        // The other members may be those of others.
        let group = group.filter(|_| self.access.allows(RightKind::Monitor, None));
        let group = group.map(|((_, size), queries)| GroupInfo {
            queries,
            combinations: size.cells,
            together: size.together,
        });
        let declaration = &status.declaration;
        let mut info = QueryInfo {
            name: status.name,
            uid: status.uid.0,
            text: status.text,
            windows: declaration.windows.iter().map(window_info).collect(),
            live: declaration.live.is_some(),
            every_ms: (declaration.live.as_ref()).and_then(|live| Some(live.every?.0)),
            firings: 0,
            rows: 0,
            last_close: None,
            next_close: status.next_close,
            streams: status
                .streams
                .into_iter()
                .map(StreamProgress::from)
                .collect(),
            waiting_for: status.waiting_for.map(StreamProgress::from),
            amended: status.amended,
            skipped: 0,
            derives: declaration
                .derives
                .as_ref()
                .map(|it| it.iri.as_str().to_owned()),
            skipped_empty: status.skipped_empty,
            passed_while_paused: status.passed_while_paused,
            paused: status.paused,
            group,
            last_error: None,
            execution_p50: Duration::ZERO,
            execution_p99: Duration::ZERO,
            delay_p50: Duration::ZERO,
            delay_p99: Duration::ZERO,
            waiting_p50: Duration::ZERO,
            waiting_p99: Duration::ZERO,
            subscribers: 0,
        };
        if let Some((summary, _)) = summary {
            info.firings = summary.firings;
            info.rows = summary.rows;
            info.skipped = summary.skipped;
            info.last_close = summary.last_close;
            info.last_error = summary.last_error;
            [info.execution_p50, info.execution_p99] = summary.execution;
            [info.delay_p50, info.delay_p99] = summary.delay;
            [info.waiting_p50, info.waiting_p99] = summary.waiting;
            info.subscribers = summary.subscribers;
        }
        info
    }
}

impl From<somersault_stream::StreamProgress> for StreamProgress {
    fn from(progress: somersault_stream::StreamProgress) -> StreamProgress {
        StreamProgress {
            stream: progress.stream,
            watermark: progress.watermark,
            since: progress.since_ms.map(EventTime),
        }
    }
}

/// Whether an answer without rows is news: that of a live query, which had some before. Without
/// REPORT NON EMPTY its subscribers receive it, whatever they ask for.
pub(super) fn reports_empties(query: &QueryStatus) -> bool {
    let declaration = &query.declaration;
    declaration.live.is_some() && !declaration.report.non_empty
}

fn window_info(window: &WindowDeclaration) -> WindowInfo {
    let (range, step) = match window.extent {
        Extent::Time { range, step, .. } => (Some(range), step),
        _ => (None, None),
    };
    WindowInfo {
        stream: window.stream.as_str().to_owned(),
        extent: window.extent.to_string(),
        range_ms: range.map(|span| span.0),
        step_ms: step.map(|span| span.0),
    }
}

/// Returns the one name that a caller and a text give to a query.
pub(super) fn one_name(given: Option<String>, own: Option<String>) -> Result<String, EngineError> {
    match (given, own) {
        (Some(given), Some(own)) if given != own => Err(EngineError::Invalid(format!(
            "the text registers the query {own}, but the name given is {given}; use one of the two in both places"
        ))),
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => Err(EngineError::Invalid(
            "the query has no name; write REGISTER QUERY name AS before it, or give one".to_owned(),
        )),
    }
}
