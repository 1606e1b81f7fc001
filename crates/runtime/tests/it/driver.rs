//! The driver, with threads and without: a run without threads is a function of its inputs, a change
//! that is evaluated delays nothing but inputs, and an update delays not even these.

use crossbeam_channel::{Receiver, Sender, bounded};
use oxrdf::{GraphName, NamedNode, Quad};
use parking_lot::Mutex;
use somersault_lang::{Parser, Statement};
use somersault_log::Log;
use somersault_model::{EventTime, Limits, Sn};
use somersault_query::{Effects, Execution, QueryError};
use somersault_runtime::{
    Apply, Change, ChangeJob, CheckpointConfig, Driver, DriverConfig, DriverParts, FiringAcks,
    FiringJob, Host, Injectors, ManualClock, Outcome, PendingInput, Process, RuntimeError,
    SimFabric, TimelyFabric, UpdateJob, UpdateOutcome, UpdateResult,
};
use somersault_store::Store;
use somersault_stream::{
    FiringKey, Input, ParsedQuery, Push, PushHead, PushStatement, QueryDeclaration, QueryEvent,
    StreamLimits,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) const STREAM: &str = "http://x/s";
const SHARDS: u16 = 2;
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Writes down what the driver tells it, and answers firings when it is told to.
#[derive(Default)]
pub(crate) struct Recorder {
    answered: OnceLock<FiringAcks>,
    trace: Mutex<Vec<String>>,
    waiting: Mutex<Vec<FiringKey>>,
}

impl Recorder {
    fn note(&self, what: String) {
        self.trace.lock().push(what);
    }

    /// The firings that it was given, in order.
    pub(crate) fn fired(&self) -> Vec<String> {
        let trace = self.trace.lock();
        let fired = trace.iter().filter(|line| line.starts_with("fire"));
        fired.cloned().collect()
    }

    /// Answers the firings that it was given; how many there were.
    pub(crate) fn answer_all(&self) -> usize {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for key in &waiting {
            self.answered.get().unwrap().tell(*key);
        }
        waiting.len()
    }
}

impl Host for Recorder {
    fn attach(&self, answered: FiringAcks) {
        assert!(self.answered.set(answered).is_ok(), "attached once");
    }

    fn on_query(&self, event: QueryEvent) {
        self.note(format!("{:?}", event.change));
    }

    fn fire(self: Arc<Self>, job: FiringJob) {
        let key = job.firing.key();
        self.note(format!("fire {} at {}", key.close.0, job.firing.sn));
        self.waiting.lock().push(key);
    }

    fn stable(&self, sn: Sn, _now_ms: i64) {
        self.note(format!("stable {sn}"));
    }

    fn failed(&self, error: &RuntimeError) {
        self.note(error.to_string());
    }
}

/// A process of the driver and of a host that answers after every third turn of the driver.
pub(crate) struct WithHost {
    pub(crate) host: Arc<Recorder>,
    pub(crate) turns: Mutex<u64>,
}

impl Process for WithHost {
    fn turn(&self, driver: &dyn Fn() -> bool) -> bool {
        let is_hosts = {
            let mut turns = self.turns.lock();
            *turns += 1;
            turns.is_multiple_of(3)
        };
        if is_hosts && self.host.answer_all() > 0 {
            return true;
        }
        driver() || self.host.answer_all() > 0
    }
}

fn start(host: &Arc<Recorder>, process: Option<Arc<dyn Process>>, seed: u64) -> Arc<Driver> {
    start_with(host.clone(), process, seed, config(), |injectors| injectors)
}

pub(crate) fn config() -> DriverConfig {
    DriverConfig {
        read_only: false,
        freshness: Duration::from_millis(20),
        kept_firings: 16,
        pin_time: LONG,
        superseded_bytes: u64::MAX,
        inbox: 16,
        inflight_bytes: 1 << 20,
        inflight_patience: LONG,
        limits: StreamLimits::default(),
        portion: 1,
        closes_patience: Duration::from_millis(100),
        checkpoints: CheckpointConfig::default(),
    }
}

