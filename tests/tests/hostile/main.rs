//! What plugins of ill will try, and what becomes of it. Real components, run by the real runtime on a machine in memory, where everything
//! that changed can be seen.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod host;
mod wasi;
