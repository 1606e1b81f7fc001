//! Delta evaluation against its dull twin, the whole evaluation at every close: over generated
//! windows that slide by different steps, with statements that come again in the same and in later
//! batches, late ones, stored graphs that change in between, and closes that are left out.

use crate::equals_spareval::{iri, query, triple};
use crate::sequence::Sequence;
use oxrdf::{Term, Triple};
use proptest::prelude::*;
use somersault_dictionary::Dictionary;
use somersault_lang::Parser;
use somersault_model::{
    BatchNumber, EventTime, Limits, Millis, Mutation, Operation, QuadIds, ShardId, Sn, StreamUid,
    TermId, TimedTriple, TripleIds,
};
use somersault_query::{
    Answer, Dataset, Execution, IncrementalQuery, Invocation, Mode, NamedGraphs, PlanChoices,
    Prepared, QueryError, RetainedRows, SnapshotView, Source,
};
use somersault_store::{ShardBatch, ShardWriter, Slice, Store, ViewKey, WindowVersion};
use std::sync::Arc;

const INTERVAL: Millis = Millis(10);

/// A window, in batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) range: i64,
    pub(crate) step: i64,
}

/// The changes before a close.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    /// The statements that arrive in each of the two streams.
    pub(crate) came: [Vec<Triple>; 2],
    /// A statement of a stored graph that is inserted or deleted.
    pub(crate) changed: Option<(bool, &'static str, Triple)>,
    /// A statement that arrives late in a stream, this many batches back.
    pub(crate) late: Option<(usize, i64, Triple)>,
    /// The close is not executed.
    pub(crate) is_skipped: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) stored: Vec<(&'static str, Triple)>,
    pub(crate) shapes: [Shape; 2],
    pub(crate) rounds: Vec<Round>,
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    (1..6i64, 1..4i64).prop_map(|(range, step)| Shape { range, step })
}

pub(crate) fn graph() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["", "g", "h"])
}

fn round(triple: impl Strategy<Value = Triple> + Clone) -> impl Strategy<Value = Round> {
    let some = |most: usize| proptest::collection::vec(triple.clone(), 0..most);
    let changed = proptest::option::weighted(0.15, (any::<bool>(), graph(), triple.clone()));
    let late = proptest::option::weighted(0.05, (0..2usize, 1..4i64, triple.clone()));
    let skipped = prop::bool::weighted(0.1);
    ([some(6), some(5)], changed, late, skipped).prop_map(|(came, changed, late, is_skipped)| {
        Round {
            came,
            changed,
            late,
            is_skipped,
        }
    })
}

/// A scenario of such statements.
pub(crate) fn scenario(
    triple: impl Strategy<Value = Triple> + Clone,
) -> impl Strategy<Value = Scenario> {
    let stored = proptest::collection::vec((graph(), triple.clone()), 0..20);
    let rounds = proptest::collection::vec(round(triple), 3..14);
    (stored, [shape(), shape()], rounds).prop_map(|(stored, shapes, rounds)| Scenario {
        stored,
        shapes,
        rounds,
    })
}

/// A store that is written to.
pub(crate) struct World {
    store: Arc<Store>,
    writers: Vec<ShardWriter>,
    sn: Sn,
    /// For each stream, the statements of each batch.
    came: [Vec<Vec<TripleIds>>; 2],
}

impl World {
    pub(crate) fn new() -> World {
        let store = Store::new(2);
        let writers = (0..2).map(|shard| {
            let writer = store.take_writer(ShardId(shard));
            writer.expect("the first writer of each shard")
        });
        World {
            writers: writers.collect(),
            store,
            sn: Sn(0),
            came: Default::default(),
        }
    }

    pub(crate) fn dictionary(&self) -> &Dictionary {
        self.store.dictionary()
    }

    fn graph(&self, name: &str) -> TermId {
        match name {
            "" => TermId::DEFAULT_GRAPH,
            name => self.store.dictionary().intern(iri(name).as_ref().into()),
        }
    }

    fn ids(&self, triple: &Triple) -> TripleIds {
        let dictionary = self.store.dictionary();
        TripleIds::new(
            dictionary.intern(triple.subject.as_ref().into()),
            dictionary.intern(triple.predicate.as_ref().into()),
            dictionary.intern(triple.object.as_ref()),
        )
    }

