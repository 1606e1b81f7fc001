//! Messages: the law that they are as pushes, whatever they are grouped into; places, consumers and
//! their room; interior streams.

use crate::harness::{Driver, blank_statement, number_of, statement, stream, windows, written};
use oxrdf::Quad;
use proptest::prelude::*;
use somersault_lang::{CreateStream, LatePolicy, StreamSource, TimeDomain};
use somersault_log::{
    StreamStatement, TxnEntry, TxnItem, TxnMessage, TxnOrigin, TxnOutcome, TxnRecord,
};
use somersault_model::{EventTime, Intern, Millis, Place, QuadIds, StreamUid, TermId};
use somersault_stream::{
    Admission, Consumers, CoreRecord, Input, MessageOutcome, MessagesInput, Numbered,
    NumberedBuilder, OfferedMessage, Output, Push, PushStatement, PushStatements,
    RecordedTransactions, Refusal, StreamLimits, StreamRecord,
};
use std::collections::BTreeMap;

const S: &str = "http://s";

/// A message: its number, its event time, its statements; none if it cannot be read.
#[derive(Clone, Debug)]
struct Sent {
    seq: Option<u64>,
    at: i64,
    statements: Vec<Quad>,
}

fn sent(seq: u64, at: i64, statements: impl IntoIterator<Item = u64>) -> Sent {
    let of = |number| statement(number, if number % 3 == 0 { "fact" } else { "reading" });
    Sent {
        seq: Some(seq),
        at,
        statements: statements.into_iter().map(of).collect(),
    }
}

fn offered(messages: &[Sent]) -> Vec<OfferedMessage> {
    let offered = messages.iter().map(|message| OfferedMessage {
        seq: message.seq,
        at: Some(EventTime(message.at)),
        statements: Some(message.statements.len() as u32).filter(|count| *count > 0),
    });
    offered.collect()
}

fn timed(messages: &[Sent]) -> impl Iterator<Item = (EventTime, &Quad)> {
    let of = |message: &'_ Sent| EventTime(message.at);
    messages.iter().flat_map(move |message| {
        message
            .statements
            .iter()
            .map(move |quad| (of(message), quad))
    })
}

/// The statements as a driver reads them: terms that wait for their scope have local ids.
fn numbered(driver: &Driver, messages: &[Sent]) -> Numbered {
    let mut builder = NumberedBuilder::new(0, true).with_lease(driver.world.lease(StreamUid(1)));
    let mut local: BTreeMap<String, TermId> = BTreeMap::new();
    for (at, quad) in timed(messages) {
        let mut id = |term: oxrdf::TermRef<'_>| match term {
            oxrdf::TermRef::BlankNode(node) => {
                let label = node.as_str().to_owned();
                *local
                    .entry(label)
                    .or_insert_with(|| TermId::local(builder.add_scoped(term.into_owned()) as u64))
            }
            term => driver.world.intern(term),
        };
        let quad_ids = QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: id(quad.subject.as_ref().into()),
            predicate: id(quad.predicate.as_ref().into()),
            object: id(quad.object.as_ref()),
        };
        builder.add(at, quad.as_ref(), quad_ids).unwrap();
    }
    builder.finish()
}

fn terms(messages: &[Sent]) -> Vec<StreamStatement> {
    let statements = timed(messages).map(|(at, quad)| StreamStatement {
        at,
        quad: quad.clone(),
    });
    statements.collect()
}

impl Driver {
    fn offer(
        &mut self,
        source: &str,
        messages: &[Sent],
        statements: PushStatements,
    ) -> Result<Vec<MessageOutcome>, Refusal> {
        let input = Input::Messages(MessagesInput {
            stream: S.to_owned(),
            source: source.to_owned(),
            received_ms: self.now_ms,
            messages: offered(messages),
            statements,
        });
        match self.input(input)? {
            Admission::Messages(_, outcomes) => Ok(outcomes),
            other => panic!("messages are judged one by one: {other:?}"),
        }
    }