/// Starts a driver whose shards apply what `apply` makes of the injectors.
pub(crate) fn start_with(
    host: Arc<dyn Host>,
    process: Option<Arc<dyn Process>>,
    seed: u64,
    config: DriverConfig,
    apply: impl FnOnce(Arc<dyn Apply>) -> Arc<dyn Apply>,
) -> Arc<Driver> {
    let store = Store::new(SHARDS);
    let injectors = apply(Arc::new(Injectors::new(&store).unwrap()));
    start_on(store, injectors, host, process, seed, config)
}

/// Starts a driver on a store, whose shards apply what they are given to `injectors`.
pub(crate) fn start_on(
    store: Arc<Store>,
    injectors: Arc<dyn Apply>,
    host: Arc<dyn Host>,
    process: Option<Arc<dyn Process>>,
    seed: u64,
    config: DriverConfig,
) -> Arc<Driver> {
    let is_simulated = process.is_some();
    let parts = DriverParts {
        config,
        store,
        log: Arc::new(Log::volatile()),
        recovered: None,
        restored: None,
        checkpoints: None,
        host,
        clock: Arc::new(ManualClock),
        execution: Execution::new(Limits::default(), EventTime(0)),
        process,
    };
    let driver = Driver::start(parts, |on_applied| match is_simulated {
        true => Ok(Box::new(SimFabric::start(
            SHARDS,
            Sn::ZERO,
            seed,
            injectors,
            on_applied,
        ))),
        false => {
            let fabric = TimelyFabric::start(SHARDS, Sn::ZERO, injectors, on_applied)?;
            Ok(Box::new(fabric))
        }
    });
    driver.unwrap()
}

pub(crate) fn create_stream(driver: &Driver) {
    declare(
        driver,
        &format!("CREATE STREAM <{STREAM}> BATCH 1s IDLE NEVER"),
    );
}

/// Creates the stream that this text declares.
pub(crate) fn declare(driver: &Driver, text: &str) {
    let Statement::CreateStream(declaration) = Parser::new().parse_statement(text).unwrap() else {
        panic!("{text}")
    };
    let created = driver.log_input(Input::CreateStream {
        received_ms: 0,
        declaration,
        namespace: None,
    });
    assert!(matches!(created.unwrap().outcome, Outcome::Command(_)));
}

pub(crate) fn register(driver: &Driver, name: &str) {
    let text = format!(
        "SELECT ?s FROM STREAM <{STREAM}> [RANGE 2s STEP 1s] WHERE {{ ?s <http://x/{name}> ?o }}"
    );
    let query = Parser::new().parse_continuous(&text).unwrap();
    let registered = driver.log_input(Input::RegisterQuery {
        received_ms: 0,
        name: name.to_owned(),
        query: ParsedQuery::of(&text, QueryDeclaration::from(&query)),
        text,
        namespace: None,
        replaces: false,
    });
    assert!(matches!(registered.unwrap().outcome, Outcome::Command(_)));
}

pub(crate) fn quad(number: i64) -> Quad {
    let node = |name: String| NamedNode::new(name).unwrap();
    Quad::new(
        node(format!("http://x/{number}")),
        node("http://x/p".to_owned()),
        node("http://x/o".to_owned()),
        GraphName::DefaultGraph,
    )
}

pub(crate) fn hand_in(driver: &Driver, at_ms: i64) -> PendingInput {
    let push = Push {
        stream: STREAM.to_owned(),
        source: String::new(),
        seq: None,
        received_ms: 0,
        statements: vec![PushStatement {
            at: Some(EventTime(at_ms)),
            quad: quad(at_ms),
        }],
    };
    driver.hand_in(Input::Push(push)).unwrap()
}

pub(crate) fn inserts(number: i64) -> Change {
    Change::Effects(Effects {
        inserts: vec![quad(number)],
        ..Effects::default()
    })
}

