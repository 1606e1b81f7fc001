//! The rules of streaming transactions one by one. B, C, I, M, N, S and W with a number are rows of
//! the settled points of the transaction suites; the others are sentences of docs/design.md's
//! source on what one execution does, and in which order.

use crate::driver::*;
use somersault_model::{EventTime, StreamUid};
use somersault_txn::{
    Answer, CallAdmission, Command, DataflowState, Event, Key, OnAbort, Place, Refusal, Round,
};

fn settled(script: Script, acts: Vec<Act>) -> Driver {
    let mut driver = after(script, acts);
    driver.act(&Act::Settle).expect("it settles");
    driver
}

/// Messages of stream 1 at times 1, 2, ….
fn inputs(count: i64) -> impl Iterator<Item = Act> {
    (1..=count).map(|at| Act::Message(1, at))
}

fn with(mut acts: Vec<Act>, more: impl IntoIterator<Item = Act>) -> Vec<Act> {
    acts.extend(more);
    acts
}

/// Names and rounds of the transactions, in their order.
fn order(driver: &Driver) -> Vec<(String, u64)> {
    let number = |round| match round {
        Round::Batch(number) => number,
        Round::Call(number) => 1_000 + number,
    };
    let done = driver.done.iter();
    done.map(|done| (done.names().join("+"), number(done.round)))
        .collect()
}

fn is_order(driver: &Driver, expected: &[(&str, u64)]) {
    let expected = expected
        .iter()
        .map(|(name, round)| ((*name).to_owned(), *round));
    assert_eq!(order(driver), expected.collect::<Vec<_>>());
}

/// The batches of all executions, with their streams.
fn batches(driver: &Driver) -> Vec<Vec<(u32, Vec<u64>)>> {
    let executions = driver.done.iter().flat_map(|done| &done.executions);
    executions
        .map(|execution| execution.batches.clone())
        .collect()
}

/// What windows held after each slide, of the first procedure of each transaction.
fn slides(driver: &Driver) -> Vec<(usize, Vec<u64>)> {
    let executions = driver.done.iter().flat_map(|done| &done.executions);
    executions
        .flat_map(|execution| execution.slides.clone())
        .collect()
}

/// `a` passes stream 1 on to stream 3, `b` consumes that.
fn chain() -> Vec<Act> {
    vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
    ]
}

fn watching(batch: u64, extent: somersault_txn::Extent) -> Vec<Act> {
    let shape = procedure("a", &[(1, messages(batch))], &[]);
    vec![pushed(1), create(owning(shape, "w", 1, extent, &[]))]
}

// Batches.

#[test]
fn a_batch_by_number_is_complete_with_its_last_message_and_a_rest_waits() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, messages(3))], &[]))];
    let driver = settled(passing(), with(acts, inputs(8)));
    assert_eq!(
        batches(&driver),
        [vec![(1, vec![1, 2, 3])], vec![(1, vec![4, 5, 6])]]
    );
    let uid = driver.core.procedures().next().expect("it is declared").0;
    assert_eq!(driver.core.waiting(uid, StreamUid(1)), 2);
}

#[test]
fn b2_a_batch_by_time_is_complete_when_its_stream_has_reached_its_end() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, span(10))], &[]))];
    let acts = with(acts, [3, 7].map(|at| Act::Message(1, at)));
    let mut driver = settled(passing(), with(acts, [Act::Complete(1, 9)]));
    assert_eq!(driver.done.len(), 0);
    driver.act(&Act::Complete(1, 10)).expect("it is taken");
    driver.act(&Act::Settle).expect("it settles");
    assert_eq!(batches(&driver), [[(1, vec![1, 2])]]);
}

#[test]
fn b2_an_interval_without_messages_makes_no_batch_and_takes_no_number() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, span(10))], &[]))];
    let acts = with(acts, [3, 35].map(|at| Act::Message(1, at)));
    let driver = settled(passing(), with(acts, [Act::Complete(1, 40)]));
    is_order(&driver, &[("a", 1), ("a", 2)]);
}

#[test]
fn b3_the_event_time_of_a_batch_is_the_greatest_of_its_messages() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, span(10))], &[3])),
    ];
    let acts = with(acts, [3, 8, 5].map(|at| Act::Message(1, at)));
    let driver = settled(passing(), with(acts, [Act::Complete(1, 20)]));
    assert_eq!(driver.done[0].executions[0].now, 8);
    assert_eq!(driver.done[0].emitted, [(3, 1, 8)]);
}

#[test]
fn a_consumer_declared_later_begins_with_the_next_message() {
    let acts = with(vec![pushed(1)], inputs(4));
    let acts = with(
        acts,
        [
            create(procedure("a", &[(1, messages(1))], &[])),
            Act::Message(1, 9),
        ],
    );
    let driver = settled(passing(), acts);
    assert_eq!(batches(&driver), [[(1, vec![5])]]);
}

#[test]
fn the_first_consumer_of_a_stream_is_told_where_it_stands() {
    let begins = vec![somersault_txn::Beginning {
        stream: StreamUid(1),
        next: Place(41),
        through: EventTime(30),
    }];
    let create = Act::Command(Command::CreateProcedure {
        shape: procedure("a", &[(1, messages(1))], &[]),
        or_replace: false,
        begins,
    });
    let driver = settled(passing(), vec![pushed(1), create, Act::Message(1, 31)]);
    assert_eq!(batches(&driver), [[(1, vec![41])]]);
    assert_eq!(driver.core.through(StreamUid(1)), Some(EventTime(30)));
}

