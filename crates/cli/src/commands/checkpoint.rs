//! `checkpoint`: a server takes a checkpoint, and says what it holds.

use crate::args::CheckpointArgs;
use crate::client::json_of;
use crate::error::CliError;
use crate::files;
use crate::target::client_at;
use indicatif::HumanBytes;
use serde_json::Value;

/// Lets the server take a checkpoint, and waits until it is written.
///
/// # Errors
/// When another one is being taken, the server keeps nothing on disk, or the files cannot be
/// written.
pub(crate) fn run(args: &CheckpointArgs) -> Result<(), CliError> {
    let url = args.address.as_ref().unwrap_or(&args.server.url);
    let client = client_at(url, &args.server.trust)?;
    let bar = files::steady_spinner("{spinner} a checkpoint is being written  {elapsed}");
    let taken = client.post("/checkpoint", &[], std::io::empty());
    bar.finish_and_clear();
    println!("{}", line(&json_of(taken?.body_mut())?)?);
    Ok(())
}

fn line(taken: &Value) -> Result<String, CliError> {
    let lacking = |name| move || CliError::Failed(format!("the answer has no number `{name}`"));
    let number = |name| taken[name].as_u64().ok_or_else(lacking(name));
    let seconds = taken["seconds"].as_f64().ok_or_else(lacking("seconds"))?;
    Ok(format!(
        "checkpoint {}: SN {}, the log up to record {}, {}, {} of them new, written in {seconds:.1} s",
        number("number")?,
        number("sn")?,
        number("position")?,
        HumanBytes(number("bytes")?),
        HumanBytes(number("written_bytes")?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_checkpoint_is_told_in_a_line() {
        let taken = json!({
            "number": 3, "position": 250, "sn": 17, "bytes": 5000, "written_bytes": 1200, "seconds": 0.25,
        });
        assert_eq!(
            line(&taken).unwrap(),
            "checkpoint 3: SN 17, the log up to record 250, 4.88 KiB, 1.17 KiB of them new, written in 0.2 s"
        );
        for name in [
            "number",
            "position",
            "sn",
            "bytes",
            "written_bytes",
            "seconds",
        ] {
            let mut cut = taken.clone();
            cut.as_object_mut().unwrap().remove(name);
            assert!(line(&cut).unwrap_err().to_string().contains(name));
        }
    }
}
