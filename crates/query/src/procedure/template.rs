//! The templates of INSERT, DELETE and CONSTRUCT in steps: from the rows of a query to statements
//! as ids.
//!
//! The one thing to know before changing it: a statement with an unbound part, or with a part that
//! cannot stand there, is left out, as in SPARQL.

use crate::algebra::error::QueryError;
use crate::context::table::Table;
use crate::prepared::execute::Run;
use crate::prepared::plan_memory::KnownIds;
use crate::value::random::Random;
use crate::view::local_terms::LocalTerms;
use crate::view::term_source::TermSource;
use oxrdf::{BlankNode, GraphName, NamedNode, NamedOrBlankNode, Quad, Term, Triple};
use rustc_hash::FxHashMap;
use somersault_dictionary::{Dictionary, TermPin};
use somersault_lang::{
    Bound, NameOrVariable, QuadTemplate, Slot, TemplateGraph, TemplateTerm, TripleTemplate, VarId,
};
use somersault_model::{Lease, QuadIds, Tag, TermId};

/// The bytes of a statement as ids.
pub(crate) const IDS_BYTES: usize = size_of::<QuadIds>();

/// A part of a statement.
#[derive(Debug)]
enum Cell {
    /// A constant, as an index into the template's terms.
    Constant(usize),
    /// A variable of the query; where its slot has a value, that.
    Variable(VarId, Option<Slot>),
    /// A new blank node for each row and number.
    BlankNode(u32),
    /// A triple term of these.
    Triple(Box<[Cell; 3]>),
}

/// A statement of a template.
#[derive(Debug)]
struct StatementTemplate {
    graph: Option<Cell>,
    subject: Cell,
    predicate: Cell,
    object: Cell,
}

/// A template, with the ids of its constants once the dictionary knows them.
pub(crate) struct CompiledTemplate {
    statements: Vec<StatementTemplate>,
    constants: Vec<Term>,
    known: KnownIds,
    has_blank_node: bool,
}

impl CompiledTemplate {
    /// Compiles a template over the variables of a query.
    pub(crate) fn new(template: &[QuadTemplate], bound: &[Bound]) -> CompiledTemplate {
        let mut making = Making {
            bound,
            constants: Vec::new(),
            places: FxHashMap::default(),
            has_blank_node: false,
        };
        let statements = template.iter().map(|quad| making.statement(quad));
        let statements = statements.collect();
        making.into_template(statements)
    }

    /// Compiles the statements of INSERT DATA or DELETE DATA; a blank node stands for a new one.
    pub(crate) fn of_data(quads: &[Quad]) -> CompiledTemplate {
        let mut numbers: FxHashMap<BlankNode, u32> = FxHashMap::default();
        let mut making = Making {
            bound: &[],
            constants: Vec::new(),
            places: FxHashMap::default(),
            has_blank_node: false,
        };
        let mut statements = Vec::with_capacity(quads.len());
        for quad in quads {
            let mut cell = |term: Term| making.data(term, &mut numbers);
            statements.push(StatementTemplate {
                graph: match &quad.graph_name {
                    GraphName::DefaultGraph => None,
                    GraphName::NamedNode(name) => Some(cell(name.clone().into())),
                    GraphName::BlankNode(name) => Some(cell(name.clone().into())),
                },
                subject: cell(subject_term(quad.subject.clone())),
                predicate: cell(quad.predicate.clone().into()),
                object: cell(quad.object.clone()),
            });
        }
        making.into_template(statements)
    }

    /// Whether it makes a blank node for each row, so that the order of rows matters.
    pub(crate) fn has_blank_node(&self) -> bool {
        self.has_blank_node
    }
}

struct Making<'b> {
    bound: &'b [Bound],
    constants: Vec<Term>,
    places: FxHashMap<Term, usize>,
    has_blank_node: bool,
}

