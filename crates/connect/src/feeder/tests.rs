//! A source that a test drives, and what its feeder does with refused messages, full streams and
//! stops.

use super::*;
use crate::source::SourceClass;
use serde_json::Value;
use somersault::EngineConfig;
use somersault::MessageSyntax;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

/// What a test and its source share.
#[derive(Debug, Default)]
struct Script {
    waiting: VecDeque<Portion>,
    acknowledged: usize,
    opened: usize,
    /// Faults of the next calls of `next`.
    faults: usize,
}

#[derive(Clone, Default)]
struct ScriptedSource(Arc<Mutex<Script>>);

impl ScriptedSource {
    fn with<T>(&self, look: impl FnOnce(&mut Script) -> T) -> T {
        look(&mut self.0.lock().expect("no panic"))
    }

    fn sends(&self, messages: &[(u64, &str)]) {
        let messages = messages.iter().map(|(position, text)| SourceMessage {
            position: *position,
            at: None,
            body: MessageBody::new(text.as_bytes().to_vec()),
        });
        let portion = Portion {
            partition: "s/0".to_owned(),
            messages: messages.collect(),
        };
        self.with(|script| script.waiting.push_back(portion));
    }
}

impl Source for ScriptedSource {
    fn class(&self) -> SourceClass {
        SourceClass::ExactlyOnce
    }

    fn open(&mut self, _ledger: &dyn Ledger, _stop: &StopSignal) -> Result<(), SourceError> {
        self.with(|script| script.opened += 1);
        Ok(())
    }

    fn next(
        &mut self,
        _ledger: &dyn Ledger,
        stop: &StopSignal,
    ) -> Result<Option<Portion>, SourceError> {
        stop.wait(Duration::from_millis(1));
        self.with(|script| match script.faults.checked_sub(1) {
            Some(left) => {
                script.faults = left;
                Err(SourceError::Broker {
                    broker: "b".to_owned(),
                    cause: "it broke off".to_owned(),
                })
            }
            None => Ok(script.waiting.pop_front()),
        })
    }

    fn acknowledge(&mut self, messages: usize) -> Result<(), SourceError> {
        self.with(|script| script.acknowledged += messages);
        Ok(())
    }
}

struct NoLedger;

impl Ledger for NoLedger {
    fn position(&self, _partition: &str) -> Result<Option<u64>, SourceError> {
        Ok(None)
    }

    fn note(&self) -> Option<Value> {
        None
    }

    fn keep(&self, _note: Value) -> Result<(), SourceError> {
        Ok(())
    }
}

struct World {
    engine: Engine,
    source: ScriptedSource,
    record: Arc<SourceRecord>,
    worker: Option<Worker>,
}

const STREAM: &str = "CREATE STREAM <urn:s> TIMELESS IDLE NEVER TIMESTAMP <urn:at>";
const LETTERS: &str = "CREATE STREAM <urn:bad> TIMELESS ARRIVAL TIME";

