//! A scenario as the engine is given it: declarations, the three dialects of one query, statements;
//! and its answers as the twin's values.

use crate::algebra::{Bag, Row, Value, bag_of};
use crate::model::{
    Absorbs, Changes, Condition, Dialect, Element, Extent, Form, Group, LONG_MS, Late, Path,
    Pattern, Place, QueryModel, Slot, Statement, StreamModel, TemplateGraph, Triple, WindowModel,
};
use somersault::oxrdf::{GraphName, NamedNode, Quad, Term};
use somersault::{Answer, AnswerKind, EventTime, StreamStatement};
use std::fmt::Write;

const NS: &str = "http://sim.example/";

/// The IRI of a stream.
pub fn stream_iri(stream: usize) -> String {
    format!("{NS}stream{stream}")
}

/// A value as an IRI in the notation of SPARQL.
pub fn iri(value: Value) -> String {
    match value {
        Value::Graph(number) => format!("<{NS}g{number}>"),
        Value::Node(number) => format!("<{NS}n{number}>"),
        Value::Predicate(number) => format!("<{NS}p{number}>"),
        Value::Stream(number) => format!("<{}>", stream_iri(number)),
        Value::Window(number) => format!("<{NS}w{number}>"),
        Value::Count(number) => number.to_string(),
        Value::Truth(truth) => truth.to_string(),
    }
}

/// The value that a term stands for, if the scenarios know it.
pub fn value_of(term: &Term) -> Option<Value> {
    let node = match term {
        Term::NamedNode(node) => node.as_str().strip_prefix(NS)?,
        Term::Literal(literal) => return literal.value().parse().ok().map(Value::Count),
        _ => return None,
    };
    let digits = node.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let number: u8 = digits.parse().ok()?;
    match node.strip_suffix(digits)? {
        "g" => Some(Value::Graph(number)),
        "n" => Some(Value::Node(number)),
        "p" => Some(Value::Predicate(number)),
        "stream" => Some(Value::Stream(number.into())),
        "w" => Some(Value::Window(number.into())),
        _ => None,
    }
}

/// A triple in the notation of SPARQL.
pub fn triple_text((subject, predicate, object): Triple) -> String {
    format!(
        "{} {} {}",
        iri(Value::Node(subject)),
        iri(Value::Predicate(predicate)),
        iri(Value::Node(object))
    )
}

/// Triples of a graph as the data of an update or the pattern of a query.
pub fn in_graph(graph: Option<u8>, inner: &str) -> String {
    match graph {
        Some(graph) => format!("GRAPH {} {{ {inner} }}", iri(Value::Graph(graph))),
        None => inner.to_owned(),
    }
}

/// A statement to push.
pub fn statement(of: &Statement) -> StreamStatement {
    let node = |value: Value| {
        let iri = iri(value);
        NamedNode::new_unchecked(iri.trim_matches(['<', '>']))
    };
    let (subject, predicate, object) = of.triple;
    StreamStatement {
        at: Some(EventTime(of.at_ms)),
        quad: Quad::new(
            node(Value::Node(subject)),
            node(Value::Predicate(predicate)),
            node(Value::Node(object)),
            of.graph.map_or(GraphName::DefaultGraph, |graph| {
                node(Value::Graph(graph)).into()
            }),
        ),
    }
}

/// An answer as a bag of rows.
///
/// # Errors
/// The answer has a term that was never stored.
pub fn bag_of_answer(answer: &Answer) -> Result<Bag, String> {
    if answer.kind() == AnswerKind::Boolean {
        return Ok(bag_of(vec![vec![answer.boolean().map(Value::Truth)]]));
    }
    let value = |term: &Option<Term>| match term {
        None => Ok(None),
        Some(term) => {
            let value = value_of(term).map(Some);
            value.ok_or_else(|| format!("it has {term}, which was never stored"))
        }
    };
    let rows = rows_of(answer).into_iter();
    let rows: Result<Vec<Row>, String> = rows.map(|row| row.iter().map(value).collect()).collect();
    rows.map(bag_of)
}

