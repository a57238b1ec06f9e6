//! Helpers: programs that serve FUSE file systems for plugins.
//!
//! ```text
//!  mount made, unseen ──> recorded ──> launcher started ──> recorded with its process ──> told what to become ──> serves
//!                                          │ (the volhost that started it is gone: it ends)                        │
//!                                          └── gives up every right, becomes the helper                             ├─ nobody has the mount: it ends, or is ended
//!                                                                                                                  └─ it ends by itself: told
//! ```
//!
//! A helper gets the connection to its mount as a descriptor, and no right to mount. It outlives the process that started it, which is found
//! out from its record; it is known by a process descriptor, never by a number that another process may have by now.
//!
//! | module | holds |
//! |---|---|
//! | `keeper` | [`Helpers`]: starting, finding again, ending |
//! | `running` | one helper that runs: its end, and its last words |
//! | [`launch`] | the launcher: what it gives up before it becomes the helper |
//! | `record` | what is on disk of a helper |
//! | `secret` | files in memory |
#![forbid(unsafe_code)]

mod keeper;
pub mod launch;
mod record;
mod running;
mod secret;

pub use keeper::{EndedHelper, Helpers, Launcher};
