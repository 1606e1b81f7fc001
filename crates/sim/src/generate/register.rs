//! Draws registrations: the windows of a query, its closes, and the part of its answers that it
//! reports. Some queries are drawn in several dialects or with several constants, and some derive
//! streams for others.

use super::queries::{draw_pattern_and_form, draw_template};
use super::{GRAPHS, Generator, QUERIES};
use crate::draw::Draw;
use crate::model::{
    Absorbs, Changes, DerivedModel, Dialect, Extent, FIRST_DERIVED, Form, LONG_MS, Late,
    QueryModel, Step, StreamModel, WindowModel,
};

impl Generator {
    /// A registration, often of one query in every dialect that can say it, or several times with
    /// other constants.
    pub(crate) fn register(&mut self) {
        let mut query = self.draw_query();
        self.drawn += 1;
        let able: Vec<Dialect> = ([Dialect::CSparql, Dialect::RspQl, Dialect::CqelsQl].into_iter())
            .filter(|dialect| query.can_be_said_in(*dialect))
            .collect();
        let first = *self.draw.pick(&able);
        query.dialect = first;
        draw_pattern_and_form(&mut self.draw, &mut query);
        self.draw_what_is_given(&mut query);
        let number = self.draw.small(QUERIES);
        // If the number is registered, the registration is refused, comes after a DROP, or
        // replaces.
        let replaces = match self.draw.below(10) {
            0..=2 => {
                self.steps.push(Step::Drop(number));
                false
            }
            3..=5 => true,
            _ => false,
        };
        let mut models = vec![query];
        match self.draw.below(10) {
            0..=3 => {
                let query = &models[0];
                let others = able.into_iter();
                let others = others.filter(|dialect| *dialect != first && query.is_common());
                let others = others.map(|dialect| QueryModel {
                    dialect,
                    ..query.clone()
                });
                models.extend(others.collect::<Vec<_>>());
            }
            4..=5 => {
                models[0].family = Some(self.drawn);
                for _ in 0..1 + self.draw.below(2) {
                    let mut other = models[0].clone();
                    self.draw_other_constants(&mut other);
                    models.push(other);
                }
            }
            _ => {}
        }
        for (model, number) in models.into_iter().zip(number..) {
            let (number, model) = (number % QUERIES, Box::new(model));
            self.steps.push(match replaces {
                true => Step::Replace(number, model),
                false => Step::Register(number, model),
            });
        }
    }

    /// Draws the part of its answers that a query reports.
    fn draw_what_is_given(&mut self, query: &mut QueryModel) {
        if !self.keeps_all(query) {
            return;
        }
        let draw = &mut self.draw;
        match draw.below(20) {
            0..=3 if query.dialect == Dialect::RspQl && query.form.has_all_rows() => {
                query.changes = Some(*draw.pick(&[Changes::New, Changes::Gone]));
            }
            4..=6 => {
                query.report.on_change = true;
                query.report.non_empty = draw.chance(30);
            }
            7..=8 => query.report.non_empty = true,
            9..=10 => query.skips = true,
            _ => {}
        }
    }

    /// Whether a firing depends only on earlier inputs: everything that a window reaches is kept,
    /// and nothing is amended.
    fn keeps_all(&self, query: &QueryModel) -> bool {
        let has_all = |window: &WindowModel| {
            let StreamModel { keep_ms, late, .. } = self.stream(window.stream);
            keep_ms == LONG_MS && !matches!(late, Late::Amend(_))
        };
        query.windows.iter().all(has_all)
    }

    /// A stream by its number, derived or not.
    fn stream(&self, number: usize) -> StreamModel {
        if let Some(stream) = self.streams.get(number) {
            return stream.clone();
        }
        let deriving = &self.deriving[number - usize::from(FIRST_DERIVED)];
        crate::twin::stream_of(deriving)
    }

    /// Queries that derive streams, the second one from the first.
    pub(crate) fn draw_deriving(&mut self) {
        let count = *self.draw.pick(&[0, 0, 0, 1, 1, 2]);
        if count == 0 {
            return;
        }
        let source = self.draw_stream_number();
        let stream = &mut self.streams[source];
        stream.keep_ms = LONG_MS;
        if matches!(stream.late, Late::Amend(_)) {
            stream.late = Late::Drop;
        }
        for at in 0..count {
            let from = match at {
                0 => source,
                _ => usize::from(FIRST_DERIVED) + at - 1,
            };
            let batch_ms = self.stream(from).batch_ms;
            let draw = &mut self.draw;
            let mut window = draw_window(draw, from, batch_ms, false);
            window.step_ms = batch_ms * draw.pick(&[1, 1, 2]);
            let mut query = QueryModel::over(vec![window]);
            query.dialect = *draw.pick(&[Dialect::CSparql, Dialect::RspQl, Dialect::CqelsQl]);
            query.from_named = (0..GRAPHS).filter(|_| draw.chance(50)).collect();
            draw_pattern_and_form(draw, &mut query);
            query.form = Form::Construct(draw_template(draw));
            // The order in which two streams absorb is undefined.
            let absorbs = match draw.below(3) {
                0 if count == 1 => Absorbs::Everything,
                1 if count == 1 => Absorbs::AllBut(vec![0]),
                _ => Absorbs::Nothing,
            };
            query.derives = Some(DerivedModel {
                absorbs,
                into: draw.chance(40).then(|| draw.small(GRAPHS)),
            });
            self.deriving.push(query);
        }
    }

