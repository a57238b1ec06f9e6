//! The real host: the backend of the SDK's types inside a component.
//!
//! Every name that [`crate::testing`] has for its double has its twin here, so the rest of the SDK
//! is written once.

pub mod entry;

/// The bindings that wit-bindgen generates from the contract. Not for authors.
pub mod bindings {
    #![expect(missing_docs, reason = "generated; the contract in wit/ documents it")]

    wit_bindgen::generate!({
        path: "wit",
        world: "volume-plugin",
        // The component's exports are written into it by the macro below, not by linking the SDK: a
        // further capability is a further world with a macro of its own, and a plugin exports those
        // whose macros it calls.
        pub_export_macro: true,
        export_macro_name: "export_volume_plugin",
        type_section_suffix: "volume-plugin",
    });
}

/// A capability's world: its exports, with the types of [`bindings`].
macro_rules! capability {
    ($(#[$doc:meta])* $name:ident, $world:tt, $export:tt, $suffix:tt) => {
        $(#[$doc])*
        pub mod $name {
            #![expect(missing_docs, reason = "generated; the contract in wit/ documents it")]

            wit_bindgen::generate!({
                path: "wit",
                world: $world,
                pub_export_macro: true,
                export_macro_name: $export,
                type_section_suffix: $suffix,
                with: {
                    "volhost:plugin/types@0.1.0": crate::wasm::bindings::volhost::plugin::types,
                    "volhost:plugin/volumes@0.1.0": crate::wasm::bindings::volhost::plugin::volumes,
                    "volhost:plugin/provisioning@0.1.0": crate::wasm::bindings::volhost::plugin::provisioning,
                    "volhost:plugin/mounts@0.1.0": crate::wasm::bindings::volhost::plugin::mounts,
                    "volhost:plugin/tmpfs@0.1.0": crate::wasm::bindings::volhost::plugin::tmpfs,
                    "volhost:plugin/host-paths@0.1.0": crate::wasm::bindings::volhost::plugin::host_paths,
                    "volhost:plugin/log@0.1.0": crate::wasm::bindings::volhost::plugin::log,
                    "volhost:plugin/events@0.1.0": crate::wasm::bindings::volhost::plugin::events,
                    "volhost:plugin/node@0.1.0": crate::wasm::bindings::volhost::plugin::node,
                    "volhost:plugin/settings@0.1.0": crate::wasm::bindings::volhost::plugin::settings,
                    "volhost:plugin/devices@0.1.0": crate::wasm::bindings::volhost::plugin::devices,
                    "volhost:plugin/filesystems@0.1.0": crate::wasm::bindings::volhost::plugin::filesystems,
                    "volhost:plugin/loop-devices@0.1.0": crate::wasm::bindings::volhost::plugin::loop_devices,
                    "volhost:plugin/overlays@0.1.0": crate::wasm::bindings::volhost::plugin::overlays,
                    "volhost:plugin/pod-volumes@0.1.0": crate::wasm::bindings::volhost::plugin::pod_volumes,
                    "volhost:plugin/image-files@0.1.0": crate::wasm::bindings::volhost::plugin::image_files,
                    "volhost:plugin/network-mounts@0.1.0": crate::wasm::bindings::volhost::plugin::network_mounts,
                    "volhost:plugin/share-folders@0.1.0": crate::wasm::bindings::volhost::plugin::share_folders,
                    "volhost:plugin/iscsi-sessions@0.1.0": crate::wasm::bindings::volhost::plugin::iscsi_sessions,
                    "volhost:plugin/fc-devices@0.1.0": crate::wasm::bindings::volhost::plugin::fc_devices,
                    "volhost:plugin/oci-images@0.1.0": crate::wasm::bindings::volhost::plugin::oci_images,
                    "volhost:plugin/block-devices@0.1.0": crate::wasm::bindings::volhost::plugin::block_devices,
                    "volhost:plugin/id-maps@0.1.0": crate::wasm::bindings::volhost::plugin::id_maps,
                    "volhost:plugin/huge-pages@0.1.0": crate::wasm::bindings::volhost::plugin::huge_pages,
                    "volhost:plugin/quotas@0.1.0": crate::wasm::bindings::volhost::plugin::quotas,
                    "volhost:plugin/driver-exec@0.1.0": crate::wasm::bindings::volhost::plugin::driver_exec,
                    "volhost:plugin/fuse-servers@0.1.0": crate::wasm::bindings::volhost::plugin::fuse_servers,
                    "volhost:plugin/driver-mounts@0.1.0": crate::wasm::bindings::volhost::plugin::driver_mounts,
                },
            });
        }
    };
}

capability!(
    /// The exports of an attacher.
    attacher, "attacher-capability", "export_attacher", "attacher"
);
capability!(
    /// The exports of an attacher that knows of other nodes.
    other_nodes, "other-nodes-capability", "export_other_nodes", "other-nodes"
);
capability!(
    /// The exports of a stager.
    stager, "stager-capability", "export_stager", "stager"
);
capability!(
    /// The exports of a block mapper.
    block_mapper, "block-mapper-capability", "export_block_mapper", "block-mapper"
);
capability!(
    /// The exports of an expander.
    expander, "expander-capability", "export_expander", "expander"
);

capability!(
    /// The exports of a plugin that measures its volumes.
    stats, "stats-capability", "export_stats", "stats"
);

capability!(
    /// The exports of a plugin that makes volumes.
    controller, "controller-capability", "export_controller", "controller"
);
capability!(
    /// The exports of a plugin that makes snapshots.
    snapshotter, "snapshotter-capability", "export_snapshotter", "snapshotter"
);

capability!(
    /// The exports of a plugin that changes volumes.
    modifier, "modifier-capability", "export_modifier", "modifier"
);
capability!(
    /// The exports of a plugin that makes groups of snapshots.
    group_snapshotter, "group-snapshotter-capability", "export_group_snapshotter", "group-snapshotter"
);

pub use bindings::volhost::plugin::devices::{Attachment, BlockDevice};
pub use bindings::volhost::plugin::driver_exec::{Arguments, Driver, Options, Outcome};
pub use bindings::volhost::plugin::driver_mounts::{DevicePlace, DriverPlace};
pub use bindings::volhost::plugin::filesystems::FormatOptions;
pub use bindings::volhost::plugin::fuse_servers::FuseServer;
pub use bindings::volhost::plugin::iscsi_sessions::LogicalUnit;
pub use bindings::volhost::plugin::mounts::{DetachedMount, MountSource, MountTarget};
pub use bindings::volhost::plugin::oci_images::Image;
pub use bindings::volhost::plugin::provisioning::{
    GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest,
};
pub use bindings::volhost::plugin::types::FsOption;
pub use bindings::volhost::plugin::volumes::{Description, Identity, Measurement, Pod, Volume};
pub use bindings::volhost::plugin::{
    block_devices, cluster_trust_bundles, config_maps, csi_driver_objects, driver_exec, driver_mounts, events,
    fc_devices, files, filesystems, fuse_servers, grpc, host_paths, huge_pages, id_maps, image_files, loop_devices,
    network_mounts, node, oci_images, overlays, pod_volumes, provisioning, provisioning_calls, quotas, secrets,
    service_account_tokens, settings, share_folders, tmpfs,
};

use bindings::volhost::plugin::{log as host_log, mounts, types, volumes};
use network_mounts::SecretOption;

use crate::driver_mounts::{Found, Leaf};
use crate::error::{Error, OtherError};
use crate::field_kind::FieldKind;
use crate::grpc::Failure;
use crate::log::Level;
use crate::mounts::TargetState;
use crate::settings::SettingKind;

/// An option of a mount, with the content as its value.
pub fn secret_option<'a>(key: &str, value: &'a files::Content) -> SecretOption<'a> {
    SecretOption { key: key.to_owned(), value }
}

