//! A registry that a checkpoint has replaced answers, counts and resumes as the one that went on.

use crate::fake_driver::{FakeDriver, shape_of};
use somersault_continuous::{
    AnswerRecord, FiringId, SubscribeOptions, Subscription, SubscriptionEvent,
};
use somersault_model::{EventTime, QueryUid, Sn};
use somersault_runtime::{Host, RuntimeError};
use somersault_stream::{JoiningMember, Pause, QueryChange, QueryStatus};

/// A sequence of numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}

/// What happens to the cohort.
#[derive(Clone, Copy, Debug)]
enum Event {
    Store(usize),
    Cut,
    Fire,
    Pass,
    Join(usize),
    Pause(usize),
    Resume(usize),
    Leave(usize),
}

#[derive(Clone)]
struct Member {
    status: QueryStatus,
    base: EventTime,
    paused: Option<Pause>,
}

/// What the core knows of a cohort, at one position of the log.
#[derive(Clone)]
struct Core {
    members: Vec<Member>,
    slots: u32,
    time_ms: i64,
    sn: Sn,
    /// The last close of the query that the first member replaced.
    replaced: Option<(QueryUid, EventTime)>,
    /// While firings of an SN before are due: the slots that fire, and the close before the next.
    firing: Option<(u32, i64)>,
}

/// A cohort and its driver.
struct Cohort {
    driver: FakeDriver,
    texts: Vec<String>,
    core: Core,
    /// Whether the events have happened before: then the data are there.
    repeats: bool,
}

impl Cohort {
    fn new(texts: &[&str]) -> Cohort {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let mut driver = FakeDriver::new();
        let status = driver.form(&texts[0], 0);
        let close = EventTime(-500);
        let replaced = Some((status.uid, close));
        driver.tell(QueryChange::AnsweredBefore { slot: 0, close });
        let first = Member {
            status,
            base: EventTime(0),
            paused: None,
        };
        let core = Core {
            members: vec![first],
            slots: 1,
            time_ms: 0,
            sn: driver.sn(),
            replaced,
            firing: None,
        };
        Cohort {
            driver,
            texts,
            core,
            repeats: false,
        }
    }

    fn meet(&mut self, event: Event) {
        match event {
            Event::Store(_) | Event::Cut => {
                self.core.sn = self.core.sn.next();
                match event {
                    Event::Store(at) if !self.repeats => {
                        let who = ["urn:ann", "urn:bob", "urn:cem"][at % 3];
                        let whom = format!("urn:x{}", at / 3);
                        self.driver.store([who, "urn:knows", &whom]);
                    }
                    Event::Cut if !self.repeats => self.driver.cut(),
                    _ => {}
                }
            }
            Event::Fire => self.fire(),
            Event::Pass => {
                self.core.time_ms += 3000;
                let (first, last) = (self.core.time_ms - 2000, self.core.time_ms);
                self.driver.tell(QueryChange::Passed {
                    first: EventTime(first),
                    last: EventTime(last),
                    count: 3,
                });
            }
            Event::Join(at) => self.join(at),
            Event::Pause(at) => self.pause(at % self.core.members.len()),
            Event::Resume(at) => self.resume(at % self.core.members.len()),
            Event::Leave(at) => self.leave(at % self.core.members.len()),
        }
    }

    fn fire(&mut self) {
        let core = &mut self.core;
        let (slots, close_ms) = match &mut core.firing {
            Some((slots, last_ms)) => {
                *last_ms += 1000;
                (*slots, *last_ms)
            }
            None => {
                core.time_ms += 1000;
                (core.slots, core.time_ms)
            }
        };
        // A checkpoint has the answers of its SN.
        if !self.repeats || core.firing.is_none() {
            self.driver.fire_at(close_ms, core.sn, slots);
            assert_eq!(self.driver.answered().close.0, close_ms);
        }
    }

    fn next_slot(&mut self) -> u32 {
        self.core.slots += 1;
        self.core.slots - 1
    }

    fn join(&mut self, at: usize) {
        if self.texts.len() == 1 {
            return;
        }
        let mut member = self.core.members[0].clone();
        member.status.text = self.texts[at % self.texts.len()].clone();
        let slot = self.next_slot();
        member.status.member.slot = slot;
        member.status.uid = QueryUid(u64::from(slot) + 1);
        member.status.name = format!("q{slot}");
        member.base = EventTime(self.core.time_ms);
        member.paused = None;
        self.driver.tell(QueryChange::Joined {
            base: member.base,
            members: vec![joining(&member)],
        });
        self.core.members.push(member);
    }