/// Everything that a driver without threads tells its host in a run, and the number of inputs that
/// had to wait for room.
pub(crate) fn run_without_threads(seed: u64, inflight_bytes: u64) -> (Vec<String>, u64) {
    let host = Arc::new(Recorder::default());
    let process = Arc::new(WithHost {
        host: Arc::clone(&host),
        turns: Mutex::new(0),
    });
    let config = DriverConfig {
        inflight_bytes,
        ..config()
    };
    let driver = start_with(host.clone(), Some(process), seed, config, |injectors| {
        injectors
    });
    create_stream(&driver);
    ["p", "q"].iter().for_each(|name| register(&driver, name));
    for second in 0..20 {
        let pushed = [10, 20].map(|ms| hand_in(&driver, second * 1000 + ms));
        pushed
            .into_iter()
            .for_each(|push| drop(push.wait().unwrap()));
        if second % 4 == 0 {
            let job: ChangeJob = Box::new(move |_| Some(inserts(second)));
            let result = driver.change(job, 0).unwrap();
            assert_eq!(result.sn, result.evaluated_at.next(), "S15");
        }
        assert_eq!(driver.query_count(), 2);
        assert_eq!(driver.queries().len(), 2);
        driver.check().unwrap();
    }
    driver.quiesce(LONG).unwrap();
    assert_eq!(driver.status().outstanding, 0);
    driver.check().unwrap();
    driver.stop(LONG);
    assert_eq!(driver.streams().len(), 1, "it is read after its end, too");
    let refused = driver.log_input(Input::DropStream {
        received_ms: 0,
        iri: STREAM.to_owned(),
    });
    assert!(matches!(refused, Err(RuntimeError::Stopped)));
    let waits = driver.status().inflight_waits;
    (std::mem::take(&mut *host.trace.lock()), waits)
}

#[test]
fn a_run_without_threads_repeats_itself() {
    // With room for all inputs, and for one at a time.
    for (inflight_bytes, some_wait) in [(1 << 20, false), (1, true)] {
        let (trace, waits) = run_without_threads(7, inflight_bytes);
        let fired = trace.iter().filter(|line| line.starts_with("fire"));
        assert_eq!(fired.count(), 2 * 19);
        assert_eq!(waits > 0, some_wait, "{waits}");
        assert_eq!((trace, waits), run_without_threads(7, inflight_bytes));
    }
}

#[test]
fn a_request_that_nothing_answers_is_an_error_and_no_endless_wait() {
    struct Stuck;
    impl Process for Stuck {
        fn turn(&self, driver: &dyn Fn() -> bool) -> bool {
            driver()
        }
    }
    let host = Arc::new(Recorder::default());
    let driver = start(&host, Some(Arc::new(Stuck)), 1);
    create_stream(&driver);
    register(&driver, "p");
    hand_in(&driver, 10).wait().unwrap();
    hand_in(&driver, 1010).wait().unwrap();
    // The host answers no firing.
    let timeout = driver.quiesce(LONG).unwrap_err();
    assert!(matches!(timeout, RuntimeError::Timeout { .. }), "{timeout}");
    assert_eq!(host.answer_all(), 1);
    driver.quiesce(LONG).unwrap();
}

#[test]
fn a_late_checkpoint_of_a_shutdown_says_what_follows_and_how_to_wait_longer() {
    #[derive(Default)]
    struct Sleeper(AtomicBool);
    impl Process for Sleeper {
        fn turn(&self, driver: &dyn Fn() -> bool) -> bool {
            !self.0.load(Ordering::Relaxed) && driver()
        }
    }
    let sleeper = Arc::new(Sleeper::default());
    let host = Arc::new(Recorder::default());
    let driver = start(&host, Some(sleeper.clone()), 1);
    sleeper.0.store(true, Ordering::Relaxed);
    let said = driver
        .last_checkpoint(Duration::from_millis(30))
        .unwrap_err()
        .to_string();
    for part in [
        "30 ms",
        "the next start replays",
        "`CheckpointConfig::at_shutdown`",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("list of queries"), "{said}");
}

/// A job that says that it runs, and goes on when it is let.
fn held_job() -> (ChangeJob, Receiver<()>, Sender<()>) {
    let (begun, has_begun) = bounded(1);
    let (go_on, may_go_on) = bounded::<()>(1);
    let job: ChangeJob = Box::new(move |_| {
        begun.send(()).unwrap();
        may_go_on.recv().unwrap();
        Some(inserts(1))
    });
    (job, has_begun, go_on)
}

