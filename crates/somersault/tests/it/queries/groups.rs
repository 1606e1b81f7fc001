//! Cohorts: engines whose queries share cohorts answer as engines do whose texts have no shape,
//! while queries are registered, paused and dropped; and behaviour that only cohorts have.

use crate::support::scenario::*;
use proptest::prelude::*;
use somersault::{
    DeltaMode, Engine, EngineConfig, EngineError, EventTime, NewQuery, Registered,
    SubscribeOptions, Subscription,
};
use std::time::Duration;

const NODES: [&str; 6] = ["a", "b", "c", "d", "e", "nobody"];
/// `K` and `J` stand for constants.
const SHAPES: [&str; 6] = [
    "SELECT ?p ?o FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH :s { :K ?p ?o } }",
    "SELECT ?who ?x FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { ?who :knows :K . GRAPH :s { ?who :likes ?x } }",
    "SELECT DISTINCT ?x FROM NAMED STREAM :s [RANGE 2s STEP 2s] FROM NAMED STREAM :t [RANGE 1s STEP 1s] WHERE { GRAPH :s { :K :likes ?x } GRAPH :t { ?y :likes ?x FILTER(?y != :J ) } }",
    "SELECT (COUNT(*) AS ?n) FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH :s { ?who :likes :K } }",
    "SELECT ?x ?z FROM NAMED STREAM :t [RANGE 2s STEP 1s] WHERE { GRAPH :t { :K :likes ?x } OPTIONAL { ?x :knows ?z . ?z :knows :J } }",
    "SELECT ?x (COUNT(*) AS ?n) FROM NAMED STREAM :s [RANGE 4s STEP 1s] WHERE { GRAPH :s { :K :likes ?x . ?y :likes ?x } } GROUP BY ?x",
];

fn text(shape: usize, first: usize, second: usize, alone: bool) -> String {
    let text = SHAPES[shape]
        .replace(":K", &format!(":{}", NODES[first % 6]))
        .replace(":J", &format!(":{}", NODES[second % 6]));
    // A BASE leaves the text as it is, and without a shape.
    let base = if alone { "BASE <urn:x>" } else { "" };
    format!("PREFIX : <{NS}> {base} {text}")
}

#[derive(Clone, Debug)]
enum Step {
    Register(usize, usize, usize),
    Many(usize, Vec<(usize, usize)>),
    Pause(usize),
    Resume(usize),
    Drop(usize),
    Subscribe(usize, bool),
    Push(bool, usize, usize),
    Store(usize, usize),
    Advance(bool, i64),
    Both(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..6usize;
    prop_oneof![
        3 => (0..6usize, node(), node()).prop_map(|(shape, a, b)| Step::Register(shape, a, b)),
        2 => (0..6usize, proptest::collection::vec((node(), node()), 1..8)).prop_map(|(shape, all)| Step::Many(shape, all)),
        1 => (0..20usize).prop_map(Step::Pause),
        1 => (0..20usize).prop_map(Step::Resume),
        1 => (0..20usize).prop_map(Step::Drop),
        1 => (0..20usize, any::<bool>()).prop_map(|(at, empties)| Step::Subscribe(at, empties)),
        8 => (any::<bool>(), node(), node()).prop_map(|(s, a, b)| Step::Push(s, a, b)),
        2 => (node(), node()).prop_map(|(a, b)| Step::Store(a, b)),
        1 => (any::<bool>(), 0..2500i64).prop_map(|(s, by)| Step::Advance(s, by)),
        4 => (0..2500i64).prop_map(Step::Both),
    ]
}

struct World {
    engine: Engine,
    alone: bool,
    names: Vec<String>,
    times: [i64; 2],
    live: Vec<(String, Subscription)>,
}

impl World {
    fn new(alone: bool, delta: DeltaMode) -> World {
        let engine = Engine::open(EngineConfig {
            kept_firings: 1000,
            delta,
            ..config()
        })
        .unwrap();
        for name in ["s", "t"] {
            let text = format!("CREATE STREAM <{NS}{name}> BATCH 500ms IDLE NEVER");
            engine.create_stream(None, &text).unwrap();
        }
        World {
            engine,
            alone,
            names: Vec::new(),
            times: [0; 2],
            live: Vec::new(),
        }
    }