#[test]
fn each_consumer_of_a_stream_has_its_own_position() {
    let acts = vec![
        pushed(1),
        create(procedure("a", &[(1, messages(1))], &[])),
        create(procedure("b", &[(1, messages(2))], &[])),
    ];
    let driver = settled(passing(), with(acts, inputs(3)));
    is_order(&driver, &[("a", 1), ("a", 2), ("b", 1), ("a", 3)]);
}

#[test]
fn messages_are_kept_until_all_consumers_and_windows_are_done_with_them() {
    let b = procedure("b", &[(1, messages(2))], &[]);
    let acts = with(watching(1, last(3, 1)), [create(b)]);
    let driver = settled(passing(), with(acts, inputs(7)));
    // `b` waits for the eighth message, and the window holds the fifth.
    assert_eq!(driver.released[&1], 5);
    let holder = driver.core.holder(StreamUid(1)).expect("the stream exists");
    let holder = holder.1.map(|procedure| driver.core.name(procedure));
    assert_eq!(holder.as_deref(), Some("a"));
}

// Rounds.

#[test]
fn committed_messages_activate_their_consumers() {
    let driver = settled(passing(), with(chain(), inputs(2)));
    is_order(&driver, &[("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
}

#[test]
fn an_interior_procedure_runs_exactly_where_its_stream_has_a_batch() {
    let script = listed(&[("a", 2, &[3]), ("a", 4, &[3])]);
    let driver = settled(script, with(chain(), inputs(4)));
    is_order(
        &driver,
        &[("a", 1), ("a", 2), ("b", 2), ("a", 3), ("a", 4), ("b", 4)],
    );
}

#[test]
fn i1_each_emission_is_a_batch_of_its_round() {
    let driver = settled(listed(&[("a", 1, &[3, 3])]), with(chain(), inputs(1)));
    is_order(&driver, &[("a", 1), ("b", 1), ("b", 1)]);
    assert_eq!(batches(&driver)[1..], [[(3, vec![1])], [(3, vec![2])]]);
}

#[test]
fn a_batch_may_begin_with_the_rest_of_the_round_before() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(2))], &[])),
    ];
    let three: &[u32] = &[3, 3, 3];
    let script = listed(&[("a", 1, three), ("a", 2, three), ("a", 3, three)]);
    let driver = settled(script, with(acts, inputs(3)));
    is_order(
        &driver,
        &[
            ("a", 1),
            ("b", 1),
            ("a", 2),
            ("b", 2),
            ("b", 2),
            ("a", 3),
            ("b", 3),
        ],
    );
    let of_b = batches(&driver).into_iter().flatten();
    let of_b = of_b.filter(|(stream, _)| *stream == 3);
    let places = of_b.map(|(_, places)| places);
    assert_eq!(places.collect::<Vec<_>>(), [[1, 2], [3, 4], [5, 6], [7, 8]]);
}

#[test]
fn an_execution_belongs_to_the_round_of_its_last_message() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(2))], &[])),
    ];
    let driver = settled(passing(), with(acts, inputs(3)));
    is_order(&driver, &[("a", 1), ("a", 2), ("b", 2), ("a", 3)]);
}

/// `a` splits stream 1 into 3 and 4, `c` joins them.
fn diamond() -> Vec<Act> {
    vec![
        pushed(1),
        interior(3),
        interior(4),
        create(procedure("a", &[(1, messages(1))], &[3, 4])),
        create(procedure("c", &[(3, messages(1)), (4, messages(1))], &[])),
    ]
}

#[test]
fn i2_a_side_without_messages_of_the_round_is_empty() {
    let script = listed(&[("a", 1, &[3, 4]), ("a", 2, &[4]), ("a", 4, &[3])]);
    let driver = settled(script, with(diamond(), inputs(4)));
    is_order(
        &driver,
        &[
            ("a", 1),
            ("c", 1),
            ("a", 2),
            ("c", 2),
            ("a", 3),
            ("a", 4),
            ("c", 4),
        ],
    );
    let of_c = batches(&driver)
        .into_iter()
        .filter(|batches| batches[0].0 != 1);
    let expected = [
        vec![(3, vec![1]), (4, vec![1])],
        vec![(4, vec![2])],
        vec![(3, vec![2])],
    ];
    assert_eq!(of_c.collect::<Vec<_>>(), expected);
}

#[test]
fn i2_a_join_runs_as_often_as_its_longest_side() {
    let driver = settled(listed(&[("a", 1, &[3, 3, 4])]), with(diamond(), inputs(1)));
    let expected = [vec![(3, vec![1]), (4, vec![1])], vec![(3, vec![2])]];
    assert_eq!(batches(&driver)[1..], expected);
}

#[test]
fn a_round_of_two_border_streams_needs_the_next_batch_of_each() {
    let join = procedure("a", &[(1, messages(2)), (2, messages(1))], &[]);
    let acts = with(vec![pushed(1), pushed(2), create(join)], inputs(5));
    let mut driver = settled(passing(), acts);
    assert_eq!(driver.done.len(), 0);
    driver.act(&Act::Message(2, 1)).expect("it is taken");
    driver.act(&Act::Settle).expect("it settles");
    assert_eq!(batches(&driver), [[(1, vec![1, 2]), (2, vec![1])]]);
}