#[test]
fn a_change_under_evaluation_delays_no_acknowledgement_no_firing_and_no_read() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    create_stream(&driver);
    register(&driver, "p");
    hand_in(&driver, 10).wait().unwrap();
    let before = hand_in(&driver, 1010);
    let (job, has_begun, go_on) = held_job();
    std::thread::scope(|scope| {
        let update = scope.spawn(|| driver.change(job, 0).unwrap());
        has_begun.recv_timeout(LONG).unwrap();
        before.wait().unwrap();
        // Reads, and the answer to a firing that is due.
        assert_eq!(driver.streams()[0].statements, 2);
        assert_eq!(driver.query("p").unwrap().firings, 1);
        assert_eq!(driver.status().outstanding, 1);
        assert_eq!(host.answer_all(), 1);
        while driver.status().outstanding > 0 {
            std::thread::yield_now();
        }
        // An input comes after the change, as its effects are the next SN (S15).
        let after = hand_in(&driver, 2010);
        assert_eq!(driver.streams()[0].statements, 2);
        go_on.send(()).unwrap();
        let result = update.join().unwrap();
        assert_eq!(result.sn, result.evaluated_at.next());
        after.wait().unwrap();
        assert_eq!(driver.streams()[0].statements, 3);
    });
    while host.answer_all() == 0 {
        std::thread::yield_now();
    }
    driver.quiesce(LONG).unwrap();
    driver.check().unwrap();
}

#[test]
fn a_change_whose_job_panics_is_refused_and_the_driver_goes_on() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    let refused = driver.change(Box::new(|_| panic!("planted")), 0);
    assert!(matches!(refused, Err(RuntimeError::Internal(_))));
    let result = driver.change(Box::new(|_| Some(inserts(1))), 0).unwrap();
    assert_eq!(result.inserted, 1);
    assert_eq!(result.sn, result.evaluated_at.next());
}

/// The job of an update that inserts one statement.
fn insert(number: i64) -> UpdateJob {
    let text = format!("INSERT DATA {{ <http://x/{number}> <http://x/p> <http://x/o> }}");
    let update = Parser::new().parse_update(&text).unwrap();
    Box::new(move |txn, key| {
        txn.enter_update(key, EventTime(0));
        txn.update(&update, None)
    })
}

fn limits() -> Execution {
    Execution::new(Limits::default(), EventTime(0))
}

fn done(outcome: UpdateOutcome) -> UpdateResult {
    match outcome {
        UpdateOutcome::Done(result) => result,
        UpdateOutcome::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn an_update_under_evaluation_delays_no_input_no_close_and_no_firing() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    create_stream(&driver);
    register(&driver, "p");
    hand_in(&driver, 10).wait().unwrap();
    let (begun, has_begun) = bounded(9);
    let (go_on, may_go_on) = bounded::<()>(1);
    let inserts = insert(1);
    let job: UpdateJob = Box::new(move |txn, key| {
        begun.send(()).unwrap();
        may_go_on.recv_timeout(LONG).unwrap();
        inserts(txn, key)
    });
    std::thread::scope(|scope| {
        let update = scope.spawn(|| done(driver.update(job, limits()).unwrap()));
        has_begun.recv_timeout(LONG).unwrap();
        for second in 1..5 {
            hand_in(&driver, second * 1000 + 10).wait().unwrap();
            while host.answer_all() == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(driver.query("p").unwrap().firings, 4);
        go_on.send(()).unwrap();
        assert_eq!(update.join().unwrap().inserted, 1);
    });
    assert!(
        has_begun.is_empty(),
        "closes of such streams are not foreign"
    );
    driver.quiesce(LONG).unwrap();
    driver.check().unwrap();
}

#[test]
fn an_update_that_panics_or_fails_is_refused_and_the_lane_goes_on() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    let plant = insert(2);
    let panics: UpdateJob = Box::new(move |txn, key| {
        plant(txn, key)?;
        panic!("planted")
    });
    let refused = driver.update(panics, limits());
    assert!(matches!(refused, Err(RuntimeError::Internal(_))));
    let plant = insert(2);
    let fails: UpdateJob = Box::new(move |txn, key| {
        plant(txn, key)?;
        Err(QueryError::TableRows)
    });
    let failed = driver.update(fails, limits()).unwrap();
    assert!(matches!(
        failed,
        UpdateOutcome::Failed(QueryError::TableRows)
    ));
    let twice = [insert(2), insert(2)].map(|job| done(driver.update(job, limits()).unwrap()));
    // Nothing of those before has stayed.
    assert_eq!(twice.map(|result| result.inserted), [1, 0]);
    driver.check().unwrap();
}

/// An update that each foreign cut overtakes has its turn: after two runs nothing is cut.
#[test]
fn an_update_that_is_overtaken_has_its_turn() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    let (begun, has_begun) = bounded(9);
    let inserts = insert(1);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let (go_on, may_go_on) = bounded::<()>(9);
    let job: UpdateJob = Box::new(move |txn, key| {
        if counted.fetch_add(1, Ordering::SeqCst) < 2 {
            begun.send(()).unwrap();
            may_go_on.recv_timeout(LONG).unwrap();
        }
        inserts(txn, key)
    });
    std::thread::scope(|scope| {
        let update = scope.spawn(|| done(driver.update(job, limits()).unwrap()));
        for number in 2..4 {
            has_begun.recv_timeout(LONG).unwrap();
            let change: ChangeJob = Box::new(move |_| Some(self::inserts(number)));
            driver.change(change, 0).unwrap();
            go_on.send(()).unwrap();
        }
        assert_eq!(update.join().unwrap().inserted, 1);
    });
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    driver.check().unwrap();
}

