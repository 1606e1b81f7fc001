//! The live queries as a checkpoint holds them.
//!
//! Before changing anything here: what a query reads follows from its text. When it fired last, and
//! whether something has changed for it since, does not.

use super::{LiveQueries, LiveQuery, patterns};
use crate::protocol::declaration::LiveDeclaration;
use crate::saved::queries::SavedLiveQuery;
use crate::saved::{CoreRecord, RestoreError, contradiction, portions};
use somersault_model::{EventTime, Intern, QueryUid};

impl LiveQueries {
    /// All queries as a checkpoint holds them.
    pub(crate) fn save(&self, out: &mut Vec<CoreRecord>) {
        let queries = self.queries.iter().map(|(uid, query)| SavedLiveQuery {
            uid: *uid,
            is_running: query.is_running,
            newest: query.newest,
            is_touched: self.is_touched(*uid),
        });
        let now = self.now;
        out.extend(portions(queries).map(|queries| CoreRecord::Live(now, queries)));
    }

    /// Takes a saved record. `declaration` gives those of its queries.
    pub(crate) fn restore<'q>(
        &mut self,
        (now, saved): (EventTime, Vec<SavedLiveQuery>),
        declaration: impl Fn(QueryUid) -> Option<&'q LiveDeclaration>,
        terms: &(impl Intern + ?Sized),
    ) -> Result<(), RestoreError> {
        self.now = now;
        for one in saved {
            let uid = one.uid;
            let Some(declared) = declaration(uid) else {
                return contradiction(format!("there is no live query with the uid {}", uid.0));
            };
            let query = LiveQuery {
                patterns: patterns(declared, terms),
                every: declared.every,
                is_running: one.is_running,
                newest: one.newest,
                newest_sn: None,
            };
            if query.is_running {
                self.readers.add(uid, &query.patterns);
            }
            if self.queries.insert(uid, query).is_some() {
                return contradiction(format!("live query {} is there twice", uid.0));
            }
            if one.is_touched {
                self.note_change(uid);
            }
        }
        Ok(())
    }

    /// Whether a query runs; `None` for one that it does not know.
    pub(crate) fn runs(&self, uid: QueryUid) -> Option<bool> {
        Some(self.queries.get(&uid)?.is_running)
    }
}
