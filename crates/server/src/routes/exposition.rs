//! The engine's counters in the Prometheus text format. Each scrape writes them from one snapshot;
//! no recorder keeps them, so a dropped stream or query leaves nothing behind.

use metrics_exporter_prometheus::formatting::{write_help_line, write_type_line};
use somersault::{
    CheckpointStatus, DurableInfo, Latency, MetricsSnapshot, QueryMetrics, ShardMetrics,
    StreamMetrics, TransactionCounts,
};
use somersault_connect::{SinkStatus, SourceStatus};
use std::fmt::{Display, Write as _};

/// A family of samples: its name, its type, the value of one of the things that are measured, and
/// its help.
pub(crate) type Family<T> = (
    &'static str,
    &'static str,
    fn(&T) -> Option<f64>,
    &'static str,
);

type Label<'t> = (&'static str, &'t dyn Display);

/// A family of histograms: its name, the latencies of one of the things, and its help.
type Histogram<T> = (&'static str, fn(&T) -> &Latency, &'static str);

#[rustfmt::skip]
const ENGINE: &[Family<MetricsSnapshot>] = &[
    ("somersault_stable_sn", "gauge", |s| count(s.stable_sn),
        "The snapshot number that one-shot queries see."),
    ("somersault_retained_sns", "gauge", |s| count(s.retained_sns),
        "Snapshot numbers that are retained: pinned, stable, and cut but not stable yet."),
    ("somersault_pins", "gauge", |s| count(s.pins),
        "Snapshots pinned by firings and one-shot queries."),
    ("somersault_inflight_bytes", "gauge", |s| count(s.inflight_bytes),
        "Memory of pushes, loads and updates that are on their way to the shards."),
    ("somersault_inflight_limit_bytes", "gauge", |s| count(s.inflight_limit_bytes),
        "The limit of somersault_inflight_bytes; one larger input passes alone."),
    ("somersault_inflight_waits_total", "counter", |s| count(s.inflight_waits),
        "Pushes, loads and updates that had to wait until there was room for them."),
    ("somersault_tuples_total", "counter", |s| count(s.tuples),
        "Statements taken by all streams."),
    ("somersault_pushes_total", "counter", |s| count(s.pushes),
        "Pushes acknowledged."),
    ("somersault_push_repeats_total", "counter", |s| count(s.repeats),
        "Pushes that were repeats and dropped."),
    ("somersault_pushes_refused_total", "counter", |s| count(s.refused),
        "Pushes refused."),
    ("somersault_updates_total", "counter", |s| count(s.updates),
        "Updates carried out."),
    ("somersault_one_shot_total", "counter", |s| count(s.one_shot),
        "One-shot queries answered."),
    ("somersault_one_shot_failed_total", "counter", |s| count(s.one_shot_failed),
        "One-shot queries that failed."),
    ("somersault_stored_statements", "gauge", |s| count(s.stored_statements),
        "Statements stored, over all graphs."),
    ("somersault_dictionary_terms", "gauge", |s| count(s.terms),
        "Terms in the dictionary."),
    ("somersault_dictionary_passing_terms", "gauge", |s| count(s.transient_terms),
        "Terms that came with timing statements."),
    ("somersault_dictionary_reclaimed_terms_total", "counter", |s| count(s.reclaimed_terms),
        "Terms that only expired timing statements used, and that were reclaimed."),
];

const ENGINE_LATENCIES: &[Histogram<MetricsSnapshot>] = &[(
    "somersault_one_shot_execution_seconds",
    |s| &s.one_shot_execution,
    "Execution times of one-shot queries.",
)];

#[rustfmt::skip]
const MEMORY: &[Family<MetricsSnapshot>] = &[
    ("somersault_snapshots_bytes", "gauge", |s| count(s.memory.snapshots_bytes),
        "Approximate memory of the store that only old snapshots need."),
    ("somersault_held_bytes", "gauge", |s| count(s.memory.held_bytes),
        "Approximate memory of replaced data that readers keep, older images among it."),
    ("somersault_held_by_one_bytes", "gauge", |s| count(s.memory.held_by_one_bytes),
        "The largest part of it that is kept for the readers of one snapshot."),
    ("somersault_log_bytes", "gauge", |s| count(s.memory.log_bytes),
        "Bytes in the log on disk."),
];

