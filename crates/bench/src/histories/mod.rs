//! Isolation made visible: concurrent clients run transactions and write down what they asked and
//! were answered, for a checker of isolation; the check of our own reads the same history.

mod party;

use crate::figures::parts::Failure;
use crate::streams::absorption::clear;
use crate::streams::stage::configuration;
use clap::Args;
use clap::builder::PossibleValuesParser;
use party::{HistoryParty, PartyReply};
use somersault::{Engine, EngineConfig};
use somersault_suites::histories::{
    Drawing, EventKind, HistoryEvent, Operation, TransactionRequest, Workload, judge, write_history,
};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a client waits after a request that was not answered.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args, Clone)]
pub(crate) struct HistoryOptions {
    /// What the clients do: list-append, register or bank
    #[arg(long, default_value = "list-append", value_parser = PossibleValuesParser::new(Workload::ALL.map(Workload::name)))]
    workload: String,
    /// Clients, each with one transaction at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Seconds after which no client begins another transaction
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Transactions of each client at most
    #[arg(long, default_value_t = 1_000)]
    transactions: u64,
    /// Decides what each client asks; the engine's threads decide in which order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file that the history goes to, an event a line
    #[arg(long)]
    out: Option<PathBuf>,
    /// A running server, http://host:port; without it a durable engine of this process
    #[arg(long)]
    server: Option<String>,
    /// Also checks the history, and fails if it is not serializable
    #[arg(long)]
    check: bool,
    /// Folder for the data folder of the engine
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
}

/// Makes a history, writes it, and checks it if that was asked for.
///
/// # Errors
/// The engine cannot be used, the file cannot be written, or the check found an anomaly.
pub(crate) fn run(options: &HistoryOptions) -> Result<(), String> {
    let events = made(options).map_err(|error| error.to_string())?;
    if let Some(path) = &options.out {
        let written =
            File::create(path).and_then(|file| write_history(&events, BufWriter::new(file)));
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        println!("{}: {} events", path.display(), events.len());
    }
    match options.check {
        true => checked(&events).map(|verdict| println!("{verdict}")),
        false => Ok(()),
    }
}

/// What the check says of a history without an anomaly.
fn checked(events: &[HistoryEvent]) -> Result<String, String> {
    let verdict = judge(events)?;
    if verdict.ok == 0 {
        return Err("no transaction was answered: nothing was checked".to_owned());
    }
    match verdict.anomalies.is_empty() {
        true => Ok(verdict.to_string()),
        false => Err(verdict.to_string()),
    }
}

fn made(options: &HistoryOptions) -> Result<Vec<HistoryEvent>, Failure> {
    if let Some(url) = &options.server {
        return recorded(options, &HistoryParty::server(url)?);
    }
    let folder = options.data.join("histories");
    clear(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let engine = Engine::open(EngineConfig {
        data: Some(folder.clone()),
        ..configuration(2)
    })?;
    let events = recorded(options, &HistoryParty::Engine(engine.clone()))?;
    engine.shutdown()?;
    clear(&folder)?;
    Ok(events)
}

/// A history that grows.
struct Recorder {
    events: Mutex<Vec<HistoryEvent>>,
    start: Instant,
}

impl Recorder {
    /// Takes an event down. Its place says when: an `invoke` is here before its request is sent, an
    /// answer after it has arrived.
    fn note(&self, process: u64, kind: EventKind, operation: Operation, error: Option<String>) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let time = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        events.push(HistoryEvent {
            kind,
            process,
            operation,
            time,
            error,
        });
    }
}

/// One client: its number as a process of the history, its operations, and its connection.
struct HistoryClient<'r> {
    recorder: &'r Recorder,
    process: u64,
    clients: u64,
    drawing: Drawing,
    party: HistoryParty,
}

impl HistoryClient<'_> {
    fn run(&mut self, (asked, request): &(Operation, TransactionRequest)) -> Result<(), Failure> {
        let process = self.process;
        let note = |kind, operation, error| self.recorder.note(process, kind, operation, error);
        note(EventKind::Invoke, asked.clone(), None);
        match self.party.ask(request) {
            PartyReply::Rows(rows) => {
                note(EventKind::Ok, self.drawing.answered(asked, &rows)?, None)
            }
            PartyReply::Failed(reason) => note(EventKind::Fail, asked.clone(), Some(reason)),
            PartyReply::Unanswered(reason) => {
                note(EventKind::Info, asked.clone(), Some(reason));
                // A process whose operation may still happen does nothing else.
                self.process += self.clients;
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// The history of clients that run side by side. Before them one reads what is there, and after
/// them one reads everything.
fn recorded(options: &HistoryOptions, party: &HistoryParty) -> Result<Vec<HistoryEvent>, Failure> {
    let workload = Workload::ALL.into_iter();
    let mut workload = workload.filter(|workload| workload.name() == options.workload);
    let workload = workload.next().ok_or("there is no such workload")?;
    let mut party = party.another();
    party.prepare(workload)?;
    let recorder = Recorder {
        events: Mutex::default(),
        start: Instant::now(),
    };
    let clients = options.clients;
    let client = |number| HistoryClient {
        recorder: &recorder,
        process: number,
        clients: clients + 1,
        drawing: Drawing::new(workload, options.seed, number, clients),
        party: party.another(),
    };
    let mut reader = client(clients);
    for read in reader.drawing.last_reads() {
        reader.run(&read)?;
    }
    let time = Duration::from_secs(options.seconds);
    let drawings = thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|number| {
                let mut client = client(number);
                let start = recorder.start;
                scope.spawn(move || {
                    let mut left = options.transactions;
                    while left > 0 && start.elapsed() < time {
                        let drawn = client.drawing.next_operation();
                        client.run(&drawn).map_err(|error| error.to_string())?;
                        left -= 1;
                    }
                    Ok::<Drawing, String>(client.drawing)
                })
            })
            .collect();
        let ended = running.into_iter().map(|client| {
            let ended = client.join();
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Result<Vec<Drawing>, String>>()
    })?;
    let farthest = drawings.iter().max_by_key(|drawing| drawing.drawn());
    for read in farthest.map(Drawing::last_reads).unwrap_or_default() {
        reader.run(&read)?;
    }
    drop(reader);
    let events = recorder.events.into_inner();
    Ok(events.unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
