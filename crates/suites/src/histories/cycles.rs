//! Circles in a graph of dependencies.

use std::collections::{BTreeMap, VecDeque};

/// Why one transaction comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// Both wrote a key, the second one over the first.
    Ww,
    /// The second read what the first wrote.
    Wr,
    /// The second wrote over what the first read.
    Rw,
    /// The second began after the first had ended.
    Time,
}

/// A dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) link: Link,
    /// The key, and the value that was written last; both 0 for [`Link::Time`].
    pub(super) about: (u64, u64),
}

/// A graph of dependencies.
pub(super) struct Dependencies {
    from: Vec<Vec<Edge>>,
}

/// A kind of circle: its name, the links that it may have, and whether exactly one is `Rw`.
type Pattern = (&'static str, &'static [Link], bool);

/// From the simplest to the most general one.
const PATTERNS: [Pattern; 8] = {
    use Link::{Rw, Time, Wr, Ww};
    [
        ("G0", &[Ww], false),
        ("G1c", &[Ww, Wr], false),
        ("G-single", &[Ww, Wr], true),
        ("G2", &[Ww, Wr, Rw], false),
        ("G0-realtime", &[Ww, Time], false),
        ("G1c-realtime", &[Ww, Wr, Time], false),
        ("G-single-realtime", &[Ww, Wr, Time], true),
        ("G2-realtime", &[Ww, Wr, Rw, Time], false),
    ]
};

impl Dependencies {
    pub(super) fn new(transactions: usize) -> Dependencies {
        Dependencies {
            from: vec![Vec::new(); transactions],
        }
    }

