//! The transactions of a history, and for each key which version came after which.

use super::event::{EventKind, HistoryEvent, MicroOp, Operation, Seen};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Committed,
    Aborted,
    /// It was not answered.
    Unknown,
}

/// A transaction of a history.
#[derive(Debug)]
pub(super) struct HistoryTransaction {
    pub(super) process: u64,
    pub(super) ended: Ended,
    /// The events that begin and answer it, by their places in the history.
    pub(super) began: usize,
    pub(super) answered: Option<usize>,
    pub(super) steps: Vec<MicroOp>,
}

/// A version of a key: the value written last, `None` before any.
pub(super) type Version = Option<u64>;

/// What is known of one key.
#[derive(Debug, Default)]
pub(super) struct KeyVersions {
    /// Which versions were made of each version. More than one is a lost update.
    pub(super) next: BTreeMap<Version, BTreeSet<u64>>,
    /// Who read each version, from outside.
    pub(super) readers: BTreeMap<Version, BTreeSet<usize>>,
    /// The longest list that was read.
    pub(super) longest: Vec<u64>,
}

/// A history as its transactions and the versions of its keys.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub(super) transactions: Vec<HistoryTransaction>,
    pub(super) keys: BTreeMap<u64, KeyVersions>,
    /// Who wrote each value of each key.
    pub(super) writers: HashMap<(u64, u64), usize>,
    /// Mistakes that need no circle: their names, and what is wrong.
    pub(super) mistakes: Vec<(&'static str, String)>,
}

/// The transactions of a history; operations on accounts are none.
///
/// # Errors
/// The events do not fit together, for this reason.
pub(super) fn transactions(events: &[HistoryEvent]) -> Result<Vec<HistoryTransaction>, String> {
    let mut all: Vec<HistoryTransaction> = Vec::new();
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let Operation::Transaction(steps) = &event.operation else {
            continue;
        };
        let process = event.process;
        let ended = match event.kind {
            EventKind::Invoke => {
                if open.insert(process, all.len()).is_some() {
                    return Err(format!(
                        "event {place}: process {process} has two operations at a time"
                    ));
                }
                all.push(HistoryTransaction {
                    process,
                    ended: Ended::Unknown,
                    began: place,
                    answered: None,
                    steps: steps.clone(),
                });
                continue;
            }
            EventKind::Ok => Ended::Committed,
            EventKind::Fail => Ended::Aborted,
            EventKind::Info => Ended::Unknown,
        };
        let Some(number) = open.remove(&process) else {
            return Err(format!(
                "event {place}: process {process} is answered and has asked nothing"
            ));
        };
        let transaction = &mut all[number];
        transaction.ended = ended;
        if ended != Ended::Unknown {
            transaction.answered = Some(place);
        }
        if ended == Ended::Committed {
            transaction.steps.clone_from(steps);
        }
    }
    Ok(all)
}

impl Versions {
    /// Reads what transactions saw and wrote.
    ///
    /// # Errors
    /// A value was written twice.
    pub(super) fn of(transactions: Vec<HistoryTransaction>) -> Result<Versions, String> {
        let mut versions = Versions::default();
        for (number, transaction) in transactions.iter().enumerate() {
            for step in &transaction.steps {
                let (MicroOp::Append { key, value } | MicroOp::Write { key, value }) = step else {
                    continue;
                };
                if versions.writers.insert((*key, *value), number).is_some() {
                    return Err(format!("value {value} of key {key} is written twice"));
                }
            }
        }
        versions.transactions = transactions;
        for number in 0..versions.transactions.len() {
            if versions.transactions[number].ended == Ended::Committed {
                versions.follow(number);
            }
        }
        versions.order_lists();
        Ok(versions)
    }

    /// Follows the steps of a transaction that has committed: what it read from outside, what it
    /// wrote over, and whether it saw its own writes.
    fn follow(&mut self, number: usize) {
        let steps = self.transactions[number].steps.clone();
        // What the transaction knows of each key: the list or register as it must be now.
        let mut known: BTreeMap<u64, Seen> = BTreeMap::new();
        let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for step in &steps {
            match step {
                MicroOp::Read { key, seen } => {
                    let seen = match seen {
                        Seen::List(list) if list.is_empty() => Seen::Nothing,
                        seen => seen.clone(),
                    };
                    let written = own.get(key).map_or(&[][..], Vec::as_slice);
                    if let Some(must) = known.get(key) {
                        if *must != seen {
                            self.mistakes.push(("internal", format!(
                                "T{number} read key {key} as {}, and from its own steps before it is {}",
                                shown(&seen), shown(must)
                            )));
                        }
                    } else if written.is_empty() {
                        self.read(number, *key, &seen);
                    } else {
                        let list = match &seen {
                            Seen::List(list) => list.as_slice(),
                            Seen::Nothing | Seen::Value(_) => &[],
                        };
                        match list.strip_suffix(written) {
                            Some([]) => self.read(number, *key, &Seen::Nothing),
                            Some(before) => self.read(number, *key, &Seen::List(before.to_vec())),
                            None => self.mistakes.push(("internal", format!(
                                "T{number} read key {key} as {}, without what it had appended itself, {written:?}",
                                shown(&seen)
                            ))),
                        }
                    }
                    known.insert(*key, seen);
                }
                MicroOp::Append { key, value } => {
                    own.entry(*key).or_default().push(*value);
                    match known.get_mut(key) {
                        Some(Seen::List(list)) => list.push(*value),
                        Some(nothing) => *nothing = Seen::List(vec![*value]),
                        None => {}
                    }
                }
                MicroOp::Write { key, value } => {
                    own.entry(*key).or_default().push(*value);
                    if let Some(before) = known.insert(*key, Seen::Value(*value)) {
                        let next = &mut self.keys.entry(*key).or_default().next;
                        next.entry(version(&before)).or_default().insert(*value);
                    }
                }
            }
        }
    }

