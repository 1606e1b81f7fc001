//! Asks one query of all contenders in turn, as often as its time allows, and sees whether they
//! agree on the rows.
//!
//! Runs are alternated in bursts: every contender gets a share of its runs, then the next, several
//! times over, so that a noisy moment of the machine falls on all. Within a burst caches are warm,
//! for ours as for theirs.

use crate::figures::results::{Cell, QueryReport, quantiles_us};
use crate::harness::contender::{Burst, Contender, Figure, NoTime};
use crate::parties::ours;
use std::time::Duration;

/// The time that a run of the bench has for each query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The time limit of all runs of one cell together, as far as `least` allows.
    pub(crate) cell: Duration,
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The time limit of one execution.
    pub(crate) limit: Duration,
}

/// In how many bursts the runs of a cell are made.
const BURSTS: usize = 8;

/// An execution that takes this share of the limit is not repeated.
const LONG_SHARE: u32 = 4;

impl Pace {
    /// The number of runs of a query that takes this long.
    fn runs(&self, one: Duration) -> usize {
        if one * LONG_SHARE > self.limit {
            return 1;
        }
        let fitting = self.cell.as_nanos() / one.as_nanos().max(1);
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        fitting.clamp(self.least, self.most)
    }
}

/// A query with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The number of its rows, if that is known from elsewhere.
    pub(crate) rows: Option<u64>,
}

struct Runs {
    contender: usize,
    figure: Figure,
    wanted: usize,
    times: Vec<Duration>,
    rows: Option<u64>,
    failure: Option<NoTime>,
}

/// Measures one query on all contenders.
pub(crate) fn measure(
    query: &Query,
    contenders: &mut [Box<dyn Contender>],
    pace: &Pace,
) -> QueryReport {
    let mut cells: Vec<Runs> = Vec::new();
    for (contender, engine) in contenders.iter_mut().enumerate() {
        for figure in engine.figures() {
            let mut cell = Runs {
                contender,
                figure,
                wanted: 0,
                times: Vec::new(),
                rows: None,
                failure: None,
            };
            warm_up(&mut cell, engine.as_mut(), query, pace);
            cells.push(cell);
        }
    }
    for burst in 0..BURSTS {
        for cell in &mut cells {
            let runs = cell.wanted * (burst + 1) / BURSTS - cell.wanted * burst / BURSTS;
            if runs == 0 || cell.failure.is_some() {
                continue;
            }
            let engine = &mut contenders[cell.contender];
            match engine.run(cell.figure, &query.text, runs, pace.limit) {
                Ok(Burst { times, .. }) => cell.times.extend(times),
                Err(failure) => cell.failure = Some(failure),
            }
        }
    }
    let mut report = QueryReport {
        query: query.name.clone(),
        rows: None,
        cells: cells
            .into_iter()
            .map(|runs| {
                let party = contenders[runs.contender].name();
                runs.cell(party)
            })
            .collect(),
    };
    report.rows = agreed_rows(&report);
    report.compare();
    report
}

/// Runs a query until its time is that of a warm one, and plans the measured runs after that. A
/// query that takes very long is run once, and that is its time.
fn warm_up(cell: &mut Runs, engine: &mut dyn Contender, query: &Query, pace: &Pace) {
    let mut ask = |runs| engine.run(cell.figure, &query.text, runs, pace.limit);
    let first = match ask(1) {
        Ok(first) => first,
        Err(failure) => {
            cell.failure = Some(failure);
            return;
        }
    };
    cell.rows = Some(first.rows);
    let one = first.times.iter().sum();
    if pace.runs(one) == 1 {
        cell.times = first.times;
        return;
    }
    // Once more where the first was quick: it was cold.
    let warm = if one < pace.cell { ask(3) } else { Ok(first) };
    match warm {
        Ok(warm) => {
            let one = warm.times.iter().min().copied().unwrap_or(one);
            cell.wanted = pace.runs(one);
        }
        Err(failure) => cell.failure = Some(failure),
    }
}

impl Runs {
    fn cell(mut self, party: &str) -> Cell {
        let quantiles = match self.failure {
            None => quantiles_us(&mut self.times),
            Some(_) => None,
        };
        Cell {
            party: party.to_owned(),
            figure: self.figure,
            rows: self.rows,
            runs: self.times.len(),
            median_us: quantiles.map(|(median, _)| median),
            p99_us: quantiles.map(|(_, p99)| p99),
            ratios: Vec::new(),
            failure: self.failure.map(|failure| failure.to_string()),
        }
    }
}

/// The rows that most contenders have; this engine's where as many say another number.
fn agreed_rows(report: &QueryReport) -> Option<u64> {
    let said: Vec<u64> = report.cells.iter().filter_map(|cell| cell.rows).collect();
    let votes = |rows: u64| said.iter().filter(|&&other| other == rows).count();
    let ours = report
        .cells
        .iter()
        .filter(|cell| cell.party == ours::NAME)
        .find_map(|cell| cell.rows);
    said.iter()
        .copied()
        .max_by_key(|&rows| (votes(rows), Some(rows) == ours))
}

