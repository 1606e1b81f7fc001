//! Tests of which constants are lifted. The tests of `query` show that the answers stay the same.

use super::*;

fn shape(text: &str) -> (String, Vec<String>) {
    let lifted = lift(text, None).unwrap_or_else(|| panic!("lifts {text}"));
    let constants = lifted.constants.iter().map(ToString::to_string);
    (lifted.shape.replace(MARK, "%"), constants.collect())
}

#[test]
fn subjects_objects_and_what_filters_compare_with_are_lifted() {
    let text = "PREFIX : <http://x/>  SELECT ?s # the subject\n{ ?s :p :o ; a :C ; :q 'it', 5, \"x\"@en . \
                :s :p [ :q :r ] FILTER(?s != :t && (?s < 1.5 || !(?s = \"v\"))) } LIMIT 7";
    assert_eq!(
        shape(text),
        (
            "PREFIX : <http://x/> SELECT ?s { ?s :p %i ; a :C ; :q %s, %n, \"x\"@en . \
             %i :p [ :q %i ] FILTER(?s != %i && (?s < %d || !(?s = %s))) } LIMIT 7"
                .to_owned(),
            vec![
                "<http://x/o>".to_owned(),
                "\"it\"".to_owned(),
                "\"5\"^^<http://www.w3.org/2001/XMLSchema#integer>".to_owned(),
                "<http://x/s>".to_owned(),
                "<http://x/r>".to_owned(),
                "<http://x/t>".to_owned(),
                "\"1.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>".to_owned(),
                "\"v\"".to_owned(),
            ]
        )
    );
}

#[test]
fn constants_that_plans_or_answers_depend_on_stay() {
    for text in [
        "SELECT * { ?s a <http://x/C> }",
        "SELECT * { ?s <http://x/p>+ ?o }",
        "SELECT * { ?s ?p ?o FILTER(regex(?o, 'a')) } ORDER BY ?s LIMIT 10",
        "SELECT * { VALUES ?s { <http://x/a> 5 } ?s ?p ?o }",
        "SELECT * FROM <http://x/g> { GRAPH <http://x/h> { ?s ?p ?o } }",
        "SELECT * { ?s ?p ?o FILTER(?o IN (5, 6)) FILTER(?o + 1 = 5 + 1) BIND(5 AS ?b) }",
    ] {
        assert_eq!(lift(text, None), None, "{text}");
    }
}

#[test]
fn odd_texts_are_left_alone() {
    for text in [
        "CONSTRUCT { <http://x/a> ?p ?o } { <http://x/a> ?p ?o }",
        "BASE <http://x/> SELECT * { <a> ?p ?o }",
        "SELECT * { <a> ?p ?o }",
        "SELECT * { :a ?p ?o }",
        "SELECT * { <http://x/a> ?p \"\\n\" }",
        "SELECT * { (1 2) ?p <http://x/a> }",
        "SELECT * { <http://x/a> ?p ",
        "INSERT DATA { <http://x/a> <http://x/p> 1 }",
        "SELECT * { << <http://x/a> ?p ?o >> ?q ?r }",
        "",
    ] {
        assert_eq!(lift(text, None), None, "{text}");
    }
}

#[test]
fn a_base_changes_no_constant() {
    let base = Some("http://x/y/z");
    let shapes = |text| lift(text, base).map(|lifted| lifted.constants.len());
    assert_eq!(
        shapes("SELECT * { <http://x/a> <p> 5 . ?s <../q> ?o }"),
        Some(2)
    );
    assert_eq!(shapes("PREFIX : <n#> SELECT * { :a <p> ?o }"), Some(1));
    for text in [
        "SELECT * { <a> <p> 5 }",
        "SELECT * { <> <p> 5 }",
        "SELECT * { <http://x/a/../b> <p> 5 }",
        "SELECT * { ?s <p> <#it> FILTER(?s != 5) }",
    ] {
        assert_eq!(shapes(text), None, "{text}");
    }
    assert_eq!(lift("ASK { ?s ?p 5 }", Some("no base")), None);
    let lifted = lift("PREFIX : <n#> SELECT * { :a <p> ?o }", base).expect("lifts");
    assert_eq!(lifted.constants[0].to_string(), "<http://x/y/n#a>");
}

#[test]
fn a_template_holds_what_the_shape_lacks() {
    let lifted = lift("ASK{<http://x/a> ?p 5, 1.5, 1e0, 'a'}", None).expect("lifts");
    let template = lifted.template();
    assert_eq!(template.placeholders.len(), lifted.constants.len());
    assert!(
        lift(&template.text, None).is_none(),
        "a template is not lifted again"
    );
    crate::Parser::new()
        .parse_query(&template.text)
        .expect("a query");
}
