//! The documents and examples agree with the code, and the tests they name exist.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod benchmarks;
mod contract;
mod documentation;
mod features;
mod kind_examples;
mod kind_scenarios;
mod payload_scenarios;
mod schema;
mod volume_kinds;
