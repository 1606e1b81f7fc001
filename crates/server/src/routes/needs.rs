//! What a request to an address needs: the column of the table of addresses that says who may use
//! which.
//!
//! The one thing to know before changing it: a need is checked before the body is read and before
//! anything is looked up, so that it tells nothing about what exists. Names that stand in a body,
//! in a query or in a text are the engine's to check: its handle has the rights of the sender.

use crate::auth::principal::Principal;
use crate::http::credentials;
use crate::http::error::{ApiError, ApiResult};
use crate::http::text::percent_decode;
use somersault::RightKind;

/// What a request to an address needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing. The answer to a request without a token shows neither data nor names.
    Nothing,
    /// A token. The engine checks each name that the request mentions.
    Token,
    /// A right that is not limited to names.
    Right(RightKind),
    /// One of these rights for the name in the path.
    Named(&'static [RightKind]),
}

/// Shows a stream, and the name of it in the list.
pub(crate) const SEE_STREAM: Needs = Needs::Named(&[
    RightKind::Push,
    RightKind::Window,
    RightKind::Register,
    RightKind::Monitor,
]);
/// Shows a continuous query.
pub(crate) const SEE_QUERY: Needs = Needs::Named(&[
    RightKind::Subscribe,
    RightKind::Register,
    RightKind::Monitor,
]);
/// Shows a procedure.
pub(crate) const SEE_PROCEDURE: Needs =
    Needs::Named(&[RightKind::Call, RightKind::Register, RightKind::Monitor]);
/// Shows a dataflow, and the steps of a procedure.
pub(crate) const SEE_DATAFLOW: Needs = Needs::Named(&[RightKind::Register, RightKind::Monitor]);
/// Declares, changes and drops what has the name.
pub(crate) const REGISTER: Needs = Needs::Named(&[RightKind::Register]);
/// Pushes into the stream.
pub(crate) const PUSH: Needs = Needs::Named(&[RightKind::Push]);
/// Reads the messages of the stream.
pub(crate) const WINDOW: Needs = Needs::Named(&[RightKind::Window]);
/// Reads the answers of the query.
pub(crate) const SUBSCRIBE: Needs = Needs::Named(&[RightKind::Subscribe]);
/// Calls the procedure.
pub(crate) const CALL: Needs = Needs::Named(&[RightKind::Call]);
/// Counters and the condition of the whole server.
pub(crate) const MONITOR: Needs = Needs::Right(RightKind::Monitor);
/// Everything.
pub(crate) const ADMIN: Needs = Needs::Right(RightKind::Admin);

impl Needs {
    /// It as words, for the description of the addresses.
    pub(crate) fn words(self) -> Vec<&'static str> {
        match self {
            Needs::Nothing => vec!["anyone"],
            Needs::Token => vec!["token"],
            Needs::Right(kind) => vec![kind.as_str()],
            Needs::Named(kinds) => kinds.iter().map(|kind| kind.as_str()).collect(),
        }
    }

    /// Checks a request: `pattern` is its address in the table, `path` the path that it asks for.
    /// `is_unknown` = it has no token, where the server asks for one.
    ///
    /// # Errors
    /// 401 without a token, 403 without the right.
    pub(crate) fn check(
        self,
        sender: &Principal,
        is_unknown: bool,
        (pattern, path): (&str, &str),
    ) -> ApiResult<()> {
        if is_unknown && self != Needs::Nothing {
            return Err(credentials::missing_token());
        }
        let access = sender.access();
        if access.is_full() {
            return Ok(());
        }
        let checked = match self {
            Needs::Nothing | Needs::Token => Ok(()),
            Needs::Right(kind) => access.require(kind, None),
            Needs::Named(kinds) => access.require_one(kinds, &name_in(pattern, path)?),
        };
        checked.map_err(|refused| {
            tracing::info!(token = sender.name(), path, "{refused}");
            ApiError::from(refused)
        })
    }
}

/// The name that stands in a path where the pattern has `{name}`.
fn name_in(pattern: &str, path: &str) -> ApiResult<String> {
    let at = pattern.split('/').position(|part| part == "{name}");
    let raw = at.and_then(|at| path.split('/').nth(at));
    percent_decode(raw.unwrap_or_default(), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::{Access, Right};

    fn sender(rights: &[&str]) -> Principal {
        let rights: Vec<Right> = rights
            .iter()
            .map(|right| right.parse().expect("a right"))
            .collect();
        Principal::new("test", Access::of(&rights), None)
    }

    fn status(needs: Needs, rights: &[&str], path: &str) -> u16 {
        let pattern = "/queries/{name}/subscriptions/{who}";
        let checked = needs.check(&sender(rights), false, (pattern, path));
        checked.map_or_else(|error| error.status().as_u16(), |()| 200)
    }

    #[test]
    fn the_name_is_read_from_its_place_and_decoded_once() {
        for (path, name) in [
            ("/queries/a/subscriptions/b", "a"),
            ("/queries/http%3A%2F%2Fe%2Fq/subscriptions/b", "http://e/q"),
            ("/queries/a%252Fb/subscriptions/c", "a%2Fb"),
            ("/queries", ""),
        ] {
            let found = name_in("/queries/{name}/subscriptions/{who}", path);
            assert_eq!(found.expect("it decodes"), name);
        }
        assert!(name_in("/queries/{name}", "/queries/%ff").is_err());
    }

    #[test]
    fn one_of_the_rights_is_enough_and_the_name_counts() {
        let path = "/queries/http%3A%2F%2Fe%2Fq/subscriptions/b";
        assert_eq!(status(SEE_QUERY, &["subscribe:http://e/q"], path), 200);
        assert_eq!(status(SEE_QUERY, &["register:http://e/*"], path), 200);
        assert_eq!(status(SEE_QUERY, &["subscribe:http://e/other"], path), 403);
        assert_eq!(status(SUBSCRIBE, &["register"], path), 403);
        assert_eq!(status(ADMIN, &["monitor", "register"], path), 403);
        assert_eq!(status(ADMIN, &["admin"], path), 200);
        assert_eq!(status(Needs::Token, &[], path), 200);
    }

    #[test]
    fn only_addresses_without_needs_answer_unknown_senders() {
        let unknown = Principal::unknown();
        for needs in [Needs::Token, ADMIN, SUBSCRIBE] {
            let refused = needs.check(&unknown, true, ("/queries/{name}", "/queries/a"));
            assert_eq!(refused.expect_err("no token").status(), 401);
        }
        assert!(Needs::Nothing.check(&unknown, true, ("/", "/")).is_ok());
    }
}
