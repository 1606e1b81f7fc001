//! Intersection: binds a variable to the vertices that several patterns allow together. Where lists
//! are short, the pattern with the shortest lists is followed for a whole column, and the vertices
//! it leads to are merged with the lists of the others, or looked up there. Where lists are long,
//! rows are handled one by one, and the work for each row is bounded by its shortest list, so that
//! cyclic patterns are worst-case optimal.

use crate::algebra::error::QueryError;
use crate::algebra::logical::{Position, QuadPattern};
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::column_scan;
use crate::exec::explore::{End, Explorer, has_unbound};
use crate::view::sources::{self, Graphs, Lists, Reads};
use somersault_lang::VarId;
use somersault_model::{Direction, TermId, TripleIds};
use somersault_store::Ends;
use std::ops::Range;

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1 << 10;
/// The number of rows of a part that are sampled for the length of their lists.
const SAMPLED: usize = 8;
/// Lists that are longer than this on average, or eight times as long in one sampled row, are
/// handled row by row.
const LONG: usize = 128;
const VERY_LONG: usize = 8 * LONG;
/// The assumed cost of looking up one entry, in entries of a list that is read.
const LOOK_UP: usize = 6;

/// A list that is at most this many times as long as the shortest is fetched whole; in a longer one
/// single entries are looked up.
const FETCH_FACTOR: usize = 16;
/// Above this ratio of lengths the entries of the shorter list are searched in the longer one.
const SEARCH_FACTOR: usize = 32;
/// The number of ids of a list that are compared with one id at once.
const BLOCK: usize = 8;

