//! A driver of the core with scripted procedures. It records each transaction, what its windows
//! held, and each event, so that a twin can be compared and the log replayed.

use somersault_model::{EventTime, Millis, SeededRandom, StreamUid};
use somersault_txn::{
    BatchShape, CallAdmission, Command, Consumption, Contradiction, Core, DataflowShape, Emitted,
    Entry, Event, Extent, Key, OnAbort, Output, Part, ProcedureShape, Recovery, Refusal, Round,
    Slide, StreamShape, StreamSource, Transaction, TriggerEvent, TriggerShape, WindowShape,
};
use std::collections::{BTreeMap, BTreeSet};

/// What procedures do: a function of what they see alone.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Drawn from the names and places, with a share of aborts in percent.
    Drawn { seed: u64, aborts: u64 },
    /// Each execution emits one message into each stream. Those listed abort, by name and by the
    /// last place of the first batch.
    Passing(BTreeSet<(String, u64)>),
    /// No aborts. The streams that an execution emits into, by name and by the last place of its
    /// first batch (of a call: its number); none where nothing is listed.
    Listed(BTreeMap<(String, u64), Vec<u32>>),
}

/// What one step does: messages into streams, then perhaps an abort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) emits: Vec<StreamUid>,
    pub(crate) aborts: bool,
}

impl Script {
    /// The steps of an execution on these batches.
    pub(crate) fn steps(&self, shape: &ProcedureShape, seen: &[(u32, Vec<u64>)]) -> Steps {
        let numbers = seen.iter().flat_map(|(stream, places)| {
            std::iter::once(u64::from(*stream) << 32).chain(places.iter().copied())
        });
        match self {
            Script::Drawn { seed, aborts } => {
                let mut random = mixed(*seed, &shape.name, numbers);
                let mut emits = Vec::new();
                for stream in &shape.emits {
                    let count = [0, 0, 1, 1, 1, 2][random.below(6) as usize];
                    emits.extend(std::iter::repeat_n(*stream, count));
                }
                let aborts = random.below(100) < *aborts;
                Steps { emits, aborts }
            }
            Script::Passing(aborting) => {
                let last = seen.first().and_then(|(_, places)| places.last());
                let key = (shape.name.clone(), last.copied().unwrap_or(0));
                Steps {
                    emits: shape.emits.clone(),
                    aborts: aborting.contains(&key),
                }
            }
            Script::Listed(listed) => {
                let last = seen.first().and_then(|(_, places)| places.last());
                let key = (shape.name.clone(), last.copied().unwrap_or(0));
                let emits = listed.get(&key).into_iter().flatten();
                Steps {
                    emits: emits.copied().map(StreamUid).collect(),
                    aborts: false,
                }
            }
        }
    }

    /// The steps of a window's trigger when the window holds this.
    pub(crate) fn trigger(&self, shape: &ProcedureShape, window: usize, holds: &[u64]) -> Steps {
        let name = &shape.windows[window].name;
        let on = TriggerEvent::Slides(name.clone());
        let triggers = shape.triggers.iter().filter(|trigger| trigger.on == on);
        let emits: Vec<StreamUid> = triggers.flat_map(|trigger| trigger.emits.clone()).collect();
        match self {
            Script::Drawn { seed, aborts } => {
                let mut random = mixed(*seed, name, holds.iter().copied());
                let emits = emits.into_iter().filter(|_| random.below(2) == 0).collect();
                let aborts = random.below(100) < *aborts / 3;
                Steps { emits, aborts }
            }
            Script::Passing(aborting) => {
                let key = (name.clone(), holds.last().copied().unwrap_or(0));
                let aborts = aborting.contains(&key);
                Steps { emits, aborts }
            }
            Script::Listed(_) => Steps {
                emits,
                aborts: false,
            },
        }
    }
}

fn mixed(seed: u64, name: &str, numbers: impl Iterator<Item = u64>) -> SeededRandom {
    let name = name.bytes().map(u64::from);
    let mix = |so_far, number| SeededRandom::new(so_far ^ number).draw();
    SeededRandom::new(name.chain(numbers).fold(seed, mix))
}

/// What happens to the core from outside.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Message(u32, i64),
    Complete(u32, i64),
    Command(Command),
    /// A call of a procedure, received at this time.
    Call(String, i64),
    /// The next transaction, if there is one.
    Run,
    /// All transactions that are due.
    Settle,
    /// Interior streams are advanced.
    Advance,
}

