//! `token`: tokens are made, listed and revoked, in the file of a server or by a running server.
//!
//! The one thing to know before changing it: a token's text goes to standard output, alone, and
//! nothing shows it again. Everything else goes to standard error, so that a script can keep it.

use crate::args::{TokenCommand, TokenCreateArgs, TokenPlace};
use crate::client::{Client, json_of, segment};
use crate::error::CliError;
use crate::target::{client_at, server_url};
use serde_json::{Value, json};
use somersault_server::{TokenError, TokenFile, TokenInfo};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where tokens are kept.
enum Keeper {
    File(TokenFile),
    Server(Client),
}

/// Carries out one of the subcommands.
///
/// # Errors
/// When the file or the server refuses.
pub(crate) fn run(command: &TokenCommand) -> Result<(), CliError> {
    match command {
        TokenCommand::Create(args) => create(args),
        TokenCommand::List(place) => list(place),
        TokenCommand::Revoke { which, place } => revoke(which, place),
    }
}

fn keeper(place: &TokenPlace) -> Result<Keeper, CliError> {
    match (&place.tokens, &place.data) {
        (Some(file), _) => Ok(Keeper::File(TokenFile::at(file))),
        (None, Some(folder)) if folder.is_dir() => Ok(Keeper::File(TokenFile::of_folder(folder))),
        (None, Some(folder)) => Err(CliError::Failed(format!(
            "there is no data folder {}; `somersault serve --data {0}` makes one",
            folder.display()
        ))),
        (None, None) => {
            let url = server_url(place.server.as_deref());
            Ok(Keeper::Server(client_at(&url, &place.trust)?))
        }
    }
}

fn create(args: &TokenCreateArgs) -> Result<(), CliError> {
    let expires_ms = args.expires.map(|time| {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        now_ms().saturating_add(time_ms)
    });
    let text = match keeper(&args.place)? {
        Keeper::File(file) => {
            file.create(&args.name, &args.right, expires_ms)
                .map_err(refused)?
                .1
        }
        Keeper::Server(client) => {
            let rights: Vec<String> = args.right.iter().map(ToString::to_string).collect();
            let body = json!({ "name": args.name, "rights": rights, "expires_ms": expires_ms });
            let headers = [("Content-Type", "application/json")];
            let mut answer = client.post("/tokens", &headers, body.to_string().as_bytes())?;
            let json = json_of(answer.body_mut())?;
            let text = json["token"].as_str();
            text.ok_or_else(|| CliError::Failed("the answer has no token".to_owned()))?
                .to_owned()
        }
    };
    eprintln!("the token \"{}\" is made; it is shown once:", args.name);
    println!("{text}");
    Ok(())
}

fn list(place: &TokenPlace) -> Result<(), CliError> {
    let tokens: Vec<Value> = match keeper(place)? {
        Keeper::File(file) => {
            let all = file.list().map_err(refused)?;
            all.iter().map(TokenInfo::to_json).collect()
        }
        Keeper::Server(client) => {
            let json = json_of(client.get("/tokens", &[])?.body_mut())?;
            json["tokens"].as_array().cloned().unwrap_or_default()
        }
    };
    let now = now_ms();
    for token in &tokens {
        println!("{}", row(token, now).join("\t"));
    }
    Ok(())
}

/// Id, name, end and rights of a token.
fn row(token: &Value, now_ms: u64) -> [String; 4] {
    let text = |member: &str| token[member].as_str().unwrap_or_default().to_owned();
    let expires = match token["expires_ms"].as_u64() {
        None => "never".to_owned(),
        Some(expires) if expires <= now_ms => "has expired".to_owned(),
        Some(expires) => match (expires - now_ms) / 60_000 {
            minutes @ 0..120 => format!("in {minutes} min"),
            minutes @ 120..2_880 => format!("in {} h", minutes / 60),
            minutes => format!("in {} days", minutes / 1_440),
        },
    };
    let rights = token["rights"].as_array();
    let rights = rights.into_iter().flatten().filter_map(Value::as_str);
    [
        text("id"),
        text("name"),
        expires,
        rights.collect::<Vec<_>>().join(" "),
    ]
}

fn revoke(which: &str, place: &TokenPlace) -> Result<(), CliError> {
    match keeper(place)? {
        Keeper::File(file) => drop(file.revoke(which).map_err(refused)?),
        Keeper::Server(client) => client.delete(&format!("/tokens/{}", segment(which)))?,
    }
    eprintln!("the token {which} is revoked");
    Ok(())
}

fn refused(error: TokenError) -> CliError {
    match error {
        TokenError::Invalid(said) => CliError::Usage(said),
        other => CliError::Failed(other.to_string()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "tokens expire by the clock on the wall"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_when_a_token_ends() {
        let now = 10 * 86_400_000;
        let mut token = json!({ "id": "1", "name": "a", "rights": ["read", "push:urn:s"] });
        assert_eq!(row(&token, now), ["1", "a", "never", "read push:urn:s"]);
        for (expires, said) in [
            (now, "has expired"),
            (now + 90_000, "in 1 min"),
            (now + 3 * 3_600_000, "in 3 h"),
            (now + 30 * 86_400_000, "in 30 days"),
        ] {
            token["expires_ms"] = expires.into();
            assert_eq!(row(&token, now)[2], said);
        }
    }
}
