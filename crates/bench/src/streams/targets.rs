//! The targets of the stream benches, each with its newest figure.

use super::figures::{
    Absorption, CityBench, Lines, Memory, OneShot, Paper, PeerQuery, Peers, Point, StreamFigures,
};
use super::paper::mean;
use super::{batches, snapshots, standing, steps};
use crate::figures::results::geometric_mean;
use crate::figures::table;
use crate::harness::target::{Row, Verdict, at_least, at_most};

/// The times of L1–L6 in the paper on one node, in milliseconds.
pub(super) const PAPER_P50_MS: [(&str, f64); 6] = [
    ("L1", 0.13),
    ("L2", 0.10),
    ("L3", 0.13),
    ("L4", 1.19),
    ("L5", 2.89),
    ("L6", 2.14),
];
/// The target for their geometric mean; the paper's is 0.48 ms.
pub(super) const PAPER_MEAN_MS: f64 = 0.20;
/// The number of triples that the paper stores.
pub(super) const PAPER_STORED: f64 = 118e6;

/// The p99 of a query may be this multiple of its p50, or this number of milliseconds if that is
/// more.
const TAIL_TIMES: f64 = 5.0;
const TAIL_MS: f64 = 1.0;

/// All targets of the stream benches.
pub(crate) fn rows(figures: &StreamFigures) -> Vec<Row> {
    let mut rows = paper(figures.paper.as_ref());
    rows.extend(lines(figures.rates.as_ref()));
    rows.extend(absorption(figures.absorption.as_ref()));
    rows.extend(standing::rows(figures.standing.as_ref()));
    rows.extend(one_shot(figures.oneshot.as_ref()));
    rows.extend(citybench(figures.citybench.as_ref()));
    rows.push(memory(figures.memory.as_ref()));
    rows.extend(snapshots::rows(figures.snapshots.as_ref()));
    rows.extend(steps::rows(figures.steps.as_ref()));
    rows.extend(batches::rows(figures.batches.as_ref()));
    rows.push(super::terms::row(figures.terms.as_ref()));
    rows.extend(peers(figures.peers.as_ref()));
    rows
}

fn paper(paper: Option<&Paper>) -> Vec<Row> {
    let alone = paper
        .map(|paper| paper.alone.as_slice())
        .unwrap_or_default();
    let find = |name: &str| alone.iter().find(|figures| figures.query == name);
    let stored = paper.map(|paper| paper.stored.triples as f64);
    let mut rows = vec![at_least(
        "streams: stored triples in the paper's setting",
        PAPER_STORED * 0.99 / 1e6,
        stored.map(|stored| stored / 1e6),
        "million",
    )];
    for (name, most) in PAPER_P50_MS {
        let what = format!("streams {name}, alone, execution p50");
        rows.push(at_most(
            &what,
            most,
            find(name).map(|row| row.execution_p50_ms),
            "ms",
        ));
    }
    rows.push(at_most(
        "streams L1–L6, alone, geometric mean of execution p50",
        PAPER_MEAN_MS,
        mean(alone),
        "ms",
    ));
    for (name, _) in PAPER_P50_MS {
        let found = find(name);
        let most = found.map_or(TAIL_MS, |row| {
            (TAIL_TIMES * row.execution_p50_ms).max(TAIL_MS)
        });
        let stolen =
            found.map_or_else(String::new, |row| format!(" ({} ms stolen)", row.stolen_ms));
        let what = format!("streams {name}, alone, execution p99{stolen}");
        rows.push(at_most(
            &what,
            most,
            found.map(|row| row.execution_p99_ms),
            "ms",
        ));
    }
    rows
}

/// The largest median over the smallest, of the query with the largest such ratio; `None` without
/// two points.
pub(super) fn spread(points: &[Point]) -> Option<f64> {
    let first = points.first()?;
    let of = |name: &str| {
        let medians = points.iter().filter_map(|point| {
            let found = point.queries.iter().find(|row| row.query == name)?;
            Some(found.execution_p50_ms)
        });
        let (least, most) = medians.fold((f64::INFINITY, 0.0_f64), |(least, most), median| {
            (least.min(median), most.max(median))
        });
        most / least
    };
    let spreads = first.queries.iter().map(|row| of(&row.query));
    (points.len() > 1).then(|| spreads.fold(0.0, f64::max))
}

fn lines(lines: Option<&Lines>) -> Vec<Row> {
    let from_to = |points: Option<&Vec<Point>>| {
        let ends = points.and_then(|points| Some((points.first()?.at, points.last()?.at)));
        ends.map_or_else(String::new, |(from, to)| {
            format!(" from {} to {}", in_short(from), in_short(to))
        })
    };
    // Points close to each other count as flat, even if other points are missing.
    let lines = lines.filter(|lines| lines.complete);
    let row = |what: &str, points: Option<&Vec<Point>>, unit: &str| {
        let what = format!(
            "streams L1–L3, slowest against quickest, {what}{}{unit}",
            from_to(points)
        );
        at_most(&what, 1.5, points.and_then(|points| spread(points)), "×")
    };
    vec![
        row("rate", lines.map(|lines| &lines.by_rate), " tuples/s"),
        row("stored", lines.map(|lines| &lines.by_stored), " triples"),
        row("stream age", lines.map(|lines| &lines.by_age), " s"),
    ]
}

