//! The order that a query fixes for its rows, for comparing answers: with LIMIT or OFFSET behind
//! ORDER BY each row has its place, since the terms decide among equal ones; with ORDER BY alone
//! equal rows may stand in any order.

use somersault_lang::{Expression, OrderKey, Parser, Pattern, Query};

/// The order that a query fixes for its rows.
pub(crate) enum Sequence {
    /// Each row has its place.
    Total,
    /// The rows come by the values in these columns; by none where nothing is said.
    By(Vec<usize>),
}

impl Sequence {
    /// The order that the outermost operators of a query fix.
    pub(crate) fn of(query: &Query) -> Sequence {
        let (inner, is_sliced) = match &query.pattern {
            Pattern::Slice { inner, .. } => (&**inner, true),
            pattern => (pattern, false),
        };
        let inner = match inner {
            Pattern::Distinct(inner) => inner,
            pattern => pattern,
        };
        let Pattern::Project { inner, .. } = inner else {
            return Sequence::By(Vec::new());
        };
        let Pattern::OrderBy { keys, .. } = &**inner else {
            return Sequence::By(Vec::new());
        };
        if is_sliced {
            return Sequence::Total;
        }
        let column = |key: &OrderKey| match &key.expression {
            Expression::Variable(variable) => {
                let mut columns = query.projection().iter();
                columns.position(|column| column == variable)
            }
            _ => None,
        };
        Sequence::By(keys.iter().map_while(column).collect())
    }

    /// The rows as far as their order is said, and all of them, such that answers that should be
    /// equal are.
    pub(crate) fn comparable(&self, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
        let Sequence::By(columns) = self else {
            return rows;
        };
        let mut seen: Vec<Vec<String>> = (rows.iter())
            .map(|row| keys(columns.iter().map(|column| row[*column].as_str())))
            .collect();
        rows.sort();
        seen.append(&mut rows);
        seen
    }
}

/// The cells that rows come by, up to the first literal: another spelling of its value has the same
/// place.
fn keys<'r>(cells: impl Iterator<Item = &'r str>) -> Vec<String> {
    let mut keys = Vec::new();
    for cell in cells {
        if cell.starts_with('"') {
            keys.push("a literal".to_owned());
            break;
        }
        keys.push(cell.to_owned());
    }
    keys
}

#[test]
fn a_lost_order_is_seen() {
    let sequence = |text: &str| Sequence::of(&Parser::new().parse_query(text).unwrap());
    let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
    let rows = || {
        vec![
            row(["<a>", "\"1\""]),
            row(["<b>", "\"01\""]),
            row(["<b>", "\"1\""]),
        ]
    };
    let turned = |first: usize, second: usize| {
        let mut rows = rows();
        rows.swap(first, second);
        rows
    };
    let all = "SELECT ?a ?b { ?a ?p ?b }";
    for (modifiers, across, equal) in [
        ("", true, true),
        ("ORDER BY ?a ?b", false, true),
        ("ORDER BY ?a ?b LIMIT 9", false, false),
        ("ORDER BY DESC(?a) OFFSET 1", false, false),
        ("ORDER BY STR(?a)", true, true),
    ] {
        let sequence = sequence(&format!("{all} {modifiers}"));
        let sorted = sequence.comparable(rows());
        let is_same = |first, second| sequence.comparable(turned(first, second)) == sorted;
        assert_eq!(
            (is_same(0, 1), is_same(1, 2)),
            (across, equal),
            "{modifiers}"
        );
    }
}
