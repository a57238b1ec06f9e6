//! What the engine answers to requests.
#![deny(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use volhost_core::Event;
use volhost_model::names::{PodUid, UniqueVolumeName};
use volhost_model::view::{ContainerMountView, EventKind, PodView, VolumeView};

use super::keeping::KeepRequest;
use super::requests::{MountView, MountedVolume, PodSelector, Request, RequestError, Snapshot};
use super::serve::{Draining, Engine, Expected};
use volhost_volume_ops::layout;

impl Engine {
    pub(super) fn answer(&mut self, request: Request) {
        match request {
            Request::AddObjects { manifest, answer } => self.keep(KeepRequest::Add { manifest, answer }),
            Request::RemovePod { pod, answer } => self.keep(KeepRequest::RemovePod { pod, answer }),
            Request::RemoveObject { key, answer } => self.keep(KeepRequest::RemoveObject { key, answer }),
            Request::SourcesReady(answer) => self.keep(KeepRequest::SourcesReady { answer }),
            Request::EndDrain(answer) => {
                let was_draining = self.end_drain();
                reply(answer, was_draining);
            }
            Request::WaitMounted { pod, timeout, answer } => match self.named(&pod) {
                Ok(uid) => {
                    self.world.wait(timeout, answer, |waiter, deadline| Event::WaitMounted { waiter, uid, deadline })
                }
                Err(RequestError::UnknownPod(_)) => {
                    self.expected.push(Expected { pod, deadline: after(timeout), answer })
                }
                Err(error) => reply(answer, Err(error)),
            },
            Request::WaitUnmounted { pod, timeout, answer } => match self.find(&pod) {
                Ok(uid) => {
                    self.world.wait(timeout, answer, |waiter, deadline| Event::WaitUnmounted { waiter, uid, deadline })
                }
                Err(RequestError::UnknownPod(_)) => reply(answer, Ok(Ok(()))),
                Err(error) => reply(answer, Err(error)),
            },
            Request::Claims(answer) => reply(answer, self.claims()),
            Request::Snapshot(answer) => reply(answer, self.snapshot()),
            Request::Census(answer) => reply(answer, (self.world.core.counts(), self.sources.selinux_census())),
            Request::Events { after, answer } => reply(answer, self.world.events.after(after)),
            Request::Mounts { pod, answer } => self.mounts(&pod, answer),
            Request::MountedVolumes { pod, possibly, answer } => reply(answer, self.mounted_volumes(&pod, possibly)),
            Request::ExtraSupplementalGroups { pod, answer } => {
                reply(answer, self.find(&pod).map(|uid| self.world.core.extra_supplemental_groups(&uid)));
            }
            Request::VolumesInUse(answer) => {
                reply(answer, self.world.core.volumes_in_use().iter().map(ToString::to_string).collect());
            }
            Request::MarkReportedInUse { volumes, answer } => reply(answer, self.mark_reported_in_use(volumes)),
            Request::SetNodeAttachments { attachments, answer } => {
                reply(answer, self.set_node_attachments(attachments))
            }
            Request::VolumeIsAttached { volume, answer } => {
                let attached =
                    UniqueVolumeName::new(volume).is_ok_and(|name| self.world.core.volume_is_attached(&name));
                reply(answer, attached);
            }
            Request::StatesSynced(answer) => reply(answer, self.is_synced()),
            Request::Drain { timeout, answer } => self.drain(timeout, answer),
            Request::ForceUnmount { target, end_server, answer } => self.force_unmount(&target, end_server, answer),
        }
    }

    /// The pod's uid, if the sources or the world know it.
    pub(super) fn find(&self, pod: &PodSelector) -> Result<PodUid, RequestError> {
        let unknown = |text: &str| RequestError::UnknownPod(text.to_owned());
        match pod {
            PodSelector::Uid(text) => {
                let uid = PodUid::new(text.clone()).map_err(|error| RequestError::Invalid(error.to_string()))?;
                let known = self.world.core.pod(&uid).is_some() || self.sources.knows(&uid);
                if known { Ok(uid) } else { Err(unknown(text)) }
            }
            PodSelector::Name { namespace, name } => self
                .sources
                .uid_of(namespace, name)
                .or_else(|| {
                    // Gone from its source, but not yet from the node.
                    let pods = self.world.core.pods();
                    let pod = pods.into_iter().find(|pod| pod.namespace == *namespace && pod.name == *name)?;
                    PodUid::new(pod.uid).ok()
                })
                .ok_or_else(|| unknown(&format!("{namespace}/{name}"))),
        }
    }

