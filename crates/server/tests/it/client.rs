//! A small HTTP client over a bare socket: the tests see every byte, and can send what no library
//! would.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nothing in these tests takes longer; a hang becomes a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds that other threads bring about.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "not reached in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An answer, complete.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether a chunked body had its last chunk.
    pub(crate) complete: bool,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// Fails with the body unless the status is this.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Reply {
        assert_eq!(
            self.status,
            status,
            "{}",
            String::from_utf8_lossy(&self.body)
        );
        self
    }

    /// An error with this status and code, whose sentence holds all of `words`.
    #[track_caller]
    pub(crate) fn expect_error(self, status: u16, code: &str, words: &[&str]) -> Value {
        let reply = self.expect(status);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let json = reply.json();
        assert_eq!(json["code"], code, "{json}");
        let sentence = json["error"].as_str().expect("a sentence");
        for word in words {
            assert!(sentence.contains(word), "\"{word}\" is not in: {sentence}");
        }
        json
    }
}

/// Connects, with timeouts.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("the server listens");
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    socket
        .set_write_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    socket
}

/// The bytes of a request's head and body.
pub(crate) fn request_bytes(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        bytes.extend_from_slice(b"Host: localhost\r\n");
    }
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if let Some(body) = body {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.unwrap_or_default());
    bytes
}

/// Sends bytes and reads one answer.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8], head_only: bool) -> Reply {
    let mut socket = connect(address);
    // A server that refuses a body early may close before all of it is sent.
    let _ = socket.write_all(bytes);
    read_reply(&mut BufReader::new(socket), head_only)
}

/// Reads a status line and headers.
pub(crate) fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no status in {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let line = line.trim_end();
        if line.is_empty() {
            return (status, headers);
        }
        let (name, value) = line.split_once(':').expect("a header has a colon");
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Reads one answer, without a body where the request was a HEAD.
pub(crate) fn read_reply(reader: &mut impl BufRead, head_only: bool) -> Reply {
    let head = read_head(reader);
    read_body(reader, head, head_only)
}

/// Reads what follows a head.
pub(crate) fn read_body(
    reader: &mut impl BufRead,
    (status, headers): (u16, Vec<(String, String)>),
    head_only: bool,
) -> Reply {
    let mut reply = Reply {
        status,
        headers,
        body: Vec::new(),
        complete: true,
    };
    if head_only || status == 204 {
        return reply;
    }
    if reply.header("transfer-encoding") == Some("chunked") {
        reply.complete = false;
        while let Some(chunk) = read_chunk(reader) {
            if chunk.is_empty() {
                reply.complete = true;
                break;
            }
            reply.body.extend_from_slice(&chunk);
        }
    } else if let Some(length) = reply.header("content-length") {
        reply.body = vec![0; length.parse().expect("a length")];
        reader.read_exact(&mut reply.body).expect("the whole body");
    } else {
        reader.read_to_end(&mut reply.body).expect("the body");
    }
    reply
}

/// One chunk; empty is the last, `None` is a connection that ended before it.
pub(crate) fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    Some(chunk)
}

/// One event of an event stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: String,
    pub(crate) comment: bool,
}

impl Event {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.data))
    }
}

/// A subscriber.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    buffer: Vec<u8>,
    /// The buffer has no end of a block before this position.
    searched: usize,
    pub(crate) status: u16,
}

impl Events {
    pub(crate) fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut socket = connect(address);
        socket
            .write_all(&request_bytes("GET", path, headers, None))
            .expect("the request is sent");
        let mut reader = BufReader::new(socket);
        let (status, _) = read_head(&mut reader);
        Events {
            reader,
            buffer: Vec::new(),
            searched: 0,
            status,
        }
    }

    /// The next block, comments included; `None` at the end.
    fn block(&mut self) -> Option<Event> {
        loop {
            let mut unsearched = self.buffer[self.searched..].windows(2);
            if let Some(end) = unsearched.position(|pair| pair == b"\n\n") {
                let end = self.searched + end;
                self.searched = 0;
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let text = String::from_utf8(block).expect("UTF-8");
                let mut event = Event::default();
                for line in text.lines() {
                    match line.split_once(':') {
                        Some(("", _)) => event.comment = true,
                        Some(("id", value)) => event.id = Some(value.trim_start().to_owned()),
                        Some(("event", value)) => event.event = Some(value.trim_start().to_owned()),
                        Some(("data", value)) => event
                            .data
                            .push_str(value.strip_prefix(' ').unwrap_or(value)),
                        Some(("retry", _)) | None => {}
                        Some((field, _)) => panic!("an unknown field {field}"),
                    }
                }
                return Some(event);
            }
            self.searched = self.buffer.len().saturating_sub(1);
            let chunk = read_chunk(&mut self.reader)?;
            if chunk.is_empty() {
                return None;
            }
            self.buffer.extend_from_slice(&chunk);
        }
    }

    /// The next event that is not only a comment.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.block()?;
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next block, which must be a comment.
    pub(crate) fn comment(&mut self) -> bool {
        self.block()
            .is_some_and(|event| event.comment && event.data.is_empty())
    }

    #[track_caller]
    pub(crate) fn firing(&mut self) -> Value {
        let event = self.next().expect("a firing");
        assert_eq!(event.event, None, "{event:?}");
        let json = event.json();
        let close = format!("{}:{}", json["uid"], json["close_ms"]);
        let id = match (json["ordinal"].as_u64(), json["revision"].as_u64()) {
            (Some(0), Some(0)) => close,
            _ => format!(
                "{close}.{}.{}.{}",
                json["ordinal"], json["revision"], json["sn"]
            ),
        };
        assert_eq!(event.id, Some(id));
        json
    }
}
