//! The connection of volhost's programs to a Kubernetes API server.
//!
//! | module | its job |
//! |---|---|
//! | `connection` | the configuration, and one connection for all requests and watches |
//! | `events` | events on objects |
#![forbid(unsafe_code)]

mod connection;
mod events;

pub use connection::{ConnectionError, configuration, connect};
pub use events::{Events, shortened};
