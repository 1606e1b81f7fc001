//! Refusals of declarations and calls, as sentences: what is wrong, where, and what to do.
//!
//! Before changing anything here: a refused statement changes nothing and is not logged.

/// Why a declaration or a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is its sentence")]
pub enum Refusal {
    #[error("a {kind} {name} exists; CREATE OR REPLACE replaces it")]
    NameTaken { kind: &'static str, name: String },
    #[error("there is no {kind} {name}; create it first")]
    NotFound { kind: &'static str, name: String },
    #[error(
        "procedure {procedure} names stream <{stream}>, which does not exist; create the stream first"
    )]
    NoStream { procedure: String, stream: String },
    #[error("stream <{name}> exists already")]
    StreamExists { name: String },
    #[error("stream <{stream}> is used by procedure {procedure}; drop the procedure first")]
    StreamInUse { stream: String, procedure: String },
    #[error(
        "stream <{stream}> is declared LATE AMEND, and procedure {procedure} cannot take back a batch that it consumed; declare the stream without LATE AMEND"
    )]
    StreamAmends { stream: String, procedure: String },
    #[error(
        "procedure {procedure} emits into stream <{stream}>, which clients push into; create the stream with INTERIOR"
    )]
    EmitsIntoPushed { procedure: String, stream: String },
    #[error("procedure {procedure} consumes stream <{stream}> twice; name it once")]
    ConsumedTwice { procedure: String, stream: String },
    #[error(
        "procedure {procedure} consumes stream <{stream}> in empty batches; the number or span after BATCH must be above zero"
    )]
    EmptyBatch { procedure: String, stream: String },
    #[error("the numbers and spans of window <{window}> must be above zero")]
    EmptyExtent { window: String },
    #[error("window <{window}> belongs to procedure {owner}; choose another name")]
    WindowOwned { window: String, owner: String },
    #[error("procedure {procedure} declares window <{window}> twice; remove one")]
    WindowTwice { procedure: String, window: String },
    #[error(
        "window <{window}> is on stream <{stream}>, which procedure {procedure} does not consume; add ON STREAM"
    )]
    WindowElsewhere {
        procedure: String,
        window: String,
        stream: String,
    },
    #[error(
        "procedure {procedure} uses window <{window}>, which {owner}; a window is visible to its owner alone"
    )]
    WindowOfAnother {
        procedure: String,
        window: String,
        owner: String,
    },
    #[error(
        "procedure {procedure} has a trigger on stream <{stream}>, which it does not emit into; add EMIT INTO or remove the trigger"
    )]
    TriggerWithoutEmission { procedure: String, stream: String },
    #[error("the procedures feed each other in a circle: {}; break it at one stream", way.join(", "))]
    Cycle { way: Vec<String> },
    #[error(
        "the triggers of procedure {procedure} set each other off in a circle: <{}>; break it at one stream",
        way.join(">, <")
    )]
    TriggerCycle { procedure: String, way: Vec<String> },
    #[error("procedure {procedure} stands twice in dataflow {dataflow}; name it once")]
    NamedTwice { procedure: String, dataflow: String },
    #[error("procedure {procedure} belongs to dataflow {dataflow}; drop or replace that one first")]
    InDataflow { procedure: String, dataflow: String },
    #[error("dataflow {dataflow} has no part; name a procedure")]
    NoPart { dataflow: String },
    #[error("ORDER names {name}, which is not in its NEST; add it to the NEST or remove it")]
    OrderOfStranger { name: String },
    #[error(
        "ORDER is against the streams or against itself: {}; turn a pair round or remove it",
        way.join(" before ")
    )]
    OrderAgainstStreams { way: Vec<String> },
    #[error(
        "procedure {procedure} consumes no stream, and a NEST runs on batches; take it out of the NEST and call it"
    )]
    CallInNest { procedure: String },
    #[error(
        "the nest of {consumer} consumes stream <{stream}> from inside the nest of {producer}; put them into one NEST, or take one of them out"
    )]
    FromInsideNest {
        consumer: String,
        stream: String,
        producer: String,
    },
    #[error(
        "procedure {procedure} consumes the interior stream <{stream}>, which no procedure may fill; create one that emits into it first"
    )]
    NotFilled { procedure: String, stream: String },
    #[error(
        "{messages} messages of stream <{stream}> wait for procedure {procedure}; let it consume them, or add DISCARD to DROP"
    )]
    MessagesWait {
        procedure: String,
        stream: String,
        messages: u64,
    },
    #[error("procedure {procedure} runs on the batches of its streams; it cannot be called")]
    CallOfStreaming { procedure: String },
    #[error(
        "number {number} of source {source_name} is older than the {remembered} numbers that are remembered; whether it was used is not known; use a new number"
    )]
    KeyForgotten {
        source_name: String,
        number: u64,
        remembered: usize,
    },
}
