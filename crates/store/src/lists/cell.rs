//! A cell: one key of a shard and the word that leads to its list. Cells never move; readers go
//! through them without a lock while the shard's one writer replaces the word.
//!
//! The word is, by its bits:
//! - 0: no members;
//! - upper four bits set: the one member itself, visible from the cell's `born` SN on (every id
//!   that can be a member has a tag above 0);
//! - a pointer, low bits 00: a [`Block`]; 01: a [`List`]; 10: a [`Counter`].
//!
//! Why reading `born` after the word is enough although they are two loads: `born` changes only
//! when the word goes from 0 (or a list folded to one member) to a single member. A word goes back
//! to 0 or to one member only by folding at a floor that is at or above everything that the list
//! held, so no reader below that SN exists, and a reader at or above it that was pinned after the
//! fold's SN became stable cannot load the older word. An expired pin may see a mixture: that is
//! what [`Snapshot::is_valid`](crate::Snapshot::is_valid) is for; it never sees freed memory.
#![allow(unsafe_code)]

use crate::lists::block::{Block, Dated};
use crate::lists::list::{Freed, List};
use somersault_dictionary::prefetch;
use somersault_model::{Direction, TermId};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the store keeps ids in pointers: it needs a 64-bit machine");

const TAG_MASK: usize = 0xf << 60;
/// Bits of [`Cell::meta`] below the mark.
const MARK_SHIFT: u32 = 54;
/// All of these bits.
const BELOW_MARK: u64 = (1 << MARK_SHIFT) - 1;
/// The greatest mark.
pub(crate) const LAST_MARK: u16 = (u64::MAX >> MARK_SHIFT) as u16;
const LIST: usize = 1;
const COUNTER: usize = 2;
const KIND_MASK: usize = 3;

/// The vertex of the key of an index vertex's removed members; no term has this id.
const REMOVED: TermId = TermId::from_raw(1);
/// The vertex of a counter's key; no term has this id.
const COUNTED: TermId = TermId::from_raw(2);

/// The key of a list or counter. Unused parts are [`TermId::UNBOUND`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) graph: TermId,
    pub(crate) vertex: TermId,
    pub(crate) predicate: TermId,
    pub(crate) direction: Direction,
}

/// The kind of list or counter that a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The neighbours of a vertex.
    Adjacency,
    /// The predicates of a vertex.
    PredicatesOf,
    /// The vertices of a predicate; if an image has some, those added since.
    Index,
    /// The image's vertices of a predicate that were removed since.
    Removed,
    /// The predicates of a graph.
    Predicates,
    /// The named graphs.
    Graphs,
    /// A number of statements.
    Count,
}

impl Key {
    /// The neighbours of a vertex.
    pub(crate) fn adjacency(
        graph: TermId,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> Key {
        Key {
            graph,
            vertex,
            predicate,
            direction,
        }
    }

    /// The predicates of a vertex.
    pub(crate) fn predicates_of(graph: TermId, vertex: TermId, direction: Direction) -> Key {
        Key::adjacency(graph, vertex, TermId::UNBOUND, direction)
    }

    /// The index vertex: all vertices with such an edge.
    pub(crate) fn index(graph: TermId, predicate: TermId, direction: Direction) -> Key {
        Key::adjacency(graph, TermId::UNBOUND, predicate, direction)
    }

    /// The removed members of an image's index vertex.
    pub(crate) fn removed(graph: TermId, predicate: TermId, direction: Direction) -> Key {
        Key::adjacency(graph, REMOVED, predicate, direction)
    }

    /// The predicates of a graph.
    pub(crate) fn predicates(graph: TermId, direction: Direction) -> Key {
        Key::adjacency(graph, TermId::UNBOUND, TermId::UNBOUND, direction)
    }

    /// The named graphs that hold something.
    pub(crate) fn graphs() -> Key {
        Key::predicates(TermId::UNBOUND, Direction::Out)
    }

    /// The number of statements of a predicate in a graph, or of the whole graph (predicate
    /// [`TermId::UNBOUND`]).
    pub(crate) fn count(graph: TermId, predicate: TermId) -> Key {
        Key::adjacency(graph, COUNTED, predicate, Direction::Out)
    }

    /// Whether this is the list of the neighbours of a vertex.
    pub(crate) fn is_adjacency(self) -> bool {
        self.vertex > COUNTED && !self.predicate.is_unbound()
    }

    /// The kind of its list or counter.
    #[inline]
    pub(crate) fn kind(self) -> ListKind {
        match (self.vertex, self.predicate.is_unbound()) {
            (COUNTED, _) => ListKind::Count,
            (REMOVED, _) => ListKind::Removed,
            (TermId::UNBOUND, false) => ListKind::Index,
            (TermId::UNBOUND, true) if self.graph.is_unbound() => ListKind::Graphs,
            (TermId::UNBOUND, true) => ListKind::Predicates,
            (_, true) => ListKind::PredicatesOf,
            (_, false) => ListKind::Adjacency,
        }
    }

    pub(crate) fn hash(self) -> u64 {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        const L: u64 = 0xd1b5_4a32_d192_ed03;
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product as u64) ^ ((product >> 64) as u64)
        };
        let labels = self.predicate.raw() ^ self.graph.raw().rotate_left(24);
        let labels = labels.wrapping_add(self.direction as u64).wrapping_mul(K);
        fold(fold(self.vertex.raw() ^ labels ^ L, K) ^ L, L)
    }
}

