//! The twin by hand: what it says is short enough to be worked out on paper.

use super::*;
use crate::algebra::Value;
use crate::model::{Absorbs, Element, Form, Group, Path, Place, Slot};

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
        extent: Extent::Sliding,
        until_ms: 0,
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
        changes: None,
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
fn due(twin: &mut Twin) -> Vec<(i64, Vec<(u8, usize)>)> {
    let due: Vec<Due> = twin.queries[&0].due.iter().cloned().collect();
    let answers = due.iter().map(|due| {
        let answer = twin.answer(0, due, None).expect("nothing is wrong");
        let rows = answer.expect("everything is kept").into_iter();
        let rows = rows.map(|(row, times)| match row[..] {
            [Some(Value::Node(node))] => (node, times),
            _ => panic!("a row of one node"),
        });
        (due.close_ms, rows.collect())
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
    assert_eq!(due(&mut twin), [(2000, vec![(7, 2)]), (3000, vec![(7, 1)])]);
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
    assert_eq!(due(&mut twin), expected);
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
    assert_eq!(due(&mut twin), []);
    twin.push(0, 0, &[statement(7200, 1, 7)]);
    assert_eq!(due(&mut twin), [(1000, vec![(7, 1)]), (2000, vec![])]);
    let late = twin.verdict(0, 0, &[statement(2099, 1, 7)]);
    assert_eq!(
        late,
        Verdict::Taken {
            accepted: 0,
            dropped: 1
        }
    );
}

#[test]
fn what_comes_late_is_seen_by_the_firings_that_should_have_seen_it() {
    let mut twin = Twin::new(&[stream(0, Late::Amend(1000))], None);
    twin.register(0, &query(vec![window(0, 1000, 500)]));
    twin.push(0, 0, &[statement(900, 1, 7)]);
    twin.advance(&[(0, 2000)]);
    // 999 is older than WITHIN allows; 1100 is in the windows of 1500 and 2000.
    let late = [statement(999, 2, 9), statement(1100, 2, 8)];
    let taken = Verdict::Taken {
        accepted: 1,
        dropped: 1,
    };
    assert_eq!(twin.verdict(0, 0, &late), taken);
    twin.push(0, 0, &late);
    let expected = [
        (1000, vec![(7, 1)]),
        (1500, vec![(7, 1)]),
        (2000, vec![]),
        (1500, vec![(7, 1), (8, 1)]),
        (2000, vec![(8, 1)]),
    ];
    assert_eq!(due(&mut twin), expected);
}

#[test]
fn istream_and_dstream_are_differences_of_bags() {
    let changed = |changes| {
        let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
        let mut query = query(vec![window(0, 1000, 500)]);
        query.changes = Some(changes);
        twin.register(0, &query);
        twin.push(
            0,
            0,
            &[
                statement(500, 1, 7),
                statement(600, 2, 7),
                statement(1100, 3, 7),
            ],
        );
        twin.advance(&[(0, 2000)]);
        due(&mut twin)
    };
    // At 1000 two triples give the row, at 1500 three, at 2000 one.
    let none = Vec::new;
    assert_eq!(
        changed(Changes::New),
        [(1000, vec![(7, 2)]), (1500, vec![(7, 1)]), (2000, none())]
    );
    assert_eq!(
        changed(Changes::Gone),
        [(1000, none()), (1500, none()), (2000, vec![(7, 2)])]
    );
}
