//! Writes the newest figures into bench/RESULTS.md, and those beside the papers' into
//! docs/benchmarks.md, between two marks each; the text around them is written by hand and stays.

use crate::crowd::{self, Throughput};
use crate::figures::results::{Party, QueryReport, Report, Results, geometric_mean};
use crate::figures::sheet::Sheet;
use crate::figures::table::{self, cell_text, time};
use crate::harness::contender::Figure;
use crate::harness::target::Verdict;
use crate::load::{self, LoadReport};
use crate::oneshot::workload;
use crate::parties::ours;
use crate::streams;
use crate::summary::check::{self, Measured};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures: begin (somersault-bench report writes what follows) -->";
const END: &str = "<!-- figures: end -->";

/// The times of the original Wukong on lubm-40, on a machine of this kind, in microseconds: its own
/// best plan, one engine thread, execution only, no rows returned (its README beside the test
/// data).
const WUKONG: [(&str, f64); 7] = [
    ("L1", 1_161.0),
    ("L2", 9_156.0),
    ("L3", 858.0),
    ("L4", 6.5),
    ("L5", 1.6),
    ("L6", 43.0),
    ("L7", 23_305.0),
];

/// Puts the newest figures into the documents.
pub(crate) fn run(results: &Results, document: &Path, papers: &Path) -> Result<(), String> {
    let measured = Measured::read(results)?;
    put(&figures(results, &measured)?, document)?;
    put(&sections(&measured.papers), papers)
}

/// Puts figures between the marks of a document.
fn put(figures: &str, document: &Path) -> Result<(), String> {
    let text = fs::read_to_string(document)
        .map_err(|error| format!("{} cannot be read: {error}", document.display()))?;
    let text = replaced(&text, figures)
        .ok_or_else(|| format!("{} has no marks for figures", document.display()))?;
    fs::write(document, text)
        .map_err(|error| format!("{} cannot be written: {error}", document.display()))?;
    println!("figures written into {}", document.display());
    Ok(())
}

fn sections(sheets: &[Option<Sheet>]) -> String {
    sheets.iter().flatten().map(Sheet::section).collect()
}

/// The text with the part between the marks replaced.
fn replaced(text: &str, figures: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        figures.trim()
    ))
}

fn figures(results: &Results, measured: &Measured) -> Result<String, String> {
    let mut out = String::new();
    targets(&mut out, measured);
    for name in workload::NAMES {
        if let Some(report) = results.read::<Report>(name)? {
            one_shot(&mut out, &report);
        }
    }
    if let Some(report) = results.read::<LoadReport>(load::NAME)? {
        loads(&mut out, &report);
    }
    if let Some(figures) = results.read::<Throughput>(crowd::NAME)? {
        crowds(&mut out, &figures);
    }
    streams::write(&mut out, &measured.streams);
    out.push_str(&sections(&measured.durability));
    out.push_str(&sections(&measured.transactions));
    Ok(out)
}

fn targets(out: &mut String, measured: &Measured) {
    out.push_str("## Targets\n\n| what | target | figure | |\n|---|---|---|---|\n");
    for row in check::rows(measured) {
        let verdict = match row.verdict {
            Verdict::Holds => "holds",
            Verdict::Short => "**short**",
            Verdict::NotMeasured => "",
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {verdict} |",
            row.what, row.target, row.figure
        );
    }
}

fn one_shot(out: &mut String, report: &Report) {
    let _ = writeln!(
        out,
        "\n## {}\n\n{}: {} triples. {}.\n",
        report.workload,
        report.data,
        table::thousands(report.triples),
        report.machine
    );
    for party in &report.parties {
        let _ = writeln!(out, "- {}", party_line(party));
    }
    let columns = table::columns(report);
    let wukong = report.workload == "lubm-40";
    out.push_str("\n| query | rows |");
    for (party, figure) in &columns {
        if party == ours::NAME {
            let _ = write!(out, " {figure} |");
        } else {
            let _ = write!(out, " {party}, {figure} |");
        }
    }
    if wukong {
        out.push_str(" Wukong, execution only |");
    }
    out.push_str("\n|---|---|");
    out.push_str(&"---|".repeat(columns.len() + usize::from(wukong)));
    out.push('\n');
    for query in &report.queries {
        let rows = query.rows.map_or_else(|| "?".to_owned(), table::thousands);
        let _ = write!(out, "| {} | {rows} |", query.query);
        for (party, figure) in &columns {
            let _ = write!(out, " {} |", cell_text(query.cell(party, *figure)));
        }
        if wukong {
            let found = WUKONG.iter().find(|(name, _)| *name == query.query);
            let _ = write!(
                out,
                " {} |",
                found.map_or_else(String::new, |(_, us)| time(*us))
            );
        }
        out.push('\n');
    }
    means(out, report, &columns);
    for sentence in &report.disagreements {
        let _ = writeln!(out, "\nRows differ: {sentence}.");
    }
}

fn party_line(party: &Party) -> String {
    match &party.absent {
        Some(reason) => format!("{}: not measured, {reason}", party.name),
        None => format!(
            "{} {}{}",
            party.name,
            party.version,
            party
                .load_seconds
                .map_or_else(String::new, |seconds| format!(
                    ", loaded in {seconds:.1} s (all at once)"
                ))
        ),
    }
}

