#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod call;
mod controller;
mod controller_messages;
mod device;
mod driver_object;
mod messages;
mod note;
mod places;
mod provision;
mod publish;
mod request;
mod snapshots;
mod source;
mod stage;

#[cfg(test)]
mod provision_tests;
#[cfg(test)]
mod tests;

use call::{Abilities, ask, meaning, meaning_of_growth, node};
use driver_object::DriverObject;
use messages::{
    CapacityRange, NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest,
    NodeGetVolumeStatsResponse, Unit,
};
use prost::Message as _;
use source::Source;
use volhost_plugin_sdk::driver_mounts::{self, Leaf};
use volhost_plugin_sdk::grpc::{self, Request};
use volhost_plugin_sdk::prelude::*;

/// The number of the map of secrets in `NodeExpandVolumeRequest`.
const EXPAND_SECRETS: u32 = 6;

struct Csi;

impl VolumePlugin for Csi {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/csi")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("csi")
            .accepts_mount_options()
            .follows_its_source();
    }

    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        let source = Source::read(volume)?;
        let object = DriverObject::of(&source.driver)?;
        object.check_lifecycle(&source.driver, volume)?;
        match source.name() {
            Some(name) => {
                id.name(&name);
                id.attachable(object.attach_required);
                id.selinux_mount(object.selinux_mount);
                if let Some(limit) = grpc::volume_limit(&source.driver) {
                    id.attach_limit_of(&source::names_of(&source.driver), limit);
                }
            }
            None => {
                id.attachable(false);
                id.stageable(false);
            }
        }
        if object.requires_republish {
            id.refreshed();
        }
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        publish::publish(volume, pod, target)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        publish::unpublish(target)
    }
}

impl Attacher for Csi {
    fn attach(volume: &Volume) -> Result<String> {
        controller::attach(volume)
    }

    fn detach(volume_name: &str) -> Result<()> {
        controller::detach(volume_name)
    }

    /// Returns no device: the driver gets the attachment when it stages the volume.
    fn wait_for_attach(_volume: &Volume, _attached: &Attachment) -> Result<Option<BlockDevice>> {
        Ok(None)
    }

    fn are_attached(_volume_names: &[String]) -> Result<Vec<bool>> {
        Err(Error::unsupported("a CSI driver's node service cannot report which volumes are attached"))
    }
}

impl Stager for Csi {
    fn stage(volume: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        stage::stage(volume, attached, target)
    }

    fn unstage(volume_name: &str, target: &MountTarget) -> Result<()> {
        stage::unstage(volume_name, target)
    }
}

impl BlockMapper for Csi {
    /// Stages the volume, and returns no device: one appears only when the driver publishes the
    /// volume for a pod.
    fn stage_device(volume: &Volume, attached: Option<&Attachment>) -> Result<Option<BlockDevice>> {
        device::stage(volume, attached).map(|()| None)
    }

    fn map_device(volume: &Volume, pod: &Pod, _device: Option<&LentDevice>) -> Result<Option<BlockDevice>> {
        device::publish(volume, pod).map(Some)
    }

    fn unmap_device(volume_name: &str, pod_uid: &str) -> Result<()> {
        device::unpublish(volume_name, pod_uid)
    }

    fn unstage_device(volume_name: &str) -> Result<()> {
        device::unstage(volume_name)
    }
}

impl Expander for Csi {
    /// Does nothing for a driver that does not expand volumes on the node.
    fn expand(volume: &Volume, _attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        let source = Source::read(volume).map_err(request::not_sent)?;
        let Some(handle) = source.handle.clone() else { return Ok(to) };
        let abilities = Abilities::of_node(&source.driver)?;
        if !abilities.has(node::EXPAND_VOLUME) {
            return Ok(to);
        }
        let encoded = expansion(volume, &source, handle, &abilities, target, to).map_err(request::not_sent)?;
        let answer: NodeExpandVolumeResponse = call::send(&source.driver, "Node/NodeExpandVolume", &encoded)
            .map_err(|failure| meaning_of_growth(&source.driver, "NodeExpandVolume", &failure))?;
        // A driver need not report the new size.
        Ok(u64::try_from(answer.capacity_bytes).unwrap_or_default().max(to))
    }
}

/// The request to expand a volume. When it cannot be made, the driver was not called.
fn expansion(
    volume: &Volume,
    source: &Source,
    handle: String,
    abilities: &Abilities,
    target: Option<&MountTarget>,
    to: u64,
) -> Result<Request> {
    let (volume_path, staging_target_path) = match target {
        Some(target) => (stage::path_of(target)?, driver_mounts::node_path(target)?.unwrap_or_default()),
        None => device::paths()?,
    };
    let message = NodeExpandVolumeRequest {
        volume_id: handle,
        volume_path,
        capacity_range: Some(CapacityRange::at_least(to)),
        staging_target_path: if abilities.has(node::STAGE_UNSTAGE_VOLUME) {
            staging_target_path
        } else {
            String::new()
        },
        volume_capability: Some(request::capability(source, volume, abilities)),
    };
    let encoded = Request::new(&message.encode_to_vec());
    request::add_secret(&encoded, EXPAND_SECRETS, volume, None, "nodeExpandSecretRef")?;
    Ok(encoded)
}

impl Stats for Csi {
    fn measure(volume_name: &str, target: Option<&MountTarget>, into: &mut Measurement) -> Result<()> {
        // The name of a pod's own volume does not contain its driver: only the host can measure it.
        let Ok((driver, id)) = source::split(volume_name) else { return Ok(()) };
        let abilities = Abilities::of_node(driver)?;
        let Some(target) = target.filter(|_| abilities.has(node::GET_VOLUME_STATS)) else { return Ok(()) };
        if !target.is_mounted()? {
            return Ok(());
        }
        let place = driver_mounts::prepare(target, Leaf::Folder)?;
        let message = NodeGetVolumeStatsRequest { volume_id: id.to_owned(), volume_path: place.path() };
        let answer: NodeGetVolumeStatsResponse = ask(driver, "Node/NodeGetVolumeStats", &message)
            .map_err(|failure| meaning(driver, "NodeGetVolumeStats", &failure))?;
        for usage in &answer.usage {
            let number = |number: i64| u64::try_from(number).unwrap_or_default();
            match usage.unit() {
                Unit::Bytes => {
                    into.capacity(number(usage.total));
                    into.available(number(usage.available));
                    into.used(number(usage.used));
                }
                Unit::Inodes => {
                    into.inodes(number(usage.total));
                    into.inodes_free(number(usage.available));
                    into.inodes_used(number(usage.used));
                }
                Unit::Unknown => {}
            }
        }
        if let Some(condition) =
            answer.volume_condition.filter(|condition| condition.abnormal && abilities.has(node::VOLUME_CONDITION))
        {
            into.abnormal(&condition.message);
        }
        Ok(())
    }
}

export_plugin!(Csi, Attacher, Stager, BlockMapper, Expander, Stats, Controller, Snapshotter);
