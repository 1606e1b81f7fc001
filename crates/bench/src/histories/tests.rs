//! Histories of small runs: what is recorded, and what the check says of it.

use super::*;
use clap::Parser;
use somersault_server::{Running, ServerConfig};
use somersault_suites::histories::{MicroOp, Seen, read_history};

fn options(workload: &str, folder: &tempfile::TempDir) -> HistoryOptions {
    HistoryOptions {
        workload: workload.to_owned(),
        clients: 8,
        seconds: 60,
        transactions: 40,
        seed: 3,
        out: Some(folder.path().join("history.ndjson")),
        server: None,
        check: true,
        data: folder.path().to_owned(),
    }
}

/// Many clients on threads of their own, on a durable engine with two shards.
#[test]
fn histories_of_concurrent_clients_are_serializable() {
    for workload in Workload::ALL {
        let folder = tempfile::tempdir().unwrap();
        let options = options(workload.name(), &folder);
        run(&options).unwrap();
        let events = read_history(options.out.as_ref().unwrap()).unwrap();
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert!(count(EventKind::Invoke) > 8 * 40, "{}", workload.name());
        assert!(count(EventKind::Ok) > 8 * 20, "{}", workload.name());
        assert!(count(EventKind::Fail) > 0, "{}", workload.name());
        assert_eq!(count(EventKind::Info), 0, "{}", workload.name());
        // Clients were under way at the same time.
        let mut kinds = events.windows(2).map(|pair| (pair[0].kind, pair[1].kind));
        assert!(kinds.any(|pair| pair == (EventKind::Invoke, EventKind::Invoke)));
    }
}

#[test]
fn histories_over_http_are_serializable_on_a_server_that_has_been_used() {
    let engine = Engine::open(configuration(1)).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Running::start(engine.clone(), listener, ServerConfig::default()).unwrap();
    for (workload, seed) in Workload::ALL.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let folder = tempfile::tempdir().unwrap();
        let options = HistoryOptions {
            server: Some(server.url()),
            transactions: 15,
            seed,
            ..options(workload.name(), &folder)
        };
        run(&options).unwrap();
    }
    server.stop().unwrap();
    engine.shutdown().unwrap();
}

/// A history of a right engine, and one change to it each: the check is not blind.
#[test]
fn a_planted_mistake_in_a_history_of_the_engine_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let events = made(&options("list-append", &folder)).unwrap();
    checked(&events).unwrap();
    let answered = events.iter().rposition(|event| {
        let Operation::Transaction(steps) = &event.operation else {
            return false;
        };
        let is_long = |step: &MicroOp| {
            matches!(step, MicroOp::Read { seen: Seen::List(list), .. } if list.len() > 4)
        };
        event.kind == EventKind::Ok && steps.iter().any(is_long)
    });
    let answered = answered.expect("a long list was read at the end");
    let plant = |change: fn(&mut Vec<u64>)| {
        let mut events = events.clone();
        if let Operation::Transaction(steps) = &mut events[answered].operation {
            for step in steps {
                if let MicroOp::Read {
                    seen: Seen::List(list),
                    ..
                } = step
                    && list.len() > 4
                {
                    change(list);
                    break;
                }
            }
        }
        checked(&events).unwrap_err()
    };
    let stale = plant(|list| list.truncate(list.len() - 1));
    assert!(
        stale.contains("G-single") || stale.contains("G2"),
        "{stale}"
    );
    let foreign = plant(|list| list.push(u64::MAX));
    assert!(foreign.contains("G1a"), "{foreign}");
    let turned = plant(|list| list.reverse());
    assert!(turned.contains("incompatible-order"), "{turned}");
}

#[test]
fn a_history_in_which_nothing_was_answered_is_not_called_serializable() {
    let folder = tempfile::tempdir().unwrap();
    let party = HistoryParty::server("http://127.0.0.1:1").unwrap();
    assert!(recorded(&options("register", &folder), &party).is_err());
    assert!(checked(&[]).is_err());
}

#[test]
fn the_commands_of_the_page_are_ones() {
    let page = include_str!("../../../../docs/histories.md");
    let commands = page
        .lines()
        .filter(|line| line.starts_with("somersault-bench histories"));
    let parsed: Vec<_> = commands
        .map(|line| crate::Cli::try_parse_from(line.split(' ')).map(drop))
        .collect();
    assert!(
        parsed.len() >= 2 && parsed.iter().all(Result::is_ok),
        "{parsed:?}"
    );
    for event in page.lines().filter(|line| line.starts_with('{')) {
        HistoryEvent::parse(event).unwrap();
    }
}
