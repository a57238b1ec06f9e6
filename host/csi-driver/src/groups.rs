//! Groups of snapshots, by the plugin.

use std::collections::BTreeSet;

use tonic::Code;
use volhost_runtime::{Capability, MadeGroup, WantedGroup};

use crate::check::{self, shown, volume, wire};
use crate::driver::ServedPlugin;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::snapshots::snapshot_message;
use volhost_proto::csi::{CreateVolumeGroupSnapshotRequest, VolumeGroupSnapshot};

/// The most volumes of a group.
const MOST_VOLUMES: usize = 256;

fn group(id: &str) -> String {
    format!("the group of snapshots {}", shown(id))
}

fn snapshot_ids(ids: &[String]) -> Result<()> {
    const FIELD: &str = "snapshot_ids";
    if ids.len() > MOST_VOLUMES {
        return Err(Refusal::field(FIELD, format!("has {} entries, {MOST_VOLUMES} at most", ids.len())));
    }
    ids.iter().try_for_each(|id| check::id(FIELD, id))
}

impl ServedPlugin {
    fn check_groups(&self) -> Result<()> {
        if self.can(Capability::GroupSnapshotter) {
            return Ok(());
        }
        Err(Refusal::Unimplemented("the plugin makes no snapshots of several volumes".to_owned()))
    }

    /// Makes the group, whole. One of that name of those volumes: the same answer.
    pub(crate) fn create_group(&self, request: CreateVolumeGroupSnapshotRequest) -> Result<MadeGroup> {
        const FIELD: &str = "source_volume_ids";
        self.check_groups()?;
        check::name("name", &request.name)?;
        check::map("parameters", &request.parameters)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let count = request.source_volume_ids.len();
        if count == 0 || count > MOST_VOLUMES {
            return Err(Refusal::field(FIELD, format!("has {count} entries, 1 to {MOST_VOLUMES} are asked for")));
        }
        request.source_volume_ids.iter().try_for_each(|id| check::id(FIELD, id))?;
        let volume_ids: BTreeSet<String> = request.source_volume_ids.into_iter().collect();
        if volume_ids.len() < count {
            return Err(Refusal::field(FIELD, "names a volume twice"));
        }
        let _claim = self.in_flight.claim(volume_ids.iter().map(|id| volume(id)).chain([group(&request.name)]))?;
        let wanted =
            WantedGroup { name: request.name, volume_ids, parameters: request.parameters.into_iter().collect() };
        let made = self.plugin.create_group(&self.call_with(&wanted.name, &secrets), &wanted);
        self.did("making the group of snapshots", &wanted.name, made)
    }

    /// Deletes the group with its snapshots. None there: done.
    pub(crate) fn delete_group(&self, id: &str, ids: &[String], secrets: &RequestSecrets) -> Result<()> {
        self.check_groups()?;
        check::id("group_snapshot_id", id)?;
        snapshot_ids(ids)?;
        let _claim = self.in_flight.claim(ids.iter().map(|id| volume(id)).chain([group(id)]))?;
        match self.did("looking for the group", id, self.plugin.find_group(&self.call_with(id, secrets), id)) {
            Ok(found) => self.check_members(&found, ids, secrets)?,
            // One that was only begun to be made, or to be deleted, goes too.
            Err(refusal) if matches!(refusal.code(), Code::NotFound | Code::InvalidArgument) => {}
            Err(refusal) => return Err(refusal),
        }
        match self.did("deleting the group", id, self.plugin.delete_group(&self.call_with(id, secrets), id)) {
            Err(refusal) if matches!(refusal.code(), Code::NotFound | Code::InvalidArgument) => Ok(()),
            outcome => outcome,
        }
    }

    /// Returns the snapshots of the group.
    pub(crate) fn find_group(&self, id: &str, ids: &[String], secrets: &RequestSecrets) -> Result<MadeGroup> {
        self.check_groups()?;
        check::id("group_snapshot_id", id)?;
        snapshot_ids(ids)?;
        match self.did("looking for the group", id, self.plugin.find_group(&self.call_with(id, secrets), id)) {
            Err(refusal) if refusal.code() == Code::InvalidArgument => Err(Refusal::NotFound(refusal.to_string())),
            Err(refusal) => Err(refusal),
            Ok(found) => self.check_members(&found, ids, secrets).map(|()| found),
        }
    }

    /// Checks the snapshots that the CO names against those of the group. A group whose deletion
    /// was begun may lack some.
    fn check_members(&self, found: &MadeGroup, ids: &[String], secrets: &RequestSecrets) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let wrong = |why: String| Err(Refusal::field("snapshot_ids", why));
        if let Some(left_out) = found.snapshots.iter().find(|snapshot| !ids.contains(&snapshot.id)) {
            return wrong(format!("{} is of {} too", shown(&left_out.id), group(&found.id)));
        }
        let others = ids.iter().filter(|id| !found.snapshots.iter().any(|snapshot| snapshot.id == **id));
        for other in others {
            match self.find_snapshot(other, secrets) {
                Ok(_) => return wrong(format!("{} is not of {}", shown(other), group(&found.id))),
                Err(refusal) if refusal.code() == Code::NotFound => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }
}

/// Returns the group of snapshots in the words of CSI.
pub(crate) fn group_message(made: MadeGroup) -> VolumeGroupSnapshot {
    let last = made.snapshots.iter().map(|snapshot| snapshot.made).max().unwrap_or_default();
    VolumeGroupSnapshot {
        group_snapshot_id: made.id,
        snapshots: made.snapshots.into_iter().map(snapshot_message).collect(),
        creation_time: Some(prost_types::Timestamp { seconds: wire(last), nanos: 0 }),
        ready_to_use: true,
    }
}
