//! DESCRIBE: for each resource, the statements of the default graph with it as the subject, and the
//! same for the blank nodes that these lead to.

use crate::algebra::error::QueryError;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::eval::evaluate::Evaluation;
use crate::view::sources::{self, Graphs, Lists};
use oxrdf::{NamedOrBlankNode, Term, Triple};
use rustc_hash::FxHashSet;
use somersault_lang::VarId;
use somersault_model::{Direction, Tag, TermId};

/// The description of all values of some columns.
pub(crate) fn describe(
    projection: &[VarId],
    table: &Table,
    graphs: &Graphs<'_>,
    evaluation: &Evaluation<'_>,
    limiter: &mut Limiter<'_>,
) -> Result<Vec<Triple>, QueryError> {
    let mut found: FxHashSet<TermId> = FxHashSet::default();
    let mut open: Vec<TermId> = Vec::new();
    for row in 0..table.rows {
        for variable in projection {
            let id = table.get(*variable, row);
            if !id.is_unbound() && found.insert(id) {
                open.push(id);
            }
        }
    }
    // Otherwise the last resource found is described first; the order of the rows reads better.
    open.reverse();
    let view = graphs.view();
    let default = graphs.default_graph();
    let mut description = Vec::new();
    let (mut predicates, mut lists) = (Vec::new(), Lists::default());
    while let Some(subject) = open.pop() {
        let out = Direction::Out;
        sources::predicates_of(view, default, subject, out, &mut predicates);
        for predicate in &predicates {
            let objects = sources::neighbours(view, default, subject, *predicate, out, &mut lists);
            for object in objects {
                limiter.tick()?;
                if object.tag() == Tag::BlankNode && found.insert(*object) {
                    open.push(*object);
                }
                description.extend(triple(evaluation, subject, *predicate, *object));
            }
            limiter.answer_rows(description.len())?;
            limiter.check_memory(description.len() * 256)?;
        }
    }
    Ok(description)
}

/// A statement of the graph as terms.
fn triple(
    evaluation: &Evaluation<'_>,
    subject: TermId,
    predicate: TermId,
    object: TermId,
) -> Option<Triple> {
    let subject = match evaluation.term(subject)? {
        Term::NamedNode(node) => NamedOrBlankNode::from(node),
        Term::BlankNode(node) => node.into(),
        Term::Literal(_) | Term::Triple(_) => return None,
    };
    let Term::NamedNode(predicate) = evaluation.term(predicate)? else {
        return None;
    };
    Some(Triple {
        subject,
        predicate,
        object: evaluation.term(object)?,
    })
}
