//! Graph patterns, triples and paths.

use super::{Checked, Grammar, IN_PATTERN, Scope, TermRules};
use crate::text::error::ParseError;
use crate::token::TokenKind;

const GROUP_MEMBER: &str =
    "a triple pattern, FILTER, OPTIONAL, GRAPH, UNION, BIND, VALUES, MINUS, SERVICE, `{` or `}`";

impl<'t> Grammar<'t> {
    /// `{ … }`; gives the variables that it binds.
    pub(super) fn group_graph_pattern(&mut self) -> Checked<Scope<'t>> {
        let open = self.cursor.offset();
        self.cursor.expect_punctuation("{")?;
        if self.cursor.is_keyword("SELECT") {
            let selection = self.select_clause()?;
            let visible = self.where_clause()?;
            let mut scope = self.select_tail(&selection, visible)?;
            if self.cursor.take_keyword("VALUES") {
                scope.extend(self.data_block()?);
            }
            return self
                .close_group(open, "`}` after the sub-select")
                .map(|()| scope);
        }
        let outer_terms = std::mem::replace(&mut self.terms, IN_PATTERN);
        let result = self.group_members(open);
        self.terms = outer_terms;
        result
    }

    fn close_group(&mut self, open: usize, expected: &str) -> Checked {
        if self.cursor.take_punctuation("}") {
            return Ok(());
        }
        if self.cursor.is_end() {
            let place = crate::token::Place::of(self.cursor.source, open);
            return Err(ParseError::syntax(
                self.cursor.source,
                self.cursor.offset(),
                format!("the text ends here, but the `{{` of {place} is not closed; add `}}`"),
            ));
        }
        Err(self.cursor.unexpected(expected))
    }

    fn group_members(&mut self, open: usize) -> Checked<Scope<'t>> {
        let mut scope = Scope::new();
        self.begin_bgp();
        loop {
            if self.cursor.is_punctuation("}") || self.cursor.is_end() {
                return self.close_group(open, "`}`").map(|()| scope);
            }
            let at_window = self.at_window_block();
            if at_window && !self.accept_windows {
                return Err(self.refuse_window_block());
            }
            if !at_window && self.at_triples() {
                self.triples_same_subject(&mut scope)?;
                if !self.cursor.take_punctuation(".") && self.at_triples() {
                    return Err(self
                        .cursor
                        .unexpected("`.`, `;` or `,` between triples, or `}`"));
                }
                continue;
            }
            self.group_member(&mut scope)?;
            self.cursor.take_punctuation(".");
        }
    }

    /// A member that is no triple.
    fn group_member(&mut self, scope: &mut Scope<'t>) -> Checked {
        // FILTER does not end a basic graph pattern; everything else does.
        if self.cursor.take_keyword("FILTER") {
            return self.constraint("a condition: `( … )`, a function call or EXISTS");
        }
        if self.cursor.is_punctuation("{") {
            loop {
                scope.extend(self.group_graph_pattern()?);
                if !self.cursor.take_keyword("UNION") {
                    break;
                }
            }
        } else if self.cursor.take_keyword("OPTIONAL") {
            scope.extend(self.group_graph_pattern()?);
        } else if self.cursor.take_keyword("MINUS") {
            self.group_graph_pattern()?;
        } else if self.take_graph() {
            scope.extend(self.variable_or_iri("a graph: an IRI or a variable")?);
            scope.extend(self.group_graph_pattern()?);
        } else if self.cursor.take_keyword("SERVICE") {
            self.cursor.take_keyword("SILENT");
            scope.extend(self.variable_or_iri("a service: an IRI or a variable")?);
            scope.extend(self.group_graph_pattern()?);
        } else if self.cursor.take_keyword("BIND") {
            self.bind(scope)?;
        } else if self.cursor.take_keyword("VALUES") {
            scope.extend(self.data_block()?);
        } else {
            return Err(self.not_a_member());
        }
        self.begin_bgp();
        Ok(())
    }

    /// `WINDOW w {` of RSP-QL or `STREAM s [ … ] {` of CQELS-QL.
    fn at_window_block(&self) -> bool {
        let cursor = &self.cursor;
        cursor.is_keyword("STREAM")
            || cursor.is_keyword("WINDOW") && cursor.is_punctuation_at(2, "{")
    }

    /// GRAPH, or what stands for it over a window.
    fn take_graph(&mut self) -> bool {
        let is_window = self.at_window_block();
        if is_window {
            self.cursor.bump();
        }
        is_window || self.cursor.take_keyword("GRAPH")
    }

    fn refuse_window_block(&self) -> ParseError {
        let cursor = &self.cursor;
        ParseError::semantics(
            cursor.source,
            cursor.offset(),
            format!(
                "{} reads a window, and this is no continuous query; register it, or take the window away",
                cursor.peek_text().to_ascii_uppercase()
            ),
        )
    }

    fn not_a_member(&self) -> ParseError {
        let cursor = &self.cursor;
        if cursor.is_keyword("UNION") {
            return ParseError::syntax(
                cursor.source,
                cursor.offset(),
                "found UNION without a group before it; write `{ … } UNION { … }`",
            );
        }
        if self.cursor.peek_kind() == Some(TokenKind::Word)
            && !self.accept_bare_names
            && self.may_be_bare_name()
        {
            return self.bare_name_without_namespace(GROUP_MEMBER);
        }
        cursor.unexpected(GROUP_MEMBER)
    }

    fn bind(&mut self, scope: &mut Scope<'t>) -> Checked {
        self.cursor.expect_punctuation("(")?;
        self.expression()?;
        if !self.cursor.take_keyword("AS") {
            return Err(self
                .cursor
                .unexpected("AS and a variable, as in `BIND(expression AS ?name)`,"));
        }
        let token = self.variable("the variable that takes the value")?;
        let name = self.variable_name(token);
        if !scope.insert(name) {
            return Err(self.semantics(
                token.start,
                format!("BIND gives ?{name} a value, but the pattern before it binds ?{name} already; choose another name"),
            ));
        }
        self.cursor.expect_punctuation(")")
    }

    /// `{ triples }`, of a template.
    pub(super) fn braced_triples(&mut self, expected: &str) -> Checked {
        let open = self.cursor.offset();
        self.cursor.expect_punctuation("{")?;
        let mut scope = Scope::new();
        while self.at_triples() {
            self.triples_same_subject(&mut scope)?;
            if !self.cursor.take_punctuation(".") {
                break;
            }
        }
        self.close_group(open, &format!("{expected}, or `}}`"))
    }

    pub(super) fn at_triples(&self) -> bool {
        match self.cursor.peek_kind() {
            Some(TokenKind::Variable | TokenKind::BlankLabel) => true,
            Some(TokenKind::Punctuation) => ["(", "[", "<<", "-", "+"]
                .iter()
                .any(|what| self.cursor.is_punctuation(what)),
            Some(TokenKind::Bad(_)) | None => false,
            _ => self.at_iri() || self.at_literal(),
        }
    }

    pub(super) fn triples_same_subject(&mut self, scope: &mut Scope<'t>) -> Checked {
        let may_stand_alone = self.cursor.is_punctuation("<<")
            && !self.cursor.is_punctuation_at(1, "(")
            || (self.cursor.is_punctuation("[") && !self.cursor.is_punctuation_at(1, "]"))
            || (self.cursor.is_punctuation("(") && !self.cursor.is_punctuation_at(1, ")"));
        self.graph_node(scope, "a subject")?;
        if may_stand_alone && !self.at_verb() {
            return Ok(());
        }
        self.property_list(scope)
    }

    fn at_verb(&self) -> bool {
        let cursor = &self.cursor;
        match cursor.peek_kind() {
            Some(TokenKind::Variable) => true,
            Some(TokenKind::Punctuation) => ["^", "!", "("]
                .iter()
                .any(|what| cursor.is_punctuation(what)),
            Some(TokenKind::Word) if cursor.peek_text() == "a" => true,
            _ => self.at_iri(),
        }
    }

    fn property_list(&mut self, scope: &mut Scope<'t>) -> Checked {
        loop {
            let is_path = self.verb(scope)?;
            self.object_list(scope, is_path)?;
            if !self.cursor.take_punctuation(";") {
                return Ok(());
            }
            while self.cursor.take_punctuation(";") {}
            if !self.at_verb() {
                return Ok(());
            }
        }
    }

    /// A predicate; gives whether it is a property path.
    fn verb(&mut self, scope: &mut Scope<'t>) -> Checked<bool> {
        if self.cursor.peek_kind() == Some(TokenKind::Variable) {
            scope.extend(self.variable_or_iri("a predicate")?);
            return Ok(false);
        }
        self.path()
    }

    /// The predicate of a triple in `<< … >>`, which takes no path.
    fn plain_verb(&mut self, scope: &mut Scope<'t>) -> Checked {
        let terms = TermRules {
            place: "a triple term",
            paths: false,
            ..self.terms
        };
        self.with_terms(terms, |grammar| grammar.verb(scope))
            .map(drop)
    }

    /// A property path; a single predicate is one.
    fn path(&mut self) -> Checked<bool> {
        let mut path_so_far = false;
        const EXPECTED: &str = "a predicate (an IRI, `a`, a variable or a property path)";
        loop {
            let offset = self.cursor.offset();
            let mut is_path = self.cursor.take_punctuation("^");
            if self.cursor.take_punctuation("!") {
                is_path = true;
                self.negated_set()?;
            } else if self.cursor.take_punctuation("(") {
                is_path = true;
                self.path()?;
                if !self.cursor.take_punctuation(")") {
                    return Err(self
                        .cursor
                        .unexpected("`/`, `|` or `)` in the property path"));
                }
            } else if self.cursor.peek_text() == "a"
                && self.cursor.peek_kind() == Some(TokenKind::Word)
            {
                self.cursor.bump();
            } else {
                self.iri(EXPECTED)?;
            }
            is_path |= ["*", "+", "?"]
                .iter()
                .any(|modifier| self.cursor.take_punctuation(modifier));
            let more = self.cursor.take_punctuation("/") || self.cursor.take_punctuation("|");
            path_so_far |= is_path || more;
            if path_so_far && !self.terms.paths {
                return Err(ParseError::syntax(
                    self.cursor.source,
                    offset,
                    format!(
                        "found a property path in {}, which takes plain predicates only",
                        self.terms.place
                    ),
                ));
            }
            if !more {
                return Ok(path_so_far);
            }
        }
    }

    fn negated_set(&mut self) -> Checked {
        if !self.cursor.take_punctuation("(") {
            return self.negated_member();
        }
        if self.cursor.take_punctuation(")") {
            return Ok(());
        }
        loop {
            self.negated_member()?;
            if !self.cursor.take_punctuation("|") {
                return self.cursor.expect_punctuation(")");
            }
        }
    }

    fn negated_member(&mut self) -> Checked {
        self.cursor.take_punctuation("^");
        if self.cursor.peek_text() == "a" && self.cursor.peek_kind() == Some(TokenKind::Word) {
            self.cursor.bump();
            return Ok(());
        }
        self.iri("a predicate").map(drop)
    }

    fn object_list(&mut self, scope: &mut Scope<'t>, after_path: bool) -> Checked {
        loop {
            self.graph_node(
                scope,
                "an object (a variable, an IRI, a literal or a blank node)",
            )?;
            self.annotations(scope, after_path)?;
            if !self.cursor.take_punctuation(",") {
                return Ok(());
            }
        }
    }

    /// SPARQL 1.2's `~ reifier` and `{| … |}` after an object.
    fn annotations(&mut self, scope: &mut Scope<'t>, after_path: bool) -> Checked {
        let mut named = false;
        loop {
            let annotated = self.cursor.is_punctuation("~") || self.cursor.is_punctuation("{|");
            if annotated && after_path {
                return Err(ParseError::syntax(
                    self.cursor.source,
                    self.cursor.offset(),
                    format!(
                        "{}, but what a property path finds is no triple to annotate; use a plain predicate",
                        self.cursor.describe_next()
                    ),
                ));
            }
            if self.cursor.is_punctuation("~") {
                named = self.reifier(scope)?;
            } else if self.cursor.is_punctuation("{|") {
                if !named && !self.terms.blank_nodes {
                    return Err(self.no_blank_nodes_here());
                }
                named = false;
                self.cursor.bump();
                self.property_list(scope)?;
                self.cursor.expect_punctuation("|}")?;
            } else {
                return Ok(());
            }
        }
    }

    /// `~ reifier`; gives whether it is named. One without a name is a blank node.
    fn reifier(&mut self, scope: &mut Scope<'t>) -> Checked<bool> {
        let tilde = self.cursor;
        self.cursor.bump();
        let before = self.cursor.at;
        self.optional_reifier(scope)?;
        let named = self.cursor.at > before;
        if !named && !self.terms.blank_nodes {
            self.cursor = tilde;
            return Err(self.no_blank_nodes_here());
        }
        Ok(named)
    }

    fn optional_reifier(&mut self, scope: &mut Scope<'t>) -> Checked {
        match self.cursor.peek_kind() {
            Some(TokenKind::Variable | TokenKind::BlankLabel) => {
                self.graph_node(scope, "a reifier")
            }
            _ if self.cursor.is_punctuation("[") => self.graph_node(scope, "a reifier"),
            _ if self.at_iri() => self.iri("a reifier").map(drop),
            _ => Ok(()),
        }
    }

    /// A variable, term, collection or blank node with properties.
    fn graph_node(&mut self, scope: &mut Scope<'t>, expected: &str) -> Checked {
        match self.cursor.peek_kind() {
            Some(TokenKind::Variable) => {
                scope.extend(self.variable_or_iri(expected)?);
                Ok(())
            }
            Some(TokenKind::BlankLabel) => self.blank_label(),
            Some(TokenKind::Punctuation) if self.cursor.is_punctuation("[") => {
                self.blank_node_properties(scope)
            }
            Some(TokenKind::Punctuation) if self.cursor.is_punctuation("(") => {
                self.collection(scope)
            }
            Some(TokenKind::Punctuation) if self.cursor.is_punctuation("<<") => {
                self.triple_node(scope)
            }
            _ if self.at_literal() => self.literal(),
            _ => self.iri(expected).map(drop),
        }
    }

    fn blank_label(&mut self) -> Checked {
        if !self.terms.blank_nodes {
            return Err(self.no_blank_nodes_here());
        }
        let label = self.cursor.peek_text();
        if *self.blank_labels.entry(label).or_insert(self.current_bgp) != self.current_bgp {
            return Err(self.semantics(
                self.cursor.offset(),
                format!("the blank node {label} is used in two separate patterns, where it cannot be the same node; use a variable"),
            ));
        }
        self.cursor.bump();
        Ok(())
    }

    fn no_blank_nodes_here(&self) -> ParseError {
        let remedy = if self.terms.place.starts_with("DELETE") {
            "use a variable in DELETE … WHERE"
        } else {
            "use a variable"
        };
        ParseError::syntax(
            self.cursor.source,
            self.cursor.offset(),
            format!(
                "{}, but no blank node can stand in {}; {remedy}",
                self.cursor.describe_next(),
                self.terms.place
            ),
        )
    }

    fn blank_node_properties(&mut self, scope: &mut Scope<'t>) -> Checked {
        if !self.terms.blank_nodes {
            return Err(self.no_blank_nodes_here());
        }
        self.refuse_window()?;
        self.cursor.bump();
        if self.cursor.take_punctuation("]") {
            return Ok(());
        }
        self.property_list(scope)?;
        if self.cursor.take_punctuation("]") {
            Ok(())
        } else {
            Err(self.cursor.unexpected("`;`, `,` or `]`"))
        }
    }

    /// `[RANGE …]` is a window, and stands elsewhere.
    pub(crate) fn refuse_window(&self) -> Checked {
        if self.cursor.is_keyword_at(1, "RANGE") {
            return Err(ParseError::syntax(
                self.cursor.source,
                self.cursor.offset(),
                "found a window here; windows belong to FROM STREAM <iri> [RANGE … STEP …] before WHERE",
            ));
        }
        Ok(())
    }

    fn collection(&mut self, scope: &mut Scope<'t>) -> Checked {
        self.cursor.bump();
        while !self.cursor.take_punctuation(")") {
            self.graph_node(scope, "a member of the list or `)`")?;
        }
        Ok(())
    }

    /// `<< s p o >>` or `<<( s p o )>>`.
    fn triple_node(&mut self, scope: &mut Scope<'t>) -> Checked {
        if self.cursor.is_punctuation_at(1, "(") {
            return self.triple_term(scope);
        }
        let open = self.cursor;
        self.cursor.bump();
        self.triple_member(scope, "the subject of the triple", true)?;
        self.plain_verb(scope)?;
        self.triple_member(scope, "the object of the triple", false)?;
        let named = self.cursor.is_punctuation("~") && self.reifier(scope)?;
        if !named && !self.terms.blank_nodes {
            self.cursor = open;
            return Err(self.no_blank_nodes_here());
        }
        self.cursor.expect_punctuation(">>")
    }

    /// `<<( s p o )>>`.
    pub(super) fn triple_term(&mut self, scope: &mut Scope<'t>) -> Checked {
        self.cursor.expect_punctuation("<<")?;
        self.cursor.expect_punctuation("(")?;
        self.triple_member(scope, "the subject of the triple term", true)?;
        self.plain_verb(scope)?;
        self.triple_member(scope, "the object of the triple term", false)?;
        self.cursor.expect_punctuation(")")?;
        self.cursor.expect_punctuation(">>")
    }

    /// A subject or object inside `<< … >>`: a plain term, no list and no blank node with
    /// properties.
    fn triple_member(&mut self, scope: &mut Scope<'t>, role: &str, is_subject: bool) -> Checked {
        let cursor = &self.cursor;
        let compound = cursor.is_punctuation("(")
            || (cursor.is_punctuation("[") && !cursor.is_punctuation_at(1, "]"));
        // A pattern may ask for what no triple term can have; an expression or data may not make
        // it.
        let makes_terms = is_subject && (!self.terms.variables || !self.terms.blank_nodes);
        let is_triple_term = cursor.is_punctuation("<<") && cursor.is_punctuation_at(1, "(");
        if compound || (makes_terms && (is_triple_term || self.at_literal())) {
            let kinds = if is_subject {
                "a variable, an IRI or a blank node"
            } else {
                "a variable or a single term"
            };
            return Err(cursor.unexpected(&format!("{kinds} as {role}")));
        }
        self.graph_node(scope, role)
    }
}
