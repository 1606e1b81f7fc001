//! The lists of changed cells of a shard. A marker begins a list; the writer adds each cell that it
//! changes after that, once. The next marker closes the list and begins another.
//!
//! Others ask for markers; the writer sets them at its next work, before it changes anything, and
//! always between two SNs. So a marker that was asked for before the work of an SN was handed to
//! the shard stands before that SN. While no marker is held, the writer records nothing.
//!
//! Lists name cells, which live as long as their generation. A new generation ends all lists: of
//! changes since a marker before it, it is only known that they may be anywhere.
#![allow(unsafe_code)]

use crate::lists::{Cell, LAST_MARK};
use crate::shard::Shard;
use crate::shard::generation::CellChunks;
use crate::snapshots::{Pin, Snapshots};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The lists of a shard, shared by its writer and the holders of markers.
#[derive(Default)]
pub(crate) struct ChangeLists {
    numbered: Mutex<NumberedLists>,
    /// Whether a marker was asked for, or the last one dropped, since the writer last looked.
    asked: AtomicBool,
}

#[derive(Default)]
struct NumberedLists {
    /// The number of the list that the writer fills.
    open: u64,
    /// The number of the list that the next marker begins; at most `open` if none is asked for.
    wanted: u64,
    /// Lists up to this number are not complete: the generation was replaced.
    lost: u64,
    closed: VecDeque<Arc<ChangeList>>,
    /// Where lists that are held were begun.
    begun: BTreeMap<u64, ListBegin>,
    /// Whether the next marker is to pin its SN.
    pins: bool,
    /// The number of holders that need the lists from each number on.
    holders: BTreeMap<u64, usize>,
}

/// The point at which a list was begun.
struct ListBegin {
    /// The last SN that was applied before.
    after: u64,
    /// A pin of that SN, or of the stable one if it was later: until then nothing in the list.
    pin: Option<Arc<Pin>>,
}

/// The cells that changed between two markers, each once.
pub(crate) struct ChangeList {
    number: u64,
    /// The number of the generation that the cells are of.
    generation: u64,
    cells: Vec<NonNull<Cell>>,
}

// SAFETY: pointers to cells, which threads share; reading them needs the pinned generation.
unsafe impl Send for ChangeList {}
// SAFETY: as above.
unsafe impl Sync for ChangeList {}

impl ChangeList {
    /// The number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells, if they are of the generation with this number.
    pub(crate) fn cells(&self, generation: u64) -> Option<&[NonNull<Cell>]> {
        (self.generation == generation).then_some(&self.cells)
    }
}

/// The cells that a walk over lists has come to. A cell that changed on both sides of a marker is
/// in two lists.
pub(crate) struct CellsSeen {
    /// Their addresses; `None` for a walk over one list, which has each cell once.
    addresses: Option<FxHashSet<usize>>,
}

impl CellsSeen {
    /// Nothing yet, of a walk over this many lists of one generation.
    pub(crate) fn of_lists(lists: usize) -> CellsSeen {
        CellsSeen {
            addresses: (lists > 1).then(FxHashSet::default),
        }
    }

    /// Notes that the walk has come to a cell. Returns whether it is the first time.
    pub(crate) fn is_first(&mut self, cell: NonNull<Cell>) -> bool {
        (self.addresses.as_mut()).is_none_or(|seen| seen.insert(cell.as_ptr().addr()))
    }
}

/// The writer's part: the list that it fills.
#[derive(Default)]
pub(crate) struct OpenList {
    is_recording: bool,
    /// The mark of the cells in the list.
    mark: u16,
    cells: Vec<NonNull<Cell>>,
}

impl OpenList {
    /// Adds a cell of the newest generation that is being changed, unless it is in the list.
    ///
    /// # Safety
    /// The cell is alive, and the caller is its writer.
    #[inline]
    pub(crate) unsafe fn add(&mut self, cell: NonNull<Cell>) {
        // SAFETY: passed on.
        if self.is_recording && unsafe { cell.as_ref() }.mark(self.mark) {
            self.cells.push(cell);
        }
    }

    /// The cells in the list, of the newest generation.
    pub(crate) fn cells(&self) -> &[NonNull<Cell>] {
        &self.cells
    }

    /// Begins another list. `all` are the cells of the newest generation.
    fn begin(&mut self, all: &CellChunks) -> Vec<NonNull<Cell>> {
        self.is_recording = true;
        self.mark += 1;
        if self.mark > LAST_MARK {
            // Once in a thousand lists the marks begin again.
            self.mark = 1;
            // SAFETY: the chunks are those of the newest generation, which is not freed.
            all.for_each(|cell| {
                unsafe { cell.as_ref() }.mark(0);
            });
        }
        std::mem::take(&mut self.cells)
    }

    /// Forgets everything: a generation with new cells begins.
    fn restart(&mut self) {
        self.mark = 0;
        self.cells.clear();
    }
}

