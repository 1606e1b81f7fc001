//! Decoding a log ahead of its replay: one thread walks the frames, others decode batches of
//! records, and the batches come out in their order.
//!
//! The one thing to know: the number of batches under way is bounded, so a slow reader bounds the
//! memory.

use super::frames::{Batch, Decoded, FrameReader};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Batches under way for each thread that decodes.
const BATCHES: usize = 4;

type Job = (Batch, SyncSender<Vec<Decoded>>);

/// Threads that decode ahead.
pub(super) struct DecodeAhead {
    /// The results of the batches, in order; taken when they end.
    order: Option<Receiver<Receiver<Vec<Decoded>>>>,
    threads: Vec<JoinHandle<()>>,
}

impl DecodeAhead {
    /// Starts `decoders` threads that decode what `frames` gives, and one that reads it.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(frames: FrameReader, decoders: usize) -> io::Result<DecodeAhead> {
        let under_way = BATCHES * decoders;
        let (in_order, order) = sync_channel(under_way);
        let (jobs, taken) = sync_channel::<Job>(under_way);
        let taken = Arc::new(Mutex::new(taken));
        let mut ahead = DecodeAhead {
            order: Some(order),
            threads: Vec::new(),
        };
        for number in 0..decoders {
            let taken = Arc::clone(&taken);
            ahead.spawn(format!("somersault-decode-{number}"), move || {
                decode(&taken)
            })?;
        }
        let name = "somersault-log-reader".to_owned();
        ahead.spawn(name, move || read(frames, &in_order, &jobs))?;
        Ok(ahead)
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// The next batch; `None` behind the last.
    pub(super) fn next_batch(&mut self) -> Option<Vec<Decoded>> {
        let batch = self.order.as_ref()?.recv().ok()?;
        Some(
            batch
                .recv()
                .expect("a thread that decodes ends with its batches"),
        )
    }
}

impl Drop for DecodeAhead {
    fn drop(&mut self) {
        // The reader ends when its next batch is not wanted, and the others with it.
        self.order = None;
        for thread in self.threads.drain(..) {
            // A panic has been shown, and `next_batch` has failed.
            let _ = thread.join();
        }
    }
}

/// Reads batches and hands them out, until there are no more, or none is wanted.
fn read(
    mut frames: FrameReader,
    in_order: &SyncSender<Receiver<Vec<Decoded>>>,
    jobs: &SyncSender<Job>,
) {
    loop {
        let batch = match frames.next_batch() {
            Ok(None) => return,
            Ok(Some(batch)) => Ok(batch),
            Err(error) => Err(error),
        };
        let (result, decoded) = sync_channel(1);
        if in_order.send(decoded).is_err() {
            return;
        }
        match batch {
            Ok(batch) => {
                if jobs.send((batch, result)).is_err() {
                    return;
                }
            }
            Err(error) => {
                // If it is not wanted, the reader ends all the same.
                let _ = result.send(vec![(Err(error), 0)]);
                return;
            }
        }
    }
}

/// Decodes batches until there are no more.
fn decode(taken: &Mutex<Receiver<Job>>) {
    loop {
        let job = taken.lock().recv();
        let Ok((batch, result)) = job else {
            return;
        };
        // Whether it is still wanted does not matter here.
        let _ = result.send(batch.decode());
    }
}
