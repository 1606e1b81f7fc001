//! `backup` and `restore`: copies of data folders, verified.
//!
//! The one thing to know: a backup never becomes a data folder itself, and a data folder that was
//! restored is a branch. So what two copies of one log write is never mixed up.

use crate::args::{BackupArgs, RestoreArgs};
use crate::commands::dump::make_empty;
use crate::commands::verify::verify;
use crate::error::CliError;
use crate::files;
use crate::target::client_of;
use somersault::EngineError;
use somersault::disk::{Disk, RealDisk};
use somersault::folder::{
    CopySummary, FolderReport, VerifyState, copy_folder, receive_backup, start_branch,
};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Copies a server's data, or a folder, and verifies the copy.
///
/// # Errors
/// When the server or the folder refuses, the copy breaks off, or it turns out damaged.
pub(crate) fn run(args: &BackupArgs) -> Result<(), CliError> {
    make_empty(&args.out)?;
    let summary = match &args.target.data {
        Some(data) => copy(data, &args.out, args.copy)?,
        None => {
            let client = client_of(&args.target)?;
            let response = client.post("/backup", &[], io::empty())?;
            let bar = files::spinner("{spinner} {bytes} received, {bytes_per_sec}  {elapsed}");
            let input = bar.wrap_read(response.into_body().into_reader());
            let received = receive_backup(input, &*folder_at(&args.out)?);
            bar.finish_and_clear();
            received.map_err(failed)?
        }
    };
    let report = verify(&args.out, VerifyState::No)?;
    refuse_damage(&report)?;
    println!("{}: {}", args.out.display(), counts(&summary));
    println!("{}", coverage(&report));
    println!(
        "it was verified; somersault restore {} DIR makes a data folder of it",
        args.out.display()
    );
    Ok(())
}

/// Makes a data folder from a backup, and says what it holds.
///
/// # Errors
/// When the backup is damaged, or the folder is not empty or cannot be written.
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), CliError> {
    make_empty(&args.out)?;
    let summary = copy(&args.backup, &args.out, args.copy)?;
    start_branch(folder_at(&args.out)?).map_err(failed)?;
    let report = verify(&args.out, VerifyState::Yes)?;
    refuse_damage(&report)?;
    println!("{}: {}", args.out.display(), counts(&summary));
    println!("{}", coverage(&report));
    if let Some(state) = &report.state {
        println!(
            "SN {}: {} statements stored, {} streams, {} continuous queries",
            state.sn.0, state.statements, state.streams, state.queries
        );
    }
    println!(
        "start it with somersault serve --data {}",
        args.out.display()
    );
    Ok(())
}

fn folder_at(path: &Path) -> Result<Arc<dyn Disk>, CliError> {
    let disk = RealDisk::new(path);
    let disk = disk.map_err(|error| {
        CliError::failed(
            format_args!("cannot use the folder {}", path.display()),
            error,
        )
    })?;
    Ok(Arc::new(disk))
}

/// Copies a folder. Files that never change are shared where the file system can, unless
/// `copies_all` says otherwise.
fn copy(from: &Path, to: &Path, copies_all: bool) -> Result<CopySummary, CliError> {
    let original = RealDisk::existing(from).map_err(|error| {
        CliError::failed(
            format_args!("cannot read the folder {}", from.display()),
            error,
        )
    })?;
    let original: Arc<dyn Disk> = Arc::new(original);
    let target = folder_at(to)?;
    let bar = files::steady_spinner("{spinner} verifying and copying {msg}  {elapsed}");
    bar.set_message(from.display().to_string());
    let mut link = |name: &str| match copies_all {
        true => Err(io::ErrorKind::Unsupported.into()),
        false => fs::hard_link(from.join(name), to.join(name)),
    };
    let copied = copy_folder(&original, &*target, &mut link);
    bar.finish_and_clear();
    copied.map_err(failed)
}

/// A failure, also one that looks like that of a closed standard output.
fn failed(error: EngineError) -> CliError {
    CliError::Failed(error.to_string())
}

fn refuse_damage(report: &FolderReport) -> Result<(), CliError> {
    match report.damage.first() {
        None => Ok(()),
        Some(first) => Err(CliError::failed(
            format_args!("the copy in {} is not sound", report.folder),
            first,
        )),
    }
}

fn counts(summary: &CopySummary) -> String {
    let shared = match summary.linked {
        0 => String::new(),
        linked => format!(", {linked} of them shared with the original"),
    };
    format!(
        "{} files{shared}, {}",
        summary.files,
        indicatif::HumanBytes(summary.bytes)
    )
}

/// The part of the log that a folder has, and the checkpoint that it begins from.
fn coverage(report: &FolderReport) -> String {
    let end = report.log.as_ref().map_or(0, |log| log.last);
    let newest = report
        .checkpoints
        .iter()
        .find(|checkpoint| checkpoint.is_whole);
    match newest.and_then(|checkpoint| Some((checkpoint.number, checkpoint.position?))) {
        Some((number, position)) => format!(
            "checkpoint {number} through record {position}, and the log behind it through record {end}"
        ),
        None => format!("the whole log, through record {end}"),
    }
}
