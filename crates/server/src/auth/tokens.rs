//! The tokens of a running server.
//!
//! 1. A request's token is looked up by a keyed hash of its text among those that were verified
//!    before, so that Argon2 runs once for a token and not for each request.
//! 2. A token that is not among them is verified on a thread that may block; few are at one time.
//! 3. At most once a second the server looks whether the file has changed. Verified tokens that the
//!    file no longer has as they were are revoked: their event streams end, too.

use crate::auth::principal::Principal;
use crate::auth::secret::{KeyedHash, TokenKey, TokenText};
use crate::auth::token_file::{TokenEntry, TokenError, TokenFile};
use crate::watch::Watch;
use parking_lot::{Mutex, MutexGuard};
use somersault::Access;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Tokens that are verified at one time.
const VERIFIED_AT_ONCE: usize = 2;

/// The tokens that a running server accepts.
#[derive(Debug)]
pub struct Tokens {
    file: TokenFile,
    hash: KeyedHash,
    known: Mutex<Known>,
    verifying: Semaphore,
}

#[derive(Debug)]
struct Known {
    watch: Watch,
    /// By the id.
    entries: HashMap<String, Arc<TokenEntry>>,
    verified: HashMap<TokenKey, (Arc<TokenEntry>, Arc<Principal>)>,
}

impl Tokens {
    /// Opens the file of tokens for a server.
    ///
    /// # Errors
    /// The file cannot be read or is not understood, or the system gives no random bytes.
    pub fn open(file: TokenFile) -> Result<Tokens, TokenError> {
        let no_random = |source: io::Error| TokenError::Io {
            path: file.path().to_owned(),
            what: "opened",
            source,
        };
        let hash = KeyedHash::new().map_err(no_random)?;
        let remains = "The tokens that were read before stay valid meanwhile";
        let watch = Watch::new(vec![file.path().to_owned()], remains);
        let entries = by_id(file.entries()?);
        Ok(Tokens {
            file,
            hash,
            known: Mutex::new(Known {
                watch,
                entries,
                verified: HashMap::new(),
            }),
            verifying: Semaphore::new(VERIFIED_AT_ONCE),
        })
    }

    /// The file of the tokens.
    pub fn file(&self) -> &TokenFile {
        &self.file
    }

    /// Returns the holder of a token, or `None` if it is not valid.
    pub(crate) async fn holder(&self, text: &str) -> Option<Arc<Principal>> {
        let key = self.hash.of(text);
        if let Some(holder) = self.verified(&key) {
            return holder.is_current().then_some(holder);
        }
        let id = TokenText::parse(text)?.id;
        let entry = self.known.lock().entries.get(id).map(Arc::clone)?;
        let _turn = self.verifying.acquire().await.ok()?;
        let (held, owned) = (Arc::clone(&entry), text.to_owned());
        let verified = tokio::task::spawn_blocking(move || {
            TokenText::parse(&owned).is_some_and(|token| held.hash.is_of(token))
        });
        // A panic is no proof of anything.
        if !verified.await.unwrap_or(false) {
            return None;
        }
        let holder = self.remember(key, entry)?;
        holder.is_current().then_some(holder)
    }

    /// Why the file cannot be read at present.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.current().watch.trouble().map(str::to_owned)
    }

    /// Takes note of a change that this process has made.
    pub(crate) fn refresh(&self) {
        let known = &mut *self.known.lock();
        if let Some(entries) = known.watch.read_again(|| self.file.entries()) {
            known.replace(entries);
        }
    }

    fn verified(&self, key: &TokenKey) -> Option<Arc<Principal>> {
        let known = self.current();
        let found = known.verified.get(key);
        found.map(|(_, holder)| Arc::clone(holder))
    }

    /// The tokens, after a look at the file if one is due.
    fn current(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock();
        if let Some(entries) = known.watch.look(|| self.file.entries()) {
            known.replace(entries);
        }
        known
    }

    /// Remembers a verified token, if it still is as it was.
    fn remember(&self, key: TokenKey, entry: Arc<TokenEntry>) -> Option<Arc<Principal>> {
        let mut known = self.known.lock();
        let info = &entry.info;
        if known.entries.get(&info.id) != Some(&entry) {
            return None;
        }
        let make = || {
            let holder = Principal::new(&info.name, Access::of(&info.rights), info.expires_ms);
            (Arc::clone(&entry), Arc::new(holder))
        };
        let (_, holder) = known.verified.entry(key).or_insert_with(make);
        Some(Arc::clone(holder))
    }
}

impl Known {
    /// Replaces the tokens, and revokes the verified ones that are not as they were.
    fn replace(&mut self, entries: Vec<TokenEntry>) {
        self.entries = by_id(entries);
        let entries = &self.entries;
        self.verified.retain(|_, (entry, holder)| {
            let stays = entries.get(&entry.info.id) == Some(entry);
            if !stays {
                holder.revoke();
            }
            stays
        });
    }
}

fn by_id(entries: Vec<TokenEntry>) -> HashMap<String, Arc<TokenEntry>> {
    let entries = entries.into_iter();
    (entries.map(|entry| (entry.info.id.clone(), Arc::new(entry)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_verified_once_and_revoked_at_the_next_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = TokenFile::of_folder(folder.path());
        let rights = ["read".parse().expect("a right")];
        let (_, text) = file.create("one", &rights, None).expect("made");
        let (_, ended) = file.create("ended", &rights, Some(1)).expect("made");
        let tokens = Tokens::open(file.clone()).expect("opened");
        let holder = tokens.holder(&text).await.expect("valid");
        assert_eq!(holder.name(), "one");
        let again = tokens.holder(&text).await.expect("valid");
        assert!(Arc::ptr_eq(&holder, &again), "it was remembered");
        assert!(tokens.holder(&ended).await.is_none(), "it has expired");
        let wrong = format!(
            "{}{}",
            &text[..text.len() - 1],
            if text.ends_with('0') { '1' } else { '0' }
        );
        assert!(tokens.holder(&wrong).await.is_none());
        assert!(tokens.holder("smr_x").await.is_none());
        file.revoke("one").expect("revoked");
        assert!(holder.is_current(), "nothing has looked yet");
        tokens.refresh();
        assert!(!holder.is_current());
        assert!(tokens.holder(&text).await.is_none());
        let (_, new) = file.create("two", &rights, None).expect("made");
        tokens.refresh();
        assert!(tokens.holder(&new).await.is_some());
    }
}
