//! Firings as events, each written once for all its subscribers.
//!
//! The one thing to know before changing it: a subscriber that does not read may hold one piece of
//! an event, never the whole event. Between two pieces it keeps only the firing, and gets the text
//! from the cache, or has it written again. So memory is bounded however slowly a client reads.

use crate::http::time::micros;
use axum::body::Bytes;
use oxrdfio::RdfFormat;
use serde_json::json;
use somersault::{
    Answer, AnswerError, AnswerKind, AnswerWriter, EventTime, FiringResult, QueryResultsFormat,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, Semaphore};

/// Answers with more rows than this are written on a blocking thread.
const ROWS_INLINE: usize = 256;
/// Blocking threads that write answers at one time.
const WRITERS: usize = 2;
/// Approximate size of one piece, in bytes.
const PIECE_BYTES: usize = 32 * 1024;
/// Bytes of text that the cache keeps for other subscribers.
const CACHE_BYTES: usize = 32 << 20;
/// Texts that the cache keeps.
const ENTRIES: usize = 1024;
/// Longest text that is shared, in bytes. A longer one is written for each subscriber, a piece at a
/// time.
const SHARED_BYTES: usize = 8 << 20;

/// The key of a cached text: the firing's identity (S13) and its SN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    uid: u64,
    close: EventTime,
    ordinal: u32,
    revision: u32,
    sn: u64,
}

impl Key {
    fn of(firing: &FiringResult) -> Key {
        Key {
            uid: firing.uid,
            close: firing.close,
            ordinal: firing.ordinal,
            revision: firing.revision,
            sn: firing.sn.0,
        }
    }
}

/// The texts of the firings that are being sent to subscribers.
#[derive(Debug)]
pub(crate) struct Firings {
    cache: Mutex<Cache>,
    writers: Semaphore,
    /// Bytes of all pieces, including those that wait in sockets.
    written_bytes: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Cache {
    texts: HashMap<Key, Entry>,
    bytes: usize,
    /// Counts uses, so that the least recently used text can be found.
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    text: Arc<OnceCell<Text>>,
    used: u64,
    /// Bytes that this entry adds to `Cache::bytes`; 0 until its text is written.
    bytes: usize,
}

/// The text of one event.
#[derive(Debug)]
enum Text {
    Shared(Vec<Bytes>),
    /// The text is longer than `SHARED_BYTES`, so it is not kept.
    Long,
}

/// The next piece of an event.
pub(crate) enum Piece {
    /// The piece's bytes, and whether there are more pieces.
    Next(Bytes, bool),
    /// The event must be written for this subscriber alone.
    Long,
}

impl Firings {
    pub(crate) fn new() -> Firings {
        Firings {
            cache: Mutex::default(),
            writers: Semaphore::new(WRITERS),
            written_bytes: Arc::default(),
        }
    }

    /// Returns the bytes of events that are written and that some subscriber has not yet taken.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Returns one piece of a firing's event, counted from 0.
    ///
    /// # Errors
    /// A sentence that says why there is no text.
    pub(crate) async fn piece(
        &self,
        firing: &Arc<FiringResult>,
        at: usize,
    ) -> Result<Piece, String> {
        let key = Key::of(firing);
        let entry = self.entry(key);
        let text = entry.get_or_try_init(|| self.write(key, firing)).await?;
        Ok(match text {
            Text::Long => Piece::Long,
            Text::Shared(pieces) => {
                let piece = pieces.get(at).cloned().unwrap_or_default();
                Piece::Next(piece, at + 1 < pieces.len())
            }
        })
    }

    /// Writes a whole event.
    async fn write(&self, key: Key, firing: &Arc<FiringResult>) -> Result<Text, String> {
        let rows = firing.answer.as_ref().map_or(0, Answer::len);
        let counter = Arc::clone(&self.written_bytes);
        let firing = Arc::clone(firing);
        let text = if rows <= ROWS_INLINE {
            whole(&firing, &counter)?
        } else {
            let _permit = self.writers.acquire().await;
            let made = tokio::task::spawn_blocking(move || whole(&firing, &counter)).await;
            made.map_err(|_| "The answer could not be written; this is a fault of the server.")??
        };
        self.keep(key, &text);
        Ok(text)
    }