    fn new_query(&mut self, shape: usize, constants: (usize, usize)) -> NewQuery {
        let name = format!("q{}", self.names.len());
        self.names.push(name.clone());
        NewQuery {
            name: Some(name),
            text: text(shape, constants.0, constants.1, self.alone),
        }
    }

    fn take(&mut self, step: &Step) {
        let named = |at: &usize| self.names.get(*at).cloned();
        match step {
            Step::Register(shape, a, b) => {
                let query = self.new_query(*shape, (*a, *b));
                let name = query.name.as_deref();
                self.engine.register(name, &query.text).unwrap();
            }
            Step::Many(shape, all) => {
                let queries: Vec<NewQuery> = all
                    .iter()
                    .map(|both| self.new_query(*shape, *both))
                    .collect();
                for outcome in self.engine.register_many(queries).unwrap() {
                    assert_eq!(outcome.unwrap(), Registered::New);
                }
            }
            Step::Pause(at) => _ = named(at).map(|name| self.engine.pause_query(&name)),
            Step::Resume(at) => _ = named(at).map(|name| self.engine.resume_query(&name)),
            Step::Drop(at) => {
                // Whether a due firing is answered before its query is dropped depends on the
                // machine.
                self.engine.quiesce(Duration::from_secs(60)).unwrap();
                _ = named(at).map(|name| self.engine.drop_query(&name));
            }
            Step::Subscribe(at, empties) => {
                let options = SubscribeOptions {
                    empties: *empties,
                    ..SubscribeOptions::default()
                };
                // Both engines must have answered everything that is answered by then.
                self.engine.quiesce(Duration::from_secs(60)).unwrap();
                if let Some(name) = named(at)
                    && let Ok(live) = self.engine.subscribe(&name, options)
                {
                    self.live.push((name, live));
                }
            }
            Step::Push(s, a, b) => {
                let (stream, at) = if *s {
                    ("s", self.times[0])
                } else {
                    ("t", self.times[1])
                };
                let statement = format!("{} likes {}", NODES[*a], NODES[*b]);
                let pushed = push(&[(at, &statement)]);
                self.engine.push(&format!("{NS}{stream}"), pushed).unwrap();
            }
            Step::Store(a, b) => {
                let update = format!(
                    "PREFIX : <{NS}> INSERT DATA {{ :{} :knows :{} }}",
                    NODES[*a], NODES[*b]
                );
                self.engine.update(&update).run().unwrap();
            }
            Step::Advance(s, by) => {
                let at = usize::from(!*s);
                self.times[at] += by;
                let stream = format!("{NS}{}", ["s", "t"][at]);
                self.engine
                    .advance([(stream, EventTime(self.times[at]))])
                    .unwrap();
            }
            Step::Both(by) => {
                let to = self.times[0].max(self.times[1]) + by;
                self.times = [to; 2];
                advance(&self.engine, to);
            }
        }
    }

