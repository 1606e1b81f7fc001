//! EXPLAIN ANALYZE CALL: a call that runs and is undone, described step by step.
//!
//! The one thing to know before changing it: the text is for people. Programs call the procedure.

use super::Engine;
use super::explain_transactions::first_words;
use super::procedures::CallRequest;
use crate::error::EngineError;
use oxrdf::{Quad, Term};
use somersault_lang::token::Place;
use somersault_lang::{CreateProcedure, Parser, Step, StepKind};
use somersault_query::StepTrace;
use somersault_runtime::{AnalysedEffects, CallAnalysis, CallAnswer, CallOutcome};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The rows of an answer that are shown.
const SHOWN_ROWS: usize = 10;

impl CallRequest<'_> {
    /// Runs the call in a transaction that is undone, and describes it: each step with its runs,
    /// time, plan with actual rows and changes; what the call would have left; its answer, or why
    /// it would have aborted. Nothing of it remains: no statement, no message, no record in the
    /// log, and a key stays free. Procedures that its messages would have activated do not run.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE set() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
    /// let shown = engine.call("set").explain_analyze()?;
    /// assert!(shown.contains("1. INSERT DATA { <urn:a> <urn:p> 1 }"), "{shown}");
    /// assert!(shown.contains("1 statement inserted"), "{shown}");
    /// assert_eq!(engine.health().stored_statements, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`CallRequest::run`].
    pub fn explain_analyze(self) -> Result<String, EngineError> {
        let analysis = self.analyse()?;
        Ok(described(&analysis))
    }
}

impl Engine {
    /// Returns what a text `EXPLAIN ANALYZE CALL name(arguments)` says of the call, as
    /// [`CallRequest::explain_analyze`] does; `None` if the text is none. `base` resolves relative
    /// IRIs.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE never() AS { ABORT \"no\" }")?;
    /// let shown = engine.explain_call_text("EXPLAIN ANALYZE CALL never()", None)?;
    /// assert!(shown.expect("it is one").contains("it would have aborted: no"));
    /// assert!(engine.explain_call_text("CALL never()", None)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse; as [`CallRequest::run`].
    pub fn explain_call_text(
        &self,
        text: &str,
        base: Option<&str>,
    ) -> Result<Option<String>, EngineError> {
        let Some(call) = Parser::explained_call(text) else {
            return Ok(None);
        };
        let request = self.call_text(&call, base)?;
        request.map(CallRequest::explain_analyze).transpose()
    }

    /// Describes a text that is a CALL; `None` if it is none. Without `analyze` nothing runs.
    pub(super) fn explain_call(
        &self,
        text: &str,
        base: Option<&str>,
        analyze: bool,
    ) -> Result<Option<String>, EngineError> {
        if let Some(shown) = self.explain_call_text(text, base)? {
            return Ok(Some(shown));
        }
        let Some(call) = self.call_text(text, base)? else {
            return Ok(None);
        };
        match analyze {
            true => call.explain_analyze().map(Some),
            false => self.explain_procedure(call.procedure()).map(Some),
        }
    }
}

fn described(analysis: &CallAnalysis) -> String {
    let name = &analysis.declaration.name;
    let (time, base) = (shown_time(analysis.time), analysis.base);
    let mut text = format!("CALL {name}: ran on snapshot {base} in {time}, and was undone\n");
    let texts = texts(&analysis.declaration);
    let mut numbers: Vec<usize> = Vec::new();
    for step in &analysis.steps {
        numbers.truncate(step.depth + 1);
        match numbers.get_mut(step.depth) {
            Some(number) => *number += 1,
            None => numbers.push(1),
        }
        write_step(step, numbers[step.depth], &texts, &mut text);
    }
    match &analysis.outcome {
        CallOutcome::Aborted { reason } => {
            let _ = writeln!(text, "it would have aborted: {reason}");
        }
        CallOutcome::Answered(answer) => {
            write_effects(&analysis.effects, &mut text);
            write_answer(answer, &mut text);
        }
    }
    text
}

