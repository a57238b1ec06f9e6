//! The component's exports: each prepares the sandbox, wraps the handles, and calls the author's
//! function.

use std::marker::PhantomData;

use super::bindings::exports::volhost::plugin::{plugin, publisher};
use super::bindings::volhost::plugin::types;
use super::{
    Attachment, BlockDevice, Description, GroupRequest, Identity, Measurement, MountTarget, Pod, SnapshotPage,
    SnapshotRequest, Volume, VolumeAnswer, VolumePage, VolumeRequest, error_out, write_log,
};
use super::{
    attacher, block_mapper, controller, expander, group_snapshotter, modifier, other_nodes, snapshotter, stager, stats,
};
use crate::capabilities::{
    Attacher, BlockMapper, Controller, Expander, GroupSnapshotter, Modifier, OtherNodes, Snapshotter, Stager, Stats,
};
use crate::log::Level;
use crate::plugin::VolumePlugin;

/// The exports of [`crate::export_plugin!`] for the author's type. It has no values.
#[derive(Debug)]
pub struct Exports<T>(PhantomData<T>);

/// Logs a panic's text before the trap: it would be lost with the sandbox.
///
/// Set at each call, since each call has a sandbox of its own.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("without a text");
        let line = match panic.location() {
            Some(at) => format!("the plugin panicked at {}:{}: {why}", at.file(), at.line()),
            None => format!("the plugin panicked: {why}"),
        };
        write_log(Level::Error, &line);
    }));
}

impl<T: VolumePlugin> plugin::Guest for Exports<T> {
    fn describe(into: &Description) {
        report_panics();
        T::describe(&mut crate::describe::Description::new(into));
    }

    fn identify(volume: &Volume, into: &Identity) -> Result<(), types::Error> {
        report_panics();
        T::identify(&crate::volume::Volume::new(volume), &mut crate::describe::Identity::new(into)).map_err(error_out)
    }
}

impl<T: VolumePlugin> publisher::Guest for Exports<T> {
    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::publish(
            &crate::volume::Volume::new(volume),
            &crate::pod::Pod::new(pod),
            &crate::mounts::MountTarget::new(target),
        )
        .map_err(error_out)
    }

    fn unpublish(target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::unpublish(&crate::mounts::MountTarget::new(target)).map_err(error_out)
    }
}

impl<T: Attacher> attacher::exports::volhost::plugin::attacher::Guest for Exports<T> {
    fn attach(volume: &Volume) -> Result<String, types::Error> {
        report_panics();
        T::attach(&crate::volume::Volume::new(volume)).map_err(error_out)
    }

    fn detach(volume_name: String) -> Result<(), types::Error> {
        report_panics();
        T::detach(&volume_name).map_err(error_out)
    }

    fn wait_for_attach(volume: &Volume, attached: &Attachment) -> Result<Option<BlockDevice>, types::Error> {
        report_panics();
        T::wait_for_attach(&crate::volume::Volume::new(volume), &crate::devices::Attachment::new(attached))
            .map(|device| device.map(|device| device.0))
            .map_err(error_out)
    }

    fn are_attached(volume_names: Vec<String>) -> Result<Vec<bool>, types::Error> {
        report_panics();
        T::are_attached(&volume_names).map_err(error_out)
    }
}

impl<T: OtherNodes> other_nodes::exports::volhost::plugin::other_nodes::Guest for Exports<T> {
    fn attached_to(volume_name: String) -> Result<Option<String>, types::Error> {
        report_panics();
        T::attached_to(&volume_name).map_err(error_out)
    }

    fn detach_from(volume_name: String, node: String) -> Result<(), types::Error> {
        report_panics();
        T::detach_from(&volume_name, &node).map_err(error_out)
    }
}

impl<T: Stager> stager::exports::volhost::plugin::stager::Guest for Exports<T> {
    fn stage(volume: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::stage(
            &crate::volume::Volume::new(volume),
            attached.map(crate::devices::Attachment::new).as_ref(),
            &crate::mounts::MountTarget::new(target),
        )
        .map_err(error_out)
    }

    fn unstage(volume_name: String, target: &MountTarget) -> Result<(), types::Error> {
        report_panics();
        T::unstage(&volume_name, &crate::mounts::MountTarget::new(target)).map_err(error_out)
    }
}

impl<T: BlockMapper> block_mapper::exports::volhost::plugin::block_mapper::Guest for Exports<T> {
    fn stage_device(volume: &Volume, attached: Option<&Attachment>) -> Result<Option<BlockDevice>, types::Error> {
        report_panics();
        let attached = attached.map(crate::devices::Attachment::new);
        T::stage_device(&crate::volume::Volume::new(volume), attached.as_ref())
            .map(|device| device.map(|device| device.0))
            .map_err(error_out)
    }

    fn map_device(
        volume: &Volume,
        pod: &Pod,
        device: Option<&BlockDevice>,
    ) -> Result<Option<BlockDevice>, types::Error> {
        report_panics();
        T::map_device(
            &crate::volume::Volume::new(volume),
            &crate::pod::Pod::new(pod),
            device.map(crate::devices::LentDevice::new).as_ref(),
        )
        .map(|device| device.map(|device| device.0))
        .map_err(error_out)
    }

