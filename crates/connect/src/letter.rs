//! Dead letters: what a stream is told of messages that another stream has refused.
//!
//! The one thing to know before changing it: a letter has the partition and the position of its
//! message as source and sequence number. So a message that is refused again, after a restart,
//! gives no second letter.

use crate::source::SourceMessage;
use somersault::oxrdf::vocab::rdf;
use somersault::oxrdf::{BlankNode, GraphName, Literal, NamedNode, Quad, Term};
use somersault::{Engine, EngineError, Push, StreamStatement};

const CLASS: &str = "urn:somersault:DeadLetter";
/// The bytes of a message that a letter quotes.
const QUOTED: usize = 16 << 10;

/// A message that a stream has refused.
pub(crate) struct Letter<'m> {
    pub(crate) stream: &'m str,
    pub(crate) partition: &'m str,
    pub(crate) message: &'m SourceMessage,
    pub(crate) reason: &'m str,
}

impl Letter<'_> {
    /// Pushes the letter into a stream.
    ///
    /// # Errors
    /// The stream does not take it.
    pub(crate) fn send(&self, engine: &Engine, into: &str) -> Result<(), EngineError> {
        // Sources of different streams are different sources here.
        let source = format!("{} {}", self.stream, self.partition);
        let push = Push {
            source: Some(source),
            seq: Some(self.message.position),
            statements: self.statements(),
        };
        engine.push(into, push).map(drop)
    }

    fn statements(&self) -> Vec<StreamStatement> {
        let (shown, bytes) = self.message.body.shown();
        let quoted = String::from_utf8_lossy(&shown[..shown.len().min(QUOTED)]);
        let text = |text: &str| Term::Literal(Literal::new_simple_literal(text));
        let iri = |iri: &str| NamedNode::new_unchecked(iri);
        let member = |name: &str| iri(&format!("urn:somersault:{name}"));
        let members = [
            (rdf::TYPE.into_owned(), Term::NamedNode(iri(CLASS))),
            (member("stream"), Term::NamedNode(iri(self.stream))),
            (member("source"), text(self.partition)),
            (
                member("number"),
                Literal::from(self.message.position).into(),
            ),
            (member("reason"), text(self.reason)),
            (member("bytes"), Literal::from(bytes).into()),
            (member("text"), text(&quoted)),
        ];
        // Labels of blank nodes are those of their push.
        let letter = BlankNode::new_unchecked("letter");
        let statement = |(predicate, value): (NamedNode, Term)| StreamStatement {
            at: None,
            quad: Quad::new(letter.clone(), predicate, value, GraphName::DefaultGraph),
        };
        members.into_iter().map(statement).collect()
    }
}
