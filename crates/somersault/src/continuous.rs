//! The standing queries: what the driver tells about them ends here. A firing is executed on the
//! query pool, over its pinned snapshot and the window versions of its close, and its answer goes to
//! the query's hub.

mod due;

use crate::answer::Answer;
use crate::changes::Changes;
use crate::cohort::Cohort;
use crate::comparison::Comparison;
use crate::config::EngineConfig;
use crate::delta::{Delta, One};
use crate::firing;
use crate::hub::Hub;
use crate::metrics::{QueryMetrics, Tally, Took};
use crate::reporting::Reporting;
use crate::share::{Share, Spare};
use crate::subscription::{FiringId, FiringResult, SubscribeOptions, Subscription};
use crate::turns::{Left, Turns};
use due::{Due, Together};
use oxrdf::{GraphName, Quad};
use parking_lot::{Mutex, RwLock};
use somersault_lang::lift::Shape;
use somersault_lang::{ContinuousQuery, Dialect, Overload, Parser, Report};
use somersault_model::{EventTime, QueryUid, Sn, TermId};
use somersault_query::{Dataset, Execution, NamedGraphs, Prepared, Source, Template};
use somersault_runtime::{Answered, Class, Derives, FiringJob, Host, QueryPool, RuntimeError};
use somersault_store::{Dictionary, Store};
use somersault_stream::{FiringKey, JoiningMember, Pause, Place};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One part in so many of the memory of all executions is for those on their callers' threads.
const IN_PLACE_PART: u64 = 8;

/// So many queries that join a cohort at once are put in place by a job of their own.
const MANY: usize = 64;

/// All standing queries.
pub(crate) struct Standing {
    pub(crate) config: EngineConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Arc<QueryPool>,
    answered: OnceLock<Answered>,
    queries: RwLock<HashMap<QueryUid, Arc<StandingQuery>>>,
    cohorts: RwLock<HashMap<QueryUid, Together>>,
    /// Threads for firings of queries that have one under way.
    spare: Spare,
    /// The time of the stable SN, for NOW() of one-shot queries.
    stable_ms: AtomicI64,
    /// Set when the engine ends: executions under way give up.
    pub(crate) cancel: Arc<AtomicBool>,
}

/// One standing query.
pub(crate) struct StandingQuery {
    name: String,
    /// Whether its answers make a stream.
    derives: bool,
    /// Or the sentence that says why it cannot be run.
    prepared: Result<Ready, String>,
    share: Share<Due>,
    /// Set once it is dropped: a firing under way stops.
    dropped: Arc<AtomicBool>,
    /// In which its answers are given out.
    turns: Turns,
    hub: Mutex<Hub>,
    tally: Mutex<Tally>,
}

/// What a registered text comes to.
struct Parsed {
    ready: Ready,
    changes: Option<Changes>,
    reporting: Option<Reporting>,
    derives: bool,
    skips: bool,
}

/// What a firing needs of the text.
struct Ready {
    prepared: Prepared,
    dataset: Arc<Dataset>,
    delta: Delta,
}

impl Standing {
    pub(crate) fn new(config: EngineConfig, store: Arc<Store>, pool: Arc<QueryPool>) -> Standing {
        Standing {
            spare: Spare::of_threads(config.query_threads),
            config,
            store,
            pool,
            answered: OnceLock::new(),
            queries: RwLock::new(HashMap::new()),
            cohorts: RwLock::new(HashMap::new()),
            stable_ms: AtomicI64::new(0),
            cancel: Arc::new(AtomicBool::new(false)),
        }
    }

    pub(crate) fn query(&self, uid: QueryUid) -> Option<Arc<StandingQuery>> {
        self.queries.read().get(&uid).cloned()
    }

    pub(crate) fn cohort(&self, uid: QueryUid) -> Option<Arc<Cohort>> {
        let cohorts = self.cohorts.read();
        cohorts
            .get(&uid)
            .map(|together| Arc::clone(&together.cohort))
    }

    /// What answers are decoded with.
    pub(crate) fn decoder(&self) -> Arc<Dictionary> {
        Arc::clone(self.store.dictionary_arc())
    }

    /// The time of the stable SN.
    pub(crate) fn stable_time(&self) -> EventTime {
        EventTime(self.stable_ms.load(Ordering::Relaxed))
    }

    /// What every execution is given.
    pub(crate) fn execution(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = self.execution_in_place(now, query);
        execution.limits.query_memory_bytes = self.memory_share();
        execution.cancel = Some(Arc::clone(&self.cancel));
        execution.crew = Some(Arc::clone(self.pool.crew()));
        execution
    }

