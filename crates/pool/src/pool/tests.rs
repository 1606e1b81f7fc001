//! Tests of the query pool: which thread runs which job, which threads help, and which step back.

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
fn no_job_waits_for_the_end_of_running_ones() {
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
    assert!(!pool.workers().is_needed_elsewhere());
    // One thread is kept for firings, so that a second one-shot query calls no helper away.
    let second = busy(Class::OneShot);
    assert!(!pool.workers().is_needed_elsewhere());
    let firing = busy(Class::Continuous);
    is_started.recv().unwrap();
    assert!(!pool.workers().is_needed_elsewhere());
    let another = busy(Class::Continuous);
    assert!(pool.workers().is_needed_elsewhere());
    drop((first, second, firing, another));
    is_started.recv().unwrap();
    is_started.recv().unwrap();
    assert!(!pool.workers().is_needed_elsewhere());
    pool.stop();
}

#[test]
fn idle_threads_help_and_leave_for_jobs() {
    let pool = Arc::new(QueryPool::start(3).unwrap());
    let workers = Arc::clone(pool.workers());
    assert_eq!(workers.limit(), 2);
    let threads = Mutex::new(std::collections::HashSet::new());
    let (done, is_done) = unbounded();
    let in_share = |share: usize| {
        threads.lock().insert(std::thread::current().id());
        if share == 40 {
            // One job for each thread: they finish before the last share does.
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
    workers.for_each_share(500, &in_share);
    assert!(threads.lock().len() <= 2);
    // Whatever the helpers left behind, jobs are taken and shares run as before.
    pool.submit(Class::OneShot, move || done.send(()).unwrap());
    is_done.recv().unwrap();
    let ran = std::sync::atomic::AtomicUsize::new(0);
    workers.for_each_share(8, &|_| {
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
                    pool.workers().for_each_share(20, &|share| {
                        sum.fetch_add(share, Ordering::Relaxed);
                    });
                    assert_eq!(sum.into_inner(), 190);
                }
            });
        }
    });
    pool.stop();
    let sum = AtomicUsize::new(0);
    pool.workers().for_each_share(3, &|share| {
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
                        let (workers, done) = (Arc::clone(pool.workers()), done.clone());
                        if number % 5 == 0 {
                            workers.wake();
                        }
                        pool.submit(class, move || {
                            let shares = number % 40;
                            let counts: Vec<AtomicUsize> =
                                (0..shares).map(|_| AtomicUsize::new(0)).collect();
                            let panics = number % 10 == 7;
                            let dispatch = catch_unwind(AssertUnwindSafe(|| {
                                workers.for_each_share(shares, &|share| {
                                    counts[share].fetch_add(1, Ordering::Relaxed);
                                    assert!(!panics || share != 3, "planted");
                                });
                            }));
                            let counts = counts.into_iter().map(AtomicUsize::into_inner);
                            let right = match dispatch {
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
    // A job that ends when its thread has stepped back, or after `most`.
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
    pool.workers().for_each_share(9, &add);
    assert_eq!(sum.into_inner(), 36);
    pool.stop();
}

#[test]
#[cfg(target_os = "linux")]
fn helpers_step_back_from_one_shots_of_short_tasks_and_not_from_firings_of_long_ones() {
    use crate::cores::{priority, this_thread};
    const LONG: Duration = Duration::from_millis(40);
    const ENOUGH: Duration = Duration::from_secs(60);
    let pool = QueryPool::start_with(2, 0, LONG).unwrap();
    let own_priority = || priority(this_thread().unwrap());
    let normal = own_priority();
    let (done, is_done) = unbounded();
    // One task after the other, in each of which the owner's share lasts until a helper has done
    // one, until a helper has stepped back, or so often; whether one has.
    let run = |class, share: Duration, most: usize| {
        let (workers, done) = (Arc::clone(pool.workers()), done.clone());
        pool.submit(class, move || {
            let owner = std::thread::current().id();
            let task = |_| {
                let seen = std::sync::OnceLock::new();
                let start = Instant::now();
                workers.for_each_share(2, &|_| {
                    if std::thread::current().id() == owner {
                        while seen.get().is_none() && start.elapsed() < ENOUGH {
                            std::thread::sleep(Duration::from_micros(50));
                        }
                    } else {
                        std::thread::sleep(share);
                        let _ = seen.set(own_priority() > normal);
                    }
                });
                seen.into_inner().expect("a helper comes")
            };
            let _ = done.send((0..most).any(task));
        });
        is_done.recv_timeout(2 * ENOUGH).expect("it ends")
    };
    for _ in 0..3 {
        assert!(!run(Class::Continuous, LONG * 5, 1));
        assert!(run(Class::OneShot, LONG / 20, 10_000));
    }
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

/// Runs eight firings and eight one-shot queries on a pool without threads, with these choices, and
/// returns their order.
fn manual_order(choices: impl Fn(u64) -> u64) -> Vec<(Class, u32)> {
    let pool = QueryPool::manual(2, 1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..8 {
        for class in [Class::Continuous, Class::OneShot] {
            let order = Arc::clone(&order);
            pool.submit(class, move || order.lock().push((class, number)));
        }
    }
    let mut turn = 0;
    while pool.in_reach() > 0 {
        assert!(pool.run_one(choices(turn)));
        turn += 1;
    }
    assert!(!pool.run_one(0), "no job waits");
    assert_eq!(pool.one_shots(), 0);
    order.lock().clone()
}

#[test]
fn without_threads_the_caller_chooses_among_what_threads_could_run() {
    let class_of = |class: Class| {
        let order = manual_order(|_| 0);
        let of_class = order.into_iter().filter(move |(of, _)| *of == class);
        of_class.map(|(_, number)| number).collect::<Vec<_>>()
    };
    // The first choice is the oldest firing, and without firings the oldest one-shot query.
    assert!(class_of(Class::Continuous).into_iter().eq(0..8));
    assert!(class_of(Class::OneShot).into_iter().eq(0..8));
    let order = manual_order(|turn| turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33);
    assert_eq!(
        order,
        manual_order(|turn| turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33)
    );
    assert_ne!(order, manual_order(|turn| turn * turn));
    for class in [Class::Continuous, Class::OneShot] {
        // Two threads and three spare ones; one of each kind is kept for firings.
        let at_once = match class {
            Class::Continuous => 2 + SPARE_THREADS,
            Class::OneShot => SPARE_THREADS,
        };
        let of_class = order.iter().filter(|(of, _)| *of == class);
        for (place, (_, number)) in of_class.enumerate() {
            assert!(
                (*number as usize) < place + at_once,
                "{class:?} in {order:?}"
            );
        }
    }
}

#[test]
fn without_threads_the_caller_does_all_shares() {
    let pool = QueryPool::manual(3, 7);
    assert_eq!(pool.workers().limit(), 3);
    let orders: Vec<Vec<usize>> = (0..20)
        .map(|_| {
            let order = Mutex::new(Vec::new());
            pool.workers()
                .for_each_share(9, &|share| order.lock().push(share));
            order.into_inner()
        })
        .collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..9), "{order:?}");
    }
    assert!(orders.iter().any(|order| *order != orders[0]));
    pool.workers()
        .for_each_share(0, &|_| panic!("there is no share"));
}

#[test]
fn without_threads_a_panic_ends_its_job_alone() {
    let pool = QueryPool::manual(2, 0);
    pool.submit(Class::OneShot, || panic!("planted"));
    assert!(pool.run_one(5));
    assert_eq!(pool.one_shots(), 0);
    let (keep, is_kept) = unbounded::<()>();
    pool.submit(Class::Continuous, move || drop(keep));
    pool.stop();
    assert!(is_kept.recv().is_err(), "a job that waits is dropped");
    assert!(!pool.run_one(0));
}
