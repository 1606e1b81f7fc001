//! A peer that is a library: a child process that speaks the lines of `bench/peers/README.md`, and,
//! where it has one, the HTTP endpoint that it opens on the same data.

use crate::harness::affinity::on_one_core;
use crate::harness::contender::{Burst, Contender, Figure, Loaded, NoTime};
use crate::harness::http::{Client, Style};
use crate::harness::machine;
use crate::parties::ours;
use crate::parties::peers::Installed;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A peer that runs as a child process and speaks lines.
pub(crate) struct LinePeer {
    name: &'static str,
    version: String,
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    endpoint: Option<Client>,
}

impl LinePeer {
    /// Starts an installed peer.
    pub(crate) fn start(installed: &Installed) -> Result<LinePeer, String> {
        let version = installed.version.clone();
        LinePeer::spawn(installed.name, version, installed.start_command())
    }

    /// Starts this engine in a process of its own.
    pub(crate) fn ours() -> Result<LinePeer, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("this program cannot be found: {error}"))?;
        LinePeer::child(Command::new(program))
    }

    /// The same, with all its threads on one core.
    pub(crate) fn ours_on_one_core() -> Result<LinePeer, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("this program cannot be found: {error}"))?;
        LinePeer::child(on_one_core(&program))
    }

    fn child(mut command: Command) -> Result<LinePeer, String> {
        command.arg("child");
        LinePeer::spawn(ours::NAME, env!("CARGO_PKG_VERSION").to_owned(), command)
    }

    fn spawn(
        name: &'static str,
        version: String,
        mut command: Command,
    ) -> Result<LinePeer, String> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("its program did not run: {error}"))?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let (commands, answers) = ends.ok_or("its program has no pipes")?;
        Ok(LinePeer {
            name,
            version,
            process,
            commands,
            answers: BufReader::new(answers),
            endpoint: None,
        })
    }

    /// Its process.
    pub(crate) fn process(&self) -> String {
        self.process.id().to_string()
    }

    /// The client of its endpoint, once it is loaded.
    fn client(&mut self) -> Result<&mut Client, String> {
        self.endpoint
            .as_mut()
            .ok_or_else(|| "it has no server".to_owned())
    }

    /// One more client of its endpoint, with a connection of its own.
    pub(crate) fn another_client(&self) -> Result<Client, String> {
        let client = self.endpoint.as_ref().map(Client::another);
        client.ok_or_else(|| "it has no server".to_owned())
    }

    /// Says a command and returns what follows the expected first word of the answer.
    fn say(&mut self, command: &[u8], expected: &str) -> Result<String, String> {
        let sent = (self.commands.write_all(command)).and_then(|()| self.commands.flush());
        sent.map_err(|error| format!("it no longer reads commands: {error}"))?;
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .map_err(|error| format!("it no longer answers: {error}"))?;
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            (first, rest) if first == expected => Ok(rest.to_owned()),
            ("failed", reason) => Err(reason.to_owned()),
            ("", _) => Err("it has ended".to_owned()),
            _ => Err(format!("it answered {line:?}, which is no {expected}")),
        }
    }
}

impl Contender for LinePeer {
    fn name(&self) -> &str {
        self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![Figure::Embedded];
        figures.extend(self.endpoint.as_ref().map(|_| Figure::Http));
        figures
    }

    fn load(&mut self, data: &Path) -> Result<Loaded, String> {
        let command = format!("load {}\n", data.display());
        let answer = self.say(command.as_bytes(), "loaded")?;
        let numbers = numbers(&answer)?;
        let [triples, nanoseconds] = numbers[..] else {
            return Err(format!("it answered loaded {answer}"));
        };
        let endpoint = self.say(b"endpoint\n", "endpoint")?;
        if let Some((url, path)) = endpoint
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
        {
            let client = Client::new(&format!("http://{url}"), &format!("/{path}"), Style::Direct)?;
            self.endpoint = Some(client);
        }
        Ok(Loaded {
            triples,
            took: Some(Duration::from_nanos(nanoseconds)),
        })
    }

    fn run(
        &mut self,
        figure: Figure,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<Burst, NoTime> {
        if figure == Figure::Http {
            let client = self.client().map_err(NoTime::Refused)?;
            return client.run(text, runs, limit);
        }
        let mut command =
            format!("query {runs} {} {}\n", limit.as_millis(), text.len()).into_bytes();
        command.extend_from_slice(text.as_bytes());
        let answer = self
            .say(&command, "rows")
            .map_err(|reason| match reason.as_str() {
                "over time" => NoTime::OverTime,
                _ => NoTime::Refused(reason),
            })?;
        let numbers = numbers(&answer).map_err(NoTime::Refused)?;
        let Some((&rows, times)) = numbers.split_first() else {
            return Err(NoTime::Refused(
                "it answered rows, and no number".to_owned(),
            ));
        };
        Ok(Burst {
            rows,
            times: times
                .iter()
                .map(|&time| Duration::from_nanos(time))
                .collect(),
        })
    }

    fn resident_bytes(&self) -> u64 {
        machine::resident_bytes_of(&self.process())
    }
}

impl Drop for LinePeer {
    fn drop(&mut self) {
        // It has nothing to lose; waiting for it leaves no zombie behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn numbers(words: &str) -> Result<Vec<u64>, String> {
    words
        .split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("it answered {words:?}")))
        .collect()
}
