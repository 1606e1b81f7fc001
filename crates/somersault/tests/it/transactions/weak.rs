//! WEAK recovery: what transactions did is not in the log, and comes back by running them again.

use super::checkpoints::{
    Recovery, inputs, open, outcome, random_inputs, simulated, uninterrupted,
};
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{Engine, PushLines};
use somersault_log::{Log, Position, Record, TxnItem, TxnOutcome};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn restarted_after_any_input_it_ends_as_strong_does() {
    let expected = uninterrupted();
    for recovery in [Recovery::Weak, Recovery::Changes] {
        let inputs = inputs(recovery);
        for restarted in 6..=inputs.len() {
            let disk = SimDisk::new();
            let engine = open(&disk, 2).unwrap();
            (inputs[..restarted].iter()).for_each(|it| it(&engine).unwrap());
            drop(engine);
            let disk = disk.restarted();
            let engine = open(&disk, [1, 2, 4][restarted % 3]).unwrap();
            (inputs[restarted..].iter()).for_each(|it| it(&engine).unwrap());
            assert_eq!(
                outcome(&engine),
                expected,
                "{recovery:?}, {restarted} inputs"
            );
            drop(engine);
            let engine = open(&disk.restarted(), 1).unwrap();
            assert_eq!(
                outcome(&engine),
                expected,
                "{recovery:?}, {restarted} inputs"
            );
        }
    }
}

#[test]
fn crashed_at_any_sync_it_ends_as_strong_does() {
    let expected = uninterrupted();
    for recovery in [Recovery::Weak, Recovery::Changes] {
        let inputs = inputs(recovery);
        let run = |engine: &Engine, from: usize| {
            let go_on = |at: &usize| inputs[*at](engine).is_ok();
            from + (from..inputs.len()).take_while(go_on).count()
        };
        let mut sync = 0;
        loop {
            let keep = [
                CrashKeep::Synced,
                CrashKeep::Written,
                CrashKeep::Seeded(sync),
            ];
            let disk = SimDisk::new();
            disk.crash_at_sync(sync, keep[sync as usize % 3]);
            let mut done = 0;
            let crashed = open(&disk, 2).map(|engine| done = run(&engine, 0));
            if crashed.is_ok() && done == inputs.len() {
                assert!(sync > 20, "{sync}");
                break;
            }
            let engine = open(&disk.restarted(), 1).unwrap();
            assert_eq!(run(&engine, done), inputs.len(), "crashed at sync {sync}");
            assert_eq!(outcome(&engine), expected, "crashed at sync {sync}");
            sync += 2;
        }
    }
}

/// Random inputs with crashes at random syncs end as STRONG does without a crash.
#[test]
fn random_inputs_with_crashes_end_as_strong_does() {
    let mut crashes = 0;
    for seed in 0..24_u64 {
        let engine = open(&SimDisk::new(), 1).unwrap();
        let inputs = random_inputs("STRONG", seed);
        inputs.iter().for_each(|it| it(&engine).unwrap());
        let expected = outcome(&engine);
        for recovery in ["STRONG", "WEAK"] {
            let inputs = random_inputs(recovery, seed);
            let mut disk = SimDisk::new();
            let mut done = 0;
            for crash in 0..3 {
                let syncs = (seed * 7 + crash * 11) % 29;
                disk.crash_at_sync(syncs, CrashKeep::Seeded(seed + crash));
                if let Ok(engine) = open(&disk, 1 + (seed + crash) as u16 % 2) {
                    let rest = inputs[done..].iter();
                    done += rest.take_while(|it| it(&engine).is_ok()).count();
                }
                crashes += u64::from(done < inputs.len());
                disk = disk.restarted();
            }
            let engine = open(&disk, 2).unwrap();
            inputs[done..].iter().for_each(|it| it(&engine).unwrap());
            assert_eq!(outcome(&engine), expected, "{recovery}, seed {seed}");
        }
    }
    assert!(crashes > 48, "{crashes}");
}

