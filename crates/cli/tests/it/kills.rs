//! A server that is killed again and again, at seeded instants, while clients push, update and follow
//! a query, and checkpoints are taken every few hundred milliseconds. Each client repeats what was not acknowledged. At the end every acknowledged statement is
//! there exactly once, and the query's answers have neither a gap nor a duplicate.
//!
//! `SOMERSAULT_KILLS` is the number of kills, `SOMERSAULT_SEED` the seed.

use crate::command::Server;
use serde_json::Value;
use somersault_model::SeededRandom;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
/// What each kill adds to it.
const PATIENCE_OF_KILL: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);
/// The time between two checkpoints.
const CHECKPOINTS: Duration = Duration::from_millis(50);
/// Clients that push.
const CLIENTS: u64 = 8;
/// Pushes by which a client may be ahead of the slowest; LATENESS allows as many.
const AHEAD: u64 = 5;
/// Closes by which clients may be ahead of the subscriber. The server keeps 64 firings.
const CLOSES_AHEAD: u64 = 30;
const STREAM: &str = "/streams/http%3A%2F%2Fe%2Fs";
const MINUTE_MS: u64 = 60_000;
/// The event time before the first push, a multiple of the query's step.
const START_MS: u64 = 1_700_000_040_000;

/// The server that is killed, as those who use it see it.
pub(crate) struct Target {
    url: Mutex<String>,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) is_over: AtomicBool,
    started: Instant,
    patience: Duration,
}

impl Target {
    /// A server that will be killed this many times.
    pub(crate) fn new(server: &Server, kills: u64) -> Target {
        Target {
            url: Mutex::new(server.url.clone()),
            checkpoints: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            started: Instant::now(),
            patience: PATIENCE + PATIENCE_OF_KILL * u32::try_from(kills).expect("few kills"),
        }
    }

    pub(crate) fn pause(&self) {
        assert!(self.started.elapsed() < self.patience, "the run hangs");
        thread::sleep(PAUSE);
    }

    /// Ends the run when it is dropped, so that a failure does not leave its threads behind.
    pub(crate) fn ended(&self) -> EndOfRun<'_> {
        EndOfRun(&self.is_over)
    }

    fn connect(&self) -> Option<TcpStream> {
        let url = self.url.lock().expect("no thread panicked").clone();
        let socket = TcpStream::connect(url.trim_start_matches("http://")).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(socket)
    }

    /// Repeats a request until the server answers it; returns the status, the body, and how often it
    /// was sent.
    pub(crate) fn answered(&self, head: &str, body: &str) -> (u16, String, u64) {
        let mut sent = 0;
        loop {
            sent += 1;
            match self.connect().and_then(|socket| ask(socket, head, body)) {
                None | Some((503, _)) => self.pause(),
                Some((status, answer)) => return (status, answer, sent),
            }
        }
    }

    /// Repeats a request until the server has carried it out.
    pub(crate) fn done(&self, head: &str, body: &str) -> Value {
        let (status, answer, _) = self.answered(head, body);
        assert!(matches!(status, 200 | 201), "{head}: {status} {answer}");
        serde_json::from_str(&answer).expect("an answer in JSON")
    }
}

/// The end of a run.
pub(crate) struct EndOfRun<'t>(&'t AtomicBool);

impl Drop for EndOfRun<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What the clients, the subscriber and the killer share.
struct Shared {
    target: Target,
    /// The acknowledged pushes of each client.
    pushed: Vec<AtomicU64>,
    /// Acknowledgements of pushes that had been taken before a kill.
    repeated: AtomicU64,
    updated: AtomicU64,
    /// The rows of each close.
    closes: Mutex<BTreeMap<u64, Vec<String>>>,
}