/// A host that panics at the first stable SN after it is told to.
#[derive(Default)]
struct Fragile(AtomicBool);

impl Host for Fragile {
    fn attach(&self, _answered: FiringAcks) {}

    fn on_query(&self, _event: QueryEvent) {}

    fn fire(self: Arc<Self>, _job: FiringJob) {}

    fn stable(&self, _sn: Sn, _now_ms: i64) {
        assert!(!self.0.load(Ordering::SeqCst), "planted");
    }

    fn failed(&self, _error: &RuntimeError) {}
}

#[test]
fn a_sequencer_that_panics_leaves_no_caller_without_an_answer() {
    let host = Arc::new(Fragile::default());
    let driver = start_with(host.clone(), None, 0, config(), |injectors| injectors);
    create_stream(&driver);
    host.0.store(true, Ordering::SeqCst);
    let cut = driver.change(Box::new(|_| Some(inserts(1))), 0);
    assert!(cut.is_err());
    while driver.failure().is_none() {
        std::thread::yield_now();
    }
    for refused in [
        driver.change(Box::new(|_| Some(inserts(2))), 0).map(drop),
        push(&driver, 10).map(drop),
        driver.quiesce(LONG),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("the sequencer panicked; restart"),
            "{refused}"
        );
    }
    assert_eq!(driver.streams().len(), 1, "it can still be read");
}

/// Pushes a statement as the engine does: it is judged on this thread first.
fn push(driver: &Driver, at_ms: i64) -> Result<Outcome, RuntimeError> {
    let head = PushHead {
        stream: STREAM.to_owned(),
        source: String::new(),
        seq: None,
    };
    let quad = quad(at_ms);
    let times = [Some(EventTime(at_ms))];
    let pushed = driver.push(head, times.into_iter(), [quad.as_ref()].into_iter());
    pushed.map(|receipt| receipt.outcome)
}

#[test]
fn a_push_after_an_acknowledged_command_is_judged_by_the_stream_that_there_is() {
    let host = Arc::new(Recorder::default());
    let driver = start(&host, None, 0);
    let iri = || STREAM.to_owned();
    let unknown = push(&driver, 10).unwrap_err();
    assert!(unknown.to_string().contains(STREAM), "{unknown}");
    create_stream(&driver);
    for _ in 0..2_000 {
        push(&driver, 1_000_000).unwrap();
        let reset = driver.log_input(Input::ResetStream {
            received_ms: 0,
            iri: iri(),
        });
        reset.unwrap();
        // By the stream's life before, it would be late.
        push(&driver, 10).unwrap();
    }
    let dropped = driver.log_input(Input::DropStream {
        received_ms: 0,
        iri: iri(),
    });
    dropped.unwrap();
    push(&driver, 20).unwrap_err();
}
