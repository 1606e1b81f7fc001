//! Tests of the language over whole texts. `UPDATE_EXPECT=1` refreshes the golden files in
//! tests/parses.

mod algebra_text;
mod corpus;
mod errors;
mod goldens;
mod ground_data;
mod mappings;
mod native;
mod oracle;
mod procedures;
mod tokens;
mod updates;

use std::path::{Path, PathBuf};

/// The folder of the public test data, where it is there.
fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("SOMERSAULT_TESTDATA").map(PathBuf::from);
    let beside = || {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .skip(3)
            .map(|up| up.join("shared/data"))
            .find(|p| p.is_dir())
    };
    let found = named.filter(|path| path.is_dir()).or_else(beside);
    if found.is_none() {
        println!(
            "skipped: no test data ($SOMERSAULT_TESTDATA names no folder, and ../shared/data is not beside the checkout)"
        );
    }
    found
}

/// All files below a folder whose names end so, in order.
fn files_below(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if endings
                .iter()
                .any(|ending| path.to_string_lossy().ends_with(ending))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
