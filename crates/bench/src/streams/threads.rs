//! The threads of this process: the processor time of each, and the cores that they are bound to.
//! Uses `/proc` and `taskset`, so that the bench needs no system calls.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Processor time by group of threads: threads whose names differ only in a number are one group,
/// and the thread that starts query threads is in theirs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent(BTreeMap<String, Duration>);

/// The groups, by the names that figures use.
const WORDS: [(&str, &str); 5] = [
    ("somersault-benc", "the bench"),
    ("spare", "spare query threads"),
    ("somersault-log", "log"),
    ("timely:work", "injectors"),
    ("query", "queries"),
];

impl Spent {
    /// The time that the living threads have spent so far. Threads that have ended are not counted.
    pub(crate) fn now() -> Spent {
        let mut groups = BTreeMap::new();
        for task in tasks() {
            *groups.entry(group(&task.name).to_owned()).or_default() += task.spent;
        }
        Spent(groups)
    }

    /// The time spent since an earlier moment, by group.
    pub(crate) fn since(&self, earlier: &Spent) -> Vec<(String, Duration)> {
        let before = |name| earlier.0.get(name).copied().unwrap_or_default();
        self.0
            .iter()
            .map(|(name, spent)| (in_words(name), spent.saturating_sub(before(name))))
            .collect()
    }
}

fn in_words(group: &str) -> String {
    let found = WORDS.iter().find(|(name, _)| *name == group);
    found.map_or_else(|| group.to_owned(), |(_, words)| (*words).to_owned())
}

/// The time that the calling thread has spent so far.
pub(crate) fn own_spent() -> Duration {
    let schedule = fs::read_to_string("/proc/thread-self/schedstat");
    let nanoseconds = schedule.ok().and_then(|schedule| spent_in(&schedule));
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// The first number of a schedule is the time on a processor, in nanoseconds.
fn spent_in(schedule: &str) -> Option<u64> {
    schedule.split_whitespace().next()?.parse().ok()
}

struct Task {
    number: String,
    name: String,
    spent: Duration,
}

/// A thread may end between two looks; then it is missing.
fn tasks() -> Vec<Task> {
    let Ok(folder) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let read = |number: String| {
        let of = |file: &str| fs::read_to_string(format!("/proc/self/task/{number}/{file}")).ok();
        let (name, schedule) = (of("comm")?, of("schedstat")?);
        Some(Task {
            name: name.trim_end().to_owned(),
            spent: Duration::from_nanos(spent_in(&schedule)?),
            number,
        })
    };
    folder
        .filter_map(|entry| read(entry.ok()?.file_name().into_string().ok()?))
        .collect()
}

fn group(name: &str) -> &str {
    let without = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match without.strip_suffix('-').unwrap_or(without) {
        // This thread starts the query threads, and a thread inherits the cores of its creator.
        "query-seats" => "query",
        group => group,
    }
}

/// While this value lives, the threads that execute queries have the last core for themselves.
pub(crate) struct Apart {
    cores: String,
}

impl Apart {
    /// Keeps query threads to the last core and all others to the others; `None` where that cannot
    /// be done.
    pub(crate) fn keep() -> Option<Apart> {
        let cores = std::thread::available_parallelism().ok()?.get();
        let last = cores.checked_sub(1).filter(|last| *last > 0)?;
        let others = format!("0-{}", last - 1);
        let apart = Apart {
            cores: format!("0-{last}"),
        };
        let kept = tasks().iter().all(|task| {
            let executes = matches!(group(&task.name), "query" | "spare");
            let core = if executes {
                last.to_string()
            } else {
                others.clone()
            };
            set(&task.number, &core)
        });
        kept.then_some(apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for task in tasks() {
            // If the affinity could be set, restoring it succeeds.
            set(&task.number, &self.cores);
        }
    }
}

fn set(task: &str, cores: &str) -> bool {
    Command::new("taskset")
        .args(["--pid", "--cpu-list", cores, task])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_grouped_by_their_names() {
        assert_eq!([group("query-0"), group("query-12")], ["query", "query"]);
        assert_eq!(group("query-seats"), "query");
        assert_eq!(group("timely:work-1"), "timely:work");
        assert_eq!(group("somersault-log"), "somersault-log");
        assert_eq!(in_words("timely:work"), "injectors");
        assert_eq!(in_words("other"), "other");
    }

    #[test]
    fn a_threads_time_counts_for_its_group() {
        let before = Spent::now();
        let worker = std::thread::Builder::new().name("busy-7".to_owned());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (end, may_end) = std::sync::mpsc::channel::<()>();
        let worker = worker.spawn(move || {
            let mixed = (0..20_000_000_u64).fold(0, |sum, n| sum ^ n.wrapping_mul(sum | 3));
            std::hint::black_box(mixed);
            ready.send(own_spent()).unwrap();
            may_end.recv().ok()
        });
        let own = is_ready.recv().unwrap();
        let spent = Spent::now().since(&before);
        drop(end);
        worker.unwrap().join().unwrap();
        if cfg!(target_os = "linux") {
            let found = spent.iter().find(|(name, _)| name == "busy");
            assert!(
                !own.is_zero() && found.is_some_and(|(_, spent)| *spent >= own),
                "{spent:?}"
            );
        }
    }
}
