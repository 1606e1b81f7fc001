//! Compiled steps against their dull twin: the value written into the text in the place of the
//! variable, and the text planned each time.

use crate::equals_spareval::{canonical, data, query};
use crate::procedures::{CALL, begin, compiled, execution};
use crate::updates::store;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use proptest::prelude::*;
use proptest::sample::select;
use somersault_lang::Parser;
use somersault_model::TermId;
use somersault_query::{Answer, Prepared, ProcedureInput, TransactionState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The text with a term in the place of `?a`. In the SELECT of the whole query it stays a column, in
/// a sub-select it is none.
fn written(text: &str, term: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let (mut selects, mut in_head, mut columns) = (0, false, 0);
    while !rest.is_empty() {
        let take = if let Some(after) = rest.strip_prefix("SELECT") {
            (selects, in_head, columns) = (selects + 1, true, 0);
            out.push_str("SELECT");
            Some(after)
        } else if in_head && rest.starts_with("WHERE") {
            if columns == 0 && selects > 1 {
                out.push_str(&format!("(true AS ?none{selects}) "));
            }
            in_head = false;
            None
        } else if let Some(after) = rest.strip_prefix("BOUND(?a)") {
            out.push_str("true");
            Some(after)
        } else if let Some(after) = rest.strip_prefix("GROUP BY ?a") {
            out.push_str(&format!("GROUP BY ({term} AS ?key{selects})"));
            Some(after)
        } else if let Some(after) = rest.strip_prefix("ORDER BY ?a") {
            out.push_str(&format!("ORDER BY ({term})"));
            Some(after)
        } else if rest.starts_with("?a") && !rest[2..].starts_with(|c: char| c.is_alphanumeric()) {
            match (in_head, selects) {
                (true, 1) => out.push_str(&format!("({term} AS ?a)")),
                (true, _) => {}
                (false, _) => out.push_str(term),
            }
            columns += usize::from(in_head && selects == 1);
            Some(&rest[2..])
        } else {
            None
        };
        rest = take.unwrap_or_else(|| {
            let next = rest.chars().next().map_or(0, char::len_utf8);
            let is_column = in_head && (rest.starts_with('?') || rest.starts_with('*'));
            columns += usize::from(is_column);
            out.push_str(&rest[..next]);
            &rest[next..]
        });
    }
    out
}

type Rows = Vec<BTreeMap<String, String>>;

/// The rows of an answer by their columns; of these alone, if they are given.
fn rows(state: &TransactionState, answer: &Answer, of: Option<&Rows>) -> Rows {
    let cells = |names: &[String], row: Vec<Option<Term>>| {
        let cells = row.into_iter().map(canonical);
        let named = names.iter().cloned().zip(cells);
        let wanted = of.and_then(|rows| rows.first());
        named
            .filter(|(name, _)| wanted.is_none_or(|row| row.contains_key(name)))
            .collect()
    };
    let mut rows: Rows = match answer {
        Answer::Boolean(value) => vec![BTreeMap::from([("is".to_owned(), value.to_string())])],
        Answer::Graph(triples) => {
            let cell = |triple: &oxrdf::Triple| ("triple".to_owned(), triple.to_string());
            triples
                .iter()
                .map(|it| BTreeMap::from([cell(it)]))
                .collect()
        }
        Answer::Dataset(_) => panic!("no template names a graph"),
        Answer::Solutions(solutions) => {
            let names = solutions.variables();
            let rows = solutions.rows(state.dictionary());
            rows.map(|row| cells(names, row)).collect()
        }
    };
    rows.sort();
    rows
}

fn value() -> impl Strategy<Value = Term> {
    let iri = |name: &str| Term::from(NamedNode::new_unchecked(format!("http://x/{name}")));
    select(vec![
        iri("a"),
        iri("b"),
        iri("p"),
        iri("g"),
        iri("nowhere"),
        Literal::from(1).into(),
        Literal::new_simple_literal("x").into(),
        Literal::new_simple_literal("longer than inline").into(),
    ])
}

/// The triples of three parts as quads: stored, committed and sealed, committed.
fn parts(data: &crate::equals_spareval::Data) -> [Vec<Quad>; 3] {
    let [named, other] = &data.named;
    let in_graph = |triples: &[oxrdf::Triple], name: &str| {
        let graph = NamedNode::new_unchecked(format!("http://x/{name}"));
        let quads = triples.iter().map(|it| it.clone().in_graph(graph.clone()));
        quads.collect::<Vec<Quad>>()
    };
    let in_default = data.default.iter();
    let in_default = in_default.map(|it| it.clone().in_graph(GraphName::DefaultGraph));
    let mut parts = [Vec::new(), in_graph(named, "g"), in_graph(other, "h")];
    for (at, quad) in in_default.enumerate() {
        parts[at % 3].push(quad);
    }
    parts
}

fn state(data: &crate::equals_spareval::Data) -> TransactionState {
    let [stored, sealed, since] = parts(data);
    let mut state = TransactionState::new(store(&stored).pin_stable());
    for (at, part) in [sealed, since].into_iter().enumerate() {
        let text: String = part.iter().map(|quad| format!("{quad} .\n")).collect();
        let text: String = text.lines().map(in_trig).collect();
        let update = Parser::new().parse_update(&format!("INSERT DATA {{ {text} }}"));
        let mut txn = begin(&mut state, execution());
        txn.update(&update.expect("data"), None).expect("it writes");
        txn.commit();
        if at == 0 {
            assert!(state.seal());
        }
    }
    state
}

/// A line of N-Quads as SPARQL writes it.
fn in_trig(line: &str) -> String {
    for graph in ["g", "h"] {
        if let Some(triple) = line.strip_suffix(&format!(" <http://x/{graph}> .")) {
            return format!("GRAPH <http://x/{graph}> {{ {triple} }} ");
        }
    }
    format!("{line} ")
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_value_is_as_if_it_stood_in_the_text(
        data in data(),
        text in query(),
        values in proptest::collection::vec(value(), 1..3),
    ) {
        let (prefix, body) = text.split_once('\n').expect("a line of prefixes");
        let procedure = format!("CREATE PROCEDURE it (?a) AS {{ RETURN {body} }}");
        let Ok(procedure) = compiled(&procedure) else { return Ok(()) };
        let mut state = state(&data);
        let procedure = state.install(Arc::new(procedure));
        for value in values {
            let twin = format!("{prefix}\n{}", written(body, &value.to_string()));
            let Ok(twin) = Parser::new().parse_query(&twin) else { continue };
            let text = twin.text.clone();
            let mut txn = begin(&mut state, execution());
            let arguments: Vec<TermId> = vec![txn.id(&value)];
            let input = ProcedureInput { arguments: &arguments, ..CALL };
            let ours = txn.execute(&procedure, &input).expect("no limit is near");
            let twins = txn.query(&Prepared::new(twin), &[]).expect("no limit is near");
            drop(txn);
            let ours = rows(&state, &ours.answer.expect("it returns"), None);
            let twins = rows(&state, &twins, Some(&ours));
            prop_assert_eq!(ours, twins, "\n{}", text);
        }
    }

    #[test]
    fn a_slot_without_a_value_leaves_the_variable(data in data(), text in query()) {
        let (prefix, body) = text.split_once('\n').expect("a line of prefixes");
        let procedure = format!(
            "CREATE PROCEDURE it AS {{ LET (?a) BE SELECT ?none WHERE {{ }} ; RETURN {body} }}"
        );
        let Ok(procedure) = compiled(&procedure) else { return Ok(()) };
        let mut state = state(&data);
        let procedure = state.install(Arc::new(procedure));
        let twin = Parser::new().parse_query(&format!("{prefix}\n{body}"));
        let twin = Prepared::new(twin.expect("the procedure has it"));
        let mut txn = begin(&mut state, execution());
        let ours = txn.execute(&procedure, &CALL).expect("no limit is near");
        let twins = txn.query(&twin, &[]).expect("no limit is near");
        drop(txn);
        let ours = rows(&state, &ours.answer.expect("it returns"), None);
        let twins = rows(&state, &twins, Some(&ours));
        prop_assert_eq!(ours, twins, "\n{}", body);
    }
}
