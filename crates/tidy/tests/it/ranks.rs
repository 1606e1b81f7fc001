//! Imports between crates go strictly downwards in rank (docs/design.md, "Parts, and which may know
//! which"). The check reads `cargo metadata`. A new crate gets its rank here; the planted breaches
//! show that the check can fail.

use serde_json::Value;
use std::process::Command;

/// Rank of each part; `None` for the tools, which import anything and are never imported.
const RANKS: &[(&str, Option<u8>)] = &[
    ("somersault-model", Some(0)),
    ("somersault-lang", Some(1)),
    ("somersault-dictionary", Some(1)),
    ("somersault-pool", Some(1)),
    ("somersault-lines", Some(1)),
    ("somersault-disk", Some(1)),
    ("somersault-generate", Some(1)),
    ("somersault-log", Some(2)),
    ("somersault-suites", Some(2)),
    ("somersault-store", Some(2)),
    ("somersault-query", Some(3)),
    ("somersault-stream", Some(3)),
    ("somersault-txn", Some(3)),
    ("somersault-checkpoint", Some(3)),
    ("somersault-results", Some(4)),
    ("somersault-runtime", Some(5)),
    ("somersault-continuous", Some(6)),
    ("somersault", Some(7)),
    ("somersault-connect", Some(8)),
    ("somersault-server", Some(9)),
    ("somersault-cli", Some(10)),
    ("somersault-conformance", None),
    ("somersault-tidy", None),
    ("somersault-sim", None),
    ("somersault-bench", None),
];

/// Outside crates that only some parts may name, with the reason.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "spargebra",
        &["somersault-lang"],
        "one algebra of our own: only `lang` knows the syntax library's",
    ),
    ("sparopt", &[], "the oracle's optimiser is for tests"),
    (
        "spareval",
        &["somersault-conformance"],
        "the oracle answers in tests, and is a dull twin of the suites",
    ),
    (
        "timely",
        &["somersault-runtime"],
        "the core sees only `Fabric`",
    ),
    (
        "tokio",
        &[
            "somersault-server",
            "somersault-cli",
            "somersault-conformance",
        ],
        "the core is synchronous",
    ),
    ("axum", &["somersault-server"], "HTTP stays in `server`"),
];

fn rank_of(name: &str) -> Option<&'static (&'static str, Option<u8>)> {
    RANKS.iter().find(|(crate_name, _)| *crate_name == name)
}

/// Every breach of the rules in the output of `cargo metadata --no-deps`, as sentences.
fn breaches(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, rank)) = rank_of(name) else {
            found.push(format!(
                "{name} has no rank: give it one in crates/tidy/tests/it/ranks.rs and in ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if dependency["kind"] == "dev" {
                continue;
            }
            let target = dependency["name"].as_str().unwrap_or_default();
            match (rank_of(target), rank) {
                (Some((_, None)), _) => {
                    found.push(format!("{name} imports {target}, which is never imported"))
                }
                (Some((_, Some(lower))), Some(own)) if lower >= own => {
                    found.push(format!(
                        "{name} (rank {own}) imports {target} (rank {lower}), which is not below it"
                    ));
                }
                _ => {}
            }
            for (reserved, allowed, reason) in RESERVED {
                if target == *reserved && !allowed.contains(&name) {
                    found.push(format!("{name} imports {target}: {reason}"));
                }
            }
        }
    }
    found
}

fn workspace_metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn imports_go_strictly_downwards() {
    let found = breaches(&workspace_metadata());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_check_sees_an_upward_import_an_imported_tool_and_a_reserved_crate() {
    let planted = serde_json::json!({"packages": [
        {"name": "somersault-store", "dependencies": [{"name": "somersault-query", "kind": null}]},
        {"name": "somersault-query", "dependencies": [{"name": "somersault-bench", "kind": null}, {"name": "spargebra", "kind": null}]},
        {"name": "somersault-new", "dependencies": []},
        {"name": "somersault-log", "dependencies": [{"name": "somersault-store", "kind": "dev"}]},
    ]});
    let found = breaches(&planted);
    assert_eq!(found.len(), 4, "{found:#?}");
}