/// Thousands and millions as such.
pub(super) fn in_short(number: u64) -> String {
    match number {
        small if small < 10_000 => small.to_string(),
        medium if medium < 1_000_000 => format!("{}K", medium / 1_000),
        large => format!("{:.1}M", large as f64 / 1e6),
    }
}

fn absorption(absorption: Option<&Absorption>) -> Vec<Row> {
    let runs = absorption
        .map(|absorption| absorption.runs.as_slice())
        .unwrap_or_default();
    let best = |log: bool| {
        let found = runs.iter().filter(|run| run.log == log && !run.one_core);
        found.map(|run| run.tuples_per_second()).reduce(f64::max)
    };
    let cost = runs
        .iter()
        .find(|run| run.one_core)
        .map(|run| run.all_us_per_tuple());
    vec![
        at_most(
            "streams: processor time a tuple, text to stable, on one core",
            1.5,
            cost,
            "µs",
        ),
        at_least(
            "streams: absorption without log",
            1e6,
            best(false),
            "tuples/s",
        ),
        at_least("streams: absorption with log", 5e5, best(true), "tuples/s"),
    ]
}

fn one_shot(figures: Option<&OneShot>) -> Vec<Row> {
    (1..=6)
        .map(|number| {
            let name = format!("S{number}");
            let found = figures.and_then(|figures| {
                let row = figures.queries.iter().find(|row| row.query == name)?;
                Some(row.running_p50_us / row.still_p50_us)
            });
            let what = format!("streams: one-shot {name} while they run, against standing still");
            at_most(&what, 1.1, found, "×")
        })
        .collect()
}

fn citybench(figures: Option<&CityBench>) -> Vec<Row> {
    let mut rows: Vec<Row> = (1..=6)
        .map(|number| {
            let name = format!("C{number}");
            let found = figures.and_then(|figures| {
                let row = figures.queries.iter().find(|row| row.query == name)?;
                Some(row.execution_p50_ms)
            });
            at_most(
                &format!("CityBench {name}, execution p50"),
                0.2,
                found,
                "ms",
            )
        })
        .collect();
    rows.push(at_most(
        "CityBench: closes whose rows are not the reference's",
        0.0,
        figures.map(|figures| figures.differences.len() as f64),
        "closes",
    ));
    rows
}

fn memory(memory: Option<&Memory>) -> Row {
    at_most(
        "streams: memory of slices, with their windows",
        40.0,
        memory.map(|memory| memory.bytes_per_statement().1),
        "bytes a statement",
    )
}

