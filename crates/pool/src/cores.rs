//! Machine services for threads that work together: the number of usable cores, pinning a thread to
//! one core, lowering a thread's priority, and spinning for an event that is about to happen.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// The number of checks between two looks at the clock.
const LOOKS: u32 = 32;

/// The cores that this process may use now. The set may change while the process runs.
#[cfg(target_os = "linux")]
fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: a set of cores is plain bits, of which none is a valid state; the call writes at most
    // as many bytes as it is told that there are.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let found = libc::sched_getaffinity(libc::getpid(), size_of::<libc::cpu_set_t>(), &mut set);
        (found == 0).then_some(set)
    }
}

/// The number of cores that this process may use now.
#[cfg(target_os = "linux")]
pub(crate) fn usable() -> usize {
    // SAFETY: counting reads the set alone.
    let count = |set| unsafe { libc::CPU_COUNT(&set) }.max(1) as usize;
    allowed().map_or(usize::MAX, count)
}

/// The number of cores that this process may use now, where the system can report it; else any
/// number.
#[cfg(not(target_os = "linux"))]
pub(crate) fn usable() -> usize {
    usize::MAX
}

/// Pins the calling thread to one of the cores that this process may use, counted from 0. Returns
/// whether the thread is pinned; if not, it runs wherever the system puts it, which is never wrong.
#[cfg(target_os = "linux")]
pub(crate) fn keep_to(number: usize) -> bool {
    let Some(set) = allowed() else {
        return false;
    };
    let cores = 0..8 * size_of::<libc::cpu_set_t>();
    // SAFETY: the cores that are asked for are within the size of a set, and so is the one that is
    // put into the new set, which is as in `allowed`.
    unsafe {
        let is_allowed = |core: &usize| libc::CPU_ISSET(*core, &set);
        let Some(core) = cores.filter(is_allowed).nth(number) else {
            return false;
        };
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one) == 0
    }
}

/// Leaves the thread to the system and returns `false`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn keep_to(_number: usize) -> bool {
    false
}

/// A thread, by its system-wide number. Only Linux has usable ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadNumber(#[cfg(target_os = "linux")] u32);

/// The amount by which a thread that steps back lowers its priority. With it the thread still gets
/// a tenth of a core that others want, not nothing.
#[cfg(target_os = "linux")]
const LOWER: i32 = 10;

/// The number of the calling thread.
#[cfg(target_os = "linux")]
pub(crate) fn this_thread() -> Option<ThreadNumber> {
    // SAFETY: it takes nothing and always succeeds.
    let number = unsafe { libc::gettid() };
    u32::try_from(number).ok().map(ThreadNumber)
}

/// Returns `None`: threads have no usable numbers here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn this_thread() -> Option<ThreadNumber> {
    None
}

/// The priority of a thread of this process. A greater number is a lower priority.
#[cfg(target_os = "linux")]
pub(crate) fn priority(ThreadNumber(number): ThreadNumber) -> i32 {
    // SAFETY: it takes numbers alone; a thread that is not there has an error for an answer, which
    // is a number as well.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, number) }
}

/// Lowers the priority of a thread of this process for good. Returns whether it succeeded.
#[cfg(target_os = "linux")]
pub(crate) fn step_back(thread: ThreadNumber) -> bool {
    let lower = priority(thread) + LOWER;
    // SAFETY: it takes numbers alone, and refuses those that make no sense.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread.0, lower) == 0 }
}

/// Leaves the thread's priority alone and returns `false`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn step_back(_thread: ThreadNumber) -> bool {
    false
}

/// Lowers the priority of the calling thread for good, for work that no caller waits for. Returns
/// whether it succeeded: only Linux has priorities of threads.
pub fn lower_own_priority() -> bool {
    this_thread().is_some_and(step_back)
}

/// Spins for at most `most` until `happened` returns true. Returns whether it did.
pub(crate) fn look_out(most: Duration, happened: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if happened() {
                return true;
            }
            std::hint::spin_loop();
        }
        if started.elapsed() >= most {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn there_is_a_core() {
        assert!(usable() >= 1);
    }

    #[test]
    fn a_thread_is_kept_to_a_core_that_there_is() {
        let kept = std::thread::spawn(|| (keep_to(usize::MAX), keep_to(0), keep_to(0)));
        let (nowhere, first, again) = kept.join().unwrap();
        assert!(!nowhere);
        assert_eq!(first, cfg!(target_os = "linux"));
        assert_eq!(first, again);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_lowers_its_own_priority() {
        let lowered = std::thread::spawn(|| {
            let own = || priority(this_thread().expect("threads have numbers here"));
            let before = own();
            (lower_own_priority(), own() - before)
        });
        assert_eq!(lowered.join().unwrap(), (true, LOWER));
    }

    #[test]
    fn a_look_out_ends_when_it_happens_and_when_it_does_not() {
        assert!(!look_out(Duration::from_micros(50), || false));
        let happened = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| happened.store(true, Ordering::Relaxed));
            assert!(look_out(Duration::from_secs(60), || happened.load(Ordering::Relaxed)));
        });
    }
}
