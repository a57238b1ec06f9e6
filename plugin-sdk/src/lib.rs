//! Write volhost volume plugins in Rust.
//!
//! A plugin knows one kind of storage: what the fields of its volumes mean, and which mounts
//! publish such a volume to a pod. It is a WebAssembly component without any privilege. The host
//! owns state, scheduling and every system call; the plugin asks it for mounts through typed
//! handles.
//!
//! # A whole plugin
//!
//! One trait and one macro. This one gives a pod a memory file system of the size that the volume
//! requests:
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//!
//! /// Serves `scratch: {size: 64Mi}`.
//! struct Scratch;
//!
//! impl VolumePlugin for Scratch {
//!     fn describe(about: &mut Description) {
//!         about.name("example.com/scratch").version(env!("CARGO_PKG_VERSION")).serves("scratch");
//!     }
//!
//!     // Checks every field, so that a misspelt one is reported. The host may skip this call for a
//!     // volume that is neither attached nor staged: `publish` checks too.
//!     fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
//!         size(volume).map(drop)
//!     }
//!
//!     fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
//!         // The host may call again at any time: a volume that is mounted needs nothing more.
//!         if target.is_mounted()? {
//!             return Ok(());
//!         }
//!         let mut tmpfs = Tmpfs::new().mode(0o777);
//!         if let Some(size) = size(volume)? {
//!             tmpfs = tmpfs.size(size);
//!         }
//!         if let Some(group) = pod.fs_group() {
//!             tmpfs = tmpfs.group(group);
//!         }
//!         // No process sees the mount before `attach`; on a failure until then, it is discarded.
//!         target.attach(tmpfs.create()?)
//!     }
//!
//!     fn unpublish(target: &MountTarget) -> Result<()> {
//!         target.detach()
//!     }
//! }
//!
//! /// Checks every field, and returns the limit in bytes.
//! fn size(volume: &Volume) -> Result<Option<u64>> {
//!     volume.known_fields(&["size"])?;
//!     volume.bytes("size")
//! }
//!
//! export_plugin!(Scratch);
//!
//! // The same code runs natively against a double of the host.
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! let volume = Volume::builder("scratch").field("size", "64Mi");
//! host.publish::<Scratch>(&volume, &Pod::builder().fs_group(2000))?;
//! let mount = host.target(volume.name()).mount().expect("it is mounted");
//! assert_eq!(mount.option("size"), Some("67108864"));
//! assert_eq!(mount.option("gid"), Some("2000"));
//!
//! host.unpublish::<Scratch>(volume.name())?;
//! assert!(host.target(volume.name()).is_absent());
//! # Ok::<(), Error>(())
//! ```
//!
//! The crate's `Cargo.toml` has `crate-type = ["cdylib", "rlib"]` below `[lib]`: the first becomes
//! the component, `cargo test` links the second.
//!
//! # From source to a mounted volume
//!
//! `volhost plugin new NAME` writes such a crate; `volhost plugin run` mounts a volume of it and
//! starts a shell there.
//!
//! 1. `cargo test` runs the plugin against [`testing::TestHost`], with a debugger if you like.
//! 2. `volhost-plugin-build --out DIR CRATE` compiles it for `wasm32-unknown-unknown` and encodes
//!    the component `DIR/CRATE.wasm`. It contains no WASI: it imports the functions that it calls
//!    of [`tmpfs`], [`host_paths`], [`files`], [`objects`], [`node`], [`settings`], [`events`] and
//!    [`log`], and nothing else. `volhost plugin inspect FILE` lists them.
//! 3. The host loads it as soon as it is copied into the plugin folder. Its imports are its
//!    request; the operator's grant decides. Of the interfaces here [`host_paths`],
//!    [`loop_devices`], [`image_files`], [`oci_images`], [`network_mounts`], [`share_folders`], [`overlays`], [`pod_volumes`],
//!    [`iscsi_sessions`], [`fc_devices`], [`block_devices`], [`id_maps`], [`huge_pages`], [`quotas`], [`driver_mounts`],
//!    [`driver_exec`], [`fuse_servers`], [`grpc`], [`files`] and those of [`objects`] need a grant.
//!
//! # Capabilities
//!
//! Attaching, staging, mapping as a device and growing are traits ([`Attacher`], [`Stager`],
//! [`BlockMapper`], [`Expander`]); so are creating volumes and snapshots ([`Controller`],
//! [`Snapshotter`], [`GroupSnapshotter`]) and changing them ([`Modifier`]).
//! `export_plugin!(MyPlugin, Attacher, Expander)` names those that the plugin has. The plugin
//! `loop` has all of them but [`OtherNodes`].
//!
//! # Reading a volume
//!
//! [`Volume`]'s getters read one field each; with the feature `serde`, `Volume::parse` reads the
//! whole source into a struct of the plugin's own (module `source`). Either way an error names the
//! field by its path in the pod, its value, and what would be right.
//!
//! ```
//! # use volhost_plugin_sdk::prelude::*;
//! # let _host = volhost_plugin_sdk::testing::TestHost::new();
//! let volume = Volume::builder("scratch").field("size", "64MB").field("sise", "1Gi");
//! let message = volume.handle().known_fields(&["size"]).unwrap_err().to_string();
//! assert_eq!(message, "scratch.sise: no such field; did you mean size? Known: size");
//! let message = volume.handle().bytes("size").unwrap_err().to_string();
//! assert!(message.starts_with("scratch.size: \"64MB\" is not a quantity: write a number with one of the suffixes Ki, Mi"));
//! ```
//!
//! [`Bytes`] and [`Mode`] are the types of sizes and modes in such a struct; [`MountOptions`] sorts
//! a PersistentVolume's mount options.
//!
//! # Rules
//!
//! - **Replay.** `publish` of a volume that is published, and `unpublish` of one that is not,
//!   succeed and change nothing.
//! - **No state.** Each call runs in a fresh sandbox; a `static` has its initial value again at the
//!   next call.
//! - **Errors name the reaction.** Choose the [`Error`] case by what the host should do next, and
//!   name the field or the object, what is wrong, and what would be right. [`Error::context`] adds
//!   text and keeps the case.
//! - **Bounded.** Memory, time, log lines and handles are limited, and a panic or an endless loop
//!   ends the sandbox. Its handles are closed; a mount that was not attached is discarded.

