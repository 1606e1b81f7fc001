//! Plain SPARQL updates, INSERT DATA of five statements each, by many clients over HTTP with kept
//! connections; durable.

use super::{Failure, TransactionOptions, TransactionPart};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::http::{Client, Style};
use crate::harness::target::{Row, at_least};
use crate::streams::absorption::clear;
use somersault_server::{Running, ServerConfig};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub(super) const PART: TransactionPart = TransactionPart {
    name: "updates",
    run,
    rows,
};

const HTTP: &str = "over HTTP";
const IN_PROCESS: &str = "in process";
const RATE: &str = "updates/s";
/// The statements of an update.
const STATEMENTS: u64 = 5;
/// The time limit of one request.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Transactions: plain updates",
        format!(
            "INSERT DATA of {STATEMENTS} statements, {} clients, each of which waits until its update is durable.",
            options.clients
        ),
    );
    let mut grid = Grid::new("way", [RATE]);
    for words in [IN_PROCESS, HTTP] {
        let folder = options.folder("updates")?;
        let engine = options.durable(&folder)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let running = Running::start(engine.clone(), listener, ServerConfig::default())?;
        let url = running.url();
        let time = Duration::from_secs(options.seconds);
        let start = Instant::now();
        let done = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..options.clients as u64)
                .map(|client| {
                    let (engine, url) = (&engine, &url);
                    scope.spawn(move || match words {
                        HTTP => over_http(url, client, start, time),
                        _ => in_process(engine, client, start, time),
                    })
                })
                .collect();
            let mut done = 0;
            for client in clients {
                done += client
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<u64, Failure>(done)
        })?;
        let took = start.elapsed();
        let stored = engine.health().stored_statements;
        if stored != done * STATEMENTS {
            return Err(format!(
                "{done} updates were answered, and {stored} statements are stored"
            )
            .into());
        }
        running.stop()?;
        engine.shutdown()?;
        clear(&folder)?;
        grid.line(words, [Some(done as f64 / took.as_secs_f64())]);
    }
    Ok(sheet.with([grid]))
}

fn text(client: u64, number: u64) -> String {
    let mut text = "INSERT DATA {".to_owned();
    for at in 0..STATEMENTS {
        // Writing into a string does not fail.
        let _ = write!(
            text,
            " <http://example.org/c{client}/{number}> <http://example.org/p{at}> {number} ."
        );
    }
    text.push_str(" }");
    text
}

fn in_process(
    engine: &somersault::Engine,
    client: u64,
    start: Instant,
    time: Duration,
) -> Result<u64, Failure> {
    let mut done = 0;
    while start.elapsed() < time {
        engine.update(&text(client, done)).run()?;
        done += 1;
    }
    Ok(done)
}

fn over_http(url: &str, client: u64, start: Instant, time: Duration) -> Result<u64, Failure> {
    let mut connection = Client::new(url, "/update", Style::Update)?;
    let mut done = 0;
    while start.elapsed() < time {
        let request = connection.request(&text(client, done));
        connection
            .ask(&request, LIMIT)
            .map_err(|error| format!("{error:?}"))?;
        done += 1;
    }
    Ok(done)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let rate = sheet.and_then(|sheet| sheet.figure(HTTP, RATE));
    vec![at_least(
        "transactions: plain updates, 64 clients over HTTP",
        15_000.0,
        rate,
        "updates/s",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answered_update_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let sheet = run(&options).unwrap();
        assert!(sheet.figure(HTTP, RATE).unwrap() > 0.0);
    }
}
