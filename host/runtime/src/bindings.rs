//! The contract in Rust, generated from `wit/`: a trait for every imported interface, and typed calls for every export.
//!
//! Every host function may end the call (`trappable`); a WIT `error` is returned as [`HostError`], which says which of both it is.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "volume-plugin",
    imports: { default: trappable },
    trappable_error_type: { "volhost:plugin/types.error" => crate::host::HostError },
    with: {
        "volhost:plugin/volumes.description": crate::host::Description,
        "volhost:plugin/volumes.identity": crate::host::Identity,
        "volhost:plugin/volumes.volume": crate::host::VolumeHandle,
        "volhost:plugin/volumes.pod": crate::host::PodHandle,
        "volhost:plugin/mounts.mount-source": crate::host::MountSource,
        "volhost:plugin/mounts.detached-mount": crate::host::DetachedMount,
        "volhost:plugin/mounts.mount-target": crate::host::MountTarget,
    },
});
