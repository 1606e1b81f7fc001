//! The command as a user runs it: exit codes, messages, and one tour through a server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const SUBCOMMANDS: [&str; 25] = [
    "serve",
    "load",
    "query",
    "update",
    "explain",
    "register",
    "push",
    "status",
    "checkpoint",
    "subscribe",
    "subscriptions",
    "token",
    "drop",
    "pause",
    "resume",
    "advance",
    "export",
    "dump",
    "backup",
    "restore",
    "verify",
    "replay",
    "generate",
    "demo",
    "demo-vote",
];

pub(crate) fn somersault() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_somersault"));
    command.env_remove("SOMERSAULT_SERVER");
    command.env_remove("SOMERSAULT_TOKEN");
    command.env_remove("SOMERSAULT_CA_FILE");
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    somersault()
        .args(arguments)
        .output()
        .expect("the command runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub(crate) fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[track_caller]
pub(crate) fn fails(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stderr)
}

/// A server of this test, ended with it.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", more)
    }

    fn start_at(address: &str, more: &[&str]) -> Self {
        let mut command = somersault();
        command.args(["serve", "--listen", address]).args(more);
        Self::start_as(command)
    }

    /// Runs a command that serves.
    pub(crate) fn start_as(mut command: Command) -> Self {
        let mut process = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines =
            BufReader::new(process.stderr.take().expect("standard error is piped")).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                Some(
                    line.split_whitespace()
                        .find(|word| word.starts_with("http://") || word.starts_with("https://"))?
                        .to_owned(),
                )
            })
            .expect("the server says where it listens");
        // The rest is read so that the server never waits for a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_file_that_is_more_than_the_server_takes_is_refused_with_the_remedy() {
    let server = Server::start(&["--body-bytes", "10000"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.nt");
    let mut lines = String::new();
    for number in 0..400_000 {
        lines.push_str(&format!("<urn:s> <urn:p> <urn:o{number}> .\n"));
    }
    fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();
    let said = fails(&["load", file, "--server", &server.url], 1);
    // The client sees the refusal or the closed connection after it.
    assert!(
        said.contains("body") && !said.contains("is it running"),
        "{said}"
    );
}

#[test]
fn files_are_loaded_compressed_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = |name: &str| format!("<urn:{name}> <urn:p> \"a text that is long enough\" .\n");
    fs::write(path("plain.nt"), line("plain")).unwrap();
    let packed = zstd::encode_all(line("zst").as_bytes(), 1).unwrap();
    fs::write(path("packed.nt.zst"), packed).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(line("gz").as_bytes()).unwrap();
    fs::write(path("packed.nq.gz"), packed.finish().unwrap()).unwrap();
    let data = path("data");
    let (plain, zst, gz) = (
        path("plain.nt"),
        path("packed.nt.zst"),
        path("packed.nq.gz"),
    );
    let said = succeeds(&["load", &plain, &zst, &gz, "--data", &data]);
    assert!(
        said.contains("1 statements read, 3 stored in all"),
        "{said}"
    );
    fs::write(
        path("torn.nt.zst"),
        &zstd::encode_all(&b"<urn:a> <urn:b> <urn:c> ."[..], 1).unwrap()[..20],
    )
    .unwrap();
    let said = fails(&["load", &path("torn.nt.zst"), "--data", &data], 1);
    assert!(said.contains("torn.nt.zst"), "{said}");
    let server = Server::start(&[]);
    let said = fails(&["load", &path("torn.nt.zst"), "--server", &server.url], 1);
    assert!(
        said.contains("torn.nt.zst") && said.contains("cannot be read") && !said.contains("server"),
        "{said}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_no_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong").to_str().unwrap().to_owned();
    for asked in [
        ["query", "ASK {}", "--data", &wrong],
        ["explain", "ASK {}", "--data", &wrong],
        ["update", "CLEAR ALL", "--data", &wrong],
    ] {
        let said = fails(&asked, 1);
        assert!(said.contains(&wrong) && said.contains("load"), "{said}");
    }
    assert!(!folder.path().join("wrong").exists());
}

#[test]
fn values_that_cannot_work_are_refused_at_the_start() {
    for (option, value) in [
        ("--public-url", "xx"),
        ("--cors", "https://e.org/console"),
        ("--namespace", "ns"),
        ("--query-time-ms", "0"),
        ("--result-rows", "0"),
        ("--body-bytes", "0"),
    ] {
        let said = fails(&["serve", option, value], 2);
        assert!(said.contains(option), "{said}");
    }
}

#[test]
fn every_subcommand_has_help_with_an_example() {
    for subcommand in SUBCOMMANDS {
        let help = succeeds(&[subcommand, "--help"]);
        assert!(
            help.contains("Example") && help.contains(&format!("somersault {subcommand}")),
            "{help}"
        );
    }
}

