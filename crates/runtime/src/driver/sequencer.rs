//! The sequencer's loop: one thread, one order. Everything that changes the engine's state passes
//! through [`Sequencer::take`]; everything that time brings, through `on_timers`.

use super::firings::{Derived, Firings};
use super::inject::Injection;
use super::requests::{Done, Outcome, Request, Want};
use super::stable::{Stability, Waiter};
use super::{Channels, Shared};
use crate::acks::Ack;
use crate::due_windows::DueWindows;
use crate::error::RuntimeError;
use crate::fabric::Fabric;
use crossbeam_channel::{Sender, never, select};
use somersault_log::{Position, Record};
use somersault_model::Sn;
use somersault_stream::{Admission, Input, Output};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often idle and arrival-time streams are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often pins are looked at, and what only they kept.
const EXPIRY: Duration = Duration::from_secs(1);
/// So many terms that have gone are looked at then, where nothing comes that pays for it.
const RECLAIMED_AT_A_TICK: usize = 1024;
/// So many SNs may be cut and not stable before inputs have to wait.
const UNSTABLE_LIMIT: usize = 256;
/// So many requests are taken before stability is looked at again.
const REQUESTS_IN_A_ROW: usize = 64;

pub(crate) struct Sequencer {
    pub(super) shared: Arc<Shared>,
    pub(super) fabric: Box<dyn Fabric>,
    pub(super) channels: Channels,
    pub(super) injection: Injection,
    pub(super) stability: Stability,
    pub(super) firings: Firings,
    /// What firings have given for derived streams, and is not taken yet.
    pub(super) derived: VecDeque<Derived>,
    /// How many inputs have been taken, answers of firings not counted.
    pub(super) inputs: u64,
    /// The one that is being taken, or that led to what is.
    pub(super) input: u64,
    /// Something waits for a cut since then.
    pending_since: Option<Instant>,
    next_tick: Instant,
    next_expiry: Instant,
    quiescing: Vec<Sender<Result<(), RuntimeError>>>,
    stopping: Option<(Instant, Vec<Sender<()>>)>,
    reported_failure: bool,
}

impl Sequencer {
    pub(super) fn new(
        shared: Arc<Shared>,
        fabric: Box<dyn Fabric>,
        channels: Channels,
    ) -> Sequencer {
        let now = Instant::now();
        Sequencer {
            injection: Injection::default(),
            stability: Stability::default(),
            firings: Firings::new(shared.config.kept_firings),
            derived: VecDeque::new(),
            inputs: 0,
            input: 0,
            shared,
            fabric,
            channels,
            pending_since: None,
            next_tick: now,
            next_expiry: now,
            quiescing: Vec::new(),
            stopping: None,
            reported_failure: false,
        }
    }

    /// Runs until it is stopped.
    pub(super) fn run(mut self) {
        loop {
            let busy = self.advance();
            if self.shared.aborted.load(Ordering::SeqCst) || self.has_stopped() {
                break;
            }
            let wait = if busy {
                Duration::ZERO
            } else {
                self.until_timer()
            };
            let never_requests = never();
            let requests = if self.backlogged() {
                &never_requests
            } else {
                &self.channels.requests
            };
            select! {
                recv(self.channels.fired) -> fired => {
                    if let Ok(fired) = fired {
                        self.on_fired(fired);
                    }
                }
                recv(self.channels.woken) -> _ => {}
                recv(requests) -> request => match request {
                    Ok(request) => self.on_requests(request),
                    // The last handle is gone.
                    Err(_) => break,
                },
                default(wait) => {}
            }
        }
        let _ = self.fabric.stop(Duration::from_secs(5));
        if let Some((_, replies)) = self.stopping.take() {
            for reply in replies {
                let _ = reply.send(());
            }
        }
    }

    /// Everything that needs no new message: shards without threads, what has become stable, timers.
    /// Whether it should be called again at once.
    pub(super) fn advance(&mut self) -> bool {
        let busy = self.fabric.drive();
        while let Ok(fired) = self.channels.fired.try_recv() {
            self.on_fired(fired);
        }
        self.take_derived();
        self.publish();
        self.settle_derivations();
        self.on_timers();
        self.report_failure();
        self.answer_quiescing();
        busy
    }

    /// Whether inputs have to wait until firings or shards have caught up.
    pub(super) fn backlogged(&self) -> bool {
        self.shared.failure().is_none()
            && (self.firings.backlogged() || self.stability.unstable() > UNSTABLE_LIMIT)
    }

