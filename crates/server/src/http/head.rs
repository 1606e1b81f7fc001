//! The size of a request's head.
//!
//! The one thing to know before changing it: hyper has limits of its own, and answers a head beyond
//! them without a sentence. `max_buf_size` bounds a head that is not yet complete, and one read may
//! take in as much again; so a complete head of nearly twice that size passes. Hyper's limits are
//! therefore twice those of this file, which hold exactly and come with a sentence.

use crate::http::error::{ApiError, ApiResult};
use axum::http::{Request, StatusCode};

/// Bytes that a request's head may have.
const HEAD_BYTES: usize = 64 * 1024;
/// Header lines that a request's head may have.
const HEAD_LINES: usize = 100;
/// Bytes of the request line beside its method and target, of each header beside its name and
/// value, and of the empty line at the end.
const LINE_EXTRA: usize = " HTTP/1.1\r\n".len() + 1;
const HEADER_EXTRA: usize = ": \r\n".len();
const END: usize = "\r\n".len();

/// Sets the limits beyond which hyper answers 431 by itself and closes the connection.
pub(crate) fn limit(http: &mut hyper::server::conn::http1::Builder) {
    http.max_buf_size(2 * HEAD_BYTES)
        .max_header_size(2 * HEAD_BYTES)
        .max_headers(2 * HEAD_LINES);
}

/// Refuses a head that is too large. Call this before anything changes the request.
///
/// # Errors
/// 431 beyond the bytes or lines that a head may have.
pub(crate) fn check<B>(request: &Request<B>) -> ApiResult<()> {
    let lines = request.headers().len();
    if lines > HEAD_LINES {
        return Err(refused(format!(
            "The head of the request has {lines} header lines, and may have {HEAD_LINES}. Send fewer headers."
        )));
    }
    let bytes = bytes(request);
    if bytes > HEAD_BYTES {
        return Err(refused(format!(
            "The head of the request has {bytes} bytes, and may have {HEAD_BYTES}. Send fewer or shorter headers, and a long query by POST in the body."
        ))
        .detail("limit_bytes", HEAD_BYTES));
    }
    Ok(())
}

fn refused(sentence: String) -> ApiError {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    ApiError::new(status, "head_too_large", sentence)
}

/// Returns the bytes of a head without optional white space.
fn bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let origin = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => scheme.len() + "://".len() + authority.as_str().len(),
        _ => 0,
    };
    let target = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_EXTRA);
    let line = request.method().as_str().len() + origin + target + LINE_EXTRA;
    line + headers.sum::<usize>() + END
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: usize) -> Request<()> {
        Request::get("http://localhost/query?query=x")
            .header("a", "x".repeat(value))
            .body(())
            .expect("a request")
    }

    #[test]
    fn the_bytes_are_those_of_the_wire() {
        let wire = "GET http://localhost/query?query=x HTTP/1.1\r\na: xxx\r\n\r\n";
        assert_eq!(bytes(&request(3)), wire.len());
        let most = HEAD_BYTES - bytes(&request(0));
        assert!(check(&request(most)).is_ok());
        let error = check(&request(most + 1)).expect_err("a byte too many");
        assert_eq!(error.status(), 431);
        assert!(error.message().contains("65537"), "{}", error.message());
    }

    #[test]
    fn lines_are_counted() {
        let mut many = Request::get("/");
        for _ in 0..HEAD_LINES {
            many = many.header("a", "b");
        }
        let more = many.body(()).expect("a request");
        assert!(check(&more).is_ok());
        let (mut head, ()) = more.into_parts();
        head.headers.append("a", "b".parse().expect("a value"));
        assert!(check(&Request::from_parts(head, ())).is_err());
    }
}
