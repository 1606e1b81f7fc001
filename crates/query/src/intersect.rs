//! Intersection: binds a variable to what several patterns allow together, instead of expanding one
//! and filtering by the others. For each row the work is bounded by the shortest list, so that
//! cyclic patterns cost what their worst case must and no more.

use crate::QueryError;
use crate::Source;
use crate::execution::Guard;
use crate::explore::{End, Output};
use crate::logical::{Position, QuadPattern};
use crate::sources::{self, Graphs};
use crate::table::Table;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};
use std::cmp::Ordering;

/// A list that is at most so many times as long as the shortest is fetched whole; of a longer one
/// single entries are looked up.
const FETCH_FACTOR: usize = 16;
/// Above this ratio of lengths the entries of the shorter list are searched in the longer one.
const SEARCH_FACTOR: usize = 8;

/// One of the patterns: a list of candidates for each row.
struct Arm<'t, 'v> {
    view: &'v dyn crate::GraphView,
    sources: Vec<Source>,
    from: End<'t>,
    predicate: TermId,
    direction: Direction,
    /// The vertex of the row before; rows that share it share the list.
    vertex: TermId,
    /// How long the list is, at most.
    length: usize,
    /// The list, once it was fetched.
    list: Option<Vec<TermId>>,
    spare: Vec<TermId>,
    merged: Vec<TermId>,
}

impl Arm<'_, '_> {
    fn turn_to(&mut self, row: usize) {
        let vertex = self.from.at(row);
        if vertex == self.vertex {
            return;
        }
        self.vertex = vertex;
        if let Some(list) = self.list.take() {
            self.spare = list;
        }
        self.length = sources::neighbour_estimate(
            self.view,
            &self.sources,
            vertex,
            self.predicate,
            self.direction,
        );
    }

    fn fetch(&mut self) -> &[TermId] {
        let Arm {
            list,
            spare,
            merged,
            length,
            ..
        } = self;
        list.get_or_insert_with(|| {
            let mut scratch = Vec::new();
            let found = sources::neighbours(
                self.view,
                &self.sources,
                self.vertex,
                self.predicate,
                self.direction,
                &mut scratch,
                merged,
            );
            let mut own = std::mem::take(spare);
            own.clear();
            own.extend_from_slice(found);
            *length = own.len();
            own
        })
    }

    fn allows(&self, id: TermId) -> bool {
        let triple = match self.direction {
            Direction::Out => TripleIds::new(self.vertex, self.predicate, id),
            Direction::In => TripleIds::new(id, self.predicate, self.vertex),
        };
        sources::contains(self.view, &self.sources, triple)
    }
}

/// Binds a variable to what all patterns allow.
pub(crate) fn intersect(
    graphs: &Graphs<'_>,
    constants: &[TermId],
    guard: &mut Guard<'_>,
    variable: VarId,
    patterns: &[QuadPattern],
    table: Table,
) -> Result<Table, QueryError> {
    let mut arms: Vec<Arm<'_, '_>> = patterns
        .iter()
        .map(|pattern| {
            let (from, direction) = if pattern.object == Position::Variable(variable) {
                (pattern.subject, Direction::Out)
            } else {
                (pattern.object, Direction::In)
            };
            Arm {
                view: graphs.view,
                sources: graphs.sources_of(pattern.graph, |c| constants[c.index()]),
                from: End::of(from, &table, constants),
                predicate: match pattern.predicate {
                    Position::Constant(constant) => constants[constant.index()],
                    Position::Variable(_) => TermId::UNBOUND,
                },
                direction,
                vertex: TermId::UNBOUND,
                length: 0,
                list: None,
                spare: Vec::new(),
                merged: Vec::new(),
            }
        })
        .collect();
    let mut output = Output::new();
    output.place(variable);
    let mut common: Vec<TermId> = Vec::new();
    for row in 0..table.rows {
        guard.tick()?;
        arms.iter_mut().for_each(|arm| arm.turn_to(row));
        // Shortest first; the order is kept from row to row, and seldom changes.
        arms.sort_by_key(|arm| arm.length);
        let Some((shortest, others)) = arms.split_first_mut() else {
            break;
        };
        common.clear();
        if shortest.length > 0 {
            common.extend_from_slice(shortest.fetch());
        }
        for arm in others {
            if common.is_empty() {
                break;
            }
            if arm.list.is_some() || arm.length <= FETCH_FACTOR * common.len() {
                retain_common(&mut common, arm.fetch());
            } else {
                common.retain(|id| arm.allows(*id));
            }
        }
        let length = output.parents.len() + common.len();
        output.parents.resize(length, row as u32);
        output.columns[0].1.extend_from_slice(&common);
        output.check(guard, &table)?;
    }
    drop(arms);
    Ok(output.into_table(table))
}

/// Keeps of a list what is also in the other; both are ascending.
fn retain_common(list: &mut Vec<TermId>, other: &[TermId]) {
    if other.len() > SEARCH_FACTOR * list.len() {
        let mut rest = other;
        list.retain(|id| {
            let at = rest.partition_point(|other| other < id);
            rest = &rest[at..];
            rest.first() == Some(id)
        });
        return;
    }
    let (mut kept, mut mine, mut theirs) = (0, 0, 0);
    while mine < list.len() && theirs < other.len() {
        match list[mine].cmp(&other[theirs]) {
            Ordering::Less => mine += 1,
            Ordering::Greater => theirs += 1,
            Ordering::Equal => {
                list[kept] = list[mine];
                kept += 1;
                mine += 1;
                theirs += 1;
            }
        }
    }
    list.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn what_is_common_is_kept(
            a in proptest::collection::btree_set(0u64..60, 0..30),
            b in proptest::collection::btree_set(0u64..600, 0..300),
        ) {
            let ids = |set: &BTreeSet<u64>| -> Vec<TermId> {
                set.iter().map(|id| TermId::from_raw(*id)).collect()
            };
            let mut list = ids(&a);
            retain_common(&mut list, &ids(&b));
            prop_assert_eq!(list, ids(&a.intersection(&b).copied().collect()));
        }
    }
}
