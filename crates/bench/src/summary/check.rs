//! The targets, each with the figure that the newest results have for it. Reads result files only;
//! a figure that is not there is "not measured", and nothing here fails.

use crate::crowd::{self, Throughput};
use crate::durability;
use crate::figures::results::{Report, Results, geometric_mean};
use crate::figures::sheet::Sheet;
use crate::figures::table;
use crate::harness::contender::Figure;
use crate::harness::target::{Row, Verdict, at_least, at_most};
use crate::load::{self, LoadReport};
use crate::papers;
use crate::parties::ours;
use crate::streams::{self, StreamFigures};
use crate::transactions;

/// The peer that ratios on LUBM refer to.
const BASE: &str = "pyoxigraph";

/// The factor that each of L1–L7, engine alone, has to reach against the base.
const LUBM_TARGETS: [(&str, f64); 7] = [
    ("L1", 600.0),
    ("L2", 25.0),
    ("L3", 700.0),
    ("L4", 60.0),
    ("L5", 90.0),
    ("L6", 60.0),
    ("L7", 25.0),
];

/// The workloads that are compared with the best peer over HTTP.
const SERVED: [&str; 4] = ["lsbench", "watdiv", "sp2bench", "features"];

/// Answers of fewer rows than this are compared by time, others by rows a second.
const FEW_ROWS: u64 = 1_000;

/// Everything that targets are checked against.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) lubm: Option<Report>,
    pub(crate) served: Vec<Report>,
    pub(crate) load: Option<LoadReport>,
    pub(crate) throughput: Option<Throughput>,
    pub(crate) streams: StreamFigures,
    /// A place for each part of the papers' figures.
    pub(crate) papers: Vec<Option<Sheet>>,
    /// The same of durability.
    pub(crate) durability: Vec<Option<Sheet>>,
    /// The same of transactions.
    pub(crate) transactions: Vec<Option<Sheet>>,
}

impl Measured {
    /// Reads the figures that exist in the result files.
    pub(crate) fn read(results: &Results) -> Result<Measured, String> {
        let mut served = Vec::new();
        for workload in SERVED {
            served.extend(results.read(workload)?);
        }
        Ok(Measured {
            lubm: results.read("lubm-40")?,
            served,
            load: results.read(load::NAME)?,
            throughput: results.read(crowd::NAME)?,
            streams: StreamFigures::read(results)?,
            papers: papers::PARTS.read(results)?,
            durability: durability::PARTS.read(results)?,
            transactions: transactions::PARTS.read(results)?,
        })
    }
}

