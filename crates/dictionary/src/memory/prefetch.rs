//! Asking for memory ahead of its use. Whoever goes from one place to another at random over all of
//! the store would wait for memory most of the time; whoever asks for the next places before
//! looking at the first waits once.
#![allow(unsafe_code)]

/// Asks for the memory at an address, to be used soon, where the machine can. Any address will do.
#[inline]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it changes nothing that the program can see, and faults on no
    // address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