#[test]
fn a_join_waits_for_the_round_of_its_slower_border_while_the_faster_goes_on() {
    let acts = vec![
        pushed(1),
        pushed(2),
        interior(3),
        interior(4),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(2, messages(1))], &[4])),
        create(procedure("c", &[(3, messages(1)), (4, messages(1))], &[])),
    ];
    let acts = with(with(acts, inputs(2)), [Act::Settle, Act::Message(2, 1)]);
    let driver = settled(passing(), acts);
    is_order(&driver, &[("a", 1), ("a", 2), ("b", 1), ("c", 1)]);
}

#[test]
fn an_aborted_round_is_an_empty_side_of_a_join() {
    let acts = vec![
        pushed(1),
        pushed(2),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("c", &[(3, messages(1)), (2, messages(1))], &[])),
    ];
    let acts = with(acts, [Act::Message(1, 1), Act::Message(2, 1)]);
    let driver = settled(aborting(&[("a", 1)]), acts);
    is_order(&driver, &[("a", 1), ("c", 1)]);
    assert_eq!(batches(&driver)[1], [(2, vec![1])]);
}

#[test]
fn a_border_stream_of_a_later_join_begins_with_the_round_that_comes() {
    let acts = with(with(chain(), [pushed(2)]), inputs(3));
    let join = procedure("c", &[(3, messages(1)), (2, messages(1))], &[]);
    let acts = with(
        acts,
        [
            Act::Settle,
            create(join),
            Act::Message(1, 4),
            Act::Message(2, 1),
        ],
    );
    let driver = settled(passing(), acts);
    let last = driver.done.last().expect("the join runs");
    assert_eq!((last.names(), last.round), (vec!["c"], Round::Batch(4)));
    assert_eq!(last.executions[0].batches, [(3, vec![4]), (2, vec![1])]);
}

#[test]
fn the_procedures_of_a_later_nest_take_the_same_message() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, messages(1))], &[]))];
    let acts = with(with(acts, inputs(3)), [Act::Settle]);
    let acts = with(
        acts,
        [
            create(procedure("b", &[(1, messages(1))], &[])),
            dataflow("d", vec![nest(&["a", "b"], &[])], OnAbort::Skip),
            Act::Message(1, 4),
        ],
    );
    let driver = settled(passing(), acts);
    let last = driver.done.last().expect("the nest runs");
    assert_eq!(
        (last.names(), last.round),
        (vec!["a", "b"], Round::Batch(4))
    );
}

// Order.

#[test]
fn a_round_runs_along_the_graph_and_equals_in_the_order_of_the_text() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
        create(procedure("c", &[(3, messages(1))], &[])),
        dataflow("d", vec![one("c"), one("b"), one("a")], OnAbort::Skip),
    ];
    let driver = settled(passing(), with(acts, inputs(2)));
    is_order(
        &driver,
        &[("a", 1), ("c", 1), ("b", 1), ("a", 2), ("c", 2), ("b", 2)],
    );
}

#[test]
fn border_batches_run_in_the_order_in_which_inputs_completed_them() {
    let acts = vec![
        pushed(1),
        pushed(2),
        create(procedure("a", &[(1, messages(2))], &[])),
        create(procedure("b", &[(2, messages(1))], &[])),
    ];
    let acts = with(
        acts,
        [Act::Message(1, 1), Act::Message(2, 1), Act::Message(1, 2)],
    );
    is_order(&settled(passing(), acts), &[("b", 1), ("a", 1)]);
}

#[test]
fn rounds_that_lead_to_an_absent_procedure_do_not_begin() {
    let chained = with(chain(), [create(procedure("c", &[(1, messages(1))], &[]))]);
    let driver = after(passing(), with(chained, inputs(1)));
    let core = &driver.core;
    let absent = |names: &[&str]| {
        let uids = core.procedures();
        let named = uids.filter(|(_, shape)| names.contains(&&*shape.name));
        named.map(|(uid, _)| uid).collect()
    };
    let next = |names: &[&str]| {
        let next = core.next_without(&absent(names))?;
        Some(core.name(next.procedures()[0]))
    };
    assert_eq!(next(&[]).as_deref(), Some("a"));
    assert_eq!(core.next_without(&absent(&[])), core.next());
    assert_eq!(next(&["a"]).as_deref(), Some("c"));
    assert_eq!(next(&["b"]).as_deref(), Some("c"), "a leads to b");
    assert_eq!(next(&["c"]).as_deref(), Some("a"));
    assert_eq!(next(&["b", "c"]), None);
}

#[test]
fn a_call_is_a_round_of_its_own_and_is_walked_through_the_graph() {
    let acts = with(chain(), [create(procedure("deposit", &[], &[3]))]);
    let acts = with(with(acts, inputs(1)), [Act::Call("deposit".to_owned(), 7)]);
    let driver = settled(passing(), acts);
    is_order(
        &driver,
        &[("deposit", 1_001), ("b", 1_001), ("a", 1), ("b", 1)],
    );
    assert_eq!(driver.done[1].executions[0].now, 7);
}

#[test]
fn a_call_stands_before_rounds_that_wait_for_the_other_side_of_a_join() {
    let acts = with(diamond(), [create(procedure("deposit", &[], &[3, 4]))]);
    let acts = with(
        acts,
        [
            pushed(2),
            interior(5),
            create(procedure("b", &[(2, messages(1))], &[5])),
        ],
    );
    let join = procedure("j", &[(3, messages(1)), (5, messages(1))], &[]);
    let acts = with(with(acts, [create(join)]), inputs(1));
    let acts = with(acts, [Act::Settle, Act::Call("deposit".to_owned(), 7)]);
    let driver = settled(passing(), acts);
    // Round 1 of `j` waits for `b`, and the call's round does not.
    let of_j = order(&driver).into_iter().filter(|(name, _)| name == "j");
    assert_eq!(of_j.collect::<Vec<_>>(), [("j".to_owned(), 1_001)]);
}

