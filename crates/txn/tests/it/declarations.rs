//! Declarations that are refused, with their sentences, and what may be declared in any order.

use crate::driver::*;
use somersault_model::StreamUid;
use somersault_txn::{
    Command, Core, Event, OnAbort, StreamShape, StreamSource, TriggerEvent, TriggerShape,
};

/// Streams 1 and 2 are pushed, 3 to 5 interior; `first` passes 1 to 3, `second` 3 to 4, `third`
/// consumes 4.
fn declared() -> Vec<Act> {
    vec![
        pushed(1),
        pushed(2),
        interior(3),
        interior(4),
        interior(5),
        create(procedure("first", &[(1, messages(1))], &[3])),
        create(procedure("second", &[(3, messages(1))], &[4])),
        create(procedure("third", &[(4, messages(1))], &[])),
    ]
}

/// The sentence of a refusal. A refused command changes nothing.
fn refused(act: Act) -> String {
    let mut driver = after(passing(), declared());
    let before = driver.core.freeze();
    let refusal = driver.act(&act).expect_err("it is refused");
    assert_eq!(driver.core.freeze(), before);
    refusal.to_string()
}

fn with(mut acts: Vec<Act>, one: Act) -> Vec<Act> {
    acts.push(one);
    acts
}

fn is_refused(act: Act, sentence: &str) {
    assert_eq!(refused(act), sentence);
}

fn drop_procedure(name: &str) -> Act {
    Act::Command(Command::DropProcedure {
        name: name.to_owned(),
        discard: false,
    })
}

fn drop_dataflow(name: &str) -> Act {
    let name = name.to_owned();
    Act::Command(Command::DropDataflow { name })
}

#[test]
fn a_taken_name_needs_or_replace() {
    is_refused(
        create(procedure("first", &[(1, messages(1))], &[])),
        "a procedure first exists; CREATE OR REPLACE replaces it",
    );
    let flow = |or_replace| {
        let Act::Command(Command::CreateDataflow { shape, .. }) =
            dataflow("d", vec![one("first")], OnAbort::Skip)
        else {
            unreachable!("it is a dataflow");
        };
        Act::Command(Command::CreateDataflow { shape, or_replace })
    };
    let mut driver = after(passing(), with(declared(), flow(false)));
    let refusal = driver.act(&flow(false)).expect_err("the name is taken");
    assert_eq!(
        refusal.to_string(),
        "a dataflow d exists; CREATE OR REPLACE replaces it"
    );
    driver.act(&flow(true)).expect("it is replaced");
}

#[test]
fn a_cycle_is_refused_with_its_way() {
    let first = procedure("first", &[(1, messages(1)), (4, messages(1))], &[3]);
    is_refused(
        replace(first),
        "the procedures feed each other in a circle: first, second, first; break it at one stream",
    );
    is_refused(
        create(procedure("self", &[(5, messages(1))], &[5])),
        "the procedures feed each other in a circle: self, self; break it at one stream",
    );
}

#[test]
fn a_cycle_through_a_nest_is_refused_with_its_way() {
    is_refused(
        dataflow(
            "d",
            vec![nest(&["first", "third"], &[]), one("second")],
            OnAbort::Skip,
        ),
        "the procedures feed each other in a circle: NEST { first, third }, second, \
         NEST { first, third }; break it at one stream",
    );
}

#[test]
fn streams_must_exist_and_fit() {
    is_refused(
        create(procedure("lost", &[(9, messages(1))], &[])),
        "procedure lost names stream <9>, which does not exist; create the stream first",
    );
    is_refused(
        create(procedure("loud", &[(1, messages(1))], &[2])),
        "procedure loud emits into stream <s2>, which clients push into; create the stream with \
         INTERIOR",
    );
    is_refused(
        create(procedure("twice", &[(1, messages(1)), (1, span(5))], &[])),
        "procedure twice consumes stream <s1> twice; name it once",
    );
    for batch in [messages(0), span(0), span(-5)] {
        is_refused(
            create(procedure("none", &[(1, batch)], &[])),
            "procedure none consumes stream <s1> in empty batches; the number or span after BATCH \
             must be above zero",
        );
    }
}

