//! The ledger against a dull twin: a list of firings, walked over for every question.

use super::*;
use proptest::prelude::*;
use somersault_model::EventTime;

const QUERIES: u64 = 3;

fn firing(query: u64, close: i64, ordinal: u32, revision: u32) -> Firing {
    Firing {
        query: QueryUid(query),
        members: 0,
        close: EventTime(close),
        ordinal,
        revision,
        repeated: false,
        // One SN for two closes each.
        sn: Sn((close / 2) as u64 + 1),
        windows: [].into(),
        changed: None,
        complete_from: None,
    }
}

/// A ledger with registered queries; the odd ones derive streams.
fn ledger() -> (Delivery, Arc<Store>) {
    let mut delivery = Delivery::new(8);
    for query in 0..QUERIES {
        delivery.registered(QueryUid(query), query % 2 == 1);
    }
    (delivery, Store::new(1))
}

#[test]
fn the_firings_of_one_close_are_handed_out_in_portions() {
    let mut delivery = Delivery::new(8);
    let store = Store::new(1);
    delivery.registered(QueryUid(1), false);
    for ordinal in 0..1_000 {
        delivery.due(&store, &firing(1, 7, ordinal, 0), None, 1);
        delivery.release(firing(1, 7, ordinal, 0), None, Instant::now());
    }
    let mut ordinals = Vec::new();
    let mut take = |delivery: &mut Delivery| {
        let before = ordinals.len();
        while let Some(handed_out) = delivery.hand_out(&store) {
            ordinals.push(handed_out.firing.ordinal);
        }
        ordinals.len() - before
    };
    assert_eq!(take(&mut delivery), UNDER_WAY + UNDER_WAY_PER_QUERY);
    assert_eq!(take(&mut delivery), 0, "none is answered");
    delivery.answer(firing(1, 7, 0, 0).key(), false);
    delivery.answer(firing(1, 7, 1, 0).key(), false);
    assert_eq!(take(&mut delivery), 2);
    for ordinal in 2..1_000 {
        delivery.answer(firing(1, 7, ordinal, 0).key(), false);
        take(&mut delivery);
    }
    assert!(ordinals.into_iter().eq(0..1_000), "in order, and each once");
    assert_eq!(delivery.under_way(), 0);
    assert_eq!(delivery.check(), Ok(()));
}

#[test]
fn a_firing_that_cannot_be_pinned_is_given_up_and_holds_nothing() {
    let (mut delivery, store) = ledger();
    store.snapshots().publish_stable(Sn(9));
    let firing = firing(1, 7, 0, 0);
    delivery.due(&store, &firing, None, 3);
    assert_eq!(delivery.under_way(), 0);
    assert_eq!(delivery.oldest_underived(), None);
    assert_eq!(delivery.check(), Ok(()));
    assert_eq!(delivery.give_up_unpinned(), [(firing.key(), true)]);
    assert_eq!(delivery.check(), Ok(()));
    // Its stream has its empty contribution.
    delivery.acknowledge(&firing.key());
    // The coordinator releases it all the same.
    delivery.release(firing, None, Instant::now());
    assert!(delivery.hand_out(&store).is_none());
    assert_eq!(delivery.check(), Ok(()));
}

#[test]
fn dl1_the_check_sees_a_firing_in_two_states_and_a_lost_one() {
    type Break = fn(&mut Delivery);
    let breaks: [(&str, Break); 4] = [
        ("counted as", |delivery| delivery.counts.handed_out += 1),
        ("the queues of turns", |delivery| {
            delivery.released.pop();
        }),
        ("an SN is pinned", |delivery| {
            delivery.leave_due(Sn(4));
        }),
        ("an input waits", |delivery| delivery.waited_for.clear()),
    ];
    for (sentence, violate) in breaks {
        let (mut delivery, store) = ledger();
        for query in 0..QUERIES {
            delivery.due(&store, &firing(query, 7, 0, 0), None, query);
        }
        delivery.release(firing(1, 7, 0, 0), None, Instant::now());
        assert_eq!(delivery.check(), Ok(()));
        violate(&mut delivery);
        let violated = delivery.check().expect_err("it is broken");
        assert!(violated.contains(sentence), "{violated}");
    }
}

