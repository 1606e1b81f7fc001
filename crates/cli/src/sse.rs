//! Reads a stream of Server-Sent Events (WHATWG HTML, section 9.2) line by line.

use std::io::{self, BufRead};

/// One dispatched event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field; empty means `message`.
    pub(crate) kind: String,
    /// The `data:` lines, joined by line feeds.
    pub(crate) data: String,
    /// The `id:` field, when the event has one.
    pub(crate) id: Option<String>,
}

/// The next event, or `None` at the end of the stream. Comments and empty events are passed over.
///
/// # Errors
/// What the reader reports.
pub(crate) fn next_event(reader: &mut impl BufRead) -> io::Result<Option<Event>> {
    let mut event = Event::default();
    let mut has_data = false;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            if has_data || !event.kind.is_empty() {
                return Ok(Some(event));
            }
            continue;
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.kind),
            "id" => event.id = Some(value.to_owned()),
            "data" => {
                if has_data {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                has_data = true;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_comments_and_multi_line_data_are_read() {
        let mut text =
            ": hello\n\nid: 5\ndata: a\ndata: b\n\nevent: gap\r\ndata:x\r\n\r\n: end\n".as_bytes();
        let first = next_event(&mut text).unwrap().unwrap();
        assert_eq!(
            (first.id.as_deref(), first.data.as_str()),
            (Some("5"), "a\nb")
        );
        let second = next_event(&mut text).unwrap().unwrap();
        assert_eq!((second.kind.as_str(), second.data.as_str()), ("gap", "x"));
        assert_eq!(next_event(&mut text).unwrap(), None);
    }
}
