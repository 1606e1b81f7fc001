//! `somersault call`, `procedures` and `dataflows` as an operator uses them.

use crate::command::{Server, fails, run, somersault, succeeds};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const BANK: &str = "CREATE STREAM <urn:in> BATCH 1s IDLE NEVER;
CREATE PROCEDURE deposit(?to IRI, ?n) AS {
  IF ASK { FILTER(?n < 0) } { ABORT \"too little\" };
  INSERT { ?to <urn:has> ?n } WHERE { };
  RETURN SELECT ?n { ?to <urn:has> ?n }
};
CREATE PROCEDURE note ON STREAM <urn:in> BATCH 1 MESSAGE AS {
  IF ASK { BATCH { ?s <urn:p> <urn:bad> } } { ABORT \"bad\" };
  INSERT { ?s ?p ?o } WHERE { BATCH { ?s ?p ?o } }
};
CREATE DATAFLOW flow { note } ON ABORT STOP";

struct Bank {
    server: Server,
    folder: tempfile::TempDir,
}

impl Bank {
    fn start() -> Bank {
        Bank::serving(&[])
    }

    fn serving(more: &[&str]) -> Bank {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(more);
        let bank = Bank { server, folder };
        let said = bank.command(&["procedures", "declare", &bank.file("bank.sql", BANK)]);
        for word in [
            "stream urn:in declared",
            "procedure deposit declared",
            "dataflow flow declared",
        ] {
            assert!(said.contains(word), "{said}");
        }
        bank
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("it is written");
        path.to_str().expect("a path that is text").to_owned()
    }

    fn command(&self, arguments: &[&str]) -> String {
        succeeds(&[arguments, &["--server", &self.server.url]].concat())
    }

    fn fails(&self, arguments: &[&str], code: i32) -> String {
        fails(&[arguments, &["--server", &self.server.url]].concat(), code)
    }
}

#[test]
fn a_call_prints_its_answer_and_an_abort_and_a_refusal_have_exit_codes() {
    let bank = Bank::start();
    let call = ["call", "deposit", "to=urn:a", "n=5"];
    assert!(bank.command(&call).contains("(1 row)"));
    let again = [&call[..], &["--key", "till/1", "--format", "csv"]].concat();
    assert_eq!(bank.command(&again), bank.command(&again));
    let aborted = bank.fails(&["call", "deposit", "to=<urn:a>", "n=-1"], 3);
    assert!(aborted.contains("too little"), "{aborted}");
    let refused = bank.fails(&["call", "deposit", "to=urn:a"], 4);
    assert!(refused.contains("?n is missing"), "{refused}");
    let refused = bank.fails(&["call", "withdraw"], 4);
    assert!(refused.contains("no procedure withdraw"), "{refused}");
    bank.fails(&["call", "deposit", "to"], 2);
    bank.fails(&["call"], 2);
}

#[test]
fn an_update_that_is_a_call_prints_its_answer() {
    let calls = |place: [&str; 2]| {
        let answered = succeeds(&[&["update", "CALL deposit(<urn:a>, 5)"][..], &place].concat());
        assert!(answered.contains("(1 row)"), "{answered}");
        let aborted = fails(
            &[&["update", "CALL deposit(<urn:a>, -1)"][..], &place].concat(),
            3,
        );
        assert!(aborted.contains("too little"), "{aborted}");
        let refused = fails(
            &[&["update", "CALL deposit(<urn:a>)"][..], &place].concat(),
            4,
        );
        assert!(refused.contains("?n is missing"), "{refused}");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("a path that is text");
    let bank = Bank::serving(&["--data", data]);
    calls(["--server", &bank.server.url]);
    drop(bank);
    calls(["--data", data]);
}

#[test]
fn a_file_of_calls_prints_a_line_for_each() {
    let bank = Bank::start();
    let line = |n: i64| format!("{{\"args\": {{\"to\": \"urn:b\", \"n\": {n}}}}}\n");
    let lines: String = (1..=2_500).map(|_| line(7)).collect();
    let printed = bank.command(&[
        "call",
        "deposit",
        "--file",
        &bank.file("calls.ndjson", &lines),
    ]);
    assert_eq!(printed.lines().count(), 2_500);
    let aborting = bank.file("aborting.ndjson", &format!("{}{}", line(1), line(-1)));
    let said = bank.fails(&["call", "deposit", "--file", &aborting], 3);
    assert!(said.contains("0 calls were refused, 1 aborted"), "{said}");
    let refused = bank.file("refused.ndjson", "{\"call\": \"deposit\"}\n");
    bank.fails(&["call", "--file", &refused], 4);
}

#[test]
fn a_stopped_dataflow_is_shown_and_resumed() {
    let bank = Bank::start();
    assert!(
        bank.command(&["procedures", "list"])
            .contains("deposit (?to IRI, ?n ANY)")
    );
    assert!(
        bank.command(&["dataflows", "list"])
            .contains("flow  running")
    );
    let none = run(&["dataflows", "aborted", "flow", "--server", &bank.server.url]);
    assert!(none.status.success() && none.stdout.is_empty(), "{none:?}");
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(
        said.contains("no transaction of flow has aborted"),
        "{said}"
    );
    let file = bank.file("in.tsv", "1000\t<urn:s> <urn:p> <urn:bad> .\n");
    bank.command(&["push", "urn:in", &file]);
    while !bank
        .command(&["dataflows", "list"])
        .contains("flow  stopped")
    {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let aborted = bank.command(&["dataflows", "aborted", "flow"]);
    assert!(
        aborted.contains("note in round 1") && aborted.contains(": bad"),
        "{aborted}"
    );
    let shown = bank.command(&["dataflows", "show", "flow"]);
    assert!(
        shown.contains("stopped by note") && shown.contains("CREATE DATAFLOW flow"),
        "{shown}"
    );
    for (word, state) in [("resume", "running"), ("pause", "paused")] {
        assert_eq!(
            bank.command(&["dataflows", word, "flow"]),
            format!("dataflow flow {word}d\n")
        );
        assert!(bank.command(&["dataflows", "list"]).contains(state));
    }
    bank.fails(&["procedures", "drop", "note"], 1);
    bank.command(&["dataflows", "drop", "flow"]);
    bank.command(&["procedures", "drop", "note", "--discard"]);
    let said = bank.fails(&["procedures", "show", "note"], 1);
    assert!(said.contains("no procedure note"), "{said}");
    let file = bank.file("drop.sql", "DROP PROCEDURE deposit");
    assert_eq!(
        bank.command(&["register", &file]),
        "procedure deposit dropped\n"
    );
}

#[test]
fn the_voting_show_plays_checks_itself_and_its_commands_run() {
    let mut show = somersault();
    show.args(["demo-vote", "--votes", "60", "--duration", "8"])
        .args(["--contestants", "5", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    let mut show = show.spawn().expect("it starts");
    let mut lines = BufReader::new(show.stdout.take().expect("it is piped")).lines();
    let mut commands = Vec::new();
    let mut shown = String::new();
    for line in lines.by_ref() {
        let line = line.expect("it is text");
        commands.extend(line.strip_prefix("  ").map(str::to_owned));
        if line.contains("votes/s") {
            break;
        }
        shown += &line;
    }
    let commands: Vec<_> = (commands.iter())
        .filter(|line| line.contains("http://"))
        .collect();
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let done = Command::new("sh").args(["-c", command]).output();
        let done = done.expect("a shell");
        assert!(done.status.success(), "{command}: {done:?}");
        // Nothing may have aborted yet.
        let may_be_empty = command.contains("dataflows aborted");
        assert!(
            may_be_empty || !done.stdout.is_empty(),
            "{command} prints nothing"
        );
    }
    let rest: Vec<String> = lines.map(|line| line.expect("it is text")).collect();
    shown += &rest.join("\n");
    assert!(show.wait().expect("it ends").success(), "{shown}");
    for part in ["Summary", "votes/s", "Checked:", "last removal", "paste"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}
