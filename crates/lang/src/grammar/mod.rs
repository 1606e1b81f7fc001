//! The SPARQL grammar as a recogniser over our tokens. It builds nothing: it finds the place and
//! the words for an error, and tells which words stand where a term belongs (bare names).
//!
//! `spargebra` decides what is accepted; this recogniser runs where it refuses, or where there are
//! bare names. It must accept everything that `spargebra` accepts (a test holds it to that), and
//! may accept more.

mod expression;
mod pattern;
mod terms;
mod update;

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::token::{Token, TokenKind};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// The variables that a pattern binds.
pub(crate) type Scope<'t> = BTreeSet<&'t str>;

/// The recogniser.
pub(crate) struct Grammar<'t> {
    pub(crate) cursor: Cursor<'t>,
    /// The prefixes declared so far, without the colon.
    prefixes: BTreeSet<&'t str>,
    /// Whether a word may stand for an IRI.
    accept_bare_names: bool,
    /// Whether WINDOW and STREAM may stand where GRAPH may; their windows are taken out of the
    /// tokens.
    pub(crate) accept_windows: bool,
    /// The words that stand for IRIs, by index of their tokens.
    pub(crate) bare_names: Vec<usize>,
    /// Tokens that are right, but that `spargebra` reads only in another spelling: `TRUE`, and
    /// local names with dots in several places.
    pub(crate) respelled: Vec<usize>,
    /// Variables of grouped columns that name an earlier column, by index of their tokens.
    pub(crate) earlier_columns: Vec<usize>,
    /// Labels of blank nodes with the number of the basic graph pattern that they belong to.
    blank_labels: BTreeMap<&'t str, usize>,
    /// The number of the current basic graph pattern.
    current_bgp: usize,
    /// The number of basic graph patterns so far.
    bgp_count: usize,
    /// Variables read outside aggregates since the last column began, and whether there was an
    /// aggregate.
    free_variables: Vec<Token>,
    aggregate_depth: usize,
    saw_aggregate: bool,
    /// Whether variables and blank nodes may stand in the triples read now.
    terms: TermRules,
    has_base: bool,
}

/// Which terms a triple may hold in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TermRules {
    /// The construct, for messages; `None` = a pattern, in which everything may stand.
    place: &'static str,
    variables: bool,
    blank_nodes: bool,
    paths: bool,
}

const IN_PATTERN: TermRules = TermRules {
    place: "a pattern",
    variables: true,
    blank_nodes: true,
    paths: true,
};
const IN_TEMPLATE: TermRules = TermRules {
    place: "a template",
    variables: true,
    blank_nodes: true,
    paths: false,
};
const IN_INSERT_DATA: TermRules = TermRules {
    place: "INSERT DATA",
    variables: false,
    blank_nodes: true,
    paths: false,
};
const IN_DELETE_DATA: TermRules = TermRules {
    place: "DELETE DATA",
    variables: false,
    blank_nodes: false,
    paths: false,
};
const IN_DELETE: TermRules = TermRules {
    place: "DELETE",
    variables: true,
    blank_nodes: false,
    paths: false,
};

type Checked<T = ()> = Result<T, ParseError>;

impl<'t> Grammar<'t> {
    pub(crate) fn new(
        source: &'t str,
        tokens: &'t [Token],
        accept_bare_names: bool,
        has_base: bool,
    ) -> Self {
        Grammar {
            cursor: Cursor::new(source, tokens),
            prefixes: BTreeSet::new(),
            accept_bare_names,
            accept_windows: false,
            bare_names: Vec::new(),
            respelled: Vec::new(),
            earlier_columns: Vec::new(),
            blank_labels: BTreeMap::new(),
            current_bgp: 0,
            bgp_count: 0,
            free_variables: Vec::new(),
            aggregate_depth: 0,
            saw_aggregate: false,
            terms: IN_PATTERN,
            has_base,
        }
    }