#[rustfmt::skip]
const CHECKPOINTS: &[Family<CheckpointStatus>] = &[
    ("somersault_checkpoint_age_seconds", "gauge", |c| c.age.map(|age| age.as_secs_f64()),
        "Age of the state in the newest checkpoint."),
    ("somersault_checkpoint_bytes", "gauge", |c| c.newest.as_ref().and_then(|newest| count(newest.bytes)),
        "Bytes of the files of the newest checkpoint."),
    ("somersault_checkpoint_seconds", "gauge", |c| c.newest.as_ref()?.took.map(|took| took.as_secs_f64()),
        "Time that the newest checkpoint took; absent after a restart."),
    ("somersault_checkpoint_log_bytes", "gauge", |c| count(c.log_bytes),
        "Bytes in the log behind the newest checkpoint."),
    ("somersault_restart_seconds", "gauge", |c| Some(c.restart.total().as_secs_f64()),
        "Estimated time of a restart: reading the newest checkpoint and replaying the log behind it."),
    ("somersault_checkpoints_total", "counter", |c| count(c.taken),
        "Checkpoints taken."),
    ("somersault_checkpoints_failed_total", "counter", |c| count(c.failures),
        "Checkpoints that could not be written."),
    ("somersault_checkpoint_files_rewritten_total", "counter", |c| count(c.rewritten_files),
        "Files of checkpoints that were found damaged, and whose content was written again from memory."),
];

#[rustfmt::skip]
const TRANSACTIONS: &[Family<TransactionCounts>] = &[
    ("somersault_transactions_committed_total", "counter", |t| count(t.commits),
        "Transactions that committed since the start: calls, and rounds of batches."),
    ("somersault_rounds_total", "counter", |t| count(t.rounds),
        "Transactions that batches led to; of a nest one for each round."),
    ("somersault_waiting_batches", "gauge", |t| count(t.waiting_batches),
        "Complete batches that wait for a procedure."),
    ("somersault_calls_total", "counter", |t| count(t.calls),
        "Calls that were answered, also with an abort."),
    ("somersault_calls_repeated_total", "counter", |t| count(t.repeated_calls),
        "Calls that were answered as before, because of their key."),
    ("somersault_calls_refused_total", "counter", |t| count(t.refused_calls),
        "Calls that were refused."),
];

#[rustfmt::skip]
const STREAMS: &[Family<StreamMetrics>] = &[
    ("somersault_stream_tuples_total", "counter", |s| count(s.tuples),
        "Statements taken."),
    ("somersault_stream_late_total", "counter", |s| count(s.late),
        "Late statements dropped."),
    ("somersault_stream_amended_total", "counter", |s| count(s.amended),
        "Late statements taken into closed batches (LATE AMEND)."),
    ("somersault_stream_batches_total", "counter", |s| count(s.batches),
        "Closed batches that held statements."),
    ("somersault_stream_complete_through_seconds", "gauge", |s| s.watermark.map(|time| seconds(time.0)),
        "Event time through which the stream is complete, in seconds since 1970."),
    ("somersault_stream_stable_time_seconds", "gauge", |s| s.stable_time.map(|time| seconds(time.0)),
        "Event time through which the stream is visible, in seconds since 1970."),
    ("somersault_stream_lag_seconds", "gauge", |s| s.lag_ms.map(seconds),
        "Distance of the visible event time behind the complete one."),
    ("somersault_stream_memory_bytes", "gauge", |s| count(s.memory_bytes),
        "Memory of the stream's slices."),
];

