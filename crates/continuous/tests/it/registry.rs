//! What the registry does with what a driver tells it.

use crate::fake_driver::{COHORT, FakeDriver};
use somersault_continuous::{FiringId, SubscribeOptions, Subscription, SubscriptionEvent};
use somersault_model::{EventTime, Sn};
use somersault_stream::{Pause, QueryChange};
use std::time::Duration;

const KNOWS: &str =
    "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { <urn:ann> <urn:knows> ?x }";
const LIKES: &str =
    "SELECT ?x FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { <urn:bob> <urn:knows> ?x }";

/// The closes of the next firings of a subscriber, each with its number of rows.
fn next(subscription: &Subscription, firings: usize) -> Vec<(i64, usize)> {
    let mut found = Vec::new();
    while found.len() < firings {
        match subscription.recv_timeout(Duration::from_secs(60)) {
            Ok(Some(SubscriptionEvent::Firing(firing))) => {
                let answer = firing.answer.as_ref().expect("it is answered");
                found.push((firing.close.0, answer.len()));
            }
            other => panic!("instead of a firing came {other:?}"),
        }
    }
    found
}

#[test]
fn members_of_a_cohort_receive_their_own_answers_in_close_order() {
    let mut driver = FakeDriver::new();
    driver.store(["urn:ann", "urn:knows", "urn:bob"]);
    let ann = driver.form(KNOWS, 0);
    let bob = driver.join(LIKES, 0);
    let options = SubscribeOptions::default();
    let [of_ann, of_bob] = [&ann, &bob].map(|query| {
        let subscription = driver.registry.subscribe(query, &options);
        subscription.expect("the member is known")
    });
    for close_ms in [1000, 2000] {
        driver.fire(close_ms);
    }
    driver.store(["urn:bob", "urn:knows", "urn:cem"]);
    driver.fire(3000);
    let answered = [(); 3].map(|()| driver.answered().close.0);
    assert_eq!(answered, [1000, 2000, 3000], "acknowledged in close order");
    assert_eq!(next(&of_ann, 3), [(1000, 1), (2000, 1), (3000, 1)]);
    assert_eq!(next(&of_bob, 3), [(1000, 0), (2000, 0), (3000, 1)]);
    let (summary, size) = driver.registry.summary(bob.member).expect("it is known");
    assert_eq!(
        (summary.firings, summary.rows, summary.subscribers),
        (3, 1, 1)
    );
    assert_eq!(size.cells, 2);
}

#[test]
fn a_new_subscriber_is_told_of_evicted_firings_and_given_the_kept_ones() {
    let mut driver = FakeDriver::new();
    let query = driver.form(KNOWS, 0);
    for close_ms in [1000, 2000, 3000] {
        driver.fire(close_ms);
        assert_eq!(driver.answered().close.0, close_ms);
    }
    let options = SubscribeOptions {
        after: Some(FiringId::at(EventTime(0))),
        ..SubscribeOptions::default()
    };
    let subscription = driver.registry.subscribe(&query, &options);
    let subscription = subscription.expect("the member is known");
    let first = subscription.recv();
    assert!(
        matches!(first, Some(SubscriptionEvent::Lagged { missed: None })),
        "{first:?}"
    );
    assert_eq!(
        next(&subscription, 2),
        [(2000, 0), (3000, 0)],
        "two are kept"
    );
}

#[test]
fn a_paused_member_receives_nothing_and_a_dropped_one_ends() {
    let mut driver = FakeDriver::new();
    let paused = driver.form(KNOWS, 0);
    let running = driver.join(LIKES, 0);
    let options = SubscribeOptions::default();
    let [of_paused, of_running] = [&paused, &running].map(|query| {
        let subscription = driver.registry.subscribe(query, &options);
        subscription.expect("the member is known")
    });
    let slot = paused.member.slot;
    let pause = Pause {
        through: Sn::ZERO,
        next: None,
    };
    driver.tell(QueryChange::Paused { slot, pause });
    driver.store(["urn:bob", "urn:knows", "urn:cem"]);
    driver.fire(1000);
    assert_eq!(driver.answered().close.0, 1000);
    assert_eq!(next(&of_running, 1), [(1000, 1)]);
    assert!(of_paused.try_recv().is_none());
    driver.tell(QueryChange::Left { slot });
    assert!(of_paused.recv().is_none(), "its subscriptions end");
    driver.tell(QueryChange::Left {
        slot: running.member.slot,
    });
    driver.tell(QueryChange::Ended);
    assert!(of_running.recv().is_none());
    assert!(driver.registry.summary(running.member).is_none());
}

#[test]
fn a_firing_of_an_ended_cohort_is_acknowledged() {
    let mut driver = FakeDriver::new();
    driver.form(KNOWS, 0);
    driver.tell(QueryChange::Left { slot: 0 });
    driver.tell(QueryChange::Ended);
    driver.fire(1000);
    let key = driver.answered();
    assert_eq!((key.query, key.close.0), (COHORT, 1000));
}

#[test]
fn a_query_that_is_not_registered_has_no_subscription() {
    let mut driver = FakeDriver::new();
    let mut query = driver.form(KNOWS, 0);
    query.member.slot = 7;
    let none = driver
        .registry
        .subscribe(&query, &SubscribeOptions::default());
    assert!(none.is_none());
}
