//! Dead letters: what a stream is told of messages that another stream has refused.
//!
//! The one thing to know before changing it: a letter has the number of its message, and a source
//! of its own for each stream and source. So a message that is refused again leaves no second one.

use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, Quad, Term};

const CLASS: &str = "urn:somersault:DeadLetter";

/// A message that a stream has refused, as another stream is told of it.
///
/// ```
/// use somersault::DeadLetter;
/// let letter = DeadLetter {
///     stream: "urn:readings",
///     source: Some("meters"),
///     number: 7,
///     line: None,
///     bytes: Some(2),
///     reason: "it makes no statement",
///     text: b"{}",
/// };
/// assert_eq!(letter.statements().len(), 7);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeadLetter<'l> {
    /// The IRI of the stream that refused it.
    pub stream: &'l str,
    /// The source that sent it.
    pub source: Option<&'l str>,
    /// Its number.
    pub number: u64,
    /// The line of the fault in the pushed text.
    pub line: Option<u64>,
    /// Its length, where the text is not all of it.
    pub bytes: Option<u64>,
    /// Why it was refused.
    pub reason: &'l str,
    /// Its text, or the beginning of it.
    pub text: &'l [u8],
}

impl DeadLetter<'_> {
    /// Returns the source under which the letter is pushed: sources of different streams are
    /// different ones here.
    pub fn source_name(&self) -> String {
        format!("{} {}", self.stream, self.source.unwrap_or_default())
    }

    /// Returns its statements: its class, and a property in `urn:somersault:` for each member.
    pub fn statements(&self) -> Vec<Quad> {
        let text = |text: &str| Term::from(Literal::new_simple_literal(text));
        let iri = |iri: &str| NamedNode::new_unchecked(iri);
        let member = |name: &str| iri(&format!("urn:somersault:{name}"));
        let number = |number: u64| Term::from(Literal::from(number));
        let parts = [
            Some((rdf::TYPE.into_owned(), Term::from(iri(CLASS)))),
            Some((member("stream"), iri(self.stream).into())),
            self.source.map(|source| (member("source"), text(source))),
            Some((member("number"), number(self.number))),
            self.line.map(|line| (member("line"), number(line))),
            Some((member("reason"), text(self.reason))),
            self.bytes.map(|bytes| (member("bytes"), number(bytes))),
            Some((member("text"), text(&String::from_utf8_lossy(self.text)))),
        ];
        // Labels of blank nodes are those of their push.
        let letter = BlankNode::new_unchecked("letter");
        let statement = |(predicate, object): (NamedNode, Term)| {
            Quad::new(letter.clone(), predicate, object, GraphName::DefaultGraph)
        };
        parts.into_iter().flatten().map(statement).collect()
    }
}
