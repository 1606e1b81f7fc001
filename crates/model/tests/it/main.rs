//! The law of inline values: what is encoded comes back to the letter, and different literals have
//! different ids.

use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode};
use proptest::prelude::*;
use somersault_model::inline::{self, Numeric};
use somersault_model::{Placement, STRIPE, ShardId, TermId, VIRTUAL_SHARDS, VirtualShard};
use std::collections::BTreeMap;

/// Lexical forms near the edges of what is inline, right and wrong ones.
fn lexical() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?[0-9]{1,18}",
        "-?(0|[1-9][0-9]{0,8})\\.[0-9]{1,9}",
        "[+-]?[0-9]{0,10}\\.?[0-9]{0,17}([eE][+-]?[0-9]{1,3})?",
        "-?[0-9]\\.[0-9]{1,15}E-?[0-9]{1,2}",
        "[0-9]{4}-[01][0-9]-[0-3][0-9](Z|[+-][01][0-9]:[0-5][0-9])?",
        "(19|20|00|99)[0-9]{2}-0[1-9]-[0-2][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,4})?(Z|[+-][01][0-9]:[0-5][0-9])?",
        "true|false|0|1|INF|-INF|NaN|TRUE|",
        "\\PC{0,9}",
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
    ]
}

fn datatype() -> impl Strategy<Value = NamedNode> {
    const KNOWN: &[oxrdf::NamedNodeRef<'static>] = &[
        xsd::STRING,
        xsd::INTEGER,
        xsd::DECIMAL,
        xsd::DOUBLE,
        xsd::FLOAT,
        xsd::BOOLEAN,
        xsd::DATE_TIME,
        xsd::DATE,
        xsd::LONG,
        xsd::INT,
        xsd::SHORT,
        xsd::BYTE,
        xsd::UNSIGNED_LONG,
        xsd::UNSIGNED_INT,
        xsd::UNSIGNED_SHORT,
        xsd::UNSIGNED_BYTE,
        xsd::NON_NEGATIVE_INTEGER,
        xsd::POSITIVE_INTEGER,
        xsd::NON_POSITIVE_INTEGER,
        xsd::NEGATIVE_INTEGER,
        xsd::TIME,
        xsd::DURATION,
    ];
    prop_oneof![
        10 => prop::sample::select(KNOWN).prop_map(|node| node.into_owned()),
        1 => Just(NamedNode::new_unchecked("http://example.com/type")),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        9 => (lexical(), datatype()).prop_map(|(text, kind)| Literal::new_typed_literal(text, kind)),
        1 => lexical().prop_map(|text| Literal::new_language_tagged_literal_unchecked(text, "en")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 20_000 }))]

    #[test]
    fn decoding_gives_back_the_exact_spelling(literal in literal()) {
        if let Some(id) = inline::encode(literal.as_ref()) {
            prop_assert!(id.is_inline());
            prop_assert_eq!(inline::decode(id), Some(literal.clone()));
            prop_assert_eq!(inline::datatype(id), Some(literal.datatype()));
            let mut text = String::new();
            prop_assert!(inline::write_lexical(id, &mut text).is_some());
            prop_assert_eq!(text, literal.value());
        }
    }

    #[test]
    fn values_agree_with_parsing(text in lexical()) {
        let value = |kind| {
            let literal = Literal::new_typed_literal(text.clone(), kind);
            inline::numeric(inline::encode(literal.as_ref())?)
        };
        if let Some(number) = value(xsd::DOUBLE) {
            let expected = text.parse::<f64>().expect("a double");
            prop_assert_eq!(number.to_f64().to_bits(), expected.to_bits());
        }
        if let Some(Numeric::Float(number)) = value(xsd::FLOAT) {
            let expected = text.parse::<f32>().expect("a float");
            prop_assert_eq!(number.to_bits(), expected.to_bits());
        }
        if let Some(Numeric::Decimal(number)) = value(xsd::DECIMAL) {
            let expected: oxsdatatypes::Decimal = text.parse().expect("a decimal");
            prop_assert_eq!(oxsdatatypes::Decimal::from(number), expected);
        }
        if let Some(Numeric::Integer(number)) = value(xsd::INTEGER) {
            prop_assert_eq!(number, text.parse::<i64>().expect("an integer"));
        }
        let time = Literal::new_typed_literal(text.clone(), xsd::DATE_TIME);
        if let Some(value) = inline::encode(time.as_ref()).and_then(inline::date_time) {
            let parsed: oxsdatatypes::DateTime = text.parse().expect("a dateTime");
            prop_assert_eq!(i32::from(parsed.year() > 0), 1);
            let offset = parsed.timezone_offset().map(|o| i64::from(i16::from_be_bytes(o.to_be_bytes())));
            prop_assert_eq!(value.offset_minutes.map(i64::from), offset);
        }
    }

    #[test]
    fn any_bits_are_decoded_or_refused(raw in any::<u64>()) {
        let id = TermId::from_raw(raw);
        let _ = (inline::decode(id), inline::numeric(id), inline::date(id), format!("{id:?}"));
        prop_assert!(id.virtual_shard().number() < VIRTUAL_SHARDS);
    }
}

