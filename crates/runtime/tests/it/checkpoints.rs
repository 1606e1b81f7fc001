//! A process that begins from a checkpoint goes on as one that never ended: the stored graph, the
//! windows of its firings, its streams and its queries are those of a run without the crash (RC-1).
//!
//! The one thing to know: firings are compared by their content, and as a set. After a restart the
//! newest ones are executed again under the same key.

use crate::driver::config;
use oxrdf::{GraphName, NamedNode, Quad, Term};
use parking_lot::Mutex;
use somersault_checkpoint::{Manifest, VerifyDepth, whole_checkpoints};
use somersault_disk::{CrashKeep, SimDisk};
use somersault_lang::{Parser, Statement};
use somersault_log::{CommitMode, Log, LogError, LogOptions, Position};
use somersault_model::{Direction, EventTime, Limits, QueryUid, SeededRandom, Sn, TermId};
use somersault_query::{Effects, Execution};
use somersault_runtime::{
    Change, CheckpointRuns, CheckpointWriter, DerivedOutput, Driver, DriverParts, Fabric,
    FiringAcks, FiringJob, Host, Injectors, ManualClock, Pending, Process, Restored, RuntimeError,
    SimFabric, TimelyFabric, intern_quad_with, restore_checkpoint,
};
use somersault_store::{Pace, Store};
use somersault_stream::{
    FiringKey, Input, ParsedQuery, Push, PushStatement, QueryChange, QueryDeclaration, QueryEvent,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// The streams, and how each is declared: one keeps everything, one takes late statements, and one
/// absorbs nothing, so that its terms pass.
const STREAMS: [(&str, &str); 3] = [
    ("http://x/kept", "BATCH 1s IDLE NEVER"),
    (
        "http://x/late",
        "BATCH 1s LATENESS 0s LATE AMEND WITHIN 1h IDLE NEVER",
    ),
    (
        "http://x/passing",
        "TIMING (<http://x/p>) BATCH 500ms IDLE NEVER KEEP 2s",
    ),
];

/// Answers every firing at its turn, and writes down its windows.
#[derive(Default)]
struct Windows {
    store: OnceLock<Arc<Store>>,
    answered: OnceLock<FiringAcks>,
    seen: Mutex<BTreeSet<String>>,
    waiting: Mutex<Vec<FiringKey>>,
    deriving: Mutex<BTreeSet<QueryUid>>,
    /// A query whose firings are not answered.
    held: Mutex<Option<QueryUid>>,
    /// Where no process gives it turns.
    answers_at_once: AtomicBool,
}

impl Windows {
    fn answer_all(&self) -> bool {
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        let held = *self.held.lock();
        let held = waiting.extract_if(.., |key| Some(key.query) == held);
        self.waiting.lock().extend(held.collect::<Vec<_>>());
        for key in &waiting {
            let answered = self.answered.get().unwrap();
            match self.deriving.lock().contains(&key.query) {
                true => {
                    let derived = vec![quad("d", key.close.0 / 1000)];
                    answered.tell_derived(*key, DerivedOutput::Statements(derived));
                }
                false => answered.tell(*key),
            }
        }
        !waiting.is_empty()
    }
}

impl Host for Windows {
    fn attach(&self, answered: FiringAcks) {
        assert!(self.answered.set(answered).is_ok(), "attached once");
    }

    fn on_query(&self, event: QueryEvent) {
        if let QueryChange::Formed { derives, .. } = &event.change
            && derives.is_some()
        {
            self.deriving.lock().insert(event.cohort);
        }
    }

    fn fire(self: Arc<Self>, job: FiringJob) {
        let store = self.store.get().unwrap();
        let key = job.firing.key();
        let mut seen = format!("{:?} {} {}", key.query, key.close, key.revision);
        for window in job.windows(store) {
            let mut statements = BTreeSet::new();
            for predicate in window.predicates() {
                let (mut from, mut to) = (Vec::new(), Vec::new());
                let mut look = |_: usize| ControlFlow::Continue(());
                let mut pace = Pace::new(0, usize::MAX, &mut look);
                window.edges(predicate, Direction::Out, &mut pace, &mut from, &mut to);
                let ids = from.into_iter().zip(to);
                statements.extend(ids.map(|(from, to)| text_of(store, [from, predicate, to])));
            }
            seen += &format!(" {statements:?}");
        }
        self.seen.lock().insert(seen);
        self.waiting.lock().push(key);
        if self.answers_at_once.load(Ordering::Relaxed) {
            self.answer_all();
        }
    }

    fn stable(&self, _sn: Sn, _now_ms: i64) {}

    /// The caller whose request fails says so.
    fn failed(&self, _error: &RuntimeError) {}
}

fn text_of<const N: usize>(store: &Store, ids: [TermId; N]) -> String {
    let text = |id| {
        store
            .dictionary()
            .decode(id)
            .map(|term: Term| term.to_string())
    };
    let texts = ids.map(|id| match id {
        TermId::DEFAULT_GRAPH => "default".to_owned(),
        id => text(id).unwrap_or_else(|| panic!("{id:?} is not known")),
    });
    texts.join(" ")
}

/// A process of the driver, its log and its host.
struct Parts {
    host: Arc<Windows>,
    log: Arc<Log>,
    turns: Mutex<u64>,
    /// The host answers, and the log commits, at one of this many turns, or when nothing else is to
    /// be done.
    pace: u64,
}

impl Process for Parts {
    fn turn(&self, driver: &dyn Fn() -> bool) -> bool {
        let turn = {
            let mut turns = self.turns.lock();
            *turns += 1;
            *turns
        };
        if turn.is_multiple_of(self.pace) && self.host.answer_all() {
            return true;
        }
        if turn % self.pace == 1 && self.log.commit() {
            return true;
        }
        driver() || self.log.commit() || self.host.answer_all()
    }
}

/// A running engine over a disk.
struct Running {
    disk: SimDisk,
    store: Arc<Store>,
    log: Arc<Log>,
    host: Arc<Windows>,
    driver: Arc<Driver>,
}

#[derive(Clone, Copy, PartialEq)]
enum Threads {
    /// One thread; the host and the log have a turn of this many.
    Simulated(u64),
    Real,
}

/// Opens the log behind the newest checkpoint of `log`, if there is one.
fn open(
    disk: &SimDisk,
    identity: Option<[u8; 16]>,
    shards: u16,
    threads: Threads,
) -> Result<Running, LogError> {
    let manifest = identity.and_then(|log| {
        let found = whole_checkpoints(disk, log, VerifyDepth::Bytes, 1).unwrap();
        found.whole.into_iter().next()
    });
    let behind = manifest.as_ref().map(|it| (it, Position(it.position())));
    open_behind(disk, behind, shards, threads)
}

fn open_behind(
    disk: &SimDisk,
    behind: Option<(&Manifest, Position)>,
    shards: u16,
    threads: Threads,
) -> Result<Running, LogError> {
    let commits = match threads {
        Threads::Simulated(_) => CommitMode::Callers,
        Threads::Real => CommitMode::Thread,
    };
    let options = LogOptions {
        commits,
        segment_bytes: 4096,
        ..LogOptions::default()
    };
    let position = behind.map_or(Position::START, |(_, position)| position);
    let (log, recovered) = Log::open_after(Arc::new(disk.clone()), options, position)?;
    let (store, restored, runs) = match behind {
        None => (Store::new(shards), None, CheckpointRuns::default()),
        Some((manifest, _)) => {
            let empty = |dictionary| Store::with_dictionary(shards, dictionary);
            let restored = restore_checkpoint(disk, manifest, empty, 1).unwrap();
            let Restored {
                store, state, runs, ..
            } = restored;
            (store, Some(state), runs)
        }
    };
    let log = Arc::new(log);
    let host = Arc::new(Windows::default());
    host.store.set(Arc::clone(&store)).ok().unwrap();
    let (at_once, pace) = match threads {
        Threads::Simulated(pace) => (false, pace),
        Threads::Real => (true, 1),
    };
    host.answers_at_once.store(at_once, Ordering::Relaxed);
    let injectors = Arc::new(Injectors::new(&store).unwrap());
    let process = Parts {
        host: Arc::clone(&host),
        log: Arc::clone(&log),
        turns: Mutex::new(0),
        pace,
    };
    let process = (!at_once).then(|| Arc::new(process) as Arc<dyn Process>);
    let stable = store.snapshots().stable();
    let is_simulated = process.is_some();
    let parts = DriverParts {
        config: config(),
        store: Arc::clone(&store),
        log: Arc::clone(&log),
        recovered: Some(recovered),
        restored,
        checkpoints: CheckpointWriter::new(Arc::new(disk.clone()), &log, runs),
        host: host.clone(),
        clock: Arc::new(ManualClock),
        execution: Execution::new(Limits::default(), EventTime(0)),
        process,
    };
    let driver = Driver::start(parts, |on_applied| {
        let fabric: Box<dyn Fabric> = match is_simulated {
            true => Box::new(SimFabric::start(shards, stable, 7, injectors, on_applied)),
            false => Box::new(TimelyFabric::start(shards, stable, injectors, on_applied)?),
        };
        Ok(fabric)
    });
    Ok(Running {
        disk: disk.clone(),
        store,
        log,
        host,
        driver: driver.unwrap(),
    })
}

/// Something that a run does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Pushes statements of a stream from this time on, and waits until they are durable, or
    /// stable.
    Push(usize, i64, bool),
    Insert(u64),
    Delete(u64),
    Load(u64),
    Register(usize),
    Drop(usize),
    Reset(usize),
}