/// One key and its word.
pub(crate) struct Cell {
    graph: AtomicU64,
    vertex: AtomicU64,
    predicate: AtomicU64,
    /// The direction (bit 0), the SN of a single member (53 bits), and the mark (10 bits): the
    /// list of changed cells that the cell is in, for the writer alone.
    meta: AtomicU64,
    word: AtomicPtr<u8>,
}

/// A count with its values at earlier SNs.
pub(crate) struct Counter {
    pub(crate) sn: u64,
    pub(crate) value: u64,
    pub(crate) older: Option<Box<Counter>>,
}

impl Counter {
    /// Size in memory, earlier values included.
    pub(crate) fn bytes(&self) -> usize {
        let chain = std::iter::successors(Some(self), |counter| counter.older.as_deref());
        chain.count() * size_of::<Counter>()
    }

    /// The value at `sn`.
    pub(crate) fn at(&self, sn: u64) -> u64 {
        self.seen(sn).map_or(0, |counter| counter.value)
    }

    /// The last SN, at or below `sn`, at which the count changed; 0 if there is none.
    pub(crate) fn changed(&self, sn: u64) -> u64 {
        self.seen(sn).map_or(0, |counter| counter.sn)
    }

    fn seen(&self, sn: u64) -> Option<&Counter> {
        std::iter::successors(Some(self), |counter| counter.older.as_deref())
            .find(|counter| counter.sn <= sn)
    }
}

