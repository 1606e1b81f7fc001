//! Procedures, dataflows and the core of transactions in a checkpoint. What streams keep for them
//! is with the coordinator.
//!
//! Before changing anything here: [`DeclarationRecord`] *is* the format, in postcard's encoding. A
//! variant may be added at the end, and nothing else may change. A restored state is checked
//! against the texts and the streams, so that no record leads to a panic later.

use super::restore::{in_file, own_file, unreadable};
use crate::error::RuntimeError;
use crate::replay::{logged_dataflow, logged_procedure};
use serde::{Deserialize, Serialize};
use somersault_checkpoint::{
    Coverage, FileKind, Manifest, NewCheckpoint, PieceReader, PieceRuns, PieceWriter,
};
use somersault_disk::Disk;
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_model::{Place, ProcedureUid, Sn, StreamUid};
use somersault_stream::Coordinator;
use somersault_txn::{Core, DataflowShape, ProcedureShape, SavedRecord};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A record of the file of transactions. Declarations come before the records of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DeclarationRecord {
    /// A procedure.
    Procedure {
        uid: ProcedureUid,
        text: String,
        /// The default namespace for bare names in `text`.
        namespace: Option<String>,
    },
    /// A dataflow.
    Dataflow {
        text: String,
        /// The default namespace for bare names in `text`.
        namespace: Option<String>,
    },
    /// A record of the core.
    Core(SavedRecord),
}

/// What a checkpoint says of procedures and dataflows; empty if nothing was ever declared.
#[derive(Default)]
pub(crate) struct RestoredTransactions {
    pub(crate) core: Core,
    pub(crate) procedures: BTreeMap<ProcedureUid, Arc<CreateProcedure>>,
    pub(crate) dataflows: BTreeMap<String, Arc<CreateDataflow>>,
}

