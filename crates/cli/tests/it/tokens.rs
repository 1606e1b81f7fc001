//! Tokens as an operator uses them: made before the first start, used, and revoked while the server
//! runs.

use crate::command::{Server, fails, run, somersault, succeeds, text};
use std::process::Output;

/// A server that asks for tokens, and the administrator's token.
struct Guarded {
    server: Server,
    folder: tempfile::TempDir,
    boss: String,
}

impl Guarded {
    fn start() -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder
            .path()
            .to_str()
            .expect("a path that is text")
            .to_owned();
        let boss = succeeds(&[
            "token", "create", "boss", "--right", "admin", "--data", &data,
        ]);
        let boss = boss.trim().to_owned();
        assert!(
            boss.starts_with("smr_") && !boss.contains(char::is_whitespace),
            "{boss}"
        );
        let server = Server::start(&["--data", &data, "--auth", "tokens"]);
        Guarded {
            server,
            folder,
            boss,
        }
    }

    /// Runs a command against the server with a token.
    fn run(&self, token: &str, arguments: &[&str]) -> Output {
        let mut command = somersault();
        command.args(arguments).args(["--server", &self.server.url]);
        command.env("SOMERSAULT_TOKEN", token);
        command.output().expect("the command runs")
    }

    #[track_caller]
    fn succeeds(&self, token: &str, arguments: &[&str]) -> String {
        let output = self.run(token, arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    #[track_caller]
    fn fails(&self, token: &str, arguments: &[&str]) -> String {
        let output = self.run(token, arguments);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }
}

#[test]
fn tokens_are_made_used_listed_and_revoked() {
    let guarded = Guarded::start();
    let boss = guarded.boss.clone();
    let insert = "INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:open> { <urn:a> <urn:p> 2 } }";
    let without = guarded.fails("", &["update", insert]);
    assert!(without.contains("asks for a token"), "{without}");
    guarded.succeeds(&boss, &["update", insert]);
    let rights = ["--right", "read:urn:open", "--expires", "2h"];
    let reader = guarded.succeeds(
        &boss,
        &[&["token", "create", "reader"][..], &rights].concat(),
    );
    let reader = reader.trim();
    let all = "SELECT (COUNT(*) AS ?n) { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";
    let count = |token: &str| {
        let answer = guarded.succeeds(token, &["query", all, "--format", "csv"]);
        answer.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(count(&boss), "2");
    assert_eq!(count(reader), "1");
    let refused = guarded.fails(reader, &["update", insert]);
    assert!(refused.contains("write:default"), "{refused}");
    assert!(
        guarded
            .fails(reader, &["token", "list"])
            .contains("right admin")
    );
    let list = guarded.succeeds(&boss, &["token", "list"]);
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines[0][1..], ["boss", "never", "admin"], "{list}");
    assert_eq!(
        lines[1][1..],
        ["reader", "in 119 min", "read:urn:open"],
        "{list}"
    );
    guarded.succeeds(&boss, &["token", "revoke", "reader"]);
    assert!(guarded.fails(reader, &["query", all]).contains("revoked"));
    // The same in the folder of the running server.
    let data = guarded.folder.path().to_str().expect("a path that is text");
    let list = succeeds(&["token", "list", "--data", data]);
    assert_eq!(list.lines().count(), 1, "{list}");
    let gone = fails(&["token", "revoke", "reader", "--data", data], 1);
    assert!(gone.contains("no token"), "{gone}");
}

#[test]
fn a_folder_with_tokens_is_verified_copied_and_served_again() {
    let guarded = Guarded::start();
    let boss = guarded.boss.clone();
    guarded.succeeds(&boss, &["update", "INSERT DATA { <urn:a> <urn:p> 1 }"]);
    let copy = guarded.folder.path().with_extension("copy");
    let copy = copy.to_str().expect("a path that is text");
    guarded.succeeds(&boss, &["backup", copy]);
    let files = std::fs::read_dir(copy).expect("a folder");
    let files: Vec<String> = files
        .map(|file| {
            file.expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(
        !files.iter().any(|name| name.contains("token")),
        "{files:?}"
    );
    std::fs::remove_dir_all(copy).expect("it is removed");
    let Guarded { server, folder, .. } = guarded;
    drop(server);
    let data = folder.path().to_str().expect("a path that is text");
    succeeds(&["verify", data]);
    let server = Server::start(&["--data", data, "--auth", "tokens"]);
    let again = Guarded {
        server,
        folder,
        boss,
    };
    let found = again.succeeds(&again.boss, &["query", "ASK { <urn:a> <urn:p> 1 }"]);
    assert!(found.contains("true"), "{found}");
}

#[test]
fn a_server_without_tokens_stays_on_loopback() {
    let refused = fails(&["serve", "--listen", "0.0.0.0:0"], 2);
    for word in ["not a loopback address", "--auth tokens", "--insecure"] {
        assert!(refused.contains(word), "{refused}");
    }
    let placeless = fails(&["serve", "--listen", "127.0.0.1:0", "--auth", "tokens"], 2);
    assert!(placeless.contains("--data"), "{placeless}");
    let idle = fails(
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tokens",
            "tokens.json",
        ],
        2,
    );
    assert!(idle.contains("--auth tokens"), "{idle}");
}

#[cfg(feature = "jwt")]
#[test]
fn a_server_takes_tokens_of_an_identity_provider_only_with_all_that_says_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("jwks.json");
    let named = keys.to_str().expect("a path that is text");
    let refuses = |more: &[&str]| {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
        fails(&arguments, 2)
    };
    let all = [
        "--auth",
        "jwt",
        "--jwks",
        named,
        "--jwt-issuer",
        "i",
        "--jwt-audience",
        "a",
    ];
    for left_out in ["--jwks", "--jwt-issuer", "--jwt-audience"] {
        let at = all
            .iter()
            .position(|it| *it == left_out)
            .expect("an option");
        let rest = [&all[..at], &all[at + 2..]].concat();
        let said = refuses(&rest);
        assert!(said.contains(left_out), "{said}");
    }
    assert!(refuses(&all).contains("jwks.json"));
    std::fs::write(&keys, "{\"keys\": []}").expect("written");
    assert!(refuses(&all).contains("no key for RS256"));
    assert!(refuses(&all[2..]).contains("--auth jwt"));
    let limits = refuses(&["--token-requests", "5"]);
    assert!(limits.contains("--auth tokens"), "{limits}");
    // The key of RFC 8037, appendix A.2.
    let key = "{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    std::fs::write(&keys, key).expect("written");
    let server = Server::start(&all);
    let mut asked = somersault();
    asked.args(["status", "--server", &server.url]);
    asked.env("SOMERSAULT_TOKEN", "no.jwt.here");
    let refused = text(&asked.output().expect("the command runs").stderr);
    assert!(refused.contains("not a signed JWT"), "{refused}");
}

#[test]
fn rights_are_checked_when_they_are_typed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a path that is text");
    let create = |right: &str| run(&["token", "create", "a", "--right", right, "--data", data]);
    for (right, word) in [
        ("fly", "begins with"),
        ("read:people", "IRI"),
        ("admin:x", "limited"),
    ] {
        let output = create(right);
        assert_eq!(output.status.code(), Some(2), "{right}");
        assert!(
            text(&output.stderr).contains(word),
            "{}",
            text(&output.stderr)
        );
    }
    assert!(create("read").status.success());
    let taken = create("read");
    assert_eq!(taken.status.code(), Some(2));
    assert!(
        text(&taken.stderr).contains("already"),
        "{}",
        text(&taken.stderr)
    );
}