    fn entry(&self, key: Key) -> Arc<OnceCell<Text>> {
        let mut cache = self.lock();
        cache.clock += 1;
        let used = cache.clock;
        let entry = cache.texts.entry(key).or_insert_with(|| Entry {
            text: Arc::default(),
            used,
            bytes: 0,
        });
        entry.used = used;
        Arc::clone(&entry.text)
    }

    /// Records the size of a written text, and evicts the texts that were least recently used.
    fn keep(&self, key: Key, text: &Text) {
        let bytes = match text {
            Text::Shared(pieces) => pieces.iter().map(Bytes::len).sum(),
            Text::Long => 0,
        };
        let mut cache = self.lock();
        let Cache {
            texts, bytes: all, ..
        } = &mut *cache;
        if let Some(entry) = texts.get_mut(&key) {
            *all = *all + bytes - entry.bytes;
            entry.bytes = bytes;
        }
        while *all > CACHE_BYTES || texts.len() > ENTRIES {
            // One that is being written is not older than the rest for long.
            let oldest = texts.iter().filter(|(other, _)| **other != key);
            let Some((&oldest, _)) = oldest.min_by_key(|(_, entry)| entry.used) else {
                break;
            };
            *all -= texts.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a text for one subscriber, whose pieces are written one by one on demand.
    ///
    /// # Errors
    /// A sentence that says why there is no text.
    pub(crate) fn own(&self, firing: &FiringResult, frame: TextFrame) -> Result<OwnText, String> {
        Ok(OwnText {
            writer: EventWriter::new(firing, frame)?,
            counter: Arc::clone(&self.written_bytes),
        })
    }
}

/// A text for one subscriber; see [`Firings::own`].
pub(crate) struct OwnText {
    writer: EventWriter,
    counter: Arc<AtomicU64>,
}

impl OwnText {
    /// Returns the next piece, and whether there are more.
    ///
    /// # Errors
    /// A sentence that says why there is no piece.
    pub(crate) fn next(&mut self) -> Result<(Bytes, bool), String> {
        let mut piece = Vec::new();
        let more = self.writer.next(&mut piece)?;
        Ok((counted(piece, &self.counter), more))
    }
}

fn whole(firing: &FiringResult, counter: &Arc<AtomicU64>) -> Result<Text, String> {
    let mut writer = EventWriter::new(firing, TextFrame::Event)?;
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    loop {
        let mut piece = Vec::new();
        let more = writer.next(&mut piece)?;
        bytes += piece.len();
        pieces.push(counted(piece, counter));
        if !more {
            return Ok(Text::Shared(pieces));
        }
        if bytes > SHARED_BYTES {
            return Ok(Text::Long);
        }
    }
}

/// Bytes that count as written until their last holder drops them.
struct Counted {
    text: Vec<u8>,
    counter: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.text.capacity() as u64;
        self.counter.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn counted(mut text: Vec<u8>, counter: &Arc<AtomicU64>) -> Bytes {
    text.shrink_to_fit();
    counter.fetch_add(text.capacity() as u64, Ordering::Relaxed);
    Bytes::from_owner(Counted {
        text,
        counter: Arc::clone(counter),
    })
}

/// What stands around the JSON of a firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFrame {
    /// An event of an event stream, with its id.
    Event,
    /// A line of its own.
    Line,
    /// Nothing: the JSON is a part of a document.
    Bare,
}

impl TextFrame {
    /// Returns what stands behind the JSON.
    fn end(self) -> &'static str {
        match self {
            TextFrame::Event => "\n\n",
            TextFrame::Line => "\n",
            TextFrame::Bare => "",
        }
    }
}

/// Writes a firing in its frame, as one line of JSON. The answer is SPARQL JSON for SELECT
/// and ASK. For CONSTRUCT and DESCRIBE it is a string of N-Triples, or of N-Quads if the template
/// names graphs.
struct EventWriter {
    /// The text before the answer; written with the first piece.
    head: Option<String>,
    answer: Written,
    frame: TextFrame,
}

enum Written {
    /// Written as it is.
    Results(AnswerWriter),
    /// Written as a JSON string.
    Graph(AnswerWriter),
    /// A sentence in place of an answer.
    Failed(String),
}

impl EventWriter {
    fn new(firing: &FiringResult, frame: TextFrame) -> Result<EventWriter, String> {
        let answer = match &firing.answer {
            Ok(answer) => Written::of(answer).map_err(|error| error.to_string())?,
            Err(sentence) => Written::Failed(sentence.clone()),
        };
        let member = match &answer {
            Written::Results(_) => "\"results\":",
            Written::Graph(_) => "\"results\":\"",
            Written::Failed(_) => "\"error\":",
        };
        let mut text = members(firing).to_string();
        text.pop();
        let before = match frame {
            TextFrame::Event => format!("id: {}\ndata: ", firing.id()),
            TextFrame::Line | TextFrame::Bare => String::new(),
        };
        Ok(EventWriter {
            head: Some(format!("{before}{text},{member}")),
            answer,
            frame,
        })
    }

