//! Transactions against a plain set of statements: what holds, what is undone, what the net effects
//! are, whenever snapshots come, and though a snapshot may have a part of what the layers say.

use crate::procedures::{begin, execution};
use oxrdf::{NamedNode, Term};
use proptest::prelude::*;
use somersault_lang::Parser;
use somersault_model::{Mutation, QuadIds, ShardId, Sn, TermId, TripleIds};
use somersault_query::{Answer, NetEffects, Prepared, TransactionState};
use somersault_store::{ShardBatch, ShardWriter, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A statement of small numbers: graph, subject, predicate, object.
type Small = (u8, u8, u8, u8);

/// A step of a transaction, or between transactions.
#[derive(Debug, Clone)]
enum Act {
    Insert(Small),
    Delete(Small),
    Clear(u8),
    Savepoint,
    Rollback,
    Commit,
    Abort,
    /// What committed so far is sealed.
    Seal,
    /// The sealed effects reach a snapshot.
    Advance,
    /// A fact from elsewhere reaches a snapshot, which lacks what was sealed.
    Absorb(Small),
}

fn small() -> impl Strategy<Value = Small> {
    (0u8..3, 0u8..3, 0u8..2, 0u8..4)
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => small().prop_map(Act::Insert),
        10 => small().prop_map(Act::Delete),
        1 => (0u8..3).prop_map(Act::Clear),
        3 => Just(Act::Savepoint),
        3 => Just(Act::Rollback),
        5 => Just(Act::Commit),
        2 => Just(Act::Abort),
        2 => Just(Act::Seal),
        2 => Just(Act::Advance),
        1 => small().prop_map(Act::Absorb),
    ]
}

struct Place {
    store: Arc<Store>,
    writer: ShardWriter,
    sn: Sn,
}

impl Place {
    fn new() -> Place {
        let store = Store::new(1);
        let writer = store.take_writer(ShardId(0)).expect("the first writer");
        store.snapshots().publish_stable(Sn(0));
        Place {
            store,
            writer,
            sn: Sn(0),
        }
    }

    fn id(&self, kind: &str, number: u8) -> TermId {
        let name = NamedNode::new_unchecked(format!("http://x/{kind}{number}"));
        self.store.dictionary().intern(Term::from(name).as_ref())
    }

    fn quad(&self, (graph, subject, predicate, object): Small) -> QuadIds {
        let triple = TripleIds::new(
            self.id("s", subject),
            self.id("p", predicate),
            self.id("s", object),
        );
        triple.in_graph(self.graph(graph))
    }

    fn graph(&self, number: u8) -> TermId {
        match number {
            0 => TermId::DEFAULT_GRAPH,
            number => self.id("g", number),
        }
    }

    fn write(&mut self, mutations: &[Mutation]) {
        self.sn = Sn(self.sn.0 + 1);
        for batch in ShardBatch::split(mutations, self.store.placement()) {
            self.writer.apply(self.sn, &batch).expect("in order");
        }
        self.store.snapshots().publish_stable(self.sn);
    }
}

/// What a query on all graphs finds, as ids.
fn all(state: &mut TransactionState) -> BTreeSet<[TermId; 4]> {
    let text = "SELECT ?g ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";
    let query = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    let answer = begin(state, execution()).query(&query, &[]);
    let Ok(Answer::Solutions(found)) = answer else {
        panic!("{answer:?}");
    };
    (0..found.len())
        .map(|row| [0, 1, 2, 3].map(|column| found.column(column)[row]))
        .collect()
}

fn named(quads: &BTreeSet<QuadIds>) -> BTreeSet<[TermId; 4]> {
    let graph = |quad: &QuadIds| match quad.graph == TermId::DEFAULT_GRAPH {
        true => TermId::UNBOUND,
        false => quad.graph,
    };
    let row = |quad: &QuadIds| [graph(quad), quad.subject, quad.predicate, quad.object];
    quads.iter().map(row).collect()
}

