//! Workloads whose histories can be checked: lists that grow, registers, a bank. A seed decides
//! what each client asks.

use super::event::{MicroOp, Operation, Seen};
use super::rows::{ReplyRows, TransactionRequest};
use oxrdf::{Literal, NamedNode, Term};
use somersault_model::SeededRandom;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The steps of a transaction at most.
const STEPS: usize = 4;
/// Keys that are in use at a time.
const KEYS: u64 = 6;
/// The operations of all clients after which one more key comes into use, and an old one leaves: a
/// list stays short.
const OPERATIONS_OF_KEY: u64 = 48;
/// The accounts of a bank, and what each holds at first.
const ACCOUNTS: u64 = 8;
const OPENING: i64 = 100;
const KEY: &str = "http://example.org/history/key/";
const HELD: &str = "http://example.org/history#held";
const ACCOUNT: &str = "http://example.org/history/account/";
const BALANCE: &str = "http://example.org/history#balance";

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Transactions read lists and append to them.
    ListAppend,
    /// Transactions read registers and write them.
    Register,
    /// Transfers between accounts, and reads of all accounts.
    Bank,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 3] = [Workload::ListAppend, Workload::Register, Workload::Bank];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Workload::ListAppend => "list-append",
            Workload::Register => "register",
            Workload::Bank => "bank",
        }
    }

    /// The procedure that its clients call.
    pub fn procedure(self) -> String {
        match self {
            Workload::Bank => format!(
                "CREATE OR REPLACE PROCEDURE history_transfer(?from IRI, ?to IRI, ?amount <http://www.w3.org/2001/XMLSchema#integer>) AS {{
  LET (?has) BE SELECT ?n WHERE {{ ?from <{BALANCE}> ?n }} ;
  IF ASK {{ FILTER(?has < ?amount) }} {{ ABORT CONCAT(\"the balance is \", STR(?has)) }} ;
  DELETE {{ ?from <{BALANCE}> ?n }} INSERT {{ ?from <{BALANCE}> ?less }}
    WHERE {{ ?from <{BALANCE}> ?n BIND(?n - ?amount AS ?less) }} ;
  DELETE {{ ?to <{BALANCE}> ?n }} INSERT {{ ?to <{BALANCE}> ?more }}
    WHERE {{ ?to <{BALANCE}> ?n BIND(?n + ?amount AS ?more) }}
}}"
            ),
            Workload::ListAppend | Workload::Register => self.steps_procedure(),
        }
    }

    /// A procedure of four steps, each of which reads a key, and then writes it if it has a value.
    fn steps_procedure(self) -> String {
        let name = self.procedure_name();
        let parameters: Vec<String> = (0..STEPS).map(|n| format!("?k{n} IRI, ?v{n}")).collect();
        let mut text = format!(
            "CREATE OR REPLACE PROCEDURE {name}({}, ?ends) AS {{\n",
            parameters.join(", ")
        );
        for n in 0..STEPS {
            let value = match self {
                Workload::ListAppend => {
                    format!("IF(BOUND(?old), CONCAT(?old, \" \", ?v{n}), ?v{n})")
                }
                _ => format!("?v{n}"),
            };
            // Writing into a string does not fail.
            let _ = write!(
                text,
                "  LET (?r{n}) BE SELECT ?held WHERE {{ ?k{n} <{HELD}> ?held }} ;
  IF ASK {{ FILTER(?v{n} != \"\") }} {{
    DELETE {{ ?k{n} <{HELD}> ?old }} INSERT {{ ?k{n} <{HELD}> ?new }}
    WHERE {{ OPTIONAL {{ ?k{n} <{HELD}> ?old }} BIND({value} AS ?new) }}
  }} ;\n"
            );
        }
        let seen: Vec<String> = (0..STEPS)
            .map(|n| format!("(COALESCE(?r{n}, \"\") AS ?s{n})"))
            .collect();
        let _ = write!(
            text,
            "  IF ASK {{ FILTER(?ends = \"abort\") }} {{ ABORT \"as it was asked to\" }} ;
  RETURN SELECT {} WHERE {{ }}\n}}",
            seen.join(" ")
        );
        text
    }

    /// Its name in the engine.
    pub fn procedure_name(self) -> &'static str {
        match self {
            Workload::ListAppend => "history_append",
            Workload::Register => "history_write",
            Workload::Bank => "history_transfer",
        }
    }

    /// The update that makes what must be there at first. It removes what an earlier run has left.
    pub fn opening(self) -> String {
        let accounts = (0..ACCOUNTS).map(|n| format!("<{ACCOUNT}{n}> <{BALANCE}> {OPENING} . "));
        match self {
            Workload::Bank => format!(
                "DELETE WHERE {{ ?account <{BALANCE}> ?n }} ; INSERT DATA {{ {}}}",
                accounts.collect::<String>()
            ),
            Workload::ListAppend | Workload::Register => {
                format!("DELETE WHERE {{ ?key <{HELD}> ?held }}")
            }
        }
    }
}

