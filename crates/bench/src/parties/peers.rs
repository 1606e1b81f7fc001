//! Which peers there are, and how one comes to be measured: its `install` script makes it ready or
//! says why not, its `start` script becomes it. A peer that is missing is a row that says so, never
//! the end of a run.

use crate::harness::contender::{Contender, Loaded};
use crate::parties::line_peer::LinePeer;
use crate::parties::virtuoso::Virtuoso;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The peers, in the order of the tables.
pub(crate) const NAMES: [&str; 4] = ["pyoxigraph", "jena", "virtuoso", "qlever"];

/// The folder of the scripts.
const SCRIPTS: &str = "bench/peers";

/// The time limit of one statement of a load.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// A peer that is ready to be started.
pub(crate) struct Installed {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    scripts: PathBuf,
    homes: PathBuf,
}

impl Installed {
    /// Runs a peer's `install` script; its last line is the version.
    pub(crate) fn install(name: &'static str) -> Result<Installed, String> {
        let scripts = absolute(Path::new(SCRIPTS))?.join(name);
        let homes = absolute(Path::new("target/peers"))?;
        let output = Command::new(scripts.join("install"))
            .env("PEERS", &homes)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("its install script did not run: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().last().unwrap_or("it gave no reason");
            return Err(said.to_owned());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(Installed {
            name,
            version: said.trim().lines().last().unwrap_or("unknown").to_owned(),
            scripts,
            homes,
        })
    }

    /// The command that starts the peer.
    pub(crate) fn start_command(&self) -> Command {
        let mut command = Command::new(self.scripts.join("start"));
        command.env("PEERS", &self.homes);
        command
    }

    /// The command that runs a case of streams on the peer.
    pub(crate) fn streams_command(&self, case: &Path) -> Command {
        let mut command = Command::new(self.scripts.join("streams"));
        command.arg(case).env("PEERS", &self.homes);
        command
    }

    /// The folder in which it may keep its files.
    pub(crate) fn home(&self) -> PathBuf {
        self.homes.join(self.name)
    }

    /// Starts it and gives it the data.
    pub(crate) fn ready(
        &self,
        data: &Path,
        limit: Duration,
    ) -> Result<(Box<dyn Contender>, Loaded), String> {
        let mut contender: Box<dyn Contender> = match self.name {
            "virtuoso" => Box::new(Virtuoso::start(self, &database_of(data)?, limit)?),
            _ => Box::new(LinePeer::start(self)?),
        };
        let loaded = contender.load(data)?;
        Ok((contender, loaded))
    }

    /// Starts it with nothing, to see it load.
    pub(crate) fn start_fresh(&self) -> Result<Box<dyn Contender>, String> {
        if self.name != "virtuoso" {
            return Ok(Box::new(LinePeer::start(self)?));
        }
        let database = "load";
        match std::fs::remove_dir_all(self.home().join(database)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("its last database cannot be removed: {error}"));
            }
            _ => {}
        }
        Ok(Box::new(Virtuoso::start(self, database, LOAD_LIMIT)?))
    }
}

/// A folder's name for the data of this file as it is now: another size is other data.
fn database_of(data: &Path) -> Result<String, String> {
    let size = std::fs::metadata(data)
        .map_err(|error| format!("{} cannot be read: {error}", data.display()))?
        .len();
    let name = data.file_stem().unwrap_or_default().to_string_lossy();
    Ok(format!("{name}-{size}"))
}

/// The path as seen from the folder that the bench was started in.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path)
        .map_err(|error| format!("{} has no absolute form: {error}", path.display()))
}
