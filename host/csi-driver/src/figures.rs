//! How full a published or staged volume is, and how well.

use std::sync::Arc;

use volhost_kernel::Entry;
use volhost_runtime::{Capability, Measured, Place};

use crate::check::{shown, wire};
use crate::driver::Driver;
use crate::node::volume;
use crate::publishing::TARGET_PATH;
use crate::records::OnNode;
use crate::refusal::{Refusal, Result};
use crate::staging::{MOUNT, STAGING_PATH};
use volhost_proto::csi::volume_usage::Unit;
use volhost_proto::csi::{NodeGetVolumeStatsResponse, VolumeCondition, VolumeUsage};

const VOLUME_PATH: &str = "volume_path";

/// Where a volume stands on the node.
pub(crate) enum Where {
    /// At a target, for the pod of this uid.
    Published(String),
    /// Where it is staged.
    Staged,
}

impl Driver {
    /// The record of the volume that stands at this path.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when the volume is not on this node, or not there.
    pub(crate) fn standing(&self, id: &str, path: &str) -> Result<(OnNode, Where)> {
        if path.is_empty() {
            return Err(Refusal::field(VOLUME_PATH, "is missing"));
        }
        let absent = || Refusal::NotFound(format!("{} is not published or staged at {}", volume(id), shown(path)));
        let record = self.on_node.read(id)?.ok_or_else(absent)?;
        let staged_there = record.staged.as_ref().is_some_and(|staged| staged.path == path);
        match record.published.get(path).map(|published| published.pod.clone()) {
            Some(pod) => Ok((record, Where::Published(pod))),
            None if staged_there => Ok((record, Where::Staged)),
            None => Err(absent()),
        }
    }

    /// How full the volume is that stands at this path. Asked beside other calls for the volume; nothing is changed.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn figures(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse> {
        let (record, stands) = self.standing(id, path)?;
        let failed = |source| Refusal::kernel("measuring", shown(id), source);
        let absent = || Refusal::NotFound(format!("nothing stands at {}", shown(path)));
        let place = match stands {
            Where::Published(_) => self.co.place(&*self.kernel, TARGET_PATH, path)?.ok_or_else(absent)?,
            Where::Staged => {
                let parent = self.co.open(&*self.kernel, STAGING_PATH, path)?.ok_or_else(absent)?;
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
        let usage = if block {
            let device = match self.device(&record)? {
                Some(device) => device,
                None => {
                    Arc::new(self.kernel.device_at(&place.parent, &place.name).map_err(failed)?.ok_or_else(absent)?)
                }
            };
            let size = self.kernel.device_size(&device).map_err(failed)?;
            vec![VolumeUsage { total: wire(size), unit: Unit::Bytes.into(), ..VolumeUsage::default() }]
        } else {
            let told = self.kernel.usage(&place.parent, &place.name).map_err(failed)?;
            vec![
                VolumeUsage {
                    available: wire(told.available),
                    total: wire(told.capacity),
                    used: wire(told.used),
                    unit: Unit::Bytes.into(),
                },
                VolumeUsage {
                    available: wire(told.inodes_free),
                    total: wire(told.inodes),
                    used: wire(told.inodes_used),
                    unit: Unit::Inodes.into(),
                },
            ]
        };
        let measured = self.measured(&record, block, place)?;
        let condition = measured.as_ref().map(|measured| VolumeCondition {
            abnormal: measured.abnormal.is_some(),
            message: measured.abnormal.clone().unwrap_or_else(|| "the volume is well".to_owned()),
        });
        let usage = measured.map_or(usage.clone(), |measured| better(usage, &measured));
        Ok(NodeGetVolumeStatsResponse { usage, volume_condition: condition })
    }

    /// What the plugin knows; none when it measures nothing.
    fn measured(&self, record: &OnNode, block: bool, place: Place) -> Result<Option<Measured>> {
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
                Some(self.target(record, "", &pod, place)?)
            }
        };
        self.did("measuring", id, self.plugin.measure(&self.call(id), &name, target)).map(Some)
    }
}

/// The figures with what the plugin knows better.
fn better(usage: Vec<VolumeUsage>, measured: &Measured) -> Vec<VolumeUsage> {
    let take = |figure: i64, known: Option<u64>| known.map_or(figure, wire);
    let improve = |usage: VolumeUsage| match usage.unit() {
        Unit::Inodes => VolumeUsage {
            available: take(usage.available, measured.inodes_free),
            total: take(usage.total, measured.inodes),
            used: take(usage.used, measured.inodes_used),
            ..usage
        },
        _ => VolumeUsage {
            available: take(usage.available, measured.available),
            total: take(usage.total, measured.capacity),
            used: take(usage.used, measured.used),
            ..usage
        },
    };
    usage.into_iter().map(improve).collect()
}
