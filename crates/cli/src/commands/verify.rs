//! `verify`: every file of a data folder or a backup, checked without a start.

use crate::args::VerifyArgs;
use crate::error::CliError;
use crate::files;
use serde_json::{Value, json};
use somersault::disk::RealDisk;
use somersault::folder::{CheckpointReport, FolderReport, VerifyState, verify_folder};
use somersault::{OpenProgress, Sn};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Prints what is in the folder and what is wrong with it.
///
/// # Errors
/// When the folder cannot be read, or something is wrong.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), CliError> {
    let state = match args.deep {
        true => VerifyState::Yes,
        false => VerifyState::No,
    };
    let report = verify(&args.folder, state)?;
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", report_json(&report))?,
        false => write!(out, "{}", report_text(&report))?,
    }
    match report.damage.len() {
        0 => Ok(()),
        1 => Err(CliError::Failed(format!("{} is damaged", report.folder))),
        several => Err(CliError::Failed(format!(
            "{} is damaged in {several} places",
            report.folder
        ))),
    }
}

/// Verifies a folder, with a sign of life on a terminal.
///
/// # Errors
/// When the folder cannot be read, or an engine writes it.
pub(crate) fn verify(folder: &Path, state: VerifyState) -> Result<FolderReport, CliError> {
    let disk = RealDisk::existing(folder).map_err(|error| {
        CliError::failed(
            format_args!("cannot read the folder {}", folder.display()),
            error,
        )
    })?;
    let bar = files::steady_spinner("{spinner} verifying {msg}  {elapsed}");
    bar.set_message(folder.display().to_string());
    let report = verify_folder(Arc::new(disk), state, &Arc::new(OpenProgress::default()));
    bar.finish_and_clear();
    Ok(report?)
}

/// The findings for people: a line a group of files, then what is wrong, then notes.
fn report_text(report: &FolderReport) -> String {
    let mut lines = vec![report.folder.clone()];
    for group in &report.groups {
        let names = match group.names.as_slice() {
            [one] => one.clone(),
            [first, .., last] => format!("{} files, {first} to {last}", group.names.len()),
            [] => String::new(),
        };
        let bytes = indicatif::HumanBytes(group.bytes);
        lines.push(format!(
            "  {:<22}{:>12}  {names}",
            group.what,
            bytes.to_string()
        ));
    }
    if let Some(log) = &report.log {
        let records = match log.last < log.first {
            true => "no record".to_owned(),
            false => format!("records {} to {}", log.first, log.last),
        };
        let end = match log.closed {
            true => "closed in order",
            false => "not closed in order: the process was killed, or the machine stopped",
        };
        let identity = match &log.identity {
            Some(identity) => format!("log {identity}, opening {}", log.incarnation),
            None => "log of version 1".to_owned(),
        };
        lines.push(format!("  {identity}: {records}; {end}"));
    }
    lines.extend(report.checkpoints.iter().map(checkpoint_line));
    if let Some(state) = &report.state {
        lines.push(format!(
            "  state at SN {}: {} statements stored, {} streams, {} continuous queries; it opened and its invariants held, in {:.1} s",
            state.sn.0,
            state.statements,
            state.streams,
            state.queries,
            state.time.as_secs_f64()
        ));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(
        report
            .damage
            .iter()
            .map(|damage| format!("DAMAGED: {damage}")),
    );
    lines.push(match report.is_sound() {
        true => "everything reads back".to_owned(),
        false => format!("{} places are damaged", report.damage.len()),
    });
    lines.join("\n") + "\n"
}

fn checkpoint_line(checkpoint: &CheckpointReport) -> String {
    let is_whole = match checkpoint.is_whole {
        true => "whole",
        false => "not whole",
    };
    let place = match (checkpoint.position, checkpoint.sn) {
        (Some(position), Some(sn)) => format!("the log through record {position}, at SN {}", sn.0),
        _ => "its manifest does not read back".to_owned(),
    };
    format!(
        "  checkpoint {}: {place}; {} files, {}; {is_whole}",
        checkpoint.number,
        checkpoint.files,
        indicatif::HumanBytes(checkpoint.bytes)
    )
}

fn report_json(report: &FolderReport) -> Value {
    let number = |sn: Option<Sn>| sn.map(|sn| sn.0);
    json!({
        "folder": report.folder,
        "sound": report.is_sound(),
        "files": report.groups.iter().map(|group| json!({
            "what": group.what, "names": group.names, "bytes": group.bytes,
        })).collect::<Vec<_>>(),
        "log": report.log.as_ref().map(|log| json!({
            "identity": log.identity, "incarnation": log.incarnation,
            "first": log.first, "last": log.last, "closed": log.closed,
        })),
        "checkpoints": report.checkpoints.iter().map(|checkpoint| json!({
            "number": checkpoint.number, "position": checkpoint.position,
            "sn": number(checkpoint.sn), "files": checkpoint.files,
            "bytes": checkpoint.bytes, "whole": checkpoint.is_whole,
        })).collect::<Vec<_>>(),
        "state": report.state.as_ref().map(|state| json!({
            "sn": state.sn.0, "statements": state.statements, "streams": state.streams,
            "queries": state.queries, "seconds": state.time.as_secs_f64(),
        })),
        "damage": report.damage,
        "notes": report.notes,
    })
}
