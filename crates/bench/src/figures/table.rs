//! Tables for the terminal: a line a query, a column a figure; behind each peer's time how many
//! times ours it is.

use crate::figures::results::{Cell, Party, QueryReport, Report};
use crate::harness::contender::Figure;
use crate::parties::ours;

/// The cells that a line has, in order.
pub(crate) fn columns(report: &Report) -> Vec<(String, Figure)> {
    let mut columns = Vec::new();
    for party in report.parties.iter().filter(|party| party.absent.is_none()) {
        let figures: &[Figure] = match party.name.as_str() {
            ours::NAME => &[Figure::Engine, Figure::Embedded, Figure::Http],
            "jena" => &[Figure::Embedded, Figure::Http],
            "virtuoso" => &[Figure::Http],
            _ => &[Figure::Embedded],
        };
        columns.extend(figures.iter().map(|&figure| (party.name.clone(), figure)));
    }
    columns
}

/// Prints a party, or the reason why it does not take part.
pub(crate) fn print_party(party: &Party) {
    match &party.absent {
        Some(reason) => println!("  {:<12} not here: {reason}", party.name),
        None => println!(
            "  {:<12} {}: {}{}",
            party.name,
            party.version,
            party.load_seconds.map_or_else(
                || "loaded before".to_owned(),
                |seconds| format!("loaded in {seconds:.1} s")
            ),
            party
                .resident_mib
                .map_or_else(String::new, |mib| format!(", {mib} MiB resident"))
        ),
    }
}

/// The names of the columns.
pub(crate) fn print_heading(report: &Report) {
    let names: String = columns(report)
        .iter()
        .map(|(party, figure)| {
            let name = if party == ours::NAME {
                figure.to_string()
            } else {
                format!("{party} {figure}")
            };
            format!(" {name:>20}")
        })
        .collect();
    println!("{:<6} {:>9}{names}", "query", "rows");
}

/// One query's line.
pub(crate) fn print_query(report: &Report, query: &QueryReport) {
    let cells: String = columns(report)
        .iter()
        .map(|(party, figure)| format!(" {:>20}", cell_text(query.cell(party, *figure))))
        .collect();
    let rows = query
        .rows
        .map_or_else(|| "?".to_owned(), |rows| rows.to_string());
    println!("{:<6} {rows:>9}{cells}", query.query);
}

/// A cell in words: its median, and behind a peer's the ratio to our figure of the same kind.
pub(crate) fn cell_text(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    match (cell.median_us, &cell.failure) {
        (Some(us), _) => match cell.ratio(cell.figure) {
            Some(times) => format!("{} {}", time(us), ratio(times)),
            None => time(us),
        },
        (None, Some(reason)) => reason.chars().take(20).collect(),
        (None, None) => "not measured".to_owned(),
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 100.0 => format!("{us:.1} µs"),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

/// A ratio with as many digits as matter.
pub(crate) fn ratio(times: f64) -> String {
    match times {
        times if times < 10.0 => format!("{times:.2}×"),
        times if times < 100.0 => format!("{times:.1}×"),
        times => format!("{times:.0}×"),
    }
}

/// A whole number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(thousands(5_307_458), "5,307,458");
        assert_eq!(
            [thousands(0), thousands(999), thousands(1_000)],
            ["0", "999", "1,000"]
        );
        assert_eq!(time(1.25), "1.2 µs");
        assert_eq!(time(23_305.0), "23.30 ms");
        assert_eq!(
            [ratio(0.5), ratio(41.26), ratio(2552.3)],
            ["0.50×", "41.3×", "2552×"]
        );
    }
}
