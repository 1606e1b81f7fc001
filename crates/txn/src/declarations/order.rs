//! Topological order of a small graph, with a way round where it has none.

use std::collections::BTreeSet;

/// The nodes 0 to `count` − 1 so that each edge leads from an earlier to a later one; of several
/// that may be next, the lowest.
///
/// # Errors
/// A cycle: nodes along it, the first one again at the end.
pub(super) fn in_order(
    count: usize,
    edges: &BTreeSet<(usize, usize)>,
) -> Result<Vec<usize>, Vec<usize>> {
    let mut left: BTreeSet<usize> = (0..count).collect();
    let mut order = Vec::with_capacity(count);
    while !left.is_empty() {
        let is_free = |node: &usize| {
            !edges
                .iter()
                .any(|(from, to)| to == node && left.contains(from))
        };
        let Some(next) = left.iter().copied().find(is_free) else {
            return Err(way_round(&left, edges));
        };
        left.remove(&next);
        order.push(next);
    }
    Ok(order)
}

/// A cycle among nodes of which each has an edge from another one of them; from its lowest node on.
fn way_round(left: &BTreeSet<usize>, edges: &BTreeSet<(usize, usize)>) -> Vec<usize> {
    let before = |node: usize| {
        let mut into = edges
            .iter()
            .filter(|(from, to)| *to == node && left.contains(from));
        into.next().map(|(from, _)| *from)
    };
    let mut back: Vec<usize> = left.first().copied().into_iter().collect();
    while let Some(node) = back.last().copied().and_then(before) {
        let begins = back.iter().position(|passed| *passed == node);
        back.push(node);
        if let Some(begins) = begins {
            back.drain(..begins);
            break;
        }
    }
    back.reverse();
    back.pop();
    let lowest = (0..back.len()).min_by_key(|at| back[*at]).unwrap_or(0);
    back.rotate_left(lowest);
    back.extend(back.first().copied());
    back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_node_is_next() {
        let edges = [(2, 0), (0, 3)].into();
        assert_eq!(in_order(4, &edges), Ok(vec![1, 2, 0, 3]));
    }

    #[test]
    fn a_cycle_is_named_from_its_lowest_node() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 1)].into();
        assert_eq!(in_order(4, &edges), Err(vec![1, 2, 3, 1]));
        assert_eq!(in_order(1, &[(0, 0)].into()), Err(vec![0, 0]));
    }
}
