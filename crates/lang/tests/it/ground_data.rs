//! Updates of plain data are read in a short way. The long way, which reads all updates, gives the
//! same.

use proptest::prelude::*;
use somersault_lang::Parser;

fn assert_same(parser: &Parser, text: &str) {
    let short = parser.parse_update(text).map(|it| format!("{it:?}"));
    let long = parser.parse_update_the_long_way(text);
    assert_eq!(short, long.map(|it| format!("{it:?}")), "{text}");
}

fn parsers() -> [Parser; 2] {
    [
        Parser::new(),
        Parser::new().with_base("http://example.org/base/x"),
    ]
}

#[test]
fn spellings_of_data_are_read_as_before() {
    for text in [
        "INSERT DATA { }",
        "INSERT DATA { <urn:a> <urn:p> 1 }",
        "insert data { <urn:a> <urn:p> 1, 2.5, 1e3, 'x', \"y\", true, false ; a <urn:C> . }",
        "DELETE DATA { <urn:a> <urn:p> <urn:b> ; ; <urn:q> 'x' ; . <urn:b> <urn:p> 1 }",
        "DELETE DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }",
        "INSERT DATA { <urn:a> <urn:p> 1 GRAPH <urn:g> { <urn:a> <urn:p> 2 . } . <urn:a> <urn:p> 3 }",
        "PREFIX e: <http://e/> BASE <http://b/c/> INSERT DATA { e:a e: <d> ; <../e> e:f.g }",
        "PREFIX : <#> INSERT DATA { :a :p '1'^^<http://www.w3.org/2001/XMLSchema#string>, '2'^^:t }",
        "INSERT DATA { <a> <p> <HTTP://Example.ORG/%7e/./b/../c> }",
        "INSERT DATA { <urn:a> <urn:p> '''long\n'text''', \"\"\"another\"\"\" }",
        "INSERT DATA { <urn:a> <urn:p> 'x'@EN, 'y'@en--ltr, 'z'^^<urn:t> }",
        "INSERT DATA { <urn:a> <urn:p> 'tab\\t', <urn:\\u0041> }",
        "INSERT DATA { <urn:a> <urn:p> 'x'^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> }",
        "INSERT DATA { <urn:a> <urn:p> 1 } ;",
        "INSERT DATA { <urn:a> <urn:p> 1 } ; DELETE DATA { <urn:a> <urn:p> 1 }",
        "INSERT DATA { <urn:a> <urn:p> -1, +2 }",
        "INSERT DATA { <urn:a> <urn:p> 10s }",
        "INSERT DATA { <urn:a> <urn:p> TRUE }",
        "INSERT DATA { <urn:a> <urn:p> 1 . . }",
        "INSERT DATA { <urn:a> <urn:p> 1 <urn:b> <urn:p> 1 }",
        "INSERT DATA { ?a <urn:p> 1 }",
        "INSERT DATA { e:a <urn:p> 1 }",
        "INSERT DATA { <urn:a> <urn:p> 1",
        "INSERT DATA { GRAPH <urn:g> { GRAPH <urn:h> { <urn:a> <urn:p> 1 } } }",
        "VERSION '1.2' INSERT DATA { <urn:a> <urn:p> 1 }",
        "INSERT { <urn:a> <urn:p> 1 } WHERE { }",
        "# nothing\n",
    ] {
        parsers()
            .iter()
            .for_each(|parser| assert_same(parser, text));
    }
}

fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "<urn:a>", "<b>", "<../c>", "e:d", "e:", ":x", "a", "1", "-1", "2.5", ".5", "1e9", "true",
        "'s'", "\"t\"", "'''u'''", "^^", "@en", "<urn:t>", ".", ".", ";", ",", "{", "}", "GRAPH",
        "_:b", "?v", "<< ", ">>", "10s",
    ])
}

fn statement() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["<urn:a>", "<b>", "e:d", "e:", ":x", "<c/./d>"]);
    let object = prop::sample::select(vec![
        "<urn:o>", "e:o", "1", "01.50", "1e9", "true", "'s'", "'4'^^e:t", "'x'@en", "\"\"",
    ]);
    let end = prop::sample::select(vec![" . ", " ", " ; a <urn:C> . ", ", 7 . ", " ;; . "]);
    (name.clone(), name, object, end).prop_map(|(s, p, o, end)| format!("{s} {p} {o}{end}"))
}

proptest! {
    #[test]
    fn any_pieces_are_read_as_before(
        head in prop::sample::select(vec!["INSERT", "DELETE", "PREFIX e: <http://e/> INSERT"]),
        pieces in prop::collection::vec(piece(), 0..14),
    ) {
        let text = format!("{head} DATA {{ {} }}", pieces.join(" "));
        parsers().iter().for_each(|parser| assert_same(parser, &text));
    }

    #[test]
    fn any_statements_are_read_as_before(
        prologue in prop::sample::select(vec![
            "PREFIX e: <http://e/> PREFIX : <http://x#> ",
            "BASE <http://b/c/d> PREFIX e: <e#> PREFIX : <> ",
        ]),
        inserts in any::<bool>(),
        of_default in prop::collection::vec(statement(), 0..4),
        of_graph in prop::collection::vec(statement(), 0..4),
        more in prop::collection::vec(statement(), 0..2),
    ) {
        let verb = if inserts { "INSERT" } else { "DELETE" };
        let (first, inside, last) = (of_default.concat(), of_graph.concat(), more.concat());
        let text = format!("{prologue}{verb} DATA {{ {first} GRAPH e:g {{ {inside} }} {last} }}");
        parsers().iter().for_each(|parser| assert_same(parser, &text));
    }
}
