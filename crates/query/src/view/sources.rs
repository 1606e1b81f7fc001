//! Reading a graph of the query, which may consist of several sources: their lists are merged, and
//! a statement in two of them counts once.

use crate::algebra::logical::GraphPosition;
use crate::view::graph_view::{GraphView, Source, unlisted_graphs};
use somersault_model::{Direction, TermId, TripleIds};
use std::time::Instant;

/// The view with the dataset's graphs resolved; lives for one execution.
///
/// The view of a long execution keeps no memory. It is opened for reading when a list is wanted,
/// and released between steps and parts of a table, when no list is borrowed: `&mut self` says so.
pub(crate) struct Graphs<'a> {
    base: &'a dyn GraphView,
    /// The opened view and the time of its opening; `None` inside where `base` itself is read.
    opened: std::cell::OnceCell<Option<(Box<dyn GraphView>, Instant)>>,
    named: std::cell::OnceCell<Vec<(TermId, [Source; 1])>>,
    current: std::cell::Cell<Option<Source>>,
}

impl<'a> Graphs<'a> {
    pub(crate) fn new(view: &'a dyn GraphView) -> Graphs<'a> {
        Graphs {
            base: view,
            opened: std::cell::OnceCell::new(),
            named: std::cell::OnceCell::new(),
            current: std::cell::Cell::new(None),
        }
    }

    /// The view to read from.
    #[inline]
    pub(crate) fn view(&self) -> &dyn GraphView {
        match self.opened() {
            Some((view, _)) => &**view,
            None => self.base,
        }
    }

    /// The view of the whole execution, if it is the one to read from: its lists may be borrowed
    /// for as long as the execution takes.
    pub(crate) fn lasting_view(&self) -> Option<&'a dyn GraphView> {
        self.opened().is_none().then_some(self.base)
    }

    #[inline]
    fn opened(&self) -> Option<&(Box<dyn GraphView>, Instant)> {
        let open = || self.base.open().map(|view| (view, Instant::now()));
        self.opened.get_or_init(open).as_ref()
    }

    /// Releases the memory that was read through, until something is read again.
    pub(crate) fn release(&mut self) {
        if let Some(Some(_)) = self.opened.get() {
            self.opened.take();
        }
    }

    /// Releases the memory as [`Graphs::release`] does, if it has been kept for a while.
    #[inline]
    pub(crate) fn release_now_and_then(&mut self) {
        if let Some(Some((_, since))) = self.opened.get()
            && since.elapsed() >= self.base.open_time()
        {
            self.opened.take();
        }
    }

    /// The sources of the default graph.
    pub(crate) fn default_graph(&self) -> &'a [Source] {
        &self.base.dataset().default
    }

    /// The named graphs with their sources, ascending by name.
    pub(crate) fn named(&self) -> &[(TermId, [Source; 1])] {
        self.named.get_or_init(|| {
            let named = &self.base.dataset().named;
            let mut list: Vec<_> = named.listed().iter().map(|(n, s)| (*n, [*s])).collect();
            let stored = unlisted_graphs(self.view(), named).into_iter();
            let unlisted =
                stored.filter(|graph| named.listed().iter().all(|(name, _)| name != graph));
            list.extend(unlisted.map(|graph| (graph, [Source::Stored(graph)])));
            list.sort_unstable();
            list
        })
    }

    /// Sets the source that [`GraphPosition::Current`] reads; returns the previous one.
    pub(crate) fn set_current(&self, source: Option<Source>) -> Option<Source> {
        self.current.replace(source)
    }

    /// The source of one named graph.
    pub(crate) fn source_of(&self, name: TermId) -> Option<Source> {
        self.base.dataset().named_source(name)
    }

    /// Reads the named graph of this name, or each of them where the name is open.
    pub(crate) fn each_named<E>(
        &self,
        name: TermId,
        mut read: impl FnMut(&[Source], TermId) -> Result<(), E>,
    ) -> Result<(), E> {
        if name.is_unbound() {
            return (self.named().iter()).try_for_each(|(name, source)| read(source, *name));
        }
        match self.source_of(name) {
            Some(source) => read(&[source], name),
            None => Ok(()),
        }
    }

    /// Whether the dataset has the named graph.
    pub(crate) fn has(&self, name: TermId) -> bool {
        name.is_kept_graph()
            || self
                .named()
                .binary_search_by_key(&name, |(name, _)| *name)
                .is_ok()
    }

    /// The same view and current graph for another thread.
    pub(crate) fn seed(&self) -> (&'a dyn GraphView, Option<Source>) {
        (self.base, self.current.get())
    }

    /// All sources that a pattern in this graph may read; while nothing runs yet, the current graph
    /// may be any of them.
    pub(crate) fn reads(
        &self,
        graph: GraphPosition,
        constant: impl Fn(crate::algebra::expression::ConstantId) -> TermId,
    ) -> Reads<'a> {
        use crate::algebra::logical::Position;
        let one = |source: Option<Source>| source.map_or(Reads::Of(&[]), |one| Reads::One([one]));
        match graph {
            GraphPosition::Default => Reads::Of(self.default_graph()),
            GraphPosition::Named(Position::Constant(name)) => one(self.source_of(constant(name))),
            GraphPosition::Current if self.current.get().is_some() => one(self.current.get()),
            GraphPosition::FreshDefault => self.fresh(self.default_graph()),
            GraphPosition::FreshNamed(name) => {
                self.fresh(self.source_of(constant(name)).as_slice())
            }
            GraphPosition::Current | GraphPosition::Named(Position::Variable(_)) => {
                Reads::Many(self.named().iter().map(|(_, [source])| *source).collect())
            }
        }
    }

    /// The statements that these sources received since the last execution.
    fn fresh(&self, sources: &[Source]) -> Reads<'a> {
        let mut fresh = sources.iter().filter_map(|s| self.base.fresh(*s));
        match (fresh.next(), fresh.next()) {
            (None, _) => Reads::Of(&[]),
            (Some(one), None) => Reads::One([one]),
            (Some(one), Some(other)) => {
                Reads::Many([one, other].into_iter().chain(fresh).collect())
            }
        }
    }

    /// [`Graphs::reads`] as a list.
    pub(crate) fn sources_of(
        &self,
        graph: GraphPosition,
        constant: impl Fn(crate::algebra::expression::ConstantId) -> TermId,
    ) -> Vec<Source> {
        self.reads(graph, constant).to_vec()
    }
}

