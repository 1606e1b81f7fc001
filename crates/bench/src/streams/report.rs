//! The figures of the stream benches as tables for bench/RESULTS.md.

use super::absorption::way_in_words;
use super::figures::{
    Absorption, AbsorptionRun, CityBench, Lines, Memory, OneShot, OneShotQuery, Paper, PeerCase,
    PeerQuery, Peers, Point, QueryFigures, StreamFigures, StreamMemory,
};
use super::targets::{PAPER_P50_MS, in_short};
use super::{batches, snapshots, standing, steps};
use crate::figures::table::{self, time};
use crate::harness::machine::Machine;
use crate::harness::markdown;
use std::fmt::Write as _;

/// Writes all parts that have been measured.
pub(crate) fn write(out: &mut String, figures: &StreamFigures) {
    // Writing into a string does not fail.
    let parts = [
        figures.paper.as_ref().map(paper),
        figures.rates.as_ref().map(lines),
        figures.absorption.as_ref().map(absorption),
        (figures.standing.as_ref())
            .map(|own| part(standing::heading_of(own), own, standing::table)),
        figures.oneshot.as_ref().map(one_shot),
        figures.citybench.as_ref().map(citybench),
        figures.memory.as_ref().map(memory),
        (figures.snapshots.as_ref())
            .map(|own| part(snapshots::heading_of(own), own, snapshots::table)),
        (figures.steps.as_ref()).map(|own| part(steps::heading_of(own), own, steps::table)),
        (figures.batches.as_ref()).map(|own| part(batches::heading_of(own), own, batches::table)),
        figures.terms.as_ref().map(super::terms::report),
        figures.peers.as_ref().map(peers),
    ];
    parts
        .into_iter()
        .flatten()
        .for_each(|part| out.push_str(&part));
}

fn section(title: &str, machine: &Machine, words: &str) -> String {
    format!("\n## {title}\n\n{machine}. {words}\n\n")
}

/// A part that makes its tables itself.
fn part<F>(
    (title, machine, words): (&str, &Machine, String),
    figures: &F,
    table: fn(&F, &mut String),
) -> String {
    let mut out = section(title, machine, &words);
    table(figures, &mut out);
    out
}

fn ms(ms: f64) -> String {
    time(ms * 1e3)
}

fn paper(paper: &Paper) -> String {
    let words = format!(
        "{} users, {} stored triples (made and loaded in {:.0} s, {:.0} bytes a triple), five streams at {} tuples/s in real time, batches \
         of 100 ms; {}; {} MiB resident at the end.\n\nExecution is from the start of a query to its answer ready. Delay is from the last \
         record that it needs acknowledged to its answer ready: it holds the injection of a whole batch, which happens when the batch closes.",
        table::thousands(paper.stored.users.into()),
        table::thousands(paper.stored.triples),
        paper.stored.seconds,
        paper.stored.bytes as f64 / paper.stored.triples.max(1) as f64,
        table::thousands(paper.rate.into()),
        paper.cores,
        paper.resident_mib
    );
    let mut out = section("Streams: the paper's setting", &paper.machine, &words);
    out.push_str("Each query alone:\n\n");
    firings(&mut out, &paper.alone);
    out.push_str("\nAll nine together:\n\n");
    firings(&mut out, &paper.together);
    out
}

fn firings(out: &mut String, rows: &[QueryFigures]) {
    let names = [
        "query",
        "firings",
        "rows",
        "execution p50",
        "p99",
        "the paper",
        "delay p50",
        "p99",
        "later than its step",
        "stolen",
    ];
    let line = |row: &QueryFigures| {
        let paper = PAPER_P50_MS.iter().find(|(name, _)| *name == row.query);
        [
            row.query.clone(),
            row.firings.to_string(),
            table::thousands(row.rows),
            ms(row.execution_p50_ms),
            ms(row.execution_p99_ms),
            paper.map_or_else(|| "–".to_owned(), |(_, paper)| format!("{paper} ms")),
            ms(row.delay_p50_ms),
            ms(row.delay_p99_ms),
            row.later_than_step.to_string(),
            format!("{} ms", row.stolen_ms),
        ]
    };
    markdown::table(out, names, rows.iter().map(line));
}