/// A transaction as it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) round: Round,
    pub(crate) executions: Vec<Executed>,
    /// Stream, place, time.
    pub(crate) emitted: Vec<(u32, u64, i64)>,
    /// The procedure whose abort it was.
    pub(crate) aborted: Option<String>,
}

impl Done {
    /// The names of its procedures, in the order in which they ran.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.executions
            .iter()
            .map(|of| of.procedure.as_str())
            .collect()
    }
}

/// An execution as it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) procedure: String,
    pub(crate) now: i64,
    /// The batches that it had, with their streams.
    pub(crate) batches: Vec<(u32, Vec<u64>)>,
    /// The slides that set triggers off: the window, and what it held.
    pub(crate) slides: Vec<(usize, Vec<u64>)>,
    /// What each window held while the steps ran.
    pub(crate) saw: Vec<Vec<u64>>,
}

/// What windows hold, by procedure and name.
type Contents = BTreeMap<(String, String), (WindowShape, BTreeSet<u64>)>;

#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) core: Core,
    pub(crate) script: Script,
    pub(crate) events: Vec<Event>,
    pub(crate) done: Vec<Done>,
    /// What is released of each stream: places below.
    pub(crate) released: BTreeMap<u32, u64>,
    pub(crate) contents: Contents,
}

impl Driver {
    pub(crate) fn new(script: Script) -> Driver {
        Driver {
            core: Core::new(),
            script,
            events: Vec::new(),
            done: Vec::new(),
            released: BTreeMap::new(),
            contents: BTreeMap::new(),
        }
    }

    pub(crate) fn apply(&mut self, event: Event) -> Result<(), Contradiction> {
        for output in self.core.apply(&event)? {
            if let Output::Release { stream, below } = output {
                let before = self.released.insert(stream.0, below.0);
                assert!(before < Some(below.0), "a release moves forward");
            }
        }
        if let Event::Command(command) = &event {
            self.drop_contents(command);
        }
        self.events.push(event);
        Ok(())
    }

    /// An executor drops the windows that a command ends.
    fn drop_contents(&mut self, command: &Command) {
        match command {
            Command::CreateProcedure { shape, .. } => self
                .contents
                .retain(|(of, _), (window, _)| *of != shape.name || shape.windows.contains(window)),
            Command::DropProcedure { name, .. } => self.contents.retain(|(of, _), _| of != name),
            _ => {}
        }
    }

    /// Carries out an act. A command that is refused changes nothing.
    pub(crate) fn act(&mut self, act: &Act) -> Result<(), Refusal> {
        match act {
            Act::Message(stream, at) => self.message(*stream, *at),
            Act::Complete(stream, through) => self.logged(Event::Complete {
                stream: StreamUid(*stream),
                through: EventTime(*through),
            }),
            Act::Command(command) => {
                self.core.admit(command)?;
                self.logged(Event::Command(command.clone()));
            }
            Act::Call(name, received) => _ = self.call(name, None, *received)?,
            Act::Run => _ = self.run_next(),
            Act::Settle => while self.run_next() {},
            Act::Advance => {
                let advances = self.core.advances();
                if !advances.is_empty() {
                    self.logged(Event::Advance(advances));
                    assert_eq!(self.core.advances(), [], "one advance is enough");
                }
            }
        }
        Ok(())
    }

    fn logged(&mut self, event: Event) {
        self.apply(event).expect("the event fits the state");
    }

    pub(crate) fn message(&mut self, stream: u32, at: i64) {
        let stream = StreamUid(stream);
        let place = self.core.next_place(stream).expect("the stream exists");
        let at = EventTime(at);
        self.logged(Event::Message { stream, place, at });
    }

    pub(crate) fn call(
        &mut self,
        name: &str,
        key: Option<Key>,
        received: i64,
    ) -> Result<CallAdmission, Refusal> {
        let admission = self.core.call(name, key, EventTime(received))?;
        if let CallAdmission::Run(transaction) = &admission {
            self.run(transaction);
        }
        Ok(admission)
    }

