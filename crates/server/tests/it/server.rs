//! An engine and a server for one test, and requests to it.

use crate::client::{Events, Reply, exchange, request_bytes};
use serde_json::Value;
use somersault::{Clock, Engine, EngineConfig, FabricKind};
use somersault_server::{Running, ServerConfig};
use std::net::{SocketAddr, TcpListener};

pub(crate) struct TestServer {
    pub(crate) engine: Engine,
    running: Option<Running>,
    address: SocketAddr,
}

pub(crate) fn engine_config() -> EngineConfig {
    EngineConfig {
        clock: Clock::Manual,
        fabric: FabricKind::Timely,
        workers: 2,
        ..EngineConfig::default()
    }
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::with(engine_config(), ServerConfig::default())
    }

    /// A server that answers for this host, too.
    pub(crate) fn answering_for(host: &str) -> TestServer {
        let mut config = ServerConfig::default();
        config.allowed_hosts = vec![host.to_owned()];
        TestServer::with(engine_config(), config)
    }

    pub(crate) fn with(engine: EngineConfig, server: ServerConfig) -> TestServer {
        let engine = Engine::open(engine).expect("the engine opens");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let running = Running::start(engine.clone(), listener, server).expect("the server starts");
        TestServer {
            engine,
            address: running.address(),
            running: Some(running),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server, not the engine.
    pub(crate) fn stop(&mut self) {
        self.running
            .take()
            .expect("it runs")
            .stop()
            .expect("it stops in order");
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        let mut headers = headers.to_vec();
        headers.push(("Connection", "close"));
        exchange(
            self.address,
            &request_bytes(method, path, &headers, body),
            method == "HEAD",
        )
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send("GET", path, &[("Accept", accept)], None)
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> Reply {
        self.send("PUT", path, &[], Some(body.as_bytes()))
    }

    pub(crate) fn post(&self, path: &str, media_type: &str, body: &str) -> Reply {
        self.send(
            "POST",
            path,
            &[("Content-Type", media_type)],
            Some(body.as_bytes()),
        )
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], None)
    }

    /// The bindings of a SELECT query.
    #[track_caller]
    pub(crate) fn select(&self, query: &str) -> Vec<Value> {
        let reply = self
            .post("/query", "application/sparql-query", query)
            .expect(200);
        reply.json()["results"]["bindings"]
            .as_array()
            .expect("bindings")
            .clone()
    }

    #[track_caller]
    pub(crate) fn ask(&self, query: &str) -> bool {
        self.post("/query", "application/sparql-query", query)
            .expect(200)
            .json()["boolean"]
            .as_bool()
            .expect("a boolean")
    }

    #[track_caller]
    pub(crate) fn update(&self, update: &str) -> Value {
        self.post("/update", "application/sparql-update", update)
            .expect(200)
            .json()
    }

    /// Declares a stream with batches of a second, and returns its path.
    #[track_caller]
    pub(crate) fn stream(&self, name: &str, clauses: &str) -> String {
        let iri = format!("http://e/{name}");
        let path = format!("/streams/{}", encode(&iri));
        self.put(
            &path,
            &format!("CREATE STREAM <{iri}> {clauses} BATCH 1s IDLE NEVER"),
        )
        .expect(201);
        path
    }

    /// Pushes timed lines.
    pub(crate) fn push(&self, path: &str, lines: &str) -> Reply {
        self.post(path, "text/tab-separated-values", lines)
    }

    #[track_caller]
    pub(crate) fn advance(&self, path: &str, to_ms: i64) {
        self.post(
            &format!("{path}/advance"),
            "application/json",
            &format!("{{\"to_ms\":{to_ms}}}"),
        )
        .expect(200);
    }

    pub(crate) fn events(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        Events::open(self.address, path, headers)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = self.engine.shutdown();
    }
}

/// Percent-encodes what a path segment or a parameter must not hold.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                (byte as char).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
