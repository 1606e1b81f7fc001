//! The engine's counters in the Prometheus text format. Each scrape writes them from one snapshot;
//! no recorder keeps them, so a dropped stream or query leaves nothing behind.

use metrics_exporter_prometheus::formatting::{write_help_line, write_type_line};
use somersault::{Latency, MetricsSnapshot, QueryMetrics, StreamMetrics};
use std::fmt::{Display, Write as _};

/// Writes every counter of the engine.
pub(crate) fn render(snapshot: &MetricsSnapshot, text: &mut String) {
    engine(snapshot, text);
    memory(snapshot, text);
    streams(&snapshot.streams, text);
    queries(&snapshot.queries, text);
    family(
        text,
        "somersault_shard_injected_total",
        "counter",
        "Half edges written to a shard: inserts and deletes.",
    );
    for shard in &snapshot.shards {
        line(
            text,
            "somersault_shard_injected_total",
            &[("shard", &shard.shard)],
            shard.injected,
        );
    }
    family(
        text,
        "somersault_shard_applied_sn",
        "gauge",
        "The newest snapshot number that a shard has applied.",
    );
    for shard in &snapshot.shards {
        line(
            text,
            "somersault_shard_applied_sn",
            &[("shard", &shard.shard)],
            shard.applied_sn,
        );
    }
}

/// Writes one gauge without labels.
pub(crate) fn gauge(text: &mut String, name: &str, help: &str, value: f64) {
    family(text, name, "gauge", help);
    line(text, name, &[], value);
}

/// Writes one counter without labels.
pub(crate) fn counter(text: &mut String, name: &str, help: &str, value: u64) {
    family(text, name, "counter", help);
    line(text, name, &[], value);
}

fn engine(snapshot: &MetricsSnapshot, text: &mut String) {
    let single: [(&str, &str, &str, u64); 14] = [
        (
            "somersault_stable_sn",
            "gauge",
            "The snapshot number that one-shot queries see.",
            snapshot.stable_sn,
        ),
        (
            "somersault_retained_sns",
            "gauge",
            "Snapshot numbers that are retained: pinned, stable, and cut but not stable yet.",
            snapshot.retained_sns,
        ),
        (
            "somersault_pins",
            "gauge",
            "Snapshots pinned by firings and one-shot queries.",
            snapshot.pins,
        ),
        (
            "somersault_tuples_total",
            "counter",
            "Statements taken by all streams.",
            snapshot.tuples,
        ),
        (
            "somersault_pushes_total",
            "counter",
            "Pushes acknowledged.",
            snapshot.pushes,
        ),
        (
            "somersault_push_repeats_total",
            "counter",
            "Pushes that were repeats and dropped.",
            snapshot.repeats,
        ),
        (
            "somersault_pushes_refused_total",
            "counter",
            "Pushes refused.",
            snapshot.refused,
        ),
        (
            "somersault_updates_total",
            "counter",
            "Updates carried out.",
            snapshot.updates,
        ),
        (
            "somersault_one_shot_total",
            "counter",
            "One-shot queries answered.",
            snapshot.one_shot,
        ),
        (
            "somersault_one_shot_failed_total",
            "counter",
            "One-shot queries that failed.",
            snapshot.one_shot_failed,
        ),
        (
            "somersault_stored_statements",
            "gauge",
            "Statements stored, over all graphs.",
            snapshot.stored_statements,
        ),
        (
            "somersault_dictionary_terms",
            "gauge",
            "Terms in the dictionary.",
            snapshot.terms,
        ),
        (
            "somersault_dictionary_passing_terms",
            "gauge",
            "Terms that came with timing statements.",
            snapshot.transient_terms,
        ),
        (
            "somersault_dictionary_reclaimed_terms_total",
            "counter",
            "Terms that only expired timing statements used, and that were reclaimed.",
            snapshot.reclaimed_terms,
        ),
    ];
    for (name, kind, help, value) in single {
        family(text, name, kind, help);
        line(text, name, &[], value);
    }
    let name = "somersault_one_shot_execution_seconds";
    family(
        text,
        name,
        "histogram",
        "Execution times of one-shot queries.",
    );
    histogram(text, name, &[], &snapshot.one_shot_execution);
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
    family(
        text,
        "somersault_snapshots_bytes",
        "gauge",
        "Approximate memory of the store that only old snapshots need.",
    );
    line(
        text,
        "somersault_snapshots_bytes",
        &[],
        snapshot.memory.snapshots_bytes,
    );
    family(
        text,
        "somersault_log_bytes",
        "gauge",
        "Bytes in the log on disk.",
    );
    line(text, "somersault_log_bytes", &[], snapshot.memory.log_bytes);
}

type StreamValue = fn(&StreamMetrics) -> Option<f64>;