#[test]
fn calls_run_between_executions_and_triggered_ones_are_marked() {
    let mut driver = after(passing(), with(chain(), inputs(1)));
    assert!(!driver.core.next().expect("a batch waits").is_triggered());
    driver.act(&Act::Run).expect("it runs");
    assert!(driver.core.next().expect("b is due").is_triggered());
}

// Nests.

/// `a` passes stream 1 to 3, `b` passes 3 to 4, both in one nest; `c` consumes 4 outside.
fn nested() -> Vec<Act> {
    vec![
        pushed(1),
        interior(3),
        interior(4),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[4])),
        create(procedure("c", &[(4, messages(1))], &[])),
        dataflow("d", vec![nest(&["a", "b"], &[]), one("c")], OnAbort::Skip),
    ]
}

#[test]
fn n1_the_children_of_a_nest_are_one_transaction_of_their_border_batchs_round() {
    let driver = settled(passing(), with(nested(), inputs(2)));
    is_order(&driver, &[("a+b", 1), ("c", 1), ("a+b", 2), ("c", 2)]);
    assert_eq!(driver.done[0].emitted, [(3, 1, 1), (4, 1, 1)]);
}

#[test]
fn n1_consumers_outside_are_activated_after_the_commit() {
    let driver = after(passing(), with(nested(), inputs(1)));
    let transaction = driver.core.next().expect("a batch waits");
    let mut run = driver.core.run(&transaction);
    run.step().expect("a runs");
    run.emit(StreamUid(3));
    run.step().expect("b runs");
    run.emit(StreamUid(4));
    assert_eq!(
        driver.core.next().as_ref(),
        Some(&transaction),
        "nothing has changed outside"
    );
}

#[test]
fn n2_an_abort_in_a_nest_undoes_all_and_is_reported_once() {
    let driver = settled(aborting(&[("b", 1)]), with(nested(), inputs(2)));
    // Place 1 of stream 3 is free again after the first abort, so the second round aborts, too.
    is_order(&driver, &[("a+b", 1), ("a+b", 2)]);
    let status = driver.core.dataflow("d").expect("it exists");
    let aborted = status
        .aborted
        .iter()
        .map(|of| (of.procedure.as_str(), of.round));
    let expected = [("b", Round::Batch(1)), ("b", Round::Batch(2))];
    assert_eq!(aborted.collect::<Vec<_>>(), expected);
    assert_eq!(driver.core.next_place(StreamUid(3)), Some(Place(1)));
    assert_eq!(driver.core.holder(StreamUid(1)), Some((Place(3), None)));
}

/// In one nest, `a` passes stream 1 to 3, `b` takes two messages of 3 and passes them to 4, and `c`
/// consumes a stream; `later` consumes 3 outside.
fn nested_with_rest(of_c: u32) -> Vec<Act> {
    vec![
        pushed(1),
        interior(3),
        interior(4),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(2))], &[4])),
        create(procedure("c", &[(of_c, messages(1))], &[])),
        create(procedure("later", &[(3, messages(1))], &[])),
        dataflow(
            "d",
            vec![nest(&["a", "b", "c"], &[]), one("later")],
            OnAbort::Skip,
        ),
    ]
}

#[test]
fn a_rest_inside_of_a_nest_waits_for_a_later_round() {
    let driver = settled(passing(), with(nested_with_rest(4), inputs(2)));
    is_order(
        &driver,
        &[("a", 1), ("later", 1), ("a+b+c", 2), ("later", 2)],
    );
    assert_eq!(
        batches(&driver)[2..5],
        [[(1, vec![2])], [(3, vec![1, 2])], [(4, vec![1])]]
    );
}

#[test]
fn n2_an_abort_in_a_nest_gives_back_the_rest_inside_of_it() {
    let script = aborting(&[("c", 2)]);
    let driver = settled(script, with(nested_with_rest(1), inputs(4)));
    is_order(
        &driver,
        &[
            ("a+c", 1),
            ("later", 1),
            ("a+b+c", 2),
            ("a+b+c", 3),
            ("later", 3),
            ("a+c", 4),
            ("later", 4),
        ],
    );
    let of_b = driver.done.iter().flat_map(|done| &done.executions);
    let of_b = of_b.filter(|execution| execution.procedure == "b");
    let of_b = of_b.map(|execution| execution.batches.clone());
    let rest = vec![(3, vec![1, 2])];
    assert_eq!(of_b.collect::<Vec<_>>(), [rest.clone(), rest]);
    assert_eq!(driver.core.holder(StreamUid(1)), Some((Place(5), None)));
}

#[test]
fn n2_an_abort_undoes_the_executions_of_its_round_that_went_well() {
    let acts = vec![
        pushed(1),
        interior(3),
        interior(4),
        create(procedure("a", &[(1, messages(1))], &[3, 3])),
        create(procedure("b", &[(3, messages(1))], &[4])),
        create(procedure("c", &[(4, messages(1))], &[])),
        dataflow("d", vec![one("a"), nest(&["b", "c"], &[])], OnAbort::Skip),
    ];
    let driver = settled(aborting(&[("c", 2)]), with(acts, inputs(2)));
    is_order(
        &driver,
        &[("a", 1), ("b+b+c+c", 1), ("a", 2), ("b+b+c+c", 2)],
    );
    let status = driver.core.dataflow("d").expect("it exists");
    assert_eq!(status.aborted.len(), 2);
    assert_eq!(driver.core.next_place(StreamUid(4)), Some(Place(1)));
    assert_eq!(driver.core.next_place(StreamUid(3)), Some(Place(5)));
}

