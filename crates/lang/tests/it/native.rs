//! Native procedures: what their declarations say, and the texts that their bodies run.

use somersault_lang::{CreateProcedure, NativeBody, Parser, Statement, StepKind};

fn parse(text: &str) -> Result<CreateProcedure, String> {
    match Parser::new().parse_statement(text) {
        Ok(Statement::CreateProcedure(procedure)) => Ok(*procedure),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn native() -> CreateProcedure {
    parse(
        "PREFIX : <urn:> CREATE PROCEDURE p ON STREAM :s BATCH 2 MESSAGES \
         OWNS WINDOW :w ON :s [LAST 3 MESSAGES] EMITS INTO :a, :b AS NATIVE",
    )
    .expect("it parses")
}

#[test]
fn a_native_procedure_says_what_it_consumes_owns_and_emits() {
    let procedure = native();
    let emits: Vec<&str> = procedure.emits().iter().map(|it| it.as_str()).collect();
    assert_eq!(emits, ["urn:a", "urn:b"]);
    assert!(procedure.is_streaming() && procedure.steps.is_empty());
    assert_eq!(procedure.windows[0].name.as_str(), "urn:w");
    let called = parse("CREATE OR REPLACE PROCEDURE q (?n IRI) AS NATIVE").expect("it parses");
    assert_eq!(called.native, Some(NativeBody::default()));
    assert_eq!(called.slots, ["n"]);
    let steps = parse("CREATE PROCEDURE q (?n) AS { RETURN ASK { } }").expect("it parses");
    assert_eq!(steps.native, None);
}

#[test]
fn clauses_that_do_not_fit_a_native_body_are_refused() {
    for (text, said) in [
        (
            "CREATE PROCEDURE p EMITS INTO <urn:a> AS { RETURN ASK { } }",
            "column 20: EMITS INTO is for AS NATIVE",
        ),
        (
            "CREATE PROCEDURE p EMITS INTO <urn:a>, <urn:a> AS NATIVE",
            "<urn:a> is named twice",
        ),
        (
            "CREATE PROCEDURE p ON STREAM <urn:a> BATCH 1 MESSAGE EMITS INTO <urn:a> AS NATIVE",
            "would feed itself",
        ),
        (
            "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE OWNS WINDOW <urn:w> ON <urn:s> [LAST 1 MESSAGE] \
             WHEN <urn:w> SLIDES { INSERT DATA { <urn:a> <urn:b> 1 } } AS NATIVE",
            "a native procedure has no triggers",
        ),
        ("CREATE PROCEDURE p AS NATIVE { }", "found `{`"),
        ("CREATE PROCEDURE p EMITS <urn:a> AS NATIVE", "INTO"),
    ] {
        let refused = parse(text).expect_err(text);
        assert!(refused.contains(said), "{text}\n{refused}");
    }
}

#[test]
fn texts_of_a_body_are_steps_of_its_procedure() {
    let (parser, procedure) = (Parser::new(), native());
    let query = |text: &str| parser.parse_query_of(text, &procedure, &["v"]);
    let step = query("PREFIX e: <urn:> SELECT ?m { BATCH { ?m e:v ?v } }").expect("it parses");
    let StepKind::Return(read) = &step.kind else {
        panic!("{step:?}")
    };
    assert_eq!(read.bound.len(), 1, "?v has a value");
    for (text, said) in [
        ("ASK { BATCH <urn:other> { ?m ?p ?v } }", "does not consume"),
        ("ASK { WINDOW <urn:x> { ?m ?p ?v } }", "owns no window"),
        ("SELECT * { BIND(1 AS ?v) }", "has a value here already"),
        (
            "INSERT DATA { <urn:a> <urn:p> 1 }",
            "SELECT, ASK or CONSTRUCT",
        ),
        ("ASK { ?a ?b ?c } ; ASK { }", "the end of the query"),
        ("ASK { ?a ?b ?c", "never closed"),
        ("", "SELECT, ASK or CONSTRUCT"),
    ] {
        let refused = query(text).expect_err(text).to_string();
        assert!(refused.contains(said), "{text}\n{refused}");
    }
    let update = |text: &str| parser.parse_update_of(text, &procedure, &["v"]);
    let steps = "INSERT { ?m <urn:p> ?v } WHERE { WINDOW <urn:w> { ?m <urn:q> ?o } } ; DELETE DATA { <urn:a> <urn:p> 1 } ;";
    assert_eq!(update(steps).expect("it parses").len(), 2);
    for (text, said) in [
        ("CLEAR ALL", "INSERT, DELETE or WITH"),
        ("", "INSERT, DELETE or WITH"),
        ("DELETE WHERE { ?a ?b ?c } ASK { }", "expected"),
        (
            "INSERT DATA { <urn:a> <urn:p> 1 } ; LOAD <urn:d>",
            "INSERT, DELETE or WITH",
        ),
    ] {
        let refused = update(text).expect_err(text).to_string();
        assert!(refused.contains(said), "{text}\n{refused}");
    }
}
