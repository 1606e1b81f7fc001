//! A part of a run in a process of its own, so that it does not inherit the memory of another part:
//! this program again, with the same arguments and `--only` for that part.

use std::ffi::OsString;
use std::process::Command;

/// Runs one part of this process's command in a process of its own.
///
/// # Errors
/// The process cannot be started, or it failed.
pub(crate) fn in_own_process(part: &str) -> Result<(), String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("this program is not found again: {error}"))?;
    let status = Command::new(program)
        .args(with_only(std::env::args_os().skip(1), part))
        .status()
        .map_err(|error| format!("its process was not started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("its process ended with {status}")),
    }
}

/// The arguments of a command line for one part alone.
fn with_only(mut arguments: impl Iterator<Item = OsString>, part: &str) -> Vec<OsString> {
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--only" {
            arguments.next();
        } else if !argument.to_string_lossy().starts_with("--only=") {
            kept.push(argument);
        }
    }
    kept.extend(["--only".into(), part.into()]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_asked_for_as_all_were() {
        let of = |line: &str| {
            let arguments = line.split(' ').map(OsString::from);
            let arguments = with_only(arguments, "paper");
            let words = arguments.iter().map(|word| word.to_string_lossy());
            words.collect::<Vec<_>>().join(" ")
        };
        let expected = "streams --stored 7 --only paper";
        assert_eq!(of("streams --stored 7"), expected);
        assert_eq!(of("streams --only terms,paper --stored 7"), expected);
        assert_eq!(of("streams --stored 7 --only=terms,paper"), expected);
    }
}