    /// Offers messages, and those that were not looked at once more.
    fn send(&mut self, source: &str, messages: &[Sent]) -> Vec<MessageOutcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < messages.len() {
            let rest = &messages[outcomes.len()..];
            let statements = PushStatements::Numbered(numbered(self, rest));
            outcomes.extend(self.offer(source, rest, statements).unwrap());
            let ends = |it: &MessageOutcome| matches!(it, MessageOutcome::Refused(refusal) if refusal.ends_messages());
            if outcomes.last().is_some_and(ends) {
                break;
            }
        }
        outcomes
    }

    /// The same as a push of its own.
    fn send_as_push(&mut self, source: &str, message: &Sent) -> MessageOutcome {
        let statements = message.statements.iter().map(|quad| PushStatement {
            at: Some(EventTime(message.at)),
            quad: quad.clone(),
        });
        let pushed = self.input(Input::Push(Push {
            stream: S.to_owned(),
            source: source.to_owned(),
            seq: message.seq,
            received_ms: self.now_ms,
            statements: statements.collect(),
        }));
        match pushed {
            Ok(Admission::Record(_)) => MessageOutcome::Taken,
            Ok(Admission::Repeat(_)) => MessageOutcome::Repeated,
            Ok(_) => MessageOutcome::Unreadable,
            Err(refusal) => MessageOutcome::Refused(refusal),
        }
    }

    fn consumed_from(&mut self, floor: u64) {
        let consumers = Consumers {
            floor: Place(floor),
            holder: "count_up".to_owned(),
        };
        let uid = self.uid();
        self.coordinator.set_consumers(uid, Some(consumers));
    }

    fn uid(&self) -> StreamUid {
        self.coordinator.stream(S).unwrap().uid
    }

    /// The places, times and statement numbers of the kept messages.
    fn kept(&self) -> Vec<(u64, i64, Vec<u64>)> {
        let kept = self.coordinator.kept_messages(self.uid());
        kept.map(|message| {
            let numbers = message.statements.iter();
            let numbers = numbers.map(|triple| number_of(&self.world, *triple));
            (message.place.0, message.at.0, numbers.collect())
        })
        .collect()
    }

    /// The messages and times that consumers were told of.
    fn told(&self) -> Vec<String> {
        let told = self.decided.iter().filter_map(|output| match output {
            Output::Messages { messages, .. } | Output::Emitted { messages, .. } => {
                let places = messages.iter().map(|it| it.place.0.to_string());
                Some(places.collect::<Vec<_>>().join(","))
            }
            Output::Reached { through, .. } => Some(format!("t{}", through.0)),
            _ => None,
        });
        told.collect()
    }
}

fn with(declaration: CreateStream) -> Driver {
    let mut driver = Driver::new();
    driver.world.leases.set(true);
    driver.create(declaration).unwrap();
    driver
}

/// One input of the law, by either of two sources.
#[derive(Clone, Debug)]
enum Turn {
    Messages(bool, Vec<(u64, i64, usize)>),
    Advance(i64),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let message = (1_u64..30, -15_i64..25, 0_usize..4);
    let messages = (any::<bool>(), prop::collection::vec(message, 1..7));
    let turn = prop_oneof![
        4 => messages.prop_map(|(second, of)| Turn::Messages(second, of)),
        1 => (0_i64..60).prop_map(Turn::Advance),
    ];
    prop::collection::vec(turn, 1..20)
}

