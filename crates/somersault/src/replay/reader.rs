//! Reads one recorded stream line by line, one line ahead. Times must not go back: a replay that
//! silently reordered its input would give other answers than the recorded ones. The text behind
//! the times is read when the lines are used.

use super::ReplayError;
use crate::push::StreamStatement;
use oxrdf::GraphName;
use oxttl::NTriplesParser;
use somersault_lines::TimedLines;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

pub(super) struct StreamReader {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    text: String,
    line: u64,
    last_ms: i64,
    /// The time of the line in `text`, until that is taken.
    ahead: Option<i64>,
    ended: bool,
}

/// Lines of one recorded stream, their times in order.
pub(super) struct RecordedLines {
    file: PathBuf,
    /// Each ends in `\n`; there are no others.
    text: String,
    /// The number in the file of each line.
    numbers: Vec<u64>,
    last_ms: i64,
}

impl RecordedLines {
    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the time of the last line.
    pub(super) fn last_ms(&self) -> i64 {
        self.last_ms
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
            .map(|(text, line)| match parse_line(text, i64::MIN) {
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
            last_ms: i64::MIN,
            ahead: None,
            ended: false,
        })
    }

    /// Returns the event time of the next statement; `None` at the end of the file.
    pub(super) fn peek_ms(&mut self) -> Result<Option<i64>, ReplayError> {
        if self.ahead.is_none() && !self.ended {
            self.ahead = self.read()?;
            self.ended = self.ahead.is_none();
        }
        Ok(self.ahead)
    }

    /// Returns all next lines whose times are earlier than `end_ms`.
    pub(super) fn take_before(&mut self, end_ms: i64) -> Result<RecordedLines, ReplayError> {
        let mut taken = RecordedLines {
            file: self.path.clone(),
            text: String::new(),
            numbers: Vec::new(),
            last_ms: i64::MIN,
        };
        while let Some(at_ms) = self.peek_ms()?.filter(|at_ms| *at_ms < end_ms) {
            taken.text.push_str(without_end(&self.text));
            taken.text.push('\n');
            taken.numbers.push(self.line);
            taken.last_ms = at_ms;
            self.ahead = None;
        }
        Ok(taken)
    }

    /// Reads up to the next line that has a statement; returns its time.
    fn read(&mut self) -> Result<Option<i64>, ReplayError> {
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
            let (at_ms, _) =
                parse_time(text, self.last_ms).map_err(|message| ReplayError::Line {
                    file: self.path.clone(),
                    line: self.line,
                    message,
                })?;
            self.last_ms = at_ms;
            return Ok(Some(at_ms));
        }
    }
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r'])
}

/// Reads one line `t_ms<TAB>triple .`; `last_ms` is the time of the previous line.
///
/// # Errors
/// A sentence that says what was found and what was expected.
pub fn parse_line(text: &str, last_ms: i64) -> Result<(i64, StreamStatement), String> {
    let (at_ms, triple) = parse_time(text, last_ms)?;
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
        at_ms: Some(at_ms),
        quad: parsed.in_graph(GraphName::DefaultGraph),
    };
    Ok((at_ms, statement))
}

/// Returns the time of a line, and the text behind its tab.
fn parse_time(text: &str, last_ms: i64) -> Result<(i64, &str), String> {
    let (time, triple) = text.split_once('\t').ok_or_else(|| {
        "no tab found; a line is the event time in milliseconds, a tab, and an N-Triples statement"
            .to_owned()
    })?;
    let at_ms: i64 = time.trim().parse().map_err(|_| {
        format!("\"{time}\" is not an event time; give whole milliseconds since the Unix epoch")
    })?;
    if at_ms < last_ms {
        return Err(format!(
            "the event time {at_ms} is earlier than {last_ms} on the line before; sort the file by time"
        ));
    }
    Ok((at_ms, triple))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_time_a_tab_and_a_statement() {
        let (at_ms, statement) =
            parse_line("7\t<http://a/s> <http://a/p> \"o\" .", 7).expect("a whole line");
        assert_eq!((at_ms, statement.at_ms), (7, Some(7)));
        for (line, says) in [
            ("7 <http://a/s> <http://a/p> 1 .", "no tab"),
            ("x\t<http://a/s> <http://a/p> \"o\" .", "not an event time"),
            ("6\t<http://a/s> <http://a/p> \"o\" .", "earlier than 7"),
            ("7\t", "no statement"),
            ("7\t<http://a/s> <http://a/p>", "does not parse"),
        ] {
            let error = parse_line(line, 7).expect_err(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*", last_ms in any::<i64>()) {
            let _ = parse_line(&text, last_ms);
        }

        #[test]
        fn any_statement_is_read_or_refused(time in "[0-9]{1,3}", statement in "[<>a:\\\\u0_\"@^. \t{}()-]{0,40}") {
            let line = format!("{time}\t{statement}");
            if let Ok((at_ms, _)) = parse_line(&line, 0) {
                prop_assert_eq!(Ok(at_ms), time.parse());
            }
        }
    }
}
