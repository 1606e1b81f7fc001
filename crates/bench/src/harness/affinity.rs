//! One thread where one thread is meant: heavy queries take help from idle threads of the pool, so
//! a figure of one thread is taken with the whole process on one core. By `taskset`, since the
//! bench has no business with system calls.

use std::fs;
use std::process::{Command, Stdio};

/// While it lives, all threads of this process share one core.
pub(crate) struct OneCore {
    /// The cores that they had before.
    before: String,
}

impl OneCore {
    /// Keeps this process on one core; `None` where that cannot be done.
    pub(crate) fn keep() -> Option<OneCore> {
        let before = allowed(&fs::read_to_string("/proc/self/status").ok()?)?;
        let last = before.rsplit([',', '-']).next()?.to_owned();
        let kept = OneCore { before };
        set(&last).then_some(kept)
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // If the affinity could be set, restoring it succeeds.
        set(&self.before);
    }
}

/// A program on one core from its start on.
pub(crate) fn on_one_core(program: &std::path::Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

fn set(cores: &str) -> bool {
    Command::new("taskset")
        .args(["--all-tasks", "--pid", "--cpu-list", cores])
        .arg(std::process::id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The list of cores in a process's status.
fn allowed(status: &str) -> Option<String> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cores_of_a_process_are_read() {
        let status = "Name:\tbench\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed:\t1\n";
        assert_eq!(allowed(status).as_deref(), Some("0-1"));
        assert_eq!(allowed("Name:\tbench\n"), None);
    }
}
