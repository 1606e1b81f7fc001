//! Tokens and rights: each address with each right, what a token shows and hides, and what it
//! refuses.

use crate::client::{Events, Reply, exchange, request_bytes};
use crate::server::{TestServer, engine_config};
use serde_json::Value;
use somersault::{EngineConfig, Remote, Right};
use somersault_server::{Auth, HttpRemote, ServerConfig, TokenFile, Tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Who may use which address. This table is written by hand; the server says its own in
/// `/openapi.json`.
const TABLE: &str = "
GET    /                                            anyone
GET    /health                                      anyone
GET    /livez                                       anyone
GET    /ready                                       anyone
GET    /openapi.json                                anyone
GET    /query                                       token
POST   /query                                       token
POST   /update                                      token
GET    /sparql                                      token
POST   /sparql                                      token
GET    /sparql/                                     token
POST   /sparql/                                     token
GET    /explain                                     token
POST   /explain                                     token
GET    /store                                       token
HEAD   /store                                       token
PUT    /store                                       token
POST   /store                                       token
DELETE /store                                       token
GET    /store/{path}                                token
HEAD   /store/{path}                                token
PUT    /store/{path}                                token
POST   /store/{path}                                token
DELETE /store/{path}                                token
GET    /streams                                     token
GET    /streams/{name}                              push window register monitor
PUT    /streams/{name}                              register
POST   /streams/{name}                              push
DELETE /streams/{name}                              register
POST   /streams/{name}/advance                      push
GET    /streams/{name}/messages                     window
POST   /streams/{name}/reset-time                   register
POST   /advance                                     token
GET    /queries                                     token
PUT    /queries:batch                               token
GET    /queries/{name}                              subscribe register monitor
PUT    /queries/{name}                              register
DELETE /queries/{name}                              register
POST   /queries/{name}/pause                        register
POST   /queries/{name}/resume                       register
GET    /queries/{name}/results                      subscribe
GET    /queries/{name}/subscriptions                subscribe
GET    /queries/{name}/subscriptions/{who}          subscribe
PUT    /queries/{name}/subscriptions/{who}          subscribe
DELETE /queries/{name}/subscriptions/{who}          subscribe
GET    /queries/{name}/subscriptions/{who}/results  subscribe
GET    /queries/{name}/subscriptions/{who}/answers  subscribe
POST   /queries/{name}/subscriptions/{who}/ack      subscribe
GET    /procedures                                  token
GET    /procedures/{name}                           call register monitor
PUT    /procedures/{name}                           register
DELETE /procedures/{name}                           register
GET    /procedures/{name}/aborted                   call register monitor
GET    /procedures/{name}/explain                   register monitor
POST   /procedures/{name}/call                      call
POST   /procedures/{name}/calls                     call
POST   /calls                                       token
GET    /dataflows                                   token
GET    /dataflows/{name}                            register monitor
PUT    /dataflows/{name}                            register
DELETE /dataflows/{name}                            register
POST   /dataflows/{name}/pause                      register
POST   /dataflows/{name}/resume                     register
GET    /dataflows/{name}/explain                    register monitor
GET    /dataflows/{name}/aborted                    register monitor
GET    /sources                                     monitor
GET    /sources/{name}                              monitor
PUT    /sources/{name}                              admin
DELETE /sources/{name}                              admin
POST   /sources/{name}/pause                        admin
POST   /sources/{name}/resume                       admin
GET    /sinks                                       monitor
GET    /sinks/{name}                                monitor
PUT    /sinks/{name}                                admin
DELETE /sinks/{name}                                admin
POST   /sinks/{name}/pause                          admin
POST   /sinks/{name}/resume                         admin
POST   /backup                                      admin
GET    /dump/statements                             admin
GET    /dump/declarations                           admin
POST   /checkpoint                                  admin
GET    /metrics                                     monitor
GET    /contexts                                    token
GET    /contexts/{name}                             token
PUT    /contexts/{name}                             admin
DELETE /contexts/{name}                             admin
GET    /.well-known/void                            token
GET    /tokens                                      admin
POST   /tokens                                      admin
DELETE /tokens/{id}                                 admin
POST   /tickets                                     token
";

const KINDS: [&str; 10] = [
    "read",
    "write",
    "push",
    "window",
    "subscribe",
    "register",
    "call",
    "remote",
    "monitor",
    "admin",
];

/// A server that asks for tokens, and its tokens by the texts of their rights.
struct Guarded {
    server: TestServer,
    file: TokenFile,
    tokens: BTreeMap<String, String>,
    _folder: TempDir,
}

impl Guarded {
    fn start(change: impl FnOnce(&mut ServerConfig)) -> Guarded {
        Guarded::with(engine_config(), change)
    }

    fn with(engine: EngineConfig, change: impl FnOnce(&mut ServerConfig)) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::of_folder(folder.path());
        let tokens = Tokens::open(file.clone()).expect("no file is no tokens");
        let mut config = ServerConfig::default();
        config.auth = Auth::Tokens(Arc::new(tokens));
        change(&mut config);
        let mut guarded = Guarded {
            server: TestServer::with(engine, config),
            file,
            tokens: BTreeMap::new(),
            _folder: folder,
        };
        let boss = guarded.file.create("boss", &rights("admin"), None);
        let (_, boss) = boss.expect("made");
        guarded.tokens.insert("admin".to_owned(), boss);
        guarded.wait_for_file();
        guarded
    }

    /// Waits until the server has seen the newest change of the file.
    fn wait_for_file(&self) {
        std::thread::sleep(Duration::from_millis(1_100));
    }

    /// The token with these rights, separated by spaces; made by the server.
    fn token(&mut self, of: &str) -> String {
        if let Some(token) = self.tokens.get(of) {
            return token.clone();
        }
        let rights: Vec<&str> = of.split_whitespace().collect();
        let name = format!("t{}", self.tokens.len());
        let body = serde_json::json!({ "name": name, "rights": rights }).to_string();
        let made = self
            .send("admin", "POST", "/tokens", Some(&body))
            .expect(201);
        let token = made.json()["token"].as_str().expect("a token").to_owned();
        self.tokens.insert(of.to_owned(), token.clone());
        token
    }

    fn send(&mut self, of: &str, method: &str, path: &str, body: Option<&str>) -> Reply {
        let media_type = match body {
            Some(text) if text.starts_with('{') => "application/json",
            Some(_) if path.starts_with("/update") => "application/sparql-update",
            Some(_) if path.starts_with("/query") || path.starts_with("/explain") => {
                "application/sparql-query"
            }
            Some(_) if path.starts_with("/streams/") => "text/tab-separated-values",
            _ => "text/turtle",
        };
        let credentials = format!("Bearer {}", self.token(of));
        let headers = [
            ("Authorization", credentials.as_str()),
            ("Content-Type", media_type),
        ];
        let headers = if body.is_some() {
            &headers[..]
        } else {
            &headers[..1]
        };
        self.server
            .send(method, path, headers, body.map(str::as_bytes))
    }

    fn select(&mut self, of: &str, query: &str) -> Vec<Value> {
        let reply = self.send(of, "POST", "/query", Some(query)).expect(200);
        reply.json()["results"]["bindings"]
            .as_array()
            .expect("rows")
            .clone()
    }

    #[track_caller]
    fn refuse(&mut self, of: &str, method: &str, path: &str, body: Option<&str>, right: &str) {
        let reply = self.send(of, method, path, body);
        let json = reply.expect_error(403, "forbidden", &[right]);
        assert_eq!(json["right"], right);
    }
}

