//! Which pods and volumes a step concerns. An event may have a number only: the names are those of
//! the steps before it.

use std::collections::{BTreeMap, BTreeSet};

use volhost_core::{CoreCommand, CoreImage, Event, Operation, OperationId, OperationName, WaiterId};
use volhost_model::Pod;
use volhost_model::names::{PodUid, UniqueVolumeName};

/// The namespace of a pod that is named without one.
const DEFAULT_NAMESPACE: &str = "default";

/// An operation that runs.
#[derive(Debug, Clone)]
pub(crate) struct KnownOperation {
    pub(crate) name: OperationName,
    pub(crate) volume: UniqueVolumeName,
    pub(crate) pod: Option<PodUid>,
}

/// The names of the steps so far.
#[derive(Debug, Default)]
pub struct KnownNames {
    operations: BTreeMap<OperationId, KnownOperation>,
    waiters: BTreeMap<WaiterId, PodUid>,
    /// `namespace/name`.
    pods: BTreeMap<PodUid, String>,
    /// What pods call a volume, and its folders.
    volumes: BTreeMap<UniqueVolumeName, BTreeSet<String>>,
}

/// What a step concerns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subjects {
    /// The pods.
    pub pods: BTreeSet<PodUid>,
    /// The volumes.
    pub volumes: BTreeSet<UniqueVolumeName>,
}

impl KnownNames {
    /// Creates the names of a state.
    pub fn of(state: &CoreImage) -> Self {
        let mut names = Self::default();
        for (uid, pod) in state.pods() {
            names.learn_pod(uid, pod);
        }
        for wanted in state.wanted() {
            names.learn_volume(&wanted.unique_name, [wanted.outer_name.as_str(), wanted.spec.name.as_str()]);
        }
        for (volume, folder) in state.volumes() {
            names.learn_volume(volume, [folder.as_str()]);
        }
        state.running().for_each(|operation| names.learn_operation(operation));
        names.waiters.extend(state.waiters().map(|(id, pod)| (id, pod.clone())));
        names
    }

    /// Adds the names of an event, before it is looked at.
    pub fn learn_event(&mut self, event: &Event) {
        match event {
            Event::PodDesired(desired) => {
                self.learn_pod(&desired.pod.uid, Some(&desired.pod));
                for volume in &desired.volumes {
                    self.learn_volume(&volume.unique_name, [volume.outer_name.as_str(), volume.spec.name.as_str()]);
                }
            }
            Event::Recovered(found) => {
                self.learn_pod(&found.pod, found.known_pod.as_deref());
                self.learn_volume(&found.unique_name, [found.spec_name.as_str()]);
            }
            Event::RecoveredDevice(found) => self.learn_volume(&found.unique_name, [found.spec_name.as_str()]),
            Event::WaitMounted { waiter, uid, .. } | Event::WaitUnmounted { waiter, uid, .. } => {
                self.waiters.insert(*waiter, uid.clone());
            }
            _ => {}
        }
    }

    /// Adds the names of commands.
    pub fn learn_commands(&mut self, commands: &[CoreCommand]) {
        for command in commands {
            if let CoreCommand::Start(operation) = command {
                self.learn_operation(operation);
            }
        }
    }

    /// Returns what an event and the commands that answer it concern.
    pub fn subjects(&self, event: &Event, commands: &[CoreCommand]) -> Subjects {
        let mut subjects = Subjects::default();
        self.of_event(event, &mut subjects);
        for command in commands {
            match command {
                CoreCommand::Start(operation) => subjects.add(operation.pod_uid.as_ref(), Some(&operation.volume)),
                CoreCommand::Publish(notice) => subjects.add(notice.pod_uid.as_ref(), notice.volume.as_ref()),
                CoreCommand::Answer { waiter, .. } => subjects.add(self.waiters.get(waiter), None),
                CoreCommand::ArmTimer(_) => {}
            }
        }
        subjects
    }

