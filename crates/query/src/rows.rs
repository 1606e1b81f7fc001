//! Rows found again by the values of some columns: what joins, DISTINCT and grouping are made of.

use crate::table::Table;
use rustc_hash::{FxHashMap, FxHasher};
use somersault_lang::VarId;
use somersault_model::TermId;
use std::hash::Hasher;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// Row numbers by the hash of their key; rows of one hash form a chain.
#[derive(Default)]
pub(crate) struct RowIndex {
    heads: FxHashMap<u64, u32>,
    /// Per entry: the next entry of the chain.
    next: Vec<u32>,
}

/// The columns of a key in one table; `None` where the table has no such column.
pub(crate) struct Key<'t> {
    columns: Vec<Option<&'t [TermId]>>,
}

impl<'t> Key<'t> {
    pub(crate) fn of(table: &'t Table, variables: &[VarId]) -> Key<'t> {
        Key {
            columns: variables.iter().map(|v| table.column(*v)).collect(),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, row: usize) -> u64 {
        let mut hasher = FxHasher::default();
        for column in &self.columns {
            hasher.write_u64(column.map_or(0, |ids| ids[row].raw()));
        }
        hasher.finish()
    }

    #[inline]
    pub(crate) fn equals(&self, row: usize, other: &Key<'_>, other_row: usize) -> bool {
        let value =
            |column: &Option<&[TermId]>, row: usize| column.map_or(TermId::UNBOUND, |ids| ids[row]);
        self.columns
            .iter()
            .zip(&other.columns)
            .all(|(a, b)| value(a, row) == value(b, other_row))
    }
}

impl RowIndex {
    /// Adds the next entry (entries are numbered from 0) under a hash.
    pub(crate) fn add(&mut self, hash: u64) -> u32 {
        let entry = self.next.len() as u32;
        let before = self.heads.insert(hash, entry);
        self.next.push(before.unwrap_or(NONE));
        entry
    }

    /// The entries under a hash, latest first.
    pub(crate) fn under(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let mut entry = self.heads.get(&hash).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let found = (entry != NONE).then_some(entry)?;
            entry = self.next[found as usize];
            Some(found)
        })
    }

    /// Memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.next.len() * 28
    }
}
