//! Each query is written in each dialect by hand; the text is of that dialect and has the same
//! windows.

use super::*;

fn say(dialect: Dialect, text: &str) -> Result<String, String> {
    let said = dialect.say(&prefixed(text), Some("http://e/"))?;
    Ok(said.replacen(&prefixed(""), "", 1))
}

fn prefixed(text: &str) -> String {
    format!("PREFIX : <http://e/> {text}")
}

#[test]
fn windows_are_written_the_other_way() {
    let text = "REGISTER QUERY q AS SELECT * FROM NAMED STREAM <http://e/s> [RANGE 2s STEP 1s] FROM NAMED :g WHERE { GRAPH :s { ?x ?y ?z } GRAPH :g { ?x :p ?z } }";
    assert_eq!(
        say(Dialect::RspQl, text).as_deref(),
        Ok(
            "REGISTER RSTREAM q AS SELECT *  FROM NAMED :g FROM NAMED WINDOW <urn:window:0> ON <http://e/s> [RANGE 2s STEP 1s]\nWHERE { WINDOW <urn:window:0> { ?x ?y ?z } GRAPH :g { ?x :p ?z } }"
        )
    );
    assert_eq!(
        say(Dialect::CqelsQl, text).as_deref(),
        Ok(
            "REGISTER QUERY q AS SELECT *  FROM NAMED :g WHERE { STREAM <http://e/s> [RANGE 2s STEP 1s] { ?x ?y ?z } GRAPH :g { ?x :p ?z } }"
        )
    );
    assert_eq!(say(Dialect::CSparql, text).as_deref(), Ok(text));
}

#[test]
fn merged_patterns_read_each_graph() {
    let text = "SELECT ?x FROM STREAM :s [RANGE 1s TUMBLING] FROM :g { ?x :p 'a b'@en ; :q ?y . FILTER(?y > 1) OPTIONAL { ?y a :c } }";
    let read = |triple: &str| {
        format!(
            "{{ SELECT DISTINCT * WHERE {{ {{ WINDOW <urn:window:0> {{ {triple} }} }} UNION {{ {triple} }} }} }}"
        )
    };
    let [first, second, third] = ["?x :p 'a b'@en", "?x :q ?y", "?y a :c"].map(read);
    assert_eq!(
        say(Dialect::RspQl, text),
        Ok(format!(
            "SELECT ?x  FROM :g FROM NAMED WINDOW <urn:window:0> ON <http://e/s> [RANGE 1s STEP 1s]\n{{ {first} {second} . FILTER(?y > 1) OPTIONAL {{ {third} }} }}"
        ))
    );
}

#[test]
fn a_variable_is_the_name_of_each_window() {
    let text = "SELECT ?g FROM NAMED STREAM :s [RANGE 1s STEP 1s] FROM NAMED :g WHERE { GRAPH ?g { ?x :p ?y } }";
    assert_eq!(
        say(Dialect::CqelsQl, text).as_deref(),
        Ok(
            "SELECT ?g  FROM NAMED :g WHERE { { { VALUES ?g { <http://e/s> } STREAM <http://e/s> [RANGE 1s STEP 1s] { ?x :p ?y } } UNION { GRAPH ?g { ?x :p ?y } } } }"
        )
    );
}

/// Every text is of its dialect, and has the windows of the original.
#[test]
fn every_translation_is_of_its_dialect() {
    let texts = [
        "REGISTER QUERY q COMPUTED EVERY 2s AS ASK FROM NAMED STREAM :s [RANGE 1s STEP 1s] FROM NAMED STREAM :t [RANGE TRIPLES 5 STEP 1] WHERE { GRAPH :s { ?x :p ?y } GRAPH :t { ?x :p ?y } }",
        "REGISTER STREAM :d AS CONSTRUCT { ?x :p ?y . GRAPH :h { ?x :p ?y } } FROM STREAM :s [RANGE 1s STEP 1s] STARTING AT 500 WHERE { ?x :p ?y }",
        "REGISTER QUERY q SELECT ?x FROM s [RANGE 10s STEP 1s] FROM g WHERE { GRAPH s { ?x p ?y } GRAPH g { ?x p ?y } }",
        "SELECT DSTREAM ?x FROM STREAM :s [RANGE 1s STEP 1s] STARTING AT 500 WHERE { VALUES ?x { :a :b } ?x :p 1.5, \"b\"^^:t ; a :c }",
    ];
    for text in texts {
        let of = |text: &str| {
            let parser = Parser::new().with_default_namespace("http://e/");
            let query = parser.parse_continuous(text);
            query.unwrap_or_else(|error| panic!("{text}\n{error}"))
        };
        let original = of(&prefixed(text));
        for (dialect, source) in [
            (Dialect::RspQl, Source::RspQl),
            (Dialect::CqelsQl, Source::CqelsQl),
        ] {
            let said = say(dialect, text).unwrap_or_else(|reason| panic!("{text}\n{reason}"));
            let query = of(&prefixed(&said));
            assert_eq!(query.dialect, source, "{said}");
            let windows = |query: &ContinuousQuery| {
                let windows = query.windows.iter();
                windows
                    .map(|window| (window.stream.clone(), window.extent))
                    .collect::<Vec<_>>()
            };
            assert_eq!(windows(&query), windows(&original), "{said}");
            assert_eq!(
                (query.kind, query.computed_every, query.starting_at),
                (original.kind, original.computed_every, original.starting_at)
            );
        }
    }
}

