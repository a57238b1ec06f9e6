//! The one room of system calls: mounts, safe paths, mount inspection, atomic files. Everything the
//! host does to the machine goes through the [`Kernel`] trait, which [`LinuxKernel`] implements.
//! The dev-only crate `volhost-testing-kernel` implements it in memory, for tests without
//! privilege, and contains the test suite that runs against both.
//!
//! | module | contains |
//! |---|---|
//! | [`kernel`] | the trait, with what each call guarantees |
//! | [`handle`] | folders, sources, unseen mounts and the lock, as handles |
//! | [`block_devices`], [`loop_devices`], [`filesystems`] | the parts of the trait that are about devices |
//! | [`format_options`] | how a file system is made |
//! | [`machine`] | what the machine is able to do |
//! | [`mount_snapshot`] | the mounts of one moment |
//! | [`image_files`] | file systems in files |
//! | [`image_stores`] | folders of image files |
//! | [`network_mounts`] | file systems that servers export |
//! | [`overlays`] | folders laid on one another |
//! | [`payload`] | sets of files, published whole |
//! | [`ownership`] | a volume's group, and mounts with other ids |
//! | [`fuse`] | file systems that programs serve |
//! | [`driver_mounts`] | programs that mount by themselves |
//! | [`capabilities`] | the capabilities that programs inherit |
//! | [`child`] | making child processes, which keep nothing of ours busy |
//! | [`tools`] | running the programs that make and check file systems |
//! | [`call_filter`] | filters of system calls for such programs |
//! | [`sub_paths`] | parts of volumes to mount, and clearing them away |
//! | [`labels`] | SELinux labels |
//! | [`quotas`] | folders that cannot grow beyond a limit |
//! | [`usage`] | how full a volume is |
//! | [`types`] | entries, mounts, options: plain values |
//! | [`error`] | what went wrong, and the way out |
//! | [`step`] | the steps that an error names |
//! | [`namespace`] | a thread with mounts of its own, for tests of plugins |
//! | [`linux`] | the implementation: one file a job |
//! | [`implement`] | what every implementation shares |
//!
//! A volume becomes visible in three steps, and is never visible half made:
//!
//! ```text
//!  source --bind--> detached mount --set_options--> detached mount --attach--> mounted
//!  tmpfs ---------^                       (dropped: the kernel discards it)
//! ```
//!
//! Paths below a root are handles (rule R6): `openat2` resolves them beneath a folder, without
//! symbolic links, and every later call works on the descriptor. Recursive removal lives in
//! `linux/removal.rs` alone (rule R5).
//!
//! Descriptors are named through `/proc/thread-self`, so every call also works on a thread in a
//! mount namespace of its own.
#![deny(unsafe_code)]

pub mod block_devices;
pub mod call_filter;
pub mod capabilities;
pub mod child;
pub mod driver_mounts;
pub mod error;
pub mod filesystems;
pub mod format_options;
pub mod fuse;
mod granted;
pub mod handle;
pub mod image_files;
pub mod image_stores;
pub mod implement;
pub mod kernel;
pub mod labels;
pub mod last_resorts;
pub mod linux;
pub mod loop_devices;
pub mod machine;
pub mod mount_snapshot;
mod names;
pub mod namespace;
pub mod network_mounts;
mod new_child;
mod options;
pub mod overlays;
pub mod ownership;
pub mod payload;
pub mod quotas;
pub mod step;
pub mod sub_paths;
pub mod tools;
pub mod types;
pub mod usage;

pub use block_devices::{BlockDevice, BlockDevices};
pub use driver_mounts::DriverMounts;
pub use error::{
    DeviceError, Errno, ErrorKind, FilesystemError, ImageError, KernelError, NetworkError, Result, ToolError,
};
pub use filesystems::{CheckOutcome, Contents, Filesystems};
pub use format_options::FormatOptions;
pub use fuse::{FuseConnection, FuseMount, FuseMounts, FuseOptions};
pub use handle::{AppendFile, DetachedMount, Directory, MountSource, RootLock, SourceKind};
pub use image_files::ImageFiles;
pub use image_stores::{ImageFacts, ImageStores};
pub use kernel::Kernel;
pub use labels::Labels;
pub use last_resorts::LastResorts;
pub use linux::{LinuxKernel, release_free_memory};
pub use loop_devices::LoopDevices;
pub use machine::{CallReport, PathMount, ToolReport};
pub use mount_snapshot::MountSnapshot;
pub use names::is_temporary;
pub use network_mounts::{NetworkMounts, SecretOption, Share};
pub use overlays::Overlays;
pub use ownership::{
    IdMap, IdRange, OnProgress, Ownership, OwnershipPolicy, OwnershipProgress, OwnershipReport, OwnershipRequest,
};
pub use payload::{Payload, PayloadFile, Payloads, PublishResult};
pub use quotas::Quotas;
pub use step::Step;
pub use sub_paths::{MissingSubPath, SubPathBind, SubPathBinding, SubPaths};
pub use types::{Detach, DeviceNumber, Durability, Entry, FsOption, MountId, MountInfo, Propagation};
pub use usage::{DiskUsage, Usage, Usages};
