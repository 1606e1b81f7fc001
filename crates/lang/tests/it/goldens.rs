//! Golden parses: tests/parses/NAME.(rq|csparql|rspql|cqels|ru|stream) with what it means in
//! NAME.….txt.

use crate::algebra_text::algebra_text;
use crate::files_below;
use expect_test::expect_file;
use somersault_lang::{ContinuousQuery, Overload, Parser, Report, Update, UpdateOperation};
use std::fmt::Write;
use std::path::Path;

fn continuous_text(query: &ContinuousQuery) -> String {
    let mut out = format!("{:?} {:?}, {:?}\n", query.kind, query.name, query.dialect);
    if let Some(every) = query.computed_every {
        let _ = writeln!(out, "computed every {} ms", every.0);
    }
    if query.operator.compares() {
        let _ = writeln!(out, "{:?}", query.operator);
    }
    if query.report != Report::default() {
        let _ = writeln!(out, "{:?}", query.report);
    }
    if query.overload != Overload::default() {
        let _ = writeln!(out, "on overload {:?}", query.overload);
    }
    if let Some(stream) = &query.derives {
        let _ = writeln!(out, "{stream:?}");
    }
    if query.starting_at.0 != 0 {
        let _ = writeln!(out, "starting at {} ms", query.starting_at.0);
    }
    for window in &query.windows {
        let _ = writeln!(
            out,
            "window {} as {} (line {}, column {}): {}, default {}, named {}",
            window.stream,
            window.name,
            window.line,
            window.column,
            window.extent,
            window.in_default,
            window.named
        );
    }
    out + &algebra_text(&query.query)
}

fn update_text(update: &Update) -> String {
    let mut out = String::new();
    for operation in &update.operations {
        match operation {
            UpdateOperation::InsertData(quads) => {
                let _ = writeln!(out, "insert {} quads, the first {}", quads.len(), quads[0]);
            }
            UpdateOperation::DeleteInsert(change) => {
                let _ = writeln!(
                    out,
                    "delete {:?}\ninsert {:?}\nusing {:?}\n{}",
                    change.delete,
                    change.insert,
                    change.query.dataset,
                    algebra_text(&change.query)
                );
            }
            other => {
                let _ = writeln!(out, "{other:?}");
            }
        }
    }
    out
}

#[test]
fn parses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parses");
    let parser = Parser::new().with_default_namespace("http://example.org/x#");
    let files = files_below(
        &folder,
        &[".rq", ".csparql", ".rspql", ".cqels", ".ru", ".stream"],
    );
    assert!(files.len() >= 8, "the golden files are there");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a golden file is readable");
        let parsed = match file.extension().and_then(|ending| ending.to_str()) {
            Some("rq") => parser.parse_query(&text).map(|query| algebra_text(&query)),
            Some("csparql" | "rspql" | "cqels") => parser
                .parse_continuous(&text)
                .map(|query| continuous_text(&query)),
            Some("ru") => parser
                .parse_update(&text)
                .map(|update| update_text(&update)),
            _ => parser
                .parse_statement(&text)
                .map(|statement| format!("{statement:#?}\n")),
        };
        let shown = parsed.unwrap_or_else(|error| format!("{error}\n"));
        let golden = format!("{}.txt", file.display());
        expect_file![golden].assert_eq(&shown);
        // One text always gives one algebra, whatever names `spargebra` makes up.
        if file.extension().is_some_and(|ending| ending == "rq") {
            let again = parser.parse_query(&text).expect("it parsed before");
            assert_eq!(algebra_text(&again), shown);
        }
    }
}
