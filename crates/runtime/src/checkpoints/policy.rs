//! When a checkpoint is taken. The policy is told what happens, is asked now and then whether a
//! checkpoint is due, and estimates how long a restart would take.
//!
//! A checkpoint is due when
//! 1. something was logged since the newest one, none is under way, and it is not the time to rest
//!    or to wait after a failure; and
//! 2. a restart would take longer than the target, and the replay that a checkpoint saves is a
//!    noticeable part of that; or the log has grown by the configured number of bytes.
//!
//! Before changing anything here: it has no clock, and reads nothing. Times come in with each call,
//! so that a test, the simulator and the driver do the same (ADR 45).

use std::time::{Duration, Instant};

/// The number of bytes of checkpoint files that an engine is assumed to read in a second until it
/// has begun from a checkpoint. One core does about that.
const ASSUMED_LOAD_RATE: f64 = 100e6;
/// The number of steps that an engine is assumed to replay in a second until it has replayed some.
const ASSUMED_REPLAY_RATE: f64 = 400e3;
/// A replay of fewer steps says little about the next one.
const LEAST_MEASURED_STEPS: u64 = 20_000;
/// Fewer bytes of files say little about the next load.
const LEAST_MEASURED_BYTES: u64 = 16 << 20;
/// No rate is measured over a shorter time.
const LEAST_MEASURED_TIME: Duration = Duration::from_millis(20);
/// After a checkpoint, the lane that writes rests for this many times as long as it wrote.
const REST: u32 = 3;
/// A checkpoint must save a replay of at least the time of the load divided by this.
const LEAST_GAIN: u32 = 4;
/// At a clean shutdown, a checkpoint must save a replay of at least the target divided by this.
const LEAST_GAIN_AT_END: u32 = 5;
/// The policy is asked this many times within the target. The next two constants bound the
/// interval.
const LOOKS_PER_TARGET: u32 = 5;
/// The shortest interval at which the policy is asked.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// The longest interval at which the policy is asked.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// When an engine takes checkpoints by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// A checkpoint is taken when a restart would probably take longer than this.
    pub recovery_target: Duration,
    /// A checkpoint is taken after this many bytes of log, whatever a restart would take.
    pub log_bytes: u64,
    /// The longest time that a clean shutdown spends on a checkpoint; zero for none. None is taken
    /// if it would save the next start little.
    pub at_shutdown: Duration,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        CheckpointConfig {
            recovery_target: Duration::from_secs(5),
            // Some five minutes of log at 130,000 statements a second.
            log_bytes: 4 << 30,
            at_shutdown: Duration::from_secs(10),
        }
    }
}

/// Why a checkpoint is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointReason {
    /// A restart would take longer than the target.
    RestartTime,
    /// The log has grown by as much as it may.
    LogBytes,
}

/// How long a restart would take, estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestartEstimate {
    /// The files of the newest checkpoint are read.
    pub load: Duration,
    /// The log behind it is replayed.
    pub replay: Duration,
}

impl RestartEstimate {
    /// The whole time.
    #[must_use]
    pub fn total(self) -> Duration {
        self.load.saturating_add(self.replay)
    }
}

/// What an engine was opened with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opened {
    /// The bytes of log behind the checkpoint that it began from, or all.
    pub(crate) log_bytes: u64,
    /// The bytes that had been appended to the log.
    pub(crate) appended: u64,
    /// The bytes of the checkpoint's files, and the time that reading them took.
    pub(crate) load: Option<(u64, Duration)>,
}

/// A place in the log. Positions count records, whose sizes differ widely.
#[derive(Clone, Copy, Debug, Default)]
struct LogPlace {
    /// Bytes that were appended before it.
    bytes: u64,
    /// A record is a step of a replay, and each of its statements is one.
    steps: u64,
}

/// The state machine; see the head of this file.
#[derive(Debug)]
pub(crate) struct CheckpointPolicy {
    config: CheckpointConfig,
    /// The steps that were applied since the engine was opened, replayed ones included.
    steps: u64,
    /// The bytes of log behind the newest checkpoint when the engine was opened; 0 once there is a
    /// newer one.
    bytes_before: u64,
    /// What the newest checkpoint covers.
    covered: LogPlace,
    /// The bytes of its files.
    bytes: u64,
    under_way: Option<Attempt>,
    /// No checkpoint is due before this.
    not_before: Option<Instant>,
    /// The pause after the next failure.
    pause: Duration,
    load_rate: f64,
    replay_rate: f64,
}

