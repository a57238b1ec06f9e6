//! The host's side of every import, one file an interface, and what they share: the [`State`] of one call and its errors.
//!
//! A function here trusts nothing it is given. It answers with the contract's `error` what a plugin may run into, and ends
//! the call only where a limit is passed or the contract broken.

mod error;
mod events;
mod host_paths;
mod log;
mod mounts;
mod node;
mod state;
mod tmpfs;
mod volumes;

pub use error::HostError;
pub(crate) use state::State;

use std::sync::Arc;

use volhost_model::{Pod, VolumeSpec};

use crate::context::Target;

/// What a plugin says of itself, as `describe` fills it in.
#[derive(Debug, Default)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sources: Vec<String>,
    pub(crate) accepts_mount_options: bool,
    pub(crate) follows_its_source: bool,
}

/// What a plugin says of a volume, as `identify` fills it in.
#[derive(Debug, Default)]
pub struct Identity {
    pub(crate) name: Option<String>,
}

/// A volume, as a plugin sees it.
#[derive(Debug)]
pub struct VolumeHandle(pub(crate) Arc<VolumeSpec>);

/// A pod, as a plugin sees it.
#[derive(Debug)]
pub struct PodHandle(pub(crate) Arc<Pod>);

/// Where the volume goes.
#[derive(Debug)]
pub struct MountTarget(pub(crate) Arc<Target>);

/// Something that can be bind-mounted.
#[derive(Debug)]
pub struct MountSource(pub(crate) volhost_kernel::MountSource);

/// A mount that nobody sees yet.
#[derive(Debug)]
pub struct DetachedMount(pub(crate) volhost_kernel::DetachedMount);
