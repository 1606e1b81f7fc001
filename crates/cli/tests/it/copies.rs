//! Verify, dump, backup and restore as a user runs them.

use crate::command::{Server, fails, run, somersault, succeeds, text};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const STREAM: &str = "http://e/s";
const QUERY: &str = "REGISTER QUERY seen AS SELECT ?s FROM STREAM <http://e/s> [RANGE 2s STEP 1s] WHERE { ?s <http://e/p> ?o }";

/// Writes a file and returns its path.
fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("the file is written");
    path.to_str().expect("the path is text").to_owned()
}

fn path(folder: &Path, name: &str) -> String {
    folder
        .join(name)
        .to_str()
        .expect("the path is text")
        .to_owned()
}

/// Declares, loads, pushes.
fn fill(folder: &Path, server: &Server) {
    let at = ["--server", &server.url];
    let sent = |words: &[&str]| succeeds(&[words, &at].concat());
    let declared = format!("CREATE STREAM <{STREAM}> TIMELESS BATCH 1s IDLE NEVER;\n{QUERY};\n");
    sent(&["register", &file(folder, "declared.sql", &declared)]);
    let stored = "<http://e/a> <http://e/p> _:b .\n_:b <http://e/p> <<( <http://e/x> <http://e/y> \"z\" )>> <http://e/g> .\n";
    sent(&["load", &file(folder, "stored.nq", stored)]);
    let lines = "500\t<http://e/c> <http://e/p> \"1\" .\n1500\t<http://e/d> <http://e/p> \"2\" .\n";
    sent(&[
        "push",
        STREAM,
        &file(folder, "lines.tsv", lines),
        "--advance",
        "3000",
    ]);
}

/// The answers that a server gives to a one-shot query and for two closes.
fn answers(server: &Server) -> Vec<String> {
    let select = "SELECT ?g ?s ?o { { ?s <http://e/p> ?o } UNION { GRAPH ?g { ?s <http://e/p> ?o } } FILTER(!isBlank(?s) && !isBlank(?o)) } ORDER BY ?s ?o";
    let at = ["--server", &server.url];
    let stored = succeeds(&[&["query", select, "--format", "csv"][..], &at].concat());
    let words = ["subscribe", "seen", "--count", "2", "--format", "json"];
    let firings = succeeds(&[&words[..], &at].concat());
    let firings = firings.lines().map(|line| {
        let firing: serde_json::Value = serde_json::from_str(line).expect("a firing is JSON");
        format!(
            "{} {} {}",
            firing["close_ms"], firing["sn"], firing["results"]
        )
    });
    [stored].into_iter().chain(firings).collect()
}

/// Lines in their order, whatever the order in which they were written.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_server_is_backed_up_while_it_runs_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| path(folder.path(), name);
    let (data, backup, new) = (at("data"), at("backup"), at("new"));
    let server = Server::start(&["--data", &data]);
    fill(folder.path(), &server);
    let before = answers(&server);
    let said = succeeds(&["backup", &backup, "--server", &server.url]);
    assert!(
        said.contains("record") && said.contains("verified"),
        "{said}"
    );
    // The server goes on, and the backup stays as it is.
    succeeds(&["update", "CLEAR ALL", "--server", &server.url]);
    let said = fails(&["backup", &backup, "--server", &server.url], 1);
    assert!(said.contains("not empty"), "{said}");
    let said = fails(&["verify", &data], 1);
    assert!(said.contains("in use"), "{said}");
    let said = fails(&["backup", &at("other"), "--data", &data], 1);
    assert!(said.contains("in use"), "{said}");
    let said = fails(&["serve", "--listen", "127.0.0.1:0", "--data", &backup], 1);
    assert!(said.contains("somersault restore"), "{said}");
    let said = succeeds(&["verify", &backup, "--deep"]);
    assert!(
        said.contains("everything reads back") && said.contains("1 streams"),
        "{said}"
    );
    for copy in [&[][..], &["--copy"]] {
        let new = format!("{new}{}", copy.len());
        let said = succeeds(&[&["restore", &backup, &new][..], copy].concat());
        assert!(said.contains(&format!("serve --data {new}")), "{said}");
        assert!(said.contains("1 continuous queries"), "{said}");
        let restored = Server::start(&["--data", &new]);
        assert_eq!(answers(&restored), before);
        succeeds(&[
            "update",
            "INSERT DATA { <urn:a> <urn:p> 1 }",
            "--server",
            &restored.url,
        ]);
        drop(restored);
        succeeds(&["verify", &new, "--deep"]);
    }
    succeeds(&["verify", &backup, "--deep"]);
}

