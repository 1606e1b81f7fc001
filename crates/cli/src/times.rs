//! Instants: milliseconds since the Unix epoch, or RFC 3339 dates, as options take and messages
//! show them.

use somersault::EventTime;

/// Reads milliseconds since the Unix epoch, or a date such as `2026-01-01T00:00:00Z`.
pub(crate) fn instant(text: &str) -> Result<i64, String> {
    (text.parse().ok())
        .or_else(|| text.parse().ok().map(|time: EventTime| time.0))
        .ok_or_else(|| {
            "expected milliseconds since 1970, or a date such as 2026-01-01T00:00:00Z".to_owned()
        })
}

/// The date, with the milliseconds that other commands take: `2023-11-14T22:13:20Z (1700000000000
/// ms)`.
pub(crate) fn shown(ms: i64) -> String {
    format!("{} ({ms} ms)", EventTime(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_and_shown() {
        assert_eq!(instant("1700000000000"), Ok(1_700_000_000_000));
        assert_eq!(instant("-5"), Ok(-5));
        assert_eq!(instant("2023-11-14T22:13:20.5Z"), Ok(1_700_000_000_500));
        assert!(instant("yesterday").is_err_and(|said| said.contains("2026-01-01T00:00:00Z")));
        assert_eq!(
            shown(1_700_000_000_500),
            "2023-11-14T22:13:20.5Z (1700000000500 ms)"
        );
    }
}