fn rights(texts: &str) -> Vec<Right> {
    let rights = texts.split_whitespace().map(str::parse);
    rights.collect::<Result<_, _>>().expect("rights")
}

/// Method, path and needs of each line of the table.
fn table() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let lines = TABLE.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let method = words.next().expect("a method");
            (method, words.next().expect("a path"), words.collect())
        })
        .collect()
}

#[test]
fn each_address_takes_the_rights_that_its_line_says() {
    let mut guarded = Guarded::start(|_| {});
    for (method, pattern, needs) in table() {
        let path = pattern
            .replace("{name}", "urn:mine:1")
            .replace("{who}", "reader")
            .replace("{path}", "g")
            .replace("{id}", "none");
        let is_named = pattern.contains("{name}");
        let without = guarded.server.send(method, &path, &[], None);
        let expected = if needs == ["anyone"] { 200 } else { 401 };
        assert_eq!(without.status, expected, "{method} {path} without a token");
        if expected == 401 {
            let ask = without
                .header("www-authenticate")
                .expect("it says how to ask");
            assert_eq!(ask, "Bearer realm=\"somersault\"");
        }
        let wrong = [(
            "Authorization",
            "Bearer smr_0123456789ab_0123456789012345678901234567890123456789",
        )];
        let wrong = guarded.server.send(method, &path, &wrong, None);
        assert_eq!(wrong.status, 401, "{method} {path} with a wrong token");
        for kind in KINDS {
            let is_limited = !["remote", "monitor", "admin"].contains(&kind);
            let scopes: &[&str] = if is_limited {
                &["", ":urn:mine:*", ":urn:other:*"]
            } else {
                &[""]
            };
            for scope in scopes {
                let right = format!("{kind}{scope}");
                let is_allowed = kind == "admin"
                    || ["anyone", "token"].contains(&needs[0])
                    || (needs.contains(&kind) && !(is_named && *scope == ":urn:other:*"));
                let reply = guarded.send(&right, method, &path, None);
                let refusals: &[u16] = match needs[0] {
                    // The engine checks the graph.
                    "token" if kind != "admin" => &[401],
                    _ => &[401, 403],
                };
                if is_allowed {
                    assert!(
                        !refusals.contains(&reply.status),
                        "{method} {path} with {right}"
                    );
                } else {
                    assert_eq!(reply.status, 403, "{method} {path} with {right}");
                }
            }
        }
    }
}