/// Prints every target with its figure.
pub(crate) fn run(results: &Results) -> Result<(), String> {
    let rows = rows(&Measured::read(results)?);
    println!(
        "{:<70} {:>24} {:>30}",
        "target", "at least / most", "figure"
    );
    for row in &rows {
        let verdict = match row.verdict {
            Verdict::Holds => "holds",
            Verdict::Short => "SHORT",
            Verdict::NotMeasured => "",
        };
        println!(
            "{:<70} {:>24} {:>30}  {verdict}",
            row.what, row.target, row.figure
        );
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    println!(
        "{} hold, {} fall short, {} not measured",
        count(Verdict::Holds),
        count(Verdict::Short),
        count(Verdict::NotMeasured)
    );
    Ok(())
}

/// All targets, in the order in which they were set.
pub(crate) fn rows(measured: &Measured) -> Vec<Row> {
    let mut rows = lubm(measured.lubm.as_ref());
    let throughput = measured.throughput.as_ref();
    rows.extend(crowds(throughput));
    rows.extend(served(&measured.served));
    rows.extend(loading(measured.load.as_ref()));
    rows.push(Row {
        what: "steady-state selective query: no heap allocation".to_owned(),
        target: "0".to_owned(),
        figure: "a test of crates/somersault".to_owned(),
        verdict: Verdict::NotMeasured,
    });
    rows.extend(streams::rows(&measured.streams));
    rows.extend(papers::PARTS.rows(&measured.papers));
    rows.extend(durability::PARTS.rows(&measured.durability));
    rows.extend(transactions::PARTS.rows(&measured.transactions));
    rows
}

fn lubm(report: Option<&Report>) -> Vec<Row> {
    let ratio = |query: &str, to: Figure| {
        report?
            .query(query)?
            .cell(BASE, Figure::Embedded)?
            .ratio(to)
    };
    let mean = |to: Figure| {
        let ratios: Option<Vec<f64>> = LUBM_TARGETS
            .iter()
            .map(|(query, _)| ratio(query, to))
            .collect();
        geometric_mean(&ratios?)
    };
    let mut rows = vec![
        at_least(
            "LUBM-40 L1–L7, embedded, geometric mean against pyoxigraph",
            60.0,
            mean(Figure::Embedded),
            "×",
        ),
        at_least(
            "LUBM-40 L1–L7, engine, geometric mean against pyoxigraph",
            150.0,
            mean(Figure::Engine),
            "×",
        ),
    ];
    rows.extend(LUBM_TARGETS.iter().map(|&(query, target)| {
        let what = format!("LUBM-40 {query}, engine, against pyoxigraph");
        at_least(&what, target, ratio(query, Figure::Engine), "×")
    }));
    rows
}

fn crowds(figures: Option<&Throughput>) -> Vec<Row> {
    let scaling = |query: &str| {
        let found = figures?.scaling.iter().find(|row| row.query == query)?;
        Some(found.one_thread_us / found.two_threads_us)
    };
    let prepared = figures.and_then(|figures| figures.prepared.as_ref());
    let text = figures.and_then(|figures| figures.text.as_ref());
    let http = figures.and_then(|figures| figures.http.iter().find(|cost| cost.clients == 2));
    let beside = figures.and_then(|figures| figures.beside.as_ref());
    vec![
        at_least("L2 with 2 threads, against one", 1.7, scaling("L2"), "×"),
        at_least("L7 with 2 threads, against one", 1.7, scaling("L7"), "×"),
        at_least(
            "light queries, prepared, 2 threads",
            400_000.0,
            prepared.map(|crowd| crowd.queries_per_second),
            "queries/s",
        ),
        at_most(
            "light queries, prepared, 2 threads, p99",
            100.0,
            prepared.map(|crowd| crowd.p99_us),
            "µs",
        ),
        at_least(
            "light queries as text, every text new, 2 threads",
            60_000.0,
            text.map(|crowd| crowd.queries_per_second),
            "queries/s",
        ),
        at_most(
            "light queries over HTTP, 2 clients, the server's processor time",
            40.0,
            http.map(|cost| cost.processor_us_per_request),
            "µs a request",
        ),
        at_most(
            "light queries beside a heavy one, p99 against without",
            3.0,
            beside.map(|beside| beside.beside_p99_us / beside.alone_p99_us),
            "×",
        ),
    ]
}

/// Our HTTP figure beside the best peer's, query by query: the name, the rows, and how many times
/// faster ours is.
pub(crate) fn against_best_peer(reports: &[Report]) -> Vec<(String, u64, f64)> {
    let mut all = Vec::new();
    for report in reports {
        for query in &report.queries {
            let best = query
                .cells
                .iter()
                .filter(|cell| cell.party != ours::NAME)
                .filter_map(|cell| cell.ratio(Figure::Http))
                .min_by(f64::total_cmp);
            if let (Some(rows), Some(best)) = (query.rows, best) {
                all.push((format!("{} {}", report.workload, query.query), rows, best));
            }
        }
    }
    all
}

fn served(reports: &[Report]) -> Vec<Row> {
    let all = against_best_peer(reports);
    // A query that this engine does not answer is lost as well.
    let unanswered = reports
        .iter()
        .flat_map(|report| report.queries.iter().map(move |query| (report, query)))
        .filter(|(_, query)| query.ours_us(Figure::Http).is_none())
        .map(|(report, query)| format!("{} {}", report.workload, query.query));
    let slower: Vec<String> = all
        .iter()
        .filter(|(_, _, times)| *times < 1.0)
        .map(|(name, _, times)| format!("{name} {}", table::ratio(*times)))
        .chain(unanswered)
        .collect();
    let missing: Vec<&str> = SERVED
        .into_iter()
        .filter(|name| !reports.iter().any(|report| report.workload == *name))
        .collect();
    let measured = (!all.is_empty()).then_some(slower.len() as f64);
    let mut none_slower = at_most(
        "S, WatDiv, SP2Bench, features over HTTP: queries slower than the best peer",
        0.0,
        measured,
        "queries",
    );
    if !slower.is_empty() {
        none_slower.figure = format!("{}: {}", slower.len(), slower.join(", "));
    }
    if !missing.is_empty() && measured.is_some() {
        none_slower.what += &format!(" (without {})", missing.join(", "));
    }
    let mean = |few: bool| {
        let times: Vec<f64> = all
            .iter()
            .filter(|(_, rows, _)| (*rows < FEW_ROWS) == few)
            .map(|(_, _, times)| *times)
            .collect();
        geometric_mean(&times)
    };
    vec![
        none_slower,
        at_least(
            "the same, under 1,000 rows, geometric mean against the best peer",
            10.0,
            mean(true),
            "×",
        ),
        at_least(
            "the same, 1,000 rows and more, rows/s against the best peer",
            3.0,
            mean(false),
            "×",
        ),
    ]
}

fn loading(report: Option<&LoadReport>) -> Vec<Row> {
    let ours = report.and_then(|report| report.row(ours::NAME));
    let base = report.and_then(|report| report.row(BASE));
    vec![
        at_least(
            "load of lubm-40 from .nt.zst, against pyoxigraph's bulk_load",
            5.0,
            ours.zip(base)
                .map(|(ours, base)| base.seconds / ours.seconds),
            "×",
        ),
        at_least(
            "load of lubm-40 from .nt.zst",
            1_000_000.0,
            ours.map(load::LoadRow::triples_per_second),
            "triples/s",
        ),
        at_most(
            "resident memory after that load",
            70.0,
            ours.map(load::LoadRow::bytes_per_triple),
            "bytes a triple",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::{Crowd, Scaling};
    use crate::figures::results::tests::made_up;
    use crate::load::LoadRow;

    fn found<'r>(rows: &'r [Row], what: &str) -> &'r Row {
        let mut matching = rows.iter().filter(|row| row.what.starts_with(what));
        matching.next().unwrap_or_else(|| panic!("no row {what}"))
    }

    #[test]
    fn with_no_results_everything_is_not_measured() {
        let rows = rows(&Measured::default());
        assert!(rows.len() >= 20);
        assert!(rows.iter().all(|row| row.verdict == Verdict::NotMeasured));
    }

    #[test]
    fn lubm_is_held_to_means_and_to_each_query() {
        // 100 times the embedded figure, 400 times the engine's.
        let queries: Vec<_> = LUBM_TARGETS
            .iter()
            .map(|(name, _)| made_up(name, [1.0, 4.0, 9.0], 400.0))
            .collect();
        let mut report = Report {
            workload: "lubm-40".to_owned(),
            queries,
            ..Report::default()
        };
        let check = |report: &Report| {
            rows(&Measured {
                lubm: Some(report.clone()),
                ..Measured::default()
            })
        };
        let all = check(&report);
        assert_eq!(found(&all, "LUBM-40 L1–L7, embedded").figure, "100 ×");
        assert_eq!(found(&all, "LUBM-40 L1–L7, engine").verdict, Verdict::Holds);
        assert_eq!(found(&all, "LUBM-40 L1,").verdict, Verdict::Short);
        assert_eq!(found(&all, "LUBM-40 L2,").verdict, Verdict::Holds);
        report.queries.pop();
        let all = check(&report);
        let mean = found(&all, "LUBM-40 L1–L7, embedded");
        assert_eq!(
            mean.verdict,
            Verdict::NotMeasured,
            "a mean of six is no mean of seven"
        );
    }

    #[test]
    fn a_query_that_loses_is_named() {
        let report = Report {
            workload: "watdiv".to_owned(),
            queries: vec![
                made_up("S1", [1.0, 2.0, 10.0], 200.0),
                made_up("S2", [1.0, 2.0, 10.0], 5.0),
            ],
            ..Report::default()
        };
        let rows = served(&[report]);
        assert_eq!(rows[0].verdict, Verdict::Short);
        assert_eq!(rows[0].figure, "1: watdiv S2 0.50×");
        assert!(rows[0].what.contains("without lsbench, sp2bench, features"));
        // The mean of 20 and a half.
        assert_eq!(
            (rows[1].figure.as_str(), rows[1].verdict),
            ("3.16 ×", Verdict::Short)
        );
        assert_eq!(rows[2].verdict, Verdict::NotMeasured);
    }

    #[test]
    fn loads_and_crowds() {
        let row = |party: &str, seconds, resident_bytes| LoadRow {
            party: party.to_owned(),
            triples: 1_000_000,
            seconds,
            resident_bytes,
            ..LoadRow::default()
        };
        let measured = Measured {
            load: Some(LoadReport {
                rows: vec![row(ours::NAME, 0.5, 65_000_000), row(BASE, 5.0, 1)],
                ..LoadReport::default()
            }),
            throughput: Some(Throughput {
                text: Some(Crowd {
                    queries_per_second: 59_000.0,
                    ..Crowd::default()
                }),
                scaling: vec![Scaling {
                    query: "L7".to_owned(),
                    one_thread_us: 18.0,
                    two_threads_us: 10.0,
                }],
                ..Throughput::default()
            }),
            ..Measured::default()
        };
        let rows = rows(&measured);
        let verdict = |what| found(&rows, what).verdict;
        assert_eq!(
            verdict("load of lubm-40 from .nt.zst, against"),
            Verdict::Holds
        );
        assert_eq!(found(&rows, "resident").figure, "65 bytes a triple");
        assert_eq!(verdict("light queries as text"), Verdict::Short);
        assert_eq!(verdict("L7 with 2 threads"), Verdict::Holds);
        assert_eq!(verdict("L2 with 2 threads"), Verdict::NotMeasured);
    }
}
