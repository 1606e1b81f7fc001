//! Firings that have become due, between the driver and the pool. Each cohort has its share of the
//! threads ([`crate::order::firing_slots`]), and the next waiting firing follows the one that has
//! been executed.

use super::Registry;
use crate::cohort::Cohort;
use crate::evaluation::firing::Due;
use crate::order::firing_slots::Admission;
use somersault_pool::Class;
use somersault_runtime::FiringJob;
use std::sync::Arc;

impl Registry {
    /// Executes a firing, or queues it behind others of the same cohort.
    pub(super) fn take_due(self: Arc<Self>, job: FiringJob) {
        let Some(cohort) = self.cohort(job.firing.query) else {
            // Its last query was dropped earlier. The driver counts the firing all the same.
            if let Some(answered) = self.answered.get() {
                answered.tell(job.firing.key());
            }
            return;
        };
        cohort.note_freeze(self.freeze());
        let ticket = cohort.ticket();
        match cohort.slots().enter(Due { job, ticket }, &self.spare) {
            Admission::Now(due) => self.submit(cohort, due),
            Admission::Waits => {}
            Admission::Skipped(due) => {
                cohort.count_skipped(due.job.firing.sn);
                if cohort.leave_unanswered(&due) {
                    let pool = Arc::clone(&self.pool);
                    pool.submit(Class::Continuous, move || self.publish(&cohort));
                }
            }
        }
    }

    /// Submits a firing to the pool, and after it the waiting firings of the same cohort.
    fn submit(self: Arc<Self>, cohort: Arc<Cohort>, due: Due) {
        let pool = Arc::clone(&self.pool);
        pool.submit(Class::Continuous, move || {
            let uid = due.job.firing.query;
            if cohort.execute(&self.resources, due) {
                self.publish(&cohort);
            }
            while let Some(due) = cohort.slots().leave(&self.spare) {
                if self.cohort(uid).is_some() {
                    self.submit(cohort, due);
                    return;
                }
                // The firing is no longer executed, but others wait for its turn in the order of
                // answers.
                if cohort.leave_unanswered(&due) {
                    self.publish(&cohort);
                }
            }
        });
    }

    fn publish(&self, cohort: &Cohort) {
        cohort.publish(self.resources.decoder(), self.answered.get());
    }
}
