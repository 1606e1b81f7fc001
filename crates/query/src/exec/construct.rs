//! Templates, instantiated per solution with new blank nodes: CONSTRUCT, and the statements that
//! updates insert and delete.

use crate::algebra::error::QueryError;
use crate::context::answer::Answer;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::eval::evaluate::Evaluation;
use crate::value::random::Random;
use crate::view::local_terms::quad_bytes;
use oxrdf::{BlankNode, GraphName, NamedOrBlankNode, Quad, Term, Triple};
use rustc_hash::{FxHashMap, FxHashSet};
use somersault_lang::{
    NameOrVariable, QuadTemplate, TemplateGraph, TemplateTerm, TripleTemplate, VarId,
};

/// One solution, as templates see it.
pub(crate) struct Filler<'f> {
    /// The value of a variable.
    pub(crate) value: &'f dyn Fn(VarId) -> Option<Term>,
    pub(crate) random: &'f mut Random,
    /// The blank nodes of this solution.
    pub(crate) blank_nodes: &'f mut FxHashMap<u32, BlankNode>,
}

impl Filler<'_> {
    /// The triple of a template; `None` if a part is unbound or of the wrong kind.
    pub(crate) fn triple(&mut self, template: &TripleTemplate) -> Option<Triple> {
        let subject = match self.term(&template.subject)? {
            Term::NamedNode(node) => NamedOrBlankNode::NamedNode(node),
            Term::BlankNode(node) => NamedOrBlankNode::BlankNode(node),
            Term::Literal(_) | Term::Triple(_) => return None,
        };
        let predicate = match &template.predicate {
            NameOrVariable::NamedNode(node) => node.clone(),
            NameOrVariable::Variable(variable) => match (self.value)(*variable)? {
                Term::NamedNode(node) => node,
                _ => return None,
            },
        };
        Some(Triple {
            subject,
            predicate,
            object: self.term(&template.object)?,
        })
    }

    /// The quad of a template.
    pub(crate) fn quad(&mut self, template: &QuadTemplate) -> Option<Quad> {
        let graph = match &template.graph {
            TemplateGraph::Default => GraphName::DefaultGraph,
            TemplateGraph::Named(NameOrVariable::NamedNode(node)) => node.clone().into(),
            TemplateGraph::Named(NameOrVariable::Variable(variable)) => {
                match (self.value)(*variable)? {
                    Term::NamedNode(node) => node.into(),
                    Term::BlankNode(node) => node.into(),
                    Term::Literal(_) | Term::Triple(_) => return None,
                }
            }
        };
        Some(self.triple(&template.triple)?.in_graph(graph))
    }

    fn term(&mut self, template: &TemplateTerm) -> Option<Term> {
        Some(match template {
            TemplateTerm::Term(term) => term.clone(),
            TemplateTerm::Variable(variable) => return (self.value)(*variable),
            TemplateTerm::BlankNode(number) => self
                .blank_nodes
                .entry(*number)
                .or_insert_with(|| self.random.blank_node())
                .clone()
                .into(),
            TemplateTerm::Triple(template) => Term::Triple(Box::new(self.triple(template)?)),
        })
    }
}

/// The graph that a template makes from a table, each triple once; a dataset if the template names
/// graphs.
pub(crate) fn construct(
    template: &[QuadTemplate],
    table: &Table,
    evaluation: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
) -> Result<Answer, QueryError> {
    let mut made = TemplateOutput::of(template);
    let mut bytes = 0;
    let mut blank_nodes = FxHashMap::default();
    let (local, dictionary) = (&evaluation.local, evaluation.dictionary);
    for row in 0..table.rows {
        limiter.tick()?;
        blank_nodes.clear();
        let mut filler = Filler {
            value: &|variable| local.term(table.get(variable, row), dictionary),
            random: &mut evaluation.random,
            blank_nodes: &mut blank_nodes,
        };
        bytes += made.add(template, &mut filler);
        limiter.answer_rows(made.len())?;
        limiter.check_memory(bytes)?;
    }
    Ok(made.into_answer())
}

/// The output of a template so far.
pub(crate) struct TemplateOutput {
    quads: Vec<Quad>,
    seen: FxHashSet<Quad>,
    has_names: bool,
}

impl TemplateOutput {
    /// The empty output of a template.
    pub(crate) fn of(template: &[QuadTemplate]) -> TemplateOutput {
        let is_named = |quad: &QuadTemplate| quad.graph != TemplateGraph::Default;
        TemplateOutput {
            quads: Vec::new(),
            seen: FxHashSet::default(),
            has_names: template.iter().any(is_named),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.quads.len()
    }

    /// Adds the output of one solution; returns the bytes that it takes.
    pub(crate) fn add(&mut self, template: &[QuadTemplate], filler: &mut Filler<'_>) -> usize {
        let mut bytes = 0;
        for quad in template {
            if let Some(quad) = filler.quad(quad)
                && !self.seen.contains(&quad)
            {
                // Both lists hold the quad, each with its own texts.
                bytes += 2 * quad_bytes(&quad);
                self.seen.insert(quad.clone());
                self.quads.push(quad);
            }
        }
        bytes
    }

    pub(crate) fn into_answer(self) -> Answer {
        match self.has_names {
            true => Answer::Dataset(self.quads),
            false => Answer::Graph(self.quads.into_iter().map(Triple::from).collect()),
        }
    }
}
