//! The seats of a query pool, a thread on each. A thread that has worked on one query for long
//! steps back: the system gives it a lower priority. So short work comes first when cores are
//! scarce, injection and firings above all.
//!
//! The one thing to know before changing it: a thread may lower its priority but not raise it
//! again. So a thread that has stepped back ends with the query, and another takes its seat. The
//! thread that watches the seats starts the new one: a thread starts with the priority of its
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
/// The number of times within `LONG` that the seats are checked.
const LOOKS: u32 = 4;

/// The messages to the thread that watches the seats.
#[derive(Default)]
struct Told {
    /// The seats that have been left.
    left: Vec<usize>,
    stopping: bool,
}

#[derive(Default)]
struct Tell {
    told: Mutex<Told>,
    news: Condvar,
}

/// The current work of a seat's thread.
#[derive(Default)]
struct Sitting {
    thread: Option<ThreadNumber>,
    /// The start of the thread's current work, if that may take long.
    since: Option<Instant>,
    /// The query that the thread helped with last, by its start time, and the total time spent on
    /// it.
    helped: Option<(Instant, Duration)>,
    stepped_back: bool,
}

/// The place of one thread in the pool; see the head of this file.
pub(crate) struct Seat {
    pub(crate) number: usize,
    tell: Arc<Tell>,
    sitting: Mutex<Sitting>,
}

impl Seat {
    /// Claims the seat. A thread calls this when it starts.
    pub(crate) fn take(&self) {
        *self.sitting.lock() = Sitting {
            thread: this_thread(),
            ..Sitting::default()
        };
    }

    /// Runs `call`, which never panics and may take long; its time counts from `since`.
    pub(crate) fn at_length<T>(&self, since: Instant, call: impl FnOnce() -> T) -> T {
        self.sitting.lock().since = Some(since);
        let result = call();
        self.sitting.lock().since = None;
        result
    }

    /// Runs `call`, which never panics and helps with a query that began at `query`. Its time is
    /// added to what the thread has spent on that query before, as if that had continued until now:
    /// a thread helps a heavy query a stretch at a time, with short jobs in between.
    pub(crate) fn help_at_length<T>(&self, query: Instant, call: impl FnOnce() -> T) -> T {
        let helped = self.sitting.lock().helped;
        let before = helped.filter(|(other, _)| *other == query);
        let before = before.map_or(Duration::ZERO, |(_, before)| before);
        let now = Instant::now();
        let since = now.checked_sub(before).unwrap_or(now);
        let result = self.at_length(since, call);
        self.sitting.lock().helped = Some((query, since.elapsed()));
        result
    }

    /// Whether the seat's thread has stepped back. It must then end, and say so with
    /// [`Seat::leave`].
    pub(crate) fn has_stepped_back(&self) -> bool {
        self.sitting.lock().stepped_back
    }

    /// Gives the seat up. A thread that has stepped back calls this last.
    pub(crate) fn leave(&self) {
        self.tell.told.lock().left.push(self.number);
        self.tell.news.notify_one();
    }

    /// Makes the seat's thread step back if it has worked on one thing for longer than `long`.
    fn look(&self, long: Duration) {
        // The lock is held to the end, so that a thread that finishes meanwhile learns of it.
        let mut sitting = self.sitting.lock();
        let is_long = sitting.since.is_some_and(|since| since.elapsed() >= long);
        if is_long
            && !sitting.stepped_back
            && let Some(thread) = sitting.thread
        {
            sitting.stepped_back = step_back(thread);
        }
    }
}

