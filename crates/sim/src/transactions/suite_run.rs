//! Runs a suite on the serial twin.
//!
//! Before changing anything here: the twin runs one transaction at a time when it is asked to, so
//! how far it runs ahead of the inputs is drawn here, from the seed of the run.

use super::serial::{CallOutcome, SerialEngine, Snapshots};
use super::stream::PushOutcome;
use crate::draw::Draw;
use oxrdf::{Quad, Term};
use serde_json::{Value, json};
use somersault_model::{EventTime, QuadIds};
use somersault_query::Answer;
use somersault_suites::{
    AbortedTransaction, AlwaysQuery, BodyOfMessages, EmittedMessage, Feed, ProcedureCall,
    PushTally, RunReport, Subject, SuiteError, TransactionSuite, terms,
};
use somersault_txn::{DataflowState, Key, Round};

/// How the twin goes on between the inputs of a suite.
#[derive(Debug, Clone, Copy)]
pub struct TwinPace {
    /// When committed effects reach the store.
    pub snapshots: Snapshots,
    /// Whether all that is due ends after each message, also where the suite does not ask for it.
    pub settles_always: bool,
    /// Decides how many transactions run between messages where nothing has to end.
    pub seed: u64,
    /// Whether the queries that always hold are asked after each transaction, instead of at checks.
    pub asks_always: bool,
}

/// Runs a suite on a new twin.
///
/// # Errors
/// A file cannot be read, or is not as the format says.
pub fn run_suite(suite: &TransactionSuite, pace: TwinPace) -> Result<RunReport, SuiteError> {
    let mut twin = TwinSubject {
        engine: SerialEngine::new(&[], pace.snapshots),
        pace,
        draw: Draw::new(pace.seed),
        always: Vec::new(),
        violations: Vec::new(),
    };
    somersault_suites::run(suite, &mut twin, Feed::default())
}

struct TwinSubject {
    engine: SerialEngine,
    pace: TwinPace,
    draw: Draw,
    always: Vec<AlwaysQuery>,
    violations: Vec<String>,
}

impl TwinSubject {
    fn run_all(&mut self) {
        while self.run_one() || self.engine.advance_interior() {}
    }

    fn run_one(&mut self) -> bool {
        let ran = self.engine.run_next();
        if ran && self.pace.asks_always {
            for query in &self.always {
                match self.engine.query(&query.text) {
                    Ok(Answer::Boolean(true)) => {}
                    other => self.violations.push(format!(
                        "`{}` does not hold after a transaction: {other:?}",
                        query.name
                    )),
                }
            }
        }
        ran
    }

    fn answered(&self, answer: &Answer) -> Value {
        let dictionary = self.engine.state().base().store().dictionary();
        match answer {
            Answer::Solutions(solutions) => {
                let rows = solutions.rows(dictionary);
                let rows = rows.map(|row| row.into_iter().collect::<Vec<Option<Term>>>());
                terms::of_rows(solutions.variables(), rows)
            }
            Answer::Boolean(value) => terms::of_boolean(*value),
            Answer::Graph(triples) => terms::of_graph(triples),
            Answer::Dataset(quads) => {
                let mut quads: Vec<String> = quads.iter().map(ToString::to_string).collect();
                quads.sort();
                json!({"dataset": quads})
            }
        }
    }

    fn call_one(&mut self, call: &ProcedureCall) -> Value {
        let declared = self.engine.declaration(&call.procedure);
        let arguments = declared.and_then(|declared| terms::arguments(call, declared));
        let Some(arguments) = arguments else {
            return json!({"refused": true});
        };
        let key = call
            .key
            .clone()
            .map(|(source, number)| Key { source, number });
        match self.engine.call(&call.procedure, &arguments, key) {
            CallOutcome::Done(Some(answer)) => self.answered(&answer),
            CallOutcome::Done(None) => json!({"done": true}),
            CallOutcome::Aborted(reason) => json!({"abort": reason}),
            CallOutcome::Refused(_) => json!({"refused": true}),
        }
    }
}

fn number_of(round: Round) -> u64 {
    match round {
        Round::Batch(number) | Round::Call(number) => number,
    }
}

