//! The values that steps may read: parameters and the variables of LET and FOR EACH, block by
//! block.

use crate::algebra::procedure::{Bound, Slot};
use crate::algebra::{Pattern, VarId};
use crate::clauses::procedure::{refuse, variable_name};
use crate::text::error::ParseError;
use crate::token::{Place, Token};

/// The values in force, and the slots given so far.
#[derive(Debug, Default)]
pub(super) struct ValueScope<'t> {
    /// The values in force, outermost first: name, slot, and where it was declared.
    values: Vec<(&'t str, Slot, usize)>,
    /// The names of all slots of the procedure.
    slots: Vec<String>,
}

/// The end of the values of the block around.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around(usize);

impl<'t> ValueScope<'t> {
    /// Gives a variable a slot, from here to the end of its block.
    pub(super) fn declare(&mut self, source: &'t str, token: Token) -> Result<Slot, ParseError> {
        let name = variable_name(source, token);
        if let Some((.., first)) = self.values.iter().find(|(known, ..)| *known == name) {
            let place = Place::of(source, *first);
            let message =
                format!("?{name} has a value here already, from {place}; choose another name");
            return refuse(source, token.start, message);
        }
        Ok(self.push(name, token.start))
    }

    /// Gives a name a slot that stands in no text.
    pub(super) fn give(&mut self, name: &'t str) {
        self.push(name, 0);
    }

    fn push(&mut self, name: &'t str, offset: usize) -> Slot {
        let slot = Slot(u32::try_from(self.slots.len()).expect("a text has fewer variables"));
        self.values.push((name, slot, offset));
        self.slots.push(name.to_owned());
        slot
    }

    /// Begins a block.
    pub(super) fn enter(&self) -> Around {
        Around(self.values.len())
    }

    /// Ends the block that began there.
    pub(super) fn leave(&mut self, around: Around) {
        self.values.truncate(around.0);
    }

    /// The slot that a name stands for.
    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        let value = self.values.iter().find(|(known, ..)| *known == name);
        value.map(|(_, slot, _)| *slot)
    }

    /// The names of all slots that were given.
    pub(super) fn into_slots(self) -> Vec<String> {
        self.slots
    }

    /// Which of a query's variables, given by their names, stand for slots.
    pub(super) fn bound(&self, variables: &[String]) -> Vec<Bound> {
        let numbered = (0..).map(VarId).zip(variables);
        let bound = numbered.filter_map(|(variable, name)| {
            let slot = self.slot(written_name(name)?)?;
            Some(Bound { variable, slot })
        });
        bound.collect()
    }
}

/// The name that the text gives a variable of the algebra; a variable of a sub-select that does not
/// project it is `.name.number` there.
fn written_name(name: &str) -> Option<&str> {
    if name.starts_with("_:") {
        return None;
    }
    match name.strip_prefix('.') {
        Some(made) => made.rsplit_once('.').map(|(name, _)| name),
        None => Some(name),
    }
}

/// A variable of a slot that a pattern gives a value.
pub(super) fn assigned(pattern: &Pattern, bound: &[Bound]) -> Option<VarId> {
    let is_bound = |variable: &VarId| bound.iter().any(|one| one.variable == *variable);
    let own = match pattern {
        Pattern::Extend { variable, .. } => Some(*variable).filter(is_bound),
        Pattern::Values { variables, .. } => variables.iter().copied().find(is_bound),
        Pattern::Group { aggregates, .. } => {
            let mut made = aggregates.iter().map(|(variable, _)| *variable);
            made.find(is_bound)
        }
        _ => None,
    };
    own.or_else(|| {
        let inner = pattern.inner_patterns();
        inner.into_iter().find_map(|inner| assigned(inner, bound))
    })
}