/// The rows of an answer in their order: its solutions, triples or quads, or nothing or an empty
/// row for false or true.
pub fn rows_of(answer: &Answer) -> Vec<Vec<Option<Term>>> {
    match answer.kind() {
        AnswerKind::Boolean => match answer.boolean() {
            Some(true) => vec![Vec::new()],
            _ => Vec::new(),
        },
        AnswerKind::Solutions => answer.rows().map(|terms| terms.to_vec()).collect(),
        AnswerKind::Dataset => (answer.quads().iter())
            .map(|quad| {
                let quad = quad.clone();
                let mut terms: Vec<Option<Term>> = vec![
                    Some(quad.subject.into()),
                    Some(quad.predicate.into()),
                    Some(quad.object),
                ];
                terms.extend(match quad.graph_name {
                    GraphName::DefaultGraph => None,
                    GraphName::NamedNode(name) => Some(Some(name.into())),
                    GraphName::BlankNode(name) => Some(Some(name.into())),
                });
                terms
            })
            .collect(),
        AnswerKind::Graph => answer
            .triples()
            .map(|triple| {
                vec![
                    Some(triple.subject.into()),
                    Some(triple.predicate.into()),
                    Some(triple.object),
                ]
            })
            .collect(),
    }
}

/// CREATE STREAM of a stream.
pub fn stream_text(number: usize, stream: &StreamModel) -> String {
    let mut text = format!("CREATE STREAM <{}>", stream_iri(number));
    text.push_str(&absorbed_text(&stream.absorbs, stream.into));
    let late = match stream.late {
        Late::Reject => "REJECT".to_owned(),
        Late::Drop => "DROP".to_owned(),
        Late::Amend(within) => format!("AMEND WITHIN {within}ms"),
    };
    let (batch, lateness, keep) = (stream.batch_ms, stream.lateness_ms, stream.keep_ms);
    let _ = write!(
        text,
        " BATCH {batch}ms LATENESS {lateness}ms LATE {late} IDLE NEVER KEEP {keep}ms"
    );
    text
}

/// The clauses that say what of a stream is absorbed.
fn absorbed_text(absorbs: &Absorbs, into: Option<u8>) -> String {
    let mut text = match absorbs {
        Absorbs::Everything => " TIMELESS".to_owned(),
        Absorbs::Nothing => " TIMING ALL".to_owned(),
        Absorbs::AllBut(timing) => {
            let timing: Vec<String> = timing.iter().map(|p| iri(Value::Predicate(*p))).collect();
            format!(" TIMING ({})", timing.join(" "))
        }
    };
    if let Some(graph) = into {
        let _ = write!(text, " INTO GRAPH {}", iri(Value::Graph(graph)));
    }
    text
}

/// The text of a query in its dialect.
pub fn query_text(number: u8, query: &QueryModel) -> String {
    let mut text = "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\nREGISTER ".to_owned();
    // Writing to a String cannot fail.
    let _ = match (&query.derives, query.dialect, query.changes) {
        (Some(derived), ..) => {
            let absorbed = absorbed_text(&derived.absorbs, derived.into);
            let stream = stream_iri(number.into());
            write!(text, "STREAM <{stream}>{absorbed} KEEP {LONG_MS}ms")
        }
        (_, _, Some(Changes::New)) => write!(text, "ISTREAM q{number}"),
        (_, _, Some(Changes::Gone)) => write!(text, "DSTREAM q{number}"),
        (_, Dialect::RspQl, None) => write!(text, "RSTREAM q{number}"),
        _ => write!(text, "QUERY q{number}"),
    };
    if let Some(every) = query.every_ms {
        let _ = write!(text, " COMPUTED EVERY {every}ms");
    }
    if query.origin_ms != 0 {
        let _ = write!(text, " STARTING AT {}", query.origin_ms);
    }
    let options = [
        (query.report.on_change, " REPORT ON CHANGE"),
        (query.report.non_empty, " REPORT NON EMPTY"),
        (query.skips, " ON OVERLOAD SKIP"),
    ];
    for (_, option) in options.iter().filter(|(is_said, _)| *is_said) {
        text.push_str(option);
    }
    let _ = write!(text, " AS\n{}\n", form_text(&query.form));
    for graph in &query.from {
        let _ = writeln!(text, "FROM {}", iri(Value::Graph(*graph)));
    }
    for graph in &query.from_named {
        let _ = writeln!(text, "FROM NAMED {}", iri(Value::Graph(*graph)));
    }
    for (at, window) in query.windows.iter().enumerate() {
        let stream = stream_iri(window.stream);
        let _ = match (query.dialect, window.in_default) {
            (Dialect::CSparql, true) => writeln!(
                text,
                "FROM STREAM <{stream}> {}",
                window_text(query.dialect, window)
            ),
            (Dialect::CSparql, false) => writeln!(
                text,
                "FROM NAMED STREAM <{stream}> {}",
                window_text(query.dialect, window)
            ),
            (Dialect::RspQl, _) => writeln!(
                text,
                "FROM NAMED WINDOW {} ON <{stream}> {}",
                iri(Value::Window(at)),
                window_text(query.dialect, window)
            ),
            (Dialect::CqelsQl, _) => Ok(()),
        };
    }
    let _ = write!(text, "WHERE {}", group_text(query, &query.pattern));
    text.push_str(&modifiers_text(&query.form));
    text
}