#[test]
fn order_in_a_nest_decides_between_children_that_no_stream_orders() {
    let acts = vec![
        pushed(1),
        create(procedure("audit", &[(1, messages(1))], &[])),
        create(procedure("tally", &[(1, messages(1))], &[])),
        dataflow(
            "d",
            vec![nest(&["audit", "tally"], &[("tally", "audit")])],
            OnAbort::Skip,
        ),
    ];
    let driver = settled(passing(), with(acts, inputs(1)));
    is_order(&driver, &[("tally+audit", 1)]);
}

#[test]
fn units_are_listed_in_the_order_of_a_round() {
    let driver = after(passing(), nested());
    let names = |(children, dataflow): (&[somersault_txn::ProcedureUid], Option<&str>)| {
        let names = children.iter().map(|child| driver.core.name(*child));
        (
            names.collect::<Vec<_>>().join("+"),
            dataflow.map(str::to_owned),
        )
    };
    let units: Vec<_> = driver.core.units().map(names).collect();
    let d = Some("d".to_owned());
    assert_eq!(units, [("a+b".to_owned(), d.clone()), ("c".to_owned(), d)]);
}

#[test]
fn several_executions_of_a_round_are_one_transaction_of_a_nest() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
        create(procedure("c", &[(3, messages(1))], &[])),
        dataflow("d", vec![one("a"), nest(&["b", "c"], &[])], OnAbort::Skip),
    ];
    let driver = settled(listed(&[("a", 1, &[3, 3])]), with(acts, inputs(1)));
    is_order(&driver, &[("a", 1), ("b+b+c+c", 1)]);
}

// Aborts, STOP, PAUSE.

#[test]
fn an_abort_leaves_nothing_but_its_reason_and_the_batch_counts_as_consumed() {
    let script = aborting(&[("a", 2)]);
    let acts = with(watching(1, last(2, 1)), [interior(3)]);
    let driver = settled(script, with(acts, inputs(4)));
    is_order(&driver, &[("a", 1), ("a", 2), ("a", 3), ("a", 4)]);
    // The second message never enters the window.
    assert_eq!(
        slides(&driver),
        [(0, vec![1, 2]), (0, vec![1, 3]), (0, vec![3, 4])]
    );
    let uid = driver.core.procedures().next().expect("it is declared").0;
    let aborted = driver.core.aborted(uid);
    assert_eq!((aborted.newest.len(), aborted.dropped), (1, 0));
    let only = &aborted.newest[0];
    assert_eq!(
        (only.round, only.reason.as_str()),
        (Round::Batch(2), "scripted")
    );
    assert_eq!(driver.core.last_abort(uid), Some(only));
}

#[test]
fn aborts_are_listed_with_their_times_and_the_oldest_are_dropped_and_counted() {
    let rounds: Vec<(&str, u64)> = (1..=1_003).map(|round| ("a", round)).collect();
    let flow = dataflow("d", vec![one("a"), one("b")], OnAbort::Skip);
    let acts = with(with(chain(), [flow]), inputs(1_005));
    let driver = settled(aborting(&rounds), acts);
    let list = driver.core.aborted_in("d").expect("it exists");
    assert_eq!((list.newest.len(), list.dropped), (1_000, 3));
    assert_eq!(list.newest[0].round, Round::Batch(4));
    assert_eq!(list.newest[0].at, EventTime(4), "that of its batch");
    let last = list.newest.last();
    let counted = driver.core.aborts_of_dataflow("d");
    assert_eq!(counted, Some((1_003, last)));
    let uid = |name: &str| {
        let mut all = driver.core.procedures();
        all.find(|(_, shape)| shape.name == name)
            .expect("it is declared")
            .0
    };
    assert_eq!(driver.core.aborted(uid("a")), list);
    assert_eq!(driver.core.aborted(uid("b")).newest, []);
    assert_eq!(driver.core.rounds_of("d"), 1_005);
    assert_eq!(
        crate::laws::thawed(&driver.core).aborted_in("d"),
        Some(list)
    );
}

#[test]
fn a_held_dataflow_says_what_waits() {
    let flow = dataflow("d", vec![one("a"), one("b")], OnAbort::Stop);
    let acts = with(with(chain(), [flow]), inputs(4));
    let driver = settled(aborting(&[("a", 2)]), acts);
    let state = driver.core.dataflow_state("d");
    assert!(matches!(state, Some(DataflowState::Stopped(of)) if of.at == EventTime(2)));
    let uid = driver.core.procedures().next().expect("it is declared").0;
    let inlets = driver.core.inlets_of(uid);
    assert_eq!(inlets.len(), 1);
    let counts = (
        inlets[0].batches,
        inlets[0].waiting_batches,
        inlets[0].waiting_messages,
    );
    assert_eq!(counts, (2, 2, 2));
    assert_eq!(driver.core.waiting_batches(), 2);
}

