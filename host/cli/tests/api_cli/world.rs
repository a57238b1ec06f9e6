//! A made-up node: it answers from a world that the test writes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc};
use volhost_core::WaitFailure;
use volhost_metrics::NodeCounts;
use volhost_model::names::PodUid;
use volhost_model::view::Change;
use volhost_model::view::{
    DriverView, EventKind, EventView, OperationView, PluginView, PodPhase, PodView, VolumeState, VolumeView,
};
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::ForceTarget;
use volhost_node::event_loop::requests::{
    Added, AddedPod, MountView, MountedVolume, NodeStatus, PodSelector, Request, RequestError, Snapshot,
};
use volhost_volume_ops::forced::Forced;

/// What the node says.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
    /// How often the snapshot, and the volumes in use, were asked for.
    pub(crate) snapshots: usize,
    pub(crate) in_use_lists: usize,
    pub(crate) operations: Vec<OperationView>,
    pub(crate) plugins: Vec<PluginView>,
    pub(crate) drivers: Vec<DriverView>,
    pub(crate) counts: NodeCounts,
    pub(crate) events: Vec<EventView>,
    pub(crate) status: NodeStatus,
    pub(crate) mounts: Vec<MountView>,
    /// How waits end; none: never.
    pub(crate) wait: Option<Result<(), WaitFailure>>,
    /// What a drain leaves; none: it never ends.
    pub(crate) drain: Option<Vec<String>>,
    /// Timeouts that callers gave.
    pub(crate) timeouts: Vec<Duration>,
    pub(crate) manifests: Vec<String>,
    pub(crate) in_use: Vec<String>,
    pub(crate) reported: Vec<String>,
    pub(crate) attached: Vec<(String, String)>,
}

/// The node, for tests.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) world: Arc<Mutex<World>>,
    changes: broadcast::Sender<Change>,
}

impl Fake {
    pub(crate) fn start(world: World) -> (Self, NodeHandle) {
        let (requests, mut inbox) = mpsc::channel(64);
        let (changes, _) = broadcast::channel(64);
        let fake = Self { world: Arc::new(Mutex::new(world)), changes: changes.clone() };
        let answering = fake.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Some(request) = inbox.recv().await {
                answering.answer(request, &mut held);
            }
        });
        (fake, NodeHandle::new(requests, changes))
    }

    /// Changes the world and says so.
    pub(crate) fn change(&self, change: Change, edit: impl FnOnce(&mut World)) {
        edit(&mut self.world.lock().unwrap());
        let _ = self.changes.send(change);
    }

    fn answer(&self, request: Request, held: &mut Vec<Request>) {
        let mut world = self.world.lock().unwrap();
        let known = |pod: &PodSelector, world: &World| match pod {
            PodSelector::Uid(uid) => world
                .snapshot
                .pods
                .iter()
                .any(|known| known.uid == *uid)
                .then_some(())
                .ok_or_else(|| RequestError::UnknownPod(uid.clone())),
            PodSelector::Name { namespace, name } => {
                let found = world.snapshot.pods.iter().any(|pod| pod.namespace == *namespace && pod.name == *name);
                found.then_some(()).ok_or_else(|| RequestError::UnknownPod(format!("{namespace}/{name}")))
            }
        };
        match request {
            Request::AddObjects { manifest, answer } => {
                let result = match manifest.text.as_str() {
                    "bad" => Err(RequestError::Invalid("line 1: this is no object".into())),
                    "taken" => Err(RequestError::Conflict(
                        "pod default/web comes from the file web.yaml; change that file".into(),
                    )),
                    "volume" => Ok(Added::default()),
                    _ => {
                        let pod = AddedPod { uid: PodUid::new("u1").unwrap(), full_name: "default/web".into() };
                        Ok(Added { pods: vec![pod], warnings: Vec::new() })
                    }
                };
                world.manifests.push(manifest.text);
                let _ = answer.send(result);
            }
            Request::RemovePod { pod, answer } => drop(answer.send(known(&pod, &world))),
            Request::WaitMounted { ref pod, timeout, .. } | Request::WaitUnmounted { ref pod, timeout, .. } => {
                world.timeouts.push(timeout);
                let result = match (known(pod, &world), world.wait.clone()) {
                    (Err(error), _) => Err(error),
                    (Ok(()), Some(result)) => Ok(result),
                    (Ok(()), None) => return held.push(request),
                };
                match request {
                    Request::WaitMounted { answer, .. } | Request::WaitUnmounted { answer, .. } => {
                        drop(answer.send(result))
                    }
                    _ => {}
                }
            }
            Request::Snapshot(answer) => {
                world.snapshots += 1;
                drop(answer.send(world.snapshot.clone()));
            }
            Request::Operations(answer) => drop(answer.send(world.operations.clone())),
            Request::Plugins(answer) => drop(answer.send(world.plugins.clone())),
            Request::Drivers(answer) => drop(answer.send(world.drivers.clone())),
            Request::Status(answer) => drop(answer.send(world.status.clone())),
            Request::Counts(answer) => drop(answer.send(world.counts.clone())),
            Request::Events { after, answer } => {
                let _ = answer.send(world.events.iter().filter(|event| event.sequence > after).cloned().collect());
            }
            Request::Mounts { pod, answer } => drop(answer.send(known(&pod, &world).map(|()| world.mounts.clone()))),
            Request::MountedVolumes { pod, possibly, answer } => {
                let volume = |name: &str| MountedVolume {
                    outer_name: name.into(),
                    unique_name: format!("a.b/c/{name}"),
                    spec_name: name.into(),
                    path: format!("/r/{name}"),
                    read_only: false,
                    container_mounts: Vec::new(),
                    container_devices: Vec::new(),
                };
                let volumes = if possibly { vec![volume("data"), volume("doubtful")] } else { vec![volume("data")] };
                let _ = answer.send(known(&pod, &world).map(|()| volumes));
            }
            Request::ExtraSupplementalGroups { pod, answer } => {
                drop(answer.send(known(&pod, &world).map(|()| vec![7, 5])))
            }
            Request::VolumesInUse(answer) => {
                world.in_use_lists += 1;
                drop(answer.send(world.in_use.clone()));
            }
            Request::MarkReportedInUse { volumes, answer } => {
                world.reported = volumes;
                let _ = answer.send(Ok(()));
            }
            Request::SetNodeAttachments { attachments, answer } => {
                let refused = attachments.is_empty().then(|| RequestError::Precondition("the host attaches".into()));
                world.attached = attachments;
                let _ = answer.send(refused.map_or(Ok(()), Err));
            }
            Request::VolumeIsAttached { volume, answer } => drop(answer.send(volume == "a.b/c/v")),
            Request::StatesSynced(answer) => drop(answer.send(true)),
            Request::Drain { timeout, answer } => {
                world.timeouts.push(timeout);
                match world.drain.clone() {
                    Some(left) => drop(answer.send(left)),
                    None => held.push(Request::Drain { timeout, answer }),
                }
            }
            Request::ForceUnmount { target, answer, .. } => {
                let there = match target {
                    ForceTarget::OfPod(pod, _) => known(&pod, &world),
                    ForceTarget::OfNode(_) => Ok(()),
                };
                drop(answer.send(there.map(|()| Forced { server_ended: true })));
            }
            _ => {}
        }
    }
}

