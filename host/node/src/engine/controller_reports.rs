//! What controllers say of attachments, from the API and from VolumeAttachments in the manifest folder, put together for the state machine.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};

use volhost_core::Event;
use volhost_model::names::UniqueVolumeName;
use volhost_model::view::EventKind;

use super::serve::Engine;
use volhost_objects::populate::attachments::AttachmentReport;

/// What was said last, by each who says something.
#[derive(Debug, Default)]
pub(super) struct ControllerReports {
    /// Over the API: what is attached, and as what. None before the first report.
    api: Option<BTreeMap<UniqueVolumeName, String>>,
    /// Over the API: what the node's status reports as in use.
    api_in_use: BTreeSet<UniqueVolumeName>,
    /// By VolumeAttachments. None while there has never been one of this node.
    manifests: Option<AttachmentReport>,
    /// Every manifest has been read, so there are no other VolumeAttachments.
    complete: bool,
}

impl ControllerReports {
    /// There are no manifests to be read.
    pub(super) const fn set_complete(&mut self) {
        self.complete = true;
    }

    /// What is attached, as far as anybody has said it; what VolumeAttachments say counts before what the API says.
    fn attached(&self) -> Option<BTreeMap<UniqueVolumeName, String>> {
        if self.api.is_none() && self.manifests.is_none() {
            return None;
        }
        let mut attached = self.api.clone().unwrap_or_default();
        let reported = self.manifests.iter().flat_map(|report| &report.attached);
        attached.extend(reported.map(|(volume, one)| (volume.clone(), one.attached_as.clone())));
        Some(attached)
    }

    /// What is reported as in use. Who makes a VolumeAttachment for a volume has seen that it is used.
    fn in_use(&self) -> BTreeSet<UniqueVolumeName> {
        let named = self.manifests.iter().flat_map(|report| report.attached.keys().chain(report.failed.keys()));
        self.api_in_use.iter().chain(named).cloned().collect()
    }

    /// Why volumes are not attached. A failure of the controller says more than who else has the volume.
    fn failed(&self) -> BTreeMap<UniqueVolumeName, String> {
        let reports = self.manifests.iter().flat_map(|report| report.elsewhere.iter().chain(&report.failed));
        reports.map(|(volume, why)| (volume.clone(), why.clone())).collect()
    }
}

impl Engine {
    /// Takes a report that came over the API.
    pub(super) fn attachments_set(&mut self, attached: Vec<(UniqueVolumeName, String)>) {
        self.reports.api = Some(attached.into_iter().collect());
        self.tell_core();
    }

    /// Takes what came over the API of the node's status.
    pub(super) fn in_use_set(&mut self, volumes: Vec<UniqueVolumeName>) {
        self.reports.api_in_use = volumes.into_iter().collect();
        self.tell_core();
    }

    /// Takes what VolumeAttachments say now, and tells what is new of it.
    pub(super) fn attachments_reported(&mut self, mut report: AttachmentReport) {
        // The node may have such a volume under the name that a plugin gave it which is not loaded now. It
        // is attached, and the name that the report lacks says nothing (rule R2).
        let is_reported = |volume: &UniqueVolumeName| report.attached.contains_key(volume);
        report.complete &= !self.world.core.has_other_name_of(&report.named, is_reported);
        let before = self.reports.manifests.take();
        let completed = std::mem::replace(&mut self.reports.complete, report.complete) != report.complete;
        if before.is_none() && report == (AttachmentReport { complete: report.complete, ..AttachmentReport::default() })
        {
            if completed {
                self.tell_core();
            }
            return;
        }
        let before = before.unwrap_or_default();
        for (name, why) in news(&before.ignored, &report.ignored) {
            let object = format!("VolumeAttachment {name}");
            self.world.tell(EventKind::Normal, "VolumeAttachmentIgnored", &object, why);
        }
        for (volume, why) in news(&before.not_detached, &report.not_detached) {
            let message = format!("the controller could not detach the volume from this node: {why}");
            self.world.tell(EventKind::Warning, "FailedDetachVolume", &format!("volume {volume}"), &message);
        }
        let metadata = report.attached.iter().map(|(volume, one)| (volume.clone(), one.metadata.clone())).collect();
        self.volume_ops.set_attachment_metadata(metadata);
        self.reports.manifests = Some(report);
        self.tell_core();
    }

    fn tell_core(&mut self) {
        // In this order nothing is verified before it is known as what it is attached, and no failure is told in the words of another wait.
        if let Some(attached) = self.reports.attached() {
            let attached = attached.into_iter().collect();
            let complete = self.reports.complete;
            // What could not be read yet may name a volume that is left out (rule R2).
            self.world.feed(if complete {
                Event::NodeAttachments(attached)
            } else {
                Event::AttachmentsSoFar(attached)
            });
        }
        self.world.feed(Event::ReportedInUse(self.reports.in_use().into_iter().collect()));
        self.world.feed(Event::AttachFailures(self.reports.failed().into_iter().collect()));
    }
}

/// What is said now and was not said before.
fn news<'a, K: Ord>(
    before: &BTreeMap<K, String>,
    now: &'a BTreeMap<K, String>,
) -> impl Iterator<Item = (&'a K, &'a str)> {
    now.iter().filter(|(key, why)| before.get(*key) != Some(*why)).map(|(key, why)| (key, why.as_str()))
}