#[test]
fn wrong_usage_is_2_and_a_failure_is_1() {
    fails(&["no-such-subcommand"], 2);
    fails(&["query"], 2);
    fails(&["export", "--graph", "urn:g", "--default"], 2);
    fails(&["subscribe", "q", "--from-now", "--after", "1"], 2);
    fails(&["advance", "tomorrow"], 2);
    for (option, value) in [("--recovery-target", "0s"), ("--checkpoint-every", "4")] {
        let said = fails(&["serve", "--data", "x", option, value], 2);
        assert!(said.contains("with its unit"), "{said}");
        let said = fails(&["serve", option, value], 2);
        assert!(said.contains(option), "{said}");
    }
    let (a, b) = ("name=a,query=q,file=x", "name=b,query=q,file=x");
    let said = fails(&["serve", "--sink", a, "--sink", b], 2);
    assert!(said.contains("the same file, x"), "{said}");
    assert!(
        fails(
            &[
                "query",
                "SELECT * WHERE { ?s ?p }",
                "--stored",
                "/nonexistent.nt"
            ],
            1
        )
        .contains("/nonexistent.nt")
    );
    let unreachable = fails(&["query", "ASK {}", "--server", "http://127.0.0.1:1"], 1);
    assert!(unreachable.contains("is it running"), "{unreachable}");
    assert!(
        unreachable.contains(": Connection refused"),
        "{unreachable}"
    );
    let bare = fails(&["query", "ASK {}", "--server", "127.0.0.1:1"], 2);
    assert!(bare.contains("write http://127.0.0.1:1"), "{bare}");
    let other = fails(&["query", "ASK {}", "--server", "ftp://127.0.0.1:1"], 2);
    assert!(other.contains("does not start with http://"), "{other}");
}

