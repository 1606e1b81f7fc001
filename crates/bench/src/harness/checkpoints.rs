//! Checkpoints taken one after the other beside something else.

use somersault::{CheckpointInfo, Engine};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval in which the end of a pause is noticed.
const LOOK: Duration = Duration::from_millis(5);

/// Calls a function, and takes checkpoints until it has returned, with a pause after each. Returns
/// those that were taken; the first of them begins with the function.
pub(crate) fn beside_checkpoints<T>(
    engine: &Engine,
    pause: Duration,
    play: impl FnOnce() -> Result<T, Box<dyn Error + Send + Sync>>,
) -> Result<(T, Vec<CheckpointInfo>), Box<dyn Error + Send + Sync>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taken = Vec::new();
            while !over.load(Ordering::Acquire) {
                taken.push(engine.checkpoint()?);
                let paused = Instant::now();
                while paused.elapsed() < pause && !over.load(Ordering::Acquire) {
                    std::thread::sleep(LOOK);
                }
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(taken)
        });
        let played = play();
        over.store(true, Ordering::Release);
        let taken = taker.join();
        let taken = taken.map_err(|_| "the thread that takes checkpoints has panicked")?;
        Ok((played?, taken?))
    })
}
