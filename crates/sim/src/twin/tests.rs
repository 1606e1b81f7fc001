//! The twin checked by hand: its answers here are short enough to be worked out on paper.

use super::*;
use crate::algebra::Value;
use crate::model::{
    DerivedModel, Dialect, Element, Extent, Form, Group, Path, Place, Slot, TemplateGraph,
    WindowModel,
};

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

/// The objects of each window, as `SELECT ?v0 { WINDOW w { ?v1 p1 ?v0 } }` of the last one gives
/// them.
fn query(windows: Vec<WindowModel>) -> QueryModel {
    let pattern = (Slot::Var(1), Path::One(1), Slot::Var(0));
    QueryModel {
        dialect: Dialect::RspQl,
        form: Form::Select {
            variables: vec![0],
            distinct: false,
            limit: None,
        },
        pattern: Group {
            elements: vec![Element::Block(
                Place::Window(windows.len() - 1),
                vec![pattern],
            )],
            filters: Vec::new(),
        },
        ..QueryModel::over(windows)
    }
}

fn statement(at_ms: i64, subject: u8, object: u8) -> Statement {
    Statement {
        at_ms,
        triple: (subject, 1, object),
        graph: None,
    }
}

/// The due firings of query 0, with the number of occurrences of each object.
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
    assert_eq!(twin.waits_for(0), Some((Some(1000), vec![0])));
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
fn late_statements_reach_the_firings_that_should_have_seen_them() {
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

#[test]
fn a_window_by_number_closes_where_the_number_is_a_multiple_of_its_step() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    let mut last = window(0, 0, 100);
    last.extent = Extent::Statements { count: 3, step: 2 };
    twin.register(0, &query(vec![last]));
    let pushed = [
        statement(1000, 1, 7),
        statement(1010, 1, 7),
        statement(1020, 1, 8),
        statement(1030, 1, 9),
        statement(1110, 2, 7),
        statement(1300, 2, 8),
    ];
    twin.push(0, 0, &pushed);
    twin.advance(&[(0, 2000)]);
    // The second and the fourth are in one batch, and so close twice at its end; the sixth ends a
    // later one.
    let expected = [
        (1100, vec![(7, 1)]),
        (1100, vec![(7, 1), (8, 1), (9, 1)]),
        (1400, vec![(7, 1), (8, 1), (9, 1)]),
    ];
    assert_eq!(due(&mut twin), expected);
    let ordinals: Vec<u32> = (twin.queries[&0].due.iter())
        .map(|due| due.ordinal)
        .collect();
    assert_eq!(ordinals, [0, 1, 0]);
}

#[test]
fn all_begins_with_the_batch_that_is_open_at_the_registration() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    let pushed = [
        statement(1000, 1, 7),
        statement(1110, 1, 8),
        statement(1150, 1, 9),
    ];
    twin.push(0, 0, &pushed);
    let mut all = window(0, 0, 100);
    all.extent = Extent::All;
    twin.register(0, &query(vec![all]));
    twin.advance(&[(0, 1300)]);
    let both = vec![(8, 1), (9, 1)];
    assert_eq!(due(&mut twin), [(1200, both.clone()), (1300, both)]);
}

#[test]
fn derived_statements_are_seen_one_step_later() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    let mut deriving = query(vec![window(0, 500, 500)]);
    deriving.derives = Some(DerivedModel {
        absorbs: Absorbs::Everything,
        into: Some(1),
    });
    deriving.form = Form::Construct(vec![(
        Slot::Var(1),
        1,
        Slot::Var(0),
        TemplateGraph::Default,
    )]);
    twin.register(FIRST_DERIVED, &deriving);
    twin.register(
        0,
        &query(vec![window(usize::from(FIRST_DERIVED), 500, 500)]),
    );
    assert!(twin.is_windowed(FIRST_DERIVED));
    twin.push(0, 0, &[statement(100, 1, 7)]);
    twin.advance(&[(0, 1000)]);
    // Its firing for 500 makes a statement at 500, that for 1000 none.
    assert_eq!(due(&mut twin), [(1000, vec![(7, 1)]), (1500, vec![])]);
    assert_eq!(twin.stored()[&Some(1)], BTreeSet::from([(1, 1, 7)]));
}

#[test]
fn report_on_change_leaves_out_equal_answers() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    let mut query = query(vec![window(0, 1000, 500)]);
    query.report.on_change = true;
    twin.register(0, &query);
    twin.push(0, 0, &[statement(100, 1, 7)]);
    twin.advance(&[(0, 2000)]);
    // The window holds it at 500 and 1000, and nothing after that.
    let left_out: Vec<(i64, bool)> = std::iter::from_fn(|| {
        let due = twin.take_due(0).expect("it is registered")?;
        Some((due.close_ms, twin.may_be_left_out(0, &due)))
    })
    .collect();
    assert_eq!(
        left_out,
        [(500, false), (1000, true), (1500, false), (2000, true)]
    );
}

#[test]
fn all_but_the_newest_may_be_skipped() {
    let mut twin = Twin::new(&[stream(0, Late::Reject)], None);
    let mut query = query(vec![window(0, 500, 500)]);
    query.skips = true;
    twin.register(0, &query);
    twin.advance(&[(0, 400), (0, 1500)]);
    let left_out: Vec<(i64, bool)> = std::iter::from_fn(|| {
        let due = twin.take_due(0).expect("it is registered")?;
        Some((due.close_ms, twin.may_be_left_out(0, &due)))
    })
    .collect();
    assert_eq!(left_out, [(500, true), (1000, true), (1500, false)]);
}
