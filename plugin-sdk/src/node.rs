//! Facts of the node.

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
