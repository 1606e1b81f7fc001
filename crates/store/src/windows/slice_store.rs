//! The slices of all streams, and the windows over them that queries share. Inserting a slice and
//! asking for a window lock; reading a window does not.
//! A window too large for one run is covered by several, which windows share (`levels`).

mod bases;
mod levels;

use self::bases::Bases;
use self::levels::Levels;
use crate::windows::window::Before;
use crate::windows::{Run, Slice, WindowVersion};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use somersault_model::{BatchNumber, Sn, StreamUid};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// All slices, by stream and batch.
#[derive(Default)]
pub struct SliceStore {
    streams: RwLock<FxHashMap<StreamUid, Arc<StreamSlices>>>,
}

#[derive(Default)]
struct StreamSlices {
    state: RwLock<Slices>,
    levels: Mutex<Levels>,
    views: Mutex<Views>,
    bases: Mutex<Bases>,
    /// Count windows that are still held.
    count_windows: Mutex<FxHashMap<CountWindowKey, Weak<WindowVersion>>>,
}

/// The first batch and the number of statements left out of it, the batch after the last and the
/// number of statements of the last one that are in.
type CountWindowKey = (BatchNumber, usize, BatchNumber, usize);

type Views = FxHashMap<ViewKey, Arc<Mutex<View>>>;

/// The key that tells apart windows over one stream that slide differently, all in batches. A
/// window that reaches further back than the retained slices is shorter than its range, but still
/// the same window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewKey {
    /// The greatest number of batches that it holds.
    pub range: i64,
    /// The number of batches between its end and its close.
    pub until: i64,
    /// The number of batches by which it slides.
    pub step: i64,
}

#[derive(Default)]
struct Slices {
    by_batch: BTreeMap<BatchNumber, Arc<Slice>>,
    /// Earlier forms of amended batches, oldest first: readers below the SN still see them.
    superseded: BTreeMap<BatchNumber, Vec<Earlier>>,
    /// Increases when a slice arrives for a batch over which a window may have been made.
    generation: u64,
    /// No window has been made over batches from here on.
    read_up_to: Option<BatchNumber>,
}

/// The SN from which on a slice is no longer read, and the slice, if there was one.
type Earlier = (Sn, Option<Arc<Slice>>);

/// The versions of one window.
#[derive(Default)]
struct View {
    latest: Option<(u64, Arc<WindowVersion>)>,
    /// Versions that may still be held, with their generation.
    earlier: Vec<(u64, Weak<WindowVersion>)>,
    /// The version that was made last, if it ends before the newest: late statements amend close
    /// after close, and each version is made from the one before. Kept until the newest one slides.
    amended: Option<Arc<WindowVersion>>,
    /// The next version without its last batch, made before that has arrived.
    base: Option<Arc<WindowVersion>>,
}

impl SliceStore {
    pub(crate) fn new() -> SliceStore {
        SliceStore::default()
    }

    /// Adds a slice; it replaces one of the same batch whose revision is not higher.
    pub fn insert(&self, stream: StreamUid, slice: Slice) {
        let slices = self.stream_or_new(stream);
        if let Some(before) = slices.newest() {
            slice.run().prepare_as(before.run());
        }
        let mut state = slices.state.write();
        let batch = slice.batch();
        let old = state.by_batch.get(&batch);
        if old.is_some_and(|old| old.revision() > slice.revision()) {
            return;
        }
        if state.read_up_to.is_some_and(|upto| batch < upto) {
            state.generation += 1;
            slices.levels.lock().forget(batch);
        }
        state.by_batch.insert(batch, Arc::new(slice));
    }

    /// Changes a closed batch at this SN: `revise` makes its slice from the earlier one. Readers
    /// below the SN still see the earlier one until the floor reaches the SN.
    pub fn amend(
        &self,
        stream: StreamUid,
        batch: BatchNumber,
        sn: Sn,
        floor: Sn,
        revise: impl FnOnce(Option<&Slice>) -> Slice,
    ) {
        let slices = self.stream_or_new(stream);
        let mut state = slices.state.write();
        let old = state.by_batch.get(&batch).cloned();
        let revised = revise(old.as_deref());
        state.by_batch.insert(batch, Arc::new(revised));
        state.superseded.entry(batch).or_default().push((sn, old));
        state.forget_superseded(floor);
        state.generation += 1;
        slices.levels.lock().forget(batch);
    }

    /// Frees the earlier forms of amended batches that only readers below `floor` could see.
    pub fn forget_superseded(&self, floor: Sn) {
        for slices in self.streams.read().values() {
            if !slices.state.read().superseded.is_empty() {
                slices.state.write().forget_superseded(floor);
            }
        }
    }

