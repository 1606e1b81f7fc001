//! Histories on a simulated process: clients with one transaction each under way, crashes between
//! them, and the check whether all of it could have happened one after the other.

use crate::draw::Draw;
use crate::engine::Subject;
use crate::trace::Trace;
use oxrdf::{Literal, Term};
use somersault::{CallAnswer, CallOutcome, PendingCall};
use somersault_disk::CrashKeep;
use somersault_suites::histories::{
    Drawing, EventKind, HistoryEvent, Operation, ReplyRows, TransactionRequest, Verdict, Workload,
    judge, reply_row,
};
use std::collections::VecDeque;

/// Clients of a run.
const CLIENTS: u64 = 6;

/// A mistake of the clients that breaks isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryPlant {
    /// Each step of a transaction is a call of its own.
    Torn,
}

/// What a seed led to.
#[derive(Debug)]
pub struct HistoryRun {
    /// What the check says.
    pub verdict: Verdict,
    /// Crashes of the engine.
    pub crashes: u64,
    /// The most calls that were under way at a time.
    pub most_under_way: usize,
}

/// A transaction that is under way.
struct UnderWay {
    asked: Operation,
    call: PendingCall,
    /// The calls that come after it, and what those before it answered, if it is torn.
    rest: VecDeque<TransactionRequest>,
    row: Vec<Option<String>>,
}

/// A client, and its number as a process of the history.
struct SimClient {
    process: u64,
    drawing: Drawing,
    under_way: Option<UnderWay>,
}

struct Histories {
    subject: Subject,
    draw: Draw,
    clients: Vec<SimClient>,
    events: Vec<HistoryEvent>,
    plant: Option<HistoryPlant>,
}

/// Runs transactions of some clients on a simulated process, and checks their history. The seed
/// decides the workload, its operations, which part of the process has the next turn, and when the
/// machine crashes. Calls of a crashed machine are not answered. A third of the seeds recover by
/// running calls again.
///
/// # Errors
/// The engine failed, or an answer is none of the workload; the reason.
pub fn run_history(
    seed: u64,
    operations: u64,
    plant: Option<HistoryPlant>,
) -> Result<HistoryRun, String> {
    // Only lists and registers have transactions that can be torn.
    let workload = Workload::ALL[seed as usize % if plant.is_some() { 2 } else { 3 }];
    let subject = Subject::open(seed, &Trace::default())?;
    let engine = subject.engine();
    let failed = |error: somersault::EngineError| error.to_string();
    engine.update(&workload.opening()).run().map_err(failed)?;
    engine.declare(&workload.procedure()).map_err(failed)?;
    if seed.is_multiple_of(3) {
        let name = workload.procedure_name();
        let weak = format!("CREATE DATAFLOW histories {{ {name} }} RECOVERY WEAK");
        engine.declare(&weak).map_err(failed)?;
    }
    let client = |number| SimClient {
        process: number,
        drawing: Drawing::new(workload, seed, number, CLIENTS),
        under_way: None,
    };
    let mut histories = Histories {
        subject,
        draw: Draw::new(seed),
        // The last one only reads, before all others and after them.
        clients: (0..=CLIENTS).map(client).collect(),
        events: Vec::new(),
        plant,
    };
    histories.read_all()?;
    let mut most_under_way = 0;
    let mut left = operations;
    while left > 0 || histories.under_way() > 0 {
        let number = histories.draw.below(CLIENTS) as usize;
        if histories.clients[number].under_way.is_some() {
            histories.look(number)?;
        } else if left > 0 {
            left -= 1;
            let drawn = histories.clients[number].drawing.next_operation();
            histories.begin(number, drawn)?;
        }
        most_under_way = most_under_way.max(histories.under_way());
        let turns = histories.draw.below(12);
        histories.subject.take_turns(turns);
        if plant.is_none() && histories.draw.below(150) == 0 {
            histories.crash()?;
        }
    }
    histories.read_all()?;
    Ok(HistoryRun {
        verdict: judge(&histories.events)?,
        crashes: histories.subject.crashes,
        most_under_way,
    })
}

impl Histories {
    fn under_way(&self) -> usize {
        let clients = self.clients.iter();
        clients.filter(|client| client.under_way.is_some()).count()
    }

    fn note(&mut self, number: usize, kind: EventKind, operation: Operation) {
        self.events.push(HistoryEvent {
            kind,
            process: self.clients[number].process,
            operation,
            time: self.subject.turns(),
            error: None,
        });
    }

    /// The last client reads everything that any client may have written.
    fn read_all(&mut self) -> Result<(), String> {
        let drawings = self.clients.iter().map(|client| &client.drawing);
        let farthest = drawings.max_by_key(|drawing| drawing.drawn());
        for read in farthest.map(Drawing::last_reads).unwrap_or_default() {
            self.begin(CLIENTS as usize, read)?;
        }
        Ok(())
    }

