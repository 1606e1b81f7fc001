//! A sheet: the figures of one part as lines of numbers. It is printed while it is measured, kept
//! as JSON, shown in bench/RESULTS.md or docs/benchmarks.md, and read by the check of targets.
//!
//! The one thing to know before changing it: a figure is found by the names of its line and its
//! column, also in files of earlier runs. A figure that was not measured is absent, never zero.

use crate::figures::table::thousands;
use crate::harness::machine::{Machine, stolen_time};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::time::Duration;

/// The figures of one part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sheet {
    machine: Machine,
    title: String,
    /// What was measured, and how.
    words: String,
    /// Processor time that the host gave to others meanwhile, over all cores.
    stolen_ms: u64,
    grids: Vec<Grid>,
}

/// Lines of numbers under the same columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grid {
    /// What the lines are.
    of: String,
    /// The columns with their units, such as `delay p50, ms`.
    columns: Vec<String>,
    lines: Vec<GridLine>,
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct GridLine {
    name: String,
    /// One for each column; `None` where it was not measured.
    values: Vec<Option<f64>>,
}

impl Sheet {
    /// A sheet without figures; stolen time counts from here on.
    pub(crate) fn new(title: &str, words: impl Into<String>) -> Sheet {
        Sheet {
            machine: Machine::read(),
            title: title.to_owned(),
            words: words.into(),
            stolen_ms: stolen_time().as_millis() as u64,
            grids: Vec::new(),
        }
    }

    /// The sheet with these figures; stolen time counts up to here.
    pub(crate) fn with(mut self, grids: impl IntoIterator<Item = Grid>) -> Sheet {
        self.stolen_ms = (stolen_time().as_millis() as u64).saturating_sub(self.stolen_ms);
        self.grids.extend(grids);
        self
    }

    /// The figure in the first line and column of these names.
    pub(crate) fn figure(&self, line: &str, column: &str) -> Option<f64> {
        self.grids.iter().find_map(|grid| grid.figure(line, column))
    }

    /// The greatest figure of a column.
    pub(crate) fn most(&self, column: &str) -> Option<f64> {
        let columns = self.grids.iter().flat_map(|grid| grid.column(column));
        columns.reduce(f64::max)
    }

    /// The greatest figure of a column over the least.
    pub(crate) fn spread(&self, column: &str) -> Option<f64> {
        let columns = self.grids.iter().flat_map(|grid| grid.column(column));
        let least = columns.reduce(f64::min)?;
        Some(self.most(column)? / least)
    }

    /// The sheet as a section of a document.
    pub(crate) fn section(&self) -> String {
        let (title, machine, words) = (&self.title, &self.machine, &self.words);
        let mut out = format!(
            "\n## {title}\n\n{machine}. {words} Host steal {} ms.\n",
            self.stolen_ms
        );
        for grid in &self.grids {
            // Writing into a string does not fail.
            let _ = writeln!(out, "\n| {} | {} |", grid.of, grid.columns.join(" | "));
            let _ = writeln!(out, "|{}", "---|".repeat(1 + grid.columns.len()));
            for line in &grid.lines {
                let cells = line.values.iter().map(|value| in_short(*value));
                let cells = cells.collect::<Vec<_>>().join(" | ");
                let _ = writeln!(out, "| {} | {cells} |", line.name);
            }
        }
        out
    }
}

impl Grid {
    /// A grid without lines.
    pub(crate) fn new<const COLUMNS: usize>(of: &str, columns: [&str; COLUMNS]) -> Grid {
        Grid {
            of: of.to_owned(),
            columns: columns.map(str::to_owned).into(),
            lines: Vec::new(),
        }
    }

    /// Adds a line, and prints it.
    pub(crate) fn line<const COLUMNS: usize>(
        &mut self,
        name: impl Into<String>,
        values: [Option<f64>; COLUMNS],
    ) {
        assert_eq!(COLUMNS, self.columns.len(), "a value for each column");
        let name = name.into();
        let figures = self.columns.iter().zip(values);
        let figures = figures.filter(|(_, value)| value.is_some());
        let figures = figures.map(|(column, value)| format!("{column} {}", in_short(value)));
        println!("  {name}: {}", figures.collect::<Vec<_>>().join("; "));
        self.lines.push(GridLine {
            name,
            values: values.into(),
        });
    }

    fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }

    fn figure(&self, line: &str, column: &str) -> Option<f64> {
        let place = self.place(column)?;
        let line = self.lines.iter().find(|one| one.name == line)?;
        *line.values.get(place)?
    }

    /// The figures of a column that were measured.
    fn column(&self, column: &str) -> Vec<f64> {
        let place = self.place(column);
        let lines = self.lines.iter();
        lines.filter_map(|line| *line.values.get(place?)?).collect()
    }
}

/// Milliseconds with their fractions.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A number with as many digits as matter.
fn in_short(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 10_000.0 => match value < 0.0 {
            true => format!("-{}", thousands(value.abs() as u64)),
            false => thousands(value as u64),
        },
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut grid = Grid::new("query", ["p50, ms", "rows"]);
        grid.line("L1", [Some(0.5), None]);
        grid.line("L2", [Some(2.0), Some(12_345.0)]);
        Sheet::new("A part", "In words.").with([grid])
    }

    #[test]
    fn a_figure_is_found_by_its_names() {
        let sheet = sheet();
        assert_eq!(sheet.figure("L2", "rows"), Some(12_345.0));
        assert_eq!(sheet.figure("L1", "rows"), None, "it was not measured");
        assert_eq!(sheet.figure("L3", "rows"), None);
        assert_eq!(sheet.figure("L1", "p99, ms"), None);
        assert_eq!(sheet.most("p50, ms"), Some(2.0));
        assert_eq!(sheet.spread("p50, ms"), Some(4.0));
        assert_eq!(sheet.spread("p99, ms"), None);
    }

    #[test]
    fn a_sheet_is_a_section_with_a_cell_for_each_figure() {
        let section = sheet().section();
        assert!(section.starts_with("\n## A part\n\n"), "{section}");
        assert!(section.contains("\n| query | p50, ms | rows |\n|---|---|---|\n"));
        assert!(
            section.contains("\n| L1 | 0.500 | – |\n| L2 | 2.00 | 12,345 |\n"),
            "{section}"
        );
    }

    #[test]
    fn a_sheet_is_read_as_it_was_kept() {
        let sheet = sheet();
        let text = serde_json::to_string(&sheet).unwrap();
        assert_eq!(serde_json::from_str::<Sheet>(&text).unwrap(), sheet);
    }
}
