//! INSERT DATA and DELETE DATA of ground statements, read straight from the tokens: most updates
//! that sources send are such, and the general parser takes many times as long for them.
//!
//! Before changing anything here: it reads plain spellings alone and refuses nothing. All else is
//! left to the general parser, which also says what is wrong with a text. Both give the same
//! (`tests/it/ground_data.rs`).

use crate::algebra::update::UpdateOperation;
use crate::text::cursor::Cursor;
use crate::text::names::{Names, string_value};
use crate::token::TokenKind;
use oxrdf::vocab::{rdf, xsd};
use oxrdf::{GraphName, Literal, NamedNode, NamedNodeRef, Quad, Term};

/// Reads the only operation of an update behind its prologue; `None` if it is no plain data.
pub(crate) fn read(mut cursor: Cursor<'_>, names: &Names) -> Option<UpdateOperation> {
    let inserts = cursor.is_keyword("INSERT");
    if !(inserts || cursor.is_keyword("DELETE")) || !cursor.is_keyword_at(1, "DATA") {
        return None;
    }
    cursor.at += 2;
    let mut data = GroundData {
        cursor,
        names,
        quads: Vec::new(),
    };
    data.braces(&GraphName::DefaultGraph)?;
    if !data.cursor.is_end() {
        return None;
    }
    Some(match inserts {
        true => UpdateOperation::InsertData(data.quads),
        false => UpdateOperation::DeleteData(data.quads),
    })
}

/// Statements, as far as they are read.
struct GroundData<'t> {
    cursor: Cursor<'t>,
    names: &'t Names,
    quads: Vec<Quad>,
}

impl GroundData<'_> {
    /// Statements of a graph in braces. Those of the default graph may have others in GRAPH.
    fn braces(&mut self, graph: &GraphName) -> Option<()> {
        self.take("{")?;
        let has_graphs = *graph == GraphName::DefaultGraph;
        loop {
            if self.cursor.take_punctuation("}") {
                return Some(());
            }
            if has_graphs && self.cursor.take_keyword("GRAPH") {
                let name = self.iri()?;
                self.braces(&name.into())?;
                self.cursor.take_punctuation(".");
                continue;
            }
            self.statements(graph)?;
            let goes_on = self.cursor.take_punctuation(".");
            let begins_graph = has_graphs && self.cursor.is_keyword("GRAPH");
            if !goes_on && !begins_graph && !self.cursor.is_punctuation("}") {
                return None;
            }
        }
    }

    /// The statements of one subject.
    fn statements(&mut self, graph: &GraphName) -> Option<()> {
        let subject = self.iri()?;
        loop {
            let predicate = self.verb()?;
            loop {
                let object = self.object()?;
                self.quads.push(Quad {
                    subject: subject.clone().into(),
                    predicate: predicate.clone(),
                    object,
                    graph_name: graph.clone(),
                });
                if !self.cursor.take_punctuation(",") {
                    break;
                }
            }
            if !self.cursor.take_punctuation(";") {
                return Some(());
            }
            while self.cursor.take_punctuation(";") {}
            if self.cursor.is_punctuation(".") || self.cursor.is_punctuation("}") {
                return Some(());
            }
        }
    }

    fn verb(&mut self) -> Option<NamedNode> {
        match self.cursor.peek_kind()? {
            TokenKind::Word if self.cursor.peek_text() == "a" => {
                self.cursor.bump();
                Some(rdf::TYPE.into_owned())
            }
            _ => self.iri(),
        }
    }

    fn object(&mut self) -> Option<Term> {
        let text = self.cursor.peek_text();
        let number = |datatype: NamedNodeRef<'_>| Literal::new_typed_literal(text, datatype);
        let literal = match self.cursor.peek_kind()? {
            TokenKind::String => return self.string(),
            TokenKind::Integer => number(xsd::INTEGER),
            TokenKind::Decimal => number(xsd::DECIMAL),
            TokenKind::Double => number(xsd::DOUBLE),
            TokenKind::Word if matches!(text, "true" | "false") => number(xsd::BOOLEAN),
            _ => return self.iri().map(Term::from),
        };
        self.cursor.bump();
        Some(literal.into())
    }

    /// A string, with a datatype or without.
    fn string(&mut self) -> Option<Term> {
        let text = self.cursor.peek_text();
        self.cursor.bump();
        if text.contains('\\') || self.cursor.peek_kind() == Some(TokenKind::LanguageTag) {
            return None;
        }
        let value = string_value(text);
        if !self.cursor.take_punctuation("^^") {
            return Some(Literal::new_simple_literal(value).into());
        }
        let datatype = self.iri()?;
        // Strings with a language have their own spelling.
        if datatype == rdf::LANG_STRING || datatype == rdf::DIR_LANG_STRING {
            return None;
        }
        Some(Literal::new_typed_literal(value, datatype).into())
    }

    fn iri(&mut self) -> Option<NamedNode> {
        let token = self.cursor.peek()?;
        let is_name = matches!(token.kind, TokenKind::Iri | TokenKind::PrefixedName);
        let text = self.cursor.peek_text();
        // The general parser resolves dots in relative IRIs alone.
        if !is_name || text.contains('\\') || text.contains("/.") {
            return None;
        }
        self.cursor.bump();
        self.names.resolve(self.cursor.source, token).ok()
    }

    fn take(&mut self, what: &str) -> Option<()> {
        self.cursor.take_punctuation(what).then_some(())
    }
}