    /// The window over `lo..hi` as a reader at this SN sees it: [`SliceStore::window`], unless one
    /// of its batches has been amended since.
    pub fn window_at(
        &self,
        stream: StreamUid,
        (lo, hi): (BatchNumber, BatchNumber),
        view: ViewKey,
        sn: Sn,
    ) -> Arc<WindowVersion> {
        let newest = self.window(stream, lo, hi, view);
        // Looked up afterwards: an amendment from before the window was made is known by now.
        let earlier = (self.stream(stream)).and_then(|it| it.state.read().before(lo, hi, sn));
        let Some(slices) = earlier else {
            return newest;
        };
        // Only a firing that was overtaken by an amendment comes here: its window is of no use to
        // others.
        Arc::new(WindowVersion::unshared(slices, lo, hi))
    }

    /// The slices of a stream before a batch as a reader at this SN sees them, in order.
    pub fn slices_at(&self, stream: StreamUid, hi: BatchNumber, sn: Sn) -> Vec<Arc<Slice>> {
        let Some(slices) = self.stream(stream) else {
            return Vec::new();
        };
        let (state, lo) = (slices.state.read(), BatchNumber(i64::MIN));
        let earlier = state.before(lo, hi, sn);
        earlier.unwrap_or_else(|| state.range(lo, hi).1)
    }

    /// The window over the batches `lo..hi`, without `hi`; batches without a slice are empty. All
    /// callers with the same arguments get the same version while it is held.
    pub fn window(
        &self,
        stream: StreamUid,
        lo: BatchNumber,
        hi: BatchNumber,
        key: ViewKey,
    ) -> Arc<WindowVersion> {
        let Some(slices) = self.stream(stream) else {
            return WindowVersion::empty();
        };
        let view = Arc::clone(slices.views.lock().entry(key).or_default());
        let mut view = view.lock();
        let generation = slices.state.read().generation;
        if let Some(version) = view.find(generation, (lo, hi)) {
            return version;
        }
        let (generation, parts) = slices.range(lo, hi);
        let version = WindowVersion::slide(view.before(), &parts, lo, hi, || {
            slices.levels.lock().note_window(hi.0 - lo.0);
            slices.cover(generation, &parts, lo, hi)
        });
        let version = Arc::new(version);
        if view.add(generation, Arc::clone(&version)) {
            slices.bases.lock().expect_next(key, hi);
        }
        version
    }

    /// The window over a stretch of statements in the order of the batches, and within a batch in
    /// the order of arrival: it begins `skip` statements into the batch `lo`, and ends with the
    /// first `upto` statements of the batch before `hi`.
    pub fn stretch(
        &self,
        stream: StreamUid,
        (lo, skip): (BatchNumber, usize),
        (hi, upto): (BatchNumber, usize),
    ) -> Arc<WindowVersion> {
        let Some(slices) = self.stream(stream).filter(|_| lo < hi) else {
            return WindowVersion::empty();
        };
        let key = (lo, skip, hi, upto);
        if let Some(version) = slices
            .count_windows
            .lock()
            .get(&key)
            .and_then(Weak::upgrade)
        {
            return version;
        }
        let (generation, mut parts) = slices.range(lo, hi);
        // The first and the last one may be the same slice.
        for slice in &mut parts {
            let is_last = slice.batch().next() == hi;
            if slice.batch() != lo && !is_last {
                continue;
            }
            let from = if slice.batch() == lo { skip } else { 0 };
            let to = if is_last { upto } else { usize::MAX };
            let to = to.min(slice.arrivals());
            if (from, to) != (0, slice.arrivals()) {
                *slice = Arc::new(slice.part(from.min(to)..to));
            }
        }
        let version = Arc::new(WindowVersion::slide(
            Before::default(),
            &parts,
            lo,
            hi,
            || {
                slices.levels.lock().note_counted(lo);
                let whole = parts.len().saturating_sub(1).max(1);
                let mut runs = vec![Arc::clone(parts[0].run())];
                runs.extend(slices.cover(
                    generation,
                    &parts[1..whole],
                    lo.next(),
                    BatchNumber(hi.0 - 1),
                ));
                runs.extend(parts[whole..].iter().map(|last| Arc::clone(last.run())));
                runs
            },
        ));
        let mut count_windows = slices.count_windows.lock();
        // Not each time: as many count windows may be held as there are firings under way.
        if count_windows.len() == count_windows.capacity() {
            count_windows.retain(|_, version| version.strong_count() > 0);
        }
        count_windows.insert(key, Arc::downgrade(&version));
        version
    }

    /// Frees the slices of the batches before `below`, once no version holds them any more.
    pub fn retire(&self, stream: StreamUid, below: BatchNumber) {
        let Some(slices) = self.stream(stream) else {
            return;
        };
        {
            let mut state = slices.state.write();
            state.by_batch = state.by_batch.split_off(&below);
            state.superseded = state.superseded.split_off(&below);
        }
        slices.levels.lock().retire(below);
        slices.views.lock().retain(|_, view| {
            // A view that is being made right now is in use.
            view.try_lock().is_none_or(|mut view| {
                view.amended.take_if(|version| version.batches().0 < below);
                (view.latest.as_ref()).is_some_and(|(_, version)| version.batches().1 > below)
            })
        });
        slices.forget_passed();
    }

