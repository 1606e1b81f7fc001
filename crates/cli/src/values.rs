//! Values of options that are checked where they are written, not when something first uses them.

use oxrdf::NamedNode;

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
    fn a_namespace_is_absolute() {
        assert!(iri("http://e.org/ns#").is_ok());
        assert!(iri("ns#").is_err());
    }
}
