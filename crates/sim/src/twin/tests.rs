//! The twin by hand: what it says is short enough to be worked out on paper.

use super::*;
use crate::algebra::Value;
use crate::model::{Element, Form, Group, Path, Place, Slot};

fn stream(lateness_ms: i64, late: Late) -> StreamModel {
    StreamModel {
        batch_ms: 100,
        absorbs: Absorbs::Nothing,
        into: None,
        lateness_ms,
        late,
        keep_ms: 60_000,
    }
}

fn window(stream: usize, range_ms: i64, step_ms: i64) -> WindowModel {
    WindowModel {
        stream,
        range_ms,
        step_ms,
        in_default: false,
    }
}

/// The objects of each window, as `SELECT ?v0 { WINDOW w { ?v1 p1 ?v0 } }` of the last one gives them.
fn query(windows: Vec<WindowModel>) -> QueryModel {
    let pattern = (Slot::Var(1), Path::One(1), Slot::Var(0));
    QueryModel {
        dialect: Dialect::RspQl,
        form: Form::Select {
            variables: vec![0],
            distinct: false,
            limit: None,
        },
        every_ms: None,
        origin_ms: 0,
        from: Vec::new(),
        from_named: Vec::new(),
        pattern: Group {
            elements: vec![Element::Block(
                Place::Window(windows.len() - 1),
                vec![pattern],
            )],
            filters: Vec::new(),
        },
        windows,
    }
}

fn statement(at_ms: i64, subject: u8, object: u8) -> Statement {
    Statement {
        at_ms,
        triple: (subject, 1, object),
        graph: None,
    }
}

/// What is due of query 0, with how often each object comes.
fn due(twin: &Twin) -> Vec<(i64, Vec<(u8, usize)>)> {
    let query = &twin.queries[&0];
    let answers = query.due.iter().map(|(close_ms, due)| {
        let answer = twin
            .answer(0, due, *close_ms, None)
            .expect("nothing is wrong");
        let rows = answer
            .expect("everything is kept")
            .into_iter()
            .map(|(row, times)| match row[..] {
                [Some(Value::Node(node))] => (node, times),
                _ => panic!("a row of one node"),
            });
        (*close_ms, rows.collect())
    });
    answers.collect()
}

#[test]
fn a_window_is_closed_on_the_left_and_a_set() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    twin.register(0, &query(vec![window(0, 1000, 1000)]));
    let pushed = [
        statement(1000, 1, 7),
        statement(1500, 1, 7),
        statement(1999, 2, 7),
        statement(2000, 3, 7),
    ];
    twin.push(0, 0, &pushed);
    twin.advance(&[(0, 3000)]);
    assert_eq!(due(&twin), [(2000, vec![(7, 2)]), (3000, vec![(7, 1)])]);
}

#[test]
fn a_window_shows_its_own_latest_close_and_nothing_of_the_other() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    twin.register(
        0,
        &query(vec![window(0, 1000, 1000), window(0, 2000, 2000)]),
    );
    twin.push(0, 0, &[statement(500, 1, 7), statement(2500, 1, 8)]);
    twin.advance(&[(0, 4000)]);
    let expected = [
        (1000, vec![]),
        (2000, vec![(7, 1)]),
        (3000, vec![(7, 1)]),
        (4000, vec![(8, 1)]),
    ];
    assert_eq!(due(&twin), expected);
}

#[test]
fn the_slowest_source_of_the_slowest_stream_says_what_is_due() {
    let mut twin = Twin::new(&[stream(200, Late::Drop), stream(0, Late::Drop)], None);
    twin.register(
        0,
        &query(vec![window(1, 1000, 1000), window(0, 1000, 1000)]),
    );
    twin.advance(&[(1, 500)]);
    twin.push(0, 0, &[statement(900, 1, 7)]);
    twin.advance(&[(1, 5000)]);
    assert_eq!(twin.waits_for(0), (Some(1000), vec![0]));
    // Its first source promises nothing older than 700, its second nothing older than 2100.
    twin.push(0, 1, &[statement(2300, 1, 8), statement(2150, 1, 9)]);
    assert_eq!(due(&twin), []);
    twin.push(0, 0, &[statement(7200, 1, 7)]);
    assert_eq!(due(&twin), [(1000, vec![(7, 1)]), (2000, vec![])]);
    let late = twin.verdict(0, 0, &[statement(2099, 1, 7)]);
    assert_eq!(
        late,
        Verdict::Taken {
            accepted: 0,
            dropped: 1
        }
    );
}
