//! The double under the names that `crate::wasm` has for the real host, so the rest of the SDK is
//! written once.

pub(crate) use super::clients::{events, host_paths, huge_pages, id_maps, node, quotas, settings, tmpfs, write_log};
pub(crate) use super::devices::filesystems::FormatOptions;
pub(crate) use super::devices::{Attachment, BlockDevice, block_devices, filesystems, loop_devices};
pub(crate) use super::drivers::{DevicePlace, DriverPlace, driver_mounts};
pub(crate) use super::fabric::fc_devices;
pub(crate) use super::files;
pub(crate) use super::flex::{Arguments, Driver, Options, Outcome, driver_exec};
pub(crate) use super::grpc::{self, Part};
pub(crate) use super::identity::{Description, Identity, Measurement};
pub(crate) use super::images::{Image, oci_images};
pub(crate) use super::layers::{image_files, overlays, pod_volumes};
pub(crate) use super::mount::{DetachedMount, FsOption, MountSource};
pub(crate) use super::objects::{
    cluster_trust_bundles, config_maps, csi_driver_objects, secrets, service_account_tokens,
};
pub(crate) use super::pod::Pod;
pub(crate) use super::provisioning::{
    self, GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest,
};
pub(crate) use super::provisioning_calls;
pub(crate) use super::servers::{FuseServer, fuse_servers};
pub(crate) use super::share_files::share_folders;
pub(crate) use super::shares::network_mounts;
pub(crate) use super::shares::network_mounts::secret_option;
pub(crate) use super::target::MountTarget;
pub(crate) use super::targets::LogicalUnit;
pub(crate) use super::volume::Volume;

use crate::driver_mounts::{Found, Leaf};
use crate::error::Error;
use crate::field_kind::FieldKind;
use crate::grpc::Failure;
use crate::mounts::TargetState;
use crate::settings::SettingKind;

/// The double uses the author's errors already.
pub(crate) fn error_in(error: Error) -> Error {
    error
}

/// The double uses the author's failures already.
pub(crate) fn failure_in(failure: Failure) -> Failure {
    failure
}

/// The double uses the author's states already.
pub(crate) fn target_state(state: TargetState) -> TargetState {
    state
}

/// The double uses the author's type already.
pub(crate) fn field_kind(kind: FieldKind) -> FieldKind {
    kind
}

/// The double uses the author's type already.
pub(crate) fn setting_kind(kind: SettingKind) -> SettingKind {
    kind
}

/// The double uses the author's type already.
pub(crate) fn leaf_out(leaf: Leaf) -> Leaf {
    leaf
}

/// The double uses the author's type already.
pub(crate) fn found_in(found: Found) -> Found {
    found
}