#[test]
fn a_query_stands_before_or_behind_its_files_and_beats_the_usual_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ttl");
    fs::write(&file, "<urn:a> <urn:b> <urn:c> .").unwrap();
    let file = file.to_str().unwrap();
    let output = somersault()
        .env("SOMERSAULT_SERVER", "http://127.0.0.1:1")
        .args([
            "query",
            "--stored",
            file,
            "--stored",
            file,
            "SELECT * { ?s ?p ?o }",
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("(1 row)"));
    let usual = somersault()
        .env("SOMERSAULT_SERVER", "http://127.0.0.1:1")
        .args(["query", "ASK {}"])
        .output()
        .unwrap();
    assert!(text(&usual.stderr).contains("http://127.0.0.1:1"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nt");
    let lines: String = (0..20_000)
        .map(|n| format!("<urn:a{n}> <urn:b> <urn:c> .\n"))
        .collect();
    fs::write(&file, lines).unwrap();
    for format in ["table", "json", "csv", "nt"] {
        let query = match format {
            "nt" => "CONSTRUCT WHERE { ?s ?p ?o }",
            _ => "SELECT * { ?s ?p ?o }",
        };
        let mut child = somersault()
            .args(["query", query, "--format", format, "--stored"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{format}: {}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stderr), "", "{format}");
    }
}

#[test]
fn files_are_queried_in_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ttl");
    fs::write(&file, "<urn:a> <urn:knows> <urn:b>, \"Ada\" .").unwrap();
    let file = file.to_str().unwrap();
    let table = succeeds(&[
        "query",
        "SELECT ?o { <urn:a> <urn:knows> ?o }",
        "--stored",
        file,
    ]);
    assert!(
        table.contains("<urn:b>") && table.contains("(2 rows)"),
        "{table}"
    );
    let json = succeeds(&[
        "query",
        "ASK { <urn:a> ?p <urn:b> }",
        "--stored",
        file,
        "--format",
        "json",
    ]);
    assert!(json.contains("true"), "{json}");
    let graph = succeeds(&[
        "query",
        "CONSTRUCT WHERE { ?s ?p <urn:b> }",
        "--stored",
        file,
        "--format",
        "nt",
    ]);
    assert_eq!(graph.trim(), "<urn:a> <urn:knows> <urn:b> .");
    let error = fails(&["query", "SELECT * WHERE { ?s ?p }", "--stored", file], 1);
    assert!(error.contains("line 1"), "{error}");
    let plan = succeeds(&[
        "explain",
        "--analyze",
        "SELECT ?o { <urn:a> <urn:knows> ?o }",
        "--stored",
        file,
    ]);
    assert!(!plan.is_empty());
    fs::write(folder.path().join("bad.nt"), "<urn:a> <urn:b> .\n").unwrap();
    let error = fails(
        &[
            "query",
            "ASK {}",
            "--stored",
            folder.path().join("bad.nt").to_str().unwrap(),
        ],
        1,
    );
    assert!(error.contains("bad.nt"), "{error}");
}

const LIKES: &str = "SELECT ?post FROM NAMED STREAM <urn:likes> [RANGE 2s STEP 1s] WHERE { GRAPH <urn:likes> { <urn:WHO> <urn:like> ?post } }";

#[test]
fn a_tour_through_a_server_that_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("people.nt"), "<urn:ada> <urn:knows> <urn:grace> .\n").unwrap();
    fs::write(
        path("streams.sql"),
        "CREATE STREAM <urn:likes> TIMELESS BATCH 1s IDLE NEVER;\n",
    )
    .unwrap();
    fs::write(
        path("q.csparql"),
        "REGISTER QUERY liked AS SELECT ?friend ?post FROM STREAM <urn:likes> [RANGE 2s STEP 1s]\nWHERE { <urn:ada> <urn:knows> ?friend . GRAPH <urn:likes> { ?friend <urn:like> ?post } }",
    )
    .unwrap();
    fs::write(
        path("likes.tsv"),
        "100\t<urn:grace> <urn:like> <urn:post1> .\n1500\t<urn:bob> <urn:like> <urn:post2> .\n",
    )
    .unwrap();
    {
        let server = Server::start(&["--data", data]);
        let at = ["--server", &server.url];
        succeeds(&[&["load", &path("people.nt")][..], &at].concat());
        succeeds(
            &[
                &["register", &path("streams.sql"), &path("q.csparql")][..],
                &at,
            ]
            .concat(),
        );
        succeeds(
            &[
                &[
                    "push",
                    "urn:likes",
                    &path("likes.tsv"),
                    "--source",
                    "test",
                    "--seq",
                    "1",
                ][..],
                &at,
            ]
            .concat(),
        );
        succeeds(
            &[
                &[
                    "push",
                    "urn:likes",
                    &path("likes.tsv"),
                    "--source",
                    "test",
                    "--seq",
                    "1",
                    "--advance",
                    "2000",
                ][..],
                &at,
            ]
            .concat(),
        );
        let answers = succeeds(&[&["subscribe", "liked", "--count", "1"][..], &at].concat());
        assert!(answers.contains("<urn:post1>"), "{answers}");
        let other = path("other.csparql");
        let register = [&["register", &other, "--name", "bobs"][..], &at].concat();
        let replace = [&register[..], &["--replace"]].concat();
        fs::write(&other, LIKES.replace("WHO", "bob")).unwrap();
        let registered = succeeds(&replace);
        assert!(registered.contains("bobs registered"), "{registered}");
        fs::write(&other, LIKES.replace("WHO", "eve")).unwrap();
        let refused = fails(&register, 1);
        assert!(refused.contains("another text"), "{refused}");
        let replaced = succeeds(&replace);
        assert!(replaced.contains("bobs replaced"), "{replaced}");
        let updated = succeeds(
            &[
                &["update", "INSERT DATA { <urn:ada> <urn:knows> <urn:bob> }"][..],
                &at,
            ]
            .concat(),
        );
        assert!(updated.contains("1 inserted"), "{updated}");
        let error = fails(
            &[
                "serve",
                "--listen",
                server.url.trim_start_matches("http://"),
            ],
            1,
        );
        assert!(error.contains("taken"), "{error}");
        // Dropping the server kills it; all acknowledged data must be there again.
    }
    let server = Server::start(&["--data", data]);
    let at = ["--server", &server.url];
    let rows = succeeds(&[&["query", "SELECT * { ?s ?p ?o }"][..], &at].concat());
    assert!(rows.contains("(4 rows)"), "{rows}");
    let answers = succeeds(
        &[
            &["subscribe", "liked", "--count", "1", "--format", "json"][..],
            &at,
        ]
        .concat(),
    );
    assert!(answers.contains("urn:post1"), "{answers}");
    let in_use = fails(&["query", "ASK {}", "--data", data], 1);
    assert!(in_use.contains(data), "{in_use}");
}

