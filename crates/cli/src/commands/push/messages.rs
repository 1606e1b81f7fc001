//! `push --messages`: a file of messages into a stream, in bodies of bounded size.
//!
//! The one thing to know: messages are read here and sent as N-Quads, so that a body can begin at
//! any message. One that cannot be read is reported with its place in the file, and its number is
//! left out.

use crate::args::PushArgs;
use crate::client::{Answered, Client, segment};
use crate::error::CliError;
use crate::files;
use somersault::{Message, MessageLimits, MessageReader, MessageSyntax, MessageWriter};
use std::fmt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use ureq::http::StatusCode;

/// The greatest message that a server takes, in bytes.
const MESSAGE_BYTES: usize = 16 << 20;
/// Attempts to send messages to a stream that has no room, or to a server that does not answer.
const ATTEMPTS: u32 = 60;
/// Refused messages that are shown with their reasons.
const SHOWN: u64 = 20;

/// Pushes the messages of a file; each body is acknowledged when it is durable.
///
/// # Errors
/// With the server's sentence, and the message from which on to send again. Also if messages were
/// refused.
pub(crate) fn run(args: &PushArgs, client: &Client, address: &str) -> Result<(), CliError> {
    let bar = files::byte_bar();
    let input = files::open(&args.file, &bar)?;
    let syntax = syntax_of(&input.stem)?;
    let limits = MessageLimits {
        bytes: MESSAGE_BYTES,
        statements: usize::MAX,
    };
    let mut sender = MessageSender {
        args,
        client,
        address,
        body: Vec::new(),
        statements: 0,
        counts: MessageCounts::default(),
    };
    for message in MessageReader::new(input.reader, syntax, limits) {
        let message = message.map_err(|error| {
            CliError::failed(format_args!("cannot read {}", args.file.display()), error)
        })?;
        sender.add(message)?;
    }
    sender.send_body()?;
    bar.finish_and_clear();
    println!("{}: {}", args.file.display(), sender.counts);
    match sender.counts.refused {
        0 => Ok(()),
        refused => Err(CliError::Failed(format!(
            "{refused} messages were refused; send them again, corrected, under their numbers"
        ))),
    }
}

/// The syntax that an ending stands for.
fn syntax_of(stem: &Path) -> Result<MessageSyntax, CliError> {
    let ending = stem.extension().and_then(|ending| ending.to_str());
    Ok(match ending.unwrap_or_default() {
        "nt" => MessageSyntax::NTriples,
        "nq" => MessageSyntax::NQuads,
        "ttl" => MessageSyntax::Turtle,
        "trig" => MessageSyntax::TriG,
        "ndjson" | "jsonl" | "ndjsonld" => MessageSyntax::NdJsonLd,
        _ => {
            return Err(CliError::Usage(format!(
                "the extension of {} names no syntax of messages; known are .nt, .nq, .ttl, .trig, .ndjson, .jsonl and .ndjsonld, each also with .gz or .zst",
                stem.display()
            )));
        }
    })
}

struct MessageSender<'a> {
    args: &'a PushArgs,
    client: &'a Client,
    address: &'a str,
    /// Consecutive messages that can be read.
    body: Vec<Message>,
    /// The number of their statements.
    statements: u64,
    counts: MessageCounts,
}

/// What became of the messages so far.
#[derive(Debug, Default)]
struct MessageCounts {
    taken: u64,
    repeated: u64,
    refused: u64,
    /// Statements taken, and dropped because they were late.
    statements: u64,
    dropped: u64,
}