#[test]
fn a_stream_that_amends_is_not_consumed() {
    let mut driver = after(passing(), declared());
    let stream = StreamShape {
        uid: StreamUid(9),
        name: "late".to_owned(),
        source: StreamSource::Pushed,
        amends: true,
    };
    driver
        .act(&Act::Command(Command::CreateStream(stream)))
        .expect("it is created");
    let act = create(procedure("a", &[(9, messages(1))], &[]));
    let refusal = driver.act(&act).expect_err("it is refused").to_string();
    assert!(
        refusal.contains("stream <late> is declared LATE AMEND"),
        "{refusal}"
    );
}

#[test]
fn windows_have_one_owner() {
    let mut driver = after(passing(), declared());
    let keeper = procedure("keeper", &[(2, messages(1))], &[]);
    let keeper = owning(keeper, "w", 2, last(3, 1), &[]);
    driver.act(&create(keeper.clone())).expect("it is created");
    let mut refused = |act: Act| driver.act(&act).expect_err("it is refused").to_string();
    let mut thief = keeper.clone();
    thief.name = "thief".to_owned();
    assert_eq!(
        refused(create(thief)),
        "window <w> belongs to procedure keeper; choose another name"
    );
    let mut looker = procedure("looker", &[(1, messages(1))], &[]);
    looker.triggers.push(TriggerShape {
        on: TriggerEvent::Slides("w".to_owned()),
        emits: vec![],
    });
    assert_eq!(
        refused(create(looker)),
        "procedure looker uses window <w>, which belongs to procedure keeper; a window is visible \
         to its owner alone"
    );
    let mut waker = procedure("waker", &[(1, messages(1))], &[]);
    waker.triggers.push(TriggerShape {
        on: TriggerEvent::Slides("other".to_owned()),
        emits: vec![],
    });
    assert!(refused(create(waker)).contains("which no procedure owns"));
    let twice = owning(keeper.clone(), "w", 2, last(1, 1), &[]);
    assert_eq!(
        refused(replace(twice)),
        "procedure keeper declares window <w> twice; remove one"
    );
    let elsewhere = owning(
        procedure("far", &[(1, messages(1))], &[]),
        "v",
        2,
        last(1, 1),
        &[],
    );
    assert_eq!(
        refused(create(elsewhere)),
        "window <v> is on stream <s2>, which procedure far does not consume; add ON STREAM"
    );
    let empty = owning(
        procedure("flat", &[(1, messages(1))], &[]),
        "v",
        1,
        range(0, 1),
        &[],
    );
    assert_eq!(
        refused(create(empty)),
        "the numbers and spans of window <v> must be above zero"
    );
    driver
        .act(&drop_procedure("keeper"))
        .expect("nothing waits");
    let mut thief = keeper;
    thief.name = "thief".to_owned();
    driver.act(&create(thief)).expect("its owner is gone");
}

#[test]
fn triggers_are_on_what_the_procedure_emits_and_go_in_no_circle() {
    let trigger = |on: u32, into: &[u32]| TriggerShape {
        on: TriggerEvent::Into(StreamUid(on)),
        emits: into.iter().copied().map(StreamUid).collect(),
    };
    let mut hopeful = procedure("hopeful", &[(2, messages(1))], &[]);
    hopeful.triggers.push(trigger(5, &[]));
    is_refused(
        create(hopeful),
        "procedure hopeful has a trigger on stream <s5>, which it does not emit into; add EMIT INTO \
         or remove the trigger",
    );
    let mut round = procedure("round", &[(2, messages(1))], &[4, 5]);
    round.triggers.extend([trigger(4, &[5]), trigger(5, &[4])]);
    is_refused(
        create(round),
        "the triggers of procedure round set each other off in a circle: <s4>, <s5>, <s4>; break it at \
         one stream",
    );
}

#[test]
fn the_names_of_a_dataflow_are_procedures_once_each() {
    is_refused(
        dataflow("strange", vec![one("first"), one("nobody")], OnAbort::Skip),
        "there is no procedure nobody; create it first",
    );
    is_refused(
        dataflow(
            "twice",
            vec![one("first"), nest(&["first", "second"], &[])],
            OnAbort::Skip,
        ),
        "procedure first stands twice in dataflow twice; name it once",
    );
    is_refused(
        dataflow("none", vec![], OnAbort::Skip),
        "dataflow none has no part; name a procedure",
    );
    let mut driver = after(passing(), declared());
    driver
        .act(&dataflow("d", vec![one("first")], OnAbort::Skip))
        .expect("it is created");
    let other = dataflow("e", vec![one("first")], OnAbort::Skip);
    let refusal = driver.act(&other).expect_err("it is refused").to_string();
    assert!(
        refusal.contains("procedure first belongs to dataflow d"),
        "{refusal}"
    );
    let refusal = driver
        .act(&drop_procedure("first"))
        .expect_err("it is refused")
        .to_string();
    assert!(
        refusal.contains("procedure first belongs to dataflow d"),
        "{refusal}"
    );
}