impl Shared {
    fn closes(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<String>>> {
        self.closes.lock().expect("no thread panicked")
    }

    fn acknowledged(&self) -> u64 {
        self.pushed
            .iter()
            .map(|count| count.load(Ordering::SeqCst))
            .sum()
    }

    /// Takes the rows of a close.
    fn take(&self, data: &Value) {
        let close = data["close_ms"].as_u64().expect("a close");
        let rows = data["results"]["results"]["bindings"].as_array();
        let value = |row: &Value, name: &str| row[name]["value"].to_string();
        let mut rows: Vec<String> = (rows.expect("rows").iter())
            .map(|row| ["c", "p", "n"].map(|name| value(row, name)).concat())
            .collect();
        rows.sort();
        let before = self.closes().insert(close, rows);
        assert!(before.is_none(), "close {close} came twice");
    }
}

/// The status and body of the answer to a request, if it was answered whole.
pub(crate) fn ask(mut socket: TcpStream, head: &str, body: &str) -> Option<(u16, String)> {
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let is_whole = length.is_none_or(|length| length.parse() == Ok(body.len()));
    is_whole.then(|| (status, body.to_owned()))
}

/// One client pushes its numbered statements, a minute of event time between two of them.
fn push_all(shared: &Shared, client: u64, pushes: u64) {
    for number in 0..pushes {
        let is_ahead = || {
            let slowest = shared
                .pushed
                .iter()
                .map(|count| count.load(Ordering::SeqCst))
                .min();
            let closes = shared.closes().len() as u64;
            number > slowest.unwrap_or_default() + AHEAD || number > closes + CLOSES_AHEAD
        };
        while is_ahead() {
            shared.target.pause();
        }
        let time = START_MS + number * MINUTE_MS + client + 1;
        let source = format!("Push-Source: client-{client}\r\nPush-Sequence: {number}");
        // Every other client sends messages.
        let is_message = client % 2 == 1;
        let (body, before) = match is_message {
            true => (
                format!("application/n-triples;version=1.2-messages\r\nEvent-Time-Ms: {time}"),
                String::new(),
            ),
            false => ("text/tab-separated-values".to_owned(), format!("{time}\t")),
        };
        let head = format!("POST {STREAM} HTTP/1.1\r\nContent-Type: {body}\r\n{source}");
        let line = |n: u64| format!("{before}<http://e/{client}> <http://e/p{n}> \"{number}\" .\n");
        let answer = shared.target.done(&head, &(line(1) + &line(2)));
        let is_repeated = match is_message {
            true => answer["repeated"] == 1,
            false => answer["repeated"] == true,
        };
        assert!(is_repeated || answer["accepted"] == 2, "{answer}");
        shared
            .repeated
            .fetch_add(u64::from(is_repeated), Ordering::SeqCst);
        shared.pushed[client as usize].fetch_add(1, Ordering::SeqCst);
    }
}

/// One client updates the stored graph until the run is over.
fn update_all(shared: &Shared) {
    while !shared.target.is_over.load(Ordering::SeqCst) {
        let number = shared.updated.load(Ordering::SeqCst);
        let text = format!(
            "INSERT DATA {{ GRAPH <http://e/g> {{ <http://e/u> <http://e/p> {number} }} }}"
        );
        let head = "POST /update HTTP/1.1\r\nContent-Type: application/sparql-update";
        shared.target.done(head, &text);
        shared.updated.fetch_add(1, Ordering::SeqCst);
    }
}

/// One client asks for a checkpoint again and again, until the run is over. It is written while
/// others push, update and read, and a kill may come in between.
pub(crate) fn checkpoint_all(target: &Target) {
    while !target.is_over.load(Ordering::SeqCst) {
        let asked = |socket| ask(socket, "POST /checkpoint HTTP/1.1", "");
        match target.connect().and_then(asked) {
            Some((200, _)) => drop(target.checkpoints.fetch_add(1, Ordering::SeqCst)),
            // Another one is being written, or the server is starting or killed.
            None | Some((409 | 503, _)) => {}
            Some((status, answer)) => panic!("a checkpoint: {status} {answer}"),
        }
        thread::sleep(CHECKPOINTS);
    }
}

/// Follows the answers of a query, and connects again behind the last one; returns the number of
/// connections.
pub(crate) fn subscribe(target: &Target, query: &str, mut take: impl FnMut(&Value)) -> u64 {
    let mut last_id: Option<String> = None;
    let mut connected = 0;
    while !target.is_over.load(Ordering::SeqCst) {
        let after = last_id.iter().map(|id| format!("Last-Event-ID: {id}\r\n"));
        // The body of an answer to HTTP/1.0 has no chunks.
        let request = format!(
            "GET /queries/{query}/results?empties=true HTTP/1.0\r\n{}\r\n",
            after.collect::<String>()
        );
        if let Some(mut socket) = target.connect()
            && socket.write_all(request.as_bytes()).is_ok()
        {
            connected += 1;
            follow(target, BufReader::new(socket), &mut last_id, &mut take);
        }
        target.pause();
    }
    connected
}

/// Takes the events of one connection.
fn follow(
    target: &Target,
    reader: impl BufRead,
    last_id: &mut Option<String>,
    take: &mut impl FnMut(&Value),
) {
    let (mut id, mut event) = (None, None);
    for line in reader.lines().map_while(Result::ok) {
        if let Some(given) = line.strip_prefix("id: ") {
            id = Some(given.to_owned());
        } else if let Some(given) = line.strip_prefix("event: ") {
            event = Some(given.to_owned());
        } else if let Some(data) = line.strip_prefix("data: ") {
            // The end of a line may be missing, and with it the end of the data.
            let Ok(data) = serde_json::from_str::<Value>(data) else {
                return;
            };
            assert_ne!(event.as_deref(), Some("gap"), "after {last_id:?}: {data}");
            if event.is_none() {
                assert_eq!(data["revision"], 0, "{data}");
                take(&data);
                *last_id = id.take();
            }
            event = None;
        }
        if target.is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

pub(crate) fn start(folder: &Path) -> Server {
    Server::start(&["--data", folder.to_str().expect("a path that is text")])
}

/// Kills the server each time when the clients have got `apart` further, at an instant within a few
/// milliseconds; every other time after one more checkpoint.
pub(crate) fn kill_often(
    target: &Target,
    mut server: Server,
    folder: &Path,
    kills: u64,
    random: &mut SeededRandom,
    (apart, acknowledged): (u64, impl Fn() -> u64),
) -> Server {
    for kill in 0..kills {
        let at = kill * apart + 1 + random.below(apart - 1);
        while acknowledged() < at {
            target.pause();
        }
        let before = target.checkpoints.load(Ordering::SeqCst);
        while kill % 2 == 1 && target.checkpoints.load(Ordering::SeqCst) == before {
            target.pause();
        }
        thread::sleep(Duration::from_micros(random.below(10_000)));
        server.process.kill().expect("it is killed");
        server.process.wait().expect("it has ended");
        server = start(folder);
        let mut url = target.url.lock().expect("no thread panicked");
        url.clone_from(&server.url);
    }
    server
}

/// Compares what is there with what was acknowledged.
fn compare(shared: &Shared, pushes: u64) {
    let stream = shared.target.done(&format!("GET {STREAM} HTTP/1.1"), "");
    assert_eq!(stream["tuples"], 2 * CLIENTS * pushes, "{stream}");
    let select = |pattern: &str| {
        let head = "POST /query HTTP/1.1\r\nContent-Type: application/sparql-query";
        let text = format!("SELECT (COUNT(*) AS ?n) {{ {pattern} }}");
        let answer = shared.target.done(head, &text);
        let count = answer["results"]["bindings"][0]["n"]["value"].as_str();
        count.expect("a count").parse::<u64>().expect("a number")
    };
    assert_eq!(select("?c <http://e/p1> ?n"), CLIENTS * pushes);
    assert_eq!(select("?c <http://e/p2> ?n"), CLIENTS * pushes);
    let updated = shared.updated.load(Ordering::SeqCst);
    assert_eq!(select("GRAPH <http://e/g> { ?c <http://e/p> ?n }"), updated);
    let closes = shared.closes();
    for number in 0..pushes {
        let close = START_MS + (number + 1) * MINUTE_MS;
        let row =
            |client: u64, n: u64| format!("\"http://e/{client}\"\"http://e/p{n}\"\"{number}\"");
        let mut rows: Vec<String> = (0..CLIENTS)
            .flat_map(|client| [row(client, 1), row(client, 2)])
            .collect();
        rows.sort();
        assert_eq!(closes.get(&close), Some(&rows), "close {close}");
    }
    let empty = closes.values().filter(|rows| rows.is_empty()).count() as u64;
    assert_eq!(closes.len() as u64, pushes + empty);
    let apart = closes.keys().zip(closes.keys().skip(1));
    assert!(apart.into_iter().all(|(one, next)| next - one == MINUTE_MS));
}

pub(crate) fn given(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn clients_lose_nothing_when_the_server_is_killed() {
    let kills = given("SOMERSAULT_KILLS").unwrap_or(4);
    let seed = given("SOMERSAULT_SEED").unwrap_or(1);
    let pushes = 8 * (kills + 1);
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(&data);
    let shared = Shared {
        target: Target::new(&server, kills),
        pushed: (0..CLIENTS).map(|_| AtomicU64::new(0)).collect(),
        repeated: AtomicU64::new(0),
        updated: AtomicU64::new(0),
        closes: Mutex::default(),
    };
    let target = &shared.target;
    let put =
        |address: &str, text: &str| shared.target.done(&format!("PUT {address} HTTP/1.1"), text);
    put(
        STREAM,
        "CREATE STREAM <http://e/s> TIMELESS BATCH 1m LATENESS 10m IDLE NEVER AHEAD 36500d",
    );
    put(
        "/queries/q",
        "SELECT ?c ?p ?n FROM NAMED STREAM <http://e/s> [RANGE 1m STEP 1m] WHERE { GRAPH <http://e/s> { ?c ?p ?n } }",
    );
    let mut random = SeededRandom::new(seed);
    let connected = thread::scope(|scope| {
        let _ends = target.ended();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let shared = &shared;
                scope.spawn(move || push_all(shared, client, pushes))
            })
            .collect();
        scope.spawn(|| update_all(&shared));
        let subscriber = scope.spawn(|| subscribe(target, "q", |answer| shared.take(answer)));
        scope.spawn(|| checkpoint_all(target));
        let progress = (8 * CLIENTS, || shared.acknowledged());
        let _server = kill_often(target, server, &data, kills, &mut random, progress);
        for client in clients {
            client.join().expect("the client has pushed all");
        }
        let end = START_MS + pushes * MINUTE_MS;
        shared.target.done(
            &format!("POST {STREAM}/advance HTTP/1.1"),
            &format!("{{\"to_ms\":{end}}}"),
        );
        while !shared.closes().contains_key(&end) {
            shared.target.pause();
        }
        shared.target.is_over.store(true, Ordering::SeqCst);
        // The updating client has its answer before the counts are compared.
        let updated = shared.updated.load(Ordering::SeqCst);
        while shared.updated.load(Ordering::SeqCst) == updated {
            shared.target.pause();
        }
        compare(&shared, pushes);
        subscriber.join().expect("the subscriber has followed")
    });
    let first = data.join("log-0000000001.seg");
    assert!(
        !first.exists(),
        "checkpoints make the beginning of the log needless"
    );
    assert!(shared.target.checkpoints.load(Ordering::SeqCst) >= kills / 2);
    println!(
        "seed {seed}: {kills} kills, {} pushes repeated, {connected} connections of the subscriber, {} updates, {} checkpoints",
        shared.repeated.load(Ordering::SeqCst),
        shared.updated.load(Ordering::SeqCst),
        shared.target.checkpoints.load(Ordering::SeqCst),
    );
}
