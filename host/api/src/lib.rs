//! The protobuf types of the gRPC API (`proto/volhost.proto`), its client, and the conversions
//! between messages and the views of [`volhost_model`].
//!
//! | module | its job |
//! |---|---|
//! | [`pb`] | the generated messages, client and server trait |
//! | `encode`, `decode` | views as messages for the daemon, messages as views for the command line |
//!
//! The server is in `host/api-server`, so that the command line does not link the node.
#![forbid(unsafe_code)]

mod decode;
mod encode;
pub mod pb;

pub use decode::DecodeError;

use std::time::Duration;

/// How long a wait without a timeout of its own lasts: the kubelet's 2 min 3 s.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(123);

/// The largest manifest that `AddPods` takes, in bytes. The largest object etcd stores is 1.5 MiB;
/// a manifest may contain several.
pub const MAX_MANIFEST_BYTES: usize = 8 << 20;