    fn pause(&mut self, at: usize) {
        let member = &mut self.core.members[at];
        if member.paused.is_some() {
            return;
        }
        let pause = Pause {
            through: self.core.sn,
            next: Some(EventTime(self.core.time_ms + 1000)),
        };
        member.paused = Some(pause);
        let slot = member.status.member.slot;
        self.driver.tell(QueryChange::Paused { slot, pause });
    }

    fn resume(&mut self, at: usize) {
        if self.core.members[at].paused.take().is_none() {
            return;
        }
        let slot = self.next_slot();
        let base = EventTime(self.core.time_ms);
        let member = &mut self.core.members[at];
        let before = std::mem::replace(&mut member.status.member.slot, slot);
        member.base = base;
        let member = joining(member);
        self.driver.tell(QueryChange::Resumed {
            base,
            member,
            before,
        });
    }

    fn leave(&mut self, at: usize) {
        if self.core.members.len() > 1 {
            let member = self.core.members.remove(at);
            self.core.replaced = (self.core.replaced).filter(|(uid, _)| *uid != member.status.uid);
            let slot = member.status.member.slot;
            self.driver.tell(QueryChange::Left { slot });
        }
    }

    /// The bytes of the checkpoint that was begun.
    fn frozen(&self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        let registry = &self.driver.registry;
        registry.save(&mut |record| records.push(record.to_vec()));
        records
    }

    /// Restarts from a checkpoint, and announces the queries as its core has them.
    fn restart(&mut self, records: &[Vec<u8>], core: &Core) -> Result<(), RuntimeError> {
        self.driver.restart(records)?;
        self.core = core.clone();
        let text = &core.members[0].status.text;
        let (shape, _) = shape_of(text);
        self.driver.form_empty(shape, text);
        let mut members: Vec<&Member> = core.members.iter().collect();
        members.sort_unstable_by_key(|member| member.status.member.slot);
        for member in &members {
            let base = member.base;
            let members = vec![joining(member)];
            self.driver.tell(QueryChange::Joined { base, members });
        }
        for member in &members {
            let slot = member.status.member.slot;
            if let Some(Pause { next, .. }) = member.paused {
                let through = core.sn;
                let pause = Pause { through, next };
                self.driver.tell(QueryChange::Paused { slot, pause });
            }
            if let Some((uid, close)) = core.replaced
                && uid == member.status.uid
            {
                self.driver
                    .tell(QueryChange::AnsweredBefore { slot, close });
            }
        }
        self.driver.registry.check_restored()
    }

    /// What users see of all members.
    fn seen(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for cohort in &self.driver.registry.metrics() {
            let counts = (cohort.firings, cohort.executions, cohort.nonempty);
            let others = (cohort.rows, cohort.skipped_empty, cohort.skipped);
            let failed = (cohort.failed, cohort.kept_bytes);
            seen.push(format!("{counts:?} {others:?} {failed:?}"));
        }
        for Member { status, .. } in &self.core.members {
            let (summary, size) = (self.driver.registry)
                .summary(status.member)
                .expect("it is registered");
            let counts = (summary.firings, summary.rows, summary.last_close);
            seen.push(format!(
                "{counts:?} {:?} {}",
                summary.last_error, size.cells
            ));
            let time_ms = self.core.time_ms;
            let closes = [-500, 0, time_ms - 3000, time_ms - 1000];
            let after = closes.map(|close| Some(FiringId::at(EventTime(close))));
            for after in after.into_iter().chain([None]) {
                let options = SubscribeOptions {
                    after,
                    ..SubscribeOptions::default()
                };
                let subscription = self.driver.registry.subscribe(status, &options);
                seen.extend(events(&subscription.expect("it is registered")));
            }
        }
        seen
    }
}

fn joining(member: &Member) -> JoiningMember {
    let (shape, words) = shape_of(&member.status.text);
    JoiningMember {
        uid: member.status.uid,
        slot: member.status.member.slot,
        words: shape.constant_words(&words),
    }
}