/// Writes what is declared, if anything ever was.
pub(super) fn write_transactions(
    (new, before): (&mut NewCheckpoint<'_>, &PieceRuns),
    records: &[DeclarationRecord],
    sn: Sn,
    pause: impl Fn(),
) -> Result<PieceRuns, RuntimeError> {
    if records.is_empty() {
        return Ok(PieceRuns::default());
    }
    let mut writer = PieceWriter::new(new.create(FileKind::Transactions)?, before)?;
    for record in records {
        writer.push_value(record)?;
        pause();
    }
    Ok(writer.finish(new, Coverage::whole(sn))?)
}

/// Reads what was declared, and checks it against the streams of the checkpoint.
pub(super) fn restore_transactions(
    disk: &dyn Disk,
    manifest: &Manifest,
    coordinator: &Coordinator,
) -> Result<RestoredTransactions, RuntimeError> {
    let Some(file) = own_file(manifest, FileKind::Transactions) else {
        return Ok(RestoredTransactions::default());
    };
    let records = PieceReader::open(disk, manifest, file)?.into_records();
    let records = records.map(|record| record.map_err(RuntimeError::from));
    let restored = read_records(records).map_err(|error| in_file(file.name, error))?;
    check(&restored, coordinator).map_err(|what| {
        let file = file.name;
        let message = format!("{file}: {what}; start from the checkpoint before it");
        unreadable(manifest, message)
    })?;
    Ok(restored)
}

/// Reads what is declared from records that each follow their length in two bytes, where there is
/// no stream. Bytes that are no record are left out.
pub(crate) fn read_saved(bytes: &[u8]) -> Result<RestoredTransactions, String> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some(([low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (record, next) = after.split_at(length.min(after.len()));
        if let Ok(record) = postcard::from_bytes::<DeclarationRecord>(record) {
            records.push(Ok(record));
        }
        rest = next;
    }
    let restored = read_records(records.into_iter()).map_err(|error| error.to_string())?;
    check(&restored, &Coordinator::default())?;
    Ok(restored)
}

fn read_records(
    records: impl Iterator<Item = Result<DeclarationRecord, RuntimeError>>,
) -> Result<RestoredTransactions, RuntimeError> {
    let mut restored = RestoredTransactions::default();
    let (procedures, dataflows) = (&mut restored.procedures, &mut restored.dataflows);
    let of_core = records.filter_map(|record| match record {
        Ok(DeclarationRecord::Core(record)) => Some(Ok(record)),
        Ok(DeclarationRecord::Procedure {
            uid,
            text,
            namespace,
        }) => {
            let procedure = logged_procedure(&text, namespace.as_deref());
            let noted = procedure.map(|procedure| drop(procedures.insert(uid, procedure)));
            noted.err().map(Err)
        }
        Ok(DeclarationRecord::Dataflow { text, namespace }) => {
            let dataflow = logged_dataflow(&text, namespace.as_deref());
            let noted = dataflow.map(|dataflow| {
                dataflows.insert(dataflow.name.clone(), dataflow);
            });
            noted.err().map(Err)
        }
        Err(error) => Some(Err(error)),
    });
    restored.core = Core::restore(of_core)?;
    Ok(restored)
}

/// The texts declare what the core knows, on streams that keep all messages that it needs.
fn check(restored: &RestoredTransactions, coordinator: &Coordinator) -> Result<(), String> {
    let core = &restored.core;
    let streams: BTreeMap<String, StreamUid> = (coordinator.streams().iter())
        .map(|stream| (stream.declaration.iri.as_str().to_owned(), stream.uid))
        .collect();
    for stream in core.streams() {
        if streams.get(&stream.name) != Some(&stream.uid) {
            return Err(format!("its stream {} is another one", stream.name));
        }
        let (Some((first, _)), Some(next)) = (core.holder(stream.uid), core.next_place(stream.uid))
        else {
            continue;
        };
        let kept = coordinator.kept_messages(stream.uid);
        let kept = kept.map(|message| message.place);
        if !kept
            .filter(|place| *place >= first)
            .eq((first.0..next.0).map(Place))
        {
            return Err(format!(
                "messages of its stream {} are missing",
                stream.name
            ));
        }
    }
    let shape_of = |procedure: &Arc<CreateProcedure>| {
        let uid = |iri: &oxrdf::NamedNode| streams.get(iri.as_str()).copied();
        ProcedureShape::of(procedure, uid).ok()
    };
    let shapes = restored.procedures.iter();
    let shapes = shapes.map(|(uid, procedure)| (*uid, shape_of(procedure)));
    let known = core.procedures();
    if !shapes.eq(known.map(|(uid, shape)| (uid, Some(shape.clone())))) {
        return Err("its procedures are not those of its core".to_owned());
    }
    let dataflows = restored.dataflows.values();
    if !(dataflows.map(|dataflow| DataflowShape::of(dataflow))).eq(core.dataflows().cloned()) {
        return Err("its dataflows are not those of its core".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: &str = "urn:";

    fn text(name: &str) -> String {
        format!("CREATE PROCEDURE {name}() AS {{ INSERT DATA {{ <urn:a> <urn:p> 1 }} }}")
    }

    fn procedure(uid: u32, name: &str) -> DeclarationRecord {
        DeclarationRecord::Procedure {
            uid: ProcedureUid(uid),
            text: text(name),
            namespace: Some(NAMESPACE.to_owned()),
        }
    }

    /// The records of a core that knows these procedures.
    fn core(names: &[&str]) -> Vec<DeclarationRecord> {
        let mut core = Core::new();
        for name in names {
            let declared = logged_procedure(&text(name), None).unwrap();
            let create = somersault_txn::Command::CreateProcedure {
                shape: ProcedureShape::of(&declared, |_| None).unwrap(),
                or_replace: false,
                begins: Vec::new(),
            };
            core.apply(&somersault_txn::Event::Command(create)).unwrap();
        }
        let records = core.freeze().into_iter();
        records.map(DeclarationRecord::Core).collect()
    }

    fn restored(records: Vec<DeclarationRecord>) -> Result<RestoredTransactions, String> {
        let restored = read_records(records.into_iter().map(Ok));
        let restored = restored.map_err(|error| error.to_string())?;
        check(&restored, &Coordinator::default())?;
        Ok(restored)
    }

    #[test]
    fn texts_come_back_with_their_namespaces() {
        let declared = [procedure(1, "one"), procedure(2, "two")].into_iter();
        let records = declared.chain(core(&["one", "two"])).collect();
        let restored = restored(records).unwrap();
        let one = &restored.procedures[&ProcedureUid(1)];
        assert_eq!(one.namespace.as_deref(), Some(NAMESPACE));
        assert_eq!(
            (one.text.clone(), restored.procedures.len()),
            (text("one"), 2)
        );
    }

    #[test]
    fn texts_that_are_not_those_of_the_core_are_refused() {
        let declared: [&[DeclarationRecord]; 4] = [
            &[],
            &[procedure(2, "one")],
            &[procedure(1, "two")],
            &[procedure(1, "one"), procedure(2, "two")],
        ];
        for declared in declared {
            let records = declared.iter().cloned().chain(core(&["one"])).collect();
            let refused = restored(records).err().unwrap();
            assert!(refused.contains("procedures"), "{refused}");
        }
        let unread = DeclarationRecord::Dataflow {
            text: "CREATE".to_owned(),
            namespace: None,
        };
        let records = [unread].into_iter().chain(core(&[])).collect();
        restored(records).map(drop).unwrap_err();
        restored(vec![procedure(1, "one")]).map(drop).unwrap_err();
    }

    /// As docs/format.md says.
    #[test]
    fn records_have_these_bytes() {
        let bytes = |record: &DeclarationRecord| postcard::to_stdvec(record).unwrap();
        let dataflow = DeclarationRecord::Dataflow {
            text: "flow".to_owned(),
            namespace: None,
        };
        assert_eq!(bytes(&dataflow), *b"\x01\x04flow\x00");
        let procedure = DeclarationRecord::Procedure {
            uid: ProcedureUid(7),
            text: "text".to_owned(),
            namespace: Some("urn:".to_owned()),
        };
        assert_eq!(bytes(&procedure), *b"\x00\x07\x04text\x01\x04urn:");
        let end = DeclarationRecord::Core(SavedRecord::End(3));
        assert_eq!(bytes(&end), [2, 15, 3]);
    }
}