    /// Adds a dependency. One of a transaction on itself says nothing.
    pub(super) fn add(&mut self, edge: Edge) {
        if edge.from != edge.to {
            self.from[edge.from].push(edge);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.from.iter().map(Vec::len).sum()
    }

    /// A circle of the simplest kind for each set of transactions that all depend on each other.
    pub(super) fn circles(&self) -> Vec<(&'static str, Vec<Edge>)> {
        let mut circles = Vec::new();
        for component in self.components() {
            let mut within = vec![false; self.from.len()];
            for node in &component {
                within[*node] = true;
            }
            let mut found = PATTERNS.iter().filter_map(|pattern| {
                let circle = self.shortest(&component, &within, pattern)?;
                Some((pattern.0, circle))
            });
            circles.extend(found.next());
        }
        circles
    }

    /// The shortest circle of a kind among some transactions.
    fn shortest(
        &self,
        component: &[usize],
        within: &[bool],
        pattern: &Pattern,
    ) -> Option<Vec<Edge>> {
        let &(_, links, one_rw) = pattern;
        let mut best: Option<Vec<Edge>> = None;
        for node in component {
            let firsts = self.from[*node].iter().filter(|edge| match one_rw {
                true => edge.link == Link::Rw,
                false => links.contains(&edge.link),
            });
            for first in firsts.filter(|edge| within[edge.to]) {
                let Some(mut way) = self.way(first.to, *node, within, links) else {
                    continue;
                };
                way.insert(0, *first);
                if best.as_ref().is_none_or(|best| way.len() < best.len()) {
                    best = Some(way);
                }
            }
        }
        best
    }

    /// The shortest way over some links between two transactions.
    fn way(&self, from: usize, to: usize, within: &[bool], links: &[Link]) -> Option<Vec<Edge>> {
        let mut came: BTreeMap<usize, Edge> = BTreeMap::new();
        let mut ahead = VecDeque::from([from]);
        while let Some(node) = ahead.pop_front() {
            if node == to {
                let mut way = Vec::new();
                let mut at = to;
                while at != from {
                    let edge = came[&at];
                    way.push(edge);
                    at = edge.from;
                }
                way.reverse();
                return Some(way);
            }
            for edge in &self.from[node] {
                let is_new = edge.to != from && !came.contains_key(&edge.to);
                if is_new && within[edge.to] && links.contains(&edge.link) {
                    came.insert(edge.to, *edge);
                    ahead.push_back(edge.to);
                }
            }
        }
        None
    }

    /// The sets of two or more transactions that all depend on each other: Tarjan's strongly
    /// connected components, without recursion.
    fn components(&self) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.from.len();
        let (mut number, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let (mut open, mut is_open, mut next) = (Vec::new(), vec![false; count], 0);
        let mut components = Vec::new();
        for root in 0..count {
            if number[root] != UNSEEN {
                continue;
            }
            let mut path = vec![(root, 0)];
            while let Some((node, edge)) = path.pop() {
                if edge == 0 {
                    number[node] = next;
                    low[node] = next;
                    next += 1;
                    open.push(node);
                    is_open[node] = true;
                } else {
                    // The edge before this one led to a node that is finished now.
                    let to = self.from[node][edge - 1].to;
                    if is_open[to] {
                        low[node] = low[node].min(low[to]);
                    }
                }
                let rest = self.from[node].iter().enumerate().skip(edge);
                let mut unseen = None;
                for (at, Edge { to, .. }) in rest {
                    if number[*to] == UNSEEN {
                        unseen = Some((at, *to));
                        break;
                    }
                    if is_open[*to] {
                        low[node] = low[node].min(number[*to]);
                    }
                }
                if let Some((at, to)) = unseen {
                    path.push((node, at + 1));
                    path.push((to, 0));
                } else if low[node] == number[node] {
                    let start = open.iter().rposition(|it| *it == node).unwrap_or(0);
                    let component = open.split_off(start);
                    component.iter().for_each(|it| is_open[*it] = false);
                    if component.len() > 1 {
                        components.push(component);
                    }
                }
            }
        }
        components
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Link::{Rw, Time, Wr, Ww};
    use somersault_model::SeededRandom;

    fn graph(nodes: usize, edges: &[(usize, usize, Link)]) -> Dependencies {
        let mut graph = Dependencies::new(nodes);
        for &(from, to, link) in edges {
            let about = (0, 0);
            graph.add(Edge {
                from,
                to,
                link,
                about,
            });
        }
        graph
    }

    #[test]
    fn each_kind_of_circle_has_its_name() {
        for (name, edges) in [
            ("G0", &[(0, 1, Ww), (1, 0, Ww)][..]),
            ("G1c", &[(0, 1, Ww), (1, 2, Wr), (2, 0, Ww)]),
            ("G-single", &[(0, 1, Rw), (1, 2, Wr), (2, 0, Ww)]),
            ("G2", &[(0, 1, Rw), (1, 0, Rw)]),
            ("G0-realtime", &[(0, 1, Ww), (1, 0, Time)]),
            ("G1c-realtime", &[(0, 1, Wr), (1, 0, Time)]),
            ("G-single-realtime", &[(0, 1, Rw), (1, 0, Time)]),
            ("G2-realtime", &[(0, 1, Rw), (1, 2, Rw), (2, 0, Time)]),
        ] {
            let found = graph(3, edges).circles();
            let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [name]);
            assert_eq!(found[0].1.len(), edges.len());
        }
    }

    #[test]
    fn an_order_has_no_circle() {
        let edges: Vec<_> = (0..200)
            .flat_map(|from| [(from, from + 1, Ww), (from, (from + 7).min(200), Rw)])
            .collect();
        assert_eq!(graph(201, &edges).circles(), []);
    }

    #[test]
    fn components_are_those_of_a_dull_search() {
        for seed in 0..300 {
            let mut random = SeededRandom::new(seed);
            let edges: Vec<_> = (0..random.below(24))
                .map(|_| (random.below(9) as usize, random.below(9) as usize, Ww))
                .collect();
            let graph = graph(9, &edges);
            let all = [true; 9];
            let reaches = |a: usize, b: usize| graph.way(a, b, &all, &[Ww]).is_some();
            let together = |a: usize, b: usize| reaches(a, b) && reaches(b, a);
            let mut expected: Vec<Vec<usize>> = (0..9)
                .map(|a| (0..9).filter(|b| together(a, *b)).collect())
                .filter(|set: &Vec<usize>| set.len() > 1)
                .collect();
            expected.sort();
            expected.dedup();
            let mut found = graph.components();
            found.iter_mut().for_each(|set| set.sort_unstable());
            found.sort();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
