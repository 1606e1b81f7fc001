//! The members of a cohort as a checkpoint holds them.
//!
//! Before changing anything here: gaps are saved too. When they are closed decides how many slots a
//! firing names, and a restart must not change that. The number of running members, and the eldest
//! of them, follow from the list.

use super::{BETWEEN, Counts, JoinWave, Member, Members, PauseHistory};
use crate::output::JoiningMember;
use crate::saved::queries::{QueryRecord, SavedCounts, SavedHistory, SavedMember, SavedWave};
use crate::saved::{RestoreError, contradiction, portions};
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, QueryUid};
use std::sync::Arc;

impl From<Counts> for SavedCounts {
    fn from(counts: Counts) -> SavedCounts {
        let Counts {
            firings,
            amended,
            skipped_empty,
        } = counts;
        SavedCounts {
            firings,
            amended,
            skipped_empty,
        }
    }
}

impl From<SavedCounts> for Counts {
    fn from(counts: SavedCounts) -> Counts {
        let SavedCounts {
            firings,
            amended,
            skipped_empty,
        } = counts;
        Counts {
            firings,
            amended,
            skipped_empty,
        }
    }
}

/// The spellings that members have, numbered in the order of the forms.
pub(in crate::queries) struct Spellings {
    /// For each form in use: its number.
    numbers: Vec<Option<u32>>,
    texts: Vec<String>,
}

impl Spellings {
    /// A text of each spelling.
    pub(in crate::queries) fn texts(&self) -> &[String] {
        &self.texts
    }
}

impl Members {
    /// The spellings that members have: forms that only members who left had are not saved.
    pub(in crate::queries) fn spellings(&self) -> Spellings {
        let mut first: Vec<Option<u32>> = vec![None; self.forms.len()];
        for member in self.list.iter_from(0).filter(|it| !it.has_left()) {
            let slot = &mut first[member.form as usize];
            *slot = slot.or(Some(member.slot));
        }
        let mut texts = Vec::new();
        let numbers = first.into_iter().map(|slot| {
            let number = texts.len() as u32;
            texts.push(self.text(slot?));
            Some(number)
        });
        Spellings {
            numbers: numbers.collect(),
            texts,
        }
    }

    /// The number of records that [`Members::saved_chunk`] has.
    pub(in crate::queries) fn chunk_count(&self) -> usize {
        self.list.chunks().len()
    }

    /// A chunk of the list as a checkpoint holds it.
    pub(in crate::queries) fn saved_chunk(
        &self,
        at: usize,
        spellings: &Spellings,
    ) -> Vec<SavedMember> {
        let members = self.list.chunks()[at].iter();
        let saved = members.map(|member| SavedMember {
            slot: member.slot,
            spelling: spellings.numbers[member.form as usize].unwrap_or_default(),
            uid: member.uid,
            name: member.name().to_owned(),
            words: member.words().map(str::to_owned).collect(),
        });
        saved.collect()
    }

    /// When members joined, and the histories of those that are paused or were.
    pub(in crate::queries) fn saved_times(&self, cohort: QueryUid) -> Vec<QueryRecord> {
        let waves = self.waves.iter().map(|wave| SavedWave {
            first: wave.first,
            base: wave.base,
            before: wave.before.map(SavedCounts::from),
        });
        let histories = self.histories.iter().map(|(slot, history)| SavedHistory {
            slot: *slot,
            paused: history.paused,
            counts: history.counts.into(),
            passed_while_paused: history.passed_while_paused,
            last_close: history.last_close,
        });
        let waves = portions(waves).map(|part| QueryRecord::Waves(cohort, part));
        let histories = portions(histories).map(|part| QueryRecord::Histories(cohort, part));
        waves.chain(histories).collect()
    }

    /// The slot that the next member gets.
    pub(in crate::queries) fn next_slot(&self) -> u32 {
        self.next
    }

