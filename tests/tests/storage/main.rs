//! What becomes of volumes when their storage, or what their folders hold, is not as the host left it: how full they are, and what is
//! told when nobody knows.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod data;
mod hung;
mod node_mounts;
mod orders;
mod orphans;
mod squatter;
mod stats;
