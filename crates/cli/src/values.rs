//! Values of options that are checked where they are written, not when something first uses them.

use oxrdf::NamedNode;
use std::time::Duration;

/// An absolute IRI.
pub(crate) fn iri(text: &str) -> Result<String, String> {
    NamedNode::new(text)
        .map(NamedNode::into_string)
        .map_err(|error| format!("expected an absolute IRI such as http://example.org/ ({error})"))
}

/// The server's own URL: paths are put behind it, so it ends with its host, its port or a path of
/// its own.
pub(crate) fn public_url(text: &str) -> Result<String, String> {
    let wanted = "expected a URL such as https://graph.example.org";
    let rest = web_address(text).ok_or(wanted)?;
    if rest.contains(['?', '#']) {
        return Err(format!("{wanted}, without ? and #"));
    }
    iri(text).map_err(|_| wanted.to_owned())
}

/// An origin as browsers send it, or `*`.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let is_origin = web_address(text).is_some_and(|rest| !rest.contains(['/', '?', '#', '@']));
    if text == "*" || (is_origin && iri(text).is_ok()) {
        return Ok(text.to_owned());
    }
    Err("expected an origin such as https://console.example.org, without a path, or *".to_owned())
}

/// Units of time, in milliseconds.
const TIMES: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
/// Units of size, in bytes.
const SIZES: [(&str, u64); 5] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("B", 1),
];

/// A time such as `5s` or `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let ms = with_unit(text, &TIMES);
    ms.map(Duration::from_millis).ok_or_else(|| {
        "expected a time above 0 with its unit (ms, s, m or h), such as 5s or 500ms".to_owned()
    })
}

/// A number of bytes such as `4GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    with_unit(text, &SIZES).ok_or_else(|| {
        "expected a size above 0 with its unit (B, KiB, MiB, GiB or TiB), such as 4GiB".to_owned()
    })
}

/// A whole number above 0 with one of these units.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|other: char| !other.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let product = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    (product > 0).then_some(product)
}

/// The text behind the scheme, if the scheme is one of the web and a host follows.
fn web_address(text: &str) -> Option<&str> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))?;
    rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        .then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_cannot_be_urls_are_refused() {
        for good in ["http://localhost:7878", "https://e.org/graph/"] {
            assert_eq!(public_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "xx",
            "e.org",
            "ftp://e.org",
            "http://",
            "http://e.org/?a",
            "http://e .org",
        ] {
            assert!(public_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        for good in ["*", "http://localhost:3000", "https://e.org"] {
            assert_eq!(origin(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "e.org",
            "https://e.org/",
            "https://e.org/console",
            "http://a@b",
        ] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        assert_eq!(size("100B"), Ok(100));
        for bad in [
            "",
            "5",
            "s",
            "0s",
            "-5s",
            "5 s",
            "1.5s",
            "5d",
            "99999999999999999999h",
        ] {
            assert!(
                duration(bad).is_err_and(|said| said.contains("such as 5s")),
                "{bad}"
            );
        }
        for bad in ["", "4", "GiB", "0GiB", "4GB", "4gib", "99999999TiB"] {
            assert!(
                size(bad).is_err_and(|said| said.contains("such as 4GiB")),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_namespace_is_absolute() {
        assert!(iri("http://e.org/ns#").is_ok());
        assert!(iri("ns#").is_err());
    }
}