    /// Makes the runs for windows that end later, as far as they lie before `hi`; all slices before
    /// it have arrived. If this is called whenever slices have been inserted and no firing waits
    /// for them, making a window takes as long as its newest slices do, however much it holds.
    pub fn merge_ahead(&self, stream: StreamUid, hi: BatchNumber) {
        if let Some(slices) = self.stream(stream) {
            slices.merge_ahead(hi);
            slices.make_bases(hi);
        }
    }

    /// Frees the runs over the stream that all windows have passed. It examines every window, so
    /// call it once after many have moved on; [`SliceStore::retire`] calls it too.
    pub fn forget_passed(&self, stream: StreamUid) {
        if let Some(slices) = self.stream(stream) {
            slices.forget_passed();
        }
    }

    /// Forgets a stream.
    pub fn drop_stream(&self, stream: StreamUid) {
        self.streams.write().remove(&stream);
    }

    /// Memory of a stream's slices, and of the windows over them that are kept for sliding, in
    /// bytes.
    pub fn memory_bytes(&self, stream: StreamUid) -> usize {
        self.stream(stream).map_or(0, |slices| {
            let (slices, windows) = slices.bytes();
            slices + windows
        })
    }

    /// The number of slices of a stream, and their oldest and newest batch.
    pub fn extent(&self, stream: StreamUid) -> Option<(usize, BatchNumber, BatchNumber)> {
        let slices = self.stream(stream)?;
        let state = slices.state.read();
        let (first, _) = state.by_batch.first_key_value()?;
        let (last, _) = state.by_batch.last_key_value()?;
        Some((state.by_batch.len(), *first, *last))
    }

