//! Restart time and folder size against the age of the streams. What is absorbed stays stored, and
//! it grows with the age; so both are also given for each million stored statements, and it is
//! these that should stay flat.

use super::node::{
    Node, checkpoints_in_words, folder, folder_bytes, kill_and_restart, play_with_checkpoint,
};
use super::orders::Order;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::clear;

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "age",
    run,
    rows,
};

const TIME: &str = "as before, s a million stored";
const BYTES: &str = "folder, MB a million stored";

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let stored = options.stored_elsewhere;
    let sheet = Sheet::new(
        "Durability: restarts as the streams grow old",
        format!(
            "{} triples stored at first, five streams at {} tuples/s of event time, nine queries; killed at each age and started again; {}.",
            thousands(stored),
            thousands(options.rate.into()),
            checkpoints_in_words(options)
        ),
    );
    let folder = folder(options, "age")?;
    let mut node = Node::start(options, stored, Some(&folder))?;
    node.order(&Order::Begin)?;
    let columns = [
        "stored, million",
        "folder, MB",
        "first answer, s",
        "as before, s",
        TIME,
        BYTES,
    ];
    let mut grid = Grid::new("event time, s", columns);
    let mut at_ms = 0;
    for age in &options.ages {
        let age_ms = age * 1000;
        play_with_checkpoint(&mut node, options, (age_ms - at_ms).max(0))?;
        let millions = node.tell()?.state.stored as f64 / 1e6;
        let megabytes = folder_bytes(&folder)? as f64 / 1e6;
        let (restarted, again) = kill_and_restart(node, options, stored, &folder)?;
        if !restarted.same {
            return Err(format!("the state after the restart at {age} s is another one").into());
        }
        grid.line(
            age.to_string(),
            [
                millions,
                megabytes,
                restarted.first_s,
                restarted.as_before_s,
                restarted.as_before_s / millions,
                megabytes / millions,
            ]
            .map(Some),
        );
        node = again;
        // The restart has played one batch more.
        at_ms = age_ms + crate::streams::stage::BATCH_MS;
    }
    node.kill()?;
    clear(&folder)?;
    Ok(sheet.with([grid]))
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let row = |what: &str, column: &str| {
        let what = format!("durability: {what} by age, most against least");
        at_most(
            &what,
            1.2,
            sheet.and_then(|sheet| sheet.spread(column)),
            "×",
        )
    };
    vec![
        row("restart time of a million stored", TIME),
        row("folder size of a million stored", BYTES),
    ]
}