/// The dull twin.
#[derive(Default)]
struct Twin {
    firings: Vec<(FiringKey, State, u64)>,
    /// The order in which firings were released.
    queue: Vec<FiringKey>,
    /// The order in which queries have their turn.
    turn: Vec<QueryUid>,
}

impl Twin {
    fn set(&mut self, key: FiringKey, state: State) {
        let found = self.firings.iter_mut().find(|(of, ..)| *of == key);
        found.expect("it is known").1 = state;
    }

    fn remove(&mut self, key: FiringKey) {
        self.firings.retain(|(of, ..)| *of != key);
    }

    fn those(&self, state: State) -> Vec<FiringKey> {
        let those = self.firings.iter().filter(|(_, of, _)| *of == state);
        those.map(|(key, ..)| *key).collect()
    }

    fn release(&mut self, key: FiringKey) {
        self.set(key, State::Released);
        if !self.turn.contains(&key.query) {
            self.turn.push(key.query);
        }
        self.queue.push(key);
    }

    fn hand_out(&mut self) -> Option<FiringKey> {
        let limit = UNDER_WAY + UNDER_WAY_PER_QUERY * QUERIES as usize;
        if self.those(State::HandedOut).len() >= limit || self.turn.is_empty() {
            return None;
        }
        let query = self.turn.remove(0);
        let at = self.queue.iter().position(|key| key.query == query)?;
        let key = self.queue.remove(at);
        if self.queue.iter().any(|key| key.query == query) {
            self.turn.push(query);
        }
        self.set(key, State::HandedOut);
        Some(key)
    }

    fn under_way(&self) -> usize {
        let under_way = self
            .firings
            .iter()
            .filter(|(_, state, _)| state.is_under_way());
        under_way.count()
    }

    fn oldest_underived(&self) -> Option<u64> {
        let deriving = self.firings.iter().filter(|(key, ..)| key.query.0 % 2 == 1);
        deriving.map(|(.., input)| *input).min()
    }
}

proptest! {
    #[test]
    fn the_ledger_is_a_list_of_states(
        steps in prop::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..400),
    ) {
        let (mut delivery, store) = ledger();
        let mut twin = Twin::default();
        let mut made: Vec<Firing> = Vec::new();
        for (input, (step, pick)) in (0u64..).zip(steps) {
            let picked = |of: &[FiringKey]| (!of.is_empty()).then(|| of[pick.index(of.len())]);
            let find = |key: FiringKey| made.iter().find(|it| it.key() == key).cloned();
            match step {
                0 | 1 => {
                    let query = pick.index(QUERIES as usize) as u64;
                    let revision = u32::from(input % 5 == 0);
                    let new = firing(query, made.len() as i64, 0, revision);
                    delivery.due(&store, &new, None, input);
                    twin.firings.push((new.key(), State::Due, input));
                    made.push(new);
                }
                2 => if let Some(due) = picked(&twin.those(State::Due)).and_then(find) {
                    twin.release(due.key());
                    delivery.release(due, None, Instant::now());
                },
                3 => {
                    let handed_out = delivery.hand_out(&store).map(|it| it.firing.key());
                    prop_assert_eq!(handed_out, twin.hand_out());
                }
                4 => if let Some(key) = picked(&twin.those(State::HandedOut)) {
                    let derives = key.query.0 % 2 == 1;
                    delivery.answer(key, derives);
                    match derives {
                        true => twin.set(key, State::Answered),
                        false => twin.remove(key),
                    }
                } else if let Some(due) = picked(&twin.those(State::Due)).and_then(find) {
                    delivery.cancel(&due);
                    twin.remove(due.key());
                },
                _ => if let Some(key) = picked(&twin.those(State::Answered)) {
                    delivery.acknowledge(&key);
                    twin.remove(key);
                },
            }
            prop_assert_eq!(delivery.under_way(), twin.under_way());
            prop_assert_eq!(delivery.oldest_underived(), twin.oldest_underived());
            prop_assert_eq!(delivery.check(), Ok(()));
        }
    }
}