fn window_text(dialect: Dialect, window: &WindowModel) -> String {
    let step = match dialect {
        Dialect::CqelsQl => "SLIDE",
        Dialect::CSparql | Dialect::RspQl => "STEP",
    };
    let WindowModel {
        range_ms,
        until_ms,
        step_ms,
        ..
    } = window;
    match window.extent {
        Extent::Sliding if range_ms == step_ms => format!("[RANGE {range_ms}ms TUMBLING]"),
        Extent::Sliding => format!("[RANGE {range_ms}ms {step} {step_ms}ms]"),
        Extent::Past => format!(
            "[FROM NOW-{}ms TO NOW-{until_ms}ms STEP {step_ms}ms]",
            range_ms + until_ms
        ),
        Extent::Now => "[NOW]".to_owned(),
        Extent::EachBatch => format!("[RANGE {range_ms}ms]"),
        Extent::All => "[ALL]".to_owned(),
        Extent::Statements { count, step: every } => match dialect {
            Dialect::CSparql => format!("[RANGE TRIPLES {count} STEP {every}]"),
            Dialect::RspQl => format!("[ELEMENTS {count} STEP {every}]"),
            Dialect::CqelsQl => format!("[TRIPLES {count}]"),
        },
    }
}

fn form_text(form: &Form) -> String {
    let listed = |variables: &[u8]| -> String {
        variables
            .iter()
            .map(|variable| format!("?v{variable} "))
            .collect()
    };
    let only = |distinct: &bool| if *distinct { "DISTINCT " } else { "" };
    match form {
        Form::Select {
            variables,
            distinct,
            ..
        } => format!("SELECT {}{}", only(distinct), listed(variables)),
        Form::Count {
            group_by,
            counted,
            distinct,
        } => {
            let what = counted.map_or("*".to_owned(), |variable| format!("?v{variable}"));
            format!(
                "SELECT {}(COUNT({}{what}) AS ?number)",
                listed(group_by),
                only(distinct)
            )
        }
        Form::Ask => "ASK".to_owned(),
        Form::Construct(template) => {
            let quads: String = template
                .iter()
                .map(|(s, p, o, graph)| {
                    let (s, p, o) = (slot_text(*s), iri(Value::Predicate(*p)), slot_text(*o));
                    match graph {
                        TemplateGraph::Default => format!("{s} {p} {o} . "),
                        TemplateGraph::Named(graph) => {
                            format!("GRAPH {} {{ {s} {p} {o} }} ", iri(Value::Graph(*graph)))
                        }
                        TemplateGraph::Var(graph) => {
                            format!("GRAPH ?v{graph} {{ {s} {p} {o} }} ")
                        }
                    }
                })
                .collect();
            format!("CONSTRUCT {{ {quads}}}")
        }
    }
}

fn modifiers_text(form: &Form) -> String {
    let listed = |variables: &[u8]| -> String {
        variables
            .iter()
            .map(|variable| format!(" ?v{variable}"))
            .collect()
    };
    match form {
        Form::Select {
            variables,
            limit: Some(limit),
            ..
        } => {
            format!("\nORDER BY{} LIMIT {limit}", listed(variables))
        }
        Form::Count { group_by, .. } if !group_by.is_empty() => {
            format!("\nGROUP BY{}", listed(group_by))
        }
        _ => String::new(),
    }
}

