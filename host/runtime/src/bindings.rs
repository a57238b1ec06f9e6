//! The contract in Rust, generated from `wit/`: a trait for every imported interface, and typed calls for every export, those that a
//! plugin need not have included. See [`crate::exports`] for which it has.
//!
//! Every host function may end the call (`trappable`); a WIT `error` is returned as [`HostError`], which says which of both it is.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "every-capability",
    imports: { default: trappable },
    trappable_error_type: { "volhost:plugin/types.error" => crate::host::HostError },
    with: {
        "volhost:plugin/volumes.description": crate::host::Description,
        "volhost:plugin/volumes.identity": crate::host::Identity,
        "volhost:plugin/volumes.measurement": crate::host::Measurement,
        "volhost:plugin/provisioning.volume-request": crate::host::VolumeRequest,
        "volhost:plugin/provisioning.volume-answer": crate::host::VolumeAnswer,
        "volhost:plugin/provisioning.volume-page": crate::host::VolumePage,
        "volhost:plugin/provisioning.snapshot-request": crate::host::SnapshotRequest,
        "volhost:plugin/provisioning.group-request": crate::host::GroupRequest,
        "volhost:plugin/provisioning.snapshot-page": crate::host::SnapshotPage,
        "volhost:plugin/volumes.volume": crate::host::VolumeHandle,
        "volhost:plugin/volumes.pod": crate::host::PodHandle,
        "volhost:plugin/mounts.mount-source": crate::host::MountSource,
        "volhost:plugin/mounts.detached-mount": crate::host::DetachedMount,
        "volhost:plugin/mounts.mount-target": crate::host::MountTarget,
        "volhost:plugin/files.content": crate::host::Content,
        "volhost:plugin/files.payload": crate::host::Payload,
        "volhost:plugin/config-maps.config-map": crate::host::ConfigMap,
        "volhost:plugin/grpc.request": crate::host::GrpcRequest,
        "volhost:plugin/secrets.secret": crate::host::Secret,
        "volhost:plugin/devices.block-device": crate::host::BlockDevice,
        "volhost:plugin/filesystems.format-options": crate::host::FormatOptions,
        "volhost:plugin/driver-exec.driver": crate::host::Driver,
        "volhost:plugin/driver-exec.arguments": crate::host::Arguments,
        "volhost:plugin/driver-exec.options": crate::host::Options,
        "volhost:plugin/driver-exec.outcome": crate::host::Outcome,
        "volhost:plugin/fuse-helpers.helper": crate::host::Helper,
        "volhost:plugin/driver-mounts.driver-place": crate::host::DriverPlace,
        "volhost:plugin/driver-mounts.device-place": crate::host::DevicePlace,
        "volhost:plugin/devices.attachment": crate::host::AttachmentHandle,
    },
});
