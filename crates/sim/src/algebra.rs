//! SPARQL as its specification says it, over small sets of triples, with nested loops: the half of
//! the dull twin that answers a query. Every group is evaluated by itself from the inside out and
//! then joined; nothing is reordered, indexed or remembered.

use crate::model::{
    Condition, Dialect, Element, Form, Group, Path, Pattern, Place, QueryModel, Slot,
    TemplateGraph, Triple,
};
use std::collections::{BTreeMap, BTreeSet};

/// A term, in the order in which SPARQL sorts the terms of the scenarios (IRIs by spelling, then
/// literals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// A stored graph.
    Graph(u8),
    /// A node.
    Node(u8),
    /// A predicate.
    Predicate(u8),
    /// A stream, as the name of its window in C-SPARQL.
    Stream(usize),
    /// A window of RSP-QL.
    Window(usize),
    /// A number.
    Count(usize),
    /// The answer of ASK.
    Truth(bool),
}

/// A row: a value or nothing for each column.
pub type Row = Vec<Option<Value>>;
/// A bag of rows: each with its multiplicity.
pub type Bag = BTreeMap<Row, usize>;
/// Graphs by number; `None` is the default graph.
pub type Stored = BTreeMap<Option<u8>, BTreeSet<Triple>>;

/// The content of a window: triples, each with the event time of the newest such statement.
pub type Content = Vec<(Triple, i64)>;

type Solution = BTreeMap<u8, Value>;
/// A graph, with the variable that stands for it and its name.
type Named = (Option<(u8, Value)>, Vec<Triple>);

/// The data that a query sees at one close.
pub struct Seen<'a> {
    /// The query.
    pub query: &'a QueryModel,
    /// The content of its windows.
    pub windows: &'a [Content],
    /// The stored graphs.
    pub stored: &'a Stored,
}

