//! `somersault subscriptions`: durable subscriptions as an operator uses them.

use crate::command::{Server, fails, somersault, succeeds, text};
use crate::kills::ask;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

/// A server with a stream and a query over it.
struct Subscribed {
    server: Server,
    folder: tempfile::TempDir,
}

impl Subscribed {
    fn start() -> Subscribed {
        Subscribed::started(&[])
    }

    fn started(more: &[&str]) -> Subscribed {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let server = Server::start(
            &[
                &["--data", data.to_str().expect("a path that is text")],
                more,
            ]
            .concat(),
        );
        let subscribed = Subscribed { server, folder };
        let file = subscribed.folder.path().join("s.sql");
        let statements = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER; \
                          REGISTER QUERY q AS SELECT ?o FROM STREAM <urn:s> [RANGE 1s STEP 1s] { ?s <urn:p> ?o }";
        fs::write(&file, statements).expect("it is written");
        subscribed.command(&["register", file.to_str().expect("a path that is text")]);
        subscribed
    }

    fn all<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [arguments, &["--server", &self.server.url]].concat()
    }

    fn command(&self, arguments: &[&str]) -> String {
        succeeds(&self.all(arguments))
    }

    fn subscriptions(&self, arguments: &[&str]) -> String {
        self.command(&[&["subscriptions"], arguments].concat())
    }

    fn fails(&self, arguments: &[&str]) -> String {
        fails(&self.all(&[&["subscriptions"], arguments].concat()), 1)
    }

    /// One answer for each of these seconds.
    fn seconds(&self, seconds: std::ops::Range<i64>) {
        let line = |second| format!("{second}500\t<urn:a> <urn:p> <urn:o{second}> .\n");
        let file = self.folder.path().join("s.tsv");
        let advance = format!("{}000", seconds.end);
        fs::write(&file, seconds.map(line).collect::<String>()).expect("it is written");
        let file = file.to_str().expect("a path that is text");
        self.command(&["push", "urn:s", file, "--advance", &advance]);
    }

    fn state(&self) -> Value {
        let shown = self.subscriptions(&["show", "q", "billing", "--json"]);
        serde_json::from_str(&shown).expect("JSON")
    }

    fn until_waiting(&self, answers: u64) {
        while self.state()["waiting"] != answers {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A reader that runs beside the test.
    fn reader(&self, more: &[&str]) -> (Child, impl Iterator<Item = Value> + use<>) {
        let reading = ["subscriptions", "read", "q", "billing"];
        let mut child = somersault()
            .args(self.all(&[&reading, more].concat()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.take().expect("standard output is piped");
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        let answers = lines.map(|line| serde_json::from_str(&line).expect("a line of JSON"));
        (child, answers)
    }
}

#[test]
fn an_operator_sees_and_moves_a_subscription() {
    let it = Subscribed::start();
    assert_eq!(it.subscriptions(&["list", "q"]), "");
    let terms = ["create", "q", "billing", "--deadline", "2h"];
    assert!(it.subscriptions(&terms).contains("created"));
    assert!(it.subscriptions(&terms).contains("same terms"));
    let refused = it.fails(&["create", "q", "billing", "--answers", "7"]);
    assert!(refused.contains("409"), "{refused}");
    it.seconds(1..4);
    it.until_waiting(3);
    let shown = it.subscriptions(&["show", "q", "billing"]);
    for said in [
        "nothing acknowledged yet, 3 answers kept (",
        "0 of them read",
        "acknowledged within 2 hours, then it ends",
    ] {
        assert!(shown.contains(said), "{shown}");
    }
    assert!(
        it.subscriptions(&["list", "q"])
            .starts_with("subscription billing of query q: ")
    );
    let read = it.subscriptions(&["read", "q", "billing", "--count", "2"]);
    let read: Vec<Value> = read
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let closes: Vec<_> = read.iter().map(|answer| &answer["close_ms"]).collect();
    assert_eq!(closes, [2000, 3000]);
    let id = read[0]["id"].as_str().unwrap();
    let said = it.subscriptions(&["ack", "q", "billing", id]);
    assert!(
        said.contains(&format!("acknowledged through {id}, 2 answers")),
        "{said}"
    );
    it.fails(&["ack", "q", "billing", "77:5"]);
    it.fails(&["show", "q", "none"]);
    assert!(it.fails(&["delete", "q", "none"]).contains("404"));
    it.subscriptions(&["delete", "q", "billing"]);
    it.fails(&["read", "q", "billing"]);
}

#[test]
fn what_a_reader_has_written_is_acknowledged() {
    let it = Subscribed::start();
    it.subscriptions(&["create", "q", "billing"]);
    it.seconds(1..4);
    it.until_waiting(3);
    // The second line cannot be written, so it is not acknowledged.
    let (mut child, mut answers) = it.reader(&["--ack"]);
    assert_eq!(answers.next().unwrap()["close_ms"], 2000);
    it.until_waiting(0);
    drop(answers);
    it.seconds(4..5);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "a closed pipe is no failure: {status}");
    assert_eq!(it.state()["waiting"], 1);
    let (child, mut answers) = it.reader(&["--ack", "--count", "1"]);
    assert_eq!(answers.next().unwrap()["close_ms"], 5000);
    assert_eq!(answers.next(), None);
    assert!(child.wait_with_output().expect("it ends").status.success());
    assert_eq!(it.state()["waiting"], 0);
    // A subscription that ends is a failure, with its sentence.
    let (child, _answers) = it.reader(&[]);
    while it.state()["handed"] != 0 {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(100));
    it.subscriptions(&["delete", "q", "billing"]);
    let ended = child.wait_with_output().expect("it ends");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("billing") && said.contains("deleted") || said.contains("404"),
        "{said}"
    );
}

/// A sink that cannot write, and one whose receiver refuses, make the server degraded until they
/// deliver.
#[test]
fn a_sink_that_keeps_failing_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let later = folder.path().join("later");
    let file = later.join("answers");
    let sink = format!("name=f,query=q,file={}", file.display());
    let it = Subscribed::started(&["--sink", &sink]);
    let status = || it.command(&["status"]);
    while !status().contains("delivers nothing") && !status().contains("times in a row") {
        thread::sleep(Duration::from_millis(50));
    }
    let said = status();
    assert!(
        said.contains("sink f of query q") && said.contains("cannot be used"),
        "{said}"
    );
    assert!(
        said.contains("subscription f of query q: nothing acknowledged yet"),
        "{said}"
    );
    let health = get(&it.server, "/health");
    assert_eq!(health["status"], "degraded", "{health}");
    assert!(health["sinks"][0]["trouble"].is_string(), "{health}");
    fs::create_dir(&later).unwrap();
    it.seconds(1..3);
    while get(&it.server, "/health")["status"] != "ok" {
        thread::sleep(Duration::from_millis(50));
    }
    while fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .count()
        < 2
    {
        thread::sleep(Duration::from_millis(50));
    }
    while !status().contains("sink f of query q: running, 2 answers delivered") {
        thread::sleep(Duration::from_millis(50));
    }
    assert!(status().contains("server: everything works"));
}

fn get(server: &Server, path: &str) -> Value {
    let socket = TcpStream::connect(server.url.trim_start_matches("http://")).expect("it listens");
    let (_, answer) = ask(socket, &format!("GET {path} HTTP/1.1"), "").expect("an answer");
    serde_json::from_str(&answer).expect("JSON")
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_reader_between_two_answers() {
    let it = Subscribed::start();
    it.subscriptions(&["create", "q", "billing"]);
    it.seconds(1..2);
    let (mut child, mut answers) = it.reader(&["--ack"]);
    assert_eq!(answers.next().unwrap()["close_ms"], 2000);
    let interrupt = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.expect("kill runs").success());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(it.state()["waiting"], 0, "the line was acknowledged");
}
