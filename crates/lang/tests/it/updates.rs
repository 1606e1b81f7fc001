//! Updates with a prologue before each operation (SPARQL 1.1 Update, §3.1.2 and grammar rule
//! `Update`).

use somersault_lang::{ParseError, Parser, Update, UpdateOperation};
use std::fmt::Write;

fn parse(text: &str) -> Result<Update, ParseError> {
    Parser::new().parse_update(text)
}

/// The quads that the INSERT DATA operations of an update name.
fn inserted(update: &Update) -> Vec<String> {
    let data = update
        .operations
        .iter()
        .filter_map(|operation| match operation {
            UpdateOperation::InsertData(quads) => Some(quads),
            _ => None,
        });
    data.flatten().map(ToString::to_string).collect()
}

#[test]
fn each_operation_may_have_a_prologue() {
    let text = "PREFIX dc: <http://purl.org/dc/elements/1.1/>\n\
                DELETE DATA { GRAPH <http://example/books> { <http://example/b> dc:title \"Fundamentals\" } } ;\n\n\
                PREFIX dc: <http://purl.org/dc/elements/1.1/>\n\
                INSERT DATA { GRAPH <http://example/books> { <http://example/b> dc:title \"Basics\" } }";
    let update = parse(text).expect("a prologue may stand before each operation");
    assert_eq!(update.operations.len(), 2);
    assert_eq!(
        inserted(&update),
        [
            "<http://example/b> <http://purl.org/dc/elements/1.1/title> \"Basics\" <http://example/books>"
        ]
    );
}

#[test]
fn a_prologue_holds_from_its_place_on() {
    let text = "BASE <http://a/> PREFIX p: <x#> PREFIX q: <q#>\n\
                INSERT DATA { <s> p:p q:o } ;\n\
                BASE <b/> PREFIX p: <y#>\n\
                INSERT DATA { <s> p:p q:o } ; INSERT DATA { <t> p:p true } ;\n\
                BASE <http://c/> INSERT DATA { <s> p:p q:o } ;";
    let update = parse(text).expect("prologues may change what names mean");
    assert_eq!(
        inserted(&update),
        [
            "<http://a/s> <http://a/x#p> <http://a/q#o>",
            "<http://a/b/s> <http://a/b/y#p> <http://a/q#o>",
            "<http://a/b/t> <http://a/b/y#p> \"true\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
            "<http://c/s> <http://a/b/y#p> <http://a/q#o>",
        ]
    );
    assert_eq!(update.base.as_deref(), Some("http://c/"));
    let bases: Vec<_> = parse(
        "BASE <http://a/> DELETE WHERE { ?s ?p 1 } ; BASE <http://b/> DELETE WHERE { ?s ?p 2 }",
    )
    .expect("each operation has the base before it")
    .operations
    .into_iter()
    .map(|operation| match operation {
        UpdateOperation::DeleteInsert(change) => change.query.base,
        other => panic!("{other:?}"),
    })
    .collect();
    assert_eq!(
        bases,
        [Some("http://a/".to_owned()), Some("http://b/".to_owned())]
    );
}

#[test]
fn an_update_may_end_with_a_prologue() {
    for text in [
        "CLEAR ALL ; PREFIX p: <http://p/>",
        "CLEAR ALL ; PREFIX p: <http://p/> BASE <http://b/>\n",
        "PREFIX p: <http://p/>",
    ] {
        let operations = parse(text).expect("the grammar allows it").operations;
        assert_eq!(operations.len(), usize::from(text.starts_with("CLEAR")));
    }
}

#[test]
fn bare_names_and_other_spellings_are_read_behind_prologues_too() {
    let parser = Parser::new().with_default_namespace("http://x/");
    let text = "INSERT DATA { a1 po TRUE } ; PREFIX p: <http://p/> INSERT DATA { a2 po p:a.b.c } ; \
                PREFIX p: <http://q/> INSERT DATA { a3 po p:a.b.c }";
    let update = parser.parse_update(text).expect("bare names are names");
    assert_eq!(
        inserted(&update),
        [
            "<http://x/a1> <http://x/po> \"true\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
            "<http://x/a2> <http://x/po> <http://p/a.b.c>",
            "<http://x/a3> <http://x/po> <http://q/a.b.c>",
        ]
    );
}

#[test]
fn faults_behind_a_prologue_have_their_place() {
    let place = |text: &str| {
        let error = parse(text).expect_err("the text has a fault");
        (error.line, error.column, error.message)
    };
    let (line, column, message) =
        place("CLEAR ALL ;\nPREFIX p: <http://p/>\nINSERT DATA { ?x p:p 1 }");
    assert_eq!((line, column), (3, 15), "{message}");
    let (line, column, message) = place(
        "CLEAR ALL ;\nPREFIX p: <http://p/>\nINSERT DATA { p:s p:p 1 } ;\nPREFIX q: <http://p/> DELETE DATA { r:s p:p 1 }",
    );
    assert_eq!((line, column), (4, 37), "{message}");
    // Refusals of the library have their place too.
    let (line, _, message) = place(
        "CLEAR ALL ;\nPREFIX p: <http://p/>\nDELETE { ?s p:p 1 } WHERE { ?s p:p 1 BIND(2 AS ?s) }",
    );
    assert_eq!(line, 3, "{message}");
    // A prefix of a later prologue is not known before it.
    place("INSERT DATA { p:s p:p 1 } ; PREFIX p: <http://p/> CLEAR ALL");
    // f:timestamp is refused wherever its prefix is declared.
    let (.., message) = place(
        "CLEAR ALL ; PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\n\
         DELETE { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(f:timestamp(?s, ?p, ?o) > 5) }",
    );
    assert!(message.contains("f:timestamp"), "{message}");
    let (line, _, message) = place(
        "INSERT DATA { _:b <http://p> 1 } ;\nPREFIX p: <http://p/>\nINSERT DATA { _:b p:p 2 }",
    );
    assert!(message.contains("_:b"), "{message}");
    assert_eq!(line, 3, "{message}");
}

#[test]
fn many_prologues_are_read_quickly() {
    let mut text = String::new();
    for n in 0..3_000 {
        let _ = writeln!(
            text,
            "PREFIX p{n}: <http://p{n}/> INSERT DATA {{ p{n}:s p{n}:p p0:o }} ;"
        );
    }
    let update = parse(&text).expect("it parses");
    assert_eq!(update.operations.len(), 3_000);
}