    /// All that can be seen from outside.
    fn seen(&self) -> Vec<String> {
        self.engine.quiesce(Duration::from_secs(60)).unwrap();
        let mut lines = Vec::new();
        for name in &self.names {
            let Ok(info) = self.engine.query_info(name) else {
                lines.push(format!("{name} is gone"));
                continue;
            };
            lines.push(format!(
                "{name} {} {} {:?} {} {} {} {:?}",
                info.firings,
                info.rows,
                info.last_close,
                info.paused,
                info.skipped_empty,
                info.passed_while_paused,
                info.next_close
            ));
            for (close, rows) in firings(&self.engine, name, None) {
                lines.push(format!("{name} at {close}: {rows:?}"));
            }
        }
        for (name, live) in &self.live {
            while let Some(event) = live.try_recv() {
                let firing = firing(event).unwrap();
                let rows = shown(firing.answer.as_ref().unwrap());
                assert_eq!(&firing.query, name);
                lines.push(format!("live {name} at {}: {rows:?}", firing.close.0));
            }
        }
        lines
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn queries_in_groups_answer_as_each_alone(steps in proptest::collection::vec(step(), 5..70)) {
        let seen = |alone: bool, delta: DeltaMode| {
            let mut world = World::new(alone, delta);
            steps.iter().for_each(|step| world.take(step));
            world.take(&Step::Both(4000));
            world.seen()
        };
        let apart = seen(true, DeltaMode::Never);
        for delta in [DeltaMode::Never, DeltaMode::Always] {
            let together = seen(false, delta);
            for (own, other) in together.iter().zip(&apart) {
                prop_assert_eq!(own, other);
            }
            prop_assert_eq!(together.len(), apart.len());
        }
    }
}

fn with_stream(settings: EngineConfig) -> Engine {
    let engine = Engine::open(settings).unwrap();
    let text = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    engine
}

/// Queries `q0`, `q1` …, which ask about one node after the other.
fn of_one_shape(count: usize) -> impl Iterator<Item = NewQuery> + Clone {
    (0..count).map(|at| NewQuery {
        name: Some(format!("q{at}")),
        text: text(0, at, 0, false),
    })
}

/// The first second of the stream, after which its first close is answered.
fn first_second(engine: &Engine) {
    advance(engine, 0);
    let statements = push(&[(1, "a likes b"), (2, "b likes c")]);
    engine.push(&format!("{NS}s"), statements).unwrap();
    advance(engine, 1000);
}

#[test]
fn a_cohort_is_executed_once_and_explain_says_so() {
    let engine = with_stream(config());
    let queries = of_one_shape(30);
    assert!(
        engine
            .register_many(queries)
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );
    first_second(&engine);
    assert_eq!(
        firings(&engine, "q0", None),
        expected(&[(1000, &["likes b"])])
    );
    let metrics = engine.metrics();
    let [group] = &metrics.queries[..] else {
        panic!("one group: {:?}", metrics.queries)
    };
    assert_eq!(
        (group.members, group.firings, group.executions),
        (30, 1, 30)
    );
    assert_eq!((group.nonempty, group.rows), (10, 10));
    let info = engine.query_info("q7").unwrap();
    let group = info.group.unwrap();
    assert_eq!(
        (group.queries, group.combinations, group.together),
        (30, 6, true)
    );
    assert_eq!(info.text, text(0, 7, 0, false));
    let plan = engine.query(&info.text).explain().unwrap();
    assert!(
        plan.contains("a query group of 30 queries") && plan.contains("cells ("),
        "{plan}"
    );
    let by_delta = "at the first close, when a combination of constants is added or removed, and";
    assert!(plan.contains(by_delta), "{plan}");
    let apart = engine
        .register(Some("alone"), &text(3, 1, 0, false))
        .unwrap();
    assert_eq!(apart.group.map(|group| group.together), Some(false));
    let apart = engine
        .register(Some("apart"), &text(0, 1, 0, true))
        .unwrap();
    assert!(apart.group.is_none());
}

/// A cohort's rows are kept once for all members; they are released with its last member, and,
/// where one is paused, until it is resumed.
#[test]
fn a_cohort_keeps_its_rows_as_long_as_a_member_needs_them() {
    let engine = with_stream(EngineConfig {
        delta: DeltaMode::Always,
        ..config()
    });
    let kept = || {
        engine.quiesce(Duration::from_secs(60)).unwrap();
        engine.metrics().memory.kept_rows_bytes
    };
    let registered = engine.register_many(of_one_shape(12)).unwrap();
    assert!(registered.iter().all(Result::is_ok));
    first_second(&engine);
    assert!(kept() > 0);
    engine.pause_query("q3").unwrap();
    assert_eq!(kept(), 0);
    advance(&engine, 2000);
    assert!(kept() > 0);
    for at in 0..12 {
        engine.drop_query(&format!("q{at}")).unwrap();
    }
    assert_eq!(kept(), 0);
}

#[test]
fn each_line_of_a_batch_is_taken_for_itself() {
    let engine = with_stream(config());
    let query = |name: Option<&str>, text: String| NewQuery {
        name: name.map(str::to_owned),
        text,
    };
    let unknown = text(0, 1, 0, false).replace("STREAM :s", "STREAM :unknown");
    let named = text(0, 3, 0, false).replace("SELECT", "REGISTER QUERY own AS SELECT");
    let outcomes = engine
        .register_many([
            query(Some("one"), text(0, 1, 0, false)),
            query(Some("one"), text(0, 1, 0, false)),
            query(Some("one"), text(0, 2, 0, false)),
            query(Some("two"), "SELECT".to_owned()),
            query(None, text(0, 1, 0, false)),
            query(Some("three"), unknown),
            query(Some("other"), named.clone()),
            query(None, named),
            query(Some("alone"), text(0, 1, 0, true)),
            query(Some("four"), text(1, 1, 0, false)),
        ])
        .unwrap();
    let shown: Vec<String> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(Registered::New) => "new".to_owned(),
            Ok(Registered::Unchanged) => "before".to_owned(),
            Err(EngineError::Conflict(_)) => "conflict".to_owned(),
            Err(EngineError::Parse { .. }) => "parse".to_owned(),
            Err(EngineError::Invalid(_)) => "invalid".to_owned(),
            Err(error) => error.to_string(),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "new", "before", "conflict", "parse", "invalid", "invalid", "invalid", "new", "new",
            "new"
        ]
    );
    assert_eq!(engine.queries().len(), 4);
    assert_eq!(engine.query_info("own").unwrap().name, "own");
}