/// The content that a word leads to.
pub(crate) enum Content<'a> {
    Nothing,
    One { born: u64, id: TermId },
    Block(Dated<'a>),
    List(&'a List),
    Counter(&'a Counter),
}

impl<'a> Content<'a> {
    /// The members at `sn`, ascending, borrowed if possible, else in `scratch`, which is empty.
    #[inline]
    pub(crate) fn read<'b>(self, sn: u64, scratch: &'b mut Vec<TermId>) -> &'b [TermId]
    where
        'a: 'b,
    {
        match self {
            Content::One { born, id } if born <= sn => {
                scratch.push(id);
                scratch
            }
            Content::Block(block) => block.read(sn, scratch),
            Content::List(list) => list.read(sn, scratch),
            _ => &[],
        }
    }

    /// The number of members at `sn`.
    #[inline]
    pub(crate) fn len(&self, sn: u64) -> usize {
        match self {
            Content::One { born, .. } if *born <= sn => 1,
            Content::Block(block) => block.len(sn),
            Content::List(list) => list.len(sn),
            _ => 0,
        }
    }

    /// Whether `id` is a member at `sn`.
    #[inline]
    pub(crate) fn contains(&self, sn: u64, id: TermId) -> bool {
        match self {
            Content::One { born, id: one } => *born <= sn && *one == id,
            Content::Block(block) => block.contains(sn, id),
            Content::List(list) => list.contains(sn, id),
            _ => false,
        }
    }
}

/// The memory that a replaced word still owns. Pointers and not boxes: readers may be looking at it
/// until [`Owned::release`].
pub(crate) enum Owned {
    Nothing,
    Block(Block),
    List(*mut List),
    Counter(*mut Counter),
}

// SAFETY: what is owned is Send; the pointers are the only way to free it.
unsafe impl Send for Owned {}

impl Default for Cell {
    fn default() -> Cell {
        Cell {
            graph: AtomicU64::new(0),
            vertex: AtomicU64::new(0),
            predicate: AtomicU64::new(0),
            meta: AtomicU64::new(0),
            word: AtomicPtr::default(),
        }
    }
}

impl Cell {
    /// Sets the key of a cell that no reader can reach yet.
    pub(crate) fn set_key(&self, key: Key) {
        self.graph.store(key.graph.raw(), Ordering::Relaxed);
        self.vertex.store(key.vertex.raw(), Ordering::Relaxed);
        self.predicate.store(key.predicate.raw(), Ordering::Relaxed);
        self.meta.store(key.direction as u64, Ordering::Relaxed);
    }

    pub(crate) fn key(&self) -> Key {
        let id = |part: &AtomicU64| TermId::from_raw(part.load(Ordering::Relaxed));
        Key {
            graph: id(&self.graph),
            vertex: id(&self.vertex),
            predicate: id(&self.predicate),
            direction: if self.meta.load(Ordering::Relaxed) & 1 == 0 {
                Direction::Out
            } else {
                Direction::In
            },
        }
    }

    /// Sets the mark; 0 is that of a new cell. Returns whether the cell had another one. For the
    /// shard's one writer: readers use the other bits of the word, which stay.
    #[inline]
    pub(crate) fn mark(&self, mark: u16) -> bool {
        let meta = self.meta.load(Ordering::Relaxed);
        if (meta >> MARK_SHIFT) as u16 == mark {
            return false;
        }
        let marked = meta & BELOW_MARK | u64::from(mark) << MARK_SHIFT;
        self.meta.store(marked, Ordering::Relaxed);
        true
    }

    #[inline]
    pub(crate) fn has(&self, key: Key) -> bool {
        self.vertex.load(Ordering::Relaxed) == key.vertex.raw()
            && self.predicate.load(Ordering::Relaxed) == key.predicate.raw()
            && self.graph.load(Ordering::Relaxed) == key.graph.raw()
            && self.meta.load(Ordering::Relaxed) & 1 == key.direction as u64
    }

    /// The current content of the key.
    ///
    /// # Safety
    /// What a replaced word owned must not be freed in `'a`: the caller holds a pin taken before
    /// (or is the writer, which does not free meanwhile, or has the shard to itself).
    #[inline]
    pub(crate) unsafe fn content<'a>(&self) -> Content<'a> {
        let word = self.word.load(Ordering::Acquire);
        let bits = word.addr();
        if bits == 0 {
            return Content::Nothing;
        }
        if bits & TAG_MASK != 0 {
            return Content::One {
                born: (self.meta.load(Ordering::Relaxed) & BELOW_MARK) >> 1,
                id: TermId::from_raw(bits as u64),
            };
        }
        // SAFETY: a word with these bits came from `into_raw` of a Block, List or Counter in
        // `publish…`, was published with Release, is immutable since, and lives for 'a as the
        // caller promises.
        unsafe {
            match bits & KIND_MASK {
                0 => Content::Block(Block::look(word)),
                LIST => Content::List(&*word.map_addr(|a| a & !KIND_MASK).cast::<List>()),
                _ => Content::Counter(&*word.map_addr(|a| a & !KIND_MASK).cast::<Counter>()),
            }
        }
    }

    /// Whether the key leads to nothing now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.word.load(Ordering::Relaxed).is_null()
    }

    /// Prefetches the cell behind a pointer: every other cell lies on two cache lines.
    #[inline]
    pub(crate) fn prefetch(cell: *const Cell) {
        prefetch(cell);
        prefetch(cell.wrapping_byte_add(size_of::<Cell>() - size_of::<u64>()));
    }

    /// Prefetches the head of the key's content.
    #[inline]
    pub(crate) fn prefetch_content(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if word.addr() & TAG_MASK == 0 && !word.is_null() {
            prefetch(word.map_addr(|a| a & !KIND_MASK));
        }
    }

    /// Prefetches the members behind the head of a block, once the head should have arrived.
    ///
    /// # Safety
    /// As for [`Cell::content`].
    #[inline]
    pub(crate) unsafe fn prefetch_members(&self) {
        // SAFETY: passed on.
        if let Content::Block(block) = unsafe { self.content() } {
            block.prefetch();
        }
    }

    /// A counted reference to the block that the key leads to.
    ///
    /// # Safety
    /// For the writer alone, and only where the content is a block.
    pub(crate) unsafe fn block(&self) -> Block {
        // SAFETY: the reference that the word holds stays with the word: it is not dropped here.
        let held = unsafe { Block::from_raw(self.word.load(Ordering::Acquire)) };
        let held = std::mem::ManuallyDrop::new(held);
        Block::clone(&held)
    }

    /// Makes the key lead to nothing. Returns the old content.
    ///
    /// # Safety
    /// Only the shard's one writer calls this, or the owner of the whole shard: two callers at once
    /// would both get the old content.
    pub(crate) unsafe fn publish_nothing(&self) -> Owned {
        // SAFETY: passed on.
        unsafe { self.replace(ptr::null_mut()) }
    }

    /// Makes the key lead to these members (at least one), born at `born`. Returns the old content.
    ///
    /// # Safety
    /// As for [`Cell::publish_nothing`].
    pub(crate) unsafe fn publish_ids(&self, born: u64, ids: &[TermId]) -> Owned {
        if let [one] = ids {
            assert!(one.raw() >> 60 != 0, "a member of a list is a term");
            assert!(born < 1 << (MARK_SHIFT - 1), "an SN takes 53 bits");
            let others = self.meta.load(Ordering::Relaxed) & (1 | !BELOW_MARK);
            self.meta.store(born << 1 | others, Ordering::Relaxed);
            // SAFETY: passed on.
            return unsafe { self.replace(ptr::without_provenance_mut(one.raw() as usize)) };
        }
        // SAFETY: passed on.
        unsafe { self.publish_block(Block::new(born, ids)) }
    }

    /// Makes the key lead to a block. Returns the old content.
    ///
    /// # Safety
    /// As for [`Cell::publish_nothing`].
    pub(crate) unsafe fn publish_block(&self, block: Block) -> Owned {
        // SAFETY: passed on.
        unsafe { self.replace(block.into_raw()) }
    }

    /// Makes the key lead to a list. Returns the old content.
    ///
    /// # Safety
    /// As for [`Cell::publish_nothing`].
    pub(crate) unsafe fn publish_list(&self, list: List) -> Owned {
        let word = Box::into_raw(Box::new(list)).cast::<u8>();
        // SAFETY: passed on.
        unsafe { self.replace(word.map_addr(|a| a | LIST)) }
    }

    /// Makes the key lead to a count. Returns the old content.
    ///
    /// # Safety
    /// As for [`Cell::publish_nothing`].
    pub(crate) unsafe fn publish_counter(&self, counter: Counter) -> Owned {
        let word = Box::into_raw(Box::new(counter)).cast::<u8>();
        // SAFETY: passed on.
        unsafe { self.replace(word.map_addr(|a| a | COUNTER)) }
    }

    /// # Safety
    /// As for [`Cell::publish_nothing`].
    unsafe fn replace(&self, word: *mut u8) -> Owned {
        debug_assert!(word.addr() & TAG_MASK == 0 || word.addr() >> 60 != 0);
        // No exchange: one thread writes, and an exchange would wait here for the memory that was
        // just written.
        let old = self.word.load(Ordering::Relaxed);
        self.word.store(word, Ordering::Release);
        let bits = old.addr();
        if bits == 0 || bits & TAG_MASK != 0 {
            return Owned::Nothing;
        }
        // SAFETY: the word held the one reference that `publish…` gave away; it has just been taken
        // out of the cell by the one writer, so it is taken back once. Readers may still look
        // at it: the caller keeps what is returned until no pin from before is alive.
        unsafe {
            match bits & KIND_MASK {
                0 => Owned::Block(Block::from_raw(old)),
                LIST => Owned::List(old.map_addr(|a| a & !KIND_MASK).cast()),
                _ => Owned::Counter(old.map_addr(|a| a & !KIND_MASK).cast()),
            }
        }
    }
}

