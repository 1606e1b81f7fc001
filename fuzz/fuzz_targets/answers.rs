//! EX-1: bytes as a small graph and a query over it; native exploration and spareval give the same
//! bag of solutions. Terms are IRIs and integers in their usual spelling, which both leave as they
//! are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits, Mutation, QuadIds, ShardId, Sn, TermId};
use somersault_query::{
    Answer, Dataset, Execution, Invocation, PlanChoices, Prepared, SnapshotView,
};
use somersault_store::{ShardBatch, Store};
use spareval::{QueryEvaluator, QueryResults};

/// Choices made by the bytes; when they run out, always the first.
struct Bytes<'b>(std::slice::Iter<'b, u8>);

impl Bytes<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |byte| *byte as usize % count)
    }

    fn of<'l>(&mut self, list: &[&'l str]) -> &'l str {
        list[self.below(list.len())]
    }

    fn variable(&mut self) -> &'static str {
        self.of(&["?a", "?b", "?c", "?d"])
    }

    fn node(&mut self) -> &'static str {
        self.of(&["<x:a>", "<x:b>", "<x:c>"])
    }

    fn predicate(&mut self) -> &'static str {
        self.of(&["<x:p>", "<x:q>", "<x:r>"])
    }

    fn subject(&mut self) -> &'static str {
        if self.below(4) == 3 {
            self.node()
        } else {
            self.variable()
        }
    }

    fn operand(&mut self) -> &'static str {
        match self.below(6) {
            4 => self.node(),
            5 => self.of(&["1", "2"]),
            _ => self.variable(),
        }
    }

    fn patterns(&mut self) -> String {
        let count = 1 + self.below(4);
        let one = |bytes: &mut Self| {
            let predicate = match bytes.below(8) {
                6 => bytes.variable(),
                7 => bytes.of(&["^<x:q>", "<x:p>/<x:q>", "<x:p>+"]),
                _ => bytes.predicate(),
            };
            format!("{} {predicate} {} . ", bytes.subject(), bytes.operand())
        };
        (0..count).map(|_| one(self)).collect()
    }

    fn condition(&mut self) -> String {
        match self.below(6) {
            3 => format!("BOUND({})", self.variable()),
            4 => format!("!BOUND({})", self.variable()),
            5 => format!("EXISTS {{ {} }}", self.patterns()),
            _ => {
                let op = self.of(&["=", "!=", "<", ">="]);
                format!("{} {op} {}", self.operand(), self.operand())
            }
        }
    }

    fn group(&mut self, depth: usize) -> String {
        let count = 1 + self.below(3);
        let mut text = String::new();
        for _ in 0..count {
            let choice = if depth == 0 { 0 } else { self.below(10) };
            text += &match choice {
                4 => format!("FILTER({}) ", self.condition()),
                5 => format!("OPTIONAL {{ {} }} ", self.group(depth - 1)),
                6 => {
                    let (one, other) = (self.group(depth - 1), self.group(depth - 1));
                    format!("{{ {one} }} UNION {{ {other} }} ")
                }
                7 => format!("MINUS {{ {} }} ", self.group(depth - 1)),
                8 => format!("VALUES {} {{ {} 1 }} ", self.variable(), self.node()),
                9 => format!(
                    "{{ SELECT DISTINCT ?a ?b {{ {} }} }} ",
                    self.group(depth - 1)
                ),
                _ => self.patterns(),
            };
        }
        text
    }
}

fn graph(bytes: &mut Bytes<'_>) -> Vec<Quad> {
    let iri = |text: &str| NamedNode::new_unchecked(text.trim_matches(['<', '>']));
    let count = bytes.below(16);
    let mut quad = || {
        let (s, p) = (iri(bytes.node()), iri(bytes.predicate()));
        let object: Term = match bytes.below(5) {
            number @ (3 | 4) => Literal::from(number as i64 - 2).into(),
            _ => iri(bytes.node()).into(),
        };
        Quad::new(s, p, object, GraphName::DefaultGraph)
    };
    (0..count).map(|_| quad()).collect()
}

fn view(quads: &[Quad]) -> SnapshotView {
    let store = Store::new(1);
    let dictionary = store.dictionary();
    let insert = |quad: &Quad| {
        Mutation::insert(QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: dictionary.intern(quad.subject.as_ref().into()),
            predicate: dictionary.intern(quad.predicate.as_ref().into()),
            object: dictionary.intern(quad.object.as_ref()),
        })
    };
    let mutations: Vec<Mutation> = quads.iter().map(insert).collect();
    let mut writer = store.take_writer(ShardId(0)).expect("the first writer");
    for batch in ShardBatch::split(&mutations, store.placement()) {
        writer.apply(Sn(1), &batch).expect("in order");
    }
    store.snapshots().publish_stable(Sn(1));
    SnapshotView::new(store.pin_stable(), Vec::new(), Dataset::stored())
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes.iter());
    let quads = graph(&mut bytes);
    let plan_choices = PlanChoices {
        no_point: false,
        greedy: bytes.below(2) == 1,
        no_intersect: bytes.below(2) == 1,
        hash: [None, Some(true), Some(false)][bytes.below(3)],
        reduce: bytes.below(2) == 1,
        try_out: bytes.below(2) == 1,
    };
    let text = format!("SELECT ?a ?b ?c ?d {{ {} }}", bytes.group(2));
    let Ok(query) = Parser::new().parse_query(&text) else {
        return;
    };
    let prepared = Prepared::new(query);
    let view = view(&quads);
    let execution = Execution {
        plan_choices,
        ..Execution::new(Limits::default(), EventTime(0))
    };
    // Products of everything with everything end at a limit: nothing to compare.
    let Ok(Answer::Solutions(solutions)) = prepared.run(Invocation::new(&view, &execution)) else {
        return;
    };
    let dictionary = view.snapshot().store().dictionary();
    let mut ours: Vec<Vec<Option<Term>>> = solutions.rows(dictionary).collect();
    let dataset: oxrdf::Dataset = quads.into_iter().collect();
    let algebra = prepared.query().for_spareval(EventTime(0));
    let evaluator = QueryEvaluator::new().without_optimizations();
    let results = evaluator.prepare(&algebra).execute(&dataset);
    let QueryResults::Solutions(results) = results.expect("spareval takes the query") else {
        unreachable!("SELECT has solutions");
    };
    let mut theirs: Vec<Vec<Option<Term>>> = results
        .map(|solution| {
            let solution = solution.expect("in memory");
            let names = ["a", "b", "c", "d"].iter();
            names.map(|name| solution.get(*name).cloned()).collect()
        })
        .collect();
    let text_of = |row: &Vec<Option<Term>>| format!("{row:?}");
    ours.sort_by_key(text_of);
    theirs.sort_by_key(text_of);
    assert_eq!(ours, theirs, "{text}");
});