/// A checkpoint that has been frozen and is not yet whole.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    covers: LogPlace,
    since: Instant,
}

impl CheckpointPolicy {
    /// The policy of an engine that was just opened.
    pub(crate) fn new(config: CheckpointConfig, opened: Opened) -> CheckpointPolicy {
        let (bytes, load) = opened.load.unwrap_or_default();
        let is_measured = bytes >= LEAST_MEASURED_BYTES && load >= LEAST_MEASURED_TIME;
        CheckpointPolicy {
            config,
            steps: 0,
            bytes_before: opened.log_bytes,
            covered: LogPlace {
                bytes: opened.appended,
                steps: 0,
            },
            bytes,
            under_way: None,
            not_before: None,
            pause: FIRST_PAUSE,
            load_rate: match is_measured {
                true => bytes as f64 / load.as_secs_f64(),
                false => ASSUMED_LOAD_RATE,
            },
            replay_rate: ASSUMED_REPLAY_RATE,
        }
    }

    /// The interval at which it is asked whether a checkpoint is due.
    pub(crate) fn interval(&self) -> Duration {
        (self.config.recovery_target / LOOKS_PER_TARGET).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
    }

    /// A record of this many statements was applied.
    pub(crate) fn on_applied(&mut self, statements: u64) {
        self.steps = self.steps.saturating_add(statements).saturating_add(1);
    }

    /// The log has been replayed in this time.
    pub(crate) fn on_replayed(&mut self, took: Duration) {
        if self.steps >= LEAST_MEASURED_STEPS && took >= LEAST_MEASURED_TIME {
            self.replay_rate = self.steps as f64 / took.as_secs_f64();
        }
    }

    /// How long a restart would take now.
    pub(crate) fn estimate(&self) -> RestartEstimate {
        let seconds = |amount: u64, rate: f64| {
            let seconds = Duration::try_from_secs_f64(amount as f64 / rate);
            seconds.unwrap_or(Duration::MAX)
        };
        RestartEstimate {
            load: seconds(self.bytes, self.load_rate),
            replay: seconds(self.steps - self.covered.steps, self.replay_rate),
        }
    }

    /// The bytes of log behind the newest checkpoint, when `appended` have been appended.
    pub(crate) fn log_bytes(&self, appended: u64) -> u64 {
        self.bytes_before + appended.saturating_sub(self.covered.bytes)
    }

    /// Whether a checkpoint is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Why a checkpoint is due now, if it is.
    pub(crate) fn due(&self, now: Instant, appended: u64) -> Option<CheckpointReason> {
        let waits = self.not_before.is_some_and(|time| now < time);
        if self.is_under_way() || waits || !self.has_news() {
            return None;
        }
        let estimate = self.estimate();
        let is_slow = estimate.total() > self.config.recovery_target;
        if is_slow && estimate.replay >= estimate.load / LEAST_GAIN {
            return Some(CheckpointReason::RestartTime);
        }
        let is_long = self.log_bytes(appended) >= self.config.log_bytes;
        is_long.then_some(CheckpointReason::LogBytes)
    }

    /// Whether a checkpoint at a clean shutdown would make the next start noticeably shorter.
    pub(crate) fn is_due_at_end(&self) -> bool {
        let least = self.config.recovery_target / LEAST_GAIN_AT_END;
        let is_wanted = !self.config.at_shutdown.is_zero();
        is_wanted && !self.is_under_way() && self.has_news() && self.estimate().replay >= least
    }

    /// Whether the log has grown since the newest checkpoint.
    fn has_news(&self) -> bool {
        self.steps > self.covered.steps
    }

    /// The state has been frozen for a checkpoint.
    pub(crate) fn on_frozen(&mut self, now: Instant, appended: u64) {
        self.under_way = Some(Attempt {
            covers: LogPlace {
                bytes: appended,
                steps: self.steps,
            },
            since: now,
        });
    }