/// The sources of one pattern.
pub(crate) enum Reads<'g> {
    Of(&'g [Source]),
    One([Source; 1]),
    Many(Vec<Source>),
}

impl std::ops::Deref for Reads<'_> {
    type Target = [Source];

    #[inline]
    fn deref(&self) -> &[Source] {
        match self {
            Reads::Of(list) => list,
            Reads::One(one) => one,
            Reads::Many(list) => list,
        }
    }
}

/// Buffers for a list: of one source, and of several together.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) one: Vec<TermId>,
    pub(crate) merged: Vec<TermId>,
}

/// Buffers for reading, reused for each row.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) lists: Lists,
    pub(crate) vertices: Lists,
    /// The predicates of the previous vertex.
    pub(crate) before: Vec<TermId>,
}

/// The neighbours of a vertex in all sources together; ascending, without repeats.
#[inline]
pub(crate) fn neighbours<'s>(
    view: &'s dyn GraphView,
    sources: &[Source],
    vertex: TermId,
    predicate: TermId,
    direction: Direction,
    lists: &'s mut Lists,
) -> &'s [TermId] {
    if let [source] = sources {
        return view.neighbours(*source, vertex, predicate, direction, &mut lists.one);
    }
    let Lists { one, merged } = lists;
    union(merged, sources, |source, into| {
        into.extend_from_slice(view.neighbours(source, vertex, predicate, direction, one));
    });
    merged
}

/// The vertices of an index vertex in all sources together; ascending, without repeats.
pub(crate) fn vertices_with<'s>(
    view: &'s dyn GraphView,
    sources: &[Source],
    predicate: TermId,
    direction: Direction,
    lists: &'s mut Lists,
) -> &'s [TermId] {
    if let [source] = sources {
        return view.vertices_with(*source, predicate, direction, &mut lists.one);
    }
    let Lists { one, merged } = lists;
    union(merged, sources, |source, into| {
        into.extend_from_slice(view.vertices_with(source, predicate, direction, one));
    });
    merged
}

/// An upper bound of the length of [`vertices_with`], except for the update's own recent writes.
pub(crate) fn vertices_at_most(
    view: &dyn GraphView,
    sources: &[Source],
    predicate: TermId,
    direction: Direction,
) -> usize {
    let count = |source: &Source| {
        let statistics = view.predicate_statistics(*source, predicate);
        match direction {
            Direction::Out => statistics.subjects,
            Direction::In => statistics.objects,
        }
    };
    sources.iter().map(count).sum::<u64>() as usize
}

/// The predicates of a vertex in all sources together.
pub(crate) fn predicates_of(
    view: &dyn GraphView,
    sources: &[Source],
    vertex: TermId,
    direction: Direction,
    into: &mut Vec<TermId>,
) {
    let mut list = Vec::new();
    union(into, sources, |source, into| {
        into.extend_from_slice(view.predicates_of(source, vertex, direction, &mut list));
    });
}

/// All predicates of all sources.
pub(crate) fn predicates(view: &dyn GraphView, sources: &[Source], into: &mut Vec<TermId>) {
    union(into, sources, |source, into| {
        into.extend(view.predicates(source));
    });
}

/// Whether a source holds the triple.
#[inline]
pub(crate) fn contains(view: &dyn GraphView, sources: &[Source], triple: TripleIds) -> bool {
    sources.iter().any(|source| view.contains(*source, triple))
}

/// An upper bound of the length of [`neighbours`].
#[inline]
pub(crate) fn neighbour_estimate(
    view: &dyn GraphView,
    sources: &[Source],
    vertex: TermId,
    predicate: TermId,
    direction: Direction,
) -> usize {
    sources
        .iter()
        .map(|source| view.neighbour_estimate(*source, vertex, predicate, direction))
        .sum()
}

fn union(
    into: &mut Vec<TermId>,
    sources: &[Source],
    mut read: impl FnMut(Source, &mut Vec<TermId>),
) {
    into.clear();
    let mut parts = 0;
    for source in sources {
        let before = into.len();
        read(*source, into);
        parts += usize::from(into.len() > before);
    }
    if parts > 1 {
        into.sort_unstable();
        into.dedup();
    }
}
