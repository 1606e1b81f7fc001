//! Bad texts and their exact messages, which are in tests/errors.txt (`UPDATE_EXPECT=1` refreshes
//! them).

use expect_test::expect_file;
use somersault_lang::{ParseError, Parser};
use std::fmt::Write;

/// The texts with their messages.
#[derive(Default)]
struct Report(String);

impl Report {
    fn add<T>(&mut self, text: &str, result: Result<T, ParseError>) {
        let said = match result {
            Ok(_) => "accepted".to_owned(),
            Err(error) => format!("{:?}: {error}", error.kind),
        };
        let text: String = text.chars().take(160).collect();
        let _ = writeln!(self.0, "{text}\n    {said}\n");
    }

    fn query(&mut self, text: &str) {
        self.add(text, Parser::new().parse_query(text));
    }

    fn update(&mut self, text: &str) {
        self.add(text, Parser::new().parse_update(text));
    }

    fn continuous(&mut self, text: &str) {
        self.add(text, Parser::new().parse_continuous(text));
    }

    fn statement(&mut self, text: &str) {
        self.add(text, Parser::new().parse_statement(text));
    }
}

#[test]
fn bad_texts() {
    let mut report = Report::default();
    one_shot(&mut report);
    updates(&mut report);
    templates(&mut report);
    timestamps(&mut report);
    live(&mut report);
    windows(&mut report);
    dialects(&mut report);
    registrations(&mut report);
    declarations(&mut report);
    expect_file!["../errors.txt"].assert_eq(&report.0);
}

fn one_shot(report: &mut Report) {
    report.query("");
    report.query("SELEC ?x WHERE { ?x ?y ?z }");
    report.query("SELECT ?x\nWHERE { ?x ?y ?z");
    report.query("SELECT ?x WHERE { ?x ?y ?z }}");
    report.query("SELECT ?x WHERE { ?x ex:p ?z }");
    report.query("SELECT ?x WHERE { ?x <p> ?z }");
    report.query("SELECT ?x WHERE { ?x <http://a b> ?z }");
    report.query("SELECT ?x WHERE { ?x ?y ?z FILTRE(?x > 3) }");
    report.query("SELECT ?x WHERE { ?x ?y ?z FILTER ?x > 3 }");
    report.query("SELECT ?x WHERE { ?x ?y ?z FILTER(?x > ) }");
    report.query("SELECT ?x WHERE { ?x ?y ?z FILTER(CONTAINS(?x)) }");
    report.query("SELECT ?x WHERE { ?x ?y ?z FILTER(STRLENGTH(?x) > 3) }");
    report.query("SELECT ?x WHERE { ?x ?y \"never closed }");
    report.query("SELECT ?x WHERE { ?x ?y 'a\\qb' }");
    report.query("SELECT ?x WHERE { ?x ?y }");
    report.query("SELECT ?x WHERE { ?x ?y ?z ?a ?b ?c }");
    report.query("SELECT ?x WHERE { ?x ?y ?z BIND(1 AS ?z) }");
    report.query("SELECT ?x (1 AS ?x) WHERE { ?x ?y ?z }");
    report.query("SELECT ?x ?y WHERE { ?x ?y ?z } GROUP BY ?x");
    report.query("SELECT (COUNT(?z) AS ?n) ?y WHERE { ?x ?y ?z }");
    report.query("SELECT * WHERE { ?x ?y ?z } GROUP BY ?x");
    report.query("SELECT ?x WHERE { VALUES (?x ?y) { (1 2) (3) } }");
    report.query("SELECT ?x WHERE { ?x ?y ?z } LIMIT many");
    report.query("SELECT ?x WHERE { _:a ?y ?z OPTIONAL { _:a ?p ?q } }");
    report.query("SELECT ?x WHERE { ?x ?y ?z } ORDER ?x");
    report.query("SELECT ?x WHERE { ?X po ?Z }");
    report.query("CONSTRUCT { GRAPH ?g { ?s ?p ?o } } WHERE { ?s ?p ?o }");
    report.query("INSERT DATA { <http://a> <http://b> 1 }");
    report.query("SELECT ?x FROM STREAM <http://s> [RANGE 1s STEP 1s] WHERE { ?x ?y ?z }");
    report.query("REGISTER QUERY q AS SELECT ?x FROM <http://g> WHERE { ?x ?y ?z }");
    report.query(&format!(
        "SELECT ?x WHERE {{ FILTER({}1{}) }}",
        "(".repeat(200),
        ")".repeat(200)
    ));
}

