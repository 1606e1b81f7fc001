//! Feeds a suite to a subject and compares every answer.
//!
//! 1. What is stored and declared goes in, and the checks of point 0 are made.
//! 2. Each step, or each body of messages, goes in at the suite's pace; what it answers is
//!    compared, and then the checks of its point are made.
//! 3. At the end everything settles; emitted messages and aborted transactions are compared.
//!
//! Before changing anything here: a difference is a line of the report with its place, never an
//! error, so that one run tells all of them. In a racing suite only what always holds is compared.

use crate::error::SuiteError;
use crate::subject::{BodyOfMessages, EmittedMessage, Subject};
use crate::suite::{
    AlwaysQuery, Pace, Point, PushStep, Step, SuiteCheck, SuiteInput, TransactionSuite,
};
use crate::terms;
use serde_json::{Value, json};
use somersault_model::{EventTime, SeededRandom};
use std::collections::BTreeMap;

/// How a suite without steps is fed, where its pace leaves that open.
#[derive(Debug, Clone, Copy)]
pub struct Feed {
    /// A body has up to this number of messages.
    pub body_messages: u64,
    /// The numbers of messages are drawn from this seed.
    pub seed: u64,
}

impl Default for Feed {
    /// One message in each body.
    fn default() -> Feed {
        Feed {
            body_messages: 1,
            seed: 1,
        }
    }
}

/// What a run of a suite found.
#[derive(Debug, Default)]
pub struct RunReport {
    /// The number of compared answers, messages and aborts.
    pub compared: usize,
    /// The differences, each with its place.
    pub differences: Vec<String>,
    /// What could not be compared, and why.
    pub unseen: Vec<String>,
}

/// Runs a suite.
///
/// # Errors
/// A file cannot be read or is not as the format says, or the subject fails.
pub fn run(
    suite: &TransactionSuite,
    subject: &mut dyn Subject,
    feed: Feed,
) -> Result<RunReport, SuiteError> {
    let always = suite.always()?;
    subject.begin(suite.stored()?, &always)?;
    for text in suite.declarations()? {
        if let Err(reason) = subject.statement(&text)? {
            return Err(SuiteError::engine(format!("declare `{text}`"), reason));
        }
    }
    let mut run = SuiteRun {
        suite,
        subject,
        feed,
        random: SeededRandom::new(feed.seed),
        inputs: suite.inputs()?,
        named: BTreeMap::new(),
        checks: suite.checks()?,
        answers: suite.answers()?,
        always,
        report: RunReport::default(),
    };
    run.check(Point::Step(0))?;
    run.check(Point::Messages(0))?;
    match suite.steps()? {
        Some(steps) => {
            for (number, step) in (1..).zip(&steps) {
                run.step(number, step)?;
            }
            run.note_missed_points(Point::Step(steps.len() as u64));
        }
        None => run.push_all()?,
    }
    run.finish()
}

struct SuiteRun<'r> {
    suite: &'r TransactionSuite,
    subject: &'r mut dyn Subject,
    feed: Feed,
    random: SeededRandom,
    inputs: BTreeMap<String, SuiteInput>,
    /// The number of messages of each input that steps have named.
    named: BTreeMap<String, usize>,
    checks: Vec<SuiteCheck>,
    answers: BTreeMap<u64, Value>,
    always: Vec<AlwaysQuery>,
    report: RunReport,
}

