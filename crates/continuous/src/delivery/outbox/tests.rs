//! The outbox against a dull twin: the state of each answer for each subscription, one by one.

use super::*;
use proptest::prelude::*;
use somersault_log::SubscriptionTerms;
use somersault_model::{EventTime, Sn};

/// The state of an answer for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Handed,
    Acknowledged,
    LetGo,
}

#[derive(Clone, Debug)]
enum Event {
    /// The next answer, of this size, which is empty or not, for members below this slot.
    Answered(u64, bool, u32),
    /// The reader of a subscription asks for this many answers.
    Hand(usize, usize),
    /// It acknowledges what it was handed, less this many.
    Acknowledge(usize, usize),
    /// What is too much is let go.
    LetGo,
    /// So much time passes.
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0u64..40, any::<bool>(), 0u32..3).prop_map(|(bytes, empty, slots)| Event::Answered(bytes, empty, slots)),
        3 => (0usize..3, 0usize..5).prop_map(|(who, most)| Event::Hand(who, most)),
        2 => (0usize..3, 0usize..3).prop_map(|(who, less)| Event::Acknowledge(who, less)),
        3 => Just(Event::LetGo),
        1 => (0u64..30).prop_map(Event::Wait),
    ]
}

fn position(n: u64) -> AnswerPosition {
    AnswerPosition {
        sn: Sn(n / 2 + 1),
        close: EventTime(n as i64),
        ordinal: 0,
        revision: 0,
    }
}

/// Three subscriptions with unlike terms: two to the member in slot 0, one to that in slot 1.
fn subscriptions() -> Vec<(u32, SubscriptionStatus)> {
    let status = |slot: u32, name: &str, terms| {
        let status = SubscriptionStatus {
            query: format!("q{slot}"),
            name: name.to_owned(),
            terms,
            missed: 0,
            ended: None,
        };
        (slot, status)
    };
    let terms = SubscriptionTerms {
        after: AnswerPosition::START,
        answers: 5,
        bytes: 60,
        deadline_ms: None,
        empties: true,
        skips_oldest: true,
    };
    vec![
        status(0, "skips", terms),
        status(
            0,
            "ends",
            SubscriptionTerms {
                answers: 9,
                bytes: 200,
                empties: false,
                skips_oldest: false,
                ..terms
            },
        ),
        status(
            1,
            "late",
            SubscriptionTerms {
                answers: 50,
                bytes: 1_000,
                deadline_ms: Some(40),
                ..terms
            },
        ),
    ]
}

/// One subscription of the twin.
struct Twin {
    slot: u32,
    status: SubscriptionStatus,
    /// Each answer that it receives: its number, bytes and time.
    answers: Vec<(u64, u64, u64, State)>,
    is_ended: bool,
    /// The numbers of answers that were acknowledged, and handed again.
    acknowledged: u64,
    repeats: u64,
}

impl Twin {
    fn is_open(state: State) -> bool {
        matches!(state, State::Waiting | State::Handed)
    }

    fn open(&self) -> Vec<usize> {
        let all = 0..self.answers.len();
        all.filter(|at| Twin::is_open(self.answers[*at].3))
            .collect()
    }

    /// When the next open answer becomes late.
    fn next_deadline(&self, now: u64) -> Option<u64> {
        let limit = self.status.terms.deadline_ms?;
        let open = self.open().into_iter();
        let deadlines = open.map(|at| self.answers[at].2 + limit);
        deadlines.filter(|deadline| *deadline > now).min()
    }

    /// The number of its oldest open answers that are too many.
    fn excess(&self, now: u64) -> usize {
        let terms = &self.status.terms;
        let open = self.open();
        let bytes = |from: usize| {
            open[from..]
                .iter()
                .map(|at| self.answers[*at].1)
                .sum::<u64>()
        };
        let is_late = |at: usize| {
            let since = self.answers[open[at]].2;
            terms.deadline_ms.is_some_and(|limit| now - since >= limit)
        };
        let fits = |from: &usize| {
            let count = (open.len() - from) as u64;
            let is_newest = open.len() - from <= 1;
            count <= terms.answers && (is_newest || bytes(*from) <= terms.bytes)
        };
        let by_size = (0..=open.len()).find(fits).unwrap_or_default();
        let by_time = (0..open.len()).take_while(|at| is_late(*at)).count();
        by_size.max(by_time)
    }
}

