//! A target and the figure that was measured for it.

/// The verdict on a figure and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    Short,
    NotMeasured,
}

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) target: String,
    pub(crate) figure: String,
    pub(crate) verdict: Verdict,
}

/// A row that holds if the figure is at least the target.
pub(crate) fn at_least(what: &str, target: f64, figure: Option<f64>, unit: &str) -> Row {
    row(what, target, figure, unit, |figure| figure >= target)
}

/// A row that holds if the figure is at most the target.
pub(crate) fn at_most(what: &str, target: f64, figure: Option<f64>, unit: &str) -> Row {
    row(what, target, figure, unit, |figure| figure <= target)
}

fn row(
    what: &str,
    target: f64,
    figure: Option<f64>,
    unit: &str,
    holds: impl Fn(f64) -> bool,
) -> Row {
    Row {
        what: what.to_owned(),
        target: format!("{} {unit}", short(target)),
        figure: figure.map_or_else(
            || "not measured".to_owned(),
            |figure| format!("{} {unit}", short(figure)),
        ),
        verdict: match figure {
            None => Verdict::NotMeasured,
            Some(figure) if holds(figure) => Verdict::Holds,
            Some(_) => Verdict::Short,
        },
    }
}

/// A number with as many digits as matter.
fn short(number: f64) -> String {
    match number.abs() {
        small if small < 10.0 => format!("{number:.2}"),
        _ => format!("{number:.0}"),
    }
}
