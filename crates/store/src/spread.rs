//! Sorting rows of ids. Ids of the dictionary are spread evenly by their virtual shard, so rows are
//! dealt out to many small buckets by their leading id, and only the buckets are sorted.
//!
//! Before changing anything here: the order is that of `Ord`, whatever the ids are; an uneven
//! spread only takes longer.

use somersault_model::TermId;

/// Fewer rows are sorted at once.
const FEW: usize = 64;
/// The approximate number of rows in a bucket.
const IN_A_BUCKET: usize = 4;
/// The most groups whose rows are dealt out.
const MOST_GROUPS: usize = 16;

/// A row that can be dealt out.
pub(crate) trait Spread: Copy + Ord {
    /// What the order of rows begins with: the id of a group, of which there are few, and an id
    /// that differs from row to row.
    fn lead(&self) -> (TermId, TermId);
}

/// The rows of one group.
struct Dealt {
    group: TermId,
    count: usize,
    lowest: u64,
    highest: u64,
    /// Its first bucket, and the bits of an id that do not tell its buckets apart.
    bucket: usize,
    shift: u32,
}

impl Dealt {
    fn bucket_of(&self, id: TermId) -> usize {
        self.bucket + ((id.raw() - self.lowest) >> self.shift) as usize
    }
}

/// Appends rows, sorted among themselves.
pub(crate) fn append_sorted<T: Spread>(rows: &[T], to: &mut Vec<T>) {
    let start = to.len();
    let groups = match rows.len() {
        0..FEW => None,
        _ => groups_of(rows),
    };
    let Some((groups, buckets)) = groups else {
        to.extend_from_slice(rows);
        to[start..].sort_unstable();
        return;
    };
    let mut ends = vec![0_u32; buckets];
    let mut near = 0;
    for row in rows {
        ends[bucket_of(row, &groups, &mut near)] += 1;
    }
    let mut end = 0;
    for bucket in &mut ends {
        end += std::mem::replace(bucket, end);
    }
    to.resize(start + rows.len(), rows[0]);
    let sorted = &mut to[start..];
    for row in rows {
        let end = &mut ends[bucket_of(row, &groups, &mut near)];
        sorted[*end as usize] = *row;
        *end += 1;
    }
    let mut from = 0;
    for end in ends {
        let bucket = &mut sorted[from..end as usize];
        if bucket.len() > 1 {
            bucket.sort_unstable();
        }
        from = end as usize;
    }
}

/// The groups in their order, with the number of all buckets; `None` if there are too many groups
/// or rows.
fn groups_of<T: Spread>(rows: &[T]) -> Option<(Vec<Dealt>, usize)> {
    let mut groups: Vec<Dealt> = Vec::new();
    let mut near = 0;
    u32::try_from(rows.len()).ok()?;
    for row in rows {
        let (group, id) = row.lead();
        if groups.get(near).is_none_or(|it| it.group != group) {
            near = groups
                .iter()
                .position(|it| it.group == group)
                .unwrap_or(groups.len());
        }
        if near == MOST_GROUPS {
            return None;
        }
        if near == groups.len() {
            groups.push(Dealt {
                group,
                count: 0,
                lowest: u64::MAX,
                highest: 0,
                bucket: 0,
                shift: 0,
            });
        }
        let group = &mut groups[near];
        group.count += 1;
        group.lowest = group.lowest.min(id.raw());
        group.highest = group.highest.max(id.raw());
    }
    groups.sort_unstable_by_key(|it| it.group);
    let mut buckets = 0;
    for group in &mut groups {
        let range = group.highest - group.lowest;
        let wanted = (group.count / IN_A_BUCKET).max(2) as u64;
        while range >> group.shift >= wanted {
            group.shift += 1;
        }
        group.bucket = buckets;
        buckets += (range >> group.shift) as usize + 1;
    }
    Some((groups, buckets))
}

/// The bucket of a row; its group is looked for at `near` first.
#[inline]
fn bucket_of<T: Spread>(row: &T, groups: &[Dealt], near: &mut usize) -> usize {
    let (group, id) = row.lead();
    if groups.get(*near).is_none_or(|it| it.group != group) {
        *near = groups.partition_point(|it| it.group < group);
    }
    groups[*near].bucket_of(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::{Tag, VirtualShard, inline};

    type Row = (TermId, TermId, TermId, u32);

    fn id(kind: u8, n: u64) -> TermId {
        match kind % 3 {
            0 => inline::integer(n as i64 - 40).expect("fits"),
            1 => TermId::from_raw(u64::MAX - n),
            _ => {
                let shard = VirtualShard::truncated((n * 37 % 4096) as u16);
                TermId::in_dictionary(Tag::NamedNode, shard, n % 5)
            }
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "minutes under miri")]
        fn rows_are_sorted_as_by_comparing_them(
            rows in prop::collection::vec((0u64..20, 0u8..3, 0u64..900, 0u64..4), 0..600),
            groups in 1u64..20,
            kinds in 1u8..4,
            before in 0usize..3,
        ) {
            let numbered = rows.into_iter().zip(0..);
            let rows: Vec<Row> = numbered
                .map(|((group, kind, n, object), number)| {
                    (id(2, group % groups), id(2 + kind % kinds, n), id(2, object), number)
                })
                .collect();
            let mut expected = vec![rows.first().copied().unwrap_or((id(0, 0), id(0, 0), id(0, 0), 0)); before];
            let mut sorted = expected.clone();
            let mut alone = rows.clone();
            alone.sort_unstable();
            expected.extend(alone);
            append_sorted(&rows, &mut sorted);
            prop_assert_eq!(sorted, expected);
        }
    }
}