fn steps(random: &mut SeededRandom) -> Vec<Step> {
    let mut steps = vec![Step::Register(0), Step::Register(1), Step::Register(2)];
    for at in 0..40 {
        let number = random.below(20);
        let stream = random.below(3) as usize;
        let query = random.below(5) as usize;
        steps.push(match random.below(14) {
            0 => Step::Insert(number),
            1 => Step::Delete(number),
            2 => Step::Load(number),
            3 => Step::Register(query),
            4 => Step::Drop(query),
            5 if number < 5 => Step::Reset(stream),
            6 => Step::Push(1, (at * 300 - 2_500).max(0), true),
            drawn => Step::Push(stream, at * 300, drawn == 7),
        });
    }
    steps
}

fn quad(subject: &str, number: i64) -> Quad {
    let node = |name: String| NamedNode::new(name).unwrap();
    Quad::new(
        node(format!("http://x/{subject}{number}")),
        node(format!("http://x/{}", ["p", "q"][(number % 2) as usize])),
        node(format!("http://x/o{}", number % 7)),
        GraphName::DefaultGraph,
    )
}

impl Running {
    fn declare(&self) {
        for (iri, how) in STREAMS {
            let text = format!("CREATE STREAM <{iri}> {how}");
            let Statement::CreateStream(declaration) =
                Parser::new().parse_statement(&text).unwrap()
            else {
                panic!("{text}")
            };
            let created = self.driver.log_input(Input::CreateStream {
                received_ms: 0,
                declaration,
                namespace: None,
            });
            created.unwrap();
        }
    }

