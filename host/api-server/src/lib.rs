//! The gRPC API on the unix socket: `proto/volhost.proto`, answered by the node's loop.
//!
//! | module | its job |
//! |---|---|
//! | [`socket`] | the socket file: created, guarded by a lock, removed |
//! | [`server`] | connections, limits, authorisation, shutdown |
//! | `manager`, `inspect` | the services for pods and for users |
//! | `named_volumes` | the service for volumes without a pod |
//! | `cluster_plugins` | the service for plugins that the cluster installs |
//! | `tokens` | the client that issues tokens of service accounts |
//! | `watch` | streams of changes |
//! | `filter` | which pods, volumes, plugins and operations a list request selects |
//! | `answers`, `status` | the loop's answers and refusals as messages |
//!
//! The services keep no state but an [`NodeHandle`](volhost_node::event_loop::NodeHandle): each
//! answer is what the loop answered to that request.
#![forbid(unsafe_code)]

mod answers;
mod cluster_plugins;
mod filter;
mod inspect;
mod manager;
mod named_volumes;
mod peer;
pub mod server;
pub mod socket;
mod status;
mod tokens;
mod watch;

pub use server::{ApiServeError, serve};
pub use socket::{ApiListener, SocketBindError, bind, bind_for};