    /// A client asks. A query is answered at once; a call is under way until somebody looks.
    fn begin(
        &mut self,
        number: usize,
        (asked, request): (Operation, TransactionRequest),
    ) -> Result<(), String> {
        self.note(number, EventKind::Invoke, asked.clone());
        if let TransactionRequest::Query(text) = &request {
            let found = self.subject.engine().query(text).run();
            let found = found.map_err(|error| format!("{text} failed: {error}"))?;
            let rows = found.answer.rows().map(reply_row).collect();
            return self.answered(number, &asked, &rows);
        }
        let mut rest = match self.plant {
            Some(HistoryPlant::Torn) => torn(&request),
            None => VecDeque::from([request]),
        };
        let first = rest.pop_front().ok_or("a call has steps")?;
        let call = self.call(&first)?;
        self.clients[number].under_way = Some(UnderWay {
            asked,
            call,
            rest,
            row: Vec::new(),
        });
        Ok(())
    }

    fn call(&self, request: &TransactionRequest) -> Result<PendingCall, String> {
        let TransactionRequest::Call {
            procedure,
            arguments,
        } = request
        else {
            return Err("a query is no call".to_owned());
        };
        let arguments = arguments.iter().map(|(_, term)| term.clone());
        let call = self.subject.engine().call(procedure).arguments(arguments);
        call.begin()
            .map_err(|error| format!("{procedure} was not taken: {error}"))
    }

    /// Takes the answer of a client's call, if it is there.
    fn look(&mut self, number: usize) -> Result<(), String> {
        let under_way = self.clients[number].under_way.take();
        let Some(mut it) = under_way else {
            return Ok(());
        };
        if !it.call.is_answered() {
            self.clients[number].under_way = Some(it);
            return Ok(());
        }
        let outcome = it.call.wait();
        let rows = match outcome.map_err(|error| format!("a call failed: {error}"))? {
            CallOutcome::Aborted { .. } => {
                self.note(number, EventKind::Fail, it.asked);
                return Ok(());
            }
            CallOutcome::Answered(CallAnswer::Rows { rows, .. }) => rows,
            CallOutcome::Answered(_) => Vec::new(),
        };
        let mut rows: ReplyRows = rows.into_iter().map(reply_row).collect();
        if self.plant.is_some() {
            let at = it.row.len();
            let cell = rows.first_mut().and_then(|row| row.get_mut(at));
            it.row.push(cell.ok_or("a column is missing")?.take());
            if let Some(next) = it.rest.pop_front() {
                it.call = self.call(&next)?;
                self.clients[number].under_way = Some(it);
                return Ok(());
            }
            rows = vec![it.row];
        }
        self.answered(number, &it.asked, &rows)
    }

    fn answered(
        &mut self,
        number: usize,
        asked: &Operation,
        rows: &ReplyRows,
    ) -> Result<(), String> {
        let answered = self.clients[number].drawing.answered(asked, rows)?;
        self.note(number, EventKind::Ok, answered);
        Ok(())
    }

    /// The machine crashes. What was answered by then is known; of the rest nobody knows.
    fn crash(&mut self) -> Result<(), String> {
        for number in 0..self.clients.len() {
            self.look(number)?;
        }
        let keep = match self.draw.below(3) {
            0 => CrashKeep::Synced,
            1 => CrashKeep::Written,
            _ => CrashKeep::Seeded(self.draw.below(u64::MAX)),
        };
        self.subject.crash(keep)?;
        for number in 0..self.clients.len() {
            if let Some(it) = self.clients[number].under_way.take() {
                self.note(number, EventKind::Info, it.asked);
                self.clients[number].process += CLIENTS + 1;
            }
        }
        Ok(())
    }
}

/// A call for each step of a transaction.
fn torn(request: &TransactionRequest) -> VecDeque<TransactionRequest> {
    let TransactionRequest::Call {
        procedure,
        arguments,
    } = request
    else {
        return VecDeque::new();
    };
    let is_value = |name: &str| name.starts_with('v');
    let steps = arguments.iter().filter(|(name, _)| is_value(name)).count();
    let calls = (0..steps).map(|step| {
        let arguments = arguments.iter().map(|(name, term)| {
            let is_left_out = match name.as_str() {
                "ends" => step + 1 < steps,
                name => is_value(name) && name != format!("v{step}"),
            };
            let nothing = || Term::from(Literal::new_simple_literal(""));
            let term = if is_left_out { nothing() } else { term.clone() };
            (name.clone(), term)
        });
        TransactionRequest::Call {
            procedure,
            arguments: arguments.collect(),
        }
    });
    calls.collect()
}
