//! EXPLAIN of a continuous query: when it fires and what its windows then hold, in sentences.
//!
//! Before changing anything here: the sentences are the rules of docs/language.md for one query;
//! when one changes, change the other.

use crate::closes::schedule::WindowShape;
use crate::protocol::declaration::{LiveDeclaration, QueryDeclaration, WindowDeclaration};
use crate::protocol::firing::{BatchShape, WindowBatches};
use crate::protocol::status::StreamStatus;
use somersault_lang::{Extent, StreamOperator};
use somersault_model::{BatchNumber, EventTime, Millis};
use std::fmt::Write;

impl WindowDeclaration {
    /// The window at its latest close, for EXPLAIN, whether or not its slices are still kept. None
    /// before the stream has a time.
    pub fn latest(&self, starting_at: EventTime, stream: &StreamStatus) -> Option<WindowBatches> {
        let batch = stream.declaration.batch;
        let shape = WindowShape::new(self.extent, starting_at, &stream.declaration);
        let through = stream.stable_time?;
        let (from, to, shape) = match shape {
            WindowShape::Span(span) => {
                let (from, to) = span.span_at(through);
                (from, to, span.in_batches(batch))
            }
            // The status of a stream does not say what the window holds: the last batch stands in.
            WindowShape::Statements { .. } => {
                let shape = BatchShape {
                    range: 1,
                    until: 0,
                    step: 1,
                };
                (through.minus(batch), through, shape)
            }
        };
        Some(WindowBatches {
            stream: stream.uid,
            lo: BatchNumber::of(from, batch),
            hi: BatchNumber::of(to, batch),
            shape,
            statements: None,
        })
    }
}

/// When a window closes and what it then holds, in words.
fn explain_extent(extent: Extent, since: &str) -> String {
    match extent {
        Extent::Time { range, until, step } => {
            let (range, until) = (range.0, until.0);
            let step = match step {
                Some(step) => format!("{} ms", step.0),
                None => "BATCH of the stream".to_owned(),
            };
            let (from, to) = match until {
                0 => (range, "c".to_owned()),
                _ => (range + until, format!("c − {until} ms")),
            };
            format!("closes at c = {since}k·{step}; holds c − {from} ms ≤ event time < {to}")
        }
        Extent::Now => "closes with every batch; holds the batch that has just closed (NOW)".to_owned(),
        Extent::All => "closes with every batch; holds everything since the batch that was open at registration, as far back as KEEP of the stream (ALL); \
             complete_from_ms says from when, once KEEP has let go of some"
            .to_owned(),
        Extent::Statements { count, step } => format!(
            "closes at the end of each batch with which the number of the stream's statements reaches a multiple of {step}, once for each multiple; \
             holds the last {count} statements up to it, in the order of batches and in them of arrival"
        ),
    }
}

impl QueryDeclaration {
    /// When the query fires and what its windows then hold, in sentences, for EXPLAIN.
    pub fn explain(&self) -> String {
        if let Some(live) = &self.live {
            return self.explain_live(live);
        }
        let mut text = String::new();
        let since = match self.starting_at.0 {
            0 => String::new(),
            origin => format!("{origin} ms + "),
        };
        for window in &self.windows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "window on <{}>: {}, each triple once",
                window.stream.as_str(),
                explain_extent(window.extent, &since)
            );
        }
        let _ = match self.computed_every {
            Some(Millis(every)) => writeln!(
                text,
                "fires at t = {since}k·{every} ms (COMPUTED EVERY); each window shows its latest close ≤ t"
            ),
            None => writeln!(
                text,
                "fires at every close of any window; each window shows its latest close ≤ t"
            ),
        };
        text.push_str(self.explain_operator());
        if let Some(derived) = &self.derives {
            let _ = writeln!(
                text,
                "the answer for close t is the statements of <{}> with event time t; when that firing is done, the stream is complete through the next close: \
                 a window over it sees them one step later",
                derived.iri.as_str()
            );
        }
        let _ = writeln!(
            text,
            "a close is due when every stream is complete through it, and fires even if it gives no rows; of more than {} consecutive due closes with \
             empty windows only the last fires, even if the stored graph alone would give rows at the others",
            crate::closes::close_groups::LONGEST_EMPTY_RUN
        );
        text
    }

    /// When a live query fires.
    fn explain_live(&self, live: &LiveDeclaration) -> String {
        let mut text = String::from(
            "live: fires with each snapshot that changes statements that it reads, and first with its answer at the registration\n",
        );
        for pattern in &live.reads {
            let _ = writeln!(text, "reads {pattern}");
        }
        if live.reads.is_empty() {
            text.push_str("reads no statement, so it fires once\n");
        }
        if let Some(Millis(every)) = live.every {
            let _ = writeln!(
                text,
                "fires at most once in {every} ms (EVERY): what changes meanwhile joins the next firing"
            );
        }
        text.push_str(match self.operator.compares() {
            true => "a firing without rows is not reported\n",
            false => "a firing with the answer of the one before is not reported\n",
        });
        text.push_str(self.explain_operator());
        text
    }

    fn explain_operator(&self) -> &'static str {
        match self.operator {
            StreamOperator::IStream => {
                "gives the solutions that the previous firing did not have, as a difference of bags (ISTREAM); before the first firing there were none\n"
            }
            StreamOperator::DStream => {
                "gives the solutions of the previous firing that this one does not have, as a difference of bags (DSTREAM)\n"
            }
            _ => "",
        }
    }
}