fn lines(lines: &Lines) -> String {
    let words = format!(
        "Execution p50 of L1–L3, each alone, with {} stored triples where no other number stands; behind it how far event time fell \
         behind the clock.",
        table::thousands(lines.stored.triples)
    );
    let mut out = section("Streams: what should stay flat", &lines.machine, &words);
    if !lines.complete {
        out.push_str("The run ended before its last point; so the targets are not held to what there is of it.\n\n");
    }
    for (what, points) in [
        ("tuples/s", &lines.by_rate),
        ("stored triples", &lines.by_stored),
        ("seconds of stream", &lines.by_age),
    ] {
        line(&mut out, what, points);
    }
    out
}

fn line(out: &mut String, what: &str, points: &[Point]) {
    let Some(first) = points.first() else { return };
    let names: String = first
        .queries
        .iter()
        .map(|row| format!(" {} |", row.query))
        .collect();
    let rules = "---|".repeat(first.queries.len());
    let _ = writeln!(out, "| {what} |{names} behind |\n|---|{rules}---|");
    for point in points {
        let medians: String = point
            .queries
            .iter()
            .map(|row| format!(" {} |", ms(row.execution_p50_ms)))
            .collect();
        let _ = writeln!(
            out,
            "| {} |{medians} {} ms |",
            in_short(point.at),
            point.behind_ms
        );
    }
    out.push('\n');
}

fn absorption(figures: &Absorption) -> String {
    let words = format!(
        "Lines `t_ms<TAB>triple .` of {:.0} bytes, read as a push over HTTP reads them, until stable; no queries, {} stored triples. \
         Decoding alone takes {:.2} µs a tuple.",
        figures.bytes_per_tuple,
        table::thousands(figures.stored.triples),
        figures.decode_us_per_tuple
    );
    let mut out = section("Streams: absorption", &figures.machine, &words);
    let line = |run: &AbsorptionRun| {
        let threads = run.us_per_tuple.iter();
        let threads: Vec<String> = threads
            .map(|(name, us)| format!("{name} {us:.2}"))
            .collect();
        [
            way_in_words(run),
            table::thousands(run.tuples_per_second() as u64),
            format!("{:.2} µs", run.all_us_per_tuple()),
            threads.join(", "),
        ]
    };
    let names = ["how", "tuples/s", "processor time a tuple", "by thread, µs"];
    markdown::table(&mut out, names, figures.runs.iter().map(line));
    out.push_str(
        "\nThe same by what is done, µs a tuple. Decode is what it takes alone, on the same kind of text, and encode what else the callers \
         spend on a push; log is its thread, and order the sequencer and who advances. Inject and index are one figure: an injector \
         stores a statement by writing it into the lists that are its index, and builds slices in the same call, into which the bench \
         does not see.\n\n",
    );
    let line = |run: &AbsorptionRun| {
        let parts = figures.parts(run).map(|(_, us)| format!("{us:.2}"));
        let [decode, encode, log, inject, order] = parts;
        let whole = format!("{:.2}", run.all_us_per_tuple());
        [way_in_words(run), decode, encode, log, inject, order, whole]
    };
    let names = [
        "how",
        "decode",
        "encode",
        "log",
        "inject and index",
        "order",
        "all",
    ];
    markdown::table(&mut out, names, figures.runs.iter().map(line));
    out
}

fn one_shot(figures: &OneShot) -> String {
    let words = format!(
        "Text in, every term of the answer read, from one thread; five streams at {} tuples/s or standing still, in turns, over {} stored \
         triples. Host steal {} ms.",
        table::thousands(figures.rate.into()),
        table::thousands(figures.stored.triples),
        figures.stolen_ms
    );
    let mut out = section(
        "Streams: one-shot queries beside them",
        &figures.machine,
        &words,
    );
    let names = [
        "query",
        "rows",
        "standing still, p50",
        "p99",
        "running, p50",
        "p99",
        "running against still",
    ];
    let line = |row: &OneShotQuery| {
        [
            row.query.clone(),
            table::thousands(row.rows),
            time(row.still_p50_us),
            time(row.still_p99_us),
            time(row.running_p50_us),
            time(row.running_p99_us),
            table::ratio(row.running_p50_us / row.still_p50_us),
        ]
    };
    markdown::table(&mut out, names, figures.queries.iter().map(line));
    out
}

