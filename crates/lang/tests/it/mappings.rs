//! MAPPED BY and DEAD LETTER INTO: what is read, what is refused and where.

use somersault_lang::{CreateStream, Parser, QueryForm, Statement};

fn stream(text: &str) -> CreateStream {
    match Parser::new().parse_statement(text) {
        Ok(Statement::CreateStream(stream)) => stream,
        other => panic!("{text}\n{other:?}"),
    }
}

/// Asserts that a text is refused at the words `at`, with words that say so.
fn refuses(text: &str, at: &str, said: &str) {
    let error = Parser::new().parse_statement(text).expect_err(text);
    assert!(error.message.contains(said), "{text}\n{error}");
    assert!(
        text[error.offset..].starts_with(at),
        "{text}\n{error}\n{}",
        &text[error.offset..]
    );
}

#[test]
fn a_mapping_is_a_construct_that_stands_alone() {
    let text = "BASE <http://b/> PREFIX x: <http://x/> PREFIX y: <http://y/>
        CREATE STREAM <s> KEEP 1h
        MAPPED BY CONSTRUCT { [] x:v ?v ; <p> \"a;b\" } WHERE { ?d x:a ?v ; x:b [ x:c 1 ] . FILTER(?v > 1) }
          ORDER BY ?v LIMIT 3
        DEAD LETTER INTO <dead> IDLE NEVER;";
    let read = stream(text);
    assert_eq!(read.keep.0, 3_600_000);
    assert_eq!(read.idle, None);
    assert_eq!(
        read.dead_letters.expect("it is named").as_str(),
        "http://b/dead"
    );
    let mapping = read.mapping.expect("there is one");
    let QueryForm::Construct { template } = &mapping.construct.form else {
        panic!("a mapping is a CONSTRUCT")
    };
    assert_eq!(template.len(), 2);
    let own = &mapping.construct.text;
    assert!(
        own.starts_with("BASE <http://b/>\nPREFIX x: <http://x/>\nCONSTRUCT {"),
        "{own}"
    );
    assert!(own.ends_with("LIMIT 3"), "{own}");
    let again = Parser::new()
        .parse_query(own)
        .expect("its text stands alone");
    assert_eq!(again.form, mapping.construct.form);
}

#[test]
fn a_mapping_may_stand_at_any_place() {
    let mapping = "MAPPED BY CONSTRUCT WHERE { ?d <urn:a> ?v }";
    let clauses = [
        "TIMELESS",
        mapping,
        "BATCH 1s",
        "DEAD LETTER INTO <urn:d>",
        "ARRIVAL TIME",
    ];
    let without_text = |clauses: &[&str]| CreateStream {
        text: String::new(),
        ..stream(&format!("CREATE STREAM <urn:s> {}", clauses.join(" ")))
    };
    let expected = without_text(&clauses);
    assert!(expected.mapping.is_some());
    for turn in 1..clauses.len() {
        let mut turned = clauses;
        turned.rotate_left(turn);
        assert_eq!(without_text(&turned), expected);
    }
    let other = without_text(&["MAPPED BY CONSTRUCT WHERE { ?d <urn:b> ?v }"]);
    assert_ne!(other.mapping, expected.mapping);
    assert_eq!(stream("CREATE STREAM <urn:s>").mapping, None);
}

#[test]
fn what_pushes_into_a_mapped_stream_may_touch() {
    let read = stream(
        "CREATE STREAM <urn:s> MAPPED BY CONSTRUCT WHERE { ?d <urn:a> ?v } DEAD LETTER INTO <urn:d>",
    );
    let touched = read.footprint();
    assert_eq!(touched.pushes.len(), 1);
    assert!(!touched.reads.default, "a mapping reads its document alone");
}

#[test]
fn mistakes_are_refused_where_they_stand() {
    let of = |clauses: &str| format!("CREATE STREAM <urn:s> {clauses}");
    let where_a = "WHERE { ?d <urn:a> ?v }";
    let construct = format!("CONSTRUCT {{ ?d <urn:b> ?v }} {where_a}");
    for (clauses, at, said) in [
        ("MAPPED".to_owned(), "", "BY"),
        ("MAPPED BY SELECT".to_owned(), "SELECT", "CONSTRUCT after MAPPED BY"),
        ("MAPPED BY CONSTRUCT { ?d <urn:b> ?v } KEEP 1h".to_owned(), "", "the mapping ends here"),
        ("MAPPED BY CONSTRUCT { ?d <urn:b> ?v WHERE { }".to_owned(), "{ ?d", "never closed"),
        (format!("MAPPED BY CONSTRUCT {{ ?d <urn:b> }} {where_a}"), "}", ""),
        (format!("MAPPED BY CONSTRUCT {{ }} {where_a}"), "CONSTRUCT", "template of the mapping is empty"),
        (format!("MAPPED BY CONSTRUCT {{ ?d x:b ?v }} {where_a}"), "x:b", "not declared"),
        ("MAPPED BY CONSTRUCT { ?d <urn:b> ?v } FROM <urn:g> WHERE { ?d <urn:a> ?v }".to_owned(), "FROM", "reads its document alone"),
        ("MAPPED BY CONSTRUCT { ?d <urn:b> ?v } WHERE { GRAPH ?g { ?d <urn:a> ?v } }".to_owned(), "GRAPH", "reads its document alone"),
        ("MAPPED BY CONSTRUCT { ?d <urn:b> ?v } WHERE { ?d <urn:a> ?v FILTER EXISTS { SERVICE <urn:x> { } } }".to_owned(), "SERVICE", "reads its document alone"),
        (format!("MAPPED BY {construct} MAPPED BY {construct}"), "MAPPED", "a second time"),
        ("DEAD LETTER INTO <urn:d>".to_owned(), "DEAD", "only MAPPED BY and CONTEXT read documents"),
        (format!("CONTEXT <urn:c> MAPPED BY {construct}"), "CONTEXT", "take one of the two away"),
        ("CONTEXT".to_owned(), "", "the URL of a JSON-LD context"),
        ("CONTEXT <urn:c> CONTEXT <urn:c>".to_owned(), "CONTEXT <urn:c>", "a second time"),
        (format!("MAPPED BY {construct} DEAD LETTER INTO <urn:s>"), "DEAD", "into the stream itself"),
        (format!("MAPPED BY {construct} DEAD LETTERS"), "LETTERS", "LETTER"),
        (format!("INTERIOR MAPPED BY {construct}"), "MAPPED", "interior"),
    ] {
        refuses(&of(&clauses), at, said);
    }
    let named = "CREATE STREAM <urn:s> MAPPED BY CONSTRUCT { GRAPH <urn:g> { ?d <urn:b> ?v } } WHERE { ?d <urn:a> ?v }";
    assert!(
        stream(named).mapping.is_some(),
        "statements may go into named graphs"
    );
}

#[test]
fn a_context_is_named_by_its_url() {
    let read = stream(
        "PREFIX c: <https://c/> CREATE STREAM <urn:s> CONTEXT c:x KEEP 1h DEAD LETTER INTO <urn:d>",
    );
    assert_eq!(read.context.expect("it is named").as_str(), "https://c/x");
    assert!(read.dead_letters.is_some());
}

#[test]
fn a_script_may_hold_mapped_streams() {
    let script = "PREFIX x: <http://x/>
        CREATE STREAM x:a MAPPED BY CONSTRUCT { ?d x:v ?v } WHERE { ?d x:a ?v ; x:b ?w };
        CREATE STREAM x:b";
    let read = Parser::new().parse_script(script).expect("it parses");
    assert_eq!(read.len(), 2);
    let again = Parser::new().parse_statement(&read[0].text);
    assert!(matches!(again, Ok(Statement::CreateStream(stream)) if stream.mapping.is_some()));
}
