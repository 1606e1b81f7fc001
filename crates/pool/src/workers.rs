//! The workers of a query pool: places for threads, with one thread in each. A thread that has
//! worked on one query for long steps back: the system gives it a lower priority. So short work
//! comes first when cores are scarce, injection and firings above all.
//!
//! The one thing to know before changing it: a thread may lower its priority but not raise it
//! again. So a thread that has stepped back ends with the query, and another takes its place. The
//! thread that watches the workers starts the new one: a thread starts with the priority of its
//! creator, and the priority of the watching thread is never lowered. Starting a thread costs more
//! than many queries take. So a thread steps back only after it has worked on the query for long
//! itself, whichever thread did before, and none ends sooner than that time after its start.

use crate::cores::{ThreadNumber, step_back, this_thread};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread that has worked on one query for this long steps back.
pub(crate) const LONG: Duration = Duration::from_secs(1);
/// The number of times within `LONG` that the workers are checked.
const LOOKS: u32 = 4;

/// What the watching thread has to do.
#[derive(Default)]
struct Departures {
    /// The workers whose threads have ended.
    left: Vec<usize>,
    stopping: bool,
}

#[derive(Default)]
struct Watcher {
    departures: Mutex<Departures>,
    changed: Condvar,
}

/// The thread of a worker, and its current work.
#[derive(Default)]
struct Occupancy {
    thread: Option<ThreadNumber>,
    /// The start of the thread's current work, if that may take long.
    since: Option<Instant>,
    /// The query that the thread helped with last, by its start time, and the total time spent on
    /// it.
    helped: Option<(Instant, Duration)>,
    stepped_back: bool,
}

/// The place of one thread in the pool; see the head of this file.
pub(crate) struct Worker {
    pub(crate) number: usize,
    watcher: Arc<Watcher>,
    occupancy: Mutex<Occupancy>,
}

impl Worker {
    /// Claims the place. A thread calls this when it starts.
    pub(crate) fn take(&self) {
        *self.occupancy.lock() = Occupancy {
            thread: this_thread(),
            ..Occupancy::default()
        };
    }

    /// Runs `call`, which never panics and may take long; its time counts from `since`.
    pub(crate) fn run_timed<T>(&self, since: Instant, call: impl FnOnce() -> T) -> T {
        self.occupancy.lock().since = Some(since);
        let result = call();
        self.occupancy.lock().since = None;
        result
    }

    /// Runs `call`, which never panics and helps with a query that began at `query`. Its time is
    /// added to what the thread has spent on that query before, as if that had continued until now:
    /// a thread helps a heavy query a stretch at a time, with short jobs in between.
    pub(crate) fn help_timed<T>(&self, query: Instant, call: impl FnOnce() -> T) -> T {
        let helped = self.occupancy.lock().helped;
        let before = helped.filter(|(other, _)| *other == query);
        let before = before.map_or(Duration::ZERO, |(_, before)| before);
        let now = Instant::now();
        let since = now.checked_sub(before).unwrap_or(now);
        let result = self.run_timed(since, call);
        self.occupancy.lock().helped = Some((query, since.elapsed()));
        result
    }

    /// Whether the thread has stepped back. It must then end, and say so with [`Worker::leave`].
    pub(crate) fn has_stepped_back(&self) -> bool {
        self.occupancy.lock().stepped_back
    }

    /// Gives the place up. A thread that has stepped back calls this last.
    pub(crate) fn leave(&self) {
        self.watcher.departures.lock().left.push(self.number);
        self.watcher.changed.notify_one();
    }

    /// Makes the thread step back if it has worked on one thing for longer than `long`.
    fn look(&self, long: Duration) {
        // The lock is held to the end, so that a thread that finishes meanwhile learns of it.
        let mut occupancy = self.occupancy.lock();
        let is_long = occupancy.since.is_some_and(|since| since.elapsed() >= long);
        if is_long
            && !occupancy.stepped_back
            && let Some(thread) = occupancy.thread
        {
            occupancy.stepped_back = step_back(thread);
        }
    }
}

