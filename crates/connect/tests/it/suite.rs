//! What every source keeps to: order, positions, acknowledgement after commit, reconnects, full
//! streams, and messages that cannot be taken.
//!
//! A broker is a [`Broker`]. [`suite!`] makes a test of each law for it. Times of messages ascend
//! and the stream refuses late ones, so a message out of order is a refused one.

use somersault::{Engine, EngineConfig};
use somersault_connect::{
    ClientTls, ConnectorCommand, ConnectorSort, Connectors, ManageConnector, SourceStatus,
};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
/// The statements of a message.
const STATEMENTS: u64 = 2;

/// A place from which messages come.
pub(crate) trait Broker: Sized {
    /// Starts it; `None`, with a word on why, where it cannot be had.
    fn start() -> Option<Self>;
    /// `KIND ( option = value, … )`
    fn origin(&self) -> String;
    /// Sends messages, and returns when the broker has them.
    fn send(&mut self, messages: &[String]);
    /// Stops it. What it has is kept.
    fn stop(&mut self);
    /// Lets it go on.
    fn go_on(&mut self);
}

/// An engine with a source that reads a broker.
pub(crate) struct World<B> {
    pub(crate) broker: B,
    folder: tempfile::TempDir,
    /// `None` while it is stopped.
    running: Option<(Engine, Connectors)>,
    sent: u64,
}

impl<B: Broker> World<B> {
    pub(crate) fn start(clauses: &str) -> Option<World<B>> {
        let mut world = World {
            broker: B::start()?,
            folder: tempfile::tempdir().expect("a folder"),
            running: None,
            sent: 0,
        };
        world.start_engine();
        let stream = format!(
            "CREATE STREAM <urn:s> TIMELESS IDLE NEVER BATCH 10ms TIMESTAMP <urn:at> {clauses}"
        );
        let (engine, connectors) = world.running();
        engine.create_stream(None, &stream).expect("a stream");
        let letters = "CREATE STREAM <urn:bad> TIMELESS ARRIVAL TIME";
        engine.create_stream(None, letters).expect("a stream");
        let source = format!(
            "CREATE SOURCE m INTO <urn:s> FROM {} FORMAT TURTLE DEAD LETTER INTO <urn:bad>",
            world.broker.origin()
        );
        let declared = connectors.declare(ConnectorSort::Source, "m", &source);
        declared.expect("a source");
        // A broker keeps messages for a source that it knows.
        world.until("a connection", |world| world.status().is_open);
        Some(world)
    }

    fn running(&self) -> &(Engine, Connectors) {
        self.running.as_ref().expect("it runs")
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.running().0
    }

    pub(crate) fn start_engine(&mut self) {
        let data = self.folder.path().join("data");
        let config = EngineConfig {
            data: Some(data.clone()),
            ..EngineConfig::default()
        };
        let engine = Engine::open(config).expect("an engine");
        let connectors =
            Connectors::open(&engine, Some(&data), &[], &ClientTls::default()).expect("connectors");
        self.running = Some((engine, connectors));
    }

    pub(crate) fn stop_engine(&mut self) {
        let (engine, connectors) = self.running.take().expect("it runs");
        connectors.stop();
        engine.shutdown().expect("it stops");
    }

    /// Sends the next messages.
    pub(crate) fn send(&mut self, count: u64) {
        let messages: Vec<String> = (self.sent..self.sent + count).map(message).collect();
        self.broker.send(&messages);
        self.sent += count;
    }

