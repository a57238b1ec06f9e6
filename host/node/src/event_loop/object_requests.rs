//! Requests that add or remove objects: first the files, on a thread that may block, then the state
//! machine, then the answer.
//!
//! ```text
//!  request --> queue --plan--> files (thread) --written--> checked again --> sources, answer
//!                |                   |                          |
//!                '-- refused         '-- failed: undone         '-- refused: undone (thread)
//! ```
//!
//! One request at a time, in the order of arrival: each is planned with the result of the one
//! before. So `SourcesReady` waits for the pods that were added before it.
#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;

use super::comparison;
use super::lookup::known_pod;
use super::manifest_text::{Manifest, ManifestObjects};
use super::object_files::{FileChange, FilesWritten, ObjectFileError};
use super::provisioning::Provisioning;
use super::reply::reply;
use super::reports::WorkerReport;
use super::requests::{Added, Compared, PodSelector, RequestError};
use super::sources::{Sources, added_pods};
use super::world::World;
use volhost_objects::{Kind, Object, ObjectKey};

/// A request that changes objects.
#[derive(Debug)]
pub(super) enum ObjectRequest {
    /// Add or replace these.
    Add { manifest: Manifest, answer: oneshot::Sender<Result<Added, RequestError>> },
    /// Check whether these could be added.
    Check { manifest: Manifest, answer: oneshot::Sender<Result<Added, RequestError>> },
    /// Compare these with the present ones, if they could be added.
    Compare { manifest: Manifest, answer: oneshot::Sender<Result<Compared, RequestError>> },
    /// Forget a pod.
    RemovePod { pod: PodSelector, answer: oneshot::Sender<Result<(), RequestError>> },
    /// Forget another object.
    RemoveObject { key: ObjectKey, answer: oneshot::Sender<Result<String, RequestError>> },
    /// Note that clients have added all their pods.
    SourcesReady { answer: oneshot::Sender<()> },
    /// Write the bindings that the objects do not determine.
    Bindings(FileChange),
    /// Remove the marker that pods were added by request.
    Unmark,
}

/// The rest of a request, done when its files are written.
#[derive(Debug)]
enum RequestRest {
    Add {
        objects: Vec<Arc<Object>>,
        warnings: Vec<String>,
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
    RemovePod {
        uid: PodUid,
        answer: oneshot::Sender<Result<(), RequestError>>,
    },
    RemoveObject {
        key: ObjectKey,
        answer: oneshot::Sender<Result<String, RequestError>>,
    },
    SourcesReady {
        answer: oneshot::Sender<()>,
    },
    Bindings,
    Unmark,
    /// The files have their old content again; the request is refused.
    Refuse {
        why: RequestError,
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
}

/// The parts of the node that a request changes.
#[derive(Debug)]
pub(super) struct RequestTarget<'a> {
    pub(super) world: &'a mut World,
    pub(super) sources: &'a mut Sources,
    pub(super) provisioning: Option<&'a mut Provisioning>,
}

/// A step of handling requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestStep {
    /// A request was handled, or its files are being written.
    Request,
    /// Clients have added all their pods.
    ClientsReady,
}

/// Requests that wait for their files.
#[derive(Debug)]
pub(super) struct ObjectRequests {
    queue: VecDeque<ObjectRequest>,
    /// The request whose files are being written.
    running: Option<RequestRest>,
    reports: mpsc::UnboundedSender<WorkerReport>,
}

impl ObjectRequests {
    /// Creates an empty queue. Threads report to `reports`.
    pub(super) const fn new(reports: mpsc::UnboundedSender<WorkerReport>) -> Self {
        Self { queue: VecDeque::new(), running: None, reports }
    }

    /// Appends a request. [`ObjectRequests::step`] handles it.
    pub(super) fn push(&mut self, request: ObjectRequest) {
        self.queue.push_back(request);
    }

    /// Handles the next request; none while the files of another one are being written.
    pub(super) fn step(&mut self, target: &mut RequestTarget<'_>) -> Option<RequestStep> {
        let request = self.next()?;
        Some(self.plan(request, target))
    }

    /// Handles the end of writing files.
    pub(super) fn files_written(
        &mut self,
        written: FilesWritten,
        target: &mut RequestTarget<'_>,
    ) -> Option<RequestStep> {
        let then = self.running.take()?;
        Some(match written {
            Ok(undo) => self.finish(then, undo, target),
            Err(error) => self.fail(then, &error, target),
        })
    }

    /// Writes the bindings that the next start could not determine from the objects, if they have
    /// changed.
    pub(super) fn write_bindings(&mut self, sources: &mut Sources) {
        if let Some(file) = sources.bindings_to_write() {
            self.push(ObjectRequest::Bindings(file));
        }
    }