/// Starts a thread for a worker.
pub(crate) type Begin = dyn Fn(Arc<Worker>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// All workers of a pool.
pub(crate) struct Roster {
    shared: Arc<Shared>,
    watch: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    workers: Vec<Arc<Worker>>,
    watcher: Arc<Watcher>,
    /// By worker; `None` where no thread could be started, and at the end.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
    begin: Box<Begin>,
    long: Duration,
}

impl Roster {
    /// Creates `count` workers, with a thread in each.
    ///
    /// # Errors
    /// Fails if the system cannot start the threads.
    pub(crate) fn start(count: usize, long: Duration, begin: Box<Begin>) -> io::Result<Roster> {
        let watcher = Arc::new(Watcher::default());
        let worker = |number| {
            Arc::new(Worker {
                number,
                watcher: Arc::clone(&watcher),
                occupancy: Mutex::default(),
            })
        };
        let workers = Roster {
            shared: Arc::new(Shared {
                workers: (0..count).map(worker).collect(),
                watcher,
                threads: Mutex::new((0..count).map(|_| None).collect()),
                begin,
                long,
            }),
            watch: Mutex::new(None),
        };
        (0..count).try_for_each(|number| workers.shared.fill(number))?;
        let shared = Arc::clone(&workers.shared);
        let watch = std::thread::Builder::new()
            .name("query-workers".to_owned())
            .spawn(move || shared.watch())?;
        *workers.watch.lock() = Some(watch);
        Ok(workers)
    }

    /// Waits for all threads, which have been departures to end, except for the calling one.
    pub(crate) fn join(&self) {
        self.shared.watcher.departures.lock().stopping = true;
        self.shared.watcher.changed.notify_all();
        // The watching thread starts no thread after that.
        if let Some(watch) = self.watch.lock().take() {
            let _ = watch.join();
        }
        let threads: Vec<_> = (self.shared.threads.lock().iter_mut())
            .filter_map(Option::take)
            .collect();
        let own = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != own {
                // A job's panic has been caught where it ran.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// Starts a thread for a worker, after the one before has ended.
    fn fill(&self, number: usize) -> io::Result<()> {
        let before = self.threads.lock()[number].take();
        if let Some(before) = before {
            let _ = before.join();
        }
        let thread = (self.begin)(Arc::clone(&self.workers[number]))?;
        self.threads.lock()[number] = Some(thread);
        Ok(())
    }

    /// Checks the workers `LOOKS` times in the time that counts as long, and no more often when
    /// threads end meanwhile: it replaces those at once.
    fn watch(&self) {
        let between = self.long / LOOKS;
        let mut next_look = Instant::now() + between;
        let mut departures = self.watcher.departures.lock();
        while !departures.stopping {
            let mut left = std::mem::take(&mut departures.left);
            MutexGuard::unlocked(&mut departures, || {
                if Instant::now() >= next_look {
                    self.workers
                        .iter()
                        .for_each(|worker| worker.look(self.long));
                    next_look = Instant::now() + between;
                }
                left.retain(|number| {
                    let begun = self.fill(*number);
                    if let Err(error) = &begun {
                        tracing::warn!(
                            "a query thread is missing, as the system gives none: {error}"
                        );
                    }
                    begun.is_err()
                });
            });
            if departures.left.is_empty() && !departures.stopping {
                self.watcher.changed.wait_until(&mut departures, next_look);
            }
            departures.left.append(&mut left);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cores::priority;
    use crossbeam_channel::{Receiver, Sender, unbounded};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A worker that has started or has done something, and whether its thread has stepped back by
    /// then.
    type Seen = (usize, bool);

    fn own_priority() -> i32 {
        priority(this_thread().expect("threads have numbers here"))
    }

    /// Creates `count` workers that do the work they receive: long work, which lasts until the
    /// thread has stepped back, or short work.
    fn workers(count: usize, work: Receiver<bool>, tell: Sender<Seen>) -> Roster {
        let normal = own_priority();
        let begin = move |worker: Arc<Worker>| {
            let (work, tell) = (work.clone(), tell.clone());
            std::thread::Builder::new().spawn(move || {
                worker.take();
                let see = || tell.send((worker.number, own_priority() > normal));
                let _ = see();
                while let Ok(is_long) = work.recv() {
                    let start = Instant::now();
                    let goes_on = || is_long && start.elapsed() < Duration::from_secs(60);
                    let work = || {
                        while goes_on() && own_priority() == normal {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    };
                    match is_long {
                        true => worker.run_timed(start, work),
                        false => work(),
                    }
                    let _ = see();
                    if worker.has_stepped_back() {
                        return worker.leave();
                    }
                }
            })
        };
        Roster::start(count, Duration::from_millis(20), Box::new(begin)).expect("there are threads")
    }

    #[test]
    fn a_long_running_thread_is_lowered_in_priority_and_replaced() {
        let (give, work) = unbounded();
        let (tell, told) = unbounded();
        let workers = workers(1, work, tell);
        let seen = || told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(seen(), (0, false));
        for _ in 0..3 {
            give.send(false).unwrap();
            assert_eq!(seen(), (0, false));
            give.send(true).unwrap();
            assert_eq!(seen(), (0, true), "it has stepped back");
            assert_eq!(seen(), (0, false), "another has taken its place");
        }
        drop(give);
        workers.join();
        drop(workers);
        assert!(told.recv().is_err(), "no thread is left");
    }

    /// A query that has been going on for long is helped by threads that are called away all the
    /// time.
    #[test]
    fn no_thread_ends_before_it_has_itself_been_at_it_for_long() {
        const LONG: Duration = Duration::from_millis(20);
        const THREADS: u32 = 6;
        let start = Instant::now();
        let query = start.checked_sub(100 * LONG).expect("it is up for longer");
        let (tell, told) = unbounded();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let begin = move |worker: Arc<Worker>| {
            let (tell, stop) = (tell.clone(), Arc::clone(&stopping));
            std::thread::Builder::new().spawn(move || {
                worker.take();
                let _ = tell.send(worker.number);
                while !stop.load(Ordering::Relaxed) {
                    worker.help_timed(query, || std::thread::sleep(LONG / 10));
                    if worker.has_stepped_back() {
                        return worker.leave();
                    }
                }
            })
        };
        let workers = Roster::start(2, LONG, Box::new(begin)).expect("there are threads");
        let mut begun = 0;
        while begun < THREADS {
            let worker = told.recv_timeout(Duration::from_secs(60));
            begun += u32::from(worker.expect("they step back nevertheless") == 0);
        }
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        workers.join();
        assert!(took >= LONG * (THREADS - 1), "{THREADS} in {took:?}");
    }

    #[test]
    fn the_others_stay_as_they_are() {
        let (give, work) = unbounded();
        let (tell, told) = unbounded();
        let workers = workers(2, work, tell);
        give.send(true).unwrap();
        (0..50).for_each(|_| give.send(false).unwrap());
        // The starts of two threads, the results of the work, and the start of the thread that
        // replaces the long one.
        let seen: Vec<Seen> = told.iter().take(2 + 1 + 50 + 1).collect();
        assert_eq!(seen.iter().filter(|(_, back)| *back).count(), 1);
        drop(give);
        workers.join();
    }
}
