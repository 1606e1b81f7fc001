//! Repeatable random values: RAND, UUID, STRUUID and BNODE are keyed by (query, close) and drawn in
//! the order of the rows, so that a run can be repeated (S6).

use oxrdf::BlankNode;
use somersault_model::{EventTime, QueryUid};

/// The values of one execution.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    key: u64,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(query: QueryUid, close: EventTime) -> Random {
        Random {
            key: mix(mix(query.0) ^ close.0 as u64),
            drawn: 0,
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.key ^ self.drawn)
    }

    /// A number that is at least 0 and below 1.
    pub(crate) fn double(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A UUID of version 4, in lower case.
    pub(crate) fn uuid(&mut self) -> String {
        // Version and variant as RFC 4122 marks random ones.
        let high = (self.draw() & !0xf000) | 0x4000;
        let low = (self.draw() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// A new blank node.
    pub(crate) fn blank_node(&mut self) -> BlankNode {
        let id = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        BlankNode::new_from_unique_id(id)
    }

    /// The blank node of a name: the same for the same name in the same row.
    pub(crate) fn named_blank_node(&self, name: &str, row: u64) -> BlankNode {
        let key = mix(self.key ^ mix(!row));
        let (mut high, mut low) = (key, mix(!key));
        for byte in name.bytes() {
            high = mix(high ^ u64::from(byte));
            low = mix(low.wrapping_add(u64::from(byte)));
        }
        let id = (u128::from(high) << 64) | u128::from(low);
        BlankNode::new_from_unique_id(id)
    }
}

/// A fixed permutation of 64 bits that leaves no pattern (the finaliser of SplitMix64).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