#[test]
fn a_batch_stops_at_the_limit() {
    let mut settings = config();
    settings.limits.registered_queries = 3;
    let engine = with_stream(settings);
    let queries = of_one_shape(5);
    let outcomes = engine.register_many(queries.clone()).unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
    assert!(
        outcomes[4]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("registered_queries")
    );
    let again = engine.register_many(queries.take(3)).unwrap();
    assert!(
        again
            .iter()
            .all(|outcome| matches!(outcome, Ok(Registered::Unchanged)))
    );
}

/// Queries of many shapes and of none, some of them twice: what is handed in and not yet registered
/// counts.
#[test]
fn a_batch_of_many_shapes_stops_at_the_limit_too() {
    let mut settings = config();
    settings.limits.registered_queries = 40;
    let engine = with_stream(settings);
    let queries = (0..50).flat_map(|at| {
        let query = format!(
            "SELECT ?s FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ GRAPH :s {{ ?s :p{at} ?o }} }}"
        );
        let base = if at % 3 == 0 { "BASE <urn:x>" } else { "" };
        let query = NewQuery {
            name: Some(format!("q{at}")),
            text: format!("PREFIX : <{NS}> {base} {query}"),
        };
        [query.clone(), query]
    });
    let outcomes = engine.register_many(queries).unwrap();
    for (at, outcome) in outcomes.iter().enumerate() {
        let as_expected = match (at < 80, at % 2) {
            (true, 0) => matches!(outcome, Ok(Registered::New)),
            (true, _) => matches!(outcome, Ok(Registered::Unchanged)),
            (false, _) => matches!(outcome, Err(EngineError::Limit { .. })),
        };
        assert!(as_expected, "{at}: {outcome:?}");
    }
    assert_eq!(engine.queries().len(), 40);
}

#[test]
fn queries_that_are_there_take_no_room_in_a_batch() {
    let mut settings = config();
    settings.limits.registered_queries = 3;
    let engine = with_stream(settings);
    engine.register_many(of_one_shape(2)).unwrap();
    let outcomes = engine.register_many(of_one_shape(4)).unwrap();
    let [first, second, third, fourth] = &outcomes[..] else {
        panic!("there is not one outcome for each query: {outcomes:?}")
    };
    for again in [first, second] {
        assert!(matches!(again, Ok(Registered::Unchanged)), "{again:?}");
    }
    assert!(matches!(third, Ok(Registered::New)), "{third:?}");
    assert!(fourth.is_err());
}

#[test]
fn groups_are_there_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = config();
    settings.data = Some(folder.path().to_owned());
    let engine = with_stream(settings.clone());
    let queries = of_one_shape(6);
    engine.register_many(queries).unwrap();
    engine
        .register(Some("late"), &text(0, 0, 0, false))
        .unwrap();
    first_second(&engine);
    engine.pause_query("q1").unwrap();
    engine.drop_query("q2").unwrap();
    let all = |engine: &Engine| -> Vec<_> {
        let infos = engine.queries();
        let names = infos
            .iter()
            .map(|info| (info.name.clone(), info.text.clone(), info.group));
        names
            .map(|named| (firings(engine, &named.0, None), named))
            .collect()
    };
    let before = all(&engine);
    assert_eq!(before.len(), 6);
    engine.shutdown().unwrap();
    let engine = Engine::open(settings).unwrap();
    assert_eq!(all(&engine), before);
    advance(&engine, 2000);
    assert_eq!(
        firings(&engine, "late", Some(1000)),
        expected(&[(2000, &["likes b"])])
    );
    assert_eq!(firings(&engine, "q1", Some(1000)), expected(&[]));
}