    /// What an execution on its caller's thread is given. Nobody helps with it, and nobody stops it, since
    /// its budget soon does; so it holds nothing that all threads would count their holds of.
    pub(crate) fn execution_in_place(&self, now: EventTime, query: QueryUid) -> Execution {
        let mut execution = Execution::new(self.config.limits.clone(), now);
        execution.limits.query_memory_bytes = self.memory_in_place();
        execution.query = query;
        if self.config.allow_remote {
            execution.remote = self.config.remote.clone();
        }
        execution
    }

    /// What one execution may use, so that as many as can run at once stay within the limit of all together.
    fn memory_share(&self) -> u64 {
        let limits = &self.config.limits;
        let in_place = limits.total_query_memory_bytes / IN_PLACE_PART;
        // Each thread of the pool runs one, and the sequencer an update.
        let at_once = QueryPool::jobs_at_once(self.config.query_threads) as u64 + 1;
        let share = (limits.total_query_memory_bytes - in_place) / at_once;
        limits.query_memory_bytes.min(share)
    }

    /// What an execution on its caller's thread may use. So many of them can run at once as there may
    /// be one-shot queries.
    fn memory_in_place(&self) -> u64 {
        let limits = &self.config.limits;
        let in_place = limits.total_query_memory_bytes / IN_PLACE_PART;
        let share = in_place / limits.concurrent_queries.max(1);
        share.min(limits.query_memory_bytes)
    }

    /// Memory of the rows that queries keep from one close to the next.
    pub(crate) fn kept_rows_bytes(&self) -> u64 {
        let queries = self.queries.read();
        let alone = queries.values().filter_map(|q| q.prepared.as_ref().ok());
        let alone: u64 = alone.map(|ready| ready.delta.kept_bytes()).sum();
        let cohorts = self.cohorts.read();
        let together = cohorts.values().map(|together| &together.cohort);
        alone + together.map(|cohort| cohort.kept_bytes()).sum::<u64>()
    }

    /// How answers of one query are compared.
    fn comparison(&self) -> Comparison {
        Comparison {
            dictionary: self.decoder(),
            firing_time: self.config.limits.firing_time,
            memory_bytes: self.memory_share(),
        }
    }

    /// A query that stands alone does not fire for now: what it keeps would be of no use when it goes on.
    pub(crate) fn forget_kept_rows(&self, name: &str) {
        for query in self.queries.read().values() {
            if query.name == name
                && let Ok(ready) = &query.prepared
            {
                ready.delta.forget();
            }
        }
    }

    /// Nobody will be answered any more.
    pub(crate) fn end(&self) {
        for query in self.queries.read().values() {
            query.hub.lock().end();
        }
        for together in self.cohorts.read().values() {
            together.cohort.end();
        }
    }

    fn parser(namespace: Option<&str>) -> Parser {
        match namespace {
            Some(namespace) => Parser::new().with_default_namespace(namespace),
            None => Parser::new(),
        }
    }

    fn parse(&self, text: &str, namespace: Option<&str>) -> Result<Parsed, String> {
        let mut query = Standing::parser(namespace)
            .parse_continuous(text)
            .map_err(|error| error.to_string())?;
        let dataset = continuous_dataset(&query, &self.store);
        let changes = query.operator.compares().then(|| {
            let template = Template::split_off(&mut query.query);
            Changes::new(query.operator, template, self.comparison())
        });
        let ready = Ready {
            delta: Delta::new(self.config.delta, &query),
            prepared: Prepared::new(query.query),
            dataset: Arc::new(dataset),
        };
        let reporting = (query.report != Report::default())
            .then(|| Reporting::new(query.report, self.comparison()));
        Ok(Parsed {
            ready,
            changes,
            reporting,
            derives: query.derives.is_some(),
            skips: query.overload == Overload::Skip,
        })
    }
}

/// What a continuous query ranges over (docs/language.md): its windows, merged with
/// the graphs of FROM or without any with the stored default graph; GRAPH reads windows and FROM NAMED.
pub(crate) fn continuous_dataset(query: &ContinuousQuery, store: &Store) -> Dataset {
    // Interned, not looked up: the graph may come into being after the registration.
    let id = |name: &oxrdf::NamedNode| store.dictionary().intern(name.as_ref().into());
    let mut default = Vec::new();
    let mut named = Vec::new();
    for (index, window) in query.windows.iter().enumerate() {
        if window.in_default {
            default.push(Source::Window(index));
        }
        if window.named {
            named.push((id(&window.name), Source::Window(index)));
        }
    }
    let clause = &query.query.dataset;
    default.extend(clause.default.iter().map(|graph| Source::Stored(id(graph))));
    if clause.default.is_empty() {
        default.push(Source::Stored(TermId::DEFAULT_GRAPH));
    }
    named.extend(
        clause
            .named
            .iter()
            .map(|graph| (id(graph), Source::Stored(id(graph)))),
    );
    // In CQELS-QL windows are no dataset clause: without any, GRAPH reads all that is stored.
    let reads_all = query.dialect == Dialect::CqelsQl && !clause.present;
    Dataset {
        default,
        named: match reads_all {
            true => NamedGraphs::ListAndStored(named),
            false => NamedGraphs::List(named),
        },
    }
}

