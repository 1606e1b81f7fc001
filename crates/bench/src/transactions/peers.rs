//! The databases that run the same work: `bench/peers/<name>/install` makes one ready or says why
//! not, `bench/peers/<name>/transactions WORK FOLDER ACCOUNTS CLIENTS SECONDS` prints its version
//! and its rate, each on a line.

use super::TransactionOptions;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A database to compare with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    PostgreSql,
    Sqlite,
}

/// What a peer reached.
pub(super) struct PeerRate {
    pub(super) version: String,
    /// Transactions, or votes, a second.
    pub(super) rate: f64,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::PostgreSql => "postgresql",
            Peer::Sqlite => "sqlite",
        }
    }
}

/// Runs a peer's work.
///
/// # Errors
/// Why there is no figure, in a sentence for the table.
pub(super) fn measure(
    peer: Peer,
    work: &str,
    options: &TransactionOptions,
) -> Result<PeerRate, String> {
    if options.alone {
        return Err("left out".to_owned());
    }
    let scripts = fs::canonicalize(Path::new("bench/peers").join(peer.name()))
        .map_err(|error| format!("its scripts are not found: {error}"))?;
    said(Command::new(scripts.join("install")))?;
    let folder = options
        .folder(peer.name())
        .and_then(|folder| Ok(fs::canonicalize(folder)?))
        .map_err(|error| error.to_string())?;
    let mut command = Command::new(scripts.join("transactions"));
    command.arg(work).arg(&folder);
    let numbers = [
        options.accounts as usize,
        options.clients,
        options.seconds as usize,
    ];
    command.args(numbers.map(|number| number.to_string()));
    let output = said(command);
    // The database has ended; what cannot be removed is only left lying.
    let _ = fs::remove_dir_all(&folder);
    let output = output?;
    let mut lines = output.lines();
    let (Some(version), Some(rate)) = (lines.next(), lines.next()) else {
        return Err(format!("it said {output:?}"));
    };
    Ok(PeerRate {
        version: version.to_owned(),
        rate: rate.parse().map_err(|_| format!("its rate is {rate:?}"))?,
    })
}

fn said(mut command: Command) -> Result<String, String> {
    let output: Output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("it did not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().lines().last().unwrap_or("it gave no reason");
        return Err(said.to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