/// Starts a thread for a seat.
pub(crate) type Begin = dyn Fn(Arc<Seat>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// All seats of a pool.
pub(crate) struct Seats {
    shared: Arc<Shared>,
    watch: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    seats: Vec<Arc<Seat>>,
    tell: Arc<Tell>,
    /// By seat; `None` where no thread could be started, and at the end.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
    begin: Box<Begin>,
    long: Duration,
}

impl Seats {
    /// Creates `count` seats, with a thread on each.
    ///
    /// # Errors
    /// Fails if the system cannot start the threads.
    pub(crate) fn start(count: usize, long: Duration, begin: Box<Begin>) -> io::Result<Seats> {
        let tell = Arc::new(Tell::default());
        let seat = |number| {
            Arc::new(Seat {
                number,
                tell: Arc::clone(&tell),
                sitting: Mutex::default(),
            })
        };
        let seats = Seats {
            shared: Arc::new(Shared {
                seats: (0..count).map(seat).collect(),
                tell,
                threads: Mutex::new((0..count).map(|_| None).collect()),
                begin,
                long,
            }),
            watch: Mutex::new(None),
        };
        (0..count).try_for_each(|number| seats.shared.fill(number))?;
        let shared = Arc::clone(&seats.shared);
        let watch = std::thread::Builder::new()
            .name("query-seats".to_owned())
            .spawn(move || shared.watch())?;
        *seats.watch.lock() = Some(watch);
        Ok(seats)
    }

    /// Waits for all threads, which have been told to end, except for the calling one.
    pub(crate) fn join(&self) {
        self.shared.tell.told.lock().stopping = true;
        self.shared.tell.news.notify_all();
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
    /// Starts a thread for a seat, after the one before has ended.
    fn fill(&self, number: usize) -> io::Result<()> {
        let before = self.threads.lock()[number].take();
        if let Some(before) = before {
            let _ = before.join();
        }
        let thread = (self.begin)(Arc::clone(&self.seats[number]))?;
        self.threads.lock()[number] = Some(thread);
        Ok(())
    }

    /// Checks the seats `LOOKS` times in the time that counts as long, and no more often when seats
    /// are left meanwhile: it starts threads for those at once.
    fn watch(&self) {
        let between = self.long / LOOKS;
        let mut next_look = Instant::now() + between;
        let mut told = self.tell.told.lock();
        while !told.stopping {
            let mut left = std::mem::take(&mut told.left);
            MutexGuard::unlocked(&mut told, || {
                if Instant::now() >= next_look {
                    self.seats.iter().for_each(|seat| seat.look(self.long));
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
            if told.left.is_empty() && !told.stopping {
                self.tell.news.wait_until(&mut told, next_look);
            }
            told.left.append(&mut left);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cores::priority;
    use crossbeam_channel::{Receiver, Sender, unbounded};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A seat that is taken, or that something has been done on, and whether its thread has stepped
    /// back by then.
    type Seen = (usize, bool);

    fn own_priority() -> i32 {
        priority(this_thread().expect("threads have numbers here"))
    }

    /// Creates `count` seats that do the work they receive: long work, which lasts until the thread
    /// has stepped back, or short work.
    fn seats(count: usize, work: Receiver<bool>, tell: Sender<Seen>) -> Seats {
        let normal = own_priority();
        let begin = move |seat: Arc<Seat>| {
            let (work, tell) = (work.clone(), tell.clone());
            std::thread::Builder::new().spawn(move || {
                seat.take();
                let see = || tell.send((seat.number, own_priority() > normal));
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
                        true => seat.at_length(start, work),
                        false => work(),
                    }
                    let _ = see();
                    if seat.has_stepped_back() {
                        return seat.leave();
                    }
                }
            })
        };
        Seats::start(count, Duration::from_millis(20), Box::new(begin)).expect("there are threads")
    }

    #[test]
    fn a_long_running_thread_is_lowered_in_priority_and_replaced() {
        let (give, work) = unbounded();
        let (tell, told) = unbounded();
        let seats = seats(1, work, tell);
        let seen = || told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(seen(), (0, false));
        for _ in 0..3 {
            give.send(false).unwrap();
            assert_eq!(seen(), (0, false));
            give.send(true).unwrap();
            assert_eq!(seen(), (0, true), "it has stepped back");
            assert_eq!(seen(), (0, false), "another has taken the seat");
        }
        drop(give);
        seats.join();
        drop(seats);
        assert!(told.recv().is_err(), "nobody is left");
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
        let begin = move |seat: Arc<Seat>| {
            let (tell, stop) = (tell.clone(), Arc::clone(&stopping));
            std::thread::Builder::new().spawn(move || {
                seat.take();
                let _ = tell.send(seat.number);
                while !stop.load(Ordering::Relaxed) {
                    seat.help_at_length(query, || std::thread::sleep(LONG / 10));
                    if seat.has_stepped_back() {
                        return seat.leave();
                    }
                }
            })
        };
        let seats = Seats::start(2, LONG, Box::new(begin)).expect("there are threads");
        let mut begun = 0;
        while begun < THREADS {
            let seat = told.recv_timeout(Duration::from_secs(60));
            begun += u32::from(seat.expect("they step back nevertheless") == 0);
        }
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        seats.join();
        assert!(took >= LONG * (THREADS - 1), "{THREADS} in {took:?}");
    }

    #[test]
    fn the_others_stay_as_they_are() {
        let (give, work) = unbounded();
        let (tell, told) = unbounded();
        let seats = seats(2, work, tell);
        give.send(true).unwrap();
        (0..50).for_each(|_| give.send(false).unwrap());
        // The starts of two threads, the results of the work, and the start of the thread that
        // replaces the long one.
        let seen: Vec<Seen> = told.iter().take(2 + 1 + 50 + 1).collect();
        assert_eq!(seen.iter().filter(|(_, back)| *back).count(), 1);
        drop(give);
        seats.join();
    }
}