    pub(crate) fn store_all(&mut self, stored: &[(&'static str, Triple)]) {
        let stored: Vec<_> = (stored.iter())
            .map(|(graph, triple)| (Operation::Insert, self.graph(graph), self.ids(triple)))
            .collect();
        self.change(&stored);
    }

    fn change(&mut self, changes: &[(Operation, TermId, TripleIds)]) {
        self.sn = Sn(self.sn.0 + 1);
        let mutations: Vec<Mutation> = (changes.iter())
            .map(|(operation, graph, triple)| Mutation {
                operation: *operation,
                quad: triple.in_graph(*graph),
            })
            .collect();
        for batch in ShardBatch::split(&mutations, self.store.placement()) {
            let writer = &mut self.writers[usize::from(batch.shard().0)];
            writer.apply(self.sn, &batch).expect("in order");
        }
        self.store.snapshots().publish_stable(self.sn);
    }

    /// Inserts and deletes statements, and gives those that it asks for.
    pub(crate) fn store_changes(
        &mut self,
        changes: &[(bool, &'static str, Triple)],
    ) -> Vec<QuadIds> {
        let changes: Vec<_> = (changes.iter())
            .map(|(inserts, graph, triple)| {
                let operation = match inserts {
                    true => Operation::Insert,
                    false => Operation::Delete,
                };
                (operation, self.graph(graph), self.ids(triple))
            })
            .collect();
        self.change(&changes);
        let quads = changes.iter();
        quads
            .map(|(_, graph, triple)| triple.in_graph(*graph))
            .collect()
    }

    /// A view of the stored graphs alone.
    pub(crate) fn stored_view(&self, dataset: &Arc<Dataset>) -> SnapshotView {
        SnapshotView::new(self.store.pin_stable(), Vec::new(), Arc::clone(dataset))
    }

    fn slice(&self, stream: usize, batch: usize) -> Slice {
        let at = BatchNumber(batch as i64).start(INTERVAL);
        let statements = self.came[stream][batch].iter().map(|triple| TimedTriple {
            triple: *triple,
            at,
        });
        let statements: Vec<TimedTriple> = statements.collect();
        Slice::build(BatchNumber(batch as i64), INTERVAL, 0, &statements)
    }

    pub(crate) fn close(&mut self, round: &Round) {
        for (stream, came) in round.came.iter().enumerate() {
            let ids = came.iter().map(|triple| self.ids(triple)).collect();
            self.came[stream].push(ids);
            let batch = self.came[stream].len() - 1;
            if !came.is_empty() {
                let slice = self.slice(stream, batch);
                self.store.slices().insert(uid(stream), slice);
            }
        }
        let changed: Vec<_> = round.changed.iter().cloned().collect();
        self.store_changes(&changed);
        if let Some((stream, back, triple)) = &round.late {
            let batch = self.came[*stream].len() as i64 - 1 - back;
            if batch >= 0 {
                let ids = self.ids(triple);
                self.came[*stream][batch as usize].push(ids);
                let revised = self.slice(*stream, batch as usize);
                let slices = self.store.slices();
                slices.amend(uid(*stream), BatchNumber(batch), self.sn, self.sn, |_| {
                    revised
                });
            }
        }
    }

    fn windows(&self, shapes: &[Shape; 2]) -> Vec<Arc<WindowVersion>> {
        let close = self.came[0].len() as i64;
        let one = |(stream, shape): (usize, &Shape)| {
            let hi = close / shape.step * shape.step;
            let lo = (hi - shape.range).max(0);
            if lo >= hi {
                return WindowVersion::empty();
            }
            let key = ViewKey {
                range: shape.range,
                until: 0,
                step: shape.step,
            };
            let slices = self.store.slices();
            let window = slices.window_at(
                uid(stream),
                (BatchNumber(lo), BatchNumber(hi)),
                key,
                self.sn,
            );
            // The store would free what no window needs any more.
            slices.retire(uid(stream), BatchNumber(close - 8));
            window
        };
        shapes.iter().enumerate().map(one).collect()
    }

    pub(crate) fn view(&self, shapes: &[Shape; 2], dataset: &Arc<Dataset>) -> SnapshotView {
        SnapshotView::new(
            self.store.pin_stable(),
            self.windows(shapes),
            Arc::clone(dataset),
        )
    }

    /// Both windows are in the default graph, beside the stored one, and have names.
    pub(crate) fn dataset(&self) -> Arc<Dataset> {
        let named = [
            ("g", Source::Stored(self.graph("g"))),
            ("h", Source::Stored(self.graph("h"))),
            ("v", Source::Window(0)),
            ("w", Source::Window(1)),
        ];
        Arc::new(Dataset {
            default: vec![
                Source::Window(0),
                Source::Window(1),
                Source::Stored(TermId::DEFAULT_GRAPH),
            ],
            named: NamedGraphs::List(named.map(|(n, source)| (self.graph(n), source)).to_vec()),
        })
    }
}

fn uid(stream: usize) -> StreamUid {
    StreamUid(stream as u32 + 1)
}

/// A term as it is written: each way of evaluating takes the same one of equals.
fn spelt(term: Option<Term>) -> String {
    term.map(|term| term.to_string()).unwrap_or_default()
}

pub(crate) fn rows(answer: Answer, dictionary: &Dictionary) -> Vec<Vec<String>> {
    match answer {
        Answer::Boolean(value) => vec![vec![value.to_string()]],
        Answer::Graph(triples) => triples.iter().map(|t| vec![t.to_string()]).collect(),
        Answer::Dataset(quads) => quads.iter().map(|q| vec![q.to_string()]).collect(),
        Answer::Solutions(solutions) => (solutions.rows(dictionary))
            .map(|row| row.into_iter().map(spelt).collect())
            .collect(),
    }
}

/// The outcome of a query over a scenario: its incremental and its whole executions; `None` if its
/// rows are never retained.
pub(crate) type Outcome = Option<(usize, usize)>;

/// Plays a scenario; `spoil` may do to the kept rows what must not be done.
pub(crate) fn play(
    scenario: &Scenario,
    text: &str,
    choices: PlanChoices,
    spoil: impl Fn(&IncrementalQuery, &mut Option<RetainedRows>),
) -> Result<Outcome, TestCaseError> {
    let played = play_within(scenario, text, (choices, Limits::default()), spoil)?;
    let Some(played) = played else {
        return Ok(None);
    };
    prop_assert_eq!(played.refused, (0, 0), "no limit is near");
    Ok(Some((played.by_delta, played.rebuilt)))
}

/// The numbers of executions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Played {
    pub(crate) by_delta: usize,
    pub(crate) rebuilt: usize,
    /// Which needed too much memory: of those that keep rows, and of the whole ones.
    pub(crate) refused: (usize, usize),
}

/// [`play`] within limits: what keeps rows may need more memory than the whole, and never less.
pub(crate) fn play_within(
    scenario: &Scenario,
    text: &str,
    (choices, limits): (PlanChoices, Limits),
    spoil: impl Fn(&IncrementalQuery, &mut Option<RetainedRows>),
) -> Result<Option<Played>, TestCaseError> {
    let mut world = World::new();
    world.store_all(&scenario.stored);
    let dataset = world.dataset();
    // A few generated texts give a variable two values.
    let Ok(query) = Parser::new().parse_query(text) else {
        return Ok(None);
    };
    let sequence = Sequence::of(&query);
    let prepared = Prepared::new(query);
    let view = world.view(&scenario.shapes, &dataset);
    let Ok(maintained) = IncrementalQuery::new(&prepared, &[], &view) else {
        return Ok(None);
    };
    drop(view);
    let mut kept = None;
    let mut played = Played::default();
    for (at, round) in scenario.rounds.iter().enumerate() {
        world.close(round);
        if round.is_skipped {
            continue;
        }
        let close = EventTime(at as i64 + 1);
        let mut execution = Execution::new(limits.clone(), close);
        execution.plan_choices = choices;
        let mut view = world.view(&scenario.shapes, &dataset);
        spoil(&maintained, &mut kept);
        let ours = maintained.run(&mut kept, &mut view, &execution);
        let theirs = prepared.run(Invocation::new(
            &world.view(&scenario.shapes, &dataset),
            &execution,
        ));
        let is_memory = |error: &QueryError| matches!(error, QueryError::Memory { .. });
        let (ours_refused, theirs_refused) = (ours.is_err(), theirs.is_err());
        prop_assert!(
            ours.as_ref().err().is_none_or(is_memory),
            "{:?}",
            ours.err()
        );
        prop_assert!(
            theirs.as_ref().err().is_none_or(is_memory),
            "{:?}",
            theirs.err()
        );
        prop_assert!(ours_refused || !theirs_refused, "at close {}", at + 1);
        played.refused.0 += usize::from(ours_refused);
        played.refused.1 += usize::from(theirs_refused);
        let (Ok((answer, way)), Ok(twin)) = (ours, theirs) else {
            continue;
        };
        match way {
            Mode::Incremental => played.by_delta += 1,
            Mode::Rebuilt => played.rebuilt += 1,
        }
        let dictionary = world.dictionary();
        prop_assert_eq!(
            sequence.comparable(rows(answer, dictionary)),
            sequence.comparable(rows(twin, dictionary)),
            "at close {} by {:?}",
            at + 1,
            way
        );
    }
    Ok(Some(played))
}

/// Joins over windows and stored graphs, with all that may stand above them.
fn shaped() -> impl Strategy<Value = String> {
    let texts = [
        "SELECT * { GRAPH :v { ?a :p ?b } GRAPH :w { ?b :q ?c } }",
        "SELECT * { GRAPH :v { ?a :p ?b . ?a :q ?c . ?c :p ?d . ?b :r ?d } }",
        "SELECT ?a ?c { GRAPH :v { ?a :p ?b . ?b ?x ?c } GRAPH :g { ?c :q ?d } FILTER(?a != ?c) }",
        "SELECT * { ?a :p ?b . ?b :q ?c }",
        "SELECT * { ?a :p ?b . ?b :q ?c . ?c ?r ?d FILTER(?d != :a) }",
        "SELECT DISTINCT ?a { GRAPH :v { ?a :p ?b } GRAPH :w { ?c :q ?b } }",
        "SELECT * { { GRAPH :v { ?a :p ?b } } UNION { GRAPH :w { ?a :q ?b } } }",
        "SELECT * { GRAPH :v { ?a :p ?b } { GRAPH :w { ?b :q ?c } } UNION { ?b :r ?c FILTER(?c != :b) } FILTER(?a != ?c) }",
        "SELECT ?a (COUNT(*) AS ?n) (COUNT(DISTINCT ?b) AS ?m) { GRAPH :v { ?a :p ?b } ?a :q ?c } GROUP BY ?a",
        "SELECT (SUM(?b) AS ?s) (AVG(?b) AS ?m) (MIN(?b) AS ?l) (MAX(?b) AS ?h) { GRAPH :v { ?a :p ?b } GRAPH :w { ?a :q ?c } }",
        "SELECT ?a (COUNT(*) AS ?n) { ?a :p ?b . ?b ?q ?c } GROUP BY ?a HAVING(COUNT(*) > 1)",
        "SELECT * { GRAPH :v { ?a :p ?b } OPTIONAL { GRAPH :w { ?b :q ?c } } }",
        "SELECT * { GRAPH :v { ?a :p ?b } MINUS { GRAPH :w { ?a :q ?c } } }",
        "SELECT * { GRAPH :v { ?a :p ?b } FILTER NOT EXISTS { GRAPH :w { ?b :q ?c } } }",
        "SELECT * { GRAPH :v { ?a :p ?b } VALUES ?b { :a :b 1 } ?b :q* ?c BIND(NOW() AS ?t) }",
        "SELECT ?a ?b { GRAPH :v { ?a :p ?b } GRAPH :w { ?a :q ?c } } ORDER BY ?b ?a LIMIT 3",
        "SELECT ?a ?b { GRAPH :v { ?a :p ?b } GRAPH :w { ?a :q ?c } } ORDER BY DESC(?a) ?b",
        "SELECT DISTINCT ?c { GRAPH :v { ?a :p ?b } GRAPH :w { ?b :q ?c } } ORDER BY DESC(?c)",
        "SELECT ?c (COUNT(*) AS ?n) { GRAPH :v { ?a :p ?b } ?b :q ?c } GROUP BY ?c ORDER BY DESC(?n) ?c LIMIT 5",
        "ASK { GRAPH :v { ?a :p ?b } GRAPH :w { ?b :q ?c } }",
        "CONSTRUCT { ?a :made ?c . _:n :of ?a } { GRAPH :v { ?a :p ?b } ?b :q ?c }",
        "SELECT * { GRAPH ?g { ?a :p ?b } GRAPH :v { ?b :q ?c } }",
        "SELECT * { GRAPH :v { :a ?x ?b } GRAPH :w { ?c ?x :b } }",
    ];
    proptest::sample::select(texts.to_vec()).prop_map(|text| format!("PREFIX : <http://x/> {text}"))
}

pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn choices() -> impl Strategy<Value = PlanChoices> {
    (
        any::<bool>(),
        any::<bool>(),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(greedy, no_intersect, hash)| PlanChoices {
            greedy,
            no_intersect,
            hash,
            ..PlanChoices::default()
        })
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn deltas_of_shapes_equal_whole_evaluations(
        scenario in scenario(triple().boxed()),
        text in shaped(),
        choices in choices(),
    ) {
        let outcome = play(&scenario, &text, choices, |_, _| ())?;
        prop_assert!(outcome.is_some(), "all of these have a core");
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn deltas_of_any_query_equal_whole_evaluations(
        scenario in scenario(triple().boxed()),
        text in query(),
        choices in choices(),
    ) {
        play(&scenario, &text, choices, |_, _| ())?;
    }
}

pub(crate) fn scene(stored: &[(&'static str, &str)], came: &[[&str; 2]]) -> Scenario {
    let triples = |text: &str| -> Vec<Triple> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let triple = |w: &[&str]| Triple::new(iri(w[0]), iri(w[1]), iri(w[2]));
        words.chunks(3).map(triple).collect()
    };
    Scenario {
        stored: (stored.iter())
            .flat_map(|(graph, text)| triples(text).into_iter().map(move |t| (*graph, t)))
            .collect(),
        shapes: [Shape { range: 3, step: 1 }, Shape { range: 4, step: 2 }],
        rounds: (came.iter())
            .map(|[v, w]| Round {
                came: [triples(v), triples(w)],
                changed: None,
                late: None,
                is_skipped: false,
            })
            .collect(),
    }
}

pub(crate) const JOIN: &str =
    "PREFIX : <http://x/> SELECT * { GRAPH :v { ?a :p ?b } GRAPH :w { ?b :q ?c } ?c :r ?d }";

/// Of ten closes only the first is evaluated as a whole, as long as the stored data stays; a change
/// that no pattern reads does not count.
#[test]
fn only_the_first_close_is_evaluated_as_a_whole() {
    let came = ["a p b", "a p b c p d", ""].map(|v| [v, "b q c d q c"]);
    let came: Vec<_> = came.iter().cycle().take(10).copied().collect();
    let mut scenario = scene(&[("", "c r e")], &came);
    let by = |scenario: &Scenario| play(scenario, JOIN, PlanChoices::default(), |_, _| ()).unwrap();
    assert_eq!(by(&scenario), Some((9, 1)));
    let change = |predicate: &str| {
        let triple = Triple::new(iri("x"), iri(predicate), iri("y"));
        Some((true, "", triple))
    };
    scenario.rounds[4].changed = change("other");
    assert_eq!(by(&scenario), Some((9, 1)));
    scenario.rounds[5].changed = change("r");
    assert_eq!(by(&scenario), Some((8, 2)));
    scenario.rounds[7].late = Some((0, 1, Triple::new(iri("d"), iri("p"), iri("b"))));
    assert_eq!(by(&scenario), Some((7, 3)));
}

/// EX-1: rows that are lost between two closes are missed.
#[test]
fn ex1_a_lost_row_is_noticed() {
    let came = [["a p b", "b q c"]; 6];
    let scenario = scene(&[("", "c r e")], &came);
    let lose = |of: &IncrementalQuery, kept: &mut Option<RetainedRows>| {
        if let Some(kept) = kept {
            kept.lose_a_row(of);
        }
    };
    let outcome = play(&scenario, JOIN, PlanChoices::default(), lose);
    assert!(outcome.is_err(), "{outcome:?}");
}

/// Queries whose answers depend on the way of evaluation, or that read no window over which rows
/// could be retained.
#[test]
fn a_query_evaluated_as_a_whole_says_why() {
    let why = |text: &str| {
        let text = format!("PREFIX : <http://x/> {text}");
        let prepared = Prepared::new(Parser::new().parse_query(&text).expect("a query"));
        let world = World::new();
        let shapes = [Shape { range: 2, step: 1 }; 2];
        let view = world.view(&shapes, &world.dataset());
        IncrementalQuery::new(&prepared, &[], &view)
            .err()
            .unwrap_or("")
    };
    assert_eq!(why("SELECT * { GRAPH :v { ?a :p ?b } }"), "");
    for (text, part) in [
        ("SELECT * { GRAPH :g { ?a :p ?b } }", "no pattern"),
        ("SELECT * { GRAPH ?g { ?a :p ?b } }", "no pattern"),
        (
            "SELECT * { GRAPH :g { ?a :p ?b } OPTIONAL { GRAPH :v { ?b :q ?c } } }",
            "no pattern",
        ),
        ("SELECT * { ?a :p ?b FILTER(RAND() < 0.5) }", "draws"),
        ("SELECT * { ?a :p ?b } LIMIT 1", "order"),
        ("SELECT (SAMPLE(?b) AS ?c) { ?a :p ?b }", "order"),
    ] {
        assert!(why(text).contains(part), "{text}: {}", why(text));
    }
}
