//! The contract in Rust, generated from `wit/`: a trait for every imported interface, and typed
//! calls for every export, those that a plugin need not have included. See [`crate::exports`] for
//! which it has.
//!
//! Every host function may end the call (`trappable`); a WIT `error` is returned as [`HostError`],
//! which says which of both it is.

use thiserror::Error;

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "every-capability",
    imports: { default: trappable },
    trappable_error_type: { "volhost:plugin/types.error" => crate::bindings::HostError },
    with: {
        "volhost:plugin/volumes.description": crate::handles::Description,
        "volhost:plugin/volumes.identity": crate::handles::Identity,
        "volhost:plugin/volumes.measurement": crate::handles::Measurement,
        "volhost:plugin/provisioning.volume-request": crate::handles::VolumeRequest,
        "volhost:plugin/provisioning.volume-answer": crate::handles::VolumeAnswer,
        "volhost:plugin/provisioning.volume-page": crate::handles::VolumePage,
        "volhost:plugin/provisioning.snapshot-request": crate::handles::SnapshotRequest,
        "volhost:plugin/provisioning.group-request": crate::handles::GroupRequest,
        "volhost:plugin/provisioning.snapshot-page": crate::handles::SnapshotPage,
        "volhost:plugin/volumes.volume": crate::handles::VolumeHandle,
        "volhost:plugin/volumes.pod": crate::handles::PodHandle,
        "volhost:plugin/mounts.mount-source": crate::handles::MountSource,
        "volhost:plugin/mounts.detached-mount": crate::handles::DetachedMount,
        "volhost:plugin/mounts.mount-target": crate::handles::MountTarget,
        "volhost:plugin/types.content": crate::handles::Content,
        "volhost:plugin/files.payload": crate::handles::Payload,
        "volhost:plugin/config-maps.config-map": crate::handles::ConfigMap,
        "volhost:plugin/grpc.request": crate::handles::GrpcRequest,
        "volhost:plugin/secrets.secret": crate::handles::Secret,
        "volhost:plugin/devices.block-device": crate::handles::BlockDevice,
        "volhost:plugin/filesystems.format-options": crate::handles::FormatOptions,
        "volhost:plugin/driver-exec.driver": crate::handles::Driver,
        "volhost:plugin/driver-exec.arguments": crate::handles::Arguments,
        "volhost:plugin/driver-exec.options": crate::handles::Options,
        "volhost:plugin/driver-exec.outcome": crate::handles::Outcome,
        "volhost:plugin/fuse-servers.fuse-server": crate::handles::FuseServerHandle,
        "volhost:plugin/iscsi-sessions.logical-unit": crate::handles::LogicalUnitHandle,
        "volhost:plugin/oci-images.image": crate::handles::ImageHandle,
        "volhost:plugin/driver-mounts.driver-place": crate::handles::DriverPlace,
        "volhost:plugin/driver-mounts.device-place": crate::handles::DevicePlace,
        "volhost:plugin/devices.attachment": crate::handles::AttachmentHandle,
    },
});

/// The failure of a host function.
#[derive(Debug, Error)]
#[expect(unreachable_pub, reason = "the generated traits are `pub` and return it")]
pub enum HostError {
    /// An error that the plugin gets.
    #[error("answered to the plugin: {0}")]
    Plugin(volhost::plugin::types::Error),
    /// Ends the call.
    #[error(transparent)]
    Abort(#[from] wasmtime::Error),
}
