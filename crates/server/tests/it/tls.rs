//! HTTPS: the server answers as it does over HTTP, reads its certificates again, asks clients for
//! theirs, and is not held up by slow handshakes. SERVICE and LOAD over https.

use crate::certificates::{Authority, Identity};
use crate::client::{
    Reply, connect, exchange, read_body, read_head, read_reply, request_bytes, until,
};
use crate::server::{TestServer, encode, engine_config};
use oxrdfio::RdfFormat;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use somersault::{EngineConfig, LoadOptions};
use somersault_connect::ClientTls;
use somersault_connect::tls::{authorities, check_pair};
use somersault_server::{HttpRemote, ServerConfig, Tls, TlsFiles};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

type Secure = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// A server with a certificate for `localhost`.
struct SecureServer {
    folder: TempDir,
    authority: Authority,
    /// The file of the authority.
    trusted: PathBuf,
    own: Identity,
    tls: Arc<Tls>,
    server: TestServer,
}

impl SecureServer {
    fn start() -> SecureServer {
        SecureServer::with(None, |_| {})
    }

    /// With the authority of clients' certificates.
    fn with(clients: Option<&Authority>, change: impl FnOnce(&mut ServerConfig)) -> SecureServer {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("ours");
        let own = authority.issue(folder.path(), "server", &["localhost", "127.0.0.1"]);
        let files = TlsFiles {
            certificate: own.certificate.clone(),
            key: own.key.clone(),
            client_authorities: clients.map(|it| it.write(folder.path(), "clients.pem")),
        };
        let tls = Arc::new(Tls::open(files).expect("good files"));
        let mut config = ServerConfig::default();
        config.tls = Some(Arc::clone(&tls));
        change(&mut config);
        SecureServer {
            trusted: authority.write(folder.path(), "authority.pem"),
            server: TestServer::with(engine_config(), config),
            folder,
            authority,
            own,
            tls,
        }
    }

    fn connect(&self) -> Secure {
        secure(self.server.address(), &self.trusted, None)
    }

    fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Reply {
        ask(&mut self.connect(), method, path, body).expect("an answer")
    }

    fn health(&self) -> serde_json::Value {
        self.send("GET", "/health", None).expect(200).json()
    }
}

/// Connects with TLS; the handshake comes with the first request.
fn secure(address: SocketAddr, trusted: &Path, identity: Option<&Identity>) -> Secure {
    let roots = authorities(trusted).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let pair = check_pair(&identity.certificate, &identity.key).expect("a pair");
            let shown = rustls::sign::SingleCertAndKey::from(pair);
            builder.with_client_cert_resolver(Arc::new(shown))
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    BufReader::new(StreamOwned::new(connection, connect(address)))
}

/// Sends a request and reads its answer.
fn ask(wire: &mut Secure, method: &str, path: &str, body: Option<&[u8]>) -> std::io::Result<Reply> {
    let headers = [("Content-Type", "application/sparql-update")];
    let headers = if body.is_some() { &headers[..] } else { &[] };
    wire.get_mut()
        .write_all(&request_bytes(method, path, headers, body))?;
    wire.fill_buf()?;
    Ok(read_reply(wire, method == "HEAD"))
}

#[test]
fn requests_share_a_connection_and_urls_begin_with_https() {
    let secure = SecureServer::start();
    let mut wire = secure.connect();
    let insert = b"INSERT DATA { <here> <http://e/p> 1 }";
    for _ in 0..3 {
        let updated = ask(&mut wire, "POST", "/update", Some(insert)).expect("an answer");
        updated.expect(200);
        let page = ask(&mut wire, "GET", "/", None).expect("an answer");
        assert!(page.text().contains("https://localhost/openapi.json"));
    }
    let query = format!("/query?query={}", encode("SELECT ?s { ?s ?p ?o }"));
    let found = ask(&mut wire, "GET", &query, None).expect("an answer");
    assert!(
        found.text().contains("https://localhost/"),
        "{}",
        found.text()
    );
    let version = wire.get_ref().conn.protocol_version();
    assert_eq!(version, Some(rustls::ProtocolVersion::TLSv1_3));
    assert!(secure.health()["tls"]["trouble"].is_null());
}

