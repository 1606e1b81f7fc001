//! Laws of generated histories: the core does what the serial twin does, a replay of the log gives
//! the same state, and so does a checkpoint at any point.

use crate::driver::{Act, Driver, Executed, Script};
use crate::generated::{Generated, streams};
use crate::twin::Twin;
use somersault_model::{EventTime, SeededRandom};
use somersault_txn::{
    Core, DataflowState, DataflowStatus, Event, RestoreError, Round, SavedRecord,
};
use std::collections::{BTreeMap, BTreeSet};

/// The number of generated histories; `SOMERSAULT_TXN_HISTORIES` raises it.
fn histories() -> u64 {
    let asked = std::env::var("SOMERSAULT_TXN_HISTORIES").ok();
    asked.and_then(|asked| asked.parse().ok()).unwrap_or(300)
}

fn script(seed: u64) -> Script {
    Script::Drawn {
        seed,
        aborts: [0, 10, 25][seed as usize % 3],
    }
}

/// Runs a history on a driver, telling `each` of the acts that were accepted.
fn drive(seed: u64, mut each: impl FnMut(&mut Driver, &Act)) -> Driver {
    let generated = Generated::new(seed, 60 + seed % 80);
    let mut driver = Driver::new(script(seed));
    for act in &generated.acts {
        if driver.act(act).is_ok() {
            each(&mut driver, act);
        }
    }
    driver
}

/// Where a driver and the twin differ.
pub(crate) fn difference(driver: &Driver, twin: &Twin, act: &Act) -> Option<String> {
    for (number, (done, expected)) in driver.done.iter().zip(&twin.done).enumerate() {
        if done != expected {
            return Some(format!(
                "transaction {number}: {done:#?}, not {expected:#?}"
            ));
        }
    }
    if driver.done.len() != twin.done.len() {
        let counts = (driver.done.len(), twin.done.len());
        return Some(format!("{} transactions, not {}", counts.0, counts.1));
    }
    for stream in streams() {
        let Some((needed, _)) = driver.core.holder(stream) else {
            continue;
        };
        if needed.0 != twin.needed(stream.0) {
            return Some(format!("{stream:?} is needed from {needed:?}"));
        }
        let through = Some(EventTime(twin.complete_through(stream.0)));
        if matches!(act, Act::Advance) && driver.core.through(stream) != through {
            return Some(format!("{stream:?} is not complete through {through:?}"));
        }
    }
    for (uid, shape) in driver.core.procedures() {
        for (number, window) in shape.windows.iter().enumerate() {
            let shown: BTreeSet<u64> = driver.core.window(uid, number).map(|of| of.0).collect();
            let key = (shape.name.clone(), window.name.clone());
            let held = driver.contents.get(&key).map(|(_, held)| held.clone());
            if shown != held.unwrap_or_default() {
                return Some(format!("{} shows {shown:?}", window.name));
            }
        }
    }
    let status = driver.core.dataflow("d");
    let is_stopped = |status: DataflowStatus| matches!(status.state, DataflowState::Stopped(_));
    let is_stopped = status.is_some_and(is_stopped);
    (is_stopped != twin.stopped.contains("d")).then(|| "the dataflow's state".to_owned())
}

fn compare(driver: &Driver, twin: &Twin, seed: u64, act: &Act) {
    if let Some(difference) = difference(driver, twin, act) {
        panic!("seed {seed}, at {act:?}: {difference}");
    }
}

#[test]
fn the_core_does_what_the_twin_does() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..histories() {
        let mut twin = Twin::new(script(seed));
        let driver = drive(seed, |driver, act| {
            twin.act(act);
            compare(driver, &twin, seed, act);
        });
        for done in &driver.done {
            let is_nested = done.executions.len() > 1;
            let is_of_call = matches!(done.round, Round::Call(_));
            let of_batches = |count| move |of: &Executed| of.batches.len() >= count;
            let has_slid = |of: &Executed| !of.slides.is_empty();
            let any = |is_so: &dyn Fn(&Executed) -> bool| done.executions.iter().any(is_so);
            for (what, is_so) in [
                ("transactions", true),
                ("aborted", done.aborted.is_some()),
                ("of several executions", is_nested),
                (
                    "of several executions, aborted",
                    is_nested && done.aborted.is_some(),
                ),
                ("joins of two batches", any(&of_batches(2))),
                ("with slides", any(&has_slid)),
                (
                    "with slides, aborted",
                    any(&has_slid) && done.aborted.is_some(),
                ),
                ("calls", is_of_call),
                ("led to by calls", is_of_call && any(&of_batches(1))),
            ] {
                *found.entry(what).or_default() += usize::from(is_so);
            }
        }
    }
    println!("{found:?}");
    assert!(
        found.values().all(|count| *count > 20),
        "the histories are not empty: {found:?}"
    );
}

