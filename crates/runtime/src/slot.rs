//! The place of one answer: a caller waits for it, blocked or as a future, and the part of the
//! engine that ends its request leaves it there.
//!
//! Before changing anything here: there is a slot for each call of a procedure, so it is one
//! allocation, and leaving an answer for which nothing waits yet wakes nothing.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The two ends of a new slot.
pub(crate) fn slot<A>() -> (Answering<A>, Awaited<A>) {
    let slot = Arc::new(Slot {
        content: Mutex::new(Content::Empty(None)),
        changed: Condvar::new(),
        answering: AtomicUsize::new(1),
    });
    (Answering(Arc::clone(&slot)), Awaited(slot))
}

struct Slot<A> {
    content: Mutex<Content<A>>,
    /// A caller that is blocked waits here.
    changed: Condvar,
    /// The number of ends that may answer.
    answering: AtomicUsize,
}

enum Content<A> {
    /// No answer, with the future that waits for it.
    Empty(Option<Waker>),
    Answer(A),
    /// No answer comes any more.
    Closed,
}

impl<A> Slot<A> {
    /// Leaves what ends the wait, unless something has ended it before.
    fn leave(&self, left: Content<A>) {
        let mut content = self.content.lock();
        let Content::Empty(waker) = &mut *content else {
            return;
        };
        let waker = waker.take();
        *content = left;
        drop(content);
        self.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The end that answers. Of several clones the first that answers counts. When the last one goes
/// without an answer, the caller learns that none comes.
pub(crate) struct Answering<A>(Arc<Slot<A>>);

impl<A> Answering<A> {
    /// Answers. A caller that no longer waits is no error.
    pub(crate) fn send(&self, answer: A) {
        self.0.leave(Content::Answer(answer));
    }
}

impl<A> Clone for Answering<A> {
    fn clone(&self) -> Answering<A> {
        self.0.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.0))
    }
}

impl<A> Drop for Answering<A> {
    fn drop(&mut self) {
        if self.0.answering.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.leave(Content::Closed);
        }
    }
}

/// What a look into a slot finds.
#[derive(Debug)]
pub(crate) enum Found<A> {
    Answer(A),
    /// No answer yet.
    Nothing,
    /// No answer, and none comes.
    Closed,
}

/// The caller's end.
pub(crate) struct Awaited<A>(Arc<Slot<A>>);

impl<A> Awaited<A> {
    /// Whether a wait would end at once.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(*self.0.content.lock(), Content::Empty(_))
    }

    /// Takes the answer, if it is there.
    pub(crate) fn look(&self) -> Found<A> {
        take(&mut self.0.content.lock())
    }

    /// Waits, until `end` if that is given; [`Found::Nothing`] if no answer has come by then.
    pub(crate) fn wait(&self, end: Option<Instant>) -> Found<A> {
        let mut content = self.0.content.lock();
        loop {
            match take(&mut content) {
                Found::Nothing => {}
                found => return found,
            }
            match end {
                None => self.0.changed.wait(&mut content),
                Some(end) => {
                    if self.0.changed.wait_until(&mut content, end).timed_out() {
                        return take(&mut content);
                    }
                }
            }
        }
    }

    /// Waits for no longer than this.
    pub(crate) fn wait_for(&self, patience: Duration) -> Found<A> {
        self.wait(Instant::now().checked_add(patience))
    }

    /// Takes the answer, or has the future woken when there is one. `None`: none comes.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<A>> {
        let mut content = self.0.content.lock();
        match take(&mut content) {
            Found::Answer(answer) => Poll::Ready(Some(answer)),
            Found::Closed => Poll::Ready(None),
            Found::Nothing => {
                *content = Content::Empty(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Takes what is there. An answer is taken once.
fn take<A>(content: &mut Content<A>) -> Found<A> {
    match content {
        Content::Empty(_) => Found::Nothing,
        Content::Closed => Found::Closed,
        Content::Answer(_) => match std::mem::replace(content, Content::Closed) {
            Content::Answer(answer) => Found::Answer(answer),
            Content::Empty(_) | Content::Closed => Found::Closed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::task::Wake;
    use std::thread;

    #[test]
    fn the_first_answer_counts_and_is_taken_once() {
        let (answering, awaited) = slot();
        let other = answering.clone();
        assert!(matches!(awaited.look(), Found::Nothing) && !awaited.is_answered());
        other.send(1);
        answering.send(2);
        assert!(awaited.is_answered());
        assert!(matches!(awaited.wait(None), Found::Answer(1)));
        assert!(matches!(awaited.look(), Found::Closed));
    }

    #[test]
    fn without_an_answer_the_last_end_closes_the_slot() {
        let (answering, awaited) = slot::<u64>();
        let other = answering.clone();
        drop(answering);
        let none = awaited.wait_for(Duration::from_millis(1));
        assert!(matches!(none, Found::Nothing), "another end may answer");
        drop(other);
        assert!(matches!(awaited.wait(None), Found::Closed));
    }

    #[test]
    fn each_blocked_caller_gets_its_answer() {
        for round in 0..2_000_u64 {
            let (answering, awaited) = slot();
            let caller = thread::spawn(move || awaited.wait(None));
            answering.send(round);
            match caller.join().unwrap() {
                Found::Answer(answer) => assert_eq!(answer, round),
                found => panic!("{found:?}"),
            }
        }
    }

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_future_is_woken_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let (answering, awaited) = slot();
        assert!(awaited.poll(&mut context).is_pending());
        assert!(awaited.poll(&mut context).is_pending());
        answering.send(7);
        answering.send(8);
        drop(answering);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(matches!(awaited.poll(&mut context), Poll::Ready(Some(7))));
    }
}
