//! The connection of volhost's programs to a Kubernetes API server.
//!
//! | module | its job |
//! |---|---|
//! | `connection` | the configuration, and clients for requests and for watches |
//! | `events` | events on objects |
//! | [`claims`] | the status of claims whose volumes grow |
//! | [`plugins`] | the custom resources of plugins that come from the cluster |
//! | [`quantity`] | sizes as Kubernetes writes them |
//! | `starts` | how many watches of single objects begin at once |
//! | `watching` | watches that begin again after a failure, later each time |
#![forbid(unsafe_code)]

pub mod claims;
mod connection;
mod events;
pub mod plugins;
pub mod quantity;
mod starts;
mod watching;

pub use connection::{Connection, ConnectionError, configuration, configuration_of_user, connect, connect_in_turns};
pub use events::{Events, shortened};
pub use starts::Starts;
pub use watching::{is_undefined, watch_all, watch_one};
