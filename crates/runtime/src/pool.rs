//! The query pool: threads that execute continuous and one-shot queries. Firings go first, but after
//! so many of them in a row a waiting one-shot query gets its turn; and there is always one thread that
//! has not taken a one-shot query, so that long ones cannot hold up the firings. Nobody starves. Threads
//! for which there is no job help with heavy queries, a share at a time (`crew`). That may be the one left
//! for firings; on two threads it is. Spare threads take what has waited for long nevertheless, so that
//! nothing waits for the end of a heavy query: there the system's scheduler shares out the cores, and a
//! one-shot query that has run for long comes after all others (`seats`).

use crate::cores::{keep_to, look_out, usable};
use crate::crew::Task;
use crate::queues::{Class, Job, Queues};
use crate::seats::{LONG, Seat, Seats};
use parking_lot::{Condvar, Mutex, MutexGuard};
use somersault_query::Crew;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A thread that has helped, or was told that help will be wanted, looks out for so long before it goes
/// to sleep: the next shares of the same query come sooner than a thread wakes up.
const LOOK_OUT: Duration = Duration::from_micros(150);

/// How many threads there are for what has waited too long. The last is kept for firings.
const SPARE_THREADS: usize = 3;

struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
    /// Wakes spare threads.
    late: Condvar,
    /// How many jobs wait that a thread without a job could take; written with the queues locked.
    waiting: AtomicUsize,
    /// How often something to do has come.
    came: AtomicUsize,
    /// How often a heavy query has said that it will want help.
    announced: AtomicUsize,
}

impl Shared {
    fn count_waiting(&self, queues: &Queues) {
        self.waiting.store(queues.waiting(), Ordering::Relaxed);
    }

    fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Runs a job that was taken; gives the queues, locked.
    fn run(&self, seat: &Seat, class: Class, job: Job) -> MutexGuard<'_, Queues> {
        let run = || catch_unwind(AssertUnwindSafe(job));
        let result = match class {
            Class::OneShot => seat.at_length(Instant::now(), run),
            Class::Continuous => run(),
        };
        if result.is_err() {
            tracing::error!("a query panicked; the thread goes on");
        }
        let mut queues = self.queues.lock();
        if queues.ended(class) {
            self.wake.notify_one();
        }
        self.count_waiting(&queues);
        queues
    }

    /// Drops the jobs that wait and has threads end.
    fn end(&self) {
        let dropped = self.queues.lock().stop();
        self.wake.notify_all();
        self.late.notify_all();
        drop(dropped);
    }

    /// Called when something to do has come.
    fn note_came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
    }
}

/// The threads of a pool as helpers of one heavy query.
struct PoolCrew {
    shared: Arc<Shared>,
    hands: usize,
}

impl Crew for PoolCrew {
    fn hands(&self) -> usize {
        self.hands.min(usable())
    }

    fn ready(&self) {
        self.shared.announced.fetch_add(1, Ordering::Relaxed);
        (1..self.hands()).for_each(|_| _ = self.shared.wake.notify_one());
    }

    fn is_awaited(&self) -> bool {
        self.shared.is_awaited()
    }

    fn share(&self, shares: usize, work: &(dyn Fn(usize) + Sync)) {
        let mut called = None;
        let guarded = AssertUnwindSafe(|| {
            Task::run(shares, work, |task| {
                let helpers = self.hands().min(shares) - 1;
                let mut queues = self.shared.queues.lock();
                if queues.stopping {
                    return;
                }
                queues
                    .help
                    .extend(std::iter::repeat_n(Arc::clone(task), helpers));
                self.shared.note_came();
                drop(queues);
                (0..helpers).for_each(|_| _ = self.shared.wake.notify_one());
                called = Some(Arc::clone(task));
            });
        });
        let result = catch_unwind(guarded);
        if let Some(task) = called {
            let mut queues = self.shared.queues.lock();
            queues.help.retain(|other| !Arc::ptr_eq(other, &task));
        }
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    }
}

/// See the module.
pub struct QueryPool {
    shared: Arc<Shared>,
    crew: Arc<dyn Crew>,
    seats: Seats,
}

