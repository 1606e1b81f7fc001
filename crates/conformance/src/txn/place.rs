//! Where the engine of a run is, and how it is killed there: in this process on a simulated disk
//! that crashes, or in a child process on a real folder, killed with SIGKILL.
//!
//! Before changing anything here: after a kill nothing is left of the engine but its disk.

use super::host::{EngineHost, EngineOptions, EngineRequest, EngineResponse};
use crate::error::ConformanceError;
use crate::rsp::child::Draw;
use somersault::disk::{CrashKeep, Disk, RealDisk, SimDisk};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A place in which an engine is.
pub(super) trait EnginePlace {
    /// Makes a request.
    fn ask(&mut self, request: &EngineRequest) -> Result<EngineResponse, ConformanceError>;
    /// Makes a request, and kills the engine while it is carried out. `None` if no answer came.
    fn ask_and_kill(
        &mut self,
        request: &EngineRequest,
        draw: &mut Draw,
    ) -> Result<Option<EngineResponse>, ConformanceError>;
    /// Kills the engine.
    fn kill(&mut self, draw: &mut Draw) -> Result<(), ConformanceError>;
    /// The disk that a killed or stopped engine has left.
    fn disk(&mut self) -> Result<Arc<dyn Disk>, ConformanceError>;
    /// Opens the engine again, with this number of shards.
    fn restart(&mut self, shards: u16) -> Result<(), ConformanceError>;
    /// Violations that were found before kills, which no answer told.
    fn untold(&mut self) -> Result<Vec<String>, ConformanceError>;
}

/// An engine in this process.
pub(super) struct SimulatedPlace {
    options: EngineOptions,
    disk: SimDisk,
    host: Option<EngineHost>,
    restarts: u64,
    untold: Vec<String>,
}

impl SimulatedPlace {
    pub(super) fn open(options: EngineOptions) -> Result<Self, ConformanceError> {
        let mut place = Self {
            options,
            disk: SimDisk::new(),
            host: None,
            restarts: 0,
            untold: Vec::new(),
        };
        place.open_host(place.options.clone())?;
        Ok(place)
    }

    fn open_host(&mut self, options: EngineOptions) -> Result<(), ConformanceError> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let host = EngineHost::open(&options, Some(disk));
        self.host = Some(host.map_err(|error| ConformanceError::engine("open", error))?);
        Ok(())
    }

    fn host(&mut self) -> &mut EngineHost {
        self.host
            .as_mut()
            .expect("an engine is open between requests")
    }

    /// Lets the engine go, with what its reader has found.
    fn leave(&mut self) {
        if let Some(mut host) = self.host.take()
            && let Ok(EngineResponse::Violations(violations, _)) =
                host.ask(&EngineRequest::Violations)
        {
            self.untold.extend(violations);
        }
    }
}

fn drawn_keep(draw: &mut Draw) -> CrashKeep {
    match draw.below(3) {
        0 => CrashKeep::Synced,
        1 => CrashKeep::Written,
        _ => CrashKeep::Seeded(draw.below(1 << 30) as u64),
    }
}

impl EnginePlace for SimulatedPlace {
    fn ask(&mut self, request: &EngineRequest) -> Result<EngineResponse, ConformanceError> {
        self.host()
            .ask(request)
            .map_err(|error| ConformanceError::engine(request.name(), error))
    }

    fn ask_and_kill(
        &mut self,
        request: &EngineRequest,
        draw: &mut Draw,
    ) -> Result<Option<EngineResponse>, ConformanceError> {
        self.disk
            .crash_at_sync(draw.below(4) as u64, drawn_keep(draw));
        // After a crash every error is one of the disk that is gone.
        let answer = self.host().ask(request).ok();
        self.leave();
        self.disk = self.disk.crash(CrashKeep::Written);
        Ok(answer)
    }

    fn kill(&mut self, draw: &mut Draw) -> Result<(), ConformanceError> {
        let disk = self.disk.crash(drawn_keep(draw));
        self.leave();
        self.disk = disk;
        Ok(())
    }

    fn disk(&mut self) -> Result<Arc<dyn Disk>, ConformanceError> {
        self.leave();
        Ok(Arc::new(self.disk.clone()))
    }

    fn restart(&mut self, shards: u16) -> Result<(), ConformanceError> {
        self.restarts += 1;
        // A crash that was planned and did not happen must not outlive the restart.
        self.disk.crash_at_sync(u64::MAX, CrashKeep::Written);
        let restarts = self.restarts;
        self.open_host(EngineOptions {
            shards,
            simulated: self.options.simulated.map(|seed| seed ^ (restarts << 32)),
            ..self.options.clone()
        })
    }

    fn untold(&mut self) -> Result<Vec<String>, ConformanceError> {
        Ok(std::mem::take(&mut self.untold))
    }
}

/// An engine in a child process.
pub(super) struct ChildPlace {
    options: EngineOptions,
    program: PathBuf,
    folder: TempDir,
    process: Option<ChildProcess>,
}

struct ChildProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl ChildPlace {
    /// `program` has the command `txn-child`.
    pub(super) fn open(program: PathBuf, options: EngineOptions) -> Result<Self, ConformanceError> {
        let folder = tempfile::tempdir()
            .map_err(|error| ConformanceError::engine("keep its data in a folder", error))?;
        let options = EngineOptions {
            data: Some(folder.path().join("data")),
            violations: Some(folder.path().join("violations")),
            ..options
        };
        let process = ChildProcess::start(&program, &options)?;
        Ok(Self {
            options,
            program,
            folder,
            process: Some(process),
        })
    }