    /// Takes down that a transaction read a version that it did not make.
    fn read(&mut self, number: usize, key: u64, seen: &Seen) {
        let values = match seen {
            Seen::Nothing => &[][..],
            Seen::List(list) => list.as_slice(),
            Seen::Value(value) => std::slice::from_ref(value),
        };
        for value in values {
            let mistake = match self.writers.get(&(key, *value)) {
                None => ("G1a", "which nobody wrote".to_owned()),
                Some(writer) if self.transactions[*writer].ended == Ended::Aborted => (
                    "G1a",
                    format!("which T{writer} wrote, and T{writer} aborted"),
                ),
                Some(_) => continue,
            };
            let said = format!(
                "T{number} read key {key} as {}: {value}, {}",
                shown(seen),
                mistake.1
            );
            self.mistakes.push((mistake.0, said));
        }
        if let Some(last) = version(seen)
            && let Some(writer) = self.writers.get(&(key, last))
            && let Some(later) = self.last_write(*writer, key).filter(|it| *it != last)
        {
            self.mistakes.push(("G1b", format!(
                "T{number} read key {key} as {}: T{writer} wrote {later} over {last} before it ended",
                shown(seen)
            )));
        }
        let found = self.keys.entry(key).or_default();
        found
            .readers
            .entry(version(seen))
            .or_default()
            .insert(number);
        if let Seen::List(list) = seen {
            let (short, long) = match list.len() <= found.longest.len() {
                true => (list, &found.longest),
                false => (&found.longest, list),
            };
            if !long.starts_with(short) {
                let said = format!(
                    "T{number} read key {key} as {list:?}, and another one as {:?}: neither is the beginning of the other",
                    found.longest
                );
                self.mistakes.push(("incompatible-order", said));
            }
            if list.len() > found.longest.len() {
                found.longest.clone_from(list);
            }
        }
    }

    /// The last value of a key that a transaction wrote.
    fn last_write(&self, number: usize, key: u64) -> Option<u64> {
        let mut steps = self.transactions[number].steps.iter().rev();
        steps.find_map(|step| match step {
            MicroOp::Append { key: at, value } | MicroOp::Write { key: at, value } => {
                (*at == key).then_some(*value)
            }
            MicroOp::Read { .. } => None,
        })
    }

    /// The versions of a list are in the order of the longest one that was read. An append that has
    /// committed and is not in it came after it.
    fn order_lists(&mut self) {
        let mut appends: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for transaction in &self.transactions {
            for step in &transaction.steps {
                if let MicroOp::Append { key, value } = step
                    && transaction.ended == Ended::Committed
                {
                    appends.entry(*key).or_default().push(*value);
                }
            }
        }
        for (key, found) in &mut self.keys {
            let distinct: BTreeSet<u64> = found.longest.iter().copied().collect();
            if distinct.len() < found.longest.len() {
                let said = format!(
                    "key {key} was read as {:?}: an element is twice",
                    found.longest
                );
                self.mistakes.push(("duplicate", said));
            }
            let mut before = None;
            for value in &found.longest {
                found.next.entry(before).or_default().insert(*value);
                before = Some(*value);
            }
            let unseen = appends.remove(key).unwrap_or_default().into_iter();
            let unseen = unseen.filter(|value| !distinct.contains(value));
            for value in unseen {
                found.next.entry(before).or_default().insert(value);
            }
        }
    }
}

/// The version that a read saw.
fn version(seen: &Seen) -> Version {
    match seen {
        Seen::Nothing => None,
        Seen::List(list) => list.last().copied(),
        Seen::Value(value) => Some(*value),
    }
}

/// What a read saw, in words.
fn shown(seen: &Seen) -> String {
    match seen {
        Seen::Nothing => "nothing".to_owned(),
        Seen::List(list) => format!("{list:?}"),
        Seen::Value(value) => value.to_string(),
    }
}