    fn on_requests(&mut self, first: Request) {
        let mut request = Some(first);
        for _ in 0..REQUESTS_IN_A_ROW {
            let Some(next) = request.take() else { break };
            self.on_request(next);
            if self.backlogged() {
                break;
            }
            request = self.channels.requests.try_recv().ok();
        }
        if let Some(next) = request {
            self.on_request(next);
        }
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Input { input, want, reply } => self.on_input(*input, want, reply),
            Request::Update { job, reply } => {
                let result = self
                    .refuse_if_failed()
                    .and_then(|()| self.begin_update(job));
                match result {
                    Ok(result) => self.answer_update(result, reply),
                    Err(error) => {
                        let _ = reply.send(Err(error));
                    }
                }
            }
            Request::Quiesce { reply } => self.quiescing.push(reply),
            Request::Stop { deadline, reply } => {
                let until = Instant::now() + deadline;
                let (_, replies) = self.stopping.get_or_insert((until, Vec::new()));
                replies.push(reply);
            }
        }
    }

    fn refuse_if_failed(&self) -> Result<(), RuntimeError> {
        if self.stopping.is_some() {
            return Err(RuntimeError::Stopped);
        }
        self.shared.failure().map_or(Ok(()), Err)
    }

    fn on_input(&mut self, input: Input, want: Want, reply: Sender<Result<Done, RuntimeError>>) {
        let taken = self
            .refuse_if_failed()
            .and_then(|()| self.take_input(input));
        let (outcome, position) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        if want == Want::Stable
            && let Err(error) = self.cut_all()
        {
            let _ = reply.send(Err(error));
            return;
        }
        let sn = self.last_cut();
        let done = Done { outcome, sn };
        match want {
            Want::Durable => {
                self.shared.acks.add(Ack {
                    position,
                    answer: done,
                    reply,
                });
                // The group may have become durable before the acknowledgement was added.
                let log = &self.shared.log;
                self.shared.acks.settle(log.durable(), log.failed());
            }
            Want::Stable => self.stability.wait(Waiter::Input {
                sn,
                position,
                input: self.firings.oldest_underived().map_or(0, |_| self.inputs),
                done,
                reply,
            }),
        }
    }

    /// Takes an input from outside.
    fn take_input(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        self.inputs += 1;
        self.input = self.inputs;
        self.take(input)
    }

    /// Admits, logs and applies an input, and makes the cuts that it calls for.
    pub(super) fn take(&mut self, input: Input) -> Result<(Outcome, Position), RuntimeError> {
        let admission = self.shared.coordinator.lock().admit(input)?;
        let record = match admission {
            Admission::Record(record) => record,
            Admission::Several(record, outcomes) => {
                let position = match record {
                    Some(record) => {
                        let position = self.shared.log.append(&record)?;
                        self.apply(&record, position)?;
                        self.cut_due()?;
                        position
                    }
                    None => self.shared.log.end(),
                };
                return Ok((Outcome::Several(outcomes), position));
            }
            Admission::Repeat(repeat) => {
                return Ok((Outcome::Repeat(repeat), self.shared.log.end()));
            }
            Admission::Nothing => return Ok((Outcome::Nothing, self.shared.log.end())),
        };
        let position = self.shared.log.append(&record)?;
        let late_before = self.late_of(&record);
        self.apply(&record, position)?;
        let outcome = match &record {
            Record::Push(push) => {
                let late = self.late_of(&record) - late_before;
                Outcome::Taken {
                    statements: push.statements.len() as u64 - late,
                    late,
                }
            }
            Record::Command(command) => Outcome::Command(command.resolved.clone()),
            _ => Outcome::Taken {
                statements: 0,
                late: 0,
            },
        };
        self.cut_due()?;
        Ok((outcome, position))
    }

    /// How many statements the stream of a push has dropped as late so far.
    fn late_of(&self, record: &Record) -> u64 {
        match record {
            Record::Push(push) => {
                let coordinator = self.shared.coordinator.lock();
                coordinator.late_statements(&push.stream)
            }
            _ => 0,
        }
    }

    /// Applies a record that is in the log and carries out what that brings.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        position: Position,
    ) -> Result<(), RuntimeError> {
        let mut outputs = Vec::new();
        let applied = {
            let mut coordinator = self.shared.coordinator.lock();
            coordinator.apply(record, &self.shared.resolver, &mut outputs)
        };
        if let Err(error) = applied {
            // The log holds a record that the state does not: nothing may become visible after it.
            let error = RuntimeError::from(error);
            self.fail(error.clone());
            return Err(error);
        }
        self.stability.on_record(record, position);
        self.carry_out(outputs, position)
    }

    /// Makes the cuts that due closes ask for.
    pub(super) fn cut_due(&mut self) -> Result<(), RuntimeError> {
        loop {
            let end = self.shared.log.end();
            let plan = self.shared.coordinator.lock().next_due_cut(end);
            let Some(plan) = plan else { break };
            // One record may make thousands of closes due; each holds a pin and slices until it is answered.
            if self.backlogged() {
                self.wait_until(|sequencer| !sequencer.backlogged())?;
                continue;
            }
            let record = Record::Plan(plan);
            let position = self.shared.log.append(&record)?;
            self.apply(&record, position)?;
        }
        let pending = self.shared.coordinator.lock().has_pending();
        if !pending {
            self.pending_since = None;
        } else if self.pending_since.is_none() {
            self.pending_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Cuts until nothing that can be made visible is left.
    pub(super) fn cut_all(&mut self) -> Result<(), RuntimeError> {
        while self.shared.coordinator.lock().has_pending() {
            let end = self.shared.log.end();
            let plan = self.shared.coordinator.lock().freshness_cut(end);
            let Some(plan) = plan else { break };
            let record = Record::Plan(plan);
            let position = self.shared.log.append(&record)?;
            self.apply(&record, position)?;
        }
        self.pending_since = None;
        Ok(())
    }

    pub(super) fn last_cut(&self) -> Sn {
        self.shared.coordinator.lock().last_cut()
    }

    /// Carries out what the coordinator asks for, in its order.
    pub(super) fn carry_out(
        &mut self,
        outputs: Vec<Output>,
        position: Position,
    ) -> Result<(), RuntimeError> {
        let windows = DueWindows::of(&outputs, self.fabric.shards());
        for output in outputs {
            match output {
                Output::Inject(inject) => {
                    let sn = inject.sn;
                    let fabric = self.fabric.as_mut();
                    if let Err(error) = self.injection.inject(inject, windows.as_ref(), fabric) {
                        self.fail(RuntimeError::Fabric(error.clone()));
                        return Err(error.into());
                    }
                    self.stability.cut(sn, position);
                }
                Output::Due(firing) => {
                    let windows = windows.clone();
                    self.firings.due(&self.shared, firing, windows, self.input);
                }
                Output::Fire(firing) => {
                    let acknowledged = self.stability.acknowledged(firing.sn);
                    self.firings.fire(&self.shared, firing, acknowledged);
                }
                Output::Cancelled(firing) => self.firings.cancel(&firing),
                Output::Delivered { key, sn } => self.shared.host.delivered(key, sn),
                Output::PassedInBulk {
                    query, last, count, ..
                } => self.shared.host.passed(query, last, count),
                Output::Retire { stream, below } => {
                    self.stability.retire(self.last_cut(), stream, below);
                }
                Output::StreamCreated { uid, declaration } => {
                    self.injection.stream_created(uid, declaration.batch);
                }
                Output::StreamDropped { uid, .. } => {
                    self.injection.stream_dropped(uid);
                    self.stability.drop_stream(self.last_cut(), uid);
                }
                Output::QueryRegistered {
                    uid,
                    name,
                    text,
                    namespace,
                    derives,
                    ..
                } => {
                    let host = &self.shared.host;
                    host.registered(uid, &name, &text, namespace.as_deref());
                    self.firings.registered(uid, derives.is_some());
                }
                Output::CohortFormed {
                    cohort,
                    shape,
                    text,
                    namespace,
                } => {
                    let host = &self.shared.host;
                    host.formed(cohort, shape, &text, namespace.as_deref());
                    self.firings.registered(cohort, false);
                }
                Output::MembersJoined {
                    cohort,
                    base,
                    members,
                    resumed,
                } => self.shared.host.joined(cohort, base, members, resumed),
                Output::MemberPaused { place, pause } => self.shared.host.paused(place, pause),
                Output::MemberDropped { place } => self.shared.host.left(place),
                Output::CohortEnded { cohort } => {
                    self.shared.host.ended(cohort);
                    self.firings.dropped(cohort);
                }
                Output::QueryDropped { uid, .. } => {
                    self.shared.host.dropped(uid);
                    self.firings.dropped(uid);
                }
                // Pauses are the coordinator's own; other outputs do not exist yet.
                _ => {}
            }
        }
        let outstanding = self.firings.outstanding() as u64;
        self.shared
            .outstanding
            .store(outstanding, Ordering::Relaxed);
        Ok(())
    }

    fn on_timers(&mut self) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.shared.store.dictionary().tidy(RECLAIMED_AT_A_TICK);
            // Time waits for slow queries as inputs do: what is due and not answered must not grow without end.
            let goes_on = self.shared.clock.ticks() && !self.backlogged();
            if goes_on && self.refuse_if_failed().is_ok() {
                let now_ms = self.shared.clock.now_ms();
                let inputs = self.shared.coordinator.lock().on_tick(now_ms);
                for input in inputs {
                    if let Err(error) = self.take_input(input) {
                        tracing::warn!("a stream's time could not go on: {error}");
                    }
                }
            }
        }
        if now >= self.next_expiry {
            self.next_expiry = now + EXPIRY;
            let expired = self
                .shared
                .store
                .snapshots()
                .expire(self.shared.uptime_ms());
            if expired > 0 {
                tracing::warn!("{expired} snapshots were pinned for too long and given up");
            }
            self.free_superseded();
            let floor = self.shared.store.snapshots().floor();
            self.shared.store.slices().forget_superseded(floor);
        }
        if let Some(since) = self.pending_since
            && now >= since + self.shared.config.freshness
            && self.refuse_if_failed().is_ok()
            && let Err(error) = self.cut_all()
        {
            tracing::warn!("no cut could be made: {error}");
        }
    }

    /// Has the shards free what large loads have replaced, once nobody reads it: where nothing more
    /// is written, no SN would come to do it.
    fn free_superseded(&mut self) {
        if self.shared.store.superseded() > 0
            && let Err(error) = self.fabric.tidy()
        {
            self.fail(RuntimeError::Fabric(error));
        }
    }

    fn until_timer(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.next_expiry;
        if self.shared.clock.ticks() {
            next = next.min(self.next_tick);
        }
        if let Some(since) = self.pending_since {
            next = next.min(since + self.shared.config.freshness);
        }
        if let Some((until, _)) = &self.stopping {
            next = next.min(*until);
        }
        next.saturating_duration_since(now)
    }

    /// Records a failure after which nothing becomes stable any more.
    pub(super) fn fail(&mut self, error: RuntimeError) {
        self.shared.failure.lock().get_or_insert(error);
    }

    fn report_failure(&mut self) {
        let Some(error) = self.shared.failure() else {
            return;
        };
        self.stability.give_up(&error);
        if !self.reported_failure {
            self.reported_failure = true;
            tracing::error!("{error}");
            self.shared.host.failed(&error);
        }
    }

    fn is_quiet(&self) -> bool {
        self.stability.unstable() == 0 && self.firings.outstanding() == 0 && self.derived.is_empty()
    }

    /// Who waits for a snapshot waits until the streams that are derived from what it holds have caught up, and sees what they
    /// hold by then: that makes a replay exact, and a source that says how far it is as slow as what follows from it.
    fn settle_derivations(&mut self) {
        let oldest = self.firings.oldest_underived();
        if !self.stability.has_underived(oldest) {
            return;
        }
        if let Err(error) = self.cut_all() {
            tracing::warn!("no cut could be made: {error}");
        }
        let newest = self.last_cut();
        self.stability.derived(oldest, newest);
        self.publish();
    }

    fn answer_quiescing(&mut self) {
        if self.quiescing.is_empty() {
            return;
        }
        let result = match self.shared.failure() {
            Some(error) => Err(error),
            None if self.is_quiet() => Ok(()),
            None => return,
        };
        for reply in self.quiescing.drain(..) {
            let _ = reply.send(result.clone());
        }
    }

    fn has_stopped(&self) -> bool {
        let Some((until, _)) = &self.stopping else {
            return false;
        };
        self.is_quiet() || self.shared.failure().is_some() || Instant::now() >= *until
    }

    /// Handles everything but requests until `done` holds or something has failed.
    pub(super) fn wait_until(
        &mut self,
        mut done: impl FnMut(&mut Sequencer) -> bool,
    ) -> Result<(), RuntimeError> {
        loop {
            let busy = self.fabric.drive();
            while let Ok(fired) = self.channels.fired.try_recv() {
                self.on_fired(fired);
            }
            self.publish();
            if done(self) {
                return Ok(());
            }
            if let Some(error) = self.shared.failure() {
                return Err(error);
            }
            if self.shared.aborted.load(Ordering::SeqCst) {
                return Err(RuntimeError::Stopped);
            }
            let wait = if busy {
                Duration::ZERO
            } else {
                // Only an abort comes without a signal.
                Duration::from_millis(200)
            };
            select! {
                recv(self.channels.fired) -> fired => {
                    if let Ok(fired) = fired {
                        self.on_fired(fired);
                    }
                }
                recv(self.channels.woken) -> _ => {}
                default(wait) => {}
            }
        }
    }
}
