//! A voting show, the leaderboard workload of S-Store (VLDB 2015, section 4.1.1): viewers vote by
//! phone, once each; whenever so many votes were valid, the contestant with the fewest goes, and
//! the phones that voted for that one are free again.
//!
//! The declarations are three procedures. `vote` takes one vote, `rank` keeps three boards right
//! after each valid one (most votes, fewest votes, most among the latest), `remove` takes the last
//! contestant out. Of equals with the fewest votes the one with the higher number goes.

use crate::random::Random;
use oxrdf::vocab::rdf;
use oxrdf::{Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;

/// The stream that votes are pushed to.
pub const VOTES_STREAM: &str = "http://example.org/show/votes";

const NS: &str = "http://example.org/show#";
const CONTESTANT: &str = "http://example.org/show/contestant/";
/// Contestants are numbered from 1; votes for this one are for nobody.
const NOBODY: u32 = 999;
/// The area codes, from 200 on; the first ones of each ten have a state.
const AREAS: u32 = 300;
const FIRST_AREA: u32 = 200;
const PHONES_OF_AN_AREA: u32 = 10_000_000;
/// The share of votes for somebody who is not, or no longer, there.
const INVALID: f64 = 0.01;
/// The share of votes from a phone that has voted.
const REPEATED: f64 = 0.01;

/// The size of a show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VotingShow {
    /// Contestants at the beginning.
    pub contestants: u32,
    /// Valid votes between two removals.
    pub threshold: u64,
    /// Votes in the window of the latest ones.
    pub window: u32,
    /// Votes between two slides of that window.
    pub slide: u32,
    /// The seed of everything random.
    pub seed: u64,
}

impl Default for VotingShow {
    /// The setting that S-Store measures: 50 contestants, one goes every 20,000 votes, the latest
    /// 100 votes, every ten.
    fn default() -> VotingShow {
        VotingShow {
            contestants: 50,
            threshold: 20_000,
            window: 100,
            slide: 10,
            seed: 1,
        }
    }
}

/// Whether the three procedures are one transaction for each vote, or one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VotingFlow {
    /// One transaction.
    Nested,
    /// A transaction each, round after round.
    Rounds,
}

/// A vote as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vote {
    /// From 1.
    pub number: u64,
    /// The ten digits of the phone.
    pub phone: u64,
    /// The number of the contestant.
    pub contestant: u32,
}

/// What becomes of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Valid,
    /// There is no such contestant (any more): its transaction aborts.
    Nobody,
    /// The phone has voted before: it is counted as refused.
    Repeated,
}

/// The votes of a show, without end until one contestant is left, and what they lead to.
#[derive(Debug, Clone)]
pub struct Votes {
    show: VotingShow,
    random: Random,
    number: u64,
    /// The valid votes of each contestant who is left.
    counts: BTreeMap<u32, u64>,
    /// The phones that have voted, by contestant.
    phones: BTreeMap<u32, Vec<u64>>,
    voted: HashSet<u64>,
    valid: u64,
    refused: u64,
    aborted: u64,
    removed: Vec<u32>,
    /// The contestants of the latest valid votes, oldest first, at most as many as the window.
    latest: VecDeque<u32>,
    /// Those of the window at its newest slide.
    slid: Vec<u32>,
}

/// Contestants on each board.
const BOARD: usize = 3;

impl VotingShow {
    /// What is stored before the first vote.
    pub fn stored(&self) -> Vec<Triple> {
        let mut triples = Vec::new();
        let mut add = |subject: &NamedNode, predicate: NamedNode, object: Term| {
            triples.push(Triple {
                subject: NamedOrBlankNode::from(subject.clone()),
                predicate,
                object,
            });
        };
        for number in 1..=self.contestants {
            let contestant = contestant(number);
            let name = Literal::new_simple_literal(format!("Contestant {number}"));
            add(
                &contestant,
                rdf::TYPE.into_owned(),
                name_of("Contestant").into(),
            );
            add(&contestant, name_of("number"), integer(number.into()));
            add(&contestant, name_of("name"), name.into());
            add(&contestant, name_of("votes"), integer(0));
        }
        for area in (0..AREAS).filter(|area| area % 10 != 9) {
            let state = Literal::new_simple_literal(format!("S{:02}", area / 6));
            let subject = area_code(FIRST_AREA + area);
            add(&subject, name_of("state"), state.into());
        }
        let show = name_of("show");
        for counter in ["valid", "refused", "removals"] {
            add(&show, name_of(counter), integer(0));
        }
        add(&show, name_of("left"), integer(self.threshold));
        triples
    }