    fn take(&self, step: Step) {
        match step {
            Step::Push(stream, at, is_stable) => self.push(stream, at, is_stable),
            Step::Insert(number) => self.update(number, |quads| Effects {
                inserts: quads,
                ..Effects::default()
            }),
            Step::Delete(number) => self.update(number, |quads| Effects {
                deletes: quads,
                ..Effects::default()
            }),
            Step::Load(number) => self.load(number),
            Step::Register(number) => self.register(number),
            Step::Drop(number) => {
                let dropped = self.driver.log_input(Input::DropQuery {
                    received_ms: 0,
                    name: format!("q{number}"),
                });
                assert!(refused_or(dropped));
            }
            Step::Reset(stream) => {
                let reset = self.driver.log_input(Input::ResetStream {
                    received_ms: 0,
                    iri: STREAMS[stream].0.to_owned(),
                });
                assert!(refused_or(reset));
            }
        }
    }

    fn push(&self, stream: usize, at: i64, is_stable: bool) {
        let statements = (0..6).map(|number| PushStatement {
            at: Some(EventTime(at + number * 40)),
            quad: quad(["k", "l", "t"][stream], at + number),
        });
        let push = Input::Push(Push {
            stream: STREAMS[stream].0.to_owned(),
            source: String::new(),
            seq: None,
            received_ms: 0,
            statements: statements.collect(),
        });
        let taken = match is_stable {
            true => self.driver.apply_input(push),
            false => self.driver.log_input(push),
        };
        // A statement before the time of a stream that takes no late ones is refused.
        assert!(refused_or(taken));
    }

