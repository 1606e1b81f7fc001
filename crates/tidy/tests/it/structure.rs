//! The checks of this crate, run over this tree.

use crate::exceptions;
use somersault_tidy as tidy;

fn crates() -> Vec<tidy::SourceCrate> {
    let (_, crates) = tidy::workspace().expect("the sources of the workspace are read");
    assert!(crates.len() > 10, "only {} crates were found", crates.len());
    crates
}

fn holds(found: &[String]) {
    assert!(
        found.is_empty(),
        "{} breaches:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn every_file_has_a_header() {
    let found: Vec<String> = crates().iter().flat_map(tidy::missing_headers).collect();
    holds(&found);
}

#[test]
fn comments_are_100_columns_wide() {
    let found: Vec<String> = crates().iter().flat_map(tidy::wide_comments).collect();
    holds(&found);
}

#[test]
fn functions_fit_on_a_screen() {
    holds(&tidy::long_functions(&crates(), exceptions::LONG_FUNCTIONS));
}

#[test]
fn a_type_name_stands_once_in_a_crate() {
    let mut found: Vec<String> = crates()
        .iter()
        .flat_map(tidy::repeated_type_names)
        .collect();
    for (of, name) in exceptions::REPEATED_NAMES {
        let before = found.len();
        found.retain(|breach| !breach.starts_with(&format!("{of}: `{name}` names")));
        if found.len() == before {
            found.push(format!(
                "{of}: `{name}` is excepted and stands for one type at most: remove the entry"
            ));
        }
    }
    holds(&found);
}

#[test]
fn imports_between_rooms_go_downwards() {
    let mut found: Vec<String> = Vec::new();
    let mut excepted = exceptions::WITHOUT_RANKS.to_vec();
    for of in &crates() {
        let breaches = tidy::room_breaches(of);
        match excepted.iter().position(|name| *name == of.name) {
            None => found.extend(breaches),
            Some(at) if breaches.is_empty() => found.push(format!(
                "{} is excepted and breaks no rank: remove the entry",
                excepted.swap_remove(at)
            )),
            Some(at) => _ = excepted.swap_remove(at),
        }
    }
    let gone = excepted.iter();
    found.extend(gone.map(|name| format!("{name} is excepted and is no crate: remove the entry")));
    holds(&found);
}

/// The tools' rooms are in their own sources alone.
#[test]
fn the_table_of_rooms_is_what_the_crates_declare() {
    let (root, mut crates) = tidy::workspace().expect("the sources of the workspace are read");
    crates.retain(|of| !["bench", "sim", "conformance", "tidy"].contains(&of.name.as_str()));
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page is read");
    holds(&tidy::room_table_breaches(&page, &crates));
}

#[test]
fn citations_lead_somewhere() {
    let (root, crates) = tidy::workspace().expect("the sources of the workspace are read");
    let documents = tidy::Documents::read(&root).expect("the documents are read");
    holds(&tidy::dangling_references(&documents, &crates));
}

/// A planner of several processes holds times and counts; ids of terms mean something in one
/// process alone.
#[test]
fn the_planner_names_no_term() {
    const OF_TERMS: [&str; 7] = [
        "TermId",
        "QuadIds",
        "TripleIds",
        "TimedTriple",
        "Mutation",
        "Lease",
        "ClosedBatch",
    ];
    let crates = crates();
    let stream = crates.iter().find(|of| of.name == "stream");
    let sources = stream.into_iter().flat_map(|of| &of.sources);
    let (planner, others): (Vec<_>, Vec<_>) = sources.partition(|source| {
        let room = source.module.first().map(String::as_str);
        matches!(room, Some("closes" | "queries"))
    });
    let breaches = |sources: &[&tidy::Source]| -> Vec<String> {
        let named = |source: &&tidy::Source| {
            let found = OF_TERMS.iter().find(|name| source.text.contains(**name))?;
            Some(format!("{}: the planner names {found}", source.path))
        };
        sources.iter().filter_map(named).collect()
    };
    assert!(planner.len() > 10, "the rooms are found");
    assert!(!breaches(&others).is_empty(), "the check sees terms");
    holds(&breaches(&planner));
}

/// Texts are parsed before they reach the coordinator, so no input waits while another is parsed.
#[test]
fn the_sequencer_and_the_coordinator_parse_nothing() {
    const OF_THE_PARSER: [&str; 3] = ["Parser", "Shape::of(", "LoggedTexts"];
    let crates = crates();
    let mut breaches = Vec::new();
    for (name, readers) in [("stream", "texts"), ("runtime", "replay")] {
        let of = crates.iter().find(|of| of.name == name);
        let inside = of.into_iter().flat_map(|of| &of.sources);
        let inside = inside.filter(|source| !source.module.is_empty());
        let (reads, others): (Vec<_>, Vec<_>) =
            inside.partition(|source| source.module[0] == readers);
        let parses = |source: &&tidy::Source| {
            let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
            // `ProcedureShape::of(` is another thing than `Shape::of(`.
            let is_named = |name: &str| {
                let mut places = code.match_indices(name);
                places.any(|(at, _)| !code[..at].ends_with(char::is_alphanumeric))
            };
            let found = OF_THE_PARSER.iter().find(|name| is_named(name))?;
            Some(format!(
                "{}: only `{readers}` may name {found}",
                source.path
            ))
        };
        let read = reads.iter().filter_map(parses).count();
        assert_eq!(read, 1, "the check sees the parser in `{readers}`");
        breaches.extend(others.iter().filter_map(parses));
    }
    holds(&breaches);
}