#[test]
fn s1_stop_consumes_the_round_and_later_ones_wait_until_resume() {
    let flow = dataflow("d", vec![one("a"), one("b")], OnAbort::Stop);
    let acts = with(chain(), [flow, create(procedure("deposit", &[], &[]))]);
    let mut driver = settled(aborting(&[("a", 2)]), with(acts, inputs(4)));
    is_order(&driver, &[("a", 1), ("b", 1), ("a", 2)]);
    let state = driver.core.dataflow("d").expect("it exists").state;
    assert!(matches!(state, DataflowState::Stopped(of) if of.procedure == "a"));
    for act in [
        Act::Message(1, 9),
        Act::Call("deposit".to_owned(), 9),
        resume("d"),
        resume("d"),
    ] {
        driver
            .act(&act)
            .expect("pushes are taken and calls answered");
    }
    driver.act(&Act::Settle).expect("it settles");
    assert_eq!(order(&driver).len(), 10);
    let state = driver.core.dataflow("d").expect("it exists").state;
    assert_eq!(state, DataflowState::Running);
}

#[test]
fn s1_pause_of_a_stopped_dataflow_changes_nothing() {
    let flow = dataflow("d", vec![one("a"), one("b")], OnAbort::Stop);
    let acts = with(with(chain(), [flow]), inputs(2));
    let mut driver = settled(aborting(&[("a", 1)]), acts);
    let before = driver.core.freeze();
    driver.act(&pause("d")).expect("it is taken");
    assert_eq!(driver.core.freeze(), before);
    driver.act(&resume("d")).expect("it goes on");
    driver.act(&Act::Settle).expect("it settles");
    is_order(&driver, &[("a", 1), ("a", 2), ("b", 2)]);
}

#[test]
fn s1_what_a_round_has_begun_is_ended_before_the_stop() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
        create(procedure("c", &[(3, messages(1))], &[])),
        dataflow("d", vec![one("a"), one("b"), one("c")], OnAbort::Stop),
    ];
    let driver = settled(aborting(&[("b", 1)]), with(acts, inputs(2)));
    is_order(&driver, &[("a", 1), ("b", 1), ("c", 1)]);
}

#[test]
fn pause_holds_rounds_and_those_of_later_calls() {
    let flow = dataflow("d", vec![one("a"), one("b")], OnAbort::Skip);
    let acts = with(chain(), [flow, create(procedure("deposit", &[], &[3]))]);
    let acts = with(acts, [Act::Message(1, 1), Act::Run, pause("d"), pause("d")]);
    let acts = with(
        acts,
        [Act::Message(1, 2), Act::Call("deposit".to_owned(), 5)],
    );
    let mut driver = settled(passing(), acts);
    is_order(&driver, &[("a", 1), ("deposit", 1_001), ("b", 1)]);
    driver.act(&resume("d")).expect("it goes on");
    driver.act(&Act::Settle).expect("it settles");
    assert_eq!(order(&driver)[3..].len(), 3);
}

// Windows.

#[test]
fn w1_a_staged_message_is_not_visible_and_becoming_full_is_the_first_slide() {
    let driver = settled(passing(), with(watching(1, last(3, 2)), inputs(6)));
    let saw = driver
        .done
        .iter()
        .map(|done| done.executions[0].saw[0].clone());
    let full = vec![1, 2, 3];
    let expected = [
        vec![],
        vec![],
        full.clone(),
        full,
        vec![3, 4, 5],
        vec![3, 4, 5],
    ];
    assert_eq!(saw.collect::<Vec<_>>(), expected);
}

#[test]
fn w2_messages_of_one_batch_are_staged_one_after_the_other() {
    let driver = settled(passing(), with(watching(7, last(5, 2)), inputs(7)));
    assert_eq!(
        slides(&driver),
        [(0, vec![1, 2, 3, 4, 5]), (0, vec![3, 4, 5, 6, 7])]
    );
}

#[test]
fn a_window_with_a_slide_above_its_size_samples() {
    let driver = settled(passing(), with(watching(1, last(2, 3)), inputs(8)));
    assert_eq!(
        slides(&driver),
        [(0, vec![1, 2]), (0, vec![4, 5]), (0, vec![7, 8])]
    );
}

#[test]
fn w3_the_first_close_is_the_first_that_a_full_range_precedes() {
    let times = [12, 25, 41, 42, 50].map(|at| Act::Message(1, at));
    let driver = settled(passing(), with(watching(1, range(30, 10)), times));
    // 10 + 30 = 40 is the first close.
    assert_eq!(slides(&driver), [(0, vec![1, 2]), (0, vec![2, 3, 4])]);
}

#[test]
fn w3_all_closes_up_to_the_greatest_time_of_a_batch_by_messages_are_due() {
    let times = [10, 25, 61].map(|at| Act::Message(1, at));
    let driver = settled(passing(), with(watching(3, range(20, 10)), times));
    // Closes 30, 40; 50 and 60 hold nothing.
    assert_eq!(slides(&driver), [(0, vec![1, 2]), (0, vec![2])]);
}

#[test]
fn w3_closes_up_to_the_end_of_a_batch_by_time_are_due() {
    let shape = procedure("a", &[(1, span(20))], &[]);
    let acts = vec![pushed(1), create(owning(shape, "w", 1, range(10, 10), &[]))];
    let acts = with(acts, [21, 33].map(|at| Act::Message(1, at)));
    let driver = settled(passing(), with(acts, [Act::Complete(1, 40)]));
    assert_eq!(slides(&driver), [(0, vec![1]), (0, vec![2])]);
}