/// Texts of one of the other dialects, translated to the other one.
#[test]
fn windows_go_from_rsp_ql_to_cqels_ql_and_back() {
    let text = "REGISTER RSTREAM q AS SELECT ?x FROM NAMED WINDOW :v ON :s [RANGE 3s STEP 1s] FROM NAMED WINDOW :w ON :s [RANGE 1s STEP 1s] WHERE { WINDOW :v { ?x :p ?y } WINDOW :w { ?x :p ?y } }";
    let there = say(Dialect::CqelsQl, text).expect("the dialect can express it");
    assert!(there.contains("REGISTER QUERY q AS"), "{there}");
    assert!(
        there.ends_with("{ STREAM <http://e/s> [RANGE 3s STEP 1s] { ?x :p ?y } STREAM <http://e/s> [RANGE 1s STEP 1s] { ?x :p ?y } }"),
        "{there}"
    );
    let back = say(Dialect::RspQl, &there).expect("the dialect can express it");
    assert!(
        back.ends_with("{ WINDOW <urn:window:0> { ?x :p ?y } WINDOW <urn:window:1> { ?x :p ?y } }"),
        "{back}"
    );
}

#[test]
fn an_untranslatable_query_has_a_reason() {
    let named = "FROM NAMED STREAM :s [RANGE 1s STEP 1s]";
    let merged = "FROM STREAM :s [RANGE 1s STEP 1s]";
    for (dialect, text, reason) in [
        (
            Dialect::CqelsQl,
            "ASK FROM NAMED STREAM :s [RANGE TRIPLES 5 STEP 2] { GRAPH :s { ?x ?y ?z } }".to_owned(),
            "no STEP",
        ),
        (
            Dialect::CqelsQl,
            "ASK FROM NAMED WINDOW :w ON :s [FROM NOW-3s TO NOW-1s STEP 1s] { WINDOW :w { ?x ?y ?z } }".to_owned(),
            "ends before its close",
        ),
        (Dialect::RspQl, "ASK { STREAM :s [NOW] { ?x ?y ?z } }".to_owned(), "[NOW]"),
        (Dialect::RspQl, "ASK { STREAM :s [ALL] { ?x ?y ?z } }".to_owned(), "[ALL]"),
        (
            Dialect::CqelsQl,
            format!("ASK {named} {{ GRAPH :s {{ ?x :p ?y }} GRAPH :g {{ ?x :p ?y }} }}"),
            "without FROM NAMED",
        ),
        (Dialect::RspQl, format!("ASK {merged} {{ ?x :p/:q ?y }}"), "`/`"),
        (Dialect::RspQl, format!("ASK {merged} {{ ?x :p [ :q ?y ] }}"), "`[`"),
        (Dialect::RspQl, format!("ASK {merged} {{ _:x :p ?y }}"), "`_:x`"),
        (
            Dialect::RspQl,
            format!("ASK {merged} {{ {{ SELECT ?x {{ ?x :p ?y }} }} }}"),
            "`SELECT`",
        ),
        (
            Dialect::RspQl,
            format!("ASK {merged} {{ ?x :p ?y FILTER(?y > 1 || EXISTS {{ ?y :p ?x }}) }}"),
            "an expression",
        ),
    ] {
        let refused = say(dialect, &text).expect_err("the dialect cannot express it");
        assert!(refused.contains(reason), "{text}\n{refused}");
    }
}

#[test]
fn a_live_query_is_the_same_in_each_dialect() {
    let live = "ASK { ?x :p ?y }";
    for dialect in [Dialect::RspQl, Dialect::CqelsQl] {
        assert_eq!(say(dialect, live).as_deref(), Ok(live));
    }
}
