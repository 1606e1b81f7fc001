//! `multipart/form-data` bodies of the Graph Store Protocol (its section 5.5): several RDF
//! documents in one request. The body is already in memory and bounded, so this file only splits
//! it.

use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate;

/// One part: its media type, if it has one, and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) media_type: Option<&'a str>,
    pub(crate) content: &'a [u8],
}

/// Splits a body at its boundary (RFC 2046, section 5.1.1).
///
/// # Errors
/// 400 if the boundary is missing from the header or the body.
pub(crate) fn parts<'a>(content_type: &str, body: &'a [u8]) -> ApiResult<Vec<Part<'a>>> {
    let boundary = negotiate::parameter(content_type, "boundary")
        .filter(|boundary| (1..=70).contains(&boundary.len()))
        .ok_or_else(|| broken("its Content-Type has no boundary of 1 to 70 characters"))?;
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut parts = Vec::new();
    let mut rest = match body.strip_prefix(delimiter.as_slice()) {
        Some(rest) => rest,
        None => {
            after_delimiter(body, &delimiter)
                .ok_or_else(|| broken("its boundary does not occur in the body"))?
                .1
        }
    };
    loop {
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        let line_end =
            find(rest, b"\n").ok_or_else(|| broken("it ends without the closing boundary"))?;
        let (content, next) = after_delimiter(&rest[line_end..], &delimiter)
            .ok_or_else(|| broken("it ends without the closing boundary"))?;
        parts.push(part(content)?);
        rest = next;
    }
}

/// Splits at the next delimiter line. Returns the bytes before its line break, and the bytes after
/// the delimiter.
fn after_delimiter<'a>(bytes: &'a [u8], delimiter: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let marker = [b"\n", delimiter].concat();
    let at = find(bytes, &marker)?;
    let before = bytes[..at].strip_suffix(b"\r").unwrap_or(&bytes[..at]);
    Some((before, &bytes[at + marker.len()..]))
}

/// Parses one part: the line break that ended its delimiter, headers, an empty line, content.
fn part(bytes: &[u8]) -> ApiResult<Part<'_>> {
    let mut media_type = None;
    let mut rest = bytes.strip_prefix(b"\n").unwrap_or(bytes);
    loop {
        let (line, next) = match find(rest, b"\n") {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Ok(Part {
                media_type,
                content: next,
            });
        }
        if next.is_empty() {
            return Err(broken(
                "a part has no empty line between its headers and its content",
            ));
        }
        let header =
            std::str::from_utf8(line).map_err(|_| broken("a part's header is not UTF-8"))?;
        if let Some((name, value)) = header.split_once(':')
            && name.trim().eq_ignore_ascii_case("content-type")
        {
            media_type = Some(value.trim());
        }
        rest = next;
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
}

fn broken(how: &str) -> ApiError {
    ApiError::bad_request(
        "bad_multipart",
        format!("The multipart/form-data body cannot be read: {how}."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=xyz";

    #[test]
    fn cuts_parts_and_keeps_their_bytes() {
        let body = b"preamble\r\n--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/turtle\r\n\r\n<a> <b> <c> .\r\n\r\n--xyz\r\n\r\nplain\n--no\r\n--xyz--\r\n";
        let parts = parts(TYPE, body).expect("well formed");
        assert_eq!(parts.len(), 2);
        assert_eq!(
            parts[0],
            Part {
                media_type: Some("text/turtle"),
                content: b"<a> <b> <c> .\r\n"
            }
        );
        assert_eq!(
            parts[1],
            Part {
                media_type: None,
                content: b"plain\n--no"
            }
        );
    }

    #[test]
    fn an_empty_body_between_boundaries_and_line_feeds_alone() {
        let parts = parts(TYPE, b"--xyz\nA: b\n\n\n--xyz--").expect("well formed");
        assert_eq!(
            parts,
            [Part {
                media_type: None,
                content: b""
            }]
        );
    }

    #[test]
    fn broken_bodies_are_refused() {
        for body in [
            &b""[..],
            b"--xyz",
            b"--xyz\r\n\r\nx",
            b"no boundary",
            b"--xyz\r\nA: b\r\n--xyz--",
        ] {
            assert!(
                parts(TYPE, body).is_err(),
                "{:?}",
                String::from_utf8_lossy(body)
            );
        }
        assert!(parts("multipart/form-data", b"--xyz--").is_err());
    }
}
