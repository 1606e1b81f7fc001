//! The query pool: threads that execute continuous and one-shot queries. Firings go first, but
//! after a number of them in a row a waiting one-shot query gets its turn. One thread never takes a
//! one-shot query, so long ones cannot hold up the firings. No job starves. Threads without a job
//! help with heavy queries, a share at a time (`task`). The thread kept for firings helps too; in a
//! pool of two threads it is the only helper. Spare threads run jobs that have waited for long, so
//! nothing waits for the end of a heavy query: then the system's scheduler shares out the cores,
//! and a one-shot query that has run for long comes after all others (`workers`).
//!
//! A pool without threads ([`QueryPool::manual`]) has the same queues. Its caller says when a job
//! runs and which one, among those that threads could be running at that time.

use crate::cores::{keep_to, look_out, usable};
use crate::helpers::{InlineWorkers, Workers};
use crate::queues::{Class, Job, Queues};
use crate::task::{self, Task};
use crate::workers::{LONG, Roster, Worker};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time that a thread spins before it goes to sleep, after it has helped or was told that help
/// will be wanted: the next shares of the same query come sooner than a thread wakes up.
const LOOK_OUT: Duration = Duration::from_micros(150);

/// The number of spare threads, for jobs that have waited too long. The last is kept for firings.
const SPARE_THREADS: usize = 3;

/// The jobs, and what wakes the threads that take them.
struct Dispatch {
    queues: Mutex<Queues>,
    wake: Condvar,
    /// Wakes spare threads.
    late: Condvar,
    /// The number of waiting jobs that a thread without a job could take; written with the queues
    /// locked.
    waiting: AtomicUsize,
    /// The number of times that work has arrived.
    came: AtomicUsize,
    /// The number of times that a heavy query has announced that it will want help.
    announced: AtomicUsize,
}

impl Dispatch {
    fn count_waiting(&self, queues: &Queues) {
        self.waiting.store(queues.waiting(), Ordering::Relaxed);
    }

    fn is_needed_elsewhere(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Runs a job that was taken. Returns the queues, locked.
    fn run(&self, worker: &Worker, class: Class, job: Job) -> MutexGuard<'_, Queues> {
        // A firing never steps back, and neither do its helpers, for whom it would have to wait.
        let begun = (class == Class::OneShot).then(Instant::now);
        let run = || task::begun(begun, || run_caught(job));
        match begun {
            Some(begun) => worker.run_timed(begun, run),
            None => run(),
        }
        self.ended(class)
    }

    /// Records that a job has ended. Returns the queues, locked.
    fn ended(&self, class: Class) -> MutexGuard<'_, Queues> {
        let mut queues = self.queues.lock();
        if queues.ended(class) {
            self.wake.notify_one();
        }
        self.count_waiting(&queues);
        queues
    }

    /// Drops the waiting jobs and makes the threads end.
    fn end(&self) {
        let dropped = self.queues.lock().stop();
        self.wake.notify_all();
        self.late.notify_all();
        drop(dropped);
    }

    /// Records that work has arrived.
    fn note_came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }

    fn new(threads: usize, spare_threads: usize) -> Arc<Dispatch> {
        Arc::new(Dispatch {
            queues: Mutex::new(Queues::new(threads - 1, spare_threads)),
            wake: Condvar::new(),
            late: Condvar::new(),
            waiting: AtomicUsize::new(0),
            came: AtomicUsize::new(0),
            announced: AtomicUsize::new(0),
        })
    }
}

/// Runs a job; a panic of it ends the job alone.
fn run_caught(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a query panicked; the thread goes on");
    }
}

/// The threads of a pool as helpers of one heavy query.
struct PoolWorkers {
    dispatch: Arc<Dispatch>,
    limit: usize,
}

impl Workers for PoolWorkers {
    fn limit(&self) -> usize {
        self.limit.min(usable())
    }

    fn wake(&self) {
        self.dispatch.announced.fetch_add(1, Ordering::Relaxed);
        (1..self.limit()).for_each(|_| _ = self.dispatch.wake.notify_one());
    }

