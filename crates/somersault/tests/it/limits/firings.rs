//! The limits of a firing: a firing that runs out of time says so, by the name of the limit, and
//! delays no other query.

use crate::support::scenario::*;
use somersault::{EngineConfig, Limits, NewQuery, SubscribeOptions};
use std::time::Duration;

/// Too many rows to go through, once the window holds a statement.
fn heavy(name: &str) -> String {
    format!(
        "PREFIX : <{NS}> SELECT ?a FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ \
         GRAPH :s {{ :{name} :likes ?a . ?b :likes ?c . ?d :likes ?e . ?f :likes ?g . ?h :likes ?i }} \
         FILTER(STRLEN(CONCAT(STR(?a), STR(?c), STR(?e), STR(?g), STR(?i))) > 100000) }}"
    )
}

fn engine(firing_time: Duration) -> somersault::Engine {
    let engine = somersault::Engine::open(EngineConfig {
        limits: Limits {
            firing_time,
            ..Limits::default()
        },
        ..config()
    })
    .unwrap();
    let stream = format!("CREATE STREAM <{NS}s> BATCH 1s IDLE NEVER");
    engine.create_stream(None, &stream).unwrap();
    engine
}

fn push_fans(engine: &somersault::Engine) {
    let texts: Vec<String> = (0..300)
        .map(|at| format!("fan{} likes p{at}", at % 7))
        .collect();
    let statements: Vec<(i64, &str)> = texts.iter().map(|text| (5, text.as_str())).collect();
    engine.push(&format!("{NS}s"), push(&statements)).unwrap();
}

/// Fires once, over 300 statements; the answers of these queries.
fn fired(engine: &somersault::Engine, names: &[&str]) -> Vec<Result<Vec<String>, String>> {
    push_fans(engine);
    advance(engine, 1_000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let answer = |name: &&str| {
        let subscription = engine.subscribe(name, SubscribeOptions::default()).unwrap();
        let firing = firing(subscription.try_recv().unwrap()).unwrap();
        firing.answer.as_ref().map(shown).map_err(Clone::clone)
    };
    names.iter().map(answer).collect()
}

/// A firing in which the first of these queries runs out of time, and the answers of the others.
/// The time of a light query depends on the machine's load, so they get more until it is enough;
/// the first one never has enough.
struct Fired {
    engine: somersault::Engine,
    firing_time: Duration,
    sentence: String,
    others: Vec<Vec<String>>,
}

fn with_time_enough(names: &[&str], register: impl Fn(&somersault::Engine)) -> Fired {
    let mut firing_time = Duration::from_millis(30);
    loop {
        let engine = engine(firing_time);
        register(&engine);
        let mut answers = fired(&engine, names).into_iter();
        let sentence = answers.next().unwrap().unwrap_err();
        match answers.collect() {
            Ok(others) => {
                return Fired {
                    engine,
                    firing_time,
                    sentence,
                    others,
                };
            }
            Err(failed) => assert!(firing_time < Duration::from_secs(5), "{failed}"),
        }
        firing_time *= 2;
    }
}

#[test]
fn a_firing_ends_with_its_time_and_says_so() {
    let light = format!(
        "PREFIX : <{NS}> SELECT ?a FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ GRAPH :s {{ ?a :likes :p8 }} }}"
    );
    let fired = with_time_enough(&["heavy", "light"], |engine| {
        engine.register(Some("heavy"), &heavy("fan1")).unwrap();
        engine.register(Some("light"), &light).unwrap();
    });
    let (engine, sentence) = (fired.engine, fired.sentence);
    let limit = format!("{} ms", fired.firing_time.as_millis());
    assert!(
        sentence.contains(&limit) && sentence.contains("(firing_time)"),
        "{sentence}"
    );
    assert_eq!(fired.others, [["fan1"]]);
    let info = engine.query_info("heavy").unwrap();
    assert_eq!((info.firings, info.last_error), (1, Some(sentence)));
    // One-shot queries have a limit of their own.
    assert_eq!(ask(&engine, "SELECT ?x { VALUES ?x { :a } }"), ["a"]);
}

#[test]
fn in_a_group_the_time_of_one_is_not_that_of_the_others() {
    let names = ["fan1", "nobody", "noone"];
    let fired = with_time_enough(&names, |engine| {
        let queries = names.map(|name| NewQuery {
            name: Some(name.to_owned()),
            text: heavy(name),
        });
        for registered in engine.register_many(queries).unwrap() {
            registered.unwrap();
        }
        let info = engine.query_info("fan1").unwrap();
        assert_eq!(info.group.map(|group| group.queries), Some(3));
    });
    let sentence = fired.sentence;
    assert!(sentence.contains("(firing_time)"), "{sentence}");
    assert_eq!(fired.others, [[""; 0], []]);
}

/// Its time would be over in an hour.
#[test]
fn a_firing_of_a_query_that_is_dropped_stops() {
    let hour = Duration::from_secs(3600);
    for names in [vec!["alone"], vec!["fan1", "fan2"]] {
        let engine = engine(hour);
        for name in &names {
            let text = match *name {
                "alone" => format!("BASE <urn:x> {}", heavy("fan1")),
                _ => heavy(name),
            };
            engine.register(Some(name), &text).unwrap();
        }
        push_fans(&engine);
        advance(&engine, 1_000);
        let waiting = engine.quiesce(Duration::from_millis(200));
        assert!(waiting.is_err(), "the firing is still being executed");
        for name in &names {
            engine.drop_query(name).unwrap();
        }
        engine.quiesce(Duration::from_secs(60)).unwrap();
    }
}