/// A moment 90 s ago, so that ages are the same throughout a test.
pub(crate) fn a_while_ago() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    u64::try_from(now).unwrap() - 90_500_000
}

pub(crate) fn volume(pod: &str, name: &str, state: VolumeState) -> VolumeView {
    let since = a_while_ago();
    VolumeView {
        name: name.into(),
        spec_name: name.into(),
        unique_name: format!("kubernetes.io/empty-dir/u-{name}"),
        plugin: "kubernetes.io/empty-dir".into(),
        pod: pod.into(),
        pod_uid: "u".into(),
        state,
        path: format!("pods/u/volumes/kubernetes.io~empty-dir/{name}"),
        claim: String::new(),
        read_only: false,
        since,
        ready_at: (state == VolumeState::Mounted).then_some(since + 840),
        failure: None,
        retry_at: None,
        failures: 0,
        usage: None,
        attached_by: String::new(),
        attached_as: String::new(),
        attached_elsewhere: String::new(),
        selinux_label: String::new(),
        container_mounts: Vec::new(),
        made_of: Vec::new(),
        pending_edit: String::new(),
        size: None,
        refused_size: None,
    }
}

pub(crate) fn pod(namespace: &str, name: &str, states: &[VolumeState]) -> PodView {
    let since = a_while_ago();
    let full = format!("{namespace}/{name}");
    let volumes: Vec<_> =
        states.iter().enumerate().map(|(at, state)| volume(&full, &format!("v{at}"), *state)).collect();
    let ready = states.iter().filter(|state| **state == VolumeState::Mounted).count();
    let done = ready == states.len();
    PodView {
        uid: format!("uid-{name}"),
        namespace: namespace.into(),
        name: name.into(),
        phase: if done { PodPhase::Mounted } else { PodPhase::Mounting },
        ready: u32::try_from(ready).unwrap(),
        total: u32::try_from(states.len()).unwrap(),
        since,
        ready_at: done.then_some(since + 1_840),
        volumes,
        errors: vec![],
        labels: Default::default(),
    }
}

pub(crate) fn plugin() -> PluginView {
    PluginView {
        name: "kubernetes.io/empty-dir".into(),
        version: "0.1.0".into(),
        state: "Ready".into(),
        file: "empty-dir.wasm".into(),
        digest: "0123456789abcdef".into(),
        abi: "0.1.0".into(),
        sources: vec!["emptyDir".into()],
        exports: vec!["plugin".into(), "publisher".into()],
        imports: vec!["mounts".into(), "tmpfs".into()],
        volumes: 2,
        error: String::new(),
        waits_for: vec![],
        pending_digest: String::new(),
    }
}

pub(crate) fn event(sequence: u64, object: &str, message: &str) -> EventView {
    EventView {
        sequence,
        at: a_while_ago(),
        kind: EventKind::Warning,
        reason: "FailedMount".into(),
        object: object.into(),
        message: message.into(),
        count: 3,
    }
}

/// Two pods, one ready and one not.
pub(crate) fn two_pods() -> World {
    World {
        snapshot: Snapshot {
            pods: vec![
                pod("default", "web", &[VolumeState::Mounted, VolumeState::Mounted]),
                pod("shop", "database-0", &[VolumeState::Mounted, VolumeState::Pending]),
            ],
            ..Snapshot::default()
        },
        plugins: vec![plugin()],
        in_use: vec!["a.b/c/v".into()],
        ..World::default()
    }
}
