//! The same query in another dialect: C-SPARQL texts that read each window by GRAPH say the same in RSP-QL and CQELS-QL,
//! and must have the same answers there.

use super::suite::words;
use std::ops::Range;

/// What the continuous queries of a suite are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// As they stand.
    CSparql,
    /// `FROM NAMED WINDOW w ON s […]` and `WINDOW w { … }`.
    RspQl,
    /// `STREAM s […] { … }`.
    CqelsQl,
}

/// `FROM [NAMED] STREAM source [window]`
struct Clause<'t> {
    range: Range<usize>,
    source: &'t str,
    window: &'t str,
}

impl Dialect {
    /// A C-SPARQL text in this dialect. `None` where it cannot say the same: a window that no GRAPH names (it is read as part of
    /// the default graph), a FROM, GRAPH with a variable (which ranges over windows in C-SPARQL only), the paper's bare clauses.
    pub fn of_c_sparql(self, text: &str) -> Option<String> {
        if self == Dialect::CSparql {
            return Some(text.to_owned());
        }
        let found: Vec<Range<usize>> = words(text).collect();
        let word = |at: usize| found.get(at).map(|range| &text[range.clone()]);
        let is = |at: usize, keyword: &str| {
            word(at).is_some_and(|word| word.eq_ignore_ascii_case(keyword))
        };
        let clauses = clauses(text, &found)?;
        let is_read = |clause: &Clause<'_>| {
            (0..found.len()).any(|at| is(at, "GRAPH") && word(at + 1) == Some(clause.source))
        };
        if !clauses.iter().all(is_read) {
            return None;
        }
        let counts = |clause: &Clause<'_>| clause.window.contains("TRIPLES");
        if self == Dialect::CqelsQl && clauses.iter().any(counts) {
            return None;
        }
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        for (number, clause) in clauses.iter().enumerate() {
            let written = match self {
                Dialect::RspQl => format!(
                    "FROM NAMED WINDOW <urn:window:{number}> ON {} {}",
                    clause.source,
                    clause.window.replace("RANGE TRIPLES", "ELEMENTS")
                ),
                _ => String::new(),
            };
            edits.push((clause.range.clone(), written));
        }
        // REGISTER names the operator that SELECT has, or the one that it has where it says none.
        let says = |operator: &&str| (0..found.len()).any(|at| is(at, operator));
        let operator = ["ISTREAM", "DSTREAM"].into_iter().find(says);
        for at in 0..found.len() {
            if is(at, "REGISTER") && is(at + 1, "QUERY") && self == Dialect::RspQl {
                edits.push((
                    found[at + 1].clone(),
                    operator.unwrap_or("RSTREAM").to_owned(),
                ));
            }
            if !is(at, "GRAPH") {
                continue;
            }
            let name = word(at + 1)?;
            if name.starts_with(['?', '$']) {
                return None;
            }
            let read = (clauses.iter().enumerate()).find(|(_, clause)| clause.source == name);
            if let Some((number, clause)) = read {
                let written = match self {
                    Dialect::RspQl => format!("WINDOW <urn:window:{number}>"),
                    _ => format!("STREAM {name} {}", clause.window.replace("STEP", "SLIDE")),
                };
                edits.push((found[at].start..found[at + 1].end, written));
            }
        }
        edits.sort_by_key(|(range, _)| range.start);
        let (mut out, mut at) = (String::new(), 0);
        for (range, written) in edits {
            out.push_str(&text[at..range.start]);
            out.push_str(&written);
            at = range.end;
        }
        Some(out + &text[at..])
    }
}

/// The window clauses of a text; `None` if it has none, or a FROM that is no such clause and no FROM NAMED.
fn clauses<'t>(text: &'t str, found: &[Range<usize>]) -> Option<Vec<Clause<'t>>> {
    let word = |at: usize| found.get(at).map(|range| &text[range.clone()]);
    let mut clauses = Vec::new();
    for at in 0..found.len() {
        if !word(at)?.eq_ignore_ascii_case("FROM") {
            continue;
        }
        let named = usize::from(word(at + 1)?.eq_ignore_ascii_case("NAMED"));
        if word(at + 1 + named)?.eq_ignore_ascii_case("STREAM") {
            let source = found.get(at + 2 + named)?;
            let open = source.end + text[source.end..].find('[')?;
            let close = open + text[open..].find(']')? + 1;
            clauses.push(Clause {
                range: found[at].start..close,
                source: &text[source.clone()],
                window: &text[open..close],
            });
        } else if named == 0 {
            return None;
        }
    }
    (!clauses.is_empty()).then_some(clauses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_written_the_other_way() {
        let text = "REGISTER QUERY q AS SELECT * FROM STREAM <http://s> [RANGE 2s STEP 1s]\nFROM NAMED :g WHERE { GRAPH <http://s> { ?x ?y ?z } GRAPH :g { ?x :p ?z } }";
        assert_eq!(
            Dialect::RspQl.of_c_sparql(text).as_deref(),
            Some(
                "REGISTER RSTREAM q AS SELECT * FROM NAMED WINDOW <urn:window:0> ON <http://s> [RANGE 2s STEP 1s]\nFROM NAMED :g WHERE { WINDOW <urn:window:0> { ?x ?y ?z } GRAPH :g { ?x :p ?z } }"
            )
        );
        assert_eq!(
            Dialect::CqelsQl.of_c_sparql(text).as_deref(),
            Some(
                "REGISTER QUERY q AS SELECT * \nFROM NAMED :g WHERE { STREAM <http://s> [RANGE 2s SLIDE 1s] { ?x ?y ?z } GRAPH :g { ?x :p ?z } }"
            )
        );
        for other in [
            "SELECT * FROM STREAM :s [RANGE 2s STEP 1s] WHERE { ?x ?y ?z }",
            "SELECT * FROM STREAM :s [RANGE 2s STEP 1s] FROM :g WHERE { ?x ?y ?z }",
            "SELECT * FROM STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH ?g { ?x ?y ?z } }",
            "SELECT * FROM s [RANGE 2s STEP 1s] WHERE { GRAPH s { ?x ?y ?z } }",
        ] {
            assert_eq!(Dialect::RspQl.of_c_sparql(other), None, "{other}");
            assert_eq!(Dialect::CSparql.of_c_sparql(other).as_deref(), Some(other));
        }
    }
}
