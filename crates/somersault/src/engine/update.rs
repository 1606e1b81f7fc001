//! Updates, and changes of whole graphs.
//!
//! 1. The documents of LOAD are read on the caller's thread, before anything else.
//! 2. The update is a transaction of the driver's lane, over a stable snapshot with all that
//!    committed since (S15).
//! 3. If it turns out to call another machine (SERVICE), nothing of it stays, and it is evaluated
//!    again while the driver takes no other input: the lane never waits for another machine.

use super::{Engine, UpdateOptions, UpdateSummary};
use crate::error::EngineError;
use oxrdf::Quad;
use parking_lot::Mutex;
use somersault_lang::{Update, UpdateOperation};
use somersault_model::StreamUid;
use somersault_query::{
    Execution, QueryError, Remote, RemoteSolutions, UpdateKey, Using, evaluate_update,
};
use somersault_runtime::{Change, ChangeJob, Pending, UpdateJob, UpdateOutcome, UpdateResult};
use somersault_store::Snapshot;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// The terms that an update mentions outside the lane are leased under this uid, which no stream
/// has.
const LEASE: StreamUid = StreamUid(u32::MAX - 1);

impl Engine {
    /// Carries out an update and returns when its effects are stable (S15).
    pub(super) fn carry_out(
        &self,
        text: &str,
        options: &UpdateOptions,
    ) -> Result<UpdateSummary, EngineError> {
        let update = self.parsed_update(text, options)?;
        self.carry_out_parsed(update, options)
    }

    /// Hands an update in, if it need not wait for anything before.
    pub(super) fn begin_update(
        &self,
        text: &str,
        options: &UpdateOptions,
    ) -> Result<BegunUpdate, EngineError> {
        let update = self.parsed_update(text, options)?;
        if !update.calls_other_machines() {
            let using = Arc::new(options.using());
            let execution = self.one_shot_execution(options.timeout, None);
            let job = self.job(&update, &using, None);
            if let Some(pending) = self.inner.driver.hand_in_update(job, execution)? {
                let engine = self.clone();
                return Ok(BegunUpdate::HandedIn(PendingUpdate { engine, pending }));
            }
        }
        Ok(BegunUpdate::Deferred(DeferredUpdate {
            engine: self.clone(),
            update,
            options: options.clone(),
        }))
    }

    fn parsed_update(
        &self,
        text: &str,
        options: &UpdateOptions,
    ) -> Result<Arc<Update>, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let update = self.parser(options.base.as_deref()).parse_update(text)?;
        Ok(Arc::new(update))
    }

    fn carry_out_parsed(
        &self,
        update: Arc<Update>,
        options: &UpdateOptions,
    ) -> Result<UpdateSummary, EngineError> {
        let using = Arc::new(options.using());
        let execution = self.one_shot_execution(options.timeout, None);
        if !update.calls_other_machines() {
            let job = self.job(&update, &using, None);
            return self.done(self.inner.driver.update(job, execution)?);
        }
        let documents = match &execution.remote {
            None => None,
            Some(remote) => Some(Arc::new(Documents::read(&**remote, &update)?)),
        };
        let on_lane = Execution {
            remote: (documents.clone()).map(|documents| documents as Arc<dyn Remote>),
            ..execution.clone()
        };
        let job = self.job(&update, &using, documents.clone());
        let outcome = self.inner.driver.update(job, on_lane)?;
        match documents.is_some_and(|it| it.calls_other.load(Ordering::Relaxed)) {
            true => self.carry_out_alone(update, using, execution),
            false => self.done(outcome),
        }
    }

    /// The summary of an update that has ended.
    fn done(&self, outcome: UpdateOutcome) -> Result<UpdateSummary, EngineError> {
        match outcome {
            UpdateOutcome::Failed(error) => Err(self.evaluation_error(error)),
            UpdateOutcome::Done(result) => {
                self.inner.counters.updates.fetch_add(1, Ordering::Relaxed);
                Ok(result.into())
            }
        }
    }

    fn job(
        &self,
        update: &Arc<Update>,
        using: &Arc<Option<Using>>,
        documents: Option<Arc<Documents>>,
    ) -> UpdateJob {
        let environment = Arc::clone(&self.inner.environment);
        let (update, using) = (Arc::clone(update), Arc::clone(using));
        Box::new(move |txn, key| {
            if let Some(documents) = &documents {
                documents.next.store(0, Ordering::Relaxed);
            }
            // NOW() is the time of the newest stable SN when the update is evaluated, not of the
            // one when it was sent (S6).
            txn.enter_update(key, environment.stable_time());
            txn.update(&update, Option::as_ref(&using))?;
            match &documents {
                Some(documents) if documents.calls_other.load(Ordering::Relaxed) => {
                    let what = "SERVICE on the lane of transactions".to_owned();
                    Err(QueryError::RemoteNotAllowed { what })
                }
                _ => Ok(()),
            }
        })
    }

    /// Carries out an update that calls other machines.
    fn carry_out_alone(
        &self,
        update: Arc<Update>,
        using: Arc<Option<Using>>,
        mut execution: Execution,
    ) -> Result<UpdateSummary, EngineError> {
        let environment = Arc::clone(&self.inner.environment);
        let result = self.evaluate_and_apply(0, move |snapshot| {
            execution.now = environment.stable_time();
            let lease = snapshot.store().dictionary().lease(LEASE);
            // No update of the lane that leaves something has this number.
            let key = UpdateKey {
                base: snapshot.sn(),
                number: 0,
            };
            let how = (&execution, key);
            let effects = evaluate_update(&update, Option::as_ref(&using), snapshot, how, lease);
            effects.map_err(EngineError::from)
        })?;
        Ok(result.into())
    }

    /// Has the driver compute a change on the newest snapshot and apply its result; if the job
    /// fails, nothing happens. The job holds statements of `bytes` bytes.
    pub(super) fn evaluate_and_apply<C: Into<Change>>(
        &self,
        bytes: usize,
        evaluate: impl FnOnce(Snapshot) -> Result<C, EngineError> + Send + 'static,
    ) -> Result<UpdateResult, EngineError> {
        let failure = Arc::new(Mutex::new(None));
        let reported = Arc::clone(&failure);
        let job: ChangeJob = Box::new(move |snapshot| {
            let run = AssertUnwindSafe(|| evaluate(snapshot).map(Into::into));
            let result = catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
            result.map_err(|error| *reported.lock() = Some(error)).ok()
        });
        let result = self.inner.driver.change(job, bytes)?;
        if let Some(error) = failure.lock().take() {
            return Err(error);
        }
        self.inner.counters.updates.fetch_add(1, Ordering::Relaxed);
        Ok(result)
    }
}

