//! The dull twin: what a window holds and what a query answers, computed from the whole history each time with nested loops.
//! It is slow and short on purpose; when it and the engine differ, it is read first and believed.

use std::collections::{BTreeMap, BTreeSet};

/// A triple of the scenarios' small alphabets: subject and object are nodes, the predicate is from its own.
pub type Triple = (u8, u8, u8);

/// A stream as declared.
#[derive(Debug, Clone)]
pub struct StreamModel {
    /// BATCH.
    pub batch_ms: i64,
    /// Whether its statements are absorbed into the default graph.
    pub timeless: bool,
}

/// A window of a query.
#[derive(Debug, Clone)]
pub struct WindowModel {
    /// The stream's number.
    pub stream: usize,
    /// RANGE.
    pub range_ms: i64,
    /// STEP.
    pub step_ms: i64,
    /// Whether the window is part of the default graph (FROM STREAM) or only a named one (FROM NAMED STREAM).
    pub in_default: bool,
}

/// Where a pattern looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `GRAPH stream { … }`: the window with this number.
    Window(usize),
    /// The default graph: the stored one, and the windows that are in it.
    Default,
}

/// A place of a triple pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A constant.
    Term(u8),
    /// A variable.
    Var(u8),
}

/// A continuous query.
#[derive(Debug, Clone)]
pub struct QueryModel {
    /// Its windows, each over another stream.
    pub windows: Vec<WindowModel>,
    /// COMPUTED EVERY.
    pub every_ms: Option<i64>,
    /// SELECT DISTINCT.
    pub distinct: bool,
    /// Its triple patterns.
    pub patterns: Vec<(Place, [Slot; 3])>,
    /// The projected variables.
    pub projection: Vec<u8>,
}

/// A bag of rows: how often each comes.
pub type Bag = BTreeMap<Vec<u8>, usize>;

/// Everything that has happened so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// What each stream was fed, in order of event time.
    pub fed: Vec<Vec<(i64, Triple)>>,
    /// The stored default graph.
    pub stored: BTreeSet<Triple>,
    /// How far every stream is.
    pub time_ms: Option<i64>,
    /// A planted bug: windows miss the statements at their beginning.
    pub left_open: bool,
}

impl QueryModel {
    /// Whether the query fires at `close`.
    pub fn closes_at(&self, close_ms: i64) -> bool {
        match self.every_ms {
            Some(every) => close_ms % every == 0,
            None => self
                .windows
                .iter()
                .any(|window| close_ms % window.step_ms == 0),
        }
    }

    /// The answer for a close, with the stored graph as it is now.
    pub fn answer(&self, history: &History, close_ms: i64) -> Bag {
        let windows: Vec<BTreeSet<Triple>> = self
            .windows
            .iter()
            .map(|window| window.content(history, close_ms))
            .collect();
        let mut default = history.stored.clone();
        for (window, content) in self.windows.iter().zip(&windows) {
            if window.in_default {
                default.extend(content);
            }
        }
        let mut solutions: Vec<BTreeMap<u8, u8>> = vec![BTreeMap::new()];
        for (place, pattern) in &self.patterns {
            let graph = match place {
                Place::Window(at) => &windows[*at],
                Place::Default => &default,
            };
            solutions = solutions
                .iter()
                .flat_map(|solution| {
                    graph
                        .iter()
                        .filter_map(|triple| matched(solution, pattern, *triple))
                })
                .collect();
        }
        let mut bag = Bag::new();
        for solution in solutions {
            let row = self
                .projection
                .iter()
                .map(|variable| solution[variable])
                .collect();
            let times = bag.entry(row).or_insert(0);
            *times = if self.distinct { 1 } else { *times + 1 };
        }
        bag
    }
}

impl WindowModel {
    /// What a window shows at `close`: its own latest close, also where COMPUTED EVERY says when the query fires.
    fn content(&self, history: &History, close_ms: i64) -> BTreeSet<Triple> {
        let end = close_ms.div_euclid(self.step_ms) * self.step_ms;
        let begin = end - self.range_ms + i64::from(history.left_open);
        history.fed[self.stream]
            .iter()
            .filter(|(at, _)| (begin..end).contains(at))
            .map(|(_, triple)| *triple)
            .collect()
    }
}

fn matched(
    solution: &BTreeMap<u8, u8>,
    pattern: &[Slot; 3],
    triple: Triple,
) -> Option<BTreeMap<u8, u8>> {
    let mut extended = solution.clone();
    for (slot, term) in pattern.iter().zip([triple.0, triple.1, triple.2]) {
        let fits = match slot {
            Slot::Term(constant) => *constant == term,
            Slot::Var(variable) => *extended.entry(*variable).or_insert(term) == term,
        };
        if !fits {
            return None;
        }
    }
    Some(extended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(range_ms: i64, step_ms: i64) -> QueryModel {
        QueryModel {
            windows: vec![WindowModel {
                stream: 0,
                range_ms,
                step_ms,
                in_default: false,
            }],
            every_ms: None,
            distinct: false,
            patterns: vec![(
                Place::Window(0),
                [Slot::Var(0), Slot::Term(1), Slot::Var(2)],
            )],
            projection: vec![2],
        }
    }

    fn fed(statements: &[(i64, Triple)]) -> History {
        History {
            fed: vec![statements.to_vec()],
            ..History::default()
        }
    }

    #[test]
    fn a_window_is_closed_on_the_left_and_a_set() {
        let history = fed(&[
            (1000, (1, 1, 7)),
            (1500, (1, 1, 7)),
            (1999, (2, 1, 7)),
            (2000, (3, 1, 7)),
        ]);
        assert_eq!(
            query(1000, 1000).answer(&history, 2000),
            Bag::from([(vec![7], 2)])
        );
        assert_eq!(
            query(1000, 1000).answer(&history, 3000),
            Bag::from([(vec![7], 1)])
        );
        assert_eq!(
            query(500, 1000).answer(&history, 2000),
            Bag::from([(vec![7], 2)])
        );
    }

    #[test]
    fn a_window_shows_its_latest_close() {
        let history = fed(&[(500, (1, 1, 7)), (2500, (1, 1, 8))]);
        let mut query = query(2000, 2000);
        query.windows.push(WindowModel {
            stream: 0,
            range_ms: 1000,
            step_ms: 1000,
            in_default: false,
        });
        assert!(query.closes_at(3000));
        assert_eq!(query.answer(&history, 3000), Bag::from([(vec![7], 1)]));
    }
}