impl Making<'_> {
    fn into_template(self, statements: Vec<StatementTemplate>) -> CompiledTemplate {
        CompiledTemplate {
            statements,
            known: KnownIds::new(self.constants.len()),
            constants: self.constants,
            has_blank_node: self.has_blank_node,
        }
    }

    fn constant(&mut self, term: Term) -> Cell {
        let next = self.constants.len();
        let at = *self.places.entry(term).or_insert_with_key(|term| {
            self.constants.push(term.clone());
            next
        });
        Cell::Constant(at)
    }

    fn variable(&self, variable: VarId) -> Cell {
        let bound = self.bound.iter().find(|bound| bound.variable == variable);
        Cell::Variable(variable, bound.map(|bound| bound.slot))
    }

    fn name(&mut self, name: &NameOrVariable) -> Cell {
        match name {
            NameOrVariable::NamedNode(name) => self.constant(name.clone().into()),
            NameOrVariable::Variable(variable) => self.variable(*variable),
        }
    }

    fn term(&mut self, term: &TemplateTerm) -> Cell {
        match term {
            TemplateTerm::Term(term) => self.constant(term.clone()),
            TemplateTerm::Variable(variable) => self.variable(*variable),
            TemplateTerm::BlankNode(number) => {
                self.has_blank_node = true;
                Cell::BlankNode(*number)
            }
            TemplateTerm::Triple(triple) => Cell::Triple(Box::new(self.triple(triple))),
        }
    }

    fn triple(&mut self, triple: &TripleTemplate) -> [Cell; 3] {
        [
            self.term(&triple.subject),
            self.name(&triple.predicate),
            self.term(&triple.object),
        ]
    }

    fn statement(&mut self, quad: &QuadTemplate) -> StatementTemplate {
        let [subject, predicate, object] = self.triple(&quad.triple);
        StatementTemplate {
            graph: match &quad.graph {
                TemplateGraph::Default => None,
                TemplateGraph::Named(name) => Some(self.name(name)),
            },
            subject,
            predicate,
            object,
        }
    }

    fn data(&mut self, term: Term, numbers: &mut FxHashMap<BlankNode, u32>) -> Cell {
        match term {
            Term::BlankNode(node) => {
                self.has_blank_node = true;
                let next = numbers.len() as u32;
                Cell::BlankNode(*numbers.entry(node).or_insert(next))
            }
            Term::Triple(triple) if holds_blank_node(&triple) => Cell::Triple(Box::new([
                self.data(subject_term(triple.subject), numbers),
                self.constant(triple.predicate.into()),
                self.data(triple.object, numbers),
            ])),
            term => self.constant(term),
        }
    }
}

fn holds_blank_node(triple: &Triple) -> bool {
    let in_object = match &triple.object {
        Term::BlankNode(_) => true,
        Term::Triple(inner) => holds_blank_node(inner),
        Term::NamedNode(_) | Term::Literal(_) => false,
    };
    in_object || matches!(triple.subject, NamedOrBlankNode::BlankNode(_))
}

pub(crate) fn subject_term(subject: NamedOrBlankNode) -> Term {
    match subject {
        NamedOrBlankNode::NamedNode(node) => node.into(),
        NamedOrBlankNode::BlankNode(node) => node.into(),
    }
}

/// The dictionary of a transaction, with the lease under which its new terms are mentioned.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'t> {
    pub(crate) dictionary: &'t Dictionary,
    pub(crate) lease: &'t Lease,
}

impl Terms<'_> {
    /// The id of a term, which becomes known if it was not.
    pub(crate) fn mention(self, term: &Term) -> TermId {
        // Most terms are known for good.
        if let Some(id) = self.dictionary.lookup(term.as_ref()) {
            return id;
        }
        let mut mentions = self.dictionary.mentions(self.lease);
        self.dictionary.mention(term.as_ref(), &mut mentions)
    }

    /// The id of a value of an execution for the steps after it.
    pub(crate) fn settle(self, id: TermId, local: &LocalTerms) -> TermId {
        self.made(id, local, NewTerms::Mentioned)
    }

    fn made(self, id: TermId, local: &LocalTerms, new: NewTerms) -> TermId {
        if id.tag() != Tag::Local {
            return id;
        }
        let term = local.term(id, TermSource::Here(self.dictionary));
        term.map_or(TermId::UNBOUND, |term| self.id(&term, new))
    }

    /// The id of a term; unbound if it is in no statement.
    pub(crate) fn id(self, term: &Term, new: NewTerms) -> TermId {
        match new {
            NewTerms::Stored => self.dictionary.intern(term.as_ref()),
            NewTerms::Mentioned => self.mention(term),
            NewTerms::Absent => {
                let found = (self.dictionary).lookup_held(term.as_ref(), &mut TermPin::default());
                found.unwrap_or(TermId::UNBOUND)
            }
        }
    }

    /// The ids of a statement; `None` if it cannot exist.
    pub(crate) fn quad(self, quad: &Quad, new: NewTerms) -> Option<QuadIds> {
        let id = |term: &Term| {
            let id = self.id(term, new);
            (!id.is_unbound()).then_some(id)
        };
        Some(QuadIds {
            graph: match &quad.graph_name {
                GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                GraphName::NamedNode(name) => id(&name.clone().into())?,
                GraphName::BlankNode(name) => id(&name.clone().into())?,
            },
            subject: id(&subject_term(quad.subject.clone()))?,
            predicate: id(&quad.predicate.clone().into())?,
            object: id(&quad.object)?,
        })
    }
}

/// What fills a template.
pub(crate) struct Filling<'f> {
    pub(crate) template: &'f CompiledTemplate,
    pub(crate) slots: &'f [TermId],
    pub(crate) terms: Terms<'f>,
    /// What becomes of terms that the dictionary does not know yet.
    pub(crate) new_terms: NewTerms,
}

