//! From declarations as `lang` reads them to shapes. The caller gives the uids of streams.
//!
//! Before changing anything here: no other room of this crate names `lang` or an IRI. This room is
//! the last, so that no other can import it. A shape follows from the text and the uids alone (S6).

use crate::refusal::Refusal;
use crate::shape::{
    BatchShape, Consumption, DataflowShape, Extent, OnAbort, Part, ProcedureShape, Recovery,
    StreamShape, StreamSource, TriggerEvent, TriggerShape, WindowShape,
};
use oxrdf::NamedNode;
use somersault_lang::{CreateStream, LatePolicy, procedure as declared};
use somersault_model::StreamUid;

impl StreamShape {
    /// The shape of a declared stream.
    pub fn of(stream: &CreateStream, uid: StreamUid) -> StreamShape {
        StreamShape {
            uid,
            name: stream.iri.as_str().to_owned(),
            source: match stream.source {
                somersault_lang::StreamSource::Outside => StreamSource::Pushed,
                somersault_lang::StreamSource::Interior => StreamSource::Interior,
            },
            amends: matches!(stream.late_policy, LatePolicy::Amend { .. }),
        }
    }
}

impl ProcedureShape {
    /// The shape of a declared procedure. `uid` gives the uids of streams.
    ///
    /// # Errors
    /// A stream has no uid.
    pub fn of(
        procedure: &declared::CreateProcedure,
        uid: impl Fn(&NamedNode) -> Option<StreamUid>,
    ) -> Result<ProcedureShape, Refusal> {
        let find = |stream: &NamedNode| {
            uid(stream).ok_or_else(|| Refusal::NoStream {
                procedure: procedure.name.clone(),
                stream: stream.as_str().to_owned(),
            })
        };
        let all = |streams: Vec<&NamedNode>| -> Result<Vec<_>, _> {
            streams.into_iter().map(find).collect()
        };
        let consumption = |consumed: &declared::ConsumedStream| {
            Ok(Consumption {
                stream: find(&consumed.stream)?,
                batch: batch(consumed.batch),
            })
        };
        let window = |owned: &declared::OwnedWindow| {
            Ok(WindowShape {
                name: owned.name.as_str().to_owned(),
                stream: find(&owned.stream)?,
                extent: extent(owned.extent),
            })
        };
        let trigger = |trigger: &declared::Trigger| {
            let on = match &trigger.event {
                declared::TriggerEvent::Slides(window) => {
                    TriggerEvent::Slides(window.as_str().to_owned())
                }
                declared::TriggerEvent::Into(stream) => TriggerEvent::Into(find(stream)?),
            };
            let emits = all(trigger.emits())?;
            Ok(TriggerShape { on, emits })
        };
        let consumes = procedure.consumes.iter().map(consumption);
        let windows = procedure.windows.iter().map(window);
        let triggers = procedure.triggers.iter().map(trigger);
        Ok(ProcedureShape {
            name: procedure.name.clone(),
            consumes: consumes.collect::<Result<_, _>>()?,
            windows: windows.collect::<Result<_, _>>()?,
            triggers: triggers.collect::<Result<_, _>>()?,
            emits: all(procedure.emits())?,
        })
    }
}

impl DataflowShape {
    /// The shape of a declared dataflow.
    pub fn of(dataflow: &declared::CreateDataflow) -> DataflowShape {
        let part = |part: &declared::DataflowPart| match part {
            declared::DataflowPart::Procedure(name) => Part::One(name.clone()),
            declared::DataflowPart::Nest(nest) => Part::Nest {
                names: nest.procedures.clone(),
                order: nest.order.clone(),
            },
        };
        DataflowShape {
            name: dataflow.name.clone(),
            parts: dataflow.parts.iter().map(part).collect(),
            recovery: match dataflow.recovery {
                declared::Recovery::Strong => Recovery::Strong,
                declared::Recovery::Weak => Recovery::Weak,
            },
            on_abort: match dataflow.on_abort {
                declared::OnAbort::Skip => OnAbort::Skip,
                declared::OnAbort::Stop => OnAbort::Stop,
            },
        }
    }
}

fn batch(extent: declared::BatchExtent) -> BatchShape {
    match extent {
        declared::BatchExtent::Messages(count) => BatchShape::Messages(count),
        declared::BatchExtent::Time(span) => BatchShape::Span(span),
    }
}

fn extent(extent: declared::OwnedExtent) -> Extent {
    match extent {
        declared::OwnedExtent::Last { messages, slide } => Extent::Last { messages, slide },
        declared::OwnedExtent::Range { range, slide } => Extent::Range { range, slide },
    }
}
