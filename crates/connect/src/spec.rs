//! The text that declares a sink: `name=NAME,query=QUERY,…,file=PATH` or `…,webhook=URL`.

use crate::file::FileSink;
use crate::sink::{PORTION, Sink};
use crate::tls::{ClientTls, is_reachable};
use crate::webhook::WebhookSink;
use somersault::{DurableOptions, WhenFull};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Answers that may be on their way to a webhook, unless its text says another number.
const IN_FLIGHT: usize = 4;

/// A sink: its name, its query, and where its answers go.
///
/// ```
/// use somersault_connect::{SinkSpec, SinkTarget};
/// let text = "name=bill,query=orders,answers=500,file=/srv/orders.jsonl";
/// let spec: SinkSpec = text.parse().unwrap();
/// assert_eq!((spec.name.as_str(), spec.query.as_str()), ("bill", "orders"));
/// assert_eq!(spec.options.answers, 500);
/// assert_eq!(spec.target, SinkTarget::File("/srv/orders.jsonl".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkSpec {
    /// Its name, which is that of its durable subscription.
    pub name: String,
    /// The query whose answers it gets.
    pub query: String,
    /// The terms of its subscription.
    pub options: DurableOptions,
    /// Where the answers go.
    pub target: SinkTarget,
}

/// Where the answers of a sink go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkTarget {
    /// Into this file.
    File(PathBuf),
    /// By POST to this address.
    Webhook {
        /// The address.
        url: String,
        /// The number of answers that may be on their way.
        in_flight: usize,
    },
}

impl SinkTarget {
    /// Returns the sink. `tls` says what it trusts at an https address.
    pub fn sink(&self, tls: &ClientTls) -> Box<dyn Sink> {
        match self {
            SinkTarget::File(path) => Box::new(FileSink::new(path)),
            SinkTarget::Webhook { url, in_flight } => {
                Box::new(WebhookSink::new(url, *in_flight, tls))
            }
        }
    }
}

impl SinkSpec {
    /// Whether sinks go beside one another: each has a subscription and a file of its own.
    ///
    /// # Errors
    /// A sentence that names the two that do not.
    pub fn check_together(specs: &[SinkSpec]) -> Result<(), String> {
        for (at, spec) in specs.iter().enumerate() {
            let SinkSpec { name, query, .. } = spec;
            for other in &specs[..at] {
                if (&other.name, &other.query) == (name, query) {
                    return Err(format!(
                        "two sinks of query {query} have the name {name}; give each a name of its own"
                    ));
                }
                if let SinkTarget::File(file) = &spec.target
                    && spec.target == other.target
                {
                    return Err(format!(
                        "the sinks {} and {name} write to the same file, {}; give each a file of its own",
                        other.name,
                        file.display()
                    ));
                }
            }
        }
        Ok(())
    }
}

impl FromStr for SinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkSpec, String> {
        let (mut name, mut query) = (None, None);
        let mut options = DurableOptions::default();
        let mut in_flight = None;
        let mut rest = text;
        loop {
            let Some((member, after)) = rest.split_once('=') else {
                return Err(format!(
                    "\"{text}\" does not say where the answers go; write name=NAME,query=QUERY,file=PATH or name=NAME,query=QUERY,webhook=URL"
                ));
            };
            // The target comes last, because a path or an address may hold commas.
            let target = match member {
                "file" if after.is_empty() => {
                    return Err(format!(
                        "\"{text}\" does not name its file; write file=PATH"
                    ));
                }
                "file" if in_flight.is_some() => {
                    return Err(format!(
                        "\"{text}\" has in-flight, which a file does not take: its answers are written one after the other; leave it out"
                    ));
                }
                "file" => Some(SinkTarget::File(after.into())),
                "webhook" => Some(webhook(after, in_flight.unwrap_or(IN_FLIGHT))?),
                _ => None,
            };
            if let Some(target) = target {
                let given = |value: Option<String>, member: &str| {
                    let value = value.filter(|value| !value.is_empty());
                    value.ok_or_else(|| format!("\"{text}\" has no {member}=…, before its target"))
                };
                let name = given(name, "name")?;
                if matches!(name.as_str(), "." | "..") {
                    return Err(format!(
                        "name={name}: it is not a name over HTTP, because clients take it out of an address; choose another name"
                    ));
                }
                return Ok(SinkSpec {
                    name,
                    query: given(query, "query")?,
                    options,
                    target,
                });
            }
            let (value, next) = after.split_once(',').unwrap_or((after, ""));
            rest = next;
            match member {
                "name" => name = Some(value.to_owned()),
                "query" => query = Some(value.to_owned()),
                "in-flight" => in_flight = Some(in_flight_of(value)?),
                _ => set(&mut options, member, value)?,
            }
        }
    }
}

