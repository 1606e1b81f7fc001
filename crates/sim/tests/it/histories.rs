//! Histories of concurrent transactions on simulated processes: serializable for every seed, with
//! crashes and both recoveries; and a mistake of the clients is found.

use somersault_sim::histories::{HistoryPlant, run_history};
use std::collections::BTreeSet;

#[test]
fn histories_of_all_seeds_are_serializable() {
    let (mut crashes, mut under_way, mut unknown) = (0, 0, 0);
    for seed in 1..=90 {
        let run =
            run_history(seed, 60, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(run.verdict.anomalies, [], "seed {seed}: {}", run.verdict);
        assert!(run.verdict.ok > 20, "seed {seed}: {}", run.verdict);
        crashes += run.crashes;
        unknown += run.verdict.unknown;
        under_way = under_way.max(run.most_under_way);
    }
    assert!(
        crashes > 20 && unknown > 10,
        "{crashes} crashes, {unknown} not answered"
    );
    assert!(under_way > 3, "{under_way} calls at a time");
}

/// Transactions that are sent step by step are none: the check names what that leads to.
#[test]
fn transactions_that_are_torn_are_found() {
    let mut names = BTreeSet::new();
    for seed in 1..=20 {
        let run = run_history(seed, 60, Some(HistoryPlant::Torn));
        let run = run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(!run.verdict.anomalies.is_empty(), "seed {seed}");
        names.extend(run.verdict.anomalies.iter().map(|it| it.name));
    }
    for name in ["G-single", "G1a", "G1b"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}