    fn process(&mut self) -> Result<&mut ChildProcess, ConformanceError> {
        self.process
            .as_mut()
            .ok_or_else(|| ConformanceError::Child("is asked after it was killed".to_owned()))
    }

    fn end(&mut self) -> Result<(), ConformanceError> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }
}

impl ChildProcess {
    fn start(program: &Path, options: &EngineOptions) -> Result<Self, ConformanceError> {
        let failed = |error: std::io::Error| {
            ConformanceError::Child(format!("{} does not start: {error}", program.display()))
        };
        let mut child = Command::new(program)
            .arg("txn-child")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ConformanceError::Child(
                "has no standard input and output".to_owned(),
            ));
        };
        let mut process = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        process.send(options)?;
        process.receive("opening")?;
        Ok(process)
    }

    fn send(&mut self, message: &impl serde::Serialize) -> Result<(), ConformanceError> {
        let failed = |error: &dyn std::fmt::Display| {
            ConformanceError::Child(format!("takes no requests: {error}"))
        };
        let mut line = serde_json::to_vec(message).map_err(|error| failed(&error))?;
        line.push(b'\n');
        let written = self.input.write_all(&line);
        written.map_err(|error| failed(&error))
    }

    fn receive(&mut self, request: &str) -> Result<EngineResponse, ConformanceError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        let read =
            read.map_err(|error| ConformanceError::Child(format!("gives no answer: {error}")))?;
        if read == 0 {
            return Err(ConformanceError::Child(format!(
                "ended by itself when it was to {request}"
            )));
        }
        let answer: Result<EngineResponse, String> = serde_json::from_str(&line)
            .map_err(|error| ConformanceError::Child(format!("answered {line:?}: {error}")))?;
        answer.map_err(|reason| ConformanceError::engine(request, reason))
    }

    /// SIGKILL: the process can write nothing more.
    fn kill(&mut self) -> Result<(), ConformanceError> {
        let failed =
            |error: std::io::Error| ConformanceError::Child(format!("cannot be killed: {error}"));
        self.child.kill().map_err(failed)?;
        self.child.wait().map(drop).map_err(failed)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A child that cannot be killed while this process ends is left to the system.
        let _ = self.kill();
    }
}

impl EnginePlace for ChildPlace {
    fn ask(&mut self, request: &EngineRequest) -> Result<EngineResponse, ConformanceError> {
        let process = self.process()?;
        process.send(request)?;
        process.receive(request.name())
    }

    fn ask_and_kill(
        &mut self,
        request: &EngineRequest,
        draw: &mut Draw,
    ) -> Result<Option<EngineResponse>, ConformanceError> {
        self.process()?.send(request)?;
        std::thread::sleep(Duration::from_micros(draw.below(8000) as u64));
        self.end()?;
        Ok(None)
    }

    fn kill(&mut self, _: &mut Draw) -> Result<(), ConformanceError> {
        self.end()
    }

    fn disk(&mut self) -> Result<Arc<dyn Disk>, ConformanceError> {
        self.end()?;
        let disk = RealDisk::existing(self.folder.path().join("data"));
        let disk = disk.map_err(|error| ConformanceError::engine("leave its folder", error))?;
        Ok(Arc::new(disk))
    }

    fn restart(&mut self, shards: u16) -> Result<(), ConformanceError> {
        self.options.shards = shards;
        self.process = Some(ChildProcess::start(&self.program, &self.options)?);
        Ok(())
    }

    fn untold(&mut self) -> Result<Vec<String>, ConformanceError> {
        let path = self.folder.path().join("violations");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(ConformanceError::Unreadable { path, source }),
        }
    }
}

impl EngineRequest {
    /// The request as what the engine could not do.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Watch(_) => "be watched",
            Self::Store(_) => "store statements",
            Self::Statement(_) => "carry out a statement",
            Self::Push { .. } => "take messages",
            Self::Advance(..) => "advance streams",
            Self::Calls(_) => "answer calls",
            Self::Update(_) => "carry out an update",
            Self::State(_) => "tell a state",
            Self::Query(_) => "answer a query",
            Self::Settle => "end what is due",
            Self::Aborted(_) => "list aborted transactions",
            Self::Checkpoint => "take a checkpoint",
            Self::Violations => "list violations",
            Self::Close => "stop",
        }
    }
}

/// The child's side: the first line of `input` has the options, the others a request each.
///
/// # Errors
/// A line cannot be read, or an answer cannot be written.
pub fn serve(input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let mut host: Option<EngineHost> = None;
    for line in input.lines() {
        let line = line?;
        let response: Result<EngineResponse, String> = match &mut host {
            None => serde_json::from_str(&line)
                .map_err(|error| error.to_string())
                .and_then(|options: EngineOptions| {
                    let opened = EngineHost::open(&options, None);
                    host = Some(opened.map_err(|error| error.to_string())?);
                    Ok(EngineResponse::Done)
                }),
            Some(host) => serde_json::from_str(&line)
                .map_err(|error| error.to_string())
                .and_then(|request| host.ask(&request).map_err(|error| error.to_string())),
        };
        serde_json::to_writer(&mut output, &response)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}