fn group_text(query: &QueryModel, group: &Group) -> String {
    let inner = |group: &Group| group_text(query, group);
    let mut text = "{ ".to_owned();
    for element in &group.elements {
        let _ = match element {
            Element::Block(place, patterns) => {
                write!(text, "{} ", block_text(query, *place, patterns))
            }
            Element::Optional(group) => write!(text, "OPTIONAL {} ", inner(group)),
            Element::Union(left, right) => {
                write!(text, "{{ {} UNION {} }} ", inner(left), inner(right))
            }
            Element::Minus(group) => write!(text, "MINUS {} ", inner(group)),
            Element::Timestamp(variable, (s, p, o)) => {
                let (s, p, o) = (slot_text(*s), iri(Value::Predicate(*p)), slot_text(*o));
                write!(text, "BIND (f:timestamp({s}, {p}, {o}) AS ?v{variable}) ")
            }
            Element::Distinct(variables, group) => {
                let listed: String = variables.iter().map(|v| format!("?v{v} ")).collect();
                write!(
                    text,
                    "{{ SELECT DISTINCT {listed}WHERE {} }} ",
                    inner(group)
                )
            }
        };
    }
    for filter in &group.filters {
        let _ = write!(text, "FILTER ({}) ", condition_text(query, filter));
    }
    text.push('}');
    text
}

fn block_text(query: &QueryModel, place: Place, patterns: &[Pattern]) -> String {
    let triples: String = patterns
        .iter()
        .map(|(s, path, o)| {
            format!(
                "{} {} {} . ",
                slot_text(*s),
                path_text(*path),
                slot_text(*o)
            )
        })
        .collect();
    let head = match place {
        Place::Default => return triples,
        Place::Graph(graph) => format!("GRAPH {}", iri(Value::Graph(graph))),
        Place::AnyGraph(variable) => format!("GRAPH ?v{variable}"),
        Place::AnyWindow(variable) => format!("WINDOW ?v{variable}"),
        Place::Window(at) => {
            let window = &query.windows[at];
            match query.dialect {
                Dialect::CSparql => format!("GRAPH <{}>", stream_iri(window.stream)),
                Dialect::RspQl => format!("WINDOW {}", iri(Value::Window(at))),
                Dialect::CqelsQl => format!(
                    "STREAM <{}> {}",
                    stream_iri(window.stream),
                    window_text(query.dialect, window)
                ),
            }
        }
    };
    format!("{head} {{ {triples}}}")
}

fn slot_text(slot: Slot) -> String {
    match slot {
        Slot::Term(node) => iri(Value::Node(node)),
        Slot::Var(variable) => format!("?v{variable}"),
    }
}

fn path_text(path: Path) -> String {
    let p = |number: u8| iri(Value::Predicate(number));
    match path {
        Path::One(one) => p(one),
        Path::Var(variable) => format!("?v{variable}"),
        Path::Inverse(one) => format!("^{}", p(one)),
        Path::Sequence(one, other) => format!("{}/{}", p(one), p(other)),
        Path::Either(one, other) => format!("{}|{}", p(one), p(other)),
        Path::OneOrMore(one) => format!("{}+", p(one)),
    }
}

fn condition_text(query: &QueryModel, condition: &Condition) -> String {
    let inner = |condition: &Condition| condition_text(query, condition);
    match condition {
        Condition::Equal(a, b) => format!("{} = {}", slot_text(*a), slot_text(*b)),
        Condition::Unequal(a, b) => format!("{} != {}", slot_text(*a), slot_text(*b)),
        Condition::Bound(variable) => format!("BOUND(?v{variable})"),
        Condition::Not(not) => format!("!({})", inner(not)),
        Condition::Or(a, b) => format!("({}) || ({})", inner(a), inner(b)),
        Condition::Exists(group) => format!("EXISTS {}", group_text(query, group)),
        Condition::NotExists(group) => format!("NOT EXISTS {}", group_text(query, group)),
    }
}
