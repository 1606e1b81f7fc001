//! A small seeded generator of numbers: the same seed gives the same data on every machine and in
//! every release.

/// xoshiro256** (Blackman and Vigna 2018), seeded by splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator for one purpose of one seed: different purposes draw independent numbers.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut mixed = seed ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03);
        let state = std::array::from_fn(|_| split_mix(&mut mixed));
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// A number in `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `0..bound`; 0 where `bound` is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }

    /// True in this share of the draws.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// An index in `0..count` whose density falls with the index: `count · u^(halves / 2)` of a
    /// uniform `u`.
    ///
    /// Products and square roots only: their last bit is the same on every machine, that of a
    /// general power is not.
    pub(crate) fn skewed(&mut self, count: u32, halves: u32) -> u32 {
        let unit = self.unit();
        let whole: f64 = (0..halves / 2).map(|_| unit).product();
        let skewed = if halves % 2 == 1 {
            whole * unit.sqrt()
        } else {
            whole
        };
        ((f64::from(count) * skewed) as u32).min(count.saturating_sub(1))
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(u32::try_from(from.len()).unwrap_or(u32::MAX)) as usize]
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_within_bounds_and_repeatable() {
        let (mut a, mut b) = (Random::new(7, 1), Random::new(7, 1));
        let mut other = Random::new(7, 2);
        let mut same = 0;
        for _ in 0..1_000 {
            let drawn = a.below(10);
            assert!(drawn < 10 && a.skewed(5, 10) < 5);
            assert_eq!(drawn, b.below(10));
            b.skewed(5, 10);
            same += u32::from(drawn == other.below(10));
        }
        assert!(same < 300, "two purposes draw the same numbers");
        assert_eq!(a.below(0), 0);
    }
}