/// An update that was begun; made by [`super::UpdateRequest::begin`].
#[must_use = "an update may be refused, which only its answer tells"]
pub enum BegunUpdate {
    /// It was handed in, and is answered without a thread that waits for it.
    HandedIn(PendingUpdate),
    /// It was not handed in, because it has to wait for something before: for other machines, or
    /// until the engine takes it.
    Deferred(DeferredUpdate),
}

/// An update that was handed in. As a future it ends when the update's effects are in a stable
/// snapshot. Dropping it does not take the update back.
#[must_use = "an update may be refused, which only its answer tells"]
pub struct PendingUpdate {
    engine: Engine,
    pending: Pending<UpdateOutcome>,
}

impl PendingUpdate {
    /// Waits until the update's effects are in a stable snapshot.
    ///
    /// # Errors
    /// As [`super::UpdateRequest::run`].
    pub fn wait(self) -> Result<UpdateSummary, EngineError> {
        self.engine.done(self.pending.wait()?)
    }
}

impl Future for PendingUpdate {
    type Output = Result<UpdateSummary, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.pending).poll(context);
        outcome.map(|outcome| self.engine.done(outcome?))
    }
}

/// An update that was parsed and not handed in.
#[must_use = "nothing has happened before it is run"]
pub struct DeferredUpdate {
    engine: Engine,
    update: Arc<Update>,
    options: UpdateOptions,
}

impl DeferredUpdate {
    /// Carries out the update, as [`super::UpdateRequest::run`] does; for a thread that may wait.
    ///
    /// # Errors
    /// As [`super::UpdateRequest::run`].
    pub fn run(self) -> Result<UpdateSummary, EngineError> {
        self.engine.carry_out_parsed(self.update, &self.options)
    }
}

fn panicked() -> EngineError {
    EngineError::Internal("the evaluation panicked".to_owned())
}

/// The documents that an update loads, in the order of its operations.
struct Documents {
    read: Vec<Result<Vec<Quad>, String>>,
    /// The number of the document that is asked for next.
    next: AtomicUsize,
    /// Whether the update has called another machine, which is not done here.
    calls_other: AtomicBool,
}

impl Documents {
    fn read(remote: &dyn Remote, update: &Update) -> Result<Documents, EngineError> {
        let mut read = Vec::new();
        for operation in &update.operations {
            if let UpdateOperation::Load { source, .. } = operation {
                let document = AssertUnwindSafe(|| remote.document(source.as_str()));
                read.push(catch_unwind(document).map_err(|_| panicked())?);
            }
        }
        Ok(Documents {
            read,
            next: AtomicUsize::new(0),
            calls_other: AtomicBool::new(false),
        })
    }
}

impl Remote for Documents {
    fn select(&self, endpoint: &str, _query: &str) -> Result<RemoteSolutions, String> {
        self.calls_other.store(true, Ordering::Relaxed);
        Err(format!("{endpoint} is not called here"))
    }

    fn document(&self, iri: &str) -> Result<Vec<Quad>, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let unread = || Err(format!("{iri} has not been read"));
        self.read.get(number).cloned().unwrap_or_else(unread)
    }
}

impl From<UpdateResult> for UpdateSummary {
    fn from(result: UpdateResult) -> Self {
        UpdateSummary {
            sn: result.sn,
            inserted: result.inserted,
            deleted: result.deleted,
        }
    }
}
