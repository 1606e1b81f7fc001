//! A server that is killed again and again, at seeded instants, while a file that grows and is
//! rotated, and an MQTT broker, feed two streams. At the end each message is there once.
//!
//! `SOMERSAULT_KILLS` is the number of kills, `SOMERSAULT_SEED` the seed. Without mosquitto, the
//! file alone feeds a stream.

use crate::command::Server;
use crate::kills::{ask, given};
use serde_json::Value;
use somersault_model::SeededRandom;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(180);

/// mosquitto, which publishes by its own client.
struct Broker {
    process: Child,
    port: u16,
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Broker {
    fn start(folder: &Path) -> Option<Broker> {
        let find = |names: &[&'static str]| {
            names.iter().copied().find(|name| {
                let mut asked = Command::new(name);
                asked
                    .arg("--help")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                asked.status().is_ok()
            })
        };
        let (Some(program), Some(_)) = (
            find(&["/usr/sbin/mosquitto", "mosquitto"]),
            find(&["mosquitto_pub"]),
        ) else {
            println!("skipped: mosquitto or mosquitto_pub is not installed (make brokers)");
            return None;
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let config = folder.join("mosquitto.conf");
        let text = format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nuser root\n"
        );
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).stderr(Stdio::null());
        let process = command.spawn().expect("it starts");
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Broker { process, port })
    }

    fn publish(&self, lines: &str) {
        let port = self.port.to_string();
        let mut publisher = Command::new("mosquitto_pub");
        publisher.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-q",
            "1",
            "-t",
            "meters/1",
            "-l",
        ]);
        let mut publisher = publisher.stdin(Stdio::piped()).spawn().expect("it starts");
        let mut input = publisher.stdin.take().expect("a pipe");
        input.write_all(lines.as_bytes()).expect("written");
        drop(input);
        assert!(publisher.wait().expect("it has ended").success());
    }
}

struct World {
    folder: tempfile::TempDir,
    server: Option<Server>,
    started: Instant,
}

impl World {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        let data = self.path("data");
        let data = data.to_str().expect("a path that is text");
        self.server = Some(Server::start(&["--data", data]));
    }

    fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        server.process.kill().expect("it is killed");
        server.process.wait().expect("it has ended");
    }

    fn asks(&self, head: &str, body: &str) -> Value {
        loop {
            assert!(self.started.elapsed() < PATIENCE, "in vain: {head}");
            let url = &self.server.as_ref().expect("it runs").url;
            let socket = TcpStream::connect(url.trim_start_matches("http://")).ok();
            match socket.and_then(|socket| ask(socket, head, body)) {
                Some((200 | 201, answer)) => {
                    return serde_json::from_str(&answer).expect("an answer in JSON");
                }
                None | Some((503, _)) => std::thread::sleep(Duration::from_millis(20)),
                Some((status, answer)) => panic!("{head}: {status} {answer}"),
            }
        }
    }

    fn declare(&self, name: &str, origin: &str) {
        let stream = format!("CREATE STREAM <urn:{name}> TIMELESS IDLE NEVER TIMESTAMP <urn:at>");
        self.asks(&format!("PUT /streams/urn%3A{name} HTTP/1.1"), &stream);
        let source =
            format!("CREATE SOURCE {name} INTO <urn:{name}> FROM {origin} FORMAT NTRIPLES");
        self.asks(&format!("PUT /sources/{name} HTTP/1.1"), &source);
    }

    fn append(&self, lines: &str) {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(self.path("lines"));
        let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        written.expect("written");
    }

    fn statements(&self, name: &str) -> u64 {
        let head = format!("GET /streams/urn%3A{name} HTTP/1.1");
        self.asks(&head, "")["tuples"].as_u64().expect("a number")
    }

    fn has(&self, name: &str, count: u64) {
        let start = Instant::now();
        while self.statements(name) < count {
            let source = self.asks(&format!("GET /sources/{name} HTTP/1.1"), "");
            assert!(start.elapsed() < PATIENCE, "{name}: {source}");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        let source = self.asks(&format!("GET /sources/{name} HTTP/1.1"), "");
        assert_eq!(self.statements(name), count, "{name}: each once; {source}");
        assert_eq!(source["refused"], 0, "{source}");
    }
}

fn lines(from: u64, count: u64) -> String {
    let line = |number: u64| {
        let time = 1_000 + number;
        format!(
            "<urn:m{number}> <urn:at> \"{time}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
        )
    };
    (from..from + count).map(line).collect()
}

#[test]
fn sources_bring_each_message_once_when_the_server_is_killed() {
    let kills = given("SOMERSAULT_KILLS").unwrap_or(6);
    let seed = given("SOMERSAULT_SEED").unwrap_or(1);
    let mut random = SeededRandom::new(seed);
    let mut world = World {
        folder: tempfile::tempdir().expect("a folder"),
        server: None,
        started: Instant::now(),
    };
    world.start();
    world.append("");
    let path = world.path("lines");
    world.declare("file", &format!("FILE (path = '{}')", path.display()));
    let broker = Broker::start(world.folder.path());
    if let Some(broker) = &broker {
        let port = broker.port;
        let origin = format!("MQTT (url = 'mqtt://127.0.0.1:{port}', topic = 'meters/+')");
        world.declare("mqtt", &origin);
        let source = || world.asks("GET /sources/mqtt HTTP/1.1", "");
        // The first subscription has to be there before the first message.
        while source()["state"] != "running" {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut sent = 0;
    for kill in 0..kills {
        let count = 50 + random.below(300);
        if let Some(broker) = &broker {
            broker.publish(&lines(sent, count));
        }
        world.append(&lines(sent, count));
        sent += count;
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        world.kill();
        if kill % 2 == 1 {
            std::fs::rename(&path, world.path(&format!("lines.{kill}"))).expect("rotated");
            world.append("");
        }
        world.start();
    }
    world.has("file", sent);
    if broker.is_some() {
        world.has("mqtt", sent);
    }
    println!("seed {seed}: {kills} kills, {sent} messages");
}