#![forbid(unsafe_code)]

pub mod abi;
pub mod block_devices;
mod capabilities;
mod describe;
mod devices;
pub mod driver_exec;
pub mod driver_mounts;
mod error;
pub mod events;
pub mod fc_devices;
mod field_kind;
pub mod file_set;
pub mod files;
pub mod filesystems;
pub mod fs_group;
pub mod fuse_servers;
pub mod grpc;
pub mod host_paths;
pub mod huge_pages;
pub mod id_maps;
pub mod image_files;
pub mod iscsi_sessions;
mod key_selection;
pub mod log;
pub mod loop_devices;
mod mode;
mod mount_options;
mod mounts;
pub mod network_mounts;
pub mod node;
pub mod objects;
pub mod oci_images;
pub mod overlays;
mod plugin;
mod pod;
mod pod_items;
pub mod pod_volumes;
pub mod provisioning;
pub mod provisioning_calls;
pub mod quantity;
pub mod quotas;
mod quote;
pub mod settings;
pub mod share_folders;
#[cfg(feature = "serde")]
pub mod source;
mod suggest;
pub mod tmpfs;
mod unit_file_system;
mod volume;

#[cfg(not(target_family = "wasm"))]
pub mod testing;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod wasm;

#[cfg(not(target_family = "wasm"))]
use testing::double as backend;
#[cfg(target_family = "wasm")]
use wasm as backend;

pub use capabilities::{
    Attacher, BlockMapper, Controller, Expander, GroupSnapshotter, Modifier, OtherNodes, Snapshotter, Stager, Stats,
};
pub use describe::{Description, Identity, Measurement};
pub use devices::{Attachment, BlockDevice, LentDevice};
pub use error::{Context, Error, OtherError, Result};
pub use field_kind::FieldKind;
pub use file_set::FileSet;
pub use fs_group::FsGroup;
pub use key_selection::KeySelection;
pub use mode::{Mode, ModeError};
pub use mount_options::MountOptions;
pub use mounts::{DetachedMount, MountSource, MountTarget, PER_MOUNT_OPTIONS, SourceKind, TargetState};
pub use plugin::VolumePlugin;
pub use pod::Pod;
pub use pod_items::PodItems;
pub use provisioning::{GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest};
pub use quantity::Bytes;
pub use quote::quoted;
pub use settings::SettingKind;
pub use unit_file_system::UnitFileSystem;
pub use volume::Volume;

/// The names that most plugins need.
pub mod prelude {
    pub use crate::fuse_servers::FuseServer;
    pub use crate::huge_pages::HugePages;
    pub use crate::tmpfs::Tmpfs;
    pub use crate::{
        Attacher, Attachment, BlockDevice, BlockMapper, Context, Controller, Description, DetachedMount, Error,
        Expander, FieldKind, FsGroup, GroupRequest, GroupSnapshotter, Identity, LentDevice, Measurement, Modifier,
        MountSource, MountTarget, OtherNodes, Pod, Result, SettingKind, SnapshotPage, SnapshotRequest, Snapshotter,
        SourceKind, Stager, Stats, TargetState, Volume, VolumeAnswer, VolumePage, VolumePlugin, VolumeRequest,
        block_devices, driver_mounts, events, export_plugin, filesystems, grpc, host_paths, id_maps, image_files, log,
        loop_devices, network_mounts, node, oci_images, overlays, pod_volumes, provisioning, quotas, quoted, settings,
        share_folders,
    };
}
