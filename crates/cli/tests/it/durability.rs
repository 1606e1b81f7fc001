//! Damage that a data folder survives: files that were cut, limits of the system, and a folder that
//! is deleted.

use crate::command::{Server, fails, http, send, succeeds};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

const FIRST: &str = "log-0000000001.seg";
const NEWEST: &str = "log-0000000002.seg";

/// A folder with a load of some statements and one update, made by commands. Each command opens the
/// folder, so each has a segment of its own.
fn loaded(folder: &Path) -> String {
    let file = folder.join("data.nt");
    let lines: Vec<String> = (0..3_000)
        .map(|number| format!("<urn:s> <urn:p> <urn:o{number}> .\n"))
        .collect();
    fs::write(&file, lines.concat()).expect("the file is written");
    let data = folder
        .join("data")
        .to_str()
        .expect("the path is text")
        .to_owned();
    succeeds(&[
        "load",
        file.to_str().expect("the path is text"),
        "--data",
        &data,
    ]);
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
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("the folder is read");
            let name = entry.file_name().into_string().expect("the name is text");
            let mut hash = DefaultHasher::new();
            let bytes = fs::read(entry.path()).expect("the file is read");
            bytes.hash(&mut hash);
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
    let count = [
        "query",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "--data",
        &data,
    ];
    for name in [FIRST, NEWEST] {
        let file = Path::new(&data).join(name);
        let whole = fs::read(&file).unwrap();
        for length in [0, 10, 32, whole.len() - 110] {
            fs::write(&file, &whole[..length]).unwrap();
            let before = contents(&data);
            for asked in [count, ["update", "CLEAR ALL", "--data", &data]] {
                let said = fails(&asked, 1);
                assert!(
                    said.contains(name) && said.contains("nothing was changed"),
                    "{said}"
                );
            }
            assert_eq!(contents(&data), before, "{name} cut to {length}");
        }
        fs::write(&file, &whole).unwrap();
    }
    let newest = Path::new(&data).join(NEWEST);
    let whole = fs::read(&newest).unwrap();
    let mut zeroed = whole[..whole.len() - 110].to_vec();
    zeroed.resize(whole.len(), 0);
    fs::write(&newest, &zeroed).unwrap();
    let said = fails(&count, 1);
    assert!(
        said.contains("log.proof") && said.contains("Restore"),
        "{said}"
    );
    fs::write(&newest, &whole).unwrap();
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
    // They neither create missing files nor remove the torn end that a crash left.
    fs::remove_file(Path::new(&data).join("LOCK")).unwrap();
    let newest = Path::new(&data).join(NEWEST);
    let mut torn = fs::read(&newest).unwrap();
    torn.extend([7; 11]);
    fs::write(&newest, torn).unwrap();
    let before = contents(&data);
    succeeds(&["query", "ASK {}", "--data", &data]);
    assert_eq!(contents(&data), before);
}

/// Sends an update that adds statement `number`; the whole answer.
fn insert(server: &Server, number: usize) -> String {
    let text = format!("INSERT DATA {{ <urn:s> <urn:p> {number} }}");
    let length = text.len();
    let head = format!(
        "POST /update HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/sparql-update",
        server.url.trim_start_matches("http://")
    );
    let request = format!("{head}\r\nContent-Length: {length}\r\n\r\n{text}");
    send(server, &request)
}

#[cfg(unix)]
#[test]
fn a_limit_of_file_sizes_is_an_error_and_the_answer_says_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -f 8; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_somersault"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    let mut server = Server::start_as(command);
    let refused = (0..1_000)
        .map(|number| insert(&server, number))
        .find(|said| !said.starts_with("HTTP/1.1 2"))
        .unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("disk_failed"), "{refused}");
    assert!(
        refused.contains("it may be there after the restart"),
        "{refused}"
    );
    let later = insert(&server, 2_000);
    assert!(later.starts_with("HTTP/1.1 503"), "{later}");
    assert!(
        later.contains("Nothing of this request was applied"),
        "{later}"
    );
    let health = http(&server, "GET /health");
    assert!(health.contains("read_only"), "{health}");
    assert!(server.process.try_wait().unwrap().is_none());
}

#[cfg(unix)]
#[test]
fn a_removed_data_folder_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&["--data", data.to_str().unwrap()]);
    assert!(insert(&server, 1).starts_with("HTTP/1.1 2"));
    fs::rename(&data, folder.path().join("moved")).unwrap();
    fs::create_dir(&data).unwrap();
    let refused = insert(&server, 2);
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("deleted, moved or replaced"), "{refused}");
    assert!(insert(&server, 3).contains("Nothing of this request was applied"));
}

#[cfg(unix)]
#[test]
fn a_folder_stays_taken_without_its_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").to_str().unwrap().to_owned();
    let server = Server::start(&["--data", &data]);
    assert!(insert(&server, 1).starts_with("HTTP/1.1 2"));
    fs::remove_file(Path::new(&data).join("LOCK")).unwrap();
    for asked in [
        ["query", "ASK {}", "--data", &data],
        ["update", "CLEAR ALL", "--data", &data],
    ] {
        let said = fails(&asked, 1);
        assert!(said.contains("in use by another process"), "{said}");
    }
}

#[test]
fn a_damaged_load_file_is_reported_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data = loaded(folder.path());
    let name = "load-0000000001.nq.zst";
    let file = Path::new(&data).join(name);
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let said = fails(&["query", "ASK {}", "--data", &data], 1);
    assert!(
        said.contains(name) && said.contains("Restore the file"),
        "{said}"
    );
    assert!(!said.contains("internal fault"), "{said}");
}