/// The operations of one client.
#[derive(Debug, Clone)]
pub struct Drawing {
    workload: Workload,
    random: SeededRandom,
    client: u64,
    clients: u64,
    drawn: u64,
    written: u64,
}

impl Drawing {
    /// The operations that a seed gives one of some clients.
    pub fn new(workload: Workload, seed: u64, client: u64, clients: u64) -> Drawing {
        Drawing {
            workload,
            random: SeededRandom::new(seed ^ (client + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            client,
            clients,
            drawn: 0,
            written: 0,
        }
    }

    /// Operations that were drawn.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// The first of the keys that are in use.
    fn first_key(&self) -> u64 {
        self.drawn * self.clients.max(1) / OPERATIONS_OF_KEY
    }

    /// The next operation, as it is before it is answered, and how it is sent.
    pub fn next_operation(&mut self) -> (Operation, TransactionRequest) {
        let is_query = self.random.below(5) == 0;
        let drawn = match self.workload {
            Workload::Bank if is_query => balances(),
            Workload::Bank => self.transfer(),
            Workload::ListAppend | Workload::Register => self.steps(is_query),
        };
        self.drawn += 1;
        drawn
    }

    /// Reads of everything that this client and those that are as far may have written.
    pub fn last_reads(&self) -> Vec<(Operation, TransactionRequest)> {
        let keys: Vec<u64> = (0..KEYS + self.first_key() + 1).collect();
        match self.workload {
            Workload::Bank => vec![balances()],
            _ => keys.chunks(STEPS).map(reads).collect(),
        }
    }

    fn transfer(&mut self) -> (Operation, TransactionRequest) {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = 1 + self.random.below(OPENING as u64 / 2) as i64;
        let account = |number| iri(ACCOUNT, number);
        let arguments = [
            ("from", account(from)),
            ("to", account(to)),
            ("amount", Literal::from(amount).into()),
        ];
        let request = TransactionRequest::Call {
            procedure: self.workload.procedure_name(),
            arguments: arguments.map(|(name, term)| (name.to_owned(), term)).into(),
        };
        (Operation::Transfer { from, to, amount }, request)
    }

    fn steps(&mut self, is_query: bool) -> (Operation, TransactionRequest) {
        let first = self.first_key();
        let keys: [u64; STEPS] = std::array::from_fn(|_| first + self.random.below(KEYS));
        if is_query {
            return reads(&keys);
        }
        let mut steps = Vec::new();
        let mut arguments = Vec::new();
        for (n, key) in keys.into_iter().enumerate() {
            let seen = Seen::Nothing;
            steps.push(MicroOp::Read { key, seen });
            let mut text = String::new();
            if self.random.below(2) == 0 {
                self.written += 1;
                let value = self.written * self.clients + self.client;
                text = value.to_string();
                steps.push(match self.workload {
                    Workload::ListAppend => MicroOp::Append { key, value },
                    _ => MicroOp::Write { key, value },
                });
            }
            arguments.push((format!("k{n}"), iri(KEY, key)));
            arguments.push((format!("v{n}"), Literal::new_simple_literal(text).into()));
        }
        let ends = match self.random.below(10) {
            0 => "abort",
            _ => "commit",
        };
        arguments.push(("ends".to_owned(), Literal::new_simple_literal(ends).into()));
        let request = TransactionRequest::Call {
            procedure: self.workload.procedure_name(),
            arguments,
        };
        (Operation::Transaction(steps), request)
    }

    /// The operation with what was answered.
    ///
    /// # Errors
    /// The answer is none of this workload, for this reason.
    pub fn answered(&self, asked: &Operation, rows: &ReplyRows) -> Result<Operation, String> {
        match asked {
            Operation::Transfer { .. } => Ok(asked.clone()),
            Operation::Balances(_) => {
                let balance = |row: &Vec<Option<String>>| {
                    let [Some(account), Some(balance)] = row.as_slice() else {
                        return None;
                    };
                    let account = account.strip_prefix(ACCOUNT)?.parse().ok()?;
                    Some((account, balance.parse().ok()?))
                };
                let balances: Option<BTreeMap<u64, i64>> = rows.iter().map(balance).collect();
                let balances = balances.ok_or_else(|| format!("{rows:?} are no balances"))?;
                Ok(Operation::Balances(Some(balances)))
            }
            Operation::Transaction(steps) => {
                let [row] = rows.as_slice() else {
                    return Err(format!("{rows:?} is not one row"));
                };
                let mut cells = row.iter();
                let steps = steps.iter().map(|step| match step {
                    MicroOp::Read { key, .. } => {
                        let cell = cells.next().ok_or("a column is missing")?;
                        let seen = self.seen(cell.as_deref().unwrap_or_default())?;
                        Ok(MicroOp::Read { key: *key, seen })
                    }
                    write => Ok(write.clone()),
                });
                Ok(Operation::Transaction(
                    steps.collect::<Result<_, String>>()?,
                ))
            }
        }
    }

    /// What a key held, from its text.
    fn seen(&self, text: &str) -> Result<Seen, String> {
        let values = text.split_whitespace().map(str::parse::<u64>);
        let values: Result<Vec<u64>, _> = values.collect();
        let values = values.map_err(|error| format!("{text:?}: {error}"))?;
        match (self.workload, values.as_slice()) {
            (Workload::ListAppend, _) => Ok(Seen::List(values)),
            (_, []) => Ok(Seen::Nothing),
            (_, [value]) => Ok(Seen::Value(*value)),
            _ => Err(format!("{text:?} is not one value")),
        }
    }
}

/// Reads of keys on one snapshot.
fn reads(keys: &[u64]) -> (Operation, TransactionRequest) {
    let read = |key: &u64| MicroOp::Read {
        key: *key,
        seen: Seen::Nothing,
    };
    let parts = keys.iter().enumerate();
    let parts = parts.map(|(n, key)| format!("OPTIONAL {{ <{KEY}{key}> <{HELD}> ?r{n} }} "));
    let names: Vec<String> = (0..keys.len()).map(|n| format!("?r{n}")).collect();
    let text = format!(
        "SELECT {} {{ {}}}",
        names.join(" "),
        parts.collect::<String>()
    );
    let operation = Operation::Transaction(keys.iter().map(read).collect());
    (operation, TransactionRequest::Query(text))
}

/// A read of all accounts on one snapshot.
fn balances() -> (Operation, TransactionRequest) {
    let text = format!("SELECT ?account ?n {{ ?account <{BALANCE}> ?n }}");
    (Operation::Balances(None), TransactionRequest::Query(text))
}

fn iri(before: &str, number: u64) -> Term {
    NamedNode::new_unchecked(format!("{before}{number}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_value_is_drawn_twice_and_a_seed_means_the_same() {
        let mut values = BTreeSet::new();
        for client in 0..3 {
            let mut drawing = Drawing::new(Workload::ListAppend, 7, client, 3);
            let mut same = drawing.clone();
            for _ in 0..200 {
                let drawn = drawing.next_operation();
                assert_eq!(drawn, same.next_operation());
                let Operation::Transaction(steps) = drawn.0 else {
                    panic!("{drawn:?}")
                };
                for step in steps {
                    if let MicroOp::Append { value, .. } = step {
                        assert!(values.insert(value), "{value}");
                    }
                }
            }
        }
        assert!(values.len() > 500);
    }

    #[test]
    fn answers_become_what_was_seen() {
        let lists = Drawing::new(Workload::ListAppend, 1, 0, 1);
        let (asked, _) = reads(&[3, 4]);
        let rows = vec![vec![Some("5 7".to_owned()), None]];
        let seen = |key, list: &[u64]| MicroOp::Read {
            key,
            seen: Seen::List(list.to_vec()),
        };
        assert_eq!(
            lists.answered(&asked, &rows),
            Ok(Operation::Transaction(vec![seen(3, &[5, 7]), seen(4, &[])]))
        );
        assert!(lists.answered(&asked, &vec![]).is_err());
        let registers = Drawing::new(Workload::Register, 1, 0, 1);
        assert!(registers.answered(&asked, &rows).is_err());
    }
}
