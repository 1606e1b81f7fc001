//! A driver that says what happens to queries and which firings are due, and nothing else. All that
//! queries find lies in the stored graph; their windows are empty.

use somersault_continuous::{DeltaMode, Registry, Settings, Stopwatch};
use somersault_lang::lift::Shape;
use somersault_lang::{Overload, Parser};
use somersault_model::{
    BatchNumber, EventTime, Limits, Mutation, QuadIds, QueryUid, ShardId, Sn, StreamUid, TermId,
};
use somersault_pool::QueryPool;
use somersault_query::Environment;
use somersault_runtime::{Fired, FiringAcks, FiringJob, Host, HostReport, RuntimeError};
use somersault_store::{ShardBatch, ShardWriter, Snapshot, Store};
use somersault_stream::{
    BatchShape, CohortView, Firing, FiringKey, JoiningMember, MemberId, QueryChange,
    QueryDeclaration, QueryEvent, QueryStatus, WindowBatches,
};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// The cohort of all queries.
pub(crate) const COHORT: QueryUid = QueryUid(1);

pub(crate) struct FakeDriver {
    pub(crate) registry: Arc<Registry>,
    store: Arc<Store>,
    writer: ShardWriter,
    pool: Arc<QueryPool>,
    answered: Receiver<Fired>,
    sn: Sn,
    members: u32,
    view: Arc<CohortView>,
    environment: Arc<Environment>,
    /// Every SN stays readable.
    pins: Vec<Snapshot>,
}

fn settings() -> Settings {
    Settings {
        kept_firings: 2,
        delta: DeltaMode::Auto,
        threads: 2,
        stopwatch: Stopwatch::Machine,
    }
}

/// The shape of a text, which may have no constants.
pub(crate) fn shape_of(text: &str) -> (Shape, Vec<String>) {
    Shape::of(text).unwrap_or_else(|| (Shape::whole(text), Vec::new()))
}

/// A registry without queries, and the firings that it acknowledges.
fn start(
    environment: &Arc<Environment>,
    store: &Arc<Store>,
    pool: &Arc<QueryPool>,
) -> (Arc<Registry>, Receiver<Fired>) {
    let registry = Registry::new(
        Arc::clone(environment),
        Arc::clone(store),
        Arc::clone(pool),
        settings(),
    );
    let registry = Arc::new(registry);
    let (sender, answered) = channel();
    registry.attach(FiringAcks::new(move |report| {
        if let HostReport::Fired(fired) = report {
            let _ = sender.send(fired);
        }
    }));
    (registry, answered)
}

impl FakeDriver {
    /// Another registry takes the place of this one, with the answers of these records.
    pub(crate) fn restart(&mut self, records: &[Vec<u8>]) -> Result<(), RuntimeError> {
        let (registry, answered) = start(&self.environment, &self.store, &self.pool);
        registry.restore(&mut records.iter().cloned().map(Ok))?;
        self.registry.end();
        (self.registry, self.answered) = (registry, answered);
        Ok(())
    }

    pub(crate) fn sn(&self) -> Sn {
        self.sn
    }

    /// Ends an SN without a change of data.
    pub(crate) fn cut(&mut self) {
        self.apply(&[]);
    }

    fn apply(&mut self, mutations: &[Mutation]) {
        self.sn = self.sn.next();
        for batch in ShardBatch::split(mutations, self.store.placement()) {
            self.writer.apply(self.sn, &batch).expect("in order");
        }
        self.store.snapshots().publish_stable(self.sn);
        self.pins.push(self.store.pin_stable());
    }

    pub(crate) fn new() -> FakeDriver {
        let store = Store::new(1);
        let pool = Arc::new(QueryPool::start(2).expect("threads start"));
        let environment = Environment::new(Limits::default(), 4, Arc::clone(pool.workers()), None);
        let environment = Arc::new(environment);
        let (registry, answered) = start(&environment, &store, &pool);
        FakeDriver {
            environment,
            pins: vec![store.pin_stable()],
            writer: store.take_writer(ShardId(0)).expect("the first writer"),
            registry,
            store,
            pool,
            answered,
            sn: Sn::ZERO,
            members: 0,
            view: Arc::new(CohortView::new("q0", 1)),
        }
    }

