//! The sender of a request, as far as the server knows it.

use somersault::Access;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The sender of a request: the name of its token, and its rights.
#[derive(Debug)]
pub(crate) struct Principal {
    name: String,
    access: Access,
    /// Milliseconds since 1970 at which its token ends.
    expires_ms: Option<u64>,
    /// Whether its token was revoked or changed, or the key withdrawn under which it was signed.
    is_revoked: Arc<AtomicBool>,
}

impl Principal {
    pub(crate) fn new(name: &str, access: Access, expires_ms: Option<u64>) -> Principal {
        Principal::under(name, access, expires_ms, Arc::default())
    }

    /// A sender that is revoked together with others.
    pub(crate) fn under(
        name: &str,
        access: Access,
        expires_ms: Option<u64>,
        is_revoked: Arc<AtomicBool>,
    ) -> Principal {
        Principal {
            name: name.to_owned(),
            access,
            expires_ms,
            is_revoked,
        }
    }

    /// The sender of every request to a server without authentication.
    pub(crate) fn trusted() -> Principal {
        Principal::new("everyone", Access::full(), None)
    }

    /// The sender of a request without credentials, where the server asks for some.
    pub(crate) fn unknown() -> Principal {
        Principal::new("unknown", Access::of(&[]), None)
    }

    /// The name for logs.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Whether its token is still valid.
    pub(crate) fn is_current(&self) -> bool {
        !self.is_revoked.load(Ordering::Relaxed)
            && self.expires_ms.is_none_or(|expires| now_ms() < expires)
    }

    pub(crate) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Relaxed);
    }
}

/// Milliseconds since 1970.
#[allow(
    clippy::disallowed_methods,
    reason = "tokens expire by the wall clock of the server"
)]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