/// The last line of a table: the geometric means of the ratios.
fn means(out: &mut String, report: &Report, columns: &[(String, Figure)]) {
    out.push_str("| geometric mean | |");
    for (party, figure) in columns {
        let ratios: Vec<f64> = report
            .queries
            .iter()
            .filter_map(|query: &QueryReport| query.cell(party, *figure)?.ratio(*figure))
            .collect();
        let mean = geometric_mean(&ratios).map_or_else(String::new, table::ratio);
        let _ = write!(out, " {mean} |");
    }
    if report.workload == "lubm-40" {
        let ratios: Vec<f64> = WUKONG
            .iter()
            .filter_map(|&(name, us)| Some(us / report.query(name)?.ours_us(Figure::Engine)?))
            .collect();
        let mean = geometric_mean(&ratios).map_or_else(String::new, table::ratio);
        let _ = write!(out, " {mean} of engine |");
    }
    out.push('\n');
}

fn loads(out: &mut String, report: &LoadReport) {
    let _ = writeln!(
        out,
        "\n## Loading lubm-40\n\n{}. Each in a process of its own, with its dictionary; ours reads `.nt.zst`, the others `.nt`. \
         The original Wukong: 34 s, 1.77 GB resident; 35 bytes a triple of live data, without strings.\n\n\
         | engine | seconds | triples/s | resident | bytes a triple |\n|---|---|---|---|---|",
        report.machine
    );
    for row in &report.rows {
        let _ = match &row.absent {
            Some(reason) => writeln!(out, "| {} | not measured: {reason} | | | |", row.party),
            None => writeln!(
                out,
                "| {} {} | {:.2} | {} | {} MiB | {:.0} |",
                row.party,
                row.version,
                row.seconds,
                table::thousands(row.triples_per_second() as u64),
                row.resident_bytes >> 20,
                row.bytes_per_triple()
            ),
        };
    }
}

fn crowds(out: &mut String, figures: &Throughput) {
    let _ = writeln!(
        out,
        "\n## Crowds, on lubm-40\n\n{}. L4, L5 and L6 with constants at random, each class by the reciprocal of its latency.\n\n\
         | what | figure | p50 | p99 |\n|---|---|---|---|",
        figures.machine
    );
    for (what, crowd) in [
        ("prepared, constants bound", &figures.prepared),
        ("text, every text new", &figures.text),
    ] {
        let _ = match crowd {
            Some(crowd) => writeln!(
                out,
                "| {what}, {} threads | {} queries/s | {} | {} |",
                crowd.threads,
                table::thousands(crowd.queries_per_second as u64),
                time(crowd.p50_us),
                time(crowd.p99_us)
            ),
            None => writeln!(out, "| {what} | not measured | | |"),
        };
    }
    for cost in &figures.http {
        let _ = writeln!(
            out,
            "| text over HTTP, clients: {} | {:.1} µs of the server's processor time a request, {} requests/s | {} | {} |",
            cost.clients,
            cost.processor_us_per_request,
            table::thousands(cost.requests_per_second as u64),
            time(cost.p50_us),
            time(cost.p99_us)
        );
    }
    if let Some(beside) = &figures.beside {
        let _ = writeln!(
            out,
            "| light queries, one client, alone | | | {} |\n| beside a heavy query of {:.0} ms, over and over | | | {} |",
            time(beside.alone_p99_us),
            beside.heavy_ms,
            time(beside.beside_p99_us)
        );
    }
    for row in &figures.scaling {
        let _ = writeln!(
            out,
            "| {} on one thread, on two | {}, {}: {} | | |",
            row.query,
            time(row.one_thread_us),
            time(row.two_threads_us),
            table::ratio(row.one_thread_us / row.two_threads_us)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::results::tests::made_up;

    #[test]
    fn figures_replace_figures_and_nothing_else() {
        let text = format!("# Figures\n\nby hand\n\n{BEGIN}\nold\n{END}\n\nmore by hand\n");
        let new = replaced(&text, "new\n").unwrap();
        assert!(new.starts_with("# Figures\n\nby hand\n") && new.ends_with("\n\nmore by hand\n"));
        assert!(new.contains("\nnew\n") && !new.contains("old"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn a_peer_that_is_missing_is_a_line_and_a_lost_cell_stays() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::within(folder.path());
        let report = Report {
            workload: "lubm-40".to_owned(),
            parties: vec![
                Party {
                    name: ours::NAME.to_owned(),
                    ..Party::default()
                },
                Party {
                    name: "pyoxigraph".to_owned(),
                    ..Party::default()
                },
                Party {
                    name: "qlever".to_owned(),
                    absent: Some("no package".to_owned()),
                    ..Party::default()
                },
            ],
            queries: vec![made_up("L1", [100.0, 200.0, 400.0], 100.0)],
            ..Report::default()
        };
        results.write("lubm-40", &report).unwrap();
        let measured = Measured::read(&results).unwrap();
        let text = figures(&results, &measured).unwrap();
        assert!(
            text.contains("- qlever: not measured, no package"),
            "{text}"
        );
        assert!(text.contains("100 µs 0.50×"), "{text}");
        assert!(text.contains("1.16 ms"), "{text}");
    }
}
