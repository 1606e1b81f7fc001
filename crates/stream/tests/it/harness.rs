//! A driver without threads or disk: it does what the runtime does, and keeps the log and all
//! outputs.
//!
//! The one thing to know: streams and queries come with their declarations, and no text is parsed,
//! so these tests do not depend on the parser.

pub(crate) use crate::world::{Texts, World};
use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use somersault_lang::{
    AheadLimit, Classification, CreateStream, DerivedStream, Extent, LatePolicy, Overload, Report,
    StreamOperator, StreamSource, TimeDomain,
};
use somersault_log::{PlanRecord, Position};
use somersault_model::{
    BatchNumber, EventTime, Millis, Operation, QuadIds, QueryUid, Sn, StreamUid, TimedTriple,
    TripleIds,
};
use somersault_stream::Record;
use somersault_stream::{
    Admission, BatchChange, Coordinator, CoreRecord, CutPace, Firing, FrozenCore, Input, Output,
    ParsedQuery, Push, PushStatement, QueryChange, QueryDeclaration, QueryEvent, Refusal, Repeat,
    RestoreError, StreamLimits, WindowDeclaration,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A stream with BATCH 10ms, IDLE NEVER and KEEP 100ms whose predicate `fact` is timeless.
pub(crate) fn stream(iri: &str) -> CreateStream {
    CreateStream {
        iri: NamedNode::new(iri).unwrap(),
        source: StreamSource::Outside,
        classification: Classification::Timing(vec![predicate("reading")]),
        into: None,
        batch: Millis(10),
        time: TimeDomain::Event,
        timestamp: None,
        context: None,
        mapping: None,
        dead_letters: None,
        lateness: Millis(0),
        late_policy: LatePolicy::Reject,
        ahead: AheadLimit::Default,
        idle: None,
        keep: Millis(100),
        budget_bytes: 1 << 30,
        text: format!("CREATE STREAM <{iri}>"),
    }
}

/// As [`stream`], where late statements amend the closes of the last `within` milliseconds.
pub(crate) fn amended_stream(iri: &str, within: i64) -> CreateStream {
    CreateStream {
        late_policy: LatePolicy::Amend {
            within: Millis(within),
        },
        ..stream(iri)
    }
}

/// A derived stream with KEEP 100ms whose predicate `fact` is timeless.
pub(crate) fn derived(iri: &str) -> Box<DerivedStream> {
    Box::new(DerivedStream {
        iri: NamedNode::new(iri).unwrap(),
        classification: Classification::Timing(vec![predicate("reading")]),
        into: None,
        keep: Millis(100),
        budget_bytes: 1 << 30,
    })
}

pub(crate) fn predicate(name: &str) -> NamedNode {
    NamedNode::new(format!("http://p/{name}")).unwrap()
}

/// A query over windows (stream, RANGE, STEP).
pub(crate) fn windows(of: &[(&str, i64, i64)]) -> QueryDeclaration {
    over(
        of.iter()
            .map(|(stream, range, step)| (*stream, span(*range, *step))),
    )
}

/// `RANGE range STEP step`
pub(crate) fn span(range: i64, step: i64) -> Extent {
    Extent::Time {
        range: Millis(range),
        until: Millis(0),
        step: Some(Millis(step)),
    }
}

/// A query over windows of any kind.
pub(crate) fn over<'a>(of: impl IntoIterator<Item = (&'a str, Extent)>) -> QueryDeclaration {
    QueryDeclaration {
        operator: StreamOperator::RStream,
        windows: of
            .into_iter()
            .map(|(stream, extent)| WindowDeclaration {
                stream: NamedNode::new(stream).unwrap(),
                extent,
            })
            .collect(),
        computed_every: None,
        starting_at: EventTime(0),
        report: Report::default(),
        overload: Overload::default(),
        derives: None,
        live: None,
    }
}

pub(crate) fn statement(number: u64, name: &str) -> Quad {
    Quad::new(
        NamedNode::new(format!("http://s/{number}")).unwrap(),
        predicate(name),
        NamedNode::new("http://o/").unwrap(),
        GraphName::DefaultGraph,
    )
}

/// The number that [`statement`] was made from.
pub(crate) fn number_of(world: &World, triple: TripleIds) -> u64 {
    match world.term(triple.subject) {
        Term::NamedNode(node) => node.as_str()["http://s/".len()..].parse().unwrap(),
        other => panic!("not a subject of these tests: {other}"),
    }
}

