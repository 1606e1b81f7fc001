//! The events of a history, and their lines of JSON.

use crate::SuiteError;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// What an event says of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A client asks.
    Invoke,
    /// It was answered: the operation has happened.
    Ok,
    /// It was answered: the operation has not happened, and will not.
    Fail,
    /// It was not answered: the operation may have happened, or may happen later.
    Info,
}

impl EventKind {
    const ALL: [(EventKind, &'static str); 4] = [
        (EventKind::Invoke, "invoke"),
        (EventKind::Ok, "ok"),
        (EventKind::Fail, "fail"),
        (EventKind::Info, "info"),
    ];

    fn word(self) -> &'static str {
        let mut all = EventKind::ALL.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or("info", |(_, word)| word)
    }
}

/// What a read of a key has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// No value; in an event that is not `ok`, the read is not answered.
    Nothing,
    /// The elements of a list.
    List(Vec<u64>),
    /// The value of a register.
    Value(u64),
}

/// One step of a transaction. A value is written once in a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MicroOp {
    /// A key is read.
    Read {
        /// The key.
        key: u64,
        /// What it held.
        seen: Seen,
    },
    /// A value becomes the last element of a list.
    Append {
        /// The key.
        key: u64,
        /// The value.
        value: u64,
    },
    /// A value takes the place of the one of a register.
    Write {
        /// The key.
        key: u64,
        /// The value.
        value: u64,
    },
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A transaction over lists or registers.
    Transaction(Vec<MicroOp>),
    /// Money moves between two accounts.
    Transfer {
        /// The account that gives.
        from: u64,
        /// The account that takes.
        to: u64,
        /// How much.
        amount: i64,
    },
    /// All balances are read; `None` before they are.
    Balances(Option<BTreeMap<u64, i64>>),
}

/// An event of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEvent {
    /// Its kind.
    pub kind: EventKind,
    /// The client. A process has one operation at a time, and none after one that was not answered.
    pub process: u64,
    /// What it is about.
    pub operation: Operation,
    /// Nanoseconds since the history began.
    pub time: u64,
    /// Why an operation failed or was not answered.
    pub error: Option<String>,
}