proptest! {
    #[test]
    fn every_answer_is_in_the_state_of_the_twin(events in prop::collection::vec(event(), 1..120)) {
        let mut outbox = Outbox::default();
        let mut twins = Vec::new();
        for (slot, status) in subscriptions() {
            outbox.subscribe(slot, status.clone(), std::iter::empty());
            twins.push(Twin { slot, status, answers: Vec::new(), is_ended: false, acknowledged: 0, repeats: 0 });
        }
        let start = Instant::now();
        let (mut now_ms, mut count) = (0u64, 0u64);
        for event in events {
            let now = start + Duration::from_millis(now_ms);
            match event {
                Event::Wait(ms) => now_ms += ms,
                Event::Answered(bytes, is_empty, slots) => {
                    let answer = NeededAnswer { position: position(count), bytes, since: now };
                    outbox.answered(answer, |slot| (slot < slots).then_some(is_empty));
                    for twin in &mut twins {
                        let wants = twin.status.terms.empties || !is_empty;
                        if twin.slot < slots && wants && !twin.is_ended {
                            twin.answers.push((count, bytes, now_ms, State::Waiting));
                        }
                    }
                    count += 1;
                }
                Event::Hand(who, most) => {
                    let twin = &mut twins[who];
                    let name = twin.status.name.clone();
                    let open: Vec<usize> = twin.open().into_iter().take(most).collect();
                    let handed = outbox.hand((twin.slot, &name), AnswerPosition::START, most);
                    let (_, handed) = handed.expect("it is there");
                    let expected: Vec<AnswerPosition> =
                        open.iter().map(|at| position(twin.answers[*at].0)).collect();
                    prop_assert_eq!(handed, expected);
                    for at in open {
                        twin.repeats += u64::from(twin.answers[at].3 == State::Handed);
                        twin.answers[at].3 = State::Handed;
                    }
                }
                Event::Acknowledge(who, less) => {
                    let twin = &mut twins[who];
                    let handed = twin.answers.iter().filter(|it| it.3 == State::Handed);
                    let handed: Vec<u64> = handed.map(|it| it.0).collect();
                    let Some(through) = handed.iter().rev().nth(less).copied() else { continue };
                    outbox.acknowledge((twin.slot, &twin.status.name), position(through), now);
                    for answer in &mut twin.answers {
                        if answer.0 <= through && Twin::is_open(answer.3) {
                            answer.3 = State::Acknowledged;
                            twin.acknowledged += 1;
                        }
                    }
                }
                Event::LetGo => {
                    let exceeded = outbox.exceeded(now);
                    let expected = twins.iter().filter(|twin| twin.excess(now_ms) > 0).count();
                    prop_assert_eq!(exceeded.len(), expected);
                    for exceeded in exceeded {
                        let twin = twins.iter_mut().find(|it| it.status.name == exceeded.subscription);
                        let twin = twin.expect("it is one of them");
                        let excess = twin.excess(now_ms);
                        prop_assert_eq!(exceeded.answers as usize, excess);
                        let ends = !twin.status.terms.skips_oldest;
                        let mut status = twin.status.clone();
                        status.terms.after = exceeded.through;
                        status.ended = ends.then_some(exceeded.why);
                        outbox.let_go(twin.slot, status);
                        twin.is_ended |= ends;
                        let open = twin.open();
                        let gone = if ends { open.len() } else { excess };
                        open[..gone].iter().for_each(|at| twin.answers[*at].3 = State::LetGo);
                    }
                }
            }
            prop_assert_eq!(outbox.check(), Ok(()));
            let now = start + Duration::from_millis(now_ms);
            for twin in &twins {
                let states = outbox.states(twin.slot, now);
                let state = states.iter().find(|it| it.status.name == twin.status.name);
                let state = state.expect("it is there");
                let open = twin.open();
                let handed = open.iter().filter(|at| twin.answers[**at].3 == State::Handed).count();
                prop_assert_eq!((state.needed, state.handed), (open.len() as u64, handed as u64));
                let counted = (state.acknowledged, state.repeats);
                prop_assert_eq!(counted, (twin.acknowledged, twin.repeats));
            }
            let deadlines = twins.iter().filter_map(|twin| twin.next_deadline(now_ms));
            let deadline = deadlines.min().map(|ms| start + Duration::from_millis(ms));
            prop_assert_eq!(outbox.next_deadline(now), deadline);
            let oldest = twins.iter().filter_map(|twin| Some(twin.answers[*twin.open().first()?].0));
            prop_assert_eq!(outbox.oldest_needed(), oldest.min().map(position));
        }
    }
}

/// What the checker is for: an answer that comes back after its acknowledgement is noticed.
#[test]
fn an_acknowledged_answer_that_is_kept_is_noticed() {
    let mut outbox = Outbox::default();
    let (slot, status) = subscriptions().remove(0);
    outbox.subscribe(slot, status, std::iter::empty());
    let answer = NeededAnswer {
        position: position(3),
        bytes: 1,
        since: Instant::now(),
    };
    outbox.answered(answer, |_| Some(false));
    assert_eq!(outbox.check(), Ok(()));
    outbox.subscriptions[0].status.terms.after = position(3);
    let violated = outbox.check().unwrap_err();
    assert!(violated.contains("acknowledged or let go"), "{violated}");
}
