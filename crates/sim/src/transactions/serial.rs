//! The serial twin: a core, a transaction state, streams as vectors.
//!
//! 1. A push goes into its stream, and the core is told of its place and time.
//! 2. [`SerialEngine::run_next`] runs the core's next transaction to its end: each execution on the
//!    messages of its batches, then the entry is applied, then what it emitted is appended.
//! 3. After the number of commits that [`Snapshots`] gives, the effects go into the store, and the
//!    state goes to the new snapshot, as a lane does when its commits are logged.

use super::stream::{PushOutcome, TwinMessage, TwinStream, own_blank_nodes};
use oxrdf::{GraphName, Quad, Term};
use somersault_lang::{CreateProcedure, Parser, Statement};
use somersault_model::{EventTime, Limits, Mutation, QuadIds, ShardId, Sn, StreamUid, TermId};
use somersault_query::{
    Abort, Answer, CompiledProcedure, Execution, ExecutionKey, NetEffects, Prepared, Procedure,
    ProcedureInput, QueryError, TransactionState, WindowSlide,
};
use somersault_store::{ShardBatch, ShardWriter, Store};
use somersault_txn::{
    Answer as Remembered, CallAdmission, Command, Core, DataflowShape, Emitted, Entry, Event,
    Execution as Step, Key, Place, ProcedureShape, ProcedureUid, Round, StreamShape, Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// When committed effects reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshots {
    /// Never: all that commits stays in the layer on the first snapshot.
    Never,
    /// After each group of this many commits; the next group lies on it until then.
    Every(usize),
}

/// What became of a call.
#[derive(Debug, Clone)]
pub enum CallOutcome {
    /// It committed, with what RETURN answered.
    Done(Option<Answer>),
    /// It aborted, for this reason.
    Aborted(String),
    /// It was refused, for this reason; its key is free.
    Refused(String),
}

/// The serial twin of the lane.
pub struct SerialEngine {
    store: Arc<Store>,
    writer: ShardWriter,
    state: TransactionState,
    core: Core,
    procedures: BTreeMap<ProcedureUid, Procedure>,
    declared: BTreeMap<String, CreateProcedure>,
    streams: BTreeMap<String, TwinStream>,
    names: BTreeMap<StreamUid, String>,
    /// The answers of calls with keys, as they were.
    answers: BTreeMap<Key, CallOutcome>,
    snapshots: Snapshots,
    /// Effects that committed and are not in the store: those sealed, and those since.
    unstored: [Vec<NetEffects>; 2],
    sn: Sn,
    messages: u64,
    updates: u64,
    /// When calls are received.
    pub clock: EventTime,
}

