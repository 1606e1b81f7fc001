//! The writers and the cursor against a slow reference: rows of terms, written by `sparesults`.

use crate::{Answer, AnswerError, Cell, CellKind};
use oxrdf::vocab::xsd;
use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, NamedOrBlankNode, Variable};
use oxrdf::{Term, Triple};
use oxrdfio::RdfFormat;
use proptest::prelude::*;
use somersault_dictionary::Dictionary;
use somersault_model::TermId;
use somersault_query::Answer as Inner;
use somersault_query::Solutions;
use sparesults::QueryResultsFormat;
use sparesults::{QueryResultsParser, QueryResultsSerializer, ReaderQueryResultsParserOutput};
use std::sync::Arc;

const FORMATS: [QueryResultsFormat; 4] = [
    QueryResultsFormat::Json,
    QueryResultsFormat::Xml,
    QueryResultsFormat::Csv,
    QueryResultsFormat::Tsv,
];

type Table = Vec<Vec<Option<Term>>>;

/// Returns an answer of these rows; terms are in the dictionary, or where `local` says so in the
/// answer.
fn answer(width: usize, rows: &Table, local: &[bool]) -> Answer {
    let dictionary = Arc::new(Dictionary::new());
    let mut own = Vec::new();
    let mut columns = vec![Vec::new(); width];
    for (at, row) in rows.iter().enumerate() {
        for (column, cell) in columns.iter_mut().zip(row) {
            let is_local = !local.is_empty() && local[at % local.len()];
            column.push(match cell {
                None => TermId::UNBOUND,
                Some(term) if is_local => {
                    own.push(term.clone());
                    TermId::local(own.len() as u64 - 1)
                }
                Some(term) => dictionary.intern(term.as_ref()),
            });
        }
    }
    let names: Vec<String> = (0..width).map(|at| format!("v{at}")).collect();
    let solutions = Solutions::new(names.into(), columns, rows.len(), own.into());
    Answer::new(Inner::Solutions(solutions), dictionary)
}

fn written(answer: &Answer, format: QueryResultsFormat) -> String {
    let mut bytes = Vec::new();
    answer
        .write_results(format, &mut bytes)
        .expect("the format can hold it");
    String::from_utf8(bytes).expect("UTF-8")
}

/// Returns the same by `sparesults`, from terms.
fn dull(answer: &Answer, format: QueryResultsFormat) -> String {
    let columns: Vec<Variable> = (answer.variables().iter())
        .map(|name| Variable::new_unchecked(name.as_str()))
        .collect();
    let mut out = QueryResultsSerializer::from_format(format)
        .serialize_solutions_to_writer(Vec::new(), columns.clone())
        .expect("in memory");
    for row in answer.rows() {
        let bound =
            (columns.iter().zip(&row)).filter_map(|(name, cell)| Some((name, cell.as_ref()?)));
        out.serialize(bound).expect("in memory");
    }
    String::from_utf8(out.finish().expect("in memory")).expect("UTF-8")
}

/// Returns the rows that `sparesults` reads from a text.
fn read(text: &str, format: QueryResultsFormat) -> Table {
    let parsed = QueryResultsParser::from_format(format)
        .for_reader(text.as_bytes())
        .expect("it can be read");
    let ReaderQueryResultsParserOutput::Solutions(solutions) = parsed else {
        panic!("not solutions: {text}");
    };
    solutions
        .map(|row| row.expect("it can be read").values().to_vec())
        .collect()
}

/// Returns the fields of a CSV text, read according to RFC 4180.
fn csv_fields(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let row = rows.last_mut().expect("there is one");
        let field = row.last_mut().expect("there is one");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => {
                assert!(quoted || field.is_empty(), "a quote inside a field: {text}");
                quoted = !quoted;
            }
            ',' if !quoted => row.push(String::new()),
            '\r' if !quoted => {
                assert_eq!(characters.next(), Some('\n'), "{text}");
                rows.push(vec![String::new()]);
            }
            c => field.push(c),
        }
    }
    assert_eq!(
        rows.pop(),
        Some(vec![String::new()]),
        "a line end at the end"
    );
    rows
}