/// What becomes of the terms of a template that the dictionary does not know yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewTerms {
    /// A statement with such a term is left out: it cannot exist.
    Absent,
    /// They are known for good: the statement will be stored. A transaction that aborts leaves a
    /// few unused ones behind.
    Stored,
    /// They are known as long as the lease of the transaction.
    Mentioned,
}

impl Filling<'_> {
    /// Adds the statements for all rows of a table.
    pub(crate) fn all(
        &self,
        run: &mut Run<'_>,
        table: &Table,
        out: &mut Vec<QuadIds>,
    ) -> Result<(), QueryError> {
        let mut blank_nodes = Vec::new();
        for row in 0..table.rows {
            run.limiter.tick()?;
            run.limiter.check_memory(out.len() * IDS_BYTES)?;
            blank_nodes.clear();
            let evaluation = &mut run.evaluation;
            let mut filled = TemplateRow {
                filling: self,
                value: &|variable| table.get(variable, row),
                local: &evaluation.local,
                random: &mut evaluation.random,
                blank_nodes: &mut blank_nodes,
            };
            filled.add(out);
        }
        Ok(())
    }

    /// Adds the statements of data, which has no variables.
    pub(crate) fn once(&self, random: &mut Random, out: &mut Vec<QuadIds>) {
        let mut row = TemplateRow {
            filling: self,
            value: &|_| TermId::UNBOUND,
            local: &LocalTerms::default(),
            random,
            blank_nodes: &mut Vec::new(),
        };
        row.add(out);
    }
}

/// One row, as a template sees it.
struct TemplateRow<'r> {
    filling: &'r Filling<'r>,
    value: &'r dyn Fn(VarId) -> TermId,
    local: &'r LocalTerms,
    random: &'r mut Random,
    /// The new blank nodes of this row.
    blank_nodes: &'r mut Vec<(u32, TermId)>,
}

impl TemplateRow<'_> {
    fn add(&mut self, out: &mut Vec<QuadIds>) {
        let template = self.filling.template;
        for statement in &template.statements {
            out.extend(self.statement(statement));
        }
    }

    fn statement(&mut self, statement: &StatementTemplate) -> Option<QuadIds> {
        let is_node = |id: &TermId| matches!(id.tag(), Tag::NamedNode | Tag::BlankNode);
        let graph = match &statement.graph {
            None => TermId::DEFAULT_GRAPH,
            Some(cell) => self.id(cell).filter(is_node)?,
        };
        Some(QuadIds {
            graph,
            subject: self.id(&statement.subject).filter(is_node)?,
            predicate: (self.id(&statement.predicate)).filter(|id| id.tag() == Tag::NamedNode)?,
            object: self.id(&statement.object)?,
        })
    }

    fn id(&mut self, cell: &Cell) -> Option<TermId> {
        let Filling {
            slots,
            terms,
            new_terms,
            ..
        } = *self.filling;
        let id = match cell {
            Cell::Constant(at) => self.constant(*at),
            Cell::Variable(variable, slot) => {
                let given = slot.map_or(TermId::UNBOUND, |slot| slots[slot.0 as usize]);
                let id = match given.is_unbound() {
                    true => (self.value)(*variable),
                    false => given,
                };
                terms.made(id, self.local, new_terms)
            }
            Cell::BlankNode(number) => self.blank_node(*number),
            Cell::Triple(parts) => self.triple_term(parts)?,
        };
        (!id.is_unbound()).then_some(id)
    }

    fn constant(&self, at: usize) -> TermId {
        let template = self.filling.template;
        let dictionary = TermSource::Here(self.filling.terms.dictionary);
        let term = &template.constants[at];
        match template.known.are_of(dictionary.number()) {
            true => (template.known).id(at, dictionary, || dictionary.intern(term.as_ref())),
            false => dictionary.intern(term.as_ref()),
        }
    }

    fn blank_node(&mut self, number: u32) -> TermId {
        let known = self.blank_nodes.iter().find(|(of, _)| *of == number);
        if let Some((_, id)) = known {
            return *id;
        }
        let Filling {
            terms, new_terms, ..
        } = *self.filling;
        let id = terms.id(&self.random.blank_node().into(), new_terms);
        self.blank_nodes.push((number, id));
        id
    }

    fn triple_term(&mut self, [subject, predicate, object]: &[Cell; 3]) -> Option<TermId> {
        let Filling {
            terms, new_terms, ..
        } = *self.filling;
        let mut term = |cell: &Cell| terms.dictionary.decode(self.id(cell)?);
        let triple = Triple {
            subject: match term(subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                Term::Literal(_) | Term::Triple(_) => return None,
            },
            predicate: named(term(predicate)?)?,
            object: term(object)?,
        };
        Some(terms.id(&triple.into(), new_terms))
    }
}

fn named(term: Term) -> Option<NamedNode> {
    match term {
        Term::NamedNode(node) => Some(node),
        _ => None,
    }
}
