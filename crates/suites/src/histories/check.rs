//! Whether a history of lists and registers could have come from transactions that ran one after
//! the other, each at some time between its beginning and its answer.

use super::bank::check_bank;
use super::cycles::{Dependencies, Edge, Link};
use super::event::{HistoryEvent, Operation};
use super::versions::{Ended, Version, Versions, transactions};
use std::collections::BTreeSet;

/// Something in a history that cannot have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name: `G0`, `G1a`, `G1b`, `G1c`, `G-single` and `G2` of Adya and Elle, with `-realtime`
    /// if it takes the times of the clients to see it; `internal`, `duplicate`,
    /// `incompatible-order`; of banks `wrong-total` and `wrong-balance`.
    pub name: &'static str,
    /// What was seen, in words.
    pub text: String,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Operations that were answered `ok`, that failed, and that were not answered.
    pub ok: usize,
    /// See [`Verdict::ok`].
    pub failed: usize,
    /// See [`Verdict::ok`].
    pub unknown: usize,
    /// Dependencies between transactions; for banks the number of reads of all accounts.
    pub compared: usize,
    /// What cannot have been; empty for a serializable history.
    pub anomalies: Vec<Anomaly>,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ok, failed, unknown, compared) = (self.ok, self.failed, self.unknown, self.compared);
        write!(
            f,
            "{ok} ok, {failed} failed, {unknown} not answered, {compared} compared: "
        )?;
        match self.anomalies.as_slice() {
            [] => write!(
                f,
                "serializable, in an order that agrees with the clients' times"
            ),
            anomalies => {
                let count = anomalies.len();
                let word = if count == 1 { "anomaly" } else { "anomalies" };
                write!(f, "{count} {word}")?;
                let mut all = anomalies.iter();
                all.try_for_each(|it| write!(f, "\n{}: {}", it.name, it.text))
            }
        }
    }
}

/// Checks a history of lists, registers or a bank, whichever it is.
///
/// # Errors
/// The events do not fit together, for this reason.
pub fn judge(events: &[HistoryEvent]) -> Result<Verdict, String> {
    let is_bank = |event: &HistoryEvent| !matches!(event.operation, Operation::Transaction(_));
    match events.iter().any(is_bank) {
        true => check_bank(events),
        false => check(events),
    }
}

/// Checks a history of lists or registers. The version order of a list is that of its elements in
/// the longest read; of a register, each write follows the value that its transaction had read.
///
/// # Errors
/// The events do not fit together, for this reason.
pub fn check(events: &[HistoryEvent]) -> Result<Verdict, String> {
    let versions = Versions::of(transactions(events)?)?;
    let count = |ended: Ended| {
        let all = versions.transactions.iter();
        all.filter(|it| it.ended == ended).count()
    };
    let graph = dependencies(&versions);
    let mistakes = versions.mistakes.iter();
    let mistakes = mistakes.map(|(name, text)| Anomaly {
        name,
        text: text.clone(),
    });
    let circles = graph.circles().into_iter();
    let circles = circles.map(|(name, circle)| Anomaly {
        name,
        text: told(&versions, &circle),
    });
    Ok(Verdict {
        ok: count(Ended::Committed),
        failed: count(Ended::Aborted),
        unknown: count(Ended::Unknown),
        compared: graph.len(),
        anomalies: mistakes.chain(circles).collect(),
    })
}

fn dependencies(versions: &Versions) -> Dependencies {
    let mut graph = Dependencies::new(versions.transactions.len());
    for (key, found) in &versions.keys {
        let writer = |version: Version| {
            let writer = versions.writers.get(&(*key, version?)).copied()?;
            (versions.transactions[writer].ended != Ended::Aborted).then_some(writer)
        };
        for (before, readers) in &found.readers {
            let Some((from, value)) = writer(*before).zip(*before) else {
                continue;
            };
            for to in readers {
                graph.add(Edge {
                    from,
                    to: *to,
                    link: Link::Wr,
                    about: (*key, value),
                });
            }
        }
        for (before, after) in &found.next {
            for value in after {
                let Some(to) = writer(Some(*value)) else {
                    continue;
                };
                let about = (*key, *value);
                if let Some(from) = writer(*before) {
                    graph.add(Edge {
                        from,
                        to,
                        link: Link::Ww,
                        about,
                    });
                }
                for from in found.readers.get(before).into_iter().flatten() {
                    graph.add(Edge {
                        from: *from,
                        to,
                        link: Link::Rw,
                        about,
                    });
                }
            }
        }
    }
    add_times(versions, &mut graph);
    graph
}

