//! Memory for the bytes of terms: chunks that never move, freed all together.
#![allow(unsafe_code)]

use somersault_model::TermId;

const FIRST_CHUNK_WORDS: usize = 64;
const LARGEST_CHUNK_WORDS: usize = 1 << 15;

/// Hands out memory in words of eight bytes.
#[derive(Default)]
pub(crate) struct Arena {
    chunks: Vec<*mut [u64]>,
    /// How many words of the last chunk are used.
    used: usize,
    words: usize,
}

// SAFETY: the arena owns its chunks; the pointers that it hands out are read-only for others.
unsafe impl Send for Arena {}
// SAFETY: a shared reference allows reading `words` only.
unsafe impl Sync for Arena {}

impl Arena {
    /// Stores a header, ids and two texts one after the other. The pointer stays valid, and what
    /// it points to unchanged, until the arena is dropped.
    pub(crate) fn store(
        &mut self,
        header: u64,
        ids: &[TermId],
        text: &str,
        language: &str,
    ) -> *mut u64 {
        let text_bytes = text.len() + language.len();
        let start = self.reserve(1 + ids.len() + text_bytes.div_ceil(8));
        // SAFETY: `reserve` gave this many words, which nobody else has a reference to.
        unsafe {
            *start = header;
            for (at, id) in ids.iter().enumerate() {
                *start.add(1 + at) = id.raw();
            }
            let bytes = start.add(1 + ids.len()).cast::<u8>();
            bytes.copy_from_nonoverlapping(text.as_ptr(), text.len());
            let rest = bytes.add(text.len());
            rest.copy_from_nonoverlapping(language.as_ptr(), language.len());
        }
        start
    }

    /// Memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.words * 8
    }

    fn reserve(&mut self, words: usize) -> *mut u64 {
        let capacity = self.chunks.last().map_or(0, |chunk| chunk.len());
        if self.used + words > capacity {
            let grown = (capacity * 2).clamp(FIRST_CHUNK_WORDS, LARGEST_CHUNK_WORDS);
            let length = grown.max(words);
            let chunk = vec![0u64; length].into_boxed_slice();
            self.chunks.push(Box::into_raw(chunk));
            self.words += length;
            self.used = 0;
        }
        let chunk = *self.chunks.last().expect("a chunk was just made sure of");
        let start = chunk.cast::<u64>().wrapping_add(self.used);
        self.used += words;
        start
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: made by Box::into_raw in `reserve`; nobody reads after the arena's end.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}