#[test]
fn the_table_has_each_address_and_the_server_says_the_same() {
    let mut guarded = Guarded::start(|_| {});
    let described = guarded.send("admin", "GET", "/openapi.json", None).json();
    let mut said = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let needs = operation["x-needs"].as_array().expect("x-needs");
            let needs: Vec<&str> = needs.iter().filter_map(Value::as_str).collect();
            said.insert((method.to_uppercase(), path.clone(), needs.join(" ")));
            let is_open = needs == ["anyone"];
            assert_eq!(
                operation["security"].as_array().map(Vec::len),
                Some(usize::from(!is_open))
            );
        }
    }
    let written: BTreeSet<(String, String, String)> = table()
        .into_iter()
        .map(|(method, path, needs)| (method.to_owned(), path.to_owned(), needs.join(" ")))
        .collect();
    assert_eq!(said, written);
}

const DATA: &str = "INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:open> { <urn:a> <urn:p> 2 } \
     GRAPH <urn:secret> { <urn:a> <urn:p> 3 } }";

#[test]
fn a_query_sees_readable_graphs_and_no_others() {
    let mut guarded = Guarded::start(|_| {});
    guarded
        .send("admin", "POST", "/update", Some(DATA))
        .expect(200);
    let all = "SELECT ?g ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";
    for (of, count) in [
        ("admin", 3),
        ("read", 3),
        ("read:default", 1),
        ("read:urn:open", 1),
        ("read:urn:*", 2),
        ("write", 0),
    ] {
        // Twice: the second answer comes from a kept plan.
        for _ in 0..2 {
            assert_eq!(guarded.select(of, all).len(), count, "{of}");
        }
    }
    let secret = "SELECT ?o FROM <urn:secret> { ?s ?p ?o }";
    assert_eq!(guarded.select("read", secret).len(), 1);
    assert_eq!(guarded.select("read:urn:open", secret).len(), 0);
    let named = guarded.send(
        "read:urn:open",
        "GET",
        "/query?query=SELECT%20%2A%20%7B%3Fs%20%3Fp%20%3Fo%7D&default-graph-uri=urn:secret",
        None,
    );
    assert_eq!(
        named.expect(200).json()["results"]["bindings"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    let plan = |reply: Reply| reply.expect(200).text().to_owned();
    let plan_of = "SELECT ?o { GRAPH <urn:secret> { ?s ?p ?o } }";
    let shown = plan(guarded.send("read:urn:open", "POST", "/explain", Some(plan_of)));
    let of_nothing = plan_of.replace("secret", "absent");
    let nothing = plan(guarded.send("read:urn:open", "POST", "/explain", Some(&of_nothing)));
    let figures = |text: &str| -> String {
        let text = text.replace("secret", "absent");
        text.chars()
            .filter(|c| !c.is_ascii_digit() && !c.is_whitespace())
            .collect()
    };
    assert_eq!(
        figures(&shown),
        figures(&nothing),
        "an unreadable graph looks like an absent one"
    );
}

#[test]
fn a_graph_is_read_and_written_by_its_address_with_its_right() {
    let mut guarded = Guarded::start(|_| {});
    guarded
        .send("admin", "POST", "/update", Some(DATA))
        .expect(200);
    let (of, secret) = ("read:urn:open write:urn:open", "/store?graph=urn:secret");
    guarded
        .send(of, "GET", "/store?graph=urn:open", None)
        .expect(200);
    guarded
        .send(
            of,
            "PUT",
            "/store?graph=urn:open",
            Some("<urn:x> <urn:p> 9 ."),
        )
        .expect(200);
    // The same answer whether the graph is there or not.
    for path in [secret, "/store?graph=urn:absent"] {
        let right = path.replace("/store?graph=", "");
        guarded.refuse(of, "GET", path, None, &format!("read:{right}"));
        assert_eq!(guarded.send(of, "HEAD", path, None).status, 403);
        guarded.refuse(of, "DELETE", path, None, &format!("write:{right}"));
        let body = Some("<urn:x> <urn:p> 9 .");
        guarded.refuse(of, "PUT", path, body, &format!("write:{right}"));
        guarded.refuse(of, "POST", path, body, &format!("write:{right}"));
    }
    guarded.refuse(of, "GET", "/store?default", None, "read:default");
    assert_eq!(
        guarded
            .select("admin", "SELECT * { GRAPH ?g { ?s ?p ?o } }")
            .len(),
        2
    );
}

#[test]
fn an_update_that_writes_elsewhere_changes_nothing() {
    let mut guarded = Guarded::start(|_| {});
    guarded
        .send("admin", "POST", "/update", Some(DATA))
        .expect(200);
    let of = "read:urn:open write:urn:open";
    guarded.refuse(
        of,
        "POST",
        "/update",
        Some("INSERT DATA { GRAPH <urn:open> { <urn:b> <urn:p> 1 } } ; INSERT DATA { <urn:b> <urn:p> 1 }"),
        "write:default",
    );
    guarded.refuse(of, "POST", "/update", Some("DROP ALL"), "write");
    guarded.refuse(
        of,
        "POST",
        "/update",
        Some("INSERT { GRAPH ?g { <urn:b> <urn:p> 1 } } WHERE { VALUES ?g { <urn:open> <urn:new> } }"),
        "write:urn:new",
    );
    // What it cannot read it neither copies nor deletes.
    let moved = "INSERT { GRAPH <urn:open> { ?s <urn:moved> ?o } } WHERE { GRAPH <urn:secret> { ?s ?p ?o } }";
    let done = guarded
        .send(of, "POST", "/update", Some(moved))
        .expect(200)
        .json();
    assert_eq!(done["inserted"], 0, "{done}");
    let every = "DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }";
    let done = guarded
        .send(of, "POST", "/update", Some(every))
        .expect(200)
        .json();
    assert_eq!(done["deleted"], 1, "{done}");
    assert_eq!(
        guarded
            .select(
                "admin",
                "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
            )
            .len(),
        2
    );
}

#[test]
fn other_machines_are_reached_with_a_right_only() {
    let engine = EngineConfig {
        allow_remote: true,
        remote: Some(Arc::new(HttpRemote::new()) as Arc<dyn Remote>),
        ..engine_config()
    };
    let mut guarded = Guarded::with(engine, |_| {});
    let query = "SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }";
    let update = "INSERT { ?s ?p ?o } WHERE { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }";
    let load = "LOAD <http://127.0.0.1:1/x.ttl>";
    for (path, text) in [("/query", query), ("/update", update), ("/update", load)] {
        guarded.refuse("read write", "POST", path, Some(text), "remote");
        let reply = guarded.send("read write remote", "POST", path, Some(text));
        reply.expect_error(422, "evaluation", &["127.0.0.1:1"]);
    }
}

const STREAM: &str = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER TIMING ALL";
const WINDOW: &str = "FROM STREAM <urn:s> [RANGE 1s STEP 1s]";

#[test]
fn a_registered_query_keeps_the_rights_of_its_registration() {
    let mut guarded = Guarded::start(|_| {});
    guarded
        .send("admin", "PUT", "/streams/urn:s", Some(STREAM))
        .expect(201);
    guarded
        .send("admin", "POST", "/update", Some(DATA))
        .expect(200);
    let of = "register:urn:q:* window:urn:s read:urn:open";
    let text = |clauses: &str, pattern: &str| {
        format!("SELECT ?o {clauses} {WINDOW} WHERE {{ {pattern} }}")
    };
    let stored = "?s ?p ?o";
    guarded.refuse(
        of,
        "PUT",
        "/queries/other",
        Some(&text("FROM <urn:open>", stored)),
        "register:other",
    );
    guarded.refuse(
        of,
        "PUT",
        "/queries/urn:q:1",
        Some(&text("", stored)),
        "read:default",
    );
    guarded.refuse(
        of,
        "PUT",
        "/queries/urn:q:1",
        Some(&text("FROM <urn:secret>", stored)),
        "read:urn:secret",
    );
    let named = text(
        "FROM <urn:open> FROM NAMED <urn:secret>",
        "GRAPH ?g { ?s ?p ?o }",
    );
    guarded.refuse(
        of,
        "PUT",
        "/queries/urn:q:1",
        Some(&named),
        "read:urn:secret",
    );
    guarded.refuse(
        "register read",
        "PUT",
        "/queries/urn:q:1",
        Some(&text("", stored)),
        "window:urn:s",
    );
    let batch = format!(
        "{}\n{}\n",
        serde_json::json!({ "name": "urn:q:2", "query": text("FROM <urn:open>", stored) }),
        serde_json::json!({ "name": "urn:q:3", "query": text("FROM <urn:secret>", stored) }),
    );
    let credentials = format!("Bearer {}", guarded.token(of));
    let headers = [
        ("Authorization", credentials.as_str()),
        ("Content-Type", "application/x-ndjson"),
    ];
    let done = guarded
        .server
        .send("PUT", "/queries:batch", &headers, Some(batch.as_bytes()));
    let done = done.expect(200).json();
    assert_eq!(
        (&done["registered"], &done["refused"]),
        (&1.into(), &1.into()),
        "{done}"
    );
    guarded
        .send(
            of,
            "PUT",
            "/queries/urn:q:1",
            Some(&text("FROM <urn:open>", stored)),
        )
        .expect(201);
    // Another reads the answers of it, without a right to the graph.
    let reader = guarded.token("subscribe:urn:q:1");
    let credentials = format!("Bearer {reader}");
    let address = guarded.server.address();
    let mut events = Events::open(
        address,
        "/queries/urn:q:1/results",
        &[("Authorization", credentials.as_str())],
    );
    assert_eq!(events.status, 200);
    let line = "1000\t<urn:x> <urn:q> <urn:pushed> .\n";
    guarded
        .send("push:urn:s", "POST", "/streams/urn:s", Some(line))
        .expect(200);
    guarded
        .send(
            "push:urn:s",
            "POST",
            "/streams/urn:s/advance",
            Some("{\"to_ms\": 2000}"),
        )
        .expect(200);
    let firing = events.firing();
    let rows = firing["results"]["results"]["bindings"].to_string();
    for (value, is_seen) in [
        ("\"urn:pushed\"", true),
        ("\"2\"", true),
        ("\"1\"", false),
        ("\"3\"", false),
    ] {
        assert_eq!(rows.contains(value), is_seen, "{value} in {firing}");
    }
    assert_eq!(
        guarded
            .select("subscribe:urn:q:1", "SELECT * { GRAPH ?g { ?s ?p ?o } }")
            .len(),
        0
    );
}

#[test]
fn lists_show_what_the_token_names() {
    let mut guarded = Guarded::start(|_| {});
    guarded
        .send("admin", "PUT", "/streams/urn:s", Some(STREAM))
        .expect(201);
    for name in ["urn:q:1", "urn:q:2", "other"] {
        let text = format!("SELECT ?s {WINDOW} WHERE {{ ?s ?p ?o }}");
        guarded
            .send("admin", "PUT", &format!("/queries/{name}"), Some(&text))
            .expect(201);
    }
    let procedure = "CREATE PROCEDURE bump() AS { INSERT DATA { <urn:a> <urn:p> 1 } }";
    guarded
        .send("admin", "PUT", "/procedures/bump", Some(procedure))
        .expect(201);
    for (of, streams, queries, procedures) in [
        ("admin", 1, 3, 1),
        ("monitor", 1, 3, 1),
        ("push:urn:s", 1, 0, 0),
        ("subscribe:urn:q:*", 0, 2, 0),
        ("register:other", 0, 1, 0),
        ("call:bump", 0, 0, 1),
        ("read write remote", 0, 0, 0),
    ] {
        let mut count = |path: &str, member: &str| {
            let json = guarded.send(of, "GET", path, None).expect(200).json();
            json[member].as_array().expect("a list").len()
        };
        let found = (
            count("/streams", "streams"),
            count("/queries", "queries"),
            count("/procedures", "procedures"),
        );
        assert_eq!(found, (streams, queries, procedures), "{of}");
    }
    let page = guarded
        .send("subscribe:urn:q:*", "GET", "/queries?limit=1", None)
        .json();
    assert_eq!(
        (&page["total"], &page["queries"][0]["name"]),
        (&2.into(), &"urn:q:1".into())
    );
    let next = page["next"].as_str().expect("another page");
    let page = guarded.send("subscribe:urn:q:*", "GET", next, None).json();
    assert_eq!(
        (&page["next"], &page["queries"][0]["name"]),
        (&Value::Null, &"urn:q:2".into())
    );
    // The same answer whether the name is taken or not.
    for name in ["other", "absent"] {
        guarded.refuse(
            "subscribe:urn:q:*",
            "GET",
            &format!("/queries/{name}"),
            None,
            &format!("subscribe:{name}"),
        );
    }
}

#[test]
fn a_procedure_runs_with_the_rights_of_its_declaration() {
    let mut guarded = Guarded::start(|_| {});
    let text =
        "CREATE PROCEDURE bump() AS { INSERT DATA { GRAPH <urn:open> { <urn:a> <urn:p> 1 } } }";
    guarded.refuse(
        "register",
        "PUT",
        "/procedures/bump",
        Some(text),
        "write:urn:open",
    );
    guarded.refuse(
        "write",
        "PUT",
        "/procedures/bump",
        Some(text),
        "register:bump",
    );
    let of = "register:bump write:urn:open";
    guarded
        .send(of, "PUT", "/procedures/bump", Some(text))
        .expect(201);
    let flow = "CREATE DATAFLOW flow { bump }";
    guarded.refuse(
        "register:flow",
        "PUT",
        "/dataflows/flow",
        Some(flow),
        "register:bump",
    );
    guarded.refuse(of, "POST", "/update", Some("CALL bump()"), "call:bump");
    let caller = "call:bump";
    guarded
        .send(caller, "POST", "/update", Some("CALL bump()"))
        .expect(200);
    guarded
        .send(caller, "POST", "/procedures/bump/call", None)
        .expect(200);
    let credentials = format!("Bearer {}", guarded.token("call:other"));
    let headers = [
        ("Authorization", credentials.as_str()),
        ("Content-Type", "application/x-ndjson"),
    ];
    let lines = guarded
        .server
        .send("POST", "/calls", &headers, Some(b"{\"call\": \"bump\"}\n"));
    assert!(
        lines.expect(200).text().contains("call:bump"),
        "the line is refused"
    );
    assert_eq!(
        guarded
            .select(caller, "SELECT * { GRAPH ?g { ?s ?p ?o } }")
            .len(),
        0
    );
    assert_eq!(
        guarded
            .select("read", "SELECT * { GRAPH ?g { ?s ?p ?o } }")
            .len(),
        1
    );
}

#[test]
fn a_stream_that_absorbs_asks_for_the_graph_when_it_is_declared() {
    let mut guarded = Guarded::start(|_| {});
    let text = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER TIMELESS INTO GRAPH <urn:open>";
    guarded.refuse(
        "register",
        "PUT",
        "/streams/urn:s",
        Some(text),
        "write:urn:open",
    );
    guarded
        .send(
            "register write:urn:open",
            "PUT",
            "/streams/urn:s",
            Some(text),
        )
        .expect(201);
    let line = "1000\t<urn:a> <urn:p> <urn:b> .\n";
    guarded.refuse(
        "push:urn:t",
        "POST",
        "/streams/urn:s",
        Some(line),
        "push:urn:s",
    );
    guarded
        .send("push:urn:s", "POST", "/streams/urn:s", Some(line))
        .expect(200);
    let both = "{\"streams\": {\"urn:s\": 2000, \"urn:t\": 2000}}";
    guarded.refuse("push:urn:s", "POST", "/advance", Some(both), "push:urn:t");
}

#[test]
fn health_tells_the_unknown_a_word() {
    let mut guarded = Guarded::start(|_| {});
    for json in [
        guarded.server.get("/health").expect(200).json(),
        guarded
            .send("read", "GET", "/health", None)
            .expect(200)
            .json(),
    ] {
        let members: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["status", "version"]);
    }
    let full = guarded
        .send("monitor", "GET", "/health", None)
        .expect(200)
        .json();
    assert!(full["stored_statements"].is_u64(), "{full}");
}

#[test]
fn revoked_tokens_end_at_once_and_their_event_streams_too() {
    let mut guarded = Guarded::start(|config| config.heartbeat = Duration::from_millis(50));
    guarded
        .send("admin", "PUT", "/streams/urn:s", Some(STREAM))
        .expect(201);
    let text = format!("SELECT ?s {WINDOW} WHERE {{ ?s ?p ?o }}");
    guarded
        .send("admin", "PUT", "/queries/q", Some(&text))
        .expect(201);
    let credentials = format!("Bearer {}", guarded.token("subscribe:q"));
    let address = guarded.server.address();
    let mut events = Events::open(
        address,
        "/queries/q/results",
        &[("Authorization", credentials.as_str())],
    );
    assert_eq!(events.status, 200);
    let all = guarded
        .send("admin", "GET", "/tokens", None)
        .expect(200)
        .json();
    let made = all["tokens"]
        .as_array()
        .expect("tokens")
        .last()
        .expect("one")
        .clone();
    assert_eq!(made["rights"], serde_json::json!(["subscribe:q"]));
    assert!(
        made.get("hash").is_none() && made.get("token").is_none(),
        "{made}"
    );
    let id = made["id"].as_str().expect("an id");
    guarded
        .send("admin", "DELETE", &format!("/tokens/{id}"), None)
        .expect(204);
    guarded
        .send("subscribe:q", "GET", "/queries/q", None)
        .expect_error(401, "unauthorized", &["revoked"]);
    let end = events.next().expect("the last event");
    assert_eq!(
        (end.event.as_deref(), &end.json()["reason"]),
        (Some("end"), &"revoked".into())
    );
    assert!(events.next().is_none());
    // A change of the file from outside holds soon as well.
    let (_, outside) = guarded
        .file
        .create("outside", &rights("read"), None)
        .expect("made");
    guarded.wait_for_file();
    guarded.tokens.insert("outside".to_owned(), outside);
    guarded.send("outside", "GET", "/streams", None).expect(200);
    guarded.file.revoke("outside").expect("revoked");
    guarded.wait_for_file();
    guarded.send("outside", "GET", "/streams", None).expect(401);
}

#[test]
fn a_bad_token_request_says_what_is_wrong() {
    let mut guarded = Guarded::start(|_| {});
    for (body, code, word) in [
        ("{}", "bad_json", "name"),
        ("{\"name\": \"a\"}", "bad_json", "rights"),
        (
            "{\"name\": \"a\", \"rights\": []}",
            "bad_token",
            "at least one",
        ),
        (
            "{\"name\": \"a\", \"rights\": [\"fly\"]}",
            "bad_token",
            "fly",
        ),
        (
            "{\"name\": \"boss\", \"rights\": [\"read\"]}",
            "bad_token",
            "already",
        ),
        (
            "{\"name\": \"a\", \"rights\": [\"read\"], \"expires_ms\": \"soon\"}",
            "bad_json",
            "expires_ms",
        ),
    ] {
        guarded
            .send("admin", "POST", "/tokens", Some(body))
            .expect_error(400, code, &[word]);
    }
    guarded
        .send("admin", "DELETE", "/tokens/nobody", None)
        .expect_error(404, "not_found", &["nobody"]);
    let open = TestServer::start();
    open.get("/tokens")
        .expect_error(409, "no_tokens", &["--auth tokens"]);
}

#[test]
fn a_page_of_an_allowed_origin_may_send_a_token_and_hosts_are_checked_before_tokens() {
    let mut guarded = Guarded::start(|config| {
        config.cors = somersault_server::Cors::Origins(vec!["https://console.example".to_owned()]);
    });
    let ask = [
        ("Origin", "https://console.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    let allowed = guarded
        .server
        .send("OPTIONS", "/update", &ask, None)
        .expect(204);
    let headers = allowed
        .header("access-control-allow-headers")
        .expect("headers");
    assert!(headers.contains("authorization"), "{headers}");
    let foreign = [
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    guarded
        .server
        .send("OPTIONS", "/update", &foreign, None)
        .expect(403);
    // A refusal has the header too: otherwise the page cannot read why.
    let refused = guarded
        .server
        .send("GET", "/streams", &ask[..1], None)
        .expect(401);
    assert_eq!(
        refused.header("access-control-allow-origin"),
        Some("https://console.example")
    );
    let credentials = format!("Bearer {}", guarded.token("admin"));
    let rebound = [
        ("Host", "evil.example"),
        ("Authorization", credentials.as_str()),
        ("Connection", "close"),
    ];
    let address = guarded.server.address();
    exchange(
        address,
        &request_bytes("GET", "/streams", &rebound, None),
        false,
    )
    .expect(421);
}