    /// Registers a query that derives a stream, and then one over that.
    pub(crate) fn register_deriving(&mut self, at: usize) {
        let number = FIRST_DERIVED + u8::try_from(at).unwrap_or(0);
        let query = self.deriving[at].clone();
        self.steps.push(Step::Register(number, Box::new(query)));
    }

    /// The windows of a query, which BATCH of each stream divides.
    fn draw_query(&mut self) -> QueryModel {
        let count = 1 + usize::from(self.draw.chance(55)) + usize::from(self.draw.chance(15));
        let repeats = self.draw.chance(40);
        let mut numbers: Vec<usize> = Vec::new();
        for _ in 0..count {
            let stream = match !self.deriving.is_empty() && self.draw.chance(50) {
                true => {
                    let deriving = u8::try_from(self.deriving.len()).unwrap_or(1);
                    usize::from(FIRST_DERIVED + self.draw.small(deriving))
                }
                false => self.draw_stream_number(),
            };
            if repeats || !numbers.contains(&stream) {
                numbers.push(stream);
            }
        }
        let mut once = numbers.clone();
        once.sort_unstable();
        once.dedup();
        let is_once = once.len() == numbers.len();
        let batches: Vec<i64> = (numbers.iter())
            .map(|stream| self.stream(*stream).batch_ms)
            .collect();
        let windows = (numbers.iter().zip(&batches))
            .map(|(stream, batch_ms)| draw_window(&mut self.draw, *stream, *batch_ms, is_once));
        let mut query = QueryModel::over(windows.collect());
        let keeps_all = self.keeps_all(&query);
        let draw = &mut self.draw;
        if draw.chance(35) && query.windows.iter().all(|window| !window.in_default) {
            draw_extent(draw, &mut query.windows[0], batches[0], keeps_all);
        }
        // Each BATCH divides the longest.
        let common_ms = batches.into_iter().max().unwrap_or(400);
        query.every_ms = draw
            .chance(15)
            .then(|| common_ms * (1 + i64::from(draw.small(5))));
        query.origin_ms = match draw.chance(20) {
            true => common_ms * i64::from(draw.small(50)),
            false => 0,
        };
        query.from = (0..GRAPHS).filter(|_| draw.chance(15)).collect();
        query.from_named = (0..GRAPHS).filter(|_| draw.chance(50)).collect();
        query
    }
}

impl Form {
    /// Whether no rows are cut off, and there are rows.
    fn has_all_rows(&self) -> bool {
        matches!(self, Form::Count { .. } | Form::Select { limit: None, .. })
    }
}

fn draw_window(draw: &mut Draw, stream: usize, batch_ms: i64, may_be_default: bool) -> WindowModel {
    let range_ms = batch_ms * (1 + i64::from(draw.small(12)));
    let step_ms = match draw.chance(15) {
        true => range_ms,
        false => batch_ms * (1 + i64::from(draw.small(6))),
    };
    WindowModel {
        stream,
        extent: Extent::Sliding,
        range_ms,
        until_ms: 0,
        step_ms,
        in_default: may_be_default && draw.chance(25),
    }
}

/// Makes a window one that only some dialects have, or some streams.
fn draw_extent(draw: &mut Draw, window: &mut WindowModel, batch_ms: i64, keeps_all: bool) {
    window.extent = match draw.below(10) {
        0..=1 => Extent::Past,
        2 => Extent::Now,
        3 => Extent::EachBatch,
        4..=5 if keeps_all => Extent::All,
        6.. if keeps_all => Extent::Statements {
            count: 1 + usize::from(draw.small(6)),
            step: *draw.pick(&[1, 1, 2, 3, 5]),
        },
        _ => Extent::EachBatch,
    };
    match window.extent {
        Extent::Past => window.until_ms = batch_ms * (1 + i64::from(draw.small(6))),
        Extent::Now => (window.range_ms, window.step_ms) = (batch_ms, batch_ms),
        Extent::EachBatch | Extent::Sliding | Extent::All | Extent::Statements { .. } => {
            window.step_ms = batch_ms;
        }
    }
}
