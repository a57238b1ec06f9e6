//! Adding and removing objects by request: the files first, on a thread that may block, then the world, then the answer.
//!
//! ```text
//!  request --> queue --plan--> files (thread) --written--> checked again --> world, answer
//!                |                   |                          |
//!                '-- refused         '-- failed: taken back     '-- refused: taken back (thread)
//! ```
//!
//! One request at a time, in the order in which they came: what is planned for the next knows what this one has done. So
//! `SourcesReady` waits for the pods that were added before it.
#![deny(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;

use super::answers::reply;
use super::kept::{FileChange, KeepError};
use super::manifest_text::{Manifest, Objects, REQUEST};
use super::requests::{Added, PodSelector, RequestError};
use super::serve::Engine;
use super::sources::IGNORED;
use volhost_objects::{Object, ObjectKey};

/// What became of the files: what takes the change back.
pub(super) type Written = Result<Vec<FileChange>, KeepError>;

/// A request that changes objects.
#[derive(Debug)]
pub(super) enum KeepRequest {
    /// Add or replace these.
    Add { manifest: Manifest, answer: oneshot::Sender<Result<Added, RequestError>> },
    /// Forget a pod.
    RemovePod { pod: PodSelector, answer: oneshot::Sender<Result<(), RequestError>> },
    /// Forget another object.
    RemoveObject { key: ObjectKey, answer: oneshot::Sender<Result<String, RequestError>> },
    /// Take note that clients have added every pod that they want.
    SourcesReady { answer: oneshot::Sender<()> },
    /// Keep the bindings that the objects do not say.
    Bindings(FileChange),
    /// Forget that pods were ever added.
    Unmark,
}

/// What is done when the files are written.
#[derive(Debug)]
enum Then {
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
    /// The files are as they were before; the request is refused.
    Refuse {
        why: RequestError,
        answer: oneshot::Sender<Result<Added, RequestError>>,
    },
}

/// Requests that wait for their files.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    queue: VecDeque<KeepRequest>,
    running: Option<Then>,
    /// Where threads answer; none before the engine runs.
    pub(super) written: Option<mpsc::UnboundedSender<Written>>,
}

impl Keeping {
    /// The request whose turn it is; none while the files of another are being written.
    fn next(&mut self) -> Option<KeepRequest> {
        match self.running {
            Some(_) => None,
            None => self.queue.pop_front(),
        }
    }
}

impl Engine {
    /// Takes a request that changes objects.
    pub(super) fn keep(&mut self, request: KeepRequest) {
        self.keeping.queue.push_back(request);
        self.keep_next();
    }

    /// Takes what became of the files.
    pub(super) fn kept(&mut self, written: Written) {
        if let Some(then) = self.keeping.running.take() {
            match written {
                Ok(undo) => self.finish_keeping(then, undo),
                Err(error) => self.fail_keeping(then, &error),
            }
        }
        self.keep_next();
    }

    fn keep_next(&mut self) {
        while let Some(request) = self.keeping.next() {
            match request {
                KeepRequest::Add { manifest, answer } => match self.plan_add(manifest) {
                    Ok(Objects { objects, documents, warnings }) => {
                        let planned = Objects { objects, documents, warnings };
                        let files = self.sources.files_to_add(&planned);
                        let Objects { objects, warnings, .. } = planned;
                        self.write_files(files, Then::Add { objects, warnings, answer });
                    }
                    Err(why) => reply(answer, Err(why)),
                },
                KeepRequest::RemovePod { pod, answer } => {
                    let planned = self.find(&pod).and_then(|uid| Ok((self.sources.files_of_pod(&uid)?, uid)));
                    match planned {
                        Ok((files, uid)) => self.write_files(files, Then::RemovePod { uid, answer }),
                        Err(why) => reply(answer, Err(why)),
                    }
                }
                KeepRequest::RemoveObject { key, answer } => self.plan_removal(key, answer),
                KeepRequest::SourcesReady { answer } => {
                    let files = self.sources.awaits_clients().then(|| self.sources.files().complete());
                    self.write_files(files.into_iter().collect(), Then::SourcesReady { answer });
                }
                KeepRequest::Bindings(file) => self.write_files(vec![file], Then::Bindings),
                KeepRequest::Unmark => {
                    let files = self.sources.unmark().filter(|_| !self.sources.has_pods_by_request());
                    self.write_files(files.into_iter().collect(), Then::Unmark);
                }
            }
        }
    }

    fn plan_add(&self, manifest: Manifest) -> Result<Objects, RequestError> {
        let objects = manifest.read.map_err(RequestError::Invalid)?;
        self.sources.check(&objects.objects)?;
        Ok(objects)
    }

    fn plan_removal(&mut self, key: ObjectKey, answer: oneshot::Sender<Result<String, RequestError>>) {
        if let Some(outcome) = self.forget_made(&key) {
            return reply(answer, outcome);
        }
        // A claim that no source has any more, or of which another has the name.
        let was_missing = self.delete_missing_claim(&key);
        match self.sources.files_to_remove(&key) {
            Ok(files) => self.write_files(files, Then::RemoveObject { key, answer }),
            Err(RequestError::UnknownObject(_) | RequestError::Conflict(_)) if was_missing => {
                reply(answer, Ok(self.removal(&key)));
            }
            Err(why) => reply(answer, Err(why)),
        }
    }

