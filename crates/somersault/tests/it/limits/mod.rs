//! What the engine refuses, bounds and gives up, and what it says then.

mod firings;
mod refusals;
mod slow_subscribers;
