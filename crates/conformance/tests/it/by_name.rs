//! The cases of `cases/by-name`: what other engines get wrong.

use somersault_conformance::script::{Script, ScriptOptions};
use std::path::{Path, PathBuf};

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/by-name");
    let entries = std::fs::read_dir(folder).expect("the folder of the cases");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a case").path()).collect();
    paths.sort();
    let scripts = paths
        .iter()
        .map(|path| Script::read(path).expect("a case reads"));
    scripts.collect()
}

fn assert_right(options: ScriptOptions) {
    let faults: Vec<String> = (scripts().iter())
        .filter_map(|script| script.run(options).err())
        .collect();
    assert!(faults.is_empty(), "{options:?}:\n{}", faults.join("\n"));
}

#[test]
fn cases_are_right_whatever_the_number_of_shards() {
    for shards in [1, 2, 4] {
        assert_right(ScriptOptions {
            shards,
            simulated: None,
        });
    }
}

#[test]
fn cases_are_right_on_the_simulated_fabric() {
    for seed in 1..=3 {
        assert_right(ScriptOptions {
            shards: 3,
            simulated: Some(seed),
        });
    }
}

/// A script that says something wrong must fail, whichever way it is wrong.
#[test]
fn wrong_scripts_are_seen() {
    let right = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("cases/by-name/statements-on-the-boundary-are-in-one-window.case"),
    )
    .expect("the case reads");
    let folder = tempfile::tempdir().expect("a folder for altered cases");
    let outcome = |text: &str| {
        let path = folder.path().join("altered.case");
        std::fs::write(&path, text).expect("the altered case is written");
        let options = ScriptOptions {
            shards: 1,
            simulated: None,
        };
        Script::read(&path)
            .expect("the altered case reads")
            .run(options)
    };
    assert_eq!(outcome(&right), Ok(()));
    for (from, to) in [
        ("FIRES turn 2000\n:c\n:d\n", "FIRES turn 2000\n:c\n:d\n:d\n"),
        ("FIRES turn 2000\n:c\n:d\n", "FIRES turn 2000\n:c\n"),
        ("FIRES turn 2000", "FIRES turn 1900"),
        ("FIRES shifted 3000\n:e\n", ""),
        ("ADVANCE :s 4000", "ADVANCE :s 5000"),
        ("ADVANCE :s 4000", "REFUSED\nADVANCE :s 4000"),
        ("ADVANCE :s 4000", "ADVANCE :s 4000\n\nWAITS turn"),
        ("ADVANCE :s 4000", "ADVANCE :unknown 4000"),
    ] {
        assert!(right.contains(from), "the case has no {from}");
        assert!(
            outcome(&right.replace(from, to)).is_err(),
            "{to} was not seen"
        );
    }
}