#[test]
fn a_procedure_is_dropped_after_its_dataflow() {
    let third = |act| with(declared(), act);
    let flow = dataflow("d", vec![one("third")], OnAbort::Skip);
    let mut driver = after(passing(), third(flow));
    driver
        .act(&drop_procedure("third"))
        .expect_err("its dataflow is there");
    driver.act(&drop_dataflow("d")).expect("it is dropped");
    driver.act(&drop_procedure("third")).expect("it is dropped");
}

#[test]
fn order_is_among_the_nest_and_not_against_the_streams() {
    let nested = |order: &[(&str, &str)]| {
        dataflow(
            "d",
            vec![nest(&["first", "second"], order), one("third")],
            OnAbort::Skip,
        )
    };
    is_refused(
        nested(&[("second", "first")]),
        "ORDER is against the streams or against itself: first before second before first; turn a \
         pair round or remove it",
    );
    is_refused(
        nested(&[("first", "third")]),
        "ORDER names third, which is not in its NEST; add it to the NEST or remove it",
    );
    after(passing(), declared())
        .act(&nested(&[("first", "second")]))
        .expect("it is created");
}

#[test]
fn a_nest_consumes_nothing_from_inside_another() {
    let mut acts = declared();
    acts.push(create(procedure("beside", &[(1, messages(1))], &[])));
    let mut driver = after(passing(), acts);
    let parts = vec![
        nest(&["first", "beside"], &[]),
        nest(&["second", "third"], &[]),
    ];
    let refusal = driver
        .act(&dataflow("d", parts, OnAbort::Skip))
        .expect_err("it is refused");
    assert_eq!(
        refusal.to_string(),
        "the nest of second consumes stream <s3> from inside the nest of first; put them into one \
         NEST, or take one of them out"
    );
}

#[test]
fn a_called_procedure_is_in_no_nest() {
    let mut acts = declared();
    acts.push(create(procedure("deposit", &[], &[5])));
    let mut driver = after(passing(), acts);
    let parts = vec![nest(&["first", "deposit"], &[])];
    let refusal = driver
        .act(&dataflow("d", parts, OnAbort::Skip))
        .expect_err("it is refused");
    assert!(
        refusal
            .to_string()
            .contains("procedure deposit consumes no stream"),
        "{refusal}"
    );
    let parts = vec![one("first"), one("deposit")];
    driver
        .act(&dataflow("d", parts, OnAbort::Skip))
        .expect("beside nests it may stand");
}

#[test]
fn an_interior_stream_of_a_dataflow_is_filled_by_a_procedure() {
    let mut acts = declared();
    acts.push(create(procedure("early", &[(5, messages(1))], &[])));
    let mut driver = after(passing(), acts);
    let flow = || dataflow("d", vec![one("early")], OnAbort::Skip);
    let refusal = driver.act(&flow()).expect_err("it is refused").to_string();
    assert_eq!(
        refusal,
        "procedure early consumes the interior stream <s5>, which no procedure may fill; create one \
         that emits into it first"
    );
    driver
        .act(&create(procedure("deposit", &[], &[5])))
        .expect("it is created");
    driver.act(&flow()).expect("a call fills it");
}

#[test]
fn what_does_not_exist_is_not_dropped_paused_or_resumed() {
    is_refused(
        drop_procedure("nothing"),
        "there is no procedure nothing; create it first",
    );
    for act in [
        pause("nothing"),
        resume("nothing"),
        drop_dataflow("nothing"),
    ] {
        is_refused(act, "there is no dataflow nothing; create it first");
    }
    is_refused(
        Act::Command(Command::DropStream(StreamUid(3))),
        "stream <s3> is used by procedure first; drop the procedure first",
    );
}

#[test]
fn a_refused_command_in_the_log_is_a_contradiction() {
    let Act::Command(command) = pause("nothing") else {
        unreachable!("it is a command");
    };
    let error = Core::new()
        .apply(&Event::Command(command))
        .expect_err("it is noticed");
    assert!(
        error.to_string().contains("there is no dataflow nothing"),
        "{error}"
    );
}
