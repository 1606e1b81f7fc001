//! Mistakes, planted on purpose: each is noticed, by the checks of `apply` (TX-1 to TX-3) or by the
//! comparison with the twin.

use crate::driver::*;
use crate::laws::difference;
use crate::twin::Twin;
use somersault_model::StreamUid;
use somersault_txn::{
    Consumed, Entry, Event, OnAbort, Origin, Outcome, Places, ProcedureUid, Round,
};

fn chain(parts: Vec<somersault_txn::Part>) -> Vec<Act> {
    vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
        create(procedure("deposit", &[], &[])),
        dataflow("d", parts, OnAbort::Skip),
        Act::Message(1, 1),
        Act::Message(1, 2),
    ]
}

fn apart() -> Vec<Act> {
    chain(vec![one("a"), one("b")])
}

fn consumed(procedure: u32, stream: u32, place: u64) -> Consumed {
    Consumed {
        procedure: ProcedureUid(procedure),
        stream: StreamUid(stream),
        places: Places::Run {
            first: somersault_txn::Place(place),
            count: 1,
        },
    }
}

fn entry(round: u64, consumed: Vec<Consumed>, emitted: Vec<somersault_txn::Emitted>) -> Entry {
    Entry {
        origin: Origin::Round {
            round: Round::Batch(round),
            consumed,
        },
        outcome: Outcome::Committed {
            emitted,
            answer: Vec::new(),
        },
    }
}

fn emitted(place: u64) -> somersault_txn::Emitted {
    somersault_txn::Emitted {
        stream: StreamUid(3),
        place: somersault_txn::Place(place),
        at: somersault_model::EventTime(1),
    }
}

/// The sentence of the contradiction that entries lead to.
fn noticed(acts: Vec<Act>, entries: Vec<Entry>) -> String {
    let mut driver = after(passing(), acts);
    let mut entries = entries
        .into_iter()
        .map(|entry| driver.apply(Event::Entry(entry)));
    entries
        .find_map(Result::err)
        .expect("the mistake is noticed")
        .to_string()
}

#[test]
fn tx1_a_batch_twice() {
    let once = entry(1, vec![consumed(1, 1, 1)], vec![]);
    let sentence = noticed(apart(), vec![once.clone(), once]);
    assert!(
        sentence.contains("takes a batch that does not wait for it"),
        "{sentence}"
    );
}

#[test]
fn tx1_a_round_skipped() {
    let sentence = noticed(apart(), vec![entry(2, vec![consumed(1, 1, 2)], vec![])]);
    assert!(sentence.contains("round 2 takes a batch"), "{sentence}");
}

#[test]
fn tx1_a_batch_under_another_round() {
    let sentence = noticed(apart(), vec![entry(7, vec![consumed(1, 1, 1)], vec![])]);
    assert!(sentence.contains("round 7 takes a batch"), "{sentence}");
}

#[test]
fn tx1_a_trigger_before_the_commit() {
    let early = entry(1, vec![consumed(2, 3, 1)], vec![]);
    let late = entry(1, vec![consumed(1, 1, 1)], vec![emitted(1)]);
    let sentence = noticed(apart(), vec![early, late]);
    assert!(
        sentence.contains("takes a batch that does not wait for it"),
        "{sentence}"
    );
}

#[test]
fn tx1_a_call_twice() {
    let driver = after(passing(), with_call());
    let call = driver.events.last().expect("the call is logged").clone();
    let mut again = driver;
    let sentence = again.apply(call).expect_err("it is noticed").to_string();
    assert!(
        sentence.contains("call 1 is not the next one"),
        "{sentence}"
    );
}

fn with_call() -> Vec<Act> {
    let mut acts = apart();
    acts.push(Act::Call("deposit".to_owned(), 1));
    acts
}

#[test]
fn tx2_a_message_of_a_stranger() {
    let sentence = noticed(
        apart(),
        vec![
            entry(1, vec![consumed(1, 1, 1)], vec![emitted(1)]),
            entry(1, vec![consumed(2, 3, 1)], vec![emitted(2)]),
        ],
    );
    assert!(
        sentence.contains("emits into s3, which is not its"),
        "{sentence}"
    );
}

#[test]
fn tx2_a_message_lost() {
    let lost = entry(1, vec![consumed(1, 1, 1)], vec![emitted(2)]);
    let sentence = noticed(apart(), vec![lost]);
    assert!(
        sentence.contains("message 2 is emitted where 1 is next"),
        "{sentence}"
    );
}

/// A call can stand inside of a nest only where the nest is two transactions.
#[test]
fn tx3_a_call_inside_a_nest() {
    let nested = chain(vec![nest(&["a", "b"], &[])]);
    let first_child = entry(1, vec![consumed(1, 1, 1)], vec![emitted(1)]);
    let sentence = noticed(nested, vec![first_child]);
    assert!(
        sentence.contains("leaves out a batch of procedure b"),
        "{sentence}"
    );
}

#[test]
fn tx3_two_units_in_one_transaction() {
    let both = vec![consumed(1, 1, 1), consumed(2, 3, 1)];
    let sentence = noticed(apart(), vec![entry(1, both, vec![emitted(1)])]);
    assert!(sentence.contains("procedures of two nests"), "{sentence}");
}

/// Whether the twin notices that a driver does one thing and the rules say another.
fn differs(driver: (Script, Vec<Act>), twin: (Script, Vec<Act>)) -> bool {
    let driven = after(driver.0, driver.1);
    let mut expected = Twin::new(twin.0);
    for act in &twin.1 {
        expected.act(act);
    }
    difference(&driven, &expected, &Act::Settle).is_some()
}

fn settled(mut acts: Vec<Act>) -> Vec<Act> {
    acts.push(Act::Settle);
    acts
}

#[test]
fn without_a_mistake_the_twin_notices_nothing() {
    let acts = || settled(apart());
    assert!(!differs((passing(), acts()), (passing(), acts())));
}

#[test]
fn an_aborted_message_that_arrives() {
    let acts = || settled(apart());
    assert!(differs(
        (passing(), acts()),
        (aborting(&[("a", 2)]), acts())
    ));
}

#[test]
fn a_slide_too_many() {
    let watching = |slide| {
        let shape = procedure("a", &[(1, messages(1))], &[]);
        let mut acts = vec![
            pushed(1),
            create(owning(shape, "w", 1, last(2, slide), &[])),
        ];
        acts.extend((1..6).map(|at| Act::Message(1, at)));
        settled(acts)
    };
    assert!(differs((passing(), watching(1)), (passing(), watching(2))));
}

#[test]
fn a_nest_taken_apart() {
    let nested = settled(chain(vec![nest(&["a", "b"], &[])]));
    assert!(differs((passing(), settled(apart())), (passing(), nested)));
}

#[test]
fn a_stop_that_does_not_hold() {
    let stopping = |on_abort| {
        let mut acts = apart();
        acts.push(dataflow("d", vec![one("a"), one("b")], on_abort));
        settled(acts)
    };
    let script = || aborting(&[("a", 1)]);
    assert!(differs(
        (script(), stopping(OnAbort::Skip)),
        (script(), stopping(OnAbort::Stop))
    ));
}

#[test]
fn a_pause_that_is_forgotten() {
    let mut paused = apart();
    paused.insert(6, pause("d"));
    assert!(differs(
        (passing(), settled(apart())),
        (passing(), settled(paused))
    ));
}