impl SuiteRun<'_> {
    fn differs(&mut self, what: String) {
        self.report.differences.push(what);
    }

    fn is_racing(&self) -> bool {
        self.suite.pace() == Pace::Racing
    }

    fn finish(mut self) -> Result<RunReport, SuiteError> {
        self.subject.settle()?;
        self.ask_always("the end")?;
        if !self.is_racing() {
            self.compare_aborted()?;
        }
        let violations = self.subject.violations()?;
        self.report.differences.extend(violations);
        self.subject.end()?;
        if !self.is_racing() {
            self.compare_emitted()?;
        }
        Ok(self.report)
    }

    /// Pushes the one input, from its first message to its last.
    fn push_all(&mut self) -> Result<(), SuiteError> {
        let names: Vec<String> = self.inputs.keys().cloned().collect();
        let [name] = names.as_slice() else {
            let count = names.len();
            let reason = format!("has {count} inputs and no steps; without steps there is one");
            return Err(self.suite.broken(reason));
        };
        let all = self.inputs[name].messages.len();
        let points = self.checks.iter().flat_map(|check| &check.expected);
        let mut points: Vec<u64> = points
            .filter_map(|(point, _)| match point {
                Point::Messages(count) => Some(*count),
                Point::Step(_) => None,
            })
            .collect();
        points.sort_unstable();
        let mut pushed = 0;
        while pushed < all {
            let next = points.iter().find(|point| **point > pushed as u64);
            let next = next.map_or(all, |point| *point as usize).min(all);
            let count = match self.suite.pace() {
                Pace::Settled => 1,
                Pace::Free | Pace::Racing => {
                    1 + self.random.below(self.feed.body_messages.max(1)) as usize
                }
            };
            let count = count.min(next - pushed);
            let tally = self.push(name, pushed, count, None)?;
            pushed += count;
            if tally["taken"] != json!(count) && !self.is_racing() {
                self.differs(format!(
                    "messages up to {pushed}: {tally}, and all are good"
                ));
            }
            self.go_on()?;
            self.check(Point::Messages(pushed as u64))?;
        }
        self.note_missed_points(Point::Messages(all as u64));
        Ok(())
    }

    /// A check whose point never came would compare nothing. `last` is the last point there was.
    fn note_missed_points(&mut self, last: Point) {
        let came = |point: &Point| match (point, last) {
            (Point::Messages(0) | Point::Step(0), _) => true,
            (Point::Messages(at), Point::Messages(last)) => *at <= last,
            (Point::Step(at), Point::Step(last)) => *at <= last,
            _ => false,
        };
        let missed: Vec<String> = (self.checks.iter())
            .flat_map(|check| check.expected.iter().map(|(point, _)| (&check.name, point)))
            .filter(|(_, point)| !came(point))
            .map(|(name, point)| format!("`{name}` is to be checked {point}, which never comes"))
            .collect();
        self.report.differences.extend(missed);
    }

    /// Ends what is due, or goes on as far as the subject likes.
    fn go_on(&mut self) -> Result<(), SuiteError> {
        match self.suite.pace() {
            Pace::Settled => self.subject.settle(),
            Pace::Free | Pace::Racing => self.subject.go_on(),
        }
    }

    /// Pushes messages of an input; what the push is answered.
    fn push(
        &mut self,
        name: &str,
        first: usize,
        count: usize,
        seq: Option<u64>,
    ) -> Result<Value, SuiteError> {
        let Some(input) = self.inputs.get(name) else {
            return Err(self.suite.broken(format!("has no input `{name}`")));
        };
        let Some(messages) = input.messages.get(first..first + count) else {
            let (last, all) = (first + count, input.messages.len());
            let reason = format!("message {last} of `{name}` is to be pushed, which has {all}");
            return Err(self.suite.broken(reason));
        };
        let tally = self.subject.push(BodyOfMessages {
            stream: &input.stream,
            source: &input.source,
            first_seq: seq.unwrap_or(input.first_seq + first as u64),
            syntax: input.syntax,
            messages,
        })?;
        Ok(terms::of_push(&tally))
    }

    fn step(&mut self, number: u64, step: &Step) -> Result<(), SuiteError> {
        if !matches!(step, Step::Push(_)) && !self.is_racing() {
            self.subject.settle()?;
        }
        let actual = self.carry_out(step)?;
        if !self.is_racing() {
            match self.answers.get(&number).cloned() {
                Some(expected) => {
                    self.report.compared += 1;
                    if !terms::agrees(&actual, &expected) {
                        let actual = terms::shortened(&actual);
                        let expected = terms::shortened(&expected);
                        self.differs(format!("step {number}: {actual}, expected {expected}"));
                    }
                }
                None if !self.succeeds(step, &actual) => {
                    self.differs(format!("step {number} is to succeed: {actual} ({step:?})"));
                }
                None => {}
            }
        }
        self.go_on()?;
        self.check(Point::Step(number))
    }

    /// Whether a step that has no expected answer was answered as it must be.
    fn succeeds(&self, step: &Step, actual: &Value) -> bool {
        let is_good = |answer: &Value| answer.get("refused") != Some(&json!(true));
        match step {
            Step::Push(PushStep {
                input, messages, ..
            }) => match self.inputs[input].is_interior {
                true => actual["refused"].as_array().map_or(0, Vec::len) == *messages,
                false => actual["taken"] == json!(messages),
            },
            Step::Calls(_) => {
                let answers = actual["answers"].as_array();
                answers.is_some_and(|answers| answers.iter().all(is_good))
            }
            _ => is_good(actual),
        }
    }

    fn carry_out(&mut self, step: &Step) -> Result<Value, SuiteError> {
        let done = match step {
            Step::Push(push) => {
                let named = self.named.get(&push.input).copied().unwrap_or(0);
                let first = match push.from {
                    Some(0) => return Err(self.suite.broken("messages count from 1")),
                    Some(from) => from - 1,
                    None => named,
                };
                let named = named.max(first + push.messages);
                self.named.insert(push.input.clone(), named);
                return self.push(&push.input, first, push.messages, push.seq);
            }
            Step::Advance(streams, to) => {
                self.subject.advance(streams, EventTime(*to))?;
                return Ok(json!({}));
            }
            Step::Call(call) => {
                let answers = self.subject.call(std::slice::from_ref(call))?;
                return Ok(answers.into_iter().next().unwrap_or_default());
            }
            Step::Calls(calls) => return Ok(json!({"answers": self.subject.call(calls)?})),
            Step::State(name) => {
                return Ok(match self.subject.state(name)? {
                    Ok(state) => json!({"state": state}),
                    Err(_) => json!({"refused": true}),
                });
            }
            Step::Update(text) => self.subject.update(text)?,
            Step::Statement(text) => self.subject.statement(text)?,
        };
        Ok(match done {
            Ok(()) => json!({}),
            Err(_) => json!({"refused": true}),
        })
    }

    /// Makes the checks of a point.
    fn check(&mut self, point: Point) -> Result<(), SuiteError> {
        if self.is_racing() {
            return Ok(());
        }
        let due = self.checks.iter().flat_map(|check| {
            let expected = check.expected.iter().filter(|(at, _)| *at == point);
            expected.map(|(_, answer)| (check.name.clone(), check.query.clone(), answer.clone()))
        });
        let due: Vec<(String, String, Value)> = due.collect();
        if due.is_empty() {
            return Ok(());
        }
        self.subject.settle()?;
        for (name, query, expected) in due {
            self.report.compared += 1;
            let actual = self.subject.query(&query)?;
            if !terms::agrees(&actual, &expected) {
                let (actual, expected) = (terms::shortened(&actual), terms::shortened(&expected));
                self.differs(format!("`{name}` {point}: {actual}, expected {expected}"));
            }
        }
        self.ask_always(&point.to_string())
    }

    /// Asks once what must always hold, besides what the subject asks by itself.
    fn ask_always(&mut self, when: &str) -> Result<(), SuiteError> {
        for query in self.always.clone() {
            self.report.compared += 1;
            if self.subject.query(&query.text)? != terms::of_boolean(true) {
                self.differs(format!("`{}` does not hold ({when})", query.name));
            }
        }
        Ok(())
    }

    fn compare_emitted(&mut self) -> Result<(), SuiteError> {
        let expected = self.suite.emitted()?;
        let streams: Vec<String> = expected.iter().map(|(stream, ..)| stream.clone()).collect();
        let found = match self.subject.emitted(&streams)? {
            Ok(found) => found,
            Err(reason) => {
                let names = streams.join(">, <");
                let unseen = format!("the messages of <{names}>: {reason}");
                self.report.unseen.push(unseen);
                return Ok(());
            }
        };
        for ((stream, is_hash, expected), found) in expected.iter().zip(found) {
            match is_hash {
                true => self.compare_hash(stream, &found, expected),
                false => self.compare_messages(stream, &found, expected)?,
            }
        }
        Ok(())
    }

    fn compare_hash(&mut self, stream: &str, found: &[EmittedMessage], expected: &[Value]) {
        self.report.compared += 1;
        let lines = found.iter().map(|it| format!("{}\n", terms::line_of(it)));
        let text: String = lines.collect();
        let whole = json!({"messages": found.len(), "sha256": terms::sha256(&text)});
        if expected != [whole.clone()] {
            self.differs(format!("<{stream}>: {whole}, expected {expected:?}"));
        }
    }

    fn compare_messages(
        &mut self,
        stream: &str,
        found: &[EmittedMessage],
        expected: &[Value],
    ) -> Result<(), SuiteError> {
        self.report.compared += found.len().max(expected.len());
        if found.len() != expected.len() {
            let (found, wanted) = (found.len(), expected.len());
            self.differs(format!(
                "<{stream}> has {found} messages, expected {wanted}"
            ));
        }
        for (message, expected) in found.iter().zip(expected) {
            let line = terms::line_of(message);
            let actual: Value =
                serde_json::from_str(&line).map_err(|error| self.suite.broken(error))?;
            if actual != *expected {
                self.differs(format!("<{stream}>: {actual}, expected {expected}"));
            }
        }
        Ok(())
    }

    fn compare_aborted(&mut self) -> Result<(), SuiteError> {
        for (dataflow, expected) in self.suite.aborted()? {
            self.report.compared += expected.len();
            let found = self.subject.aborted(&dataflow)?;
            if found.len() != expected.len() {
                let (found, wanted) = (found.len(), expected.len());
                self.differs(format!(
                    "{dataflow} has {found} aborted transactions, expected {wanted}"
                ));
            }
            for (found, expected) in found.iter().zip(&expected) {
                if !terms::is_abort(found, expected) {
                    self.differs(format!("{dataflow}: {found:?}, expected {expected}"));
                }
            }
        }
        Ok(())
    }
}