#[test]
fn a_long_answer_and_a_long_body_arrive_whole() {
    let secure = SecureServer::start();
    let triples: String = (0..30_000)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"{}\" .\n", "x".repeat(100)))
        .collect();
    let mut wire = secure.connect();
    let put = request_bytes(
        "PUT",
        "/store?default",
        &[("Content-Type", "application/n-triples")],
        Some(triples.as_bytes()),
    );
    wire.get_mut().write_all(&put).expect("sent");
    read_reply(&mut wire, false).expect(200);
    let get = request_bytes(
        "GET",
        "/store?default",
        &[("Accept", "application/n-triples")],
        None,
    );
    wire.get_mut().write_all(&get).expect("sent");
    let reply = read_reply(&mut wire, false);
    assert!(reply.complete && reply.body.len() == triples.len());
}

#[test]
fn an_event_stream_ends_with_the_server_in_order() {
    let mut secure = SecureServer::start();
    let engine = &secure.server.engine;
    let stream = "CREATE STREAM <http://e/s> BATCH 1s IDLE NEVER";
    engine.create_stream(None, stream).expect("a stream");
    let text = "SELECT ?s FROM STREAM <http://e/s> [RANGE 1s STEP 1s] WHERE { ?s ?p ?o }";
    engine.register(Some("q"), text).expect("a query");
    let mut wire = secure.connect();
    let request = request_bytes("GET", "/queries/q/results", &[], None);
    wire.get_mut().write_all(&request).expect("sent");
    let head = read_head(&mut wire);
    assert_eq!(head.0, 200);
    let mut idle = secure.connect();
    ask(&mut idle, "GET", "/health", None)
        .expect("an answer")
        .expect(200);
    secure.server.stop();
    let rest = read_body(&mut wire, head, false);
    assert!(rest.complete, "{}", rest.text());
    assert!(
        rest.text().contains("\"reason\":\"stopping\""),
        "{}",
        rest.text()
    );
    // Its end is announced, so a client can tell it from a cut connection.
    assert_eq!(idle.read(&mut [0]).expect("an end in order"), 0);
}

#[test]
fn a_client_that_speaks_plain_http_is_told() {
    let secure = SecureServer::start();
    let request = request_bytes("GET", "/health", &[], None);
    let refused = exchange(secure.server.address(), &request, false).expect(400);
    assert!(refused.text().contains("https://"), "{}", refused.text());
    secure.health();
}

#[test]
fn a_slow_handshake_holds_up_nothing_and_has_a_limit() {
    let secure = SecureServer::with(None, |config| {
        config.head_timeout = Duration::from_millis(300);
    });
    // The beginning of a handshake: a record whose rest does not come.
    let begun: [&[u8]; 3] = [b"", &[0x16], &[0x16, 3, 1, 2, 0, 1, 0]];
    let sockets = begun.iter().cycle().take(12).map(|bytes| {
        let mut socket = connect(secure.server.address());
        socket.write_all(bytes).expect("sent");
        socket
    });
    let sockets: Vec<TcpStream> = sockets.collect();
    secure.health();
    for mut socket in sockets {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    secure.health();
}

#[test]
fn connections_in_their_handshake_make_way_for_others() {
    let secure = SecureServer::with(None, |config| {
        config.head_timeout = Duration::from_secs(3600);
        config.connections = 3;
    });
    let begun: Vec<TcpStream> = (0..9)
        .map(|number| {
            let mut socket = connect(secure.server.address());
            socket
                .write_all(if number % 2 == 0 { &[0x16, 3, 1] } else { &[] })
                .expect("sent");
            socket
        })
        .collect();
    secure.send("GET", "/queries", None).expect(200);
    drop(begun);
}

#[test]
fn a_server_that_recovers_speaks_https_too() {
    let secure = SecureServer::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let (opened, opening) = tokio::sync::oneshot::channel::<()>();
    let tls = Some(Arc::clone(&secure.tls));
    let serving = runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let progress = Arc::new(somersault::OpenProgress::default());
        somersault_server::serve_while_opening(&listener, tls, progress, opening).await
    });
    for (path, status) in [("/health", 503), ("/livez", 200), ("/ready", 503)] {
        let mut wire = self::secure(address, &secure.trusted, None);
        let reply = ask(&mut wire, "GET", path, None).expect("an answer");
        assert_eq!(reply.status, status, "{path}");
    }
    opened.send(()).expect("it is awaited");
    runtime
        .block_on(serving)
        .expect("no panic")
        .expect("opened");
}