impl Seen<'_> {
    /// The answer.
    pub fn answer(&self) -> Bag {
        let solutions = self.group(&self.query.pattern);
        match &self.query.form {
            Form::Select {
                variables,
                distinct,
                limit,
            } => {
                let mut rows: Vec<Row> = solutions.iter().map(|s| row_of(s, variables)).collect();
                rows.sort();
                if *distinct {
                    rows.dedup();
                }
                rows.truncate(limit.unwrap_or(usize::MAX));
                bag_of(rows)
            }
            Form::Count {
                group_by,
                counted,
                distinct,
            } => bag_of(count(&solutions, group_by, *counted, *distinct)),
            Form::Ask => bag_of(vec![vec![Some(Value::Truth(!solutions.is_empty()))]]),
            Form::Construct(template) => {
                let statements: BTreeSet<Row> = (solutions.iter())
                    .flat_map(|solution| {
                        (template.iter()).filter_map(|quad| filled(solution, *quad))
                    })
                    .collect();
                bag_of(statements)
            }
        }
    }

    fn group(&self, group: &Group) -> Vec<Solution> {
        self.continued(vec![Solution::new()], group)
    }

    /// The group joined to some solutions.
    fn continued(&self, from: Vec<Solution>, group: &Group) -> Vec<Solution> {
        let mut all = group
            .elements
            .iter()
            .fold(from, |all, element| self.element(&all, element));
        all.retain(|solution| {
            (group.filters.iter()).all(|filter| self.holds(filter, solution) == Some(true))
        });
        all
    }

    fn element(&self, all: &[Solution], element: &Element) -> Vec<Solution> {
        match element {
            Element::Block(place, patterns) => join(all, &self.block(*place, patterns)),
            Element::Union(left, right) => {
                let both = [self.group(left), self.group(right)].concat();
                join(all, &both)
            }
            Element::Distinct(variables, inner) => {
                let rows: BTreeSet<Row> = (self.group(inner).iter())
                    .map(|solution| row_of(solution, variables))
                    .collect();
                let solutions: Vec<Solution> = rows
                    .iter()
                    .map(|row| {
                        (variables.iter().zip(row))
                            .filter_map(|(variable, value)| Some((*variable, (*value)?)))
                            .collect()
                    })
                    .collect();
                join(all, &solutions)
            }
            Element::Minus(inner) => {
                let inner = self.group(inner);
                let removed = |solution: &Solution| {
                    inner.iter().any(|other| {
                        other.keys().any(|variable| solution.contains_key(variable))
                            && merged(solution, other).is_some()
                    })
                };
                (all.iter().filter(|solution| !removed(solution)).cloned()).collect()
            }
            Element::Timestamp(variable, (subject, predicate, object)) => (all.iter())
                .map(|solution| {
                    let mut solution = solution.clone();
                    let subject = value(&solution, *subject);
                    let object = value(&solution, *object);
                    if let Some(at_ms) = self.newest(subject, *predicate, object) {
                        solution.insert(*variable, Value::Count(at_ms));
                    }
                    solution
                })
                .collect(),
            // The filters of the optional group are the condition of the left join: they see both
            // sides.
            Element::Optional(inner) => {
                let unfiltered = self.group(&Group {
                    elements: inner.elements.clone(),
                    filters: Vec::new(),
                });
                let mut out = Vec::new();
                for solution in all {
                    let before = out.len();
                    out.extend(
                        join(std::slice::from_ref(solution), &unfiltered)
                            .into_iter()
                            .filter(|both| {
                                (inner.filters.iter())
                                    .all(|filter| self.holds(filter, both) == Some(true))
                            }),
                    );
                    if out.len() == before {
                        out.push(solution.clone());
                    }
                }
                out
            }
        }
    }

    /// The newest event time of a statement in the windows.
    fn newest(
        &self,
        subject: Option<Value>,
        predicate: u8,
        object: Option<Value>,
    ) -> Option<usize> {
        let times = (self.windows.iter().flatten())
            .filter(|((s, p, o), _)| {
                let ends = [Some(Value::Node(*s)), Some(Value::Node(*o))];
                ends == [subject, object] && *p == predicate
            })
            .map(|(_, at_ms)| *at_ms);
        times.max().and_then(|at_ms| usize::try_from(at_ms).ok())
    }

    fn block(&self, place: Place, patterns: &[Pattern]) -> Vec<Solution> {
        let mut all = Vec::new();
        for (named, graph) in self.graphs(place) {
            let start: Solution = named.into_iter().collect();
            all.extend(patterns.iter().fold(vec![start], |all, pattern| {
                join(&all, &matches(&graph, *pattern))
            }));
        }
        all
    }

    /// The graphs that a place names, each with the bindings of its variables.
    fn graphs(&self, place: Place) -> Vec<Named> {
        let query = self.query;
        let stored = |graph: Option<u8>| self.stored.get(&graph).into_iter().flatten().copied();
        let windows = |variable: u8| {
            (query.windows.iter().zip(self.windows).enumerate()).map(
                move |(at, (window, content))| {
                    let name = match query.dialect {
                        Dialect::CSparql => Value::Stream(window.stream),
                        _ => Value::Window(at),
                    };
                    (Some((variable, name)), triples_of(content).collect())
                },
            )
        };
        match place {
            Place::Window(at) => vec![(None, triples_of(&self.windows[at]).collect())],
            Place::Graph(graph) if query.names(graph) => {
                vec![(None, stored(Some(graph)).collect())]
            }
            Place::Graph(_) => Vec::new(),
            Place::AnyWindow(variable) => windows(variable).collect(),
            Place::AnyGraph(variable) => {
                let named = |graph: u8| Some((variable, Value::Graph(graph)));
                let mut all: Vec<_> = (self.stored.keys().flatten())
                    .filter(|graph| query.names(**graph))
                    .map(|graph| (named(*graph), stored(Some(*graph)).collect()))
                    .collect();
                if query.dialect == Dialect::CSparql {
                    all.extend(windows(variable));
                }
                all
            }
            // The merge of graphs is a set, whatever the windows are.
            Place::Default => {
                let mut merge: BTreeSet<Triple> = match query.from.is_empty() {
                    true => stored(None).collect(),
                    false => (query.from.iter())
                        .flat_map(|graph| stored(Some(*graph)))
                        .collect(),
                };
                for (window, content) in query.windows.iter().zip(self.windows) {
                    if window.in_default {
                        merge.extend(triples_of(content));
                    }
                }
                vec![(None, merge.into_iter().collect())]
            }
        }
    }

    /// True, false, or an error, as from a comparison with an unbound variable.
    fn holds(&self, condition: &Condition, solution: &Solution) -> Option<bool> {
        let compare = |a: &Slot, b: &Slot| Some(value(solution, *a)? == value(solution, *b)?);
        let exists = |group: &Group| !self.continued(vec![solution.clone()], group).is_empty();
        match condition {
            Condition::Equal(a, b) => compare(a, b),
            Condition::Unequal(a, b) => compare(a, b).map(|equal| !equal),
            Condition::Bound(variable) => Some(solution.contains_key(variable)),
            Condition::Not(inner) => self.holds(inner, solution).map(|holds| !holds),
            Condition::Or(a, b) => match (self.holds(a, solution), self.holds(b, solution)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Condition::Exists(group) => Some(exists(group)),
            Condition::NotExists(group) => Some(!exists(group)),
        }
    }
}

