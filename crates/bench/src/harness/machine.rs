//! The machine of a measurement: figures without it mean nothing.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The machine, the code and the moment of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) commit: String,
}

impl Machine {
    /// Reads what the system says; what it does not say is `unknown`.
    pub(crate) fn read() -> Self {
        let processor =
            field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
        let memory_kib = kib("/proc/meminfo", "MemTotal").unwrap_or_default();
        let commit = commit();
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib >> 20,
            commit,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            processor,
            cores,
            memory_gib,
            commit,
        } = self;
        write!(
            f,
            "{processor}, {cores} cores, {memory_gib} GiB, commit `{commit}`"
        )
    }
}

/// The commit, with `-dirty` where something but earlier figures has changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some((output.status.success(), said))
    };
    let Some((true, commit)) = git(&["describe", "--always", "--abbrev=12"]) else {
        return "unknown".to_owned();
    };
    let beside_figures = [
        "diff",
        "--quiet",
        "HEAD",
        "--",
        ":/",
        ":(exclude,top)bench/results",
        ":(exclude,top)bench/RESULTS.md",
        ":(exclude,top)docs/benchmarks.md",
    ];
    match git(&beside_figures) {
        Some((true, _)) => commit,
        _ => format!("{commit}-dirty"),
    }
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Kernel ticks a second in `/proc`; fixed at 100 on Linux for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of a process so far, user and system, over all threads; `process` is its number,
/// or `self`.
pub(crate) fn processor_time_of(process: &str) -> Duration {
    let seconds = fs::read_to_string(format!("/proc/{process}/stat"))
        .ok()
        .and_then(|stat| {
            // The second field is the name in parentheses and may hold blanks; the times are fields
            // 14 and 15.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            Some(
                (fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
                    / TICKS_PER_SECOND,
            )
        })
        .unwrap_or_default();
    Duration::from_secs_f64(seconds)
}

/// Processor time that the host gave to others, over all cores, since the machine started.
pub(crate) fn stolen_time() -> Duration {
    let seconds = fs::read_to_string("/proc/stat")
        .ok()
        .and_then(|stat| {
            stat.lines()
                .next()?
                .split_whitespace()
                .nth(8)?
                .parse::<f64>()
                .ok()
        })
        .unwrap_or_default()
        / TICKS_PER_SECOND;
    Duration::from_secs_f64(seconds)
}

/// The bytes that this process has had written to storage; `None` where the system does not say.
pub(crate) fn written_bytes() -> Option<u64> {
    field("/proc/self/io", "write_bytes")?.parse().ok()
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    resident_bytes_of("self")
}

/// Resident memory of a process, in bytes; `process` is its number, or `self`. 0 where the system
/// does not say.
pub(crate) fn resident_bytes_of(process: &str) -> u64 {
    kib(&format!("/proc/{process}/status"), "VmRSS").unwrap_or_default() << 10
}

/// The most that this process has had resident, in bytes.
pub(crate) fn peak_resident_bytes() -> u64 {
    kib("/proc/self/status", "VmHWM").unwrap_or_default() << 10
}

/// Memory that a process could take without others giving up theirs, in bytes; as much as there can
/// be where the system does not say.
pub(crate) fn available_bytes() -> u64 {
    kib("/proc/meminfo", "MemAvailable").map_or(u64::MAX, |kib| kib << 10)
}

/// A field that is a number of kibibytes.
fn kib(path: &str, name: &str) -> Option<u64> {
    field(path, name)?.split_whitespace().next()?.parse().ok()
}
