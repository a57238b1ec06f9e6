//! What the kubelet's own tests of its volume manager cover, and where volhost means to be better, one scenario each.
//!
//! | the kubelet's tests of | here |
//! |---|---|
//! | volume manager, populator: pods come, change, go; unbound claims; groups | `pods` |
//! | waits for mounts and unmounts, one pod and many, and what they are told | `waits` |
//! | attachment by the host and by a controller, reports that flip, full nodes | `attach` |
//! | block volumes: map, unmap, both ways to attach, plugins that are missing | `block` |
//! | uncertain devices and mounts: time-out, failure, both, after success | `uncertain`, `block` |
//! | reconstruction: found, set up again, failed, unwanted | `recovery`, `block` |
//! | expansion in use, file system and device | `operations`, `block`, `matrix` |
//! | the executor's matrix: what runs beside what | `matrix` |
//! | pending operations: keys, back-off, other names, pending first | `operations`, `matrix` |
//!
//! Resolving claims, mode mismatches, SELinux labels and the recovery of an expansion are decided outside the machine, and tested there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests may panic"
)]

mod attach;
mod block;
mod census;
mod kit;
mod matrix;
mod operations;
mod pods;
mod recovery;
mod uncertain;
mod waits;
