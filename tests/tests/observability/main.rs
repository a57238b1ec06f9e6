//! What an operator sees of a node from outside: figures, traces, log lines, the live view.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod collector;
mod dashboard;
mod figures;
mod http;
mod logs;
mod metrics;
mod prometheus;
mod top;
mod traces;