    fn is_needed_elsewhere(&self) -> bool {
        self.dispatch.is_needed_elsewhere()
    }

    fn for_each_share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
        let mut called = None;
        let guarded = AssertUnwindSafe(|| {
            Task::run(shares, work, |task| {
                let helpers = self.limit().min(shares) - 1;
                let mut queues = self.dispatch.queues.lock();
                if queues.stopping {
                    return;
                }
                queues
                    .help
                    .extend(std::iter::repeat_n(Arc::clone(task), helpers));
                self.dispatch.note_came();
                drop(queues);
                (0..helpers).for_each(|_| _ = self.dispatch.wake.notify_one());
                called = Some(Arc::clone(task));
            });
        });
        let result = catch_unwind(guarded);
        if let Some(task) = called {
            let mut queues = self.dispatch.queues.lock();
            queues.help.retain(|other| !Arc::ptr_eq(other, &task));
        }
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The query pool; see the head of this file.
pub struct QueryPool {
    dispatch: Arc<Dispatch>,
    workers: Arc<dyn Workers>,
    /// None for a pool without threads.
    roster: Option<Roster>,
}

impl QueryPool {
    /// A pool of `threads` threads; at least two, since one is kept for firings.
    ///
    /// # Errors
    /// Fails if the system cannot start the threads.
    pub fn start(threads: usize) -> std::io::Result<QueryPool> {
        QueryPool::start_with(threads, SPARE_THREADS, LONG)
    }

    /// The number of jobs that a pool of `threads` threads may run at once.
    pub fn jobs_at_once(threads: usize) -> usize {
        threads.max(2) + SPARE_THREADS
    }

    fn start_with(
        threads: usize,
        spare_threads: usize,
        long: Duration,
    ) -> std::io::Result<QueryPool> {
        let threads = threads.max(2);
        let dispatch = Dispatch::new(threads, spare_threads);
        let workers = Arc::new(PoolWorkers {
            dispatch: Arc::clone(&dispatch),
            // A large pool leaves one thread for queries that arrive meanwhile.
            limit: if threads > 2 { threads - 1 } else { threads },
        });
        // Two threads that work on one query help only on two cores, and the system tends to put
        // threads that one thread wakes on the same core.
        let cores = usable();
        let for_threads = Arc::clone(&dispatch);
        let begin = move |worker: Arc<Worker>| {
            let dispatch = Arc::clone(&for_threads);
            let is_spare = worker.number >= threads;
            let core = (threads == cores && !is_spare).then_some(worker.number);
            let name = match is_spare {
                false => format!("query-{}", worker.number),
                true => format!("spare-{}", worker.number - threads),
            };
            std::thread::Builder::new()
                .name(name)
                // Deeply nested patterns are evaluated by recursion.
                .stack_size(16 << 20)
                .spawn(move || {
                    if let Some(core) = core {
                        keep_to(core);
                    }
                    worker.take();
                    match is_spare {
                        false => work(&dispatch, &worker),
                        true => stand_by(&dispatch, &worker),
                    }
                })
        };
        let roster =
            Roster::start(threads + spare_threads, long, Box::new(begin)).inspect_err(|_| {
                // The threads already started end by themselves.
                dispatch.end();
            })?;
        Ok(QueryPool {
            dispatch,
            workers,
            roster: Some(roster),
        })
    }

    /// A pool that stands for one of `threads` threads and has none: jobs wait until
    /// [`QueryPool::run_one`] runs them on its caller's thread. A heavy query works on all its
    /// shares there too, in an order that follows from `seed`.
    pub fn manual(threads: usize, seed: u64) -> QueryPool {
        let threads = threads.max(2);
        QueryPool {
            dispatch: Dispatch::new(threads, SPARE_THREADS),
            workers: Arc::new(InlineWorkers::new(threads, seed)),
            roster: None,
        }
    }

