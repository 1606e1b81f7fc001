//! Any bytes as the file of transactions of a checkpoint: texts of procedures and dataflows with
//! the records of the core. Reading them ends in a sentence, or in declarations that are written
//! and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_runtime::saved_transactions_again;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((first, second)) = saved_transactions_again(bytes) {
        assert!(first == second, "what was restored is saved as the same");
    }
});
