//! The one room of system calls: mounts, safe paths, mount inspection, atomic files. Everything the host does to the machine goes
//! through the [`Kernel`] trait; [`LinuxKernel`] does it, [`TwinKernel`] acts it out in memory for tests without
//! privilege, and one test suite runs against both.
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | the trait, with what each call guarantees |
//! | [`handle`] | folders, sources, unseen mounts and the lock, as handles |
//! | [`types`] | entries, mounts, options: plain values |
//! | [`error`] | what went wrong, and the way out |
//! | [`step`] | the steps that an error names, and at which the twin fails on order |
//! | [`linux`] | the real one: one file a job |
//! | [`twin`] | the one in memory, with faults to order |
//!
//! A volume becomes visible in three steps, and nobody sees it half made:
//!
//! ```text
//!  source --bind--> detached mount --set_options--> detached mount --attach--> mounted
//!  tmpfs ---------^                       (dropped: the kernel discards it)
//! ```
//!
//! Paths below a root are handles (rule R6): `openat2` resolves them beneath a folder, without symbolic links, and every
//! later call works on the descriptor. Recursive removal lives in `linux/removal.rs` alone (rule R5).
//!
//! Descriptors are named through `/proc/thread-self`, so every call also works on a thread in a mount namespace of its own.
#![deny(unsafe_code)]

pub mod error;
pub mod handle;
pub mod kernel;
pub mod linux;
mod names;
mod options;
pub mod step;
pub mod twin;
pub mod types;

pub use error::{Errno, ErrorKind, KernelError};
pub use handle::{DetachedMount, Directory, MountSource, RootLock, SourceKind};
pub use kernel::{Kernel, Result};
pub use linux::LinuxKernel;
pub use step::Step;
pub use twin::TwinKernel;
pub use types::{Detach, Durability, Entry, FsOption, MountId, MountInfo, Propagation};
