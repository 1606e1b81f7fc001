//! Jena in a Java process of its own, which speaks the lines that `oracle/Oracle.java` describes.

use crate::ConformanceError;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The rows of an answer, each as its terms with tabs between them.
pub(super) type AnswerRows = Vec<String>;

/// An answer, or why there is none.
pub(super) type Answer = Result<AnswerRows, String>;

pub(super) struct Oracle {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start(classpath: &str) -> Result<Oracle, ConformanceError> {
        let fault = |what: &str| ConformanceError::Child(what.to_owned());
        let mut process = Command::new("java")
            .args(["-Xmx1g", "-cp", classpath, "Oracle"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Jena warns of each ill-typed literal, and many literals here are ill-typed on
            // purpose.
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| ConformanceError::Child(format!("java did not start: {error}")))?;
        let commands = process.stdin.take().ok_or_else(|| fault("has no input"))?;
        let answers = process
            .stdout
            .take()
            .ok_or_else(|| fault("has no output"))?;
        Ok(Oracle {
            process,
            commands,
            answers: BufReader::new(answers),
        })
    }

    /// Replaces the dataset.
    pub(super) fn load(&mut self, quads: &str) -> Result<(), ConformanceError> {
        match self.command("data", quads)?.as_str() {
            "ready" => Ok(()),
            other => Err(ConformanceError::Child(format!("answered {other} to data"))),
        }
    }

    /// The answer to a query, or why there is none.
    pub(super) fn ask(&mut self, query: &str) -> Result<Answer, ConformanceError> {
        self.answer("query", query)
    }

    /// The answer of Jena's reference evaluator, which carries out the algebra by its definition.
    pub(super) fn ask_reference(&mut self, query: &str) -> Result<Answer, ConformanceError> {
        self.answer("reference", query)
    }

    fn answer(&mut self, command: &str, query: &str) -> Result<Answer, ConformanceError> {
        let head = self.command(command, query)?;
        if let Some(reason) = head.strip_prefix("failed ") {
            return Ok(Err(reason.to_owned()));
        }
        let count = head
            .strip_prefix("rows ")
            .and_then(|count| count.parse().ok());
        let count: usize =
            count.ok_or_else(|| ConformanceError::Child(format!("answered {head}")))?;
        (0..count)
            .map(|_| self.line())
            .collect::<Result<_, _>>()
            .map(Ok)
    }

    fn command(&mut self, name: &str, body: &str) -> Result<String, ConformanceError> {
        let gone = |error| ConformanceError::Child(format!("takes no commands: {error}"));
        write!(self.commands, "{name} {}\n{body}", body.len()).map_err(gone)?;
        self.commands.flush().map_err(gone)?;
        self.line()
    }

    fn line(&mut self) -> Result<String, ConformanceError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        match read {
            Ok(0) => Err(ConformanceError::Child(
                "ended (is the class path right?)".to_owned(),
            )),
            Ok(_) => Ok(line.trim_end_matches('\n').to_owned()),
            Err(error) => Err(ConformanceError::Child(format!("cannot be read: {error}"))),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // A process that has ended by itself cannot be killed, and need not be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