    fn unmap_device(volume_name: String, pod_uid: String) -> Result<(), types::Error> {
        report_panics();
        T::unmap_device(&volume_name, &pod_uid).map_err(error_out)
    }

    fn unstage_device(volume_name: String) -> Result<(), types::Error> {
        report_panics();
        T::unstage_device(&volume_name).map_err(error_out)
    }
}

impl<T: Expander> expander::exports::volhost::plugin::expander::Guest for Exports<T> {
    fn expand(
        volume: &Volume,
        attached: Option<&Attachment>,
        target: Option<&MountTarget>,
        to: u64,
    ) -> Result<u64, types::Error> {
        report_panics();
        T::expand(
            &crate::volume::Volume::new(volume),
            attached.map(crate::devices::Attachment::new).as_ref(),
            target.map(crate::mounts::MountTarget::new).as_ref(),
            to,
        )
        .map_err(error_out)
    }
}

impl<T: Stats> stats::exports::volhost::plugin::stats::Guest for Exports<T> {
    fn measure(volume_name: String, target: Option<&MountTarget>, into: &Measurement) -> Result<(), types::Error> {
        report_panics();
        T::measure(
            &volume_name,
            target.map(crate::mounts::MountTarget::new).as_ref(),
            &mut crate::describe::Measurement::new(into),
        )
        .map_err(error_out)
    }
}

impl<T: Controller> controller::exports::volhost::plugin::controller::Guest for Exports<T> {
    fn create(wanted: &VolumeRequest, into: &VolumeAnswer) -> Result<(), types::Error> {
        report_panics();
        T::create(&crate::provisioning::VolumeRequest::new(wanted), &mut crate::provisioning::VolumeAnswer::new(into))
            .map_err(error_out)
    }

    fn delete(volume_id: String) -> Result<(), types::Error> {
        report_panics();
        T::delete(&volume_id).map_err(error_out)
    }

    fn find(volume_id: String, into: &VolumeAnswer) -> Result<(), types::Error> {
        report_panics();
        T::find(&volume_id, &mut crate::provisioning::VolumeAnswer::new(into)).map_err(error_out)
    }

    fn expand(volume_id: String, to: u64, limit: Option<u64>) -> Result<u64, types::Error> {
        report_panics();
        T::expand(&volume_id, to, limit).map_err(error_out)
    }

    fn list_volumes(start: String, most: u32, into: &VolumePage) -> Result<(), types::Error> {
        report_panics();
        T::list_volumes(&start, most, &mut crate::provisioning::VolumePage::new(into)).map_err(error_out)
    }

    fn free_space(wanted: &VolumeRequest) -> Result<Option<u64>, types::Error> {
        report_panics();
        T::free_space(&crate::provisioning::VolumeRequest::new(wanted)).map_err(error_out)
    }
}

impl<T: Snapshotter> snapshotter::exports::volhost::plugin::snapshotter::Guest for Exports<T> {
    fn create_snapshot(wanted: &SnapshotRequest, into: &SnapshotPage) -> Result<(), types::Error> {
        report_panics();
        T::create_snapshot(
            &crate::provisioning::SnapshotRequest::new(wanted),
            &mut crate::provisioning::SnapshotPage::new(into),
        )
        .map_err(error_out)
    }

    fn delete_snapshot(snapshot_id: String) -> Result<(), types::Error> {
        report_panics();
        T::delete_snapshot(&snapshot_id).map_err(error_out)
    }

    fn find_snapshot(snapshot_id: String, into: &SnapshotPage) -> Result<(), types::Error> {
        report_panics();
        T::find_snapshot(&snapshot_id, &mut crate::provisioning::SnapshotPage::new(into)).map_err(error_out)
    }

    fn list_snapshots(
        volume_id: Option<String>,
        start: String,
        most: u32,
        into: &SnapshotPage,
    ) -> Result<(), types::Error> {
        report_panics();
        T::list_snapshots(volume_id.as_deref(), &start, most, &mut crate::provisioning::SnapshotPage::new(into))
            .map_err(error_out)
    }
}

impl<T: Modifier> modifier::exports::volhost::plugin::modifier::Guest for Exports<T> {
    fn modify(volume_id: String, wanted: &VolumeRequest) -> Result<(), types::Error> {
        report_panics();
        T::modify(&volume_id, &crate::provisioning::VolumeRequest::new(wanted)).map_err(error_out)
    }
}

impl<T: GroupSnapshotter> group_snapshotter::exports::volhost::plugin::group_snapshotter::Guest for Exports<T> {
    fn create_group(wanted: &GroupRequest, into: &SnapshotPage) -> Result<(), types::Error> {
        report_panics();
        T::create_group(
            &crate::provisioning::GroupRequest::new(wanted),
            &mut crate::provisioning::SnapshotPage::new(into),
        )
        .map_err(error_out)
    }

    fn delete_group(group_id: String) -> Result<(), types::Error> {
        report_panics();
        T::delete_group(&group_id).map_err(error_out)
    }

    fn find_group(group_id: String, into: &SnapshotPage) -> Result<(), types::Error> {
        report_panics();
        T::find_group(&group_id, &mut crate::provisioning::SnapshotPage::new(into)).map_err(error_out)
    }
}