impl SerialEngine {
    /// An engine in which nothing is declared, over these stored statements.
    pub fn new(stored: &[Quad], snapshots: Snapshots) -> SerialEngine {
        let store = Store::new(1);
        let mut writer = store
            .take_writer(ShardId(0))
            .expect("the first writer of a new store");
        let mutations: Vec<Mutation> = stored
            .iter()
            .map(|quad| Mutation::insert(ids(&store, quad)))
            .collect();
        for batch in ShardBatch::split(&mutations, store.placement()) {
            writer.apply(Sn(1), &batch).expect("SNs are in order");
        }
        store.snapshots().publish_stable(Sn(1));
        SerialEngine {
            state: TransactionState::new(store.pin_stable()),
            store,
            writer,
            core: Core::new(),
            procedures: BTreeMap::new(),
            declared: BTreeMap::new(),
            streams: BTreeMap::new(),
            names: BTreeMap::new(),
            answers: BTreeMap::new(),
            snapshots,
            unstored: [Vec::new(), Vec::new()],
            sn: Sn(1),
            messages: 0,
            updates: 0,
            clock: EventTime(0),
        }
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The transaction state.
    pub fn state(&self) -> &TransactionState {
        &self.state
    }

    /// The messages of a stream from its first on; empty if there is no such stream.
    pub fn messages(&self, stream: &str) -> &[TwinMessage] {
        let stream = self.streams.get(stream);
        stream.map_or(&[][..], |stream| &stream.messages)
    }

    /// Carries out a statement about streams, procedures or dataflows.
    ///
    /// # Errors
    /// The statement is refused, for this reason.
    pub fn execute(&mut self, text: &str) -> Result<(), String> {
        let parser = Parser::new();
        let statement = parser.parse_statement(text);
        let statement = statement.map_err(|error| error.to_string())?;
        let command = self.command(&statement)?;
        let admitted = self.core.admit(&command);
        admitted.map_err(|refusal| refusal.to_string())?;
        let compiled = match &statement {
            Statement::CreateProcedure(procedure) => Some(CompiledProcedure::new(procedure)?),
            _ => None,
        };
        self.apply(Event::Command(command));
        match statement {
            Statement::CreateStream(created) => {
                let uid = self.next_uid();
                let name = created.iri.as_str().to_owned();
                self.names.insert(uid, name.clone());
                self.streams.insert(name, TwinStream::new(&created, uid));
            }
            Statement::CreateProcedure(procedure) => {
                let compiled = Arc::new(compiled.expect("a procedure was compiled"));
                self.install(&procedure.name, compiled);
                self.declared.insert(procedure.name.clone(), *procedure);
            }
            Statement::DropProcedure(_) => self.forget_dropped(),
            _ => {}
        }
        Ok(())
    }

    fn next_uid(&self) -> StreamUid {
        StreamUid(self.names.len() as u32 + 1)
    }

    fn command(&self, statement: &Statement) -> Result<Command, String> {
        Ok(match statement {
            Statement::CreateStream(stream) => {
                if self.streams.contains_key(stream.iri.as_str()) {
                    return Err(format!("the stream {} is there already", stream.iri));
                }
                Command::CreateStream(StreamShape::of(stream, self.next_uid()))
            }
            Statement::CreateProcedure(procedure) => {
                let uid = |stream: &oxrdf::NamedNode| {
                    self.streams.get(stream.as_str()).map(|stream| stream.uid)
                };
                let shape = ProcedureShape::of(procedure, uid);
                Command::CreateProcedure {
                    shape: shape.map_err(|refusal| refusal.to_string())?,
                    or_replace: procedure.or_replace,
                    begins: Vec::new(),
                }
            }
            Statement::CreateDataflow(dataflow) => Command::CreateDataflow {
                shape: DataflowShape::of(dataflow),
                or_replace: dataflow.or_replace,
            },
            Statement::DropProcedure(dropped) => Command::DropProcedure {
                name: dropped.name.clone(),
                discard: dropped.discard,
            },
            Statement::DropDataflow(name) => Command::DropDataflow { name: name.clone() },
            Statement::PauseDataflow(name) => Command::PauseDataflow { name: name.clone() },
            Statement::ResumeDataflow(name) => Command::ResumeDataflow { name: name.clone() },
            _ => return Err("the statement declares nothing of a dataflow".to_owned()),
        })
    }

    fn uid_of(&self, procedure: &str) -> Option<ProcedureUid> {
        let mut procedures = self.core.procedures();
        procedures
            .find(|(_, shape)| shape.name == procedure)
            .map(|(uid, _)| uid)
    }

    fn install(&mut self, name: &str, compiled: Arc<CompiledProcedure>) {
        let uid = self.uid_of(name).expect("the core has the procedure");
        let installed = match self.procedures.remove(&uid) {
            Some(old) => self.state.replace(old, compiled),
            None => self.state.install(compiled),
        };
        self.procedures.insert(uid, installed);
    }

    fn forget_dropped(&mut self) {
        let left: Vec<ProcedureUid> = self.core.procedures().map(|(uid, _)| uid).collect();
        let gone: Vec<ProcedureUid> = self.procedures.keys().copied().collect();
        for uid in gone.into_iter().filter(|uid| !left.contains(uid)) {
            let procedure = self.procedures.remove(&uid).expect("it was listed");
            self.declared.remove(procedure.compiled().name());
            self.state.remove(procedure);
        }
    }

    fn apply(&mut self, event: Event) {
        let applied = self.core.apply(&event);
        applied.expect("the twin gives the core what it asked for");
    }

    /// Pushes a message under a number of a source.
    pub fn push(
        &mut self,
        stream: &str,
        source: &str,
        seq: u64,
        statements: &[Quad],
    ) -> PushOutcome {
        let Some(found) = self.streams.get_mut(stream) else {
            return PushOutcome::Refused(format!("there is no stream {stream}"));
        };
        let at = match found.admit(source, seq, statements) {
            Ok(at) => at,
            Err(outcome) => return outcome,
        };
        self.messages += 1;
        let store = &self.store;
        let quads = statements
            .iter()
            .map(|quad| ids(store, &own_blank_nodes(quad, self.messages)));
        found.messages.push(TwinMessage {
            at,
            statements: quads.collect(),
            round: None,
        });
        let (stream, place) = (found.uid, Place(found.messages.len() as u64));
        self.apply(Event::Message { stream, place, at });
        self.apply(Event::Complete {
            stream,
            through: at,
        });
        PushOutcome::Taken
    }

    /// Makes a pushed stream complete through a time.
    pub fn advance(&mut self, stream: &str, to: EventTime) {
        if let Some(found) = self.streams.get_mut(stream) {
            found.through = found.through.max(to);
            let (stream, through) = (found.uid, found.through);
            self.apply(Event::Complete { stream, through });
        }
    }

    /// Makes interior streams complete through the times that their sources allow; false if they
    /// are.
    pub fn advance_interior(&mut self) -> bool {
        let advances = self.core.advances();
        let is_due = !advances.is_empty();
        if is_due {
            self.apply(Event::Advance(advances));
        }
        is_due
    }

    /// Runs all transactions that are due.
    pub fn settle(&mut self) {
        while self.run_next() || self.advance_interior() {}
    }

    /// Runs the next transaction, if one is due.
    pub fn run_next(&mut self) -> bool {
        let Some(transaction) = self.core.next() else {
            return false;
        };
        self.run(&transaction, &[]);
        true
    }

    /// Calls a procedure. `arguments` are in the order of its parameters.
    pub fn call(&mut self, name: &str, arguments: &[Term], key: Option<Key>) -> CallOutcome {
        if let Some(declared) = self.declared.get(name)
            && let Err(refused) = declared.check_arguments(arguments)
        {
            return CallOutcome::Refused(refused);
        }
        match self.core.call(name, key.clone(), self.clock) {
            Err(refusal) => CallOutcome::Refused(refusal.to_string()),
            Ok(CallAdmission::Answered(remembered)) => match remembered {
                Remembered::Aborted(reason) => CallOutcome::Aborted(reason),
                _ => key
                    .and_then(|key| self.answers.get(&key).cloned())
                    .unwrap_or(CallOutcome::Done(None)),
            },
            Ok(CallAdmission::Run(transaction)) => {
                let outcome = self.run(&transaction, arguments);
                if let Some(key) = key {
                    self.answers.insert(key, outcome.clone());
                }
                outcome
            }
        }
    }

    /// The declaration of a procedure.
    pub fn declaration(&self, name: &str) -> Option<&CreateProcedure> {
        self.declared.get(name)
    }

    /// Carries out a plain update, as a transaction of its own.
    ///
    /// # Errors
    /// It is refused or fails; then it has no effect.
    pub fn update(&mut self, text: &str) -> Result<(), String> {
        let update = Parser::new().parse_update(text);
        let update = update.map_err(|error| error.to_string())?;
        self.updates += 1;
        let execution = self.execution();
        let lease = self.store.dictionary().lease(StreamUid(0));
        let mut txn = self.state.begin(execution, lease);
        let done = txn.update(&update, None);
        done.map_err(|error| error.to_string())?;
        let effects = txn.commit();
        self.committed(effects);
        Ok(())
    }

    /// Evaluates a query on all that has committed.
    ///
    /// # Errors
    /// It cannot be parsed or evaluated.
    pub fn query(&mut self, text: &str) -> Result<Answer, String> {
        let query = Parser::new().parse_query(text);
        let query = query.map_err(|error| error.to_string())?;
        let execution = self.execution();
        let lease = self.store.dictionary().lease(StreamUid(0));
        let answer = self
            .state
            .begin(execution, lease)
            .query(&Prepared::new(query), &[]);
        answer.map_err(|error: QueryError| error.to_string())
    }

    fn execution(&self) -> Execution {
        Execution::new(Limits::default(), self.clock)
    }

    /// Runs a transaction to its end, and applies its entry.
    fn run(&mut self, transaction: &Transaction, arguments: &[Term]) -> CallOutcome {
        let (entry, outcome, done) = self.execute_all(transaction, arguments);
        self.apply(Event::Entry(entry));
        if let Some(Committed { effects, messages }) = done {
            for (stream, message) in messages {
                let name = &self.names[&stream];
                let stream = self.streams.get_mut(name).expect("it is declared");
                stream.messages.push(message);
            }
            self.committed(effects);
        }
        outcome
    }

    /// Runs all executions of a transaction.
    fn execute_all(
        &mut self,
        transaction: &Transaction,
        arguments: &[Term],
    ) -> (Entry, CallOutcome, Option<Committed>) {
        let execution = self.execution();
        let lease = self.store.dictionary().lease(StreamUid(0));
        let mut txn = self.state.begin(execution, lease);
        let arguments: Vec<TermId> = arguments.iter().map(|term| txn.id(term)).collect();
        let mut sources = Sources {
            streams: &self.streams,
            names: &self.names,
            made: Vec::new(),
        };
        let round = transaction.round();
        let mut run = self.core.run(transaction);
        let mut answer = None;
        while let Some(step) = run.step() {
            let mut shapes = self.core.procedures();
            let shape = shapes.find(|(uid, _)| *uid == step.procedure);
            let (_, shape) = shape.expect("what runs is declared");
            let procedure = &self.procedures[&step.procedure];
            let batches = sources.batches(&step);
            let slides = sources.slides(&step, shape);
            let input = ProcedureInput {
                key: key_of(step.procedure, round),
                now: step.now,
                arguments: &arguments,
                batches: &batches,
                slides: &slides,
            };
            let executed = match txn.execute(procedure, &input) {
                Ok(executed) => executed,
                Err(Abort { reason, .. }) => {
                    drop(txn);
                    let outcome = CallOutcome::Aborted(reason.clone());
                    return (run.abort(reason), outcome, None);
                }
            };
            answer = answer.or(executed.answer);
            for emission in executed.emissions {
                let name = &procedure.compiled().emits()[emission.stream];
                let emitted = run.emit(self.streams[name.as_str()].uid);
                let message = TwinMessage {
                    at: emitted.at,
                    statements: emission.statements,
                    round: Some(round),
                };
                sources.made.push((emitted, message));
            }
        }
        let made = sources.made.into_iter();
        let committed = Committed {
            messages: made.map(|(at, message)| (at.stream, message)).collect(),
            effects: txn.commit(),
        };
        let entry = run.commit(Vec::new());
        (entry, CallOutcome::Done(answer), Some(committed))
    }

    /// Brings effects to the store in groups, as a lane does.
    fn committed(&mut self, effects: NetEffects) {
        let Snapshots::Every(group) = self.snapshots else {
            return;
        };
        let is_foreign = !effects.clears.is_empty();
        self.unstored[1].push(effects);
        if is_foreign {
            // Such an effect must be in the snapshot before anything else runs.
            while !self.unstored.iter().all(Vec::is_empty) {
                self.bring_group();
            }
        } else if self.unstored[1].len() >= group {
            self.bring_group();
        }
    }

    /// The sealed group reaches the store, and the next one is sealed.
    fn bring_group(&mut self) {
        let [sealed, since] = &mut self.unstored;
        let group = std::mem::take(sealed);
        *sealed = std::mem::take(since);
        if !group.is_empty() {
            self.sn = Sn(self.sn.0 + 1);
            store_all(&mut self.writer, &self.store, self.sn, &group);
            self.state.advance(self.store.pin_stable());
        }
        assert!(self.state.seal(), "the older layer is in the store");
    }
}

/// The messages that a transaction may read: those of the streams, and its own.
struct Sources<'e> {
    streams: &'e BTreeMap<String, TwinStream>,
    names: &'e BTreeMap<StreamUid, String>,
    made: Vec<(Emitted, TwinMessage)>,
}

