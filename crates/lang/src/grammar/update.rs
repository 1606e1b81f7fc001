//! Update requests.

use super::{
    Checked, Grammar, IN_DELETE, IN_DELETE_DATA, IN_INSERT_DATA, IN_TEMPLATE, Scope, TermRules,
};
use crate::text::error::ParseError;

impl Grammar<'_> {
    /// Checks a whole update request.
    pub(crate) fn update_unit(&mut self) -> Checked {
        self.prologue()?;
        while !self.cursor.is_end() {
            self.operation()?;
            self.blank_labels.clear();
            if !self.cursor.take_punctuation(";") {
                break;
            }
            self.prologue()?;
        }
        self.end("`;` between operations, or the end of the update")
    }

    fn operation(&mut self) -> Checked {
        let cursor = &mut self.cursor;
        if cursor.take_keyword("LOAD") {
            cursor.take_keyword("SILENT");
            self.iri("the IRI of the document to load")?;
            if self.cursor.take_keyword("INTO") {
                self.graph_reference()?;
            }
            return Ok(());
        }
        if cursor.is_any_keyword(&["CLEAR", "DROP"]) {
            self.refuse_statement()?;
            self.cursor.bump();
            self.cursor.take_keyword("SILENT");
            return self.graph_target();
        }
        if cursor.is_keyword("CREATE") {
            self.refuse_statement()?;
            self.cursor.bump();
            self.cursor.take_keyword("SILENT");
            return self.graph_reference();
        }
        if cursor.is_any_keyword(&["ADD", "MOVE", "COPY"]) {
            cursor.bump();
            cursor.take_keyword("SILENT");
            self.graph_or_default()?;
            self.cursor.expect_keyword("TO")?;
            return self.graph_or_default();
        }
        if cursor.is_any_keyword(&["INSERT", "DELETE", "WITH"]) {
            return self.modify();
        }
        if cursor.is_any_keyword(&["SELECT", "ASK", "CONSTRUCT", "DESCRIBE"]) {
            return Err(ParseError::syntax(
                cursor.source,
                cursor.offset(),
                format!(
                    "found {}, which begins a query, where an update was expected; send it as a query",
                    cursor.peek_text().to_ascii_uppercase()
                ),
            ));
        }
        Err(cursor.unexpected("INSERT, DELETE, WITH, LOAD, CLEAR, CREATE, DROP, ADD, MOVE or COPY"))
    }

    /// Streams and continuous queries are not managed by SPARQL Update.
    fn refuse_statement(&self) -> Checked {
        if self.cursor.is_keyword_at(1, "STREAM") || self.cursor.is_keyword_at(1, "QUERY") {
            return Err(ParseError::syntax(
                self.cursor.source,
                self.cursor.offset(),
                "this declares or drops a stream or a continuous query, which no SPARQL update can; send it as a statement of its own",
            ));
        }
        Ok(())
    }

    fn modify(&mut self) -> Checked {
        if self.cursor.take_keyword("WITH") {
            self.iri("the IRI of a graph")?;
        } else if self.cursor.is_keyword("INSERT") && self.cursor.is_keyword_at(1, "DATA") {
            self.cursor.at += 2;
            return self.quads(IN_INSERT_DATA);
        } else if self.cursor.is_keyword("DELETE") && self.cursor.is_keyword_at(1, "DATA") {
            self.cursor.at += 2;
            return self.quads(IN_DELETE_DATA);
        } else if self.cursor.is_keyword("DELETE") && self.cursor.is_keyword_at(1, "WHERE") {
            self.cursor.at += 2;
            return self.quads(IN_DELETE);
        }
        let deletes = self.cursor.take_keyword("DELETE");
        if deletes {
            self.quads(IN_DELETE)?;
        }
        if self.cursor.take_keyword("INSERT") {
            self.quads(IN_TEMPLATE)?;
        } else if !deletes {
            return Err(self.cursor.unexpected("DELETE or INSERT"));
        }
        self.blank_labels.clear();
        while self.cursor.take_keyword("USING") {
            self.cursor.take_keyword("NAMED");
            self.iri("the IRI of a graph")?;
        }
        if !self.cursor.take_keyword("WHERE") {
            return Err(self
                .cursor
                .unexpected("WHERE (or, for constants only, DATA after INSERT or DELETE)"));
        }
        self.group_graph_pattern().map(drop)
    }

    /// `{ triples GRAPH g { triples } … }`.
    pub(super) fn quads(&mut self, terms: TermRules) -> Checked {
        self.with_terms(terms, |grammar| {
            grammar.cursor.expect_punctuation("{")?;
            grammar.begin_bgp();
            let mut scope = Scope::new();
            loop {
                if grammar.cursor.take_keyword("GRAPH") {
                    grammar.variable_or_iri("the IRI of a graph")?;
                    grammar.braced_triples("triples")?;
                    grammar.cursor.take_punctuation(".");
                } else if grammar.at_triples() {
                    grammar.triples_same_subject(&mut scope)?;
                    if !grammar.cursor.take_punctuation(".") && grammar.at_triples() {
                        return Err(grammar
                            .cursor
                            .unexpected("`.`, `;` or `,` between triples, or `}`"));
                    }
                } else if grammar.cursor.take_punctuation("}") {
                    return Ok(());
                } else {
                    return Err(grammar.cursor.unexpected("a triple, GRAPH or `}`"));
                }
            }
        })
    }

    fn graph_reference(&mut self) -> Checked {
        self.cursor.expect_keyword("GRAPH")?;
        self.iri("the IRI of a graph").map(drop)
    }

    fn graph_target(&mut self) -> Checked {
        if self.cursor.is_any_keyword(&["DEFAULT", "NAMED", "ALL"]) {
            self.cursor.bump();
            return Ok(());
        }
        if !self.cursor.is_keyword("GRAPH") {
            return Err(self.cursor.unexpected("GRAPH <iri>, DEFAULT, NAMED or ALL"));
        }
        self.graph_reference()
    }

    fn graph_or_default(&mut self) -> Checked {
        if self.cursor.take_keyword("DEFAULT") {
            return Ok(());
        }
        self.cursor.take_keyword("GRAPH");
        self.iri("GRAPH <iri> or DEFAULT").map(drop)
    }
}