    /// Runs the next transaction; `false` if there is none.
    pub(crate) fn run_next(&mut self) -> bool {
        let next = self.core.next();
        assert_eq!(self.core.next(), next, "asking changes nothing");
        if let Some(transaction) = &next {
            self.run(transaction);
        }
        next.is_some()
    }

    pub(crate) fn run(&mut self, transaction: &Transaction) {
        let (entry, done, contents) = self.execute(transaction);
        self.finish(entry, done, contents);
    }

    pub(crate) fn finish(&mut self, entry: Entry, done: Done, contents: Contents) {
        self.logged(Event::Entry(entry));
        self.done.push(done);
        self.contents = contents;
    }

    /// Runs a transaction to its entry. Nothing is applied.
    pub(crate) fn execute(&self, transaction: &Transaction) -> (Entry, Done, Contents) {
        let mut contents = self.contents.clone();
        let mut run = self.core.run(transaction);
        let mut done = Done {
            round: transaction.round(),
            executions: Vec::new(),
            emitted: Vec::new(),
            aborted: None,
        };
        while let Some(execution) = run.step() {
            let shapes: BTreeMap<_, _> = self.core.procedures().collect();
            let shape = shapes[&execution.procedure];
            let batches = execution.batches.iter().filter_map(|(stream, batch)| {
                let places = batch.as_ref()?.places.iter().map(|place| place.0);
                Some((stream.0, places.collect()))
            });
            let mut executed = Executed {
                procedure: shape.name.clone(),
                now: execution.now.0,
                batches: batches.collect(),
                slides: Vec::new(),
                saw: Vec::new(),
            };
            let mut steps = Steps::default();
            let mut emitted = Vec::new();
            for slide in &execution.slides {
                let holds = slid(&mut contents, shape, slide);
                assert_eq!(slide.sets_off, !holds.is_empty());
                if slide.sets_off {
                    steps = self.script.trigger(shape, slide.window, &holds);
                    executed.slides.push((slide.window, holds));
                    emitted.extend(steps.emits.iter().map(|stream| run.emit(*stream)));
                    if steps.aborts {
                        break;
                    }
                }
            }
            if !steps.aborts {
                executed.saw = shape
                    .windows
                    .iter()
                    .map(|window| holds(&contents, shape, window))
                    .collect();
                let seen = match transaction.round() {
                    Round::Call(number) if !shape.is_streaming() => vec![(0, vec![number])],
                    _ => executed.batches.clone(),
                };
                steps = self.script.steps(shape, &seen);
                emitted.extend(steps.emits.iter().map(|stream| run.emit(*stream)));
            }
            done.executions.push(executed);
            if steps.aborts {
                done.emitted.clear();
                done.aborted = Some(shape.name.clone());
                return (run.abort("scripted"), done, self.contents.clone());
            }
            let plain = |of: Emitted| (of.stream.0, of.place.0, of.at.0);
            done.emitted.extend(emitted.into_iter().map(plain));
        }
        (run.commit(b"done".to_vec()), done, contents)
    }
}

fn holds(contents: &Contents, shape: &ProcedureShape, window: &WindowShape) -> Vec<u64> {
    let key = (shape.name.clone(), window.name.clone());
    contents
        .get(&key)
        .map_or_else(Vec::new, |(_, holds)| holds.iter().copied().collect())
}

/// Lets messages leave and enter, as an executor does. Says what the window holds.
fn slid(contents: &mut Contents, shape: &ProcedureShape, slide: &Slide) -> Vec<u64> {
    let window = &shape.windows[slide.window];
    let key = (shape.name.clone(), window.name.clone());
    let (_, holds) = contents
        .entry(key)
        .or_insert_with(|| (window.clone(), BTreeSet::new()));
    for place in &slide.leave {
        assert!(holds.remove(&place.0), "what leaves was there");
    }
    for place in &slide.enter {
        assert!(holds.insert(place.0), "what enters was not there");
    }
    holds.iter().copied().collect()
}

// Short forms of declarations.

pub(crate) fn pushed(uid: u32) -> Act {
    stream(uid, StreamSource::Pushed)
}

pub(crate) fn interior(uid: u32) -> Act {
    stream(uid, StreamSource::Interior)
}

fn stream(uid: u32, source: StreamSource) -> Act {
    Act::Command(Command::CreateStream(StreamShape {
        uid: StreamUid(uid),
        name: format!("s{uid}"),
        source,
        amends: false,
    }))
}