fn late_policy() -> impl Strategy<Value = (LatePolicy, i64, TimeDomain)> {
    let policy = prop_oneof![
        3 => Just(LatePolicy::Reject),
        1 => Just(LatePolicy::Drop),
    ];
    let domain = prop_oneof![4 => Just(TimeDomain::Event), 1 => Just(TimeDomain::Arrival)];
    (policy, prop_oneof![Just(0_i64), Just(7)], domain)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Messages have the verdicts, and windows the content, of as many pushes; a restart from the
    /// log, with terms in the place of ids, decides the same.
    #[test]
    fn messages_are_as_pushes(
        turns in turns(), (late, lateness, time) in late_policy(), closes in 1_u64..4,
    ) {
        let declared = CreateStream {
            late_policy: late, lateness: Millis(lateness), time, ..stream(S)
        };
        let limits = StreamLimits { closes_at_once: closes, ..StreamLimits::default() };
        let mut drivers = [Driver::limited(limits), Driver::limited(limits)];
        for driver in &mut drivers {
            driver.create(declared.clone()).unwrap();
            driver.register("q", windows(&[(S, 40, 20)])).unwrap();
        }
        let [sending, pushing] = &mut drivers;
        let (mut base, mut number, mut now_ms) = (0, 0, 1_000);
        for turn in turns {
            now_ms += 5;
            (sending.now_ms, pushing.now_ms) = (now_ms, now_ms);
            match turn {
                Turn::Messages(second, of) => {
                    let source = if second { "b" } else { "a" };
                    let messages: Vec<Sent> = of.into_iter().map(|(seq, after, count)| {
                        base += after.max(0) / 3;
                        let first = number;
                        number += count as u64;
                        sent(seq, base + after.min(0), first..number)
                    }).collect();
                    // A request has no number twice.
                    let mut numbers: Vec<u64> = messages.iter().filter_map(|it| it.seq).collect();
                    numbers.sort_unstable();
                    prop_assume!(numbers.windows(2).all(|pair| pair[0] != pair[1]));
                    let outcomes = sending.send(source, &messages);
                    for (message, outcome) in messages.iter().zip(&outcomes) {
                        let twin = pushing.send_as_push(source, message);
                        let is_same = std::mem::discriminant(&twin) == std::mem::discriminant(outcome);
                        prop_assert!(is_same, "{:?} {:?} {:?}", message, outcome, twin);
                        if let (MessageOutcome::Refused(a), MessageOutcome::Refused(b)) = (&twin, outcome) {
                            prop_assert_eq!(std::mem::discriminant(a), std::mem::discriminant(b));
                        }
                    }
                }
                Turn::Advance(by) => {
                    let to = [(S, base + by)];
                    prop_assert_eq!(sending.advance(&to).is_ok(), pushing.advance(&to).is_ok());
                }
            }
        }
        for driver in [&mut *sending, &mut *pushing] {
            driver.freshness_cut();
            driver.finish();
        }
        let seen = |driver: &Driver| -> Vec<_> {
            driver.seen.iter().map(|it| (it.firing.close, it.windows.clone(), it.stored.clone())).collect()
        };
        // What is stored at a close depends on when facts were cut, and messages are cut together.
        let shown = |driver: &Driver| -> Vec<_> {
            seen(driver).into_iter().map(|(close, windows, _)| (close, windows)).collect()
        };
        prop_assert_eq!(shown(sending), shown(pushing));
        let totals = |driver: &Driver| {
            let status = driver.coordinator.stream(S).unwrap();
            (status.statements, status.late, status.watermark, status.sources,
             driver.coordinator.newest_message(status.uid), driver.coordinator.source_numbers(S))
        };
        prop_assert_eq!(totals(sending), totals(pushing));
        let as_terms = |log: &[somersault_stream::Record]| -> Vec<somersault_stream::Record> {
            let read = log.iter().map(|record| match record {
                somersault_stream::Record::Messages(_) => {
                    let bytes = record.to_bytes().unwrap();
                    let read = somersault_log::Record::from_bytes(&bytes).unwrap();
                    read.with_forms(PushStatements::from, |_| Err(()), RecordedTransactions::from).unwrap()
                }
                other => other.clone(),
            });
            read.collect()
        };
        let mut recovered = Driver::recovered(&sending.world, &as_terms(&sending.log));
        recovered.finish();
        prop_assert_eq!(seen(&recovered), seen(sending));
        prop_assert_eq!(totals(&recovered), totals(sending));
    }
}

#[test]
fn a_bad_message_refuses_itself_alone_and_its_number_stays_free() {
    let mut driver = with(stream(S));
    let outcomes = driver.send(
        "a",
        &[
            sent(1, 10, [1]),
            sent(2, 5, [2]),
            sent(3, 11, []),
            sent(4, 12, [4]),
        ],
    );
    let [
        MessageOutcome::Taken,
        MessageOutcome::Refused(late @ Refusal::Late { .. }),
        MessageOutcome::Unreadable,
        MessageOutcome::Taken,
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}");
    };
    let sentence = late.to_string();
    let begins =
        "the message to <http://s> has event time 5, but the stream is complete through 10";
    assert!(sentence.starts_with(begins), "{sentence}");
    assert!(sentence.ends_with("Nothing of it was taken"), "{sentence}");
    // The refused numbers are taken after later ones; what was taken is a repeat whatever it
    // carries, also if it cannot be read.
    let again = [
        sent(1, 3, []),
        sent(2, 12, [2]),
        sent(3, 12, [3]),
        sent(4, 1, [9]),
    ];
    let outcomes = driver.send("a", &again);
    let repeated = MessageOutcome::Repeated;
    let taken = MessageOutcome::Taken;
    assert_eq!(outcomes, [repeated.clone(), taken.clone(), taken, repeated]);
    assert_eq!(
        driver.coordinator.newest_message(driver.uid()),
        Some(Place(4))
    );
}

