//! The promises of a generated network: repeatable, in order, in proportion.

use somersault_generate::{Parameters, Rates, SocialNetwork, StreamKind};
use std::collections::HashSet;

fn small() -> Parameters {
    Parameters {
        users: 200,
        streams_ms: 1_000,
        history_ms: 1_000,
        rates: Rates::in_total(13_350),
        ..Parameters::default()
    }
}

#[test]
fn the_same_parameters_give_the_same_data() {
    let (one, two) = (SocialNetwork::new(small()), SocialNetwork::new(small()));
    assert!(one.people().eq(two.people()));
    let (mut a, mut b) = (one.activity(), two.activity());
    assert!(a.past().eq(b.past()));
    assert!(a.eq(b));
    let other = SocialNetwork::new(Parameters { seed: 2, ..small() });
    assert!(!one.people().eq(other.people()));
}

#[test]
fn a_past_that_is_not_read_changes_nothing() {
    let network = SocialNetwork::new(small());
    let mut read = network.activity();
    assert!(read.past().count() > 1_000);
    assert!(read.eq(network.activity()));
}

#[test]
fn streams_are_in_order_and_in_proportion() {
    let network = SocialNetwork::new(small());
    let mut counts = [0_u32; 5];
    let mut last = 1;
    for streamed in network.activity() {
        assert!(streamed.at_ms >= last && streamed.at_ms < 1_000);
        last = streamed.at_ms;
        counts[streamed.kind.index()] += 1;
    }
    for kind in StreamKind::ALL {
        let (made, wanted) = (counts[kind.index()], small().rates.of(kind));
        assert!(
            made.abs_diff(wanted) <= 60,
            "{kind:?}: {made} made, {wanted} wanted"
        );
    }
}

#[test]
fn stored_triples_are_distinct() {
    let network = SocialNetwork::new(small());
    let mut seen = HashSet::new();
    assert!(
        network
            .people()
            .all(|triple| seen.insert(triple.to_string()))
    );
}

#[test]
fn queries_have_their_constants() {
    for users in [1, 200] {
        let network = SocialNetwork::new(Parameters { users, ..small() });
        for query in network
            .continuous_queries()
            .into_iter()
            .chain(network.one_shot_queries())
        {
            for hole in ["{active}", "{sociable}", "{group}"] {
                assert!(!query.text.contains(hole), "{} has {hole} left", query.name);
            }
        }
    }
}
