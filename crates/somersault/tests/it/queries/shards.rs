//! Answers do not depend on how many shards there are, nor on how they interleave (CL-1).

use crate::support::scenario::*;
use somersault::{Engine, FabricKind};
use std::time::Duration;

fn answers(workers: u16, fabric: FabricKind) -> Vec<(i64, Vec<String>)> {
    let mut settings = config();
    settings.workers = workers;
    settings.fabric = fabric;
    let engine = Engine::open(settings).unwrap();
    for (name, clauses) in [("posts", "TIMELESS"), ("likes", "")] {
        let text = format!("CREATE STREAM <{NS}{name}> {clauses} BATCH 100ms IDLE NEVER");
        engine.create_stream(None, &text).unwrap();
    }
    let text = format!(
        "PREFIX : <{NS}> SELECT ?who ?post ?friend
         FROM STREAM :likes [RANGE 300ms STEP 100ms] FROM NAMED STREAM :posts [RANGE 200ms STEP 200ms]
         WHERE {{ ?who :likes ?post . ?friend :wrote ?post OPTIONAL {{ GRAPH :posts {{ ?friend :wrote ?post }} }} }}"
    );
    engine.register(Some("q"), &text).unwrap();
    advance(&engine, 0);
    for step in 0..20_i64 {
        let at = step * 100 + 10;
        let statements: Vec<String> = (0..7)
            .map(|i| format!("u{} wrote p{}", (step + i) % 5, (step * i) % 11))
            .collect();
        let posts: Vec<(i64, &str)> = statements.iter().map(|text| (at, text.as_str())).collect();
        engine.push(&format!("{NS}posts"), push(&posts)).unwrap();
        let like = format!("u{} likes p{}", step % 3, (step * 3) % 11);
        engine
            .push(&format!("{NS}likes"), push(&[(at + 1, &like)]))
            .unwrap();
        if step % 5 == 4 {
            let text = format!("PREFIX : <{NS}> DELETE WHERE {{ ?x :wrote :p{step} }}");
            engine.update(&text).run().unwrap();
        }
        advance(&engine, (step + 1) * 100);
    }
    engine.quiesce(Duration::from_secs(60)).unwrap();
    engine.check().unwrap();
    let metrics = engine.metrics();
    assert_eq!(metrics.shards.len(), usize::from(workers));
    assert!(metrics.shards.iter().all(|shard| shard.injected > 0));
    assert_eq!(
        (metrics.pins, metrics.retained_sns),
        (0, 1),
        "nothing is left pinned"
    );
    firings(&engine, "q", None)
}

#[test]
fn one_two_and_four_shards_and_the_simulator_agree() {
    let expected = answers(1, FabricKind::Timely);
    assert_eq!(expected.len(), 20);
    assert!(expected.iter().filter(|(_, rows)| !rows.is_empty()).count() > 10);
    for workers in [2, 4] {
        assert_eq!(
            answers(workers, FabricKind::Timely),
            expected,
            "{workers} shards"
        );
    }
    for seed in 0..5 {
        let fabric = FabricKind::Simulated { seed };
        assert_eq!(answers(3, fabric), expected, "seed {seed}");
    }
}
