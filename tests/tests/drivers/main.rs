//! Drivers of other projects: CSI drivers beside a node, plugins served as CSI drivers, and
//! FlexVolume drivers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

mod csi;
mod csi_serve;
mod flex;