impl Host for Standing {
    fn attach(&self, answered: Answered) {
        let _ = self.answered.set(answered);
    }

    fn registered(&self, uid: QueryUid, name: &str, text: &str, namespace: Option<&str>) {
        let kept = self.config.kept_firings;
        let query = match self.parse(text, namespace) {
            Ok(parsed) => StandingQuery {
                name: name.to_owned(),
                derives: parsed.derives,
                prepared: Ok(parsed.ready),
                share: Share::new(parsed.skips),
                dropped: Arc::default(),
                turns: Turns::new(parsed.changes, parsed.reporting),
                hub: Mutex::new(Hub::new(kept)),
                tally: Mutex::new(Tally::new()),
            },
            Err(error) => StandingQuery {
                name: name.to_owned(),
                derives: false,
                prepared: Err(error),
                share: Share::new(false),
                dropped: Arc::default(),
                turns: Turns::new(None, None),
                hub: Mutex::new(Hub::new(kept)),
                tally: Mutex::new(Tally::new()),
            },
        };
        self.queries.write().insert(uid, Arc::new(query));
    }

    fn dropped(&self, uid: QueryUid) {
        if let Some(query) = self.queries.write().remove(&uid) {
            query.dropped.store(true, Ordering::Relaxed);
            query.hub.lock().end();
        }
    }

    fn formed(&self, uid: QueryUid, shape: Arc<Shape>, text: &str, namespace: Option<&str>) {
        let parser = Standing::parser(namespace);
        let cohort = Cohort::new(shape, (text, parser), &self.store, &self.config);
        let together = Together {
            cohort: Arc::new(cohort),
            share: Arc::new(Share::new(false)),
        };
        self.cohorts.write().insert(uid, together);
    }

    fn joined(
        &self,
        cohort: QueryUid,
        base: EventTime,
        members: Vec<JoiningMember>,
        resumed: Option<u32>,
    ) {
        let Some(cohort) = self.cohort(cohort) else {
            return;
        };
        cohort.joined(base, &members, resumed, &self.store);
        if members.len() >= MANY {
            // The next firing should not have to wait until all are in place.
            self.pool.submit(Class::Continuous, move || cohort.settle());
        }
    }

    fn paused(&self, place: Place, pause: Pause) {
        if let Some(cohort) = self.cohort(place.cohort) {
            cohort.paused(place.place, pause);
        }
    }

    fn left(&self, place: Place) {
        if let Some(cohort) = self.cohort(place.cohort) {
            cohort.left(place.place);
        }
    }

    fn ended(&self, uid: QueryUid) {
        if let Some(together) = self.cohorts.write().remove(&uid) {
            together.cohort.dropped();
        }
    }

    fn answered_before(&self, uid: QueryUid, place: Option<Place>, close: EventTime) {
        let id = FiringId::at(close.0);
        match place {
            Some(place) => {
                if let Some(cohort) = self.cohort(place.cohort) {
                    cohort.answered_before(place.place, id);
                }
            }
            None => {
                if let Some(query) = self.query(uid) {
                    query.hub.lock().note_gone(id);
                }
            }
        }
    }

    fn fire(self: Arc<Self>, job: FiringJob) {
        self.take_due(job);
    }

    fn delivered(&self, key: FiringKey, sn: Sn) {
        let id = FiringId::of(&key, sn);
        if let Some(cohort) = self.cohort(key.query) {
            cohort.note_gone(id);
        } else if let Some(query) = self.query(key.query) {
            query.hub.lock().note_gone(id);
        }
    }

    fn passed(&self, uid: QueryUid, last: EventTime, count: u64) {
        if let Some(cohort) = self.cohort(uid) {
            cohort.passed(last, count);
        }
        if let Some(query) = self.query(uid) {
            query.tally.lock().passed(last.0, count);
        }
    }

    fn stable(&self, _sn: Sn, now_ms: i64) {
        self.stable_ms.fetch_max(now_ms, Ordering::Relaxed);
    }

    fn failed(&self, error: &RuntimeError) {
        tracing::error!("nothing new becomes visible any more: {error}");
    }
}

