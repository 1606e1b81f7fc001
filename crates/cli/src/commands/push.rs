//! `push`: a file of statements into a stream, in pushes of bounded size.

mod documents;
mod messages;

use crate::args::PushArgs;
use crate::client::{Client, segment};
use crate::error::CliError;
use crate::files;
use crate::target::client_for;
use serde_json::Value;
use std::fmt;
use std::io::{BufRead, BufReader};
use ureq::Body;
use ureq::http::Response;

/// Pushes the file; each push is acknowledged when it is durable.
///
/// # Errors
/// With the server's sentence, and how many statements were acknowledged before.
pub(crate) fn run(args: &PushArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let address = format!("/streams/{}", segment(&args.stream));
    if args.documents {
        documents::run(args, &client, &address)?;
        return advance(args, &client, &address);
    }
    if args.messages {
        messages::run(args, &client, &address)?;
        return advance(args, &client, &address);
    }
    let bar = files::byte_bar();
    let input = files::open(&args.file, &bar)?;
    let mut sender = Sender {
        client: &client,
        address: &address,
        args,
        seq: args.seq,
        acknowledged: 0,
        counts: Counts::default(),
    };
    if let Some(at) = args.at {
        let format = files::rdf_format(&input.stem)?;
        let at = at.to_string();
        sender.send(
            &[
                ("Content-Type", format.media_type()),
                ("Event-Time-Ms", &at),
            ],
            input.reader,
        )?;
    } else {
        sender.send_lines(BufReader::new(input.reader))?;
    }
    bar.finish_and_clear();
    advance(args, &client, &address)?;
    println!("{}: {}", args.file.display(), sender.counts);
    Ok(())
}

/// Advances the stream afterwards, if that was asked for.
fn advance(args: &PushArgs, client: &Client, address: &str) -> Result<(), CliError> {
    if let Some(to) = args.advance {
        let body = format!("{{\"to_ms\":{to}}}");
        client.post(
            &format!("{address}/advance"),
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        )?;
    }
    Ok(())
}

struct Sender<'a> {
    client: &'a Client,
    address: &'a str,
    args: &'a PushArgs,
    seq: Option<u64>,
    acknowledged: u64,
    counts: Counts,
}

/// The server's counts of the pushes so far.
#[derive(Debug, Default)]
struct Counts {
    accepted: u64,
    dropped: u64,
    /// Pushes that had been taken before.
    repeated: u64,
}

impl Counts {
    /// Adds the server's answer to one push.
    fn add(&mut self, mut answer: Response<Body>) {
        let body = answer.body_mut().read_to_string().unwrap_or_default();
        let json: Value = serde_json::from_str(&body).unwrap_or_default();
        self.accepted += json["accepted"].as_u64().unwrap_or(0);
        self.dropped += json["dropped"].as_u64().unwrap_or(0);
        self.repeated += u64::from(json["repeated"] == true);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} statements pushed and durable", self.accepted)?;
        if self.dropped > 0 {
            write!(f, ", {} late ones dropped", self.dropped)?;
        }
        if self.repeated > 0 {
            let noun = if self.repeated == 1 { "push" } else { "pushes" };
            write!(f, ", {} {noun} taken before", self.repeated)?;
        }
        Ok(())
    }
}

impl Sender<'_> {
    /// Cuts the lines into pushes; statements of one event time stay in one push.
    fn send_lines(&mut self, reader: impl BufRead) -> Result<(), CliError> {
        let mut batch = String::new();
        let (mut first_line, mut statements) = (1, 0_u64);
        let mut last_time = String::new();
        for line in reader.lines() {
            let line = line.map_err(|error| {
                CliError::failed(
                    format_args!("cannot read {}", self.args.file.display()),
                    error,
                )
            })?;
            let time = line.split('\t').next().unwrap_or_default();
            if statements >= self.args.batch && time != last_time {
                self.send_batch(&batch, first_line, statements)?;
                batch.clear();
                first_line += statements;
                statements = 0;
            }
            time.clone_into(&mut last_time);
            batch.push_str(&line);
            batch.push('\n');
            statements += 1;
        }
        if statements > 0 {
            self.send_batch(&batch, first_line, statements)?;
        }
        Ok(())
    }

    fn send_batch(
        &mut self,
        batch: &str,
        first_line: u64,
        statements: u64,
    ) -> Result<(), CliError> {
        let address = self.address();
        let headers = [("Content-Type", "text/tab-separated-values")];
        // The stream's budget slows the file down; it loses nothing.
        let sent = (self.client).post_patiently(&address, &headers, batch.as_bytes());
        self.acknowledge(sent, first_line)?;
        self.acknowledged += statements;
        Ok(())
    }

    fn send(&mut self, headers: &[(&str, &str)], body: impl std::io::Read) -> Result<(), CliError> {
        let address = self.address();
        let sent = self.client.post(&address, headers, body);
        self.acknowledge(sent, 1)
    }

    /// The address of the next push, with its source and number.
    fn address(&mut self) -> String {
        let mut address = self.address.to_owned();
        if let Some(source) = &self.args.source {
            address.push_str(&format!("?source={}", segment(source)));
            if let Some(seq) = self.seq.as_mut() {
                address.push_str(&format!("&seq={seq}"));
                *seq += 1;
            }
        }
        address
    }

    /// Counts the answer to a push whose first line has this number in the file. The server counts
    /// lines within the push.
    fn acknowledge(
        &mut self,
        sent: Result<Response<Body>, CliError>,
        first_line: u64,
    ) -> Result<(), CliError> {
        let file = self.args.file.display();
        sent.map(|answer| self.counts.add(answer)).map_err(|error| {
            CliError::Failed(match self.acknowledged {
                0 => format!("{file}: {error}"),
                before => format!(
                    "{file}, in the push that begins at line {first_line}: {error}; {before} statements were acknowledged before"
                ),
            })
        })
    }
}
