//! Recordings of a node whose volumes come, go and fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "tests may panic, and use a part of the scenarios' kit"
)]

mod churn;
mod files;
#[path = "../../../core/tests/scenarios/kit.rs"]
mod kit;
mod replays;
