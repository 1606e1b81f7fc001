//! An endpoint that answers only once a test allows it. A query with a SERVICE there is as slow as
//! a test needs, on any machine.

use somersault::oxrdf::{NamedNode, Quad};
use somersault::{Engine, EngineConfig, Limits, Remote, RemoteSolutions};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Nothing in the tests takes this long unless it never happens.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Endpoint {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: usize,
    is_open: bool,
}

impl Endpoint {
    /// Lets everybody have an answer.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    /// The number of requests so far.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    /// Returns when it has been asked so often.
    pub(crate) fn wait_until_asked(&self, times: usize) {
        let state = self.state.lock().unwrap();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, LONG, |state| state.asked < times)
            .unwrap();
        assert!(state.asked >= times, "asked {} times", state.asked);
    }
}

impl Remote for Endpoint {
    fn select(&self, _: &str, _: &str) -> Result<RemoteSolutions, String> {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.is_open));
        let there = NamedNode::new_unchecked("urn:there");
        Ok(RemoteSolutions {
            variables: vec!["there".to_owned()],
            rows: vec![vec![Some(there.into())]],
        })
    }

    fn document(&self, _: &str) -> Result<Vec<Quad>, String> {
        Err("it has no documents".to_owned())
    }
}

/// An engine whose queries may ask an endpoint. The endpoint is allowed to answer before the engine
/// is dropped, which waits for its threads.
pub(crate) struct Slow {
    pub(crate) engine: Engine,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Slow {
    pub(crate) fn open(config: EngineConfig) -> Slow {
        let endpoint = Arc::new(Endpoint::default());
        let engine = Engine::open(EngineConfig {
            allow_remote: true,
            remote: Some(Arc::clone(&endpoint) as Arc<dyn Remote>),
            limits: Limits {
                firing_time: 10 * LONG,
                ..Limits::default()
            },
            ..config
        });
        Slow {
            engine: engine.unwrap(),
            endpoint,
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.endpoint.open();
    }
}