fn citybench(figures: &CityBench) -> String {
    let words = format!(
        "C1–C6 as published, together, over fourteen sensors; {} laps, each close on a quiet engine; rows compared with the reference's at \
         every close. The paper: 0.24–1.15 ms.",
        figures.laps
    );
    let mut out = section("Streams: CityBench", &figures.machine, &words);
    let line = |row: &QueryFigures| {
        [
            row.query.clone(),
            row.firings.to_string(),
            table::thousands(row.rows),
            ms(row.execution_p50_ms),
            ms(row.execution_p99_ms),
        ]
    };
    let names = ["query", "firings", "rows", "execution p50", "p99"];
    markdown::table(&mut out, names, figures.queries.iter().map(line));
    for sentence in &figures.differences {
        let _ = writeln!(out, "\n{sentence}.");
    }
    out
}

fn memory(figures: &Memory) -> String {
    let words = format!(
        "Streams at {} tuples/s.",
        table::thousands(figures.rate.into())
    );
    let mut out = section("Streams: memory of slices", &figures.machine, &words);
    let line = |stream: &StreamMemory| {
        let each = |bytes: u64| bytes as f64 / stream.statements.max(1) as f64;
        [
            stream.stream.clone(),
            table::thousands(stream.statements),
            format!("{:.1}", each(stream.slices_bytes)),
            format!("{:.1}", each(stream.slices_bytes + stream.windows_bytes)),
        ]
    };
    let (slices, all) = figures.bytes_per_statement();
    let total = [
        "all".to_owned(),
        String::new(),
        format!("{slices:.1}"),
        format!("{all:.1}"),
    ];
    let names = [
        "stream",
        "statements",
        "slices, bytes a statement",
        "with the windows over them",
    ];
    let lines = figures.streams.iter().map(line).chain([total]);
    markdown::table(&mut out, names, lines);
    out
}

fn peers(figures: &Peers) -> String {
    let words = "The same statements and the same closes, rows compared at every close. pyoxigraph: what is stored is loaded once, each window \
                 is a graph that is brought up to date at each close (the windows' column), and the query is asked again. rsp-rs copies its \
                 windows and all that is stored into a new store at each evaluation. Ours holds the window as well, in batches that come before. \
                 Where rsp-rs has other rows, ours are those of pyoxigraph and of the reference answers; we drive its windows ourselves, and \
                 whether the difference lies there or within has not been found out.";
    let mut out = section("Streams: beside others", &figures.machine, words);
    for case in &figures.cases {
        peer_case(&mut out, case);
    }
    out
}

fn peer_case(out: &mut String, case: &PeerCase) {
    let _ = writeln!(
        out,
        "{}, {} stored triples, beside {} {}{}; host steal {} ms.\n",
        case.data,
        table::thousands(case.stored_triples),
        case.peer,
        case.version,
        case.load_seconds
            .map_or_else(String::new, |seconds| format!(", loaded in {seconds:.1} s")),
        case.stolen_ms
    );
    if let Some(reason) = &case.absent {
        let _ = writeln!(out, "{} was not measured: {reason}.\n", case.peer);
    }
    let theirs = format!("{} p50", case.peer);
    let names = [
        "query",
        "closes",
        "rows",
        "ours, p50",
        &theirs,
        "its windows, p50",
        "remark",
    ];
    let or_dash = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), self::ms);
    let line = |row: &PeerQuery| {
        let times = row.times().map_or_else(String::new, table::ratio);
        [
            row.query.clone(),
            row.closes.to_string(),
            table::thousands(row.rows),
            ms(row.ours_p50_ms),
            format!("{} {times}", or_dash(row.theirs_p50_ms)),
            or_dash(row.theirs_window_p50_ms.filter(|ms| *ms > 0.0)),
            row.remark.as_deref().unwrap_or("same rows").to_owned(),
        ]
    };
    markdown::table(out, names, case.queries.iter().map(line));
    out.push('\n');
}