#[test]
fn a_client_that_stops_reading_is_cut_off() {
    let secure = SecureServer::with(None, |config| {
        config.stall_timeout = Duration::from_millis(800);
        config.connections = 1;
    });
    let triples: String = (0..60_000)
        .map(|i| format!("<http://e/s{i}> <http://e/p> \"{}\" .\n", "x".repeat(100)))
        .collect();
    let engine = &secure.server.engine;
    engine
        .load(
            triples.as_bytes(),
            RdfFormat::NTriples,
            LoadOptions::default(),
        )
        .expect("it is stored");
    let mut wire = secure.connect();
    let get = request_bytes(
        "GET",
        "/store?default",
        &[("Accept", "application/n-triples")],
        None,
    );
    wire.get_mut().write_all(&get).expect("sent");
    wire.fill_buf().expect("the answer begins");
    until("there is room again", || {
        let asked = ask(&mut secure.connect(), "GET", "/queries", None);
        asked.is_ok_and(|reply| reply.status == 200)
    });
}

#[test]
fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let secure = SecureServer::start();
    let mut kept = secure.connect();
    ask(&mut kept, "GET", "/health", None)
        .expect("an answer")
        .expect(200);
    let new = Authority::new("new");
    let new_file = new.write(secure.folder.path(), "new.pem");
    // Half of a change: the certificate is new, and the key is not.
    let spare = secure.folder.path().join("spare");
    std::fs::create_dir(&spare).expect("a folder");
    let other = new.issue(&spare, "server", &["localhost"]);
    std::fs::copy(&other.certificate, &secure.own.certificate).expect("copied");
    until("the trouble is seen", || {
        secure.health()["status"] == "degraded"
    });
    let health = secure.health();
    let said = health["tls"]["trouble"].as_str().expect("a sentence");
    for word in ["server.key", "is not that of", "read before"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(
        health["message"]
            .as_str()
            .is_some_and(|it| it.contains(said))
    );
    std::fs::copy(&other.key, &secure.own.key).expect("copied");
    secure.tls.reload();
    let distrusted = ask(&mut secure.connect(), "GET", "/health", None);
    assert!(
        distrusted.is_err(),
        "the certificate is of another authority now"
    );
    let mut wire = self::secure(secure.server.address(), &new_file, None);
    let health = ask(&mut wire, "GET", "/health", None).expect("an answer");
    assert_eq!(health.json()["status"], "ok");
    ask(&mut kept, "GET", "/health", None)
        .expect("the old connection goes on")
        .expect(200);
    // Without being told, too.
    let again = secure.authority.issue(&spare, "server", &["localhost"]);
    std::fs::copy(&again.certificate, &secure.own.certificate).expect("copied");
    std::fs::copy(&again.key, &secure.own.key).expect("copied");
    until("the certificate is read", || {
        ask(&mut secure.connect(), "GET", "/health", None).is_ok()
    });
}

#[test]
fn a_client_must_show_a_certificate_where_an_authority_is_given() {
    let clients = Authority::new("clients");
    let secure = SecureServer::with(Some(&clients), |_| {});
    let folder = secure.folder.path();
    let good = clients.issue(folder, "good", &["client"]);
    let foreign = Authority::new("foreign").issue(folder, "foreign", &["client"]);
    let ask_as = |identity: Option<&Identity>| {
        let mut wire = self::secure(secure.server.address(), &secure.trusted, identity);
        ask(&mut wire, "GET", "/health", None).map(|reply| reply.status)
    };
    assert_eq!(ask_as(Some(&good)).expect("an answer"), 200);
    assert!(ask_as(None).is_err(), "a client without a certificate");
    assert!(
        ask_as(Some(&foreign)).is_err(),
        "a certificate of another authority"
    );
    assert_eq!(ask_as(Some(&good)).expect("an answer"), 200);
}