    /// The members by the time after which they fire, ascending.
    pub(in crate::queries) fn joined(
        &self,
    ) -> impl Iterator<Item = (EventTime, Vec<JoiningMember>)> + '_ {
        let ends = self.waves.iter().skip(1).map(|wave| wave.first);
        let ends = ends.chain([u32::MAX]);
        self.waves.iter().zip(ends).map(|(wave, end)| {
            let from = self.list.partition_point(|it| it.slot < wave.first);
            let of_wave = self.list.iter_from(from).take_while(|it| it.slot < end);
            let there = of_wave.filter(|it| !it.has_left());
            let members = there.map(|member| JoiningMember {
                uid: member.uid,
                slot: member.slot,
                words: self.constant_words(member.slot),
            });
            (wave.base, members.collect())
        })
    }

    /// The slots of paused members, each with the close that the member would have fired for next.
    pub(in crate::queries) fn paused(&self) -> impl Iterator<Item = (u32, Option<EventTime>)> + '_ {
        let histories = self.histories.iter();
        histories.filter_map(|(slot, history)| Some((*slot, history.paused?)))
    }

    /// The members of a cohort with these spellings, which follow.
    pub(in crate::queries) fn restore(spellings: Vec<Arc<Shape>>, next_slot: u32) -> Members {
        Members {
            forms: spellings,
            next: next_slot,
            ..Members::new()
        }
    }

    /// Adds saved waves, after earlier ones.
    pub(in crate::queries) fn add_waves(&mut self, waves: Vec<SavedWave>) {
        let waves = waves.into_iter().map(|wave| JoinWave {
            first: wave.first,
            base: wave.base,
            before: wave.before.map(Counts::from),
        });
        self.waves.reserve_exact(waves.len());
        self.waves.extend(waves);
    }

    /// Adds saved histories.
    pub(in crate::queries) fn add_histories(&mut self, histories: Vec<SavedHistory>) {
        self.histories.extend(histories.into_iter().map(|history| {
            let restored = PauseHistory {
                paused: history.paused,
                counts: history.counts.into(),
                passed_while_paused: history.passed_while_paused,
                last_close: history.last_close,
            };
            (history.slot, restored)
        }));
    }

    /// Adds saved members, after those in lower slots.
    pub(in crate::queries) fn add_saved(
        &mut self,
        members: Vec<SavedMember>,
    ) -> Result<(), RestoreError> {
        self.list.reserve(members.len());
        for saved in members {
            let is_gap = saved.uid.0 == 0;
            let form = self.forms.get(saved.spelling as usize);
            let places = form.map(|form| form.pieces().len() - 1);
            if !is_gap && places != Some(saved.words.len()) {
                return contradiction(format!(
                    "the words of query {} do not fit its text in this version",
                    saved.name
                ));
            }
            let mut words = saved.name;
            let name_bytes = words.len() as u32;
            for word in &saved.words {
                words.push(BETWEEN);
                words.push_str(word);
            }
            self.gaps += usize::from(is_gap);
            self.list.push(Member {
                slot: saved.slot,
                form: saved.spelling,
                name_bytes,
                uid: saved.uid,
                words: words.into_boxed_str(),
            });
        }
        Ok(())
    }

    /// After the last record: finds the members that run. Returns whether the records fit each
    /// other.
    pub(in crate::queries) fn find_running(&mut self) -> bool {
        let is_paused = |slot| (self.histories.get(&slot)).is_some_and(|it| it.paused.is_some());
        let slots = self.list.iter_from(0).map(|member| member.slot);
        let slots_ascend = slots.clone().is_sorted_by(|one, other| one < other);
        let waves_ascend = (self.waves).is_sorted_by(|one, other| one.first < other.first);
        let last = slots.clone().last();
        let first_wave = self.waves.first().map(|wave| wave.first);
        let fits = last < Some(self.next) && first_wave.is_some() && first_wave <= slots.min();
        let running = self.list.iter_from(0);
        let running = running.filter(|member| !member.has_left() && !is_paused(member.slot));
        let mut running = running.map(|member| member.slot).peekable();
        self.eldest = running.peek().copied().unwrap_or(self.next);
        self.running = running.count();
        slots_ascend && waves_ascend && fits && self.len() > 0
    }
}
