//! Cells: the distinct constants of queries of one shape that are evaluated together. Queries with
//! the same constants share a cell. The one thing to know before changing it: the number of an
//! empty cell is used again, so a query that keeps a number must be a member of the cell.

use somersault_dictionary::{Slots, prefetch};
use somersault_model::TermId;
use std::ops::Range;

/// The number of rows that are looked up before the first of them is compared.
const TOGETHER: usize = 64;

/// The cells of queries that have the same number of constants.
#[derive(Debug, Clone)]
pub struct Cells {
    width: usize,
    /// The constants of all cells, one cell after the other.
    ids: Vec<TermId>,
    /// The number of queries that are in each cell; 0 = the cell is free.
    members: Vec<u32>,
    free: Vec<u32>,
    /// The number of each used cell, plus one.
    index: Slots,
    /// The number of times that a cell was created or freed.
    changes: u64,
}

/// The hash of a cell's constants. All its bits are well mixed.
#[inline]
fn hash(ids: impl Iterator<Item = TermId>) -> u32 {
    let mixed = ids.fold(0, |mixed: u64, id| {
        let product = (mixed ^ id.raw()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    });
    // The lower half of the result mixes both halves of the last product.
    mixed as u32
}

#[inline]
fn hash_of(ids: &[TermId]) -> u32 {
    hash(ids.iter().copied())
}

impl Cells {
    /// No cells yet, for queries with `width` constants.
    pub fn new(width: usize) -> Cells {
        Cells {
            width,
            ids: Vec::new(),
            members: Vec::new(),
            free: Vec::new(),
            index: Slots::default(),
            changes: 0,
        }
    }

    /// The number of times that a cell was created or freed. While this number stays the same, so
    /// do the cells.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The number of cells that have a member.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no cell has a member.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The number of constants that a cell has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Puts one more query into the cell of these constants.
    ///
    /// # Panics
    /// If the number of constants is not that of the cells.
    pub fn enter(&mut self, ids: &[TermId]) -> u32 {
        assert_eq!(ids.len(), self.width, "a cell has all constants");
        if let Some(cell) = self.find(ids) {
            self.members[cell as usize] += 1;
            return cell;
        }
        // A cell in the list may have been entered by its number since.
        while (self.free.last()).is_some_and(|cell| self.members(*cell) > 0) {
            self.free.pop();
        }
        let cell = match self.free.pop() {
            Some(cell) => {
                let width = self.width;
                self.ids[cell as usize * width..][..width].copy_from_slice(ids);
                self.members[cell as usize] = 1;
                cell
            }
            None => {
                grow(&mut self.ids, self.width);
                self.ids.extend_from_slice(ids);
                grow(&mut self.members, 1);
                self.members.push(1);
                (self.members.len() - 1) as u32
            }
        };
        self.index.insert(hash_of(ids), cell + 1);
        self.changes += 1;
        cell
    }

    /// Puts one more query into the cell of this number, which it was in before a restart. Returns
    /// whether the cell has these constants, or had none.
    ///
    /// # Panics
    /// If the number of constants is not that of the cells.
    #[must_use]
    pub fn enter_again(&mut self, cell: u32, ids: &[TermId]) -> bool {
        assert_eq!(ids.len(), self.width, "a cell has all constants");
        if let Some(found) = self.find(ids) {
            self.members[found as usize] += 1;
            return found == cell;
        }
        let known = self.members.len() as u32;
        if cell >= known {
            self.free.extend(known..cell);
            self.members.resize(cell as usize + 1, 0);
            self.ids
                .resize(self.members.len() * self.width, TermId::UNBOUND);
        } else if self.members(cell) > 0 {
            return false;
        }
        let width = self.width;
        self.ids[cell as usize * width..][..width].copy_from_slice(ids);
        self.members[cell as usize] = 1;
        self.index.insert(hash_of(ids), cell + 1);
        self.changes += 1;
        true
    }

    /// Takes a query out of its cell.
    pub fn leave(&mut self, cell: u32) {
        let left = &mut self.members[cell as usize];
        *left -= 1;
        if *left == 0 {
            self.index.remove(hash_of(self.get(cell)), cell + 1);
            self.free.push(cell);
            self.changes += 1;
        }
    }

    /// Some of the cells, under the same numbers.
    pub fn part(&self, numbers: &[u32]) -> Cells {
        let mut part = Cells::new(self.width);
        part.ids.clone_from(&self.ids);
        part.members.resize(self.members.len(), 0);
        for cell in numbers {
            part.members[*cell as usize] = self.members(*cell);
            part.index.insert(hash_of(self.get(*cell)), cell + 1);
        }
        part
    }

    /// The constants of a cell.
    pub fn get(&self, cell: u32) -> &[TermId] {
        &self.ids[cell as usize * self.width..][..self.width]
    }

    /// The number of queries in a cell.
    pub fn members(&self, cell: u32) -> u32 {
        self.members[cell as usize]
    }

    /// The cell of these constants.
    #[inline]
    pub fn find(&self, ids: &[TermId]) -> Option<u32> {
        let is_it = |number: u32| (self.get(number - 1) == ids).then_some(number - 1);
        self.index.find(hash_of(ids), is_it)
    }

    /// Calls `found` for each of some rows, in order, with the cell whose constants are its values.
    /// Rows are looked up together: the memory of some is prefetched while others are compared.
    #[inline]
    pub(crate) fn look_up(
        &self,
        columns: &[&[TermId]],
        rows: Range<usize>,
        mut found: impl FnMut(usize, Option<u32>),
    ) {
        let mut hashes = [0; TOGETHER];
        for first in rows.clone().step_by(TOGETHER) {
            let together = first..(first + TOGETHER).min(rows.end);
            for (row, hashed) in together.clone().zip(&mut hashes) {
                *hashed = hash(columns.iter().map(|ids| ids[row]));
                self.index.prefetch(*hashed);
            }
            for hashed in &hashes[..together.len()] {
                if let Some(number) = self.index.find(*hashed, Some) {
                    prefetch(self.get(number - 1).as_ptr());
                }
            }
            for (row, hashed) in together.zip(&hashes) {
                let is_it = |number: u32| {
                    let mut pairs = self.get(number - 1).iter().zip(columns);
                    pairs.all(|(id, ids)| *id == ids[row]).then_some(number - 1)
                };
                found(row, self.index.find(*hashed, is_it));
            }
        }
    }

    /// The numbers of all cells that have a member, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.members.len() as u32).filter(|cell| self.members[*cell as usize] > 0)
    }

    /// The values of one constant in all cells.
    pub(crate) fn column(&self, at: usize, into: &mut Vec<TermId>) {
        into.extend(self.numbers().map(|cell| self.get(cell)[at]));
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<TermId>()
            + (self.members.capacity() + self.free.capacity()) * 4
            + self.index.bytes()
    }
}

