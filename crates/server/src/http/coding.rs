//! Content codings: gzip and zstd, as requests name them in `Content-Encoding` and as clients ask
//! for them in `Accept-Encoding` (RFC 9110, sections 8.4 and 12.5.3).

use crate::http::error::{ApiError, ApiResult};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

/// How bytes are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// The codings, in the server's order of preference.
    const ALL: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

    fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        }
    }

    /// Its name as the value of `Content-Encoding`.
    pub(crate) fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    /// The coding of a request's body; `None` if it is not packed.
    ///
    /// # Errors
    /// 415 for another coding, and for several.
    pub(crate) fn of_body(headers: &HeaderMap) -> ApiResult<Option<Coding>> {
        let mut lines = headers.get_all(header::CONTENT_ENCODING).iter();
        let (first, second) = (lines.next(), lines.next());
        let Some(line) = first else { return Ok(None) };
        let name = line.to_str().unwrap_or_default().trim();
        if second.is_none() {
            if name.eq_ignore_ascii_case("identity") || name.is_empty() {
                return Ok(None);
            }
            // An old name of gzip, which readers are to take for it.
            let name = if name.eq_ignore_ascii_case("x-gzip") {
                "gzip"
            } else {
                name
            };
            let is_it = |coding: &Coding| coding.name().eq_ignore_ascii_case(name);
            if let Some(coding) = Coding::ALL.into_iter().find(is_it) {
                return Ok(Some(coding));
            }
        }
        Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_encoding",
            "The Content-Encoding of a body is gzip or zstd, one of them, or there is none. Pack the body in one of these ways, or send it as it is.",
        )
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd")))
    }

    /// The coding that a client likes best for its answer; `None` if it asks for none.
    pub(crate) fn of_answer(headers: &HeaderMap) -> Option<Coding> {
        let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let wanted: Vec<(&str, u16)> = lines.flat_map(|line| line.split(',')).map(wish).collect();
        let quality = |coding: &str| {
            let named = wanted
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(coding));
            let named = named.or_else(|| wanted.iter().find(|(name, _)| *name == "*"));
            named.map_or(0, |(_, quality)| *quality)
        };
        let mut best: Option<(u16, Coding)> = None;
        for coding in Coding::ALL {
            let quality = quality(coding.name());
            if quality > 0 && best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, coding));
            }
        }
        let named = wanted
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("identity"));
        let unpacked = named.map_or(0, |(_, quality)| *quality);
        best.filter(|(quality, _)| *quality >= unpacked)
            .map(|(_, coding)| coding)
    }
}

/// A coding of `Accept-Encoding` with its quality, in thousandths.
fn wish(item: &str) -> (&str, u16) {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let is_quality = key.trim().eq_ignore_ascii_case("q");
        is_quality.then(|| value.trim().parse::<f32>().unwrap_or(0.0))
    });
    let thousandths = quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1_000.0;
    (name, thousandths as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, HeaderValue::from_str(line).expect("a header"));
        }
        headers
    }

    #[test]
    fn the_coding_of_a_body_is_named_once() {
        let of = |lines: &[&str]| {
            let coding = Coding::of_body(&headers(header::CONTENT_ENCODING, lines));
            coding.map_err(|error| error.status().as_u16())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["identity"]), Ok(None));
        assert_eq!(of(&["GZIP"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&["x-gzip"]), Ok(Some(Coding::Gzip)));
        assert_eq!(of(&[" zstd "]), Ok(Some(Coding::Zstd)));
        for bad in [&["br"][..], &["gzip, zstd"], &["gzip", "gzip"]] {
            assert_eq!(of(bad), Err(415), "{bad:?}");
        }
    }

    #[test]
    fn a_client_says_how_welcome_a_coding_is() {
        let of = |line: &str| Coding::of_answer(&headers(header::ACCEPT_ENCODING, &[line]));
        for (line, coding) in [
            ("", None),
            ("gzip, deflate", Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("gzip;q=1.0, zstd;q=0.5", Some(Coding::Gzip)),
            ("gzip;q=0", None),
            ("*", Some(Coding::Zstd)),
            ("zstd;q=0, *;q=0.5", Some(Coding::Gzip)),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Coding::Gzip)),
            ("gzip;q=x", None),
            ("br", None),
        ] {
            assert_eq!(of(line), coding, "{line}");
        }
        assert_eq!(Coding::of_answer(&HeaderMap::new()), None);
    }
}
