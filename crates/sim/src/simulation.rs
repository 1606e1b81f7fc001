//! A simulation: the engine under test, its twin, and the queries that both know. Each step is done
//! to the engine and to the twin, and their answers are compared.

use crate::algebra::{Stored, Value};
use crate::draw::Draw;
use crate::engine::{Asked, Subject};
use crate::expect::{LATE, Registered, name_of};
use crate::model::{PushModel, QueryModel, Scenario, Statement, Step};
use crate::render::{iri, statement, stream_iri, stream_text, triple_text};
use crate::report::{Summary, update_text};
use crate::trace::Trace;
use crate::twin::{Plant, Twin, Verdict};
use somersault::oxrdf::Term;
use somersault::{
    Engine, EngineError, EventTime, MessagePush, MessageSyntax, MessageWriter, Push, PushReceipt,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The percentage of steps after which the engine's invariants are checked.
const CHECKED: u64 = 3;
/// The percentage of subscribers that do not read after a step.
const NOT_NOW: u64 = 30;

/// The turns that may be taken until answers are let go: far more than the deadline takes.
const DEADLINE_TURNS: u64 = 10_000;

/// The time limit for everything that is due, once the scenario has healed.
const SETTLE: Duration = Duration::from_secs(60);

pub(crate) struct Simulation {
    subject: Subject,
    twin: Twin,
    queries: BTreeMap<u8, Registered>,
    /// The next push of each source of each stream.
    next_seq: BTreeMap<(usize, u8), u64>,
    plant: Option<Plant>,
    summary: Summary,
}

impl Simulation {
    pub(crate) fn open(
        seed: u64,
        scenario: &Scenario,
        plant: Option<Plant>,
        trace: &Trace,
    ) -> Result<Self, String> {
        let mut simulation = Self {
            subject: Subject::open(seed, trace)?,
            twin: Twin::new(&scenario.streams, plant),
            queries: BTreeMap::new(),
            next_seq: BTreeMap::new(),
            plant,
            summary: Summary::default(),
        };
        for (number, stream) in scenario.streams.iter().enumerate() {
            let text = stream_text(number, stream);
            simulation.insist(|engine| engine.create_stream(None, &text).map(|_| ()))?;
        }
        Ok(simulation)
    }

    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Push(push) => self.pushes(push),
            Step::Advance(to) => self.advance(to),
            Step::Register(number, query) => self.register(*number, query),
            Step::Replace(number, query) => self.replace(*number, query),
            Step::Drop(number) => self.drop_query(*number),
            Step::Pause(number) => {
                let name = name_of(*number);
                self.command(self.queries.contains_key(number), |engine| {
                    engine.pause_query(&name)
                })?;
                self.twin.pause(*number);
                Ok(())
            }
            Step::Resume(number) => {
                let name = name_of(*number);
                self.command(self.queries.contains_key(number), |engine| {
                    engine.resume_query(&name)
                })?;
                self.twin.resume(*number);
                Ok(())
            }
            Step::Update {
                insert,
                graph,
                triple,
            } => {
                let text = update_text(*insert, *graph, *triple);
                if self.plant != Some(Plant::LostUpdate) {
                    self.insist(|engine| engine.update(&text).run().map(|_| ()))?;
                }
                self.summary.updates += 1;
                self.twin.update(*insert, *graph, *triple);
                Ok(())
            }
            Step::Look => self.look(),
            Step::Checkpoint { waits } => self.checkpoint(*waits),
            Step::Crash(keep) => {
                self.subject.crash(*keep)?;
                self.twin.restarted();
                self.subscribe_all()
            }
            Step::PlanCrash(syncs, keep) => {
                self.subject.plan_crash(*syncs, *keep);
                Ok(())
            }
            Step::CrashAtTurn(turns, keep) => {
                self.subject.plan_crash_at_turn(*turns, *keep);
                Ok(())
            }
        }
    }

    /// Takes a checkpoint. It is refused only while another one is being written.
    fn checkpoint(&mut self, waits: bool) -> Result<(), String> {
        let asked = self.ask(|engine| {
            let begun = match waits {
                true => engine.checkpoint().map(|_| ()),
                false => engine.begin_checkpoint().map(|_| ()),
            };
            match begun {
                Err(EngineError::UnderWay(_)) => Ok(false),
                begun => begun.map(|()| waits),
            }
        })?;
        match asked {
            Asked::Done(is_taken) => self.summary.checkpoints += u64::from(is_taken),
            Asked::Refused(why) => return Err(format!("a checkpoint was refused: {why}")),
        }
        Ok(())
    }

    /// A third of the seeds have a durable subscription that is not read to each query whose
    /// answers are all kept.
    fn let_answers_wait(&mut self, number: u8, model: &QueryModel) -> Result<(), String> {
        let is_kept = self.subject.keeps_all() && model.derives.is_none() && !model.skips;
        if !is_kept || self.plant.is_some() || !self.subject.lets_answers_wait() {
            return Ok(());
        }
        let name = name_of(number);
        let terms = Registered::late_terms();
        self.insist(|engine| engine.subscribe_durably(&name, LATE, &terms).map(|_| ()))?;
        if let Some(registered) = self.queries.get_mut(&number) {
            registered.is_late = true;
        }
        Ok(())
    }

    /// Deletes the durable subscription of a query, which is in the way of its end.
    fn delete_late(&mut self, number: u8) -> Result<(), String> {
        let Some(registered) = self.queries.get_mut(&number).filter(|it| it.is_late) else {
            return Ok(());
        };
        registered.is_late = false;
        let name = name_of(number);
        self.command(true, |engine| engine.unsubscribe(&name, LATE))
    }

    /// Liveness without any further request: all answers that wait are let go at their deadline.
    fn let_go(&mut self) -> Result<(), String> {
        for query in self.queries.values().filter(|query| query.is_late) {
            let mut turns = 0;
            while !query.has_let_go(self.subject.engine())? {
                self.subject.take_turns(1);
                turns += 1;
                if turns > DEADLINE_TURNS {
                    return Err(format!(
                        "{}: its answers wait beyond their deadline",
                        query.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Drops a query, unless other queries window the stream that it derives.
    fn drop_query(&mut self, number: u8) -> Result<(), String> {
        let name = name_of(number);
        if self.twin.is_windowed(number) {
            return self.command(false, |engine| engine.drop_query(&name));
        }
        self.delete_late(number)?;
        // It leaves the map first: if the drop survives a crash, the restart has nothing to
        // subscribe to.
        let old = self.queries.remove(&number);
        let crashes = self.subject.crashes;
        self.command(old.is_some(), |engine| engine.drop_query(&name))?;
        if let Some(mut old) = old.filter(|_| !self.may_have_crashed_since(crashes)) {
            old.await_end(SETTLE)?;
        }
        self.twin.drop(number);
        Ok(())
    }

    /// Where streams are derived, waits until they have caught up: the order of derived statements
    /// between two pushes is undefined.
    pub(crate) fn derive(&mut self) -> Result<(), String> {
        match self.twin.derives() {
            true => self.insist(|engine| engine.quiesce(SETTLE)),
            false => Ok(()),
        }
    }

    /// Repeats a request until it is answered or refused.
    fn ask<T>(
        &mut self,
        request: impl Fn(&Engine) -> Result<T, EngineError>,
    ) -> Result<Asked<T>, String> {
        self.ask_and_look(request, |_| ())
    }

    /// The same; `look` inspects the engine after each restart on the way.
    fn ask_and_look<T>(
        &mut self,
        request: impl Fn(&Engine) -> Result<T, EngineError>,
        mut look: impl FnMut(&Engine),
    ) -> Result<Asked<T>, String> {
        let (twin, queries) = (&mut self.twin, &mut self.queries);
        let asked = self.subject.ask(request, |engine| {
            look(engine);
            twin.restarted();
            queries
                .values_mut()
                .try_for_each(|query| query.subscribe(engine))
        })?;
        self.subject.trace().note_answer(match &asked {
            Asked::Done(_) => "done",
            Asked::Refused(why) => why,
        });
        Ok(asked)
    }

    /// Makes a request that must not be refused.
    fn insist<T>(
        &mut self,
        request: impl Fn(&Engine) -> Result<T, EngineError>,
    ) -> Result<T, String> {
        match self.ask(request)? {
            Asked::Done(given) => Ok(given),
            Asked::Refused(why) => Err(format!("refused: {why}")),
        }
    }

    /// Makes a request about a query; it must be refused exactly if the query does not exist.
    fn command(
        &mut self,
        is_known: bool,
        request: impl Fn(&Engine) -> Result<(), EngineError>,
    ) -> Result<(), String> {
        let crashes = self.subject.crashes;
        match self.ask(request)? {
            Asked::Done(()) if !is_known => {
                Err("a request about an unknown query was not refused".to_owned())
            }
            // It may have been carried out before a crash that lost the acknowledgement.
            Asked::Refused(why) if is_known && crashes == self.subject.crashes => {
                Err(format!("refused: {why}"))
            }
            Asked::Done(()) | Asked::Refused(_) => Ok(()),
        }
    }

    fn pushes(&mut self, push: &PushModel) -> Result<(), String> {
        self.push(push.stream, push.source, &push.statements)?;
        if push.again {
            self.push_again(push.stream, push.source, &push.statements)?;
        }
        Ok(())
    }

    fn push(&mut self, stream: usize, source: u8, statements: &[Statement]) -> Result<(), String> {
        let crashes = self.subject.crashes;
        let verdict = self.twin.verdict(stream, source, statements);
        let push = self.push_of(stream, source, statements);
        let before = self.before_a_crash();
        let asked = self.ask(|engine| take(engine, &stream_iri(stream), &push))?;
        let (receipt, expected) = match (asked, verdict) {
            (Asked::Refused(_), Verdict::Refused) => {
                self.summary.late += 1;
                return Ok(());
            }
            (Asked::Refused(why), _) => return Err(format!("a push was refused: {why}")),
            (Asked::Done(receipt), Verdict::Refused) => {
                return Err(format!(
                    "a push with a statement that is too late was taken: {receipt:?}"
                ));
            }
            (Asked::Done(receipt), Verdict::Taken { accepted, dropped }) => {
                self.summary.late += dropped;
                (
                    receipt,
                    PushReceipt {
                        accepted,
                        dropped,
                        repeated: false,
                    },
                )
            }
        };
        let survived = receipt.repeated && crashes < self.subject.crashes;
        if receipt != expected && !survived {
            return Err(format!(
                "a push was acknowledged with {receipt:?}, not {expected:?}"
            ));
        }
        *self.next_seq.entry((stream, source)).or_insert(0) += 1;
        self.summary.statements += statements.len() as u64;
        self.effect(before.filter(|_| survived), |twin| {
            twin.push(stream, source, statements)
        });
        Ok(())
    }

    /// A copy of the twin, if a crash may interrupt the next request.
    fn before_a_crash(&self) -> Option<Twin> {
        self.subject.has_crash_planned().then(|| self.twin.clone())
    }

    /// Applies a request to the twin. If a crash interrupted the request and the log kept it, it
    /// happened before the restart, which stored the closed batches.
    fn effect(&mut self, survived: Option<Twin>, does: impl FnOnce(&mut Twin)) {
        match survived {
            None => does(&mut self.twin),
            Some(before) => {
                self.twin = before;
                does(&mut self.twin);
                self.twin.restarted();
            }
        }
    }

    fn push_of(&self, stream: usize, source: u8, statements: &[Statement]) -> Push {
        let seq = self.next_seq.get(&(stream, source)).copied().unwrap_or(0);
        Push {
            source: (source > 0).then(|| format!("source {source}")),
            seq: Some(seq),
            statements: statements.iter().map(statement).collect(),
        }
    }

    /// Sends the newest push of a source again: a repeat, unless it was refused.
    fn push_again(
        &mut self,
        stream: usize,
        source: u8,
        statements: &[Statement],
    ) -> Result<(), String> {
        let Some(seq) = self
            .next_seq
            .get(&(stream, source))
            .and_then(|next| next.checked_sub(1))
        else {
            return Ok(());
        };
        let push = Push {
            seq: Some(seq),
            ..self.push_of(stream, source, statements)
        };
        let receipt = self.insist(|engine| take(engine, &stream_iri(stream), &push))?;
        match receipt.repeated {
            true => Ok(()),
            false => Err(format!("a push was taken twice: {receipt:?}")),
        }
    }

    fn advance(&mut self, to: &[(usize, i64)]) -> Result<(), String> {
        let named: Vec<(String, i64)> = to
            .iter()
            .map(|(stream, to_ms)| (stream_iri(*stream), *to_ms))
            .collect();
        let before = self.before_a_crash();
        let mut survived = false;
        let is_there = |engine: &Engine| {
            (named.iter()).all(|(stream, to_ms)| {
                engine
                    .stream(stream)
                    .is_ok_and(|info| info.watermark >= Some(EventTime(*to_ms)))
            })
        };
        let asked = self.ask_and_look(
            |engine| {
                let to = named.iter().map(|(stream, ms)| (stream, EventTime(*ms)));
                engine.advance(to).map(|_| ())
            },
            |engine| survived = is_there(engine),
        )?;
        if let Asked::Refused(why) = asked {
            return Err(format!("a heartbeat was refused: {why}"));
        }
        self.effect(before.filter(|_| survived), |twin| twin.advance(to));
        Ok(())
    }

    /// Registers a query. A name that is registered with another text is refused.
    fn register(&mut self, number: u8, model: &QueryModel) -> Result<(), String> {
        self.register_by(number, model, |engine, text| {
            engine.register(None, text).map(|_| ())
        })
    }

    fn register_by(
        &mut self,
        number: u8,
        model: &QueryModel,
        request: impl Fn(&Engine, &str) -> Result<(), EngineError>,
    ) -> Result<(), String> {
        let mut registered = Registered::new(number, model);
        let is_possible = self.is_possible(model);
        let text = registered.text.clone();
        let asked = self.ask(|engine| request(engine, &text))?;
        let before = self.queries.get(&number);
        match (asked, before) {
            (Asked::Done(()), None) if !is_possible => Err(format!(
                "{text}\nwas registered over a stream that does not exist"
            )),
            (Asked::Done(()), None) => {
                self.twin.register(number, model);
                registered.subscribe(self.subject.engine())?;
                self.queries.insert(number, registered);
                self.let_answers_wait(number, model)
            }
            (Asked::Done(()), Some(before)) if before.text == text => Ok(()),
            (Asked::Done(()), Some(before)) => {
                Err(format!("{text}\nwas registered over\n{}", before.text))
            }
            (Asked::Refused(_), Some(before)) if before.text != text => Ok(()),
            (Asked::Refused(_), None) if !is_possible => Ok(()),
            (Asked::Refused(why), _) => Err(format!("a registration was refused: {why}\n{text}")),
        }
    }

    /// Registers a query in place of the one with its number, if there is one.
    fn replace(&mut self, number: u8, model: &QueryModel) -> Result<(), String> {
        let mut registered = Registered::new(number, model);
        let text = registered.text.clone();
        let is_other = |old: &Registered| old.text != text;
        if self.queries.get(&number).is_some_and(is_other) {
            self.delete_late(number)?;
        }
        // If the replacement survives a crash, the restart has nothing to subscribe to.
        let mut old = match self.queries.remove(&number) {
            Some(old) if is_other(&old) => old,
            before => {
                self.queries.extend(before.map(|same| (number, same)));
                return self.register_by(number, model, |engine, text| {
                    engine.replace(None, text).map(|_| ())
                });
            }
        };
        let is_possible = self.is_possible(model) && !self.twin.is_behind(number, model);
        let crashes = self.subject.crashes;
        let asked = self.ask(|engine| engine.replace(None, &text).map(|_| ()))?;
        match asked {
            Asked::Done(()) if !is_possible => Err(format!(
                "{text}\nreplaced\n{}\nalthough it must not",
                old.text
            )),
            Asked::Refused(why) if is_possible => {
                Err(format!("a replacement was refused: {why}\n{text}"))
            }
            Asked::Refused(_) => {
                if crashes < self.subject.crashes {
                    old.subscribe(self.subject.engine())?;
                }
                self.queries.insert(number, old);
                Ok(())
            }
            Asked::Done(()) => {
                if !self.may_have_crashed_since(crashes) {
                    self.see_off(old)?;
                }
                self.twin.replace(number, model);
                registered.subscribe(self.subject.engine())?;
                self.queries.insert(number, registered);
                Ok(())
            }
        }
    }

    /// Whether the engine has crashed since it had crashed this number of times, or may still
    /// crash.
    fn may_have_crashed_since(&self, crashes: u64) -> bool {
        crashes < self.subject.crashes || self.subject.has_crash_planned()
    }

    /// Whether all streams exist that a query windows.
    fn is_possible(&self, model: &QueryModel) -> bool {
        (model.windows.iter()).all(|window| self.twin.has_stream(window.stream))
    }

    /// A replaced query delivers every firing that was due when it was replaced, and then no more.
    fn see_off(&mut self, mut old: Registered) -> Result<(), String> {
        old.await_end(SETTLE)?;
        let read = old.read(&mut self.twin, self.plant, self.subject.trace())?;
        read.add_to(&mut self.summary);
        old.owes_nothing(&mut self.twin)
    }

    fn subscribe_all(&mut self) -> Result<(), String> {
        let engine = self.subject.engine();
        self.queries
            .values_mut()
            .try_for_each(|query| query.subscribe(engine))
    }

    /// Checks that the stored graphs are the twin's, and that the engine reports the streams that
    /// each query waits for. An update without effect comes first, so that all closed batches have
    /// been absorbed.
    fn look(&mut self) -> Result<(), String> {
        self.insist(|engine| engine.update("INSERT DATA { }").run().map(|_| ()))?;
        self.twin.restarted();
        let all = "SELECT ?s ?p ?o ?g WHERE { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";
        let results = self.insist(|engine| engine.query(all).run())?;
        let found: BTreeSet<String> = (results.answer.rows())
            .map(|row| {
                row.iter()
                    .flatten()
                    .map(Term::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        let trace = self.subject.trace();
        found.iter().for_each(|line| trace.note_answer(line));
        let expected = lines_of(self.twin.stored());
        if found != expected {
            let missing: Vec<&String> = expected.difference(&found).collect();
            let extra: Vec<&String> = found.difference(&expected).collect();
            return Err(format!(
                "the stored graphs differ: missing {missing:?}, extra {extra:?}"
            ));
        }
        for (number, query) in &self.queries {
            let info = self
                .subject
                .engine()
                .query_info(&query.name)
                .map_err(|error| error.to_string())?;
            let is_paused = self.twin.queries[number].paused;
            let Some((next_ms, behind)) = self.twin.waits_for(*number) else {
                continue;
            };
            let behind: Vec<String> = behind.into_iter().map(stream_iri).collect();
            let waits_rightly = match &info.waiting_for {
                None => behind.is_empty(),
                Some(held) => behind.contains(&held.stream),
            };
            if !waits_rightly
                || info.next_close.map(|close| close.0) != next_ms
                || info.paused != is_paused
            {
                return Err(format!(
                    "{}: paused: {}, fires next for {:?} and waits for {:?}; it should be {is_paused}, {next_ms:?}, {behind:?}\n{}",
                    query.name, info.paused, info.next_close, info.waiting_for, query.text
                ));
            }
        }
        Ok(())
    }

    /// Checks that everything that was due was executed, or skipped and counted.
    fn count(&self, query: &Registered) -> Result<(), String> {
        if !self.subject.keeps_all() && self.subject.crashes > 0 {
            // Firings delivered before the last restart are neither executed again nor counted.
            return Ok(());
        }
        let info = (self.subject.engine().query_info(&query.name)).map_err(|e| e.to_string())?;
        let made = self.twin.queries[&query.number].made;
        let (firings, passed, skipped) = (info.firings, info.skipped_empty, info.skipped);
        match firings + passed + skipped == made {
            true => Ok(()),
            false => Err(format!(
                "{}: {firings} executed, {passed} skipped as empty and {skipped} by ON OVERLOAD are not the {made} that were due\n{}",
                query.name, query.text
            )),
        }
    }

    /// Lets the process continue without a request: for no turn, for some turns, or until nothing
    /// is left to do. Its invariants hold after each turn.
    pub(crate) fn pass_time(&mut self, draw: &mut Draw) -> Result<(), String> {
        let turns = match draw.below(4) {
            0 => 0,
            1 => draw.below(8),
            2 => draw.below(64),
            _ => u64::MAX,
        };
        self.subject.take_turns(turns);
        // After a crash a check may find that the log has failed.
        match draw.chance(CHECKED) && !self.subject.has_crash_planned() {
            true => self.insist(Engine::check),
            false => Ok(()),
        }
    }

    /// Safety: each firing that has arrived is right, and none arrived twice or out of order. Some
    /// subscribers do not read now; they find more firings the next time.
    pub(crate) fn read(&mut self, draw: &mut Draw) -> Result<(), String> {
        self.read_some(|| !draw.chance(NOT_NOW))
    }

    fn read_some(&mut self, mut reads: impl FnMut() -> bool) -> Result<(), String> {
        let trace = self.subject.trace();
        for query in self.queries.values_mut().filter(|_| reads()) {
            let read = query.read(&mut self.twin, self.plant, trace)?;
            read.add_to(&mut self.summary);
        }
        Ok(())
    }

    /// Liveness: without further crashes, everything due is answered, empty answers included. Then
    /// the engine is shut down. Returns the counts of the simulation.
    pub(crate) fn heal(&mut self) -> Result<Summary, String> {
        if self.subject.has_crash_planned() {
            self.subject.crash(somersault_disk::CrashKeep::Synced)?;
            self.twin.restarted();
            self.subscribe_all()?;
        }
        self.insist(|engine| engine.quiesce(SETTLE))?;
        self.read_some(|| true)?;
        for query in self.queries.values() {
            query.owes_nothing(&mut self.twin)?;
            self.count(query)?;
        }
        self.let_go()?;
        self.look()?;
        self.insist(Engine::check)?;
        self.insist(Engine::shutdown)?;
        self.summary.crashes = self.subject.crashes;
        self.summary.begun = self.subject.begun;
        self.summary.turns = self.subject.turns();
        self.summary.trace = self.subject.trace().hash();
        Ok(self.summary)
    }
}

/// The stored statements, one a line.
fn lines_of(stored: &Stored) -> BTreeSet<String> {
    let line = |graph: &Option<u8>, triple: &crate::model::Triple| {
        let graph = graph.map_or(String::new(), |graph| {
            format!(" {}", iri(Value::Graph(graph)))
        });
        triple_text(*triple) + &graph
    };
    (stored.iter())
        .flat_map(|(graph, triples)| triples.iter().map(move |triple| line(graph, triple)))
        .collect()
}

/// Pushes statements. Every other push whose statements have one time is sent as a message.
fn take(engine: &Engine, stream: &str, push: &Push) -> Result<PushReceipt, EngineError> {
    let at = push.statements.first().and_then(|first| first.at);
    let is_message = push.statements.iter().all(|it| it.at == at);
    if !is_message || at.is_none() || push.seq.is_none_or(|seq| seq % 2 == 0) {
        return engine.push(stream, push.clone());
    }
    let syntax = MessageSyntax::NQuads;
    let mut writer = MessageWriter::new(Vec::new(), syntax);
    let statements = push.statements.iter().map(|it| it.quad.as_ref());
    let written = writer.write(statements).and_then(|()| writer.finish());
    let text = written.map_err(|error| EngineError::Invalid(error.to_string()))?;
    let message = MessagePush {
        source: push.source.clone(),
        seq: push.seq,
        at,
        syntax,
    };
    let receipt = engine.push_messages(stream, message, &text[..])?;
    match receipt.reasons.into_iter().chain(receipt.ended).next() {
        Some(refusal) => Err(refusal.error),
        None => Ok(PushReceipt {
            accepted: receipt.accepted,
            dropped: receipt.dropped,
            repeated: receipt.repeated.count() == 1,
        }),
    }
}
