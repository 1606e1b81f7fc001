//! Tables as bench/RESULTS.md has them.

use std::fmt::Write as _;

/// A table: the names of its columns, and a line for each of these.
pub(crate) fn table<const COLUMNS: usize>(
    out: &mut String,
    names: [&str; COLUMNS],
    lines: impl IntoIterator<Item = [String; COLUMNS]>,
) {
    // Writing into a string does not fail.
    let _ = writeln!(out, "| {} |", names.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(COLUMNS));
    for cells in lines {
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_and_a_cell_for_each_column() {
        let mut out = String::new();
        let line = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        table(
            &mut out,
            ["what", "figure"],
            [line("a", "1"), line("b", "2")],
        );
        assert_eq!(out, "| what | figure |\n|---|---|\n| a | 1 |\n| b | 2 |\n");
    }
}
