//! Sinks whose queries and subscriptions go and come while they run.

use super::*;
use somersault::{EngineConfig, EventTime};
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{self, Sender, TryRecvError};
use std::thread;

const SEEN: &str = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
const PATIENCE: Duration = Duration::from_secs(60);

fn engine() -> Engine {
    let engine = Engine::open(EngineConfig::default()).expect("an engine");
    let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
    engine.create_stream(None, stream).expect("a stream");
    engine.advance([("urn:s", EventTime(0))]).expect("it moves");
    engine.register(Some("seen"), SEEN).expect("a query");
    engine
}

/// Starts the sink `f` with these terms.
fn started(engine: &Engine, terms: &str, file: &Path) -> Worker {
    let text = format!(
        "name=f,query=seen,empties=true{terms},file={}",
        file.display()
    );
    let spec = text.parse().expect("a sink");
    start(engine, &spec, &ClientTls::default())
        .expect("a thread")
        .0
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn subscribed(engine: &Engine) {
    let subscription = || engine.durable_subscription("seen", "f");
    until("the subscription", || {
        subscription().is_ok_and(|info| info.ended.is_none())
    });
}

/// Moves to a second; the sink gets its answer.
fn delivers(engine: &Engine, file: &Path, second: i64) {
    let to = EventTime(second * 1000);
    engine.advance([("urn:s", to)]).expect("it moves");
    let line = format!("\"close_ms\":{},", to.0);
    until(&line, || {
        std::fs::read_to_string(file).is_ok_and(|text| text.contains(&line))
    });
}

/// The first answers of a query that is registered later are answers from `now` on.
#[test]
fn a_sink_that_waits_for_its_query_gets_its_first_answer() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    engine.drop_query("seen").expect("it is dropped");
    let file = folder.path().join("answers");
    let sinks = started(&engine, "", &file);
    // The sink has looked for its query, and looks again later.
    thread::sleep(LOOK / 2);
    engine.register(Some("seen"), SEEN).expect("a query");
    delivers(&engine, &file, 1);
    delivers(&engine, &file, 2);
    drop(sinks);
    // Its terms are those of the same sink after a restart.
    let sinks = started(&engine, "", &file);
    delivers(&engine, &file, 3);
    drop(sinks);
}

#[test]
fn a_sink_goes_on_when_its_query_was_dropped_and_registered_again() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("answers");
    let sinks = started(&engine, "", &file);
    subscribed(&engine);
    delivers(&engine, &file, 1);
    engine.unsubscribe("seen", "f").expect("it is deleted");
    // The sink leaves time for this.
    thread::sleep(3 * LOOK);
    engine.drop_query("seen").expect("it is dropped");
    thread::sleep(2 * LOOK);
    engine.register(Some("seen"), SEEN).expect("a query");
    subscribed(&engine);
    delivers(&engine, &file, 2);
    drop(sinks);
}

#[test]
fn a_sink_subscribes_again_when_its_subscription_alone_was_deleted() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("answers");
    let sinks = started(&engine, ",from=kept", &file);
    subscribed(&engine);
    delivers(&engine, &file, 1);
    engine.unsubscribe("seen", "f").expect("it is deleted");
    let to = EventTime(2000);
    engine.advance([("urn:s", to)]).expect("it moves");
    subscribed(&engine);
    delivers(&engine, &file, 3);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(text.lines().count(), 3, "each once: {text}");
    drop(sinks);
}

#[test]
fn a_sink_waits_for_the_end_of_a_subscription_with_other_terms() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("answers");
    let other = somersault::DurableOptions::default();
    engine.subscribe_durably("seen", "f", &other).expect("one");
    let sinks = started(&engine, "", &file);
    thread::sleep(2 * LOOK);
    engine.unsubscribe("seen", "f").expect("it is deleted");
    subscribed(&engine);
    delivers(&engine, &file, 1);
    drop(sinks);
}

/// A receiver that takes a request and does not answer it, until its client is gone.
fn hanging(listener: &TcpListener, got: &Sender<()>) {
    let (mut socket, _) = listener.accept().expect("a connection");
    let mut buffer = [0; 4096];
    let _ = socket.read(&mut buffer).expect("a request");
    got.send(()).expect("the test waits");
    while socket.read(&mut buffer).is_ok_and(|read| read > 0) {}
    // The client has gone: by its own time limit, or with its process.
    let _ = got.send(());
}

/// A sink whose receiver hangs stops at once, and its answer is delivered later.
#[test]
fn a_stop_does_not_wait_for_a_receiver_that_hangs() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (got, has_got) = mpsc::channel();
    thread::spawn(move || hanging(&listener, &got));
    let text = format!("name=f,query=seen,empties=true,webhook=http://{address}/");
    let spec = text.parse().expect("a sink");
    let sinks = start(&engine, &spec, &ClientTls::default())
        .expect("a thread")
        .0;
    subscribed(&engine);
    engine
        .advance([("urn:s", EventTime(1000))])
        .expect("it moves");
    has_got.recv_timeout(PATIENCE).expect("a request");
    drop(sinks);
    assert_eq!(
        has_got.try_recv(),
        Err(TryRecvError::Empty),
        "it has not waited for the limit"
    );
    let info = engine
        .durable_subscription("seen", "f")
        .expect("it is there");
    assert_eq!((info.waiting, info.acknowledged), (1, None));
    let file = folder.path().join("answers");
    let sinks = started(&engine, "", &file);
    delivers(&engine, &file, 2);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(text.lines().count(), 2, "{text}");
    drop(sinks);
}

#[test]
fn a_sink_at_its_limit_goes_on_when_its_subscription_was_deleted() {
    let (engine, folder) = (engine(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("later").join("answers");
    // No file can be made there yet.
    let sinks = started(&engine, ",answers=1", &file);
    subscribed(&engine);
    let mut second = 0;
    let info = || engine.durable_subscription("seen", "f");
    until("the end", || {
        second += 1;
        let to = EventTime(second * 1000);
        engine.advance([("urn:s", to)]).expect("it moves");
        info().is_ok_and(|info| info.ended.is_some())
    });
    std::fs::create_dir(folder.path().join("later")).expect("a folder");
    thread::sleep(3 * LOOK);
    assert!(info().is_ok_and(|info| info.ended.is_some()));
    engine.unsubscribe("seen", "f").expect("it is deleted");
    subscribed(&engine);
    delivers(&engine, &file, second + 1);
    drop(sinks);
}
