//! Sends every command of `docs/http.md`, in the order of the page.

use crate::client::{Events, exchange, request_bytes};
use crate::server::{TestServer, encode, engine_config};
use somersault::EngineConfig;
use somersault_server::{Auth, ServerConfig, TokenFile, Tokens};
use std::path::Path;
use std::sync::Arc;

const PAGE: &str = include_str!("../../../../docs/http.md");
const SERVER: &str = "http://127.0.0.1:7878";

/// The words of a shell command, and its here-document.
#[derive(Debug)]
struct Command {
    words: Vec<String>,
    input: String,
}

/// The commands of all code blocks.
fn commands() -> Vec<Command> {
    let mut commands = Vec::new();
    for block in PAGE.split("\n```\n").skip(1).step_by(2) {
        for text in block.split("\n\n") {
            if text.starts_with("curl ") {
                commands.push(command(text));
            }
        }
    }
    commands
}

fn command(text: &str) -> Command {
    let (text, input) = match text.split_once(" <<'END'\n") {
        Some((text, rest)) => (text, rest.split("\nEND").next().expect("an end")),
        None => (text, ""),
    };
    let mut words = vec![String::new()];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = words.last_mut().expect("a word");
        rest = &rest[first.len_utf8()..];
        match first {
            // The value of a variable is filled in when the command is sent.
            '"' => {
                let (inside, after) = rest.split_once('"').expect("an end");
                rest = after;
                word.push_str(inside);
            }
            '$' | '\'' => {
                let quoted = rest.strip_prefix('\'').filter(|_| first == '$');
                let (inside, after) = (quoted.unwrap_or(rest).split_once('\'')).expect("an end");
                rest = after;
                if quoted.is_some() {
                    word.push_str(&inside.replace("\\t", "\t").replace("\\n", "\n"));
                } else {
                    word.push_str(inside);
                }
            }
            '\\' => rest = rest.strip_prefix('\n').expect("a backslash ends the line"),
            ' ' | '\n' if word.is_empty() => {}
            ' ' | '\n' => words.push(String::new()),
            other => word.push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    let input = input.to_owned();
    Command { words, input }
}

/// The request that curl sends for a command.
struct Sent {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    follows: bool,
}

impl Command {
    fn request(&self) -> Sent {
        let (mut method, mut path, mut follows) = (None, String::new(), false);
        let (mut headers, mut fields, mut is_get) = (Vec::new(), Vec::new(), false);
        let mut words = self.words[1..].iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().expect("a value").clone();
            match word.as_str() {
                "-X" => method = Some(next()),
                "-I" => method = Some("HEAD".to_owned()),
                "-G" => is_get = true,
                "-N" => follows = true,
                "-o" => drop(next()),
                "-H" => {
                    let line = next();
                    let (name, value) = line.split_once(": ").expect("a header");
                    headers.push((name.to_owned(), value.to_owned()));
                }
                "-d" | "--data" => fields.push(next()),
                "--data-binary" => {
                    let given = Some(next()).filter(|text| text != "@-");
                    fields.push(given.unwrap_or_else(|| self.input.clone()));
                }
                "--data-urlencode" => {
                    let field = next();
                    let (name, value) = field.split_once('=').expect("a field");
                    fields.push(format!("{name}={}", encode(value)));
                }
                url => path = url.strip_prefix(SERVER).expect(url).to_owned(),
            }
        }
        let mut body = (!fields.is_empty()).then(|| fields.join("&"));
        if is_get {
            path = format!("{path}?{}", body.take().expect("fields"));
        }
        let has_type = headers.iter().any(|(name, _)| name == "Content-Type");
        if body.is_some() && !has_type {
            let form = "application/x-www-form-urlencoded";
            headers.push(("Content-Type".to_owned(), form.to_owned()));
        }
        let usual = if body.is_some() { "POST" } else { "GET" };
        Sent {
            method: method.unwrap_or_else(|| usual.to_owned()),
            path,
            headers,
            body,
            follows,
        }
    }
}

/// A server that asks for tokens, and a token with all rights.
fn guarded(folder: &Path) -> (TestServer, String) {
    let file = TokenFile::of_folder(folder);
    let rights = ["admin".parse().expect("a right")];
    let (_, token) = file.create("boss", &rights, None).expect("a token");
    let mut config = ServerConfig::default();
    config.auth = Auth::Tokens(Arc::new(Tokens::open(file).expect("a file of tokens")));
    (TestServer::with(engine_config(), config), token)
}

#[test]
fn every_command_of_the_manual_is_answered_as_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = EngineConfig {
        data: Some(folder.path().to_owned()),
        ..EngineConfig::default()
    };
    let server = TestServer::with(config, ServerConfig::default());
    let (guarded, token) = guarded(folder.path());
    let commands = commands();
    assert!(commands.len() > 35, "only {}", commands.len());
    for command in commands {
        let mut sent = command.request();
        let mut asked = &server;
        for (name, value) in &mut sent.headers {
            if name == "Authorization" {
                *value = value.replace("$SOMERSAULT_TOKEN", &token);
                asked = &guarded;
            }
        }
        let headers: Vec<(&str, &str)> = (sent.headers.iter())
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if sent.follows {
            let mut events = Events::open(server.address(), &sent.path, &headers);
            if headers.iter().any(|(name, _)| *name == "Accept") {
                assert_eq!(events.status, 200, "{command:?}");
                continue;
            }
            let rows = &events.firing()["results"]["results"]["bindings"];
            assert_eq!(rows[0]["who"]["value"], "http://example.org/bob", "{rows}");
            continue;
        }
        let body = sent.body.as_deref().map(str::as_bytes);
        let mut all = headers.clone();
        all.push(("Connection", "close"));
        let bytes = request_bytes(&sent.method, &sent.path, &all, body);
        let reply = exchange(asked.address(), &bytes, sent.method == "HEAD");
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!((200..300).contains(&reply.status), "{command:?}: {text}");
        if sent.path == "/queries:batch" {
            assert_eq!(reply.json()["registered"], 2, "{text}");
        }
    }
}
