//! What plugins of ill will try, and what becomes of it. Real components, run by the real runtime,
//! on a machine in memory and, where the kernel is what has to refuse, on the real one: everything
//! that changed can be seen, and nothing may have.
//!
//! | module | tries |
//! |---|---|
//! | [`misbehaviour`] | to use up, to crash, to lie: in every call |
//! | [`trespass`] | to get at what is not the plugin's own, by every primitive |
//! | [`wasi`] | to find the host through WASI |
//! | [`bounds`] | to go beyond what its grant bounds |
//! | [`capabilities`] | to lie and fail in every other call |
//! | [`driver_mounts`] | to pass off mounts of others as its own |
//! | [`fields`] | every field of every source, with every value it must not have |
//!
//! What cannot be written in Rust (forged handles, start functions, allocators that lie) is in
//! `host/runtime/tests/hostile_components.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod bounds;
mod capabilities;
mod driver_mounts;
mod fields;
mod host;
mod misbehaviour;
mod trespass;
mod wasi;