    /// The statements that declare streams, procedures and the dataflow `show`, in order; `weak`
    /// logs votes alone and runs the procedures again at a restart.
    pub fn declarations(&self, flow: VotingFlow, weak: bool) -> Vec<String> {
        let parts = match flow {
            VotingFlow::Nested => "NEST { vote, rank, remove }",
            VotingFlow::Rounds => "vote, rank, remove",
        };
        let recovery = if weak { "WEAK" } else { "STRONG" };
        let filled = |text: &str| {
            text.replace("$WINDOW", &self.window.to_string())
                .replace("$SLIDE", &self.slide.to_string())
                .replace("$THRESHOLD", &self.threshold.to_string())
                .replace("$MOST", include_str!("most.rq").trim_end())
                .replace("$FEWEST", include_str!("fewest.rq").trim_end())
                .replace("$LATEST", include_str!("latest.rq").trim_end())
        };
        vec![
            format!("CREATE STREAM <{VOTES_STREAM}> ARRIVAL TIME IDLE NEVER BUDGET 1GiB"),
            "CREATE STREAM <http://example.org/show/accepted> INTERIOR".to_owned(),
            "CREATE STREAM <http://example.org/show/due> INTERIOR".to_owned(),
            filled(include_str!("vote.rq")),
            filled(include_str!("rank.rq")),
            filled(include_str!("remove.rq")),
            format!("CREATE DATAFLOW show {{ {parts} }} RECOVERY {recovery}"),
        ]
    }

    /// The votes, from the first one.
    pub fn votes(&self) -> Votes {
        Votes {
            show: *self,
            random: Random::new(self.seed, 77),
            number: 0,
            counts: (1..=self.contestants).map(|number| (number, 0)).collect(),
            phones: BTreeMap::new(),
            voted: HashSet::new(),
            valid: 0,
            refused: 0,
            aborted: 0,
            removed: Vec::new(),
            latest: VecDeque::new(),
            slid: Vec::new(),
        }
    }
}

impl Vote {
    /// Writes the vote as one message of N-Triples: its statements, a line each.
    pub fn write(&self, out: &mut String) {
        let Vote {
            number,
            phone,
            contestant,
        } = self;
        let area = phone / u64::from(PHONES_OF_AN_AREA);
        // Writing into a string does not fail.
        let _ = write!(
            out,
            "<http://example.org/show/vote/{number}> <{NS}phone> \"{phone}\" .\n\
             <http://example.org/show/vote/{number}> <{NS}for> <{CONTESTANT}{contestant}> .\n\
             <http://example.org/show/vote/{number}> <{NS}area> <http://example.org/show/area/{area}> .\n"
        );
    }
}

impl Votes {
    /// What becomes of the vote that was drawn last is added up here: valid, refused, aborted.
    pub fn tallies(&self) -> [u64; 3] {
        [self.valid, self.refused, self.aborted]
    }

    /// The valid votes of each contestant who is left, by number.
    pub fn counts(&self) -> &BTreeMap<u32, u64> {
        &self.counts
    }

    /// Who has gone, in order.
    pub fn removed(&self) -> &[u32] {
        &self.removed
    }

    /// The contestants on the boards: most votes, fewest votes, most among the latest.
    pub fn boards(&self) -> [Vec<u32>; 3] {
        let mut recent: BTreeMap<u32, u64> = BTreeMap::new();
        for number in self.slid.iter().filter(|n| self.counts.contains_key(n)) {
            *recent.entry(*number).or_default() += 1;
        }
        let mut fewest: Vec<(u32, u64)> = self.counts.iter().map(|(n, v)| (*n, *v)).collect();
        fewest.sort_unstable_by_key(|(number, votes)| (*votes, u32::MAX - *number));
        let fewest = fewest.into_iter().map(|(number, _)| number).take(BOARD);
        [most(&self.counts), fewest.collect(), most(&recent)]
    }

    /// The text of an ASK query that is true where the stored graph holds exactly what the votes
    /// so far lead to: counters, votes of each contestant, removals in their order, boards.
    pub fn outcome(&self) -> String {
        let [valid, refused, _] = self.tallies();
        let removals = self.removed.len();
        let mut text = format!(
            "PREFIX show: <{NS}> ASK {{ show:show show:valid {valid} ; show:refused {refused} ; show:removals {removals} . "
        );
        // Writing into a string does not fail.
        for (number, count) in &self.counts {
            let _ = write!(text, "<{CONTESTANT}{number}> show:votes {count} . ");
        }
        for (at, number) in (1..).zip(&self.removed) {
            let _ = write!(
                text,
                "<http://example.org/show/removal/{at}> show:removed <{CONTESTANT}{number}> . "
            );
        }
        for number in &self.removed {
            let _ = write!(
                text,
                "FILTER NOT EXISTS {{ <{CONTESTANT}{number}> ?p{number} ?o{number} }} "
            );
        }
        for (board, names) in ["most", "fewest", "latest"].iter().zip(self.boards()) {
            for number in &names {
                let _ = write!(text, "show:{board} show:holds <{CONTESTANT}{number}> . ");
            }
            let names: Vec<String> = names.iter().map(|n| format!("<{CONTESTANT}{n}>")).collect();
            let _ = write!(
                text,
                "FILTER NOT EXISTS {{ show:{board} show:holds ?{board} FILTER(?{board} NOT IN ({})) }} ",
                names.join(", ")
            );
        }
        text.push('}');
        text
    }