    fn next(&mut self) -> Option<ObjectRequest> {
        match self.running {
            Some(_) => None,
            None => self.queue.pop_front(),
        }
    }

    fn plan(&mut self, request: ObjectRequest, target: &mut RequestTarget<'_>) -> RequestStep {
        match request {
            ObjectRequest::Add { manifest, answer } => match checked(manifest, target.sources) {
                Ok(planned) => {
                    let files = target.sources.files_to_add(&planned);
                    let ManifestObjects { objects, warnings, .. } = planned;
                    return self.write(files, RequestRest::Add { objects, warnings, answer }, target);
                }
                Err(why) => reply(answer, Err(why)),
            },
            ObjectRequest::Check { manifest, answer } => {
                let planned = checked(manifest, target.sources);
                let added =
                    planned.map(|planned| Added { pods: added_pods(&planned.objects), warnings: planned.warnings });
                reply(answer, added);
            }
            ObjectRequest::Compare { manifest, answer } => match checked(manifest, target.sources) {
                Ok(planned) => comparison::answer(planned, target.sources, answer),
                Err(why) => reply(answer, Err(why)),
            },
            ObjectRequest::RemovePod { pod, answer } => {
                let uid = known_pod(target.world, target.sources, &pod);
                match uid.and_then(|uid| Ok((target.sources.files_of_pod(&uid)?, uid))) {
                    Ok((files, uid)) => return self.write(files, RequestRest::RemovePod { uid, answer }, target),
                    Err(why) => reply(answer, Err(why)),
                }
            }
            ObjectRequest::RemoveObject { key, answer } => return self.plan_removal(key, answer, target),
            ObjectRequest::SourcesReady { answer } => {
                let sources = &target.sources;
                let files = sources.awaits_clients().then(|| sources.files().complete());
                return self.write(files.into_iter().collect(), RequestRest::SourcesReady { answer }, target);
            }
            ObjectRequest::Bindings(file) => return self.write(vec![file], RequestRest::Bindings, target),
            ObjectRequest::Unmark => {
                let files = target.sources.unmark();
                return self.write(files.into_iter().collect(), RequestRest::Unmark, target);
            }
        }
        RequestStep::Request
    }

    fn plan_removal(
        &mut self,
        key: ObjectKey,
        answer: oneshot::Sender<Result<String, RequestError>>,
        target: &mut RequestTarget<'_>,
    ) -> RequestStep {
        let RequestTarget { world, sources, provisioning } = target;
        if let Some(result) = provisioning.as_mut().and_then(|all| all.forget(&key, world, sources)) {
            reply(answer, result);
            return RequestStep::Request;
        }
        // A claim that no source has any more, or whose name another object has.
        let was_missing = target.delete_missing_claim(&key);
        match target.sources.files_to_remove(&key) {
            Ok(files) => return self.write(files, RequestRest::RemoveObject { key, answer }, target),
            Err(RequestError::UnknownObject(_) | RequestError::Conflict(_)) if was_missing => {
                reply(answer, Ok(target.removal(&key)));
            }
            Err(why) => reply(answer, Err(why)),
        }
        RequestStep::Request
    }

    /// Changes files on a thread that may block.
    fn write(&mut self, changes: Vec<FileChange>, then: RequestRest, target: &mut RequestTarget<'_>) -> RequestStep {
        if changes.is_empty() {
            return self.finish(then, Vec::new(), target);
        }
        self.running = Some(then);
        let (files, reports) = (target.sources.files(), self.reports.clone());
        tokio::task::spawn_blocking(move || {
            // The loop ends only with the process.
            let _ = reports.send(WorkerReport::FilesWritten(files.change(changes)));
        });
        RequestStep::Request
    }

    fn finish(&mut self, then: RequestRest, undo: Vec<FileChange>, target: &mut RequestTarget<'_>) -> RequestStep {
        match then {
            // A manifest may have brought one of them in the meantime.
            RequestRest::Add { objects, warnings, answer } => match target.sources.check(&objects) {
                Ok(()) => {
                    let pods = target.sources.add(objects, &warnings);
                    reply(answer, Ok(Added { pods, warnings }));
                }
                Err(why) => return self.write(undo, RequestRest::Refuse { why, answer }, target),
            },
            RequestRest::RemovePod { uid, answer } => {
                target.sources.remove_pod(&uid);
                reply(answer, Ok(()));
            }
            RequestRest::RemoveObject { key, answer } => {
                target.sources.remove_object(&key);
                target.delete_missing_claim(&key);
                reply(answer, Ok(target.removal(&key)));
            }
            RequestRest::SourcesReady { answer } => {
                let step = self.clients_are_ready(target);
                reply(answer, ());
                return step;
            }
            RequestRest::Bindings => {}
            RequestRest::Unmark => target.sources.unmarked(),
            RequestRest::Refuse { why, answer } => reply(answer, Err(why)),
        }
        RequestStep::Request
    }

