//! The text of URLs: percent-encoding, query strings and forms, read strictly. Text that cannot be
//! decoded is refused with its position, never repaired: a stream's name must mean the same to both
//! sides.

use crate::http::error::ApiError;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// Decodes `%XX`, and with `plus_is_space` also `+`, as in forms and query strings.
///
/// # Errors
/// 400 for `%` without two hexadecimal digits, or for bytes that are not UTF-8.
pub(crate) fn percent_decode(text: &str, plus_is_space: bool) -> Result<String, ApiError> {
    let mut escapes = text.split('%').skip(1);
    let is_escape = |behind: &str| {
        let digits = behind.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    // The library leaves other text behind a % as it is.
    if !escapes.all(is_escape) {
        return Err(broken_escape(text));
    }
    let spaced = match plus_is_space && text.contains('+') {
        true => Cow::Owned(text.replace('+', " ")),
        false => Cow::Borrowed(text),
    };
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| {
        ApiError::bad_request(
            "bad_encoding",
            format!(
                "\"{}\" does not decode to UTF-8. Percent-encode the UTF-8 bytes of the text.",
                shorten(text)
            ),
        )
    })
}

fn broken_escape(text: &str) -> ApiError {
    ApiError::bad_request(
        "bad_encoding",
        format!(
            "\"{}\" has a % that is not followed by two hexadecimal digits. Write a literal % as %25.",
            shorten(text)
        ),
    )
}

/// All characters but the unreserved ones (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes everything but the unreserved characters, so that the result is one path segment
/// or one value of a query string.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns the text without a leading byte order mark, which some editors add to files.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Returns the position after these bytes: line and column, both from 1, the column in characters.
pub(crate) fn place(before: &[u8]) -> (u64, u64) {
    let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let last_line = before.iter().rev().take_while(|byte| **byte != b'\n');
    let column = last_line.filter(|byte| (**byte & 0xC0) != 0x80).count() as u64 + 1;
    (line, column)
}

/// Returns at most 120 characters of the client's text, without control characters, for quoting in
/// a sentence.
pub(crate) fn shorten(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .take(121)
        .collect();
    if clean.chars().count() > 120 {
        clean.chars().take(119).chain(['…']).collect()
    } else {
        clean
    }
}

/// The parameters of a query string or of a form, in order.
#[derive(Debug, Default)]
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Reads `a=b&c=d`. A name without `=` has the empty value.
    ///
    /// # Errors
    /// 400 if an escape or its UTF-8 is malformed.
    pub(crate) fn parse(text: &str) -> Result<Params, ApiError> {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((percent_decode(name, true)?, percent_decode(value, true)?))
            })
            .collect::<Result<_, ApiError>>()?;
        Ok(Params { pairs })
    }

    /// Reads the parameters of a request's URL.
    pub(crate) fn of(uri: &axum::http::Uri) -> Result<Params, ApiError> {
        Params::parse(uri.query().unwrap_or_default())
    }

    /// Appends the parameters of `other`.
    pub(crate) fn extend(&mut self, other: Params) {
        self.pairs.extend(other.pairs);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the only value of `name`.
    ///
    /// # Errors
    /// 400 if it is given more than once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(ApiError::bad_request(
                "repeated_parameter",
                format!("The parameter \"{name}\" is given more than once. Give it once."),
            )),
        }
    }

    /// Reads a switch: absent, or present as `name`, `name=true` or `name=false`.
    ///
    /// # Errors
    /// 400 for any other value.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.one(name)? {
            None => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(ApiError::bad_request(
                "bad_parameter",
                format!(
                    "The parameter \"{name}\" is true or false, not \"{}\".",
                    shorten(other)
                ),
            )),
        }
    }

    /// Refuses parameters that the route does not know: a misspelt one must not be ignored
    /// silently.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        match self
            .pairs
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(ApiError::bad_request(
                "unknown_parameter",
                format!(
                    "There is no parameter \"{}\" here: this address takes none.",
                    shorten(name)
                ),
            )),
            Some((name, _)) => Err(ApiError::bad_request(
                "unknown_parameter",
                format!(
                    "There is no parameter \"{}\" here. This address takes {}.",
                    shorten(name),
                    known.join(", ")
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_strictly() {
        assert_eq!(
            percent_decode("http%3A%2F%2Fex.org%2F%C3%A9+x", false).expect("valid"),
            "http://ex.org/é+x"
        );
        assert_eq!(percent_decode("a+b%2B", true).expect("valid"), "a b+");
        for broken in ["%", "%4", "%zz", "a%C3", "%FF"] {
            let error = percent_decode(broken, true).expect_err(broken);
            assert_eq!(error.status(), 400, "{broken}");
        }
        let name = "http://ex.org/a b?c#d%é";
        assert_eq!(
            percent_decode(&percent_encode(name), false).expect("valid"),
            name
        );
    }

    #[test]
    fn parameters_are_single_known_or_refused() {
        let params = Params::parse("a=1&b&a=2&c=%20").expect("valid");
        assert_eq!(params.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(params.one("c").expect("one"), Some(" "));
        assert!(params.one("a").is_err());
        assert!(params.flag("b").expect("a flag"));
        assert!(!params.flag("d").expect("absent"));
        assert!(params.only(&["a", "b"]).is_err());
        assert!(params.only(&["a", "b", "c"]).is_ok());
    }

    #[test]
    fn quoting_a_clients_text_is_harmless() {
        assert_eq!(shorten("a\r\nb"), "a\u{FFFD}\u{FFFD}b");
        assert_eq!(shorten(&"x".repeat(500)).chars().count(), 120);
    }
}
