//! Work that the threads of one call share: they begin and end with it, and need no pool.

use parking_lot::Mutex;

/// Does each piece of `work` once, on at most `threads` threads, of which the caller's is one. They
/// begin the pieces in their order. Returns the results in that order.
pub fn in_parallel<W: Send, R: Send>(
    threads: usize,
    work: impl IntoIterator<Item = W>,
    run: impl Fn(W) -> R + Sync,
) -> Vec<R> {
    let work: Vec<W> = work.into_iter().collect();
    let helpers = threads.min(work.len()).saturating_sub(1);
    let waiting = Mutex::new(work.into_iter().enumerate());
    let turn = || {
        let mut done = Vec::new();
        loop {
            let next = waiting.lock().next();
            let Some((at, piece)) = next else {
                return done;
            };
            done.push((at, run(piece)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(turn)).collect();
        let mut done = turn();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_done_once_and_results_keep_their_order() {
        for threads in [0, 1, 2, 7] {
            for pieces in [0, 1, 2, 100] {
                let work: Vec<String> = (0..pieces).map(|number| number.to_string()).collect();
                let done = in_parallel(threads, work.clone(), |piece| piece);
                assert_eq!(done, work, "{threads} threads");
            }
        }
    }

    #[test]
    #[should_panic(expected = "planted")]
    fn a_panic_reaches_the_caller() {
        in_parallel(2, 0..8, |piece| assert!(piece < 4, "planted"));
    }
}