    fn fail(&mut self, then: RequestRest, error: &ObjectFileError, target: &mut RequestTarget<'_>) -> RequestStep {
        let failed =
            |what: &str| RequestError::NotKept { message: format!("{what}: {error}"), is_full: error.is_full() };
        match then {
            RequestRest::Add { answer, .. } => {
                reply(answer, Err(failed("nothing is added, since it cannot be kept for the next start")));
            }
            RequestRest::RemovePod { uid, answer } => {
                reply(answer, Err(failed(&format!("pod {uid} stays, since a restart would bring it back"))));
            }
            RequestRest::RemoveObject { key, answer } => {
                reply(answer, Err(failed(&format!("{key} stays, since a restart would bring it back"))));
            }
            // Clients are ready all the same. The next start does not know it, and waits for them
            // again.
            RequestRest::SourcesReady { answer } => {
                let message = format!(
                    "a restart of volhost will wait for SourcesReady again, since this cannot be kept for the next start: {error}"
                );
                target.world.emit(EventKind::Warning, "SourcesReadyNotKept", "node", &message);
                let step = self.clients_are_ready(target);
                reply(answer, ());
                return step;
            }
            // They are written again when one changes.
            RequestRest::Bindings => {
                let message = format!(
                    "claims that have grown beyond their volumes' capacity may not be bound after a restart, since this cannot be kept for it: {error}"
                );
                target.world.emit(EventKind::Warning, "BindingsNotKept", "node", &message);
            }
            // It is tried again when the next pod is removed.
            RequestRest::Unmark => {}
            RequestRest::Refuse { why, answer } => reply(answer, Err(failed(&why.to_string()))),
        }
        RequestStep::Request
    }

    fn clients_are_ready(&mut self, target: &mut RequestTarget<'_>) -> RequestStep {
        if !target.sources.awaits_clients() {
            return RequestStep::Request;
        }
        let message = "every client has added its pods; pods that no source names are treated as deleted from now on";
        target.world.emit(EventKind::Normal, "SourcesReady", "node", message);
        target.sources.clients_are_ready();
        self.queue.push_front(ObjectRequest::Unmark);
        RequestStep::ClientsReady
    }
}

impl RequestTarget<'_> {
    /// Notes that a claim of this name that no source has was deleted. Returns whether a volume was
    /// made for one.
    fn delete_missing_claim(&mut self, key: &ObjectKey) -> bool {
        let provisioning = self.provisioning.as_mut();
        provisioning.is_some_and(|provisioning| provisioning.delete_missing_claim(key, self.sources))
    }

    /// Returns what happens after an object was removed by request, for the caller.
    fn removal(&self, key: &ObjectKey) -> String {
        match key.kind {
            Kind::PersistentVolumeClaim if self.provisioning.is_some() => {
                "removed; a volume that was made for it goes by its reclaim policy, when no pod uses it".to_owned()
            }
            _ => "removed; no storage is deleted".to_owned(),
        }
    }
}

/// Returns the objects of a manifest, if they can be added now.
pub(super) fn checked(manifest: Manifest, sources: &Sources) -> Result<ManifestObjects, RequestError> {
    let objects = manifest.into_objects().map_err(|error| RequestError::Invalid(error.to_string()))?;
    sources.check(&objects.objects)?;
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::super::manifest_text::FieldValidation;
    use super::*;

    #[test]
    fn sources_ready_waits_for_what_was_added_before_it() {
        let (reports, _reports) = mpsc::unbounded_channel();
        let mut requests = ObjectRequests::new(reports);
        let (added, _added) = oneshot::channel();
        let (ready, _ready) = oneshot::channel();
        requests
            .push(ObjectRequest::Add { manifest: Manifest::read(String::new(), FieldValidation::Warn), answer: added });
        requests.push(ObjectRequest::SourcesReady { answer: ready });
        assert!(matches!(requests.next(), Some(ObjectRequest::Add { .. })));
        requests.running = Some(RequestRest::Unmark);
        assert!(requests.next().is_none(), "the files of what was added are still being written");
        requests.running = None;
        assert!(matches!(requests.next(), Some(ObjectRequest::SourcesReady { .. })));
    }
}
