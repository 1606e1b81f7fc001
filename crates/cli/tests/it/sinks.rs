//! A server that is killed again and again, at seeded instants, while a file and a webhook take the
//! answers of a query. The receiver of the webhook refuses all of them for a while, and later some,
//! and breaks off connections. At the end both have every answer: the file each once and in order,
//! the receiver each once when repeats are dropped by their key.
//!
//! `SOMERSAULT_KILLS` is the number of kills, `SOMERSAULT_SEED` the seed.

use crate::command::Server;
use crate::kills::{ask, given};
use serde_json::Value;
use somersault_model::SeededRandom;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);
const STREAM: &str = "/streams/http%3A%2F%2Fe%2Fs";
const MINUTE_MS: u64 = 60_000;
/// The event time of the first push, a multiple of the query's step.
const START_MS: u64 = 1_700_000_040_000;
/// More answers than the server keeps without a durable subscription.
const REFUSED_FIRST: u64 = 90;

/// The receiver of the webhook.
#[derive(Default)]
struct Receiver {
    /// Requests so far.
    requests: AtomicU64,
    /// Whether it refuses everything.
    is_down: AtomicBool,
    is_over: AtomicBool,
    /// The bodies that it took, by their keys, repeats among them.
    taken: Mutex<Vec<(String, Value)>>,
}

impl Receiver {
    fn serve(self: Arc<Receiver>, listener: TcpListener, seed: u64) {
        let mut random = SeededRandom::new(seed);
        for socket in listener.incoming().map_while(Result::ok) {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // 0: refused, 1: taken and not answered, 2: not read, else: taken.
            let draw = random.below(8);
            // A connection that breaks off is the sender's matter.
            let _ = self.answer(socket, draw);
        }
    }

    fn answer(&self, socket: TcpStream, draw: u64) -> std::io::Result<()> {
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        self.requests.fetch_add(1, Ordering::SeqCst);
        let is_down = self.is_down.load(Ordering::SeqCst);
        if draw == 2 && !is_down {
            return Ok(());
        }
        let mut reader = BufReader::new(socket);
        let (mut key, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                // The sender was killed.
                return Ok(());
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                match line.trim_end().is_empty() {
                    true => break,
                    false => continue,
                }
            };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => value.clone_into(&mut key),
                "content-length" => length = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let is_taken = !is_down && draw != 0;
        if is_taken {
            let body = serde_json::from_slice(&body).expect("a body in JSON");
            self.taken.lock().expect("no panic").push((key, body));
        }
        if is_taken && draw == 1 {
            return Ok(());
        }
        let status = if is_taken { "204 No Content" } else { "500 Oh" };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        reader.into_inner().write_all(answer.as_bytes())
    }

    /// What it took, without repeats. A repeat has the same answer.
    fn without_repeats(&self) -> BTreeMap<String, Value> {
        let mut once = BTreeMap::new();
        for (key, body) in self.taken.lock().expect("no panic").iter() {
            assert_eq!(body["id"], key.as_str());
            let before = once.insert(key.clone(), body.clone());
            assert!(before.is_none_or(|before| before == *body), "{key} changed");
        }
        once
    }
}

/// The close of an answer, and its row.
fn close_and_row(answer: &Value) -> (u64, Option<String>) {
    let close = answer["close_ms"].as_u64().expect("a close");
    let rows = answer["results"]["results"]["bindings"].as_array();
    let rows = rows.expect("rows");
    assert!(rows.len() <= 1, "{answer}");
    let number = rows.first().map(|row| row["n"]["value"].to_string());
    (close, number)
}

/// The answers that a run without kills has.
fn expected(pushes: u64) -> BTreeMap<u64, Option<String>> {
    let close = |number: u64| START_MS + (number + 1) * MINUTE_MS;
    let answers = (0..pushes).map(|number| (close(number), Some(format!("\"{number}\""))));
    answers.collect()
}

