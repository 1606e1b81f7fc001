//! Documents: cut out of their text, and read as the triples of Facade-X. The dull twin of the JSON
//! reader walks over a parsed value; the one of CSV splits texts that need no quotes.

use oxrdf::Quad;
use proptest::prelude::*;
use serde_json::Value;
use somersault_lines::{
    Document, DocumentReader, DocumentSyntax, FacadeSlot, FacadeTriple, FacadeValue, MessageLimits,
};
use std::io::{self, Read};

const LIMITS: MessageLimits = MessageLimits {
    bytes: 1 << 16,
    statements: 1_000,
};

/// Gives a text in pieces of a few bytes.
struct Pieces<'t>(&'t [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(self.0.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

type Shown = Result<Vec<String>, (u64, u64, String)>;

fn shown(document: &Document) -> Shown {
    let mut triples = Vec::new();
    let read = document.triples(LIMITS.statements, |it| triples.push(it.quad().to_string()));
    read.map(|()| triples)
        .map_err(|refused| (refused.line, refused.column, refused.reason))
}

/// The documents of a text; the pieces in which it comes make no difference.
fn read_within(text: &[u8], syntax: DocumentSyntax, limits: MessageLimits) -> Vec<Shown> {
    let read = |documents: &mut dyn Iterator<Item = io::Result<Document>>| -> Vec<Shown> {
        let documents = documents.map(|it| it.expect("a text in memory is readable"));
        let numbered = documents.zip(0..).map(|(document, ordinal)| {
            assert_eq!(document.ordinal, ordinal);
            shown(&document)
        });
        numbered.collect()
    };
    let whole = read(&mut DocumentReader::new(text, syntax, limits));
    for length in [1, 7] {
        let pieces = Pieces(text, length);
        let again = read(&mut DocumentReader::new(pieces, syntax, limits));
        assert_eq!(again, whole, "{length}");
    }
    whole
}

fn read(text: &str, syntax: DocumentSyntax) -> Vec<Shown> {
    read_within(text.as_bytes(), syntax, LIMITS)
}

/// The triples of the only document, in short names.
fn triples(text: &str, syntax: DocumentSyntax) -> Vec<String> {
    let documents = read(text, syntax);
    let [Ok(triples)] = documents.as_slice() else {
        panic!("{text}: {documents:?}")
    };
    let short = |triple: &String| {
        let names = [
            ("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "rdf:"),
            ("http://sparql.xyz/facade-x/data/", "xyz:"),
            ("http://sparql.xyz/facade-x/ns/", "fx:"),
            ("http://www.w3.org/2001/XMLSchema#", "xsd:"),
        ];
        let mut triple = triple.replace("_:", "");
        for (iri, prefix) in names {
            triple = triple.replace(iri, prefix);
        }
        triple.replace(['<', '>'], "")
    };
    triples.iter().map(short).collect()
}

/// What is said of the documents, `ok` for those that are read.
fn said(text: &str, syntax: DocumentSyntax) -> Vec<(u64, u64, String)> {
    let documents = read(text, syntax).into_iter();
    documents
        .map(|it| it.map_or_else(|said| said, |_| (0, 0, "ok".to_owned())))
        .collect()
}

#[test]
fn objects_and_arrays_are_containers() {
    let text = r#" {"name": "Ann", "age": 41, "h": 1.70, "e": 1e3, "is": true, "no": null,
        "at": {"x": -1}, "tags": ["a", null, ["b"], "a"], "": "é\n", "a b/c": "x"} "#;
    assert_eq!(
        triples(text, DocumentSyntax::Json),
        [
            "c0 rdf:type fx:root",
            "c0 xyz:name \"Ann\"",
            "c0 xyz:age \"41\"^^xsd:integer",
            "c0 xyz:h \"1.70\"^^xsd:decimal",
            "c0 xyz:e \"1e3\"^^xsd:double",
            "c0 xyz:is \"true\"^^xsd:boolean",
            "c0 xyz:at c1",
            "c1 xyz:x \"-1\"^^xsd:integer",
            "c0 xyz:tags c2",
            "c2 rdf:_1 \"a\"",
            "c2 rdf:_3 c3",
            "c3 rdf:_1 \"b\"",
            "c2 rdf:_4 \"a\"",
            "c0 xyz: \"é\\n\"",
            "c0 xyz:a%20b%2Fc \"x\"",
        ]
    );
    assert_eq!(
        triples("\u{feff}5", DocumentSyntax::Json),
        ["c0 rdf:type fx:root", "c0 rdf:_1 \"5\"^^xsd:integer"]
    );
    assert_eq!(
        triples("[{}]", DocumentSyntax::Json),
        ["c0 rdf:type fx:root"]
    );
    assert_eq!(
        triples("[null]", DocumentSyntax::Json),
        ["c0 rdf:type fx:root"]
    );
    let member = FacadeTriple {
        container: 3,
        slot: FacadeSlot::Member("a"),
        value: FacadeValue::Container(4),
    };
    let quad: Quad = member.quad();
    assert_eq!(
        quad.to_string(),
        "_:c3 <http://sparql.xyz/facade-x/data/a> _:c4"
    );
}

#[test]
fn records_of_csv_have_the_members_of_their_header() {
    let text = "\u{feff}id,\"say \"\"it\"\"\",c\r\n7,\"a,\nb\",\r\n\r\n8,x,y";
    let documents = read(text, DocumentSyntax::Csv);
    assert_eq!(documents.len(), 2, "{documents:?}");
    let first = documents[0].as_ref().expect("it is well formed");
    assert_eq!(first.len(), 3, "an empty field is nothing: {first:?}");
    assert!(
        first[2].ends_with("/data/say%20%22it%22> \"a,\\nb\""),
        "{first:?}"
    );
    assert_eq!(documents[1].as_ref().map(Vec::len), Ok(4));
    assert_eq!(read("", DocumentSyntax::Csv), []);
    assert_eq!(read("a,b\n", DocumentSyntax::Csv), []);
    let said = said("a,b\n1,2\n3\n4,5,6\n7,8\n", DocumentSyntax::Csv);
    let lines: Vec<u64> = said.iter().map(|it| it.0).collect();
    assert_eq!(lines, [0, 3, 4, 0]);
    assert_eq!(
        said[1].2,
        "the record has 1 fields and the header 2; make them as many"
    );
    let twice = read("a,a\n1,2\n3,4\n", DocumentSyntax::Csv);
    assert_eq!(
        twice.len(),
        1,
        "without a header nothing is read: {twice:?}"
    );
    assert!(
        twice[0]
            .as_ref()
            .unwrap_err()
            .2
            .contains("names the field \"a\" twice")
    );
}

#[test]
fn a_malformed_document_refuses_itself_alone() {
    let json = DocumentSyntax::Json;
    assert_eq!(said(" ", json), []);
    assert_eq!(said("[ ]", json), []);
    let places = |text: &str| -> Vec<(u64, u64)> {
        said(text, json).iter().map(|it| (it.0, it.1)).collect()
    };
    assert_eq!(places("[1, {\"a\" 2}, 3]"), [(0, 0), (1, 10), (0, 0)]);
    assert_eq!(
        places("[1,\n {\"a\": tru},\n \"]\"]"),
        [(0, 0), (2, 8), (0, 0)]
    );
    assert_eq!(places("[1,,2]").len(), 3);
    assert!(said("[1,,2]", json)[1].2.contains("is missing"));
    assert!(said("[1,]", json)[1].2.contains("is missing"));
    assert!(said("[1, 2", json)[1].2.contains("ends inside its array"));
    assert!(said("[1] 2", json)[1].2.contains("behind the array"));
    assert!(said("{} {}", json)[0].2.contains("this is no JSON"));
    let lines = said(
        "{\"a\": 1}\n\n{\"a\"\n[1, 2]\nx\n{}",
        DocumentSyntax::NdJson,
    );
    let refused: Vec<u64> = lines.iter().map(|it| it.0).collect();
    assert_eq!(refused, [0, 3, 0, 5, 0]);
}

#[test]
fn documents_beyond_the_limits_are_refused() {
    let limits = MessageLimits {
        bytes: 20,
        statements: 1_000,
    };
    let long = format!("[1, \"{}\", 2]", "x".repeat(500));
    let documents = read_within(long.as_bytes(), DocumentSyntax::Json, limits);
    let is_read: Vec<bool> = documents.iter().map(Result::is_ok).collect();
    assert_eq!(is_read, [true, false, true]);
    assert!(
        documents[1]
            .as_ref()
            .unwrap_err()
            .2
            .contains("more than 20 bytes")
    );
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let refused = said(&format!("[{deep}]"), DocumentSyntax::Json);
    assert!(refused[0].2.contains("more triples"), "{refused:?}");
    let not_utf8 = read_within(b"a\n\xff\nb\n", DocumentSyntax::Csv, limits);
    assert!(not_utf8[0].as_ref().unwrap_err().2.contains("UTF-8"));
    assert!(not_utf8[1].is_ok());
}

/// The triples of a value, by walking over it.
fn walk(
    value: &Value,
    containers: &mut u32,
    slot: &str,
    inside: Option<u32>,
    out: &mut Vec<String>,
) {
    let add = |object: String, out: &mut Vec<String>| {
        if let Some(container) = inside {
            out.push(format!("_:c{container} <{slot}> {object}"));
        }
    };
    let is_container = value.is_object() || value.is_array();
    if !is_container {
        let typed = |text: String, datatype: &str| {
            format!("\"{text}\"^^<http://www.w3.org/2001/XMLSchema#{datatype}>")
        };
        match value {
            Value::Bool(value) => add(typed(value.to_string(), "boolean"), out),
            Value::Number(number) => add(typed(number.to_string(), "integer"), out),
            Value::String(text) => add(oxrdf::Literal::from(text.as_str()).to_string(), out),
            _ => {}
        }
        return;
    }
    let own = *containers;
    *containers += 1;
    match inside {
        None => out.push(format!(
            "_:c{own} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://sparql.xyz/facade-x/ns/root>"
        )),
        Some(_) => add(format!("_:c{own}"), out),
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let slot = format!("http://sparql.xyz/facade-x/data/{name}");
                walk(value, containers, &slot, Some(own), out);
            }
        }
        Value::Array(elements) => {
            for (element, place) in elements.iter().zip(1..) {
                let slot = format!("http://www.w3.org/1999/02/22-rdf-syntax-ns#_{place}");
                walk(element, containers, &slot, Some(own), out);
            }
        }
        _ => {}
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\\[\\]{},:\"\\\\a]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{0,2}", inner, 0..6)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn container() -> impl Strategy<Value = Value> {
    value().prop_map(|value| match value {
        Value::Object(_) | Value::Array(_) => value,
        other => Value::from(vec![other]),
    })
}

proptest! {
    #[test]
    fn json_is_read_as_by_a_walk(values in prop::collection::vec(container(), 1..5), pretty: bool) {
        let expected = values.iter().map(|value| {
            let mut out = Vec::new();
            walk(value, &mut 0, "", None, &mut out);
            Ok(out)
        });
        let expected: Vec<Shown> = expected.collect();
        let array = Value::from(values.clone());
        let array = match pretty {
            true => serde_json::to_string_pretty(&array).expect("a value is written"),
            false => array.to_string(),
        };
        prop_assert_eq!(read(&array, DocumentSyntax::Json), expected.clone());
        let lines: Vec<String> = values.iter().map(Value::to_string).collect();
        prop_assert_eq!(read(&lines.join("\n"), DocumentSyntax::NdJson), expected);
    }

    #[test]
    fn csv_is_read_as_by_splitting(records in prop::collection::vec(["[a-z ]{1,4}", "[a-zé]{1,4}"], 0..6), crlf: bool) {
        let end = if crlf { "\r\n" } else { "\n" };
        let lines = records.iter().map(|[a, b]| format!("{a},{b}{end}"));
        let text = format!("x,y{end}{}", lines.collect::<String>());
        let documents = read(&text, DocumentSyntax::Csv);
        prop_assert_eq!(documents.len(), records.len());
        for (document, [a, b]) in documents.iter().zip(&records) {
            let triples = document.as_ref().expect("it is well formed");
            let (x, y) = (format!("/x> \"{a}\""), format!("/y> \"{b}\""));
            prop_assert!(triples[1].ends_with(&x) && triples[2].ends_with(&y));
        }
    }

    #[test]
    fn any_bytes_are_read_in_any_pieces(text in prop::collection::vec(prop::sample::select(b"[]{},:\"\\ \n\r1a\xc3\xa9\xef\xbb\xbf".to_vec()), 0..60)) {
        for syntax in DocumentSyntax::ALL {
            let _ = read_within(&text, syntax, LIMITS);
        }
    }
}
