//! The display of the demo: on a terminal a table that is drawn over itself,
//! elsewhere a line a second.

use crate::table::cut;
use crossterm::{cursor, queue, style, terminal};
use std::io::{self, Write};
use std::time::Duration;

/// One continuous query's figures.
#[derive(Debug, Default, Clone)]
pub(crate) struct QueryRow {
    pub(crate) name: String,
    pub(crate) firings: u64,
    pub(crate) rows: u64,
    pub(crate) execution: [Duration; 2],
    pub(crate) delay: [Duration; 2],
    pub(crate) waiting: Duration,
    /// The newest answer that was not empty, in readable form.
    pub(crate) newest: String,
}

/// All figures at one moment.
#[derive(Debug, Default, Clone)]
pub(crate) struct Moment {
    pub(crate) played: Duration,
    pub(crate) duration: Duration,
    pub(crate) tuples: u64,
    pub(crate) tuples_per_second: f64,
    pub(crate) stored: u64,
    pub(crate) behind: Duration,
    pub(crate) one_shot: String,
    pub(crate) address: String,
    pub(crate) queries: Vec<QueryRow>,
}

/// What a view shows at one moment.
pub(crate) trait Picture {
    /// The live view: as many lines each time, each at most `width` characters.
    fn lines(&self, width: usize) -> Vec<String>;

    /// The same in one line, for readers that are no terminal.
    fn line(&self) -> String;
}

/// Draws pictures.
pub(crate) enum View {
    /// Redraws in place; remembers how many lines the last drawing took.
    Terminal { lines: u16 },
    /// Prints a line a second.
    Plain { next: Duration },
}

impl View {
    /// The live view on a terminal, plain lines elsewhere.
    pub(crate) fn new(terminal: bool) -> Self {
        if terminal {
            Self::Terminal { lines: 0 }
        } else {
            Self::Plain {
                next: Duration::from_secs(1),
            }
        }
    }

    /// Whether [`Self::draw`] would show something now.
    pub(crate) fn is_due(&self, played: Duration) -> bool {
        match self {
            Self::Terminal { .. } => true,
            Self::Plain { next } => played >= *next,
        }
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// What standard output reports.
    pub(crate) fn draw(&mut self, picture: &impl Picture) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Self::Terminal { lines } => {
                let width =
                    crossterm::terminal::size().map_or(100, |(columns, _)| usize::from(columns));
                let drawing = picture.lines(width);
                if *lines > 0 {
                    queue!(out, cursor::MoveToPreviousLine(*lines))?;
                }
                for line in &drawing {
                    queue!(
                        out,
                        terminal::Clear(terminal::ClearType::CurrentLine),
                        style::Print(line),
                        style::Print("\n")
                    )?;
                }
                *lines = u16::try_from(drawing.len()).unwrap_or(u16::MAX);
            }
            Self::Plain { next } => {
                *next += Duration::from_secs(1);
                writeln!(out, "{}", picture.line())?;
            }
        }
        out.flush()
    }
}

impl Picture for Moment {
    fn lines(&self, width: usize) -> Vec<String> {
        drawing(self, width)
    }

    fn line(&self) -> String {
        let firings: u64 = self.queries.iter().map(|query| query.firings).sum();
        let slowest = self.queries.iter().map(|query| query.execution[1]).max();
        format!(
            "{:>3.0} s  {:>7.0} tuples/s  {:>9} stored triples  {:>6} firings  slowest query p99 {}  {}",
            self.played.as_secs_f64(),
            self.tuples_per_second,
            self.stored,
            firings,
            readable_time(slowest.unwrap_or_default()),
            self.one_shot
        )
    }
}

/// A bar that shows how much of the duration has been played, and the time.
pub(crate) fn bar(played: Duration, duration: Duration, width: usize) -> String {
    let share = played.as_secs_f64() / duration.as_secs_f64().max(0.001);
    let room = width.saturating_sub(32).clamp(10, 60);
    let full = ((share * room as f64) as usize).min(room);
    format!(
        "Somersault  [{}{}] {:.1} of {} s",
        "█".repeat(full),
        "░".repeat(room - full),
        played.as_secs_f64(),
        duration.as_secs()
    )
}

/// The lines of the live view, each at most `width` characters.
fn drawing(moment: &Moment, width: usize) -> Vec<String> {
    let mut lines = vec![
        bar(moment.played, moment.duration, width),
        format!(
            "{:.0} tuples/s in   {} tuples so far   {} stored triples{}",
            moment.tuples_per_second,
            moment.tuples,
            moment.stored,
            if moment.behind > Duration::from_millis(50) {
                format!("   {} ms behind the clock", moment.behind.as_millis())
            } else {
                String::new()
            }
        ),
        format!("SPARQL on the newest snapshot: {}", moment.one_shot),
        format!("HTTP answers at http://{}", moment.address),
        String::new(),
    ];
    lines.extend(table(&moment.queries, width));
    lines
        .into_iter()
        .map(|line| cut(&line, width.saturating_sub(1)))
        .collect()
}

/// The figures of every query, one line each, under a heading.
pub(crate) fn table(queries: &[QueryRow], width: usize) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<6} {:>7} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}  newest answer",
        "query", "firings", "rows", "exec p50", "exec p99", "delay p50", "delay p99", "waiting"
    )];
    for query in queries {
        let [execution_p50, execution_p99] = query.execution.map(readable_time);
        let [delay_p50, delay_p99] = query.delay.map(readable_time);
        let line = format!(
            "{:<6} {:>7} {:>9} {execution_p50:>10} {execution_p99:>10} {delay_p50:>10} {delay_p99:>10} {:>10}  {}",
            query.name,
            query.firings,
            query.rows,
            readable_time(query.waiting),
            query.newest
        );
        lines.push(cut(&line, width.saturating_sub(1).max(80)));
    }
    lines
}

/// Microseconds or milliseconds, with three digits that matter.
pub(crate) fn readable_time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 {
        format!("{micros:.0} µs")
    } else {
        format!("{:.2} ms", micros / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_fits_a_narrow_terminal() {
        let query = QueryRow {
            name: "L1".to_owned(),
            newest: "u1 → ".repeat(50),
            ..QueryRow::default()
        };
        let moment = Moment {
            duration: Duration::from_secs(20),
            queries: vec![query],
            ..Moment::default()
        };
        for line in drawing(&moment, 82) {
            assert!(line.chars().count() <= 82, "{line}");
        }
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(readable_time(Duration::from_micros(130)), "130 µs");
        assert_eq!(readable_time(Duration::from_micros(2_140)), "2.14 ms");
    }
}
