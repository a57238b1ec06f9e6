//! The runtime against plugins written in WebAssembly text, and its compiler child.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod calls;
mod common;
mod compiler_child;
mod hostile_components;
mod loading;
mod objects;
mod signatures;
