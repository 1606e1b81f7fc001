//! A bank: accounts with balances, and a procedure that moves money between two of them, guarded
//! by the balance of the first.

use super::Failure;
use crate::harness::http::{Client, Style};
use somersault::oxrdf::vocab::xsd;
use somersault::oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use somersault::{CallOutcome, Engine, PendingCall};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The money of each account at the beginning.
const OPENING_BALANCE: u64 = 1_000_000;
const ACCOUNT: &str = "http://example.org/account/";
/// The time limit of a frame over HTTP.
const HTTP_LIMIT: Duration = Duration::from_secs(60);
const BALANCE: &str = "http://example.org/bank#balance";

/// The text of the procedure.
const TRANSFER: &str = include_str!("transfer.rq");

/// How the accounts of a transfer are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    Uniform,
    /// Zipf's distribution with the exponent 0.99, as YCSB draws (Cooper et al., 2010).
    Zipfian,
}

/// An engine with a bank in it.
pub(super) struct Bank {
    pub(super) engine: Engine,
    accounts: Vec<Term>,
    /// For each account, the share of draws that fall on it or one before it.
    shares: Vec<f64>,
    random: u64,
}

/// What calls came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Called {
    pub(super) committed: u64,
    pub(super) aborted: u64,
    pub(super) took: Duration,
}

impl Called {
    /// Committed calls a second.
    pub(super) fn rate(&self) -> f64 {
        self.committed as f64 / self.took.as_secs_f64()
    }
}

impl Bank {
    /// Opens accounts in an engine, and declares the procedure.
    pub(super) fn found(engine: Engine, accounts: u32, spread: Spread) -> Result<Bank, Failure> {
        let names = (0..accounts).map(|n| NamedNode::new_unchecked(format!("{ACCOUNT}{n}")));
        let names: Vec<NamedNode> = names.collect();
        let balance = NamedNode::new_unchecked(BALANCE);
        let money = Literal::new_typed_literal(OPENING_BALANCE.to_string(), xsd::INTEGER);
        let opened = names.iter().map(|account| Quad {
            subject: account.clone().into(),
            predicate: balance.clone(),
            object: money.clone().into(),
            graph_name: GraphName::DefaultGraph,
        });
        engine.apply_effects(Vec::new(), opened.collect())?;
        engine.declare(TRANSFER)?;
        let weight = |rank: usize| match spread {
            Spread::Uniform => 1.0,
            Spread::Zipfian => (rank as f64 + 1.0).powf(-0.99),
        };
        let total: f64 = (0..names.len()).map(weight).sum();
        let mut sum = 0.0;
        let shares = (0..names.len()).map(|rank| {
            sum += weight(rank) / total;
            sum
        });
        let shares = shares.collect();
        Ok(Bank {
            engine,
            accounts: names.into_iter().map(Term::from).collect(),
            shares,
            random: 0x9E37_79B9_7F4A_7C15,
        })
    }

    fn drawn(&mut self) -> usize {
        // xorshift64* (Vigna 2016).
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let unit =
            (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = self.shares.partition_point(|share| *share < unit);
        rank.min(self.accounts.len() - 1)
    }

    /// Two different accounts.
    fn drawn_pair(&mut self) -> (usize, usize) {
        let from = self.drawn();
        let to = self.drawn();
        match to == from {
            true => (from, (from + 1) % self.accounts.len()),
            false => (from, to),
        }
    }

    /// Hands a transfer of one unit between two accounts in.
    pub(super) fn hand_in(&mut self) -> Result<PendingCall, Failure> {
        let (from, to) = self.drawn_pair();
        let one = Term::from(Literal::new_typed_literal("1", xsd::INTEGER));
        let arguments = [self.accounts[from].clone(), self.accounts[to].clone(), one];
        Ok(self.engine.call("transfer").arguments(arguments).begin()?)
    }

    /// Calls in frames for some time: the next frame is handed in when all calls of the one before
    /// are answered.
    pub(super) fn call_in_frames(
        &mut self,
        frame: usize,
        time: Duration,
    ) -> Result<Called, Failure> {
        let mut called = Called::default();
        let start = Instant::now();
        let mut pending = Vec::with_capacity(frame);
        while start.elapsed() < time {
            for _ in 0..frame {
                pending.push(self.hand_in()?);
            }
            for call in pending.drain(..) {
                called.add(&call.wait()?);
            }
        }
        called.took = start.elapsed();
        Ok(called)
    }

    /// Calls in frames over HTTP for some time, on one connection: a frame is a body with a line
    /// for each call.
    pub(super) fn call_over_http(
        &mut self,
        url: &str,
        frame: usize,
        time: Duration,
    ) -> Result<Called, Failure> {
        let mut client = Client::new(url, "/procedures/transfer/calls", Style::Lines)?;
        let mut called = Called::default();
        let start = Instant::now();
        let mut lines = String::new();
        while start.elapsed() < time {
            lines.clear();
            for _ in 0..frame {
                let (from, to) = self.drawn_pair();
                // Writing into a string does not fail.
                let _ = writeln!(
                    lines,
                    r#"{{"args":{{"from":"{ACCOUNT}{from}","to":"{ACCOUNT}{to}","amount":1}}}}"#
                );
            }
            let request = client.request(&lines);
            client
                .ask(&request, HTTP_LIMIT)
                .map_err(|error| format!("the calls failed: {error:?}"))?;
            let done = br#"{"done":true}"#;
            let answers = client.body().split(|byte| *byte == b'\n');
            let answers = answers.filter(|line| !line.is_empty());
            for answer in answers {
                match answer.windows(done.len()).any(|part| part == done) {
                    true => called.committed += 1,
                    false => called.aborted += 1,
                }
            }
        }
        called.took = start.elapsed();
        Ok(called)
    }

    /// Fails unless the bank has the money that it was founded with: no transfer makes or loses
    /// any.
    pub(super) fn audit(&self) -> Result<(), Failure> {
        let money = self.accounts.len() as u64 * OPENING_BALANCE;
        let text = format!(
            "ASK {{ {{ SELECT (SUM(?n) AS ?all) {{ ?account <{BALANCE}> ?n }} }} FILTER(?all = {money}) }}"
        );
        match self.engine.query(&text).run()?.answer.boolean() {
            Some(true) => Ok(()),
            _ => Err(format!("the balances do not add up to {money}").into()),
        }
    }
}

impl Called {
    /// Counts an answer.
    pub(super) fn add(&mut self, outcome: &CallOutcome) {
        match outcome {
            CallOutcome::Answered(_) => self.committed += 1,
            CallOutcome::Aborted { .. } => self.aborted += 1,
        }
    }
}
