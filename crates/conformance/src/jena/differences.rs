//! The list of allowed differences: data, with the clause that allows each. A line says which
//! expressions, operands and answers it is about, by patterns in which `*` stands for any text and
//! `;` separates alternatives.

use std::fmt;

/// The list that the crate carries.
const LIST: &str = include_str!("../../oracle/differences.tsv");

/// The names of the columns.
const COLUMNS: usize = 7;

/// One comparison.
pub(super) struct Case<'c> {
    pub(super) expression: &'c str,
    /// The names of the operands.
    pub(super) a: &'c str,
    pub(super) b: &'c str,
    pub(super) ours: &'c str,
    pub(super) jenas: &'c str,
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| match text {
            "" => "an error".to_owned(),
            text => text.replace("http://www.w3.org/2001/XMLSchema#", "xsd:"),
        };
        let (ours, jenas) = (shown(self.ours), shown(self.jenas));
        write!(
            f,
            "{}\t{}\t{}\tours {ours}\tjena {jenas}",
            self.expression, self.a, self.b
        )
    }
}

struct Line {
    class: String,
    /// Patterns of the expression, the operands and the answers.
    patterns: [String; 5],
    met: u64,
}

/// The list, with the number of differences that matched each line.
pub(super) struct Differences(Vec<Line>);

impl Differences {
    /// The list of this crate.
    pub(super) fn of_this_crate() -> Result<Differences, String> {
        Differences::parse(LIST)
    }

    /// Reads a list: class, expression, a, b, ours, Jena's, clause, with tabs between them.
    pub(super) fn parse(list: &str) -> Result<Differences, String> {
        let mut lines = Vec::new();
        for (at, text) in list.lines().enumerate() {
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let columns: Vec<&str> = text.split('\t').map(str::trim).collect();
            let [class, expression, a, b, ours, jenas, clause] = columns[..] else {
                let found = columns.len();
                return Err(format!(
                    "line {} of the differences has {found} columns, and not {COLUMNS}: {text}",
                    at + 1
                ));
            };
            if class.is_empty() || clause.is_empty() {
                return Err(format!(
                    "line {} of the differences lacks its class or its clause: {text}",
                    at + 1
                ));
            }
            lines.push(Line {
                class: class.to_owned(),
                patterns: [expression, a, b, ours, jenas].map(str::to_owned),
                met: 0,
            });
        }
        Ok(Differences(lines))
    }

    /// The class of the first line that matches a difference.
    pub(super) fn class_of(&mut self, case: &Case<'_>) -> Option<String> {
        let texts = [case.expression, case.a, case.b, case.ours, case.jenas];
        let line = self.0.iter_mut().find(|line| {
            let mut pairs = line.patterns.iter().zip(texts);
            pairs.all(|(pattern, text)| matches(pattern, text))
        })?;
        line.met += 1;
        Some(line.class.clone())
    }

    /// The lines that no difference matched, except those about drawn queries: a draw may miss
    /// them.
    pub(super) fn unmet(&self) -> Vec<String> {
        let is_of_matrix = |line: &&Line| !line.patterns[0].starts_with("query");
        let unmet = self
            .0
            .iter()
            .filter(is_of_matrix)
            .filter(|line| line.met == 0);
        unmet
            .map(|line| format!("{} ({})", line.class, line.patterns.join(" ; ")))
            .collect()
    }
}

/// Whether one of a pattern's alternatives matches a text; `error` stands for the empty text.
fn matches(pattern: &str, text: &str) -> bool {
    pattern
        .split(';')
        .map(str::trim)
        .any(|pattern| match pattern {
            "error" => text.is_empty(),
            _ => is_like(pattern, text),
        })
}

/// Whether a text is a pattern in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(is_like("*", ""));
        assert!(is_like("a*c", "abc") && is_like("a*c", "ac") && !is_like("a*c", "ab"));
        assert!(is_like("*b*", "abc") && !is_like("*b*", "ac"));
        assert!(is_like("a*b*a", "aba") && !is_like("ab*ba", "aba"));
        assert!(matches("x;a*", "ab") && matches("error", "") && !matches("error", "x"));
    }

    #[test]
    fn the_first_line_decides_and_unmet_lines_are_reported() {
        let list =
            "# remark\nfirst\t?a < ?b\tint*\t*\t*\terror\t17.3\nsecond\t*\t*\t*\t*\t*\topen\n";
        let mut differences = Differences::parse(list).expect("a list");
        let mut case = Case {
            expression: "?a < ?b",
            a: "int-1",
            b: "x",
            ours: "true",
            jenas: "",
        };
        assert_eq!(differences.class_of(&case).as_deref(), Some("first"));
        assert_eq!(differences.unmet().len(), 1);
        case.a = "text";
        assert_eq!(differences.class_of(&case).as_deref(), Some("second"));
        assert!(differences.unmet().is_empty());
        assert!(Differences::parse("class\t*\t*\t*\t*\t*\t \n").is_err());
        assert!(Differences::parse("class\t*\n").is_err());
    }

    #[test]
    fn the_list_of_this_crate_reads() {
        Differences::of_this_crate().expect("a good list");
    }
}
