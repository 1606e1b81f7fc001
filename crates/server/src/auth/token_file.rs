//! The file that keeps the tokens of a server: names, rights and hashes, as JSON.
//!
//! The one thing to know before changing it: the file is beside the log and not in it. A backup or
//! a copy of the log must not hold hashes, a token must be revocable while the log takes nothing,
//! and the command line changes tokens without opening an engine. A running server looks for
//! changes of the file, so a change holds everywhere within a second.

use crate::auth::principal::now_ms;
use crate::auth::secret::{SecretHash, TokenText, new_token};
use serde_json::{Map, Value, json};
use somersault::Right;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The name of the file in a data folder.
const FILE: &str = "tokens.json";
const VERSION: u64 = 1;
/// Longest name of a token, in bytes.
const LONGEST_NAME: usize = 256;

/// Why tokens could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("the file of tokens {} cannot be {what}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not one of tokens.
    #[error("the file of tokens {} is not understood: {message}. Restore it, or delete it and make new tokens", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The request cannot be carried out.
    #[error("{0}")]
    Invalid(String),
    /// There is no such token.
    #[error("{0}")]
    NotFound(String),
}

/// What is known about a token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenInfo {
    /// Its id, which is part of its text.
    pub id: String,
    /// Its name; no other token of the file has it.
    pub name: String,
    /// Its rights.
    pub rights: Vec<Right>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

impl TokenInfo {
    /// Returns it as JSON, as the server shows it.
    pub fn to_json(&self) -> Value {
        let rights: Vec<String> = self.rights.iter().map(Right::to_string).collect();
        json!({
            "id": self.id,
            "name": self.name,
            "rights": rights,
            "created_ms": self.created_ms,
            "expires_ms": self.expires_ms,
        })
    }
}

/// A token with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenEntry {
    pub(crate) info: TokenInfo,
    pub(crate) hash: SecretHash,
}

/// The file of tokens of a server.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at a path. It need not exist: then there are no tokens.
    pub fn at(path: impl Into<PathBuf>) -> TokenFile {
        TokenFile { path: path.into() }
    }

    /// The file of a data folder.
    pub fn of_folder(folder: &Path) -> TokenFile {
        TokenFile::at(folder.join(FILE))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all tokens, in the order in which they were made.
    ///
    /// # Errors
    /// The file cannot be read, or is not understood.
    pub fn list(&self) -> Result<Vec<TokenInfo>, TokenError> {
        let entries = self.entries()?;
        Ok(entries.into_iter().map(|entry| entry.info).collect())
    }

    /// Makes a token, and returns it with its text, which nothing shows again.
    ///
    /// # Errors
    /// The name is taken or not a name, there are no rights, or the file cannot be written.
    pub fn create(
        &self,
        name: &str,
        rights: &[Right],
        expires_ms: Option<u64>,
    ) -> Result<(TokenInfo, String), TokenError> {
        if name.trim().is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control)
        {
            return Err(TokenError::Invalid(format!(
                "the name of a token has 1 to {LONGEST_NAME} bytes, with no control characters, and not only blanks"
            )));
        }
        if rights.is_empty() {
            return Err(TokenError::Invalid(
                "a token needs at least one right, such as read or admin".to_owned(),
            ));
        }
        let _lock = self.lock()?;
        let mut entries = self.entries()?;
        if entries.iter().any(|entry| entry.info.name == name) {
            return Err(TokenError::Invalid(format!(
                "there is a token named \"{name}\" already; revoke it first, or choose another name"
            )));
        }
        let text = new_token().map_err(|error| self.io("written", error))?;
        let token = TokenText::parse(&text).expect("a new token has the form of one");
        let mut rights = rights.to_vec();
        rights.sort();
        rights.dedup();
        let info = TokenInfo {
            id: token.id.to_owned(),
            name: name.to_owned(),
            rights,
            created_ms: now_ms(),
            expires_ms,
        };
        let hash = SecretHash::of(token).map_err(|error| self.io("written", error))?;
        entries.push(TokenEntry {
            info: info.clone(),
            hash,
        });
        self.write(&entries)?;
        Ok((info, text))
    }

    /// Revokes the token of this id or name, and returns what it was.
    ///
    /// # Errors
    /// There is no such token, or the file cannot be written.
    pub fn revoke(&self, which: &str) -> Result<TokenInfo, TokenError> {
        let _lock = self.lock()?;
        let mut entries = self.entries()?;
        let is_meant = |entry: &TokenEntry| entry.info.id == which || entry.info.name == which;
        let at = entries.iter().position(is_meant).ok_or_else(|| {
            TokenError::NotFound(format!(
                "there is no token of the id or name \"{which}\"; `somersault token list` shows all"
            ))
        })?;
        let gone = entries.remove(at);
        self.write(&entries)?;
        Ok(gone.info)
    }

    /// Reads all tokens.
    pub(crate) fn entries(&self) -> Result<Vec<TokenEntry>, TokenError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io("read", error)),
        };
        entries_of(&text).map_err(|message| TokenError::Damaged {
            path: self.path.clone(),
            message,
        })
    }

    /// Keeps other processes from changing the file until it is dropped.
    fn lock(&self) -> Result<File, TokenError> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        only_for_the_owner(&mut options);
        let lock = options.open(self.path.with_extension("lock"));
        let lock = lock.map_err(|error| self.io("locked", error))?;
        lock.lock().map_err(|error| self.io("locked", error))?;
        Ok(lock)
    }

    /// Writes all tokens: a new file takes the place of the old one, so that no reader sees half.
    fn write(&self, entries: &[TokenEntry]) -> Result<(), TokenError> {
        let tokens: Vec<Value> = entries.iter().map(entry_json).collect();
        let text = format!("{:#}\n", json!({ "version": VERSION, "tokens": tokens }));
        let new = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.create(true).truncate(true).write(true);
            only_for_the_owner(&mut options);
            let mut file = options.open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            match self.path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
                _ => File::open(".")?.sync_all(),
            }
        };
        write().map_err(|error| self.io("written", error))
    }

    fn io(&self, what: &'static str, source: io::Error) -> TokenError {
        TokenError::Io {
            path: self.path.clone(),
            what,
            source,
        }
    }
}