    fn update(&self, number: u64, effects: impl FnOnce(Vec<Quad>) -> Effects) {
        let quads = (0..3).map(|more| quad("u", (number + more) as i64));
        let change = Change::Effects(effects(quads.collect()));
        (self.driver.change(Box::new(move |_| Some(change)), 0)).unwrap();
    }

    fn load(&self, number: u64) {
        let mut writer = self.log.load_segment().unwrap();
        let quads: Vec<Quad> = (0..50)
            .map(|more| quad("loaded", (number * 40 + more) as i64))
            .collect();
        quads.iter().for_each(|quad| writer.write(quad).unwrap());
        let dictionary = self.store.dictionary();
        let ids = |quad: &Quad| intern_quad_with(quad.as_ref(), |term| dictionary.intern(term));
        let statements: Vec<_> = quads.iter().map(ids).collect();
        let segment = writer.finish().unwrap();
        self.driver.load(segment, statements.into()).unwrap();
    }

    fn register(&self, number: usize) {
        let from = STREAMS[number % 3].0;
        let text = match number {
            4 => format!(
                "REGISTER STREAM <http://x/d> AS CONSTRUCT {{ ?s ?p ?o }} FROM STREAM <{from}> \
                 [RANGE 2s STEP 1s] WHERE {{ ?s ?p ?o }}"
            ),
            3 => format!(
                "SELECT ?s FROM STREAM <{from}> [RANGE TRIPLES 7 STEP 2] WHERE {{ ?s ?p ?o }}"
            ),
            _ => format!(
                "SELECT ?s FROM STREAM <{from}> [RANGE {}s STEP 1s] WHERE {{ ?s ?p ?o }}",
                number + 1
            ),
        };
        let query = Parser::new().parse_continuous(&text).unwrap();
        let registered = self.driver.log_input(Input::RegisterQuery {
            received_ms: 0,
            name: format!("q{number}"),
            query: ParsedQuery::of(&text, QueryDeclaration::from(&query)),
            text,
            namespace: None,
            replaces: false,
        });
        assert!(refused_or(registered));
    }

    /// Everything that a run shows in the end, with the terms as texts.
    fn shown(&self) -> Shown {
        // One last push, which is awaited, cuts everything.
        self.push(0, 60_000, true);
        self.driver.quiesce(LONG).unwrap();
        self.driver.check().unwrap();
        self.store.check().unwrap();
        let snapshot = self.store.pin_stable();
        let mut stored = BTreeSet::new();
        let graphs = [TermId::DEFAULT_GRAPH].into_iter().chain(snapshot.graphs());
        for graph in graphs {
            for predicate in snapshot.predicates(graph) {
                let mut subjects = Vec::new();
                let subjects =
                    snapshot.vertices_with(graph, predicate, Direction::Out, &mut subjects);
                for subject in subjects.iter().copied() {
                    let mut objects = Vec::new();
                    let out = Direction::Out;
                    let objects = snapshot.neighbours(graph, subject, predicate, out, &mut objects);
                    let of = |object: &TermId| [graph, subject, predicate, *object];
                    stored.extend(objects.iter().map(|it| text_of(&self.store, of(it))));
                }
            }
        }
        Shown {
            stored,
            streams: format!("{:?}", self.driver.streams()),
            queries: format!("{:?}", self.driver.queries()),
        }
    }

