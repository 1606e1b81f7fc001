//! Compares two answers as bags of rows: multiplicities count, blank nodes are equal up to one
//! renaming for the whole answer, and the columns that a query computes are equal by value. Rows
//! are grouped by a colour that renaming cannot change, so that the search for the renaming tries
//! only the ambiguous ones.

use oxrdf::{BlankNode, NamedOrBlankNode, Term, Triple};
use std::collections::HashMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// One solution: a term or nothing for each variable.
pub type Row = Vec<Option<Term>>;

/// The comparison of the literals of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Term by term, as RDF does.
    BySpelling,
    /// Same datatype, and the same value within 1e-9 of it.
    ByValue,
}

/// Largest relative difference of two computed numbers that still counts as equal.
const TOLERANCE: f64 = 1e-9;

/// Rounds of colouring. More rounds would help only for graphs that no test has.
const COLOURING_ROUNDS: usize = 6;

/// Whether the two answers are equal as bags; the sentence of the `Err` says which row differs
/// first.
pub fn same_bag(expected: &[Row], found: &[Row], numbers: &[Numbers]) -> Result<(), String> {
    let left = Coloured::new(expected, numbers);
    let right = Coloured::new(found, numbers);
    if let Some(difference) = first_difference(&left, &right) {
        return Err(difference);
    }
    if search(&left, &right, numbers) {
        Ok(())
    } else {
        Err(format!(
            "{} rows each, but no renaming of blank nodes (or no pairing of computed values) makes them equal",
            expected.len()
        ))
    }
}

/// Whether the two answers are equal row by row.
pub fn same_sequence(expected: &[Row], found: &[Row], numbers: &[Numbers]) -> Result<(), String> {
    let mut renaming = Renaming::default();
    for (at, (left, right)) in expected.iter().zip(found).enumerate() {
        if !unify_rows(left, right, numbers, &mut renaming) {
            return Err(format!(
                "row {}: expected {}, found {}",
                at + 1,
                show(left),
                show(right)
            ));
        }
    }
    if expected.len() == found.len() {
        Ok(())
    } else {
        Err(format!(
            "expected {} rows, found {}",
            expected.len(),
            found.len()
        ))
    }
}

/// Whether the answers have the same rows; multiplicities are ignored.
pub fn same_set(expected: &[Row], found: &[Row], numbers: &[Numbers]) -> Result<(), String> {
    same_bag(&distinct(expected), &distinct(found), numbers)
}

fn distinct(rows: &[Row]) -> Vec<Row> {
    let mut seen = std::collections::HashSet::new();
    rows.iter()
        .filter(|row| seen.insert(*row))
        .cloned()
        .collect()
}

/// A row as text for people.
pub fn show(row: &Row) -> String {
    let mut text = String::from("(");
    for (at, term) in row.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let written = match term {
            Some(term) => write!(text, "{separator}{term}"),
            None => write!(text, "{separator}unbound"),
        };
        written.expect("writing to a String does not fail");
    }
    text.push(')');
    text
}

/// The rows of an answer, each with a colour that neither renaming nor the spelling of a computed
/// number changes.
struct Coloured<'a> {
    rows: &'a [Row],
    colours: Vec<u64>,
    groups: HashMap<u64, Vec<usize>>,
}

impl<'a> Coloured<'a> {
    fn new(rows: &'a [Row], numbers: &[Numbers]) -> Self {
        let mut nodes: HashMap<&BlankNode, u64> = HashMap::new();
        for row in rows {
            for term in row.iter().flatten() {
                visit_blank_nodes(term, &mut |node| {
                    nodes.insert(node, 0);
                });
            }
        }
        let mut colours = colour_rows(rows, numbers, &nodes);
        if !nodes.is_empty() {
            for _ in 0..COLOURING_ROUNDS {
                let mut next: HashMap<&BlankNode, u64> =
                    nodes.keys().map(|node| (*node, 0)).collect();
                for (row, colour) in rows.iter().zip(&colours) {
                    let mut place = 0u64;
                    for term in row.iter().flatten() {
                        visit_blank_nodes(term, &mut |node| {
                            place += 1;
                            let sum = next.entry(node).or_default();
                            *sum = sum.wrapping_add(mix(&[*colour, place, nodes[node]]));
                        });
                    }
                }
                nodes = next;
                colours = colour_rows(rows, numbers, &nodes);
            }
        }
        let mut groups: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, colour) in colours.iter().enumerate() {
            groups.entry(*colour).or_default().push(at);
        }
        for group in groups.values_mut() {
            group.sort_by(|a, b| compare_values(&rows[*a], &rows[*b], numbers));
        }
        Self {
            rows,
            colours,
            groups,
        }
    }
}

