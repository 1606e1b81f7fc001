//! The waiting work of the query pool and the rules by which threads take it, without the threads.

use crate::task::Task;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this many firings in a row a waiting one-shot query goes first.
const FIRINGS_IN_A_ROW: u32 = 16;

/// After this time a spare thread takes a waiting job.
const PATIENCE: Duration = Duration::from_millis(10);

/// The kind of work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The firing of a continuous query.
    Continuous,
    /// A one-shot query.
    OneShot,
}

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A job, and the time since which it waits.
struct Waiting {
    job: Job,
    since: Instant,
}

/// The waiting jobs and help requests of a pool, and the counts that decide which of them a thread
/// may take.
#[derive(Default)]
pub(crate) struct Queues {
    continuous: VecDeque<Waiting>,
    one_shot: VecDeque<Waiting>,
    /// Heavy queries that want help, one entry for each helper. They come last.
    pub(crate) help: VecDeque<Arc<Task>>,
    /// Firings started since the last one-shot query while one was waiting.
    in_a_row: u32,
    one_shots_running: usize,
    /// The number of one-shot queries that may run at once, unless they have waited for long.
    one_shots_allowed: usize,
    /// The number of idle threads, without the spare ones.
    pub(crate) idle: usize,
    spare_threads: usize,
    pub(crate) stopping: bool,
}

impl Queues {
    /// Empty queues. At most `one_shots_allowed` one-shot queries run at once, and `spare_threads`
    /// of the threads are spare ones.
    pub(crate) fn new(one_shots_allowed: usize, spare_threads: usize) -> Queues {
        Queues {
            one_shots_allowed,
            spare_threads,
            ..Queues::default()
        }
    }

    pub(crate) fn push(&mut self, class: Class, job: Job) {
        let since = Instant::now();
        match class {
            Class::Continuous => self.continuous.push_back(Waiting { job, since }),
            Class::OneShot => self.one_shot.push_back(Waiting { job, since }),
        }
    }

    /// Records that a job has ended. Returns whether another job may be taken because of that.
    pub(crate) fn ended(&mut self, class: Class) -> bool {
        match class {
            Class::Continuous => false,
            Class::OneShot => {
                self.one_shots_running -= 1;
                !self.one_shot.is_empty()
            }
        }
    }

    /// The number of one-shot queries that wait or run.
    pub(crate) fn one_shots(&self) -> usize {
        self.one_shot.len() + self.one_shots_running
    }

    /// Closes the queues and returns the waiting jobs, which the caller drops without holding a
    /// lock.
    pub(crate) fn stop(&mut self) -> Vec<Job> {
        self.stopping = true;
        self.help.clear();
        let left = self.continuous.drain(..).chain(self.one_shot.drain(..));
        left.map(|waiting| waiting.job).collect()
    }

    /// The number of jobs that a thread could take now.
    pub(crate) fn waiting(&self) -> usize {
        self.continuous.len() + self.one_shot.len().min(self.places())
    }

    /// The number of one-shot queries that may be taken now.
    fn places(&self) -> usize {
        self.one_shots_allowed
            .saturating_sub(self.one_shots_running)
    }

    /// Whether some job has to wait for another to end.
    pub(crate) fn is_stuck(&self) -> bool {
        self.one_shot.len() > self.places() || self.waiting() > self.idle
    }

    pub(crate) fn take(&mut self) -> Option<(Class, Job)> {
        let may_one_shot =
            !self.one_shot.is_empty() && self.one_shots_running < self.one_shots_allowed;
        let its_turn = self.continuous.is_empty() || self.in_a_row >= FIRINGS_IN_A_ROW;
        if may_one_shot && its_turn {
            self.in_a_row = 0;
            self.one_shots_running += 1;
            let next = self.one_shot.pop_front();
            return next.map(|next| (Class::OneShot, next.job));
        }
        let next = self.continuous.pop_front()?;
        self.in_a_row = if may_one_shot { self.in_a_row + 1 } else { 0 };
        Some((Class::Continuous, next.job))
    }

