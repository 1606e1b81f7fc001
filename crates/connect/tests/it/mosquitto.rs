//! The suite for MQTT, against mosquitto; its sink; and what its session keeps to.

use crate::suite::{Broker, World, suite};
use rumqttc::{Client, Event, MqttOptions, Packet, QoS};
use somersault::{Engine, EngineConfig, EventTime};
use somersault_connect::{ConnectorSort, Connectors};
use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A broker of its own for one test, on a loopback port.
pub(crate) struct Mosquitto {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Mosquitto {
    fn program() -> Option<&'static str> {
        let places = [
            "/usr/sbin/mosquitto",
            "/usr/local/sbin/mosquitto",
            "mosquitto",
        ];
        places.into_iter().find(|place| {
            let mut asked = Command::new(place);
            asked.arg("-h").stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().is_ok()
        })
    }

    fn run(&mut self) {
        let config = self.folder.path().join("mosquitto.conf");
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {}/\nautosave_on_changes true\nautosave_interval 1\nmax_queued_messages 0\nuser root\n",
            self.port,
            self.folder.path().display()
        );
        std::fs::write(&config, text).expect("written");
        let program = Mosquitto::program().expect("it was found before");
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).stderr(Stdio::null());
        self.process = Some(command.spawn().expect("it starts"));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(start.elapsed() < PATIENCE, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is killed");
            process.wait().expect("it has ended");
        }
    }

    fn settings(&self, client: &str) -> MqttOptions {
        let mut settings = MqttOptions::new(client, "127.0.0.1", self.port);
        settings.set_max_packet_size(64 << 20, 64 << 20);
        settings
    }

    fn sink(&self, more: &str) -> String {
        let port = self.port;
        format!("MQTT (url = 'mqtt://127.0.0.1:{port}', topic = 'answers'{more})")
    }
}

impl Broker for Mosquitto {
    fn start() -> Option<Mosquitto> {
        if Mosquitto::program().is_none() {
            println!("skipped: mosquitto is not installed (make brokers)");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut broker = Mosquitto {
            folder: tempfile::tempdir().expect("a folder"),
            port,
            process: None,
        };
        broker.run();
        Some(broker)
    }

    fn origin(&self) -> String {
        let port = self.port;
        format!("MQTT (url = 'mqtt://127.0.0.1:{port}', topic = 'meters/+')")
    }

    fn send(&mut self, messages: &[String]) {
        let mut settings = self.settings("test-sender");
        settings.set_inflight(20);
        let (client, mut connection) = Client::new(settings, messages.len() + 1);
        for message in messages {
            let sent = client.try_publish("meters/1", QoS::AtLeastOnce, false, message.as_bytes());
            sent.expect("there is room");
        }
        let mut left = messages.len();
        let start = Instant::now();
        for event in connection.iter() {
            assert!(start.elapsed() < PATIENCE, "messages are not taken");
            if let Event::Incoming(Packet::PubAck(_)) = event.expect("it is there") {
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }

    /// As an operator stops it: it writes what it has.
    fn stop(&mut self) {
        let process = self.process.as_ref().expect("it runs");
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        assert!(asked.expect("kill runs").success());
        let mut process = self.process.take().expect("it runs");
        process.wait().expect("it has ended");
    }

    fn go_on(&mut self) {
        self.run();
    }
}

suite!(Mosquitto);

#[test]
fn a_sink_publishes_each_answer_also_when_the_broker_is_started_again() {
    let Some(mut broker) = Mosquitto::start() else {
        return;
    };
    let engine = Engine::open(EngineConfig::default()).expect("an engine");
    let stream = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER";
    engine.create_stream(None, stream).expect("a stream");
    engine.advance([("urn:s", EventTime(0))]).expect("it moves");
    let query = "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?x ?p ?o }";
    engine.register(Some("q"), query).expect("a query");
    let connectors = Connectors::in_memory(&engine);
    let sink = format!(
        "CREATE SINK a FROM QUERY q INTO {}",
        broker.sink(", empties = true")
    );
    let declared = connectors.declare(ConnectorSort::Sink, "a", &sink);
    assert!(declared.expect("a sink"));
    let delivered = || connectors.sinks()[0].status.delivered;
    let until = |count: u64| {
        let start = Instant::now();
        while delivered() < count {
            assert!(start.elapsed() < PATIENCE, "{:?}", connectors.sinks());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // A reader with a session, so that the broker keeps messages for it.
    let broker_port = broker.port;
    let reader = std::thread::spawn(move || {
        let mut settings = MqttOptions::new("test-reader", "127.0.0.1", broker_port);
        settings.set_clean_session(false);
        let (client, mut connection) = Client::new(settings, 10);
        client
            .try_subscribe("answers", QoS::AtLeastOnce)
            .expect("there is room");
        let mut closes = BTreeSet::new();
        let start = Instant::now();
        while closes.len() < 20 && start.elapsed() < PATIENCE {
            match connection.recv_timeout(Duration::from_secs(1)) {
                Ok(Ok(Event::Incoming(Packet::Publish(message)))) => {
                    let text = String::from_utf8(message.payload.to_vec()).expect("text");
                    let at = text.find("\"close_ms\":").expect("a close");
                    let close = text[at..].split([':', ',']).nth(1).expect("a number");
                    closes.insert(close.parse::<i64>().expect("a number"));
                }
                // The broker is away for a while.
                Ok(Err(_)) => std::thread::sleep(Duration::from_millis(100)),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        closes
    });
    std::thread::sleep(Duration::from_millis(500));
    for second in 1..=20 {
        if second == 10 {
            until(9);
            broker.stop();
        }
        let moved = engine.advance([("urn:s", EventTime(second * 1_000))]);
        moved.expect("it moves");
        if second == 15 {
            broker.go_on();
        }
    }
    until(20);
    let closes = reader.join().expect("it has read");
    let expected: BTreeSet<i64> = (1..=20).map(|second| second * 1_000).collect();
    assert_eq!(closes, expected);
}

/// Retained messages come once, not again with each connection.
#[test]
fn a_retained_message_comes_once() {
    let Some(mut world) = World::<Mosquitto>::start("") else {
        return;
    };
    let (client, mut connection) = Client::new(world.broker.settings("test-retainer"), 10);
    let text = "<urn:r> <urn:at> 500 ; <urn:p> 1 .";
    let sent = client.try_publish("meters/r", QoS::AtLeastOnce, true, text);
    sent.expect("there is room");
    for event in connection.iter() {
        if let Event::Incoming(Packet::PubAck(_)) = event.expect("it is there") {
            break;
        }
    }
    world.until("the message", |world| world.status().counts.taken == 1);
    for _ in 0..2 {
        world.stop_engine();
        world.start_engine();
        world.until("a connection", |world| world.status().is_open);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(world.status().counts.taken, 0);
        assert_eq!(world.status().counts.repeated, 0);
    }
}