/// The quad that a template makes of a solution; the graph stands last, if there is one. `None` if
/// a part has no value, or one that cannot stand there.
fn filled(solution: &Solution, quad: (Slot, u8, Slot, TemplateGraph)) -> Option<Row> {
    let (subject, predicate, object, graph) = quad;
    let name = |value: Value| (!matches!(value, Value::Count(_))).then_some(value);
    let mut row = vec![
        Some(name(value(solution, subject)?)?),
        Some(Value::Predicate(predicate)),
        Some(value(solution, object)?),
    ];
    match graph {
        TemplateGraph::Default => {}
        TemplateGraph::Named(graph) => row.push(Some(Value::Graph(graph))),
        TemplateGraph::Var(variable) => {
            row.push(Some(name(value(solution, Slot::Var(variable))?)?));
        }
    }
    Some(row)
}

fn triples_of(content: &Content) -> impl Iterator<Item = Triple> + '_ {
    content.iter().map(|(triple, _)| *triple)
}

/// The solutions of one pattern in one graph.
fn matches(graph: &[Triple], (subject, path, object): Pattern) -> Vec<Solution> {
    let mut all = Vec::new();
    for (from, predicate, to) in pairs(graph, path) {
        let mut solution = Solution::new();
        let mut bind = |slot: Slot, value: Value| match slot {
            Slot::Term(node) => Value::Node(node) == value,
            Slot::Var(variable) => *solution.entry(variable).or_insert(value) == value,
        };
        let fits = bind(subject, Value::Node(from))
            && bind(object, Value::Node(to))
            && match path {
                Path::Var(variable) => bind(Slot::Var(variable), Value::Predicate(predicate)),
                _ => true,
            };
        if fits {
            all.push(solution);
        }
    }
    all
}

/// The pairs that a path connects: start, predicate (for `Path::Var`), end.
fn pairs(graph: &[Triple], path: Path) -> Vec<Triple> {
    let of = |wanted: u8| graph.iter().copied().filter(move |(_, p, _)| *p == wanted);
    match path {
        Path::Var(_) => graph.to_vec(),
        Path::One(p) => of(p).collect(),
        Path::Inverse(p) => of(p).map(|(s, p, o)| (o, p, s)).collect(),
        Path::Either(p, q) => of(p).chain(of(q)).collect(),
        Path::Sequence(p, q) => of(p)
            .flat_map(|(s, p, middle)| {
                (of(q).filter(move |(m, _, _)| *m == middle)).map(move |(_, _, o)| (s, p, o))
            })
            .collect(),
        Path::OneOrMore(p) => {
            let mut reached: BTreeSet<Triple> = of(p).collect();
            loop {
                let further: Vec<Triple> = reached
                    .iter()
                    .flat_map(|(s, _, middle)| {
                        (of(p).filter(move |(m, _, _)| m == middle))
                            .map(move |(_, _, o)| (*s, p, o))
                    })
                    .filter(|pair| !reached.contains(pair))
                    .collect();
                if further.is_empty() {
                    return reached.into_iter().collect();
                }
                reached.extend(further);
            }
        }
    }
}

fn join(left: &[Solution], right: &[Solution]) -> Vec<Solution> {
    (left.iter())
        .flat_map(|a| right.iter().filter_map(move |b| merged(a, b)))
        .collect()
}

/// Both solutions in one, if they agree on what both bind.
fn merged(a: &Solution, b: &Solution) -> Option<Solution> {
    let agree = (b.iter()).all(|(variable, value)| a.get(variable).is_none_or(|own| own == value));
    agree.then(|| {
        a.iter()
            .chain(b)
            .map(|(variable, value)| (*variable, *value))
            .collect()
    })
}

fn count(solutions: &[Solution], group_by: &[u8], counted: Option<u8>, distinct: bool) -> Vec<Row> {
    let mut groups: BTreeMap<Row, Vec<&Solution>> = BTreeMap::new();
    if group_by.is_empty() {
        // Without GROUP BY there is one group, also of nothing.
        groups.insert(Row::new(), Vec::new());
    }
    for solution in solutions {
        groups
            .entry(row_of(solution, group_by))
            .or_default()
            .push(solution);
    }
    let number = |group: &[&Solution]| match counted {
        None => group.len(),
        Some(variable) => {
            let values = group.iter().filter_map(|solution| solution.get(&variable));
            match distinct {
                true => values.collect::<BTreeSet<_>>().len(),
                false => values.count(),
            }
        }
    };
    (groups.into_iter())
        .map(|(mut row, group)| {
            row.push(Some(Value::Count(number(&group))));
            row
        })
        .collect()
}