/// Sets a term of the subscription.
fn set(options: &mut DurableOptions, member: &str, value: &str) -> Result<(), String> {
    let expected = |what: &str| Err(format!("{member}={value}: it is {what}"));
    match member {
        "answers" => options.answers = number(member, value)?,
        "bytes" => options.bytes = number(member, value)?,
        "deadline-ms" => {
            options.deadline = Some(Duration::from_millis(number(member, value)?));
        }
        "empties" => match value {
            "true" => options.empties = true,
            "false" => options.empties = false,
            _ => return expected("true or false"),
        },
        "from" => match value.parse() {
            Ok(start) => options.start = start,
            Err(_) => return expected("now or kept, or the id of a firing"),
        },
        "when-full" => match WhenFull::of_text(value) {
            Some(term) => options.when_full = term,
            None => return expected("end or skip"),
        },
        _ => {
            return Err(format!(
                "\"{member}\" is no member of a sink; known are name, query, from, empties, answers, bytes, deadline-ms, when-full, in-flight, and last file or webhook"
            ));
        }
    }
    Ok(())
}

fn number(member: &str, value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{member}={value}: it is a whole number above 0"))
}

/// More answers than a portion holds are never on their way.
fn in_flight_of(value: &str) -> Result<usize, String> {
    let number = value
        .parse()
        .ok()
        .filter(|number| (1..=PORTION).contains(number));
    number.ok_or_else(|| format!("in-flight={value}: it is a whole number from 1 to {PORTION}"))
}

fn webhook(url: &str, in_flight: usize) -> Result<SinkTarget, String> {
    if !is_reachable(url) {
        return Err(format!(
            "webhook={url}: it is an address that begins with http:// or, in a program that was built with TLS, with https://"
        ));
    }
    Ok(SinkTarget::Webhook {
        url: url.to_owned(),
        in_flight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::DurableStart;

    #[test]
    fn a_target_may_hold_commas() {
        let spec: SinkSpec = "query=q,name=n,from=kept,when-full=skip,empties=true,deadline-ms=9,in-flight=1,webhook=http://e/a,b=c?d=e"
            .parse()
            .unwrap();
        let url = "http://e/a,b=c?d=e".to_owned();
        assert_eq!(spec.target, SinkTarget::Webhook { url, in_flight: 1 });
        let expected = DurableOptions {
            start: DurableStart::Kept,
            when_full: WhenFull::SkipOldest,
            empties: true,
            deadline: Some(Duration::from_millis(9)),
            ..DurableOptions::default()
        };
        assert_eq!(spec.options, expected);
    }

    #[test]
    fn two_sinks_share_neither_a_name_nor_a_file() {
        let check = |texts: &[&str]| {
            let specs: Vec<SinkSpec> = texts.iter().map(|text| text.parse().unwrap()).collect();
            SinkSpec::check_together(&specs)
        };
        let (a, b) = ("name=a,query=q,file=/x", "name=b,query=q,file=/x");
        assert!(check(&[a, b]).unwrap_err().contains("same file, /x"));
        let hook = "name=a,query=q,webhook=http://e/";
        assert!(check(&[a, hook]).unwrap_err().contains("have the name a"));
        let others = ["name=a,query=r,webhook=http://e/", "name=b,query=q,file=/y"];
        check(&[a, others[0], others[1]]).unwrap();
    }

    #[test]
    fn a_wrong_text_is_refused_with_a_sentence() {
        for (text, part) in [
            ("", "does not say where"),
            ("name=n,query=q", "does not say where"),
            ("query=q,file=/x", "has no name="),
            ("name=n,file=/x", "has no query="),
            ("name=,query=q,file=/x", "has no name="),
            ("name=n,query=q,file=", "does not name its file"),
            ("name=..,query=q,file=/x", "another name"),
            ("name=n,query=q,answers=0,file=/x", "whole number"),
            ("name=n,query=q,from=then,file=/x", "now or kept"),
            ("name=n,query=q,empties=1,file=/x", "true or false"),
            ("name=n,query=q,when-full=no,file=/x", "end or skip"),
            ("name=n,query=q,topic=x,file=/x", "no member of a sink"),
            ("name=n,query=q,webhook=ftp://e/", "https://"),
            ("name=n,query=q,in-flight=2,file=/x", "leave it out"),
            (
                "name=n,query=q,in-flight=65,webhook=http://e/",
                "from 1 to 64",
            ),
        ] {
            let refused = text.parse::<SinkSpec>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
