//! The ticket in the URL of an event stream.

use crate::http::error::{ApiError, ApiResult};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Uri, header};

/// The parameter that has it.
const NAME: &str = "ticket";

/// Takes the ticket out of a URL, so that what handles the request does not see it.
///
/// # Errors
/// 400 for several tickets, and for a ticket beside a token.
pub(crate) fn take(uri: &mut Uri, headers: &HeaderMap) -> ApiResult<Option<String>> {
    let is_ticket = |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| name == NAME);
    let query = uri.query().unwrap_or_default();
    let (tickets, rest): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_ticket);
    let [ticket] = tickets[..] else {
        return match tickets.is_empty() {
            true => Ok(None),
            false => Err(ApiError::bad_request(
                "repeated_parameter",
                "The parameter \"ticket\" is given more than once. Give it once.",
            )),
        };
    };
    if headers.contains_key(header::AUTHORIZATION) {
        return Err(ApiError::bad_request(
            "contradiction",
            "The request has a ticket and a header Authorization. Send one of them.",
        ));
    }
    let text = ticket[NAME.len() + 1..].to_owned();
    let path = match rest.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), rest.join("&")),
    };
    let broken = |error: &dyn std::fmt::Display| ApiError::internal(error);
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|error| broken(&error))?);
    *uri = Uri::from_parts(parts).map_err(|error| broken(&error))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_out_and_the_rest_stays() {
        let none = HeaderMap::new();
        for (url, ticket, rest) in [
            ("/q", None, "/q"),
            ("/q?a=1", None, "/q?a=1"),
            ("/q?tickets=1&ticketed", None, "/q?tickets=1&ticketed"),
            ("/q?ticket=smt_1", Some("smt_1"), "/q"),
            ("/q?ticket=", Some(""), "/q"),
            ("/q?a=%20&ticket=smt_1&b=2", Some("smt_1"), "/q?a=%20&b=2"),
            ("http://h/q?ticket=x&b", Some("x"), "http://h/q?b"),
        ] {
            let mut uri: Uri = url.parse().expect("a URL");
            let taken = take(&mut uri, &none).expect("valid");
            assert_eq!(
                (taken.as_deref(), uri.to_string().as_str()),
                (ticket, rest),
                "{url}"
            );
        }
        let mut twice: Uri = "/q?ticket=a&ticket=b".parse().expect("a URL");
        assert_eq!(take(&mut twice, &none).expect_err("two").status(), 400);
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, "Bearer x".parse().expect("a value"));
        let mut both: Uri = "/q?ticket=a".parse().expect("a URL");
        assert_eq!(take(&mut both, &headers).expect_err("both").status(), 400);
    }
}
