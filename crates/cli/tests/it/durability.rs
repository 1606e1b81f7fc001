//! What a data folder survives: files that were cut, limits of the system, and a folder that goes away.

use crate::command::{fails, succeeds};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

const FIRST: &str = "log-0000000001.seg";

/// A folder with a load of some statements and one update, made by commands.
fn loaded(folder: &Path) -> String {
    let file = folder.join("data.nt");
    let lines: Vec<String> = (0..3_000)
        .map(|number| format!("<urn:s> <urn:p> <urn:o{number}> .\n"))
        .collect();
    fs::write(&file, lines.concat()).unwrap();
    let data = folder.join("data").to_str().unwrap().to_owned();
    succeeds(&["load", file.to_str().unwrap(), "--data", &data]);
    succeeds(&[
        "update",
        "INSERT DATA { <urn:s> <urn:q> <urn:o> }",
        "--data",
        &data,
    ]);
    data
}

/// Every file of a folder, with a hash of its bytes.
fn contents(folder: &str) -> Vec<(String, u64)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let mut hash = DefaultHasher::new();
            fs::read(entry.path()).unwrap().hash(&mut hash);
            (name, hash.finish())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_segment_that_was_cut_is_refused_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let data = loaded(folder.path());
    let first = Path::new(&data).join(FIRST);
    let whole = fs::read(&first).unwrap();
    let count = [
        "query",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "--data",
        &data,
    ];
    for length in [0, 10, 32, whole.len() - 110] {
        fs::write(&first, &whole[..length]).unwrap();
        let before = contents(&data);
        for asked in [count, ["update", "CLEAR ALL", "--data", &data]] {
            let said = fails(&asked, 1);
            assert!(
                said.contains(FIRST) && said.contains("nothing was changed"),
                "{said}"
            );
        }
        assert_eq!(contents(&data), before, "cut to {length}");
    }
    let mut zeroed = whole[..whole.len() - 110].to_vec();
    zeroed.resize(whole.len(), 0);
    fs::write(&first, &zeroed).unwrap();
    let said = fails(&count, 1);
    assert!(
        said.contains("log.proof") && said.contains("Restore"),
        "{said}"
    );
    fs::write(&first, &whole).unwrap();
    let said = succeeds(&count);
    assert!(said.contains("3001"), "{said}");
}

#[test]
fn commands_that_read_change_nothing_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = loaded(folder.path());
    let before = contents(&data);
    let said = succeeds(&["query", "ASK { <urn:s> <urn:q> <urn:o> }", "--data", &data]);
    assert!(said.contains("true"), "{said}");
    succeeds(&["explain", "ASK { ?s ?p ?o }", "--data", &data]);
    assert_eq!(contents(&data), before);
    // Nor do they make what is missing, or take the end away that a crash left.
    fs::remove_file(Path::new(&data).join("LOCK")).unwrap();
    let first = Path::new(&data).join(FIRST);
    let mut torn = fs::read(&first).unwrap();
    torn.extend([7; 11]);
    fs::write(&first, torn).unwrap();
    let before = contents(&data);
    succeeds(&["query", "ASK {}", "--data", &data]);
    assert_eq!(contents(&data), before);
}