/// A sentence for each contender whose rows are not those of the others, or not those that the
/// query is known to have.
pub(crate) fn disagreements(query: &Query, report: &QueryReport) -> Vec<String> {
    let expected = query.rows.or(report.rows);
    let Some(expected) = expected else {
        return Vec::new();
    };
    report
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.rows?)))
        .filter(|&(_, rows)| rows != expected)
        .map(|(cell, rows)| {
            format!(
                "{}: {} ({}) has {rows} rows, not {expected}",
                query.name, cell.party, cell.figure
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::contender::Loaded;
    use std::path::Path;

    /// An engine that takes a fixed time for everything and returns a fixed number of rows.
    struct Fake {
        name: &'static str,
        takes: Duration,
        rows: Result<u64, NoTime>,
        asked: Vec<usize>,
    }

    impl Fake {
        fn boxed(
            name: &'static str,
            takes_us: u64,
            rows: Result<u64, NoTime>,
        ) -> Box<dyn Contender> {
            Box::new(Fake {
                name,
                takes: Duration::from_micros(takes_us),
                rows,
                asked: Vec::new(),
            })
        }
    }

    impl Contender for Fake {
        fn name(&self) -> &str {
            self.name
        }
        fn version(&self) -> &str {
            "0"
        }
        fn figures(&self) -> Vec<Figure> {
            vec![Figure::Embedded]
        }
        fn load(&mut self, _: &Path) -> Result<Loaded, String> {
            Err("not a real one".to_owned())
        }
        fn run(&mut self, _: Figure, _: &str, runs: usize, _: Duration) -> Result<Burst, NoTime> {
            self.asked.push(runs);
            let rows = self.rows.clone()?;
            let times = vec![self.takes; runs];
            Ok(Burst { rows, times })
        }
        fn resident_bytes(&self) -> u64 {
            0
        }
    }

    const PACE: Pace = Pace {
        cell: Duration::from_millis(10),
        least: 3,
        most: 500,
        limit: Duration::from_secs(1),
    };

    fn query(rows: Option<u64>) -> Query {
        Query {
            name: "Q1".to_owned(),
            text: "ASK {}".to_owned(),
            rows,
        }
    }

    #[test]
    fn a_query_is_repeated_as_its_time_allows() {
        let runs = |us| PACE.runs(Duration::from_micros(us));
        assert_eq!(
            [runs(0), runs(10), runs(100), runs(9_000)],
            [500, 500, 100, 3]
        );
        assert_eq!(runs(300_000), 1, "a query near its limit is not repeated");
        let mut contenders = [
            Fake::boxed(ours::NAME, 100, Ok(5)),
            Fake::boxed("slow", 400_000, Ok(5)),
        ];
        let report = measure(&query(None), &mut contenders, &PACE);
        assert_eq!([report.cells[0].runs, report.cells[1].runs], [100, 1]);
        assert_eq!(report.cells[1].ratio(Figure::Embedded), Some(4_000.0));
    }

    #[test]
    fn rows_that_differ_are_named() {
        let mut contenders = [
            Fake::boxed(ours::NAME, 10, Ok(5)),
            Fake::boxed("right", 10, Ok(5)),
            Fake::boxed("wrong", 10, Ok(6)),
        ];
        let report = measure(&query(None), &mut contenders, &PACE);
        let said = disagreements(&query(None), &report);
        assert_eq!(said, ["Q1: wrong (embedded) has 6 rows, not 5"]);
        let said = disagreements(&query(Some(6)), &report);
        assert_eq!(
            said.len(),
            2,
            "what is known from elsewhere counts: {said:?}"
        );
        let mut agreeing = [
            Fake::boxed(ours::NAME, 10, Ok(5)),
            Fake::boxed("right", 10, Ok(5)),
        ];
        let report = measure(&query(Some(5)), &mut agreeing, &PACE);
        assert!(disagreements(&query(Some(5)), &report).is_empty());
    }

    #[test]
    fn one_against_the_others_is_the_one_that_is_named() {
        let mut contenders = [
            Fake::boxed(ours::NAME, 10, Ok(4)),
            Fake::boxed("one", 10, Ok(5)),
            Fake::boxed("two", 10, Ok(5)),
        ];
        let report = measure(&query(None), &mut contenders, &PACE);
        assert_eq!(report.rows, Some(5));
        let said = disagreements(&query(None), &report);
        assert_eq!(said, ["Q1: somersault (embedded) has 4 rows, not 5"]);
    }

    #[test]
    fn a_failing_engine_has_a_cell_with_the_reason() {
        let mut contenders = [
            Fake::boxed(ours::NAME, 10, Ok(5)),
            Fake::boxed("late", 10, Err(NoTime::OverTime)),
        ];
        let report = measure(&query(None), &mut contenders, &PACE);
        let late = report.cell("late", Figure::Embedded).unwrap();
        assert_eq!(late.failure.as_deref(), Some("over time"));
        assert_eq!((late.median_us, late.runs), (None, 0));
        assert!(disagreements(&query(None), &report).is_empty());
    }
}