#[test]
fn a_dump_goes_into_another_server_and_comes_out_equal() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| path(folder.path(), name);
    let server = Server::start(&["--data", &at("data")]);
    fill(folder.path(), &server);
    succeeds(&["dump", &at("one"), "--server", &server.url]);
    let other = Server::start(&[]);
    let to_other = ["--server", &other.url];
    succeeds(&[&["load", &at("one/statements.nq")][..], &to_other].concat());
    succeeds(&[&["register", &at("one/declarations.sql")][..], &to_other].concat());
    succeeds(&[&["dump", &at("two")][..], &to_other].concat());
    let read = |name: &str| fs::read_to_string(at(name)).unwrap();
    assert_eq!(read("one/declarations.sql"), read("two/declarations.sql"));
    let count = |name: &str| read(name).lines().count();
    assert_eq!(
        (count("one/statements.nq"), count("two/statements.nq")),
        (4, 4)
    );
    drop(server);
    let part = |only: &str| succeeds(&["dump", "-", "--only", only, "--data", &at("data")]);
    assert_eq!(
        sorted(&part("statements")),
        sorted(&read("one/statements.nq"))
    );
    assert_eq!(part("declarations"), read("one/declarations.sql"));
    let said = fails(&["dump", &at("one"), "--data", &at("data")], 1);
    assert!(said.contains("not empty"), "{said}");
    fails(&["dump", "-", "--data", &at("data")], 2);
}

#[test]
fn a_folder_is_verified_and_what_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| path(folder.path(), name);
    let data = at("data");
    succeeds(&[
        "load",
        &file(folder.path(), "a.nt", "<urn:a> <urn:p> <urn:b> .\n"),
        "--data",
        &data,
    ]);
    let said = succeeds(&["verify", &data]);
    assert!(
        said.contains("segments of the log") && said.contains("everything reads back"),
        "{said}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&succeeds(&["verify", &data, "--json"])).unwrap();
    assert_eq!(
        (&json["sound"], &json["log"]["closed"]),
        (&true.into(), &true.into())
    );
    succeeds(&["backup", &at("linked"), "--data", &data]);
    for name in ["log-0000000001.seg", "load-0000000001.nq.zst", "log.proof"] {
        let path = Path::new(&data).join(name);
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, flipped).unwrap();
        let output = run(&["verify", &data]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains("DAMAGED") && said.contains(name), "{said}");
        for refused in [
            ["backup", &at("x"), "--data", &data],
            ["restore", &data, &at("x"), "--copy"],
        ] {
            let said = fails(&refused, 1);
            assert!(said.contains(name), "{said}");
            assert!(fs::read_dir(at("x")).unwrap().next().is_none());
        }
        fs::write(&path, whole).unwrap();
    }
    succeeds(&["verify", &data]);
    succeeds(&["verify", &at("linked"), "--deep"]);
    fails(&["verify", &at("nowhere")], 1);
    fs::create_dir(at("empty")).unwrap();
    assert!(succeeds(&["verify", &at("empty")]).contains("empty"));
    fails(&["restore", &at("empty"), &at("y")], 1);
}

#[test]
fn a_server_that_is_killed_during_a_backup_leaves_a_whole_one_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| path(folder.path(), name);
    let data = at("data");
    let mut random = 1_u64;
    let mut lines = String::new();
    for number in 0..150_000_u64 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(number);
        lines.push_str(&format!("<urn:{random:x}> <urn:p> \"{:x}\" .\n", !random));
    }
    succeeds(&[
        "load",
        &file(folder.path(), "a.nt", &lines),
        "--data",
        &data,
    ]);
    for attempt in 0..4_u64 {
        let mut server = Server::start(&["--data", &data]);
        let backup = at(&format!("backup{attempt}"));
        let child = somersault()
            .args(["backup", &backup, "--server", &server.url])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let is_begun = || fs::read_dir(&backup).is_ok_and(|mut files| files.next().is_some());
        while !is_begun() && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(3 * attempt));
        server.process.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            succeeds(&["verify", &backup]);
        } else {
            let said = text(&output.stderr);
            assert!(
                said.contains("backup") || said.contains("archive"),
                "{said}"
            );
            assert!(fs::read_dir(&backup).unwrap().next().is_none(), "{said}");
        }
    }
    succeeds(&["verify", &data, "--deep"]);
}
