//! The tokenizer and every entry point on any text: no panic, no gap, right places.

use proptest::prelude::*;
use somersault_lang::token::{Place, Token, TokenKind, tokenize};
use somersault_lang::{Parser, check_grammar};

fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
    tokenize(text)
        .iter()
        .map(|token| (token.kind, token.text(text)))
        .collect()
}

#[test]
fn tokens_of_every_kind() {
    use TokenKind as K;
    let text = "FROM STREAM :Tweet_Stream [RANGE 10s STEP PT0.5S] # comment\nX-Lab ex:a.b. <http://a/b> ?x $y _:b1 \
                'it''' \"\"\"a\"b\"\"\" @en-GB--ltr 1 1.5 .5 1e-5 a<b <= >= && ^^ <<( )>> {| |} NOW-10s 500ms";
    let expected = [
        (K::Word, "FROM"),
        (K::Word, "STREAM"),
        (K::PrefixedName, ":Tweet_Stream"),
        (K::Punctuation, "["),
        (K::Word, "RANGE"),
        (K::Duration, "10s"),
        (K::Word, "STEP"),
        (K::Duration, "PT0.5S"),
        (K::Punctuation, "]"),
        (K::Word, "X-Lab"),
        (K::PrefixedName, "ex:a.b"),
        (K::Punctuation, "."),
        (K::Iri, "<http://a/b>"),
        (K::Variable, "?x"),
        (K::Variable, "$y"),
        (K::BlankLabel, "_:b1"),
        (K::String, "'it'"),
        (K::String, "''"),
        (K::String, "\"\"\"a\"b\"\"\""),
        (K::LanguageTag, "@en-GB--ltr"),
        (K::Integer, "1"),
        (K::Decimal, "1.5"),
        (K::Decimal, ".5"),
        (K::Double, "1e-5"),
        (K::Word, "a"),
        (K::Punctuation, "<"),
        (K::Word, "b"),
        (K::Punctuation, "<="),
        (K::Punctuation, ">="),
        (K::Punctuation, "&&"),
        (K::Punctuation, "^^"),
        (K::Punctuation, "<<"),
        (K::Punctuation, "("),
        (K::Punctuation, ")"),
        (K::Punctuation, ">>"),
        (K::Punctuation, "{|"),
        (K::Punctuation, "|}"),
        (K::Word, "NOW"),
        (K::Punctuation, "-"),
        (K::Duration, "10s"),
        (K::Duration, "500ms"),
    ];
    assert_eq!(kinds(text), expected);
}

#[test]
fn places_count_characters() {
    let text = "é?x\n  ß y";
    assert_eq!(
        Place::of(text, text.find("?x").expect("it is there")),
        Place { line: 1, column: 2 }
    );
    assert_eq!(
        Place::of(text, text.find('y').expect("it is there")),
        Place { line: 2, column: 5 }
    );
    assert_eq!(Place::of(text, usize::MAX), Place { line: 2, column: 6 });
}

/// The text between tokens is white space and comments.
fn is_blank(text: &str) -> bool {
    text.split(['\n', '\r']).all(|line| {
        let line = line.trim_start_matches([' ', '\t']);
        line.is_empty() || line.starts_with('#')
    })
}

fn check_cover(text: &str, tokens: &[Token]) {
    let mut end = 0;
    for token in tokens {
        assert!(
            token.start >= end && token.end > token.start,
            "tokens are in order and not empty"
        );
        assert!(
            is_blank(&text[end..token.start]),
            "{:?} is between tokens",
            &text[end..token.start]
        );
        end = token.end;
    }
    assert!(
        is_blank(&text[end..]),
        "{:?} is after the last token",
        &text[end..]
    );
}

/// Runs a text through every entry point.
fn read_every_way(text: &str) {
    for parser in [
        Parser::new(),
        Parser::new()
            .with_default_namespace("http://example.org/")
            .with_base("http://example.org/"),
    ] {
        let errors = [
            parser.parse_query(text).err(),
            parser.parse_update(text).err(),
            parser.parse_continuous(text).err(),
            parser.parse_statement(text).err(),
            check_grammar(text, false, true).err(),
            check_grammar(text, true, true).err(),
        ];
        for error in errors.into_iter().flatten() {
            assert!(error.offset <= text.len());
            assert_eq!(
                Place::of(text, error.offset),
                Place {
                    line: error.line,
                    column: error.column
                }
            );
            assert!(!error.message.is_empty());
        }
    }
}