    /// The pod, if a source names it. What recovery knows is not enough: its pod may be named any moment.
    fn named(&self, pod: &PodSelector) -> Result<PodUid, RequestError> {
        let uid = self.find(pod)?;
        if self.sources.knows(&uid) {
            return Ok(uid);
        }
        Err(RequestError::UnknownPod(match pod {
            PodSelector::Uid(text) => text.clone(),
            PodSelector::Name { namespace, name } => format!("{namespace}/{name}"),
        }))
    }

    fn snapshot(&self) -> Snapshot {
        let core = &self.world.core;
        let mut pods = core.pods();
        pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        let plugins = self.plugins.views(|name| core.volumes_of_plugin(name));
        let mut operations = core.operations();
        for operation in operations.iter_mut().filter(|operation| operation.running) {
            operation.step = self.world.executor.step_of(operation.id).unwrap_or_default();
        }
        let served = |source: &str| self.plugins.serving(source).map(|plugin| plugin.info().name.to_string());
        let drivers = self.drivers.as_ref().map(|drivers| drivers.views(served)).unwrap_or_default();
        Snapshot { pods, unused_volumes: core.unused_volumes(), operations, plugins, drivers }
    }

    /// Asks the kernel, on a thread that may block: a folder with many mounts takes milliseconds.
    fn mounts(&self, pod: &PodSelector, answer: oneshot::Sender<Result<Vec<MountView>, RequestError>>) {
        let uid = match self.find(pod) {
            Ok(uid) => uid,
            Err(error) => return reply(answer, Err(error)),
        };
        let volume_ops = self.volume_ops.clone();
        tokio::task::spawn_blocking(move || {
            let of_pod = Path::new(layout::PODS).join(uid.as_str());
            let mounts = volume_ops.mounts_of_pod(&uid).unwrap_or_default();
            let views = mounts.into_iter().map(|mount| MountView {
                point: of_pod.join(&mount.point).display().to_string(),
                fs_type: mount.fs_type,
                source: mount.source.to_string_lossy().into_owned(),
                root: mount.root.display().to_string(),
                options: mount.options.join(","),
            });
            reply(answer, Ok(views.collect()));
        });
    }

    fn mounted_volumes(&self, pod: &PodSelector, possibly: bool) -> Result<Vec<MountedVolume>, RequestError> {
        let uid = self.find(pod)?;
        let core = &self.world.core;
        let volumes = if possibly { core.possibly_mounted_volumes_of(&uid) } else { core.mounted_volumes_of(&uid) };
        let absolute = |mut mount: ContainerMountView| {
            if !mount.path.is_empty() {
                mount.path = self.root.join(&mount.path).display().to_string();
            }
            mount
        };
        let views = volumes.into_iter().map(|volume| MountedVolume {
            container_mounts: volume.container_mounts.into_iter().map(absolute).collect(),
            path: self.root.join(&volume.path).display().to_string(),
            outer_name: volume.name,
            unique_name: volume.unique_name,
            spec_name: volume.spec_name,
            read_only: volume.read_only,
        });
        Ok(views.collect())
    }

    fn mark_reported_in_use(&mut self, volumes: Vec<String>) -> Result<(), RequestError> {
        let names: Result<Vec<_>, _> = volumes.into_iter().map(UniqueVolumeName::new).collect();
        let names = names.map_err(|error| RequestError::Invalid(error.to_string()))?;
        self.in_use_set(names);
        Ok(())
    }