    /// Memory of all slices, and of all windows, in bytes.
    pub(crate) fn total_bytes(&self) -> (usize, usize) {
        let streams = self.streams.read();
        let bytes = streams.values().map(|slices| slices.bytes());
        bytes.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    /// Calls `each` with the runs of all slices and of the window versions that are kept for
    /// sliding, and stops at the first error.
    pub(crate) fn try_each_run<E>(
        &self,
        mut each: impl FnMut(StreamUid, &Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let streams: Vec<_> = {
            let streams = self.streams.read();
            let streams = streams.iter();
            streams.map(|(uid, it)| (*uid, Arc::clone(it))).collect()
        };
        for (uid, stream) in streams {
            // Held meanwhile, with the terms that they keep.
            let (slices, versions) = stream.all();
            let runs = slices.iter().map(|slice| slice.run());
            let runs = runs.chain(versions.iter().flat_map(|version| version.runs()));
            runs.into_iter().try_for_each(|run| each(uid, run))?;
        }
        Ok(())
    }

    fn stream(&self, stream: StreamUid) -> Option<Arc<StreamSlices>> {
        self.streams.read().get(&stream).cloned()
    }

    fn stream_or_new(&self, stream: StreamUid) -> Arc<StreamSlices> {
        match self.stream(stream) {
            Some(slices) => slices,
            None => Arc::clone(self.streams.write().entry(stream).or_default()),
        }
    }
}

impl StreamSlices {
    /// The slices of `lo..hi`, and their generation.
    fn range(&self, lo: BatchNumber, hi: BatchNumber) -> (u64, Vec<Arc<Slice>>) {
        {
            let state = self.state.read();
            if state.read_up_to >= Some(hi) {
                return state.range(lo, hi);
            }
        }
        let mut state = self.state.write();
        state.read_up_to = state.read_up_to.max(Some(hi));
        state.range(lo, hi)
    }

    /// The slice of the newest batch.
    fn newest(&self) -> Option<Arc<Slice>> {
        let state = self.state.read();
        let newest = state.by_batch.last_key_value();
        newest.map(|(_, slice)| Arc::clone(slice))
    }

    /// All slices, and the kept window versions, without those that are being made right now.
    fn all(&self) -> (Vec<Arc<Slice>>, Vec<Arc<WindowVersion>>) {
        let slices = self.state.read().all().map(Arc::clone).collect();
        let views: Vec<_> = self.views.lock().values().cloned().collect();
        let versions = views.iter().filter_map(|view| {
            let view = view.try_lock()?;
            let latest = view.latest.as_ref().map(|(_, version)| Arc::clone(version));
            let others = view.base.clone().into_iter().chain(view.amended.clone());
            Some(latest.into_iter().chain(others))
        });
        (slices, versions.flatten().collect())
    }

    fn bytes(&self) -> (usize, usize) {
        let slices = self.state.read().bytes();
        let merged = self.levels.lock().bytes();
        let views = self.views.lock();
        let of_views = views.values().filter_map(|view| {
            let view = view.try_lock()?;
            let runs: usize = view.own_runs().map(|run| run.memory_bytes()).sum();
            Some(size_of::<View>() + runs)
        });
        (slices, merged + of_views.sum::<usize>())
    }
}

impl Slices {
    /// The slices of `lo..hi` as they were at an SN, if one of them has been amended since.
    fn before(&self, lo: BatchNumber, hi: BatchNumber, sn: Sn) -> Option<Vec<Arc<Slice>>> {
        if lo >= hi || self.superseded.is_empty() {
            return None;
        }
        let at_sn = |revisions: &[Earlier]| {
            let first = revisions.iter().find(|(until, _)| sn < *until);
            first.map(|(_, slice)| slice.clone())
        };
        let mut earlier = self
            .superseded
            .range(lo..hi)
            .filter_map(|(batch, revisions)| Some((*batch, at_sn(revisions)?)))
            .peekable();
        earlier.peek()?;
        let mut slices: BTreeMap<BatchNumber, Arc<Slice>> = (self.by_batch.range(lo..hi))
            .map(|(batch, slice)| (*batch, Arc::clone(slice)))
            .collect();
        for (batch, slice) in earlier {
            match slice {
                Some(slice) => slices.insert(batch, slice),
                None => slices.remove(&batch),
            };
        }
        Some(slices.into_values().collect())
    }

    fn forget_superseded(&mut self, floor: Sn) {
        self.superseded.retain(|_, revisions| {
            let gone = revisions.partition_point(|(until, _)| *until <= floor);
            revisions.drain(..gone);
            !revisions.is_empty()
        });
    }

    /// Memory of all slices. It is summed up each time, because slices grow when queries use them.
    fn bytes(&self) -> usize {
        self.all().map(|slice| slice.memory_bytes()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Slice>> {
        let superseded = self.superseded.values().flatten();
        let superseded = superseded.filter_map(|(_, slice)| slice.as_ref());
        self.by_batch.values().chain(superseded)
    }

    fn range(&self, lo: BatchNumber, hi: BatchNumber) -> (u64, Vec<Arc<Slice>>) {
        if lo >= hi {
            return (self.generation, Vec::new());
        }
        let slices = self
            .by_batch
            .range(lo..hi)
            .map(|(_, slice)| Arc::clone(slice));
        (self.generation, slices.collect())
    }
}

impl View {
    fn find(
        &self,
        generation: u64,
        batches: (BatchNumber, BatchNumber),
    ) -> Option<Arc<WindowVersion>> {
        let fits =
            |made: u64, version: &WindowVersion| made == generation && version.batches() == batches;
        if let Some((made, version)) = &self.latest
            && fits(*made, version)
        {
            return Some(Arc::clone(version));
        }
        self.earlier.iter().find_map(|(made, version)| {
            let version = version.upgrade()?;
            fits(*made, &version).then_some(version)
        })
    }

    /// The earlier versions from which its next version may be made.
    fn before(&self) -> Before<'_> {
        let latest = self.latest.as_ref().map(|(_, version)| version);
        Before {
            base: self.base.as_deref(),
            latest: latest.map(|version| &**version),
            amended: self.amended.as_deref(),
        }
    }

    /// The runs that were made for its versions, each once.
    fn own_runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        let newest = self.latest.as_ref().map(|(_, version)| version);
        let latest = newest.and_then(|version| version.own_run());
        let fresh = newest.and_then(|version| version.fresh_run());
        let base = self.base.as_ref().and_then(|version| version.own_run());
        let base = base.filter(|base| latest.is_none_or(|latest| !Arc::ptr_eq(base, latest)));
        let amended = (self.amended.as_ref()).and_then(|version| version.own_run());
        latest.into_iter().chain(fresh).chain(base).chain(amended)
    }

    /// Adds a version. Returns whether it is the newest.
    fn add(&mut self, generation: u64, version: Arc<WindowVersion>) -> bool {
        self.earlier
            .retain(|(_, version)| version.strong_count() > 0);
        let newest = (self.latest.as_ref())
            .is_none_or(|(_, latest)| latest.batches().1 <= version.batches().1);
        if newest {
            // A base that was never used, because no statements came at the right time, must not
            // keep its slices for ever.
            let is_passed = |base: &mut Arc<WindowVersion>| base.batches().1 <= version.batches().0;
            self.base.take_if(is_passed);
            self.amended = None;
            if let Some((made, old)) = self.latest.replace((generation, version)) {
                self.earlier.push((made, Arc::downgrade(&old)));
            }
        } else {
            self.earlier.push((generation, Arc::downgrade(&version)));
            self.amended = Some(version);
        }
        newest
    }
}