#[test]
fn a_page_of_the_server_itself_comes_over_https() {
    let secure = SecureServer::start();
    let status = |origin: &str| {
        let headers = [("Origin", origin), ("Connection", "close")];
        let mut wire = secure.connect();
        let request = request_bytes("GET", "/queries", &headers, None);
        wire.get_mut().write_all(&request).expect("sent");
        read_reply(&mut wire, false).status
    };
    assert_eq!(status("https://localhost"), 200);
    assert_eq!(status("http://localhost"), 403);
}

/// A server that reaches others with this trust.
fn reaching(remote: HttpRemote) -> TestServer {
    let engine = EngineConfig {
        allow_remote: true,
        remote: Some(Arc::new(remote)),
        ..engine_config()
    };
    TestServer::with(engine, ServerConfig::default())
}

#[test]
fn services_and_documents_come_over_https_from_trusted_servers() {
    let other = SecureServer::start();
    other
        .send(
            "POST",
            "/update",
            Some(b"INSERT DATA { <http://e/a> <http://e/p> 1, 2 }"),
        )
        .expect(200);
    let port = other.server.address().port();
    let trusted = ClientTls::read(Some(&other.trusted), None).expect("a good file");
    let service =
        format!("SELECT ?o {{ SERVICE <https://localhost:{port}/query> {{ ?s ?p ?o }} }}");
    let load = format!("LOAD <https://localhost:{port}/store?default> INTO GRAPH <http://e/g>");
    let server = reaching(HttpRemote::new().with_tls(&trusted));
    assert_eq!(server.select(&service).len(), 2);
    server.update(&load);
    assert_eq!(server.select("SELECT * { GRAPH ?g { ?s ?p ?o } }").len(), 2);
    let select = |server: &TestServer| server.post("/query", "application/sparql-query", &service);
    let distrusting = reaching(HttpRemote::new());
    select(&distrusting).expect_error(422, "evaluation", &["--ca-file"]);
    // The lists of hosts hold for https too.
    let elsewhere = HttpRemote::to_hosts(["elsewhere.example"]).expect("a host");
    let limited = reaching(elsewhere.with_tls(&trusted));
    select(&limited).expect_error(422, "evaluation", &["--remote-host"]);
    let host = format!("localhost:{port}");
    let listed = HttpRemote::to_hosts([host.as_str()]).expect("a host");
    assert_eq!(
        reaching(listed.with_tls(&trusted)).select(&service).len(),
        2
    );
}

#[test]
fn a_redirect_from_https_to_http_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("ours");
    let trusted = authority.write(folder.path(), "authority.pem");
    let own = authority.issue(folder.path(), "server", &["localhost"]);
    let pair = check_pair(&own.certificate, &own.key).expect("a pair");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let open = TestServer::start();
    let target = format!("http://{}/store?default", open.address());
    let redirecting = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a client");
        let connection = rustls::ServerConnection::new(Arc::new(config)).expect("a connection");
        let mut wire = BufReader::new(StreamOwned::new(connection, socket));
        let mut line = String::new();
        while wire.read_line(&mut line).expect("a line") > 2 {
            line.clear();
        }
        let answer =
            format!("HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        wire.get_mut().write_all(answer.as_bytes()).expect("sent");
    });
    let trusted = ClientTls::read(Some(&trusted), None).expect("a good file");
    let server = reaching(HttpRemote::new().with_tls(&trusted));
    let load = format!("LOAD <https://localhost:{port}/x>");
    server
        .post("/update", "application/sparql-update", &load)
        .expect_error(422, "evaluation", &["not encrypted"]);
    redirecting.join().expect("no panic");
}
