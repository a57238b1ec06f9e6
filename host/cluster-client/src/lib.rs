//! The connection of volhost's programs to a Kubernetes API server.
//!
//! | module | its job |
//! |---|---|
//! | `connection` | the configuration, and clients for requests and for watches |
//! | `events` | events on objects |
//! | [`claims`] | the status of claims whose volumes grow |
//! | [`plugins`] | the custom resources of plugins that come from the cluster |
//! | [`quantity`] | sizes as Kubernetes writes them |
//! | `watching` | watches that begin again after a failure, later each time |
#![forbid(unsafe_code)]

pub mod claims;
mod connection;
mod events;
pub mod plugins;
pub mod quantity;
mod watching;

pub use connection::{Connection, ConnectionError, configuration, configuration_of_user, connect};
pub use events::{Events, shortened};
pub use watching::{Starts, is_undefined, watch_all, watch_one, watch_one_of_many};
