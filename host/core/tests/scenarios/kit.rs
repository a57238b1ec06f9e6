//! A small world for scenarios: one machine, its clock, and the operations it has started.

use std::sync::Arc;

use volhost_core::{
    Config, Core, CoreCommand, DesiredPod, DesiredVolume, Event, Notice, Operation, OperationKind, OperationReport,
    RecoveredVolume, Time, UnresolvedVolume, WaitFailure, WaiterId,
};
use volhost_model::names::{OuterName, PluginName, PodUid, SpecName, UniqueVolumeName};
use volhost_model::spec::PersistentVolume;
use volhost_model::view::{VolumeState, VolumeView};
use volhost_model::{Failure, FailureClass, Pod, VolumeSpec};

pub const MS: Time = 1_000;
/// The wait after a first failure, spread by a quarter.
pub const FIRST_WAIT: std::ops::RangeInclusive<Time> = 500 * MS..=625 * MS;

pub struct World {
    pub core: Core,
    pub now: Time,
    pub running: Vec<Operation>,
    pub notices: Vec<Notice>,
    pub answers: Vec<(WaiterId, Result<(), WaitFailure>)>,
    pub armed: Option<Time>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Config::default().with_host_attaches(true))
    }

    pub fn with(config: Config) -> Self {
        Self {
            core: Core::new(config),
            now: 1_000_000 * MS,
            running: vec![],
            notices: vec![],
            answers: vec![],
            armed: None,
        }
    }

    /// Feeds an event; answers what was started, as `kind volume pod`.
    pub fn step(&mut self, event: Event) -> Vec<String> {
        let mut started = vec![];
        for command in self.core.step(self.now, event) {
            match command {
                CoreCommand::Start(operation) => {
                    started.push(shown(&operation));
                    self.running.push(operation);
                }
                CoreCommand::ArmTimer(at) => self.armed = Some(at),
                CoreCommand::Publish(notice) => self.notices.push(notice),
                CoreCommand::Answer { waiter, result } => self.answers.push((waiter, result)),
            }
        }
        started
    }

    /// Ends the running operation that is shown so.
    pub fn end(&mut self, which: &str, report: OperationReport) -> Vec<String> {
        let at = self.running.iter().position(|operation| shown(operation) == which);
        let at = at.unwrap_or_else(|| {
            panic!("{which} does not run, but {:?}", self.running.iter().map(shown).collect::<Vec<_>>())
        });
        let id = self.running.remove(at).id;
        self.step(Event::OperationDone { id, report })
    }

    pub fn done(&mut self, which: &str) -> Vec<String> {
        self.end(which, OperationReport::done())
    }

    pub fn fails(&mut self, which: &str, class: FailureClass) -> Vec<String> {
        self.end(which, OperationReport::failed(Failure::new(class, "MountVolume.SetUp", "disk on fire")))
    }

    /// Lets every running operation succeed until none runs.
    pub fn settle(&mut self) {
        while !self.running.is_empty() {
            let id = self.running.remove(0).id;
            self.step(Event::OperationDone { id, report: OperationReport::done() });
        }
    }

    /// Goes on to the armed timer.
    pub fn tick(&mut self) -> Vec<String> {
        self.now = self.armed.take().expect("no timer is armed");
        self.step(Event::Timer)
    }

    pub fn desire(&mut self, pod: &str, volumes: Vec<DesiredVolume>) -> Vec<String> {
        self.desire_with(pod, volumes, vec![])
    }

    pub fn desire_with(&mut self, name: &str, volumes: Vec<DesiredVolume>, missing: Vec<&str>) -> Vec<String> {
        let unresolved = missing.iter().map(|name| UnresolvedVolume::new(outer(name), "claim is not bound"));
        let unresolved: Vec<_> = unresolved.collect();
        let used = volumes
            .iter()
            .map(|v| v.outer_name.clone())
            .chain(unresolved.iter().map(|v| v.outer_name.clone()))
            .collect();
        self.step(Event::PodDesired(DesiredPod { pod: pod(name, used), volumes, unresolved }))
    }

    pub fn gone(&mut self, pod: &str) -> Vec<String> {
        self.step(Event::PodGone { uid: uid(pod) })
    }

    pub fn recovered(&mut self, pod: &str, volume: &DesiredVolume, intact: bool) -> Vec<String> {
        self.step(Event::Recovered(RecoveredVolume {
            pod: uid(pod),
            known_pod: None,
            plugin: volume.plugin.clone(),
            spec_name: volume.spec.name.clone(),
            unique_name: volume.unique_name.clone(),
            spec: Some(Arc::clone(&volume.spec)),
            intact,
            at_folder: false,
            attachable: volume.attachable,
            stageable: volume.stageable,
            container_mounts: Arc::clone(&volume.container_mounts),
            needs: Arc::clone(&volume.needs),
        }))
    }

    pub fn view(&self, pod: &str, name: &str) -> VolumeView {
        let view = self.core.pod(&uid(pod)).unwrap();
        view.volumes.into_iter().find(|volume| volume.name == name || volume.spec_name == name).unwrap()
    }

    pub fn state(&self, pod: &str, name: &str) -> VolumeState {
        self.view(pod, name).state
    }

    pub fn reasons(&self) -> Vec<&'static str> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }
}

