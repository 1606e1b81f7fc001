//! The parts of the OpenAPI description that its operations refer to: schemas, parameters, errors.

use serde_json::{Value, json};

fn integer(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

fn optional(description: &str) -> Value {
    json!({ "type": ["integer", "null"], "format": "int64", "description": description })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn optional_text(description: &str) -> Value {
    json!({ "type": ["string", "null"], "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

fn optional_number(description: &str) -> Value {
    json!({ "type": ["number", "null"], "description": description })
}

fn list_of(schema: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{schema}") } })
}

fn refer(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Returns the schema of an object. Every property is always present, except those listed in
/// `absent`.
fn object(properties: Value, absent: &[&str]) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .map(|map| {
            map.keys()
                .filter(|key| !absent.contains(&key.as_str()))
                .collect()
        })
        .unwrap_or_default();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Returns every schema by its name.
pub(super) fn schemas() -> Value {
    together([
        answers(),
        checkpoints(),
        streams(),
        queries(),
        transactions(),
        tokens(),
        contexts(),
        connectors(),
    ])
}

/// An object with the members of several.
fn together(groups: impl IntoIterator<Item = Value>) -> Value {
    let members = groups.into_iter().filter_map(|group| match group {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect())
}

fn answers() -> Value {
    json!({
        "Anything": { "type": "object" },
        "Error": object(json!({
            "error": text("What was wrong, where, and what to do, in a sentence or two."),
            "code": text("A word for the kind of error, which does not change."),
            "line": integer("The line in the text that was sent, from 1."),
            "column": integer("The position in that line, in characters from 1."),
            "limit": text("The limit that was reached."),
            "limit_bytes": integer("The limit on the body."),
            "available": json!({ "type": "array", "items": { "type": "string" }, "description": "406: the available media types." }),
            "supported": json!({ "type": "array", "items": { "type": "string" }, "description": "415: the media types that this address reads." }),
        }), &["line", "column", "limit", "limit_bytes", "available", "supported"]),
        "UpdateSummary": object(json!({
            "sn": integer("The snapshot number in which the effects are visible."),
            "inserted": integer("Statements that were not there before."),
            "deleted": integer("Statements that were removed."),
        }), &[]),
        "GraphWrite": object(json!({
            "graph": optional_text("The graph's IRI; null for the default graph."),
            "created": flag("Whether the graph held nothing before."),
            "inserted": integer("Statements that were not there before."),
            "deleted": integer("Statements that were removed."),
            "sn": integer("The snapshot number in which this is visible."),
        }), &[]),
        "Health": object(json!({
            "status": json!({ "type": "string", "enum": ["ok", "degraded", "read_only", "failed", "stopping", "recovering"] }),
            "message": text("A sentence, with the remedy if there is one."),
            "stable_sn": integer("The snapshot number that one-shot queries see."),
            "stored_statements": integer("Statements stored, over all graphs."),
            "inflight_bytes": integer("Memory of pushes, loads and updates that are on their way to the shards."),
            "inflight_limit_bytes": integer("The limit of `inflight_bytes`; one larger input passes alone."),
            "checkpoints": json!({ "anyOf": [refer("Checkpoints"), { "type": "null" }], "description": "The checkpoints; null without a data folder that is written to." }),
            "sources": list_of("Source"),
            "sinks": list_of("Sink"),
            "auth": json!({ "anyOf": [object(json!({ "trouble": optional_text("Why the file of tokens or keys cannot be used; what was read before stays in use.") }), &[]), { "type": "null" }], "description": "How senders are identified; null if they are not." }),
            "tls": json!({ "anyOf": [object(json!({ "trouble": optional_text("Why the files of the certificate cannot be used; the one that was read before stays in use.") }), &[]), { "type": "null" }], "description": "The server's certificate; null if it speaks plain HTTP." }),
            "subscriptions": json!({ "type": "array", "items": refer("Subscription"), "description": "The durable subscriptions with the most waiting answers, at most 100." }),
            "stopped_dataflows": list_of("StoppedDataflow"),
            "absent_procedures": texts("Native procedures whose body the program has not registered: their calls and rounds wait."),
            "version": text("The server's version."),
        }), &[
            "message", "stable_sn", "stored_statements", "inflight_bytes", "inflight_limit_bytes",
            "checkpoints", "sources", "sinks", "subscriptions", "stopped_dataflows", "auth", "tls",
        ]),
        "Ticket": object(json!({
            "ticket": text("The ticket."),
            "expires_ms": integer("When it ends if it is not used, in milliseconds since 1970."),
        }), &[]),
        "Probe": object(json!({
            "status": json!({ "type": "string", "enum": ["live", "ready", "recovering", "stopping", "failed"] }),
        }), &[]),
        "Sink": object(json!({
            "name": text("Its name, which is that of its durable subscription."),
            "text": optional_text("Its declaration, with '***' in the place of passwords; null if the server was started with it (--sink)."),
            "query": text("The query's name."),
            "class": text("transactional or idempotent: which side drops repeats."),
            "state": one_of(&["running", "paused"]),
            "delivered": integer("The number of answers that it has delivered since its start."),
            "failures": integer("The number of attempts that failed since its start."),
            "last_error": optional_text("Why the newest attempt failed; null if none has failed since an answer was delivered."),
            "trouble": optional_text("Why it delivers nothing; null unless several attempts in a row have failed, or it cannot read its subscription."),
        }), &[]),
    })
}

fn one_of(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn connectors() -> Value {
    json!({
        "SourceList": object(json!({ "sources": list_of("Source") }), &[]),
        "SinkList": object(json!({ "sinks": list_of("Sink") }), &[]),
        "Source": object(json!({
            "name": text("Its name."),
            "href": text("Its address."),
            "text": optional_text("Its declaration, with '***' in the place of passwords."),
            "stream": text("The stream that it feeds."),
            "class": text("exactly once, or once per session: what happens to messages that come again."),
            "state": one_of(&["running", "connecting", "paused"]),
            "taken": integer("The number of messages that the stream has taken since its start."),
            "repeated": integer("The number of messages that the stream had taken before."),
            "refused": integer("The number of messages that were refused."),
            "dead_letters": integer("The number of these that went to the dead letters."),
            "bytes": integer("The length of all these messages."),
            "lag": optional("What waits where its messages come from, in its own unit (bytes of a file); null if that is not known."),
            "last_refused": json!({ "anyOf": [refer("RefusedMessage"), { "type": "null" }], "description": "The newest message that was refused." }),
            "failures": integer("The number of attempts that failed since its start."),
            "last_error": optional_text("Why the newest attempt failed; null if none has failed since."),
            "trouble": optional_text("Why it brings nothing; null unless several attempts in a row have failed."),
        }), &[]),
        "RefusedMessage": object(json!({
            "partition": text("Its partition."),
            "position": integer("Its position in the partition."),
            "reason": text("Why it was refused."),
        }), &[]),
    })
}

fn contexts() -> Value {
    json!({
        "ContextList": object(json!({ "contexts": list_of("Context") }), &[]),
        "Context": object(json!({
            "url": text("The URL by which documents name it."),
            "href": text("Its address here."),
            "bytes": integer("The bytes of its text."),
        }), &[]),
    })
}

fn tokens() -> Value {
    let token = || {
        json!({
            "id": text("The part of the token's text behind smr_; no secret."),
            "name": text("Its name."),
            "rights": json!({ "type": "array", "items": { "type": "string" }, "description": "Its rights, such as read:default or push:http://example.org/rooms/*." }),
            "created_ms": integer("When it was made, in milliseconds since 1970."),
            "expires_ms": optional("When it ends, in milliseconds since 1970; null if it does not."),
        })
    };
    let mut made = token();
    made["token"] = text("The token itself.");
    let mut new = token();
    if let Some(members) = new.as_object_mut() {
        members.retain(|name, _| ["name", "rights", "expires_ms"].contains(&name.as_str()));
    }
    json!({
        "TokenList": object(json!({ "tokens": list_of("Token") }), &[]),
        "Token": object(token(), &[]),
        "NewToken": object(new, &["expires_ms"]),
        "MadeToken": object(made, &[]),
    })
}

fn transactions() -> Value {
    let abort = || {
        json!({
            "procedure": text("The procedure whose abort it was."),
            "round": integer("The number of the round: of the border batch, or of the call that led to it."),
            "of_call": flag("Whether messages of a call led to it."),
            "reason": text("The reason."),
            "time_ms": integer("The event time of its batch."),
        })
    };
    let mut stopped = abort();
    stopped["dataflow"] = text("The dataflow.");
    json!({
        "Abort": object(abort(), &[]),
        "AbortList": object(json!({ "aborted": list_of("Abort"), "dropped": integer("The number of those before them, which are not kept.") }), &[]),
        "StoppedDataflow": object(stopped, &[]),
        "CallLine": object(json!({
            "call": text("The procedure; may be left out where the address names it."),
            "args": refer("Anything"),
            "key": text("source/number: a call with a key that was used is answered as before."),
        }), &["call", "args", "key"]),
        "ProcedureList": object(json!({ "procedures": list_of("Procedure") }), &[]),
        "Procedure": procedure(),
        "DataflowList": object(json!({ "dataflows": list_of("Dataflow") }), &[]),
        "Dataflow": dataflow(),
    })
}

fn maybe_abort(description: &str) -> Value {
    json!({ "anyOf": [refer("Abort"), { "type": "null" }], "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn procedure() -> Value {
    let parts = object(
        json!({ "name": text("Its name, without ?."), "kind": text("ANY, IRI, LITERAL or a datatype.") }),
        &[],
    );
    let consumed = object(
        json!({
            "stream": text("The stream."),
            "batch": text("What of it is one batch."),
            "batches": integer("Batches consumed, aborted ones included; of a stream that clients push into the number of the newest round."),
            "waiting_batches": integer("Complete batches that wait."),
            "waiting_messages": integer("Messages that wait, in complete batches or not."),
        }),
        &[],
    );
    let window = object(
        json!({ "name": text("Its name."), "stream": text("The stream whose messages it holds."), "window": text("What it holds.") }),
        &[],
    );
    object(
        json!({
            "name": text("Its name."),
            "href": text("Its address."),
            "call": optional_text("The address that calls it; null for a streaming procedure."),
            "text": text("The CREATE PROCEDURE text."),
            "body": json!({ "type": "string", "enum": ["STEPS", "NATIVE"], "description": "NATIVE where the program that runs the engine gives the body." }),
            "waits": optional_text("Why its calls and rounds wait: the program has not registered its body."),
            "parameters": json!({ "type": "array", "items": parts }),
            "streams": json!({ "type": "array", "items": consumed }),
            "windows": json!({ "type": "array", "items": window }),
            "emits": texts("The streams that it emits into."),
            "dataflow": optional_text("The dataflow that names it."),
            "last_abort": maybe_abort("The newest transaction that it aborted on a batch, if that is kept."),
        }),
        &[],
    )
}

fn dataflow() -> Value {
    object(
        json!({
            "name": text("Its name."),
            "href": text("Its address."),
            "aborted": text("The address of the transactions that aborted."),
            "text": text("The CREATE DATAFLOW text."),
            "state": json!({ "type": "string", "enum": ["running", "paused", "stopped"] }),
            "recovery": json!({ "type": "string", "enum": ["STRONG", "WEAK"] }),
            "on_abort": json!({ "type": "string", "enum": ["SKIP", "STOP"] }),
            "transactions": json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } }, "description": "The procedures that run as one transaction, in the order of a round." }),
            "rounds": integer("The number of the newest round that has begun."),
            "waiting_batches": integer("Complete batches that wait for its procedures."),
            "aborts": integer("The number of its transactions that aborted."),
            "last_abort": maybe_abort("The newest of them."),
            "stopped_by": maybe_abort("The abort that has stopped it."),
        }),
        &[],
    )
}

fn checkpoints() -> Value {
    json!({
        "Checkpoint": object(json!({
            "number": integer("Its number, which stands in the names of its files."),
            "position": integer("The last record of the log that it covers."),
            "sn": integer("The snapshot number that it holds."),
            "bytes": integer("The length of its files."),
            "written_bytes": integer("The length of those that it does not share with the checkpoint before it."),
            "seconds": number("The time that it took."),
        }), &[]),
        "Checkpoints": object(json!({
            "newest": json!({ "anyOf": [refer("NewestCheckpoint"), { "type": "null" }], "description": "The newest one; null if there is none." }),
            "under_way": flag("Whether one is being taken."),
            "log_bytes": integer("Bytes in the log behind the newest one."),
            "restart_seconds": number("The estimated time of a restart: reading the newest one and replaying the log behind it."),
            "failures": integer("Those that could not be written since the server started."),
            "last_error": optional_text("Why the newest attempt failed; null if it did not."),
        }), &[]),
        "NewestCheckpoint": object(json!({
            "number": integer("Its number, which stands in the names of its files."),
            "position": integer("The last record of the log that it covers."),
            "sn": integer("The snapshot number that it holds."),
            "bytes": integer("The length of its files."),
            "seconds": optional_number("The time that it took; null after a restart."),
            "age_seconds": optional_number("The age of the state that it holds; null without a clock."),
        }), &[]),
    })
}

fn streams() -> Value {
    json!({
        "StreamList": object(json!({ "streams": list_of("Stream") }), &[]),
        "Stream": object(json!({
            "iri": text("The stream's IRI."),
            "href": text("Its address on this server."),
            "text": text("The CREATE STREAM text, or that of the query that derives it."),
            "derived_by": optional_text("The query whose answers its statements are; null for a stream that is pushed to."),
            "batch_ms": integer("Its batch interval."),
            "complete_through_ms": optional("Every statement with an earlier event time has been seen; null before the first push or advance."),
            "stable_time_ms": optional("Event time through which it is visible."),
            "lag_ms": optional("The difference of the two."),
            "ahead_of_clock_ms": optional("How far complete_through_ms is ahead of the clock; null if it is not."),
            "tuples": integer("Statements taken."),
            "late": integer("Late statements dropped."),
            "amended": integer("Late statements taken, which amended closed batches (LATE AMEND)."),
            "batches": integer("Batches closed that held something."),
            "memory_bytes": integer("Memory of its slices."),
            "budget_bytes": integer("Limit on the memory of its slices."),
            "idle_ms": optional("After this time without data the clock advances it; null is never."),
            "sources": list_of("Source"),
            "sources_left_off": integer("The number of sources that are not shown; the first 1,000 are."),
        }), &["sources", "sources_left_off"]),
        "Source": object(json!({
            "source": text("Its name; empty for pushes that name none."),
            "taken": integer("The highest sequence number that was taken."),
            "durable": optional("The highest one that survives a crash; null without a data folder."),
            "checkpointed": optional("The highest one that the newest checkpoint covers; null if it covers none."),
        }), &[]),
        "PushReceipt": object(json!({
            "accepted": integer("Statements taken; 0 for a repeat."),
            "dropped": integer("Late statements that the stream dropped (LATE DROP)."),
            "repeated": flag("Whether this (stream, source, sequence number) had been taken before."),
        }), &[]),
        "PushOrMessagesReceipt": json!({ "oneOf": [
            { "$ref": "#/components/schemas/PushReceipt" },
            { "$ref": "#/components/schemas/MessagesReceipt" },
        ] }),
        "MessagesReceipt": object(json!({
            "taken": integer("Messages taken."),
            "repeated": integer("Messages whose (stream, source, number) had been taken before."),
            "refused": integer("Messages refused. Their numbers stay free."),
            "numbers": json!({ "type": "object", "description": "The numbers of the messages taken, repeated and refused, as runs [first, last]. Without sequence numbers they count the messages of the body, from 1." }),
            "reasons": json!({ "type": "array", "description": "Why messages were refused: number, line, column, code and a sentence, for the first 1,000.", "items": { "type": "object" } }),
            "accepted": integer("Statements taken."),
            "dropped": integer("Late statements that the stream dropped (LATE DROP)."),
            "dead_letters": integer("Refused documents that are durable in the stream for dead letters."),
            "dead_letter_error": json!({ "type": "string", "description": "Why some refused documents are not among the dead letters." }),
        }), &["dead_letter_error"]),
        "AdvanceOne": object(json!({ "to_ms": integer("Milliseconds since 1970.") }), &[]),
        "AdvanceSeveral": object(json!({
            "to_ms": integer("Milliseconds since 1970, for all streams."),
            "streams": json!({ "type": "object", "additionalProperties": { "type": "integer", "format": "int64" }, "description": "IRI to milliseconds since 1970." }),
        }), &["to_ms", "streams"]),
        "Advanced": object(json!({ "sn": integer("The snapshot number in which the closes that became due are stable.") }), &[]),
        "Reset": object(json!({ "dropped": integer("Statements that only windows could still have shown, and that are lost.") }), &[]),
    })
}

fn queries() -> Value {
    json!({
        "QueryList": object(json!({ "queries": list_of("Query"), "total": integer("The number of all registered queries."), "next": optional_text("The address of the next page; null on the last.") }), &[]),
        "Quantiles": object(json!({ "p50": integer("Half of the firings, in microseconds."), "p99": integer("99 of 100 firings, in microseconds.") }), &[]),
        "Window": object(json!({ "stream": text("The stream's IRI."), "window": text("The text between its brackets, as it was understood."), "range_ms": integer("RANGE; null for a window of statements, NOW and ALL."), "step_ms": integer("STEP, if the window has one in time.") }), &[]),
        "Reached": object(json!({
            "stream": text("The stream's IRI."),
            "complete_through_ms": optional("How far it is complete; null if it has no time yet."),
            "since_ms": optional("The time of its last advance, by the server's clock; null if it never advanced."),
            "close_ms": optional("In held_up_by: the close that waits for it; null until every stream has a time."),
        }), &["close_ms"]),
        "QueryGroup": object(json!({
            "queries": integer("The number of queries that differ only in names and constants, including this one."),
            "combinations": integer("The number of different combinations of their constants."),
            "together": flag("Whether all combinations are evaluated together; otherwise each is evaluated alone."),
        }), &[]),
        "NewQuery": object(json!({
            "name": text("Its name; may be left out if the text has one."),
            "query": text("Its text."),
        }), &["name"]),
        "BatchSummary": object(json!({
            "lines": integer("The number of lines."),
            "registered": integer("The number of new queries."),
            "unchanged": integer("The number of queries that were registered before under the same name with the same text."),
            "refused": integer("The number of refused lines."),
            "errors": json!({ "type": "array", "items": object(json!({
                "line": integer("The number of the line, from 1."),
                "name": optional_text("The name in the line."),
                "error": text("The reason, in a sentence."),
            }), &[]), "description": "The refused lines, the first 1,000 of them." }),
            "errors_left_off": integer("The number of refused lines that are not listed."),
        }), &[]),
        "Query": object(json!({
            "name": text("Its name."),
            "uid": integer("Its number; each registration has a new one."),
            "href": text("Its address on this server."),
            "results": text("The address of its answers."),
            "text": text("Its text as registered."),
            "windows": list_of("Window"),
            "live": flag("Whether it is a live query: it has no window, and fires when the stored graphs change."),
            "every_ms": optional("The shortest time between two firings of a live query (EVERY); null without it."),
            "paused": flag("Whether it is paused."),
            "group": json!({ "anyOf": [refer("QueryGroup"), { "type": "null" }], "description": "Its group; null for a query without one." }),
            "firings": integer("Firings so far, including empty ones. After a restart it counts the firings executed since, including those that are kept."),
            "amended": integer("Firings for closes that were answered before, and whose windows late statements amended."),
            "skipped": integer("Firings that were not executed because a newer one was due (ON OVERLOAD SKIP)."),
            "derives": optional_text("The stream that its answers fill (REGISTER STREAM); null for a query."),
            "rows": integer("Rows in all of them."),
            "last_close_ms": optional("The newest close that has been answered; of a live query, the time of the snapshot."),
            "next_close_ms": optional("The close that it fires for next; null while it is paused or one of its streams has no time."),
            "streams": list_of("Reached"),
            "held_up_by": json!({ "anyOf": [refer("Reached"), { "type": "null" }], "description": "The stream that the next close waits for: the one furthest behind." }),
            "passed_in_bulk": integer("Closes that were skipped without a firing, because a jump in time left their windows empty."),
            "passed_while_paused": integer("Closes that passed while it was paused."),
            "last_error": optional_text("The newest firing's error, if it failed."),
            "subscribers": integer("Open event streams."),
            "execution_us": refer("Quantiles"),
            "delay_us": refer("Quantiles"),
            "waiting_us": refer("Quantiles"),
            "replaced": json!({ "anyOf": [refer("Replaced"), { "type": "null" }], "description": "Only in the answer to a registration with `replace`: the query that was replaced; null if there was none, or the same." }),
        }), &["replaced"]),
        "Replaced": object(json!({
            "uid": integer("The number that the old query had."),
            "after_ms": optional("The old query answers the closes up to this time, the new one those after it; null while none of their streams has a time."),
        }), &[]),
        "SubscriptionTerms": object(json!({
            "from": text("The first answer: now (the default), that of the next firing to become due; kept, the oldest one that is kept; or the one after the event with this id."),
            "answers": integer("The number of answers that are kept for it at most (10,000)."),
            "bytes": integer("The memory of the answers that are kept for it at most (64 MiB)."),
            "deadline_ms": optional("The time within which an answer is to be acknowledged; after a restart it begins again."),
            "empties": flag("Whether it also has answers without rows."),
            "when_full": json!({ "type": "string", "enum": ["end", "skip"], "default": "end", "description": "At a limit: the subscription ends, or its oldest answers are let go." }),
        }), &["from", "answers", "bytes", "deadline_ms", "empties", "when_full"]),
        "Acknowledgement": object(json!({ "id": text("The id of an event.") }), &[]),
        "SubscriptionList": object(json!({ "subscriptions": list_of("Subscription") }), &[]),
        "Subscription": object(json!({
            "query": text("The query's name."),
            "uid": integer("The query's number."),
            "name": text("Its name."),
            "href": text("Its address on this server."),
            "results": text("The address of its answers."),
            "ack": text("The address for acknowledgements."),
            "answers": integer("The number of answers that are kept for it at most."),
            "bytes": integer("Their memory at most."),
            "deadline_ms": optional("The time within which an answer is to be acknowledged."),
            "empties": flag("Whether it also has answers without rows."),
            "when_full": text("end or skip."),
            "acknowledged": optional_text("The id of the newest answer that was acknowledged or let go; null before the first."),
            "waiting": integer("The number of answers that are kept for it."),
            "waiting_bytes": integer("Their memory."),
            "handed": integer("The number of those that a reader was sent."),
            "oldest": optional_text("The id of the oldest of them."),
            "oldest_age_ms": optional("How long the oldest has been ready."),
            "newest": optional_text("The id of the newest of them."),
            "acknowledged_total": integer("The number of answers that were acknowledged since the server was started."),
            "acknowledged_age_ms": optional("The time since the last of these acknowledgements."),
            "repeats": integer("How often an answer was sent to a reader again since the server was started."),
            "missed": integer("The number of answers that were let go since the last acknowledgement."),
            "ended": optional_text("Why it has ended; null while it goes on."),
        }), &[]),
        "NextAnswers": object(json!({
            "answers": list_of("Firing"),
            "missed": integer("The number of answers that were let go since the last acknowledgement."),
            "ended": optional_text("Why the subscription has ended; null while it goes on."),
        }), &[]),
        "Firing": object(json!({
            "id": text("The id of the event, for acknowledgements."),
            "query": text("The query's name."),
            "uid": integer("The query's number; a new registration has a new one."),
            "close_ms": integer("The close; also the event's id, unless the revision or the ordinal is above 0."),
            "revision": integer("0; above 0 for firings that late statements amended."),
            "ordinal": integer("Distinguishes firings for the same close; with uid, close and revision it is the firing's key."),
            "sn": integer("The snapshot number that it saw."),
            "complete_from_ms": integer("The windows are complete only from here on."),
            "execution_us": integer("From the start of execution to the answer."),
            "delay_us": integer("From the acknowledgement of the last statement that it needed to its answer."),
            "waiting_us": integer("The part of the delay spent waiting behind other queries."),
            "results": json!({ "type": ["object", "string"], "description": "SPARQL 1.1 JSON results for SELECT and ASK; N-Triples in a string for CONSTRUCT and DESCRIBE." }),
            "error": text("In place of results: the reason why this firing has none."),
        }), &["complete_from_ms", "results", "error"]),
    })
}

/// Returns every parameter by its name here.
pub(super) fn parameters() -> Value {
    together([parts_of_paths(), other_parameters()])
}

fn parts_of_paths() -> Value {
    let path = |name: &str, description: &str| json!({ "name": name, "in": "path", "required": true, "description": description, "schema": { "type": "string" } });
    json!({
        "id": path("id", "The id of a token, or its name."),
        "path": path("path", "The rest of the graph's URL; may hold slashes."),
        "stream": path("name", "The stream's IRI, percent-encoded."),
        "name": path("name", "The query's name, percent-encoded."),
        "who": path("who", "The subscription's name, percent-encoded."),
        "procedure": path("name", "The procedure's name, percent-encoded."),
        "context": path("name", "The URL of the context, percent-encoded."),
        "source_name": path("name", "The source's name, percent-encoded."),
        "sink_name": path("name", "The sink's name, percent-encoded."),
        "dataflow": path("name", "The dataflow's name, percent-encoded."),
    })
}

fn other_parameters() -> Value {
    let iri = || json!({ "type": "string", "format": "iri" });
    let iris = || json!({ "type": "array", "items": { "type": "string", "format": "iri" } });
    let number = || json!({ "type": "integer", "format": "int64" });
    let switch = || json!({ "type": "boolean", "default": false });
    let string = || json!({ "type": "string" });
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let header = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "description": description, "schema": schema });
    json!({
        "ticket": query("ticket", "A ticket in place of the Authorization header.", string()),
        "query": { "name": "query", "in": "query", "required": true, "description": "The SPARQL text.", "schema": string() },
        "analyze": query("analyze", "Also runs the query, and shows actual rows; a call is undone.", switch()),
        "default-graph-uri": query("default-graph-uri", "A graph of the default graph; replaces the query's own dataset.", iris()),
        "named-graph-uri": query("named-graph-uri", "A named graph; replaces the query's own dataset.", iris()),
        "using-graph-uri": query("using-graph-uri", "A graph of the default graph of WHERE; the update must have no USING or WITH.", iris()),
        "using-named-graph-uri": query("using-named-graph-uri", "A named graph of WHERE; the update must have no USING or WITH.", iris()),
        "timeout_ms": query("timeout_ms", "A shorter time limit than the server's.", number()),
        "graph": query("graph", "The IRI of a named graph.", iri()),
        "default": { "name": "default", "in": "query", "description": "The default graph; takes no value.", "allowEmptyValue": true, "schema": string() },
        "answers": query("limit", "The number of answers at most (100; up to 1,000).", number()),
        "wait_ms": query("wait_ms", "How long to wait if no answer is ready (0; up to 60,000).", number()),
        "Event-Time-Ms": header("Event-Time-Ms", "The event time of the whole body in milliseconds since 1970.", number()),
        "Event-Time": header("Event-Time", "The same as an RFC 3339 date-time, to the millisecond.", json!({ "type": "string", "format": "date-time" })),
        "Push-Source": header("Push-Source", "Who sends. Each source of a stream is ordered for itself.", string()),
        "Push-Sequence": header("Push-Sequence", "The sender's running number; one that is not above the newest of its source is a repeat, and dropped.", number()),
        "event_time_ms": query("event_time_ms", "As Event-Time-Ms.", number()),
        "source": query("source", "As Push-Source.", string()),
        "seq": query("seq", "As Push-Sequence.", number()),
        "Last-Event-ID": header("Last-Event-ID", "Continue after the event with this id, or after the firing with this close time.", string()),
        "lastEventId": query("lastEventId", "As Last-Event-ID, which takes precedence.", string()),
        "from": query("from", "The beginning without an id: the oldest firing that is kept, or the next one.", json!({ "type": "string", "enum": ["kept", "now"], "default": "kept" })),
        "after": query("after", "Only queries whose names come after this one.", string()),
        "limit": query("limit", "The maximum number of queries.", json!({ "type": "integer", "minimum": 1, "maximum": 10000, "default": 1000 })),
        "replace": query("replace", "Replaces the query of this name, if there is one.", switch()),
        "format": query("format", "A drawing in text, or DOT for Graphviz.", json!({ "type": "string", "enum": ["text", "dot"], "default": "text" })),
        "discard": query("discard", "Also if messages wait for the procedure, which are given up.", switch()),
        "Idempotency-Key": header("Idempotency-Key", "source/number: a call with a key that was used is not run again; it is answered as before.", string()),
        "message-from": query("from", "The beginning without an id: the next message, or the first one that is kept.", json!({ "type": "string", "enum": ["now", "kept"], "default": "now" })),
        "count": query("count", "The number of messages after which the answer ends.", json!({ "type": "integer", "minimum": 0 })),
        "empties": query("empties", "Also firings without rows; those of a live query are always sent.", switch()),
    })
}

pub(super) fn errors() -> Value {
    let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } }, "text/plain": { "schema": { "type": "string" } } });
    let error = |description: &str| json!({ "description": description, "content": content });
    json!({
        "400": error("The request is malformed, or cannot be accepted; line and column if there is a text."),
        "401": error("The server asks for a token, and there is none or it is not valid."),
        "403": error("The token lacks a right, which `right` names; or a web page of another origin asks."),
        "404": error("There is no such stream, query or graph."),
        "406": error("None of the media types that the client accepts is available; `available` lists those that are."),
        "408": error("The client stopped sending the body."),
        "409": error("The name belongs to something else, or the state does not allow it."),
        "410": error("The wanted messages are not kept any more; `first` is the first place that is."),
        "413": error("The body or the push is over its limit, which is named."),
        "415": error("This address does not read the body's media type; `supported` lists those that it reads."),
        "422": error("The query is valid, but was not answered: it reached a limit, which is named, or its evaluation failed."),
        "429": error("The stream's memory budget is used up, too many bytes of inputs are on their way, or the token has used what it may; Retry-After says when to try again."),
        "500": error("A fault of the server."),
        "503": error("Not now: too many requests at one time, or a disk or server that has failed or is stopping. Retry-After says when to try again."),
        "507": error("The disk is full: inputs are refused, and taken again once there is room. Retry-After says when to try again."),
    })
}
