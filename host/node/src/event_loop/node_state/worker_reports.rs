//! What worker threads report, passed to the parts of the node.
#![deny(clippy::disallowed_methods)]

use volhost_core::Event;
use volhost_model::names::PodUid;
use volhost_volume_ops::expected_mounts::VanishedMounts;

use super::NodeState;
use crate::event_loop::forced;
use crate::event_loop::object_requests::RequestTarget;
use crate::event_loop::reports::WorkerReport;

impl NodeState {
    /// Handles the reports of worker threads, in their order.
    pub(in crate::event_loop) fn workers_reported(&mut self, reports: impl Iterator<Item = WorkerReport>) {
        let (mut answered, mut unmounted) = (Vec::new(), Vec::new());
        for report in reports {
            match report {
                WorkerReport::Done(id, report) => {
                    self.memory.ended(1);
                    unmounted.extend(self.world.operation_done(id, report));
                }
                WorkerReport::Event(event) => self.world.emit_event(&event),
                WorkerReport::SourceChanged(uid) => self.world.dispatch(Event::SourceChanged { uid }),
                WorkerReport::Verified { plugin, missing } => self.world.attachments_verified(&plugin, missing),
                WorkerReport::Identified(answer) => {
                    answered.extend(self.plugins.identified(*answer, &mut self.world, &mut self.sources));
                }
                WorkerReport::Driver(note) => {
                    self.drivers.csi_changed(&note, &mut self.sources, self.provisioning.as_mut());
                    self.objects_changed();
                    self.drivers.retry_operations(&note, &mut self.world);
                }
                WorkerReport::Provisioned { name, outcome } => {
                    if let Some(provisioning) = &mut self.provisioning {
                        provisioning.job_done(&name, outcome, &mut self.world, &mut self.sources);
                        self.objects_changed();
                    }
                }
                WorkerReport::PodFolders(pods) => self.orphans.found(&pods, &self.world, &self.sources),
                WorkerReport::Orphan(pod, orphan) => {
                    self.orphans.cleaned(pod, orphan, &mut self.world, &self.sources);
                }
                WorkerReport::Vanished(vanished) => self.mounts_vanished(vanished),
                WorkerReport::Forced(mount, how) => forced::detached(&mut self.world, mount, how),
                WorkerReport::FilesWritten(written) => {
                    let target = &mut RequestTarget {
                        world: &mut self.world,
                        sources: &mut self.sources,
                        provisioning: self.provisioning.as_mut(),
                    };
                    let step = self.object_requests.files_written(written, target);
                    self.object_request_done(step);
                    self.handle_object_requests();
                }
            }
        }
        self.volumes_unmounted(unmounted);
        if !answered.is_empty() {
            self.sources.resolve_waiting(answered);
            self.objects_changed();
        }
    }

    /// Removes the folders of those of these pods that have no volume left, and plugins that only
    /// they needed.
    pub(super) fn volumes_unmounted(&mut self, pods: Vec<PodUid>) {
        let mut is_last = false;
        for pod in pods {
            if !self.world.core().has_pod(&pod) {
                is_last = true;
                self.orphans.last_volume_unmounted(pod, &self.world);
            }
        }
        if is_last {
            self.plugins.forget_unused(self.world.core());
        }
    }

    fn mounts_vanished(&mut self, VanishedMounts { of_pods, of_node }: VanishedMounts) {
        for place in of_node {
            self.world.dispatch(Event::DeviceVanished { volume: place.volume });
        }
        for place in of_pods {
            let volume = self.world.core().mounted_in(&place.pod, &place.plugin, &place.spec_name).cloned();
            if let Some(volume) = volume {
                self.world.dispatch(Event::Vanished { pod: place.pod, volume });
            }
        }
    }
}
