//! A scenario as the engine is given it: declarations, the three dialects of one query, statements; and its answers as the twin's values.

use crate::algebra::{Bag, Row, Value, bag_of};
use crate::model::{
    Absorbs, Changes, Condition, Dialect, Element, Extent, Form, Group, Late, Path, Pattern, Place,
    QueryModel, Slot, Statement, StreamModel, Triple, WindowModel,
};
use somersault::oxrdf::{GraphName, NamedNode, Quad, Term};
use somersault::{Answer, AnswerKind, StreamStatement};
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
        at_ms: Some(of.at_ms),
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
/// It has a term that nobody stored.
pub fn bag_of_answer(answer: &Answer) -> Result<Bag, String> {
    let row = |terms: Vec<Option<Term>>| -> Result<Row, String> {
        (terms.iter())
            .map(|term| match term {
                None => Ok(None),
                Some(term) => {
                    let value = value_of(term);
                    value
                        .map(Some)
                        .ok_or_else(|| format!("it has {term}, which nobody stored"))
                }
            })
            .collect()
    };
    let rows: Result<Vec<Row>, String> = match answer.kind() {
        AnswerKind::Boolean => Ok(vec![vec![answer.boolean().map(Value::Truth)]]),
        AnswerKind::Solutions => answer.rows().map(|terms| row(terms.to_vec())).collect(),
        AnswerKind::Dataset => Err("it has named graphs, which no scenario asks for".to_owned()),
        AnswerKind::Graph => answer
            .triples()
            .map(|triple| {
                row(vec![
                    Some(triple.subject.into()),
                    Some(triple.predicate.into()),
                    Some(triple.object),
                ])
            })
            .collect(),
    };
    rows.map(bag_of)
}

/// CREATE STREAM of a stream.
pub fn stream_text(number: usize, stream: &StreamModel) -> String {
    let mut text = format!("CREATE STREAM <{}>", stream_iri(number));
    // Writing to a String cannot fail.
    let _ = match &stream.absorbs {
        Absorbs::Everything => write!(text, " TIMELESS"),
        Absorbs::Nothing => write!(text, " TIMING ALL"),
        Absorbs::AllBut(timing) => {
            let timing: Vec<String> = timing.iter().map(|p| iri(Value::Predicate(*p))).collect();
            write!(text, " TIMING ({})", timing.join(" "))
        }
    };
    if let Some(graph) = stream.into {
        let _ = write!(text, " INTO GRAPH {}", iri(Value::Graph(graph)));
    }
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

/// The text of a query in its dialect.
pub fn query_text(name: &str, query: &QueryModel) -> String {
    let register = match (query.dialect, query.changes) {
        (_, Some(Changes::New)) => "ISTREAM",
        (_, Some(Changes::Gone)) => "DSTREAM",
        (Dialect::RspQl, None) => "RSTREAM",
        _ => "QUERY",
    };
    let mut text = format!("REGISTER {register} {name}");
    if let Some(every) = query.every_ms {
        let _ = write!(text, " COMPUTED EVERY {every}ms");
    }
    if query.origin_ms != 0 {
        let _ = write!(text, " STARTING AT {}", query.origin_ms);
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
                window_text(window, "STEP")
            ),
            (Dialect::CSparql, false) => writeln!(
                text,
                "FROM NAMED STREAM <{stream}> {}",
                window_text(window, "STEP")
            ),
            (Dialect::RspQl, _) => writeln!(
                text,
                "FROM NAMED WINDOW {} ON <{stream}> {}",
                iri(Value::Window(at)),
                window_text(window, "STEP")
            ),
            (Dialect::CqelsQl, _) => Ok(()),
        };
    }
    let _ = write!(text, "WHERE {}", group_text(query, &query.pattern));
    text.push_str(&modifiers_text(&query.form));
    text
}

fn window_text(window: &WindowModel, step: &str) -> String {
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
            let triples: String = template
                .iter()
                .map(|(s, p, o)| {
                    format!(
                        "{} {} {} . ",
                        slot_text(*s),
                        iri(Value::Predicate(*p)),
                        slot_text(*o)
                    )
                })
                .collect();
            format!("CONSTRUCT {{ {triples}}}")
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
                    window_text(window, "SLIDE")
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
