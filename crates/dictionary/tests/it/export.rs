//! A dictionary against its twin that was exported and restored: the same ids, the same terms, and
//! the same next ids.

use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, Term, Triple};
use proptest::prelude::*;
use somersault_dictionary::{
    Dictionary, DictionaryMark, DictionaryRestore, RestoredLeases, SavedEpochs, SavedRow,
    SavedTerm, SavedText, SavedTransient,
};
use somersault_model::{Lease, StreamUid, Tag, TermId, VirtualShard};
use std::collections::BTreeSet;

const STREAMS: u32 = 3;
const TERMS: u16 = 400;

/// One of a few hundred terms of all kinds.
fn term(number: u16) -> Term {
    let name = |number: u16| NamedNode::new_unchecked(format!("http://example.com/{number}"));
    let n = number / 8;
    match number % 8 {
        0 => name(n).into(),
        1 => BlankNode::new_unchecked(format!("b{n}")).into(),
        2 => Literal::new_simple_literal(format!("a longer text {n}")).into(),
        3 => {
            let datatype = NamedNode::new_unchecked(format!("http://example.com/type#{}", n % 9));
            Literal::new_typed_literal(format!("text {n}"), datatype).into()
        }
        4 => {
            let tag = format!("x-{}", n % 5);
            Literal::new_language_tagged_literal_unchecked(format!("text {n}"), tag).into()
        }
        5 => {
            let direction = [BaseDirection::Ltr, BaseDirection::Rtl][usize::from(n) % 2];
            Literal::new_directional_language_tagged_literal_unchecked(
                format!("text {n}"),
                "ar",
                direction,
            )
            .into()
        }
        6 => Triple::new(name(n), name(n % 3), Literal::from(i64::from(n))).into(),
        _ => {
            let object = term((n % 20) * 8 + n % 7);
            Triple::new(name(n + 1), name(n % 3), object).into()
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Intern(Vec<u16>),
    /// Statements of a stream with these terms become a slice.
    Push(u32, Vec<u16>),
    /// A term of the slice at this place is absorbed.
    Absorb(usize),
    /// The slice at this place is retired.
    Retire(usize),
    Tidy,
    /// The next part is exported.
    Export,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let terms = |most: usize| prop::collection::vec(0..TERMS, 1..most);
    let step = prop_oneof![
        4 => terms(20).prop_map(Step::Intern),
        4 => (0..STREAMS, terms(6)).prop_map(|(stream, terms)| Step::Push(stream, terms)),
        2 => (0usize..20).prop_map(Step::Absorb),
        2 => (0usize..20).prop_map(Step::Retire),
        2 => Just(Step::Tidy),
        2 => Just(Step::Export),
    ];
    prop::collection::vec(step, 0..most)
}

/// A dictionary with its slices: the stream, the ids, the lease.
struct Held {
    dictionary: Dictionary,
    slices: Vec<(u32, Vec<TermId>, Lease)>,
}

impl Held {
    fn new() -> Held {
        Held {
            dictionary: Dictionary::new(),
            slices: Vec::new(),
        }
    }

    /// Takes a step, and returns the ids that it gave.
    fn take(&mut self, step: &Step) -> Vec<TermId> {
        let dictionary = &self.dictionary;
        match step {
            Step::Intern(terms) => {
                let terms = terms.iter();
                terms
                    .map(|at| dictionary.intern(term(*at).as_ref()))
                    .collect()
            }
            Step::Push(stream, terms) => {
                let lease = dictionary.lease(StreamUid(*stream));
                let mut mentions = dictionary.mentions(&lease);
                let ids: Vec<TermId> = (terms.iter())
                    .map(|at| dictionary.mention(term(*at).as_ref(), &mut mentions))
                    .collect();
                drop(mentions);
                self.slices.push((*stream, ids.clone(), lease));
                ids
            }
            Step::Absorb(at) => {
                let slice = self.slices.get(*at);
                let id = slice.and_then(|(_, ids, _)| ids.first().copied());
                id.into_iter()
                    .filter(|id| dictionary.make_permanent(*id))
                    .collect()
            }
            Step::Retire(at) if *at < self.slices.len() => {
                let (stream, _, _) = self.slices.remove(*at);
                dictionary.end_epoch(StreamUid(stream));
                Vec::new()
            }
            Step::Tidy => {
                self.reclaim_all();
                Vec::new()
            }
            Step::Retire(_) | Step::Export => Vec::new(),
        }
    }

    /// A term may keep its parts until the next look.
    fn reclaim_all(&self) {
        let mut idle = 0;
        while idle < 4 {
            idle = if self.dictionary.tidy(10_000) > 0 {
                0
            } else {
                idle + 1
            };
        }
    }

    /// The ids that name a term, of these.
    fn known(&self, ids: &BTreeSet<TermId>) -> BTreeSet<TermId> {
        let ids = ids.iter().copied();
        ids.filter(|id| self.dictionary.is_known(*id)).collect()
    }
}

/// A term as plain values that own their text.
#[derive(Clone)]
struct Plain {
    kind: u8,
    number: u32,
    text: String,
    parts: [TermId; 3],
}

impl Plain {
    fn of(term: &SavedTerm<'_>) -> Plain {
        Plain {
            kind: term.kind,
            number: term.number,
            text: term.text.to_owned(),
            parts: term.parts,
        }
    }

    fn saved(&self) -> SavedTerm<'_> {
        SavedTerm {
            kind: self.kind,
            number: self.number,
            text: &self.text,
            parts: self.parts,
        }
    }
}

/// What one export shows.
#[derive(Clone, Default)]
struct Part {
    first_text: u32,
    texts: Vec<(String, TermId)>,
    /// Stripe, virtual shard within it, short hash.
    rows: Vec<(usize, u8, u32, Plain)>,
    promoted: Vec<(TermId, u64, u64, Plain)>,
    transient: Vec<(TermId, u64, u64, Plain)>,
    next_numbers: Vec<u64>,
    epochs: SavedEpochs,
}

/// The next part of a dictionary that no other thread uses.
fn export(dictionary: &Dictionary, mark: &mut DictionaryMark) -> Part {
    let part = next_part(dictionary, mark);
    assert!(dictionary.export(mark).has_no_permanent());
    part
}

fn next_part(dictionary: &Dictionary, mark: &mut DictionaryMark) -> Part {
    let export = dictionary.export(mark);
    let mut part = Part {
        first_text: export.first_text(),
        texts: (export.texts())
            .map(|text| (text.text.to_owned(), text.datatype))
            .collect(),
        next_numbers: export.next_numbers().to_vec(),
        epochs: export.epochs().clone(),
        ..Part::default()
    };
    let plain = |it: SavedTransient<'_>| (it.id, it.hash, it.mention, Plain::of(&it.term));
    for stripe in 0..Dictionary::STRIPES {
        let rows = export.rows(stripe);
        assert_eq!(rows.iter().count(), rows.len());
        for row in rows.iter() {
            let term = Plain::of(&row.term);
            part.rows.push((stripe, row.shard, row.short_hash, term));
        }
        let added = export.try_each_promoted::<()>(stripe, |term| {
            part.promoted.push(plain(term));
            Ok(())
        });
        added.unwrap();
    }
    let added = export.try_each_transient::<()>(|term| {
        part.transient.push(plain(term));
        Ok(())
    });
    added.unwrap();
    *mark = export.through().clone();
    part
}

fn restore(parts: &[Part]) -> Result<(Dictionary, RestoredLeases), String> {
    let said = |error: somersault_dictionary::RestoreError| error.to_string();
    let mut restore = DictionaryRestore::new();
    for part in parts {
        for ((text, datatype), number) in part.texts.iter().zip(part.first_text..) {
            let text = SavedText {
                text,
                datatype: *datatype,
            };
            restore.add_text(number, &text).map_err(said)?;
        }
    }
    let transient = |(id, hash, mention, term): &(TermId, u64, u64, Plain)| {
        let term = SavedTransient {
            id: *id,
            hash: *hash,
            mention: *mention,
            term: term.saved(),
        };
        restore.add_transient(&term).map_err(said)
    };
    for part in parts {
        for (stripe, shard, short_hash, term) in &part.rows {
            let row = SavedRow {
                shard: *shard,
                short_hash: *short_hash,
                term: term.saved(),
            };
            let mut stripe = restore.stripe(*stripe).ok_or("there is no such stripe")?;
            stripe.add(&row).map_err(said)?;
        }
        part.promoted.iter().try_for_each(transient)?;
    }
    let mut epochs = SavedEpochs::default();
    if let Some(last) = parts.last() {
        for (stripe, next) in last.next_numbers.iter().enumerate() {
            restore.skip_numbers(stripe, *next).map_err(said)?;
        }
        last.transient.iter().try_for_each(transient)?;
        epochs = last.epochs.clone();
    }
    restore.finish(&epochs).map_err(said)
}

/// The twin of a dictionary, with the slices that it holds.
fn restored(held: &Held, parts: &[Part]) -> Held {
    let (dictionary, leases) = restore(parts).unwrap();
    let slices = held.slices.iter().map(|(stream, ids, lease)| {
        let uid = StreamUid(*stream);
        let own = leases.of_epoch(uid, lease.epoch().number()).unwrap();
        assert_eq!(own.epoch(), lease.epoch());
        let oldest = leases.oldest(uid).unwrap().epoch().number();
        assert!(oldest <= lease.epoch().number());
        (*stream, ids.clone(), own.clone())
    });
    Held {
        dictionary,
        slices: slices.collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]

    #[test]
    fn a_restored_dictionary_goes_on_like_its_twin(
        before in steps(if cfg!(miri) { 6 } else { 60 }),
        after in steps(if cfg!(miri) { 6 } else { 60 }),
    ) {
        let mut twin = Held::new();
        let (mut given, mut parts) = (BTreeSet::new(), Vec::new());
        let mut mark = DictionaryMark::default();
        for step in &before {
            given.extend(twin.take(step));
            if matches!(step, Step::Export) {
                parts.push(export(&twin.dictionary, &mut mark));
            }
        }
        parts.push(export(&twin.dictionary, &mut mark));
        let mut held = restored(&twin, &parts);
        // Epochs end with the process.
        (0..STREAMS).for_each(|stream| twin.dictionary.end_epoch(StreamUid(stream)));
        held.dictionary.check().unwrap();
        let mark = held.dictionary.mark();
        prop_assert!(held.dictionary.export(&mark).has_no_permanent());
        for id in twin.known(&given) {
            prop_assert_eq!(held.dictionary.decode(id), twin.dictionary.decode(id));
            let is_permanent = held.dictionary.is_permanent(id);
            prop_assert_eq!(is_permanent, twin.dictionary.is_permanent(id), "{:?}", id);
        }
        prop_assert_eq!(held.dictionary.len(), twin.dictionary.len());
        for number in 0..TERMS {
            let term = term(number);
            let known = twin.dictionary.lookup(term.as_ref());
            prop_assert_eq!(held.dictionary.lookup(term.as_ref()), known);
        }
        for step in &after {
            let ids = twin.take(step);
            prop_assert_eq!(held.take(step), ids.clone(), "{:?}", step);
            given.extend(ids);
            if matches!(step, Step::Tidy) {
                prop_assert_eq!(held.known(&given), twin.known(&given));
            }
        }
        held.reclaim_all();
        twin.reclaim_all();
        held.dictionary.check().unwrap();
        twin.dictionary.check().unwrap();
        prop_assert_eq!(held.known(&given), twin.known(&given));
        // And what was restored can be exported again.
        let whole = export(&held.dictionary, &mut DictionaryMark::default());
        let again = restored(&held, &[whole]);
        prop_assert_eq!(again.known(&given), twin.known(&given));
    }
}

#[test]
fn terms_stay_while_a_restored_lease_does() {
    let mut twin = Held::new();
    let [id] = twin.take(&Step::Push(1, vec![2]))[..] else {
        panic!("one term has one id");
    };
    let part = export(&twin.dictionary, &mut DictionaryMark::default());
    let mut held = restored(&twin, &[part]);
    held.reclaim_all();
    assert_eq!(held.dictionary.decode(id), Some(term(2)));
    held.slices.clear();
    held.reclaim_all();
    assert_eq!(held.dictionary.decode(id), None);
    let again = held.take(&Step::Push(1, vec![2]));
    assert_ne!(again, [id], "ids are never given again (S7)");
}

/// An export takes its mark while other threads add terms: everything that it has refers to terms
/// that it has.
#[test]
fn an_export_beside_other_threads_is_complete() {
    let rounds: u16 = if cfg!(miri) { 2 } else { 60 };
    let dictionary = Dictionary::new();
    let parts = std::thread::scope(|scope| {
        for thread in 0..2 {
            let dictionary = &dictionary;
            scope.spawn(move || {
                for round in 0..rounds {
                    let lease = dictionary.lease(StreamUid(thread));
                    let mut mentions = dictionary.mentions(&lease);
                    for n in 0..TERMS / 10 {
                        let term = term((n * 7 + round * 13 + 200 * thread as u16) % TERMS);
                        if n % 3 == 0 {
                            dictionary.mention(term.as_ref(), &mut mentions);
                        } else if round % 5 == 0 {
                            dictionary.intern(term.as_ref());
                        }
                    }
                    dictionary.end_epoch(StreamUid(thread));
                    dictionary.reclaim(20);
                }
            });
        }
        let mut mark = DictionaryMark::default();
        let part = |_| next_part(&dictionary, &mut mark);
        (0..rounds / 2).map(part).collect::<Vec<_>>()
    });
    for upto in 1..=parts.len() {
        let (restored, _) = restore(&parts[..upto]).unwrap();
        for number in 0..TERMS {
            let term = term(number);
            if let Some(id) = restored.lookup(term.as_ref()) {
                assert_eq!(restored.decode(id), Some(term.clone()));
                assert_eq!(dictionary.lookup(term.as_ref()), Some(id));
            }
        }
    }
}

#[test]
fn a_term_that_is_mentioned_again_while_it_is_exported_fits_to_its_epochs() {
    let dictionary = Dictionary::new();
    let mention = || {
        let lease = dictionary.lease(StreamUid(1));
        let mut mentions = dictionary.mentions(&lease);
        dictionary.mention(term(2).as_ref(), &mut mentions);
        drop(mentions);
        lease
    };
    let _held = mention();
    let export = dictionary.export(&DictionaryMark::default());
    dictionary.end_epoch(StreamUid(1));
    let _later = mention();
    let next = export.epochs().next;
    let seen = export.try_each_transient(|saved| {
        let epoch = saved.mention & ((1 << 44) - 1);
        if epoch < next {
            Ok(())
        } else {
            Err((epoch, next))
        }
    });
    assert_eq!(seen, Ok(()));
}

#[test]
fn content_that_does_not_fit_together_is_refused() {
    let mut held = Held::new();
    held.take(&Step::Intern((0..TERMS).collect()));
    held.take(&Step::Push(1, (0..TERMS).collect()));
    let part = export(&held.dictionary, &mut DictionaryMark::default());
    let refused = |change: &dyn Fn(&mut Part)| {
        let mut changed = part.clone();
        change(&mut changed);
        restore(&[changed]).map(|_| ()).unwrap_err()
    };
    assert!(restore(std::slice::from_ref(&part)).is_ok());
    refused(&|part| part.rows.clear());
    refused(&|part| part.texts.truncate(1));
    refused(&|part| part.first_text = 1);
    refused(&|part| part.texts[1] = part.texts[0].clone());
    refused(&|part| part.rows[0].3.kind = 9);
    refused(&|part| part.rows[0].1 = 16);
    refused(&|part| part.epochs.next = u64::MAX);
    refused(&|part| part.epochs.leased.push((StreamUid(1), part.epochs.next)));
    refused(&|part| part.next_numbers[0] = u64::MAX);
    // A triple term without its object, and one that is its own object.
    let is_triple = |row: &&mut (usize, u8, u32, Plain)| !row.3.parts[0].is_unbound();
    let never = TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(1), 1 << 40);
    refused(&|part| {
        let row = part.rows.iter_mut().find(is_triple).unwrap();
        row.3.parts[2] = never;
    });
    let itself = held.dictionary.intern(term(6).as_ref());
    refused(&|part| {
        let same = |row: &&mut (usize, u8, u32, Plain)| row.3.parts[0] == first_of(itself, &held);
        let row = part.rows.iter_mut().find(same).unwrap();
        row.3.parts[2] = itself;
    });
}

/// DI-2: planted are a wrong hash, and a term in another one's place.
#[test]
fn di_2_terms_that_are_not_found_are_reported() {
    let mut held = Held::new();
    held.take(&Step::Intern((0..TERMS).collect()));
    held.dictionary.check().unwrap();
    let part = export(&held.dictionary, &mut DictionaryMark::default());
    let reported = |change: &dyn Fn(&mut Part)| {
        let mut changed = part.clone();
        change(&mut changed);
        let (restored, _) = restore(&[changed]).unwrap();
        restored.check().unwrap_err()
    };
    let of_kind = |part: &Part, kind: u8| part.rows.iter().position(|row| row.3.kind == kind);
    reported(&|part| {
        let at = of_kind(part, 2).unwrap();
        part.rows[at].2 ^= 1;
    });
    reported(&|part| {
        let at = of_kind(part, 3).unwrap();
        part.rows[at].3.text.push('x');
    });
}

fn first_of(triple: TermId, held: &Held) -> TermId {
    held.dictionary.triple_term(triple).unwrap()[0]
}
