//! Files of lists: images, which hold every list of a range of virtual shards, and deltas, which
//! hold those that have changed.
//!
//! ```text
//! content := list*
//! list    := 8 * number of members + form | (direction u8 | graph id | predicate id)?
//!            vertex | first member id? | each further member
//! form    := 1 if a group begins, whose direction, graph and predicate follow
//!            + 2 if the vertex is an id, not less that of the list before in the group
//!            + 4 if further members are ids, not each less the one before
//! ```
//! The writer chooses what is shorter: in large groups and long lists the next id is near.
//!
//! Keys ascend, and so do members. In a delta a list without members means that there is none any
//! more; of several files that hold a list, the newest counts.

use crate::container::{FileReader, FileWriter, id_number, number_bytes};
use crate::error::CheckpointError;
use somersault_model::{Direction, TermId};
use somersault_store::{ListKey, ListRun};

/// The forms that a list may have, as bits.
const FORMS: u64 = 8;
const GROUP: u64 = 1;
const VERTEX_ID: u64 = 2;
const MEMBER_IDS: u64 = 4;

/// Writes lists.
pub struct ListFileWriter {
    file: FileWriter,
    before: Option<ListKey>,
}

impl ListFileWriter {
    /// Lists are the content of this file.
    #[must_use]
    pub fn new(file: FileWriter) -> ListFileWriter {
        ListFileWriter { file, before: None }
    }

    /// Adds a list, whose members ascend. Its key follows that of the list before.
    ///
    /// # Errors
    /// Those of the disk.
    ///
    /// # Panics
    /// If the keys or the members do not ascend.
    pub fn push(&mut self, key: &ListKey, members: &[TermId]) -> Result<(), CheckpointError> {
        assert!(
            self.before.is_none_or(|before| before < *key),
            "keys ascend"
        );
        let before = self
            .before
            .replace(*key)
            .filter(|before| group(before) == group(key));
        let apart = before.map_or(u64::MAX, |it| key.vertex.raw() - it.vertex.raw());
        let mut form = 0;
        if before.is_none() {
            form |= GROUP;
        }
        if number_bytes(id_number(key.vertex)) < number_bytes(apart) || before.is_none() {
            form |= VERTEX_ID;
        }
        let pairs = members.windows(2);
        assert!(
            pairs.clone().all(|pair| pair[0] < pair[1]),
            "members ascend"
        );
        let as_ids: u32 = pairs
            .clone()
            .map(|pair| number_bytes(id_number(pair[1])))
            .sum();
        let apart_bytes = |pair: &[TermId]| number_bytes(pair[1].raw() - pair[0].raw());
        if as_ids < pairs.clone().map(apart_bytes).sum() {
            form |= MEMBER_IDS;
        }
        self.file
            .write_number(members.len() as u64 * FORMS + form)?;
        if form & GROUP != 0 {
            self.file.write(&[key.direction as u8])?;
            self.file.write_id(key.graph)?;
            self.file.write_id(key.predicate)?;
        }
        match form & VERTEX_ID {
            0 => self.file.write_number(apart)?,
            _ => self.file.write_id(key.vertex)?,
        }
        if let Some(first) = members.first() {
            self.file.write_id(*first)?;
        }
        pairs
            .into_iter()
            .try_for_each(|pair| match form & MEMBER_IDS {
                0 => self.file.write_number(pair[1].raw() - pair[0].raw()),
                _ => self.file.write_id(pair[1]),
            })
    }

    /// The length of the file so far, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// The file, to be finished.
    #[must_use]
    pub fn into_file(self) -> FileWriter {
        self.file
    }
}

/// Reads lists.
pub struct ListFileReader {
    file: FileReader,
    before: Option<ListKey>,
}

impl ListFileReader {
    /// The content of this file is lists.
    #[must_use]
    pub fn new(file: FileReader) -> ListFileReader {
        ListFileReader { file, before: None }
    }

    fn take_key(&mut self, form: u64) -> Result<ListKey, CheckpointError> {
        let is_id = form & VERTEX_ID != 0;
        if form & GROUP == 0 {
            let Some(before) = self.before else {
                return Err(self.file.damaged("the first list belongs to no group"));
            };
            let vertex = self.take_later(before.vertex, is_id)?;
            return Ok(ListKey { vertex, ..before });
        }
        let direction = match self.file.take_array()? {
            [0] => Direction::Out,
            [1] => Direction::In,
            [other] => return Err(self.file.damaged(format!("{other} is no direction"))),
        };
        let key = ListKey {
            direction,
            graph: self.file.take_id()?,
            predicate: self.file.take_id()?,
            vertex: self.file.take_id()?,
        };
        let before = self.before.map(|before| group(&before));
        if !is_id || before.is_some_and(|before| before >= group(&key)) {
            return Err(self.file.damaged("groups of lists do not ascend"));
        }
        Ok(key)
    }

    /// Takes an id that is higher than this one.
    fn take_later(&mut self, before: TermId, is_id: bool) -> Result<TermId, CheckpointError> {
        let id = match is_id {
            true => Some(self.file.take_id()?),
            false => (before.raw())
                .checked_add(self.file.take_number()?)
                .map(TermId::from_raw),
        };
        let later = id.filter(|id| *id > before);
        later.ok_or_else(|| self.file.damaged("ids do not ascend"))
    }
}

/// Errors are damage, which includes keys or members that do not ascend, and IO. At its end the
/// whole file is checked.
impl ListRun for ListFileReader {
    type Error = CheckpointError;

    fn next_list(&mut self, members: &mut Vec<TermId>) -> Result<Option<ListKey>, CheckpointError> {
        members.clear();
        if self.file.is_at_end()? {
            return Ok(None);
        }
        let head = self.file.take_number()?;
        let form = head % FORMS;
        let key = self.take_key(form)?;
        for _ in 0..head / FORMS {
            let id = match members.last() {
                None => self.file.take_id()?,
                Some(before) => self.take_later(*before, form & MEMBER_IDS != 0)?,
            };
            members.push(id);
        }
        self.before = Some(key);
        Ok(Some(key))
    }
}

/// The part of a key that a group of lists shares.
fn group(key: &ListKey) -> (Direction, TermId, TermId) {
    (key.direction, key.graph, key.predicate)
}
