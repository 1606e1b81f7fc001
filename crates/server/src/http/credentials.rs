//! The credentials in a request's head, and the answers to missing and wrong ones (RFC 6750).

use crate::http::error::{ApiError, ApiResult};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

const ASK: HeaderValue = HeaderValue::from_static("Bearer realm=\"somersault\"");
const ASK_AGAIN: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"somersault\", error=\"invalid_token\"");

/// Returns the token of a request, if it has one.
///
/// # Errors
/// 401 for several Authorization headers, and for one of another kind than Bearer.
pub(crate) fn bearer(headers: &HeaderMap) -> ApiResult<Option<&str>> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    let text = line.to_str().unwrap_or_default();
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    let token = token.trim();
    if lines.next().is_some() || !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        let sentence = "The credentials of the request cannot be read. Send one header Authorization: Bearer, with a token behind it.";
        return Err(refused(sentence, ASK_AGAIN));
    }
    Ok(Some(token))
}

/// The answer to a request without a token.
pub(crate) fn missing_token() -> ApiError {
    refused(
        "This server asks for a token. Send it as Authorization: Bearer, with the token behind it. An administrator makes one with `somersault token create`, or an identity provider issues it.",
        ASK,
    )
}

/// The answer to a token that is not valid.
pub(crate) fn invalid_token() -> ApiError {
    refused(
        "The token is not valid: it is wrong, it has expired, or it was revoked. Ask an administrator for another one.",
        ASK_AGAIN,
    )
}

/// The answer to a ticket that is not valid.
pub(crate) fn invalid_ticket() -> ApiError {
    refused(
        "The ticket is not valid: it is wrong, it was used, it is older than a minute, or its token is no longer valid. Get another one with POST /tickets.",
        ASK_AGAIN,
    )
}

/// The answer to a token of an identity provider that is not valid.
#[cfg(feature = "jwt")]
pub(crate) fn refused_token(sentence: &str) -> ApiError {
    refused(sentence, ASK_AGAIN)
}

fn refused(sentence: &str, ask: HeaderValue) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", sentence)
        .header(header::WWW_AUTHENTICATE, ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for line in lines {
            let line = HeaderValue::from_str(line).expect("a header");
            headers.append(header::AUTHORIZATION, line);
        }
        let token = bearer(&headers).map(|token| token.map(str::to_owned));
        token.map_err(|error| error.status().as_u16())
    }

    #[test]
    fn one_bearer_token_is_read() {
        assert_eq!(read(&[]), Ok(None));
        for good in ["Bearer smr_1", "bearer smr_1", "BEARER  smr_1 "] {
            assert_eq!(read(&[good]), Ok(Some("smr_1".to_owned())), "{good}");
        }
        for bad in [
            &["Bearer"][..],
            &["Bearer "],
            &["Basic smr_1"],
            &["smr_1"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(read(bad), Err(401), "{bad:?}");
        }
    }
}
