//! Firings that have become due, between the driver and the pool: each query, or group of queries, has its share of the threads
//! ([`crate::share`]), and whoever has been executed is followed by the next that waits.

use super::{Standing, StandingQuery};
use crate::cohort::Cohort;
use crate::share::{Entered, Share};
use crate::turns::Left;
use somersault_model::QueryUid;
use somersault_runtime::{Class, FiringJob};
use std::sync::Arc;

/// Standing queries of one shape.
#[derive(Clone)]
pub(super) struct Together {
    pub(super) cohort: Arc<Cohort>,
    pub(super) share: Arc<Share<Due>>,
}

/// What fires.
enum Firer {
    Alone(Arc<StandingQuery>),
    Together(Together),
}

/// A firing that is to be executed, and its place in the order of answers.
pub(super) struct Due {
    job: FiringJob,
    ticket: u64,
}

impl Firer {
    fn share(&self) -> &Share<Due> {
        match self {
            Firer::Alone(query) => &query.share,
            Firer::Together(together) => &together.share,
        }
    }

    fn ticket(&self) -> u64 {
        match self {
            Firer::Alone(query) => query.turns.order.ticket(),
            Firer::Together(together) => together.cohort.ticket(),
        }
    }
}

impl Standing {
    /// Executes a firing, or has it wait for others of the same query.
    pub(super) fn take_due(self: Arc<Self>, job: FiringJob) {
        let Some(firer) = self.firer(job.firing.query) else {
            self.tell_given_up(&job);
            return;
        };
        let ticket = firer.ticket();
        match firer.share().enter(Due { job, ticket }, &self.spare) {
            Entered::Now(due) => self.submit(firer, due),
            Entered::Waits => {}
            Entered::Skipped(due) => self.skip(firer, due),
        }
    }

    fn firer(&self, uid: QueryUid) -> Option<Firer> {
        let together = || self.cohorts.read().get(&uid).cloned();
        let alone = self.query(uid).map(Firer::Alone);
        alone.or_else(|| together().map(Firer::Together))
    }

    /// Has a firing executed, and after it those of the same query that have come to wait.
    fn submit(self: Arc<Self>, firer: Firer, due: Due) {
        let pool = Arc::clone(&self.pool);
        pool.submit(Class::Continuous, move || {
            let Due { job, ticket } = due;
            let uid = job.firing.query;
            match &firer {
                Firer::Alone(query) => self.execute(query, job, ticket),
                Firer::Together(Together { cohort, .. }) => {
                    cohort.execute(&self, job, ticket, self.answered.get());
                }
            }
            while let Some(due) = firer.share().leave(&self.spare) {
                if self.firer(uid).is_some() {
                    self.submit(firer, due);
                    return;
                }
                self.give_up(&firer, due);
            }
        });
    }

    /// Leaves a firing that waited and is not executed any more: it has a place in the order of answers, and others come after it.
    fn give_up(&self, firer: &Firer, Due { job, ticket }: Due) {
        match firer {
            Firer::Alone(query) => {
                if query.leave_unanswered(&job, ticket) {
                    self.give_out(query);
                }
            }
            Firer::Together(Together { cohort, .. }) => {
                cohort.give_up(self, job, ticket, self.answered.get());
            }
        }
    }

    /// A firing of a query that was dropped before is not executed: nobody waits for the answer, but the driver counts it.
    fn tell_given_up(&self, job: &FiringJob) {
        if let Some(answered) = self.answered.get() {
            answered.tell(job.firing.key());
        }
    }

    fn skip(self: Arc<Self>, firer: Firer, due: Due) {
        let Firer::Alone(query) = firer else {
            unreachable!("groups skip nothing");
        };
        query.tally.lock().skipped += 1;
        if query.leave_unanswered(&due.job, due.ticket) {
            let pool = Arc::clone(&self.pool);
            pool.submit(Class::Continuous, move || self.give_out(&query));
        }
    }
}

impl StandingQuery {
    /// Leaves a firing that has no answer. Whether answers are to be given out now.
    fn leave_unanswered(&self, job: &FiringJob, ticket: u64) -> bool {
        let left = Left {
            key: job.firing.key(),
            answered: None,
        };
        self.turns.order.leave(ticket, left)
    }
}