impl QueryPool {
    /// A pool of `threads` threads; at least two, since one is kept for firings.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn start(threads: usize) -> std::io::Result<QueryPool> {
        QueryPool::start_with(threads, SPARE_THREADS, LONG)
    }

    /// How many jobs a pool of so many threads may run at once.
    pub fn jobs_at_once(threads: usize) -> usize {
        threads.max(2) + SPARE_THREADS
    }

    fn start_with(
        threads: usize,
        spare_threads: usize,
        long: Duration,
    ) -> std::io::Result<QueryPool> {
        let threads = threads.max(2);
        let shared = Arc::new(Shared {
            queues: Mutex::new(Queues::new(threads - 1, spare_threads)),
            wake: Condvar::new(),
            late: Condvar::new(),
            waiting: AtomicUsize::new(0),
            came: AtomicUsize::new(0),
            announced: AtomicUsize::new(0),
        });
        let crew = Arc::new(PoolCrew {
            shared: Arc::clone(&shared),
            // Of many threads one is left for those who come meanwhile.
            hands: if threads > 2 { threads - 1 } else { threads },
        });
        // Two that work on one query are of use on two cores only, and where both are woken by one the
        // system tends to put them there.
        let cores = usable();
        let for_threads = Arc::clone(&shared);
        let begin = move |seat: Arc<Seat>| {
            let shared = Arc::clone(&for_threads);
            let is_spare = seat.number >= threads;
            let core = (threads == cores && !is_spare).then_some(seat.number);
            let name = match is_spare {
                false => format!("query-{}", seat.number),
                true => format!("spare-{}", seat.number - threads),
            };
            std::thread::Builder::new()
                .name(name)
                // Deeply nested patterns are evaluated by recursion.
                .stack_size(16 << 20)
                .spawn(move || {
                    if let Some(core) = core {
                        keep_to(core);
                    }
                    seat.take();
                    match is_spare {
                        false => work(&shared, &seat),
                        true => stand_by(&shared, &seat),
                    }
                })
        };
        let seats =
            Seats::start(threads + spare_threads, long, Box::new(begin)).inspect_err(|_| {
                // Those that have been begun end by themselves.
                shared.end();
            })?;
        Ok(QueryPool {
            shared,
            crew,
            seats,
        })
    }

    /// Queues a job. After [`QueryPool::stop`] it is dropped instead.
    pub fn submit(&self, class: Class, job: impl FnOnce() + Send + 'static) {
        let mut queues = self.shared.queues.lock();
        if queues.stopping {
            return;
        }
        queues.push(class, Box::new(job));
        self.shared.count_waiting(&queues);
        self.shared.note_came();
        let is_stuck = queues.is_stuck();
        drop(queues);
        self.shared.wake.notify_one();
        if is_stuck {
            self.shared.late.notify_one();
        }
    }

    /// The threads of the pool, to be given to executions that may be heavy.
    pub fn crew(&self) -> &Arc<dyn Crew> {
        &self.crew
    }

    /// How many one-shot queries wait or run.
    pub fn one_shots(&self) -> usize {
        let queues = self.shared.queues.lock();
        queues.one_shots()
    }

    /// Takes no more jobs, drops those that wait, and waits for those that run.
    pub fn stop(&self) {
        self.shared.end();
        self.seats.join();
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Until the pool stops, or the thread has stepped back.
fn work(shared: &Shared, seat: &Seat) {
    let mut queues = shared.queues.lock();
    // Whether the last that it did was helping, and which announcements it knows of.
    let mut helped = false;
    let mut announced = shared.announced.load(Ordering::Relaxed);
    loop {
        if let Some((class, job)) = queues.take() {
            shared.count_waiting(&queues);
            drop(queues);
            helped = false;
            queues = shared.run(seat, class, job);
        } else if let Some(task) = queues.help.pop_front() {
            drop(queues);
            let more = seat.at_length(task.begun(), || task.help(&|| shared.is_awaited()));
            helped = true;
            queues = shared.queues.lock();
            if more && !queues.stopping {
                queues.help.push_back(task);
            }
        } else if queues.stopping {
            return;
        } else {
            let newest = shared.announced.load(Ordering::Relaxed);
            queues.idle += 1;
            if std::mem::take(&mut helped) || newest != announced {
                announced = newest;
                let came = shared.came.load(Ordering::Relaxed);
                let something_came = || {
                    shared.came.load(Ordering::Relaxed) != came
                        || shared.announced.load(Ordering::Relaxed) != newest
                };
                MutexGuard::unlocked(&mut queues, || look_out(LOOK_OUT, something_came));
            } else {
                shared.wake.wait(&mut queues);
            }
            queues.idle -= 1;
        }
        if seat.has_stepped_back() {
            drop(queues);
            return seat.leave();
        }
    }
}

/// What a spare thread does: it runs what has waited too long.
fn stand_by(shared: &Shared, seat: &Seat) {
    let mut queues = shared.queues.lock();
    while !queues.stopping {
        match queues.take_late(Instant::now()) {
            Ok((class, job)) => {
                shared.count_waiting(&queues);
                drop(queues);
                queues = shared.run(seat, class, job);
                if seat.has_stepped_back() {
                    drop(queues);
                    return seat.leave();
                }
            }
            Err(None) => shared.late.wait(&mut queues),
            Err(Some(left)) => _ = shared.late.wait_for(&mut queues, left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn long_one_shots_leave_a_thread_for_firings() {
        let pool = QueryPool::start(2).unwrap();
        let (release, released) = unbounded::<()>();
        let (done, is_done) = unbounded();
        for _ in 0..4 {
            let released = released.clone();
            pool.submit(Class::OneShot, move || {
                let _ = released.recv();
            });
        }
        pool.submit(Class::Continuous, move || done.send(()).unwrap());
        is_done.recv().unwrap();
        drop(release);
        pool.stop();
    }

    #[test]
    fn nothing_waits_for_the_end_of_what_runs() {
        let pool = QueryPool::start(2).unwrap();
        let (started, is_started) = unbounded();
        let mut releases = Vec::new();
        // More than the threads of the pool, and none of them ends.
        for class in [
            Class::OneShot,
            Class::Continuous,
            Class::OneShot,
            Class::OneShot,
            Class::Continuous,
        ] {
            let (release, released) = unbounded::<()>();
            releases.push(release);
            let started = started.clone();
            pool.submit(class, move || {
                started.send(class).unwrap();
                let _ = released.recv();
            });
            assert_eq!(is_started.recv(), Ok(class));
        }
        releases.clear();
        pool.stop();
    }

    #[test]
    fn threads_are_awaited_for_what_they_may_take() {
        let pool = QueryPool::start_with(2, 0, LONG).unwrap();
        let (started, is_started) = unbounded();
        let busy = |class| {
            let (release, released) = unbounded::<()>();
            let started = started.clone();
            pool.submit(class, move || {
                started.send(()).unwrap();
                let _ = released.recv();
            });
            release
        };
        let first = busy(Class::OneShot);
        is_started.recv().unwrap();
        assert!(!pool.crew().is_awaited());
        // One thread is kept for firings, so that a second one-shot query calls no helper away.
        let second = busy(Class::OneShot);
        assert!(!pool.crew().is_awaited());
        let firing = busy(Class::Continuous);
        is_started.recv().unwrap();
        assert!(!pool.crew().is_awaited());
        let another = busy(Class::Continuous);
        assert!(pool.crew().is_awaited());
        drop((first, second, firing, another));
        is_started.recv().unwrap();
        is_started.recv().unwrap();
        assert!(!pool.crew().is_awaited());
        pool.stop();
    }

    #[test]
    fn idle_threads_help_and_leave_for_jobs() {
        let pool = Arc::new(QueryPool::start(3).unwrap());
        let crew = Arc::clone(pool.crew());
        assert_eq!(crew.hands(), 2);
        let threads = Mutex::new(std::collections::HashSet::new());
        let (done, is_done) = unbounded();
        let in_share = |share: usize| {
            threads.lock().insert(std::thread::current().id());
            if share == 40 {
                // A job for each thread: they are done before the last share is.
                for _ in 0..3 {
                    let done = done.clone();
                    pool.submit(Class::Continuous, move || done.send(()).unwrap());
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
            if share == 499 {
                (0..3).for_each(|_| is_done.recv().unwrap());
            }
        };
        crew.share(500, &in_share);
        assert!(threads.lock().len() <= 2);
        // Whatever the helpers left behind, jobs are taken and shares run as before.
        pool.submit(Class::OneShot, move || done.send(()).unwrap());
        is_done.recv().unwrap();
        let ran = std::sync::atomic::AtomicUsize::new(0);
        crew.share(8, &|_| {
            ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(ran.into_inner(), 8);
    }

    #[test]
    fn heavy_queries_of_many_threads_share_the_pool() {
        let pool = QueryPool::start(2).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let sum = AtomicUsize::new(0);
                        pool.crew().share(20, &|share| {
                            sum.fetch_add(share, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 190);
                    }
                });
            }
        });
        pool.stop();
        let sum = AtomicUsize::new(0);
        pool.crew().share(3, &|share| {
            sum.fetch_add(share, Ordering::Relaxed);
        });
        assert_eq!(
            sum.into_inner(),
            3,
            "without helpers the caller does it all"
        );
    }

    /// Firings, one-shot queries and heavy ones that ask for help, some of which panic, from several
    /// threads at once: each job runs once and each share is done once, whatever comes between.
    #[test]
    fn every_job_and_every_share_is_done_once_under_a_mixed_load() {
        const CLIENTS: usize = 4;
        const JOBS: usize = 150;
        for threads in [2, 3] {
            let pool = Arc::new(QueryPool::start(threads).unwrap());
            let (done, is_done) = unbounded();
            std::thread::scope(|scope| {
                for client in 0..CLIENTS {
                    let (pool, done) = (Arc::clone(&pool), done.clone());
                    scope.spawn(move || {
                        for number in 0..JOBS {
                            let class = match (client + number) % 3 {
                                0 => Class::Continuous,
                                _ => Class::OneShot,
                            };
                            let (crew, done) = (Arc::clone(pool.crew()), done.clone());
                            if number % 5 == 0 {
                                crew.ready();
                            }
                            pool.submit(class, move || {
                                let shares = number % 40;
                                let counts: Vec<AtomicUsize> =
                                    (0..shares).map(|_| AtomicUsize::new(0)).collect();
                                let panics = number % 10 == 7;
                                let shared = catch_unwind(AssertUnwindSafe(|| {
                                    crew.share(shares, &|share| {
                                        counts[share].fetch_add(1, Ordering::Relaxed);
                                        assert!(!panics || share != 3, "planted");
                                    });
                                }));
                                let counts = counts.into_iter().map(AtomicUsize::into_inner);
                                let right = match shared {
                                    Ok(()) => {
                                        !(panics && shares > 3) && counts.sum::<usize>() == shares
                                    }
                                    Err(_) => panics && counts.max() == Some(1),
                                };
                                done.send((client, number, right)).unwrap();
                            });
                        }
                    });
                }
            });
            drop(done);
            let mut seen: Vec<_> = (0..CLIENTS * JOBS)
                .map(|_| is_done.recv().unwrap())
                .collect();
            assert!(seen.iter().all(|(_, _, right)| *right));
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), CLIENTS * JOBS);
            pool.stop();
            assert!(is_done.try_recv().is_err(), "no job ran twice");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn long_one_shots_step_back_and_firings_do_not() {
        use crate::cores::{priority, this_thread};
        let pool = QueryPool::start_with(2, 1, Duration::from_millis(20)).unwrap();
        let own_priority = || priority(this_thread().unwrap());
        let normal = own_priority();
        let (done, is_done) = unbounded();
        // A job that ends when its thread has stepped back, or after so long.
        let run = |class, most| {
            let done = done.clone();
            pool.submit(class, move || {
                let start = Instant::now();
                while own_priority() == normal && start.elapsed() < most {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let own = std::thread::current().id();
                done.send((own_priority() > normal, own)).unwrap();
            });
            is_done.recv().unwrap()
        };
        for _ in 0..5 {
            let (stepped_back, thread) = run(Class::OneShot, Duration::from_secs(60));
            assert!(stepped_back);
            let (stepped_back, next) = run(Class::Continuous, Duration::from_millis(100));
            assert!(!stepped_back, "firings stay where they are");
            assert_ne!(next, thread, "who has stepped back takes no more");
        }
        let sum = AtomicUsize::new(0);
        let add = |share| _ = sum.fetch_add(share, Ordering::Relaxed);
        pool.crew().share(9, &add);
        assert_eq!(sum.into_inner(), 36);
        pool.stop();
    }

    #[test]
    fn a_panicking_query_does_not_take_its_thread_along() {
        let pool = QueryPool::start(2).unwrap();
        for _ in 0..4 {
            pool.submit(Class::OneShot, || panic!("planted"));
        }
        let (done, is_done) = unbounded();
        pool.submit(Class::OneShot, move || done.send(()).unwrap());
        is_done.recv().unwrap();
    }
}