/// Makes room for `more`, an eighth at a time: a list that doubled would leave up to half of it
/// unused.
fn grow<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_constants_share_a_cell_until_all_have_left() {
        let id = |number: u64| TermId::from_raw(1 << 60 | number);
        let mut cells = Cells::new(2);
        let first = cells.enter(&[id(1), id(2)]);
        let other = cells.enter(&[id(2), id(1)]);
        assert_eq!(cells.enter(&[id(1), id(2)]), first);
        assert_ne!(first, other);
        assert_eq!((cells.len(), cells.members(first)), (2, 2));
        cells.leave(first);
        assert_eq!(cells.find(&[id(1), id(2)]), Some(first));
        cells.leave(first);
        assert_eq!(cells.find(&[id(1), id(2)]), None);
        assert_eq!(cells.numbers().collect::<Vec<_>>(), [other]);
        assert_eq!(cells.enter(&[id(3), id(3)]), first);
        assert_eq!(cells.get(first), [id(3), id(3)]);
        assert_eq!(cells.find(&[id(2), id(1)]), Some(other));
        let mut none = Cells::new(0);
        assert_eq!((none.enter(&[]), none.enter(&[]), none.len()), (0, 0, 1));
    }

    #[test]
    fn cells_are_entered_again_under_their_numbers() {
        let id = |number: u64| [TermId::from_raw(1 << 60 | number)];
        let mut cells = Cells::new(1);
        for (cell, number) in [(3, 30), (1, 10), (3, 30)] {
            assert!(cells.enter_again(cell, &id(number)));
        }
        assert_eq!(cells.numbers().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(cells.members(3), 2);
        assert!(!cells.clone().enter_again(1, &id(30)), "it is in cell 3");
        assert!(!cells.clone().enter_again(1, &id(20)), "it has another");
        // The numbers between are free, and each is given once.
        let mut entered: Vec<u32> = (40..44).map(|number| cells.enter(&id(number))).collect();
        entered.sort_unstable();
        assert_eq!(entered, [0, 2, 4, 5]);
        cells.leave(1);
        assert_eq!(cells.enter(&id(50)), 1);
        assert_eq!(cells.enter(&id(51)), 6);
    }

    #[test]
    fn rows_that_are_looked_up_together_are_those_that_are_found_one_by_one() {
        let id = |number: u64| TermId::from_raw(1 << 60 | number);
        for width in 0..3 {
            let mut cells = Cells::new(width);
            let of = |number: u64| vec![id(number % 300); width];
            let entered: Vec<u32> = (0..200).map(|number| cells.enter(&of(number))).collect();
            // A freed cell is not found, even where a later one probes past its place.
            entered
                .iter()
                .step_by(3)
                .for_each(|cell| cells.leave(*cell));
            let values: Vec<TermId> = (0..600).map(|row| id(row * 7 % 300)).collect();
            let columns = vec![&values[..]; width];
            for rows in [0..0, 0..1, 5..68, 5..69, 5..70, 17..217, 0..600] {
                let mut together = Vec::new();
                cells.look_up(&columns, rows.clone(), |row, cell| {
                    together.push((row, cell));
                });
                let alone = rows.map(|row| (row, cells.find(&vec![values[row]; width])));
                assert_eq!(together, alone.collect::<Vec<_>>());
            }
        }
    }
}