#[test]
fn slides_that_hold_nothing_are_passed_in_bulk() {
    let far = 1_000_000_000_000;
    let times = [1, far, far + 1].map(|at| Act::Message(1, at));
    let driver = settled(passing(), with(watching(1, range(2, 1)), times));
    assert_eq!(slides(&driver), [(0, vec![1]), (0, vec![2])]);
    assert_eq!(
        driver.done[1].executions[0].saw,
        [Vec::<u64>::new()],
        "what has left is not seen"
    );
}

#[test]
fn of_several_windows_the_first_declared_slides_first() {
    let shape = procedure("a", &[(1, messages(3))], &[]);
    let shape = owning(shape, "long", 1, last(3, 1), &[]);
    let acts = vec![
        pushed(1),
        create(owning(shape, "short", 1, last(1, 1), &[])),
    ];
    let driver = settled(passing(), with(acts, inputs(3)));
    let windows: Vec<usize> = slides(&driver).iter().map(|(window, _)| *window).collect();
    assert_eq!(windows, [0, 1, 1, 1]);
}

#[test]
fn of_windows_on_several_streams_the_first_declared_slides_first() {
    let shape = procedure("a", &[(1, messages(3)), (2, messages(1))], &[]);
    let shape = owning(shape, "far", 2, last(1, 1), &[]);
    let shape = owning(shape, "near", 1, last(2, 1), &[]);
    let acts = vec![pushed(1), pushed(2), create(shape), Act::Message(2, 1)];
    let driver = settled(passing(), with(acts, inputs(3)));
    assert_eq!(
        slides(&driver),
        [(0, vec![1]), (1, vec![1, 2]), (1, vec![2, 3])]
    );
}

#[test]
fn an_abort_undoes_the_slides_of_a_nest() {
    let shape = owning(
        procedure("b", &[(3, messages(1))], &[]),
        "w",
        3,
        last(2, 1),
        &[],
    );
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(1))], &[3])),
        create(shape),
        create(procedure("c", &[(1, messages(1))], &[])),
        dataflow("d", vec![nest(&["a", "b", "c"], &[])], OnAbort::Skip),
    ];
    let driver = settled(aborting(&[("c", 2)]), with(acts, inputs(4)));
    // The second message of stream 3 is undone, so place 2 comes again.
    assert_eq!(
        slides(&driver),
        [(0, vec![1, 2]), (0, vec![1, 2]), (0, vec![2, 3])]
    );
}

#[test]
fn a_trigger_of_a_window_emits_inside_of_its_transaction() {
    let shape = procedure("a", &[(1, messages(1))], &[]);
    let acts = vec![
        pushed(1),
        interior(3),
        create(owning(shape, "w", 1, last(2, 1), &[3])),
        create(procedure("b", &[(3, messages(1))], &[])),
    ];
    let driver = settled(listed(&[]), with(acts, inputs(3)));
    is_order(&driver, &[("a", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]);
}

// WHEN INTO, replacements, drops.

#[test]
fn i3_an_emitted_message_has_its_place_before_the_next_step() {
    let driver = after(passing(), with(chain(), inputs(1)));
    let transaction = driver.core.next().expect("a batch waits");
    let mut run = driver.core.run(&transaction);
    run.step().expect("a runs");
    let places = [run.emit(StreamUid(3)).place, run.emit(StreamUid(3)).place];
    assert_eq!(places, [Place(1), Place(2)]);
    assert_eq!(run.step(), None, "consumers run after the commit");
}

#[test]
fn or_replace_goes_on_at_its_place_and_keeps_a_window_with_the_same_clause() {
    let watch = |extent| {
        owning(
            procedure("a", &[(1, messages(1))], &[]),
            "w",
            1,
            extent,
            &[],
        )
    };
    let acts = with(watching(1, last(2, 1)), inputs(3));
    let acts = with(
        acts,
        [
            Act::Settle,
            replace(watch(last(2, 1))),
            Act::Message(1, 4),
            Act::Settle,
        ],
    );
    let acts = with(acts, [replace(watch(last(3, 1))), Act::Message(1, 5)]);
    let driver = settled(passing(), acts);
    is_order(&driver, &[("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 5)]);
    let saw = driver
        .done
        .iter()
        .map(|done| done.executions[0].saw[0].clone());
    assert_eq!(saw.collect::<Vec<_>>()[3..], [vec![3, 4], vec![]]);
}

#[test]
fn or_replace_cuts_waiting_messages_by_the_new_clause() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, messages(3))], &[]))];
    let acts = with(with(acts, inputs(5)), [Act::Run]);
    let replacement = replace(procedure("a", &[(1, messages(2))], &[]));
    let driver = settled(passing(), with(acts, [replacement]));
    assert_eq!(batches(&driver), [[(1, vec![1, 2, 3])], [(1, vec![4, 5])]]);
    is_order(&driver, &[("a", 1), ("a", 2)]);
}

#[test]
fn a_consumer_is_dropped_with_discard_while_messages_wait() {
    let acts = vec![pushed(1), create(procedure("a", &[(1, messages(3))], &[]))];
    let mut driver = after(passing(), with(acts, inputs(2)));
    let drop = |discard| {
        let name = "a".to_owned();
        Act::Command(Command::DropProcedure { name, discard })
    };
    let refusal = driver.act(&drop(false)).expect_err("two messages wait");
    assert_eq!(
        refusal.to_string(),
        "2 messages of stream <s1> wait for procedure a; let it consume them, or add DISCARD to DROP"
    );
    driver.act(&drop(true)).expect("they are given up");
    assert_eq!(driver.released[&1], 3);
}

