//! A term as borrowed text, for code that writes terms out: nothing is copied and no `Term` is
//! made.
//!
//! Before changing it: the text of a term is `head` followed by `tail`. Where the dictionary shares
//! beginnings of IRIs, neither alone is the IRI.

use oxrdf::BaseDirection;
use somersault_model::{Tag, TermId, inline};

/// The kind of RDF term that a [`TermView`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermKind {
    /// An IRI.
    NamedNode,
    /// A blank node; its text is its label.
    BlankNode,
    /// A literal; its text is its lexical form.
    Literal,
    /// A triple term; it has no text, its parts are those of
    /// [`Dictionary::triple_term`](crate::Dictionary::triple_term).
    Triple,
}

/// A term's text, datatype, language and direction, borrowed from the place where they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermView<'a> {
    /// What kind of term this is.
    pub kind: TermKind,
    /// The beginning of the text; empty for most literals.
    pub head: &'a str,
    /// The rest of the text.
    pub tail: &'a str,
    /// The IRI of the datatype, for literals that are neither `xsd:string` nor language-tagged.
    pub datatype: Option<&'a str>,
    /// The language tag, as it was given.
    pub language: Option<&'a str>,
    /// The base direction, for directional language-tagged literals.
    pub direction: Option<BaseDirection>,
}

impl<'a> TermView<'a> {
    #[inline]
    pub(crate) fn of_text(kind: TermKind, head: &'a str, tail: &'a str) -> TermView<'a> {
        TermView {
            kind,
            head,
            tail,
            datatype: None,
            language: None,
            direction: None,
        }
    }

    /// The length of the text in bytes.
    pub fn text_len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Appends the text to `out`.
    #[inline]
    pub fn write_text(&self, out: &mut String) {
        out.reserve(self.text_len());
        out.push_str(self.head);
        out.push_str(self.tail);
    }
}

/// The literal of an inline id. Its lexical form is written into `buffer`, which is emptied first.
/// Returns `None` for ids of other kinds.
pub fn inline_view(id: TermId, buffer: &mut String) -> Option<TermView<'_>> {
    buffer.clear();
    inline::write_lexical(id, buffer)?;
    let mut view = TermView::of_text(TermKind::Literal, "", buffer);
    if id.tag() != Tag::ShortString {
        view.datatype = Some(inline::datatype(id)?.as_str());
    }
    Some(view)
}