    /// Changes files on a thread that may block.
    fn write_files(&mut self, changes: Vec<FileChange>, then: Then) {
        let Some(written) = self.keeping.written.clone().filter(|_| !changes.is_empty()) else {
            return self.finish_keeping(then, Vec::new());
        };
        self.keeping.running = Some(then);
        let files = self.sources.files();
        tokio::task::spawn_blocking(move || {
            // Nobody listens any more only when the engine ends.
            let _ = written.send(files.change(changes));
        });
    }

    fn finish_keeping(&mut self, then: Then, undo: Vec<FileChange>) {
        match then {
            // A manifest may have brought one of them meanwhile.
            Then::Add { objects, warnings, answer } => match self.sources.check(&objects) {
                Ok(()) => {
                    let (pods, mut effects) = self.sources.add(objects);
                    let warning = |text: &String| (EventKind::Warning, IGNORED, REQUEST.to_owned(), text.clone());
                    effects.notices.extend(warnings.iter().map(warning));
                    self.carry_out(effects);
                    reply(answer, Ok(Added { pods, warnings }));
                }
                Err(why) => self.write_files(undo, Then::Refuse { why, answer }),
            },
            Then::RemovePod { uid, answer } => {
                let effects = self.sources.remove_pod(&uid);
                self.carry_out(effects);
                if !self.sources.has_pods_by_request() && !self.sources.may_miss_pods() {
                    self.sources.set_marked(false);
                }
                reply(answer, Ok(()));
            }
            Then::RemoveObject { key, answer } => {
                let effects = self.sources.remove_object(&key);
                self.carry_out(effects);
                self.delete_missing_claim(&key);
                reply(answer, Ok(self.removal(&key)));
            }
            Then::SourcesReady { answer } => {
                self.clients_are_ready();
                reply(answer, ());
            }
            Then::Bindings => {}
            Then::Unmark => {
                if !self.sources.has_pods_by_request() {
                    self.sources.set_marked(false);
                }
            }
            Then::Refuse { why, answer } => reply(answer, Err(why)),
        }
    }

    fn fail_keeping(&mut self, then: Then, error: &KeepError) {
        let failed =
            |what: &str| RequestError::NotKept { message: format!("{what}: {error}"), is_full: error.is_full() };
        match then {
            Then::Add { answer, .. } => {
                reply(answer, Err(failed("nothing is added, since it cannot be kept for the next start")));
            }
            Then::RemovePod { uid, answer } => {
                reply(answer, Err(failed(&format!("pod {uid} stays, since a restart would bring it back"))));
            }
            Then::RemoveObject { key, answer } => {
                reply(answer, Err(failed(&format!("{key} stays, since a restart would bring it back"))));
            }
            // Clients have spoken all the same. The next start does not know it, and waits for them again.
            Then::SourcesReady { answer } => {
                let message = format!(
                    "a restart of volhost will wait for SourcesReady again, since this cannot be kept for the next start: {error}"
                );
                self.world.tell(EventKind::Warning, "SourcesReadyNotKept", "node", &message);
                self.clients_are_ready();
                reply(answer, ());
            }
            // They are written again when one changes.
            Then::Bindings => {
                let message = format!(
                    "claims that have grown beyond their volumes' capacity may not be bound after a restart, since this cannot be kept for it: {error}"
                );
                self.world.tell(EventKind::Warning, "BindingsNotKept", "node", &message);
            }
            // It is tried again when the next pod goes.
            Then::Unmark => {}
            Then::Refuse { why, answer } => reply(answer, Err(failed(&why.to_string()))),
        }
    }

    /// Has the bindings written down that the next run could not decide from the objects.
    pub(super) fn keep_bindings(&mut self) {
        // Before the engine runs, nothing is written.
        if self.keeping.written.is_none() {
            return;
        }
        if let Some(file) = self.sources.bindings_to_keep() {
            self.keep(KeepRequest::Bindings(file));
        }
    }

    /// Clients have added every pod that they want.
    fn clients_are_ready(&mut self) {
        if !self.sources.awaits_clients() {
            return;
        }
        let message = "every client has added its pods; what no source names is taken for gone from now on";
        self.world.tell(EventKind::Normal, "SourcesReady", "node", message);
        let effects = self.sources.clients_are_ready();
        self.carry_out(effects);
        self.keeping.queue.push_front(KeepRequest::Unmark);
        self.sync();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_ready_waits_for_what_was_added_before_it() {
        let mut keeping = Keeping::default();
        let (added, _added) = oneshot::channel();
        let (ready, _ready) = oneshot::channel();
        keeping.queue.push_back(KeepRequest::Add { manifest: Manifest::read(String::new()), answer: added });
        keeping.queue.push_back(KeepRequest::SourcesReady { answer: ready });
        assert!(matches!(keeping.next(), Some(KeepRequest::Add { .. })));
        keeping.running = Some(Then::Unmark);
        assert!(keeping.next().is_none(), "the files of what was added are still being written");
        keeping.running = None;
        assert!(matches!(keeping.next(), Some(KeepRequest::SourcesReady { .. })));
    }
}