#[test]
fn nothing_is_logged_where_no_message_is_taken() {
    let mut driver = with(stream(S));
    driver.send("a", &[sent(1, 10, [1])]);
    let before = driver.log.len();
    driver.send("a", &[sent(1, 10, [1]), sent(2, 1, [2]), sent(3, 10, [])]);
    assert_eq!(driver.log.len(), before);
    let statements = PushStatements::Terms(Vec::new());
    assert_eq!(driver.offer("a", &[], statements), Ok(Vec::new()));
}

#[test]
fn a_number_below_the_floor_that_was_never_taken_is_refused() {
    let mut driver = with(stream(S));
    let of = |seq: u64| sent(seq, 10, [seq]);
    let with_gaps: Vec<Sent> = (1..=1_030).map(|number| of(2 * number)).collect();
    driver.send("a", &with_gaps);
    let outcomes = driver.send("a", &[of(3), of(2_059)]);
    let MessageOutcome::Refused(refusal @ Refusal::SequenceForgotten { .. }) = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(
        refusal.to_string().contains("sequence number 3"),
        "{refusal}"
    );
    assert_eq!(outcomes[1], MessageOutcome::Taken);
}

/// The ids of the subjects of all statements of kept messages.
fn subjects(driver: &Driver) -> Vec<TermId> {
    let kept = driver.coordinator.kept_messages(driver.uid());
    kept.flat_map(|message| message.statements.iter().map(|it| it.subject))
        .collect()
}

#[test]
fn labels_of_blank_nodes_are_those_of_their_message() {
    let blank = |seq, labels: &[&str]| Sent {
        seq,
        at: 10,
        statements: labels.iter().map(|label| blank_statement(label)).collect(),
    };
    for seq in [Some(1), None] {
        let second = seq.map(|seq| seq + 1);
        let messages = [blank(seq, &["x", "y", "x"]), blank(second, &["y", "x"])];
        let mut names = Vec::new();
        for as_terms in [true, false] {
            let mut driver = with(stream(S));
            driver.consumed_from(1);
            let statements = match as_terms {
                true => PushStatements::Terms(terms(&messages)),
                false => PushStatements::Numbered(numbered(&driver, &messages)),
            };
            driver.offer("a", &messages, statements).unwrap();
            let ids = subjects(&driver);
            assert_eq!((ids[0], ids[0] == ids[1]), (ids[2], false));
            let distinct: std::collections::BTreeSet<TermId> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), 4);
            names.push(
                ids.into_iter()
                    .map(|id| driver.world.term(id))
                    .collect::<Vec<_>>(),
            );
        }
        let mut pushing = with(stream(S));
        pushing.consumed_from(1);
        for message in &messages {
            pushing.send_as_push("a", message);
        }
        let pushed = subjects(&pushing).into_iter();
        names.push(pushed.map(|id| pushing.world.term(id)).collect());
        assert_eq!(names[0], names[1]);
        assert_eq!(names[0], names[2]);
    }
}

#[test]
fn messages_wait_for_consumers_from_their_floor_on() {
    let mut driver = with(stream(S));
    driver.send("a", &[sent(1, 10, [1])]);
    assert_eq!(driver.kept(), []);
    driver.consumed_from(2);
    driver.send(
        "a",
        &[sent(2, 10, [2, 3]), sent(3, 9, [4]), sent(4, 20, [5])],
    );
    driver.push(S, &[(30, 7), (30, 8)]).unwrap();
    // The refused message has no place; the source without a name keeps the stream from going on.
    let all = [(2, 10, vec![2, 3]), (3, 20, vec![5]), (4, 30, vec![7, 8])];
    assert_eq!(driver.kept(), all);
    assert_eq!(driver.told(), ["2,3", "t20", "4"]);
    driver.consumed_from(4);
    assert_eq!(driver.kept(), all[2..]);
    let uid = driver.uid();
    driver.coordinator.set_consumers(uid, None);
    assert_eq!(driver.kept(), []);
    assert_eq!(driver.coordinator.newest_message(uid), Some(Place(4)));
}

