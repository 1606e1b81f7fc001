//! The seats of a query pool, a thread on each. A thread that has been at one query for long steps
//! back: the system gives it a lower priority, so that what is short comes first where there are
//! not cores enough for all, injection and firings above all.
//!
//! The one thing to know before changing it: a thread may lower its priority and not raise it
//! again. So one that has stepped back ends with the query, and another takes its seat; it is begun
//! by the thread that watches the seats, whose own priority was never lowered, since a thread
//! begins with the priority of who begins it. To begin one costs more than many a query takes: so a
//! thread steps back after it has itself been at the query for long, whoever was before, and none
//! ends sooner than so long after it began.

use crate::cores::{ThreadNumber, step_back, this_thread};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Who has been at one query for so long steps back.
pub(crate) const LONG: Duration = Duration::from_secs(1);
/// So often in that time it is looked who has.
const LOOKS: u32 = 4;

/// What the thread is told that watches the seats.
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

/// What its thread does.
#[derive(Default)]
struct Sitting {
    thread: Option<ThreadNumber>,
    /// Since when that has been going on which it is at, if it may take long.
    since: Option<Instant>,
    /// The query that it last helped with, by when that began, and for how long in all.
    helped: Option<(Instant, Duration)>,
    stepped_back: bool,
}

/// See the module.
pub(crate) struct Seat {
    pub(crate) number: usize,
    tell: Arc<Tell>,
    sitting: Mutex<Sitting>,
}

impl Seat {
    /// Called by a thread when it begins.
    pub(crate) fn take(&self) {
        *self.sitting.lock() = Sitting {
            thread: this_thread(),
            ..Sitting::default()
        };
    }

    /// Calls what may take long, which counts since then, and never panics.
    pub(crate) fn at_length<T>(&self, since: Instant, call: impl FnOnce() -> T) -> T {
        self.sitting.lock().since = Some(since);
        let result = call();
        self.sitting.lock().since = None;
        result
    }

    /// Calls what helps with a query that began then, and never panics. It counts with what the
    /// thread has helped with that query before, as if that had gone on until now: a heavy query is
    /// helped a stretch at a time, and short jobs come in between.
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

    /// Whether its thread has stepped back; it is to end then, and to say so with [`Seat::leave`].
    pub(crate) fn has_stepped_back(&self) -> bool {
        self.sitting.lock().stepped_back
    }

    /// The last that a thread does which has stepped back.
    pub(crate) fn leave(&self) {
        self.tell.told.lock().left.push(self.number);
        self.tell.news.notify_one();
    }

    /// Has its thread step back if it has been at something for longer.
    fn look(&self, long: Duration) {
        // Locked until it is done, so that a thread that comes to the end meanwhile knows of it.
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

/// How a thread is begun for a seat.
pub(crate) type Begin = dyn Fn(Arc<Seat>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// All seats of a pool.
pub(crate) struct Seats {
    shared: Arc<Shared>,
    watch: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    seats: Vec<Arc<Seat>>,
    tell: Arc<Tell>,
    /// By seat; none where no thread could be had, and at the end.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
    begin: Box<Begin>,
    long: Duration,
}

impl Seats {
    /// So many seats, a thread on each.
    ///
    /// # Errors
    /// The system gives no threads.
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

    /// Waits for all threads, which have been told to end; but not for the one that calls it.
    pub(crate) fn join(&self) {
        self.shared.tell.told.lock().stopping = true;
        self.shared.tell.news.notify_all();
        // It begins no thread after that.
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
    /// Begins a thread for a seat, after the one before has ended.
    fn fill(&self, number: usize) -> io::Result<()> {
        let before = self.threads.lock()[number].take();
        if let Some(before) = before {
            let _ = before.join();
        }
        let thread = (self.begin)(Arc::clone(&self.seats[number]))?;
        self.threads.lock()[number] = Some(thread);
        Ok(())
    }

    /// Looks so often, and no more often for the seats that are left meanwhile, for which it begins
    /// threads at once.
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

    /// So many seats, on which is done what is sent: either what is long, until the thread has
    /// stepped back, or what is not.
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
    fn who_is_long_steps_back_and_is_replaced() {
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
        // Two that begin, what was done, and the one that takes the seat of the one that was long.
        let seen: Vec<Seen> = told.iter().take(2 + 1 + 50 + 1).collect();
        assert_eq!(seen.iter().filter(|(_, back)| *back).count(), 1);
        drop(give);
        seats.join();
    }
}