fn csv_text(term: &Term) -> String {
    match term {
        Term::NamedNode(node) => node.as_str().to_owned(),
        Term::BlankNode(node) => node.to_string(),
        Term::Literal(literal) => literal.value().to_owned(),
        Term::Triple(triple) => {
            let subject: Term = match &triple.subject {
                NamedOrBlankNode::NamedNode(node) => node.clone().into(),
                NamedOrBlankNode::BlankNode(node) => node.clone().into(),
            };
            let parts = [
                subject,
                triple.predicate.clone().into(),
                triple.object.clone(),
            ];
            parts.each_ref().map(csv_text).join(" ")
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => prop::char::range('a', 'z'),
        3 => prop::sample::select(vec!['"', '\\', '\t', '\n', '\r', ' ', ',', '<', '>', '&', '\'', '\u{85}', ']', '{', '\u{7f}', 'ß', '語', '\u{2028}', '😀', '\u{FFFD}', '\u{F000}', '\u{FEFF}']),
        1 => any::<char>().prop_filter("XML has no words for it", |c| (*c >= ' ' || "\t\n\r".contains(*c)) && !('\u{FFFE}'..='\u{FFFF}').contains(c)),
    ];
    prop::collection::vec(character, 0..40).prop_map(|characters| characters.into_iter().collect())
}

fn iri() -> impl Strategy<Value = NamedNode> {
    "[a-z,;'()é]{0,30}".prop_map(|path| NamedNode::new_unchecked(format!("http://e.org/{path}")))
}

fn literal() -> impl Strategy<Value = Literal> {
    let typed = prop::sample::select(vec![
        (xsd::INTEGER, "42"),
        (xsd::INTEGER, "-007"),
        (xsd::INTEGER, "+1"),
        (xsd::DECIMAL, "1.50"),
        (xsd::DECIMAL, ".5"),
        (xsd::DECIMAL, "1."),
        (xsd::DECIMAL, "3"),
        (xsd::DOUBLE, "1.0E7"),
        (xsd::DOUBLE, "1e"),
        (xsd::DOUBLE, ".e1"),
        (xsd::DOUBLE, "INF"),
        (xsd::DOUBLE, "2.e-3"),
        (xsd::BOOLEAN, "true"),
        (xsd::BOOLEAN, "1"),
        (xsd::BYTE, "12"),
        (xsd::FLOAT, "2.5"),
        (xsd::DATE, "2024-02-29"),
        (xsd::DATE_TIME, "2024-02-29T01:02:03.5Z"),
        (xsd::INTEGER, "x\"y"),
    ]);
    let language = prop::sample::select(vec!["en", "de-at", "zh-hant"]);
    let direction = prop::sample::select(vec![BaseDirection::Ltr, BaseDirection::Rtl]);
    prop_oneof![
        3 => text().prop_map(Literal::new_simple_literal),
        3 => typed.prop_map(|(datatype, text)| Literal::new_typed_literal(text, datatype)),
        1 => (text(), iri()).prop_map(|(text, datatype)| Literal::new_typed_literal(text, datatype)),
        1 => (text(), language.clone()).prop_map(|(text, language)| Literal::new_language_tagged_literal_unchecked(text, language)),
        1 => (text(), language, direction).prop_map(|(text, language, direction)| Literal::new_directional_language_tagged_literal_unchecked(text, language, direction)),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let blank = || "[a-z][a-z0-9]{0,8}".prop_map(BlankNode::new_unchecked);
    let leaf = prop_oneof![
        3 => iri().prop_map(Term::from),
        1 => blank().prop_map(Term::from),
        3 => literal().prop_map(Term::from),
    ];
    leaf.prop_recursive(3, 8, 3, move |inner| {
        let subject = prop_oneof![
            iri().prop_map(NamedOrBlankNode::from),
            blank().prop_map(NamedOrBlankNode::from)
        ];
        (subject, iri(), inner).prop_map(|(subject, predicate, object)| {
            Term::Triple(Box::new(Triple::new(subject, predicate, object)))
        })
    })
}

/// Rows of a few terms each, so that cells repeat below each other.
fn tables() -> impl Strategy<Value = (usize, Table)> {
    (0..4_usize, prop::collection::vec(term(), 1..6)).prop_flat_map(|(width, terms)| {
        let cell = prop::option::weighted(0.8, prop::sample::select(terms));
        let row = prop::collection::vec(cell, width);
        (Just(width), prop::collection::vec(row, 0..12))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn json_and_tsv_are_byte_for_byte_those_of_sparesults((width, rows) in tables(), local in prop::collection::vec(any::<bool>(), 0..3)) {
        let answer = answer(width, &rows, &local);
        prop_assert_eq!(written(&answer, QueryResultsFormat::Json), dull(&answer, QueryResultsFormat::Json));
        let tsv = written(&answer, QueryResultsFormat::Tsv);
        prop_assert_eq!(&tsv, &dull(&answer, QueryResultsFormat::Tsv));
        if width > 0 {
            prop_assert_eq!(read(&tsv, QueryResultsFormat::Tsv), rows);
        }
    }

    #[test]
    fn xml_reads_back_as_the_same_rows((width, rows) in tables(), local in prop::collection::vec(any::<bool>(), 0..3)) {
        let answer = answer(width, &rows, &local);
        let xml = written(&answer, QueryResultsFormat::Xml);
        prop_assert_eq!(read(&xml, QueryResultsFormat::Xml), rows);
        // The one difference: carriage returns are escaped everywhere, since readers change bare
        // ones.
        if !xml.contains("&#13;") {
            prop_assert_eq!(xml, dull(&answer, QueryResultsFormat::Xml));
        }
    }

    #[test]
    fn csv_reads_back_as_the_same_texts((width, rows) in tables(), local in prop::collection::vec(any::<bool>(), 0..3)) {
        let answer = answer(width, &rows, &local);
        let mut fields = csv_fields(&written(&answer, QueryResultsFormat::Csv));
        let names: Vec<String> = if width == 0 { vec![String::new()] } else { answer.variables().to_vec() };
        prop_assert_eq!(fields.remove(0), names);
        for (fields, row) in fields.iter().zip(&rows) {
            let texts = row.iter().map(|cell| cell.as_ref().map(csv_text).unwrap_or_default());
            prop_assert!(texts.eq(fields.iter().take(width).cloned()));
        }
        prop_assert_eq!(fields.len(), rows.len());
    }

    #[test]
    fn pieces_of_any_size_make_the_same_text((width, rows) in tables(), bytes in prop_oneof![Just(0), 0..300_usize]) {
        let answer = answer(width, &rows, &[]);
        for format in FORMATS {
            let whole = written(&answer, format);
            let mut writer = answer.results_writer(format).expect("a format of solutions");
            let (mut pieces, mut piece) = (Vec::new(), b"what was there before".to_vec());
            while writer.next_piece(&mut piece, bytes).expect("it is written") {
                prop_assert!(!piece.is_empty() && piece.len() >= bytes);
                pieces.extend_from_slice(&piece);
            }
            pieces.extend_from_slice(&piece);
            prop_assert_eq!(String::from_utf8(pieces).expect("UTF-8"), whole);
            prop_assert!(!writer.next_piece(&mut piece, bytes).expect("nothing fails any more"));
            prop_assert!(piece.is_empty());
        }
    }

    #[test]
    fn lines_of_json_are_the_bindings_of_json((width, rows) in tables(), bytes in prop_oneof![Just(0), 0..300_usize]) {
        let answer = answer(width, &rows, &[]);
        let whole: serde_json::Value = serde_json::from_str(&written(&answer, QueryResultsFormat::Json)).expect("JSON");
        let mut writer = answer.lines_writer().expect("solutions");
        let (mut text, mut piece, mut more) = (Vec::new(), Vec::new(), true);
        while more {
            more = writer.next_piece(&mut piece, bytes).expect("it is written");
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8(text).expect("UTF-8");
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        prop_assert_eq!(serde_json::Value::from(lines), whole["results"]["bindings"].clone());
    }

    #[test]
    fn the_cursor_lends_the_terms_of_the_rows((width, rows) in tables(), local in prop::collection::vec(any::<bool>(), 0..3)) {
        let answer = answer(width, &rows, &local);
        let mut cursor = answer.cursor();
        for row in &rows {
            let lent = cursor.next_row().expect("a row");
            prop_assert_eq!(lent.cells().len(), width);
            for (cell, term) in lent.cells().zip(row) {
                prop_assert_eq!(cell.is_some(), term.is_some());
                if let (Some(cell), Some(term)) = (cell, term) {
                    prop_assert!(is_cell(&cell, term), "{:?} is not {}", cell, term);
                }
            }
        }
        prop_assert!(cursor.next_row().is_none());
    }
}

#[test]
fn the_cursor_continues_from_block_to_block() {
    // Long runs of one term, over the ends of blocks; terms in one piece, in two, and inline.
    let rows: Table = (0..500)
        .map(|n| {
            let iri = NamedNode::new_unchecked(format!("http://e.org/beginning/{}", n / 50));
            let text = Literal::new_simple_literal(format!("a text in one piece, {n}"));
            let number = (n % 3 != 0).then(|| Literal::from(n / 7).into());
            vec![Some(iri.into()), Some(text.into()), number]
        })
        .collect();
    let answer = answer(3, &rows, &[]);
    let (mut cursor, mut seen) = (answer.cursor(), 0);
    while let Some(row) = cursor.next_row() {
        for (cell, term) in row.cells().zip(&rows[seen]) {
            assert_eq!(cell.is_some(), term.is_some());
            if let (Some(cell), Some(term)) = (cell, term) {
                assert!(is_cell(&cell, term), "{cell:?} is not {term}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, rows.len());
}

fn is_cell(cell: &Cell<'_>, term: &Term) -> bool {
    let plain = (cell.datatype, cell.language, cell.direction) == (None, None, None);
    match term {
        Term::NamedNode(node) => plain && cell.kind == CellKind::Iri && cell.text == node.as_str(),
        Term::BlankNode(node) => {
            plain && cell.kind == CellKind::BlankNode && cell.text == node.as_str()
        }
        Term::Literal(literal) => {
            let typed = literal.language().is_none() && literal.datatype() != xsd::STRING;
            let datatype = literal.datatype();
            cell.kind == CellKind::Literal
                && cell.text == literal.value()
                && cell.datatype == typed.then(|| datatype.as_str())
                && cell.language == literal.language()
                && cell.direction == literal.direction()
        }
        Term::Triple(_) => {
            plain
                && cell.kind == CellKind::Triple
                && cell.text.starts_with("<<( ")
                && cell.text.ends_with(" )>>")
        }
    }
}

#[test]
fn characters_that_xml_cannot_hold_are_an_error() {
    for foreign in ["a\u{1}b", "\u{b}", "\u{FFFE}", "\u{FFFF}"] {
        let row = vec![Some(Literal::new_simple_literal(foreign).into())];
        let answer = answer(1, &vec![row], &[]);
        let refused = answer.write_results(QueryResultsFormat::Xml, Vec::new());
        let Err(AnswerError::CannotHold(sentence)) = refused else {
            panic!("{foreign:?} was written: {refused:?}");
        };
        assert!(sentence.contains("U+"), "{sentence}");
        let json = written(&answer, QueryResultsFormat::Json);
        assert_eq!(json, dull(&answer, QueryResultsFormat::Json));
        assert_eq!(
            read(&json, QueryResultsFormat::Json),
            answer.rows().collect::<Table>()
        );
    }
}

#[test]
fn every_control_character_of_json() {
    let controls: String = (0..0x20_u8).map(char::from).collect();
    let answer = answer(
        1,
        &vec![vec![Some(Literal::new_simple_literal(controls).into())]],
        &[],
    );
    assert_eq!(
        written(&answer, QueryResultsFormat::Json),
        dull(&answer, QueryResultsFormat::Json)
    );
}

#[test]
fn graphs_and_booleans_come_in_pieces_too() {
    let node = |n: u32| NamedNode::new_unchecked(format!("http://e.org/{n}"));
    let triples: Vec<Triple> = (0..50)
        .map(|n| Triple::new(node(n), node(n / 7), node(n % 5)))
        .collect();
    let graph = Answer::new(Inner::Graph(triples), Arc::new(Dictionary::new()));
    for format in [RdfFormat::NTriples, RdfFormat::Turtle, RdfFormat::RdfXml] {
        let mut whole = Vec::new();
        graph
            .write_graph(format, &mut whole)
            .expect("it can be written");
        let mut dull = oxrdfio::RdfSerializer::from_format(format).for_writer(Vec::new());
        for triple in graph.triples() {
            dull.serialize_triple(&triple).expect("in memory");
        }
        assert_eq!(whole, dull.finish().expect("in memory"));
        let mut writer = graph.graph_writer(format).expect("a graph");
        let (mut pieces, mut piece, mut count) = (Vec::new(), Vec::new(), 1);
        while writer.next_piece(&mut piece, 100).expect("it is written") {
            pieces.extend_from_slice(&piece);
            count += 1;
        }
        pieces.extend_from_slice(&piece);
        assert_eq!(pieces, whole);
        assert!(count > 3, "{count} pieces");
    }
    assert!(graph.results_writer(QueryResultsFormat::Json).is_err());
    assert!(graph.cursor().next_row().is_none());
    let yes = Answer::new(Inner::Boolean(true), Arc::new(Dictionary::new()));
    assert_eq!(
        written(&yes, QueryResultsFormat::Json),
        "{\"head\":{},\"boolean\":true}"
    );
    assert!(yes.graph_writer(RdfFormat::NTriples).is_err());
}
