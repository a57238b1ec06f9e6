//! Publishes a volume at a target of the CO, and unpublishes it. The driver makes and removes the
//! target's last name.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use tracing::warn;
use volhost_kernel::{Detach, Entry};
use volhost_model::{Pod, PodUid};
use volhost_runtime::{FolderKind, Place, PrivateFolder};

use crate::check::{shown, volume};
use crate::driver::{PRIVATE, ServedPlugin};
use crate::places::CoPaths;
use crate::records::{PublishedUse, ServedVolume, StagedUse};
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::source::{self, RequestedVolume, name_of};
use crate::staging::{MOUNT, STAGING_PATH};
use crate::usage::RequestedUsage;
use volhost_proto::csi::NodePublishVolumeRequest;
use volhost_volume_ops::other_users::{OtherUsers, PublishTargets};
use volhost_volume_ops::places::PublishPlace;

/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "nodePublishSecretRef";
pub(crate) const TARGET_PATH: &str = "target_path";

fn target_claim(path: &Path) -> String {
    format!("target {}", path.display())
}

impl ServedPlugin {
    /// Publishes the volume. A volume that is published already stays as it is.
    ///
    /// # Errors
    /// [`Refusal`]; unless it is final, something may be left, which the next call completes or an
    /// unpublish undoes.
    pub(crate) fn publish(&self, request: &NodePublishVolumeRequest) -> Result<()> {
        let (id, target) = (request.volume_id.as_str(), request.target_path.as_str());
        let co = self.co();
        let below = co.below(TARGET_PATH, target)?;
        let usage = RequestedUsage::read(request.volume_capability.as_ref())?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let _claim = self.in_flight.claim([volume(id), target_claim(&below)])?;
        self.check_usage(&usage)?;
        let mut pod = source::pod(&request.volume_context, target)?;
        pod.fs_group = usage.mount_group;
        let read_only = request.readonly;
        let asked = RequestedVolume { volume_id: id, context: &request.volume_context, usage: &usage, read_only };
        let spec = self.source.spec(&asked)?;
        let mut record = self.record_to_publish(&co, request, &usage, &spec, &secrets)?;
        let wanted = PublishedUse { usage, read_only, pod: pod.uid.as_str().to_owned(), done: true };
        check_others(&record, target, &wanted)?;
        let place = co.place(TARGET_PATH, target)?.ok_or_else(|| {
            Refusal::field(TARGET_PATH, format!("there is no folder above {}; the CO makes it", shown(target)))
        })?;
        let mut place = self.publish_place(&co, &record, target, &pod.uid, place)?;
        if let Some(there) = record.published.get(target) {
            // A dead mount is unmounted here, whatever the record says.
            let is_shown = self.is_shown(&record, &place, wanted.usage.block)?;
            match there.is_as(&wanted) {
                true if is_shown && there.done => return Ok(()),
                // What a driver that was killed had begun may be done.
                false if is_shown => return Err(is_published_otherwise(id)),
                _ => {}
            }
        }
        let failed = |source| Refusal::kernel("looking at", shown(target), source);
        let was_there = place.entry(&*self.kernel).map_err(failed)? != Entry::Absent;
        // What was there before and is not of this volume is not removed.
        let ours = !was_there || record.published.contains_key(target);
        record.published.insert(target.to_owned(), PublishedUse { done: false, ..wanted.clone() });
        self.on_node.write(record.clone())?;
        let block = wanted.usage.block;
        let outcome = if block {
            self.show_device(&record, &pod, &place, &secrets)
        } else {
            place.other_users = self.other_users(&co, &record, target)?;
            let (spec, pod) = (secrets.referred(&self.plugin, &spec, SECRETS), Arc::new(pod.clone()));
            let call = self.call_with(id, &secrets);
            let published = self.steps(&call).publish(&spec, &pod, &place, false);
            self.stepped("publishing", id, published).map(drop)
        };
        match outcome {
            Ok(()) => {
                record.published.insert(target.to_owned(), wanted);
                self.on_node.note_done(record);
                Ok(())
            }
            Err(refusal) if refusal.is_final() => {
                // The CO forgets the target now, and asks for no unpublish.
                let undone = if ours { self.unpublish_at(&record, &place, block) } else { Ok(()) };
                match undone {
                    Ok(()) => self.forget(record, target)?,
                    Err(error) => warn!(volume = id, %error, "a failed publish could not be undone"),
                }
                Err(refusal)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Unpublishes the volume. A volume that is not published stays so.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unpublish(&self, id: &str, target: &str) -> Result<()> {
        let co = self.co();
        let below = co.below(TARGET_PATH, target)?;
        let _claim = self.in_flight.claim([volume(id), target_claim(&below)])?;
        let record = self.on_node.read(id)?;
        if let Some(place) = co.place(TARGET_PATH, target)? {
            let known = record.as_ref().and_then(|record| Some((record, record.published.get(target)?)));
            match known {
                Some((record, published)) => {
                    let pod = PodUid::new(published.pod.clone())
                        .map_err(|error| Refusal::field(TARGET_PATH, error.to_string()))?;
                    let place = self.publish_place(&co, record, target, &pod, place)?;
                    self.unpublish_at(record, &place, published.usage.block)?;
                }
                None => self.unmount_unrecorded(id, target, &place)?,
            }
        }
        match record {
            Some(record) => self.forget(record, target),
            None => Ok(()),
        }
    }

    /// Returns the record of a volume that is about to be published.
    fn record_to_publish(
        &self,
        co: &CoPaths<'_>,
        request: &NodePublishVolumeRequest,
        usage: &RequestedUsage,
        spec: &volhost_model::VolumeSpec,
        secrets: &RequestSecrets,
    ) -> Result<ServedVolume> {
        let (id, staging) = (request.volume_id.as_str(), request.staging_target_path.as_str());
        let found = self.on_node.read(id)?;
        if !self.stages() {
            return match found {
                Some(record) => Ok(record),
                None => {
                    self.find(id, secrets)?;
                    self.new_record(id, spec, &secrets.referred(&self.plugin, spec, SECRETS), None)
                }
            };
        }
        if staging.is_empty() && source::is_ephemeral(&request.volume_context) {
            return self.stage_own(id, usage, spec, secrets);
        }
        if staging.is_empty() {
            return Err(Refusal::Precondition(format!(
                "staging_target_path: is missing, and {} is staged first",
                volume(id)
            )));
        }
        let Some((record, staged)) = found.and_then(|record| Some((record.clone(), record.staged?))) else {
            self.find(id, secrets)?;
            return Err(Refusal::Precondition(format!("{} is not staged", volume(id))));
        };
        if !staged.done || staged.path != staging {
            return Err(Refusal::Precondition(format!("{} is not staged at {}", volume(id), shown(staging))));
        }
        if !usage.block
            && self.has_mounts_that_die()
            && let Some(folder) = co.open(STAGING_PATH, staging)?
            && let Some(why) = self.dead(&folder, OsStr::new(MOUNT))?
        {
            let way_out = "unpublish it everywhere, and unstage and stage it again";
            return Err(Refusal::Precondition(format!("{} is staged, but {why}; {way_out}", volume(id))));
        }
        if staged.usage.block != usage.block {
            return Err(Refusal::Conflict(format!("{} is staged with another access type", volume(id))));
        }
        if let Some(why) = usage.exceeds(&staged.usage, request.readonly) {
            return Err(Refusal::Precondition(format!("volume_capability: {why}; {} is staged", volume(id))));
        }
        Ok(record)
    }

    /// Returns whether something is at the target already. For a volume that is a plain folder, a
    /// folder is enough.
    fn is_shown(&self, record: &ServedVolume, place: &PublishPlace, block: bool) -> Result<bool> {
        let failed = |source| Refusal::kernel("looking at", shown(&record.volume_id), source);
        if !block && self.take_dead_away(&place.folder, &place.name)? {
            return Ok(false);
        }
        let entry = place.entry(&*self.kernel).map_err(failed)?;
        Ok(matches!(entry, Entry::Mount(_)) || (!block && !record.stageable && entry == Entry::Folder))
    }

    /// Shows the device at the target. `readonly` changes nothing: one node has one device, which
    /// other pods may write, and the CO gives the pod's container no right to write it.
    fn show_device(
        &self,
        record: &ServedVolume,
        pod: &Pod,
        place: &PublishPlace,
        secrets: &RequestSecrets,
    ) -> Result<()> {
        let id = record.volume_id.as_str();
        let failed = |source| Refusal::kernel("showing the device of", shown(id), source);
        let device = self.device(record)?;
        let (call, spec) = (self.call_with(id, secrets), secrets.referred(&self.plugin, &record.spec, SECRETS));
        let own = self.steps(&call).map_device(&spec, &Arc::new(pod.clone()), device.as_ref());
        let device = self.did("mapping the device of", id, own)?;
        self.kernel.map_device(&device, &place.folder, &place.name).map_err(failed)
    }

    /// Unpublishes the volume, and removes what it kept besides.
    fn unpublish_at(&self, record: &ServedVolume, place: &PublishPlace, block: bool) -> Result<()> {
        let id = record.volume_id.as_str();
        let failed = |source| Refusal::kernel("unpublishing", shown(id), source);
        let call = self.call(id);
        let steps = self.steps(&call);
        if block {
            place.unmount(&*self.kernel).map_err(failed)?;
            if let Some(name) = &record.name {
                self.stepped("unmapping the device of", id, steps.unmap_device(name, &place.pod))?;
            }
        } else {
            self.stepped("unpublishing", id, steps.unpublish(place, false))?;
        }
        place.remove_private(&*self.kernel).map_err(failed)
    }

    /// Unmounts a target without a record. The plugin is not asked: it might remove data of another
    /// volume.
    fn unmount_unrecorded(&self, id: &str, target: &str, place: &Place) -> Result<()> {
        let failed = |source| Refusal::kernel("unpublishing", shown(target), source);
        self.kernel.detach(&place.parent, &place.name, Detach::Normal).map_err(failed)?;
        self.private(id, target).remove(&*self.kernel).map_err(failed)
    }

    /// Removes a target from the record, and the record with the last target of a volume that the
    /// CO has not staged.
    fn forget(&self, mut record: ServedVolume, target: &str) -> Result<()> {
        record.published.remove(target);
        if record.published.is_empty() {
            if record.staged.as_ref().is_some_and(StagedUse::is_own) {
                self.unstage_own(&record)?;
                return self.on_node.remove(&record.volume_id);
            }
            if record.staged.is_none() {
                return self.on_node.remove(&record.volume_id);
            }
        }
        self.on_node.write(record)
    }

    /// Returns where the volume is published. The staging mount of a device is not needed.
    pub(crate) fn publish_place(
        &self,
        co: &CoPaths<'_>,
        record: &ServedVolume,
        target: &str,
        pod: &PodUid,
        place: Place,
    ) -> Result<PublishPlace> {
        Ok(PublishPlace {
            folder: place.parent,
            name: place.name,
            pod: pod.clone(),
            spec_name: record.spec.name.clone(),
            staging: if record.spec.is_block() { None } else { self.node_place(co, record)? },
            private: Some(self.private(&record.volume_id, target)),
            other_users: None,
            needed: Vec::new(),
        })
    }

    /// Returns who else uses the staged volume: the other targets at which the CO had it published.
    fn other_users(&self, co: &CoPaths<'_>, record: &ServedVolume, target: &str) -> Result<Option<Arc<OtherUsers>>> {
        let staged = record.staged.as_ref().filter(|staged| record.stageable && !staged.is_own());
        let Some(staged) = staged else { return Ok(None) };
        let staging = co.below(STAGING_PATH, &staged.path)?.join(MOUNT);
        // A recorded path outside the folder is of an earlier run with another one: no mount there
        // counts.
        let paths = record.published.keys().filter_map(|path| co.below(TARGET_PATH, path).ok()).collect();
        let root = co.root().map_err(|source| Refusal::kernel("opening the folder of", shown(target), source))?;
        let (kernel, own) = (Arc::clone(&self.kernel), co.below(TARGET_PATH, target)?);
        Ok(Some(Arc::new(OtherUsers::new(kernel, Arc::clone(root), staging, own, PublishTargets::At(paths)))))
    }

    /// Returns the folder with what the volume keeps besides its target, or its staging mount.
    pub(crate) fn private(&self, id: &str, target: &str) -> PrivateFolder {
        PrivateFolder {
            root: Arc::clone(&self.state),
            parent: Path::new(PRIVATE).join(name_of(id)),
            name: name_of(target).into(),
            kind: FolderKind::Apart,
        }
    }
}

fn is_published_otherwise(id: &str) -> Refusal {
    let what = "is published there already, with another capability, for another pod or not as read-only as asked";
    Refusal::Conflict(format!("{} {what}", volume(id)))
}

/// Checks the wanted target against the volume's other targets.
fn check_others(record: &ServedVolume, target: &str, wanted: &PublishedUse) -> Result<()> {
    let id = record.volume_id.as_str();
    if record.published.get(target).is_some_and(|there| there.done && !there.is_as(wanted)) {
        return Err(is_published_otherwise(id));
    }
    for (path, other) in record.published.iter().filter(|(path, _)| *path != target) {
        if other.usage.is_for_one() || wanted.usage.is_for_one() {
            let why = "and one of the two asks for it alone (SINGLE_NODE_SINGLE_WRITER)";
            return Err(Refusal::Precondition(format!(
                "{} is published at {} already, {why}",
                volume(id),
                shown(path)
            )));
        }
    }
    Ok(())
}