fn start(data: &Path, file: &Path, receiver: &str) -> Server {
    let text = |path: &Path| path.to_str().expect("a path that is text").to_owned();
    let file = format!("name=file,query=q,from=kept,file={}", text(file));
    let hook = format!("name=hook,query=q,from=kept,webhook=http://{receiver}/answers");
    Server::start(&["--data", &text(data), "--sink", &file, "--sink", &hook])
}

/// What the pushing client and the killer share.
struct Shared {
    url: Mutex<String>,
    pushed: AtomicU64,
    checkpoints: AtomicU64,
    started: Instant,
}

impl Shared {
    fn pause(&self) {
        assert!(self.started.elapsed() < PATIENCE, "the run hangs");
        thread::sleep(PAUSE);
    }

    fn connect(&self) -> Option<TcpStream> {
        let url = self.url.lock().expect("no thread panicked").clone();
        TcpStream::connect(url.trim_start_matches("http://")).ok()
    }

    /// Asks for a checkpoint; `false` if the server was killed meanwhile.
    fn takes_checkpoint(&self) -> bool {
        let asked = |socket| ask(socket, "POST /checkpoint HTTP/1.1", "");
        match self.connect().and_then(asked) {
            Some((200, _)) => true,
            None | Some((409 | 503, _)) => false,
            Some((status, answer)) => panic!("a checkpoint: {status} {answer}"),
        }
    }

    /// Repeats a request until the server has carried it out.
    fn done(&self, head: &str, body: &str) -> Value {
        loop {
            match self.connect().and_then(|socket| ask(socket, head, body)) {
                Some((200 | 201, answer)) => {
                    return serde_json::from_str(&answer).expect("an answer in JSON");
                }
                None | Some((503, _)) => self.pause(),
                Some((status, answer)) => panic!("{head}: {status} {answer}"),
            }
        }
    }

    fn state_of(&self, sink: &str) -> Value {
        self.done(&format!("GET /queries/q/subscriptions/{sink} HTTP/1.1"), "")
    }
}

/// Pushes one numbered statement a minute.
fn push_all(shared: &Shared, pushes: u64, receiver: &Receiver) {
    for number in 0..pushes {
        if number == REFUSED_FIRST {
            receiver.is_down.store(false, Ordering::SeqCst);
        }
        let time = START_MS + number * MINUTE_MS + 1;
        let head = format!(
            "POST {STREAM} HTTP/1.1\r\nContent-Type: text/tab-separated-values\r\nPush-Source: client\r\nPush-Sequence: {number}"
        );
        let line = format!("{time}\t<http://e/c> <http://e/p> \"{number}\" .\n");
        shared.done(&head, &line);
        shared.pushed.fetch_add(1, Ordering::SeqCst);
        if number % 10 == 9 && shared.takes_checkpoint() {
            shared.checkpoints.fetch_add(1, Ordering::SeqCst);
        }
    }
    let end = START_MS + pushes * MINUTE_MS;
    let head = format!("POST {STREAM}/advance HTTP/1.1");
    shared.done(&head, &format!("{{\"to_ms\":{end}}}"));
}

/// The lines of the file. The last one has its line break, or is not whole.
fn lines_of(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a file of text");
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let lines = lines.map(|line| serde_json::from_str(line).expect("a line of JSON"));
    lines.collect()
}