impl Subject for TwinSubject {
    fn begin(&mut self, stored: Vec<Quad>, always: &[AlwaysQuery]) -> Result<(), SuiteError> {
        self.engine = SerialEngine::new(&stored, self.pace.snapshots);
        self.always = always.to_vec();
        Ok(())
    }

    fn statement(&mut self, text: &str) -> Result<Result<(), String>, SuiteError> {
        Ok(self.engine.execute(text))
    }

    fn push(&mut self, body: BodyOfMessages<'_>) -> Result<PushTally, SuiteError> {
        let mut tally = PushTally::default();
        for (seq, message) in (body.first_seq..).zip(body.messages) {
            let outcome = match &message.statements {
                Ok(quads) => (self.engine).push(body.stream, body.source, seq, quads),
                Err(fault) => PushOutcome::Refused(fault.reason.clone()),
            };
            match outcome {
                PushOutcome::Taken => tally.taken.push(seq),
                PushOutcome::Repeated => tally.repeated.push(seq),
                PushOutcome::Refused(_) => tally.refused.push(seq),
            }
        }
        Ok(tally)
    }

    fn advance(&mut self, streams: &[String], to: EventTime) -> Result<(), SuiteError> {
        streams
            .iter()
            .for_each(|stream| self.engine.advance(stream, to));
        Ok(())
    }

    fn call(&mut self, calls: &[ProcedureCall]) -> Result<Vec<Value>, SuiteError> {
        Ok(calls.iter().map(|call| self.call_one(call)).collect())
    }

    fn update(&mut self, text: &str) -> Result<Result<(), String>, SuiteError> {
        Ok(self.engine.update(text))
    }

    fn state(&mut self, dataflow: &str) -> Result<Result<String, String>, SuiteError> {
        let Some(status) = self.engine.core().dataflow(dataflow) else {
            return Ok(Err(format!("there is no dataflow {dataflow}")));
        };
        let state = match status.state {
            DataflowState::Running => "running",
            DataflowState::Paused => "paused",
            DataflowState::Stopped(_) => "stopped",
        };
        Ok(Ok(state.to_owned()))
    }

    fn query(&mut self, text: &str) -> Result<Value, SuiteError> {
        let answer = self.engine.query(text);
        let answer = answer.map_err(|error| SuiteError::engine("answer a query", error))?;
        Ok(self.answered(&answer))
    }

    fn settle(&mut self) -> Result<(), SuiteError> {
        self.run_all();
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), SuiteError> {
        if self.pace.settles_always {
            self.run_all();
            return Ok(());
        }
        for _ in 0..self.draw.below(3) {
            if !self.run_one() {
                break;
            }
        }
        Ok(())
    }

    fn violations(&mut self) -> Result<Vec<String>, SuiteError> {
        Ok(std::mem::take(&mut self.violations))
    }

    fn emitted(
        &mut self,
        streams: &[String],
    ) -> Result<Result<Vec<Vec<EmittedMessage>>, String>, SuiteError> {
        let text = |id| {
            let term = self.engine.state().dictionary().decode(id);
            term.map_or(String::new(), |term| term.to_string())
        };
        let statement = |quad: &QuadIds| [quad.subject, quad.predicate, quad.object].map(text);
        let all = streams.iter().map(|stream| {
            let messages = (1..).zip(self.engine.messages(stream));
            let messages = messages.map(|(place, message)| {
                let mut statements: Vec<_> = message.statements.iter().map(statement).collect();
                statements.sort();
                EmittedMessage {
                    place,
                    round: message.round.map_or(0, number_of),
                    at_ms: message.at.0,
                    statements,
                }
            });
            messages.collect()
        });
        Ok(Ok(all.collect()))
    }

    fn aborted(&mut self, dataflow: &str) -> Result<Vec<AbortedTransaction>, SuiteError> {
        let status = self.engine.core().dataflow(dataflow);
        let status = status.ok_or_else(|| {
            SuiteError::engine(
                format!("list the aborts of {dataflow}"),
                "it has no such dataflow",
            )
        })?;
        let aborted = status
            .aborted
            .into_iter()
            .map(|aborted| AbortedTransaction {
                procedure: aborted.procedure,
                round: number_of(aborted.round),
                reason: aborted.reason,
            });
        Ok(aborted.collect())
    }
}
