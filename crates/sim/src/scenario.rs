//! What a seed means: which streams and queries there are, and how each is written as text for the engine.

use crate::draw::Draw;
use crate::twin::{Place, QueryModel, Slot, StreamModel, Triple, WindowModel};
use somersault::StreamStatement;
use somersault::oxrdf::{GraphName, NamedNode, Quad};

/// How many nodes the triples are made of; few, so that patterns join.
pub const NODES: u8 = 6;
/// How many predicates.
pub const PREDICATES: u8 = 3;

const NS: &str = "http://sim.example/";

/// The IRI of a stream.
pub fn stream_iri(stream: usize) -> String {
    format!("{NS}stream{stream}")
}

/// The IRI of a node.
pub fn node_iri(node: u8) -> String {
    format!("{NS}n{node}")
}

/// The number of a node from its IRI.
pub fn node_of(iri: &str) -> Option<u8> {
    iri.strip_prefix(NS)?.strip_prefix('n')?.parse().ok()
}

fn predicate_iri(predicate: u8) -> String {
    format!("{NS}p{predicate}")
}

/// A triple in the notation of SPARQL and N-Triples.
pub fn triple_text((subject, predicate, object): Triple) -> String {
    format!(
        "<{}> <{}> <{}>",
        node_iri(subject),
        predicate_iri(predicate),
        node_iri(object)
    )
}

/// A statement to push.
pub fn statement(at_ms: i64, (subject, predicate, object): Triple) -> StreamStatement {
    StreamStatement {
        at_ms: Some(at_ms),
        quad: Quad::new(
            NamedNode::new_unchecked(node_iri(subject)),
            NamedNode::new_unchecked(predicate_iri(predicate)),
            NamedNode::new_unchecked(node_iri(object)),
            GraphName::DefaultGraph,
        ),
    }
}

/// A triple drawn from the small alphabets.
pub fn draw_triple(draw: &mut Draw) -> Triple {
    (draw.small(NODES), draw.small(PREDICATES), draw.small(NODES))
}

/// A stream drawn at random.
pub fn draw_stream(draw: &mut Draw) -> StreamModel {
    StreamModel {
        batch_ms: *draw.pick(&[100, 200, 400]),
        timeless: draw.chance(40),
    }
}

/// A query over some of the streams, with windows that their batches divide.
pub fn draw_query(draw: &mut Draw, streams: &[StreamModel]) -> QueryModel {
    let mut numbers: Vec<usize> = (0..streams.len()).collect();
    let wanted = 1 + usize::from(draw.chance(50) && streams.len() > 1);
    while numbers.len() > wanted {
        let at = usize::from(draw.small(u8::try_from(numbers.len()).unwrap_or(u8::MAX)));
        numbers.remove(at);
    }
    let windows: Vec<WindowModel> = numbers
        .iter()
        .map(|stream| {
            let batch = streams[*stream].batch_ms;
            WindowModel {
                stream: *stream,
                range_ms: batch * (1 + i64::from(draw.small(12))),
                step_ms: batch * (1 + i64::from(draw.small(6))),
                in_default: draw.chance(30),
            }
        })
        .collect();
    let common = windows
        .iter()
        .map(|window| streams[window.stream].batch_ms)
        .max()
        .unwrap_or(400);
    let every_ms = draw
        .chance(20)
        .then(|| common * (1 + i64::from(draw.small(5))));
    let mut patterns: Vec<(Place, [Slot; 3])> = (0..windows.len())
        .map(|window| {
            let place = if windows[window].in_default && draw.chance(50) {
                Place::Default
            } else {
                Place::Window(window)
            };
            (place, draw_pattern(draw))
        })
        .collect();
    if draw.chance(40) {
        patterns.push((Place::Default, draw_pattern(draw)));
    }
    let mut projection: Vec<u8> = Vec::new();
    for slot in patterns.iter().flat_map(|(_, pattern)| pattern) {
        if let Slot::Var(variable) = slot
            && !projection.contains(variable)
        {
            projection.push(*variable);
        }
    }
    // Leaving a variable out is what makes rows repeat.
    if projection.len() > 1 && draw.chance(50) {
        projection.pop();
    }
    QueryModel {
        windows,
        every_ms,
        distinct: draw.chance(20),
        patterns,
        projection,
    }
}

/// Predicates are constants: they come from an alphabet of their own, and a variable must not stand for both.
fn draw_pattern(draw: &mut Draw) -> [Slot; 3] {
    let node = |draw: &mut Draw| {
        if draw.chance(80) {
            Slot::Var(draw.small(3))
        } else {
            Slot::Term(draw.small(NODES))
        }
    };
    let subject = Slot::Var(draw.small(3));
    [subject, Slot::Term(draw.small(PREDICATES)), node(draw)]
}

/// CREATE STREAM of a stream.
pub fn stream_text(number: usize, stream: &StreamModel) -> String {
    let classification = if stream.timeless {
        "TIMELESS"
    } else {
        "TIMING ALL"
    };
    format!(
        "CREATE STREAM <{}> {classification} BATCH {}ms IDLE NEVER",
        stream_iri(number),
        stream.batch_ms
    )
}

/// The C-SPARQL text of a query.
pub fn query_text(name: &str, query: &QueryModel) -> String {
    let every = query
        .every_ms
        .map_or_else(String::new, |every| format!(" COMPUTED EVERY {every}ms"));
    let distinct = if query.distinct { "DISTINCT " } else { "" };
    let variables: Vec<String> = query
        .projection
        .iter()
        .map(|variable| format!("?v{variable}"))
        .collect();
    let mut text = format!(
        "REGISTER QUERY {name}{every} AS\nSELECT {distinct}{}\n",
        variables.join(" ")
    );
    for window in &query.windows {
        let named = if window.in_default { "" } else { "NAMED " };
        text.push_str(&format!(
            "FROM {named}STREAM <{}> [RANGE {}ms STEP {}ms]\n",
            stream_iri(window.stream),
            window.range_ms,
            window.step_ms
        ));
    }
    text.push_str("WHERE {\n");
    for (place, pattern) in &query.patterns {
        let triple = format!(
            "{} <{}> {}",
            node_text(pattern[0]),
            predicate_text(pattern[1]),
            node_text(pattern[2])
        );
        match place {
            Place::Default => text.push_str(&format!("  {triple} .\n")),
            Place::Window(window) => {
                let stream = stream_iri(query.windows[*window].stream);
                text.push_str(&format!("  GRAPH <{stream}> {{ {triple} }}\n"));
            }
        }
    }
    text.push('}');
    text
}

fn node_text(slot: Slot) -> String {
    match slot {
        Slot::Term(node) => format!("<{}>", node_iri(node)),
        Slot::Var(variable) => format!("?v{variable}"),
    }
}

fn predicate_text(slot: Slot) -> String {
    match slot {
        Slot::Term(predicate) | Slot::Var(predicate) => predicate_iri(predicate),
    }
}