#[rustfmt::skip]
const QUERIES: &[Family<QueryMetrics>] = &[
    ("somersault_query_firings_total", "counter", |q| count(q.firings),
        "Firings, including empty ones. A group of queries has one for each close, under the name of one of them."),
    ("somersault_query_executions_total", "counter", |q| count(q.executions),
        "Answers to queries. Each answer of a group's firing counts."),
    ("somersault_query_nonempty_total", "counter", |q| count(q.nonempty),
        "Answers to queries that had rows."),
    ("somersault_query_passed_in_bulk_total", "counter", |q| count(q.skipped_empty),
        "Closes skipped because their windows held nothing."),
    ("somersault_query_skipped_total", "counter", |q| count(q.skipped),
        "Firings that were not executed because a newer one was due (ON OVERLOAD SKIP)."),
    ("somersault_query_failed_total", "counter", |q| count(q.failed),
        "Firings that failed."),
    ("somersault_query_rows_total", "counter", |q| count(q.rows),
        "Rows in all answers."),
    ("somersault_query_group_members", "gauge", |q| count(q.members),
        "Queries that differ only in names and constants, and are evaluated together."),
    ("somersault_query_kept_bytes", "gauge", |q| count(q.kept_bytes),
        "Approximate memory of the answers kept for subscribers that reconnect."),
];

#[rustfmt::skip]
const QUERY_LATENCIES: &[Histogram<QueryMetrics>] = &[
    ("somersault_query_execution_seconds", |q| &q.execution,
        "Time from the start of a firing's execution to its answer."),
    ("somersault_query_delay_seconds", |q| &q.delay,
        "Time from the acknowledgement of the last statement that a firing needs to its answer."),
    ("somersault_query_waiting_seconds", |q| &q.waiting,
        "The part of the delay spent waiting behind other queries."),
];

/// The number of durable subscriptions with samples of their own: those with the most waiting
/// answers.
const SUBSCRIPTIONS_SHOWN: usize = 1_000;

#[rustfmt::skip]
const SUBSCRIPTIONS: &[Family<DurableInfo>] = &[
    ("somersault_subscription_acknowledged_seconds", "gauge", |s| s.acknowledged.map(|id| seconds(id.close.0)),
        "The close of the newest answer that was acknowledged or let go, in seconds since 1970."),
    ("somersault_subscription_waiting", "gauge", |s| count(s.waiting),
        "Answers that are kept for a durable subscription."),
    ("somersault_subscription_waiting_bytes", "gauge", |s| count(s.waiting_bytes),
        "Approximate memory of the answers that are kept for a durable subscription."),
    ("somersault_subscription_oldest_age_seconds", "gauge", |s| s.oldest_age.map(|age| age.as_secs_f64()),
        "How long the oldest of them has been ready."),
    ("somersault_subscription_acknowledged_total", "counter", |s| count(s.acknowledged_total),
        "Answers that were acknowledged."),
    ("somersault_subscription_acknowledged_age_seconds", "gauge", |s| s.acknowledged_age.map(|age| age.as_secs_f64()),
        "Time since the last acknowledgement; absent before the first since the start."),
    ("somersault_subscription_repeats_total", "counter", |s| count(s.repeats),
        "Answers that were sent to a reader again."),
    ("somersault_subscription_missed", "gauge", |s| count(s.missed),
        "Answers that were let go at a limit since the last acknowledgement."),
    ("somersault_subscription_ended", "gauge", |s| count(s.ended.is_some().into()),
        "1 if the durable subscription has ended at a limit."),
];

#[rustfmt::skip]
const SINKS: &[Family<SinkStatus>] = &[
    ("somersault_sink_delivered_total", "counter", |s| count(s.delivered),
        "Answers that a sink has delivered."),
    ("somersault_sink_failures_total", "counter", |s| count(s.failures),
        "Attempts of a sink that failed."),
    ("somersault_sink_in_trouble", "gauge", |s| count(s.trouble.is_some().into()),
        "1 if a sink has delivered nothing for a while although it should."),
];