impl HistoryEvent {
    /// Its line, without the end of the line. `index` is its place in the history, from 0 on.
    pub fn line(&self, index: usize) -> String {
        let (f, value) = match &self.operation {
            Operation::Transaction(steps) => ("txn", steps.iter().map(step_to_json).collect()),
            Operation::Transfer { from, to, amount } => (
                "transfer",
                json!({ "from": from, "to": to, "amount": amount }),
            ),
            Operation::Balances(seen) => ("read", json!(seen)),
        };
        let mut line = json!({
            "index": index, "type": self.kind.word(), "process": self.process, "f": f,
            "value": value, "time": self.time,
        });
        if let Some(error) = &self.error {
            line["error"] = json!(error);
        }
        line.to_string()
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is no event of a history; the reason.
    pub fn parse(line: &str) -> Result<HistoryEvent, String> {
        let given: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        let number = |field: &str| {
            let number = given.get(field).and_then(Value::as_u64);
            number.ok_or_else(|| format!("{field} is missing or is no number"))
        };
        let word = given.get("type").and_then(Value::as_str);
        let kind = EventKind::ALL.iter().find(|(_, it)| Some(*it) == word);
        let &(kind, _) = kind.ok_or("type is none of invoke, ok, fail and info")?;
        let value = given.get("value").unwrap_or(&Value::Null);
        Ok(HistoryEvent {
            kind,
            process: number("process")?,
            operation: operation(given.get("f").and_then(Value::as_str), value)?,
            time: number("time")?,
            error: given.get("error").map(|error| match error.as_str() {
                Some(text) => text.to_owned(),
                None => error.to_string(),
            }),
        })
    }
}

fn step_to_json(step: &MicroOp) -> Value {
    match step {
        MicroOp::Read { key, seen } => match seen {
            Seen::Nothing => json!(["r", key, null]),
            Seen::List(list) => json!(["r", key, list]),
            Seen::Value(value) => json!(["r", key, value]),
        },
        MicroOp::Append { key, value } => json!(["append", key, value]),
        MicroOp::Write { key, value } => json!(["w", key, value]),
    }
}

fn operation(f: Option<&str>, value: &Value) -> Result<Operation, String> {
    match f {
        Some("txn") => {
            let steps = value.as_array().ok_or("the value of a txn is no array")?;
            let steps = steps.iter().map(|step| {
                step_of(step).ok_or_else(|| format!("{step} is no read, append or write"))
            });
            Ok(Operation::Transaction(steps.collect::<Result<_, _>>()?))
        }
        Some("transfer") => {
            let account = |field: &str| value[field].as_u64();
            let found = account("from").zip(account("to"));
            let found = found.zip(value["amount"].as_i64());
            let ((from, to), amount) = found.ok_or("a transfer has from, to and amount")?;
            Ok(Operation::Transfer { from, to, amount })
        }
        Some("read") => {
            let seen = serde_json::from_value(value.clone());
            let seen = seen.map_err(|error| format!("the value of a read: {error}"))?;
            Ok(Operation::Balances(seen))
        }
        _ => Err("f is none of txn, transfer and read".to_owned()),
    }
}

fn step_of(step: &Value) -> Option<MicroOp> {
    let [word, key, value] = step.as_array()?.as_slice() else {
        return None;
    };
    let key = key.as_u64()?;
    Some(match word.as_str()? {
        "r" => MicroOp::Read {
            key,
            seen: match value {
                Value::Null => Seen::Nothing,
                Value::Array(list) => {
                    Seen::List(list.iter().map(Value::as_u64).collect::<Option<_>>()?)
                }
                value => Seen::Value(value.as_u64()?),
            },
        },
        "append" => MicroOp::Append {
            key,
            value: value.as_u64()?,
        },
        "w" => MicroOp::Write {
            key,
            value: value.as_u64()?,
        },
        _ => return None,
    })
}

/// Writes a history, an event a line.
///
/// # Errors
/// The writer fails.
pub fn write_history(events: &[HistoryEvent], mut to: impl Write) -> io::Result<()> {
    for (index, event) in events.iter().enumerate() {
        writeln!(to, "{}", event.line(index))?;
    }
    to.flush()
}

/// Reads a history that has an event a line.
///
/// # Errors
/// The file cannot be read, or a line is no event; the error names the line.
pub fn read_history(path: &Path) -> Result<Vec<HistoryEvent>, SuiteError> {
    let text = std::fs::read_to_string(path).map_err(|source| SuiteError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let lines = text.lines().enumerate();
    let events = lines.filter(|(_, line)| !line.trim().is_empty());
    let events = events.map(|(number, line)| {
        HistoryEvent::parse(line).map_err(|reason| SuiteError::Broken {
            path: path.to_owned(),
            reason: format!("line {}: {reason}", number + 1),
        })
    });
    events.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for line in [
            r#"{"f":"txn","index":0,"process":3,"time":17,"type":"invoke","value":[["r",1,null],["append",1,5],["w",2,7]]}"#,
            r#"{"f":"txn","index":0,"process":3,"time":17,"type":"ok","value":[["r",1,[2,4]],["r",2,7],["append",1,5]]}"#,
            r#"{"error":"not enough","f":"transfer","index":0,"process":1,"time":0,"type":"fail","value":{"amount":2,"from":0,"to":1}}"#,
            r#"{"f":"read","index":0,"process":1,"time":0,"type":"info","value":null}"#,
            r#"{"f":"read","index":0,"process":1,"time":0,"type":"ok","value":{"0":90,"1":-10}}"#,
        ] {
            let event = HistoryEvent::parse(line).expect("an event");
            let again: Value = serde_json::from_str(&event.line(0)).unwrap();
            assert_eq!(again, serde_json::from_str::<Value>(line).unwrap());
        }
    }

    #[test]
    fn a_line_that_is_no_event_is_refused_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.ndjson");
        let good = r#"{"f":"read","process":1,"time":0,"type":"ok","value":{"0":1}}"#;
        for (bad, reason) in [
            ("{", "EOF"),
            (r#"{"type":"done"}"#, "type is none of"),
            (
                r#"{"type":"ok","f":"txn","process":1,"time":1,"value":[["r",1]]}"#,
                "is no read",
            ),
            (
                r#"{"type":"ok","f":"cas","process":1,"time":1}"#,
                "f is none of",
            ),
            (
                r#"{"type":"ok","f":"txn","value":[],"time":1}"#,
                "process is missing",
            ),
        ] {
            std::fs::write(&path, format!("{good}\n\n{bad}\n")).unwrap();
            let said = read_history(&path).unwrap_err().to_string();
            assert!(said.contains("line 3: ") && said.contains(reason), "{said}");
        }
    }
}
