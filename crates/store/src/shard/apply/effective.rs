//! Finds the effective changes among those that an SN asks of a list. RDF is a set: inserting a
//! present member and deleting an absent one leave no trace.

use super::Certainty;
use crate::lists::Content;
use crate::lists::{Changes, gallop};
use somersault_model::{Operation, TermId};

/// The number of members of a list now.
pub(super) fn length(content: &Content<'_>) -> usize {
    match content {
        Content::One { .. } => 1,
        Content::Block(block) => block.ids.len(),
        Content::List(list) => list.len(u64::MAX),
        Content::Nothing | Content::Counter(_) => 0,
    }
}

/// Appends to `effective` those of `ids` whose insertion or deletion changes something.
pub(super) fn keep_effective(
    content: &Content<'_>,
    ids: &[TermId],
    operation: Operation,
    certainty: Certainty,
    effective: &mut Changes,
) {
    effective.clear();
    let side = match operation {
        Operation::Insert => &mut effective.inserts,
        Operation::Delete => &mut effective.deletes,
    };
    match certainty {
        Certainty::KnownEffective => side.extend_from_slice(ids),
        Certainty::Unknown => keep_members(content, ids, operation == Operation::Delete, side),
    }
}

/// Appends those of `ids` to `out` that are members now (or that are not).
fn keep_members(content: &Content<'_>, ids: &[TermId], members: bool, out: &mut Vec<TermId>) {
    match content {
        Content::Block(block) => {
            let mut rest = block.ids;
            out.extend(ids.iter().copied().filter(|id| {
                rest = &rest[gallop(rest, *id)..];
                (rest.first() == Some(id)) == members
            }));
        }
        Content::One { id: one, .. } => {
            out.extend(ids.iter().copied().filter(|id| (id == one) == members));
        }
        Content::List(list) => {
            let is_member = |id: &TermId| list.contains(u64::MAX, *id) == members;
            out.extend(ids.iter().copied().filter(is_member));
        }
        Content::Nothing | Content::Counter(_) => {
            if !members {
                out.extend_from_slice(ids);
            }
        }
    }
}