#[test]
fn the_spellings_of_the_data_are_inline() {
    let inline = [
        ("31.234567", xsd::DOUBLE),
        ("57.0", xsd::DOUBLE),
        ("54", xsd::DOUBLE),
        ("-0.5", xsd::DECIMAL),
        ("2010-02-01T00:00:00Z", xsd::DATE_TIME),
        ("2010-02-01T00:00:00.25+01:00", xsd::DATE_TIME),
        ("2014-08-01", xsd::DATE),
        ("2147483647", xsd::INT),
        ("Aarhus", xsd::STRING),
    ];
    let mut ids = BTreeMap::new();
    for (text, kind) in inline {
        let literal = Literal::new_typed_literal(text, kind);
        let id = inline::encode(literal.as_ref()).expect("inline");
        assert_eq!(inline::decode(id), Some(literal));
        assert_eq!(ids.insert(id, text), None);
    }
    let scientific = Literal::new_typed_literal("4.842615012106538E-4", xsd::DOUBLE);
    assert_eq!(inline::encode(scientific.as_ref()), None);
    let padded = Literal::new_typed_literal("01", xsd::INTEGER);
    assert_eq!(inline::encode(padded.as_ref()), None);
}

#[test]
fn ids_of_one_kind_order_as_their_values_do() {
    let ids = |texts: &[&str], kind: oxrdf::NamedNodeRef<'_>| -> Vec<TermId> {
        let encode = |text: &&str| {
            inline::encode(Literal::new_typed_literal(*text, kind.into_owned()).as_ref())
        };
        texts
            .iter()
            .map(|text| encode(text).expect("inline"))
            .collect()
    };
    for (texts, kind) in [
        (&["-12", "-1", "0", "7", "1000"][..], xsd::INTEGER),
        (&["", "a", "ab", "b"][..], xsd::STRING),
        (
            &[
                "1969-12-31T23:00:00Z",
                "1970-01-01T01:00:00+01:00",
                "1970-01-01T00:00:01Z",
            ][..],
            xsd::DATE_TIME,
        ),
    ] {
        assert!(ids(texts, kind).is_sorted(), "{texts:?}");
    }
}

#[test]
fn shards_hold_contiguous_ranges_of_whole_stripes() {
    for shards in 1..=256 {
        let placement = Placement::new(shards);
        let mut next = 0;
        for shard in placement.all() {
            let range = placement.range_of(shard);
            assert_eq!(range.start, next, "ranges follow one another");
            assert!(!range.is_empty() && range.len().is_multiple_of(usize::from(STRIPE)));
            for number in range.clone() {
                let number = VirtualShard::truncated(number);
                assert_eq!(placement.shard_of(number), shard);
            }
            next = range.end;
        }
        assert_eq!(next, VIRTUAL_SHARDS);
        // With a multiple of shards, each shard's range lies in one shard's range here.
        for factor in [2, 3, 4].into_iter().filter(|n| n * shards <= 256) {
            let finer = Placement::new(shards * factor);
            for shard in finer.all() {
                let range = finer.range_of(shard);
                let outer = placement.range_of(ShardId(shard.0 / factor));
                assert!(outer.start <= range.start && range.end <= outer.end);
            }
        }
    }
    assert_eq!(Placement::new(0).shards(), 1);
    assert_eq!(Placement::new(5_000).shards(), 256);
}

#[test]
fn owners_of_inline_values_are_spread_and_fixed() {
    let placement = Placement::new(4);
    let mut counts = [0; 4];
    for n in 0..4_000 {
        let id = inline::integer(n).expect("inline");
        counts[usize::from(placement.owner(id).0)] += 1;
    }
    assert!(counts.iter().all(|n| *n > 800), "{counts:?}");
    let seven = inline::integer(7).expect("inline");
    assert_eq!(
        seven.virtual_shard().number(),
        SEVEN,
        "S7: owners never change"
    );
}

const SEVEN: u16 = 775;