impl Owned {
    /// Frees the memory. Returns the number of bytes freed.
    ///
    /// # Safety
    /// No reader can be looking at it any more.
    pub(crate) unsafe fn release(self) -> Freed {
        match self {
            Owned::Nothing => Freed::default(),
            Owned::Block(block) => block.release().into(),
            // SAFETY: from Box::into_raw in `publish_list`, taken out of its cell once, and no
            // reader is left.
            Owned::List(list) => unsafe { Box::from_raw(list) }.release(),
            Owned::Counter(counter) => {
                // SAFETY: as above, from `publish_counter`.
                let counter = unsafe { Box::from_raw(counter) };
                counter.bytes().into()
            }
        }
    }

    /// The approximate bytes that only this value holds.
    pub(crate) fn own_bytes(&self) -> usize {
        match self {
            Owned::Nothing => 0,
            Owned::Block(block) => block.own_bytes(),
            // SAFETY: from Box::into_raw in `publish_list`; it lives until it is released, which
            // takes this value.
            Owned::List(list) => unsafe { &**list }.own_bytes(),
            // SAFETY: as above, from `publish_counter`.
            Owned::Counter(counter) => unsafe { &**counter }.bytes(),
        }
    }

    /// Prefetches the memory that [`Owned::release`] reads.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            Owned::Nothing => {}
            Owned::Block(block) => prefetch(block.as_ptr_of_head()),
            Owned::List(list) => prefetch(list.cast_const()),
            Owned::Counter(counter) => prefetch(counter.cast_const()),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Owned::Nothing)
    }
}
