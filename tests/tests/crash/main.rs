//! The daemon is killed, at every call and at random, and starts again: the node reaches the
//! desired state, nothing is left over, no data is lost, and nothing that a live pod uses is
//! touched.
//!
//! `VOLHOST_KILL_POINTS` lists the calls at which each operation was killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod by_request;
mod churn;
mod exhaustive;
mod formats;
mod knowledge;
mod operations;
mod pods;
mod records;
mod site;
mod starts;
mod subjects;
mod witness;