/// The effects that lead from one set to the other, where these graphs were cleared.
fn expected(
    before: &BTreeSet<QuadIds>,
    after: &BTreeSet<QuadIds>,
    clears: &[TermId],
) -> NetEffects {
    let is_cleared = |quad: &&QuadIds| clears.contains(&quad.graph);
    let gone = before.difference(after).filter(|quad| !is_cleared(quad));
    let come = after.iter();
    let come = come.filter(|quad| !before.contains(quad) || is_cleared(quad));
    NetEffects {
        clears: clears.to_vec(),
        deletes: gone.copied().collect(),
        inserts: come.copied().collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(200),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_transaction_is_a_change_of_a_set(acts in proptest::collection::vec(act(), 1..120)) {
        let mut place = Place::new();
        let mut state = TransactionState::new(place.store.pin_stable());
        let mut committed: BTreeSet<QuadIds> = BTreeSet::new();
        // Effects that are sealed, and those since.
        let (mut sealed, mut since): (Vec<NetEffects>, Vec<NetEffects>) = Default::default();
        let mut rest = acts.as_slice();
        while let Some(first) = rest.first() {
            match first {
                Act::Seal => {
                    if state.seal() {
                        prop_assert!(sealed.iter().all(NetEffects::is_empty));
                        sealed = std::mem::take(&mut since);
                    }
                    rest = &rest[1..];
                    continue;
                }
                Act::Advance => {
                    let mutations: Vec<Mutation> = (sealed.drain(..))
                        .flat_map(|effects| {
                            let gone = effects.deletes.into_iter().map(Mutation::delete);
                            gone.chain(effects.inserts.into_iter().map(Mutation::insert)).collect::<Vec<_>>()
                        })
                        .collect();
                    place.write(&mutations);
                    state.advance(place.store.pin_stable());
                    rest = &rest[1..];
                    continue;
                }
                Act::Absorb(fact) => {
                    let quad = place.quad(*fact);
                    // What a transaction deleted since stays deleted; the layers say so.
                    let said = |list: &[NetEffects]| list.iter().any(|it| it.deletes.contains(&quad));
                    if !said(&sealed) && !said(&since) {
                        place.write(&[Mutation::insert(quad)]);
                        committed.insert(quad);
                        state.rebase(place.store.pin_stable());
                    }
                    rest = &rest[1..];
                    continue;
                }
                _ => {}
            }
            let mut model = committed.clone();
            let mut clears: Vec<TermId> = Vec::new();
            let mut points = Vec::new();
            let mut commits = true;
            let mut txn = begin(&mut state, execution());
            while let Some((act, behind)) = rest.split_first() {
                rest = behind;
                match act {
                    Act::Insert(quad) => {
                        let quad = place.quad(*quad);
                        txn.insert(quad);
                        model.insert(quad);
                    }
                    Act::Delete(quad) => {
                        let quad = place.quad(*quad);
                        txn.delete(quad);
                        model.remove(&quad);
                    }
                    Act::Clear(graph) => {
                        let graph = place.graph(*graph);
                        txn.clear(graph);
                        model.retain(|quad| quad.graph != graph);
                        clears.push(graph);
                    }
                    Act::Savepoint => points.push((txn.savepoint(), model.clone(), clears.clone())),
                    Act::Rollback => {
                        if let Some((point, set, cleared)) = points.pop() {
                            txn.rollback(point);
                            (model, clears) = (set, cleared);
                        }
                    }
                    Act::Commit => break,
                    Act::Abort => {
                        commits = false;
                        break;
                    }
                    Act::Seal | Act::Advance | Act::Absorb(_) => {}
                }
            }
            if !commits {
                drop(txn);
                prop_assert_eq!(all(&mut state), named(&committed));
                continue;
            }
            clears.sort_unstable();
            clears.dedup();
            let effects = txn.commit();
            prop_assert_eq!(&effects, &expected(&committed, &model, &clears));
            committed = model;
            if effects.clears.is_empty() {
                since.push(effects);
            } else {
                // Such an effect is in the snapshot before anything else runs.
                let stored: Vec<QuadIds> = all_stored(&place);
                let gone = stored.into_iter().map(Mutation::delete);
                let come = committed.iter().copied().map(Mutation::insert);
                place.write(&gone.chain(come).collect::<Vec<_>>());
                sealed.clear();
                since.clear();
                state.advance(place.store.pin_stable());
                prop_assert!(state.seal());
                state.advance(place.store.pin_stable());
            }
            prop_assert_eq!(all(&mut state), named(&committed));
        }
        prop_assert_eq!(all(&mut state), named(&committed));
    }
}

fn all_stored(place: &Place) -> Vec<QuadIds> {
    let mut state = TransactionState::new(place.store.pin_stable());
    let rows = all(&mut state).into_iter();
    rows.map(|[graph, subject, predicate, object]| {
        let graph = match graph.is_unbound() {
            true => TermId::DEFAULT_GRAPH,
            false => graph,
        };
        TripleIds::new(subject, predicate, object).in_graph(graph)
    })
    .collect()
}
