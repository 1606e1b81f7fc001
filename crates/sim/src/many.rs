//! Runs many seeds on several threads at once; seeds share nothing. A seed that fails, panics or
//! runs for long is named by its number.

use crate::report::{Failure, Summary};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// After this many failures no further seed is started.
pub const MOST_FAILURES: usize = 5;

/// An event to report while seeds run.
#[derive(Debug)]
pub enum Event {
    /// A seed has passed.
    Passed(u64, Summary),
    /// A seed has failed, and why: a [`Failure`] in words, or a panic.
    Failed(u64, String),
    /// Neither has happened for a while.
    Waiting,
}

/// The seeds that run now, and the start of each.
#[derive(Debug, Default)]
pub struct Running(Mutex<Vec<(u64, Instant)>>);

impl Running {
    fn of<T>(&self, seed: u64, run: impl FnOnce() -> T) -> T {
        self.change(|all| all.push((seed, Instant::now())));
        let result = run();
        self.change(|all| all.retain(|(other, _)| *other != seed));
        result
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(u64, Instant)>)) {
        let mut all = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        change(&mut all);
    }

    /// The one that has run for longest.
    pub fn oldest(&self) -> Option<(u64, Duration)> {
        let mut oldest = None;
        self.change(|all| oldest = all.iter().min_by_key(|(_, since)| *since).copied());
        oldest.map(|(seed, since)| (seed, since.elapsed()))
    }
}

/// Runs seeds on `threads` threads. Calls `on` when a seed ends, and at regular intervals
/// otherwise. Returns the seeds that failed, ascending.
pub fn run_many(
    seeds: Range<u64>,
    threads: usize,
    run: &(dyn Fn(u64) -> Result<Summary, Failure> + Sync),
    tell_every: Duration,
    on: &mut dyn FnMut(Event, &Running),
) -> Vec<u64> {
    let (next, failures) = (AtomicU64::new(seeds.start), AtomicUsize::new(0));
    let take = || {
        let goes_on = failures.load(Ordering::Relaxed) < MOST_FAILURES;
        let next = || next.fetch_add(1, Ordering::Relaxed);
        goes_on.then(next).filter(|seed| seeds.contains(seed))
    };
    let running = Running::default();
    let (tell, told) = channel();
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (tell, take) = (tell.clone(), &take);
            let (running, failures) = (&running, &failures);
            scope.spawn(move || {
                while let Some(seed) = take() {
                    let event = running.of(seed, || one(seed, run));
                    if matches!(event, Event::Failed(..)) {
                        failures.fetch_add(1, Ordering::Relaxed);
                    }
                    if tell.send(event).is_err() {
                        break;
                    }
                }
            });
        }
        drop(tell);
        loop {
            match told.recv_timeout(tell_every) {
                Ok(event) => {
                    if let Event::Failed(seed, _) = &event {
                        failed.push(*seed);
                    }
                    on(event, &running);
                }
                Err(RecvTimeoutError::Timeout) => on(Event::Waiting, &running),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    failed.sort_unstable();
    failed
}

fn one(seed: u64, run: &dyn Fn(u64) -> Result<Summary, Failure>) -> Event {
    match catch_unwind(AssertUnwindSafe(|| run(seed))) {
        Ok(Ok(summary)) => Event::Passed(seed, summary),
        Ok(Err(failure)) => Event::Failed(seed, failure.to_string()),
        Err(panic) => {
            let words = (panic.downcast_ref::<String>().map(String::as_str))
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("without words");
            Event::Failed(seed, format!("seed {seed}: it panicked: {words}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(seed: u64) -> Failure {
        Failure {
            seed,
            step: 3,
            what: "planted".to_owned(),
            again: format!("somersault-sim --seed {seed}"),
            history: String::new(),
        }
    }

    #[test]
    fn each_seed_runs_once_and_failures_are_named() {
        for threads in [1, 3] {
            let run = |seed: u64| match seed {
                17 => Err(failure(seed)),
                23 => panic!("planted in {seed}"),
                _ => Ok(Summary {
                    firings: seed,
                    ..Summary::default()
                }),
            };
            let (mut firings, mut words) = (0, Vec::new());
            let failed = run_many(
                1..41,
                threads,
                &run,
                Duration::from_secs(60),
                &mut |event, _| match event {
                    Event::Passed(_, summary) => firings += summary.firings,
                    Event::Failed(_, what) => words.push(what),
                    Event::Waiting => {}
                },
            );
            assert_eq!(failed, [17, 23]);
            assert_eq!(firings, (1..41).sum::<u64>() - 17 - 23);
            words.sort();
            assert!(
                words[0].starts_with("seed 17, step 3: planted"),
                "{words:?}"
            );
            assert_eq!(words[1], "seed 23: it panicked: planted in 23");
        }
    }

    #[test]
    fn after_some_failures_no_seed_is_begun() {
        let run = |seed| Err(failure(seed));
        let failed = run_many(0..1_000, 1, &run, Duration::from_secs(60), &mut |_, _| ());
        assert!(
            failed.len() >= MOST_FAILURES && failed.len() < 1_000,
            "{failed:?}"
        );
    }

    #[test]
    fn a_seed_that_does_not_end_is_named() {
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        let run = |seed: u64| {
            if seed == 5 {
                let waited = released
                    .lock()
                    .unwrap()
                    .recv_timeout(Duration::from_secs(60));
                assert!(waited.is_ok(), "no event says that it runs");
            }
            Ok(Summary::default())
        };
        let failed = run_many(
            1..8,
            2,
            &run,
            Duration::from_millis(5),
            &mut |event, running| {
                let oldest = running.oldest().map(|(seed, _)| seed);
                if matches!(event, Event::Waiting) && oldest == Some(5) {
                    let _ = release.send(());
                }
            },
        );
        assert_eq!(failed, [0; 0]);
    }
}