/// A crash at any turn, twice, while messages and calls are on their way.
#[test]
fn killed_at_any_turn_it_ends_as_strong_does() {
    let expected = uninterrupted();
    for seed in 0..40_u64 {
        let inputs = inputs([Recovery::Weak, Recovery::Changes][seed as usize % 2]);
        let mut disk = SimDisk::new();
        let (mut process, mut engine) = simulated(&disk, seed);
        let mut done = 0;
        for crash in 1..=2_u64 {
            let until = (done + 10 + seed as usize % 9).min(inputs.len());
            inputs[done..until]
                .iter()
                .for_each(|it| it(&engine).unwrap());
            done = until;
            for _ in 0..seed * crash % 31 {
                process.take_turn();
            }
            disk = disk.crash(CrashKeep::Seeded(seed * 3 + crash));
            drop(engine);
            (process, engine) = simulated(&disk, seed + 100 * crash);
        }
        inputs[done..].iter().for_each(|it| it(&engine).unwrap());
        assert_eq!(outcome(&engine), expected, "seed {seed}");
    }
}

fn push(engine: &Engine, number: u64) {
    let line = format!("{}\t<urn:m{number}> <urn:is> \"one\" .\n", number * 10);
    let push = PushLines {
        seq: Some(number),
        lines: line.as_bytes(),
        ..PushLines::default()
    };
    engine.push_lines("urn:s", push).unwrap();
}

fn stored(engine: &Engine) -> Vec<String> {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let stored = engine.query("SELECT ?s ?p ?o { ?s ?p ?o }").run().unwrap();
    let mut rows: Vec<String> = stored.answer.rows().map(|row| format!("{row:?}")).collect();
    rows.sort_unstable();
    rows
}

/// Each draw, each time and each blank node is the same again, also those of calls.
#[test]
fn times_and_random_values_are_the_same_again() {
    let disk = SimDisk::new();
    let engine = open(&disk, 1).unwrap();
    engine
        .create_stream(None, "CREATE STREAM s BATCH 1s IDLE NEVER")
        .unwrap();
    let draw = "INSERT { ?m <urn:drew> ?r ; <urn:at> ?t ; <urn:as> ?u ; <urn:node> _:b . _:b <urn:of> ?s } WHERE { ?m ?p ?o
        BIND(RAND() AS ?r) BIND(NOW() AS ?t) BIND(UUID() AS ?u) BIND(STRUUID() AS ?s) }";
    let of_batch = draw.replace("{ ?m ?p ?o", "{ BATCH { ?m ?p ?o }");
    let of_call = draw.replace("{ ?m ?p ?o", "{ VALUES ?m { <urn:call> }");
    engine
        .declare(&format!(
            "CREATE PROCEDURE drawn ON STREAM s BATCH 2 MESSAGES AS {{ {of_batch} }}"
        ))
        .unwrap();
    engine
        .declare(&format!("CREATE PROCEDURE called() AS {{ {of_call} }}"))
        .unwrap();
    engine
        .declare("CREATE DATAFLOW drawing { drawn, called } RECOVERY WEAK")
        .unwrap();
    (1..=5).for_each(|number| push(&engine, number));
    engine.call("called").run().unwrap();
    engine.call("called").key("till", 1).run().unwrap();
    (6..=9).for_each(|number| push(&engine, number));
    let expected = stored(&engine);
    // The clock stands still, so both calls have one time.
    assert_eq!(expected.len(), 8 * 5 + 2 * 5 - 1);
    drop(engine);
    let engine = open(&disk.restarted(), 2).unwrap();
    assert_eq!(stored(&engine), expected);
    push(&engine, 10);
    assert_eq!(stored(&engine).len(), expected.len() + 10);
    engine.check().unwrap();
}