/// One request to a server of this test, and its answer whole.
pub(crate) fn http(server: &Server, request: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    send(
        server,
        &format!(
            "{request} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
    )
}

/// The answer to a request, given as its bytes.
pub(crate) fn send(server: &Server, request: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    let mut connection = TcpStream::connect(address).expect("the server listens");
    connection
        .write_all(request.as_bytes())
        .expect("it is sent");
    let mut answer = String::new();
    connection
        .read_to_string(&mut answer)
        .expect("it is answered");
    answer
}

/// The value of a metric.
fn counted(server: &Server, sample: &str) -> u64 {
    let metrics = http(server, "GET /metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix(sample));
    let value = line.unwrap_or_else(|| panic!("no {sample} in\n{metrics}"));
    value.trim().parse().expect("a number")
}

#[test]
fn a_push_waits_as_long_as_the_server_asks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(
        path("streams.sql"),
        "CREATE STREAM <urn:s> BUDGET 2000 BATCH 1s IDLE NEVER;\nCREATE STREAM <urn:behind> BATCH 1s IDLE NEVER;\n",
    )
    .unwrap();
    fs::write(
        path("q.csparql"),
        "REGISTER QUERY waits AS SELECT ?x FROM NAMED STREAM <urn:s> [RANGE 1s STEP 1s] FROM NAMED STREAM <urn:behind> [RANGE 1s STEP 1s]\n\
         WHERE { GRAPH <urn:s> { ?x <urn:p> ?y } GRAPH <urn:behind> { ?x <urn:p> ?z } }",
    )
    .unwrap();
    let lines = |second: usize| -> String {
        (0..20)
            .map(|n| format!("{second}000\t<urn:a{n}> <urn:p> <urn:b{second}> .\n"))
            .collect()
    };
    fs::write(path("behind.tsv"), "0\t<urn:a1> <urn:p> <urn:c> .\n").unwrap();
    fs::write(path("first.tsv"), lines(0)).unwrap();
    fs::write(path("second.tsv"), lines(2)).unwrap();
    let server = Server::start(&[]);
    let with_server =
        |arguments: &[&str]| succeeds(&[arguments, &["--server", &server.url]].concat());
    with_server(&["register", &path("streams.sql"), &path("q.csparql")]);
    with_server(&["push", "urn:behind", &path("behind.tsv")]);
    with_server(&["push", "urn:s", &path("first.tsv"), "--advance", "1000"]);
    let refused = || counted(&server, "somersault_pushes_refused_total ");
    let taken = || counted(&server, "somersault_stream_tuples_total{stream=\"urn:s\"}");
    assert_eq!((refused(), taken()), (0, 20));
    std::thread::scope(|scope| {
        let push = scope.spawn(|| with_server(&["push", "urn:s", &path("second.tsv")]));
        while refused() == 0 {
            assert!(!push.is_finished(), "it was not refused");
        }
        assert_eq!(taken(), 20);
        // This query holds the slices that fill the stream.
        let paused = http(&server, "POST /queries/waits/pause");
        assert!(paused.starts_with("HTTP/1.1 2"), "{paused}");
    });
    assert_eq!(taken(), 40);
}

#[test]
fn a_generated_network_replays() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let path = |name: &str| format!("{out}/{name}");
    succeeds(&[
        "generate",
        out,
        "--users",
        "100",
        "--seconds",
        "1",
        "--rate",
        "5000",
        "--history",
        "1",
    ]);
    assert!(Path::new(&path("GPS.tsv")).exists());
    succeeds(&[
        "replay",
        "--stored",
        &path("stored.nt"),
        "--graph",
        "http://example.org/lsbench/stored",
        "--create",
        &path("streams.sql"),
        "--stream",
        &format!("http://deri.org/poststream={}", path("PO.tsv")),
        "--query",
        &path("queries/L1.csparql"),
        &path("queries/L4.csparql"),
        "--output",
        &path("answers.jsonl"),
    ]);
    let answers = fs::read_to_string(path("answers.jsonl")).unwrap();
    assert!(
        answers
            .lines()
            .any(|line| line.starts_with("{\"query\":\"L4\"") && !line.contains("\"n\":0")),
        "{answers}"
    );
    let error = fails(
        &[
            "replay",
            "--stream",
            "urn:s=/nonexistent",
            "--query",
            &path("queries/L1.csparql"),
        ],
        2,
    );
    assert!(error.contains("IRI=FILE"), "{error}");
}

