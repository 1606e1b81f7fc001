//! More rows than are read in one turn, in several sources, of which what nothing counts is not
//! kept.

use crate::updates::store;
use oxrdf::{NamedNode, Quad};
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits};
use somersault_query::{
    Answer, Dataset, Execution, GraphView, Invocation, NamedGraphs, Prepared, SnapshotView, Source,
};

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

/// Each of 6,000 subjects has `p` to six objects, two of them in both graphs, and `q` to one; the
/// last 500 have it to four, in one graph alone.
fn quads() -> Vec<Quad> {
    let mut quads = Vec::new();
    for s in 0..6_000 {
        let subject = iri(&format!("s{s}"));
        let graphs = &[("h", 2), ("g", 0)][..if s < 5_500 { 2 } else { 1 }];
        for (graph, from) in graphs {
            quads.extend((*from..from + 4).map(|o| {
                let object = iri(&format!("o{}", s % 7 + o));
                Quad::new(subject.clone(), iri("p"), object, iri(graph))
            }));
        }
        quads.push(Quad::new(subject, iri("q"), iri("y"), iri("h")));
    }
    quads
}

#[test]
fn no_turn_loses_what_another_has_found() {
    let store = store(&quads());
    let graph = |name: &str| {
        let id = store.dictionary().lookup(iri(name).as_ref().into());
        Source::Stored(id.expect("the graph holds something"))
    };
    let dataset = Dataset {
        default: vec![graph("g"), graph("h")],
        named: NamedGraphs::AllStored,
    };
    let view = SnapshotView::new(store.pin_stable(), Vec::new(), dataset);
    for (text, expected) in [
        ("SELECT DISTINCT ?s { ?s :q :y . ?s :p ?x }", 6_000),
        ("SELECT DISTINCT ?s { ?s :p ?x . ?s :q ?y }", 6_000),
        ("SELECT DISTINCT ?s { ?s :p ?x }", 6_000),
        ("SELECT ?s { ?s :p ?x . ?s :q :y }", 35_000),
        ("SELECT ?s { ?s :q :y FILTER EXISTS { ?s :p ?z } }", 6_000),
    ] {
        for morsel_rows in [1 << 20, 500] {
            let parsed = Parser::new().parse_query(&format!("PREFIX : <http://x/> {text}"));
            let prepared = Prepared::new(parsed.expect("a query"));
            let execution = Execution {
                morsel_rows,
                ..Execution::new(Limits::default(), EventTime(0))
            };
            let answer = prepared.run(Invocation::new(&view as &dyn GraphView, &execution));
            let Answer::Solutions(solutions) = answer.expect("no limit is near") else {
                panic!("SELECT has solutions");
            };
            let found = solutions.rows(view.dictionary()).count();
            assert_eq!(found, expected, "{text}");
        }
    }
}
