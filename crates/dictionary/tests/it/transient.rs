//! Transient terms against a dull twin that knows the holders of each term, and under threads.

use oxrdf::{Literal, NamedNode, Term, Triple};
use proptest::prelude::*;
use somersault_dictionary::{Dictionary, TermPin};
use somersault_model::{Lease, StreamUid, TermId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const STREAMS: u32 = 3;
/// Below this numbers are IRIs and literals, from here on triple terms of two of those.
const PLAIN: u8 = 10;
const TERMS: u8 = 14;

fn term(number: u8) -> Term {
    if number >= PLAIN {
        let name = |number: u8| NamedNode::new_unchecked(format!("http://example.com/{number}"));
        let object = term(1 + 2 * ((number - PLAIN) % 2));
        return Triple::new(name((number - PLAIN) % 3 * 2), name(0), object).into();
    }
    match number % 2 {
        0 => NamedNode::new_unchecked(format!("http://example.com/{number}")).into(),
        _ => Literal::new_typed_literal(
            format!("a long text {number}"),
            NamedNode::new_unchecked("http://example.com/datatype"),
        )
        .into(),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Statements of a stream with these terms become a slice.
    Push(u32, Vec<u8>),
    /// The slice at this place is retired.
    Retire(usize),
    /// An answer is made from the slice at this place.
    Answer(usize),
    DropAnswer(usize),
    Intern(u8),
    /// A term of the slice at this place is absorbed.
    Absorb(usize),
    /// An execution looks a term up.
    Look(u8),
    Tidy(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let terms = || prop::collection::vec(0..TERMS, 1..5);
    let step = prop_oneof![
        6 => (0..STREAMS, terms()).prop_map(|(stream, terms)| Step::Push(stream, terms)),
        5 => (0usize..20).prop_map(Step::Retire),
        2 => (0usize..20).prop_map(Step::Answer),
        2 => (0usize..20).prop_map(Step::DropAnswer),
        1 => (0..TERMS).prop_map(Step::Intern),
        1 => (0usize..20).prop_map(Step::Absorb),
        2 => (0..TERMS).prop_map(Step::Look),
        5 => (1usize..8).prop_map(Step::Tidy),
    ];
    prop::collection::vec(step, 0..80)
}

/// Terms by what they are called here, with their ids.
type Named = Vec<(u8, TermId)>;

/// The holders of each term, in plain lists.
#[derive(Default)]
struct Twin {
    slices: Vec<(u32, Named, Lease)>,
    answers: Vec<(Named, Option<Arc<TermPin>>)>,
    permanent: BTreeMap<u8, TermId>,
    /// All ids that there ever were.
    given: BTreeMap<TermId, u8>,
}

impl Twin {
    /// The terms that are held.
    fn alive(&self) -> BTreeMap<u8, TermId> {
        let of_slices = self.slices.iter().flat_map(|(_, terms, _)| terms);
        let of_answers = self.answers.iter().flat_map(|(terms, _)| terms);
        let transient = of_slices.chain(of_answers).copied();
        let permanent = self.permanent.iter().map(|(number, id)| (*number, *id));
        transient.chain(permanent).collect()
    }

    /// Checks an id that was given for a term: the id that a holder has, or one that never was
    /// another term's.
    fn was_given(&mut self, number: u8, id: TermId) {
        if let Some(known) = self.alive().get(&number) {
            assert_eq!(*known, id, "a held term keeps its id: {number}");
        }
        let of = *self.given.entry(id).or_insert(number);
        assert_eq!(of, number, "an id is never given to another term");
    }

    fn check(&self, dictionary: &Dictionary) {
        for (number, id) in self.alive() {
            assert_eq!(dictionary.decode(id), Some(term(number)), "{number}");
        }
        for (number, id) in &self.permanent {
            assert_eq!(dictionary.lookup(term(*number).as_ref()), Some(*id));
        }
        for (terms, held) in &self.answers {
            for (number, id) in terms.iter().filter(|(number, _)| *number < PLAIN) {
                let view = dictionary.view_held(held.as_deref(), *id);
                let mut text = String::new();
                view.expect("held").write_text(&mut text);
                let expected = match term(*number) {
                    Term::NamedNode(node) => node.into_string(),
                    Term::Literal(literal) => literal.value().to_owned(),
                    other => panic!("{other}"),
                };
                assert_eq!(text, expected);
            }
        }
    }

    /// Making a term permanent makes its parts permanent.
    fn make_permanent(&mut self, number: u8, id: TermId, dictionary: &Dictionary) {
        self.permanent.insert(number, id);
        for part in dictionary.triple_term(id).into_iter().flatten() {
            let decoded = dictionary
                .decode(part)
                .expect("a part of a term that is there");
            let known = (0..PLAIN).find(|number| term(*number) == decoded);
            self.permanent.insert(known.expect("parts are plain"), part);
        }
    }

    fn take(&mut self, step: Step, dictionary: &Dictionary) {
        match step {
            Step::Push(stream, numbers) => {
                let lease = dictionary.lease(StreamUid(stream));
                let mut mentions = dictionary.mentions(&lease);
                if numbers.len() % 2 == 0 {
                    mentions = mentions.remembering();
                }
                let mut terms = Vec::new();
                for number in numbers {
                    let id = dictionary.mention(term(number).as_ref(), &mut mentions);
                    self.was_given(number, id);
                    terms.push((number, id));
                }
                drop(mentions);
                self.slices.push((stream, terms, lease));
            }
            Step::Retire(at) if at < self.slices.len() => {
                let (stream, _, _) = self.slices.remove(at);
                dictionary.end_epoch(StreamUid(stream));
            }
            Step::Answer(at) if at < self.slices.len() => {
                let terms = self.slices[at].1.clone();
                let held = dictionary.hold(terms.iter().map(|(_, id)| id));
                self.answers.push((terms, held));
            }
            Step::DropAnswer(at) if at < self.answers.len() => {
                self.answers.remove(at);
            }
            Step::Intern(number) => {
                let id = dictionary.intern(term(number).as_ref());
                self.was_given(number, id);
                self.make_permanent(number, id, dictionary);
            }
            Step::Absorb(at) if at < self.slices.len() => {
                let (number, id) = self.slices[at].1[0];
                assert!(dictionary.make_permanent(id));
                self.make_permanent(number, id, dictionary);
            }
            Step::Look(number) => {
                let is_permanent = self.permanent.contains_key(&number);
                let sure = dictionary.lookup(term(number).as_ref());
                assert_eq!(sure.is_some(), is_permanent);
                let mut held = TermPin::default();
                match dictionary.lookup_held(term(number).as_ref(), &mut held) {
                    Some(id) => {
                        self.was_given(number, id);
                        // As an execution would hold a term for its answer.
                        let kept = dictionary.hold([id].iter());
                        self.answers.push((vec![(number, id)], kept));
                    }
                    None => assert!(!self.alive().contains_key(&number)),
                }
            }
            Step::Tidy(most) => {
                dictionary.tidy(most);
            }
            _ => {}
        }
    }
}

/// Reclaims until there is nothing left to reclaim.
fn reclaim_all(dictionary: &Dictionary) {
    let mut idle = 0;
    while idle < 4 {
        idle = if dictionary.tidy(1_000) > 0 {
            0
        } else {
            idle + 1
        };
    }
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "minutes under miri")]
    fn terms_stay_as_long_as_they_are_held_and_no_longer(steps in steps()) {
        let dictionary = Dictionary::new();
        let mut twin = Twin::default();
        for step in steps {
            twin.take(step, &dictionary);
            twin.check(&dictionary);
        }
        reclaim_all(&dictionary);
        twin.check(&dictionary);
        // Only held terms are left. The parts of a triple term are reclaimed with it.
        let alive = twin.alive();
        let mut known: BTreeSet<TermId> = alive.values().copied().collect();
        let parts = alive.values().filter_map(|id| dictionary.triple_term(*id));
        known.extend(parts.flatten().collect::<Vec<_>>());
        // A lease covers what was mentioned later than its epoch, too.
        if twin.slices.is_empty() {
            let left: Vec<TermId> = (twin.given.keys().copied())
                .filter(|id| dictionary.is_known(*id) && !known.contains(id))
                .filter(|id| id.is_transient())
                .collect();
            prop_assert!(left.is_empty(), "{left:?}");
        }
        let permanent = twin.permanent.clone();
        drop(twin);
        reclaim_all(&dictionary);
        let came_so = permanent.values().filter(|id| id.is_transient()).collect::<BTreeSet<_>>();
        prop_assert_eq!(dictionary.counts().transient, came_so.len());
    }
}

#[test]
fn a_stream_of_fresh_terms_does_not_grow_in_memory() {
    let dictionary = Dictionary::new();
    let stream = StreamUid(1);
    let (rounds, kept, each) = if cfg!(miri) {
        (20, 3, 5)
    } else {
        (600, 20, 200)
    };
    let mut slices = VecDeque::new();
    let mut most = (0, 0);
    for round in 0..rounds {
        let lease = dictionary.lease(stream);
        let mut mentions = dictionary.mentions(&lease);
        for n in 0..each {
            let name = NamedNode::new_unchecked(format!("http://example.com/{round}/{n}"));
            dictionary.mention(name.as_ref().into(), &mut mentions);
        }
        drop(mentions);
        slices.push_back(lease);
        if slices.len() > kept {
            slices.pop_front();
            dictionary.end_epoch(stream);
        }
        dictionary.reclaim(2 * each);
        let bytes = dictionary.memory_bytes();
        if round < rounds / 3 {
            most.0 = most.0.max(bytes);
        } else {
            most.1 = most.1.max(bytes);
        }
    }
    assert!(most.1 <= most.0 * 11 / 10, "{most:?}");
    let counts = dictionary.counts();
    assert!(counts.transient <= (kept + 4) * each, "{counts:?}");
    drop(slices);
    reclaim_all(&dictionary);
    assert_eq!(dictionary.counts().transient, 0);
    assert_eq!(dictionary.counts().reclaimed, (rounds * each) as u64);
}

#[test]
fn an_old_answer_holds_its_own_terms_alone() {
    let dictionary = Dictionary::new();
    let mention = |name: &str| {
        let lease = dictionary.lease(StreamUid(1));
        let name = NamedNode::new_unchecked(name);
        let id = dictionary.mention(name.as_ref().into(), &mut dictionary.mentions(&lease));
        (id, lease)
    };
    let (first, lease) = mention("http://example.com/first");
    let answer = dictionary.hold([first].iter()).expect("it is transient");
    let (second, other_lease) = mention("http://example.com/second");
    drop((lease, other_lease));
    reclaim_all(&dictionary);
    assert!(dictionary.is_known(first) && !dictionary.is_known(second));
    let (again, _) = mention("http://example.com/second");
    assert_ne!(again, second, "ids are never given again (S7)");
    drop(answer);
    reclaim_all(&dictionary);
    assert!(!dictionary.is_known(first));
    assert_eq!(dictionary.decode(first), None);
}

#[test]
fn beginnings_of_transient_iris_are_not_kept() {
    let dictionary = Dictionary::new();
    let before = dictionary.memory_bytes();
    for n in 0..2_000 {
        let lease = dictionary.lease(StreamUid(1));
        let mut mentions = dictionary.mentions(&lease);
        for m in 0..5 {
            let name = NamedNode::new_unchecked(format!("http://example.com/{n}/{m}"));
            dictionary.mention(name.as_ref().into(), &mut mentions);
        }
        drop((mentions, lease));
        dictionary.reclaim(20);
    }
    reclaim_all(&dictionary);
    let after = dictionary.memory_bytes();
    assert!(after < before + 200_000, "{before} bytes became {after}");
}

#[test]
fn threads_mention_promote_look_up_and_reclaim() {
    const NAMES: u64 = 60;
    let rounds = if cfg!(miri) { 30 } else { 4_000 };
    let dictionary = Dictionary::new();
    let name = |n: u64| NamedNode::new_unchecked(format!("http://example.com/{n}"));
    let done = AtomicBool::new(false);
    // A sequence without much order; every thread has its own.
    let drawn =
        |thread: u64, round: u64| (thread * 7919 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    std::thread::scope(|scope| {
        let pushers: Vec<_> = (0..3u64)
            .map(|thread| {
                let dictionary = &dictionary;
                scope.spawn(move || {
                    let stream = StreamUid(thread as u32 % 2);
                    let mut slices = VecDeque::new();
                    let mut answers = VecDeque::new();
                    for round in 0..rounds {
                        let lease = dictionary.lease(stream);
                        let mut mentions = dictionary.mentions(&lease).remembering();
                        let ids: Vec<_> = (0..4)
                            .map(|n| drawn(thread, round * 4 + n) % NAMES)
                            .map(|n| {
                                (
                                    n,
                                    dictionary.mention(name(n).as_ref().into(), &mut mentions),
                                )
                            })
                            .collect();
                        drop(mentions);
                        let answer = dictionary.hold(ids.iter().map(|(_, id)| id));
                        answers.push_back((ids.clone(), answer));
                        slices.push_back((ids, lease));
                        if slices.len() > 5 {
                            slices.pop_front();
                            dictionary.end_epoch(stream);
                        }
                        // Answers are kept longer than slices.
                        if answers.len() > 8 {
                            answers.pop_front();
                        }
                        for (n, id) in answers.iter().flat_map(|(ids, _)| ids) {
                            assert_eq!(dictionary.decode(*id), Some(name(*n).into()));
                        }
                        dictionary.reclaim(8);
                    }
                })
            })
            .collect();
        let promoter = scope.spawn(|| {
            let mut promoted = Vec::new();
            for round in 0..20 {
                let n = drawn(9, round) % NAMES;
                promoted.push((n, dictionary.intern(name(n).as_ref().into())));
                std::thread::yield_now();
                for (n, id) in &promoted {
                    assert_eq!(dictionary.lookup(name(*n).as_ref().into()), Some(*id));
                }
            }
            promoted
        });
        scope.spawn(|| {
            for round in 0.. {
                let n = drawn(11, round) % NAMES;
                let mut held = TermPin::default();
                if let Some(id) = dictionary.lookup_held(name(n).as_ref().into(), &mut held) {
                    assert_eq!(dictionary.decode(id), Some(name(n).into()));
                    assert_eq!(
                        dictionary.lookup_held(name(n).as_ref().into(), &mut held),
                        Some(id)
                    );
                }
                dictionary.tidy(16);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for pusher in pushers {
            pusher.join().expect("no panic");
        }
        let promoted = promoter.join().expect("no panic");
        done.store(true, Ordering::Relaxed);
        for (n, id) in promoted {
            assert_eq!(dictionary.decode(id), Some(name(n).into()));
            assert!(dictionary.is_permanent(id));
        }
    });
    reclaim_all(&dictionary);
    assert!(
        dictionary.counts().transient <= 20,
        "{:?}",
        dictionary.counts()
    );
}
