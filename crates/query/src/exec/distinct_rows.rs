//! Rows found again by the values of some columns: what joins, DISTINCT and grouping are made of.
//! Keys are hashed by the column, and looked for in one table of group numbers; what is compared
//! are the columns themselves, so that no key is ever copied.

use crate::algebra::error::QueryError;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use somersault_lang::VarId;
use somersault_model::TermId;

/// An empty slot.
const NONE: u32 = u32::MAX;
/// Rows that are hashed, and looked for, at once: their slots are fetched together.
const ROWS_AT_ONCE: usize = 512;
/// An odd number without a pattern (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The columns of a key in one table; `None` where the table has no such column.
pub(crate) struct KeyColumns<'t> {
    columns: Vec<Option<&'t [TermId]>>,
}

impl<'t> KeyColumns<'t> {
    pub(crate) fn of(table: &'t Table, variables: &[VarId]) -> KeyColumns<'t> {
        KeyColumns {
            columns: variables.iter().map(|v| table.column(*v)).collect(),
        }
    }

    /// The hashes of some rows.
    fn hash(&self, from: usize, to: usize, hashes: &mut Vec<u64>) {
        hashes.clear();
        hashes.resize(to - from, 0);
        for column in self.columns.iter().flatten() {
            for (hash, id) in hashes.iter_mut().zip(&column[from..to]) {
                let mixed = (*hash ^ id.raw()).wrapping_mul(SPREAD);
                *hash = mixed ^ (mixed >> 32);
            }
        }
    }

    #[inline]
    fn equals(&self, row: usize, other: &KeyColumns<'_>, other_row: usize) -> bool {
        let value =
            |column: &Option<&[TermId]>, row: usize| column.map_or(TermId::UNBOUND, |ids| ids[row]);
        self.columns
            .iter()
            .zip(&other.columns)
            .all(|(a, b)| value(a, row) == value(b, other_row))
    }
}

/// The distinct keys of a table, numbered as they come: by open addressing, at most half full.
struct KeyIndex {
    slots: Vec<u32>,
    /// Per group: the hash, and the first row.
    hashes: Vec<u64>,
    firsts: Vec<u32>,
}

impl KeyIndex {
    fn new() -> KeyIndex {
        KeyIndex {
            slots: vec![NONE; 64],
            hashes: Vec::new(),
            firsts: Vec::new(),
        }
    }

    #[inline]
    fn slot_of(&self, hash: u64) -> usize {
        // The higher bits are the better mixed ones.
        (hash.wrapping_mul(SPREAD) >> 32) as usize & (self.slots.len() - 1)
    }

