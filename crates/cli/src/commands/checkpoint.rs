//! `checkpoint`: a server takes a checkpoint, and says what it holds.

use crate::args::CheckpointArgs;
use crate::client::{Client, json_of};
use crate::error::CliError;
use crate::files;
use serde_json::Value;

/// Lets the server take a checkpoint, and waits until it is written.
///
/// # Errors
/// When another one is being taken, the server keeps nothing on disk, or the files cannot be
/// written.
pub(crate) fn run(args: &CheckpointArgs) -> Result<(), CliError> {
    let url = args.address.as_ref().unwrap_or(&args.server.url);
    let client = Client::new(url)?;
    let bar = files::steady_spinner("{spinner} a checkpoint is being written  {elapsed}");
    let taken = client.post("/checkpoint", &[], std::io::empty());
    bar.finish_and_clear();
    println!("{}", line(&json_of(taken?.body_mut())?));
    Ok(())
}

fn line(taken: &Value) -> String {
    let seconds = taken["seconds"].as_f64().unwrap_or_default();
    format!(
        "checkpoint {}: SN {}, the log up to record {}, {} bytes, {} of them new, written in {seconds:.1} s",
        taken["number"], taken["sn"], taken["position"], taken["bytes"], taken["written_bytes"],
    )
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
            line(&taken),
            "checkpoint 3: SN 17, the log up to record 250, 5000 bytes, 1200 of them new, written in 0.2 s"
        );
    }
}