/// Lets only the owner of a new file read and write it.
fn only_for_the_owner(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

fn entry_json(entry: &TokenEntry) -> Value {
    let mut json = entry.info.to_json();
    json["hash"] = json!({
        "kind": "argon2id",
        "memory_kib": entry.hash.memory_kib,
        "passes": entry.hash.passes,
        "salt": entry.hash.salt,
        "hash": entry.hash.hash,
    });
    json
}

/// Reads the text of the file.
fn entries_of(text: &str) -> Result<Vec<TokenEntry>, String> {
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match json["version"].as_u64() {
        Some(VERSION) => {}
        Some(newer) => {
            return Err(format!(
                "it has version {newer}, and this program knows {VERSION}"
            ));
        }
        None => return Err("it has no version".to_owned()),
    }
    let tokens = json["tokens"].as_array();
    let tokens = tokens.ok_or("it has no list \"tokens\"")?;
    tokens.iter().map(entry_of).collect()
}

fn entry_of(json: &Value) -> Result<TokenEntry, String> {
    let object = json.as_object().ok_or("a token is no object")?;
    let name = text(object, "name")?;
    let of = |message: String| format!("token \"{name}\": {message}");
    let rights = object.get("rights").and_then(Value::as_array);
    let rights = rights.ok_or_else(|| of("it has no list \"rights\"".to_owned()))?;
    let rights = rights.iter().map(|right| {
        let right = right.as_str().ok_or("a right is no text".to_owned())?;
        right.parse::<Right>()
    });
    let hash = object.get("hash").and_then(Value::as_object);
    let hash = hash.ok_or_else(|| of("it has no hash".to_owned()))?;
    match hash.get("kind").and_then(Value::as_str) {
        Some("argon2id") => {}
        other => return Err(of(format!("its hash is of the kind {other:?}"))),
    }
    let number = |member: &str| {
        let value = hash.get(member).and_then(Value::as_u64);
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| of(format!("its hash has no number \"{member}\"")))
    };
    Ok(TokenEntry {
        info: TokenInfo {
            id: text(object, "id").map_err(of)?,
            rights: rights.collect::<Result<_, _>>().map_err(of)?,
            created_ms: object
                .get("created_ms")
                .and_then(Value::as_u64)
                .unwrap_or(0),
            expires_ms: object.get("expires_ms").and_then(Value::as_u64),
            name: name.clone(),
        },
        hash: SecretHash {
            salt: text(hash, "salt").map_err(of)?,
            hash: text(hash, "hash").map_err(of)?,
            memory_kib: number("memory_kib")?,
            passes: number("passes")?,
        },
    })
}

fn text(object: &Map<String, Value>, member: &str) -> Result<String, String> {
    let value = object.get(member).and_then(Value::as_str);
    value
        .map(str::to_owned)
        .ok_or_else(|| format!("it has no text \"{member}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(texts: &[&str]) -> Vec<Right> {
        let rights = texts.iter().map(|text| text.parse());
        rights.collect::<Result<_, _>>().expect("rights")
    }

    #[test]
    fn tokens_are_kept_and_revoked() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::of_folder(folder.path());
        assert!(file.list().expect("no file is no tokens").is_empty());
        let all = rights(&["write:urn:g", "read", "read"]);
        let (made, text) = file.create("till", &all, Some(5)).expect("made");
        assert_eq!(made.rights, rights(&["read", "write:urn:g"]));
        assert_eq!(file.list().expect("readable"), std::slice::from_ref(&made));
        let kept = std::fs::read_to_string(file.path()).expect("readable");
        let secret = text.rsplit('_').next().expect("a secret");
        assert!(!kept.contains(secret), "the secret is not kept");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(file.path())
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let taken = file
            .create("till", &all, None)
            .expect_err("the name is taken");
        assert!(taken.to_string().contains("already"), "{taken}");
        assert_eq!(file.revoke("till").expect("revoked"), made);
        assert!(matches!(
            file.revoke(&made.id),
            Err(TokenError::NotFound(_))
        ));
        assert!(file.list().expect("readable").is_empty());
    }

    #[test]
    fn bad_names_and_no_rights_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::of_folder(folder.path());
        for name in ["", " ", "a\nb", &"x".repeat(257)] {
            assert!(
                file.create(name, &rights(&["read"]), None).is_err(),
                "{name}"
            );
        }
        assert!(file.create("none", &[], None).is_err());
        assert!(!file.path().exists(), "nothing was written");
    }

    #[test]
    fn a_damaged_file_says_what_is_wrong() {
        for (text, said) in [
            ("{", "EOF"),
            ("{}", "no version"),
            (r#"{"version": 2}"#, "version 2"),
            (r#"{"version": 1}"#, "no list"),
            (
                r#"{"version": 1, "tokens": [{"name": "a"}]}"#,
                "token \"a\"",
            ),
            (
                r#"{"version": 1, "tokens": [{"name": "a", "id": "1", "rights": ["fly"], "hash": {"kind": "argon2id", "memory_kib": 1, "passes": 1, "salt": "", "hash": ""}}]}"#,
                "fly",
            ),
        ] {
            let message = entries_of(text).expect_err(text);
            assert!(message.contains(said), "{message}");
        }
    }
}