#[test]
fn the_demo_plays_and_sums_up() {
    let shown = succeeds(&[
        "demo",
        "--users",
        "100",
        "--rate",
        "2000",
        "--duration",
        "2",
        "--listen",
        "127.0.0.1:0",
    ]);
    for part in ["tuples/s", "Summary", "L6", "E3", "paste"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}

#[test]
fn files_of_statements_are_read_by_the_parser() {
    let server = Server::start(&[]);
    let at = ["--server", &server.url];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Comments, prefixes, strings and IRIs may hold what separates statements.
    let streams = write(
        "streams.sql",
        "# the streams; CREATE STREAM <urn:none>\nPREFIX : <urn:x:>\n\
         CREATE STREAM :a BATCH 1s IDLE NEVER;\n\
         CREATE STREAM <urn:b;c> BATCH 1s IDLE NEVER # and ; here\n;\n\
         REGISTER RSTREAM busy AS SELECT ?s (GROUP_CONCAT(?o; separator=\";\") AS ?os)\n\
         FROM NAMED WINDOW :w ON :a [RANGE 1s STEP 1s] { WINDOW :w { ?s :p ?o ; :q ?q } } GROUP BY ?s;\n\
         REGISTER QUERY :prefixed AS SELECT * FROM STREAM :a [RANGE 1s STEP 1s] { ?s ?p ?o };\n\
         REGISTER QUERY 'tea first' AS SELECT * FROM STREAM :a [RANGE 1s STEP 1s] { ?s ?p 'x;y' }",
    );
    let said = succeeds(&[&["register", &streams][..], &at].concat());
    for name in ["urn:x:a", "urn:b;c", "busy", "urn:x:prefixed", "tea first"] {
        assert!(said.contains(name), "{name} in {said}");
    }
    let status = succeeds(&[&["status"][..], &at].concat());
    for line in [
        "stream <urn:x:a>",
        "stream <urn:b;c>",
        "query busy",
        "query tea first",
    ] {
        assert!(status.contains(line), "{line} in {status}");
    }
    assert!(!status.contains("urn:none"), "{status}");
    // The same file again changes nothing.
    succeeds(&[&["register", &streams][..], &at].concat());
    let dropped = write(
        "drop.sql",
        "DROP QUERY 'tea first'; PAUSE QUERY busy; RESUME QUERY busy",
    );
    succeeds(&[&["register", &dropped][..], &at].concat());
    let status = succeeds(&[&["status"][..], &at].concat());
    assert!(!status.contains("tea first"), "{status}");
    // A fault is reported with its place in the file, and nothing of the file is sent.
    for (text, place) in [
        (
            "CREATE STREAM <urn:d>;\n\n  CREATE STREAM <urn:e> KEPT 1m",
            "line 3, column 25",
        ),
        ("CREATE STREAM <urn:d>;\nsome garbage", "line 2, column 1"),
        (
            "CREATE STREAM <urn:d>; CREATE STREAM bare",
            "line 1, column 38",
        ),
        ("# nothing but a comment", "no statement"),
    ] {
        let file = write("bad.sql", text);
        let said = fails(&[&["register", &file][..], &at].concat(), 1);
        assert!(said.contains("bad.sql") && said.contains(place), "{said}");
    }
    let status = succeeds(&[&["status"][..], &at].concat());
    assert!(!status.contains("urn:d"), "{status}");
    // A refusal of the server has its place in the file too.
    let file = write("other.sql", "\n\nCREATE STREAM <urn:x:a> BATCH 2s");
    let said = fails(&[&["register", &file][..], &at].concat(), 1);
    assert!(said.contains("other.sql, line 3, column 1"), "{said}");
}

#[test]
fn a_replay_reads_declarations_by_the_parser() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let lines = write(
        "s.tsv",
        "100\t<urn:a> <urn:p> <urn:b> .\n2100\t<urn:c> <urn:p> <urn:d> .\n",
    );
    let stream = format!("urn:s={lines}");
    let query = write(
        "q.csparql",
        "SELECT ?s FROM NAMED STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?s <urn:p> ?o }",
    );
    let replay = |create: &str| {
        run(&[
            "replay", "--stream", &stream, "--query", &query, "--create", create,
        ])
    };
    // A declaration behind a comment and a prefix is applied: its statements are absorbed.
    let create = write(
        "create.sql",
        "# TIMELESS: kept;\nPREFIX u: <urn:>\nCREATE STREAM u:s TIMELESS BATCH 1s IDLE NEVER",
    );
    let output = replay(&create);
    let answers = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        answers.contains("urn:a") && answers.contains("urn:c"),
        "{answers}"
    );
    for (declarations, said) in [
        (
            "CREATE STREAM <urn:s> IDLE NEVER;\ngarbage",
            "line 2, column 1",
        ),
        ("\nDROP STREAM <urn:s>", "line 2, column 1"),
    ] {
        let output = replay(&write("bad.sql", declarations));
        let error = text(&output.stderr);
        assert!(
            output.status.code() == Some(1) && error.contains(said),
            "{error}"
        );
    }
}

#[test]
fn every_command_looks_for_a_server_in_the_same_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nt");
    fs::write(&file, "<urn:a> <urn:b> <urn:c> .\n").unwrap();
    let query = folder.path().join("q.csparql");
    fs::write(&query, LIKES).unwrap();
    let (file, query) = (file.to_str().unwrap(), query.to_str().unwrap());
    let commands: [&[&str]; 14] = [
        &["query", "ASK {}"],
        &["update", "CLEAR ALL"],
        &["explain", "ASK {}"],
        &["load", file],
        &["export"],
        &["register", query, "--name", "q"],
        &["push", "urn:s", file, "--at", "1"],
        &["status"],
        &["subscribe", "q"],
        &["drop", "query", "q"],
        &["drop", "stream", "urn:s"],
        &["pause", "q"],
        &["resume", "q"],
        &["advance", "1"],
    ];
    for command in commands {
        let usual = somersault()
            .env("SOMERSAULT_SERVER", "http://127.0.0.1:1")
            .args(command)
            .output()
            .unwrap();
        let said = text(&usual.stderr);
        assert_eq!(usual.status.code(), Some(1), "{command:?}: {said}");
        assert!(
            said.contains("http://127.0.0.1:1") && said.contains("--server"),
            "{said}"
        );
        let given = [command, &["--server", "http://127.0.0.1:2"]].concat();
        let given = somersault()
            .env("SOMERSAULT_SERVER", "http://127.0.0.1:1")
            .args(given)
            .output()
            .unwrap();
        assert!(
            text(&given.stderr).contains("http://127.0.0.1:2"),
            "{command:?}"
        );
        let help = succeeds(&[command[0], "--help"]);
        let defaults = ["[env: SOMERSAULT_SERVER", "http://127.0.0.1:7878]"];
        assert!(defaults.iter().all(|it| help.contains(it)), "{help}");
    }
}

