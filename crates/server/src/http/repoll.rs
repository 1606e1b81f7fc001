//! Connections that wake themselves. A handler that waits for its request's body is woken by the
//! same task that reads the body. The runtime takes that for a yield, puts the task behind the
//! others and wakes a second thread to help, which finds nothing to do. That costs more than a
//! light query. So a future that wakes itself while it is polled is polled once more at once. It is
//! repolled only once, so that a future that wants to yield still can: the second time, the wake
//! reaches the runtime. A future that must yield the first time uses `tokio::task::yield_now`,
//! which has the runtime wake it.

use futures_util::task::AtomicWaker;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The future is not being polled; a wake goes to the runtime.
const IDLE: u8 = 0;
/// Set while the future is polled.
const POLLED: u8 = 1;
/// Set by a wake.
const WOKEN: u8 = 2;

/// A future that is polled again at once if it wakes itself while it is polled.
pub(crate) struct Repoll<F> {
    inner: Pin<Box<F>>,
    state: Arc<State>,
    waker: Waker,
}

struct State {
    flags: AtomicU8,
    runtime: AtomicWaker,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // While `POLLED`, the polling thread checks the flag afterwards; while `WOKEN`, a poll is
        // already due.
        if self.flags.fetch_or(WOKEN, Ordering::AcqRel) == IDLE {
            self.runtime.wake();
        }
    }
}

impl<F: Future> Repoll<F> {
    pub(crate) fn new(inner: F) -> Repoll<F> {
        let state = Arc::new(State {
            flags: AtomicU8::new(IDLE),
            runtime: AtomicWaker::new(),
        });
        Repoll {
            inner: Box::pin(inner),
            waker: Waker::from(Arc::clone(&state)),
            state,
        }
    }
}

impl<F: Future> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.state.runtime.register(context.waker());
        let mut inner = Context::from_waker(&this.waker);
        for _ in 0..2 {
            this.state.flags.swap(POLLED, Ordering::AcqRel);
            if let Poll::Ready(output) = this.inner.as_mut().poll(&mut inner) {
                return Poll::Ready(output);
            }
            let flags = &this.state.flags;
            let unwoken = flags.compare_exchange(POLLED, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if unwoken.is_ok() {
                return Poll::Pending;
            }
        }
        // The future stays marked as woken until the runtime polls it; this wake asks the runtime
        // to.
        this.state.flags.swap(WOKEN, Ordering::AcqRel);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls a future that wakes itself in its first polls. Returns how often the future was
    /// polled, how often the runtime was woken, and whether the future is ready.
    fn polled_once(wakes: usize) -> (usize, usize, bool) {
        let mut polls = 0;
        let counted = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&counted));
        let done = {
            let mut future = Repoll::new(poll_fn(|context| {
                polls += 1;
                if polls <= wakes {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            }));
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            polled.is_ready()
        };
        (polls, counted.0.load(Ordering::Relaxed), done)
    }

    #[test]
    fn a_future_that_wakes_itself_once_is_polled_again_at_once() {
        assert_eq!(polled_once(0), (1, 0, true));
        assert_eq!(polled_once(1), (2, 0, true));
    }

    #[test]
    fn a_future_that_keeps_waking_itself_yields() {
        assert_eq!(polled_once(5), (2, 1, false));
    }

    #[test]
    fn wakes_from_other_threads_arrive() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let (asked, requests) = mpsc::channel::<(Waker, Arc<AtomicUsize>)>();
        let other = std::thread::spawn(move || {
            for (waker, reached) in requests {
                reached.fetch_add(1, Ordering::Release);
                waker.wake();
            }
        });
        let reached = Arc::new(AtomicUsize::new(0));
        // Each round waits for the other thread, whose wake comes during the poll or after it.
        let rounds = Repoll::new(async {
            for round in 0..20_000 {
                let mut sent = false;
                poll_fn(|context| {
                    if reached.load(Ordering::Acquire) > round {
                        return Poll::Ready(());
                    }
                    if !sent {
                        sent = true;
                        let request = (context.waker().clone(), Arc::clone(&reached));
                        asked.send(request).expect("the other thread listens");
                    }
                    Poll::Pending
                })
                .await;
            }
            drop(asked);
        });
        runtime.block_on(rounds);
        other.join().expect("the other thread ends");
    }
}