#[rustfmt::skip]
const SOURCES: &[Family<SourceStatus>] = &[
    ("somersault_source_taken_total", "counter", |s| count(s.counts.taken),
        "Messages of a source that its stream has taken."),
    ("somersault_source_repeated_total", "counter", |s| count(s.counts.repeated),
        "Messages of a source that its stream had taken before."),
    ("somersault_source_refused_total", "counter", |s| count(s.counts.refused),
        "Messages of a source that were refused."),
    ("somersault_source_dead_letters_total", "counter", |s| count(s.counts.dead_letters),
        "Refused messages of a source that went to the dead letters."),
    ("somersault_source_bytes_total", "counter", |s| count(s.counts.bytes),
        "Bytes of the messages of a source."),
    ("somersault_source_lag", "gauge", |s| s.lag.and_then(count),
        "What waits where the messages of a source come from, in its own unit; absent if that is not known."),
    ("somersault_source_failures_total", "counter", |s| count(s.failures),
        "Attempts of a source that failed."),
    ("somersault_source_in_trouble", "gauge", |s| count(s.trouble.is_some().into()),
        "1 if a source has brought nothing for a while although it should."),
];

#[rustfmt::skip]
const SHARDS: &[Family<ShardMetrics>] = &[
    ("somersault_shard_injected_total", "counter", |s| count(s.injected),
        "Half edges written to a shard: inserts and deletes."),
    ("somersault_shard_applied_sn", "gauge", |s| count(s.applied_sn),
        "The newest snapshot number that a shard has applied."),
];

/// Writes every counter of the engine.
pub(crate) fn render(snapshot: &MetricsSnapshot, text: &mut String) {
    one(text, ENGINE, snapshot);
    histograms(
        text,
        ENGINE_LATENCIES,
        std::slice::from_ref(snapshot),
        |_| Vec::new(),
    );
    memory(snapshot, text);
    if let Some(checkpoints) = &snapshot.checkpoints {
        one(text, CHECKPOINTS, checkpoints);
    }
    transactions(&snapshot.transactions, text);
    samples(text, STREAMS, &snapshot.streams, |s| {
        vec![("stream", &s.iri as _)]
    });
    samples(text, QUERIES, &snapshot.queries, |q| {
        vec![("query", &q.name as _)]
    });
    histograms(text, QUERY_LATENCIES, &snapshot.queries, |q| {
        vec![("query", &q.name as _)]
    });
    samples(text, SHARDS, &snapshot.shards, |s| {
        vec![("shard", &s.shard as _)]
    });
}

/// Writes the counters of the durable subscriptions, those with the most waiting answers first.
pub(crate) fn subscriptions(all: &[DurableInfo], text: &mut String) {
    let name = "somersault_subscriptions";
    family(text, name, "gauge", "Durable subscriptions.");
    line(text, name, &[], all.len());
    let shown = &all[..all.len().min(SUBSCRIPTIONS_SHOWN)];
    samples(text, SUBSCRIPTIONS, shown, |s| {
        vec![("query", &s.query as _), ("subscription", &s.name as _)]
    });
}

/// Writes the counters of the sources.
pub(crate) fn sources(all: &[SourceStatus], text: &mut String) {
    samples(text, SOURCES, all, |s| {
        vec![("source", &s.name as _), ("stream", &s.stream as _)]
    });
}

/// Writes the counters of the sinks.
pub(crate) fn sinks(all: &[SinkStatus], text: &mut String) {
    samples(text, SINKS, all, |s| {
        vec![("query", &s.query as _), ("sink", &s.name as _)]
    });
}

fn transactions(counts: &TransactionCounts, text: &mut String) {
    one(text, TRANSACTIONS, counts);
    let name = "somersault_transactions_aborted_total";
    family(
        text,
        name,
        "counter",
        "Transactions that aborted, by cause.",
    );
    let causes = [
        ("abort", counts.aborts_stated),
        ("limit", counts.aborts_limit),
        ("error", counts.aborts_error),
    ];
    for (cause, aborts) in causes {
        line(text, name, &[("cause", &cause)], aborts);
    }
}

fn memory(snapshot: &MetricsSnapshot, text: &mut String) {
    let name = "somersault_memory_bytes";
    family(text, name, "gauge", "Memory by part of the engine.");
    let parts = [
        ("dictionary", snapshot.memory.dictionary_bytes),
        ("store", snapshot.memory.store_bytes),
        ("slices", snapshot.memory.slices_bytes),
        ("kept_rows", snapshot.memory.kept_rows_bytes),
    ];
    for (part, bytes) in parts {
        line(text, name, &[("part", &part)], bytes);
    }
    one(text, MEMORY, snapshot);
}

