//! The gRPC API on the unix socket: `proto/volhost.proto`, answered by the engine.
//!
//! | module | its job |
//! |---|---|
//! | [`pb`] | the generated messages, client and server |
//! | [`convert`] | messages to and from the views of [`volhost_model`] |
//! | [`socket`] | the socket file: made, guarded by a lock, removed |
//! | [`server`] | connections, limits, who may call, the end |
//! | [`filter`] | which pods, volumes, plugins and operations a list request means |
//!
//! The services hold nothing but an [`EngineHandle`](volhost_node::engine::EngineHandle): what they answer is what the engine said
//! at that moment.
#![forbid(unsafe_code)]

pub mod convert;
pub mod filter;
mod inspect;
mod manager;
pub mod pb;
mod peer;
pub mod server;
pub mod socket;
mod status;
mod watch;

pub use server::{ServeError, serve};
pub use socket::{BindError, Listener, bind};

use std::time::Duration;

/// How long a wait lasts that does not say: the kubelet's 2 min 3 s.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(123);

/// The largest manifest that `AddPods` takes, in bytes. The largest object etcd stores is 1.5 MiB; a manifest may hold several.
pub const MAX_MANIFEST_BYTES: usize = 8 << 20;