/// A firing with what it saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) firing: Firing,
    /// Per window: time and statement number, with repeats.
    pub(crate) windows: Vec<Vec<(i64, u64)>>,
    /// The statement numbers that are stored at the firing's SN.
    pub(crate) stored: BTreeSet<u64>,
    /// The number of outputs that had been decided when it was executed.
    pub(crate) decided: usize,
}

pub(crate) struct Driver {
    pub(crate) world: World,
    pub(crate) coordinator: Coordinator,
    pub(crate) log: Vec<Record>,
    /// All outputs but Retire and what `on_stable` gives: what must be the same in every replay.
    pub(crate) decided: Vec<Output>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) cancelled: Vec<Firing>,
    /// Queries that derive streams: their answers are the statements of their windows.
    deriving: BTreeSet<QueryUid>,
    /// Inputs that deriving queries have given and no stream has taken yet.
    derived: VecDeque<Input>,
    /// The predicate of what they derive.
    pub(crate) derives: &'static str,
    /// Whether SNs become stable at once, or only by [`Driver::stabilise`].
    pub(crate) stable_at_once: bool,
    /// Whether firings are done at once, or only by [`Driver::finish`].
    pub(crate) fired_at_once: bool,
    running: Vec<Firing>,
    /// Each batch as every SN that changed it left it.
    slices: BTreeMap<(StreamUid, BatchNumber), BTreeMap<Sn, Vec<TimedTriple>>>,
    pub(crate) retired: BTreeMap<StreamUid, BatchNumber>,
    stored: BTreeSet<QuadIds>,
    stored_at: BTreeMap<u64, BTreeSet<QuadIds>>,
    pub(crate) now_ms: i64,
    /// The number of closes that are cut after an input; [`Driver::cut_slice`] cuts more.
    pub(crate) closes_in_a_row: usize,
    /// Whether late statements wait for one cut together.
    pub(crate) joins_amendments: bool,
    /// The meanings of the texts so far.
    pub(crate) texts: Texts,
    /// The number of inputs so far.
    inputs: usize,
    /// A checkpoint is made after each of these inputs.
    pub(crate) checkpoint_after: BTreeSet<usize>,
    /// The coordinator that goes on after a checkpoint: the one restored from these of its records,
    /// or the same.
    pub(crate) restores: Option<fn(&mut Vec<CoreRecord>)>,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// The core's part of a checkpoint.
pub(crate) struct Checkpoint {
    /// Its records, as they were at once.
    pub(crate) records: Vec<CoreRecord>,
    /// Shared with the coordinator, which goes on.
    pub(crate) frozen: FrozenCore,
    /// The number of records and of outputs before it.
    pub(crate) log: usize,
    pub(crate) decided: usize,
}

/// The records as they come back from a file.
pub(crate) fn written(records: impl IntoIterator<Item = CoreRecord>) -> Vec<CoreRecord> {
    let records = records.into_iter();
    let read = records.map(|record| CoreRecord::from_bytes(&record.to_bytes()));
    read.collect::<Result<_, _>>().unwrap()
}

impl Driver {
    pub(crate) fn new() -> Driver {
        Driver {
            world: World::default(),
            coordinator: Coordinator::new(),
            log: Vec::new(),
            decided: Vec::new(),
            seen: Vec::new(),
            cancelled: Vec::new(),
            deriving: BTreeSet::new(),
            derived: VecDeque::new(),
            derives: "reading",
            stable_at_once: true,
            fired_at_once: true,
            running: Vec::new(),
            slices: BTreeMap::new(),
            retired: BTreeMap::new(),
            stored: BTreeSet::new(),
            stored_at: BTreeMap::new(),
            now_ms: 0,
            closes_in_a_row: usize::MAX,
            joins_amendments: false,
            texts: Texts::default(),
            inputs: 0,
            checkpoint_after: BTreeSet::new(),
            restores: None,
            checkpoints: Vec::new(),
        }
    }

    /// With limits for what admission takes.
    pub(crate) fn limited(limits: StreamLimits) -> Driver {
        Driver {
            coordinator: Coordinator::new().with_limits(limits),
            ..Driver::new()
        }
    }

    /// With these streams, as [`stream`] declares them.
    pub(crate) fn with_streams(iris: &[&str]) -> Driver {
        let mut driver = Driver::new();
        for iri in iris {
            driver.create(stream(iri)).unwrap();
        }
        driver
    }

    pub(crate) fn drop_stream(&mut self, iri: &str) -> Result<Admission, Refusal> {
        self.input(Input::DropStream {
            received_ms: 0,
            iri: iri.to_owned(),
        })
    }

    /// Admits, logs, applies, and makes all cuts that are due.
    pub(crate) fn input(&mut self, input: Input) -> Result<Admission, Refusal> {
        let admission = self.take(input);
        self.inputs += 1;
        if self.checkpoint_after.contains(&self.inputs) {
            self.checkpoint();
        }
        self.take_derived();
        admission
    }