#[test]
fn a_push_of_several_times_is_refused_while_the_stream_is_consumed() {
    let mut driver = with(stream(S));
    driver.push(S, &[(10, 1), (11, 2)]).unwrap();
    driver.consumed_from(2);
    let refused = driver.push(S, &[(12, 1), (12, 2), (13, 3)]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "statement 3 of the push to <http://s> has another event time than those before it, but procedure count_up consumes the stream, and a message has one time; send messages, or one push for each time. Nothing of the push was taken"
    );
    driver.push(S, &[(12, 1), (12, 2)]).unwrap();
    for refused in [
        driver.drop_stream(S).unwrap_err(),
        driver
            .input(Input::ResetStream {
                received_ms: 0,
                iri: S.to_owned(),
            })
            .unwrap_err(),
    ] {
        let says = "stream <http://s> is consumed by procedure count_up; drop that first";
        assert_eq!(refused.to_string(), says);
    }
}

#[test]
fn a_stream_full_of_messages_says_who_has_yet_to_consume_them() {
    let mut driver = with(CreateStream {
        budget_bytes: 80 * 40,
        ..stream(S)
    });
    driver.consumed_from(1);
    let many: Vec<Sent> = (1..60)
        .map(|seq| sent(seq, 10 * seq as i64, [seq]))
        .collect();
    let mut outcomes = Vec::new();
    for portion in many.chunks(4) {
        outcomes.extend(driver.send("a", portion));
        if outcomes.last() != Some(&MessageOutcome::Taken) {
            break;
        }
    }
    let taken = outcomes.len() - 1;
    let MessageOutcome::Refused(refusal @ Refusal::OverBudget { .. }) = &outcomes[taken] else {
        panic!("{outcomes:?}");
    };
    // Open batches and kept messages count, and a message as one statement more.
    assert!((15..25).contains(&taken), "{taken}");
    assert!(
        refusal.to_string().contains(
            "procedure count_up has yet to consume its messages from place 1 on; send what its batch lacks, RESUME its dataflow"
        ),
        "{refusal}"
    );
    // Every thread knows it, too; and the message after it is not looked at.
    let clock = driver.coordinator.clock_of(S).unwrap();
    assert!(!clock.has_room(20));
    driver.consumed_from(taken as u64 + 1);
    let outcomes = driver.send("a", &many[taken..taken + 5]);
    assert_eq!(outcomes, vec![MessageOutcome::Taken; 5]);
}

#[test]
fn messages_that_would_make_too_many_closes_due_at_once_wait_for_the_cuts_before() {
    let limits = StreamLimits {
        closes_at_once: 2,
        ..StreamLimits::default()
    };
    let mut driver = Driver::limited(limits);
    driver.create(stream(S)).unwrap();
    driver.register("q", windows(&[(S, 10, 10)])).unwrap();
    let messages: Vec<Sent> = (0..10)
        .map(|n| sent(n + 1, 10 * n as i64 + 5, [n]))
        .collect();
    let statements = PushStatements::Terms(terms(&messages));
    let first = driver.offer("a", &messages, statements).unwrap();
    assert_eq!(
        first,
        [
            MessageOutcome::Taken,
            MessageOutcome::Taken,
            MessageOutcome::Taken
        ]
    );
    let rest = driver.send("a", &messages[3..]);
    assert_eq!(rest, vec![MessageOutcome::Taken; 7]);
    driver.advance(&[(S, 100)]).unwrap();
    assert_eq!(
        driver.closes("q"),
        (1..=10).map(|n| 10 * n).collect::<Vec<i64>>()
    );
}

