//! The approximate cost of steps in nanoseconds, by which orders and operators are compared. The
//! figures hold for one core, with the lists in memory and not in its caches; only their
//! proportions matter.

/// Finding the list of one vertex.
const FIND: f64 = 25.0;
/// Asking whether one edge is there.
const CHECK: f64 = 20.0;
/// The same where one end is a constant: all rows ask one list.
const CHECK_ONE_LIST: f64 = 6.0;
/// Passing over one id of a list.
const READ: f64 = 1.0;
/// Asking whether a vertex has an edge at all.
const HAS: f64 = 20.0;
/// Making a row.
const EMIT: f64 = 2.0;
/// Carrying one column along with a row that is made.
const CARRY: f64 = 0.7;
/// Turning one arm of an intersection to the next row.
const ARM: f64 = 35.0;
/// Entering a row into a hash table, and finding those that match one.
const ENTER: f64 = 30.0;
const PROBE: f64 = 25.0;
/// A step, whatever it does.
const STEP: f64 = 150.0;
/// Following a path from one vertex, and finding one end by it.
const WALK: f64 = 400.0;
const WALKED: f64 = 60.0;
/// An intersection merges a list that is at most this many times as long as the shortest; in a
/// longer one it looks up single entries (`intersect.rs`).
const MERGE_FACTOR: f64 = 16.0;

/// Rows that come in, rows that go out, columns that are carried along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) rows: f64,
    pub(crate) made: f64,
    pub(crate) columns: usize,
}

impl Flow {
    /// Making the rows; where there was one row only, nothing is gathered.
    fn making(self) -> f64 {
        let carried = if self.rows > 1.0 { self.columns } else { 0 };
        self.made * (EMIT + CARRY * carried as f64)
    }
}

/// Both ends are known: an edge is asked for per row.
pub(crate) fn check(flow: Flow, one_list: bool) -> f64 {
    let each = if one_list { CHECK_ONE_LIST } else { CHECK };
    STEP + flow.rows * each + flow.made * CARRY * flow.columns as f64
}

/// One end is known: a list is read per row. `one_list`: that end is a constant.
pub(crate) fn expand(flow: Flow, one_list: bool) -> f64 {
    let lists = if one_list { 1.0 } else { flow.rows };
    STEP + lists * FIND + flow.making()
}

/// Rows are kept whose vertex has an edge.
pub(crate) fn reduce(flow: Flow) -> f64 {
    STEP + flow.rows * HAS + flow.made * CARRY * flow.columns as f64
}

/// Nothing is known: every edge is read for every row.
pub(crate) fn scan(flow: Flow, vertices: f64, edges: f64) -> f64 {
    STEP + flow.rows * (vertices * FIND + edges * READ) + flow.making()
}

/// An intersection of lists with about these lengths.
pub(crate) fn intersect(flow: Flow, lengths: &[f64]) -> f64 {
    let shortest = lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let mut each = 0.0;
    let mut first = true;
    for length in lengths {
        each += ARM;
        if first && *length == shortest {
            first = false;
            each += shortest * READ;
        } else if *length <= MERGE_FACTOR * shortest.max(1.0) {
            each += (length + shortest) * READ;
        } else {
            each += shortest * CHECK;
        }
    }
    STEP + flow.rows * each + flow.making()
}

/// A hash join with this many rows.
pub(crate) fn hash(flow: Flow, rows: f64) -> f64 {
    STEP + rows * ENTER + flow.rows * PROBE + flow.making()
}

/// A look-up in a hash table that exists already.
pub(crate) fn probe(flow: Flow) -> f64 {
    STEP + flow.rows * PROBE + flow.made * CARRY * flow.columns as f64
}

/// A property path.
pub(crate) fn walk(flow: Flow) -> f64 {
    STEP + flow.rows * WALK + flow.made * WALKED + flow.making()
}

/// A step that looks at each row alone, at this cost for one row.
pub(crate) fn each(flow: Flow, nanos: f64) -> f64 {
    STEP + flow.rows * nanos + flow.made * CARRY * flow.columns as f64
}

/// Sorting.
pub(crate) fn sort(rows: f64) -> f64 {
    STEP + rows * (30.0 + 15.0 * rows.max(2.0).log2())
}

/// Grouping, or dropping repeats.
pub(crate) fn group(rows: f64) -> f64 {
    STEP + rows * ENTER
}