/// Links what had ended with what began afterwards. A link that follows from two others is left
/// out: only transactions that nothing ended has been behind yet are linked with the next one.
fn add_times(versions: &Versions, graph: &mut Dependencies) {
    let all = || versions.transactions.iter().enumerate();
    let mut events: Vec<(usize, usize, bool)> = Vec::new();
    for (number, transaction) in all().filter(|(_, it)| it.ended != Ended::Aborted) {
        events.push((transaction.began, number, false));
        events.extend(transaction.answered.map(|place| (place, number, true)));
    }
    events.sort_unstable();
    let mut newest: BTreeSet<usize> = BTreeSet::new();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); versions.transactions.len()];
    for (_, number, is_answer) in events {
        if is_answer {
            for before in &behind[number] {
                newest.remove(before);
            }
            newest.insert(number);
        } else {
            behind[number] = newest.iter().copied().collect();
            for from in &newest {
                let about = (0, 0);
                graph.add(Edge {
                    from: *from,
                    to: number,
                    link: Link::Time,
                    about,
                });
            }
        }
    }
}

/// A circle in words.
fn told(versions: &Versions, circle: &[Edge]) -> String {
    let mut text = format!(
        "{} transactions come before each other in a circle",
        circle.len()
    );
    for edge in circle {
        let (from, to) = (edge.from, edge.to);
        let (key, value) = edge.about;
        let why = match edge.link {
            Link::Ww => format!("T{to} wrote {value} to key {key} over what T{from} had written"),
            Link::Wr => format!("T{to} read key {key} with {value}, which T{from} had written"),
            Link::Rw => format!("T{from} read key {key} as it was before T{to} wrote {value}"),
            Link::Time => format!("T{from} was answered before T{to} began"),
        };
        let process = versions.transactions[from].process;
        text += &format!("\n  T{from} (process {process}) before T{to}: {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::event::{EventKind, MicroOp, Seen};
    use super::*;

    /// A history from words: `process kind step…`, with the steps `r1=2,3`, `r1=`, `a1=4`, `w1=4`,
    /// `v1=4` (a read of a register).
    fn history(lines: &[&str]) -> Vec<HistoryEvent> {
        let event = |(time, line): (usize, &&str)| {
            let mut words = line.split(' ');
            let process = words.next().unwrap().parse().unwrap();
            let kind = match words.next().unwrap() {
                "?" => EventKind::Invoke,
                "ok" => EventKind::Ok,
                "fail" => EventKind::Fail,
                "info" => EventKind::Info,
                other => panic!("{other}"),
            };
            HistoryEvent {
                kind,
                process,
                operation: Operation::Transaction(words.map(step).collect()),
                time: time as u64,
                error: None,
            }
        };
        lines.iter().enumerate().map(event).collect()
    }

    fn step(word: &str) -> MicroOp {
        let (what, values) = word.split_once('=').unwrap();
        let (what, key) = what.split_at(1);
        let key = key.parse().unwrap();
        let mut numbers = values.split(',').filter(|it| !it.is_empty());
        let mut number = || numbers.next().map(|it| it.parse().unwrap());
        match what {
            "a" => MicroOp::Append {
                key,
                value: number().unwrap(),
            },
            "w" => MicroOp::Write {
                key,
                value: number().unwrap(),
            },
            "v" => MicroOp::Read {
                key,
                seen: number().map_or(Seen::Nothing, Seen::Value),
            },
            _ => MicroOp::Read {
                key,
                seen: Seen::List(std::iter::from_fn(number).collect()),
            },
        }
    }

    #[track_caller]
    fn names(lines: &[&str]) -> Vec<&'static str> {
        let verdict = check(&history(lines)).unwrap();
        verdict.anomalies.iter().map(|it| it.name).collect()
    }

    #[test]
    fn transactions_one_after_the_other_are_serializable() {
        let lines = [
            "0 ? r1= a1=1",
            "1 ? r1= a1=2",
            "0 ok r1= a1=1",
            "1 ok r1=1 a1=2",
            "0 ? r1= w2=3",
            "0 ok r1=1,2 w2=3",
            "1 ? v2= w2=4",
            "1 ok v2=3 w2=4",
            "0 ? v2=",
            "0 ok v2=4",
        ];
        let verdict = check(&history(&lines)).unwrap();
        assert_eq!(verdict.anomalies, []);
        assert_eq!((verdict.ok, verdict.failed, verdict.unknown), (5, 0, 0));
        assert!(verdict.compared >= 6 && verdict.to_string().contains("serializable"));
    }

    #[test]
    fn a_lost_update_is_found_in_lists_and_registers() {
        let lists = [
            "0 ? r1= a1=1",
            "1 ? r1= a1=2",
            "0 ok r1= a1=1",
            "1 ok r1= a1=2",
            "2 ? r1=",
            "2 ok r1=2",
        ];
        let verdict = check(&history(&lists)).unwrap();
        assert_eq!(
            verdict.to_string(),
            "3 ok, 0 failed, 0 not answered, 6 compared: 1 anomaly\n\
             G-single: 2 transactions come before each other in a circle\n  \
             T0 (process 0) before T1: T0 read key 1 as it was before T1 wrote 2\n  \
             T1 (process 1) before T0: T0 wrote 1 to key 1 over what T1 had written"
        );
        let page = include_str!("../../../../docs/histories.md");
        assert!(page.contains(&verdict.to_string()), "the page shows it");
        let registers = [
            "0 ? v1= w1=1",
            "1 ? v1= w1=2",
            "0 ok v1= w1=1",
            "1 ok v1= w1=2",
        ];
        assert_eq!(names(&registers), ["G2"]);
        let verdict = check(&history(&registers)).unwrap();
        assert_eq!(
            verdict.anomalies[0].text,
            "2 transactions come before each other in a circle\n  \
             T0 (process 0) before T1: T0 read key 1 as it was before T1 wrote 2\n  \
             T1 (process 1) before T0: T1 read key 1 as it was before T0 wrote 1"
        );
    }

    #[test]
    fn a_read_of_an_aborted_write_is_found() {
        let lines = ["0 ? a1=1", "0 fail a1=1", "1 ? r1=", "1 ok r1=1"];
        assert_eq!(names(&lines), ["G1a"]);
        assert_eq!(names(&["1 ? v1=", "1 ok v1=9"]), ["G1a"]);
        // What was not answered may have happened.
        assert!(names(&["0 ? a1=1", "0 info a1=1", "1 ? r1=", "1 ok r1=1"]).is_empty());
    }

    #[test]
    fn a_read_in_the_middle_of_a_transaction_is_found() {
        let lines = [
            "0 ? a1=1 a1=2",
            "1 ? r1=",
            "1 ok r1=1",
            "0 ok a1=1 a1=2",
            "2 ? r1=",
            "2 ok r1=1,2",
        ];
        let found = names(&lines);
        assert!(
            found.contains(&"G1b") && found.contains(&"G-single"),
            "{found:?}"
        );
    }

    #[test]
    fn write_skew_is_found() {
        let lines = [
            "0 ? r1= r2= a1=1",
            "1 ? r1= r2= a2=2",
            "0 ok r1= r2= a1=1",
            "1 ok r1= r2= a2=2",
            "2 ? r1= r2=",
            "2 ok r1=1 r2=2",
        ];
        assert_eq!(names(&lines), ["G2"]);
    }

    #[test]
    fn a_stale_read_is_found_by_the_times_alone() {
        let lines = ["0 ? v1= w1=1", "0 ok v1= w1=1", "1 ? v1=", "1 ok v1="];
        assert_eq!(names(&lines), ["G-single-realtime"]);
        // Beside the write, either answer is right.
        assert!(names(&["0 ? v1= w1=1", "1 ? v1=", "1 ok v1=", "0 ok v1= w1=1"]).is_empty());
    }

    #[test]
    fn transactions_that_read_each_others_writes_are_found() {
        let lines = [
            "0 ? a1=1 r2=",
            "1 ? a2=2 r1=",
            "0 ok a1=1 r2=2",
            "1 ok a2=2 r1=1",
        ];
        assert_eq!(names(&lines), ["G1c"]);
    }

    #[test]
    fn interleaved_appends_are_found() {
        let lines = [
            "0 ? a1=1 a2=1",
            "1 ? a1=2 a2=2",
            "0 ok a1=1 a2=1",
            "1 ok a1=2 a2=2",
            "2 ? r1= r2=",
            "2 ok r1=1,2 r2=2,1",
        ];
        assert_eq!(names(&lines), ["G0"]);
    }

    #[test]
    fn lists_that_do_not_fit_together_are_found() {
        let written = ["0 ? a1=1", "0 ok a1=1", "0 ? a1=2", "0 ok a1=2"];
        let read = |lines: [&'static str; 4]| names(&[&written[..], &lines].concat());
        assert!(
            read(["1 ? r1=", "1 ok r1=1,2", "2 ? r1=", "2 ok r1=2"])
                .contains(&"incompatible-order")
        );
        assert!(
            read(["1 ? r1=", "1 ok r1=1,2,1", "2 ? r1=", "2 ok r1=1,2"]).contains(&"duplicate")
        );
    }

    #[test]
    fn a_transaction_that_does_not_see_itself_is_found() {
        assert_eq!(
            names(&["0 ? r1= a1=1 r1=", "0 ok r1= a1=1 r1="]),
            ["internal"]
        );
        assert_eq!(names(&["0 ? a1=1 r1=", "0 ok a1=1 r1="]), ["internal"]);
        assert_eq!(names(&["0 ? w1=1 v1=", "0 ok w1=1 v1="]), ["internal"]);
        assert!(names(&["0 ? a1=1 r1=", "0 ok a1=1 r1=1"]).is_empty());
    }

    #[test]
    fn events_that_do_not_fit_together_are_refused() {
        for (lines, reason) in [
            (
                ["0 ? a1=1", "0 ? a1=2"],
                "event 1: process 0 has two operations",
            ),
            (["0 ? a1=1", "1 ok a1=1"], "event 1: process 1 is answered"),
            (
                ["0 ? a1=1", "1 ? a1=1"],
                "value 1 of key 1 is written twice",
            ),
        ] {
            let said = check(&history(&lines)).unwrap_err();
            assert!(said.contains(reason), "{said}");
        }
    }
}