/// What a transaction wrote stands in the log of STRONG alone.
#[test]
fn effects_are_not_logged() {
    for (recovery, is_logged) in [("STRONG", true), ("WEAK", false)] {
        let disk = SimDisk::new();
        let engine = open(&disk, 1).unwrap();
        engine
            .create_stream(None, "CREATE STREAM s BATCH 1s IDLE NEVER")
            .unwrap();
        engine
            .declare(
                "CREATE PROCEDURE p ON STREAM s BATCH 1 MESSAGE AS {
                    INSERT { ?m <urn:p> ?t } WHERE { BATCH { ?m <urn:is> ?o } BIND(CONCAT(?o, ?o) AS ?t) }
                }",
            )
            .unwrap();
        engine
            .declare(&format!("CREATE DATAFLOW f {{ p }} RECOVERY {recovery}"))
            .unwrap();
        push(&engine, 1);
        let written = stored(&engine);
        assert!(written[0].contains("oneone"), "{written:?}");
        let logs = disk
            .names()
            .into_iter()
            .filter(|name| name.ends_with(".seg"));
        let bytes: Vec<u8> = logs.flat_map(|name| disk.bytes(&name).unwrap()).collect();
        let is_there = bytes.windows(6).any(|part| part == b"oneone");
        assert_eq!(is_there, is_logged, "{recovery}");
        drop(engine);
        assert_eq!(stored(&open(&disk.restarted(), 1).unwrap()), written);
    }
}

/// The items of the transactions that the log holds: origins, counts, and others.
fn logged(disk: SimDisk) -> (usize, u64, usize) {
    let (_log, records) = Log::read_after(Arc::new(disk), Arc::default(), Position::START).unwrap();
    let (mut origins, mut counted, mut others) = (0, 0, 0);
    for record in records {
        let (_, Record::Txn(record)) = record.unwrap() else {
            continue;
        };
        for item in record.items {
            match item {
                TxnItem::Entry(entry) if entry.outcome == TxnOutcome::Rerun => origins += 1,
                TxnItem::Triggered(count) => counted += count,
                TxnItem::Entry(_) => others += 1,
                TxnItem::Advance(_) => {}
            }
        }
    }
    (origins, counted, others)
}

/// Of a chain the log holds the batches from outside; where a procedure also waits for pushes, it
/// holds what led to each transaction.
#[test]
fn what_others_led_to_is_counted() {
    let emit = |from: &str, to: &str| {
        format!(
            "ON STREAM {from} BATCH 1 MESSAGE AS {{ EMIT INTO {to} CONSTRUCT {{ ?m ?p ?o }} WHERE {{ BATCH {{ ?m ?p ?o }} }} }}"
        )
    };
    let kept = "INSERT { ?m <urn:seen> ?o } WHERE { BATCH <urn:b> { ?m ?p ?o } }";
    for (joins, expected) in [(false, (5, 10, 0)), (true, (15, 0, 0))] {
        let disk = SimDisk::new();
        let engine = open(&disk, 1).unwrap();
        for text in [
            "CREATE STREAM s BATCH 1s IDLE NEVER",
            "CREATE STREAM t BATCH 1s IDLE NEVER",
            "CREATE STREAM a INTERIOR",
            "CREATE STREAM b INTERIOR",
        ] {
            engine.create_stream(None, text).unwrap();
        }
        let (first, second) = (emit("s", "a"), emit("a", "b"));
        let beside = if joins {
            "ON STREAM a BATCH 1 MESSAGE ON STREAM t BATCH 1 MESSAGE AS { INSERT DATA { <urn:never> <urn:was> 1 } }"
        } else {
            "ON STREAM t BATCH 1 MESSAGE AS { INSERT DATA { <urn:never> <urn:was> 1 } }"
        };
        for text in [
            format!("CREATE PROCEDURE first {first}"),
            format!("CREATE PROCEDURE second {second}"),
            format!("CREATE PROCEDURE third ON STREAM b BATCH 1 MESSAGE AS {{ {kept} }}"),
            format!("CREATE PROCEDURE beside {beside}"),
            "CREATE DATAFLOW chain { first, second, third, beside } RECOVERY WEAK".to_owned(),
        ] {
            engine.declare(&text).unwrap();
        }
        (1..=5).for_each(|number| push(&engine, number));
        let written = stored(&engine);
        assert_eq!(written.len(), 5, "{written:?}");
        drop(engine);
        assert_eq!(logged(disk.restarted()), expected, "joins: {joins}");
        let engine = open(&disk.restarted(), 2).unwrap();
        assert_eq!(stored(&engine), written, "joins: {joins}");
        engine.check().unwrap();
    }
}