    fn of_event(&self, event: &Event, subjects: &mut Subjects) {
        match event {
            Event::PodDesired(desired) => {
                subjects.pods.insert(desired.pod.uid.clone());
                subjects.volumes.extend(desired.volumes.iter().map(|volume| volume.unique_name.clone()));
            }
            Event::PodGone { uid }
            | Event::SourceChanged { uid }
            | Event::WaitMounted { uid, .. }
            | Event::WaitUnmounted { uid, .. } => subjects.add(Some(uid), None),
            Event::Recovered(found) => subjects.add(Some(&found.pod), Some(&found.unique_name)),
            Event::RecoveredDevice(found) => subjects.add(None, Some(&found.unique_name)),
            Event::OperationDone { id, .. } | Event::OperationOverdue { id, .. } => {
                if let Some(operation) = self.operations.get(id) {
                    subjects.add(operation.pod.as_ref(), Some(&operation.volume));
                }
            }
            Event::WaitCancelled { waiter } => subjects.add(self.waiters.get(waiter), None),
            Event::Vanished { pod, volume } => subjects.add(Some(pod), Some(volume)),
            Event::DeviceVanished { volume } => subjects.add(None, Some(volume)),
            Event::StorageAnswers(volumes) | Event::ReportedInUse(volumes) | Event::NotAttached(volumes) => {
                subjects.volumes.extend(volumes.iter().cloned());
            }
            Event::NodeAttachments(volumes) | Event::AttachmentsSoFar(volumes) | Event::AttachFailures(volumes) => {
                subjects.volumes.extend(volumes.iter().map(|(volume, _)| volume.clone()));
            }
            Event::SourcesSynced
            | Event::PluginChanged { .. }
            | Event::Timer
            | Event::Refresh
            | Event::Drain
            | Event::DrainEnded => {}
        }
    }

    /// Whether a user means this pod: by its uid, by `namespace/name`, or by its name in the
    /// namespace `default`.
    pub fn is_pod(&self, pod: &PodUid, named: &str) -> bool {
        let full = self.pods.get(pod).map(String::as_str);
        pod.as_str() == named
            || full == Some(named)
            || full.and_then(|full| full.split_once('/')) == Some((DEFAULT_NAMESPACE, named))
    }

    /// Whether a user means this volume: by its unique name, by what a pod calls it, or by its
    /// folder.
    pub fn is_volume(&self, volume: &UniqueVolumeName, named: &str) -> bool {
        volume.as_str() == named || self.volumes.get(volume).is_some_and(|names| names.contains(named))
    }

    /// Returns the pod as users name it.
    pub(crate) fn pod(&self, pod: &PodUid) -> String {
        self.pods.get(pod).cloned().unwrap_or_else(|| pod.to_string())
    }

    /// Returns the operation of this id.
    pub(crate) fn operation(&self, id: OperationId) -> Option<&KnownOperation> {
        self.operations.get(&id)
    }

    /// Returns the pod that the caller waits for.
    pub(crate) fn waits_for(&self, waiter: WaiterId) -> Option<String> {
        self.waiters.get(&waiter).map(|pod| self.pod(pod))
    }

    fn learn_pod(&mut self, uid: &PodUid, pod: Option<&Pod>) {
        if let Some(pod) = pod {
            self.pods.insert(uid.clone(), pod.full_name());
        }
    }

    fn learn_volume<const N: usize>(&mut self, volume: &UniqueVolumeName, names: [&str; N]) {
        self.volumes.entry(volume.clone()).or_default().extend(names.map(str::to_owned));
    }

    fn learn_operation(&mut self, operation: &Operation) {
        self.learn_volume(&operation.volume, [operation.spec_name.as_str()]);
        let known = KnownOperation {
            name: operation.kind.name(),
            volume: operation.volume.clone(),
            pod: operation.pod_uid.clone(),
        };
        self.operations.insert(operation.id, known);
    }
}

impl Subjects {
    fn add(&mut self, pod: Option<&PodUid>, volume: Option<&UniqueVolumeName>) {
        self.pods.extend(pod.cloned());
        self.volumes.extend(volume.cloned());
    }
}
