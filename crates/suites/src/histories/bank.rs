//! Whether the money of a bank stays the same in each read of all its accounts.

use super::check::{Anomaly, Verdict};
use super::event::{EventKind, HistoryEvent, Operation};
use std::collections::BTreeMap;

/// Checks a history of a bank: each read of all accounts has the sum of the first one and no
/// negative balance. If every transfer was answered, the last read holds what they lead to.
///
/// # Errors
/// The events do not fit together, for this reason.
pub fn check_bank(events: &[HistoryEvent]) -> Result<Verdict, String> {
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    let mut verdict = Verdict {
        ok: count(EventKind::Ok),
        failed: count(EventKind::Fail),
        unknown: count(EventKind::Info),
        compared: 0,
        anomalies: Vec::new(),
    };
    let mut wrong = |name, text| verdict.anomalies.push(Anomaly { name, text });
    let reads = events.iter().enumerate().filter_map(|(place, event)| {
        let Operation::Balances(Some(balances)) = &event.operation else {
            return None;
        };
        (event.kind == EventKind::Ok).then_some((place, balances))
    });
    let reads: Vec<(usize, &BTreeMap<u64, i64>)> = reads.collect();
    let Some((first, opening)) = reads.first() else {
        return Err("no read of the accounts was answered: nothing can be compared".to_owned());
    };
    let total: i64 = opening.values().sum();
    for (place, balances) in &reads {
        let sum: i64 = balances.values().sum();
        if sum != total {
            let text =
                format!("event {place}: the balances sum up to {sum}, and at first to {total}");
            wrong("wrong-total", text);
        }
        let negative = balances.iter().filter(|(_, balance)| **balance < 0);
        for (account, balance) in negative {
            wrong(
                "wrong-balance",
                format!("event {place}: account {account} has {balance}"),
            );
        }
    }
    if let Some((last, closing)) = reads.last()
        && let Some(expected) = led_to(events, *first, *last, opening)
        && **closing != expected
    {
        let text = format!(
            "event {last}: the accounts hold {closing:?}; the transfers that were answered lead to {expected:?}"
        );
        wrong("wrong-balance", text);
    }
    verdict.compared = reads.len();
    Ok(verdict)
}

/// What the transfers between two reads lead to; `None` unless each of them began after the first
/// read and was answered before the last one began.
fn led_to(
    events: &[HistoryEvent],
    first: usize,
    last: usize,
    opening: &BTreeMap<u64, i64>,
) -> Option<BTreeMap<u64, i64>> {
    let process = events[last].process;
    let began = (0..last).rev().find(|place| {
        events[*place].process == process && events[*place].kind == EventKind::Invoke
    })?;
    let mut balances = opening.clone();
    let mut open = 0_i64;
    for (place, event) in events.iter().enumerate() {
        let Operation::Transfer { from, to, amount } = event.operation else {
            continue;
        };
        if place < first || place > began {
            return None;
        }
        match event.kind {
            EventKind::Invoke => open += 1,
            EventKind::Info => return None,
            EventKind::Fail => open -= 1,
            EventKind::Ok => {
                open -= 1;
                *balances.entry(from).or_default() -= amount;
                *balances.entry(to).or_default() += amount;
            }
        }
    }
    (open == 0).then_some(balances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::{Fail, Info, Invoke, Ok as Done};

    fn event(process: u64, kind: EventKind, operation: Operation) -> HistoryEvent {
        HistoryEvent {
            kind,
            process,
            operation,
            time: 0,
            error: None,
        }
    }

    fn read(balances: [i64; 2]) -> [HistoryEvent; 2] {
        let balances = [(0, balances[0]), (1, balances[1])].into();
        [
            event(9, Invoke, Operation::Balances(None)),
            event(9, Done, Operation::Balances(Some(balances))),
        ]
    }

    fn transfer(kind: EventKind, amount: i64) -> [HistoryEvent; 2] {
        let transfer = Operation::Transfer {
            from: 0,
            to: 1,
            amount,
        };
        [event(1, Invoke, transfer.clone()), event(1, kind, transfer)]
    }

    #[track_caller]
    fn names(events: &[[HistoryEvent; 2]]) -> Vec<&'static str> {
        let verdict = check_bank(events.as_flattened()).unwrap();
        verdict.anomalies.iter().map(|it| it.name).collect()
    }

    #[test]
    fn money_that_is_made_lost_or_doubled_is_found() {
        let opening = || read([10, 5]);
        assert!(
            names(&[
                opening(),
                transfer(Done, 4),
                transfer(Fail, 9),
                read([6, 9])
            ])
            .is_empty()
        );
        assert_eq!(
            names(&[opening(), transfer(Done, 4), read([6, 5])]),
            ["wrong-total", "wrong-balance"]
        );
        // A transfer that was carried out twice, one that left no trace, and one that had failed.
        for (kind, balances) in [(Done, [2, 13]), (Done, [10, 5]), (Fail, [6, 9])] {
            assert_eq!(
                names(&[opening(), transfer(kind, 4), read(balances)]),
                ["wrong-balance"]
            );
        }
        assert_eq!(
            names(&[opening(), transfer(Done, 12), read([-2, 17])]),
            ["wrong-balance"]
        );
        // One that was not answered may have happened or not.
        for balances in [[10, 5], [6, 9]] {
            assert!(names(&[opening(), transfer(Info, 4), read(balances)]).is_empty());
        }
        assert!(check_bank(transfer(Done, 4).as_slice()).is_err());
    }
}