    pub(crate) fn status(&self) -> SourceStatus {
        self.running().1.sources()[0].status.clone()
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut(&World<B>) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "in vain for {what}: {:?}",
                self.status()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn statements(&self) -> u64 {
        self.engine().stream("urn:s").expect("a stream").tuples
    }

    /// Waits until the stream has all that was sent, and checks that it has each once.
    #[track_caller]
    pub(crate) fn has_each_once(&self) {
        self.until("all messages", |world| {
            world.statements() >= STATEMENTS * world.sent
        });
        // A message that comes twice would do so now.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(self.statements(), STATEMENTS * self.sent, "each once");
        // The next message is not late then.
        let next = i64::try_from(time_of(self.sent)).expect("a time");
        let moved = self
            .engine()
            .advance([("urn:s", somersault::EventTime(next))]);
        moved.expect("it moves");
        let count =
            "ASK { { SELECT (COUNT(DISTINCT ?n) AS ?c) { ?m <urn:n> ?n } } FILTER (?c = COUNT) }";
        let count = count.replace("= COUNT", &format!("= {}", self.sent));
        self.until("all numbers", |world| {
            let answer = world
                .engine()
                .query(&count)
                .run()
                .expect("an answer")
                .answer;
            answer.boolean() == Some(true)
        });
    }

    #[track_caller]
    fn has_refused(&self, count: u64) {
        let counts = self.status().counts;
        assert_eq!((counts.refused, counts.dead_letters), (count, count));
    }

    fn manage(&self, command: ConnectorCommand) {
        let managed = self.running().1.manage(&ManageConnector {
            command,
            sort: ConnectorSort::Source,
            name: "m".to_owned(),
        });
        managed.expect("it is there");
    }
}

fn time_of(number: u64) -> u64 {
    1_000 + 10 * number
}

fn message(number: u64) -> String {
    let time = time_of(number);
    format!("<urn:m{number}> <urn:at> {time} ; <urn:n> {number} .")
}

pub(crate) fn messages_come_once_and_in_order<B: Broker>() {
    let Some(mut world) = World::<B>::start("") else {
        return;
    };
    for count in [1, 0, 7, 500, 3] {
        world.send(count);
    }
    world.has_each_once();
    world.has_refused(0);
}

/// A source whose engine stops and starts again brings what came meanwhile, and nothing twice.
pub(crate) fn an_engine_that_is_started_again_goes_on<B: Broker>() {
    let Some(mut world) = World::<B>::start("") else {
        return;
    };
    world.send(50);
    world.has_each_once();
    for _ in 0..3 {
        world.send(20);
        world.stop_engine();
        world.send(20);
        world.start_engine();
    }
    world.has_each_once();
    world.has_refused(0);
}

pub(crate) fn a_paused_source_goes_on_where_it_stopped<B: Broker>() {
    let Some(mut world) = World::<B>::start("") else {
        return;
    };
    world.send(50);
    world.manage(ConnectorCommand::Pause);
    world.send(50);
    world.manage(ConnectorCommand::Resume);
    world.has_each_once();
    world.has_refused(0);
}

pub(crate) fn a_broker_that_is_started_again_loses_and_doubles_nothing<B: Broker>() {
    let Some(mut world) = World::<B>::start("") else {
        return;
    };
    for _ in 0..3 {
        world.send(100);
        world.broker.stop();
        std::thread::sleep(Duration::from_millis(300));
        world.broker.go_on();
    }
    world.send(10);
    world.has_each_once();
    world.has_refused(0);
    assert_eq!(world.status().last_error, None);
}

/// The broker keeps what a full stream does not take.
pub(crate) fn a_full_stream_holds_messages_up<B: Broker>() {
    let clauses = "KEEP 0s BUDGET 64 KiB";
    let Some(mut world) = World::<B>::start(clauses) else {
        return;
    };
    let query = "SELECT ?x FROM STREAM <urn:s> [RANGE 1h STEP 1h] WHERE { ?x ?p ?o }";
    world.engine().register(Some("q"), query).expect("a query");
    world.send(2_000);
    world.until("a full stream", |world| {
        let error = world.status().last_error;
        error.is_some_and(|error| error.contains("BUDGET"))
    });
    assert!(world.statements() < STATEMENTS * 2_000);
    world.engine().drop_query("q").expect("it is dropped");
    world.has_each_once();
    world.has_refused(0);
}

/// Malformed, empty and huge messages go to the dead letters, and hold nothing up.
pub(crate) fn messages_that_cannot_be_taken_stop_no_other<B: Broker>() {
    let Some(mut world) = World::<B>::start("") else {
        return;
    };
    world.send(5);
    let bad = [
        "no message".to_owned(),
        "<urn:a> <urn:n> 1 .".to_owned(),
        format!("<urn:a> <urn:b> \"{}\" .", "x".repeat(17 << 20)),
        "\u{0}\u{1}".to_owned(),
    ];
    for bad in &bad {
        world.broker.send(std::slice::from_ref(bad));
        world.send(5);
    }
    world.has_each_once();
    world.until("the refusals", |world| world.status().counts.refused == 4);
    world.has_refused(4);
    let status = world.status();
    let (_, _, reason) = status.last_refused.expect("one was refused");
    assert!(!reason.is_empty());
    // A start that reads refused messages again sends no second letter.
    let letters = |world: &World<B>| world.engine().stream("urn:bad").expect("a stream").tuples;
    let before = letters(&world);
    assert_eq!(before, 4 * 7, "a letter has seven statements");
    world.stop_engine();
    world.start_engine();
    world.send(5);
    world.has_each_once();
    assert_eq!(letters(&world), before);
}

/// The tests of a broker.
macro_rules! suite {
    ($broker:ty) => {
        #[test]
        fn messages_come_once_and_in_order() {
            $crate::suite::messages_come_once_and_in_order::<$broker>();
        }
        #[test]
        fn an_engine_that_is_started_again_goes_on() {
            $crate::suite::an_engine_that_is_started_again_goes_on::<$broker>();
        }
        #[test]
        fn a_paused_source_goes_on_where_it_stopped() {
            $crate::suite::a_paused_source_goes_on_where_it_stopped::<$broker>();
        }
        #[test]
        fn a_broker_that_is_started_again_loses_and_doubles_nothing() {
            $crate::suite::a_broker_that_is_started_again_loses_and_doubles_nothing::<$broker>();
        }
        #[test]
        fn a_full_stream_holds_messages_up() {
            $crate::suite::a_full_stream_holds_messages_up::<$broker>();
        }
        #[test]
        fn messages_that_cannot_be_taken_stop_no_other() {
            $crate::suite::messages_that_cannot_be_taken_stop_no_other::<$broker>();
        }
    };
}
pub(crate) use suite;
