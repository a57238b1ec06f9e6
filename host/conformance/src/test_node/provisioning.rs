//! Making volumes and snapshots, called as csi-serve and the daemon's provisioner call it.

use std::collections::BTreeMap;

use volhost_runtime::{
    Call, CallError, MadeGroup, MadeSnapshot, MadeVolume, Page, WantedGroup, WantedSnapshot, WantedVolume,
};

use super::TestNode;
use crate::case_file::{ControllerSection, VOLUME};
use crate::storage;
use crate::verdict::{CallResult, Verdict, fail};
use crate::watch::HostCallPlan;

impl TestNode {
    /// A call about made volumes, with the secrets that the case file has for them.
    fn about_made<T>(&self, plan: HostCallPlan, ask: impl FnOnce(&Call) -> Result<T, CallError>) -> CallResult<T> {
        let secrets = self.case.controller.as_ref().map(ControllerSection::secrets).unwrap_or_default();
        self.watched(plan, None, |call| ask(&call.clone().with_secrets(secrets)))
    }

    /// `controller.create`.
    pub(crate) fn create_volume(&self, wanted: &WantedVolume, plan: HostCallPlan) -> CallResult<MadeVolume> {
        self.about_made(plan, |call| self.plugin.create_volume(call, wanted))
    }

    /// `controller.delete`.
    pub(crate) fn delete_volume(&self, id: &str, plan: HostCallPlan) -> CallResult {
        self.about_made(plan, |call| self.plugin.delete_volume(call, id))
    }

    /// `controller.find`.
    pub(crate) fn find_volume(&self, id: &str) -> CallResult<MadeVolume> {
        self.about_made(HostCallPlan::Watch, |call| self.plugin.find_volume(call, id))
    }

    /// `controller.expand`.
    pub(crate) fn expand_volume(&self, id: &str, to: u64, plan: HostCallPlan) -> CallResult<u64> {
        self.about_made(plan, |call| self.plugin.expand_volume(call, id, to, None))
    }

    /// `controller.list-volumes`.
    pub(crate) fn list_volumes(&self, start: &str, most: u32) -> CallResult<Page<MadeVolume>> {
        self.about_made(HostCallPlan::Watch, |call| self.plugin.list_volumes(call, start, most))
    }

    /// `snapshotter.create-snapshot`.
    pub(crate) fn create_snapshot(&self, wanted: &WantedSnapshot, plan: HostCallPlan) -> CallResult<MadeSnapshot> {
        self.about_made(plan, |call| self.plugin.create_snapshot(call, wanted))
    }

    /// `snapshotter.delete-snapshot`.
    pub(crate) fn delete_snapshot(&self, id: &str, plan: HostCallPlan) -> CallResult {
        self.about_made(plan, |call| self.plugin.delete_snapshot(call, id))
    }

    /// `snapshotter.find-snapshot`.
    pub(crate) fn find_snapshot(&self, id: &str) -> CallResult<MadeSnapshot> {
        self.about_made(HostCallPlan::Watch, |call| self.plugin.find_snapshot(call, id))
    }

    /// `snapshotter.list-snapshots`.
    pub(crate) fn list_snapshots(
        &self,
        volume: Option<&str>,
        start: &str,
        most: u32,
    ) -> CallResult<Page<MadeSnapshot>> {
        self.about_made(HostCallPlan::Watch, |call| self.plugin.list_snapshots(call, volume, start, most))
    }

    /// `modifier.modify`.
    pub(crate) fn modify_volume(&self, id: &str, to: &BTreeMap<String, String>, plan: HostCallPlan) -> CallResult {
        self.about_made(plan, |call| self.plugin.modify_volume(call, id, to))
    }

    /// What the case file's program shows of a volume, with the volume's handle left out of it: two
    /// volumes can be compared.
    pub(crate) fn shown(&self, shows: &[String], id: &str) -> Verdict<String> {
        let words: Vec<String> = shows.iter().map(|word| word.replace(VOLUME, id)).collect();
        let said = storage::run(&self.scratch, &words);
        said.map(|said| said.replace(id, VOLUME).trim().to_owned())
            .or_else(|why| fail("ran the case file's `controller.modify.shows`", "ok", why.to_string()))
    }

    /// `group-snapshotter.create-group`.
    pub(crate) fn create_group(&self, wanted: &WantedGroup, plan: HostCallPlan) -> CallResult<MadeGroup> {
        self.about_made(plan, |call| self.plugin.create_group(call, wanted))
    }

    /// `group-snapshotter.delete-group`.
    pub(crate) fn delete_group(&self, id: &str, plan: HostCallPlan) -> CallResult {
        self.about_made(plan, |call| self.plugin.delete_group(call, id))
    }

    /// `group-snapshotter.find-group`.
    pub(crate) fn find_group(&self, id: &str) -> CallResult<MadeGroup> {
        self.about_made(HostCallPlan::Watch, |call| self.plugin.find_group(call, id))
    }
}