/// Beside peers there is no target for the ratio, but all answers must be the same.
fn peers(peers: Option<&Peers>) -> Vec<Row> {
    let cases = peers
        .map(|peers| peers.cases.as_slice())
        .unwrap_or_default();
    let mut rows = vec![at_most(
        "streams: queries whose rows are not pyoxigraph's",
        0.0,
        peers.map(|_| {
            let cases = cases.iter().filter(|case| case.peer == "pyoxigraph");
            let differ = |remark: &str| remark.contains("other rows");
            let queries = cases.flat_map(|case| &case.queries);
            queries
                .filter(|row| row.remark.as_deref().is_some_and(differ))
                .count() as f64
        }),
        "queries",
    )];
    rows.extend(cases.iter().map(|case| {
        let ratios: Vec<f64> = case.queries.iter().filter_map(PeerQuery::times).collect();
        let mean = geometric_mean(&ratios).map_or_else(|| "not measured".to_owned(), table::ratio);
        Row {
            what: format!(
                "{} against {}, geometric mean of {}",
                case.data,
                case.peer,
                ratios.len()
            ),
            target: "–".to_owned(),
            figure: mean,
            verdict: Verdict::NotMeasured,
        }
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::figures::{AbsorptionRun, PUSHING, QueryFigures, StreamMemory};

    fn figures(query: &str, p50: f64, p99: f64) -> QueryFigures {
        QueryFigures {
            query: query.to_owned(),
            execution_p50_ms: p50,
            execution_p99_ms: p99,
            stolen_ms: 30,
            ..QueryFigures::default()
        }
    }

    fn verdict(rows: &[Row], what: &str) -> (Verdict, String) {
        let found = rows.iter().find(|row| row.what.contains(what));
        let row = found.unwrap_or_else(|| panic!("no row {what}"));
        (row.verdict, row.figure.clone())
    }

    #[test]
    fn without_figures_nothing_is_measured() {
        let rows = rows(&StreamFigures::default());
        assert!(rows.len() > 30);
        assert!(rows.iter().all(|row| row.verdict == Verdict::NotMeasured));
    }

    #[test]
    fn each_query_is_held_to_the_paper_and_to_its_own_median() {
        let mut alone: Vec<_> = PAPER_P50_MS
            .iter()
            .map(|(name, _)| figures(name, 0.1, 0.9))
            .collect();
        alone[2] = figures("L3", 0.4, 2.1);
        let paper = Paper {
            alone,
            ..Paper::default()
        };
        let all = StreamFigures {
            paper: Some(paper.clone()),
            ..StreamFigures::default()
        };
        let rows = rows(&all);
        assert_eq!(verdict(&rows, "L1, alone, execution p50").0, Verdict::Holds);
        assert_eq!(verdict(&rows, "L3, alone, execution p50").0, Verdict::Short);
        // A p99 under a millisecond is never a long tail; above, five times the median is.
        assert_eq!(
            verdict(&rows, "L1, alone, execution p99 (30 ms stolen)").0,
            Verdict::Holds
        );
        assert_eq!(verdict(&rows, "L3, alone, execution p99").0, Verdict::Short);
        assert_eq!(verdict(&rows, "geometric mean of execution").1, "0.13 ms");
        assert_eq!(
            verdict(&rows, "stored triples in the paper").0,
            Verdict::Short
        );
        let mut five = paper;
        five.alone.pop();
        assert_eq!(mean(&five.alone), None, "a mean of five is no mean of six");
    }

    #[test]
    fn a_line_is_as_flat_as_its_steepest_query() {
        let point = |at, first, second| Point {
            at,
            queries: vec![figures("L1", first, 1.0), figures("L2", second, 1.0)],
            ..Point::default()
        };
        let by_rate = vec![point(33_375, 0.1, 0.1), point(534_000, 0.11, 0.2)];
        let lines = Lines {
            by_stored: vec![point(1, 1.0, 1.0)],
            by_rate,
            complete: true,
            ..Lines::default()
        };
        let of = |lines: &Lines| {
            rows(&StreamFigures {
                rates: Some(lines.clone()),
                ..StreamFigures::default()
            })
        };
        let rows = of(&lines);
        let row = verdict(&rows, "rate from 33K to 534K tuples/s");
        assert_eq!(row, (Verdict::Short, "2.00 ×".to_owned()));
        let one_point = verdict(&rows, "quickest, stored");
        assert_eq!(one_point.0, Verdict::NotMeasured, "one point is no line");
        let partial = Lines {
            complete: false,
            ..lines.clone()
        };
        let rate = verdict(&of(&partial), "quickest, rate");
        assert_eq!(rate.0, Verdict::NotMeasured, "a part of it is none either");
        // Older files have no such member.
        let mut old = serde_json::to_value(&lines).unwrap();
        old.as_object_mut().unwrap().remove("complete").unwrap();
        assert_eq!(serde_json::from_value::<Lines>(old).unwrap(), lines);
    }

    #[test]
    fn the_cost_of_a_tuple_is_the_sum_of_its_parts() {
        let of = |name: &str, us| (name.to_owned(), us);
        let run = AbsorptionRun {
            us_per_tuple: vec![
                of(PUSHING, 0.68),
                of("callers: advance", 0.01),
                of("sequencer", 0.10),
                of("log", 0.08),
                of("injectors", 0.77),
            ],
            ..AbsorptionRun::default()
        };
        let absorption = Absorption {
            decode_us_per_tuple: 0.10,
            ..Absorption::default()
        };
        let parts = absorption.parts(&run);
        let expected = [
            ("decode", 0.10),
            ("encode", 0.58),
            ("log", 0.08),
            ("inject and index", 0.77),
            ("order", 0.11),
        ];
        for ((name, us), (expected_name, expected_us)) in parts.into_iter().zip(expected) {
            assert_eq!(name, expected_name);
            assert!((us - expected_us).abs() < 1e-9, "{name}: {us}");
        }
        let sum: f64 = parts.iter().map(|(_, us)| us).sum();
        assert!((sum - run.all_us_per_tuple()).abs() < 1e-9);
    }

    #[test]
    fn costs_are_of_one_core_and_rates_of_all() {
        let run = |log, one_core, seconds, us| AbsorptionRun {
            log,
            one_core,
            tuples: 1_000_000,
            seconds,
            us_per_tuple: vec![("a".to_owned(), us), ("b".to_owned(), 0.5)],
            ..AbsorptionRun::default()
        };
        let absorption = Absorption {
            runs: vec![
                run(false, false, 0.9, 3.0),
                run(false, false, 2.0, 3.0),
                run(true, false, 4.0, 3.0),
                run(false, true, 0.1, 0.9),
            ],
            ..Absorption::default()
        };
        let memory = Memory {
            streams: vec![StreamMemory {
                statements: 10,
                slices_bytes: 300,
                windows_bytes: 120,
                ..StreamMemory::default()
            }],
            ..Memory::default()
        };
        let rows = rows(&StreamFigures {
            absorption: Some(absorption),
            memory: Some(memory),
            ..StreamFigures::default()
        });
        assert_eq!(verdict(&rows, "processor time a tuple").1, "1.40 µs");
        assert_eq!(
            verdict(&rows, "absorption without log").1,
            "1111111 tuples/s"
        );
        assert_eq!(verdict(&rows, "absorption with log").0, Verdict::Short);
        assert_eq!(verdict(&rows, "memory of slices").1, "42 bytes a statement");
    }
}
