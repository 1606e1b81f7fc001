//! A bank whose server is killed again and again, at seeded instants, while sixteen clients move
//! money over HTTP, each transfer under a key, and send again what was not answered. Every snapshot
//! that a query reads, once or again and again, has all the money; at the end each transfer that was
//! acknowledged is there exactly once, also in the book that a streaming procedure keeps of them.
//!
//! `SOMERSAULT_KILLS` is the number of kills, `SOMERSAULT_SEED` the seed.

use crate::kills::{Target, checkpoint_all, given, kill_often, start, subscribe};
use serde_json::{Value, json};
use somersault_model::SeededRandom;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Clients that move money.
const CLIENTS: u64 = 16;
const ACCOUNTS: u64 = 10;
/// What each account holds at first.
const OPENING: i64 = 100;
/// Transfers of each client between two kills.
const APART: u64 = 6;
const TICKS: &str = "/streams/http%3A%2F%2Fe%2Fticks";
/// The event time of the first tick, and the time between two.
const START_MS: u64 = 1_700_000_000_000;
const TICK_MS: u64 = 1_000;

/// A transfer also leaves a receipt, and tells the book.
const TRANSFER: &str = "CREATE PROCEDURE transfer(?receipt IRI, ?from IRI, ?to IRI, ?amount <http://www.w3.org/2001/XMLSchema#integer>) AS {
  LET (?has) BE SELECT ?n { ?from <http://e/balance> ?n } ;
  IF ASK { FILTER(?has < ?amount) } { ABORT CONCAT(\"only \", STR(?has), \" left\") } ;
  DELETE { ?from <http://e/balance> ?n } INSERT { ?from <http://e/balance> ?less }
    WHERE { ?from <http://e/balance> ?n BIND(?n - ?amount AS ?less) } ;
  DELETE { ?to <http://e/balance> ?n } INSERT { ?to <http://e/balance> ?more }
    WHERE { ?to <http://e/balance> ?n BIND(?n + ?amount AS ?more) } ;
  INSERT { ?receipt <http://e/from> ?from ; <http://e/to> ?to ; <http://e/amount> ?amount } WHERE { } ;
  EMIT INTO <http://e/moved> CONSTRUCT { ?receipt <http://e/amount> ?amount } WHERE { }
}";
const BOOK: &str = "CREATE PROCEDURE book ON STREAM <http://e/moved> BATCH 1 MESSAGE AS {
  DELETE { <http://e/book> <http://e/turnover> ?n ; <http://e/transfers> ?c }
  INSERT { <http://e/book> <http://e/turnover> ?more ; <http://e/transfers> ?next }
  WHERE {
    <http://e/book> <http://e/turnover> ?n ; <http://e/transfers> ?c
    BATCH { ?receipt <http://e/amount> ?amount }
    BIND(?n + ?amount AS ?more) BIND(?c + 1 AS ?next)
  }
}";
const ALL_MONEY: &str =
    "SELECT (SUM(?n) AS ?money) (COUNT(?account) AS ?accounts) { ?account <http://e/balance> ?n }";
/// The same at each close of a window that holds one tick.
const MONEY_AT_TICKS: &str = "SELECT (SUM(?n) AS ?money) (COUNT(?account) AS ?accounts)
  FROM NAMED STREAM <http://e/ticks> [RANGE 1s STEP 1s]
  WHERE { GRAPH <http://e/ticks> { ?tick <http://e/number> ?number } ?account <http://e/balance> ?n }";

/// A transfer as its client knows it.
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
    is_done: bool,
}

/// What one client has been answered, and how many answers it had to ask for again.
#[derive(Default)]
struct Answered {
    transfers: Vec<Transfer>,
    sent_again: u64,
}

fn account(number: u64) -> String {
    format!("http://e/account/{number}")
}

fn receipt(client: u64, number: u64) -> String {
    format!("http://e/receipt/{client}-{number}")
}

/// One client moves money, one transfer after the other.
fn move_all(
    target: &Target,
    client: u64,
    seed: u64,
    acknowledged: &AtomicU64,
    transfers: u64,
) -> Answered {
    let mut random = SeededRandom::new(seed * CLIENTS + client);
    let mut answered = Answered::default();
    for number in 0..transfers {
        let from = random.below(ACCOUNTS);
        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = 1 + random.below(60) as i64;
        let head = format!(
            "POST /procedures/transfer/call HTTP/1.1\r\nContent-Type: application/json\r\nIdempotency-Key: client-{client}/{number}"
        );
        let body = json!({
            "receipt": receipt(client, number), "from": account(from), "to": account(to), "amount": amount,
        });
        let (status, answer, sent) = target.answered(&head, &body.to_string());
        let is_done = match status {
            200 => true,
            409 if answer.contains(" left") => false,
            _ => panic!("{body}: {status} {answer}"),
        };
        answered.sent_again += sent - 1;
        answered.transfers.push(Transfer {
            from,
            to,
            amount,
            is_done,
        });
        acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    answered
}

/// One client makes closes due, until the run is over; returns the number of ticks.
fn tick_all(target: &Target, closes: &AtomicU64) -> u64 {
    let mut number = 0;
    while !target.is_over.load(Ordering::SeqCst) {
        // The server keeps 64 firings.
        while number > closes.load(Ordering::SeqCst) + 30 {
            target.pause();
        }
        let time = START_MS + number * TICK_MS + 1;
        let head = format!(
            "POST {TICKS} HTTP/1.1\r\nContent-Type: text/tab-separated-values\r\nPush-Source: clock\r\nPush-Sequence: {number}"
        );
        let line = format!("{time}\t<http://e/tick> <http://e/number> \"{number}\" .\n");
        target.done(&head, &line);
        number += 1;
    }
    number
}

fn select(target: &Target, text: &str) -> Vec<Value> {
    let head = "POST /query HTTP/1.1\r\nContent-Type: application/sparql-query";
    let answer = target.done(head, text);
    answer["results"]["bindings"]
        .as_array()
        .expect("rows")
        .clone()
}

fn number(row: &Value, name: &str) -> i64 {
    let value = row[name]["value"].as_str().expect("a value");
    value.parse().expect("an integer")
}

/// Fails unless a row has all the money in all accounts.
#[track_caller]
fn has_all_money(row: &Value) {
    let found = (number(row, "money"), number(row, "accounts"));
    assert_eq!(found, (ACCOUNTS as i64 * OPENING, ACCOUNTS as i64), "{row}");
}

/// One client reads one snapshot after the other, until the run is over; returns their number. In
/// each, the balances are what the receipts lead to.
fn audit_all(target: &Target) -> u64 {
    let mut audits = 0;
    while !target.is_over.load(Ordering::SeqCst) {
        match select(target, ALL_MONEY).as_slice() {
            [row] => has_all_money(row),
            rows => panic!("{rows:?}"),
        }
        if audits % 16 == 0 {
            receipts_fit(target);
        }
        audits += 1;
        target.pause();
    }
    audits
}

/// Compares the balances with the receipts of the same snapshot; returns the receipts.
fn receipts_fit(target: &Target) -> BTreeMap<String, i64> {
    let rows = select(
        target,
        "SELECT ?account ?n ?receipt ?from ?to ?amount {
           { ?account <http://e/balance> ?n }
           UNION { ?receipt <http://e/from> ?from ; <http://e/to> ?to ; <http://e/amount> ?amount } }",
    );
    let text = |row: &Value, name: &str| row[name]["value"].as_str().map(str::to_owned);
    let mut expected: BTreeMap<String, i64> =
        (0..ACCOUNTS).map(|n| (account(n), OPENING)).collect();
    let (mut balances, mut receipts) = (BTreeMap::new(), BTreeMap::new());
    for row in &rows {
        if let Some(account) = text(row, "account") {
            balances.insert(account, number(row, "n"));
            continue;
        }
        let amount = number(row, "amount");
        let place = |name| text(row, name).expect("a receipt has two accounts");
        *expected.get_mut(&place("from")).expect("an account") -= amount;
        *expected.get_mut(&place("to")).expect("an account") += amount;
        let before = receipts.insert(place("receipt"), amount);
        assert_eq!(before, None, "{row}");
    }
    assert_eq!(balances, expected);
    receipts
}

/// Compares what is there with what the clients were answered.
fn compare(target: &Target, answered: &[Answered]) {
    let mut expected: BTreeMap<u64, i64> = (0..ACCOUNTS).map(|n| (n, OPENING)).collect();
    let mut receipts = BTreeMap::new();
    for (client, answered) in answered.iter().enumerate() {
        let done = answered.transfers.iter().enumerate();
        for (number, transfer) in done.filter(|(_, transfer)| transfer.is_done) {
            *expected.get_mut(&transfer.from).expect("an account") -= transfer.amount;
            *expected.get_mut(&transfer.to).expect("an account") += transfer.amount;
            receipts.insert(receipt(client as u64, number as u64), transfer.amount);
        }
    }
    assert_eq!(receipts_fit(target), receipts);
    for (account_number, balance) in expected {
        let text = format!(
            "SELECT ?n {{ <{}> <http://e/balance> ?n }}",
            account(account_number)
        );
        let rows = select(target, &text);
        let found: Vec<i64> = rows.iter().map(|row| number(row, "n")).collect();
        assert_eq!(found, [balance], "account {account_number}");
    }
    // The book is kept behind the calls: it is complete when no message waits for it.
    let text = "SELECT ?n ?c { <http://e/book> <http://e/turnover> ?n ; <http://e/transfers> ?c }";
    let complete = (receipts.values().sum::<i64>(), receipts.len() as i64);
    loop {
        let rows = select(target, text);
        let [row] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        let (turnover, transfers) = (number(row, "n"), number(row, "c"));
        assert!(
            transfers <= complete.1,
            "{transfers} of {} transfers are in the book",
            complete.1
        );
        if transfers == complete.1 {
            assert_eq!(turnover, complete.0);
            return;
        }
        target.pause();
    }
}

fn set_up(target: &Target, recovery: &str) {
    let put = |address: &str, text: &str| target.done(&format!("PUT {address} HTTP/1.1"), text);
    put(
        TICKS,
        "CREATE STREAM <http://e/ticks> BATCH 1s IDLE NEVER AHEAD 36500d",
    );
    put(
        "/streams/http%3A%2F%2Fe%2Fmoved",
        "CREATE STREAM <http://e/moved> INTERIOR",
    );
    put("/procedures/transfer", TRANSFER);
    put("/procedures/book", BOOK);
    let dataflow = format!("CREATE DATAFLOW books {{ book }} RECOVERY {recovery} ON ABORT STOP");
    put("/dataflows/books", &dataflow);
    let accounts: Vec<String> = (0..ACCOUNTS)
        .map(|n| format!("<{}> <http://e/balance> {OPENING} .", account(n)))
        .collect();
    let opening = format!(
        "INSERT DATA {{ {} <http://e/book> <http://e/turnover> 0 ; <http://e/transfers> 0 }}",
        accounts.join(" ")
    );
    let head = "POST /update HTTP/1.1\r\nContent-Type: application/sparql-update";
    target.done(head, &opening);
    put("/queries/money", MONEY_AT_TICKS);
}

fn run(recovery: &str, seed: u64) {
    let kills = given("SOMERSAULT_KILLS").unwrap_or(3);
    let seed = given("SOMERSAULT_SEED").unwrap_or(seed);
    let transfers = APART * (kills + 1);
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = start(&data);
    let target = Target::new(&server, kills);
    set_up(&target, recovery);
    let (acknowledged, closes) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut random = SeededRandom::new(seed);
    thread::scope(|scope| {
        let (target, acknowledged, closes) = (&target, &acknowledged, &closes);
        let _ends = target.ended();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || move_all(target, client, seed, acknowledged, transfers))
            })
            .collect();
        let clock = scope.spawn(|| tick_all(target, closes));
        let auditor = scope.spawn(|| audit_all(target));
        let subscriber = scope.spawn(|| {
            let mut last = 0;
            subscribe(target, "money", |answer| {
                let close = answer["close_ms"].as_u64().expect("a close");
                assert!(close > last, "close {close} came behind {last}");
                last = close;
                // The window before the first tick is empty.
                if close <= START_MS {
                    return;
                }
                let rows = answer["results"]["results"]["bindings"].as_array();
                match rows.expect("rows").as_slice() {
                    [row] => has_all_money(row),
                    rows => panic!("{close}: {rows:?}"),
                }
                closes.fetch_add(1, Ordering::SeqCst);
            })
        });
        scope.spawn(|| checkpoint_all(target));
        let progress = (APART * CLIENTS, || acknowledged.load(Ordering::SeqCst));
        let _server = kill_often(target, server, &data, kills, &mut random, progress);
        let clients = clients.into_iter();
        let answered: Vec<Answered> = clients
            .map(|client| client.join().expect("the client has moved all"))
            .collect();
        compare(target, &answered);
        // A close after the last kill was answered, too.
        let before = closes.load(Ordering::SeqCst);
        while closes.load(Ordering::SeqCst) == before {
            target.pause();
        }
        target.is_over.store(true, Ordering::SeqCst);
        let audits = auditor.join().expect("the auditor has read");
        let ticks = clock.join().expect("the clock has ticked");
        let connected = subscriber.join().expect("the subscriber has followed");
        let all = || answered.iter().flat_map(|answered| &answered.transfers);
        let aborted = all().filter(|transfer| !transfer.is_done).count();
        assert!(all().count() > aborted, "some transfers are done");
        let again: u64 = answered.iter().map(|answered| answered.sent_again).sum();
        assert!(audits > 0 && (kills == 0 || again > 0));
        println!(
            "seed {seed}, {recovery}: {kills} kills, {} transfers, {aborted} of them aborted, {again} requests sent again, {audits} snapshots, {ticks} ticks, {} closes, {connected} connections of the subscriber, {} checkpoints",
            all().count(),
            closes.load(Ordering::SeqCst),
            target.checkpoints.load(Ordering::SeqCst),
        );
    });
}

#[test]
fn no_money_is_made_or_lost_with_strong_recovery() {
    run("STRONG", 1);
}

#[test]
fn no_money_is_made_or_lost_with_weak_recovery() {
    run("WEAK", 2);
}