/// Writes families that have one sample without labels each.
pub(crate) fn one<T>(text: &mut String, families: &[Family<T>], measured: &T) {
    samples(text, families, std::slice::from_ref(measured), |_| {
        Vec::new()
    });
}

/// Writes families with a sample for each thing that has a value.
fn samples<T>(
    text: &mut String,
    families: &[Family<T>],
    things: &[T],
    labels: impl Fn(&T) -> Vec<Label<'_>>,
) {
    for (name, kind, value, help) in families {
        family(text, name, kind, help);
        for thing in things {
            if let Some(value) = value(thing) {
                line(text, name, &labels(thing), value);
            }
        }
    }
}

fn histograms<T>(
    text: &mut String,
    families: &[Histogram<T>],
    things: &[T],
    labels: impl Fn(&T) -> Vec<Label<'_>>,
) {
    for (name, latency, help) in families {
        family(text, name, "histogram", help);
        for thing in things {
            histogram(text, name, &labels(thing), latency(thing));
        }
    }
}

/// A count as a sample, which is a floating-point number in the format too.
pub(crate) fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    write_help_line(text, name, None, None, help);
    write_type_line(text, name, None, None, kind);
}

fn line(text: &mut String, name: &str, labels: &[Label<'_>], value: impl Display) {
    text.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        let _ = write!(
            text,
            "{}{label}=\"{}\"",
            if index == 0 { '{' } else { ',' },
            escaped(&value.to_string())
        );
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

/// Escapes a label's value for the format. (The exporter's own function leaves text that looks like
/// an escape unchanged, and would write two different names alike.)
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Writes cumulative buckets; the last is `+Inf` and equals the count.
fn histogram(text: &mut String, name: &str, labels: &[Label<'_>], latency: &Latency) {
    let bucket = format!("{name}_bucket");
    let finite = latency
        .buckets
        .iter()
        .filter(|(bound, _)| bound.is_finite());
    let mut buckets: Vec<(&dyn Display, u64)> = finite.map(|(b, n)| (b as _, *n)).collect();
    buckets.push((&"+Inf", latency.count));
    for (bound, count) in buckets {
        line(text, &bucket, &[labels, &[("le", bound)]].concat(), count);
    }
    let sum = latency.sum.as_secs_f64();
    line(text, &format!("{name}_sum"), labels, sum);
    line(text, &format!("{name}_count"), labels, latency.count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn labels_are_escaped_and_histograms_whole() {
        let mut snapshot = MetricsSnapshot::default();
        let mut stream = StreamMetrics::default();
        stream.iri = "http://e/\"\\\n".to_owned();
        stream.tuples = 3;
        stream.lag_ms = Some(1500);
        snapshot.streams.push(stream);
        let mut query = QueryMetrics::default();
        query.name = "q".to_owned();
        query.execution.count = 2;
        query.execution.sum = Duration::from_millis(5);
        query.execution.buckets = vec![(0.001, 1), (0.01, 2)];
        snapshot.queries.push(query);
        let mut text = String::new();
        render(&snapshot, &mut text);
        for expected in [
            "somersault_stream_tuples_total{stream=\"http://e/\\\"\\\\\\n\"} 3",
            "somersault_stream_lag_seconds{stream=\"http://e/\\\"\\\\\\n\"} 1.5",
            "somersault_query_execution_seconds_bucket{query=\"q\",le=\"0.001\"} 1",
            "somersault_query_execution_seconds_bucket{query=\"q\",le=\"+Inf\"} 2",
            "somersault_query_execution_seconds_sum{query=\"q\"} 0.005",
            "somersault_query_execution_seconds_count{query=\"q\"} 2",
            "somersault_one_shot_failed_total 0",
        ] {
            assert!(
                text.lines().any(|line| line == expected),
                "{expected} is not in\n{text}"
            );
        }
        // Every sample belongs to a family that was announced before it.
        let mut announced = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                announced.push(rest.split(' ').next().unwrap_or_default());
            } else if !line.starts_with('#') && !line.is_empty() {
                assert!(
                    announced.iter().any(|name| line.starts_with(name)),
                    "{line}"
                );
            }
        }
    }
}