fn events(subscription: &Subscription) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = subscription.try_recv() {
        events.push(match event {
            SubscriptionEvent::Firing(firing) => {
                let answer = firing.answer.as_ref();
                let answer = answer.map(|answer| {
                    let rows = answer.rows().map(|row| format!("{row:?}"));
                    let triples = answer.triples().map(|triple| triple.to_string());
                    let quads = answer.quads().iter().map(|quad| quad.to_string());
                    let mut all: Vec<String> = rows.chain(triples).chain(quads).collect();
                    all.sort_unstable();
                    (answer.boolean(), answer.variables().to_vec(), all)
                });
                format!("{:?} {} {answer:?}", firing.id(), firing.query)
            }
            other => format!("{other:?}"),
        });
    }
    events
}

/// An event; firings are the most frequent.
fn event(random: &mut Random) -> Event {
    let at = random.below(64);
    match random.below(12) {
        0 | 1 => Event::Store(at),
        2 => Event::Pass,
        3 | 4 => Event::Join(at),
        5 => Event::Pause(at),
        6 | 7 => Event::Resume(at),
        8 => Event::Leave(at),
        _ => Event::Fire,
    }
}

/// Freezes one of two equal cohorts at several points, restarts it there, and repeats the events
/// that followed.
fn twin(texts: &[&str], seed: u64) {
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let [mut plain, mut restarted] = [Cohort::new(texts), Cohort::new(texts)];
    for _ in 0..4 {
        for _ in 0..random.below(20) {
            let event = event(&mut random);
            plain.meet(event);
            restarted.meet(event);
        }
        restarted.driver.registry.freeze_at(restarted.core.sn);
        // Firings of the SN are answered while members come and go.
        let mut since = Vec::new();
        for _ in 0..random.below(6) {
            let event = event(&mut random);
            if !matches!(event, Event::Store(_) | Event::Leave(_)) {
                since.push(event);
            }
        }
        let late = since.len();
        since.push(Event::Cut);
        since.extend((0..random.below(6)).map(|_| event(&mut random)));
        let core = restarted.core.clone();
        for cohort in [&mut plain, &mut restarted] {
            cohort.meet_late(&since, late);
        }
        let records = restarted.frozen();
        restarted.restart(&records, &core).expect("it is restored");
        restarted.repeats = true;
        restarted.meet_late(&since, late);
        restarted.repeats = false;
        assert_eq!(restarted.seen(), plain.seen(), "seed {seed}: {since:?}");
    }
}

impl Cohort {
    /// Meets events, the first of them while firings of the SN before are due.
    fn meet_late(&mut self, events: &[Event], late: usize) {
        self.core.firing = Some((self.core.slots, self.core.time_ms));
        // Members that join meanwhile fire for later closes.
        let due = events[..late]
            .iter()
            .filter(|event| matches!(event, Event::Fire));
        self.core.time_ms += 1000 * due.count() as i64;
        for (at, event) in events.iter().enumerate() {
            if at == late {
                self.core.firing = None;
            }
            self.meet(*event);
        }
    }
}

const WINDOW: &str = "FROM STREAM <urn:s> [RANGE 1s STEP 1s]";

fn select(of: &str) -> String {
    format!("SELECT ?x {WINDOW} WHERE {{ <urn:{of}> <urn:knows> ?x }}")
}

#[test]
fn members_go_on_where_they_were() {
    let texts = ["ann", "bob", "cem", "dan"].map(select);
    for seed in 0..40 {
        twin(&texts.each_ref().map(String::as_str), seed);
    }
}

#[test]
fn cells_that_are_evaluated_one_by_one_go_on_where_they_were() {
    let text = |of: &str| {
        format!("SELECT (COUNT(*) AS ?n) {WINDOW} WHERE {{ <urn:{of}> <urn:knows>+ ?x }}")
    };
    let texts = ["ann", "bob", "dan"].map(text);
    for seed in 0..30 {
        twin(&texts.each_ref().map(String::as_str), seed);
    }
}

#[test]
fn answers_are_compared_with_those_before_the_restart() {
    let all = "WHERE { ?s <urn:knows> ?x }";
    let texts = [
        format!("SELECT ISTREAM ?s ?x {WINDOW} {all}"),
        format!("SELECT DSTREAM ?s ?x {WINDOW} {all}"),
        format!("SELECT ?x {WINDOW} REPORT ON CHANGE {all}"),
        format!("CONSTRUCT ISTREAM {{ ?x <urn:of> ?s, \"a\\n\\\"b\"@en }} {WINDOW} {all}"),
        format!("CONSTRUCT {{ GRAPH ?s {{ ?x <urn:of> 1.50 }} }} {WINDOW} REPORT ON CHANGE {all}"),
        format!("ASK {WINDOW} REPORT ON CHANGE {all}"),
        format!("SELECT (CONCAT(STR(?x), \"!\") AS ?text) {WINDOW} {all}"),
    ];
    for text in &texts {
        for seed in 0..12 {
            twin(&[text], seed);
        }
    }
}