    /// The number of waiting jobs among which [`QueryPool::run_one`] chooses: those that threads
    /// could be running at this time.
    pub fn in_reach(&self) -> usize {
        self.dispatch.queues.lock().in_reach()
    }

    /// Runs one waiting job on this thread: of those in reach the one with the number `choice`,
    /// modulo how many there are. Returns whether there was one.
    pub fn run_one(&self, choice: u64) -> bool {
        let taken = self.dispatch.queues.lock().take_in_reach(choice);
        let Some((class, job)) = taken else {
            return false;
        };
        run_caught(job);
        drop(self.dispatch.ended(class));
        true
    }

    /// Queues a job. After [`QueryPool::stop`] it is dropped instead.
    pub fn submit(&self, class: Class, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.dispatch.queues.lock();
        if queues.stopping {
            return;
        }
        queues.push(class, Box::new(job));
        self.dispatch.count_waiting(&queues);
        self.dispatch.note_came();
        let is_stuck = queues.is_stuck();
        drop(queues);
        self.dispatch.wake.notify_one();
        if is_stuck {
            self.dispatch.late.notify_one();
        }
    }

    /// The threads of the pool, for executions that may be heavy.
    pub fn workers(&self) -> &Arc<dyn Workers> {
        &self.workers
    }

    /// The number of one-shot queries that wait or run.
    pub fn one_shots(&self) -> usize {
        let queues = self.dispatch.queues.lock();
        queues.one_shots()
    }

    /// Accepts no more jobs, drops the waiting ones, and waits for the running ones.
    pub fn stop(&self) {
        self.dispatch.end();
        if let Some(roster) = &self.roster {
            roster.join();
        }
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes and runs jobs until the pool stops or the thread has stepped back.
fn work(dispatch: &Dispatch, worker: &Worker) {
    let mut queues = dispatch.queues.lock();
    // Whether the thread's last work was helping, and the announcements that it has seen.
    let mut helped = false;
    let mut announced = dispatch.announced.load(Ordering::Relaxed);
    loop {
        if let Some((class, job)) = queues.take() {
            dispatch.count_waiting(&queues);
            drop(queues);
            helped = false;
            queues = dispatch.run(worker, class, job);
        } else if let Some(task) = queues.help.pop_front() {
            drop(queues);
            let help = || task.help(&|| dispatch.is_needed_elsewhere());
            let more = match task.begun() {
                Some(begun) => worker.help_timed(begun, help),
                None => help(),
            };
            helped = true;
            queues = dispatch.queues.lock();
            if more && !queues.stopping {
                queues.help.push_back(task);
            }
        } else if queues.stopping {
            return;
        } else {
            let newest = dispatch.announced.load(Ordering::Relaxed);
            queues.idle += 1;
            if std::mem::take(&mut helped) || newest != announced {
                announced = newest;
                let came = dispatch.came.load(Ordering::Relaxed);
                let something_came = || {
                    dispatch.came.load(Ordering::Relaxed) != came
                        || dispatch.announced.load(Ordering::Relaxed) != newest
                };
                MutexGuard::unlocked(&mut queues, || look_out(LOOK_OUT, something_came));
            } else {
                dispatch.wake.wait(&mut queues);
            }
            queues.idle -= 1;
        }
        if worker.has_stepped_back() {
            drop(queues);
            return worker.leave();
        }
    }
}

/// The loop of a spare thread: it runs jobs that have waited too long.
fn stand_by(dispatch: &Dispatch, worker: &Worker) {
    let mut queues = dispatch.queues.lock();
    while !queues.stopping {
        match queues.take_late(Instant::now()) {
            Ok((class, job)) => {
                dispatch.count_waiting(&queues);
                drop(queues);
                queues = dispatch.run(worker, class, job);
                if worker.has_stepped_back() {
                    drop(queues);
                    return worker.leave();
                }
            }
            Err(None) => dispatch.late.wait(&mut queues),
            Err(Some(left)) => _ = dispatch.late.wait_for(&mut queues, left),
        }
    }
}

#[cfg(test)]
mod tests;