    /// The numbers of waiting firings and one-shot queries that threads could be running at this
    /// time, the spare threads included.
    fn reach(&self) -> (usize, usize) {
        let firings = self.one_shots_allowed + 1 + self.spare_threads;
        let one_shots = self.most_one_shots().saturating_sub(self.one_shots_running);
        let waiting = (self.continuous.len(), self.one_shot.len());
        (waiting.0.min(firings), waiting.1.min(one_shots))
    }

    /// The number of jobs among which [`Queues::take_in_reach`] chooses.
    pub(crate) fn in_reach(&self) -> usize {
        let (firings, one_shots) = self.reach();
        firings + one_shots
    }

    /// Takes one of the jobs that threads could be running at this time, by its number.
    pub(crate) fn take_in_reach(&mut self, choice: u64) -> Option<(Class, Job)> {
        let (firings, one_shots) = self.reach();
        let number = choice.checked_rem((firings + one_shots) as u64)? as usize;
        if let Some(number) = number.checked_sub(firings) {
            self.one_shots_running += 1;
            let next = self.one_shot.remove(number)?;
            return Some((Class::OneShot, next.job));
        }
        let next = self.continuous.remove(number)?;
        Some((Class::Continuous, next.job))
    }

    /// The number of one-shot queries that may run at once where some have waited for long.
    fn most_one_shots(&self) -> usize {
        self.one_shots_allowed + self.spare_threads.saturating_sub(1)
    }

    /// Takes a job for a spare thread: one that has waited too long at `now`. Otherwise returns the
    /// time until there may be one, if any job waits.
    pub(crate) fn take_late(&mut self, now: Instant) -> Result<(Class, Job), Option<Duration>> {
        let left = |queue: &VecDeque<Waiting>| {
            let waited = now.saturating_duration_since(queue.front()?.since);
            Some(PATIENCE.saturating_sub(waited))
        };
        let firing = left(&self.continuous);
        let may_one_shot = self.one_shots_running < self.most_one_shots();
        let one_shot = left(&self.one_shot).filter(|_| may_one_shot);
        if firing == Some(Duration::ZERO)
            && let Some(next) = self.continuous.pop_front()
        {
            return Ok((Class::Continuous, next.job));
        }
        if one_shot == Some(Duration::ZERO)
            && let Some(next) = self.one_shot.pop_front()
        {
            self.one_shots_running += 1;
            return Ok((Class::OneShot, next.job));
        }
        Err(firing.into_iter().chain(one_shot).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firings_go_first_and_one_shots_get_their_turn() {
        let mut queues = Queues {
            one_shots_allowed: 1,
            ..Queues::default()
        };
        let nothing = || Waiting {
            job: Box::new(|| ()),
            since: Instant::now(),
        };
        queues.continuous.extend((0..40).map(|_| nothing()));
        queues.one_shot.extend((0..2).map(|_| nothing()));
        let mut order = Vec::new();
        while let Some((class, _)) = queues.take() {
            if class == Class::OneShot {
                queues.one_shots_running -= 1;
            }
            order.push(class);
        }
        assert_eq!(order.len(), 42);
        assert_eq!(order[16], Class::OneShot);
        assert_eq!(order[33], Class::OneShot);
        assert_eq!(order[0], Class::Continuous);
    }

    #[test]
    fn the_last_spare_thread_is_kept_for_firings() {
        let now = Instant::now();
        let late = || Waiting {
            job: Box::new(|| ()),
            since: now - PATIENCE,
        };
        let mut queues = Queues {
            one_shots_allowed: 1,
            one_shots_running: 2,
            spare_threads: 2,
            ..Queues::default()
        };
        queues.one_shot.push_back(late());
        assert!(matches!(queues.take_late(now), Err(None)));
        queues.continuous.push_back(late());
        assert!(matches!(queues.take_late(now), Ok((Class::Continuous, _))));
        queues.one_shots_running = 1;
        assert!(matches!(queues.take_late(now), Ok((Class::OneShot, _))));
        assert_eq!(queues.one_shots_running, 2);
        // A new job is left to the other threads for a while.
        queues.continuous.push_back(Waiting {
            since: now,
            ..late()
        });
        assert_eq!(queues.take_late(now).map(|_| ()), Err(Some(PATIENCE)));
    }
}
