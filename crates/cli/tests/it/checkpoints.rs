//! Checkpoints as an operator takes and sees them.

use crate::command::{Server, fails, http, somersault, succeeds};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// The files of checkpoints in a folder.
fn files(folder: &Path) -> usize {
    let names = fs::read_dir(folder).expect("the folder is there");
    let names = names.map(|entry| entry.expect("the folder is read").file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("checkpoint-"))
        .count()
}

/// An update with this many statements.
fn insert(count: usize) -> String {
    let statements: String = (0..count)
        .map(|number| format!("<urn:s> <urn:p> {number} . "))
        .collect();
    format!("INSERT DATA {{ {statements} }}")
}

#[test]
fn a_server_takes_a_checkpoint_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&["--data", data.to_str().unwrap()]);
    succeeds(&["update", &insert(10), "--server", &server.url]);
    let said = succeeds(&["checkpoint", &server.url]);
    assert!(
        said.starts_with("checkpoint 1: SN ")
            && said.contains("B, ")
            && said.contains("B of them new"),
        "{said}"
    );
    let said = succeeds(&["checkpoint", "--server", &server.url]);
    assert!(said.starts_with("checkpoint 2: SN "), "{said}");
    assert!(files(&data) > 0);
    let said = succeeds(&["status", "--server", &server.url]);
    assert!(
        said.contains("a restart would take about") && said.contains("from a checkpoint"),
        "{said}"
    );
}

#[test]
fn a_server_in_memory_refuses_a_checkpoint_with_the_reason() {
    let server = Server::start(&[]);
    let said = fails(&["checkpoint", &server.url], 1);
    assert!(said.contains("nothing is written to a folder"), "{said}");
    assert!(!http(&server, "GET /health").contains("restart_seconds"));
}

#[cfg(unix)]
#[test]
fn a_server_that_is_stopped_writes_a_checkpoint_if_the_next_start_is_quicker_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = |update: Option<&str>| -> Vec<String> {
        let mut process = somersault()
            // Replaying a thousand statements takes more than a fifth of this, and less than this.
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--recovery-target",
                "10ms",
                "--data",
            ])
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let errors = process.stderr.take().expect("standard error is piped");
        let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
        let url = lines.by_ref().find_map(|line| {
            let mut words = line.split_whitespace();
            words
                .find(|word| word.starts_with("http://"))
                .map(str::to_owned)
        });
        let url = url.expect("the server says where it listens");
        if let Some(update) = update {
            succeeds(&["update", update, "--server", &url]);
        }
        let id = process.id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-TERM", &id])
            .status();
        assert!(sent.expect("a signal can be sent").success());
        let rest: Vec<String> = lines.collect();
        assert!(process.wait().expect("it ends").success(), "{rest:?}");
        rest
    };
    let said = run(Some(&insert(1_500)));
    assert!(said[0].starts_with("writing a checkpoint"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("stopped"), "{said:?}");
    let written = files(&data);
    assert!(written > 0);
    assert_eq!(run(None), ["stopped"], "nothing has changed");
    assert_eq!(files(&data), written);
}
