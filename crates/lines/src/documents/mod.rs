//! Documents: plain JSON and CSV, one after the other, each as the triples of Facade-X.
//!
//! A JSON text is a document, or an array of documents; NDJSON has a document a line; each record
//! of CSV behind the header is one. The triples are those of SPARQL Anything's Facade-X
//! (<https://sparql-anything.cc>) with the differences that docs/language.md names.
//!
//! The one thing to know before changing it: a document that cannot be read refuses itself alone,
//! and its number counts. Only where the text does not tell where the next document begins, the
//! rest is refused with it.

mod facade;
mod json;
mod records;

use crate::contexts::Contexts;
use crate::messages::json::read_in_context;
use crate::messages::syntax::Fault;
use crate::messages::{MessageLimits, RefusedMessage};
use crate::pieces::{Cut, ElementCutter, Piece, Pieces, Place, RecordCutter};
pub use facade::{
    FacadeSlot, FacadeTriple, FacadeValue, MEMBER_NAMESPACE, PLACE_BEGINNING, ROOT_TYPE,
};
use oxrdf::Quad;
use std::io::{self, Read};
use std::sync::Arc;

/// How documents are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentSyntax {
    /// A JSON document, or an array of documents.
    Json,
    /// JSON, one document a line.
    NdJson,
    /// CSV (RFC 4180) whose first record is the header; each other record is a document.
    Csv,
}

impl DocumentSyntax {
    /// All of them.
    pub const ALL: [DocumentSyntax; 3] = [
        DocumentSyntax::Json,
        DocumentSyntax::NdJson,
        DocumentSyntax::Csv,
    ];

    /// The media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            DocumentSyntax::Json => "application/json",
            DocumentSyntax::NdJson => "application/x-ndjson",
            DocumentSyntax::Csv => "text/csv",
        }
    }

    /// The syntax of a media type; its parameters do not matter.
    ///
    /// ```
    /// use somersault_lines::DocumentSyntax;
    /// let of = DocumentSyntax::of_media_type;
    /// assert_eq!(of("Text/CSV; header=present"), Some(DocumentSyntax::Csv));
    /// assert_eq!(of("application/ld+json"), None);
    /// ```
    #[must_use]
    pub fn of_media_type(media_type: &str) -> Option<DocumentSyntax> {
        let name = media_type.split(';').next()?.trim();
        let is_it = |syntax: &DocumentSyntax| syntax.media_type().eq_ignore_ascii_case(name);
        DocumentSyntax::ALL.into_iter().find(is_it)
    }
}

/// One document of a text.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its place among the documents of the text, from 0; malformed ones count.
    pub ordinal: u64,
    /// The line of its first word, from 1.
    pub line: u64,
    text: Vec<u8>,
    place: Place,
    content: Content,
}

/// How the text of a document is to be read.
#[derive(Debug, Clone)]
enum Content {
    Json,
    /// A record of CSV, below this header.
    Record(Arc<[String]>),
    /// It is not read, for this reason, with its place.
    Refused(RefusedMessage),
}

impl Document {
    /// Its text, as it came; empty where it was longer than a document may be.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Its text, as it came.
    #[must_use]
    pub fn into_text(self) -> Vec<u8> {
        self.text
    }

    /// Calls `each` with the triples of the document, in their order. If it is refused, `each` may
    /// have been called before.
    ///
    /// # Errors
    /// The document is malformed; or has more triples than `most`.
    pub fn triples(
        &self,
        most: usize,
        mut each: impl FnMut(FacadeTriple<'_>),
    ) -> Result<(), RefusedMessage> {
        let mut left = most;
        let mut counted = |triple: FacadeTriple<'_>| {
            let is_within = left > 0;
            left = left.saturating_sub(1);
            if is_within {
                each(triple);
            }
            is_within
        };
        let read = match &self.content {
            Content::Json => json::read(&self.text, &mut counted),
            Content::Record(header) => records::read(&self.text, header, &mut counted),
            Content::Refused(refused) => return Err(refused.clone()),
        };
        read.map_err(|fault| fault.refused(&self.place, false))
    }

    /// The statements of the document as JSON-LD below the context of a URL, which comes before
    /// its own.
    ///
    /// ```
    /// use somersault_lines::{Contexts, DocumentReader, DocumentSyntax, MessageLimits};
    /// let contexts = Contexts::default();
    /// contexts.insert("urn:c", r#"{"@context": {"at": "urn:at"}}"#);
    /// let limits = MessageLimits { bytes: 1 << 20, statements: 1_000 };
    /// let text = r#"{"@id": "urn:x", "at": 5}"#;
    /// let document = DocumentReader::new(text.as_bytes(), DocumentSyntax::Json, limits).next();
    /// let quads = document.unwrap()?.statements_below("urn:c", &contexts, 10).unwrap();
    /// assert_eq!(quads[0].predicate.as_str(), "urn:at");
    /// # Ok::<_, std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The document is malformed, is no JSON, names a context that is not registered, or has more
    /// statements than `most`.
    pub fn statements_below(
        &self,
        context: &str,
        contexts: &Contexts,
        most: usize,
    ) -> Result<Vec<Quad>, RefusedMessage> {
        let read = match &self.content {
            Content::Json => {
                let context = serde_json::Value::from(context).to_string();
                read_in_context(&self.text, &context, contexts, most)
            }
            Content::Record(_) => Err(Fault::new(
                "a context says nothing of CSV; send JSON, or declare the stream with MAPPED BY",
            )),
            Content::Refused(refused) => return Err(refused.clone()),
        };
        read.map_err(|fault| fault.refused(&self.place, false))
    }
}