impl Standing {
    /// Gives out the answers whose turn it is, one after the other.
    fn give_out(&self, query: &StandingQuery) {
        while let Some(Left { key, answered }) = query.turns.order.next() {
            let id = answered.as_ref().map(|(result, _)| result.id());
            let compared =
                answered.and_then(|(result, repeated)| query.turns.compare(result, repeated));
            let Some((result, is_reported)) = compared else {
                if let Some(id) = id {
                    query.hub.lock().note_gone(id);
                }
                self.tell(query, key, None);
                continue;
            };
            let result = Arc::new(result);
            // Who has been given it finds it counted: both ask the hub.
            let mut hub = query.hub.lock();
            if is_reported {
                hub.deliver(&result);
            }
            query.count(&result);
            drop(hub);
            self.tell(query, key, Some(&result));
        }
    }

    /// Tells the driver of a firing that has been answered; in order, because one thread at a time gives out answers.
    fn tell(&self, query: &StandingQuery, key: FiringKey, result: Option<&FiringResult>) {
        let Some(answered) = self.answered.get() else {
            return;
        };
        if !query.derives {
            answered.tell(key);
            return;
        }
        let answer = result.map(|result| result.answer.as_ref());
        if key.revision > 0 && matches!(answer, Some(Err(_))) {
            // No answer is not an empty one: what was derived before would be lost.
            answered.tell_derived(key, Derives::Unchanged);
            return;
        }
        let answer = answer.and_then(Result::ok);
        let triples = answer.into_iter().flat_map(Answer::triples);
        let statements = triples.map(|triple| triple.in_graph(GraphName::DefaultGraph));
        let quads = answer.into_iter().flat_map(Answer::quads).cloned();
        let mut statements: Vec<Quad> = statements.chain(quads).collect();
        // A window of a number of statements may begin between them: their order must not hang on that of ids (S6).
        statements.sort_by_cached_key(Quad::to_string);
        answered.tell_derived(key, Derives::Statements(statements));
    }

    fn execute(&self, query: &StandingQuery, job: FiringJob, ticket: u64) {
        let (firing, answer, took) = firing::execute(self, job, |work| {
            let ready = query.prepared.as_ref().map_err(Clone::clone)?;
            let (mut view, execution) = work.over(&ready.dataset, &query.dropped);
            let one = One(&ready.prepared, &[]);
            let answer = ready.delta.execute(&one, &mut view, &execution);
            let answer = answer.map_err(firing::sentence)?;
            Ok(Answer::new(answer, self.decoder()))
        });
        let of = (firing.query, query.name.as_str());
        let result = FiringResult::new(&firing, took, of, answer);
        let left = Left {
            key: firing.key(),
            answered: Some((result, firing.repeated)),
        };
        if query.turns.order.leave(ticket, left) {
            self.give_out(query);
        }
    }
}

/// What a standing query says about itself.
pub(crate) struct Summary {
    pub(crate) firings: u64,
    pub(crate) rows: u64,
    pub(crate) skipped: u64,
    pub(crate) last_close_ms: Option<i64>,
    pub(crate) last_error: Option<String>,
    pub(crate) execution: [Duration; 2],
    pub(crate) delay: [Duration; 2],
    pub(crate) waiting: [Duration; 2],
    pub(crate) subscribers: usize,
}

impl StandingQuery {
    fn count(&self, result: &FiringResult) {
        let took = Took {
            execution: result.execution,
            delay: result.delay,
            waiting: result.waiting,
        };
        let mut tally = self.tally.lock();
        tally.fired(result.close_ms, took, result.answer.as_ref().err().cloned());
        tally.executions += 1;
        if let Ok(answer) = &result.answer {
            tally.rows += answer.len() as u64;
            tally.nonempty += u64::from(!answer.is_empty());
        }
    }

    /// A reader of its answers; the uid is its own.
    pub(crate) fn subscribe(&self, uid: QueryUid, options: &SubscribeOptions) -> Subscription {
        self.hub.lock().subscribe(uid, options)
    }

    pub(crate) fn summary(&self) -> Summary {
        let subscribers = self.hub.lock().subscribers();
        let tally = self.tally.lock();
        let [execution, delay, waiting] = tally.timings.quantiles();
        Summary {
            firings: tally.firings,
            rows: tally.rows,
            skipped: tally.skipped,
            last_close_ms: tally.last_close_ms,
            last_error: tally.last_error.clone(),
            execution,
            delay,
            waiting,
            subscribers,
        }
    }

    pub(crate) fn metrics(&self) -> QueryMetrics {
        let kept_bytes = self.hub.lock().kept_bytes() as u64;
        QueryMetrics {
            kept_bytes,
            ..self.tally.lock().metrics(self.name.clone(), 1)
        }
    }
}
