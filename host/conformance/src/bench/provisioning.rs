//! Making volumes and snapshots, called as csi-serve and the daemon's provisioner call it.

use volhost_runtime::{MadeSnapshot, MadeVolume, Page, WantedSnapshot, WantedVolume};

use super::Bench;
use crate::verdict::Called;
use crate::watch::Plan;

impl Bench {
    /// `controller.create`.
    pub(crate) fn create_volume(&self, wanted: &WantedVolume, plan: Plan) -> Called<MadeVolume> {
        self.watched(plan, None, |call| self.plugin.create_volume(call, wanted))
    }

    /// `controller.delete`.
    pub(crate) fn delete_volume(&self, id: &str, plan: Plan) -> Called {
        self.watched(plan, None, |call| self.plugin.delete_volume(call, id))
    }

    /// `controller.find`.
    pub(crate) fn find_volume(&self, id: &str) -> Called<MadeVolume> {
        self.watched(Plan::Watch, None, |call| self.plugin.find_volume(call, id))
    }

    /// `controller.expand`.
    pub(crate) fn expand_volume(&self, id: &str, to: u64, plan: Plan) -> Called<u64> {
        self.watched(plan, None, |call| self.plugin.expand_volume(call, id, to, None))
    }

    /// `controller.list-volumes`.
    pub(crate) fn list_volumes(&self, start: &str, most: u32) -> Called<Page<MadeVolume>> {
        self.watched(Plan::Watch, None, |call| self.plugin.list_volumes(call, start, most))
    }

    /// `snapshotter.create-snapshot`.
    pub(crate) fn create_snapshot(&self, wanted: &WantedSnapshot, plan: Plan) -> Called<MadeSnapshot> {
        self.watched(plan, None, |call| self.plugin.create_snapshot(call, wanted))
    }

    /// `snapshotter.delete-snapshot`.
    pub(crate) fn delete_snapshot(&self, id: &str, plan: Plan) -> Called {
        self.watched(plan, None, |call| self.plugin.delete_snapshot(call, id))
    }

    /// `snapshotter.find-snapshot`.
    pub(crate) fn find_snapshot(&self, id: &str) -> Called<MadeSnapshot> {
        self.watched(Plan::Watch, None, |call| self.plugin.find_snapshot(call, id))
    }
}
