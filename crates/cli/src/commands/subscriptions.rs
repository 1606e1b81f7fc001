//! `subscriptions`: durable subscriptions on a server, created, shown, read, acknowledged and
//! deleted.

mod read;

use crate::args::{
    AckSubscriptionArgs, AtLimit, CreateSubscriptionArgs, ListSubscriptionsArgs,
    ShowSubscriptionArgs, SubscriptionName, SubscriptionsCommand,
};
use crate::client::{Client, json_of, segment};
use crate::error::CliError;
use crate::target::client_for;
use indicatif::{HumanBytes, HumanDuration};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

/// Carries out one of the subcommands.
///
/// # Errors
/// When the server cannot be reached or refuses, or a subscription that is read has ended.
pub(crate) fn run(command: &SubscriptionsCommand) -> Result<(), CliError> {
    match command {
        SubscriptionsCommand::List(args) => list(args),
        SubscriptionsCommand::Show(args) => show(args),
        SubscriptionsCommand::Create(args) => create(args),
        SubscriptionsCommand::Read(args) => read::run(args),
        SubscriptionsCommand::Ack(args) => ack(args),
        SubscriptionsCommand::Delete(args) => delete(args),
    }
}

/// The path of a subscription, or of something below it.
fn path(of: &SubscriptionName, below: &str) -> String {
    let (query, name) = (segment(&of.query), segment(&of.name));
    format!("/queries/{query}/subscriptions/{name}{below}")
}

/// Acknowledges all answers up to one; returns the subscription.
fn acknowledge(client: &Client, of: &SubscriptionName, id: &str) -> Result<Value, CliError> {
    let headers = [("Content-Type", "application/json")];
    let body = json!({ "id": id }).to_string();
    json_of(
        client
            .post(&path(of, "/ack"), &headers, body.as_bytes())?
            .body_mut(),
    )
}

fn list(args: &ListSubscriptionsArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let path = format!("/queries/{}/subscriptions", segment(&args.query));
    let answer = json_of(client.get(&path, &[])?.body_mut())?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{answer}")?;
    } else {
        for subscription in answer["subscriptions"].as_array().into_iter().flatten() {
            writeln!(out, "{}", line(subscription))?;
        }
    }
    Ok(out.flush()?)
}

fn show(args: &ShowSubscriptionArgs) -> Result<(), CliError> {
    let client = client_for(&args.of.server)?;
    let subscription = json_of(client.get(&path(&args.of, ""), &[])?.body_mut())?;
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{subscription}")?,
        false => writeln!(out, "{}", line(&subscription))?,
    }
    Ok(out.flush()?)
}

fn create(args: &CreateSubscriptionArgs) -> Result<(), CliError> {
    let client = client_for(&args.of.server)?;
    let mut terms = json!({
        "from": args.from,
        "empties": args.empties,
        "when_full": match args.when_full {
            AtLimit::End => "end",
            AtLimit::Skip => "skip",
        },
    });
    let limits = [
        ("answers", args.answers),
        ("bytes", args.bytes),
        ("deadline_ms", args.deadline.map(millis)),
    ];
    for (limit, value) in limits {
        if let Some(value) = value {
            terms[limit] = value.into();
        }
    }
    let created = client.put(&path(&args.of, ""), &terms.to_string())?;
    let what = match created.status().as_u16() {
        201 => "created",
        _ => "was there with the same terms",
    };
    let SubscriptionName { query, name, .. } = &args.of;
    println!("subscription {name} of query {query} {what}");
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ack(args: &AckSubscriptionArgs) -> Result<(), CliError> {
    let client = client_for(&args.of.server)?;
    println!("{}", line(&acknowledge(&client, &args.of, &args.id)?));
    Ok(())
}

fn delete(of: &SubscriptionName) -> Result<(), CliError> {
    client_for(&of.server)?.delete(&path(of, ""))?;
    println!("subscription {} of query {} deleted", of.name, of.query);
    Ok(())
}

/// A subscription as text: its place, the answers kept for it, and its terms.
pub(crate) fn line(subscription: &Value) -> String {
    let text = |member: &str| subscription[member].as_str().unwrap_or("?");
    let number = |member: &str| subscription[member].as_u64().unwrap_or_default();
    let time = |member: &str| {
        let ms = subscription[member].as_u64().map(Duration::from_millis);
        ms.map(|time| HumanDuration(time).to_string())
    };
    let mut line = format!("subscription {} of query {}: ", text("name"), text("query"));
    let _ = match (subscription["acknowledged"].as_str(), number("missed")) {
        (Some(id), 0) => write!(line, "acknowledged through {id}"),
        (Some(id), _) => write!(line, "acknowledged or let go through {id}"),
        (None, _) => write!(line, "nothing acknowledged yet"),
    };
    let _ = write!(
        line,
        ", {} answers kept ({}), {} of them read",
        number("waiting"),
        HumanBytes(number("waiting_bytes")),
        number("handed"),
    );
    if let Some(age) = time("oldest_age_ms") {
        let _ = write!(line, ", the oldest {} for {age}", text("oldest"));
    }
    if number("missed") > 0 {
        let _ = write!(line, "; {} answers were let go", number("missed"));
    }
    let _ = write!(
        line,
        "; at most {} answers, {}, {}",
        number("answers"),
        HumanBytes(number("bytes")),
        match time("deadline_ms") {
            Some(deadline) => format!("acknowledged within {deadline}"),
            None => "no deadline".to_owned(),
        }
    );
    match (subscription["ended"].as_str(), text("when_full")) {
        (Some(why), _) => _ = write!(line, "; {why}"),
        (None, "skip") => line.push_str(", then the oldest are let go"),
        (None, _) => line.push_str(", then it ends"),
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_says_what_is_kept_for_it() {
        let mut subscription = json!({
            "name": "billing", "query": "q", "acknowledged": null, "waiting": 0, "waiting_bytes": 0,
            "handed": 0, "oldest": null, "oldest_age_ms": null, "missed": 0, "answers": 10_000,
            "bytes": 64 << 20, "deadline_ms": null, "when_full": "end", "ended": null,
        });
        assert_eq!(
            line(&subscription),
            "subscription billing of query q: nothing acknowledged yet, 0 answers kept (0 B), 0 of them read; at most 10000 answers, 64.00 MiB, no deadline, then it ends"
        );
        for (member, value) in [
            ("acknowledged", json!("3:4000")),
            ("waiting", json!(2)),
            ("waiting_bytes", json!(2048)),
            ("handed", json!(1)),
            ("oldest", json!("3:5000")),
            ("oldest_age_ms", json!(60_000)),
            ("missed", json!(4)),
            ("deadline_ms", json!(7_200_000)),
            ("when_full", json!("skip")),
        ] {
            subscription[member] = value;
        }
        assert_eq!(
            line(&subscription),
            "subscription billing of query q: acknowledged or let go through 3:4000, 2 answers kept (2.00 KiB), 1 of them read, the oldest 3:5000 for 60 seconds; 4 answers were let go; at most 10000 answers, 64.00 MiB, acknowledged within 2 hours, then the oldest are let go"
        );
        subscription["ended"] = json!("it has ended");
        assert!(line(&subscription).ends_with("; it has ended"));
    }
}
