//! Idempotency keys: what the last calls of each source were answered.
//!
//! Before changing anything here: a number is free, answered or forgotten. A forgotten one is
//! refused, because either of the other answers could run a call twice or lose it.

use crate::event::{Answer, Key};
use std::collections::BTreeMap;

/// The number of numbers that are remembered for each source.
pub const REMEMBERED_NUMBERS: usize = 1_024;

/// The longest answer that is remembered, in bytes.
pub const ANSWER_BYTES: usize = 65_536;

/// The state of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyState<'a> {
    Free,
    Answered(&'a Answer),
    Forgotten,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    sources: BTreeMap<String, Remembered>,
}

/// What one source's numbers were answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// Numbers below it that are not remembered are forgotten.
    floor: u64,
    answers: BTreeMap<u64, Answer>,
}

impl Keys {
    pub(crate) fn find(&self, key: &Key) -> KeyState<'_> {
        let Some(source) = self.sources.get(&key.source) else {
            return KeyState::Free;
        };
        match source.answers.get(&key.number) {
            Some(answer) => KeyState::Answered(answer),
            None if key.number < source.floor => KeyState::Forgotten,
            None => KeyState::Free,
        }
    }

    /// Remembers an answer. Above the bound the lowest number of the source is forgotten.
    pub(crate) fn remember(&mut self, key: &Key, answer: Answer) {
        let source = self.sources.entry(key.source.clone()).or_default();
        source.answers.insert(key.number, answer);
        if source.answers.len() > REMEMBERED_NUMBERS
            && let Some((lowest, _)) = source.answers.pop_first()
        {
            source.floor = lowest.saturating_add(1);
        }
    }

    /// Each source with its floor and answers.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, u64, &BTreeMap<u64, Answer>)> {
        let sources = self.sources.iter();
        sources.map(|(name, source)| (name.as_str(), source.floor, &source.answers))
    }

    /// Adds what was saved of a source. Says whether it may be.
    pub(crate) fn restore(&mut self, name: &str, floor: u64, answers: Vec<(u64, Answer)>) -> bool {
        let source = self.sources.entry(name.to_owned()).or_default();
        source.floor = source.floor.max(floor);
        let is_above = answers.iter().all(|(number, _)| *number >= floor);
        source.answers.extend(answers);
        is_above && source.answers.len() <= REMEMBERED_NUMBERS
    }
}

impl Answer {
    /// What is remembered of a call's answer.
    pub(crate) fn remembered(bytes: &[u8]) -> Answer {
        match bytes.len() <= ANSWER_BYTES {
            true => Answer::Done(bytes.to_vec()),
            false => Answer::TooLong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key {
            source: "till".to_owned(),
            number,
        }
    }

    #[test]
    fn the_last_1_024_numbers_are_remembered_in_any_order() {
        let mut keys = Keys::default();
        for number in (1..=2_000).rev() {
            keys.remember(&key(number), Answer::Done(vec![]));
        }
        assert_eq!(
            keys.find(&key(2_000)),
            KeyState::Answered(&Answer::Done(vec![]))
        );
        assert_eq!(keys.find(&key(2_001)), KeyState::Free);
        assert_eq!(keys.find(&key(1)), KeyState::Forgotten);
        let remembered =
            (1..=2_000).filter(|number| matches!(keys.find(&key(*number)), KeyState::Answered(_)));
        assert_eq!(remembered.count(), REMEMBERED_NUMBERS);
    }

    #[test]
    fn a_free_number_between_remembered_ones_stays_free() {
        let mut keys = Keys::default();
        keys.remember(&key(1), Answer::Aborted("no".to_owned()));
        keys.remember(&key(9), Answer::remembered(&vec![0; ANSWER_BYTES + 1]));
        assert_eq!(keys.find(&key(5)), KeyState::Free);
        assert_eq!(keys.find(&key(9)), KeyState::Answered(&Answer::TooLong));
    }
}
