//! The position of a firing among those of its query, which is the id of its event.

use crate::saved::SavedId;
use somersault_log::AnswerPosition;
use somersault_model::{EventTime, Sn};
use somersault_stream::FiringKey;

/// The position of a firing among those of its query, in the order of delivery. As text it is an
/// event id: `uid:close`, or `uid:close.ordinal.revision.sn` if late statements made the firing or
/// the close has several. Both are also read without the uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiringId {
    /// The uid of the query; `None` where it is not known.
    pub uid: Option<u64>,
    /// The close.
    pub close: EventTime,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// The snapshot number that it saw: later firings saw no earlier one. `None` where only the
    /// close is known.
    pub sn: Option<Sn>,
}

impl FiringId {
    /// Returns the id of a firing at this snapshot number, which holds for all members of its
    /// cohort.
    pub(crate) fn of(key: &FiringKey, sn: Sn) -> FiringId {
        FiringId {
            uid: None,
            close: key.close,
            ordinal: key.ordinal,
            revision: key.revision,
            sn: Some(sn),
        }
    }

    /// Whether it is the id of the answer at this position, as far as it says.
    pub(crate) fn is_of(&self, position: AnswerPosition) -> bool {
        let of_key = (self.close, self.ordinal, self.revision);
        of_key == (position.close, position.ordinal, position.revision)
            && self.sn.is_none_or(|sn| sn == position.sn)
    }

    /// Returns the id of the only firing for a close that nothing amended, of any query.
    ///
    /// ```
    /// use somersault::{EventTime, FiringId};
    /// assert_eq!(FiringId::at(EventTime(802_000)).to_string(), "802000");
    /// ```
    pub fn at(close: EventTime) -> FiringId {
        FiringId {
            uid: None,
            close,
            ordinal: 0,
            revision: 0,
            sn: None,
        }
    }

    pub(crate) fn save(self) -> SavedId {
        SavedId {
            close: self.close,
            ordinal: self.ordinal,
            revision: self.revision,
            sn: self.sn,
        }
    }

    pub(crate) fn restore(saved: SavedId) -> FiringId {
        FiringId {
            uid: None,
            close: saved.close,
            ordinal: saved.ordinal,
            revision: saved.revision,
            sn: saved.sn,
        }
    }
}

impl std::fmt::Display for FiringId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FiringId {
            uid,
            close,
            ordinal,
            revision,
            sn,
        } = self;
        if let Some(uid) = uid {
            write!(f, "{uid}:")?;
        }
        match (ordinal, revision, sn) {
            (0, 0, _) | (_, _, None) => write!(f, "{}", close.0),
            (_, _, Some(sn)) => write!(f, "{}.{ordinal}.{revision}.{sn}", close.0),
        }
    }
}

impl std::str::FromStr for FiringId {
    type Err = ParseFiringIdError;

    fn from_str(text: &str) -> Result<FiringId, ParseFiringIdError> {
        parse(text).ok_or_else(|| ParseFiringIdError(text.to_owned()))
    }
}

/// A text is not the id of a firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFiringIdError(String);

impl std::fmt::Display for ParseFiringIdError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "\"{}\" is not the id of a firing; such an id is uid:close, or uid:close.ordinal.revision.sn",
            self.0
        )
    }
}

impl std::error::Error for ParseFiringIdError {}

fn parse(text: &str) -> Option<FiringId> {
    let (uid, text) = match text.split_once(':') {
        Some((uid, rest)) => (Some(uid.parse().ok()?), rest),
        None => (None, text),
    };
    let mut parts = text.split('.');
    let close = EventTime(parts.next()?.parse().ok()?);
    let Some(ordinal) = parts.next() else {
        return Some(FiringId {
            uid,
            ..FiringId::at(close)
        });
    };
    let ordinal = ordinal.parse().ok()?;
    let revision = parts.next()?.parse().ok()?;
    let sn = Some(Sn(parts.next()?.parse().ok()?));
    let id = FiringId {
        uid,
        close,
        ordinal,
        revision,
        sn,
    };
    parts.next().is_none().then_some(id)
}