fn streams(streams: &[StreamMetrics], text: &mut String) {
    let families: [(&str, &str, &str, StreamValue); 8] = [
        (
            "somersault_stream_tuples_total",
            "counter",
            "Statements taken.",
            |s| Some(s.tuples as f64),
        ),
        (
            "somersault_stream_late_total",
            "counter",
            "Late statements dropped.",
            |s| Some(s.late as f64),
        ),
        (
            "somersault_stream_amended_total",
            "counter",
            "Late statements taken into closed batches (LATE AMEND).",
            |s| Some(s.amended as f64),
        ),
        (
            "somersault_stream_batches_total",
            "counter",
            "Closed batches that held statements.",
            |s| Some(s.batches as f64),
        ),
        (
            "somersault_stream_complete_through_seconds",
            "gauge",
            "Event time through which the stream is complete, in seconds since 1970.",
            |s| s.complete_through_ms.map(seconds),
        ),
        (
            "somersault_stream_stable_time_seconds",
            "gauge",
            "Event time through which the stream is visible, in seconds since 1970.",
            |s| s.stable_time_ms.map(seconds),
        ),
        (
            "somersault_stream_lag_seconds",
            "gauge",
            "Distance of the visible event time behind the complete one.",
            |s| s.lag_ms.map(seconds),
        ),
        (
            "somersault_stream_memory_bytes",
            "gauge",
            "Memory of the stream's slices.",
            |s| Some(s.memory_bytes as f64),
        ),
    ];
    for (name, kind, help, value) in families {
        family(text, name, kind, help);
        for stream in streams {
            if let Some(value) = value(stream) {
                line(text, name, &[("stream", &stream.iri)], value);
            }
        }
    }
}

type QueryCount = fn(&QueryMetrics) -> u64;
type QueryLatency = fn(&QueryMetrics) -> &Latency;

fn queries(queries: &[QueryMetrics], text: &mut String) {
    let counters: [(&str, &str, QueryCount); 7] = [
        (
            "somersault_query_firings_total",
            "Firings, including empty ones. A group of queries has one for each close, under the name of one of them.",
            |q| q.firings,
        ),
        (
            "somersault_query_executions_total",
            "Answers to queries. Each answer of a group's firing counts.",
            |q| q.executions,
        ),
        (
            "somersault_query_nonempty_total",
            "Answers to queries that had rows.",
            |q| q.nonempty,
        ),
        (
            "somersault_query_passed_in_bulk_total",
            "Closes skipped because their windows held nothing.",
            |q| q.skipped_empty,
        ),
        (
            "somersault_query_skipped_total",
            "Firings that were not executed because a newer one was due (ON OVERLOAD SKIP).",
            |q| q.skipped,
        ),
        (
            "somersault_query_failed_total",
            "Firings that failed.",
            |q| q.failed,
        ),
        ("somersault_query_rows_total", "Rows in all answers.", |q| {
            q.rows
        }),
    ];
    let gauges: [(&str, &str, QueryCount); 2] = [
        (
            "somersault_query_group_members",
            "Queries that differ only in names and constants, and are evaluated together.",
            |q| q.members,
        ),
        (
            "somersault_query_kept_bytes",
            "Approximate memory of the answers kept for subscribers that reconnect.",
            |q| q.kept_bytes,
        ),
    ];
    let counters = counters.map(|counter| ("counter", counter));
    let gauges = gauges.map(|gauge| ("gauge", gauge));
    for (kind, (name, help, value)) in counters.into_iter().chain(gauges) {
        family(text, name, kind, help);
        for query in queries {
            line(text, name, &[("query", &query.name)], value(query));
        }
    }
    let latencies: [(&str, &str, QueryLatency); 3] = [
        (
            "somersault_query_execution_seconds",
            "Time from the start of a firing's execution to its answer.",
            |q| &q.execution,
        ),
        (
            "somersault_query_delay_seconds",
            "Time from the acknowledgement of the last statement that a firing needs to its answer.",
            |q| &q.delay,
        ),
        (
            "somersault_query_waiting_seconds",
            "The part of the delay spent waiting behind other queries.",
            |q| &q.waiting,
        ),
    ];
    for (name, help, latency) in latencies {
        family(text, name, "histogram", help);
        for query in queries {
            histogram(text, name, &[("query", &query.name)], latency(query));
        }
    }
}

fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    write_help_line(text, name, None, None, help);
    write_type_line(text, name, None, None, kind);
}

fn line(text: &mut String, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
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
fn histogram(text: &mut String, name: &str, labels: &[(&str, &dyn Display)], latency: &Latency) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in &latency.buckets {
        if bound.is_finite() {
            let mut labels = labels.to_vec();
            labels.push(("le", bound));
            line(text, &bucket, &labels, count);
        }
    }
    let mut labels_inf = labels.to_vec();
    labels_inf.push(("le", &"+Inf"));
    line(text, &bucket, &labels_inf, latency.count);
    line(
        text,
        &format!("{name}_sum"),
        labels,
        latency.sum.as_secs_f64(),
    );
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