    /// Freezes the coordinator, completes the checkpoint, and lets the coordinator go on that
    /// `restores` says.
    fn checkpoint(&mut self) {
        let frozen = self.coordinator.freeze().unwrap();
        let (log, decided) = (self.log.len(), self.decided.len());
        let records = written(self.coordinator.freeze().unwrap().records());
        self.release();
        self.execute();
        if let Some(alter) = self.restores {
            let mut records = records.clone();
            alter(&mut records);
            // Only the law about records counts them.
            let before = records.len() as u64 - 1;
            if let Some(CoreRecord::End(count)) = records.last_mut() {
                *count = before;
            }
            self.coordinator = self.restored(records).unwrap();
        }
        self.checkpoints.push(Checkpoint {
            records,
            frozen,
            log,
            decided,
        });
    }

    pub(crate) fn restored(
        &mut self,
        records: Vec<CoreRecord>,
    ) -> Result<Coordinator, RestoreError> {
        let records = records.into_iter().map(Ok::<_, RestoreError>);
        Coordinator::restore(records, &mut self.texts, &self.world)
    }

    fn take(&mut self, input: Input) -> Result<Admission, Refusal> {
        let admission = self.coordinator.admit(input)?;
        if let Admission::Record(record)
        | Admission::Several(Some(record), _)
        | Admission::Messages(Some(record), _) = &admission
        {
            self.record(record.clone());
            self.cut_closes();
        }
        Ok(admission)
    }