fn shown_time(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn things(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn write_step(
    step: &StepTrace,
    number: usize,
    texts: &HashMap<(u32, u32), String>,
    text: &mut String,
) {
    let indent = "  ".repeat(step.depth);
    let place = (step.place.line, step.place.column);
    let said = match &step.text {
        Some(native) => first_words(native),
        None => texts.get(&place).cloned().unwrap_or_default(),
    };
    let _ = writeln!(text, "{indent}{number}. {said}");
    let mut done = format!("{}, {}", things(step.runs, "run"), shown_time(step.time));
    for (count, what, how) in [
        (step.deleted, "statement", "deleted"),
        (step.inserted, "statement", "inserted"),
        (step.emitted, "message", "emitted"),
    ] {
        if count > 0 {
            let _ = write!(done, ", {} {how}", things(count, what));
        }
    }
    let _ = writeln!(text, "{indent}   {done}");
    for plan in &step.plans {
        for line in plan.lines() {
            let _ = writeln!(text, "{indent}   {line}");
        }
    }
    if let Some(reason) = &step.abort {
        let _ = writeln!(text, "{indent}   aborted here: {reason}");
    }
}

fn write_effects(effects: &AnalysedEffects, text: &mut String) {
    let _ = writeln!(
        text,
        "it would have left: {} deleted, {} inserted, {}",
        things(effects.deleted, "statement"),
        things(effects.inserted, "statement"),
        things(effects.emitted, "message")
    );
    let mut list = |sign: &str, quads: &[Quad]| {
        for quad in quads {
            let _ = writeln!(text, "  {sign} {quad} .");
        }
    };
    list("-", &effects.deletes);
    list("+", &effects.inserts);
    for (stream, message) in &effects.messages {
        let _ = writeln!(text, "  INTO {stream}");
        for quad in message {
            let _ = writeln!(text, "    {quad} .");
        }
    }
    let shown = effects.deletes.len() + effects.inserts.len() + effects.messages.len();
    let all = effects.deleted + effects.inserted + effects.emitted;
    let more = all.saturating_sub(shown as u64);
    if more > 0 {
        let _ = writeln!(text, "  … and {more} more");
    }
}

fn write_answer(answer: &CallAnswer, text: &mut String) {
    match answer {
        CallAnswer::Done | CallAnswer::NotKept => {}
        CallAnswer::Boolean(is_true) => {
            let _ = writeln!(text, "it would have returned {is_true}");
        }
        CallAnswer::Graph(triples) => {
            let count = things(triples.len() as u64, "triple");
            let _ = writeln!(text, "it would have returned {count}");
        }
        CallAnswer::Rows { variables, rows } => {
            let count = things(rows.len() as u64, "row");
            let _ = writeln!(text, "it would have returned {count}");
            for row in rows.iter().take(SHOWN_ROWS) {
                let value = |value: &Option<Term>| value.as_ref().map(Term::to_string);
                let cells = variables.iter().zip(row);
                let cells =
                    cells.filter_map(|(name, it)| Some(format!("?{name} = {}", value(it)?)));
                let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join(", "));
            }
        }
    }
}

/// The first words of each step, by its place.
fn texts(declaration: &CreateProcedure) -> HashMap<(u32, u32), String> {
    let triggers = declaration.triggers.iter().flat_map(|it| &it.steps);
    let mut rest: Vec<&Step> = declaration.steps.iter().chain(triggers).collect();
    let mut texts = HashMap::new();
    while let Some(step) = rest.pop() {
        let Place { line, column } = Place::of(&declaration.text, step.span.start);
        let said = declaration.text.get(step.span.clone()).unwrap_or_default();
        texts.insert((line, column), first_words(said));
        match &step.kind {
            StepKind::If {
                branches,
                otherwise,
            } => {
                rest.extend(branches.iter().flat_map(|branch| &branch.steps));
                rest.extend(otherwise);
            }
            StepKind::ForEach { steps, .. } => rest.extend(steps),
            _ => {}
        }
    }
    texts
}
