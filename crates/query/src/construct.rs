//! CONSTRUCT: the template, filled in for each solution, with new blank nodes for each.

use crate::QueryError;
use crate::evaluate::Evaluation;
use crate::execution::Guard;
use crate::table::Table;
use oxrdf::{BlankNode, NamedNode, NamedOrBlankNode, Term, Triple};
use rustc_hash::{FxHashMap, FxHashSet};
use somersault_lang::{NameOrVariable, TemplateTerm, TripleTemplate};

/// One solution, as templates see it.
pub(crate) struct Filler<'f, 'a> {
    pub(crate) evaluation: &'f mut Evaluation<'a>,
    pub(crate) table: &'f Table,
    pub(crate) row: usize,
    /// The blank nodes of this solution.
    pub(crate) blank_nodes: &'f mut FxHashMap<u32, BlankNode>,
}

impl Filler<'_, '_> {
    /// The triple of a template; `None` where something is unbound or of the wrong kind.
    pub(crate) fn triple(&mut self, template: &TripleTemplate) -> Option<Triple> {
        let subject = match self.term(&template.subject)? {
            Term::NamedNode(node) => NamedOrBlankNode::NamedNode(node),
            Term::BlankNode(node) => NamedOrBlankNode::BlankNode(node),
            Term::Literal(_) | Term::Triple(_) => return None,
        };
        Some(Triple {
            subject,
            predicate: self.name(&template.predicate)?,
            object: self.term(&template.object)?,
        })
    }

    /// An IRI of a template.
    pub(crate) fn name(&mut self, name: &NameOrVariable) -> Option<NamedNode> {
        match name {
            NameOrVariable::NamedNode(node) => Some(node.clone()),
            NameOrVariable::Variable(variable) => {
                match self.evaluation.term(self.table.get(*variable, self.row))? {
                    Term::NamedNode(node) => Some(node),
                    _ => None,
                }
            }
        }
    }

    fn term(&mut self, template: &TemplateTerm) -> Option<Term> {
        Some(match template {
            TemplateTerm::Term(term) => term.clone(),
            TemplateTerm::Variable(variable) => {
                return self.evaluation.term(self.table.get(*variable, self.row));
            }
            TemplateTerm::BlankNode(number) => {
                let random = &mut self.evaluation.random;
                self.blank_nodes
                    .entry(*number)
                    .or_insert_with(|| random.blank_node())
                    .clone()
                    .into()
            }
            TemplateTerm::Triple(template) => Term::Triple(Box::new(self.triple(template)?)),
        })
    }
}

/// The graph that a template makes of a table; each triple once.
pub(crate) fn construct(
    template: &[TripleTemplate],
    table: &Table,
    evaluation: &mut Evaluation<'_>,
    guard: &mut Guard<'_>,
) -> Result<Vec<Triple>, QueryError> {
    let mut graph = Vec::new();
    let mut seen = FxHashSet::default();
    let mut blank_nodes = FxHashMap::default();
    for row in 0..table.rows {
        guard.tick()?;
        blank_nodes.clear();
        for triple in template {
            let mut filler = Filler {
                evaluation,
                table,
                row,
                blank_nodes: &mut blank_nodes,
            };
            if let Some(triple) = filler.triple(triple)
                && seen.insert(triple.clone())
            {
                graph.push(triple);
            }
        }
        guard.answer_rows(graph.len())?;
        guard.fits(graph.len() * 256)?;
    }
    Ok(graph)
}