fn value(solution: &Solution, slot: Slot) -> Option<Value> {
    match slot {
        Slot::Term(node) => Some(Value::Node(node)),
        Slot::Var(variable) => solution.get(&variable).copied(),
    }
}

fn row_of(solution: &Solution, variables: &[u8]) -> Row {
    (variables.iter())
        .map(|variable| solution.get(variable).copied())
        .collect()
}

/// The number of times that each row occurs.
pub fn bag_of(rows: impl IntoIterator<Item = Row>) -> Bag {
    let mut bag = Bag::new();
    for row in rows {
        *bag.entry(row).or_insert(0) += 1;
    }
    bag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Element;

    const TRIPLES: [Triple; 4] = [(1, 0, 2), (2, 0, 3), (1, 1, 2), (3, 1, 1)];

    fn block(subject: u8, path: Path, object: u8) -> Element {
        let pattern = (Slot::Var(subject), path, Slot::Var(object));
        Element::Block(Place::Default, vec![pattern])
    }

    /// The rows of variables 0, 1 and 2 over the triples above, with how often each comes.
    fn rows(elements: Vec<Element>, filters: Vec<Condition>) -> Vec<(Vec<Option<u8>>, usize)> {
        let query = QueryModel {
            form: Form::Select {
                variables: vec![0, 1, 2],
                distinct: false,
                limit: None,
            },
            pattern: Group { elements, filters },
            ..QueryModel::over(Vec::new())
        };
        let stored = Stored::from([(None, TRIPLES.into_iter().collect())]);
        let seen = Seen {
            query: &query,
            windows: &[],
            stored: &stored,
        };
        let node = |value: Option<Value>| match value {
            Some(Value::Node(node)) => Some(node),
            _ => None,
        };
        (seen.answer().into_iter())
            .map(|(row, times)| (row.into_iter().map(node).collect(), times))
            .collect()
    }

    fn inner(element: Element, filter: Option<Condition>) -> Group {
        Group {
            elements: vec![element],
            filters: filter.into_iter().collect(),
        }
    }

    #[test]
    fn paths() {
        let ends = |path| {
            let rows = rows(vec![block(0, path, 1)], Vec::new());
            let ends = rows
                .into_iter()
                .map(|(row, times)| (row[0].unwrap_or(0), row[1].unwrap_or(0), times));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(ends(Path::Either(0, 1)), [(1, 2, 2), (2, 3, 1), (3, 1, 1)]);
        assert_eq!(ends(Path::Inverse(0)), [(2, 1, 1), (3, 2, 1)]);
        assert_eq!(ends(Path::Sequence(0, 1)), [(2, 1, 1)]);
        assert_eq!(ends(Path::OneOrMore(0)), [(1, 2, 1), (1, 3, 1), (2, 3, 1)]);
        assert_eq!(ends(Path::Var(3)), [(1, 2, 2), (2, 3, 1), (3, 1, 1)]);
    }

    #[test]
    fn a_filter_of_an_optional_group_sees_both_sides() {
        let unequal = Condition::Unequal(Slot::Var(0), Slot::Term(1));
        let optional = Element::Optional(inner(block(1, Path::One(0), 2), Some(unequal)));
        let rows = rows(vec![block(0, Path::One(1), 1), optional], Vec::new());
        assert_eq!(
            rows,
            [
                (vec![Some(1), Some(2), None], 1),
                (vec![Some(3), Some(1), Some(2)], 1)
            ]
        );
    }

    #[test]
    fn minus_without_a_common_variable_takes_nothing_away() {
        let whole = rows(vec![block(0, Path::One(0), 1)], Vec::new());
        let minus = |subject, object| {
            let minus = Element::Minus(inner(block(subject, Path::One(1), object), None));
            rows(vec![block(0, Path::One(0), 1), minus], Vec::new())
        };
        assert_eq!(minus(3, 4), whole);
        assert_eq!(minus(0, 1), [(vec![Some(2), Some(3), None], 1)]);
    }

    #[test]
    fn a_comparison_with_nothing_is_neither_true_nor_false() {
        let equal = Condition::Equal(Slot::Var(2), Slot::Term(1));
        let not = Condition::Not(Box::new(equal.clone()));
        let or = Condition::Or(Box::new(equal.clone()), Box::new(Condition::Bound(0)));
        let count = |filter| rows(vec![block(0, Path::One(0), 1)], vec![filter]).len();
        assert_eq!([equal, not, or].map(count), [0, 0, 2]);
    }
}
