//! Checks of one procedure's declaration: its streams, windows and triggers.

use super::Declarations;
use super::order::in_order;
use crate::refusal::Refusal;
use crate::shape::{
    BatchShape, Extent, ProcedureShape, ProcedureUid, StreamSource, TriggerEvent, WindowShape,
};
use somersault_model::StreamUid;
use std::collections::BTreeSet;

/// Whether a procedure may be declared under this uid.
pub(super) fn check(
    declared: &Declarations,
    uid: ProcedureUid,
    shape: &ProcedureShape,
) -> Result<(), Refusal> {
    check_streams(declared, shape)?;
    for window in &shape.windows {
        check_window(declared, uid, shape, window)?;
    }
    let slides = shape
        .triggers
        .iter()
        .filter_map(|trigger| match &trigger.on {
            TriggerEvent::Slides(window) => Some(window),
            TriggerEvent::Into(_) => None,
        });
    for window in slides {
        if !owns(shape, window) {
            let owner = declared
                .procedures
                .values()
                .find(|other| owns(other, window));
            return Err(Refusal::WindowOfAnother {
                procedure: shape.name.clone(),
                window: window.clone(),
                owner: match owner {
                    Some(owner) => format!("belongs to procedure {}", owner.name),
                    None => "no procedure owns".to_owned(),
                },
            });
        }
    }
    check_triggers(declared, shape)
}

fn owns(shape: &ProcedureShape, window: &str) -> bool {
    shape.windows.iter().any(|owned| owned.name == window)
}

fn check_streams(declared: &Declarations, shape: &ProcedureShape) -> Result<(), Refusal> {
    let procedure = || shape.name.clone();
    let find = |uid: StreamUid| {
        declared.streams.get(&uid).ok_or_else(|| Refusal::NoStream {
            procedure: procedure(),
            stream: declared.stream_name(uid),
        })
    };
    let mut consumed = BTreeSet::new();
    for consumption in &shape.consumes {
        let stream = find(consumption.stream)?;
        let stream_name = || stream.name.clone();
        if !consumed.insert(stream.uid) {
            return Err(Refusal::ConsumedTwice {
                procedure: procedure(),
                stream: stream_name(),
            });
        }
        let is_empty = match consumption.batch {
            BatchShape::Messages(count) => count == 0,
            BatchShape::Span(span) => span.0 <= 0,
        };
        if is_empty {
            return Err(Refusal::EmptyBatch {
                procedure: procedure(),
                stream: stream_name(),
            });
        }
        if stream.amends {
            return Err(Refusal::StreamAmends {
                procedure: procedure(),
                stream: stream_name(),
            });
        }
    }
    for emitted in &shape.emits {
        let stream = find(*emitted)?;
        if stream.source == StreamSource::Pushed {
            return Err(Refusal::EmitsIntoPushed {
                procedure: procedure(),
                stream: stream.name.clone(),
            });
        }
    }
    Ok(())
}

fn check_window(
    declared: &Declarations,
    uid: ProcedureUid,
    shape: &ProcedureShape,
    window: &WindowShape,
) -> Result<(), Refusal> {
    let name = || window.name.clone();
    let same = shape
        .windows
        .iter()
        .filter(|other| other.name == window.name);
    if same.count() > 1 {
        return Err(Refusal::WindowTwice {
            procedure: shape.name.clone(),
            window: name(),
        });
    }
    let others = declared
        .procedures
        .iter()
        .filter(|(other, _)| **other != uid);
    if let Some((_, owner)) = others
        .into_iter()
        .find(|(_, other)| owns(other, &window.name))
    {
        return Err(Refusal::WindowOwned {
            window: name(),
            owner: owner.name.clone(),
        });
    }
    let is_empty = match window.extent {
        Extent::Last { messages, slide } => messages == 0 || slide == 0,
        Extent::Range { range, slide } => range.0 <= 0 || slide.0 <= 0,
    };
    if is_empty {
        return Err(Refusal::EmptyExtent { window: name() });
    }
    let mut consumed = shape.consumes.iter();
    if !consumed.any(|consumption| consumption.stream == window.stream) {
        return Err(Refusal::WindowElsewhere {
            procedure: shape.name.clone(),
            window: name(),
            stream: declared.stream_name(window.stream),
        });
    }
    Ok(())
}

/// Each trigger is on something that happens in its procedure, and none sets itself off.
fn check_triggers(declared: &Declarations, shape: &ProcedureShape) -> Result<(), Refusal> {
    let mut streams: BTreeSet<StreamUid> = BTreeSet::new();
    let mut arrows: Vec<(StreamUid, StreamUid)> = Vec::new();
    for trigger in &shape.triggers {
        if let TriggerEvent::Into(stream) = trigger.on {
            if !shape.emits.contains(&stream) {
                return Err(Refusal::TriggerWithoutEmission {
                    procedure: shape.name.clone(),
                    stream: declared.stream_name(stream),
                });
            }
            streams.insert(stream);
            arrows.extend(trigger.emits.iter().map(|into| (stream, *into)));
        }
    }
    let streams: Vec<StreamUid> = streams.into_iter().collect();
    let number = |stream: &StreamUid| streams.binary_search(stream).ok();
    let edges = arrows.iter();
    let edges = edges
        .filter_map(|(from, to)| Some((number(from)?, number(to)?)))
        .collect();
    in_order(streams.len(), &edges)
        .map(|_| ())
        .map_err(|way| Refusal::TriggerCycle {
            procedure: shape.name.clone(),
            way: way
                .into_iter()
                .map(|at| declared.stream_name(streams[at]))
                .collect(),
        })
}