#[test]
fn a_pipe_gets_whole_values_and_numbers() {
    let long = format!("http://example.org/{}", "x".repeat(300));
    let query = format!(
        "SELECT ?long ?n ?d {{ VALUES (?long ?n ?d) {{ (<{long}> 10 \"2020-01-01\"^^<http://www.w3.org/2001/XMLSchema#date>) }} }}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.nt");
    fs::write(&file, "").unwrap();
    let table = succeeds(&["query", &query, "--stored", file.to_str().unwrap()]);
    let row = table.lines().nth(2).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells,
        [
            format!("<{long}>").as_str(),
            "10",
            "\"2020-01-01\"^^xsd:date"
        ]
    );
}

#[test]
fn loads_and_pushes_say_how_much() {
    let server = Server::start(&[]);
    let at = ["--server", &server.url];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let triples = write(
        "a.nt",
        "<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> <urn:c> .\n",
    );
    let said = succeeds(&[&["load", &triples][..], &at].concat());
    assert!(said.contains("2 new statements stored"), "{said}");
    let quads = write("a.nq", "<urn:a> <urn:p> <urn:b> <urn:g> .\n");
    let said = succeeds(&[&["load", &quads][..], &at].concat());
    assert!(said.contains("1 statements read"), "{said}");
    // JSON-LD goes where other documents go, and JSON without statements is refused.
    let json = write(
        "a.json",
        "{\"@id\": \"urn:j\", \"urn:p\": {\"@id\": \"urn:k\"}}",
    );
    succeeds(&[&["load", &json][..], &at].concat());
    let rows = succeeds(&[&["query", "SELECT ?o { <urn:j> <urn:p> ?o }"][..], &at].concat());
    assert!(rows.contains("<urn:k>"), "{rows}");
    let nothing = write("r.json", "{\"name\": \"Ada\", \"knows\": [\"Grace\"]}");
    let data = folder.path().join("data");
    for place in [&at[..], &["--data", data.to_str().unwrap()]] {
        let said = fails(&[&["load", &nothing][..], place].concat(), 1);
        assert!(
            said.contains("r.json") && said.contains("@context"),
            "{said}"
        );
    }
    let stream = write(
        "s.sql",
        "CREATE STREAM <urn:s> BATCH 1s LATENESS 0s LATE DROP IDLE NEVER",
    );
    succeeds(&[&["register", &stream][..], &at].concat());
    let lines = write(
        "s.tsv",
        "5000\t<urn:a> <urn:p> <urn:b> .\n6000\t<urn:a> <urn:p> <urn:c> .\n1000\t<urn:a> <urn:p> <urn:d> .\n",
    );
    let push = [
        &["push", "urn:s", &lines, "--source", "x", "--seq", "1"][..],
        &at,
    ]
    .concat();
    let said = succeeds(&push);
    assert!(
        said.contains("2 statements pushed") && said.contains("1 late ones dropped"),
        "{said}"
    );
    let said = succeeds(&push);
    assert!(
        said.contains("0 statements pushed") && said.contains("1 push taken before"),
        "{said}"
    );
}

#[test]
fn a_file_of_messages_is_pushed_once_and_its_refused_messages_are_named() {
    let server = Server::start(&[]);
    let at = ["--server", &server.url];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let stream = write(
        "s.sql",
        "CREATE STREAM <urn:votes> TIMELESS BUDGET 4 KB BATCH 1s IDLE NEVER TIMESTAMP <urn:at>",
    );
    succeeds(&[&["register", &stream][..], &at].concat());
    let message = |n: u32| format!("<urn:v{n}> <urn:at> {} .", 1_000 + n);
    let mut messages: Vec<String> = (0..30).map(message).collect();
    messages[4] = "<urn:bad> <urn:p> .".to_owned();
    messages[7] = "<urn:timeless> <urn:p> 1 .".to_owned();
    let file = write("votes.ttl", &messages.join("\nMESSAGE\n"));
    let push = [
        &["push", "urn:votes", &file, "--messages", "--batch", "3"][..],
        &["--source", "booth", "--seq", "100"],
        &at,
    ]
    .concat();
    let said = fails(&push, 1);
    assert!(said.contains("message 104, line 9, column"), "{said}");
    assert!(
        said.contains("message 107, line 15, column 1: the message has no value"),
        "{said}"
    );
    assert!(said.contains("2 messages were refused"), "{said}");
    messages[4] = message(29);
    messages[7] = message(29);
    write("votes.ttl", &messages.join("\nMESSAGE\n"));
    let said = succeeds(&push);
    assert!(
        said.contains("2 messages with 2 statements pushed"),
        "{said}"
    );
    assert!(said.contains("28 taken before"), "{said}");
    let said = fails(
        &[&["push", "urn:votes", &stream, "--messages"][..], &at].concat(),
        2,
    );
    assert!(said.contains("names no syntax of messages"), "{said}");
    // The stream has room for half of these at a time: the rest is sent again from there on.
    let message = |n: u32| format!("<urn:w{n}> <urn:at> {} .", 3_000 + 100 * n);
    let more: Vec<String> = (0..100).map(message).collect();
    let lines = write("more.ttl", &more.join("\nMESSAGE\n"));
    let push = [
        &["push", "urn:votes", &lines, "--messages"][..],
        &["--source", "booth", "--seq", "200"],
        &at,
    ];
    let pushed = succeeds(&push.concat());
    assert!(pushed.contains("100 messages"), "{pushed}");
}