impl fmt::Display for MessageCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages with {} statements pushed and durable",
            self.taken, self.statements
        )?;
        for (count, what) in [
            (self.dropped, "late statements dropped"),
            (self.repeated, "taken before"),
            (self.refused, "refused"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

impl MessageSender<'_> {
    fn add(&mut self, message: Message) -> Result<(), CliError> {
        match &message.statements {
            Ok(statements) => {
                self.statements += statements.len() as u64;
                self.body.push(message);
            }
            Err(refused) => {
                // A number is left out: another body begins behind it.
                self.send_body()?;
                let place = (refused.line, refused.column);
                self.report(message.ordinal, place, &refused.reason);
            }
        }
        match self.statements >= self.args.batch {
            true => self.send_body(),
            false => Ok(()),
        }
    }

    /// Says why a message was refused.
    fn report(&mut self, ordinal: u64, (line, column): (u64, u64), reason: &str) {
        self.counts.refused += 1;
        if self.counts.refused <= SHOWN {
            let file = self.args.file.display();
            let number = self.number(ordinal);
            eprintln!("{file}, message {number}, line {line}, column {column}: {reason}");
        }
    }

    /// The number of the message that is the `ordinal`-th of the file, from 0.
    fn number(&self, ordinal: u64) -> u64 {
        self.args.seq.unwrap_or(1).saturating_add(ordinal)
    }

    /// Sends the messages so far, and those that the server did not look at again.
    fn send_body(&mut self) -> Result<(), CliError> {
        let mut body = std::mem::take(&mut self.body);
        self.statements = 0;
        let mut attempts = 0;
        while let Some(first) = body.first().map(|message| message.ordinal) {
            let text = text_of(&body)?;
            let sent = self
                .client
                .post_once(&self.address_of(first), &self.headers(), &text);
            let answered = match sent {
                Ok(answered) => answered,
                // A message with a number is safe to send again.
                Err(CliError::Unreachable(_) | CliError::CutOff(_))
                    if self.args.seq.is_some() && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    sleep(Duration::from_secs(1));
                    continue;
                }
                Err(error) => return Err(self.stopped(first, error)),
            };
            let looked_at = self.note(&body, &answered);
            let goes_on = answered.status.is_success();
            body.drain(..looked_at);
            attempts = if looked_at > 0 { 0 } else { attempts + 1 };
            if goes_on {
                break;
            }
            let is_full = answered.status == StatusCode::TOO_MANY_REQUESTS
                || answered.status == StatusCode::SERVICE_UNAVAILABLE;
            if !is_full || attempts >= ATTEMPTS {
                let first = first + looked_at as u64;
                return Err(self.stopped(first, answered.refusal()));
            }
            sleep(Duration::from_secs(answered.retry_after.unwrap_or(1)));
        }
        Ok(())
    }

    /// Counts an answer, and reports what it refuses. Returns how many messages were looked at.
    fn note(&mut self, body: &[Message], answered: &Answered) -> usize {
        let json = &answered.json;
        let count = |name: &str| json[name].as_u64().unwrap_or(0);
        let (taken, repeated, refused) = (count("taken"), count("repeated"), count("refused"));
        self.counts.taken += taken;
        self.counts.repeated += repeated;
        self.counts.statements += count("accepted");
        self.counts.dropped += count("dropped");
        let first = body.first().map_or(0, |message| message.ordinal);
        let base = match self.args.seq {
            Some(_) => self.number(first),
            None => 1,
        };
        let reasons = json["reasons"].as_array();
        let shown = reasons.map_or(0, Vec::len) as u64;
        for reason in reasons.into_iter().flatten() {
            let at = reason["number"]
                .as_u64()
                .unwrap_or(base)
                .saturating_sub(base);
            let message = body.get(usize::try_from(at).unwrap_or(usize::MAX));
            let line = message.map_or(0, |message| message.line);
            let sentence = reason["error"].as_str().unwrap_or_default().to_owned();
            self.report(first + at, (line, 1), &sentence);
        }
        self.counts.refused += refused.saturating_sub(shown);
        usize::try_from(taken + repeated + refused)
            .unwrap_or(body.len())
            .min(body.len())
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let media_type = MessageSyntax::NQuads.media_type().to_owned();
        let mut headers = vec![("Content-Type", media_type)];
        if let Some(at) = self.args.at {
            headers.push(("Event-Time-Ms", at.to_string()));
        }
        headers
    }

    /// The address for a body that begins with this message.
    fn address_of(&self, first: u64) -> String {
        let mut address = self.address.to_owned();
        if let Some(source) = &self.args.source {
            address.push_str(&format!("?source={}", segment(source)));
            if self.args.seq.is_some() {
                address.push_str(&format!("&seq={}", self.number(first)));
            }
        }
        address
    }

    fn stopped(&self, first: u64, error: impl fmt::Display) -> CliError {
        let (file, number) = (self.args.file.display(), self.number(first));
        CliError::Failed(format!(
            "{file}, from message {number} on: {error}; before: {}",
            self.counts
        ))
    }
}

fn text_of(body: &[Message]) -> Result<Vec<u8>, CliError> {
    let mut writer = MessageWriter::new(Vec::new(), MessageSyntax::NQuads);
    for message in body {
        let statements = message.statements.iter().flatten();
        writer.write(statements.map(|quad| quad.as_ref()))?;
    }
    Ok(writer.finish()?)
}

impl Answered {
    /// The server's sentence.
    fn refusal(&self) -> String {
        let sentence = self.json["error"].as_str().unwrap_or("the server refused");
        format!("{sentence} ({})", self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_name_syntaxes_of_messages() {
        for (name, syntax) in [
            ("votes.nt", MessageSyntax::NTriples),
            ("votes.ttl", MessageSyntax::Turtle),
            ("votes.ndjson", MessageSyntax::NdJsonLd),
        ] {
            assert_eq!(syntax_of(Path::new(name)).ok(), Some(syntax));
        }
        assert!(syntax_of(Path::new("votes.tsv")).is_err());
    }
}
