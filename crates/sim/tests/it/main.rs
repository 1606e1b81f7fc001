//! A modest number of seeds in every `cargo test`; `somersault-sim --seeds N` runs more.

#[test]
fn seeds_hold() {
    for seed in 1..=12 {
        if let Err(failure) = somersault_sim::run(seed, 80) {
            panic!("{failure}");
        }
    }
}
