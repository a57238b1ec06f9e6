//! Which plugin may have which name, source and grant, checked on the registry itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

#[path = "../../../runtime/tests/common/guest.rs"]
#[allow(dead_code, unreachable_pub, reason = "the runtime's tests use the rest")]
mod guest;
mod recorded;
mod sources;
mod taken_back;
mod world;
