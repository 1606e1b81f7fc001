//! Restart time, folder size and memory against the age of the streams.
//!
//! Once with the streams as they are: what they absorb stays stored, so the folder and the restart
//! grow with the age, and the figures for each million stored statements should stay flat. Once
//! with the same streams declared so that nothing is absorbed: then what is stored stays the same,
//! and everything should stay flat.

use super::node::{
    Node, checkpoints_in_words, folder, folder_bytes, kill_and_restart, play_with_checkpoints,
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

const TIME_EACH: &str = "as before, s a million stored";
const BYTES_EACH: &str = "folder, MB a million stored";
const TIME: &str = "nothing absorbed: as before, s";
const BYTES: &str = "nothing absorbed: folder, MB";
const MEMORY: &str = "nothing absorbed: resident, MB";

/// The figures at one age.
struct AtAge {
    millions: f64,
    megabytes: f64,
    resident: f64,
    first_s: f64,
    as_before_s: f64,
}

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Durability: restarts as the streams grow old",
        format!(
            "{} triples stored at first, five streams at {} tuples/s of event time, nine queries; killed at each age and started again; {}. The second table is of the same streams, declared so that no statement is absorbed.",
            thousands(options.stored_elsewhere),
            thousands(options.rate.into()),
            checkpoints_in_words(options)
        ),
    );
    let columns = [
        "stored, million",
        "folder, MB",
        "first answer, s",
        "as before, s",
        TIME_EACH,
        BYTES_EACH,
    ];
    let mut absorbed = Grid::new("event time, s", columns);
    by_age(options, &options.ages, false, &mut |age, at| {
        let each = [at.as_before_s, at.megabytes].map(|figure| figure / at.millions);
        absorbed.line(
            age.to_string(),
            [
                at.millions,
                at.megabytes,
                at.first_s,
                at.as_before_s,
                each[0],
                each[1],
            ]
            .map(Some),
        );
    })?;
    let columns = [MEMORY, BYTES, "first answer, s", TIME];
    let mut passing = Grid::new("event time, s, nothing absorbed", columns);
    by_age(options, &options.passing_ages, true, &mut |age, at| {
        let figures = [at.resident, at.megabytes, at.first_s, at.as_before_s];
        passing.line(format!("{age}, nothing absorbed"), figures.map(Some));
    })?;
    Ok(sheet.with([absorbed, passing]))
}

/// Plays up to each age; kills the process there, and starts it again.
fn by_age(
    options: &DurabilityOptions,
    ages: &[i64],
    passing: bool,
    each: &mut dyn FnMut(i64, AtAge),
) -> Result<(), Failure> {
    let stored = options.stored_elsewhere;
    let folder = folder(options, "age")?;
    let mut node = Node::start(options, stored, Some(&folder))?;
    node.order(&Order::Begin { passing })?;
    let mut at_ms = 0;
    for &age in ages {
        let age_ms = age * 1000;
        play_with_checkpoints(&mut node, options, (age_ms - at_ms).max(0))?;
        let told = node.tell()?;
        let megabytes = folder_bytes(&folder)? as f64 / 1e6;
        let (restarted, again) = kill_and_restart(node, options, stored, &folder)?;
        if !restarted.same {
            return Err(format!("the state after the restart at {age} s is another one").into());
        }
        let at = AtAge {
            millions: told.state.stored as f64 / 1e6,
            megabytes,
            resident: told.resident_bytes as f64 / 1e6,
            first_s: restarted.first_s,
            as_before_s: restarted.as_before_s,
        };
        each(age, at);
        node = again;
        // The restart has played one batch more.
        at_ms = age_ms + crate::streams::stage::BATCH_MS;
    }
    node.kill()?;
    clear(&folder)?;
    Ok(())
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
        row("restart time of a million stored", TIME_EACH),
        row("folder size of a million stored", BYTES_EACH),
        row("restart time, nothing absorbed,", TIME),
        row("folder size, nothing absorbed,", BYTES),
        row("resident memory, nothing absorbed,", MEMORY),
    ]
}