impl Sources<'_> {
    fn statements(&self, stream: StreamUid, place: Place) -> &[QuadIds] {
        let known = &self.streams[&self.names[&stream]].messages;
        if let Some(message) = known.get(place.0 as usize - 1) {
            return &message.statements;
        }
        let mut own = self.made.iter();
        let found = own.find(|(at, _)| (at.stream, at.place) == (stream, place));
        &found.expect("a batch holds what was emitted").1.statements
    }

    /// The messages of each batch.
    fn batches(&self, step: &Step) -> Vec<Vec<&[QuadIds]>> {
        let batches = step.batches.iter().map(|(stream, batch)| {
            let places = batch.iter().flat_map(|batch| batch.places.iter());
            places
                .map(|place| self.statements(*stream, place))
                .collect()
        });
        batches.collect()
    }

    fn slides(&self, step: &Step, shape: &ProcedureShape) -> Vec<WindowSlide<'_>> {
        let slides = step.slides.iter().map(|slide| {
            let stream = shape.windows[slide.window].stream;
            let of = |places: &[Place]| {
                let places = places.iter();
                places
                    .map(|place| self.statements(stream, *place))
                    .collect()
            };
            WindowSlide {
                window: slide.window,
                leave: of(&slide.leave),
                enter: of(&slide.enter),
                sets_off: slide.sets_off,
            }
        });
        slides.collect()
    }
}