    fn drawn(&mut self) -> (Vote, Verdict) {
        self.number += 1;
        let number = self.number;
        let unit = self.random.unit();
        let left: Vec<u32> = self.counts.keys().copied().collect();
        let contestant = *self.random.pick(&left);
        if unit < INVALID {
            let gone = self.removed.last().copied().unwrap_or(NOBODY);
            let phone = self.fresh_phone();
            let vote = Vote {
                number,
                phone,
                contestant: gone,
            };
            return (vote, Verdict::Nobody);
        }
        if unit < INVALID + REPEATED
            && let Some(phone) = self.phones.values().next().and_then(|all| all.first())
        {
            let vote = Vote {
                number,
                phone: *phone,
                contestant,
            };
            return (vote, Verdict::Repeated);
        }
        let phone = self.fresh_phone();
        let vote = Vote {
            number,
            phone,
            contestant,
        };
        (vote, Verdict::Valid)
    }

    fn fresh_phone(&mut self) -> u64 {
        loop {
            let area = u64::from(FIRST_AREA + self.random.below(AREAS));
            let within = u64::from(self.random.below(PHONES_OF_AN_AREA));
            let phone = area * u64::from(PHONES_OF_AN_AREA) + within;
            if !self.voted.contains(&phone) {
                return phone;
            }
        }
    }

    /// Counts a valid vote; the last contestant goes when enough have come.
    fn count(&mut self, vote: Vote) {
        self.valid += 1;
        self.voted.insert(vote.phone);
        self.phones
            .entry(vote.contestant)
            .or_default()
            .push(vote.phone);
        *self.counts.entry(vote.contestant).or_default() += 1;
        self.stage(vote.contestant);
        if !self.valid.is_multiple_of(self.show.threshold) || self.counts.len() < 2 {
            return;
        }
        let fewest = self
            .counts
            .iter()
            .min_by_key(|(number, votes)| (**votes, u32::MAX - **number));
        let Some((&last, _)) = fewest else { return };
        self.counts.remove(&last);
        for phone in self.phones.remove(&last).unwrap_or_default() {
            self.voted.remove(&phone);
        }
        self.removed.push(last);
    }

    /// Puts a valid vote into the window; becoming full is its first slide.
    fn stage(&mut self, contestant: u32) {
        let window = u64::from(self.show.window);
        self.latest.push_back(contestant);
        if self.latest.len() as u64 > window {
            self.latest.pop_front();
        }
        let since = self.valid.checked_sub(window);
        if since.is_some_and(|since| since.is_multiple_of(u64::from(self.show.slide))) {
            self.slid = self.latest.iter().copied().collect();
        }
    }
}

impl Iterator for Votes {
    type Item = (Vote, Verdict);

    /// The next vote and what becomes of it; none when one contestant is left.
    fn next(&mut self) -> Option<(Vote, Verdict)> {
        if self.counts.len() < 2 {
            return None;
        }
        let (vote, verdict) = self.drawn();
        match verdict {
            Verdict::Valid => self.count(vote),
            Verdict::Nobody => self.aborted += 1,
            Verdict::Repeated => self.refused += 1,
        }
        Some((vote, verdict))
    }
}

/// The contestants with the most votes; of equals the lower number comes first.
fn most(votes: &BTreeMap<u32, u64>) -> Vec<u32> {
    let mut order: Vec<(u32, u64)> = votes.iter().map(|(n, v)| (*n, *v)).collect();
    order.sort_unstable_by_key(|(number, votes)| (u64::MAX - *votes, *number));
    order
        .into_iter()
        .map(|(number, _)| number)
        .take(BOARD)
        .collect()
}

fn integer(number: u64) -> Term {
    Literal::new_typed_literal(number.to_string(), oxrdf::vocab::xsd::INTEGER).into()
}

fn name_of(local: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{NS}{local}"))
}

fn contestant(number: u32) -> NamedNode {
    NamedNode::new_unchecked(format!("{CONTESTANT}{number}"))
}

fn area_code(code: u32) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/show/area/{code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_go_until_one_is_left() {
        let show = VotingShow {
            contestants: 5,
            threshold: 50,
            ..VotingShow::default()
        };
        let mut votes = show.votes();
        let mut verdicts = [0; 3];
        for (at, (vote, verdict)) in (&mut votes).enumerate() {
            assert_eq!(vote.number, at as u64 + 1);
            verdicts[verdict as usize] += 1;
        }
        assert_eq!(votes.removed().len(), 4);
        assert_eq!(votes.counts().len(), 1);
        let [valid, refused, aborted] = votes.tallies();
        assert_eq!([valid, aborted, refused], verdicts);
        assert_eq!(valid, 4 * 50);
        assert!(refused > 0 && aborted > 0);
        let last = *votes.counts().keys().next().unwrap();
        let [most, fewest, latest] = votes.boards();
        assert_eq!((most, fewest), (vec![last], vec![last]));
        assert_eq!(latest, [last]);
        assert!(votes.outcome().contains("show:removals 4"));
    }

    #[test]
    fn a_vote_is_three_lines() {
        let vote = Vote {
            number: 7,
            phone: 2_130_000_001,
            contestant: 3,
        };
        let mut text = String::new();
        vote.write(&mut text);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("area/213>"));
    }
}