/// The records of a cohort with two members, and its core.
fn checkpoint() -> (Cohort, Vec<Vec<u8>>) {
    let texts = ["ann", "bob"].map(select);
    let mut cohort = Cohort::new(&texts.each_ref().map(String::as_str));
    let events = [Event::Join(1), Event::Store(0), Event::Fire, Event::Fire];
    events.into_iter().for_each(|event| cohort.meet(event));
    cohort.driver.registry.freeze_at(cohort.core.sn);
    let records = cohort.frozen();
    (cohort, records)
}

#[test]
fn a_record_that_is_missing_is_noticed() {
    let (mut cohort, records) = checkpoint();
    let core = cohort.core.clone();
    for missing in 0..records.len() {
        let mut fewer = records.clone();
        fewer.remove(missing);
        let restored = cohort.restart(&fewer, &core);
        assert!(
            restored.is_err(),
            "{:?}",
            AnswerRecord::from_bytes(&records[missing])
        );
    }
    cohort.restart(&records, &core).expect("all are there");
}

#[test]
fn a_cohort_that_ends_after_the_position_is_there_until_the_checkpoint_is_written() {
    let (cohort, expected) = checkpoint();
    let core = cohort.core.clone();
    cohort.driver.registry.freeze_at(core.sn);
    for member in &core.members {
        let slot = member.status.member.slot;
        cohort.driver.tell(QueryChange::Left { slot });
    }
    cohort.driver.tell(QueryChange::Ended);
    assert_eq!(cohort.frozen(), expected);
    assert_eq!(cohort.frozen().len(), 2, "it is given once");

    let (cohort, _) = checkpoint();
    cohort.driver.registry.freeze_at(cohort.core.sn);
    cohort.driver.registry.thaw();
    cohort.driver.tell(QueryChange::Ended);
    assert_eq!(
        cohort.frozen().len(),
        2,
        "a checkpoint that was given up keeps nothing"
    );
}

#[test]
fn a_query_without_answers_is_noticed() {
    let (mut cohort, _) = checkpoint();
    let core = cohort.core.clone();
    cohort.driver.tell(QueryChange::Ended);
    cohort.driver.registry.freeze_at(core.sn);
    let records = cohort.frozen();
    let restored = cohort.restart(&records, &core);
    assert!(restored.is_err_and(|error| error.to_string().contains("has no answers")));
}

#[test]
fn other_members_than_the_cores_are_noticed() {
    let (mut cohort, records) = checkpoint();
    let core = cohort.core.clone();
    let mut fewer = core.clone();
    fewer.members.pop();
    let restored = cohort.restart(&records, &fewer);
    assert!(restored.is_err_and(|error| error.to_string().contains("are not those of the core")));
    let mut other = core.clone();
    other.members[1].status.text = other.members[0].status.text.clone();
    assert!(cohort.restart(&records, &other).is_err());
    cohort.restart(&records, &core).expect("they are the same");
}

#[test]
fn damaged_records_are_refused_or_read_without_a_panic() {
    let (cohort, records) = checkpoint();
    let mut random = Random(7);
    for _ in 0..500 {
        let mut damaged = records.clone();
        let record = random.below(damaged.len());
        let at = random.below(damaged[record].len());
        damaged[record][at] ^= 1 << random.below(8);
        // Checksums of the file find it first; here it is enough that nothing panics.
        let mut records = damaged.into_iter().map(Ok);
        let _ = cohort.driver.registry.restore(&mut records);
    }
}

#[test]
fn a_cohort_formed_after_the_position_is_left_out() {
    let driver = FakeDriver::new();
    driver.registry.freeze_at(Sn::ZERO);
    let mut driver = driver;
    driver.form(&select("ann"), 0);
    let mut records = Vec::new();
    driver
        .registry
        .save(&mut |record| records.push(record.to_vec()));
    assert_eq!(records.len(), 2, "{records:?}");
}