impl ChangeLists {
    /// For the writer, between two SNs: begins the list that was asked for. `applied` is the last
    /// SN that was applied to the shard, and `all` are the cells of its newest generation, which
    /// has this number.
    pub(crate) fn attend(
        &self,
        applied: u64,
        snapshots: &Snapshots,
        generation: u64,
        all: &CellChunks,
        open: &mut OpenList,
    ) {
        if !self.asked.load(Ordering::Acquire) {
            return;
        }
        self.asked.store(false, Ordering::Relaxed);
        let mut lists = self.numbered.lock();
        let needed = lists.holders.keys().next().copied();
        if lists.wanted > lists.open {
            let cells = open.begin(all);
            let number = lists.open;
            if needed.is_some_and(|needed| needed <= number) {
                lists.closed.push_back(Arc::new(ChangeList {
                    number,
                    generation,
                    cells,
                }));
            }
            lists.open = lists.wanted;
            let pin = std::mem::take(&mut lists.pins).then(|| snapshots.pin_from(applied));
            let (number, begin) = (
                lists.open,
                ListBegin {
                    after: applied,
                    pin,
                },
            );
            lists.begun.insert(number, begin);
        }
        if needed.is_none() {
            open.is_recording = false;
            open.cells = Vec::new();
        }
    }

    /// For the writer: a new generation begins. `applied` is as for [`ChangeLists::attend`].
    pub(crate) fn end_generation(&self, applied: u64, open: &mut OpenList) {
        open.restart();
        let mut lists = self.numbered.lock();
        lists.closed.clear();
        // A marker that is asked for at this instant may be meant to stand before the change that
        // brought the new generation.
        lists.lost = lists.open.max(lists.wanted);
        lists.open = lists.lost + 1;
        lists.pins = false;
        for number in [lists.lost, lists.open] {
            let begin = ListBegin {
                after: applied,
                pin: None,
            };
            lists.begun.entry(number).or_insert(begin);
        }
        if open.is_recording {
            open.mark = 1;
        }
    }
}

/// A hold on the lists of a shard from one list on. Dropping it lets go of them.
pub(crate) struct ListHold {
    shard: Arc<Shard>,
    number: u64,
    /// Whether the marker was to pin its SN for this holder.
    pins: bool,
}

impl ListHold {
    /// Asks for a marker.
    pub(crate) fn ask(shard: &Arc<Shard>) -> ListHold {
        ListHold::new(shard, false)
    }

    /// Asks for a marker that pins its SN: see [`ListHold::take_pin`].
    pub(crate) fn ask_with_pin(shard: &Arc<Shard>) -> ListHold {
        ListHold::new(shard, true)
    }

    fn new(shard: &Arc<Shard>, pins: bool) -> ListHold {
        let number = {
            let mut lists = shard.changes.numbered.lock();
            lists.pins |= pins;
            if lists.wanted <= lists.open {
                lists.wanted = lists.open + 1;
            }
            let number = lists.wanted;
            *lists.holders.entry(number).or_default() += 1;
            number
        };
        shard.changes.asked.store(true, Ordering::Release);
        ListHold {
            shard: Arc::clone(shard),
            number,
            pins,
        }
    }

    /// Whether a new generation has ended lists that this marker needs.
    pub(crate) fn is_lost(&self) -> bool {
        self.number <= self.shard.changes.numbered.lock().lost
    }

    /// The last SN that the shard had applied when the writer set the marker; `None` before that.
    /// All later changes are in the list of the marker or later ones.
    pub(crate) fn set_after(&self) -> Option<u64> {
        let lists = self.shard.changes.numbered.lock();
        let begin = lists.begun.get(&self.number)?;
        (lists.open >= self.number).then_some(begin.after)
    }

    /// Takes the pin of the marker's SN once the marker is set and that SN is stable. The changes
    /// before the marker are those of SNs up to it, and the changes in lists from the marker on
    /// those of later ones.
    pub(crate) fn take_pin(&self, stable: u64) -> Option<Arc<Pin>> {
        let mut lists = self.shard.changes.numbered.lock();
        let begin = lists.begun.get_mut(&self.number)?;
        begin.pin.take_if(|pin| pin.sn <= stable)
    }

    /// All lists from the marker on but the open one; `None` if a new generation has ended some of
    /// them.
    pub(crate) fn lists(&self) -> Option<Vec<Arc<ChangeList>>> {
        let lists = self.shard.changes.numbered.lock();
        let from = |list: &&Arc<ChangeList>| list.number >= self.number;
        let found = lists.closed.iter().filter(from).map(Arc::clone);
        (self.number > lists.lost).then(|| found.collect())
    }

    /// The lists between this marker and a later one, which is set; `None` if a new generation has
    /// ended some of them.
    pub(crate) fn until(&self, end: &ListHold) -> Option<Vec<Arc<ChangeList>>> {
        let lists = self.shard.changes.numbered.lock();
        let between = |list: &&Arc<ChangeList>| (self.number..end.number).contains(&list.number);
        let found = lists.closed.iter().filter(between).map(Arc::clone);
        (self.number > lists.lost && end.number <= lists.open).then(|| found.collect())
    }
}

impl Drop for ListHold {
    fn drop(&mut self) {
        let mut lists = self.shard.changes.numbered.lock();
        if let Some(count) = lists.holders.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                lists.holders.remove(&self.number);
            }
        }
        let gone = match lists.begun.get_mut(&self.number) {
            Some(begin) if self.pins => begin.pin.take(),
            None if self.pins => {
                // It was not set, and nothing takes its pin any more.
                lists.pins = false;
                None
            }
            _ => None,
        };
        let needed = lists.holders.keys().next().copied();
        let needed_from = needed.unwrap_or(u64::MAX);
        lists.closed.retain(|list| list.number >= needed_from);
        let kept = lists.begun.split_off(&needed_from);
        // Pins are dropped without the lock.
        let begun = std::mem::replace(&mut lists.begun, kept);
        drop(lists);
        drop((gone, begun));
        if needed.is_none() {
            self.shard.changes.asked.store(true, Ordering::Release);
        }
    }
}
