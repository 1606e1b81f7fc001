//! `serve` as the system sees it: signals.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A server ends in order at SIGHUP, unless it was started to outlive its terminal, as this test
/// may be.
#[test]
fn a_hangup_ends_a_server_in_order() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_somersault"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut lines = BufReader::new(process.stderr.take().expect("standard error is piped")).lines();
    let answers = |line: &String| line.contains("http://");
    let said = lines.by_ref().map_while(Result::ok).find(answers);
    assert!(said.is_some());
    let kill = |signal: &str| {
        let id = process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("a signal can be sent").success());
    };
    kill("-HUP");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    if ignored.is_some_and(|mask| {
        mask.trim()
            .ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f'])
    }) {
        kill("-TERM");
    }
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let ended = process.wait().expect("it ends");
    assert!(ended.success(), "{ended}: {rest:?}");
    assert_eq!(rest, ["stopped"]);
}