#[test]
fn kept_messages_and_places_are_in_a_checkpoint() {
    let mut driver = with(stream(S));
    driver.send("a", &[sent(1, 10, [1])]);
    driver.consumed_from(2);
    driver.send("a", &[sent(2, 10, [2, 3]), sent(7, 20, [5])]);
    let records = written(driver.coordinator.freeze().unwrap().records());
    let leases = driver.coordinator.freeze().unwrap().leases().len();
    assert!(leases >= 2, "a lease for each message: {leases}");
    let before = driver.kept();
    assert_eq!(before, [(2, 10, vec![2, 3]), (3, 20, vec![5])]);
    driver.coordinator = driver.restored(records.clone()).unwrap();
    assert_eq!(driver.kept(), before);
    let kept = driver.coordinator.kept_messages(driver.uid());
    assert!(kept.into_iter().all(|message| message.lease.is_some()));
    assert_eq!(
        written(driver.coordinator.freeze().unwrap().records()),
        records
    );
    // A push of several times is refused as before, numbers are known, places go on.
    assert!(driver.push(S, &[(21, 1), (22, 1)]).is_err());
    let outcomes = driver.send("a", &[sent(7, 20, [5]), sent(6, 21, [8])]);
    assert_eq!(outcomes, [MessageOutcome::Repeated, MessageOutcome::Taken]);
    assert_eq!(driver.kept().last(), Some(&(4, 21, vec![8])));
    for (alter, says) in [
        (
            (|kept| kept[1].place = Place(2)) as fn(&mut Vec<somersault_stream::SavedMessage>),
            "message 2 of <http://s> is out of place",
        ),
        (|kept| kept[0].place = Place(1), "message 1 of"),
        (|kept| kept[1].place = Place(9), "message 9 of"),
        (|kept| kept[1].statements.clear(), "message 3 of"),
        (|kept| kept[0].epoch = Some(3), "epoch 3"),
    ] {
        let mut altered = records.clone();
        for record in &mut altered {
            if let CoreRecord::Stream(StreamRecord::Kept(_, kept)) = record {
                alter(kept);
            }
        }
        let restored = driver.restored(altered);
        if says != "epoch 3" {
            let error = restored.unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}

#[test]
fn nobody_outside_fills_an_interior_stream_or_moves_it() {
    let mut driver = with(CreateStream {
        source: StreamSource::Interior,
        ..stream(S)
    });
    let sentence = "stream <http://s> is INTERIOR: the EMIT steps of procedures alone fill it and say how far it is; push to the streams that those procedures consume";
    let messages = [sent(1, 10, [1])];
    let statements = PushStatements::Terms(terms(&messages));
    let refused = [
        driver.offer("a", &messages, statements).unwrap_err(),
        driver.push(S, &[(10, 1)]).unwrap_err(),
        driver.advance(&[(S, 10)]).unwrap_err(),
        driver
            .input(Input::ResetStream {
                received_ms: 0,
                iri: S.to_owned(),
            })
            .unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.to_string(), sentence);
    }
    driver.drop_stream(S).unwrap();
}

/// A transaction that emits one message.
fn emits(stream: StreamUid, place: u64, at: i64, numbers: &[u64]) -> TxnItem {
    let statements = numbers.iter().map(|number| statement(*number, "reading"));
    TxnItem::Entry(TxnEntry {
        origin: TxnOrigin::Update,
        outcome: TxnOutcome::Committed {
            changes: Vec::new(),
            emitted: vec![TxnMessage {
                stream,
                place: Place(place),
                at: EventTime(at),
                statements: statements.collect(),
            }],
            answer: Vec::new(),
        },
    })
}

#[test]
fn emitted_messages_are_windowed_and_consumed_as_others_are() {
    let mut driver = with(CreateStream {
        source: StreamSource::Interior,
        ..stream(S)
    });
    driver.register("q", windows(&[(S, 20, 20)])).unwrap();
    driver.consumed_from(1);
    let uid = driver.uid();
    let record = |items: Vec<TxnItem>, released: u64| {
        somersault_stream::Record::Txn(RecordedTransactions::from(TxnRecord {
            received_ms: 0,
            items,
            released: vec![(uid, Place(released))],
        }))
    };
    let first = [emits(uid, 1, 5, &[1, 2]), emits(uid, 2, 15, &[3])];
    driver.record(record(first.to_vec(), 1));
    assert_eq!(driver.coordinator.stream(S).unwrap().watermark, None);
    let advance = TxnItem::Advance(vec![(uid, EventTime(20))]);
    driver.record(record(vec![emits(uid, 3, 25, &[4]), advance], 2));
    // Those of one record come together.
    assert_eq!(driver.told(), ["1,2", "3", "t20"]);
    assert_eq!(driver.kept(), [(2, 15, vec![3]), (3, 25, vec![4])]);
    driver.freshness_cut();
    driver.finish();
    assert_eq!(driver.content("q", 20), [[1, 2, 3]]);
    // A message of a call with an old time is lifted to the stream's.
    driver.record(record(vec![emits(uid, 4, 2, &[5])], 4));
    assert_eq!(driver.kept().len(), 1);
    let advance = TxnItem::Advance(vec![(uid, EventTime(40))]);
    driver.record(record(vec![advance], 5));
    driver.freshness_cut();
    driver.finish();
    assert_eq!(driver.content("q", 40), [[4, 5]]);
}
