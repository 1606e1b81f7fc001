//! A client that keeps one connection open and does nothing that would be counted as the server's
//! time: it sends a request in one write, reads the body to its end, and counts rows only when the
//! time has been taken.

use crate::harness::contender::{Burst, NoTime};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time beyond the server's own limit, so that the server gives up first.
const SLACK: Duration = Duration::from_secs(5);

/// The form of a query in a request.
#[derive(Debug, Clone)]
pub(crate) enum Style {
    /// The text is the body.
    Direct,
    /// A form, with the graph that the query reads by default.
    Form { default_graph: String },
    /// The text is the body, and an update.
    Update,
    /// The text is the body, and lines of JSON.
    Lines,
}

/// A client with one kept connection.
pub(crate) struct Client {
    address: String,
    path: String,
    style: Style,
    connection: Option<BufReader<TcpStream>>,
    body: Vec<u8>,
}

/// The parts of a response's head that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    closes: bool,
    /// Virtuoso's word for "this is what I had when time was up".
    partial: bool,
}

impl Client {
    /// A client of the server at `url` (`http://host:port`).
    pub(crate) fn new(url: &str, path: &str, style: Style) -> Result<Client, String> {
        let address = url
            .strip_prefix("http://")
            .ok_or_else(|| format!("{url} is no http:// address"))?;
        Ok(Client {
            address: address.to_owned(),
            path: path.to_owned(),
            style,
            connection: None,
            body: Vec::new(),
        })
    }

    /// One more like this one, not connected yet.
    pub(crate) fn another(&self) -> Client {
        Client {
            address: self.address.clone(),
            path: self.path.clone(),
            style: self.style.clone(),
            connection: None,
            body: Vec::new(),
        }
    }

    /// Sends the same query several times in a row.
    pub(crate) fn run(
        &mut self,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<Burst, NoTime> {
        let request = self.request(text);
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            times.push(self.ask(&request, limit)?);
        }
        let rows = count_rows(&self.body)
            .map_err(|error| NoTime::Refused(format!("the answer is no SPARQL JSON: {error}")))?;
        Ok(Burst { rows, times })
    }

    /// One request, its whole body read; the time that it took.
    pub(crate) fn ask(&mut self, request: &[u8], limit: Duration) -> Result<Duration, NoTime> {
        let broken = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NoTime::OverTime,
            _ => NoTime::Refused(format!("the connection broke: {error}")),
        };
        // The server may have closed an idle connection during the others' turns.
        let mut connection = match self.connection.take().filter(is_open) {
            Some(open) => open,
            None => self.connect().map_err(broken)?,
        };
        let timeout = Some(limit + SLACK);
        connection
            .get_ref()
            .set_read_timeout(timeout)
            .map_err(broken)?;
        let start = Instant::now();
        connection.get_mut().write_all(request).map_err(broken)?;
        let head = read_head(&mut connection).map_err(broken)?;
        self.body.clear();
        read_body(&mut connection, &head, &mut self.body).map_err(broken)?;
        let took = start.elapsed();
        if !head.closes {
            self.connection = Some(connection);
        }
        if head.partial || took > limit {
            return Err(NoTime::OverTime);
        }
        if !matches!(head.status, 200 | 204) {
            let over_time = String::from_utf8_lossy(&self.body).to_ascii_lowercase();
            if ["timeout", "timed out", "query_time", "cancelled"]
                .iter()
                .any(|word| over_time.contains(word))
            {
                return Err(NoTime::OverTime);
            }
            let said = in_a_line(&self.body);
            return Err(NoTime::Refused(format!("status {}: {said}", head.status)));
        }
        Ok(took)
    }

    /// The body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    fn connect(&self) -> io::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        Ok(BufReader::with_capacity(1 << 16, stream))
    }

    /// The octets that ask this query.
    pub(crate) fn request(&self, text: &str) -> Vec<u8> {
        let (kind, body) = match &self.style {
            Style::Direct => ("application/sparql-query", text.to_owned()),
            Style::Update => ("application/sparql-update", text.to_owned()),
            Style::Lines => ("application/x-ndjson", text.to_owned()),
            Style::Form { default_graph } => (
                "application/x-www-form-urlencoded",
                format!(
                    "default-graph-uri={}&query={}",
                    escaped(default_graph),
                    escaped(text)
                ),
            ),
        };
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: application/sparql-results+json\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
        .into_bytes()
    }
}

/// Puts a body that is made while it is sent, in chunks of HTTP; returns the answer's body, of
/// status 200 or 201.
pub(crate) fn put(
    url: &str,
    path: &str,
    media_type: &str,
    chunks: impl Iterator<Item = Vec<u8>>,
) -> Result<Vec<u8>, String> {
    let client = Client::new(url, path, Style::Direct)?;
    let broken = |error: io::Error| format!("the connection broke: {error}");
    let mut connection = client.connect().map_err(broken)?;
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {media_type}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        client.address
    );
    let mut sent = connection.get_mut().write_all(head.as_bytes());
    for chunk in chunks.filter(|chunk| !chunk.is_empty()) {
        if sent.is_err() {
            break;
        }
        let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), &chunk, b"\r\n"].concat();
        sent = connection.get_mut().write_all(&framed);
    }
    let sent = sent.and_then(|()| connection.get_mut().write_all(b"0\r\n\r\n"));
    // A server that refuses a body may close before all of it has been sent: what it says is the
    // reason then.
    let head = match (read_head(&mut connection), sent) {
        (Ok(head), _) => head,
        (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(broken(error)),
    };
    let mut body = Vec::new();
    read_body(&mut connection, &head, &mut body).map_err(broken)?;
    match head.status {
        200 | 201 => Ok(body),
        status => Err(format!("status {status}: {}", in_a_line(&body))),
    }
}