pub fn shown(operation: &Operation) -> String {
    let refresh = if matches!(operation.kind, OperationKind::Mount { remount: true, .. }) { "re" } else { "" };
    let pod = operation.pod_uid.as_ref().map(|pod| format!(" {pod}")).unwrap_or_default();
    format!("{refresh}{} {}{pod}", operation.kind.name().as_str(), operation.spec_name)
}

pub fn uid(name: &str) -> PodUid {
    PodUid::new(name).unwrap()
}

pub fn outer(name: &str) -> OuterName {
    OuterName::new(name).unwrap()
}

pub fn plugin() -> PluginName {
    PluginName::new("test.example/p").unwrap()
}

pub fn pod(name: &str, used_volumes: Vec<OuterName>) -> Arc<Pod> {
    Arc::new(Pod {
        uid: uid(name),
        namespace: "ns".into(),
        name: name.into(),
        service_account: String::new(),
        image_pull_secrets: Vec::new(),
        labels: Default::default(),
        annotations: Default::default(),
        fs_group: None,
        fs_group_change_policy: Default::default(),
        fs_user: None,
        supplemental_groups: vec![7],
        memory_limit: None,
        ephemeral_storage_limit: None,
        used_volumes,
        containers: Vec::new(),
        resources: Default::default(),
        nested_mounts: [].into(),
    })
}

fn spec(name: &str, persistent: bool) -> VolumeSpec {
    VolumeSpec {
        selinux_label: None,
        name: SpecName::new(name).unwrap(),
        source: "test".into(),
        fields: Default::default(),
        read_only: false,
        persistent_volume: persistent.then(|| {
            Box::new(PersistentVolume {
                name: name.into(),
                claim: format!("ns/{name}"),
                capacity: Some(10),
                claim_capacity: None,
                access_modes: vec!["ReadWriteMany".into()],
                mount_options: vec![],
                volume_mode: Default::default(),
                node_affinity: None,
                annotations: Default::default(),
                gid: None,
            })
        }),
    }
}

/// A volume of one pod that is neither attached nor staged.
pub fn plain(pod: &str, name: &str) -> DesiredVolume {
    let spec = spec(name, false);
    DesiredVolume {
        outer_name: outer(name),
        unique_name: UniqueVolumeName::of_pod(&plugin(), &uid(pod), &spec.name),
        plugin: plugin(),
        spec: Arc::new(spec),
        attachable: false,
        stageable: false,
        follows_source: false,
        expandable: false,
        attach_limit: None,
        attach_limit_of: None,
        refreshed: false,
        container_mounts: Arc::default(),
        needs: Arc::default(),
        blocked: None,
        is_pending: false,
        declared: None,
    }
}

/// A volume that pods share, attached and staged.
pub fn shared(name: &str) -> DesiredVolume {
    DesiredVolume {
        outer_name: outer(name),
        unique_name: UniqueVolumeName::shared(&plugin(), name).unwrap(),
        plugin: plugin(),
        spec: Arc::new(spec(name, true)),
        attachable: true,
        stageable: true,
        follows_source: false,
        expandable: true,
        attach_limit: None,
        attach_limit_of: None,
        refreshed: false,
        container_mounts: Arc::default(),
        needs: Arc::default(),
        blocked: None,
        is_pending: false,
        declared: None,
    }
}

/// Staged, but not attached.
pub fn staged(name: &str) -> DesiredVolume {
    DesiredVolume { attachable: false, ..shared(name) }
}

/// The same with a spec changed so.
pub fn changed(volume: &DesiredVolume, change: impl FnOnce(&mut VolumeSpec)) -> DesiredVolume {
    let mut spec = VolumeSpec::clone(&volume.spec);
    change(&mut spec);
    DesiredVolume { spec: Arc::new(spec), ..volume.clone() }
}

/// A volume that pods share as a device, attached.
pub fn raw(name: &str) -> DesiredVolume {
    changed(&shared(name), |spec| {
        spec.persistent_volume.as_mut().unwrap().volume_mode = volhost_model::spec::VolumeMode::Block;
    })
}

/// The same, of another size.
pub fn sized(volume: &DesiredVolume, capacity: u64) -> DesiredVolume {
    changed(volume, |spec| spec.persistent_volume.as_mut().unwrap().capacity = Some(capacity))
}
