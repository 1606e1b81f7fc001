//! Backups and dumps over HTTP.

use crate::client::{connect, request_bytes, until};
use crate::server::{TestServer, engine_config};
use somersault::disk::SimDisk;
use somersault::folder::{VerifyState, receive_backup, verify_folder};
use somersault::{EngineConfig, LoadOptions, RdfFormat};
use somersault_server::ServerConfig;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

fn durable(folder: &tempfile::TempDir) -> TestServer {
    let config = EngineConfig {
        data: Some(folder.path().to_owned()),
        ..engine_config()
    };
    TestServer::with(config, ServerConfig::default())
}

/// Loads statements whose backup is larger than what waits in buffers.
fn load(server: &TestServer, count: u64) {
    let mut random = 7_u64;
    let mut lines = String::new();
    for number in 0..count {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(number);
        lines.push_str(&format!(
            "<http://e/{random:x}> <http://e/p> \"{:x}\" .\n",
            !random
        ));
    }
    let loaded = (server.engine).load(
        lines.as_bytes(),
        RdfFormat::NTriples,
        LoadOptions::default(),
    );
    loaded.expect("it is loaded");
}

#[test]
fn a_backup_is_an_archive_of_a_sound_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = durable(&folder);
    load(&server, 1_000);
    server.update("INSERT DATA { <http://e/a> <http://e/p> 1 }");
    let reply = server.send("POST", "/backup", &[], None).expect(200);
    assert_eq!(reply.header("content-type"), Some("application/x-tar"));
    assert!(reply.complete);
    let position: u64 = (reply.header("somersault-position").expect("a position"))
        .parse()
        .expect("a number");
    let copy = SimDisk::new();
    receive_backup(&reply.body[..], &copy).expect("it is whole");
    let report = verify_folder(Arc::new(copy), VerifyState::Yes, &Arc::default());
    let report = report.expect("it is read");
    assert!(report.is_sound(), "{:?}", report.damage);
    assert_eq!(report.log.expect("a log").last, position);
    assert_eq!(report.state.expect("a state").statements, 1_001);
    server
        .send("POST", "/backup?x=1", &[], None)
        .expect_error(400, "unknown_parameter", &["x"]);
    server.get("/backup").expect(405);
}

#[test]
fn a_server_without_a_folder_has_no_backup() {
    let server = TestServer::start();
    let refused = server.send("POST", "/backup", &[], None);
    refused.expect_error(409, "conflict", &["--data"]);
}

#[test]
fn a_client_that_goes_away_frees_what_its_backup_held() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = durable(&folder);
    load(&server, 300_000);
    // One connection more than there are places, one after the other.
    for path in ["/backup", "/dump/statements"] {
        for _ in 0..70 {
            let mut socket = connect(server.address());
            let method = if path == "/backup" { "POST" } else { "GET" };
            let request = request_bytes(method, path, &[], None);
            socket.write_all(&request).expect("the request is sent");
            let mut some = [0; 1_000];
            socket.read_exact(&mut some).expect("some of the answer");
            assert!(some.starts_with(b"HTTP/1.1 "), "{some:?}");
        }
    }
    until("a place is free", || {
        server.send("POST", "/backup", &[], None).status == 200
    });
}

/// The grace of requests that are under way is not for clients that take nothing of a copy.
#[test]
fn a_stop_ends_copies_that_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = EngineConfig {
        data: Some(folder.path().to_owned()),
        ..engine_config()
    };
    let mut limits = ServerConfig::default();
    limits.shutdown_grace = Duration::from_secs(3_600);
    let mut server = TestServer::with(config, limits);
    load(&server, 300_000);
    let sockets = ["POST /backup", "GET /dump/statements"].map(|line| {
        let (method, path) = line.split_once(' ').expect("two words");
        let mut socket = connect(server.address());
        let request = request_bytes(method, path, &[], None);
        socket.write_all(&request).expect("the request is sent");
        let mut some = [0; 1_000];
        socket.read_exact(&mut some).expect("some of the answer");
        socket
    });
    let (stopped, is_stopped) = channel();
    std::thread::spawn(move || {
        server.stop();
        let _ = stopped.send(());
    });
    let waited = is_stopped.recv_timeout(Duration::from_secs(60));
    waited.expect("the server has stopped");
    for mut socket in sockets {
        let mut rest = Vec::new();
        let read = socket.read_to_end(&mut rest);
        let is_whole = read.is_ok() && rest.ends_with(b"0\r\n\r\n");
        assert!(!is_whole, "the client sees that it breaks off");
    }
}

#[test]
fn a_dump_is_all_that_is_stored_and_declared() {
    let server = TestServer::start();
    server.update(
        "INSERT DATA { <http://e/a> <http://e/p> <<( <http://e/b> <http://e/q> 1 )>> . GRAPH <http://e/g> { <http://e/a> <http://e/p> \"x\"@en } }",
    );
    server.stream("s", "TIMELESS");
    let query = "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    server.put("/queries/two%20words", query).expect(201);
    let reply = server.get("/dump/statements").expect(200);
    assert_eq!(reply.header("content-type"), Some("application/n-quads"));
    assert!(reply.complete && reply.header("somersault-sn").is_some());
    let mut lines: Vec<&str> = reply.text().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "<http://e/a> <http://e/p> \"x\"@en <http://e/g> .",
            "<http://e/a> <http://e/p> <<( <http://e/b> <http://e/q> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> )>> .",
        ]
    );
    let reply = server.get("/dump/declarations").expect(200);
    assert_eq!(
        reply.text(),
        format!(
            "CREATE STREAM <http://e/s> TIMELESS BATCH 1s IDLE NEVER\n;\nREGISTER QUERY \"two words\" AS\n{query}\n;\n"
        )
    );
}
