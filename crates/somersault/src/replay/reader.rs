//! Reads one recorded stream line by line, one line ahead. Times must not go back: a replay that
//! silently reordered its input would give other answers than the recorded ones. The text behind
//! the times is read when the lines are used.

use super::ReplayError;
use crate::push::StreamStatement;
use oxrdf::GraphName;
use oxttl::NTriplesParser;
use somersault_lines::TimedLines;
use somersault_model::EventTime;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

pub(super) struct StreamReader {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    text: String,
    line: u64,
    last: EventTime,
    /// The time of the line in `text`, until that is taken.
    ahead: Option<EventTime>,
    ended: bool,
}

/// Lines of one recorded stream, their times in order.
pub(super) struct RecordedLines {
    file: PathBuf,
    /// Each ends in `\n`; there are no others.
    text: String,
    /// The number in the file of each line.
    numbers: Vec<u64>,
    last: EventTime,
}

impl RecordedLines {
    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the time of the last line.
    pub(super) fn last(&self) -> EventTime {
        self.last
    }

    /// Returns the statements, if each line is a plain one.
    pub(super) fn plain(&self) -> Option<TimedLines<'_>> {
        let lines = TimedLines::read(self.text.as_bytes(), u64::MAX)?;
        let has_graphs = lines
            .statements()
            .any(|quad| !quad.graph_name.is_default_graph());
        (!has_graphs).then_some(lines)
    }

    /// Returns the statements, as the library reads them.
    pub(super) fn statements(&self) -> Result<Vec<StreamStatement>, ReplayError> {
        let lines = self.text.split_terminator('\n').zip(&self.numbers);
        lines
            .map(|(text, line)| match parse_line(text, EventTime::MIN) {
                Ok((_, statement)) => Ok(statement),
                Err(message) => Err(ReplayError::Line {
                    file: self.file.clone(),
                    line: *line,
                    message,
                }),
            })
            .collect()
    }
}

impl StreamReader {
    pub(super) fn open(path: &Path) -> Result<StreamReader, ReplayError> {
        let broken = |source| ReplayError::Io {
            file: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(broken)?;
        let input: Box<dyn BufRead + Send> = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(file))),
            Some("zst") => Box::new(BufReader::new(
                zstd::stream::read::Decoder::new(file).map_err(broken)?,
            )),
            _ => Box::new(BufReader::new(file)),
        };
        Ok(StreamReader {
            path: path.to_owned(),
            input,
            text: String::new(),
            line: 0,
            last: EventTime::MIN,
            ahead: None,
            ended: false,
        })
    }

    /// Returns the event time of the next statement; `None` at the end of the file.
    pub(super) fn peek_time(&mut self) -> Result<Option<EventTime>, ReplayError> {
        if self.ahead.is_none() && !self.ended {
            self.ahead = self.read()?;
            self.ended = self.ahead.is_none();
        }
        Ok(self.ahead)
    }

    /// Returns all next lines whose times are earlier than `end`.
    pub(super) fn take_before(&mut self, end: EventTime) -> Result<RecordedLines, ReplayError> {
        let mut taken = RecordedLines {
            file: self.path.clone(),
            text: String::new(),
            numbers: Vec::new(),
            last: EventTime::MIN,
        };
        while let Some(at) = self.peek_time()?.filter(|at| *at < end) {
            taken.text.push_str(without_end(&self.text));
            taken.text.push('\n');
            taken.numbers.push(self.line);
            taken.last = at;
            self.ahead = None;
        }
        Ok(taken)
    }

    /// Reads up to the next line that has a statement; returns its time.
    fn read(&mut self) -> Result<Option<EventTime>, ReplayError> {
        loop {
            self.text.clear();
            let length =
                self.input
                    .read_line(&mut self.text)
                    .map_err(|source| ReplayError::Io {
                        file: self.path.clone(),
                        source,
                    })?;
            if length == 0 {
                return Ok(None);
            }
            self.line += 1;
            let text = without_end(&self.text);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (at, _) = parse_time(text, self.last).map_err(|message| ReplayError::Line {
                file: self.path.clone(),
                line: self.line,
                message,
            })?;
            self.last = at;
            return Ok(Some(at));
        }
    }
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

/// Reads one line `t_ms<TAB>triple .`; `last` is the time of the previous line. Returns the time
/// of the line and its statement.
///
/// ```
/// use somersault::EventTime;
/// use somersault::replay::parse_line;
/// let (at, statement) = parse_line("1000\t<urn:a> <urn:p> <urn:b> .", EventTime(0)).unwrap();
/// assert_eq!((at, statement.at), (EventTime(1_000), Some(at)));
/// ```
///
/// # Errors
/// A sentence that says what was found and what was expected.
pub fn parse_line(text: &str, last: EventTime) -> Result<(EventTime, StreamStatement), String> {
    let (at, triple) = parse_time(text, last)?;
    let mut parser = NTriplesParser::new().for_slice(triple.as_bytes());
    let parsed = match parser.next() {
        Some(Ok(parsed)) => parsed,
        Some(Err(error)) => return Err(format!("the statement does not parse: {error}")),
        None => return Err("there is no statement after the tab".to_owned()),
    };
    if parser.next().is_some() {
        return Err("more than one statement on the line; put each on its own".to_owned());
    }
    let statement = StreamStatement {
        at: Some(at),
        quad: parsed.in_graph(GraphName::DefaultGraph),
    };
    Ok((at, statement))
}

/// Returns the time of a line, and the text behind its tab.
fn parse_time(text: &str, last: EventTime) -> Result<(EventTime, &str), String> {
    let (time, triple) = text.split_once('\t').ok_or_else(|| {
        "no tab found; a line is the event time in milliseconds, a tab, and an N-Triples statement"
            .to_owned()
    })?;
    let at = time.trim().parse().map(EventTime).map_err(|_| {
        format!("\"{time}\" is not an event time; give whole milliseconds since the Unix epoch")
    })?;
    if at < last {
        return Err(format!(
            "the event time {} is earlier than {} on the line before; sort the file by time",
            at.0, last.0
        ));
    }
    Ok((at, triple))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_time_a_tab_and_a_statement() {
        let seven = EventTime(7);
        let (at, statement) =
            parse_line("7\t<http://a/s> <http://a/p> \"o\" .", seven).expect("a whole line");
        assert_eq!((at, statement.at), (seven, Some(seven)));
        for (line, says) in [
            ("7 <http://a/s> <http://a/p> 1 .", "no tab"),
            ("x\t<http://a/s> <http://a/p> \"o\" .", "not an event time"),
            ("6\t<http://a/s> <http://a/p> \"o\" .", "earlier than 7"),
            ("7\t", "no statement"),
            ("7\t<http://a/s> <http://a/p>", "does not parse"),
        ] {
            let error = parse_line(line, seven).expect_err(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*", last_ms in any::<i64>()) {
            let _ = parse_line(&text, EventTime(last_ms));
        }

        #[test]
        fn any_statement_is_read_or_refused(time in "[0-9]{1,3}", statement in "[<>a:\\\\u0_\"@^. \t{}()-]{0,40}") {
            let line = format!("{time}\t{statement}");
            if let Ok((at, _)) = parse_line(&line, EventTime(0)) {
                prop_assert_eq!(Ok(at.0), time.parse());
            }
        }
    }
}
