//! The same continuous queries on peers: pyoxigraph, re-evaluating each window as users script it
//! today, and rsp-rs. All get the same statements. This engine plays them batch by batch, each
//! close on a quiet engine. Rows are compared close by close, by content.

use super::bag;
use super::case::{Case, Said};
use super::figures::{PeerCase, PeerQuery, Peers, Stolen, quantile_ms};
use super::measure::{Firing, QUIESCE, Reader, named};
use super::stage::{BATCH_MS, Stage, configuration, network_of, streams};
use super::suite::Suite;
use super::{Failure, StreamsOptions};
use crate::figures::table;
use crate::harness::machine::Machine;
use crate::oneshot::workload::{Size, Workload};
use crate::parties::peers::Installed;
use somersault::Engine;
use somersault::replay::{Speed, Step, replay};
use somersault_generate::{Rates, STORED_GRAPH};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time limit of one query of a peer over all its closes.
const LIMIT: Duration = Duration::from_secs(60);
/// The length of the streams that peers get.
const PLAYED_MS: i64 = 3_000;
/// rsp-rs copies the stored graph at each evaluation, so it gets a hundredth of the triples of
/// pyoxigraph, at a tenth of the rate.
const RSP_RS_SHARE: u32 = 100;
const RSP_RS_RATE: u32 = 10;
const RSP_RS: &str = "rsp-rs";
const PYOXIGRAPH: &str = "pyoxigraph";

/// The number of closes with other rows that are named.
const NAMED: usize = 5;

/// One close of ours: how many rows, and the hash of them.
struct Answered {
    firing: Firing,
    hash: String,
}