/// Why triples are not read on: there are more than the limit.
fn too_many() -> Fault {
    Fault::new(
        "the document makes more triples than a message may have; send a smaller one, or raise the limit",
    )
}

/// Reads the documents of a text one after the other, and holds one of them at a time.
///
/// ```
/// use somersault_lines::{DocumentReader, DocumentSyntax, FacadeTriple, MessageLimits};
/// let text = "sensor,celsius\nnorth,20.5\nsouth\neast,21\n";
/// let limits = MessageLimits { bytes: 1 << 20, statements: 1_000 };
/// let reader = DocumentReader::new(text.as_bytes(), DocumentSyntax::Csv, limits);
/// let documents: Vec<_> = reader.collect::<Result<_, _>>()?;
/// assert_eq!(documents.len(), 3);
/// let mut triples = Vec::new();
/// documents[0].triples(10, |triple| triples.push(triple.quad().to_string())).unwrap();
/// assert_eq!(triples.len(), 3);
/// assert!(triples[2].ends_with("<http://sparql.xyz/facade-x/data/celsius> \"20.5\""));
/// let refused = documents[1].triples(10, |_| {}).unwrap_err();
/// assert_eq!(refused.line, 3);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct DocumentReader<R> {
    source: R,
    syntax: DocumentSyntax,
    limits: MessageLimits,
    pieces: Pieces,
    /// The names of the fields of CSV, once they are read.
    header: Option<Arc<[String]>>,
    ordinal: u64,
    is_first: bool,
    is_over: bool,
}

impl<R: Read> DocumentReader<R> {
    /// A reader at the beginning of a text.
    pub fn new(source: R, syntax: DocumentSyntax, limits: MessageLimits) -> DocumentReader<R> {
        let cut = match syntax {
            DocumentSyntax::Json => Cut::Elements(ElementCutter::default()),
            DocumentSyntax::NdJson => Cut::LineEnds,
            DocumentSyntax::Csv => Cut::Records(RecordCutter::new()),
        };
        DocumentReader {
            source,
            syntax,
            limits,
            pieces: Pieces::new(cut),
            header: None,
            ordinal: 0,
            is_first: true,
            is_over: false,
        }
    }

    /// The document that a piece of the text holds; `None` if it holds none.
    fn document(&mut self, mut piece: Piece) -> Option<Document> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_first && piece.text.starts_with(b"\xef\xbb\xbf") {
            piece.text.drain(..3);
        }
        let is_blank = piece.text.trim_ascii().is_empty() && !piece.is_too_long;
        let read = match self.syntax {
            _ if piece.is_too_long => Err(Fault::new(format!(
                "the document has more than {} bytes; send a smaller one",
                self.limits.bytes
            ))),
            DocumentSyntax::Json => match self.element(is_first, is_blank, &piece) {
                Ok(true) => Ok(Content::Json),
                Ok(false) => return None,
                Err(fault) => Err(fault),
            },
            DocumentSyntax::NdJson | DocumentSyntax::Csv if is_blank => return None,
            DocumentSyntax::NdJson => Ok(Content::Json),
            DocumentSyntax::Csv => match &self.header {
                Some(header) => Ok(Content::Record(Arc::clone(header))),
                None => match records::header(&piece.text) {
                    Ok(header) => {
                        self.header = Some(header);
                        return None;
                    }
                    Err(fault) => Err(fault),
                },
            },
        };
        // Without a header, no record can be read.
        let ends_reading = self.syntax == DocumentSyntax::Csv && self.header.is_none();
        self.is_over |= ends_reading;
        let content = read.unwrap_or_else(|fault: Fault| {
            Content::Refused(fault.refused(&piece.place, ends_reading))
        });
        let ordinal = self.ordinal;
        self.ordinal += 1;
        Some(Document {
            ordinal,
            line: piece.line,
            text: piece.text,
            place: piece.place,
            content,
        })
    }

    /// Whether a piece of a JSON text is a document.
    fn element(&self, is_first: bool, is_blank: bool, piece: &Piece) -> Result<bool, Fault> {
        let Cut::Elements(cutter) = self.pieces.cut() else {
            return Ok(false);
        };
        match &piece.delimiter {
            // What stands before the array, or a text without a document.
            Some(_) if is_first => Ok(false),
            None if is_first => Ok(!is_blank),
            // The only piece of an empty array.
            Some(_) if is_blank && self.ordinal == 0 && cutter.is_behind() => Ok(false),
            Some(_) if is_blank => Err(Fault::new(
                "an element of the array is missing; write a document between two commas",
            )),
            Some(_) => Ok(true),
            None if cutter.is_open() => Err(Fault::new(
                "the text ends inside its array, so this document may be cut off; close the array with `]`",
            )),
            None if is_blank => Ok(false),
            None => Err(Fault::new(
                "something stands behind the array; send one array, or one document a line as application/x-ndjson",
            )),
        }
    }
}

impl<R: Read> Iterator for DocumentReader<R> {
    type Item = io::Result<Document>;

    fn next(&mut self) -> Option<io::Result<Document>> {
        while !self.is_over {
            let piece = match self.pieces.next(&mut self.source, self.limits.bytes) {
                Ok(piece) => piece,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            };
            self.is_over = piece.delimiter.is_none();
            if let Some(document) = self.document(piece) {
                return Some(Ok(document));
            }
        }
        None
    }
}