#[test]
fn sinks_see_each_answer_once_when_the_server_is_killed() {
    let kills = given("SOMERSAULT_KILLS").unwrap_or(4);
    let seed = given("SOMERSAULT_SEED").unwrap_or(1);
    let pushes = REFUSED_FIRST + 12 * (kills + 1);
    let folder = tempfile::tempdir().expect("a folder");
    let (data, file) = (folder.path().join("data"), folder.path().join("answers"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let receiver = Arc::new(Receiver::default());
    receiver.is_down.store(true, Ordering::SeqCst);
    let serving = thread::spawn({
        let receiver = Arc::clone(&receiver);
        move || receiver.serve(listener, seed)
    });
    let server = start(&data, &file, &address);
    let shared = Shared {
        url: Mutex::new(server.url.clone()),
        pushed: AtomicU64::new(0),
        checkpoints: AtomicU64::new(0),
        started: Instant::now(),
    };
    let put = |address: &str, text: &str| shared.done(&format!("PUT {address} HTTP/1.1"), text);
    put(
        STREAM,
        "CREATE STREAM <http://e/s> TIMELESS BATCH 1m IDLE NEVER AHEAD 36500d",
    );
    put(
        "/queries/q",
        "SELECT ?n FROM NAMED STREAM <http://e/s> [RANGE 1m STEP 1m] WHERE { GRAPH <http://e/s> { ?c ?p ?n } }",
    );
    // The sinks look for their query a few times a second.
    let subscriptions = "GET /queries/q/subscriptions HTTP/1.1";
    while shared.done(subscriptions, "")["subscriptions"]
        .as_array()
        .map(Vec::len)
        != Some(2)
    {
        shared.pause();
    }
    let mut random = SeededRandom::new(seed);
    let server = thread::scope(|scope| {
        let client = scope.spawn(|| push_all(&shared, pushes, &receiver));
        let mut server = server;
        for kill in 0..kills {
            let at = kill * (pushes / kills.max(1)) + 1 + random.below(pushes / kills.max(1) - 1);
            while shared.pushed.load(Ordering::SeqCst) < at {
                shared.pause();
            }
            thread::sleep(Duration::from_micros(random.below(10_000)));
            server.process.kill().expect("it is killed");
            server.process.wait().expect("it has ended");
            // A crash of the machine leaves half a line.
            if kill % 2 == 0 && file.exists() {
                let opened = std::fs::OpenOptions::new().append(true).open(&file);
                let half = b"{\"id\":\"1:17000";
                opened
                    .expect("the file")
                    .write_all(half)
                    .expect("half a line");
            }
            server = start(&data, &file, &address);
            let mut url = shared.url.lock().expect("no thread panicked");
            url.clone_from(&server.url);
        }
        client.join().expect("the client has pushed all");
        server
    });
    let expected = expected(pushes);
    for sink in ["file", "hook"] {
        let last = START_MS + pushes * MINUTE_MS;
        let is_done = || {
            let state = shared.state_of(sink);
            assert_eq!(
                (&state["ended"], &state["missed"]),
                (&Value::Null, &0.into())
            );
            let id = state["acknowledged"].as_str().unwrap_or_default();
            id.ends_with(&format!(":{last}"))
        };
        while !is_done() {
            shared.pause();
        }
    }
    drop(server);
    receiver.is_over.store(true, Ordering::SeqCst);
    drop(TcpStream::connect(&address));
    serving.join().expect("the receiver has ended");
    let in_file: Vec<_> = lines_of(&file).iter().map(close_and_row).collect();
    assert!(
        in_file.is_sorted_by(|(one, _), (next, _)| one < next),
        "each once and in order"
    );
    assert_eq!(in_file.into_iter().collect::<BTreeMap<_, _>>(), expected);
    let once = receiver.without_repeats();
    let received: Vec<_> = once.values().map(close_and_row).collect();
    let closes: Vec<u64> = received.iter().map(|(close, _)| *close).collect();
    let is_missing = |close: &&u64| !closes.contains(close);
    let missing: Vec<&u64> = expected.keys().filter(is_missing).collect();
    assert!(missing.is_empty(), "without these closes: {missing:?}");
    assert_eq!(received.len(), expected.len(), "each key once");
    assert_eq!(received.into_iter().collect::<BTreeMap<_, _>>(), expected);
    let repeats = receiver.taken.lock().expect("no panic").len() - once.len();
    println!(
        "seed {seed}: {kills} kills, {pushes} answers, {} requests to the receiver, {repeats} repeats, {} checkpoints",
        receiver.requests.load(Ordering::SeqCst),
        shared.checkpoints.load(Ordering::SeqCst)
    );
}
