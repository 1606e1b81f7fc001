//! What a sink is: read from `CREATE SINK`, or from the text of `serve --sink`, which is
//! `name=NAME,query=QUERY,…,file=PATH`.
//!
//! The one thing to know before changing it: both texts become options of an endpoint, which are
//! read in one place.

use crate::file::FileSink;
#[cfg(feature = "mqtt")]
use crate::mqtt::{MqttOptions, MqttSink};
use crate::options::Options;
use crate::sink::{PORTION, Sink};
use crate::tls::{ClientTls, is_reachable};
use crate::webhook::WebhookSink;
use somersault::{DurableOptions, WhenFull};
use somersault_lang::{ConnectorOption, CreateSink, Endpoint};
use std::path::PathBuf;
use std::str::FromStr;

/// Answers that may be on their way to a webhook, unless its text says another number.
const IN_FLIGHT: usize = 4;

/// The options of the subscription of every sink.
const TERMS: [&str; 7] = [
    "from",
    "empties",
    "answers",
    "bytes",
    "deadline",
    "deadline-ms",
    "when-full",
];

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
    /// To a topic of an MQTT broker.
    #[cfg(feature = "mqtt")]
    Mqtt(MqttOptions),
}

impl SinkTarget {
    /// Returns the sink. `tls` says what it trusts at an https address.
    pub fn sink(&self, tls: &ClientTls) -> Box<dyn Sink> {
        match self {
            SinkTarget::File(path) => Box::new(FileSink::new(path)),
            SinkTarget::Webhook { url, in_flight } => {
                Box::new(WebhookSink::new(url, *in_flight, tls))
            }
            #[cfg(feature = "mqtt")]
            SinkTarget::Mqtt(options) => Box::new(MqttSink::new(options.clone())),
        }
    }

    /// Reads where answers go.
    fn read(name: &str, kind: &str, options: &Options) -> Result<SinkTarget, String> {
        match kind {
            "FILE" => Ok(SinkTarget::File(options.required("path")?.into())),
            "WEBHOOK" => {
                let url = webhook_url(options.required("url")?)?;
                let in_flight = options.number("in-flight")?.map(in_flight_of).transpose()?;
                Ok(SinkTarget::Webhook {
                    url,
                    in_flight: in_flight.unwrap_or(IN_FLIGHT),
                })
            }
            #[cfg(feature = "mqtt")]
            "MQTT" => Ok(SinkTarget::Mqtt(MqttOptions::read("sink", name, options)?)),
            other => Err(unknown_kind(other, "sinks", SINK_KINDS, name)),
        }
    }
}

/// The kinds of sinks that this program has.
const SINK_KINDS: &[&str] = &[
    "FILE",
    "WEBHOOK",
    #[cfg(feature = "mqtt")]
    "MQTT",
];

/// The refusal of a kind of connectors that this program does not have.
pub(crate) fn unknown_kind(kind: &str, what: &str, known: &[&str], name: &str) -> String {
    let why = match kind {
        "MQTT" => "this program was built without the feature mqtt",
        _ => "there is no such kind",
    };
    format!(
        "{name}: {kind}: {why}; the kinds of {what} are {}",
        known.join(", ")
    )
}

impl SinkSpec {
    /// Reads a CREATE SINK.
    ///
    /// # Errors
    /// A sentence that names the option, the kind or the format that cannot be.
    pub fn of(declared: &CreateSink) -> Result<SinkSpec, String> {
        match declared.into.format.as_deref() {
            None => {}
            Some(format) if format.eq_ignore_ascii_case("json") => {}
            Some(format) => {
                return Err(format!(
                    "FORMAT {format}: sinks write answers as JSON; write FORMAT JSON, or leave it out"
                ));
            }
        }
        SinkSpec::new(&declared.name, &declared.query, &declared.into)
    }

    fn new(name: &str, query: &str, into: &Endpoint) -> Result<SinkSpec, String> {
        if matches!(name, "." | "..") {
            return Err(format!(
                "name={name}: it is not a name over HTTP, because clients take it out of an address; choose another name"
            ));
        }
        let options = Options::of(into);
        let spec = SinkSpec {
            name: name.to_owned(),
            query: query.to_owned(),
            options: terms(&options)?,
            target: SinkTarget::read(name, &into.kind, &options)?,
        };
        options.finish()?;
        Ok(spec)
    }

    /// Whether sinks go beside one another: each has a subscription and a file of its own.
    ///
    /// # Errors
    /// A sentence that names the two that do not.
    pub fn check_together(specs: &[SinkSpec]) -> Result<(), String> {
        for (at, spec) in specs.iter().enumerate() {
            specs[..at]
                .iter()
                .try_for_each(|other| spec.check_beside(other))?;
        }
        Ok(())
    }

    /// Whether two sinks go beside one another.
    pub(crate) fn check_beside(&self, other: &SinkSpec) -> Result<(), String> {
        let SinkSpec { name, query, .. } = self;
        if (&other.name, &other.query) == (name, query) {
            return Err(format!(
                "two sinks of query {query} have the name {name}; give each a name of its own"
            ));
        }
        if let SinkTarget::File(file) = &self.target
            && self.target == other.target
        {
            return Err(format!(
                "the sinks {} and {name} write to the same file, {}; give each a file of its own",
                other.name,
                file.display()
            ));
        }
        Ok(())
    }
}

