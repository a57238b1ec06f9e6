//! Controllers' reports of attachments, from the API and from VolumeAttachments in the manifest
//! folder, merged for the state machine.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};

use volhost_core::Event;
use volhost_model::names::UniqueVolumeName;
use volhost_model::view::EventKind;

use super::requests::RequestError;
use super::world::World;
use volhost_objects::populate::attachments::AttachmentReport;
use volhost_volume_ops::volume_ops::VolumeOps;

/// The last report of each origin.
#[derive(Debug, Default)]
pub(super) struct ControllerReports {
    /// Over the API: the attached volumes, and their device paths. None before the first report.
    api: Option<BTreeMap<UniqueVolumeName, String>>,
    /// Over the API: the volumes that the node's status reports as in use.
    api_in_use: BTreeSet<UniqueVolumeName>,
    /// By VolumeAttachments. None while there has not been one for this node.
    manifests: Option<AttachmentReport>,
    /// Every manifest has been read, so there are no unknown VolumeAttachments.
    complete: bool,
}

impl ControllerReports {
    /// Notes that there are no manifests to read.
    pub(super) const fn set_complete(&mut self) {
        self.complete = true;
    }

    /// Returns the attached volumes; none before the first report. A VolumeAttachment takes
    /// precedence over the API.
    fn attached(&self) -> Option<BTreeMap<UniqueVolumeName, String>> {
        if self.api.is_none() && self.manifests.is_none() {
            return None;
        }
        let mut attached = self.api.clone().unwrap_or_default();
        let reported = self.manifests.iter().flat_map(|report| &report.attached);
        attached.extend(reported.map(|(volume, one)| (volume.clone(), one.attached_as.clone())));
        Some(attached)
    }

    /// Returns the volumes that are reported as in use. A VolumeAttachment implies that the volume
    /// is used.
    fn in_use(&self) -> BTreeSet<UniqueVolumeName> {
        let named = self.manifests.iter().flat_map(|report| report.attached.keys().chain(report.failed.keys()));
        self.api_in_use.iter().chain(named).cloned().collect()
    }

    /// Returns why volumes are not attached. A failure of the controller takes precedence over
    /// another node that has the volume.
    fn failed(&self) -> BTreeMap<UniqueVolumeName, String> {
        let reports = self.manifests.iter().flat_map(|report| report.other_node.iter().chain(&report.failed));
        reports.map(|(volume, why)| (volume.clone(), why.clone())).collect()
    }

    /// Sets the volumes that a controller has attached, with their device paths, as reported over
    /// the API.
    ///
    /// # Errors
    /// [`RequestError::Precondition`] where the host attaches; [`RequestError::Invalid`] for an invalid name.
    pub(super) fn attachments_reported(
        &mut self,
        attachments: Vec<(String, String)>,
        world: &mut World,
    ) -> Result<(), RequestError> {
        if world.core().has_no_controller() {
            return Err(RequestError::Precondition(
                "this node attaches its volumes itself; a controller's reports are for a node that runs with --controller-attaches".to_owned(),
            ));
        }
        let named = |(volume, path)| UniqueVolumeName::new(volume).map(|name| (name, path));
        let attachments: Result<_, _> = attachments.into_iter().map(named).collect();
        self.api = Some(attachments.map_err(|error| RequestError::Invalid(error.to_string()))?);
        self.notify_core(world);
        Ok(())
    }

    /// Sets the volumes that the node's status reports as in use.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] for an invalid name.
    pub(super) fn in_use_reported(&mut self, volumes: Vec<String>, world: &mut World) -> Result<(), RequestError> {
        let names: Result<_, _> = volumes.into_iter().map(UniqueVolumeName::new).collect();
        self.api_in_use = names.map_err(|error| RequestError::Invalid(error.to_string()))?;
        self.notify_core(world);
        Ok(())
    }

    /// Sets the content of the VolumeAttachments, and emits events for what is new in it.
    pub(super) fn set_volume_attachments(
        &mut self,
        mut report: AttachmentReport,
        volume_ops: &VolumeOps,
        world: &mut World,
    ) {
        // The node may have such a volume under a name from a plugin that is not loaded now. It is
        // attached, although the report lacks that name (rule R2).
        let is_reported = |volume: &UniqueVolumeName| report.attached.contains_key(volume);
        report.complete &= !world.core().has_other_name_of(&report.named, is_reported);
        let before = self.manifests.take();
        let completed = std::mem::replace(&mut self.complete, report.complete) != report.complete;
        if before.is_none() && report == (AttachmentReport { complete: report.complete, ..AttachmentReport::default() })
        {
            if completed {
                self.notify_core(world);
            }
            return;
        }
        let before = before.unwrap_or_default();
        for (name, why) in changed(&before.ignored, &report.ignored) {
            let object = format!("VolumeAttachment {name}");
            world.emit(EventKind::Normal, "VolumeAttachmentIgnored", &object, why);
        }
        for (volume, why) in changed(&before.not_detached, &report.not_detached) {
            let message = format!("the controller could not detach the volume from this node: {why}");
            world.emit(EventKind::Warning, "FailedDetachVolume", &format!("volume {volume}"), &message);
        }
        volume_ops.set_attachment_metadata(
            report.attached.iter().map(|(volume, one)| (volume.clone(), one.metadata.clone())).collect(),
        );
        self.manifests = Some(report);
        self.notify_core(world);
    }

    fn notify_core(&self, world: &mut World) {
        // In this order no volume is verified before its device path is known, and no failure is
        // reported in the words of another wait.
        if let Some(attached) = self.attached() {
            let attached = attached.into_iter().collect();
            let complete = self.complete;
            // An unread manifest may name a volume that is left out (rule R2).
            world.dispatch(if complete { Event::NodeAttachments(attached) } else { Event::AttachmentsSoFar(attached) });
        }
        world.dispatch(Event::ReportedInUse(self.in_use().into_iter().collect()));
        world.dispatch(Event::AttachFailures(self.failed().into_iter().collect()));
    }
}

/// Returns the entries that are new or changed.
fn changed<'a, K: Ord>(
    before: &BTreeMap<K, String>,
    now: &'a BTreeMap<K, String>,
) -> impl Iterator<Item = (&'a K, &'a str)> {
    now.iter().filter(|(key, why)| before.get(*key) != Some(*why)).map(|(key, why)| (key, why.as_str()))
}