    /// The checkpoint exists, with files of this many bytes. Returns the time that it took since it
    /// was frozen.
    pub(crate) fn on_written(&mut self, now: Instant, bytes: u64) -> Duration {
        let Some(done) = self.under_way.take() else {
            return Duration::ZERO;
        };
        let took = now.saturating_duration_since(done.since);
        self.covered = done.covers;
        self.bytes_before = 0;
        self.bytes = bytes;
        self.pause = FIRST_PAUSE;
        self.not_before = now.checked_add(took.saturating_mul(REST));
        took
    }

    /// The checkpoint is given up, and so is everything else.
    pub(crate) fn on_given_up(&mut self) {
        self.under_way = None;
    }

    /// The checkpoint could not be made. Returns the time after which another may be due.
    pub(crate) fn on_failed(&mut self, now: Instant) -> Duration {
        let pause = self.pause;
        self.under_way = None;
        self.not_before = now.checked_add(pause);
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(recovery_target_ms: u64, log_bytes: u64) -> CheckpointPolicy {
        let config = CheckpointConfig {
            recovery_target: Duration::from_millis(recovery_target_ms),
            log_bytes,
            at_shutdown: Duration::from_secs(1),
        };
        CheckpointPolicy::new(config, Opened::default())
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_checkpoint_is_due_when_a_restart_would_exceed_the_target() {
        let start = Instant::now();
        let mut policy = policy(5_000, u64::MAX);
        assert_eq!(policy.due(start, 1 << 40), None, "nothing was logged");
        policy.on_applied(1_999_999);
        assert_eq!(policy.estimate().total(), seconds(5.0));
        assert_eq!(policy.due(start, 0), None);
        policy.on_applied(0);
        assert_eq!(policy.due(start, 0), Some(CheckpointReason::RestartTime));
        policy.on_frozen(start, 7);
        policy.on_applied(399_999);
        assert_eq!(policy.due(start, 0), None, "one is under way");
        policy.on_written(start + seconds(1.0), 100_000_000);
        let estimate = policy.estimate();
        assert_eq!(
            (estimate.load, estimate.replay),
            (seconds(1.0), seconds(1.0))
        );
    }

    #[test]
    fn a_checkpoint_is_due_after_the_configured_bytes_of_log() {
        let start = Instant::now();
        let mut policy = policy(5_000, 1_000);
        policy.on_applied(1);
        assert_eq!(policy.due(start, 999), None);
        assert_eq!(policy.due(start, 1_000), Some(CheckpointReason::LogBytes));
        policy.on_frozen(start, 1_000);
        policy.on_written(start, 1);
        policy.on_applied(1);
        assert_eq!(policy.log_bytes(1_999), 999);
        assert_eq!(policy.due(start, 1_999), None);
        assert_eq!(policy.due(start, 2_000), Some(CheckpointReason::LogBytes));
    }

    #[test]
    fn nothing_is_due_while_nothing_is_logged() {
        let start = Instant::now();
        let mut policy = policy(1, 1);
        policy.on_applied(1_000_000);
        policy.on_frozen(start, 1_000);
        policy.on_written(start, 1 << 40);
        let later = start + seconds(1e6);
        assert_eq!(policy.due(later, 1 << 40), None);
        assert!(!policy.is_due_at_end());
    }

    #[test]
    fn a_slow_load_alone_is_no_reason() {
        let start = Instant::now();
        let opened = Opened {
            log_bytes: 10,
            appended: 30,
            load: Some((2_000_000_000, seconds(8.0))),
        };
        let mut policy = CheckpointPolicy::new(CheckpointConfig::default(), opened);
        assert_eq!(policy.log_bytes(33), 13);
        assert_eq!(policy.estimate().load, seconds(8.0));
        policy.on_applied(799_998);
        assert_eq!(policy.due(start, 0), None, "a checkpoint would save little");
        policy.on_applied(0);
        assert_eq!(policy.due(start, 0), Some(CheckpointReason::RestartTime));
    }

    #[test]
    fn measured_rates_replace_the_assumed_ones() {
        let mut few = policy(5_000, 1);
        few.on_applied(1_000);
        few.on_replayed(seconds(10.0));
        assert_eq!(few.estimate().replay, seconds(1_001.0 / 400e3));
        let mut many = policy(5_000, 1);
        many.on_applied(99_999);
        many.on_replayed(seconds(10.0));
        assert_eq!(many.estimate().replay, seconds(10.0));
    }

    #[test]
    fn a_failed_checkpoint_is_tried_again_after_a_pause_that_grows() {
        let mut now = Instant::now();
        let mut policy = policy(1, 1);
        policy.on_applied(1_000);
        for expected in [10, 20, 40, 80, 160, 320, 600, 600] {
            assert!(policy.due(now, 1).is_some());
            policy.on_frozen(now, 1);
            let pause = policy.on_failed(now);
            assert_eq!(pause, Duration::from_secs(expected));
            assert_eq!(policy.due(now + pause - Duration::from_millis(1), 1), None);
            now += pause;
        }
        policy.on_frozen(now, 1);
        policy.on_written(now, 1);
        policy.on_applied(1_000);
        policy.on_frozen(now, 2);
        assert_eq!(
            policy.on_failed(now),
            FIRST_PAUSE,
            "success ends the row of failures"
        );
    }

    #[test]
    fn a_shutdown_takes_none_that_saves_little() {
        let mut policy = policy(1_000, u64::MAX);
        policy.on_applied(79_998);
        assert!(!policy.is_due_at_end());
        policy.on_applied(0);
        assert!(policy.is_due_at_end());
        policy.config.at_shutdown = Duration::ZERO;
        assert!(!policy.is_due_at_end());
    }

    /// Something that happens to a policy.
    #[derive(Clone, Copy, Debug)]
    enum Happens {
        Applied(u64),
        Passes(u64),
        /// It is asked, and what is due begins.
        Asked,
        Written(u64),
        Failed,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            (0..2_000_000_u64).prop_map(Happens::Applied),
            (0..60_000_u64).prop_map(Happens::Passes),
            Just(Happens::Asked),
            Just(Happens::Asked),
            (0..4_000_000_000_u64).prop_map(Happens::Written),
            Just(Happens::Failed),
        ]
    }

    proptest! {
        /// Never two at a time; the estimate of the replay falls with a checkpoint, and grows with
        /// the log; a writer rests for longer than it works; and once it may, a checkpoint that a
        /// failure has left undone is due again.
        #[test]
        fn laws(events in proptest::collection::vec(happens(), 1..200)) {
            let mut now = Instant::now();
            let mut appended = 0;
            let mut policy = policy(2_000, 300_000_000);
            let mut begun: Option<Instant> = None;
            for event in events {
                let before = policy.estimate();
                match event {
                    Happens::Applied(statements) => {
                        appended += 100 * statements;
                        policy.on_applied(statements);
                        prop_assert!(policy.estimate().replay >= before.replay);
                        prop_assert_eq!(policy.estimate().load, before.load);
                    }
                    Happens::Passes(ms) => now += Duration::from_millis(ms),
                    Happens::Asked => if policy.due(now, appended).is_some() {
                        prop_assert_eq!(begun, None, "two at a time");
                        begun = Some(now);
                        policy.on_frozen(now, appended);
                    },
                    Happens::Written(bytes) => if let Some(since) = begun.take() {
                        policy.on_written(now, bytes);
                        prop_assert!(policy.estimate().replay <= before.replay);
                        policy.on_applied(10_000_000);
                        appended += 1_000_000_000;
                        let rested = now + (now - since) * REST;
                        prop_assert!(now == since || policy.due(now, appended).is_none());
                        prop_assert!(policy.due(rested, appended).is_some());
                    },
                    Happens::Failed => if begun.take().is_some() {
                        let pause = policy.on_failed(now);
                        prop_assert_eq!(policy.estimate(), before, "nothing was gained");
                        prop_assert_eq!(policy.due(now, appended), None);
                        prop_assert!(policy.due(now + pause, appended).is_some());
                    },
                }
                prop_assert_eq!(policy.is_under_way(), begun.is_some());
            }
        }
    }
}
