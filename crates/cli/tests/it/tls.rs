//! HTTPS as an operator sets it up: certificates of a server, of its clients, and of others that it
//! sends to.

use crate::certificates::{Authority, Identity};
use crate::command::{Server, fails, run, somersault, text};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn word(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// Files of a test.
struct Files {
    folder: TempDir,
    authority: Authority,
    trusted: PathBuf,
    own: Identity,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new("ours");
        Files {
            trusted: authority.write(folder.path(), "authority.pem"),
            own: authority.issue(folder.path(), "server", &["localhost", "127.0.0.1"]),
            authority,
            folder,
        }
    }

    fn serve(&self, more: &[&str]) -> Server {
        let tls = [
            "--tls-cert",
            word(&self.own.certificate),
            "--tls-key",
            word(&self.own.key),
        ];
        Server::start(&[&tls[..], more].concat())
    }

    /// Runs a command with the authority that it trusts.
    fn run(&self, arguments: &[&str]) -> Output {
        run(&[arguments, &["--ca-file", word(&self.trusted)]].concat())
    }
}

#[test]
fn a_server_with_a_certificate_is_reached_by_those_who_trust_it() {
    let files = Files::new();
    let server = files.serve(&[]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let insert = "INSERT DATA { <urn:a> <urn:p> 1 }";
    let updated = files.run(&["update", insert, "--server", &server.url]);
    assert!(updated.status.success(), "{}", text(&updated.stderr));
    let mut asked = somersault();
    asked.args([
        "query",
        "ASK { <urn:a> <urn:p> 1 }",
        "--server",
        &server.url,
    ]);
    asked.env("SOMERSAULT_CA_FILE", &files.trusted);
    let answer = asked.output().expect("the command runs");
    assert!(
        text(&answer.stdout).contains("true"),
        "{}",
        text(&answer.stderr)
    );
    let distrusted = fails(&["status", "--server", &server.url], 1);
    for part in ["is not trusted", "--ca-file"] {
        assert!(distrusted.contains(part), "{distrusted}");
    }
    let wrong = fails(
        &[
            "status",
            "--server",
            &server.url,
            "--ca-file",
            word(&files.own.key),
        ],
        2,
    );
    assert!(wrong.contains("no certificate"), "{wrong}");
}

#[test]
fn a_client_shows_its_certificate() {
    let files = Files::new();
    let clients = Authority::new("clients");
    let authority = clients.write(files.folder.path(), "clients.pem");
    let client = clients.issue(files.folder.path(), "client", &["client"]);
    let server = files.serve(&["--tls-client-ca", word(&authority)]);
    let status = ["status", "--server", &server.url];
    assert!(!files.run(&status).status.success());
    let shown = [
        "--client-cert",
        word(&client.certificate),
        "--client-key",
        word(&client.key),
    ];
    let welcome = files.run(&[&status[..], &shown].concat());
    assert!(welcome.status.success(), "{}", text(&welcome.stderr));
}

#[test]
fn files_that_do_not_go_together_are_refused_before_anything_is_opened() {
    let files = Files::new();
    let folder = files.folder.path();
    let other = files.authority.issue(folder, "other", &["localhost"]);
    let data = folder.join("data");
    let gone = folder.join("gone.key");
    let own = word(&files.own.certificate);
    for (key, authority, said) in [
        (word(&other.key), None, "other.key is not that of"),
        (word(&gone), None, "gone.key"),
        (own, None, "no private key"),
        (word(&files.own.key), Some(word(&gone)), "gone.key"),
        (
            word(&files.own.key),
            Some(word(&other.key)),
            "no certificate",
        ),
    ] {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--data", word(&data)];
        arguments.extend(["--tls-cert", own, "--tls-key", key]);
        arguments.extend(authority.into_iter().flat_map(|it| ["--tls-client-ca", it]));
        let refused = fails(&arguments, 2);
        assert!(refused.contains(said), "{refused}");
    }
    assert!(!data.exists());
    fails(&["serve", "--tls-cert", own], 2);
    fails(&["serve", "--tls-key", word(&files.own.key)], 2);
}

#[test]
fn other_machines_need_tokens_with_tls_too() {
    let files = Files::new();
    let (own, key) = (word(&files.own.certificate), word(&files.own.key));
    let tls = [
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--tls-cert",
        own,
        "--tls-key",
        key,
    ];
    let refused = fails(
        &[&tls[..], &["--tls-client-ca", word(&files.trusted)]].concat(),
        2,
    );
    assert!(refused.contains("--auth tokens"), "{refused}");
    // With tokens and without TLS it warns.
    let tokens = files.folder.path().join("tokens.json");
    let tokens = ["--auth", "tokens", "--tokens", word(&tokens)];
    for (serve, warns) in [(&tls[..3], true), (&tls[..], false)] {
        let mut process = somersault()
            .args(serve)
            .args(tokens)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
        let mut warned = false;
        for line in lines.map_while(Result::ok) {
            warned |= line.contains("--tls-cert");
            if line.contains("Somersault answers") {
                break;
            }
        }
        process.kill().expect("it is ended");
        process.wait().expect("it ends");
        assert_eq!(warned, warns, "{serve:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_hangup_lets_a_server_read_its_certificate_again() {
    let files = Files::new();
    let server = files.serve(&[]);
    let new = Authority::new("new");
    let trusted = new.write(files.folder.path(), "new.pem");
    new.issue(files.folder.path(), "server", &["127.0.0.1"]);
    let id = server.process.id().to_string();
    let sent = Command::new("kill").args(["-HUP", &id]).status();
    assert!(sent.expect("a signal can be sent").success());
    let started = Instant::now();
    loop {
        let asked = run(&[
            "status",
            "--server",
            &server.url,
            "--ca-file",
            word(&trusted),
        ]);
        if asked.status.success() {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{}",
            text(&asked.stderr)
        );
    }
}

/// Takes one request over TLS, answers 204, and returns its text.
fn receive(listener: &TcpListener, own: &Identity) -> std::io::Result<String> {
    let pair = somersault_connect::tls::check_pair(&own.certificate, &own.key).expect("a pair");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)));
    let (socket, _) = listener.accept()?;
    let connection = rustls::ServerConnection::new(Arc::new(config)).expect("a connection");
    let mut wire = BufReader::new(rustls::StreamOwned::new(connection, socket));
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    while wire.read_line(&mut line)? > 2 {
        let value = line.to_ascii_lowercase();
        if let Some(value) = value.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        head.push_str(&line);
        line.clear();
    }
    let mut body = vec![0; length];
    wire.read_exact(&mut body)?;
    wire.get_mut()
        .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")?;
    Ok(head + &text(&body))
}

#[test]
fn a_webhook_sends_over_https_to_a_receiver_that_is_trusted() {
    let files = Files::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let sink = format!("name=hook,query=seen,from=kept,webhook=https://localhost:{port}/x");
    let server = Server::start(&["--sink", &sink, "--ca-file", word(&files.trusted)]);
    let declarations = files.folder.path().join("seen.sql");
    let query = "REGISTER QUERY seen AS SELECT ?x WHERE { ?x <urn:p> 7 };";
    std::fs::write(&declarations, query).expect("written");
    let send = |arguments: &[&str]| {
        let output = run(&[arguments, &["--server", &server.url]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    send(&["register", word(&declarations)]);
    send(&["update", "INSERT DATA { <urn:here> <urn:p> 7 }"]);
    // Answers may come before the insertion.
    let seen = std::iter::repeat_with(|| receive(&listener, &files.own).expect("a request"));
    let request = seen.into_iter().find(|it| it.contains("urn:here"));
    let request = request.expect("it comes").to_ascii_lowercase();
    assert!(request.contains("idempotency-key:"), "{request}");
}