/// One of the patterns: a list of candidates for each row.
struct Arm<'t, 'v> {
    view: &'v dyn crate::view::graph_view::GraphView,
    sources: Reads<'v>,
    from: End<'t>,
    predicate: TermId,
    direction: Direction,
    /// The vertex of the row before; rows that share it share the list.
    vertex: TermId,
    /// The greatest length that the list may have.
    length: usize,
    /// The known lengths of the lists in the rows that are read now.
    average: usize,
    longest: usize,
    /// The list, once it was fetched.
    list: Option<Vec<TermId>>,
    spare: Vec<TermId>,
    lists: Lists,
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
            lists,
            length,
            ..
        } = self;
        list.get_or_insert_with(|| {
            let found = sources::neighbours(
                self.view,
                &self.sources,
                self.vertex,
                self.predicate,
                self.direction,
                lists,
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

/// Binds a variable to the vertices that all patterns allow.
pub(crate) fn intersect(
    explorer: &mut Explorer<'_, '_>,
    variable: VarId,
    patterns: &[QuadPattern],
    table: Table,
) -> Result<Table, QueryError> {
    let mut made = Extensions {
        parents: explorer.workspace.rows(),
        ids: explorer.workspace.ids(),
    };
    let (graphs, constants) = (explorer.graphs, explorer.constants);
    let arm = |pattern: &QuadPattern| Arm::of(graphs, constants, variable, pattern, &table);
    with_arms(patterns, arm, |arms| {
        let by_column = arms.iter().all(|arm| match arm.from {
            End::Constant(_) => true,
            End::Column(column) => !has_unbound(column),
            End::Free => false,
        });
        let mut row = 0;
        while row < table.rows && made.ids.len() < explorer.wanted {
            let to = (row + ROWS_AT_ONCE).min(table.rows);
            if by_column && measure(arms, row, to) {
                row = columns_of(explorer, arms, row, to, &mut made);
            }
            // The rest of the part has long lists.
            rows_of(arms, row..to, &mut made, explorer, &table)?;
            row = to;
            explorer.limiter.check_growth(&table, made.ids.len(), 1)?;
        }
        Ok::<(), QueryError>(())
    })?;
    if explorer.is_dead(variable) {
        made.parents.dedup();
        made.ids.clear();
    }
    Ok(explorer.extended(table, made.parents, [(variable, made.ids)]))
}

/// The new rows: the row that each came from, and its value of the variable.
struct Extensions {
    parents: Vec<u32>,
    ids: Vec<TermId>,
}

/// Calls something with the arms of some patterns; a few cost no allocation.
fn with_arms<'t, 'v, R>(
    patterns: &[QuadPattern],
    arm: impl Fn(&QuadPattern) -> Arm<'t, 'v>,
    work: impl FnOnce(&mut [Arm<'t, 'v>]) -> R,
) -> R {
    match patterns {
        [a, b] => work(&mut [arm(a), arm(b)]),
        [a, b, c] => work(&mut [arm(a), arm(b), arm(c)]),
        _ => work(&mut patterns.iter().map(arm).collect::<Vec<_>>()),
    }
}

impl<'t, 'v> Arm<'t, 'v> {
    fn of(
        graphs: &'v Graphs<'_>,
        constants: &[TermId],
        variable: VarId,
        pattern: &QuadPattern,
        table: &'t Table,
    ) -> Arm<'t, 'v> {
        let (from, direction) = if pattern.object == Position::Variable(variable) {
            (pattern.subject, Direction::Out)
        } else {
            (pattern.object, Direction::In)
        };
        Arm {
            view: graphs.view(),
            sources: graphs.reads(pattern.graph, |c| constants[c.index()]),
            from: End::of(from, table, constants),
            predicate: match pattern.predicate {
                Position::Constant(constant) => constants[constant.index()],
                Position::Variable(_) => TermId::UNBOUND,
            },
            direction,
            vertex: TermId::UNBOUND,
            length: 0,
            average: 0,
            longest: 0,
            list: None,
            spare: Vec::new(),
            lists: Lists::default(),
        }
    }
}

/// Finds out, from a sample, how long the arms' lists are in some rows, and puts the shortest
/// first; whether all that matter are short.
fn measure(arms: &mut [Arm<'_, '_>], from: usize, to: usize) -> bool {
    let step = (to - from).div_ceil(SAMPLED);
    let mut longest_of_shortest = 0;
    for arm in arms.iter_mut() {
        let mut longest = 0;
        let sampled = match arm.from {
            End::Column(_) => (from..to).step_by(step).len(),
            _ => 1,
        };
        let mut sum = 0;
        for row in (from..to).step_by(step).take(sampled) {
            arm.turn_to(row);
            sum += arm.length;
            longest = longest.max(arm.length);
        }
        arm.average = sum.div_ceil(sampled);
        arm.longest = longest;
    }
    arms.sort_by_key(|arm| arm.average);
    if let Some(shortest) = arms.first() {
        longest_of_shortest = shortest.longest;
    }
    let one_row = to - from == 1;
    one_row
        || arms.first().is_some_and(|shortest| {
            shortest.average <= LONG
                && (longest_of_shortest <= VERY_LONG || arms.len() == 1)
                && matches!(shortest.from, End::Column(_))
        })
}

/// Makes the rows of a part column-wise. Returns the row at which it stopped because of long lists.
fn columns_of(
    explorer: &mut Explorer<'_, '_>,
    arms: &mut [Arm<'_, '_>],
    from: usize,
    to: usize,
    made: &mut Extensions,
) -> usize {
    let Some((shortest, others)) = arms.split_first() else {
        return to;
    };
    let workspace = &mut *explorer.workspace;
    let (mut rows, mut ids) = (workspace.rows(), workspace.ids());
    let budget = (to - from) * 4 * LONG;
    let done = from + shortest.expand(from, to, budget, (&mut rows, &mut ids), workspace);
    for arm in others {
        if ids.is_empty() {
            break;
        }
        let lists = arm.average * (done - from);
        let readable = matches!(arm.from, End::Column(_)) || done - from == 1;
        let merges = readable && lists <= LOOK_UP * ids.len();
        if !(merges && arm.merge(from, done, (&mut rows, &mut ids), workspace)) {
            arm.look_up((&mut rows, &mut ids), workspace);
        }
    }
    made.parents.extend_from_slice(&rows);
    made.ids.extend_from_slice(&ids);
    workspace.give_rows(rows);
    workspace.give_ids(ids);
    done
}

impl Arm<'_, '_> {
    /// Appends the lists of some rows. Returns how many rows were done.
    fn expand(
        &self,
        from: usize,
        to: usize,
        budget: usize,
        (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>),
        workspace: &mut Workspace,
    ) -> usize {
        let one;
        let vertices = match self.from {
            End::Column(column) => &column[from..to],
            constant => {
                one = [constant.at(from)];
                &one[..to - from]
            }
        };
        let key = (self.predicate, self.direction);
        column_scan::expand(
            self.view,
            &self.sources,
            key,
            vertices,
            from as u32,
            budget,
            (rows, ids),
            workspace,
        )
    }

    /// Keeps the vertices that this arm leads to as well, by reading its lists; both are ascending.
    /// Changes nothing, and says so, where the lists turn out to be long.
    fn merge(
        &self,
        from: usize,
        to: usize,
        (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>),
        workspace: &mut Workspace,
    ) -> bool {
        let (mut other_rows, mut other_ids) = (workspace.rows(), workspace.ids());
        let budget = 2 * LOOK_UP * ids.len() + 1;
        let others = (&mut other_rows, &mut other_ids);
        let merges = self.expand(from, to, budget, others, workspace) == to - from;
        if merges {
            let (mut kept, mut mine, mut theirs) = (0, 0, 0);
            while let Some(row) = rows.get(mine).copied() {
                let end = mine + run(&rows[mine..], |other| other == row);
                theirs += run(&other_rows[theirs..], |other| other < row);
                let their_end = theirs + run(&other_rows[theirs..], |other| other == row);
                let before = kept;
                kept = keep_common(ids, mine..end, kept, &other_ids[theirs..their_end]);
                rows[before..kept].fill(row);
                (mine, theirs) = (end, their_end);
            }
            rows.truncate(kept);
            ids.truncate(kept);
        }
        workspace.give_rows(other_rows);
        workspace.give_ids(other_ids);
        merges
    }

    /// Keeps the vertices that this arm leads to as well, entry by entry.
    fn look_up(&self, (rows, ids): (&mut Vec<u32>, &mut Vec<TermId>), workspace: &mut Workspace) {
        let mut vertices = workspace.ids();
        let ends = match self.from {
            End::Column(column) => {
                vertices.extend(rows.iter().map(|row| column[*row as usize]));
                Ends::Column(&vertices)
            }
            constant => Ends::One(constant.at(0)),
        };
        let (subjects, objects) = match self.direction {
            Direction::Out => (ends, Ends::Column(ids)),
            Direction::In => (Ends::Column(ids), ends),
        };
        let mut found = workspace.rows();
        column_scan::connected(
            self.view,
            &self.sources,
            self.predicate,
            subjects,
            objects,
            0,
            &mut found,
        );
        if found.len() < ids.len() {
            for (kept, at) in found.iter().enumerate() {
                rows[kept] = rows[*at as usize];
                ids[kept] = ids[*at as usize];
            }
            rows.truncate(found.len());
            ids.truncate(found.len());
        }
        workspace.give_rows(found);
        workspace.give_ids(vertices);
    }
}

/// Makes rows one by one, until there are enough.
fn rows_of(
    arms: &mut [Arm<'_, '_>],
    rows: Range<usize>,
    made: &mut Extensions,
    explorer: &mut Explorer<'_, '_>,
    table: &Table,
) -> Result<(), QueryError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut common = explorer.workspace.ids();
    for row in rows {
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
        made.ids.extend_from_slice(&common);
        made.parents.resize(made.ids.len(), row as u32);
        explorer.limiter.check_growth(table, made.ids.len(), 1)?;
        if made.ids.len() >= explorer.wanted {
            break;
        }
    }
    explorer.workspace.give_ids(common);
    Ok(())
}

/// Keeps the ids of a list that are also in the other; both are ascending.
fn retain_common(list: &mut Vec<TermId>, other: &[TermId]) {
    if other.len() > SEARCH_FACTOR * list.len() {
        let mut rest = other;
        list.retain(|id| {
            // Searches in doubling steps, then by halves.
            let mut step = 1;
            while step < rest.len() && rest[step] < *id {
                step *= 2;
            }
            let (from, to) = (step / 2, (step + 1).min(rest.len()));
            let at = from + rest[from..to].partition_point(|other| other < id);
            rest = &rest[at..];
            rest.first() == Some(id)
        });
        return;
    }
    let all = 0..list.len();
    let kept = keep_common(list, all, 0, other);
    list.truncate(kept);
}

/// The number of first rows that satisfy `so`.
fn run(rows: &[u32], so: impl Fn(u32) -> bool) -> usize {
    rows.iter().take_while(|row| so(**row)).count()
}

/// Takes the ids at some places of a list, and moves those that are also in the other list to the
/// place `kept`, which is not after them, and onwards; both lists are ascending. Returns the place
/// after the last moved id.
fn keep_common(list: &mut [TermId], places: Range<usize>, kept: usize, other: &[TermId]) -> usize {
    // A merge waits at each step for what was compared in the one before. Here a block of the other
    // list is passed over or compared as a whole, with no branch in it, and the ids of the list
    // hardly wait for each other.
    let (mut kept, mut passed) = (kept, 0);
    for place in places {
        let id = list[place];
        while passed + BLOCK <= other.len() && other[passed + BLOCK - 1] < id {
            passed += BLOCK;
        }
        let any = |block: &[TermId]| block.iter().fold(false, |any, other| any | (*other == id));
        let held = match other.get(passed..passed + BLOCK) {
            Some(block) => any(block),
            None => any(&other[passed..]),
        };
        list[kept] = id;
        kept += usize::from(held);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_intersection_keeps_common_values(
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