fn first_difference(left: &Coloured<'_>, right: &Coloured<'_>) -> Option<String> {
    let count = |side: &Coloured<'_>, colour: u64| side.groups.get(&colour).map_or(0, Vec::len);
    let differing = |side: &Coloured<'_>, other: &Coloured<'_>| {
        let colours = &side.colours;
        let at = colours
            .iter()
            .position(|colour| count(side, *colour) > count(other, *colour))?;
        Some((at, count(side, colours[at]), count(other, colours[at])))
    };
    let missing = differing(left, right);
    let extra = differing(right, left);
    if missing.is_none() && extra.is_none() {
        return None;
    }
    let mut text = format!(
        "expected {} rows, found {}",
        left.rows.len(),
        right.rows.len()
    );
    for (found, side, words) in [
        (missing, left, "first missing"),
        (extra, right, "first extra"),
    ] {
        if let Some((at, here, there)) = found {
            let row = show(&side.rows[at]);
            let times = if here.max(there) > 1 {
                format!(" ({here} times against {there})")
            } else {
                String::new()
            };
            write!(text, "; {words}: {row}{times}").expect("writing to a String does not fail");
        }
    }
    Some(text)
}

/// Looks for a pairing of the rows, group by group, under one renaming; depth first, without
/// recursion, since answers can be long.
fn search(left: &Coloured<'_>, right: &Coloured<'_>, numbers: &[Numbers]) -> bool {
    let mut order: Vec<usize> = (0..left.rows.len()).collect();
    order.sort_by_key(|at| (left.groups[&left.colours[*at]].len(), left.colours[*at]));
    let mut used = vec![false; right.rows.len()];
    let mut renaming = Renaming::default();
    // For each placed row: the candidate it is paired with, and the length of the renaming's undo
    // list before that.
    let mut placed: Vec<(usize, usize)> = Vec::with_capacity(order.len());
    let mut first_candidate = 0;
    while placed.len() < order.len() {
        let row = order[placed.len()];
        let group = &right.groups[&left.colours[row]];
        let mark = renaming.undo.len();
        let taken = (first_candidate..group.len()).find(|candidate| {
            let other = group[*candidate];
            if used[other] {
                return false;
            }
            let fits = unify_rows(&left.rows[row], &right.rows[other], numbers, &mut renaming);
            if !fits {
                renaming.rewind(mark);
            }
            fits
        });
        match taken {
            Some(candidate) => {
                used[group[candidate]] = true;
                placed.push((candidate, mark));
                first_candidate = 0;
            }
            None => {
                let Some((candidate, mark)) = placed.pop() else {
                    return false;
                };
                let row = order[placed.len()];
                used[right.groups[&left.colours[row]][candidate]] = false;
                renaming.rewind(mark);
                first_candidate = candidate + 1;
            }
        }
    }
    true
}

/// A one-to-one renaming of blank nodes that can be taken back step by step.
#[derive(Default)]
struct Renaming {
    forward: HashMap<BlankNode, BlankNode>,
    backward: HashMap<BlankNode, BlankNode>,
    undo: Vec<BlankNode>,
}

impl Renaming {
    fn pair(&mut self, left: &BlankNode, right: &BlankNode) -> bool {
        match (self.forward.get(left), self.backward.get(right)) {
            (Some(known), _) => known == right,
            (None, Some(_)) => false,
            (None, None) => {
                self.forward.insert(left.clone(), right.clone());
                self.backward.insert(right.clone(), left.clone());
                self.undo.push(left.clone());
                true
            }
        }
    }

    fn rewind(&mut self, mark: usize) {
        for left in self.undo.drain(mark..) {
            if let Some(right) = self.forward.remove(&left) {
                self.backward.remove(&right);
            }
        }
    }
}