fn updates(report: &mut Report) {
    report.update("INSERT DATA { ?x <http://p> 1 }");
    report.update("DELETE DATA { _:b <http://p> 1 }");
    report.update("INSERT { ?x <http://p> 1 }");
    report.update("INSERT DATA { <http://a> <http://p>/<http://q> 1 }");
    report.update("DROP STREAM <http://s>");
    report.update("CLEAR EVERYTHING");
    report.update("SELECT * WHERE { ?s ?p ?o }");
    report.update("INSERT DATA { _:b <http://p> 1 } ; INSERT DATA { _:b <http://p> 2 }");
}

fn templates(report: &mut Report) {
    let mut construct = |template: &str| {
        report.query(&format!(
            "CONSTRUCT {{ {template} }}\nWHERE {{ GRAPH ?g {{ ?s ?p ?o }} }}"
        ));
    };
    construct("GRAPH ?g { ?s ?p ?o");
    construct("GRAPH { ?s ?p ?o }");
    construct("GRAPH \"g\" { ?s ?p ?o }");
    construct("GRAPH ?g ?s ?p ?o");
    construct("GRAPH ?g { ?s ?p }");
    construct("GRAPH ?g { ?s <p>/<q> ?o }");
    construct("GRAPH ?g { ?s ?p ?o } FILTER(?o > 1)");
    construct("GRAPH ?g { GRAPH ?h { ?s ?p ?o } }");
    construct("GRAPH ex:g { ?s ?p ?o }");
    report.query("CONSTRUCT WHERE { GRAPH ?g { ?s ?p ?o } }");
}

fn timestamps(report: &mut Report) {
    let f = "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\n";
    let of = |arguments: &str| {
        format!(
            "{f}SELECT (f:timestamp({arguments}) AS ?t) FROM STREAM <http://s> [RANGE 1s STEP 1s] {{ ?x ?y ?z }}"
        )
    };
    report.continuous(&of("?x, ?y"));
    report.continuous(&of(""));
    report.continuous(&of("?x, ?y, ?z, STR(?x)"));
    report.query(&format!(
        "{f}SELECT * {{ ?x ?y ?z FILTER(f:timestamp(?x, ?y, ?z) > 5) }}"
    ));
    report.update(&format!(
        "{f}INSERT {{ ?x ?y ?t }} WHERE {{ ?x ?y ?z BIND(f:timestamp(?x, ?y, ?z) AS ?t) }}"
    ));
}

/// Queries without a window.
fn live(report: &mut Report) {
    let rest = "WHERE { ?x ?y ?z }";
    for head in [
        "REGISTER QUERY q COMPUTED EVERY 5s AS\nSELECT ?x",
        "REGISTER QUERY q AS\nSELECT ?x\nSTARTING AT \"1970-01-01T00:00:05Z\"",
        "REGISTER QUERY q EVERY 5s AS\nSELECT ?x\nFROM STREAM <http://s> [RANGE 10s STEP 5s]",
        "REGISTER QUERY q EVERY 0s AS\nSELECT ?x",
        "REGISTER QUERY q ON OVERLOAD SKIP AS\nSELECT ?x",
        "REGISTER STREAM <http://d> AS\nCONSTRUCT { ?x ?y ?z }",
        "REGISTER QUERY q AS\nDESCRIBE ?x",
    ] {
        report.continuous(&format!("{head}\n{rest}"));
    }
    report.continuous(
        "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\nREGISTER QUERY q AS\nSELECT * { ?x ?y ?z FILTER(f:timestamp(?x, ?y, ?z) > 5) }",
    );
}