    /// Stores `<s> <p> <o>` at the next SN.
    pub(crate) fn store(&mut self, [s, p, o]: [&str; 3]) {
        let id = |name: &str| {
            let node = oxrdf::NamedNode::new_unchecked(name);
            self.store.dictionary().intern(node.as_ref().into())
        };
        let quad = QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: id(s),
            predicate: id(p),
            object: id(o),
        };
        self.apply(&[Mutation::insert(quad)]);
    }

    pub(crate) fn tell(&self, change: QueryChange) {
        let cohort = COHORT;
        self.registry.on_query(QueryEvent { cohort, change });
    }

    /// Forms the cohort with a query of this text, which fires after `base_ms`.
    pub(crate) fn form(&mut self, text: &str, base_ms: i64) -> QueryStatus {
        let (shape, _) = shape_of(text);
        self.form_empty(shape, text);
        self.join(text, base_ms)
    }

    /// Forms the cohort, without its members.
    pub(crate) fn form_empty(&self, shape: Shape, text: &str) {
        self.tell(QueryChange::Formed {
            shape: Arc::new(shape),
            text: text.to_owned(),
            namespace: None,
            derives: None,
            overload: Overload::default(),
            view: Arc::clone(&self.view),
        });
    }

    /// Adds a query to the cohort.
    pub(crate) fn join(&mut self, text: &str, base_ms: i64) -> QueryStatus {
        let (shape, words) = shape_of(text);
        let slot = self.members;
        self.members += 1;
        let member = JoiningMember {
            uid: QueryUid(u64::from(slot) + 1),
            slot,
            words: shape.constant_words(&words),
        };
        let uid = member.uid;
        self.tell(QueryChange::Joined {
            base: EventTime(base_ms),
            members: vec![member],
        });
        let query = Parser::new().parse_continuous(text).expect("it parses");
        QueryStatus {
            uid,
            member: MemberId {
                cohort: COHORT,
                slot,
            },
            group: None,
            name: format!("q{slot}"),
            text: text.to_owned(),
            declaration: Arc::new(QueryDeclaration::from(&query)),
            next_close: None,
            last_close: None,
            streams: Vec::new(),
            waiting_for: None,
            firings: 0,
            amended: 0,
            skipped_empty: 0,
            passed_while_paused: 0,
            paused: false,
        }
    }

    /// Lets the cohort fire for a close, and does not wait for the answer.
    pub(crate) fn fire(&self, close_ms: i64) {
        self.fire_at(close_ms, self.sn, self.members);
    }

    /// Lets the first `members` slots of the cohort fire for a close that became due at `sn`.
    pub(crate) fn fire_at(&self, close_ms: i64, sn: Sn, members: u32) {
        let nothing = BatchNumber(0);
        let window = WindowBatches {
            stream: StreamUid(1),
            lo: nothing,
            hi: nothing,
            shape: BatchShape::default(),
            statements: None,
        };
        let firing = Firing {
            query: COHORT,
            members,
            close: EventTime(close_ms),
            ordinal: 0,
            revision: 0,
            repeated: false,
            sn,
            windows: [window].into(),
            changed: None,
            complete_from: None,
        };
        let job = FiringJob::unpaced(firing, self.store.pin(sn).expect("it is pinned"));
        Arc::clone(&self.registry).fire(job);
    }

    /// Returns the next firing that is acknowledged.
    pub(crate) fn answered(&self) -> FiringKey {
        let fired = self.answered.recv_timeout(LONG);
        fired.expect("the firing is acknowledged").key
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        self.registry.end();
        self.pool.stop();
    }
}