fn unify_rows(left: &Row, right: &Row, numbers: &[Numbers], renaming: &mut Renaming) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .enumerate()
            .all(|(column, pair)| match pair {
                (None, None) => true,
                (Some(left), Some(right)) => {
                    unify_terms(left, right, renaming)
                        || (by_value(numbers, column) && same_value(left, right))
                }
                _ => false,
            })
}

fn unify_terms(left: &Term, right: &Term, renaming: &mut Renaming) -> bool {
    match (left, right) {
        (Term::BlankNode(left), Term::BlankNode(right)) => renaming.pair(left, right),
        (Term::Triple(left), Term::Triple(right)) => {
            left.predicate == right.predicate
                && match (&left.subject, &right.subject) {
                    (NamedOrBlankNode::BlankNode(left), NamedOrBlankNode::BlankNode(right)) => {
                        renaming.pair(left, right)
                    }
                    (left, right) => left == right,
                }
                && unify_terms(&left.object, &right.object, renaming)
        }
        _ => left == right,
    }
}

fn by_value(numbers: &[Numbers], column: usize) -> bool {
    numbers.get(column) == Some(&Numbers::ByValue)
}

/// The datatype and value of a number; `None` for other terms.
fn number(term: &Term) -> Option<(&str, f64)> {
    const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
    const NUMERIC: [&str; 16] = [
        "decimal",
        "double",
        "float",
        "integer",
        "int",
        "long",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedInt",
        "unsignedLong",
        "unsignedShort",
        "unsignedByte",
    ];
    let (value, datatype) = match term {
        Term::Literal(literal) => (literal.value(), literal.datatype().as_str()),
        _ => return None,
    };
    if !NUMERIC.contains(&datatype.strip_prefix(XSD)?) {
        return None;
    }
    let value = match value.trim() {
        "INF" | "+INF" => f64::INFINITY,
        "-INF" => f64::NEG_INFINITY,
        text => text.parse().ok()?,
    };
    Some((datatype, value))
}

fn same_value(left: &Term, right: &Term) -> bool {
    match (number(left), number(right)) {
        (Some((left_type, left)), Some((right_type, right))) => {
            left_type == right_type
                && (left == right
                    || (left.is_nan() && right.is_nan())
                    || (left - right).abs() <= TOLERANCE * left.abs().max(right.abs()))
        }
        _ => false,
    }
}

