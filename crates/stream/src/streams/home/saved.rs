//! The home of streams as a checkpoint holds it.
//!
//! Before changing anything here: effects are waited for, because each is cut as soon as its record
//! is applied; all else that waits for a cut is saved. Which streams have moved past their last cut
//! follows from their times.

use super::StreamHome;
use crate::protocol::command::ReadTexts;
use crate::protocol::declaration::RestoredTerms;
use crate::saved::streams::{
    BatchKind, SavedBatch, SavedMessage, SavedStream, ShownBatches, StreamRecord,
};
use crate::saved::{CoreRecord, RestoreError, contradiction};
use crate::streams::messages::KeptMessage;
use crate::streams::stream::{Stream, derived_declaration};
use somersault_lang::CreateStream;
use somersault_model::{Intern, Lease, StreamUid};

impl StreamHome {
    /// All streams, and what waits for a cut, as a checkpoint holds them.
    pub(crate) fn save(&self, out: &mut Vec<CoreRecord>) {
        for stream in self.streams.values() {
            stream.save(out);
        }
        self.closed.save(out);
        self.amendments.save(out);
    }

    /// The batches of each stream that an SN has shown, which are slices.
    pub(crate) fn shown(&self) -> Vec<ShownBatches> {
        self.streams.values().filter_map(Stream::shown).collect()
    }

    /// The leases on the terms of all statements that [`StreamHome::save`] gives.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        let open = self.streams.values().flat_map(Stream::leases);
        let waiting = self.closed.leases().chain(self.amendments.leases());
        open.chain(waiting).cloned().collect()
    }

    /// Takes a saved record, after those that came before it.
    pub(crate) fn restore(
        &mut self,
        record: StreamRecord,
        texts: &mut dyn ReadTexts,
        terms: &dyn RestoredTerms,
    ) -> Result<(), RestoreError> {
        match record {
            StreamRecord::Stream(saved) => self.restore_stream(*saved, texts, terms)?,
            StreamRecord::Sources(uid, sources) => self.saved_stream(uid)?.add_sources(sources)?,
            StreamRecord::Held(uid, held) => self.saved_stream(uid)?.add_held(held),
            StreamRecord::Numbered(uid, batches) => self.saved_stream(uid)?.add_numbered(batches),
            StreamRecord::Batch(batch) => self.restore_batch(batch, terms)?,
            StreamRecord::Facts(facts) => self.amendments.add_facts(facts),
            StreamRecord::Messages(uid, saved) => {
                self.saved_stream(uid)?.take_saved_messages(saved);
            }
            StreamRecord::Kept(uid, kept) => {
                for message in kept {
                    self.restore_message(uid, message, terms)?;
                }
            }
        }
        Ok(())
    }

    fn restore_stream(
        &mut self,
        saved: SavedStream,
        texts: &mut dyn ReadTexts,
        intern: &dyn Intern,
    ) -> Result<(), RestoreError> {
        let declaration = declaration_of(&saved, texts)?;
        let iri = declaration.iri.as_str();
        if self.streams.get(saved.uid).is_some() || self.streams.find(iri).is_some() {
            return contradiction(format!("stream <{iri}> is there twice"));
        }
        let stream = Stream::restore(saved, declaration, self.limits.ahead, intern);
        if stream.uncut_end(None).is_some() {
            self.moved.insert(stream.uid());
        }
        self.streams.insert(stream);
        Ok(())
    }

    fn restore_batch(
        &mut self,
        batch: SavedBatch,
        terms: &dyn RestoredTerms,
    ) -> Result<(), RestoreError> {
        let (uid, number) = (batch.stream, batch.number);
        let lease = saved_lease(uid, batch.epoch, terms)?;
        let stream = self.saved_stream(uid)?;
        let end = number.end(stream.interval());
        match batch.kind {
            BatchKind::Open => stream.open_batch(number).add_saved(batch, lease),
            BatchKind::Closed => {
                let (closed, _) = self.closed.entry((end, uid, number));
                closed.add_saved(batch, lease);
            }
            BatchKind::Late | BatchKind::Replaced => self.amendments.add_saved(batch, lease),
        }
        Ok(())
    }

    fn restore_message(
        &mut self,
        uid: StreamUid,
        message: SavedMessage,
        terms: &dyn RestoredTerms,
    ) -> Result<(), RestoreError> {
        let lease = saved_lease(uid, message.epoch, terms)?;
        let SavedMessage {
            place,
            at,
            statements,
            ..
        } = message;
        self.saved_stream(uid)?.add_kept(KeptMessage {
            place,
            at,
            statements: statements.into(),
            lease,
        })
    }

    fn saved_stream(&mut self, uid: StreamUid) -> Result<&mut Stream, RestoreError> {
        match self.streams.get_mut(uid) {
            Some(stream) => Ok(stream),
            None => contradiction(format!("there is no stream with the uid {}", uid.0)),
        }
    }
}

/// The lease that saved statements of a stream had.
fn saved_lease(
    uid: StreamUid,
    epoch: Option<u64>,
    terms: &dyn RestoredTerms,
) -> Result<Option<Lease>, RestoreError> {
    let lease = epoch.and_then(|epoch| terms.lease_of(uid, epoch));
    if lease.is_some() != epoch.is_some() {
        return contradiction(format!(
            "the dictionary has no terms of epoch {} of the stream with the uid {}",
            epoch.unwrap_or_default(),
            uid.0
        ));
    }
    Ok(lease)
}

/// The declaration of a saved stream.
fn declaration_of(
    saved: &SavedStream,
    texts: &mut dyn ReadTexts,
) -> Result<CreateStream, RestoreError> {
    let namespace = saved.namespace.as_deref();
    let declaration = match &saved.derived {
        None => texts.stream(&saved.text, namespace)?,
        Some(derived) => {
            let query = texts.query(&saved.text, namespace)?;
            let Some(stream) = &query.declaration().derives else {
                return contradiction(format!("query {} derives no stream", derived.name));
            };
            derived_declaration(stream, derived.batch, &saved.text)
        }
    };
    match declaration.batch.0 > 0 {
        true => Ok(declaration),
        false => contradiction(format!(
            "<{}> has no batch interval",
            declaration.iri.as_str()
        )),
    }
}
