//! The position of a firing among those of its query, which is the id of its event.

use somersault_model::Sn;
use somersault_stream::FiringKey;

/// The position of a firing among those of its query, in the order of delivery. As text it is an
/// event id: `uid:close`, or `uid:close.ordinal.revision.sn` if late statements made the firing or
/// the close has several. Both are also read without the uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiringId {
    /// The uid of the query; `None` where it is not known.
    pub uid: Option<u64>,
    /// The close.
    pub close_ms: i64,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// The snapshot number that it saw: later firings saw no earlier one. `None` where only the
    /// close is known.
    pub sn: Option<u64>,
}

impl FiringId {
    /// Returns the id of a firing at this snapshot number, which holds for all members of its
    /// cohort.
    pub(crate) fn of(key: &FiringKey, sn: Sn) -> FiringId {
        FiringId {
            uid: None,
            close_ms: key.close.0,
            ordinal: key.ordinal,
            revision: key.revision,
            sn: Some(sn.0),
        }
    }

    /// Returns the id of the only firing for a close that nothing amended, of any query.
    pub fn at(close_ms: i64) -> FiringId {
        FiringId {
            uid: None,
            close_ms,
            ordinal: 0,
            revision: 0,
            sn: None,
        }
    }
}

impl std::fmt::Display for FiringId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FiringId {
            uid,
            close_ms,
            ordinal,
            revision,
            sn,
        } = self;
        if let Some(uid) = uid {
            write!(f, "{uid}:")?;
        }
        match (ordinal, revision, sn) {
            (0, 0, _) | (_, _, None) => write!(f, "{close_ms}"),
            (_, _, Some(sn)) => write!(f, "{close_ms}.{ordinal}.{revision}.{sn}"),
        }
    }
}

impl std::str::FromStr for FiringId {
    type Err = ();

    fn from_str(text: &str) -> Result<FiringId, ()> {
        let (uid, text) = match text.split_once(':') {
            Some((uid, rest)) => (Some(uid.parse().map_err(|_| ())?), rest),
            None => (None, text),
        };
        let mut parts = text.split('.');
        let close_ms = parts.next().ok_or(())?.parse().map_err(|_| ())?;
        let Some(ordinal) = parts.next() else {
            return Ok(FiringId {
                uid,
                ..FiringId::at(close_ms)
            });
        };
        let ordinal = ordinal.parse().map_err(|_| ())?;
        let revision = parts.next().ok_or(())?.parse().map_err(|_| ())?;
        let sn = Some(parts.next().ok_or(())?.parse().map_err(|_| ())?);
        let id = FiringId {
            uid,
            close_ms,
            ordinal,
            revision,
            sn,
        };
        parts.next().is_none().then_some(id).ok_or(())
    }
}