    fn cut_closes(&mut self) {
        let mut left = self.closes_in_a_row;
        while let Some(plan) = (self.coordinator).next_due_cut(self.log_end(), &self.pace()) {
            if plan.through.is_some() {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            self.record(Record::Plan(plan));
        }
    }

    fn pace(&self) -> CutPace {
        CutPace {
            amends: !self.joins_amendments,
            ..CutPace::default()
        }
    }

    /// Cuts as many more of the closes that are due.
    pub(crate) fn cut_slice(&mut self) {
        self.cut_closes();
        self.take_derived();
    }

    /// Whether a push to a stream has to wait for closes.
    pub(crate) fn waits(&self, stream: &str) -> bool {
        self.coordinator.waits_for_closes(&Input::Advance {
            received_ms: 0,
            to: vec![(stream.to_owned(), EventTime(0))],
        })
    }

    pub(crate) fn log_end(&self) -> Position {
        Position(self.log.len() as u64)
    }

    pub(crate) fn record(&mut self, record: Record) {
        let mut out = Vec::new();
        self.log.push(record.clone());
        self.coordinator
            .apply(&record, &self.world, &mut out)
            .unwrap();
        self.carry_out(out);
        if matches!(record, Record::Plan(_)) && self.stable_at_once {
            self.release();
        }
    }

    pub(crate) fn stabilise(&mut self) {
        self.release();
        self.take_derived();
    }

    fn release(&mut self) {
        let mut out = Vec::new();
        let sn = self.coordinator.last_cut();
        self.coordinator.on_stable(sn, &mut out);
        self.carry_out(out);
        if self.fired_at_once {
            self.execute();
        }
    }

    /// A driver after a crash: this is what its log holds, and nothing was executed yet.
    pub(crate) fn recovered(world: &World, log: &[Record]) -> Driver {
        let mut driver = Driver {
            world: world.after_restart(),
            stable_at_once: false,
            fired_at_once: false,
            ..Driver::new()
        };
        for record in log {
            driver.record(record.clone());
        }
        while let Some(plan) = driver
            .coordinator
            .next_due_cut(driver.log_end(), &CutPace::default())
        {
            driver.record(Record::Plan(plan));
        }
        driver.stable_at_once = true;
        driver.fired_at_once = true;
        driver.stabilise();
        driver
    }

    pub(crate) fn finish(&mut self) {
        self.execute();
        self.take_derived();
    }

    /// Executes what was released: only now are its slices read.
    fn execute(&mut self) {
        for firing in std::mem::take(&mut self.running) {
            let seen = self.look(&firing);
            let numbers: BTreeSet<u64> = seen.windows.iter().flatten().map(|it| it.1).collect();
            self.seen.push(seen);
            let mut out = Vec::new();
            self.coordinator.on_fired(firing.key(), &mut out);
            self.carry_out(out);
            if self.deriving.contains(&firing.query) {
                let statements = numbers.into_iter();
                let derived = Input::Derived {
                    received_ms: self.now_ms,
                    key: firing.key(),
                    statements: statements.map(|n| statement(n, self.derives)).collect(),
                };
                self.derived.push_back(derived);
            }
        }
    }

    /// Takes what firings have given for derived streams, between inputs and never inside one.
    fn take_derived(&mut self) {
        while let Some(derived) = self.derived.pop_front() {
            self.take(derived).unwrap();
        }
    }

    fn look(&self, firing: &Firing) -> Seen {
        let windows = firing.windows.iter().map(|window| {
            let retired = self.retired.get(&window.stream);
            assert!(
                window.lo == window.hi || retired.is_none_or(|below| *below <= window.lo),
                "a firing's slices were retired before it was done: {firing:?}"
            );
            let slices = self
                .slices
                .range((window.stream, window.lo)..(window.stream, window.hi));
            let at_its_sn = slices.filter_map(|((_, batch), revisions)| {
                let (_, statements) = revisions.range(..=firing.sn).next_back()?;
                Some((*batch, statements))
            });
            let inside = at_its_sn.flat_map(|(batch, statements)| match window.statements {
                None => &statements[..],
                Some(part) => {
                    let is_last = batch.next() == window.hi;
                    let skip = if batch == window.lo { part.skip } else { 0 };
                    let upto = if is_last {
                        part.upto as usize
                    } else {
                        statements.len()
                    };
                    &statements[skip as usize..upto]
                }
            });
            inside
                .map(|timed| (timed.at.0, number_of(&self.world, timed.triple)))
                .collect()
        });
        let stored = self.stored_at[&firing.sn.0]
            .iter()
            .map(|quad| number_of(&self.world, quad.triple()));
        Seen {
            windows: windows.collect(),
            stored: stored.collect(),
            decided: self.decided.len(),
            firing: firing.clone(),
        }
    }

    fn carry_out(&mut self, out: Vec<Output>) {
        for output in out {
            match &output {
                Output::Inject(inject) => {
                    self.stored.retain(|it| !inject.clears.contains(&it.graph));
                    for statements in &inject.loads {
                        self.stored.extend(statements.iter());
                    }
                    for mutation in &inject.mutations {
                        match mutation.operation {
                            Operation::Insert => self.stored.insert(mutation.quad),
                            Operation::Delete => self.stored.remove(&mutation.quad),
                        };
                    }
                    self.stored_at.insert(inject.sn.0, self.stored.clone());
                    for slice in &inject.slices {
                        let key = (slice.stream, slice.batch);
                        let first = BTreeMap::from([(inject.sn, slice.statements.clone())]);
                        let before = self.slices.insert(key, first);
                        assert!(before.is_none(), "a batch is closed once");
                        assert!(!slice.statements.is_empty(), "empty batches cost nothing");
                    }
                    for amended in &inject.amended {
                        let key = (amended.stream, amended.batch);
                        let retired = self.retired.get(&amended.stream);
                        assert!(
                            retired.is_none_or(|below| *below <= amended.batch),
                            "what is retired is not amended"
                        );
                        let revisions = self.slices.entry(key).or_default();
                        let mut statements = Vec::new();
                        match &amended.change {
                            BatchChange::Late(late) => {
                                statements.extend(revisions.values().next_back().cloned());
                                statements.push(late.clone());
                            }
                            BatchChange::Replaced(all) => statements.push(all.clone()),
                        }
                        revisions.insert(inject.sn, statements.concat());
                    }
                }
                Output::Query(QueryEvent {
                    cohort,
                    change: QueryChange::Formed { derives, .. },
                }) => self.deriving.extend(derives.map(|_| *cohort)),
                Output::Fire(firing) => {
                    self.running.push(firing.clone());
                    continue;
                }
                Output::Cancelled(firing) => {
                    self.cancelled.push(firing.clone());
                    continue;
                }
                Output::Retire { stream, below } => {
                    let before = self.retired.insert(*stream, *below);
                    assert!(before < Some(*below), "retiring goes on");
                    self.slices
                        .retain(|(of, batch), _| of != stream || batch >= below);
                    continue;
                }
                _ => {}
            }
            self.decided.push(output);
        }
    }

    pub(crate) fn create(&mut self, declaration: CreateStream) -> Result<Admission, Refusal> {
        self.texts.note_stream(&declaration);
        self.input(Input::CreateStream {
            received_ms: self.now_ms,
            declaration,
            namespace: None,
        })
    }

    pub(crate) fn register(
        &mut self,
        name: &str,
        declaration: QueryDeclaration,
    ) -> Result<Admission, Refusal> {
        self.declare(name, declaration, false)
    }

    /// Registers a query in the place of the one of its name, if there is one.
    pub(crate) fn replace(
        &mut self,
        name: &str,
        declaration: QueryDeclaration,
    ) -> Result<Admission, Refusal> {
        self.declare(name, declaration, true)
    }

    fn declare(
        &mut self,
        name: &str,
        declaration: QueryDeclaration,
        replaces: bool,
    ) -> Result<Admission, Refusal> {
        let text = format!("{declaration:?}");
        self.texts.note_query(&text, &declaration);
        self.input(Input::RegisterQuery {
            received_ms: self.now_ms,
            name: name.to_owned(),
            query: ParsedQuery::of(&text, declaration),
            text,
            namespace: None,
            replaces,
        })
    }

    /// Pushes statements (time, number) that are timing.
    pub(crate) fn push(&mut self, stream: &str, of: &[(i64, u64)]) -> Result<Admission, Refusal> {
        let statements = of.iter().map(|(at, number)| (*at, *number, "reading"));
        self.push_from(stream, "", None, statements.collect())
    }

    pub(crate) fn push_from(
        &mut self,
        stream: &str,
        source: &str,
        seq: Option<u64>,
        of: Vec<(i64, u64, &str)>,
    ) -> Result<Admission, Refusal> {
        self.input(Input::Push(Push {
            stream: stream.to_owned(),
            source: source.to_owned(),
            seq,
            received_ms: self.now_ms,
            statements: of
                .into_iter()
                .map(|(at, number, name)| PushStatement {
                    at: Some(EventTime(at)),
                    quad: statement(number, name),
                })
                .collect(),
        }))
    }

    pub(crate) fn advance(&mut self, to: &[(&str, i64)]) -> Result<Admission, Refusal> {
        self.input(Input::Advance {
            received_ms: self.now_ms,
            to: to
                .iter()
                .map(|(iri, to)| ((*iri).to_owned(), EventTime(*to)))
                .collect(),
        })
    }

    pub(crate) fn pause(&mut self, name: &str) {
        self.input(Input::PauseQuery {
            received_ms: self.now_ms,
            name: name.to_owned(),
        })
        .unwrap();
    }

    pub(crate) fn resume(&mut self, name: &str) {
        self.input(Input::ResumeQuery {
            received_ms: self.now_ms,
            name: name.to_owned(),
        })
        .unwrap();
    }

    pub(crate) fn drop_query(&mut self, name: &str) {
        self.input(Input::DropQuery {
            received_ms: self.now_ms,
            name: name.to_owned(),
        })
        .unwrap();
    }

    /// The clock's inputs at this time.
    pub(crate) fn tick(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        for input in self.coordinator.on_tick(now_ms) {
            self.input(input).unwrap();
        }
    }

    pub(crate) fn freshness_cut(&mut self) -> Option<PlanRecord> {
        let plan = (self.coordinator).freshness_cut(self.log_end(), &self.pace())?;
        self.record(Record::Plan(plan.clone()));
        self.take_derived();
        Some(plan)
    }

    /// The closes that a query fired for, in the order of execution.
    pub(crate) fn closes(&self, name: &str) -> Vec<i64> {
        let uid = self.coordinator.query(name).unwrap().uid;
        let of_query = self.seen.iter().filter(|seen| seen.firing.query == uid);
        of_query.map(|seen| seen.firing.close.0).collect()
    }

    /// The contents of the windows of a query's firing at this close: statement numbers.
    pub(crate) fn content(&self, name: &str, close: i64) -> Vec<Vec<u64>> {
        let numbers = |window: &Vec<(i64, u64)>| window.iter().map(|(_, number)| *number).collect();
        self.at(name, close).windows.iter().map(numbers).collect()
    }

    pub(crate) fn at(&self, name: &str, close: i64) -> &Seen {
        let uid = self.coordinator.query(name).unwrap().uid;
        let is_it = |seen: &&Seen| seen.firing.query == uid && seen.firing.close.0 == close;
        self.seen.iter().find(is_it).unwrap()
    }
}

pub(crate) fn was_logged(admission: &Admission) -> bool {
    matches!(admission, Admission::Record(_))
}

pub(crate) fn was_repeat(admission: &Admission, of: Repeat) -> bool {
    matches!(admission, Admission::Repeat(repeat) if *repeat == of)
}

/// A statement whose subject and object are blank nodes.
pub(crate) fn blank_statement(label: &str) -> Quad {
    let node = oxrdf::BlankNode::new(label).unwrap();
    Quad::new(
        NamedOrBlankNode::from(node.clone()),
        predicate("reading"),
        node,
        GraphName::DefaultGraph,
    )
}
