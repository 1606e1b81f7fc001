//! Random choices of scenarios, drawn from a seed, so that a seed gives the same scenario on every
//! machine.

use somersault_model::SeededRandom;

/// A seeded sequence of numbers.
#[derive(Debug, Clone)]
pub struct Draw(SeededRandom);

impl Draw {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds would begin alike without one round of mixing.
        Self(SeededRandom::new(SeededRandom::new(seed).draw()))
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several items.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(among.len() as u64))
            .expect("an index of a slice is a usize");
        &among[at]
    }

    /// A number in `0..bound` for the small alphabets of the scenarios.
    pub fn small(&mut self, bound: u8) -> u8 {
        u8::try_from(self.below(u64::from(bound))).expect("it is below a u8")
    }
}