impl World {
    fn start(declarations: &[&str], format: SourceFormat) -> World {
        let engine = Engine::open(EngineConfig::default()).expect("an engine");
        for text in declarations {
            engine.create_stream(None, text).expect("a stream");
        }
        let source = ScriptedSource::default();
        let record = Arc::new(SourceRecord::new("s", "urn:s", source.class()));
        // A stream that is mapped names its dead letters by itself.
        let letters = match format {
            SourceFormat::Document => "",
            _ => "DEAD LETTER INTO <urn:bad>",
        };
        let text =
            format!("CREATE SOURCE s INTO <urn:s> FROM FILE (path = '/x') FORMAT TURTLE {letters}");
        let Ok(somersault::Statement::CreateSource(declared)) = engine.parse_statement(&text)
        else {
            panic!("it is a source");
        };
        let spec = SourceSpec::of(&declared).expect("a source");
        let mut feeder = Feeder {
            engine: engine.clone(),
            spec: SourceSpec { format, ..spec },
            source: Box::new(source.clone()),
            ledger: Box::new(NoLedger),
            record: Arc::clone(&record),
            stop: StopSignal::default(),
            pause: FIRST_PAUSE,
        };
        let worker = Worker::start("feeder".to_owned(), move |stop| {
            feeder.stop = stop;
            feeder.run();
        });
        World {
            engine,
            source,
            record,
            worker: Some(worker.expect("a thread")),
        }
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut(&World) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "in vain for {what}: {:?}",
                self.record.status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn acknowledges(&self, messages: usize) {
        self.until("acknowledgements", |world| {
            world.source.with(|script| script.acknowledged) == messages
        });
    }

    /// Whether this triple is stored, or becomes so.
    fn stores(&self, pattern: &str) {
        let ask = format!("ASK {{ {pattern} }}");
        self.until(pattern, |world| {
            let answer = world.engine.query(&ask).run().expect("an answer").answer;
            answer.boolean() == Some(true)
        });
    }
}

const TURTLE: SourceFormat = SourceFormat::Message(MessageSyntax::Turtle);

#[test]
fn refused_messages_go_to_the_dead_letters_and_stop_no_other() {
    let world = World::start(&[STREAM, LETTERS], TURTLE);
    let long = "x".repeat(17 << 20);
    world.source.sends(&[
        (1, "<urn:a> <urn:at> 1000 ; <urn:p> 1 ."),
        (2, "no message"),
        (3, &long),
        (4, "<urn:b> <urn:p> 2 ."),
        (9, "<urn:c> <urn:at> 2000 ; <urn:p> 3 ."),
    ]);
    world.acknowledges(5);
    let status = world.record.status();
    let counts = status.counts;
    assert_eq!(
        (counts.taken, counts.refused, counts.dead_letters),
        (2, 3, 3)
    );
    assert!(counts.bytes > 17 << 20);
    let (partition, position, reason) = status.last_refused.expect("one was refused");
    assert_eq!((partition.as_str(), position), ("s/0", 4));
    assert!(reason.contains("urn:at"), "{reason}");
    let position = world.engine.source_position("urn:s", "s/0");
    assert_eq!(position.expect("a stream"), Some(9));
    world.stores(
        "?l a <urn:somersault:DeadLetter> ; <urn:somersault:number> 2 ; <urn:somersault:source> \"s/0\" ; \
         <urn:somersault:stream> <urn:s> ; <urn:somersault:text> \"no message\" ; \
         <urn:somersault:bytes> 10 ; <urn:somersault:reason> ?r",
    );
    world.stores("?l <urn:somersault:number> 3 ; <urn:somersault:bytes> 17825792");
}

#[test]
fn plain_json_becomes_what_the_stream_says_that_it_means() {
    let stream = "PREFIX xyz: <http://sparql.xyz/facade-x/data/>
        CREATE STREAM <urn:s> TIMELESS IDLE NEVER TIMESTAMP <urn:at> DEAD LETTER INTO <urn:bad>
        MAPPED BY CONSTRUCT { ?meter <urn:at> ?at ; <urn:celsius> ?celsius }
                  WHERE { ?d xyz:meter ?name ; xyz:at ?at ; xyz:celsius ?celsius
                          BIND(IRI(CONCAT('urn:meter:', ?name)) AS ?meter) }";
    let world = World::start(&[LETTERS, stream], SourceFormat::Document);
    world.source.sends(&[
        (1, "{\"meter\": \"north\", \"at\": 1000, \"celsius\": 20.5}"),
        (2, "{\"meter\": \"north\"}"),
        (3, "{\"meter\": "),
        (4, "[{\"meter\": \"a\", \"at\": 1000, \"celsius\": 1}, {\"meter\": \"b\", \"at\": 1000, \"celsius\": 1}]"),
        (5, "{\"meter\": \"south\", \"at\": 2000, \"celsius\": 21}"),
    ]);
    world.acknowledges(5);
    let counts = world.record.status().counts;
    assert_eq!(
        (counts.taken, counts.refused, counts.dead_letters),
        (2, 3, 3)
    );
    world.stores("<urn:meter:north> <urn:celsius> 20.5");
    world.stores("?l <urn:somersault:number> 4 ; <urn:somersault:reason> ?r FILTER(CONTAINS(?r, \"several\"))");
}

#[test]
fn a_message_that_comes_again_is_dropped() {
    let world = World::start(&[STREAM, LETTERS], TURTLE);
    let message = "<urn:a> <urn:at> 1000 ; <urn:p> 1 .";
    world.source.sends(&[(1, message)]);
    world.source.sends(&[(1, message), (2, message)]);
    world.acknowledges(3);
    let counts = world.record.status().counts;
    assert_eq!((counts.taken, counts.repeated), (2, 1));
}

/// The dull twin of pushing lines together: one by one.
#[test]
fn lines_that_are_refused_together_are_taken_one_by_one() {
    let stream = "CREATE STREAM <urn:s> TIMELESS IDLE NEVER";
    let world = World::start(&[stream, LETTERS], SourceFormat::TimedLines);
    world.source.sends(&[
        (10, "1000\t<urn:a> <urn:p> 1 ."),
        (20, "1001\t<urn:a> <urn:p> <urn:b> ."),
        (30, "soon\t<urn:a> <urn:p> <urn:b> ."),
        (40, "1002\t<urn:a> <urn:p> <urn:c> ."),
    ]);
    world
        .source
        .sends(&[(50, "1003\t<urn:a> <urn:p> <urn:d> .")]);
    world.acknowledges(5);
    let counts = world.record.status().counts;
    assert_eq!(
        (counts.taken, counts.refused, counts.dead_letters),
        (3, 2, 2)
    );
    let info = world.engine.stream("urn:s").expect("a stream");
    assert_eq!(info.tuples, 3);
}

#[test]
fn messages_wait_for_their_stream() {
    let world = World::start(&[LETTERS], TURTLE);
    world
        .source
        .sends(&[(1, "<urn:a> <urn:at> 1000 ; <urn:p> 1 .")]);
    world.until("a failure", |world| world.record.status().failures > 0);
    let error = world.record.status().last_error.expect("it failed");
    assert!(error.contains("urn:s"), "{error}");
    assert_eq!(world.source.with(|script| script.acknowledged), 0);
    world.engine.create_stream(None, STREAM).expect("a stream");
    world.acknowledges(1);
    assert_eq!(world.record.status().last_error, None);
    assert_eq!(world.record.status().counts.refused, 0);
}

/// A full stream takes nothing; the source keeps the rest, and all of it is taken once there is
/// room.
#[test]
fn a_full_stream_holds_the_source_up_and_loses_nothing() {
    const MESSAGES: usize = 2_000;
    let stream =
        "CREATE STREAM <urn:s> IDLE NEVER BATCH 100ms KEEP 0s BUDGET 64 KiB TIMESTAMP <urn:at>";
    let world = World::start(&[stream, LETTERS], TURTLE);
    let query = "SELECT ?x FROM STREAM <urn:s> [RANGE 1h STEP 1h] WHERE { ?x ?p ?o }";
    world.engine.register(Some("q"), query).expect("a query");
    let text = |number: usize| {
        let time = 1_000 + 10 * number;
        format!("<urn:a{number}> <urn:at> {time} ; <urn:p> {number} .")
    };
    let texts: Vec<String> = (0..MESSAGES).map(text).collect();
    let numbered = (1..).zip(texts.iter().map(String::as_str));
    world.source.sends(&numbered.collect::<Vec<_>>());
    world.until("a full stream", |world| {
        let error = world.record.status().last_error;
        error.is_some_and(|error| error.contains("BUDGET"))
    });
    let acknowledged = world.source.with(|script| script.acknowledged);
    assert!(acknowledged < MESSAGES, "all of it had room");
    // Without the query, nothing holds what is in the stream.
    world.engine.drop_query("q").expect("it is dropped");
    world.acknowledges(MESSAGES);
    let counts = world.record.status().counts;
    assert_eq!((counts.taken, counts.refused), (MESSAGES as u64, 0));
}

#[test]
fn a_source_that_breaks_off_is_opened_again() {
    let world = World::start(&[STREAM, LETTERS], TURTLE);
    world.source.with(|script| script.faults = 4);
    world
        .source
        .sends(&[(1, "<urn:a> <urn:at> 1000 ; <urn:p> 1 .")]);
    world.acknowledges(1);
    assert_eq!(world.source.with(|script| script.opened), 5);
    let status = world.record.status();
    assert_eq!((status.failures, status.last_error), (4, None));
}

#[test]
fn a_stop_does_not_wait_for_a_stream_that_takes_nothing() {
    let mut world = World::start(&[LETTERS], TURTLE);
    world.source.sends(&[(1, "<urn:a> <urn:at> 1000 .")]);
    world.until("a failure", |world| world.record.status().failures > 2);
    drop(world.worker.take());
    assert_eq!(world.source.with(|script| script.acknowledged), 0);
}