/// Pieces that make texts which get far into the parsers.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "SELECT",
        "ASK",
        "CONSTRUCT",
        "DESCRIBE",
        "WHERE",
        "FROM",
        "NAMED",
        "STREAM",
        "REGISTER QUERY",
        "AS",
        "[",
        "]",
        "RANGE",
        "STEP",
        "TUMBLING",
        "10s",
        "0s",
        "500ms",
        "{",
        "}",
        "(",
        ")",
        "<<",
        ">>",
        "<http://a/b>",
        "<rel>",
        "ex:a",
        ":b",
        "PREFIX ex: <http://e/>",
        "PREFIX : <http://e/>",
        "BASE <http://b/>",
        "?x",
        "?y",
        "*",
        "+",
        "-",
        "!",
        "/",
        "|",
        "^",
        "a",
        "X-Lab",
        "po",
        "'s'",
        "\"s\"@en",
        "\"",
        "'''",
        "1",
        "1.5",
        "1e3",
        "true",
        "TRUE",
        "_:b",
        "[]",
        ".",
        ";",
        ",",
        "=",
        "<",
        ">",
        "&&",
        "||",
        "FILTER",
        "OPTIONAL",
        "UNION",
        "MINUS",
        "GRAPH",
        "BIND",
        "VALUES",
        "UNDEF",
        "EXISTS",
        "NOT",
        "IN",
        "GROUP BY",
        "ORDER BY",
        "HAVING",
        "LIMIT",
        "COUNT",
        "SUM",
        "STR",
        "REPLACE",
        "BNODE",
        "NOW",
        "INSERT DATA",
        "DELETE",
        "INSERT",
        "CREATE STREAM",
        "DROP STREAM",
        "BATCH",
        "TIMELESS",
        "TIMING",
        "KEEP",
        "BUDGET",
        "LATENESS",
        "COMPUTED EVERY",
        "#c\n",
        "é",
        "\u{10FFFF}",
        "\\",
        "\0",
        "^^",
        "{|",
        "|}",
        "~",
        "@en",
        "$",
        "WINDOW",
        "ISTREAM",
        "REPORT ON CHANGE",
    ]);
    prop::collection::vec(
        (pieces, prop::sample::select(vec![" ", " ", " ", "", "\n"])),
        0..40,
    )
    .prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(piece, gap)| [piece, gap])
            .collect()
    })
}

proptest! {
    #[test]
    fn tokens_cover_any_text(text in "\\PC*|[ -~\n]*|.*") {
        check_cover(&text, &tokenize(&text));
    }

    #[test]
    fn nothing_panics_on_any_text(text in ".*") {
        read_every_way(&text);
    }

    #[test]
    fn nothing_panics_on_soup(text in soup()) {
        check_cover(&text, &tokenize(&text));
        read_every_way(&text);
    }

    /// The grammar accepts everything that the parser accepts without rewriting.
    #[test]
    fn the_grammar_is_no_stricter(text in soup()) {
        if Parser::new().with_base("http://example.org/").parse_query(&text).is_ok() {
            prop_assert_eq!(check_grammar(&text, false, true).err(), None);
        }
    }
}

/// Texts that nest or chain are refused in words, or parsed, on a small stack; never a crash.
#[test]
fn depth_is_bounded() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| {
        format!(
            "SELECT * WHERE {{ {}{middle}{} }}",
            open.repeat(n),
            close.repeat(n)
        )
    };
    let texts = move || {
        [60, 490, 100_000].into_iter().flat_map(move |n| {
            [
                deep("{", "?s ?p ?o", "}", n),
                deep("FILTER((", "1", "))", n),
                format!(
                    "SELECT * WHERE {{ FILTER({}1{}) }}",
                    "(".repeat(n),
                    ")".repeat(n)
                ),
                format!("SELECT * WHERE {{ FILTER({}?x) }}", "!".repeat(n)),
                format!(
                    "SELECT * WHERE {{ ?s {}<http://p>{} ?o }}",
                    "(".repeat(n),
                    ")".repeat(n)
                ),
                format!(
                    "SELECT * WHERE {{ ?s ?p {}1{} }}",
                    "[ <http://p> ".repeat(n),
                    "]".repeat(n)
                ),
                format!(
                    "SELECT * WHERE {{ ?s ?p {}1{} }}",
                    "(".repeat(n),
                    ")".repeat(n)
                ),
                format!("SELECT * WHERE {{ FILTER(1{}) }}", " || 1".repeat(n)),
                format!("SELECT * WHERE {{ FILTER(1{}) }}", " - 1".repeat(n)),
                format!(
                    "SELECT * WHERE {{ {} }}",
                    "OPTIONAL { ?s ?p ?o } ".repeat(n)
                ),
                format!("SELECT * WHERE {{ {{}} {} }}", "UNION {} ".repeat(n)),
                format!("SELECT * WHERE {{ {} }}", "FILTER(1) ".repeat(n)),
                format!(
                    "SELECT * WHERE {{ ?s <http://p>{} ?o }}",
                    "/<http://p>".repeat(n)
                ),
                format!(
                    "SELECT * WHERE {{ ?s ?p ?o FILTER(?o IN (1{})) }}",
                    ", 1".repeat(n)
                ),
            ]
        })
    };
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            for text in texts() {
                if let Ok(query) = Parser::new().parse_query(&text) {
                    // As the engine does: copy it, optimise it for spareval, drop it.
                    drop(query.clone());
                    if let spargebra::Query::Select { pattern, .. } =
                        &*query.for_spareval(somersault_model::EventTime(0))
                    {
                        drop(sparopt::Optimizer::optimize_graph_pattern(pattern.into()));
                    }
                }
            }
        })
        .expect("a thread starts")
        .join()
        .expect("no text overflows a stack of 2 MiB");
}