pub(crate) fn thawed(core: &Core) -> Core {
    let records = core.freeze();
    let read = records
        .iter()
        .map(|record| SavedRecord::from_bytes(&record.to_bytes()));
    Core::restore::<RestoreError>(read).expect("what was saved is restored")
}

#[test]
fn a_checkpoint_at_any_point_goes_on_as_the_core_does() {
    for seed in 0..histories() / 3 {
        let mut twin = Twin::new(script(seed));
        drive(seed, |driver, act| {
            let restored = thawed(&driver.core);
            assert_eq!(restored.freeze(), driver.core.freeze(), "seed {seed}");
            assert_eq!(restored.next(), driver.core.next(), "seed {seed}");
            driver.core = restored;
            twin.act(act);
            compare(driver, &twin, seed, act);
        });
    }
}

/// The log has inputs before the transactions that ran while they came.
#[test]
fn a_replay_with_inputs_before_transactions_gives_the_same_state() {
    for seed in 0..histories() {
        let driver = drive(seed, |_, _| {});
        let mut random = SeededRandom::new(seed);
        let mut events = driver.events.clone();
        for at in 1..events.len() {
            let is_input =
                |event: &Event| matches!(event, Event::Message { .. } | Event::Complete { .. });
            let is_lane = |event: &Event| matches!(event, Event::Entry(_) | Event::Advance(_));
            let mut at = at;
            while at > 0 && is_input(&events[at]) && is_lane(&events[at - 1]) && random.below(4) > 0
            {
                events.swap(at - 1, at);
                at -= 1;
            }
        }
        let mut core = Core::new();
        for event in &events {
            let applied = core.apply(event);
            applied.unwrap_or_else(|error| panic!("seed {seed}: {event:?}: {error}"));
        }
        let expected = driver.core.freeze();
        for (saved, expected) in core.freeze().iter().zip(&expected) {
            assert_eq!(saved, expected, "seed {seed}");
        }
        assert_eq!(core.freeze().len(), expected.len(), "seed {seed}");
    }
}

/// WEAK recovery runs logged origins again.
#[test]
fn logged_origins_run_again_to_the_same_entries() {
    for seed in 0..histories() / 3 {
        let driver = drive(seed, |_, _| {});
        let mut again = Driver::new(script(seed));
        for event in &driver.events {
            if let Event::Entry(entry) = event {
                let transaction = again.core.again(&entry.origin).expect("it may run");
                let (made, done, contents) = again.execute(&transaction);
                assert_eq!(made, *entry, "seed {seed}");
                again.finish(made, done, contents);
            } else {
                again.apply(event.clone()).expect("it fits");
            }
        }
        assert_eq!(again.core.freeze(), driver.core.freeze(), "seed {seed}");
    }
}

/// WEAK recovery counts transactions that others led to: in a replay, more messages of clients may
/// have come before them.
#[test]
fn what_others_led_to_follows_from_entries_alone() {
    let (mut following, mut overtaken) = (0, 0);
    for seed in 0..histories() {
        drive(seed, |driver, _| {
            let mut driver = driver.clone();
            while let Some(next) = driver.core.next() {
                let mut ahead = driver.clone();
                for stream in [1, 2] {
                    for at in [1_000_000, 1_000_040] {
                        // A stream that nothing consumes takes none.
                        let _ = ahead.act(&Act::Message(stream, at));
                    }
                    let _ = ahead.act(&Act::Complete(stream, 1_000_050));
                }
                let is_same = ahead.core.next().as_ref() == Some(&next);
                if driver.core.follows_from_entries(&next) {
                    assert!(is_same, "seed {seed}: another one comes before {next:?}");
                    following += 1;
                } else if next.is_triggered() {
                    overtaken += usize::from(!is_same);
                }
                driver.act(&Act::Run).expect("what is next can run");
            }
        });
    }
    assert!(following > 1_000, "{following} were looked at");
    assert!(overtaken > 0, "the others may be overtaken");
}