/// A case with our own answers.
struct Ours {
    data: String,
    stored_triples: u64,
    case: Case,
    /// The firings by query, in order.
    firings: Vec<(String, Vec<Answered>)>,
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Peers, Failure> {
    let mut peers = Peers {
        machine: Machine::read(),
        cases: Vec::new(),
    };
    let percent = options.peer_percent;
    let all = ["L1", "L2", "L3", "L4", "L5", "L6"];
    let small = (percent / RSP_RS_SHARE).max(1);
    let cases = [
        (PYOXIGRAPH, social(options, percent, options.rate, &all)),
        (
            RSP_RS,
            social(options, small, options.rate / RSP_RS_RATE, &all[..4]),
        ),
        (PYOXIGRAPH, city(options)),
        (RSP_RS, city(options)),
    ];
    for (name, ours) in cases {
        match ours {
            Ok(ours) => peers.cases.push(beside(name, &ours)?),
            Err(error) => println!("{name}: {error}"),
        }
    }
    Ok(peers)
}

/// Social network queries over this percentage of 10 million stored triples.
fn social(
    options: &StreamsOptions,
    percent: u32,
    rate: u32,
    names: &[&str],
) -> Result<Ours, Failure> {
    let workload = Workload::named("lsbench", Size::percent(percent))?;
    let file = workload.file()?;
    // With the past that is in the file: that of the paper's rate.
    let network = network_of(Size::percent(percent).users(), Rates::PAPER.total());
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let mut case = Case::within(&options.data, &format!("streams-{percent}-{rate}"))?;
    case.store(STORED_GRAPH, file);
    let times = f64::from(rate) / f64::from(Rates::PAPER.total());
    let stretch = stage.stretch(PLAYED_MS, times);
    case.stream(&stretch, &streams())?;
    case.until(stretch.until_ms, LIMIT);
    let mut readers = Vec::new();
    for query in named(&stage, names) {
        let reader = Reader::register(&stage.engine, query.name, &query.text)?;
        let windows = stage.engine.query_info(query.name)?.windows;
        case.ask(query.name, &query.text, &windows, BATCH_MS);
        readers.push((query.name.to_owned(), reader));
    }
    let mut rest = stretch;
    while rest.from_ms < rest.until_ms {
        let later = rest.split_off(BATCH_MS);
        stage.play(rest, false)?;
        rest = later;
    }
    let firings = read(&readers)?;
    let stored_triples = stage.stored.triples;
    stage.engine.shutdown()?;
    Ok(Ours {
        data: format!("social network, {} tuples/s", table::thousands(rate.into())),
        stored_triples,
        case,
        firings,
    })
}

/// CityBench with a graph for each window, which is how others know them.
fn city(options: &StreamsOptions) -> Result<Ours, Failure> {
    let suite = Suite::read("suite-graph.json")?;
    let engine = Engine::open(configuration(options.workers))?;
    let stored_triples = suite.prepare(&engine)?;
    let mut case = Case::within(&options.data, "citybench")?;
    for stored in &suite.stored {
        case.store_text(&stored.graph, suite.unpacked(stored.file())?)?;
    }
    for stream in &suite.streams {
        case.stream_text(&stream.iri, suite.unpacked(stream.file())?)?;
    }
    let plan = suite.plan();
    case.until(plan.until.unwrap_or_default().0, LIMIT);
    let mut readers = Vec::new();
    for query in &suite.continuous {
        let text = suite.text(query)?;
        let reader = Reader::register(&engine, &query.name, &text)?;
        let windows = engine.query_info(&query.name)?.windows;
        case.ask(&query.name, &text, &windows, plan.batch_ms);
        readers.push((query.name.clone(), reader));
    }
    replay(&engine, &plan, Speed::Max, &mut |step, _| {
        if let Step::Advance { .. } = step {
            engine.quiesce(QUIESCE)?;
        }
        Ok(())
    })?;
    let firings = read(&readers)?;
    engine.shutdown()?;
    Ok(Ours {
        data: "CityBench".to_owned(),
        stored_triples,
        case,
        firings,
    })
}

fn read(readers: &[(String, Reader)]) -> Result<Vec<(String, Vec<Answered>)>, Failure> {
    readers
        .iter()
        .map(|(name, reader)| {
            let mut firings = Vec::new();
            reader.read_answers(|firing, answer| {
                let hash = bag::hash_of(answer);
                firings.push(Answered { firing, hash });
            })?;
            Ok((name.clone(), firings))
        })
        .collect()
}

/// One close of a peer.
struct Close {
    rows: u64,
    hash: String,
    evaluation: Duration,
    windows: Duration,
}

/// Lets a peer run a case, and compares.
fn beside(name: &'static str, ours: &Ours) -> Result<PeerCase, Failure> {
    let mut figures = PeerCase {
        data: ours.data.clone(),
        stored_triples: ours.stored_triples,
        peer: name.to_owned(),
        ..PeerCase::default()
    };
    println!(
        "{}, {} stored triples, beside {name}",
        ours.data,
        table::thousands(ours.stored_triples)
    );
    let stolen = Stolen::from_here();
    let mut closes: BTreeMap<String, BTreeMap<i64, Close>> = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    match Installed::install(name) {
        Ok(installed) => {
            figures.version = installed.version.clone();
            let ran = ours.case.run(&installed, |said| match said {
                Said::Loaded { took, .. } => figures.load_seconds = Some(took.as_secs_f64()),
                Said::Close {
                    query,
                    close_ms,
                    rows,
                    hash,
                    evaluation,
                    windows,
                } => {
                    let close = Close {
                        rows,
                        hash,
                        evaluation,
                        windows,
                    };
                    closes.entry(query).or_default().insert(close_ms, close);
                }
                Said::Failed { query, reason } => _ = failures.insert(query, reason),
            });
            figures.absent = ran.err().map(|error| error.to_string());
        }
        Err(reason) => figures.absent = Some(reason),
    }
    if let Some(reason) = &figures.absent {
        println!("  {name}: {reason}");
    }
    figures.stolen_ms = stolen.ms();
    for (query, firings) in &ours.firings {
        let theirs = closes.remove(query).unwrap_or_default();
        let row = compared(query, firings, &theirs, failures.remove(query))?;
        print_row(&row, name);
        figures.queries.push(row);
    }
    Ok(figures)
}

/// One query's row: medians over the closes that both answered, and whether all of them have the
/// same rows.
fn compared(
    query: &str,
    ours: &[Answered],
    theirs: &BTreeMap<i64, Close>,
    failure: Option<String>,
) -> Result<PeerQuery, Failure> {
    let mut executions: Vec<Duration> = ours.iter().map(|one| one.firing.execution).collect();
    executions.sort_unstable();
    let both: Vec<(&Answered, &Close)> = ours
        .iter()
        .filter_map(|one| Some((one, theirs.get(&one.firing.close_ms)?)))
        .collect();
    let differ: Vec<i64> = both
        .iter()
        .filter(|(one, close)| (one.firing.rows, &one.hash) != (close.rows, &close.hash))
        .map(|(one, _)| one.firing.close_ms)
        .collect();
    let unanswered = ours.len() - both.len();
    let median = |of: fn(&Close) -> Duration| {
        let mut times: Vec<Duration> = both.iter().map(|(_, close)| of(close)).collect();
        times.sort_unstable();
        (!times.is_empty()).then(|| quantile_ms(&times, 50))
    };
    let mut remarks: Vec<String> = failure.into_iter().collect();
    if !differ.is_empty() {
        let mut named: Vec<String> = differ.iter().take(NAMED).map(i64::to_string).collect();
        named.extend((differ.len() > NAMED).then(|| "…".to_owned()));
        remarks.push(format!(
            "other rows at {} of {} closes ({} ms)",
            differ.len(),
            both.len(),
            named.join(", ")
        ));
    }
    if unanswered > 0 {
        remarks.push(format!(
            "no answer at {unanswered} of {} closes",
            ours.len()
        ));
    }
    if executions.is_empty() {
        return Err(format!("{query} has not fired here").into());
    }
    Ok(PeerQuery {
        query: query.to_owned(),
        closes: ours.len(),
        rows: ours.iter().map(|one| one.firing.rows).sum(),
        ours_p50_ms: quantile_ms(&executions, 50),
        theirs_p50_ms: median(|close| close.evaluation),
        theirs_window_p50_ms: median(|close| close.windows),
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
    })
}

fn print_row(row: &PeerQuery, name: &str) {
    let theirs = row
        .theirs_p50_ms
        .map_or_else(|| "no figure".to_owned(), |ms| table::time(ms * 1e3));
    let times = row
        .times()
        .map_or_else(String::new, |times| format!(" {}", table::ratio(times)));
    println!(
        "  {}: {} closes, {} rows, {} here, {name} {theirs}{times}{}",
        row.query,
        row.closes,
        row.rows,
        table::time(row.ours_p50_ms * 1e3),
        row.remark
            .as_ref()
            .map_or_else(String::new, |remark| format!(" ({remark})"))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(close_ms: i64, rows: u64, ms: u64) -> Answered {
        let execution = Duration::from_millis(ms);
        Answered {
            firing: Firing {
                close_ms,
                rows,
                execution,
                delay: execution,
            },
            hash: format!("rows of {close_ms}"),
        }
    }

    fn close(close_ms: i64, rows: u64, ms: u64) -> Close {
        Close {
            rows,
            hash: format!("rows of {close_ms}"),
            evaluation: Duration::from_millis(ms),
            windows: Duration::from_millis(1),
        }
    }

    #[test]
    fn answers_are_compared_close_by_close() {
        let ours = [firing(100, 2, 1), firing(200, 3, 2), firing(300, 4, 3)];
        let mut theirs = BTreeMap::from([
            (100, close(100, 2, 10)),
            (200, close(200, 3, 20)),
            (300, close(300, 4, 30)),
        ]);
        let same = compared("L1", &ours, &theirs, None).unwrap();
        assert_eq!((same.rows, same.closes, same.remark.clone()), (9, 3, None));
        assert_eq!(same.times(), Some(10.0));
        // The same number of rows as ours, and other rows.
        theirs.insert(100, close(101, 2, 10));
        let other = compared("L1", &ours, &theirs, None).unwrap();
        let remark = other.remark.unwrap();
        assert_eq!(remark, "other rows at 1 of 3 closes (100 ms)");
        theirs.insert(100, close(100, 2, 10));
        theirs.insert(200, close(200, 5, 20));
        theirs.remove(&300);
        let other = compared("L1", &ours, &theirs, Some("over time".to_owned())).unwrap();
        let remark = other.remark.unwrap();
        assert_eq!(
            remark,
            "over time; other rows at 1 of 2 closes (200 ms); no answer at 1 of 3 closes"
        );
        let none = compared("L1", &ours, &BTreeMap::new(), None).unwrap();
        assert_eq!((none.theirs_p50_ms, none.times()), (None, None));
        assert!(compared("L1", &[], &theirs, None).is_err());
    }
}