    fn set_node_attachments(&mut self, attachments: Vec<(String, String)>) -> Result<(), RequestError> {
        if self.world.core.has_no_controller() {
            return Err(RequestError::Precondition(
                "this node attaches its volumes itself; a controller's reports are for a node that runs with --controller-attaches".to_owned(),
            ));
        }
        let named = |(volume, path)| UniqueVolumeName::new(volume).map(|name| (name, path));
        let attachments: Result<Vec<_>, _> = attachments.into_iter().map(named).collect();
        let attachments = attachments.map_err(|error| RequestError::Invalid(error.to_string()))?;
        self.attachments_set(attachments);
        Ok(())
    }

    fn drain(&mut self, timeout: Duration, answer: oneshot::Sender<Vec<String>>) {
        self.draining.push(Draining { deadline: after(timeout), answer });
        self.world.tell(EventKind::Normal, "Draining", "node", "every volume is being taken away");
        self.world.feed(Event::Drain);
    }

    /// Mounts volumes again. Returns whether the host drained.
    fn end_drain(&mut self) -> bool {
        let was_draining = self.world.core.is_draining();
        if was_draining {
            self.drained = false;
            self.world.tell(
                EventKind::Normal,
                "DrainEnded",
                "node",
                "volumes are mounted again for the pods that want them",
            );
            self.world.feed(Event::DrainEnded);
            let left: Vec<String> = vec!["the drain was ended before everything was taken away".to_owned()];
            for draining in std::mem::take(&mut self.draining) {
                reply(draining.answer, left.clone());
            }
        }
        was_draining
    }

    /// Lets the callers that wait for a pod nobody had named go on, if it has been named now.
    pub(super) fn meet_expected(&mut self) {
        for Expected { pod, deadline, answer } in std::mem::take(&mut self.expected) {
            match self.named(&pod) {
                Ok(uid) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.world.wait(left, answer, |waiter, deadline| Event::WaitMounted { waiter, uid, deadline });
                }
                Err(_) => self.expected.push(Expected { pod, deadline, answer }),
            }
        }
    }

    /// Answers the callers whose pod has not been named in time.
    pub(super) fn give_up_expected(&mut self) {
        let now = Instant::now();
        for expected in std::mem::take(&mut self.expected) {
            if expected.deadline <= now {
                let error = self.named(&expected.pod).err().unwrap_or(RequestError::Stopping);
                reply(expected.answer, Err(error));
            } else if !expected.answer.is_closed() {
                self.expected.push(expected);
            }
        }
    }

    /// Answers the callers that wait for a drain, when nothing is left or their time is over.
    pub(super) fn answer_drains(&mut self) {
        let now = Instant::now();
        // While operations run there is something left; a closer look is not worth its cost. What cleans the folders of pods
        // that are gone may find more.
        let busy = self.world.executor.running() > 0 || self.sweep.is_awaited(now);
        let due = !busy || self.draining.iter().any(|draining| draining.deadline <= now);
        if self.draining.is_empty() || !due {
            return;
        }
        let left = self.left();
        self.drained = left.is_empty();
        for Draining { deadline, answer } in std::mem::take(&mut self.draining) {
            if left.is_empty() || deadline <= now {
                reply(answer, left.clone());
            } else if !answer.is_closed() {
                self.draining.push(Draining { deadline, answer });
            }
        }
    }

    /// What stands, or may stand, on the node: a line each.
    fn left(&self) -> Vec<String> {
        let core = &self.world.core;
        let mut left = BTreeMap::new();
        for PodView { uid, .. } in core.pods() {
            let Ok(uid) = PodUid::new(uid) else { continue };
            for volume in core.possibly_mounted_volumes_of(&uid) {
                left.insert((volume.pod.clone(), volume.spec_name.clone()), reason(&volume));
            }
        }
        for volume in core.unused_volumes() {
            left.insert((String::new(), volume.unique_name.clone()), reason(&volume));
        }
        left.into_iter().map(|((pod, volume), reason)| format!("{pod}: {volume}: {reason}")).collect()
    }
}

/// This long from now.
fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now)
}

fn reason(volume: &VolumeView) -> String {
    volume.failure.as_ref().map_or_else(|| format!("{:?}", volume.state), ToString::to_string)
}

/// Answers. A caller that has gone away wants no answer.
pub(super) fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    let _ = answer.send(value);
}