/// The host's error as the author's.
pub fn error_in(error: types::Error) -> Error {
    match error {
        types::Error::InvalidArgument(text) => Error::InvalidArgument(text),
        types::Error::NotFound(text) => Error::NotFound(text),
        types::Error::Conflict(text) => Error::Conflict(text),
        types::Error::Busy(text) => Error::Busy(text),
        types::Error::Precondition(text) => Error::Precondition(text),
        types::Error::PermissionDenied(text) => Error::PermissionDenied(text),
        types::Error::Unsupported(text) => Error::Unsupported(text),
        types::Error::Retryable(text) => Error::Retryable(text),
        types::Error::Uncertain(text) => Error::Uncertain(text),
        types::Error::Corrupt(text) => Error::Corrupt(text),
        types::Error::Other(other) => Error::Other(OtherError { code: other.code, message: other.message }),
    }
}

/// The author's error as the host's.
pub fn error_out(error: Error) -> types::Error {
    match error {
        Error::InvalidArgument(text) => types::Error::InvalidArgument(text),
        Error::NotFound(text) => types::Error::NotFound(text),
        Error::Conflict(text) => types::Error::Conflict(text),
        Error::Busy(text) => types::Error::Busy(text),
        Error::Precondition(text) => types::Error::Precondition(text),
        Error::PermissionDenied(text) => types::Error::PermissionDenied(text),
        Error::Unsupported(text) => types::Error::Unsupported(text),
        Error::Retryable(text) => types::Error::Retryable(text),
        Error::Uncertain(text) => types::Error::Uncertain(text),
        Error::Corrupt(text) => types::Error::Corrupt(text),
        Error::Other(other) => types::Error::Other(types::OtherError { code: other.code, message: other.message }),
    }
}

