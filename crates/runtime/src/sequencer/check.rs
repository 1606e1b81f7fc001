//! The check of the sequencer's own state, beside that of its delivery ledger (SQ-1). It is made
//! between two steps, when requests are taken.
//!
//! Before changing anything here: what is checked must hold after every step, whichever events have
//! come. What only holds after a while does not belong here.

use super::Sequencer;
use somersault_stream::CutPace;

impl Sequencer {
    /// Checks that what the sequencer has noted, published and handed on agrees with the
    /// coordinator and the log (SQ-1), and the ledger of firings with itself (DL-1).
    ///
    /// # Errors
    /// A sentence that says what is violated.
    pub(super) fn check(&self) -> Result<(), String> {
        self.delivery.check()?;
        let shared = &self.shared;
        let has_failed = self.failure.is_some() || shared.log.failed().is_some();
        if has_failed || self.stopping.is_some() {
            // An input that failed may be half taken.
            return Ok(());
        }
        let violated = |what: String| Err(format!("SQ-1: {what}"));
        if self.log_end != shared.log.end() {
            return violated(format!(
                "the log ends at record {}, and the sequencer has noted {}",
                shared.log.end(),
                self.log_end
            ));
        }
        let (cut, stable) = (
            self.coordinator.last_cut(),
            shared.store.snapshots().stable(),
        );
        let handed_on = self.stability.newest().unwrap_or(stable);
        if handed_on != cut {
            return violated(format!("{cut} was cut, and {handed_on} became stable last"));
        }
        let pace = CutPace {
            amends: false,
            held: self.delivery.held_live().clone(),
        };
        if !self.behind && self.coordinator.next_due_cut(self.log_end, &pace).is_some() {
            return violated("a cut is due, and nothing waits for it".to_owned());
        }
        if shared.figures.queries() != self.coordinator.query_count() {
            return violated(format!(
                "{} queries are published, and {} registered",
                shared.figures.queries(),
                self.coordinator.query_count()
            ));
        }
        let streams = self.coordinator.streams();
        let published = |iri: &str| shared.directory.find(iri).map(|clock| clock.uid());
        let differing = streams.iter().find(|stream| {
            let iri = stream.declaration.iri.as_str();
            published(iri) != Some(stream.uid)
        });
        if let Some(stream) = differing {
            return violated(format!(
                "the directory does not show {}",
                stream.declaration.iri
            ));
        }
        if shared.directory.len() != streams.len() {
            return violated("the directory shows a stream that does not exist".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::checkpoints::Checkpoints;
    use super::super::requests::{Event, Reply, Request};
    use super::super::shared::{DriverConfig, Shared, SharedParts};
    use super::super::{AckWhen, Intake, SequencerParts, Transactions, Triggers};
    use super::*;
    use crate::checkpoints::{CheckpointConfig, CheckpointPolicy, Opened};
    use crate::clock::{Clock as _, ManualClock, Now};
    use crate::error::RuntimeError;
    use crate::fabric::{Injectors, SimFabric};
    use crate::handover::Handover;
    use crate::host::{FiringAcks, FiringJob, Host};
    use crate::lane::Rerunner;
    use crate::slot::{Found, slot};
    use crossbeam_channel::{Receiver, unbounded};
    use somersault_lang::{Parser, Statement};
    use somersault_log::{AdvanceRecord, Log, Position};
    use somersault_model::{EventTime, Limits, Sn};
    use somersault_query::Execution;
    use somersault_store::Store;
    use somersault_stream::{
        Input, ParsedQuery, QueryDeclaration, QueryEvent, Record, StreamLimits,
    };
    use std::sync::Arc;
    use std::time::Duration;

    const STREAM: &str = "http://x/s";

    /// A host that answers no firing.
    struct Deaf;

    impl Host for Deaf {
        fn attach(&self, _answered: FiringAcks) {}
        fn on_query(&self, _event: QueryEvent) {}
        fn fire(self: Arc<Self>, _job: FiringJob) {}
        fn stable(&self, _sn: Sn, _now_ms: i64) {}
        fn failed(&self, _error: &RuntimeError) {}
    }

    /// A sequencer without a driver, and what it asks to be evaluated and sends to itself.
    pub(crate) struct Alone {
        pub(crate) sequencer: Sequencer,
        _events: Receiver<Event>,
    }

    impl Alone {
        /// A stream with a query over it, which has fired for one close.
        pub(crate) fn new() -> Alone {
            let store = Store::new(1);
            let injectors = Arc::new(Injectors::new(&store).unwrap());
            let config = DriverConfig {
                read_only: false,
                freshness: Duration::from_secs(60),
                kept_firings: 16,
                pin_time: Duration::from_secs(60),
                superseded_bytes: u64::MAX,
                inbox: 16,
                inflight_bytes: 1 << 20,
                inflight_patience: Duration::from_secs(60),
                limits: StreamLimits::default(),
                portion: 1,
                closes_patience: Duration::from_secs(60),
                checkpoints: CheckpointConfig::default(),
            };
            let limits = Execution::new(Limits::default(), EventTime(0));
            let rerunner = Rerunner::new(Arc::clone(&store), limits);
            let shared = Arc::new(Shared::new(SharedParts {
                config,
                store,
                log: Arc::new(Log::volatile()),
                host: Arc::new(Deaf),
                clock: Arc::new(ManualClock),
            }));
            let (events, _events) = unbounded();
            let fabric = SimFabric::start(1, Sn::ZERO, 7, injectors, Arc::new(|| {}));
            let policy = CheckpointPolicy::new(CheckpointConfig::default(), Opened::default());
            let triggers = Triggers::new(policy, None, ManualClock.instant());
            let parts = SequencerParts {
                shared,
                fabric: Box::new(fabric),
                evaluations: unbounded().0,
                events,
                delivered: None,
                restored: None,
                checkpoints: Checkpoints::new(None, unbounded().0, triggers),
                transactions: Transactions::new(
                    Arc::new(Handover::new()),
                    unbounded().0,
                    Arc::default(),
                    rerunner,
                ),
                ready: slot().0,
            };
            let sequencer = Sequencer::new(parts, Now::read(&ManualClock));
            let mut alone = Alone { sequencer, _events };
            alone.settle();
            alone.declare();
            alone.take(advance(1_000));
            alone.take(advance(2_000));
            alone
        }

        fn declare(&mut self) {
            let text = format!("CREATE STREAM <{STREAM}> BATCH 1s IDLE NEVER");
            let Ok(Statement::CreateStream(declaration)) = Parser::new().parse_statement(&text)
            else {
                panic!("{text}")
            };
            self.take(Input::CreateStream {
                received_ms: 0,
                declaration,
                namespace: None,
            });
            let text =
                format!("SELECT ?s FROM STREAM <{STREAM}> [RANGE 1s STEP 1s] WHERE {{ ?s ?p 5 }}");
            let query = Parser::new().parse_continuous(&text).unwrap();
            self.take(Input::RegisterQuery {
                received_ms: 0,
                name: "q".to_owned(),
                query: ParsedQuery::of(&text, QueryDeclaration::from(&query)),
                text,
                namespace: None,
                replaces: false,
            });
        }

        fn step(&mut self, event: Event) {
            self.sequencer.step(event, Now::read(&ManualClock));
        }

        /// Steps until nothing is left to do.
        fn settle(&mut self) {
            let now = Now::read(&ManualClock);
            while self.sequencer.until_next(now).is_zero() {
                self.step(Event::Tick);
            }
        }

        fn take(&mut self, input: Input) {
            assert_eq!(self.sequencer.intake(), Intake::Requests);
            let (reply, answer) = slot();
            self.step(Event::Request(Request::Input {
                input: Box::new(input),
                ack_when: AckWhen::Stable,
                reply: Reply::new(reply, None),
            }));
            self.settle();
            assert!(matches!(answer.look(), Found::Answer(Ok(_))));
            assert_eq!(self.sequencer.check(), Ok(()));
        }

        /// What the check says after this was done to the sequencer.
        fn broken_by(breaking: impl FnOnce(&mut Sequencer)) -> String {
            let mut alone = Alone::new();
            breaking(&mut alone.sequencer);
            alone.sequencer.check().unwrap_err()
        }
    }

    fn advance(to_ms: i64) -> Input {
        Input::Advance {
            received_ms: 0,
            to: vec![(STREAM.to_owned(), EventTime(to_ms))],
        }
    }

    #[test]
    fn sq1_a_record_that_was_not_noted() {
        let found = Alone::broken_by(|it| it.log_end = Position(1));
        assert!(found.starts_with("SQ-1: the log ends"), "{found}");
    }

    #[test]
    fn sq1_a_cut_that_was_not_handed_on() {
        let found = Alone::broken_by(|it| {
            let plan = it
                .coordinator
                .freshness_cut(it.log_end, &CutPace::default());
            assert_eq!(plan, None, "nothing waits for a cut");
            it.stability.cut(Sn(99), it.log_end);
        });
        assert!(found.starts_with("SQ-1: "), "{found}");
        assert!(found.contains("was cut"), "{found}");
    }

    #[test]
    fn sq1_a_close_that_nothing_waits_for() {
        let found = Alone::broken_by(|it| {
            let advance = Record::Advance(AdvanceRecord {
                received_ms: 0,
                to: vec![(STREAM.to_owned(), EventTime(3_000))],
            });
            let applied = (it.coordinator).apply(&advance, &it.shared.resolver, &mut Vec::new());
            assert!(applied.is_ok());
        });
        assert_eq!(found, "SQ-1: a cut is due, and nothing waits for it");
    }

    #[test]
    fn sq1_a_query_that_is_not_counted() {
        let found = Alone::broken_by(|it| it.shared.figures.set_queries(0));
        assert!(found.starts_with("SQ-1: 0 queries"), "{found}");
    }

    #[test]
    fn sq1_a_stream_that_is_not_shown() {
        let found = Alone::broken_by(|it| {
            let uid = it.coordinator.clock_of(STREAM).unwrap().uid();
            it.directory.stream_dropped(STREAM, uid);
            it.directory.publish(&it.shared.directory);
        });
        assert_eq!(
            found,
            format!("SQ-1: the directory does not show <{STREAM}>")
        );
    }
}
