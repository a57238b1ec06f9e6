//! The requests of callers, passed to the parts of the node.
#![deny(clippy::disallowed_methods)]

use volhost_core::Event;
use volhost_metrics::NodeCounts;
use volhost_model::names::UniqueVolumeName;

use super::NodeState;
use crate::event_loop::claims::claims;
use crate::event_loop::lookup::known_pod;
use crate::event_loop::object_requests::{ObjectRequest, RequestStep, RequestTarget, checked};
use crate::event_loop::provisioning::Provisioning;
use crate::event_loop::reply::reply;
use crate::event_loop::requests::{NodeStatus, PodSelector, Request, RequestError};
use crate::event_loop::{forced, plans, queries};

impl NodeState {
    /// Handles a request.
    pub(in crate::event_loop) fn answer(&mut self, request: Request) {
        let known = |pod: &PodSelector| known_pod(&self.world, &self.sources, pod);
        match request {
            Request::AddObjects { manifest, answer } => self.request_objects(ObjectRequest::Add { manifest, answer }),
            Request::CheckObjects { manifest, answer } => {
                self.request_objects(ObjectRequest::Check { manifest, answer });
            }
            Request::CompareObjects { manifest, answer } => {
                self.request_objects(ObjectRequest::Compare { manifest, answer });
            }
            Request::PlanObjects { manifest, answer } => match checked(manifest, &self.sources) {
                Ok(planned) => self.plans.begin(planned, answer, &self.sources),
                Err(why) => reply(answer, Err(why)),
            },
            Request::PlanDrain(answer) => plans::drain(answer, &mut self.world),
            Request::RemovePod { pod, answer } => self.request_objects(ObjectRequest::RemovePod { pod, answer }),
            Request::RemoveObject { key, answer } => self.request_objects(ObjectRequest::RemoveObject { key, answer }),
            Request::SourcesReady(answer) => self.request_objects(ObjectRequest::SourcesReady { answer }),
            Request::Objects(answer) => reply(answer, self.sources.added_objects()),
            Request::SetNodeLabels { labels, answer } => {
                self.sources.set_node_labels(labels);
                self.objects_changed();
                reply(answer, ());
            }
            Request::WaitMounted { pod, timeout, answer } => {
                self.expected_pods.wait_mounted(pod, timeout, answer, &mut self.world, &self.sources);
            }
            Request::WaitUnmounted { pod, timeout, answer } => match known(&pod) {
                Ok(uid) => {
                    self.world.wait(timeout, answer, |waiter, deadline| Event::WaitUnmounted { waiter, uid, deadline });
                }
                Err(RequestError::UnknownPod(_)) => reply(answer, Ok(Ok(()))),
                Err(error) => reply(answer, Err(error)),
            },
            Request::Snapshot(answer) => reply(answer, queries::snapshot(self.world.core())),
            Request::Operations(answer) => reply(answer, queries::operations(&self.world)),
            Request::Plugins(answer) => reply(answer, self.plugins.views(self.world.core())),
            Request::Drivers(answer) => reply(answer, self.drivers.views()),
            Request::Recording(answer) => reply(answer, self.world.recording()),
            Request::History(answer) => reply(answer, self.world.history()),
            Request::Status(answer) => {
                let status = NodeStatus {
                    root: self.root.display().to_string(),
                    synced: self.world.is_synced(),
                    draining: self.world.core().is_draining(),
                    manifest_problems: self.sources.manifest_problems(),
                };
                reply(answer, status);
            }
            Request::Claims(answer) => {
                let machine = self.provisioning.as_ref().map(Provisioning::machine);
                let sizes = self.volume_ops.known_sizes();
                reply(answer, claims(&self.sources, machine, sizes));
            }
            Request::Counts(answer) => reply(answer, self.counts()),
            Request::Events { after, answer } => reply(answer, self.world.events_after(after)),
            Request::Mounts { pod, answer } => match known(&pod) {
                Ok(uid) => queries::mounts(uid, self.volume_ops.clone(), answer),
                Err(error) => reply(answer, Err(error)),
            },
            Request::MountedVolumes { pod, possibly, answer } => {
                let volumes =
                    |uid| queries::mounted_volumes(self.world.core(), &self.sources, &uid, possibly, &self.root);
                reply(answer, known(&pod).map(volumes));
            }
            Request::ExtraSupplementalGroups { pod, answer } => {
                reply(answer, known(&pod).map(|uid| self.world.core().extra_supplemental_groups(&uid)));
            }
            Request::VolumesInUse(answer) => {
                reply(answer, self.world.core().volumes_in_use().iter().map(ToString::to_string).collect());
            }
            Request::MarkReportedInUse { volumes, answer } => {
                let result = self.controllers.in_use_reported(volumes, &mut self.world);
                reply(answer, result);
            }
            Request::SetNodeAttachments { attachments, answer } => {
                let result = self.controllers.attachments_reported(attachments, &mut self.world);
                reply(answer, result);
            }
            Request::VolumeIsAttached { volume, answer } => {
                let name = UniqueVolumeName::new(volume);
                reply(answer, name.is_ok_and(|name| self.world.core().volume_is_attached(&name)));
            }
            Request::StatesSynced(answer) => reply(answer, self.world.is_synced()),
            Request::Drain { timeout, answer } => self.drains.begin(timeout, answer, &mut self.world),
            Request::EndDrain(answer) => {
                let was_draining = self.drains.end(&mut self.world);
                reply(answer, was_draining);
            }
            Request::ForceUnmount { target, end_server, answer } => {
                match forced::find(&self.world, &self.sources, &target) {
                    Ok(mount) => {
                        let (volume_ops, reports) = (self.volume_ops.clone(), self.reports.clone());
                        forced::detach(mount, end_server, answer, volume_ops, reports, self.world.operations().clone());
                    }
                    Err(error) => reply(answer, Err(error)),
                }
            }
        }
    }

    fn counts(&self) -> NodeCounts {
        NodeCounts {
            volumes: self.world.core().counts(),
            selinux: self.sources.selinux_counts(),
            plugins: self.plugins.counts(),
            manifest_problems: self.sources.manifest_problem_counts(),
            is_draining: self.world.core().is_draining(),
            orphans: self.orphans.counts(),
        }
    }

    fn request_objects(&mut self, request: ObjectRequest) {
        self.object_requests.push(request);
        self.handle_object_requests();
    }

    /// Handles requests that change objects, up to the first whose files are to be written.
    pub(super) fn handle_object_requests(&mut self) {
        loop {
            let target = &mut RequestTarget {
                world: &mut self.world,
                sources: &mut self.sources,
                provisioning: self.provisioning.as_mut(),
            };
            let step = self.object_requests.step(target);
            self.object_request_done(step);
            if step.is_none() {
                return;
            }
        }
    }

    pub(super) fn object_request_done(&mut self, step: Option<RequestStep>) {
        self.objects_changed();
        if step == Some(RequestStep::ClientsReady) {
            self.sync();
        }
    }
}
