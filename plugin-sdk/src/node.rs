//! Facts of the node.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! host.node_name("worker-3").node_label("topology.kubernetes.io/zone", "b").allocatable_memory(16 << 30);
//! assert_eq!(node::name(), "worker-3");
//! assert_eq!(node::label("topology.kubernetes.io/zone").as_deref(), Some("b"));
//! assert_eq!(node::allocatable_memory(), 16 << 30);
//! ```

use crate::backend;

/// The node's name.
#[must_use]
pub fn name() -> String {
    backend::node::name()
}

/// Memory that pods may use, in bytes; 0 if it is not known.
#[must_use]
pub fn allocatable_memory() -> u64 {
    backend::node::allocatable_memory()
}

/// A label of the node.
#[must_use]
pub fn label(key: &str) -> Option<String> {
    backend::node::label(key)
}
