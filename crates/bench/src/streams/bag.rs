//! The rows of an answer as one hash that does not depend on their order. Peers compute it too
//! (`bench/peers/README.md`), so answers are compared by content, and not by the number of rows.

use sha2::{Digest, Sha256};
use somersault::Answer;
use somersault::answer_format::{AnswerRow, answer_rows};
use std::fmt::Write as _;

/// The text between the digits of a number and the name of its datatype.
const DATATYPE: &str = "\"^^<http://www.w3.org/2001/XMLSchema#";

/// The hash of an answer's rows.
pub(super) fn hash_of(answer: &Answer) -> String {
    hash(&answer_rows(answer))
}

/// Hex SHA-256 of the rows, a line each, sorted.
fn hash(rows: &[AnswerRow]) -> String {
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.sort_unstable();
    let mut digest = Sha256::new();
    lines.iter().for_each(|line| digest.update(line));
    let bytes = digest.finalize();
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// A row's terms as N-Triples, which escapes tabs and line feeds; an unbound column is empty.
fn line(row: &AnswerRow) -> String {
    let cells = row
        .iter()
        .map(|cell| spelled(cell.as_deref().unwrap_or("")));
    cells.collect::<Vec<_>>().join("\t") + "\n"
}

/// A number by the bits of the double that is nearest to it, whatever its datatype; a blank node
/// without its label, since each engine makes its own; everything else as it is.
fn spelled(term: &str) -> String {
    if term.starts_with("_:") {
        return "_:".to_owned();
    }
    let number = || {
        let (lexical, _) = term.strip_prefix('"')?.split_once(DATATYPE)?;
        let is_plain = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let value: f64 = (lexical.chars().all(is_plain)).then(|| lexical.parse().ok())??;
        // This makes -0 and 0 equal.
        let bits = (value + 0.0).to_bits();
        Some(format!("{bits:016x}"))
    };
    number().unwrap_or_else(|| term.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> AnswerRow {
        let cell = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        cells.iter().map(cell).collect()
    }

    #[test]
    fn rows_are_the_same_in_any_order_and_spelling_of_numbers() {
        let double = |text| format!("\"{text}\"^^<http://www.w3.org/2001/XMLSchema#double>");
        let one = [row(&["<a>", &double("1.50")]), row(&["<b>", ""])];
        let same = [row(&["<b>", ""]), row(&["<a>", &double("15E-1")])];
        assert_eq!(hash(&one), hash(&same));
        assert_eq!(spelled(&double("-0.0")), spelled(&double("0")));
        for other in [
            [row(&["<a>", &double("1.51")]), row(&["<b>", ""])],
            [row(&["<a>", "\"1.50\""]), row(&["<b>", ""])],
            [row(&["<a>", &double("1.50")]), row(&["", "<b>"])],
        ] {
            assert_ne!(hash(&one), hash(&other), "{other:?}");
        }
        let twice = [row(&["<b>", ""]), row(&["<b>", ""])];
        assert_ne!(hash(&twice), hash(&twice[..1]));
        assert_eq!(spelled(&double("NaN")), double("NaN"));
        let long = "\"2\"^^<http://www.w3.org/2001/XMLSchema#long>";
        assert_eq!(spelled(long), spelled(&double("2.0")));
        assert_eq!(spelled("_:one"), spelled("_:other"));
    }

    /// `rows_hash` of `bench/peers/pyoxigraph/streams.py` gives this for the same rows.
    #[test]
    fn peers_make_the_same_hash() {
        let integer = "\"+042\"^^<http://www.w3.org/2001/XMLSchema#integer>";
        let rows = [
            row(&["<http://e/é>", integer]),
            row(&["_:b7", "\"a\\tb\"@en"]),
        ];
        assert_eq!(
            hash(&rows),
            "efc1ac8d96d85c6a763cc64891b9b6dabf9d30931c65caa172de5710a4a689d3"
        );
        assert_eq!(
            hash(&[]),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