    /// The group under a hash whose first row passes, or the slot where it would be.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let mut slot = self.slot_of(hash);
        loop {
            let group = self.slots[slot];
            if group == NONE {
                return Err(slot);
            }
            if self.hashes[group as usize] == hash && is_it(self.firsts[group as usize]) {
                return Ok(group);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn add(&mut self, hash: u64, row: u32, slot: usize) -> u32 {
        let group = self.firsts.len() as u32;
        self.slots[slot] = group;
        self.hashes.push(hash);
        self.firsts.push(row);
        if self.firsts.len() * 2 > self.slots.len() {
            self.grow();
        }
        group
    }

    fn grow(&mut self) {
        self.slots = vec![NONE; self.slots.len() * 4];
        for group in 0..self.firsts.len() {
            let mut slot = self.slot_of(self.hashes[group]);
            while self.slots[slot] != NONE {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = group as u32;
        }
    }

    fn bytes(&self) -> usize {
        self.slots.len() * 4 + self.firsts.len() * 12
    }
}

/// Calls `each` with the rows of a key and their hashes, whose slots have been touched.
fn in_parts(
    key: &KeyColumns<'_>,
    rows: usize,
    groups: &mut KeyIndex,
    limiter: &mut Limiter<'_>,
    held: usize,
    mut each: impl FnMut(&mut KeyIndex, usize, &[u64], &Limiter<'_>) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut hashes = Vec::with_capacity(ROWS_AT_ONCE.min(rows));
    for from in (0..rows).step_by(ROWS_AT_ONCE) {
        let to = (from + ROWS_AT_ONCE).min(rows);
        key.hash(from, to, &mut hashes);
        // The loads of one part do not wait for each other.
        let touched = hashes.iter().fold(0, |sum: u32, hash| {
            sum.wrapping_add(groups.slots[groups.slot_of(*hash)])
        });
        std::hint::black_box(touched);
        each(groups, from, &hashes, limiter)?;
        limiter.check_interrupt()?;
        limiter.check_memory(groups.bytes() + held + to * 4)?;
    }
    Ok(())
}

/// For each row the number of its combination of values in some columns, and for each combination
/// its first row.
pub(crate) fn distinct_rows(
    table: &Table,
    variables: &[VarId],
    limiter: &mut Limiter<'_>,
) -> Result<(Vec<u32>, Vec<u32>), QueryError> {
    let held = table.bytes();
    let (numbers, groups) = grouped(&KeyColumns::of(table, variables), table.rows, held, limiter)?;
    Ok((numbers, groups.firsts))
}

/// The number of each row's key, and the keys.
fn grouped(
    key: &KeyColumns<'_>,
    rows: usize,
    held: usize,
    limiter: &mut Limiter<'_>,
) -> Result<(Vec<u32>, KeyIndex), QueryError> {
    let mut all = KeyIndex::new();
    let mut numbers = Vec::with_capacity(rows);
    in_parts(
        key,
        rows,
        &mut all,
        limiter,
        held,
        |groups, from, hashes, _| {
            for (at, hash) in hashes.iter().enumerate() {
                let row = from + at;
                let found = groups.find(*hash, |first| key.equals(row, key, first as usize));
                numbers.push(found.unwrap_or_else(|slot| groups.add(*hash, row as u32, slot)));
            }
            Ok(())
        },
    )?;
    Ok((numbers, all))
}

/// The rows of a table by their key.
pub(crate) struct RowIndex<'t> {
    key: KeyColumns<'t>,
    groups: KeyIndex,
    /// The start of each group's rows in `rows`, and the end of the last ones.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl<'t> RowIndex<'t> {
    pub(crate) fn of(
        table: &'t Table,
        variables: &[VarId],
        limiter: &mut Limiter<'_>,
    ) -> Result<RowIndex<'t>, QueryError> {
        let key = KeyColumns::of(table, variables);
        let (numbers, groups) = grouped(&key, table.rows, table.bytes() * 2, limiter)?;
        let (starts, rows) = by_number(&numbers, groups.firsts.len());
        Ok(RowIndex {
            key,
            groups,
            starts,
            rows,
        })
    }

    /// Calls `found` with every row of another table and, in order, those of this one that have the
    /// same key.
    pub(crate) fn probe(
        &mut self,
        table: &Table,
        variables: &[VarId],
        limiter: &mut Limiter<'_>,
        mut found: impl FnMut(u32, &[u32], &Limiter<'_>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let key = KeyColumns::of(table, variables);
        let RowIndex {
            key: own,
            groups,
            starts,
            rows,
        } = self;
        let held = table.bytes() + rows.len() * 8;
        in_parts(
            &key,
            table.rows,
            groups,
            limiter,
            held,
            |groups, from, hashes, limiter| {
                for (at, hash) in hashes.iter().enumerate() {
                    let row = from + at;
                    let group = groups.find(*hash, |first| key.equals(row, own, first as usize));
                    if let Ok(group) = group {
                        let group = group as usize;
                        let list = &rows[starts[group] as usize..starts[group + 1] as usize];
                        found(row as u32, list, limiter)?;
                    }
                }
                Ok(())
            },
        )
    }
}

/// The places of each number below `count`, in order: where those of each start, and all of them.
pub(crate) fn by_number(numbers: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; count + 1];
    for number in numbers {
        starts[*number as usize + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut next = starts.clone();
    let mut places = vec![0u32; numbers.len()];
    for (place, number) in numbers.iter().enumerate() {
        let at = &mut next[*number as usize];
        places[*at as usize] = place as u32;
        *at += 1;
    }
    (starts, places)
}
