//! Subscribers and the firings that wait for them.
//!
//! The one thing to know before changing it: subscribers of one query share its firings, so a
//! firing that waits for several of them exists once.

mod backlog;
mod evicted;
mod firing_id;
mod firing_result;
mod mailbox;
mod options;
mod subscription;
#[cfg(feature = "futures")]
mod subscription_stream;

pub use backlog::Backlog;
pub(crate) use evicted::Evicted;
pub use firing_id::{FiringId, ParseFiringIdError};
pub use firing_result::FiringResult;
pub(crate) use mailbox::Mailbox;
pub use mailbox::SubscriptionEvent;
pub use options::{SubscribeOptions, WhenSlow};
pub use subscription::{RecvTimeoutError, Subscription};
#[cfg(feature = "futures")]
pub use subscription_stream::SubscriptionStream;
