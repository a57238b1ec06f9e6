//! Snapshots, by the plugin.

use tonic::Code;
use volhost_runtime::{Capability, MadeSnapshot, Page, WantedSnapshot};

use crate::check::{self, shown, volume, wire};
use crate::driver::ServedPlugin;
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::volumes::{bad_token, page_size};
use volhost_proto::csi::{CreateSnapshotRequest, ListSnapshotsRequest, Snapshot};

impl ServedPlugin {
    fn check_snapshots(&self) -> Result<()> {
        if self.can(Capability::Snapshotter) {
            return Ok(());
        }
        Err(Refusal::Unimplemented("the plugin makes no snapshots".to_owned()))
    }

    /// Makes the snapshot, whole. One of that name of that volume: the same answer.
    pub(crate) fn create_snapshot(&self, request: CreateSnapshotRequest) -> Result<MadeSnapshot> {
        self.check_snapshots()?;
        check::name("name", &request.name)?;
        check::id("source_volume_id", &request.source_volume_id)?;
        check::map("parameters", &request.parameters)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let named = format!("the snapshot named {}", shown(&request.name));
        let _claim = self.in_flight.claim([named, volume(&request.source_volume_id)])?;
        let wanted = WantedSnapshot {
            name: request.name,
            volume_id: request.source_volume_id,
            parameters: request.parameters.into_iter().collect(),
        };
        let made = self.plugin.create_snapshot(&self.call_with(&wanted.volume_id, &secrets), &wanted);
        self.did("making a snapshot of", &wanted.volume_id, made)
    }

    /// Deletes the snapshot. None there: done.
    pub(crate) fn delete_snapshot(&self, id: &str, secrets: &RequestSecrets) -> Result<()> {
        self.check_snapshots()?;
        check::id("snapshot_id", id)?;
        // A volume that is made of it claims it by the same words.
        let _claim = self.in_flight.claim([volume(id)])?;
        if self.can(Capability::GroupSnapshotter)
            && let Ok(found) = self.find_snapshot(id, secrets)
            && let Some(group) = found.group
        {
            let why = format!("{} is of the group {}, and goes with it alone", shown(id), shown(&group));
            return Err(Refusal::field("snapshot_id", why));
        }
        match self.did("deleting snapshot", id, self.plugin.delete_snapshot(&self.call_with(id, secrets), id)) {
            Err(refusal) if matches!(refusal.code(), Code::NotFound | Code::InvalidArgument) => Ok(()),
            outcome => outcome,
        }
    }

    /// What the snapshot is.
    pub(crate) fn find_snapshot(&self, id: &str, secrets: &RequestSecrets) -> Result<MadeSnapshot> {
        self.check_snapshots()?;
        check::id("snapshot_id", id)?;
        match self.did("looking for snapshot", id, self.plugin.find_snapshot(&self.call_with(id, secrets), id)) {
            Err(refusal) if refusal.code() == Code::InvalidArgument => Err(Refusal::NotFound(refusal.to_string())),
            outcome => outcome,
        }
    }

    /// A page of the snapshots that there are; of one volume, or the one of a handle.
    pub(crate) fn page_of_snapshots(&self, request: &ListSnapshotsRequest) -> Result<Page<MadeSnapshot>> {
        self.check_snapshots()?;
        let most = page_size(request.max_entries)?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        if !request.snapshot_id.is_empty() {
            return match self.find_snapshot(&request.snapshot_id, &secrets) {
                Ok(found) => Ok(Page { entries: vec![found], next: None }),
                Err(refusal) if refusal.code() == Code::NotFound => Ok(Page::default()),
                Err(refusal) => Err(refusal),
            };
        }
        let of = Some(request.source_volume_id.as_str()).filter(|id| !id.is_empty());
        of.map_or(Ok(()), |id| check::id("source_volume_id", id))?;
        let call = self.call_with("", &secrets);
        let page = self.plugin.list_snapshots(&call, of, &request.starting_token, most);
        self.did("listing", "snapshots", page).map_err(bad_token)
    }
}

/// Returns the snapshot in the words of CSI.
pub(crate) fn snapshot_message(made: MadeSnapshot) -> Snapshot {
    Snapshot {
        size_bytes: wire(made.bytes),
        snapshot_id: made.id,
        source_volume_id: made.volume_id,
        creation_time: Some(prost_types::Timestamp { seconds: wire(made.made), nanos: 0 }),
        ready_to_use: true,
        group_snapshot_id: made.group.unwrap_or_default(),
    }
}
