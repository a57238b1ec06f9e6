//! The host's side of every import, one file an interface, and what they share: the [`State`] of
//! one call and its errors.
//!
//! A function here trusts nothing it is given. It answers with the contract's `error` what a plugin
//! may run into, and ends the call only where a limit is passed or the contract broken.

mod block_devices;
mod devices;
mod driver_exec;
mod driver_mounts;
mod error;
mod events;
mod fc_devices;
mod files;
mod filesystems;
mod fuse_servers;
mod grpc;
mod host_paths;
mod huge_pages;
mod id_maps;
mod image_files;
mod iscsi_sessions;
mod labels;
mod log;
mod loop_devices;
mod measurement;
mod mounts;
mod network_mounts;
mod node;
mod objects;
mod oci_images;
mod overlays;
mod pod_volumes;
mod provisioning;
mod provisioning_calls;
mod quotas;
mod settings;
mod share_folders;
mod slow_walk;
mod state;
mod tmpfs;
mod unit_devices;
mod volumes;

pub(crate) use error::handle_error;
pub(crate) use state::State;