    /// Checks a whole query.
    pub(crate) fn query_unit(&mut self) -> Checked {
        self.prologue()?;
        let cursor = &self.cursor;
        if cursor.is_keyword("SELECT") {
            self.select_query()?;
        } else if cursor.is_keyword("CONSTRUCT") {
            self.construct_query()?;
        } else if cursor.is_keyword("DESCRIBE") {
            self.describe_query()?;
        } else if cursor.is_keyword("ASK") {
            self.cursor.bump();
            self.dataset_clauses()?;
            self.where_clause()?;
            self.modifiers()?;
        } else if cursor.is_any_keyword(&[
            "INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH",
        ]) {
            return Err(ParseError::syntax(
                cursor.source,
                cursor.offset(),
                format!(
                    "found {}, which begins an update, where a query was expected; send it as an update",
                    cursor.peek_text().to_ascii_uppercase()
                ),
            ));
        } else {
            return Err(cursor.unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE"));
        }
        if self.cursor.take_keyword("VALUES") {
            self.data_block()?;
        }
        self.end("the end of the query")
    }

    fn end(&self, expected: &str) -> Checked {
        if self.cursor.is_end() {
            return Ok(());
        }
        let cursor = &self.cursor;
        if cursor.is_punctuation("}") {
            return Err(ParseError::syntax(
                cursor.source,
                cursor.offset(),
                "this `}` closes nothing; remove it, or open a group with `{` before it",
            ));
        }
        Err(cursor.unexpected(expected))
    }

    /// PREFIX, BASE and VERSION declarations.
    pub(crate) fn prologue(&mut self) -> Checked {
        loop {
            if self.cursor.take_keyword("BASE") {
                let Some(iri) = self.cursor.take_kind(TokenKind::Iri) else {
                    return Err(self.cursor.unexpected("the base IRI between `<` and `>`"));
                };
                self.check_iri(iri)?;
                self.has_base = true;
            } else if self.cursor.take_keyword("PREFIX") {
                let name = self.cursor.peek_text();
                let is_prefix =
                    self.cursor.peek_kind() == Some(TokenKind::PrefixedName) && name.ends_with(':');
                if !is_prefix || name.matches(':').count() != 1 {
                    return Err(self
                        .cursor
                        .unexpected("a prefix that ends with a colon, such as `ex:`,"));
                }
                self.cursor.bump();
                let Some(iri) = self.cursor.take_kind(TokenKind::Iri) else {
                    return Err(self
                        .cursor
                        .unexpected("the namespace of the prefix between `<` and `>`"));
                };
                self.check_iri(iri)?;
                self.prefixes.insert(&name[..name.len() - 1]);
            } else if self.cursor.take_keyword("VERSION") {
                let is_long = ["\"\"\"", "'''"]
                    .iter()
                    .any(|quote| self.cursor.peek_text().starts_with(quote));
                if is_long || self.cursor.take_kind(TokenKind::String).is_none() {
                    return Err(self.cursor.unexpected("a version such as \"1.2\""));
                }
            } else {
                return Ok(());
            }
        }
    }

    fn select_query(&mut self) -> Checked<Scope<'t>> {
        let selection = self.select_clause()?;
        self.dataset_clauses()?;
        let visible = self.where_clause()?;
        self.select_tail(&selection, visible)
    }

