//! Steps of small recordings: merging, gaps, snapshots inside an interval, the end, bad lines.

use super::*;
use std::io::Write;

fn file(dir: &tempfile::TempDir, name: &str, lines: &[(i64, &str)]) -> StreamFile {
    let path = dir.path().join(name);
    let mut out = std::fs::File::create(&path).unwrap();
    for (at, subject) in lines {
        writeln!(out, "{at}\t<urn:{subject}> <urn:p> <urn:o> .").unwrap();
    }
    StreamFile {
        stream: format!("urn:{name}"),
        path,
    }
}

fn shown(plan: &ReplayPlan) -> Vec<String> {
    Steps::open(plan)
        .unwrap()
        .map(|step| match step.unwrap() {
            Step::Push {
                stream,
                seq,
                statements,
            } => format!("push {stream} {seq} {}", statements.len()),
            Step::Advance { to } => format!("advance {}", to.0),
            Step::Snapshot { at } => format!("snapshot {}", at.0),
        })
        .collect()
}

#[test]
fn streams_are_merged_and_silences_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let plan = ReplayPlan {
        files: vec![
            file(&dir, "a", &[(120, "1"), (199, "2"), (1000, "3")]),
            file(&dir, "b", &[(200, "4"), (1099, "5"), (1500, "6")]),
        ],
        batch_ms: 100,
        until: Some(EventTime(1500)),
        snapshots: vec![],
    };
    assert_eq!(
        shown(&plan),
        [
            "advance 100",
            "push urn:a 0 2",
            "advance 200",
            "push urn:b 0 1",
            "advance 300",
            "advance 1000",
            "push urn:a 1 1",
            "push urn:b 1 1",
            "advance 1100",
            "advance 1500",
        ]
    );
}

#[test]
fn snapshots_split_intervals_and_may_lie_in_silence_or_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let plan = ReplayPlan {
        files: vec![file(&dir, "a", &[(100, "1"), (160, "2"), (900, "3")])],
        batch_ms: 100,
        until: Some(EventTime(1000)),
        snapshots: [1000, 150, 500, 50].map(EventTime).to_vec(),
    };
    assert_eq!(
        shown(&plan),
        [
            "advance 50",
            "snapshot 50",
            "advance 100",
            "push urn:a 0 1",
            "advance 150",
            "snapshot 150",
            "push urn:a 1 1",
            "advance 200",
            "advance 500",
            "snapshot 500",
            "advance 900",
            "push urn:a 2 1",
            "advance 1000",
            "snapshot 1000",
        ]
    );
}

#[test]
fn a_bad_line_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorded = file(&dir, "a", &[(100, "1")]);
    for (text, expected) in [
        ("100 <urn:a> <urn:b> <urn:c> .", "no tab"),
        ("x\t<urn:a> <urn:b> <urn:c> .", "not an event time"),
        ("100\t<urn:a> <urn:b> .", "does not parse"),
        (
            "100\t<urn:a> <urn:b> <urn:c> .\n99\t<urn:a> <urn:b> <urn:c> .",
            "earlier than 100",
        ),
    ] {
        std::fs::write(&recorded.path, format!("# comment\n{text}\n")).unwrap();
        let plan = ReplayPlan {
            files: vec![recorded.clone()],
            batch_ms: 100,
            until: None,
            snapshots: vec![],
        };
        let error = Steps::open(&plan).unwrap().find_map(Result::err).unwrap();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(matches!(error, ReplayError::Line { line: 2 | 3, .. }));
    }
    recorded.path.push("missing");
    let plan = ReplayPlan {
        files: vec![recorded],
        batch_ms: 100,
        until: None,
        snapshots: vec![],
    };
    assert!(matches!(Steps::open(&plan), Err(ReplayError::Io { .. })));
}
