//! Asking for memory ahead of its use. Code that visits random places all over the store would wait
//! for memory most of the time; code that prefetches the next places before it reads the first
//! waits once.
#![allow(unsafe_code)]

/// Prefetches the memory at an address that is used soon, if the machine can. Any address is
/// allowed.
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