    /// Reads the solution modifiers of a SELECT, and checks its columns against the pattern.
    fn select_tail(&mut self, selection: &Selection<'t>, visible: Scope<'t>) -> Checked<Scope<'t>> {
        self.saw_aggregate = selection.has_aggregate;
        let keys = self.modifiers()?;
        let grouped = keys.is_some() || self.saw_aggregate;
        self.saw_aggregate = false;
        if let (Some(star), true) = (selection.star, grouped) {
            return Err(self.semantics(
                star,
                "SELECT * cannot stand with GROUP BY; name the columns",
            ));
        }
        if selection.star.is_some() {
            return Ok(visible);
        }
        let visible = if grouped {
            keys.unwrap_or_default()
        } else {
            visible
        };
        self.check_columns(&selection.columns, &visible, grouped)?;
        Ok(selection.columns.iter().map(|column| column.name).collect())
    }

    fn check_columns(
        &mut self,
        columns: &[Column<'t>],
        visible: &Scope<'t>,
        grouped: bool,
    ) -> Checked {
        let mut named = HashSet::new();
        for column in columns {
            let name = column.name;
            let bound_already = column.is_expression && visible.contains(name);
            if bound_already {
                return Err(self.semantics(
                    column.token.start,
                    format!("?{name} is bound by the pattern already, so an expression cannot be called ?{name}; choose another name after AS"),
                ));
            }
            for token in column.reads.iter().filter(|_| grouped) {
                let read = self.variable_name(*token);
                if visible.contains(read) {
                    continue;
                }
                if named.contains(read) && column.is_expression {
                    let tokens = self.cursor.tokens;
                    let index = tokens.partition_point(|before| before.start < token.start);
                    self.earlier_columns.push(index);
                    continue;
                }
                return Err(self.semantics(
                    token.start,
                    format!("?{read} is neither grouped nor aggregated; add it to GROUP BY, or take an aggregate such as SAMPLE(?{read})"),
                ));
            }
            if !named.insert(name) {
                return Err(self.semantics(
                    column.token.start,
                    format!("the column ?{name} is selected twice; remove one of the two"),
                ));
            }
        }
        Ok(())
    }

    fn select_clause(&mut self) -> Checked<Selection<'t>> {
        self.cursor.expect_keyword("SELECT")?;
        if !self.cursor.take_keyword("DISTINCT") {
            self.cursor.take_keyword("REDUCED");
        }
        let mut selection = Selection {
            star: None,
            columns: Vec::new(),
            has_aggregate: false,
        };
        let start = self.cursor.offset();
        if self.cursor.take_punctuation("*") {
            selection.star = Some(start);
            return Ok(selection);
        }
        let outer_aggregate = std::mem::take(&mut self.saw_aggregate);
        loop {
            self.free_variables.clear();
            if let Some(token) = self.cursor.take_kind(TokenKind::Variable) {
                let name = self.variable_name(token);
                selection.columns.push(Column {
                    name,
                    token,
                    is_expression: false,
                    reads: vec![token],
                });
            } else if self.cursor.take_punctuation("(") {
                self.expression()?;
                if !self.cursor.take_keyword("AS") {
                    return Err(self.cursor.unexpected(
                        "an operator, or AS and a variable as in `(expression AS ?name)`,",
                    ));
                }
                let token = self.variable("the variable that names the column")?;
                self.cursor.expect_punctuation(")")?;
                let reads = std::mem::take(&mut self.free_variables);
                selection.columns.push(Column {
                    name: self.variable_name(token),
                    token,
                    is_expression: true,
                    reads,
                });
            } else if selection.columns.is_empty() {
                return Err(self
                    .cursor
                    .unexpected("`*`, a variable or `(expression AS ?name)` to select"));
            } else {
                selection.has_aggregate =
                    std::mem::replace(&mut self.saw_aggregate, outer_aggregate);
                return Ok(selection);
            }
        }
    }

    fn construct_query(&mut self) -> Checked {
        self.cursor.bump();
        if self.cursor.is_punctuation("{") {
            if template_with_graph(&self.cursor).is_some() {
                self.quads(IN_TEMPLATE)?;
            } else {
                self.begin_bgp();
                self.with_terms(IN_TEMPLATE, |grammar| {
                    grammar.braced_triples("the triples of the template")
                })?;
            }
            self.blank_labels.clear();
            self.dataset_clauses()?;
            self.where_clause()?;
        } else {
            self.dataset_clauses()?;
            if !self.cursor.take_keyword("WHERE") {
                return Err(self.cursor.unexpected("a template `{ … }`, FROM or WHERE"));
            }
            self.begin_bgp();
            self.with_terms(IN_TEMPLATE, |grammar| {
                grammar.braced_triples("triples (CONSTRUCT WHERE takes no other pattern)")
            })?;
        }
        self.modifiers().map(drop)
    }

    fn describe_query(&mut self) -> Checked {
        self.cursor.bump();
        if !self.cursor.take_punctuation("*") {
            self.variable_or_iri("`*`, a variable or an IRI to describe")?;
            while !self.cursor.is_any_keyword(&[
                "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES",
            ]) && !self.cursor.is_punctuation("{")
                && !self.cursor.is_end()
            {
                self.variable_or_iri("a variable, an IRI, FROM or WHERE")?;
            }
        }
        self.dataset_clauses()?;
        if self.cursor.is_keyword("WHERE") || self.cursor.is_punctuation("{") {
            self.where_clause()?;
        }
        self.modifiers().map(drop)
    }

    fn dataset_clauses(&mut self) -> Checked {
        while self.cursor.take_keyword("FROM") {
            self.cursor.take_keyword("NAMED");
            self.iri("the IRI of a graph")?;
        }
        Ok(())
    }

    fn where_clause(&mut self) -> Checked<Scope<'t>> {
        if !self.cursor.take_keyword("WHERE") && !self.cursor.is_punctuation("{") {
            return Err(self.cursor.unexpected("WHERE or `{`"));
        }
        self.group_graph_pattern()
    }

    /// GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET. Gives the grouped variables where there is a
    /// GROUP BY.
    fn modifiers(&mut self) -> Checked<Option<Scope<'t>>> {
        let mut grouped = None;
        if self.cursor.take_keyword("GROUP") {
            self.cursor.expect_keyword("BY")?;
            grouped = Some(self.group_conditions()?);
        }
        if self.cursor.take_keyword("HAVING") {
            self.constraint("a condition such as `(COUNT(?x) > 3)`")?;
            while self.at_constraint() {
                self.constraint("a condition")?;
            }
        }
        if self.cursor.take_keyword("ORDER") {
            self.cursor.expect_keyword("BY")?;
            self.order_conditions()?;
        }
        self.limit_and_offset()?;
        Ok(grouped)
    }

    fn group_conditions(&mut self) -> Checked<Scope<'t>> {
        let mut keys = Scope::new();
        let mut count = 0;
        loop {
            if let Some(token) = self.cursor.take_kind(TokenKind::Variable) {
                keys.insert(self.variable_name(token));
            } else if self.cursor.take_punctuation("(") {
                self.expression()?;
                if self.cursor.take_keyword("AS") {
                    let token = self.variable("the variable that names the key")?;
                    keys.insert(self.variable_name(token));
                }
                self.cursor.expect_punctuation(")")?;
            } else if self.at_constraint() {
                self.constraint("an expression to group by")?;
            } else if count == 0 {
                return Err(self
                    .cursor
                    .unexpected("a variable or an expression to group by"));
            } else {
                return Ok(keys);
            }
            count += 1;
        }
    }

    fn order_conditions(&mut self) -> Checked {
        let mut count = 0;
        loop {
            if self.cursor.is_any_keyword(&["ASC", "DESC"]) {
                self.cursor.bump();
                self.bracketed_expression()?;
            } else if self.cursor.take_kind(TokenKind::Variable).is_some() {
            } else if self.at_constraint() {
                self.constraint("an expression to order by")?;
            } else if count == 0 {
                return Err(self
                    .cursor
                    .unexpected("a variable, ASC(…), DESC(…) or an expression to order by"));
            } else {
                return Ok(());
            }
            count += 1;
        }
    }

    fn limit_and_offset(&mut self) -> Checked {
        let mut seen = Vec::new();
        while self.cursor.is_any_keyword(&["LIMIT", "OFFSET"]) {
            let keyword = self.cursor.peek_text().to_ascii_uppercase();
            if seen.contains(&keyword) {
                return Err(self.cursor.unexpected(&format!("no second {keyword}")));
            }
            self.cursor.bump();
            if self.cursor.peek_kind() != Some(TokenKind::Integer)
                || self.cursor.peek_text().parse::<usize>().is_err()
            {
                return Err(self
                    .cursor
                    .unexpected(&format!("a whole number below 2^64 after {keyword}")));
            }
            self.cursor.bump();
            seen.push(keyword);
        }
        Ok(())
    }
}

/// The SELECT clause.
struct Selection<'t> {
    /// The place of `*`.
    star: Option<usize>,
    columns: Vec<Column<'t>>,
    has_aggregate: bool,
}

struct Column<'t> {
    name: &'t str,
    token: Token,
    is_expression: bool,
    /// The variables that it reads outside aggregates.
    reads: Vec<Token>,
}

/// The tokens of a CONSTRUCT template that begins here, with its braces, if there is GRAPH in it:
/// that is of RSP-QL.
pub(crate) fn template_with_graph(cursor: &Cursor<'_>) -> Option<Range<usize>> {
    let (start, mut ahead) = (cursor.at, *cursor);
    let (mut depth, mut has_graph) = (0usize, false);
    while let Some(token) = ahead.bump() {
        match token.text(ahead.source) {
            "{" => depth += 1,
            "}" => depth -= 1,
            word => {
                has_graph |= token.kind == TokenKind::Word && word.eq_ignore_ascii_case("GRAPH");
            }
        }
        if depth == 0 {
            break;
        }
    }
    has_graph.then_some(start..ahead.at)
}
