//! The part of a cohort that every thread may read.
//!
//! Before changing anything here: the coordinator alone writes, while it applies a record, and
//! nothing that it decides depends on a view.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The size of a cohort, and the name of a member.
#[derive(Debug)]
pub struct CohortView {
    members: AtomicUsize,
    name: Mutex<Arc<str>>,
}

impl CohortView {
    /// A view of a cohort with this number of members, one of which has this name.
    pub fn new(name: &str, members: usize) -> CohortView {
        CohortView {
            members: AtomicUsize::new(members),
            name: Mutex::new(name.into()),
        }
    }

    /// The number of members, including paused ones; 0 once the last has been dropped.
    pub fn members(&self) -> usize {
        self.members.load(Ordering::Acquire)
    }

    /// The name of one of the members.
    pub fn name(&self) -> Arc<str> {
        let name = self.name.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&name)
    }

    /// Shows the members. With none, the last name stays.
    pub(crate) fn show(&self, name: Option<&str>, members: usize) {
        if let Some(name) = name {
            let mut shown = self.name.lock().unwrap_or_else(PoisonError::into_inner);
            if &**shown != name {
                *shown = name.into();
            }
        }
        self.members.store(members, Ordering::Release);
    }
}

/// Two views are equal while they show the same.
impl PartialEq for CohortView {
    fn eq(&self, other: &CohortView) -> bool {
        (self.members(), self.name()) == (other.members(), other.name())
    }
}