/// The beginning of what a server said, on one line.
fn in_a_line(body: &[u8]) -> String {
    let said = String::from_utf8_lossy(body);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    said.chars().take(200).collect()
}

/// Whether the other side of an idle connection is still there.
fn is_open(connection: &BufReader<TcpStream>) -> bool {
    let stream = connection.get_ref();
    let looked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    let waits = matches!(&looked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    waits && stream.set_nonblocking(false).is_ok()
}

fn escaped(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len() * 2);
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            out.push(char::from(octet));
        } else {
            let _ = write!(out, "%{octet:02X}");
        }
    }
    out
}

fn read_head(from: &mut impl BufRead) -> io::Result<Head> {
    let mut head = Head::default();
    let mut line = String::new();
    from.read_line(&mut line)?;
    head.status = line
        .split_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no HTTP response: {:?}", line.trim_end())))?;
    loop {
        line.clear();
        from.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(head);
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => head.closes = value.eq_ignore_ascii_case("close"),
            "x-sql-state" => head.partial = true,
            _ => {}
        }
    }
}

fn read_body(from: &mut impl BufRead, head: &Head, into: &mut Vec<u8>) -> io::Result<()> {
    if head.chunked {
        let mut line = String::new();
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)
                .map_err(|_| io::Error::other(format!("no length of a chunk: {size:?}")))?;
            let read = from.by_ref().take(size).read_to_end(into)?;
            if (read as u64) < size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.clear();
            from.read_line(&mut line)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
    match head.length {
        Some(length) => {
            let read = from.by_ref().take(length as u64).read_to_end(into)?;
            if read < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        None => {
            from.read_to_end(into)?;
        }
    }
    Ok(())
}

/// The rows of an answer in SPARQL JSON, without keeping any; 1 for ASK.
fn count_rows(json: &[u8]) -> serde_json::Result<u64> {
    let mut rows = None;
    let mut reader = serde_json::Deserializer::from_slice(json);
    Object {
        rows: &mut rows,
        within: false,
    }
    .deserialize(&mut reader)?;
    rows.ok_or_else(|| serde::de::Error::custom("neither bindings nor a boolean"))
}

/// The answer (`within` false) or its `results`: everything but the length of `bindings` is passed
/// over.
struct Object<'a> {
    rows: &'a mut Option<u64>,
    within: bool,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of SPARQL JSON results")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "results" if !self.within => map.next_value_seed(Object {
                    rows: self.rows,
                    within: true,
                })?,
                "bindings" if self.within => *self.rows = Some(map.next_value_seed(Length)?),
                "boolean" if !self.within => {
                    map.next_value::<IgnoredAny>()?;
                    *self.rows = Some(1);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The length of an array.
struct Length;

impl<'de> DeserializeSeed<'de> for Length {
    type Value = u64;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Length {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of bindings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u64, A::Error> {
        let mut length = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_without_being_kept() {
        let json = br#"{"head":{"vars":["x"]},"results":{"distinct":false,"bindings":[{"x":{"type":"uri","value":"a"}},{}]}}"#;
        assert_eq!(count_rows(json).unwrap(), 2);
        assert_eq!(count_rows(br#"{"head":{},"boolean":false}"#).unwrap(), 1);
        assert!(count_rows(br#"{"head":{}}"#).is_err());
        assert!(count_rows(b"<html>").is_err());
    }

    #[test]
    fn both_framings_of_a_body_are_read() {
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        ] {
            let mut from = response.as_bytes();
            let head = read_head(&mut from).unwrap();
            let mut body = Vec::new();
            read_body(&mut from, &head, &mut body).unwrap();
            assert_eq!((head.status, body.as_slice()), (200, &b"hello"[..]));
            assert!(from.is_empty(), "the next response starts here");
        }
        let mut short = &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..];
        let head = read_head(&mut short).unwrap();
        assert!(read_body(&mut short, &head, &mut Vec::new()).is_err());
    }

    #[test]
    fn a_connection_that_the_server_has_closed_is_not_used_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = BufReader::new(stream);
        let (other_side, _) = listener.accept().unwrap();
        assert!(is_open(&connection));
        drop(other_side);
        // The news of it may take a moment.
        while is_open(&connection) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_form_is_escaped() {
        let style = Style::Form {
            default_graph: "http://g".to_owned(),
        };
        let client = Client::new("http://127.0.0.1:1", "/sparql", style).unwrap();
        let request = String::from_utf8(client.request("ASK { ?s ?p \"ü\" }")).unwrap();
        assert!(request.ends_with(
            "default-graph-uri=http%3A%2F%2Fg&query=ASK%20%7B%20%3Fs%20%3Fp%20%22%C3%BC%22%20%7D"
        ));
    }
}
