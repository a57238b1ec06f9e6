//! The Docker Volume Plugin API, for Docker and Podman.
//!
//! | module | its job |
//! |---|---|
//! | [`socket`] | the socket file: created, removed |
//! | [`serve()`] | connections and their limits, HTTP |
//! | `calls` | each call as a call of volhost's API |
//! | `messages` | the JSON of requests and answers |
//!
//! It keeps no state: volumes and their users are the daemon's, so it may be killed at any moment.
#![forbid(unsafe_code)]

mod calls;
mod messages;
pub mod serve;
pub mod socket;

pub use serve::serve;
pub use socket::{PluginSocket, PluginSocketError};