#[test]
fn a_refused_push_names_its_file_and_the_line_that_its_part_begins_at() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let statements = write("s.sql", "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER");
    succeeds(&["register", &statements, "--server", &server.url]);
    let right = "1\t<urn:a> <urn:p> <urn:b> .\n2\t<urn:a> <urn:p> <urn:b> .\n";
    let wrong = "x\t<urn:a> <urn:p> <urn:b> .\n";
    let refused = |name: &str, text: &str| {
        let file = write(name, text);
        let push = ["push", "urn:s", &file, "--batch", "1", "--server"];
        (fails(&[&push[..], &[&server.url]].concat(), 1), file)
    };
    let (said, file) = refused("whole.tsv", wrong);
    assert!(
        said.contains(&format!("{file}: line 1, column 1")),
        "{said}"
    );
    assert!(said.contains("\"x\" is not an event time"), "{said}");
    let (said, file) = refused("parts.tsv", &format!("{right}{wrong}"));
    let place = format!("{file}, in the push that begins at line 3: line 1, column 1");
    assert!(said.contains(&place), "{said}");
    assert!(
        said.contains("2 statements were acknowledged before"),
        "{said}"
    );
}

#[test]
fn streams_and_queries_are_managed() {
    let server = Server::start(&[]);
    let at = ["--server", &server.url];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.sql");
    let statements = "CREATE STREAM <urn:s> TIMELESS INTO GRAPH <urn:g> BATCH 1s IDLE NEVER; \
                      REGISTER QUERY 'tea first' AS SELECT * FROM STREAM <urn:s> [RANGE 1s STEP 1s] { ?s ?p ?o }";
    fs::write(&file, statements).unwrap();
    let command = |arguments: &[&str]| succeeds(&[arguments, &at].concat());
    command(&["register", file.to_str().unwrap()]);
    assert!(command(&["pause", "tea first"]).contains("paused"));
    assert!(command(&["status"]).contains("tea first: 0 firings; paused"));
    command(&["resume", "tea first"]);
    assert!(!command(&["status"]).contains("paused"));
    let lines = folder.path().join("s.tsv");
    fs::write(&lines, "1700000000000\t<urn:a> <urn:p> \"x\" .\n").unwrap();
    command(&["push", "urn:s", lines.to_str().unwrap()]);
    let said = command(&["advance", "2023-11-14T22:13:25Z", "urn:s"]);
    assert!(said.contains("1700000005000"), "{said}");
    command(&["advance", "1700000006000"]);
    let status = command(&["status"]);
    assert!(
        status.contains("complete through 2023-11-14T22:13:26Z (1700000006000 ms)"),
        "{status}"
    );
    // The stored graphs, in each format, all of them or one.
    command(&[
        "update",
        "INSERT DATA { <urn:d> <urn:p> 1 . GRAPH <urn:h> { <urn:e> <urn:p> 2 } }",
    ]);
    let integer = "http://www.w3.org/2001/XMLSchema#integer";
    let all = command(&["export"]);
    let mut quads: Vec<&str> = all.lines().collect();
    quads.sort_unstable();
    assert_eq!(
        quads,
        [
            "<urn:a> <urn:p> \"x\" <urn:g> .".to_owned(),
            format!("<urn:d> <urn:p> \"1\"^^<{integer}> ."),
            format!("<urn:e> <urn:p> \"2\"^^<{integer}> <urn:h> ."),
        ]
    );
    assert_eq!(
        command(&["export", "--default", "--format", "nt"])
            .lines()
            .count(),
        1
    );
    let graph = command(&["export", "--graph", "urn:g", "--format", "nq"]);
    assert_eq!(graph.trim(), "<urn:a> <urn:p> \"x\" <urn:g> .");
    let trig = folder.path().join("all.trig");
    let trig = trig.to_str().unwrap();
    command(&["export", "--output", trig]);
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    succeeds(&["load", trig, "--data", data]);
    let mut again: Vec<String> = succeeds(&["export", "--data", data])
        .lines()
        .map(str::to_owned)
        .collect();
    again.sort_unstable();
    assert_eq!(again, quads);
    assert!(fails(&[&["export", "--format", "ttl"][..], &at].concat(), 2).contains("one graph"));
    // So are the answers of a query.
    let construct = "CONSTRUCT { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }";
    assert!(command(&["query", construct, "--format", "nq"]).contains("<urn:g> ."));
    assert!(command(&["query", construct, "--format", "trig"]).contains("<urn:g>"));
    assert!(fails(&[&["drop", "stream", "urn:s"][..], &at].concat(), 1).contains("tea first"));
    command(&["drop", "query", "tea first"]);
    command(&["drop", "stream", "urn:s"]);
    let status = command(&["status"]);
    let lines: Vec<&str> = status.lines().collect();
    assert!(
        matches!(lines[..], [server] if server.starts_with("server: everything works")),
        "{status}"
    );
}