    fn identity(&self) -> Option<[u8; 16]> {
        self.log.identity().map(|identity| identity.bytes())
    }
}

#[derive(Debug, PartialEq)]
struct Shown {
    stored: BTreeSet<String>,
    streams: String,
    queries: String,
}

/// Whether an input was taken, or refused for what it asks.
fn refused_or<T>(taken: Result<T, RuntimeError>) -> bool {
    match taken {
        Ok(_) | Err(RuntimeError::Refused(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_run_from_a_checkpoint_goes_on_as_one_without_a_crash() {
    let (mut firings, mut derived, mut restarts) = (0, 0, 0);
    for seed in 0..12 {
        let mut random = SeededRandom::new(seed);
        let steps = steps(&mut random);
        let twin = open(&SimDisk::new(), None, 2, Threads::Simulated(3)).unwrap();
        twin.declare();
        steps.iter().for_each(|step| twin.take(*step));
        let expected = twin.shown();

        let pace = [3, 50][(seed % 2) as usize];
        let mut running = open(&SimDisk::new(), None, 2, Threads::Simulated(pace)).unwrap();
        running.declare();
        let (taken, crashes) = (random.below(30), 1 + random.below(30));
        let mut seen = BTreeSet::new();
        let mut begun = Vec::new();
        for (at, step) in (0..).zip(&steps) {
            running.take(*step);
            if at == taken || at == taken + crashes / 2 + 1 {
                // It is written beside the next steps.
                begun.extend(running.driver.checkpoint());
            }
            if at == taken + crashes + 3 {
                // Of a process that began from one itself.
                begun.extend(running.driver.checkpoint());
            }
            if at == taken + crashes || at == taken + crashes + 4 {
                // The later one is refused if the earlier one is still being written.
                let written: Vec<_> = begun.drain(..).map(Pending::wait).collect();
                assert!(written[0].is_ok(), "{written:?}");
                let identity = running.identity();
                seen.append(&mut running.host.seen.lock());
                running.driver.abort();
                let kept = running.disk.crash(CrashKeep::Seeded(seed));
                let shards = [1, 2, 4][random.below(3) as usize];
                running = open(&kept, identity, shards, Threads::Simulated(pace)).unwrap();
                restarts += 1;
            }
        }
        assert_eq!(running.shown(), expected, "seed {seed}");
        seen.append(&mut running.host.seen.lock());
        assert_eq!(seen, *twin.host.seen.lock(), "seed {seed}");
        firings += seen.len();
        derived += expected.streams.matches("http://x/d").count();
    }
    let all = format!("{firings} firings, {derived} derived, {restarts} restarts");
    assert!(firings > 200 && derived > 0 && restarts > 8, "{all}");
}

#[test]
fn a_driver_with_threads_begins_from_a_checkpoint_that_it_took_between_its_inputs() {
    let steps = steps(&mut SeededRandom::new(3));
    let twin = open(&SimDisk::new(), None, 2, Threads::Simulated(3)).unwrap();
    twin.declare();
    steps.iter().for_each(|step| twin.take(*step));
    let expected = twin.shown();

    let running = open(&SimDisk::new(), None, 2, Threads::Real).unwrap();
    running.declare();
    let (before, after) = steps.split_at(20);
    let (beside, after) = after.split_at(10);
    before.iter().for_each(|step| running.take(*step));
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| running.driver.checkpoint().unwrap().wait().unwrap());
        beside.iter().for_each(|step| running.take(*step));
        taken.join().unwrap();
    });
    let identity = running.identity();
    let mut seen = std::mem::take(&mut *running.host.seen.lock());
    running.driver.abort();
    let kept = running.disk.crash(CrashKeep::Synced);
    let running = open(&kept, identity, 2, Threads::Real).unwrap();
    after.iter().for_each(|step| running.take(*step));
    assert_eq!(running.shown(), expected);
    seen.append(&mut running.host.seen.lock());
    assert_eq!(seen, *twin.host.seen.lock());
}

/// A run with a checkpoint before its last steps: what it shows in the end, its disk as it was
/// after the last step, and the checkpoint.
fn checkpointed() -> (Shown, SimDisk, Manifest) {
    let running = open(&SimDisk::new(), None, 2, Threads::Simulated(3)).unwrap();
    running.declare();
    running.register(0);
    let pushes = (0..40).map(|at| Step::Push(0, at * 300, at % 5 == 0));
    let pushes: Vec<Step> = pushes.collect();
    pushes[..20].iter().for_each(|step| running.take(*step));
    let manifest = running.driver.checkpoint().unwrap().wait().unwrap();
    pushes[20..].iter().for_each(|step| running.take(*step));
    let kept = running.disk.copy();
    (running.shown(), kept, manifest)
}

#[test]
fn a_log_that_is_trimmed_up_to_a_checkpoint_begins_there_and_one_trimmed_further_is_refused() {
    let (expected, disk, manifest) = checkpointed();
    let covered = Position(manifest.position());
    let behind = Some((&manifest, covered));
    for (through, is_whole) in [(covered, true), (Position(covered.0 + 15), false)] {
        let disk = disk.copy();
        let running = open_behind(&disk, behind, 2, Threads::Simulated(3)).unwrap();
        assert!(running.log.trim(through).is_ok());
        assert!(running.log.first() > Position(1), "something is trimmed");
        running.driver.abort();
        drop(running);
        match open_behind(&disk.restarted(), behind, 2, Threads::Simulated(3)) {
            Ok(running) => {
                assert!(is_whole, "records that the checkpoint needs are gone");
                assert_eq!(running.shown(), expected);
            }
            Err(error) => assert!(!is_whole, "{error}"),
        }
    }
}

/// The comparison sees a checkpoint that claims a record which it does not hold.
#[test]
fn a_position_behind_what_was_frozen_is_noticed() {
    let (expected, disk, manifest) = checkpointed();
    for (more, is_equal) in [(0, true), (1, false)] {
        let behind = Some((&manifest, Position(manifest.position() + more)));
        let go_on = AssertUnwindSafe(|| {
            let running = open_behind(&disk.copy(), behind, 2, Threads::Simulated(3)).unwrap();
            running.shown()
        });
        let shown = catch_unwind(go_on);
        assert_eq!(shown.is_ok_and(|shown| shown == expected), is_equal);
    }
}

#[test]
fn a_checkpoint_exists_only_when_the_log_is_durable_up_to_it() {
    let never = u64::MAX;
    let running = open(&SimDisk::new(), None, 2, Threads::Simulated(never)).unwrap();
    running.declare();
    let pushes = (0..3).map(|at| {
        let push = Input::Push(Push {
            stream: STREAMS[0].0.to_owned(),
            source: String::new(),
            seq: None,
            received_ms: 0,
            statements: vec![PushStatement {
                at: Some(EventTime(at)),
                quad: quad("k", at),
            }],
        });
        running.driver.hand_in(push).unwrap()
    });
    let pushes: Vec<_> = pushes.collect();
    running.driver.checkpoint().unwrap().wait().unwrap();
    let identity = running.identity();
    running.driver.abort();
    drop(pushes);
    let kept = running.disk.crash(CrashKeep::Synced);
    let running = open(&kept, identity, 2, Threads::Simulated(3)).unwrap();
    assert_eq!(running.driver.streams()[0].statements, 3);
}

#[test]
fn a_checkpoint_waits_for_the_statements_of_derived_streams() {
    let never = u64::MAX;
    let running = open(&SimDisk::new(), None, 2, Threads::Simulated(never)).unwrap();
    running.declare();
    running.register(4);
    running.push(1, 100, false);
    running.push(1, 1_100, false);
    running.driver.checkpoint().unwrap().wait().unwrap();
    let identity = running.identity();
    running.driver.abort();
    let kept = running.disk.crash(CrashKeep::Synced);
    let running = open(&kept, identity, 2, Threads::Simulated(3)).unwrap();
    let derived = running.driver.stream("http://x/d").unwrap();
    assert_eq!(derived.statements, 1);
}

#[test]
fn slices_that_pass_while_a_checkpoint_waits_are_in_it() {
    let run = |is_crashed: bool| {
        let mut running = open(&SimDisk::new(), None, 2, Threads::Simulated(3)).unwrap();
        running.declare();
        running.register(0);
        running.register(2);
        let slow = running.driver.query("q0").unwrap().member.cohort;
        *running.host.held.lock() = is_crashed.then_some(slow);
        for at in [100, 1_100, 2_100] {
            running.push(0, at, true);
            running.push(2, at, true);
        }
        let begun = is_crashed.then(|| running.driver.checkpoint().unwrap());
        (3..12).for_each(|second| running.push(2, second * 1_000, true));
        let mut seen = BTreeSet::new();
        if let Some(begun) = begun {
            *running.host.held.lock() = None;
            begun.wait().unwrap();
            seen.append(&mut running.host.seen.lock());
            let identity = running.identity();
            running.driver.abort();
            let kept = running.disk.crash(CrashKeep::Synced);
            running = open(&kept, identity, 2, Threads::Simulated(3)).unwrap();
        }
        let shown = running.shown();
        seen.append(&mut running.host.seen.lock());
        (shown, seen)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_crash_at_any_sync_of_a_checkpoint_or_of_what_it_removes_leaves_a_whole_one() {
    let steps = steps(&mut SeededRandom::new(5));
    let run = |crashes: Option<u64>| {
        let mut running = open(&SimDisk::new(), None, 2, Threads::Simulated(3)).unwrap();
        running.declare();
        let (first, rest) = steps.split_at(7);
        let (before, rest) = rest.split_at(8);
        let (between, after) = rest.split_at(10);
        first.iter().for_each(|step| running.take(*step));
        running.driver.checkpoint().unwrap().wait().unwrap();
        before.iter().for_each(|step| running.take(*step));
        let older = running.driver.checkpoint().unwrap().wait().unwrap();
        between.iter().for_each(|step| running.take(*step));
        running.driver.quiesce(LONG).unwrap();
        let mut newest = None;
        if let Some(sync) = crashes {
            let syncs = running.disk.syncs();
            running.disk.crash_at_sync(sync, CrashKeep::Seeded(sync));
            let written = running.driver.checkpoint().unwrap().wait();
            let is_crashed = running.disk.syncs() - syncs > sync;
            let identity = running.identity().unwrap();
            running.driver.abort();
            let kept = match is_crashed {
                false => running.disk.crash(CrashKeep::Seeded(sync)),
                true => running.disk.restarted(),
            };
            let whole = whole_checkpoints(&kept, identity, VerifyDepth::Bytes, 1).unwrap();
            let number = whole.whole[0].number();
            assert!(written.is_err() || number > older.number());
            newest = Some((number > older.number(), written.is_ok(), is_crashed));
            running = open(&kept, Some(identity), 2, Threads::Simulated(3)).unwrap();
        }
        after.iter().for_each(|step| running.take(*step));
        (running.shown(), newest)
    };
    let (expected, _) = run(None);
    let mut outcomes = BTreeSet::new();
    for sync in 0..80 {
        let (shown, newest) = run(Some(sync));
        assert_eq!(shown, expected, "sync {sync}");
        outcomes.extend(newest);
        if newest.is_some_and(|(_, _, is_crashed)| !is_crashed) {
            break;
        }
    }
    // In the files; in what is removed; behind all of it.
    for outcome in [
        (false, false, true),
        (true, true, true),
        (true, true, false),
    ] {
        assert!(outcomes.contains(&outcome), "{outcomes:?}");
    }
}