pub(crate) fn messages(count: u64) -> BatchShape {
    BatchShape::Messages(count)
}

pub(crate) fn span(ms: i64) -> BatchShape {
    BatchShape::Span(Millis(ms))
}

pub(crate) fn last(messages: u64, slide: u64) -> Extent {
    Extent::Last { messages, slide }
}

pub(crate) fn range(range: i64, slide: i64) -> Extent {
    Extent::Range {
        range: Millis(range),
        slide: Millis(slide),
    }
}

/// A procedure that consumes streams and emits into others.
pub(crate) fn procedure(
    name: &str,
    consumes: &[(u32, BatchShape)],
    emits: &[u32],
) -> ProcedureShape {
    let consumption = |(stream, batch): &(u32, BatchShape)| Consumption {
        stream: StreamUid(*stream),
        batch: *batch,
    };
    ProcedureShape {
        name: name.to_owned(),
        consumes: consumes.iter().map(consumption).collect(),
        windows: Vec::new(),
        triggers: Vec::new(),
        emits: emits.iter().copied().map(StreamUid).collect(),
    }
}

/// The same with one more window, whose trigger emits into streams.
pub(crate) fn owning(
    mut shape: ProcedureShape,
    name: &str,
    stream: u32,
    extent: Extent,
    emits: &[u32],
) -> ProcedureShape {
    shape.windows.push(WindowShape {
        name: name.to_owned(),
        stream: StreamUid(stream),
        extent,
    });
    shape.triggers.push(TriggerShape {
        on: TriggerEvent::Slides(name.to_owned()),
        emits: emits.iter().copied().map(StreamUid).collect(),
    });
    for emitted in emits.iter().copied().map(StreamUid) {
        if !shape.emits.contains(&emitted) {
            shape.emits.push(emitted);
        }
    }
    shape
}

pub(crate) fn create(shape: ProcedureShape) -> Act {
    Act::Command(Command::CreateProcedure {
        shape,
        or_replace: false,
        begins: Vec::new(),
    })
}

pub(crate) fn replace(shape: ProcedureShape) -> Act {
    Act::Command(Command::CreateProcedure {
        shape,
        or_replace: true,
        begins: Vec::new(),
    })
}

pub(crate) fn dataflow(name: &str, parts: Vec<Part>, on_abort: OnAbort) -> Act {
    Act::Command(Command::CreateDataflow {
        shape: DataflowShape {
            name: name.to_owned(),
            parts,
            recovery: Recovery::Strong,
            on_abort,
        },
        or_replace: true,
    })
}

pub(crate) fn one(name: &str) -> Part {
    Part::One(name.to_owned())
}

pub(crate) fn nest(names: &[&str], order: &[(&str, &str)]) -> Part {
    let pair = |(before, after): &(&str, &str)| ((*before).to_owned(), (*after).to_owned());
    Part::Nest {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        order: order.iter().map(pair).collect(),
    }
}

pub(crate) fn pause(name: &str) -> Act {
    let name = name.to_owned();
    Act::Command(Command::PauseDataflow { name })
}

pub(crate) fn resume(name: &str) -> Act {
    let name = name.to_owned();
    Act::Command(Command::ResumeDataflow { name })
}

/// A driver after acts, each of which must be accepted.
pub(crate) fn after(script: Script, acts: impl IntoIterator<Item = Act>) -> Driver {
    let mut driver = Driver::new(script);
    for act in acts {
        driver.act(&act).expect("the act is accepted");
    }
    driver
}

/// One message into each stream, no aborts.
pub(crate) fn passing() -> Script {
    Script::Passing(BTreeSet::new())
}

/// As `passing`, with aborts by name and last place.
pub(crate) fn aborting(those: &[(&str, u64)]) -> Script {
    let own = |(name, place): &(&str, u64)| ((*name).to_owned(), *place);
    Script::Passing(those.iter().map(own).collect())
}

/// Emissions by name and last place.
pub(crate) fn listed(those: &[(&str, u64, &[u32])]) -> Script {
    let own =
        |(name, place, into): &(&str, u64, &[u32])| ((*name).to_owned(), *place, into.to_vec());
    let those = those.iter().map(own);
    Script::Listed(
        those
            .map(|(name, place, into)| ((name, place), into))
            .collect(),
    )
}