#[test]
fn a_subscriber_connects_again_when_its_first_connection_is_cut_off() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let url = format!("http://{address}");
    let server = std::thread::spawn(move || {
        // The first connection is reset, the second ends before an answer, the third has one; before
        // it the server is away for longer than the subscriber waits between two attempts.
        drop(listener.accept().expect("the first connection"));
        let mut head = [0; 4096];
        let (mut second, _) = listener.accept().expect("the second connection");
        assert!(second.read(&mut head).expect("a request") > 0);
        drop((second, listener));
        std::thread::sleep(std::time::Duration::from_millis(800));
        let listener = std::net::TcpListener::bind(address).expect("the port is free again");
        let (mut third, _) = listener.accept().expect("the third connection");
        assert!(third.read(&mut head).expect("a request") > 0);
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                      Connection: close\r\n\r\n\
                      event: end\ndata: {\"reason\":\"dropped\"}\n\n";
        third.write_all(answer.as_bytes()).expect("it is sent");
    });
    let said = succeeds(&["subscribe", "q", "--server", &url]);
    assert!(said.contains("dropped"), "{said}");
    server.join().expect("it met three connections");
}

#[test]
fn a_subscriber_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let file = folder.path().join("s.sql");
    let statements = "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER; \
                      REGISTER QUERY q AS SELECT ?o FROM STREAM <urn:s> [RANGE 1s STEP 1s] { ?s <urn:p> ?o }";
    fs::write(&file, statements).unwrap();
    let push = |url: &str, second: i64| {
        let lines = folder.path().join("s.tsv");
        fs::write(
            &lines,
            format!("{second}500\t<urn:a> <urn:p> <urn:o{second}> .\n"),
        )
        .unwrap();
        let advance = format!("{}000", second + 1);
        let lines = lines.to_str().unwrap();
        succeeds(&[
            "push",
            "urn:s",
            lines,
            "--advance",
            &advance,
            "--server",
            url,
        ]);
    };
    let server = Server::start(&["--data", data]);
    let url = server.url.clone();
    let at = ["--server", &url];
    succeeds(&[&["register", file.to_str().unwrap()][..], &at].concat());
    push(&url, 1);
    push(&url, 2);
    // An advance does not wait for the firings; a subscriber from now on must not receive them.
    let is_answered = || succeeds(&[&["status"][..], &at].concat()).contains("query q: 2 firings");
    while !is_answered() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let subscribe = |more: &[&str]| {
        let mut child = somersault()
            .args(["subscribe", "q", "--server", &url, "--format", "json"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.take().expect("standard output is piped");
        (child, BufReader::new(out).lines().map_while(Result::ok))
    };
    let (mut patient, mut answers) = subscribe(&["--count", "3"]);
    let (hasty, mut few) = subscribe(&["--retry", "1"]);
    let (mut newest, mut fresh) = subscribe(&["--from-now", "--count", "1"]);
    for answer in ["urn:o1", "urn:o2"] {
        assert!(answers.next().is_some_and(|line| line.contains(answer)));
        assert!(few.next().is_some_and(|line| line.contains(answer)));
    }
    while counted(&server, "somersault_http_subscribers ") < 3 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(server);
    let gone = hasty.wait_with_output().expect("it ends");
    let said = text(&gone.stderr);
    assert_eq!(gone.status.code(), Some(1), "{said}");
    assert!(
        said.contains("gave up after 1 s") && said.contains("--after 1:3000"),
        "{said}"
    );
    let server = Server::start_at(url.trim_start_matches("http://"), &["--data", data]);
    // One subscriber continues behind the firings that it has seen, the other gets the next one.
    push(&url, 3);
    assert!(answers.next().is_some_and(|line| line.contains("urn:o3")));
    assert!(patient.wait().expect("it ends").success());
    push(&url, 4);
    assert!(fresh.next().is_some());
    assert!(newest.wait().expect("it ends").success());
    drop(server);
}
