//! Streaming transactions: what each sentence about procedures, dataflows and calls means.

use crate::{files_below, test_data};
use somersault_lang::{
    Argument, BatchExtent, Call, CreateDataflow, CreateProcedure, DataflowPart, KeptGraph, Nest,
    OnAbort, OwnedExtent, ParameterKind, Parser, Pattern, QueryForm, Recovery, Slot, Statement,
    StepKind, StepQuery, StreamSource, TriggerEvent, UpdateOperation,
};
use somersault_model::Millis;

fn parser() -> Parser {
    Parser::new()
}

fn parse(text: &str) -> Statement {
    (parser().parse_statement(text)).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn procedure(text: &str) -> CreateProcedure {
    match parse(text) {
        Statement::CreateProcedure(procedure) => *procedure,
        other => panic!("{other:?}"),
    }
}

/// A procedure that consumes `<urn:s>` and has these steps.
fn streaming(steps: &str) -> CreateProcedure {
    procedure(&format!(
        "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE AS {{ {steps} }}"
    ))
}

/// A procedure that is called with `?a` and `?b` and has these steps.
fn called(steps: &str) -> CreateProcedure {
    procedure(&format!("CREATE PROCEDURE p (?a, ?b) AS {{ {steps} }}"))
}

fn dataflow(text: &str) -> CreateDataflow {
    match parse(text) {
        Statement::CreateDataflow(dataflow) => dataflow,
        other => panic!("{other:?}"),
    }
}

fn call(text: &str) -> Call {
    match parse(text) {
        Statement::Call(call) => call,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a text.
fn refused(text: &str) -> String {
    match parser().parse_statement(text) {
        Ok(accepted) => panic!("{text}\n{accepted:?}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that a text is refused at the words `at`, with words that say so.
fn refuses(text: &str, at: &str, said: &str) {
    let error = parser().parse_statement(text).err();
    let error = error.unwrap_or_else(|| panic!("accepted: {text}"));
    let found = &text[error.offset..];
    assert!(found.starts_with(at), "{error}\nat: {found}");
    assert!(error.message.contains(said), "{error}");
}

/// The names of the slots that a query reads, with the names of their variables in the query.
fn bound(procedure: &CreateProcedure, query: &StepQuery) -> Vec<(String, String)> {
    let name = |slot: Slot| procedure.slots[slot.0 as usize].clone();
    (query.bound.iter())
        .map(|one| {
            (
                query.query.variable_name(one.variable).to_owned(),
                name(one.slot),
            )
        })
        .collect()
}

#[test]
fn every_declaration_of_the_public_suites_parses() {
    let Some(data) = test_data() else { return };
    let files = files_below(&data.join("transactions"), &[".rq"]);
    let declared = files
        .iter()
        .filter(|file| file.to_string_lossy().contains("/declare/"));
    let mut count = 0;
    for file in declared {
        let text = std::fs::read_to_string(file).expect("a test file is readable");
        let parsed = parser().parse_statement(&text);
        assert!(
            parsed.is_ok(),
            "{}: {}",
            file.display(),
            parsed.unwrap_err()
        );
        count += 1;
    }
    assert!(count > 80, "only {count} declarations found");
}

/// Of the 26 statements, those that one text alone decides.
#[test]
fn the_statements_of_the_public_suite_are_refused_where_one_text_says_why() {
    let Some(data) = test_data() else { return };
    let steps = data.join("transactions/batches/declarations/steps.jsonl");
    let steps = std::fs::read_to_string(steps).expect("the suite is readable");
    // What only the engine knows, which has the other declarations.
    let of_engine = [
        "the name is taken, and there is no OR REPLACE",
        "a cycle: first, second, first",
        "no such stream",
        "the window has an owner",
        "no procedure nobody",
        "ORDER against the streams",
        "no such dataflow",
        "no such procedure",
    ];
    let (mut accepted, mut here, mut later) = (0, 0, 0);
    for line in steps.lines() {
        let member = |name: &str| {
            let at = line.find(&format!("\"{name}\":\""))? + name.len() + 4;
            let end = line[at..].find("\",\"").unwrap_or(line.len() - at - 2);
            Some(
                line[at..at + end]
                    .trim_end_matches('"')
                    .replace("\\n", "\n"),
            )
        };
        let text = member("statement").expect("each step is a statement");
        let why = member("why").unwrap_or_default();
        let is_refused = line.contains("\"oracle\":\"refused\"");
        let parsed = parser().parse_statement(&text);
        if !is_refused {
            assert!(parsed.is_ok(), "{text}\n{}", parsed.unwrap_err());
            accepted += 1;
        } else if of_engine.contains(&why.as_str()) {
            assert!(parsed.is_ok(), "{text}\n{}", parsed.unwrap_err());
            later += 1;
        } else {
            assert!(parsed.is_err(), "{why}: {text}");
            here += 1;
        }
    }
    assert_eq!((accepted, here, later), (9, 9, 8));
}

mod header {
    use super::*;

    #[test]
    fn a_name_is_a_word_a_string_or_an_iri() {
        let steps = "AS { DELETE WHERE { ?s ?p ?o } }";
        for (name, means) in [
            ("vote", "vote"),
            ("<urn:vote>", "urn:vote"),
            ("\"add\"", "add"),
        ] {
            assert_eq!(
                procedure(&format!("CREATE PROCEDURE {name} {steps}")).name,
                means
            );
        }
        refuses(
            &format!("CREATE PROCEDURE add {steps}"),
            "add",
            "is a keyword",
        );
    }

    #[test]
    fn or_replace_may_take_the_place_of_another() {
        let steps = "PROCEDURE p AS { DELETE WHERE { ?s ?p ?o } }";
        assert!(!procedure(&format!("CREATE {steps}")).or_replace);
        assert!(procedure(&format!("CREATE OR REPLACE {steps}")).or_replace);
        assert!(dataflow("CREATE OR REPLACE DATAFLOW d { p }").or_replace);
        refuses(
            "CREATE OR REPLACE STREAM <urn:s>",
            "STREAM",
            "PROCEDURE, DATAFLOW, SOURCE or SINK",
        );
    }

    #[test]
    fn parameters_take_iris_literals_a_datatype_or_any_term() {
        let text = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n\
                    CREATE PROCEDURE p (?a IRI, ?b LITERAL, ?c xsd:integer, ?d ANY, ?e) \
                    AS { DELETE WHERE { ?s ?p ?o } }";
        let read = procedure(text);
        let kinds: Vec<String> = (read.parameters.iter())
            .map(|parameter| format!("{} {}", parameter.name, parameter.kind))
            .collect();
        assert_eq!(
            kinds,
            [
                "a IRI",
                "b LITERAL",
                "c <http://www.w3.org/2001/XMLSchema#integer>",
                "d ANY",
                "e ANY"
            ]
        );
        assert_eq!(read.parameters[4].kind, ParameterKind::Any);
        assert_eq!(read.slots, ["a", "b", "c", "d", "e"]);
        assert!(!read.is_streaming());
        let bare = "AS { DELETE WHERE { ?s ?p ?o } }";
        assert!(
            procedure(&format!("CREATE PROCEDURE p () {bare}"))
                .parameters
                .is_empty()
        );
        refuses(
            &format!("CREATE PROCEDURE p (?a, ?a) {bare}"),
            "?a) ",
            "a second time",
        );
        refuses(
            &format!("CREATE PROCEDURE p (?a ?b) {bare}"),
            "?b",
            "`,` or `)`",
        );
        refuses(
            &format!("CREATE PROCEDURE p (a) {bare}"),
            "a)",
            "a parameter",
        );
    }

    #[test]
    fn on_stream_makes_it_a_streaming_procedure() {
        let read = procedure(
            "CREATE PROCEDURE p ON STREAM <urn:a> BATCH 3 MESSAGES ON STREAM <urn:b> BATCH MESSAGE \
             ON STREAM <urn:c> BATCH 10s ON STREAM <urn:d> BATCH 2 m AS { DELETE WHERE { ?s ?p ?o } }",
        );
        assert!(read.is_streaming());
        let batches: Vec<BatchExtent> = read.consumes.iter().map(|one| one.batch).collect();
        assert_eq!(
            batches,
            [
                BatchExtent::Messages(3),
                BatchExtent::Messages(1),
                BatchExtent::Time(Millis(10_000)),
                BatchExtent::Time(Millis(120_000)),
            ]
        );
        let shown: Vec<String> = batches.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "BATCH 3 MESSAGES",
                "BATCH 1 MESSAGE",
                "BATCH 10s",
                "BATCH 2m"
            ]
        );
        let end = "AS { DELETE WHERE { ?s ?p ?o } }";
        for (clauses, at, said) in [
            ("ON STREAM <urn:a> BATCH 0 MESSAGES", "0", "above 0"),
            ("ON STREAM <urn:a> BATCH 0s", "0s", "longer than 0"),
            ("ON STREAM <urn:a> BATCH 5", "5", "has no unit"),
            ("ON STREAM <urn:a>", "AS", "BATCH"),
            (
                "ON STREAM <urn:a> BATCH 1s ON STREAM <urn:a> BATCH 2s",
                "<urn:a> BATCH 2s",
                "a stream once",
            ),
        ] {
            refuses(&format!("CREATE PROCEDURE p {clauses} {end}"), at, said);
        }
        refuses(
            &format!("CREATE PROCEDURE p (?x) ON STREAM <urn:a> BATCH 1s {end}"),
            "<urn:a>",
            "has no parameters",
        );
    }

    #[test]
    fn owned_windows_hold_messages_or_a_time() {
        let read = procedure(
            "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE \
             OWNS WINDOW <urn:w> ON <urn:s> [LAST 100 MESSAGES SLIDE 10] \
             OWNS WINDOW <urn:x> ON <urn:s> [LAST 1 MESSAGE] \
             OWNS WINDOW <urn:y> ON <urn:s> [RANGE 30s SLIDE 10s] \
             OWNS WINDOW <urn:z> ON <urn:s> [RANGE PT1M] \
             AS { DELETE WHERE { ?s ?p ?o } }",
        );
        let extents: Vec<String> = (read.windows.iter())
            .map(|window| format!("{} {}", window.name, window.extent))
            .collect();
        assert_eq!(
            extents,
            [
                "<urn:w> LAST 100 MESSAGES SLIDE 10",
                "<urn:x> LAST 1 MESSAGES SLIDE 1",
                "<urn:y> RANGE 30s SLIDE 10s",
                "<urn:z> RANGE 1m SLIDE 1m",
            ]
        );
        assert_eq!(
            read.windows[0].extent,
            OwnedExtent::Last {
                messages: 100,
                slide: 10
            }
        );
        let head = "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE OWNS WINDOW <urn:w> ON";
        let end = "AS { DELETE WHERE { ?s ?p ?o } }";
        for (clause, at, said) in [
            ("<urn:t> [LAST 3 MESSAGES]", "<urn:t>", "does not consume"),
            ("<urn:s> [LAST 0 MESSAGES]", "0", "above 0"),
            ("<urn:s> [LAST 3]", "]", "MESSAGES"),
            ("<urn:s> [LAST 3 MESSAGES SLIDE 0]", "0", "above 0"),
            (
                "<urn:s> [LAST 3 MESSAGES STEP 1]",
                "STEP",
                "SLIDE instead of STEP",
            ),
            ("<urn:s> [ELEMENTS 3]", "ELEMENTS", "holds messages"),
            ("<urn:s> [RANGE 0s]", "0s", "longer than 0"),
            (
                "<urn:s> [LAST 3 MESSAGES] OWNS WINDOW <urn:w> ON <urn:s> [RANGE 1s]",
                "<urn:w> ON <urn:s> [RANGE",
                "declared already",
            ),
        ] {
            refuses(&format!("{head} {clause} {end}"), at, said);
        }
    }

    #[test]
    fn triggers_are_on_owned_windows_and_on_streams_that_it_emits_into() {
        let read = procedure(
            "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE \
             OWNS WINDOW <urn:w> ON <urn:s> [LAST 2 MESSAGES] \
             WHEN <urn:w> SLIDES { EMIT INTO <urn:t> CONSTRUCT { ?s <urn:n> 1 } WHERE { WINDOW <urn:w> { ?s ?p ?o } } } \
             WHEN INTO <urn:t> { INSERT { ?s ?p ?o } WHERE { BATCH <urn:t> { ?s ?p ?o } } } \
             AS { DELETE WHERE { ?s ?p ?o } }",
        );
        let iri = |text: &str| oxrdf::NamedNode::new_unchecked(text);
        let events: Vec<&TriggerEvent> = read.triggers.iter().map(|it| &it.event).collect();
        assert_eq!(
            events,
            [
                &TriggerEvent::Slides(iri("urn:w")),
                &TriggerEvent::Into(iri("urn:t"))
            ]
        );
        assert_eq!(read.emits(), [&iri("urn:t")]);
        let head = "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE";
        refuses(
            &format!(
                "{head} WHEN <urn:w> SLIDES {{ DELETE WHERE {{ ?s ?p ?o }} }} AS {{ DELETE WHERE {{ ?s ?p ?o }} }}"
            ),
            "<urn:w>",
            "owns no window",
        );
        refuses(
            &format!(
                "{head} WHEN INTO <urn:t> {{ DELETE WHERE {{ ?s ?p ?o }} }} AS {{ DELETE WHERE {{ ?s ?p ?o }} }}"
            ),
            "<urn:t>",
            "no step of this procedure emits into",
        );
        let emit = |into: &str| {
            format!("EMIT INTO <urn:{into}> CONSTRUCT {{ <urn:a> <urn:b> 1 }} WHERE {{ }}")
        };
        refuses(
            &format!(
                "{head} WHEN INTO <urn:t> {{ {} }} WHEN INTO <urn:u> {{ IF ASK {{ }} {{ {} }} }} AS {{ {} }}",
                emit("u"),
                emit("t"),
                emit("t")
            ),
            "<urn:t>",
            "<urn:t>, <urn:u>, <urn:t>",
        );
    }

    #[test]
    fn a_bracket_that_is_open_is_found() {
        refuses(
            "CREATE PROCEDURE p AS { INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
            "{ INSERT",
            "never closed",
        );
        refuses(
            "CREATE DATAFLOW d { p )",
            ")",
            "the `{` of line 1, column 19 is not closed",
        );
        refuses("CALL p(1))", ")", "closes nothing");
    }
}

mod steps {
    use super::*;

    #[test]
    fn updates_are_on_stored_graphs() {
        let read = called(
            "INSERT DATA { <urn:a> <urn:b> 1 } ; DELETE DATA { <urn:a> <urn:b> 1 } ; \
             DELETE { ?s ?p ?o } INSERT { ?s ?p ?a } WHERE { ?s ?p ?o } ; \
             WITH <urn:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o } ; DELETE WHERE { ?a ?p ?o } ;",
        );
        assert_eq!(read.steps.len(), 5);
        let kinds: Vec<&str> = (read.steps.iter())
            .map(|step| match &step.kind {
                StepKind::Write(write) => match &write.operation {
                    UpdateOperation::InsertData(_) => "insert",
                    UpdateOperation::DeleteData(_) => "delete",
                    UpdateOperation::DeleteInsert(_) => "modify",
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["insert", "delete", "modify", "modify", "modify"]);
        assert_eq!(
            &read.text[read.steps[4].span.clone()],
            "DELETE WHERE { ?a ?p ?o }"
        );
        let place = read.place(&read.steps[1]);
        assert_eq!((place.line, place.column), (1, 70));
    }

    #[test]
    fn what_may_not_stand_in_a_procedure_is_refused_at_its_place() {
        for (step, at, said) in [
            ("LOAD <urn:x>", "LOAD", "follows from the log"),
            ("CLEAR ALL", "CLEAR", "whole graphs"),
            ("CREATE GRAPH <urn:g>", "CREATE GRAPH", "whole graphs"),
            ("COPY <urn:g> TO <urn:h>", "COPY", "whole graphs"),
            (
                "DELETE WHERE { ?s ?p ?o } ; DROP GRAPH <urn:g>",
                "DROP",
                "whole graphs",
            ),
            (
                "INSERT { ?s ?p ?o } WHERE { SERVICE <urn:x> { ?s ?p ?o } }",
                "SERVICE",
                "cannot stand in a procedure",
            ),
            ("SELECT * { ?s ?p ?o }", "SELECT", "has no effect"),
            (
                "ELSE { DELETE WHERE { ?s ?p ?o } }",
                "ELSE",
                "without an IF",
            ),
            ("FROB <urn:x>", "FROB", "a step: INSERT"),
            (
                "RETURN DESCRIBE <urn:x>",
                "DESCRIBE",
                "SELECT, ASK or CONSTRUCT",
            ),
            ("", "}", "one step at least"),
            ("DELETE WHERE { ?s ?p ?o } ;;", ";}", "one step at least"),
            (
                "DELETE WHERE { ?s ?p ?o } ABORT 1",
                "ABORT",
                "found the word `ABORT`",
            ),
            (
                "INSERT DATA { GRAPH <urn:somersault:batch:x> { <urn:a> <urn:b> 1 } }",
                "<urn:somersault",
                "choose another IRI",
            ),
        ] {
            let text = format!("CREATE PROCEDURE p AS {{{step}}}");
            refuses(&text, at, said);
        }
    }

    #[test]
    fn a_fault_in_a_step_has_its_place_in_the_whole_text() {
        let text = "PREFIX t: <urn:t#>\nCREATE PROCEDURE p ON STREAM t:s BATCH 1 MESSAGE\nAS {\n\
                    INSERT { ?s t:p ?o } WHERE { BATCH { ?s t:q ?o } FILTRE(?o > 1) }\n}";
        let error = refused(text);
        assert!(error.starts_with("line 4, column 50: "), "{error}");
        assert!(error.contains("FILTER"), "{error}");
        let error = refused("CREATE PROCEDURE p AS {\n INSERT { ?s x:p 1 }\n WHERE { ?s ?p ?o } }");
        assert!(error.starts_with("line 2, column 14: "), "{error}");
        let error = refused("CREATE PROCEDURE p AS { INSERT { ?s ?p 1 } }");
        assert!(error.contains("the step ends here"), "{error}");
        assert!(error.starts_with("line 1, column 43: "), "{error}");
    }

    #[test]
    fn let_names_the_columns_of_its_select() {
        let read = called(
            "LET (?x ?y) BE SELECT ?o (COUNT(*) AS ?n) WHERE { ?a ?p ?o } GROUP BY ?o ; \
             INSERT { ?x <urn:p> ?y } WHERE { }",
        );
        let StepKind::Let { slots, select } = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!(slots, &[Slot(2), Slot(3)]);
        assert_eq!(read.slots, ["a", "b", "x", "y"]);
        assert_eq!(bound(&read, select), [("a".to_owned(), "a".to_owned())]);
        let head = "CREATE PROCEDURE p (?a, ?b) AS { LET";
        for (rest, at, said) in [
            (
                "(?x ?y) BE SELECT ?o { ?s ?p ?o } }",
                "?x",
                "names 2 variables, and its SELECT has one column",
            ),
            (
                "(?x) BE SELECT ?s ?o { ?s ?p ?o } }",
                "?x",
                "names one variable, and its SELECT has 2 columns",
            ),
            ("(?x) BE ASK { ?s ?p ?o } }", "ASK", "SELECT in LET"),
            ("() BE SELECT ?s { ?s ?p ?o } }", ")", "a variable"),
            (
                "(?x, ?y) BE SELECT ?s { ?s ?p ?o } }",
                ",",
                "nothing between variables",
            ),
            (
                "(?a) BE SELECT ?s { ?s ?p ?o } }",
                "?a",
                "has a value here already, from line 1, column 21",
            ),
            (
                "(?x ?x) BE SELECT ?s ?o { ?s ?p ?o } }",
                "?x)",
                "has a value here already",
            ),
            ("(?x) SELECT ?s { ?s ?p ?o } }", "SELECT", "BE"),
        ] {
            refuses(&format!("{head} {rest}"), at, said);
        }
    }

    #[test]
    fn a_value_holds_below_in_its_block() {
        let text = "IF ASK { } { LET (?x) BE SELECT ?s { ?s ?p ?o } ; LET (?y) BE SELECT (?x AS ?c) { } } \
                    ELSE { LET (?x) BE SELECT ?s { ?s ?p ?o } } ; \
                    FOR EACH (?x) IN SELECT ?s { ?s ?p ?o } { DELETE WHERE { ?x ?p ?o } } ; \
                    DELETE WHERE { ?x ?p ?o }";
        let read = called(text);
        // Blocks beside each other have slots of their own.
        assert_eq!(read.slots, ["a", "b", "x", "y", "x", "x"]);
        let StepKind::Write(last) = &read.steps[2].kind else {
            panic!("{:?}", read.steps[2]);
        };
        assert!(last.bound.is_empty(), "?x has no value behind its blocks");
        let StepKind::ForEach { slots, steps, .. } = &read.steps[1].kind else {
            panic!("{:?}", read.steps[1]);
        };
        let StepKind::Write(inner) = &steps[0].kind else {
            panic!("{:?}", steps[0]);
        };
        assert_eq!(inner.bound[0].slot, slots[0]);
    }

    #[test]
    fn values_reach_sub_selects_exists_and_templates() {
        let read = called(
            "RETURN SELECT ?s WHERE { ?s ?p ?a { SELECT ?s WHERE { ?s <urn:q> ?b } } \
             FILTER EXISTS { ?s <urn:r> ?b } FILTER(BOUND(?a)) }",
        );
        let StepKind::Return(query) = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        let mut names: Vec<String> = (bound(&read, query).into_iter()).map(|it| it.1).collect();
        names.sort();
        assert_eq!(
            names,
            ["a", "b", "b"],
            "the inner ?b is a variable of its own"
        );
        let read = called("INSERT { ?a <urn:p> ?b } WHERE { }");
        let StepKind::Write(write) = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!(write.bound.len(), 2);
    }

    #[test]
    fn a_value_is_given_no_other() {
        for (step, at) in [
            (
                "INSERT { ?s ?p ?a } WHERE { ?s ?p ?o BIND(?o + 1 AS ?a) }",
                "?a) }",
            ),
            (
                "RETURN SELECT (COUNT(*) AS ?b) WHERE { ?s ?p ?o }",
                "?b) WHERE",
            ),
            (
                "RETURN SELECT * WHERE { ?s ?p ?o VALUES ?a { 1 2 } }",
                "?a { 1",
            ),
            (
                "RETURN ASK { ?s ?p ?o FILTER EXISTS { BIND(1 AS ?b) } }",
                "?b) }",
            ),
        ] {
            refuses(
                &format!("CREATE PROCEDURE p (?a, ?b) AS {{ {step} }}"),
                at,
                "has a value here already, which stands in its place",
            );
        }
    }

    #[test]
    fn all_columns_are_those_without_a_value() {
        let read = called("LET (?x ?y) BE SELECT * { ?x <urn:p> ?a ; <urn:q> ?y }");
        let StepKind::Let { select, .. } = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        let QueryForm::Select { projection } = &select.query.form else {
            panic!("{:?}", select.query.form);
        };
        let names: Vec<&str> = (projection.iter())
            .map(|column| select.query.variable_name(*column))
            .collect();
        assert_eq!(names, ["x", "y"]);
    }

    #[test]
    fn if_takes_the_first_branch_that_holds() {
        let read = called(
            "IF ASK { ?a ?p 1 } { DELETE WHERE { ?s ?p ?o } } \
             ELSE IF ASK WHERE { ?a ?p 2 } ORDER BY EXISTS { ?s ?p 1 } VALUES ?q { 1 } { DELETE WHERE { ?s ?p ?o } } \
             ELSE { DELETE WHERE { ?s ?p ?o } ; DELETE WHERE { ?o ?p ?s } }",
        );
        let StepKind::If {
            branches,
            otherwise,
        } = &read.steps[0].kind
        else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!((branches.len(), otherwise.len()), (2, 2));
        assert!(
            branches[1]
                .condition
                .query
                .text
                .ends_with("VALUES ?q { 1 }")
        );
        for (rest, at, said) in [
            ("IF ASK { ?s ?p ?o } }", "}", "IF has no steps"),
            ("IF SELECT ?s { } { } }", "SELECT", "ASK in IF"),
            (
                "IF ASK { } { DELETE WHERE { ?s ?p ?o } } ; ELSE { } }",
                "ELSE",
                "without an IF",
            ),
            (
                "IF ASK { } { DELETE WHERE { ?s ?p ?o } } ABORT 1 }",
                "ABORT",
                "`;` and another step",
            ),
            ("IF ASK { } { } }", "} }", "one step at least"),
        ] {
            refuses(&format!("CREATE PROCEDURE p AS {{ {rest}"), at, said);
        }
    }

    #[test]
    fn for_each_has_a_block_for_each_row() {
        let read = called(
            "FOR EACH (?c ?n) IN SELECT ?c ?n WHERE { ?c <urn:v> ?n } ORDER BY ?n LIMIT 3 \
             { INSERT { ?c <urn:p> ?n } WHERE { } }",
        );
        let StepKind::ForEach {
            slots,
            select,
            steps,
        } = &read.steps[0].kind
        else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!((slots.len(), steps.len()), (2, 1));
        assert!(select.query.text.ends_with("LIMIT 3"));
        refuses(
            "CREATE PROCEDURE p AS { FOR EACH (?c) IN SELECT ?c { ?c ?p ?o } }",
            "}",
            "FOR EACH has no steps",
        );
        refuses(
            "CREATE PROCEDURE p AS { FOR (?c) IN SELECT ?c { ?c ?p ?o } { } }",
            "(",
            "EACH",
        );
    }

    #[test]
    fn emit_makes_one_message_of_a_construct() {
        let read =
            streaming("EMIT INTO <urn:t> CONSTRUCT { ?s <urn:p> ?o } WHERE { BATCH { ?s ?p ?o } }");
        let StepKind::Emit { stream, construct } = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!(stream.as_str(), "urn:t");
        assert!(matches!(construct.query.form, QueryForm::Construct { .. }));
        let head = "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE AS { EMIT INTO";
        refuses(
            &format!("{head} <urn:t> SELECT * {{ }} }}"),
            "SELECT",
            "CONSTRUCT",
        );
        refuses(
            &format!("{head} <urn:s> CONSTRUCT {{ ?s ?p ?o }} WHERE {{ BATCH {{ ?s ?p ?o }} }} }}"),
            "<urn:s> CONSTRUCT",
            "would feed itself",
        );
    }

    #[test]
    fn abort_has_an_expression_as_its_reason() {
        let read = called("ABORT CONCAT(\"unknown: \", STR(?a)) ; ABORT \"reason\"");
        for step in &read.steps {
            let StepKind::Abort(reason) = &step.kind else {
                panic!("{step:?}");
            };
            let QueryForm::Select { projection } = &reason.query.form else {
                panic!("{:?}", reason.query.form);
            };
            assert_eq!(projection.len(), 1);
        }
        let StepKind::Abort(first) = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        assert_eq!(first.query.text, "CONCAT(\"unknown: \", STR(?a))");
        assert_eq!(first.bound.len(), 1);
        called("IF ASK { } { ABORT IF(EXISTS { ?s ?p ?a }, \"a\", \"b\") }");
        refuses("CREATE PROCEDURE p AS { ABORT }", "}", "the reason");
        refuses(
            "CREATE PROCEDURE p AS { ABORT CONCAT(\"x\", ?y) }",
            "?y",
            "has no value here",
        );
        refuses(
            "CREATE PROCEDURE p AS { ABORT CONCAT(\"x\" }",
            "}",
            "is not closed",
        );
        refuses("CREATE PROCEDURE p AS { ABORT \"a\" \"b\" }", "\"b\"", "AS");
    }

    #[test]
    fn return_answers_a_call() {
        for query in [
            "SELECT ?s { ?s ?p ?a }",
            "ASK { }",
            "CONSTRUCT { ?a ?p 1 } WHERE { ?s ?p ?a }",
        ] {
            let read = called(&format!("RETURN {query}"));
            assert!(matches!(read.steps[0].kind, StepKind::Return(_)));
        }
        refuses(
            "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE AS { RETURN ASK { } }",
            "RETURN",
            "is not called",
        );
        refuses(
            "CREATE PROCEDURE p WHEN INTO <urn:t> { RETURN ASK { } } \
             AS { EMIT INTO <urn:t> CONSTRUCT { <urn:a> <urn:b> 1 } WHERE { } }",
            "RETURN",
            "a trigger answers no call",
        );
    }

    #[test]
    fn batch_and_window_are_read_in_patterns_alone() {
        let read = streaming(
            "INSERT { ?s ?p ?o } WHERE { { BATCH { ?s ?p ?o } } UNION { BATCH <urn:s> { ?o ?p ?s } } \
             OPTIONAL { GRAPH <urn:g> { ?s ?p ?x } } }",
        );
        let StepKind::Write(write) = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        let UpdateOperation::DeleteInsert(change) = &write.operation else {
            panic!("{:?}", write.operation);
        };
        let stream = oxrdf::NamedNode::new_unchecked("urn:s");
        let shown = format!("{:?}", change.query.pattern);
        let name = KeptGraph::Batch(stream).name();
        assert_eq!(shown.matches(name.as_str()).count(), 2, "{shown}");
        assert!(matches!(change.query.pattern, Pattern::Project { .. }));
        for (step, at, said) in [
            (
                "INSERT { BATCH { ?s ?p ?o } } WHERE { ?s ?p ?o }",
                "BATCH",
                "the template of INSERT",
            ),
            (
                "DELETE { BATCH { ?s ?p ?o } } WHERE { ?s ?p ?o }",
                "BATCH",
                "the template of DELETE",
            ),
            (
                "DELETE WHERE { BATCH { ?s ?p ?o } }",
                "BATCH",
                "what it deletes",
            ),
            (
                "INSERT DATA { BATCH { <urn:a> <urn:b> 1 } }",
                "BATCH",
                "INSERT DATA",
            ),
            (
                "EMIT INTO <urn:t> CONSTRUCT { BATCH { ?s ?p ?o } } WHERE { ?s ?p ?o }",
                "BATCH",
                "the template of CONSTRUCT",
            ),
            (
                "DELETE { ?s ?p ?o } WHERE { BATCH <urn:t> { ?s ?p ?o } }",
                "<urn:t>",
                "does not consume <urn:t> (it has <urn:s>)",
            ),
            (
                "DELETE { ?s ?p ?o } WHERE { WINDOW <urn:w> { ?s ?p ?o } }",
                "<urn:w>",
                "owns no window <urn:w> (it has none)",
            ),
            (
                "DELETE { ?s ?p ?o } WHERE { WINDOW ?w { ?s ?p ?o } }",
                "?w",
                "the name of a window",
            ),
            (
                "DELETE { ?s ?p ?o } WHERE { BATCH ?b { ?s ?p ?o } }",
                "?b",
                "a consumed stream",
            ),
        ] {
            let text =
                format!("CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE AS {{ {step} }}");
            refuses(&text, at, said);
        }
    }

    #[test]
    fn batch_without_a_name_is_that_of_the_one_consumed_stream() {
        let two = "CREATE PROCEDURE p ON STREAM <urn:s> BATCH 1 MESSAGE ON STREAM <urn:t> BATCH 1 MESSAGE";
        let insert = "INSERT { ?s ?p ?o } WHERE { BATCH";
        refuses(
            &format!("{two} AS {{ {insert} {{ ?s ?p ?o }} }} }}"),
            "BATCH {",
            "consumes 2 streams",
        );
        procedure(&format!(
            "{two} AS {{ {insert} <urn:t> {{ ?s ?p ?o }} }} }}"
        ));
        refuses(
            &format!("CREATE PROCEDURE p AS {{ {insert} {{ ?s ?p ?o }} }} }}"),
            "BATCH",
            "consumes no stream",
        );
    }

    #[test]
    fn when_into_reads_the_message_just_emitted() {
        let emit = "EMIT INTO <urn:t> CONSTRUCT { ?a <urn:b> 1 } WHERE { }";
        let trigger = |batch: &str| {
            format!(
                "CREATE PROCEDURE p (?a) WHEN INTO <urn:t> {{ INSERT {{ ?s ?p ?a }} WHERE {{ {batch} {{ ?s ?p ?o }} }} }} AS {{ {emit} }}"
            )
        };
        let read = procedure(&trigger("BATCH <urn:t>"));
        let StepKind::Write(write) = &read.triggers[0].steps[0].kind else {
            panic!("{:?}", read.triggers);
        };
        assert_eq!(write.bound.len(), 1, "a parameter holds in triggers too");
        refuses(&trigger("BATCH"), "BATCH", "write BATCH <urn:t>");
    }

    #[test]
    fn blocks_have_a_greatest_depth_and_procedures_a_greatest_length() {
        let nested = |depth: usize| {
            let open = "IF ASK { } { ".repeat(depth);
            format!(
                "CREATE PROCEDURE p AS {{ {open} DELETE WHERE {{ ?s ?p ?o }} {} }}",
                "}".repeat(depth)
            )
        };
        parse(&nested(31));
        let error = refused(&nested(32));
        assert!(error.contains("more than 32 deep"), "{error}");
        let long = |steps: usize| {
            let step = "DELETE DATA { <urn:a> <urn:b> 1 } ;";
            format!("CREATE PROCEDURE p AS {{ {} }}", step.repeat(steps))
        };
        parse(&long(1_000));
        let error = refused(&long(4_097));
        assert!(error.contains("more than 4096 steps"), "{error}");
    }

    #[test]
    fn declarations_before_the_procedure_hold_in_its_steps() {
        let read = procedure(
            "BASE <http://e/> PREFIX t: <t#> CREATE PROCEDURE p ON STREAM t:s BATCH 1 MESSAGE \
             AS { INSERT DATA { <a> t:b 1 } }",
        );
        assert_eq!(read.consumes[0].stream.as_str(), "http://e/t#s");
        let StepKind::Write(write) = &read.steps[0].kind else {
            panic!("{:?}", read.steps[0]);
        };
        let UpdateOperation::InsertData(quads) = &write.operation else {
            panic!("{:?}", write.operation);
        };
        assert_eq!(quads[0].subject.to_string(), "<http://e/a>");
        assert_eq!(quads[0].predicate.as_str(), "http://e/t#b");
        let bare = parser().with_default_namespace("http://e/");
        let text = "CREATE PROCEDURE p ON STREAM votes BATCH 1 MESSAGE \
                    AS { INSERT { ?s counted TRUE } WHERE { BATCH votes { ?s po ?o } } }";
        bare.parse_statement(text).expect("bare names are resolved");
    }
}

mod dataflows {
    use super::*;

    #[test]
    fn parts_are_procedures_and_nests() {
        let read = dataflow(
            "CREATE DATAFLOW d { a, NEST { b, <urn:c>, nest } ORDER (nest < b, b < <urn:c>), e } \
             RECOVERY WEAK ON ABORT STOP",
        );
        let name = |text: &str| text.to_owned();
        assert_eq!(
            read.parts,
            [
                DataflowPart::Procedure(name("a")),
                DataflowPart::Nest(Nest {
                    procedures: vec![name("b"), name("urn:c"), name("nest")],
                    order: vec![(name("nest"), name("b")), (name("b"), name("urn:c"))],
                }),
                DataflowPart::Procedure(name("e")),
            ]
        );
        assert_eq!(
            (read.recovery, read.on_abort),
            (Recovery::Weak, OnAbort::Stop)
        );
    }

    #[test]
    fn strong_and_skip_are_the_defaults() {
        let read = dataflow("CREATE DATAFLOW d { a }");
        assert_eq!(
            (read.recovery, read.on_abort),
            (Recovery::Strong, OnAbort::Skip)
        );
        let read = dataflow("CREATE DATAFLOW d { a } RECOVERY STRONG ON ABORT SKIP ;");
        assert_eq!(
            (read.recovery, read.on_abort),
            (Recovery::Strong, OnAbort::Skip)
        );
    }

    #[test]
    fn what_cannot_hold_is_refused() {
        for (rest, at, said) in [
            ("{ a, a }", "a }", "names a already"),
            ("{ a, NEST { b, a } }", "a } }", "names a already"),
            ("{ }", "}", "the name of a procedure"),
            ("{ NEST { } }", "} }", "the name of a procedure of the nest"),
            ("{ a b }", "b", "`,` or `}`"),
            (
                "{ NEST { a, b } ORDER (a < c) }",
                "c)",
                "no procedure of this nest, which has a, b",
            ),
            (
                "{ NEST { a, b } ORDER (a < b, b < a) }",
                "b < a",
                "b < a < b",
            ),
            ("{ NEST { a, b } ORDER (a < a) }", "a < a", "a < a"),
            (
                "{ NEST { a, b, c } ORDER (a < b, b < c, c < a) }",
                "c < a",
                "c < a < b < c",
            ),
            ("{ a } RECOVERY MAYBE", "MAYBE", "STRONG or WEAK"),
            ("{ a } ON ABORT GO", "GO", "SKIP or STOP"),
            (
                "{ a } RECOVERY WEAK RECOVERY WEAK",
                "RECOVERY WEAK",
                "a second time",
            ),
            ("{ a } garbage", "garbage", "the end of the statement"),
        ] {
            let text = format!("CREATE DATAFLOW d {rest}");
            let error = parser().parse_statement(&text).expect_err(rest);
            assert!(text[error.offset..].starts_with(at), "{rest}: {error}");
            assert!(error.message.contains(said), "{rest}: {error}");
        }
    }

    #[test]
    fn statements_name_one() {
        assert!(matches!(parse("DROP DATAFLOW d;"), Statement::DropDataflow(name) if name == "d"));
        assert!(
            matches!(parse("PAUSE DATAFLOW <urn:d>"), Statement::PauseDataflow(name) if name == "urn:d")
        );
        assert!(
            matches!(parse("resume dataflow d"), Statement::ResumeDataflow(name) if name == "d")
        );
        for (text, discard) in [
            ("DROP PROCEDURE p", false),
            ("DROP PROCEDURE p DISCARD", true),
        ] {
            let Statement::DropProcedure(dropped) = parse(text) else {
                panic!("{text}");
            };
            assert_eq!((dropped.name.as_str(), dropped.discard), ("p", discard));
        }
        refuses("DROP DATAFLOW", "", "the name of a dataflow");
        refuses("PAUSE PROCEDURE p", "PROCEDURE", "QUERY");
    }

    #[test]
    fn a_script_may_hold_them() {
        let script = "PREFIX : <http://e/>\nCREATE STREAM :in TIMESTAMP :at; CREATE STREAM :out INTERIOR;\n\
                      CREATE PROCEDURE p ON STREAM :in BATCH 1 MESSAGE AS {\n\
                      INSERT { ?s :p 1 ; :q 2 } WHERE { BATCH { ?s :r ?o } } ;\n\
                      EMIT INTO :out CONSTRUCT { ?s :n 1 } WHERE { BATCH { ?s :r ?o } }\n};\n\
                      CREATE DATAFLOW d { p }; CALL q(:x, 1);";
        let read = parser().parse_script(script).expect("each is a statement");
        assert_eq!(read.len(), 5);
        assert_eq!(read[2].place.line, 3);
        let error = parser().parse_script(&script.replace("?o } } ;", "?o } ;"));
        let error = error.expect_err("a bracket is missing");
        assert!(error.line > 2, "{error}");
    }
}

mod calls {
    use super::*;

    #[test]
    fn arguments_are_terms() {
        let read = call(
            "PREFIX t: <urn:t#> CALL <urn:p>(t:a, <urn:b>, \"x\", 'y'@en, -5, 1.5, TRUE, \"1\"^^t:d, <<( t:a t:b 1 )>>) ;",
        );
        assert_eq!(read.procedure, "urn:p");
        let arguments: Vec<String> = read.arguments.iter().map(ToString::to_string).collect();
        assert_eq!(
            arguments,
            [
                "<urn:t#a>",
                "<urn:b>",
                "\"x\"",
                "\"y\"@en",
                "\"-5\"^^<http://www.w3.org/2001/XMLSchema#integer>",
                "\"1.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
                "\"true\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
                "\"1\"^^<urn:t#d>",
                "<<( <urn:t#a> <urn:t#b> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> )>>",
            ]
        );
        assert!(call("CALL p()").arguments.is_empty());
    }

    #[test]
    fn a_missing_an_extra_or_an_ill_typed_argument_is_refused_by_name() {
        let deposit = procedure(
            "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> \
             CREATE PROCEDURE deposit (?to IRI, ?amount xsd:integer, ?why LITERAL, ?more) \
             AS { DELETE WHERE { ?s ?p ?o } }",
        );
        let check = |arguments: &str| {
            let call = call(&format!(
                "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> CALL deposit({arguments})"
            ));
            deposit.check_arguments(&call.arguments)
        };
        assert_eq!(check("<urn:a>, 5, 'x', <urn:b>"), Ok(()));
        assert_eq!(
            check("<urn:a>, '-5'^^xsd:integer, 'x'@en, <<( <urn:a> <urn:b> 1 )>>"),
            Ok(())
        );
        for (arguments, said) in [
            ("<urn:a>, 5, 'x'", "the argument ?more is missing"),
            ("", "the argument ?to is missing"),
            (
                "<urn:a>, 5, 'x', 1, 2",
                "the argument \"2\"^^<http://www.w3.org/2001/XMLSchema#integer> is one too many",
            ),
            ("'a', 5, 'x', 1", "?to cannot be \"a\""),
            ("<urn:a>, 'ten', 'x', 1", "?amount cannot be \"ten\""),
            ("<urn:a>, 5.5, 'x', 1", "?amount cannot be"),
            ("<urn:a>, 'ten'^^xsd:integer, 'x', 1", "?amount cannot be"),
            ("<urn:a>, ''^^xsd:integer, 'x', 1", "?amount cannot be"),
            ("<urn:a>, 5, <urn:x>, 1", "?why cannot be <urn:x>"),
        ] {
            let refused = check(arguments).expect_err(arguments);
            assert!(refused.starts_with(said), "{arguments}: {refused}");
            assert!(refused.ends_with("; write deposit (?to IRI, ?amount <http://www.w3.org/2001/XMLSchema#integer>, ?why LITERAL, ?more ANY)"), "{refused}");
        }
        let none = procedure("CREATE PROCEDURE p AS { DELETE WHERE { ?s ?p ?o } }");
        assert_eq!(none.check_arguments(&[]), Ok(()));
    }

    #[test]
    fn arguments_may_be_given_by_name() {
        let text = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> CREATE PROCEDURE p (?a IRI, ?b xsd:decimal, ?c xsd:boolean) \
                    AS { DELETE WHERE { ?s ?p ?o } }";
        let read = procedure(text);
        let term = |text: &str| {
            let prefix = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>";
            call(&format!("{prefix} CALL p({text})"))
                .arguments
                .remove(0)
        };
        let named = |given: &[(&str, &str)]| {
            let given = given
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Argument::Term(term(value))));
            read.named_arguments(given.collect())
        };
        let arguments = named(&[("c", "TRUE"), ("a", "<urn:a>"), ("b", "'.5'^^xsd:decimal")]);
        let shown: Vec<String> = arguments.unwrap().iter().map(ToString::to_string).collect();
        assert!(
            shown[0] == "<urn:a>"
                && shown[1].starts_with("\".5\"")
                && shown[2].starts_with("\"true\"")
        );
        for (given, said) in [
            (
                &[("a", "<urn:a>"), ("b", "1.5")][..],
                "the argument ?c is missing",
            ),
            (
                &[("a", "<urn:a>"), ("b", "1.5"), ("c", "FALSE"), ("d", "1")],
                "there is no parameter ?d",
            ),
            (
                &[("a", "<urn:a>"), ("a", "<urn:b>")],
                "the argument ?a is given twice",
            ),
            (
                &[("a", "<urn:a>"), ("b", "'.'^^xsd:decimal"), ("c", "FALSE")],
                "?b cannot be",
            ),
            (
                &[("a", "<urn:a>"), ("b", "1.5"), ("c", "'yes'^^xsd:boolean")],
                "?c cannot be",
            ),
        ] {
            let refused = named(given).expect_err(said);
            assert!(refused.starts_with(said), "{refused}");
        }
    }

    #[test]
    fn what_is_no_term_is_refused() {
        for (text, at, said) in [
            ("CALL p", "", "`(`"),
            ("CALL p(?x)", "?x", "an argument"),
            ("CALL p(_:b)", "_:b", "an argument"),
            ("CALL p(UNDEF)", "UNDEF", "has a value"),
            ("CALL p(1,)", ")", "an argument"),
            ("CALL p(1 2)", "", ""),
            ("CALL p({1})", "{1}", "an argument"),
            ("CALL p(t:a)", "t:a", "not declared"),
            ("CALL p(<a>)", "<a>", "relative"),
            ("CALL p(1) 2", "2", "the end of the statement"),
        ] {
            refuses(text, at, said);
        }
    }
}

mod streams {
    use super::*;
    use somersault_lang::{Classification, CreateStream};

    fn stream(text: &str) -> CreateStream {
        match parse(text) {
            Statement::CreateStream(stream) => stream,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn timestamp_is_a_path_to_the_time() {
        let read = stream("CREATE STREAM <urn:s> TIMESTAMP <urn:a>/<urn:b> IDLE NEVER");
        let path: Vec<String> = (read.timestamp.expect("there is a path").iter())
            .map(ToString::to_string)
            .collect();
        assert_eq!(path, ["<urn:a>", "<urn:b>"]);
        assert_eq!(read.source, StreamSource::Outside);
        let read = stream("PREFIX t: <urn:t#> CREATE STREAM t:s TIMESTAMP t:stamp/t:at");
        assert_eq!(read.timestamp.expect("there is a path").len(), 2);
        assert_eq!(stream("CREATE STREAM <urn:s>").timestamp, None);
        refuses("CREATE STREAM <urn:s> TIMESTAMP", "", "a predicate");
        refuses(
            "CREATE STREAM <urn:s> TIMESTAMP <urn:a>/",
            "",
            "a predicate",
        );
        refuses(
            "CREATE STREAM <urn:s> TIMESTAMP <urn:a> TIMESTAMP <urn:b>",
            "TIMESTAMP <urn:b>",
            "a second time",
        );
        refuses(
            "CREATE STREAM <urn:s> TIMESTAMP <urn:a> ARRIVAL TIME",
            "TIMESTAMP",
            "from the clock",
        );
    }

    #[test]
    fn interior_streams_are_filled_by_emit_alone() {
        let read =
            stream("CREATE STREAM <urn:s> KEEP 5m INTERIOR TIMELESS INTO GRAPH <urn:g> BATCH 1s");
        assert_eq!(read.source, StreamSource::Interior);
        assert_eq!(read.classification, Classification::Timeless);
        for (clause, at) in [
            ("INTERIOR TIMESTAMP <urn:a>", "TIMESTAMP"),
            ("LATENESS 1s INTERIOR", "LATENESS"),
            ("IDLE NEVER INTERIOR", "IDLE"),
            ("INTERIOR ARRIVAL TIME", "ARRIVAL"),
            ("INTERIOR AHEAD ANY", "AHEAD"),
            ("INTERIOR INTERIOR", "INTERIOR"),
        ] {
            let text = format!("CREATE STREAM <urn:s> {clause}");
            let error = parser().parse_statement(&text).expect_err(clause);
            assert!(text[error.offset..].starts_with(at), "{clause}: {error}");
        }
    }

    #[test]
    fn the_clauses_stand_in_any_order_each_once() {
        let clauses = [
            "TIMELESS",
            "INTO GRAPH <urn:g>",
            "BATCH 200ms",
            "LATENESS 2s LATE DROP",
            "AHEAD ANY",
            "IDLE NEVER",
            "KEEP 2m",
            "BUDGET 1 MiB",
            "TIMESTAMP <urn:at>",
            "EVENT TIME",
        ];
        let without_text = |text: String| CreateStream {
            text: String::new(),
            ..stream(&text)
        };
        let expected = without_text(format!("CREATE STREAM <urn:s> {}", clauses.join(" ")));
        for turn in 0..clauses.len() {
            let mut turned = clauses;
            turned.rotate_left(turn);
            let read = without_text(format!("CREATE STREAM <urn:s> {}", turned.join(" ")));
            assert_eq!(read, expected);
            turned.reverse();
            let read = without_text(format!("CREATE STREAM <urn:s> {}", turned.join(" ")));
            assert_eq!(read, expected);
            let twice = format!(
                "CREATE STREAM <urn:s> {} {}",
                turned.join(" "),
                clauses[turn]
            );
            assert!(refused(&twice).contains("second time"), "{twice}");
        }
    }
}