/// What a transaction left.
struct Committed {
    effects: NetEffects,
    messages: Vec<(StreamUid, TwinMessage)>,
}

fn store_all(writer: &mut ShardWriter, store: &Arc<Store>, sn: Sn, group: &[NetEffects]) {
    let mut mutations: Vec<Mutation> = Vec::new();
    for effects in group {
        for graph in &effects.clears {
            mutations.retain(|mutation| mutation.quad.graph != *graph);
            let snapshot = store.pin_stable();
            mutations.extend(all_of(&snapshot, *graph).into_iter().map(Mutation::delete));
        }
        mutations.extend(effects.deletes.iter().copied().map(Mutation::delete));
        mutations.extend(effects.inserts.iter().copied().map(Mutation::insert));
    }
    for batch in ShardBatch::split(&mutations, store.placement()) {
        writer.apply(sn, &batch).expect("SNs are in order");
    }
    store.snapshots().publish_stable(sn);
}

fn all_of(snapshot: &somersault_store::Snapshot, graph: TermId) -> Vec<QuadIds> {
    use somersault_model::{Direction::Out, TripleIds};
    let (mut all, mut subjects, mut objects) = (Vec::new(), Vec::new(), Vec::new());
    for predicate in snapshot.predicates(graph) {
        for subject in snapshot.vertices_with(graph, predicate, Out, &mut subjects) {
            let ends = snapshot.neighbours(graph, *subject, predicate, Out, &mut objects);
            let quad = |end: &TermId| TripleIds::new(*subject, predicate, *end).in_graph(graph);
            all.extend(ends.iter().map(quad));
        }
    }
    all
}

fn key_of(procedure: ProcedureUid, round: Round) -> ExecutionKey {
    let (is_call, round) = match round {
        Round::Batch(number) => (false, number),
        Round::Call(number) => (true, number),
    };
    ExecutionKey {
        procedure: procedure.0,
        is_call,
        round,
    }
}

/// The ids of a statement.
fn ids(store: &Store, quad: &Quad) -> QuadIds {
    let dictionary = store.dictionary();
    QuadIds {
        graph: match &quad.graph_name {
            GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
            GraphName::NamedNode(node) => dictionary.intern(node.as_ref().into()),
            GraphName::BlankNode(node) => dictionary.intern(node.as_ref().into()),
        },
        subject: dictionary.intern(quad.subject.as_ref().into()),
        predicate: dictionary.intern(quad.predicate.as_ref().into()),
        object: dictionary.intern(quad.object.as_ref()),
    }
}
