//! Cohorts of many against cohorts of one: the same inputs, once with texts that have a shape and
//! once with texts that have none, must make the same queries fire for the same closes, over the
//! same windows.

use crate::harness::{Driver, Seen, stream, windows};
use proptest::prelude::*;
use somersault_lang::LatePolicy;
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, Millis, QueryUid};
use somersault_stream::{
    Admission, Input, JoiningMember, Output, ParsedQuery, Pause, QueryChange, QueryDeclaration,
    QueryEvent, Refusal, Taken,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const STREAMS: [&str; 2] = ["http://a/", "http://b/"];

fn declaration(shape: usize) -> QueryDeclaration {
    match shape {
        0 => windows(&[(STREAMS[0], 40, 20)]),
        1 => windows(&[(STREAMS[0], 100, 20), (STREAMS[1], 20, 30)]),
        _ => windows(&[(STREAMS[1], 200, 10)]),
    }
}

/// A text of a shape; its declaration comes with it.
pub(crate) fn shaped(shape: usize, constant: usize) -> String {
    format!(
        "SELECT ?s FROM STREAM <http://{shape}/> [RANGE 1s TUMBLING] WHERE {{ ?s ?p <http://c/{constant}> }}"
    )
}

/// A text that has none.
fn alone(shape: usize, constant: usize) -> String {
    format!("nothing {shape} {constant}")
}

/// One stay of a member in a slot, as a host knows it.
struct Stay {
    name: String,
    base: EventTime,
    until: Option<Pause>,
}

/// A host that collects a driver's outputs.
#[derive(Default)]
pub(crate) struct Host {
    names: BTreeMap<QueryUid, String>,
    stays: BTreeMap<(QueryUid, u32), Stay>,
    read: usize,
    seen: usize,
    /// Query, close, content of windows, complete from, stored statements.
    pub(crate) fired: BTreeSet<String>,
    order: Vec<(String, EventTime)>,
}

impl Host {
    fn note(&mut self, uid: QueryUid, seen: &Seen) {
        let name = self.names[&uid].clone();
        let firing = &seen.firing;
        let line = format!(
            "{name} {:?} {} {:?} {:?} {:?} {:?}",
            firing.close,
            firing.revision,
            firing.sn,
            firing.complete_from,
            seen.windows,
            seen.stored
        );
        assert!(self.fired.insert(line), "WI-2: {name} fires once");
        if firing.revision == 0 {
            self.order.push((name, firing.close));
        }
    }

    /// Reads what the driver has put out since the last time; `names` are those of all uids.
    fn read(&mut self, driver: &Driver) {
        // Outputs and executions in the order in which they came.
        let mut seen = driver.seen[self.seen..].iter().peekable();
        self.seen = driver.seen.len();
        for (at, output) in driver.decided.iter().enumerate().skip(self.read) {
            while let Some(seen) = seen.next_if(|seen| seen.decided <= at) {
                self.see(seen);
            }
            if let Output::Query(event) = output {
                self.hear(event);
            }
        }
        self.read = driver.decided.len();
        seen.for_each(|seen| self.see(seen));
    }

    fn hear(&mut self, QueryEvent { cohort, change }: &QueryEvent) {
        let mut join = |base: EventTime, member: &JoiningMember| {
            let stay = Stay {
                name: self.names[&member.uid].clone(),
                base,
                until: None,
            };
            let before = self.stays.insert((*cohort, member.slot), stay);
            assert!(before.is_none(), "a slot is given once");
        };
        match change {
            QueryChange::Joined { base, members } => {
                members.iter().for_each(|member| join(*base, member));
            }
            QueryChange::Resumed { base, member, .. } => join(*base, member),
            QueryChange::Paused { slot, pause } => {
                self.stays.get_mut(&(*cohort, *slot)).unwrap().until = Some(*pause);
            }
            QueryChange::Left { slot } => {
                let name = self.stays[&(*cohort, *slot)].name.clone();
                self.stays.retain(|_, stay| stay.name != name);
            }
            _ => {}
        }
    }

    fn see(&mut self, seen: &Seen) {
        let firing = &seen.firing;
        let fires: Vec<QueryUid> = (self
            .stays
            .range((firing.query, 0)..(firing.query, firing.members)))
        .filter(|(_, stay)| {
            assert!(stay.base < firing.close);
            stay.until.is_none_or(|pause| {
                let is_before = firing.sn <= pause.through;
                let by_time = pause.next.is_some_and(|next| firing.close < next);
                assert!(
                    is_before == by_time || firing.revision > 0,
                    "without late statements it is the same"
                );
                is_before
            })
        })
        .map(|(_, stay)| {
            *self
                .names
                .iter()
                .find(|(_, name)| **name == stay.name)
                .unwrap()
                .0
        })
        .collect();
        for uid in fires {
            self.note(uid, seen);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Register(usize, usize),
    Many(usize, usize),
    Pause(usize),
    Resume(usize),
    Drop(usize),
    /// The query of this number by one of this shape with this constant.
    Replace(usize, usize, usize),
    Push(usize, i64),
    /// A push this long before the stream's time, where late statements are taken.
    Late(usize, i64),
    Advance(usize, i64),
    Both(i64),
    Cut,
    Hold(bool),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize, 0..3usize).prop_map(|(shape, constant)| Step::Register(shape, constant)),
        1 => (0..3usize, 1..4usize).prop_map(|(shape, count)| Step::Many(shape, count)),
        1 => (0..12usize).prop_map(Step::Pause),
        1 => (0..12usize).prop_map(Step::Resume),
        1 => (0..12usize).prop_map(Step::Drop),
        2 => (0..12usize, 0..3usize, 0..3usize)
            .prop_map(|(at, shape, constant)| Step::Replace(at, shape, constant)),
        4 => (0..2usize, 0..30i64).prop_map(|(stream, by)| Step::Push(stream, by)),
        2 => (0..2usize, 0..60i64).prop_map(|(stream, by)| Step::Advance(stream, by)),
        1 => (0..2usize, 0..80i64).prop_map(|(stream, by)| Step::Late(stream, by)),
        2 => (0..40i64).prop_map(Step::Both),
        // So far that empty closes are skipped.
        1 => (600..3000i64).prop_map(Step::Both),
        1 => Just(Step::Cut),
        1 => any::<bool>().prop_map(Step::Hold),
    ]
}

pub(crate) struct World {
    pub(crate) driver: Driver,
    pub(crate) host: Host,
    text: fn(usize, usize) -> String,
    registered: Vec<String>,
    uids: u64,
    times: [i64; 2],
    pushed: u64,
}

impl World {
    fn new(text: fn(usize, usize) -> String, amends: bool) -> World {
        World::with_driver(Driver::new(), text, amends)
    }

    pub(crate) fn with_driver(
        mut driver: Driver,
        text: fn(usize, usize) -> String,
        amends: bool,
    ) -> World {
        for iri in STREAMS {
            let mut declared = stream(iri);
            if amends {
                declared.late_policy = LatePolicy::Amend { within: Millis(60) };
            }
            driver.create(declared).unwrap();
        }
        World {
            driver,
            host: Host::default(),
            text,
            registered: Vec::new(),
            uids: 0,
            times: [0; 2],
            pushed: 0,
        }
    }

    /// Registers one query after the other; those of several at once must be all that they would be
    /// then.
    fn register(&mut self, shape: usize, constants: impl Iterator<Item = usize>, together: bool) {
        let mut members = Vec::new();
        for constant in constants {
            let name = format!("q{}", self.registered.len());
            self.registered.push(name.clone());
            self.name_next(&name);
            let text = (self.text)(shape, constant);
            self.driver.texts.note_query(&text, &declaration(shape));
            match Shape::of(&text).filter(|_| together) {
                Some((shape, words)) => members.push((name, (shape, words))),
                None => {
                    let input = Input::RegisterQuery {
                        received_ms: 0,
                        name,
                        query: ParsedQuery::of(&text, declaration(shape)),
                        text,
                        namespace: None,
                        replaces: false,
                    };
                    self.driver.input(input).unwrap();
                }
            }
        }
        let Some((_, (common, _))) = members.first() else {
            return;
        };
        let input = Input::RegisterQueries {
            received_ms: 0,
            shape: Arc::new(common.clone()),
            namespace: None,
            declaration: declaration(shape).into(),
            members: members
                .into_iter()
                .map(|(name, (_, words))| (name, words))
                .collect(),
        };
        let Ok(Admission::Several(_, outcomes)) = self.driver.input(input) else {
            panic!("taken")
        };
        assert!(outcomes.iter().all(Result::is_ok));
    }

    /// Gives the next registration this name, with its uid behind it, so that a replacement is told
    /// apart from its predecessor.
    fn name_next(&mut self, name: &str) {
        self.uids += 1;
        let of_this_life = format!("{name}#{}", self.uids);
        self.host.names.insert(QueryUid(self.uids), of_this_life);
    }

    fn replace(&mut self, name: &str, shape: usize, constant: usize) {
        let text = (self.text)(shape, constant);
        self.driver.texts.note_query(&text, &declaration(shape));
        let input = Input::RegisterQuery {
            received_ms: 0,
            name: name.to_owned(),
            query: ParsedQuery::of(&text, declaration(shape)),
            text,
            namespace: None,
            replaces: true,
        };
        self.name_next(name);
        match self.driver.input(input) {
            Ok(Admission::Repeat(_)) | Err(Refusal::SuccessorBehind { .. }) => self.uids -= 1,
            other => _ = other.unwrap(),
        }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Replace(at, shape, constant) => {
                let name = self.registered.get(*at).cloned().unwrap_or_default();
                if self.driver.coordinator.query(&name).is_some() {
                    self.replace(&name, *shape, *constant);
                }
            }
            Step::Register(shape, constant) => {
                self.register(*shape, *constant..constant + 1, false)
            }
            Step::Many(shape, count) => self.register(*shape, 0..*count, true),
            Step::Pause(at) | Step::Resume(at) | Step::Drop(at) => {
                let name = self.registered.get(*at).cloned().unwrap_or_default();
                if self.driver.coordinator.query(&name).is_some() {
                    match step {
                        Step::Pause(_) => self.driver.pause(&name),
                        Step::Resume(_) => self.driver.resume(&name),
                        _ => self.driver.drop_query(&name),
                    }
                }
            }
            Step::Push(stream, by) => {
                self.times[*stream] += by;
                self.pushed += 1;
                self.driver
                    .push(STREAMS[*stream], &[(self.times[*stream], self.pushed)])
                    .unwrap();
            }
            Step::Late(stream, back) => {
                self.pushed += 1;
                let at = (self.times[*stream] - back).max(0);
                // Where it is late and nothing is amended it is refused.
                _ = (self.driver).push(STREAMS[*stream], &[(at, self.pushed)]);
            }
            Step::Advance(stream, by) => {
                self.times[*stream] += by;
                self.driver
                    .advance(&[(STREAMS[*stream], self.times[*stream])])
                    .unwrap();
            }
            Step::Both(by) => {
                let to = self.times[0].max(self.times[1]) + by;
                self.times = [to; 2];
                self.driver
                    .advance(&STREAMS.map(|stream| (stream, to)))
                    .unwrap();
            }
            Step::Cut => {
                self.driver.freshness_cut();
            }
            Step::Hold(hold) => {
                self.driver.stable_at_once = !hold;
                self.driver.fired_at_once = !hold;
                self.driver.stabilise();
                self.driver.finish();
            }
        }
        self.host.read(&self.driver);
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let queries = self.driver.coordinator.queries();
        let line = |query: somersault_stream::QueryStatus| {
            format!(
                "{} {:?} {:?} {:?} {} {} {} {} {} {:?}",
                query.name,
                query.uid,
                query.next_close,
                query.last_close,
                query.firings,
                query.amended,
                query.skipped_empty,
                query.passed_while_paused,
                query.paused,
                query.waiting_for
            )
        };
        queries.into_iter().map(line).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn members_of_a_cohort_fire_as_if_alone(
        steps in proptest::collection::vec(step(), 1..60),
        amends: bool,
    ) {
        let (mut together, mut apart) = (World::new(shaped, amends), World::new(alone, amends));
        for step in &steps {
            together.take(step);
            apart.take(step);
            prop_assert_eq!(together.statuses(), apart.statuses());
        }
        for world in [&mut together, &mut apart] {
            world.take(&Step::Hold(false));
            world.take(&Step::Both(100));
        }
        prop_assert_eq!(&together.host.fired, &apart.host.fired);
        for name in &together.registered {
            let closes = |world: &World| {
                let is_own = |of: &str| of.split('#').next() == Some(name);
                let own = world.host.order.iter().filter(|(of, _)| is_own(of));
                own.map(|(_, close)| *close).collect::<Vec<_>>()
            };
            // Each close has one answer under a name, whichever query has the name.
            prop_assert!(closes(&together).is_sorted_by(|a, b| a < b));
            prop_assert_eq!(closes(&together), closes(&apart));
        }
    }
}

#[test]
fn texts_of_one_shape_make_one_cohort() {
    let mut world = World::new(shaped, false);
    world.take(&Step::Many(0, 3));
    world.take(&Step::Register(0, 5));
    world.take(&Step::Register(2, 5));
    let cohorts: BTreeSet<_> = (world.driver.coordinator.queries().iter())
        .map(|query| (query.member.cohort, query.group))
        .collect();
    assert_eq!(cohorts.len(), 2);
    let query = world.driver.coordinator.query("q3").unwrap();
    assert_eq!(query.text, shaped(0, 5));
    assert_eq!((query.member.slot, query.group), (3, Some(4)));
    let due = |driver: &Driver| {
        driver
            .decided
            .iter()
            .filter(|o| matches!(o, Output::Due(_)))
            .count()
    };
    world.take(&Step::Both(5));
    world.take(&Step::Both(25));
    assert_eq!(due(&world.driver), 4, "one for each cohort and close");
}

#[test]
fn each_of_a_batch_is_taken_or_refused_for_itself() {
    let mut world = World::new(shaped, false);
    world.take(&Step::Register(0, 1));
    let (shape, words) = Shape::of(&shaped(0, 1)).unwrap();
    let other = Shape::of(&shaped(0, 2)).unwrap().1;
    let input = Input::RegisterQueries {
        received_ms: 0,
        shape: Arc::new(shape),
        namespace: None,
        declaration: declaration(0).into(),
        members: [
            ("q0", &words),
            ("q0", &other),
            ("new", &words),
            ("new", &words),
            ("new", &other),
        ]
        .map(|(name, words)| (name.to_owned(), words.clone()))
        .to_vec(),
    };
    let Admission::Several(record, outcomes) = world.driver.input(input).unwrap() else {
        panic!()
    };
    assert!(record.is_some());
    let conflict = |name: &str| {
        Err(Refusal::QueryConflict {
            name: name.to_owned(),
        })
    };
    let taken = |uid, is_new| {
        Ok(Taken {
            uid: QueryUid(uid),
            is_new,
        })
    };
    assert_eq!(
        outcomes,
        [
            taken(1, false),
            conflict("q0"),
            taken(2, true),
            taken(2, false),
            conflict("new")
        ]
    );
    assert_eq!(world.driver.coordinator.query_count(), 2);
}
