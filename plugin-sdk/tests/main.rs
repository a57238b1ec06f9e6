//! The SDK as an author meets it: its public items, its test double, its macro and what it builds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod components;
mod double;
mod macro_errors;
mod public;
mod volume;