// Times of interior streams.

#[test]
fn an_interior_stream_is_complete_through_what_leads_to_it() {
    let mut driver = settled(
        passing(),
        with(chain(), [Act::Message(1, 5), Act::Complete(1, 8)]),
    );
    driver.act(&Act::Message(1, 9)).expect("it is taken");
    driver.act(&Act::Complete(1, 20)).expect("it is taken");
    driver.act(&Act::Advance).expect("it is applied");
    // The message at 9 waits for `a`.
    assert_eq!(driver.core.through(StreamUid(3)), Some(EventTime(9)));
    driver.act(&Act::Settle).expect("it settles");
    driver.act(&Act::Advance).expect("it is applied");
    assert_eq!(driver.core.through(StreamUid(3)), Some(EventTime(20)));
}

#[test]
fn a_rest_holds_back_what_an_interior_stream_is_complete_through() {
    let acts = vec![
        pushed(1),
        interior(3),
        create(procedure("a", &[(1, messages(2))], &[3])),
        create(procedure("b", &[(3, span(10))], &[])),
    ];
    let inputs = [3, 5, 12].map(|at| Act::Message(1, at));
    let mut driver = after(passing(), with(acts, inputs));
    let mut through = |more: &[Act]| {
        for act in more.iter().chain(&[Act::Settle, Act::Advance, Act::Settle]) {
            driver.act(act).expect("it is taken");
        }
        (driver.core.through(StreamUid(3)), driver.done.len())
    };
    // The message at 12 waits for another one.
    let rest = Some(EventTime(12));
    assert_eq!(through(&[Act::Complete(1, 12)]), (rest, 2));
    assert_eq!(through(&[Act::Complete(1, 40)]), (rest, 2));
    let late = Some(EventTime(40));
    assert_eq!(through(&[Act::Message(1, 41)]), (late, 3));
}

#[test]
fn a_message_of_a_call_is_not_older_than_its_stream_is_complete_through() {
    let acts = with(
        chain(),
        [
            create(procedure("deposit", &[], &[3])),
            Act::Complete(1, 20),
        ],
    );
    let acts = with(acts, [Act::Advance, Act::Call("deposit".to_owned(), 7)]);
    let driver = after(passing(), acts);
    assert_eq!(driver.done[0].emitted, [(3, 1, 20)]);
}

// Calls.

fn till(number: u64) -> Option<Key> {
    Some(Key {
        source: "till".to_owned(),
        number,
    })
}

#[test]
fn c1_a_call_sent_again_is_answered_what_it_was_answered() {
    let acts = vec![
        create(procedure("deposit", &[], &[])),
        create(procedure("fail", &[], &[])),
    ];
    let mut driver = after(aborting(&[("fail", 2)]), acts);
    driver.call("deposit", till(5), 1).expect("it runs");
    driver.call("fail", till(3), 2).expect("it runs");
    let again = driver.call("deposit", till(5), 3);
    assert_eq!(
        again,
        Ok(CallAdmission::Answered(Answer::Done(b"done".to_vec())))
    );
    let again = driver.call("fail", till(3), 3);
    assert_eq!(
        again,
        Ok(CallAdmission::Answered(Answer::Aborted(
            "scripted".to_owned()
        )))
    );
    assert_eq!(driver.done.len(), 2);
}

#[test]
fn c1_each_source_has_its_own_numbers() {
    let mut driver = after(passing(), vec![create(procedure("deposit", &[], &[]))]);
    driver.call("deposit", till(5), 1).expect("it runs");
    let source = "desk".to_owned();
    let other = driver.call("deposit", Some(Key { source, number: 5 }), 2);
    assert!(matches!(other, Ok(CallAdmission::Run(_))));
}

#[test]
fn c1_a_refused_call_leaves_its_key_unused() {
    let mut driver = after(
        passing(),
        with(chain(), [create(procedure("deposit", &[], &[]))]),
    );
    let refusal = driver
        .call("a", till(1), 1)
        .expect_err("a streaming procedure");
    assert!(matches!(refusal, Refusal::CallOfStreaming { .. }));
    driver
        .call("nothing", till(1), 1)
        .expect_err("there is no such procedure");
    let admission = driver.call("deposit", till(1), 1).expect("the key is free");
    assert!(matches!(admission, CallAdmission::Run(_)));
}

#[test]
fn c2_calls_run_in_their_order() {
    let driver = after(
        passing(),
        vec![
            create(procedure("deposit", &[], &[])),
            Act::Call("deposit".to_owned(), 5),
            Act::Call("deposit".to_owned(), 3),
        ],
    );
    is_order(&driver, &[("deposit", 1_001), ("deposit", 1_002)]);
}

#[test]
fn a_number_older_than_the_remembered_ones_is_refused() {
    let mut driver = after(passing(), vec![create(procedure("deposit", &[], &[]))]);
    for number in 2..2 + 1_025 {
        driver.call("deposit", till(number), 1).expect("it runs");
    }
    let refusal = driver
        .call("deposit", till(1), 1)
        .expect_err("it is forgotten");
    assert!(
        refusal
            .to_string()
            .contains("number 1 of source till is older"),
        "{refusal}"
    );
}

#[test]
fn m1_a_message_is_not_pushed_into_an_interior_stream() {
    let mut driver = after(passing(), chain());
    let message = Event::Message {
        stream: StreamUid(3),
        place: Place(1),
        at: EventTime(1),
    };
    driver.apply(message).expect_err("it is refused");
}