    /// Writes the next piece; returns whether there are more.
    fn next(&mut self, piece: &mut Vec<u8>) -> Result<bool, String> {
        let head = self.head.take();
        let room = PIECE_BYTES.saturating_sub(head.as_ref().map_or(0, String::len));
        let next = |writer: &mut AnswerWriter| {
            let mut rows = Vec::with_capacity(writer.expected_bytes(room));
            let more = writer.next_piece(&mut rows, room);
            more.map(|more| (rows, more))
                .map_err(|error| error.to_string())
        };
        piece.extend_from_slice(head.as_deref().unwrap_or_default().as_bytes());
        let (more, close) = match &mut self.answer {
            Written::Results(writer) => {
                let (mut rows, more) = next(writer)?;
                // JSON escapes line breaks inside strings, so a raw one can only be layout.
                let breaks = rows.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n'));
                breaks.for_each(|byte| *byte = b' ');
                piece.append(&mut rows);
                (more, "}")
            }
            Written::Graph(writer) => {
                let (rows, more) = next(writer)?;
                let text = String::from_utf8(rows)
                    .map_err(|_| "The answer is not UTF-8; this is a fault of the server.")?;
                let quoted = json!(text).to_string();
                piece.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
                (more, "\"}")
            }
            Written::Failed(sentence) => {
                piece.extend_from_slice(json!(sentence).to_string().as_bytes());
                (false, "}")
            }
        };
        if !more {
            piece.extend_from_slice(close.as_bytes());
            piece.extend_from_slice(self.frame.end().as_bytes());
        }
        Ok(more)
    }
}

impl Written {
    fn of(answer: &Answer) -> Result<Written, AnswerError> {
        Ok(match answer.kind() {
            AnswerKind::Graph => Written::Graph(answer.graph_writer(RdfFormat::NTriples)?),
            AnswerKind::Dataset => Written::Graph(answer.graph_writer(RdfFormat::NQuads)?),
            AnswerKind::Solutions | AnswerKind::Boolean => {
                Written::Results(answer.results_writer(QueryResultsFormat::Json)?)
            }
        })
    }
}

/// Returns the JSON members of a firing other than its answer.
fn members(firing: &FiringResult) -> serde_json::Value {
    let mut members = somersault_connect::members(firing);
    members["execution_us"] = micros(firing.execution).into();
    members["delay_us"] = micros(firing.delay).into();
    members["waiting_us"] = micros(firing.waiting).into();
    members
}
