//! Writes messages, in the syntaxes in which they are read.

use super::MessageSyntax;
use oxjsonld::JsonLdSerializer;
use oxrdf::QuadRef;
use oxttl::{NQuadsSerializer, NTriplesSerializer, TriGSerializer, TurtleSerializer};
use std::io::{self, Write};

/// Writes messages one after the other.
///
/// ```
/// use oxrdf::{GraphName, NamedNode, Quad};
/// use somersault_lines::{MessageSyntax, MessageWriter};
/// let iri = |text: &str| NamedNode::new_unchecked(text);
/// let quad = Quad::new(iri("urn:a"), iri("urn:p"), iri("urn:b"), GraphName::DefaultGraph);
/// let mut writer = MessageWriter::new(Vec::new(), MessageSyntax::NTriples);
/// writer.write([quad.as_ref()])?;
/// writer.write([quad.as_ref()])?;
/// let text = String::from_utf8(writer.finish()?).unwrap();
/// let message = "<urn:a> <urn:p> <urn:b> .\n";
/// assert_eq!(text, format!("VERSION \"1.2-messages\"\n{message}MESSAGE\n{message}"));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<W> {
    out: W,
    syntax: MessageSyntax,
    is_begun: bool,
    /// Whether the text ends with a message that no delimiter has ended.
    is_open: bool,
}

impl<W: Write> MessageWriter<W> {
    /// A writer of a text that has no message yet.
    pub fn new(out: W, syntax: MessageSyntax) -> MessageWriter<W> {
        MessageWriter {
            out,
            syntax,
            is_begun: false,
            is_open: false,
        }
    }

    /// Writes a message.
    ///
    /// # Errors
    /// Those of the output; without statements, and for a named graph in a syntax that has none,
    /// [`io::ErrorKind::InvalidInput`], and then nothing is written.
    pub fn write<'q>(
        &mut self,
        statements: impl IntoIterator<Item = QuadRef<'q>>,
    ) -> io::Result<()> {
        let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidInput, message);
        let quads: Vec<QuadRef<'q>> = statements.into_iter().collect();
        if quads.is_empty() {
            return Err(invalid("a message has one statement at least"));
        }
        if !self.syntax.has_graphs() && quads.iter().any(|it| !it.graph_name.is_default_graph()) {
            let message = "the message has a named graph, which this syntax cannot show; write N-Quads, TriG or NDJSON-LD";
            return Err(invalid(message));
        }
        let text = self.message(&quads)?;
        self.delimit()?;
        self.is_open = true;
        self.out.write_all(&text)
    }

    /// Ends the newest message, so that a reader that follows the text need not wait for the next
    /// one.
    ///
    /// ```
    /// use oxrdf::{GraphName, NamedNode, Quad};
    /// use somersault_lines::{MessageSyntax, MessageWriter};
    /// let name = NamedNode::new_unchecked("urn:a");
    /// let quad = Quad::new(name.clone(), name.clone(), name, GraphName::DefaultGraph);
    /// let mut writer = MessageWriter::new(Vec::new(), MessageSyntax::NTriples);
    /// writer.write([quad.as_ref()])?;
    /// writer.end_message()?;
    /// let text = std::mem::take(writer.get_mut());
    /// assert!(text.ends_with(b"<urn:a> .\nMESSAGE\n"));
    /// writer.write([quad.as_ref()])?;
    /// assert!(writer.get_mut().starts_with(b"<urn:a>"));
    /// # Ok::<_, std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the output.
    pub fn end_message(&mut self) -> io::Result<()> {
        match self.is_open {
            true => self.delimit(),
            false => Ok(()),
        }
    }

    /// The output so far.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the text; without a message it has its VERSION alone.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if !self.is_begun {
            self.delimit()?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn delimit(&mut self) -> io::Result<()> {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let is_open = std::mem::replace(&mut self.is_open, false);
        let words = match (self.syntax, is_begun) {
            (MessageSyntax::NdJsonLd, _) => "",
            (_, true) if !is_open => "",
            (_, false) => "VERSION \"1.2-messages\"\n",
            (_, true) => "MESSAGE\n",
        };
        self.out.write_all(words.as_bytes())
    }

    fn message(&self, quads: &[QuadRef<'_>]) -> io::Result<Vec<u8>> {
        match self.syntax {
            MessageSyntax::NTriples => {
                let mut writer = NTriplesSerializer::new().for_writer(Vec::new());
                quads
                    .iter()
                    .try_for_each(|quad| writer.serialize_triple(*quad))?;
                Ok(writer.finish())
            }
            MessageSyntax::NQuads => {
                let mut writer = NQuadsSerializer::new().for_writer(Vec::new());
                quads
                    .iter()
                    .try_for_each(|quad| writer.serialize_quad(*quad))?;
                Ok(writer.finish())
            }
            MessageSyntax::Turtle => {
                let mut writer = TurtleSerializer::new().for_writer(Vec::new());
                quads
                    .iter()
                    .try_for_each(|quad| writer.serialize_triple(*quad))?;
                writer.finish()
            }
            MessageSyntax::TriG => {
                let mut writer = TriGSerializer::new().for_writer(Vec::new());
                quads
                    .iter()
                    .try_for_each(|quad| writer.serialize_quad(*quad))?;
                writer.finish()
            }
            MessageSyntax::NdJsonLd => {
                let mut writer = JsonLdSerializer::new().for_writer(Vec::new());
                quads
                    .iter()
                    .try_for_each(|quad| writer.serialize_quad(*quad))?;
                let mut line = writer.finish()?;
                line.push(b'\n');
                Ok(line)
            }
        }
    }
}