fn windows(report: &mut Report) {
    let with =
        |clauses: &str| format!("REGISTER QUERY q AS\nSELECT ?x\n{clauses}\nWHERE {{ ?x ?y ?z }}");
    report.continuous(&with("FROM STREAM <http://s>"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE 10s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE 10s STEP 0s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE -10s STEP 1s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE 10 STEP 1s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE 10x STEP 1s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE 10s STEP 1s"));
    report.continuous(&with("FROM STREAM <http://s> [10s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE TRIPLES 0]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE TRIPLES 10s]"));
    report.continuous(&with("FROM STREAM <http://s> [RANGE TRIPLES 10 STEP]"));
    report.continuous(&with("FROM STREAM <http://s> [NOW]"));
    report.continuous(&with(
        "FROM STREAM <http://s> [FROM NOW-10s TO NOW-5s STEP 1s]",
    ));
    report.continuous(&with("FROM STREAM <http://s> [ELEMENTS 10 STEP 2]"));
    report.continuous(&with(
        "FROM STREAM <http://s> [RANGE 1s STEP 1s STARTING AT 5]",
    ));
    report.continuous(&with("FROM STREAM ex:s [RANGE 1s STEP 1s]"));
    report.continuous(&with("FROM Tweet_Stream [RANGE 1s STEP 1s]"));
    report.continuous(&with(
        "FROM STREAM <http://s> [RANGE 1s STEP 1s] FROM NAMED STREAM <http://s> [RANGE 2s STEP 1s]",
    ));
    report.continuous(&with(
        "FROM STREAM <http://s> [RANGE 1s STEP 1s]\nFROM <http://s>",
    ));
    report.continuous(&with(
        "FROM NAMED WINDOW <http://w> ON <http://s> [RANGE 1s STEP 1s]",
    ));
    for options in [
        "REPORT ON",
        "REPORT NON",
        "REPORT ON CHANGE REPORT ON CHANGE",
        "REPORT NON EMPTY ON OVERLOAD",
        "ON OVERLOAD SKIP ON OVERLOAD SKIP",
    ] {
        report.continuous(&with(&format!(
            "FROM STREAM <http://s> [RANGE 1s STEP 1s] {options}"
        )));
    }
    for option in ["REPORT NON EMPTY", "ON OVERLOAD SKIP"] {
        report.continuous(&with(&format!(
            "FROM STREAM <http://s> [RANGE 1s STEP 1s {option}]"
        )));
    }
    for instant in ["", "1s", "\"yesterday\"", "-1", "\"2026-01-01\""] {
        report.continuous(&with(&format!(
            "FROM STREAM <http://s> [RANGE 1s STEP 1s] STARTING AT {instant}"
        )));
    }
}

fn dialects(report: &mut Report) {
    let window = "FROM NAMED WINDOW <http://w> ON <http://s> [RANGE 1s STEP 1s]";
    let mut query = |clauses: &str, pattern: &str| {
        report.continuous(&format!("SELECT *\n{clauses}\nWHERE {{ {pattern} }}"));
    };
    let of = |keyword: &str| format!("{keyword} {{ ?x ?y ?z }}");
    query(
        "FROM WINDOW <http://w> ON <http://s> [RANGE 1s STEP 1s]",
        "",
    );
    query(
        "FROM NAMED WINDOW <http://w> <http://s> [RANGE 1s STEP 1s]",
        "",
    );
    query("FROM NAMED WINDOW <http://w> ON <http://s>", "");
    query(&format!("{window}\n{window}"), &of("WINDOW <http://w>"));
    query(
        &format!("{window}\nFROM <http://w>"),
        &of("WINDOW <http://w>"),
    );
    query(
        &format!("{window}\nFROM STREAM <http://s> [RANGE 1s STEP 1s]"),
        "",
    );
    query(window, &of("WINDOW <http://v>"));
    query("", &of("WINDOW <http://v>"));
    query(window, &of("GRAPH <http://w>"));
    query(window, &of("WINDOW w:w"));
    query(window, "WINDOW <http://w> { ?x ?y ?z");
    query(window, "WINDOW ?w { ?x ?y ?z } ?x ?y");
    query(window, &of("STREAM <http://s> [RANGE 1s SLIDE 1s]"));
    query("", &of("STREAM <http://s>"));
    query("", &of("STREAM <http://s> [NOW STEP 1s]"));
    query("", &of("STREAM <http://s> [ELEMENTS 3]"));
    query("", &of("STREAM <http://s> [TRIPLES -3]"));
    for past in [
        "FROM NOW-5s TO NOW-10s STEP 1s",
        "FROM NOW-10s TO NOW-5s",
        "FROM NOW TO NOW-5s STEP 1s",
        "FROM NOW-10s NOW-5s STEP 1s",
        "FROM 10s TO NOW-5s STEP 1s",
        "ELEMENTS",
        "TRIPLES 3",
        "ALL",
    ] {
        query(
            &format!("FROM NAMED WINDOW <http://w> ON <http://s> [{past}]"),
            &of("WINDOW <http://w>"),
        );
    }
    query("", &of("STREAM ?s [RANGE 1s SLIDE 1s]"));
    query(
        "FROM STREAM <http://t> [RANGE 1s STEP 1s]",
        &of("STREAM <http://s> [RANGE 1s SLIDE 1s]"),
    );
    report.query(&format!("SELECT * {{ {} }}", of("WINDOW ?w")));
    report.query(&format!(
        "SELECT * {{ {} }}",
        of("STREAM <http://s> [RANGE 1s SLIDE 1s]")
    ));
}

fn registrations(report: &mut Report) {
    report.continuous(
        "REGISTER QUERY silent AS SELECT * FROM STREAM <http://s> [RANGE 1s STEP 1s] { ?s ?p ?o }",
    );
    report.statement("DROP QUERY select");
    let rest = "SELECT ?x FROM STREAM <http://s> [RANGE 1s STEP 1s] WHERE { ?x ?y ?z }";
    report.continuous(&format!("REGISTER q AS {rest}"));
    report.continuous(&format!("REGISTER QUERY AS {rest}"));
    report.continuous(&format!("REGISTER QUERY q COMPUTED EVERY 0s AS {rest}"));
    report.continuous(&format!("REGISTER STREAM <http://d> AS {rest}"));
    let rest_of = |header: &str, template: &str, end: &str| {
        format!(
            "REGISTER STREAM {header} AS CONSTRUCT {{ {template} }} FROM STREAM <http://s> [RANGE 1s STEP 1s] WHERE {{ ?x ?y ?z }} {end}"
        )
    };
    let sampled = "REGISTER STREAM <http://d> AS CONSTRUCT { ?x ?y ?z } FROM STREAM <http://s> [RANGE 1s STEP 1s] WHERE { SELECT ?x ?y (SAMPLE(?o) AS ?z) { ?x ?y ?o } GROUP BY ?x ?y }";
    report.continuous(sampled);
    report.continuous(&sampled.replace("SAMPLE", "GROUP_CONCAT"));
    report.continuous(&rest_of("<http://d>", "?x ?y ?z", "LIMIT 1"));
    for header in [
        "\"d\"",
        "<http://d> BATCH 1s",
        "<http://d> IDLE NEVER",
        "<http://d> LATENESS 1s",
        "<http://d> KEEP 1s KEEP 2s",
        "<http://d> ON OVERLOAD SKIP",
        "d",
    ] {
        report.continuous(&rest_of(header, "?x ?y ?z", ""));
    }
    report.continuous(&format!(
        "REGISTER ISTREAM q AS {}",
        rest.replace("SELECT", "SELECT DSTREAM")
    ));
    report.continuous(&rest.replace("SELECT ?x", "ASK ISTREAM"));
    report.continuous(&format!(
        "REGISTER DSTREAM q AS {}",
        rest.replace("SELECT", "DESCRIBE")
    ));
    report.continuous(
        &rest
            .replace("{ ?x", "{ WINDOW ?w { ?x")
            .replace("?z }", "?z } }"),
    );
    report.continuous(
        &rest
            .replace("{ ?x", "{ STREAM <http://s> [RANGE 1s] { ?x")
            .replace("?z }", "?z } }"),
    );
    report.continuous(&format!(
        "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>\n{}",
        rest.replace("?z }", "?z FILTER(f:timestamp(?x, ?y, ?z) > 3) }")
    ));
    report.continuous(&rest.replace("?z }", "?z FILTRE(?x) }"));
}

fn declarations(report: &mut Report) {
    report.statement("CREATE STREAM");
    report.statement("CREATE STREAM s");
    report.statement("CREATE STREAM <http://s> BATCH 0ms");
    report.statement("CREATE STREAM <http://s> BATCH 100ms BATCH 1s");
    report.statement("CREATE STREAM <http://s> TIMING ()");
    report.statement("CREATE STREAM <http://s> TIMELESS TIMING ALL");
    report.statement("CREATE STREAM <http://s> LATE DROP");
    report.statement("CREATE STREAM <http://s> BUDGET 0");
    report.statement("CREATE STREAM <http://s> KEEPS 1m");
    report.statement("DROP GRAPH <http://s>");
    report.statement("PAUSE q");
    report.statement("DROP QUERY q r");
}
