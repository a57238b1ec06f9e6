//! Measures a published or staged volume, and reports its condition.

use std::sync::Arc;

use volhost_kernel::{DeviceNumber, Entry};
use volhost_runtime::{Capability, Measured, Place};

use crate::check::{shown, volume, wire};
use crate::driver::ServedPlugin;
use crate::places::CoPaths;
use crate::publishing::TARGET_PATH;
use crate::records::ServedVolume;
use crate::refusal::{Refusal, Result};
use crate::staging::{MOUNT, STAGING_PATH};
use volhost_proto::csi::volume_usage::Unit;
use volhost_proto::csi::{NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage};
use volhost_volume_ops::stats::{file_system_at, prefer};

const VOLUME_PATH: &str = "volume_path";

/// Where a volume is on the node.
pub(crate) enum Location {
    /// At a target, for the pod of this uid.
    Published(String),
    /// Where it is staged.
    Staged,
}

impl ServedPlugin {
    /// Finds the record of the volume at this path.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when the volume is not on this node, or not there.
    pub(crate) fn locate(&self, co: &CoPaths<'_>, id: &str, path: &str) -> Result<(ServedVolume, Location)> {
        if path.is_empty() {
            return Err(Refusal::field(VOLUME_PATH, "is missing"));
        }
        let absent = || Refusal::NotFound(format!("{} is not published or staged at {}", volume(id), shown(path)));
        let record = self.on_node.read(id)?.ok_or_else(absent)?;
        let staged_there = record.staged.as_ref().is_some_and(|staged| staged.path == path);
        match record.published.get(path).map(|published| published.pod.clone()) {
            Some(pod) => Ok((record, Location::Published(pod))),
            None if staged_there => Ok((record, Location::Staged)),
            None => match self.target_of_device(co, &record, path)? {
                Some(pod) => Ok((record, Location::Published(pod))),
                None => Err(absent()),
            },
        }
    }

    /// Returns the pod of a target whose device is at this path too: the kubelet binds a published
    /// device once more, and names that path in its calls.
    fn target_of_device(&self, co: &CoPaths<'_>, record: &ServedVolume, path: &str) -> Result<Option<String>> {
        let failed = |source| Refusal::kernel("looking at", shown(path), source);
        if !record.spec.is_block() {
            return Ok(None);
        }
        let device_at = |path: &str| -> Result<Option<DeviceNumber>> {
            // CSI spec v1.12, NodeGetVolumeStats: a path where no volume can be is not found.
            let place = match co.place(VOLUME_PATH, path) {
                Ok(Some(place)) => place,
                Ok(None) | Err(Refusal::Field { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            if !matches!(self.kernel.entry(&place.parent, &place.name).map_err(failed)?, Entry::Mount(_)) {
                return Ok(None);
            }
            let device = self.kernel.device_at(&place.parent, &place.name).map_err(failed)?;
            Ok(device.map(|device| device.number()))
        };
        let Some(asked) = device_at(path)? else { return Ok(None) };
        for (target, published) in &record.published {
            if device_at(target)? == Some(asked) {
                return Ok(Some(published.pod.clone()));
            }
        }
        Ok(None)
    }

    /// Measures the volume at this path. It may run beside other calls for the volume, and changes
    /// nothing.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn figures(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse> {
        let co = self.co();
        let (record, location) = self.locate(&co, id, path)?;
        let failed = |source| Refusal::kernel("measuring", shown(id), source);
        let absent = || Refusal::NotFound(format!("nothing is mounted at {}", shown(path)));
        let place = match location {
            Location::Published(_) => co.place(TARGET_PATH, path)?.ok_or_else(absent)?,
            Location::Staged => {
                let parent = co.open(STAGING_PATH, path)?.ok_or_else(absent)?;
                Place { parent, name: MOUNT.into() }
            }
        };
        let block = record.spec.is_block();
        if !block
            && self.can(Capability::Stats)
            && let Some(why) = self.dead(&place.parent, &place.name)?
        {
            let condition = VolumeCondition { abnormal: true, message: why };
            return Ok(NodeGetVolumeStatsResponse { usage: Vec::new(), volume_condition: Some(condition) });
        }
        if self.kernel.entry(&place.parent, &place.name).map_err(failed)? == Entry::Absent && !block {
            return Err(absent());
        }
        let mut figures = if block {
            let device = match self.device(&record)? {
                Some(device) => device,
                None => {
                    Arc::new(self.kernel.device_at(&place.parent, &place.name).map_err(failed)?.ok_or_else(absent)?)
                }
            };
            let size = self.kernel.device_size(&device).map_err(failed)?;
            Measured { capacity: Some(size), ..Measured::default() }
        } else {
            file_system_at(&*self.kernel, &place.parent, &place.name).map_err(failed)?
        };
        let measured = self.measured(&co, &record, block, place)?;
        let condition = measured.as_ref().map(|measured| VolumeCondition {
            abnormal: measured.abnormal.is_some(),
            message: measured.abnormal.clone().unwrap_or_else(|| "the volume is well".to_owned()),
        });
        if let Some(measured) = measured {
            prefer(&mut figures, measured);
        }
        Ok(NodeGetVolumeStatsResponse { usage: usage(&figures, block), volume_condition: condition })
    }

    /// Returns what the plugin measures; none if it measures nothing.
    fn measured(&self, co: &CoPaths<'_>, record: &ServedVolume, block: bool, place: Place) -> Result<Option<Measured>> {
        if !self.can(Capability::Stats) {
            return Ok(None);
        }
        let id = record.volume_id.as_str();
        let name = record.name.clone().unwrap_or_else(|| record.spec.name.as_str().to_owned());
        let target = match block {
            true => None,
            false => {
                let pod = volhost_model::PodUid::new(crate::source::name_of(id))
                    .map_err(|error| Refusal::field("volume_id", error.to_string()))?;
                let place = self.publish_place(co, record, "", &pod, place)?;
                Some(place.target())
            }
        };
        let call = self.call(id);
        self.did("measuring", id, self.steps(&call).measure(&name, target))
    }
}

/// Returns the figures as CSI has them; unknown ones are 0. Of a device only the bytes are known.
fn usage(figures: &Measured, block: bool) -> Vec<VolumeUsage> {
    let figure = |known: Option<u64>| known.map_or(0, wire);
    let bytes = VolumeUsage {
        available: figure(figures.available),
        total: figure(figures.capacity),
        used: figure(figures.used),
        unit: Unit::Bytes.into(),
    };
    let inodes = VolumeUsage {
        available: figure(figures.inodes_free),
        total: figure(figures.inodes),
        used: figure(figures.inodes_used),
        unit: Unit::Inodes.into(),
    };
    if block { vec![bytes] } else { vec![bytes, inodes] }
}