impl FromStr for SinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<SinkSpec, String> {
        let mut options = Vec::new();
        let mut rest = text;
        // The target comes last, because a path or an address may hold commas.
        let (kind, target) = loop {
            let Some((member, after)) = rest.split_once('=') else {
                return Err(format!(
                    "\"{text}\" does not say where the answers go; write name=NAME,query=QUERY,file=PATH or name=NAME,query=QUERY,webhook=URL"
                ));
            };
            match member {
                "file" if after.is_empty() => {
                    return Err(format!(
                        "\"{text}\" does not name its file; write file=PATH"
                    ));
                }
                "file" => break ("FILE", option("path", after)),
                "webhook" => break ("WEBHOOK", option("url", after)),
                _ => {}
            }
            let (value, next) = after.split_once(',').unwrap_or((after, ""));
            rest = next;
            options.push(option(member, value));
        };
        options.push(target);
        let take = |options: &mut Vec<ConnectorOption>, name: &str| {
            let at = options.iter().position(|option| option.name == name);
            let given = at.map(|at| options.remove(at).value);
            let given = given.filter(|value| !value.is_empty());
            given.ok_or_else(|| format!("\"{text}\" has no {name}=…, before its target"))
        };
        let name = take(&mut options, "name")?;
        let query = take(&mut options, "query")?;
        let into = Endpoint {
            kind: kind.to_owned(),
            options,
            format: None,
        };
        SinkSpec::new(&name, &query, &into)
    }
}

fn option(name: &str, value: &str) -> ConnectorOption {
    ConnectorOption {
        name: name.to_owned(),
        value: value.to_owned(),
        span: 0..0,
    }
}

/// Reads the terms of the subscription.
fn terms(options: &Options) -> Result<DurableOptions, String> {
    let mut terms = DurableOptions::default();
    let [
        from,
        empties,
        answers,
        bytes,
        deadline,
        deadline_ms,
        when_full,
    ] = TERMS;
    if let Some(value) = options.text(from) {
        terms.start = (value.parse())
            .map_err(|_| format!("{from}={value}: it is now or kept, or the id of a firing"))?;
    }
    if let Some(given) = options.flag(empties)? {
        terms.empties = given;
    }
    if let Some(number) = options.number(answers)? {
        terms.answers = number;
    }
    if let Some(number) = options.number(bytes)? {
        terms.bytes = number;
    }
    terms.deadline = options.duration(deadline)?;
    if let Some(ms) = options.number(deadline_ms)? {
        terms.deadline = Some(std::time::Duration::from_millis(ms));
    }
    if let Some(value) = options.text(when_full) {
        terms.when_full = WhenFull::of_text(&value)
            .ok_or_else(|| format!("{when_full}={value}: it is end or skip"))?;
    }
    Ok(terms)
}

/// More answers than a portion holds are never on their way.
fn in_flight_of(number: u64) -> Result<usize, String> {
    let fits = usize::try_from(number).ok().filter(|it| *it <= PORTION);
    fits.ok_or_else(|| format!("in-flight={number}: it is a whole number from 1 to {PORTION}"))
}

fn webhook_url(url: String) -> Result<String, String> {
    match is_reachable(&url) {
        true => Ok(url),
        false => Err(format!(
            "webhook={url}: it is an address that begins with http:// or, in a program that was built with TLS, with https://"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::DurableStart;
    use somersault_lang::{Parser, Statement};
    use std::time::Duration;

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
            (
                "name=n,query=q,topic=x,file=/x",
                "topic is no option of FILE",
            ),
            ("name=n,query=q,webhook=ftp://e/", "https://"),
            (
                "name=n,query=q,in-flight=2,file=/x",
                "in-flight is no option of FILE",
            ),
            (
                "name=n,query=q,in-flight=65,webhook=http://e/",
                "from 1 to 64",
            ),
        ] {
            let refused = text.parse::<SinkSpec>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    fn declared(text: &str) -> Result<SinkSpec, String> {
        match Parser::new().parse_statement(text) {
            Ok(Statement::CreateSink(sink)) => SinkSpec::of(&sink),
            other => panic!("{other:?}"),
        }
    }

    /// Both ways to declare a sink give the same one.
    #[test]
    fn a_declaration_and_a_text_give_the_same_sink() {
        for (declaration, text) in [
            (
                "CREATE SINK n FROM QUERY q INTO FILE (path = '/x', answers = 5, from = kept) FORMAT JSON",
                "name=n,query=q,answers=5,from=kept,file=/x",
            ),
            (
                "CREATE SINK n FROM STREAM <urn:q> INTO webhook (url = 'http://e/', in-flight = 2, deadline = 9s)",
                "name=n,query=urn:q,in-flight=2,deadline-ms=9000,webhook=http://e/",
            ),
        ] {
            assert_eq!(declared(declaration), text.parse(), "{text}");
        }
    }

    #[test]
    fn a_wrong_declaration_is_refused_with_a_sentence() {
        for (declaration, part) in [
            ("CREATE SINK n FROM QUERY q INTO PIGEON ()", "PIGEON"),
            (
                "CREATE SINK n FROM QUERY q INTO FILE ()",
                "needs the option path",
            ),
            (
                "CREATE SINK n FROM QUERY q INTO FILE (path = 'x') FORMAT CSV",
                "FORMAT JSON",
            ),
            (
                "CREATE SINK n FROM QUERY q INTO FILE (path = 'x', url = 'y')",
                "url is no option",
            ),
            (
                "CREATE SINK '..' FROM QUERY q INTO FILE (path = 'x')",
                "another name",
            ),
        ] {
            let refused = declared(declaration).expect_err(declaration);
            assert!(refused.contains(part), "{declaration}: {refused}");
        }
    }
}