fn compare_values(left: &Row, right: &Row, numbers: &[Numbers]) -> std::cmp::Ordering {
    let values = |row: &Row| -> Vec<f64> {
        row.iter()
            .enumerate()
            .filter(|(column, _)| by_value(numbers, *column))
            .filter_map(|(_, term)| number(term.as_ref()?).map(|(_, value)| value))
            .collect()
    };
    values(left)
        .iter()
        .zip(&values(right))
        .map(|(left, right)| left.total_cmp(right))
        .find(|order| order.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

fn colour_rows(rows: &[Row], numbers: &[Numbers], nodes: &HashMap<&BlankNode, u64>) -> Vec<u64> {
    rows.iter()
        .map(|row| {
            let mut hasher = DefaultHasher::new();
            for (column, term) in row.iter().enumerate() {
                match term {
                    None => 0u8.hash(&mut hasher),
                    Some(term) => match number(term).filter(|_| by_value(numbers, column)) {
                        Some((datatype, _)) => (1u8, datatype).hash(&mut hasher),
                        None => hash_term(term, nodes, &mut hasher),
                    },
                }
            }
            hasher.finish()
        })
        .collect()
}

fn hash_term(term: &Term, nodes: &HashMap<&BlankNode, u64>, hasher: &mut DefaultHasher) {
    match term {
        Term::BlankNode(node) => (2u8, nodes[node]).hash(hasher),
        Term::Triple(triple) => {
            3u8.hash(hasher);
            match &triple.subject {
                NamedOrBlankNode::BlankNode(node) => (2u8, nodes[node]).hash(hasher),
                NamedOrBlankNode::NamedNode(node) => node.hash(hasher),
            }
            triple.predicate.hash(hasher);
            hash_term(&triple.object, nodes, hasher);
        }
        _ => {
            4u8.hash(hasher);
            term.hash(hasher);
        }
    }
}

fn visit_blank_nodes<'a>(term: &'a Term, visit: &mut impl FnMut(&'a BlankNode)) {
    match term {
        Term::BlankNode(node) => visit(node),
        Term::Triple(triple) => {
            let Triple {
                subject, object, ..
            } = triple.as_ref();
            if let NamedOrBlankNode::BlankNode(node) = subject {
                visit(node);
            }
            visit_blank_nodes(object, visit);
        }
        _ => {}
    }
}

fn mix(parts: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::vocab::xsd;
    use oxrdf::{Literal, NamedNode};

    fn iri(name: &str) -> Option<Term> {
        Some(NamedNode::new_unchecked(format!("http://example.org/{name}")).into())
    }

    fn blank(name: &str) -> Option<Term> {
        Some(BlankNode::new_unchecked(name).into())
    }

    fn decimal(text: &str) -> Option<Term> {
        Some(Literal::new_typed_literal(text, xsd::DECIMAL).into())
    }

    const SPELLED: [Numbers; 2] = [Numbers::BySpelling; 2];

    #[test]
    fn multiplicities_count() {
        let twice = vec![vec![iri("a")], vec![iri("a")]];
        let once = vec![vec![iri("a")]];
        let difference = same_bag(&twice, &once, &SPELLED).expect_err("the multiplicities differ");
        assert!(difference.contains("2 times against 1"), "{difference}");
        assert!(same_set(&twice, &once, &SPELLED).is_ok());
    }

    #[test]
    fn unbound_is_a_value_of_its_own() {
        assert!(same_bag(&[vec![None, iri("a")]], &[vec![iri("a"), None]], &SPELLED).is_err());
        assert!(same_bag(&[vec![None, iri("a")]], &[vec![None, iri("a")]], &SPELLED).is_ok());
    }

    #[test]
    fn blank_nodes_are_renamed_one_to_one() {
        let ring = vec![vec![blank("a"), blank("b")], vec![blank("b"), blank("a")]];
        let renamed = vec![vec![blank("y"), blank("x")], vec![blank("x"), blank("y")]];
        let loops = vec![vec![blank("x"), blank("x")], vec![blank("y"), blank("y")]];
        assert!(same_bag(&ring, &renamed, &SPELLED).is_ok());
        assert!(same_bag(&ring, &loops, &SPELLED).is_err());
        assert!(
            same_bag(
                &[vec![blank("a"), blank("b")]],
                &[vec![blank("x"), blank("x")]],
                &SPELLED
            )
            .is_err()
        );
    }

    #[test]
    fn two_triangles_are_not_a_hexagon() {
        let edges = |pairs: &[(&str, &str)]| -> Vec<Row> {
            pairs
                .iter()
                .map(|(a, b)| vec![blank(a), blank(b)])
                .collect()
        };
        let triangles = edges(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("d", "e"),
            ("e", "f"),
            ("f", "d"),
        ]);
        let hexagon = edges(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "d"),
            ("d", "e"),
            ("e", "f"),
            ("f", "a"),
        ]);
        assert!(same_bag(&triangles, &hexagon, &SPELLED).is_err());
        assert!(same_bag(&hexagon, &hexagon, &SPELLED).is_ok());
    }

    #[test]
    fn computed_numbers_are_values_and_copied_ones_are_spellings() {
        let (left, right) = (vec![vec![decimal("1.50")]], vec![vec![decimal("1.5")]]);
        assert!(same_bag(&left, &right, &[Numbers::BySpelling]).is_err());
        assert!(same_bag(&left, &right, &[Numbers::ByValue]).is_ok());
        assert!(same_bag(&left, &[vec![decimal("1.500001")]], &[Numbers::ByValue]).is_err());
        let integer = vec![vec![Some(Literal::from(1).into())]];
        assert!(same_bag(&[vec![decimal("1")]], &integer, &[Numbers::ByValue]).is_err());
    }

    #[test]
    fn sequences_are_compared_in_order() {
        let (one, two) = (vec![iri("a")], vec![iri("b")]);
        assert!(
            same_sequence(
                &[one.clone(), two.clone()],
                &[two.clone(), one.clone()],
                &SPELLED
            )
            .is_err()
        );
        assert!(same_sequence(&[one.clone(), two.clone()], &[one, two], &SPELLED).is_ok());
    }
}
