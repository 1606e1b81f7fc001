//! The side that gives the orders: starts the process, times its replies, kills it.

use super::orders::{KeptState, Order, Playing, Reply, Told};
use super::{DurabilityOptions, Failure};
use crate::streams::absorption::clear;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The event time that a process makes ready at once, in memory, before it plays it.
const PIECE_MS: i64 = 20_000;

/// A process that takes orders; it is killed when this is dropped.
pub(super) struct Node {
    process: Child,
    replies: BufReader<ChildStdout>,
    /// Later by the time that the process took to make the network, which is no part of a restart.
    started: Instant,
    /// The time from its start to its first reply.
    pub(super) first: Duration,
    /// The rows of its first query, if it opened a folder that had been used.
    pub(super) first_rows: Option<u64>,
}

impl Node {
    /// Starts a process and waits for its first reply.
    pub(super) fn start(
        options: &DurabilityOptions,
        stored: u64,
        folder: Option<&Path>,
    ) -> Result<Node, Failure> {
        let started = Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("durability-process");
        command.args(["--stored", &stored.to_string()]);
        command.args(["--rate", &options.rate.to_string()]);
        command.args(["--workers", &options.workers.to_string()]);
        if options.automatic {
            command.arg("--automatic");
        }
        if let Some(folder) = folder {
            command.arg("--folder").arg(folder);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("the process has no output")?;
        let mut node = Node {
            process,
            replies: BufReader::new(output),
            started,
            first: Duration::ZERO,
            first_rows: None,
        };
        if let Reply::Answered { rows, made_s } = node.reply()? {
            node.first_rows = Some(rows);
            node.started += Duration::from_secs_f64(made_s);
        }
        node.first = node.since_start();
        Ok(node)
    }

    /// The time since its start.
    pub(super) fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// The next line that is a reply; the process also prints what it is doing.
    fn reply(&mut self) -> Result<Reply, Failure> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.replies.read_line(&mut line)? == 0 {
                let ended = self.process.wait()?;
                return Err(format!("the process ended with {ended}").into());
            }
            match serde_json::from_str(&line) {
                Ok(Reply::Failed(reason)) => return Err(reason.into()),
                Ok(reply) => return Ok(reply),
                Err(_) => print!("  {line}"),
            }
        }
    }

    /// Has an order carried out.
    pub(super) fn order(&mut self, order: &Order) -> Result<Reply, Failure> {
        let input = self.process.stdin.as_mut();
        let input = input.ok_or("the process has no input")?;
        writeln!(input, "{}", serde_json::to_string(order)?)?;
        self.reply()
    }

    /// Has some event time played.
    pub(super) fn play(&mut self, ms: i64, paced: bool, beside: bool) -> Result<Playing, Failure> {
        match self.order(&Order::Play { ms, paced, beside })? {
            Reply::Played(playing) => Ok(playing),
            other => Err(format!("the process was to play, and said {other:?}").into()),
        }
    }

    /// Its state.
    pub(super) fn tell(&mut self) -> Result<Told, Failure> {
        match self.order(&Order::Tell)? {
            Reply::Told(told) => Ok(*told),
            other => Err(format!("the process was to tell its state, and said {other:?}").into()),
        }
    }

    /// Kills it, as `kill -9` does.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Has event time played as fast as possible. Unless the engine takes checkpoints by itself, one is
/// taken after each piece, the last one some time before the end.
pub(super) fn play_with_checkpoints(
    node: &mut Node,
    options: &DurabilityOptions,
    ms: i64,
) -> Result<(), Failure> {
    let behind_ms = (options.behind * 1000).clamp(0, ms);
    let mut left_ms = ms - behind_ms;
    loop {
        let piece_ms = left_ms.min(PIECE_MS);
        node.play(piece_ms, false, false)?;
        if !options.automatic {
            node.order(&Order::Checkpoint)?;
        }
        left_ms -= piece_ms;
        if left_ms == 0 {
            break;
        }
    }
    node.play(behind_ms, false, false)?;
    Ok(())
}

/// When checkpoints are taken.
pub(super) fn checkpoints_in_words(options: &DurabilityOptions) -> String {
    match options.automatic {
        true => "checkpoints as the engine takes them by itself".to_owned(),
        false => format!(
            "checkpoints after at most {} s of event time each, the last one {} s before the kill",
            PIECE_MS / 1000,
            options.behind
        ),
    }
}

/// The figures of one restart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Restarted {
    /// From the start of the process to its first answer, and until everything was as before.
    pub(super) first_s: f64,
    pub(super) as_before_s: f64,
    /// The time that the engine estimated before.
    pub(super) estimate_s: Option<f64>,
    /// The resident memory after it, against that before.
    pub(super) memory: f64,
    /// Whether the state was that of before.
    pub(super) same: bool,
}

/// Kills a process and starts it again. Everything is as before when its state is, and when one
/// batch more has been taken and its closes answered; making that batch does not count.
pub(super) fn kill_and_restart(
    mut node: Node,
    options: &DurabilityOptions,
    stored: u64,
    folder: &Path,
) -> Result<(Restarted, Node), Failure> {
    let before = node.tell()?;
    node.kill()?;
    let mut node = Node::start(options, stored, Some(folder))?;
    let after = node.tell()?;
    let told = node.since_start();
    node.order(&Order::Resume)?;
    let start = Instant::now();
    node.play(BATCH_MS, false, false)?;
    let batch = start.elapsed();
    let restarted = Restarted {
        first_s: node.first.as_secs_f64(),
        as_before_s: (told + batch).as_secs_f64(),
        estimate_s: before.estimate_s,
        memory: after.resident_bytes as f64 / before.resident_bytes as f64,
        same: is_same(&before.state, &after.state, node.first_rows),
    };
    Ok((restarted, node))
}

const BATCH_MS: i64 = crate::streams::stage::BATCH_MS;

/// Whether a state is that of before, and the first answer the right one.
fn is_same(before: &KeptState, after: &KeptState, first_rows: Option<u64>) -> bool {
    before == after && first_rows.is_some() && first_rows == before.rows.first().copied()
}

/// An empty folder for a part.
pub(super) fn folder(options: &DurabilityOptions, part: &str) -> Result<PathBuf, Failure> {
    let folder = options.data.join(format!("durability-{part}"));
    clear(&folder)?;
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The length of all files of a folder, in bytes.
pub(super) fn folder_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        bytes += match kind.is_dir() {
            true => folder_bytes(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_large_as_all_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("within")).unwrap();
        fs::write(folder.path().join("a"), [0; 10]).unwrap();
        fs::write(folder.path().join("within/b"), [0; 7]).unwrap();
        assert_eq!(folder_bytes(folder.path()).unwrap(), 17);
    }

    #[test]
    fn a_state_is_the_same_with_the_same_first_answer() {
        let state = KeptState {
            rows: vec![4, 5],
            ..KeptState::default()
        };
        let other = KeptState {
            stored: 1,
            ..state.clone()
        };
        assert!(is_same(&state, &state, Some(4)));
        assert!(!is_same(&state, &state, Some(5)));
        assert!(!is_same(&state, &state, None));
        assert!(!is_same(&state, &other, Some(4)));
    }
}