/// A piece of a text in a driver's request.
pub use grpc::Part;

/// A driver's failure, as the author's.
pub fn failure_in(failure: grpc::Failure) -> Failure {
    match failure {
        grpc::Failure::NotSent(why) => Failure::NotSent(why),
        grpc::Failure::Unanswered(why) => Failure::Unanswered(why),
        grpc::Failure::Status(status) => Failure::Status { code: status.code, message: status.message },
    }
}

/// The state of a target.
pub fn target_state(state: mounts::TargetState) -> TargetState {
    match state {
        mounts::TargetState::Absent => TargetState::Absent,
        mounts::TargetState::Plain => TargetState::Plain,
        mounts::TargetState::Mounted => TargetState::Mounted,
    }
}

/// The type of a field.
pub fn field_kind(kind: volumes::FieldKind) -> FieldKind {
    match kind {
        volumes::FieldKind::Text => FieldKind::Text,
        volumes::FieldKind::Number => FieldKind::Number,
        volumes::FieldKind::Boolean => FieldKind::Boolean,
        volumes::FieldKind::List => FieldKind::List,
        volumes::FieldKind::Map => FieldKind::Map,
    }
}

/// The type of a setting.
pub fn setting_kind(kind: SettingKind) -> volumes::SettingKind {
    match kind {
        SettingKind::Text => volumes::SettingKind::Text,
        SettingKind::Number => volumes::SettingKind::Number,
        SettingKind::Boolean => volumes::SettingKind::Boolean,
        SettingKind::Texts => volumes::SettingKind::Texts,
        SettingKind::Secret => volumes::SettingKind::Secret,
    }
}

/// The host's preparation for a driver.
pub fn leaf_out(leaf: Leaf) -> driver_mounts::Leaf {
    match leaf {
        Leaf::Absent => driver_mounts::Leaf::Absent,
        Leaf::Folder => driver_mounts::Leaf::Folder,
    }
}

/// The content of a place after a driver's call.
pub fn found_in(found: driver_mounts::Found) -> Found {
    match found {
        driver_mounts::Found::NewMount => Found::NewMount,
        driver_mounts::Found::SameMount => Found::SameMount,
        driver_mounts::Found::FilledFolder => Found::FilledFolder,
    }
}

/// Writes one line to the host's log.
pub fn write_log(level: Level, message: &str) {
    let level = match level {
        Level::Error => host_log::Level::Error,
        Level::Warn => host_log::Level::Warn,
        Level::Info => host_log::Level::Info,
        Level::Debug => host_log::Level::Debug,
    };
    host_log::write(level, message);
}
