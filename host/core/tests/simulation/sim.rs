//! The driver: hands the machine what happens, and carries out what it answers.

use std::collections::{BTreeSet, VecDeque};

use volhost_core::{
    Config, CoreCommand, DesiredPod, DesiredVolume, Event, Operation, OperationKind, Time, UnresolvedVolume,
};
use volhost_core_mutants::Mutation;

use crate::action::Timed;
use crate::brief;
use crate::kinds::{Catalog, Demand, KINDS, PODS, PodId, PodReport, VOLUMES, VolumeId};
use crate::life::{Ended, Life, Running};
use crate::random::Random;
use crate::rules::{Broken, Check, Rule, broken};
use crate::speech::Said;
use crate::world::World;

pub const SECOND: Time = 1_000_000;
const TRACE_LINES: usize = 400;
/// In one run of so many the original is stepped beside its copy: over a thousand runs in all.
const SEEDS_A_COMPARISON: u64 = 16;
/// All volumes are looked at again after this many steps, the others only when an event concerns
/// them.
const STEPS_TO_LOOK: u64 = 64;

/// The settings of a run; with the actions they determine it.
#[derive(Clone, Copy)]
pub struct Settings {
    pub host_attaches: bool,
    pub mutation: Option<Mutation>,
    /// Step the original beside its copy.
    pub compared: bool,
    /// Keep a trace.
    pub traced: bool,
}

/// One run.
pub struct Sim<'a> {
    pub catalog: &'a Catalog,
    pub settings: Settings,
    pub config: Config,
    pub now: Time,
    pub world: World,
    /// The sources' current reports.
    pub live: [Option<PodReport>; PODS],
    /// How often each pod's source has changed.
    pub versions: [u32; PODS],
    pub quarantined: [bool; crate::kinds::PLUGINS],
    /// The volumes the node's status says are in use; it outlives the host.
    pub status: [bool; VOLUMES],
    pub next_waiter: u64,
    pub steps: u64,
    /// The situations that occurred: operations with their ends, and others that a run should meet.
    pub met: BTreeSet<(&'static str, &'static str)>,
    pub life: Life,
    trace: VecDeque<String>,
}

/// The subject and the result of one step.
#[derive(Default)]
pub struct Turn {
    pub ended: Option<Ended>,
    pub plugin_changed: Option<usize>,
    /// The pod whose source has changed: what follows it need not wait any more.
    pub source_changed: Option<PodId>,
    /// A mount that another process unmounted.
    pub vanished: Option<(VolumeId, PodId)>,
    /// The mount whose disappearance is reported to users.
    pub tells_vanished: Option<(VolumeId, PodId)>,
    /// The volume whose staging mount another process unmounted.
    pub device_vanished: Option<VolumeId>,
    /// The volume whose vanished staging mount is reported to users.
    pub tells_device_vanished: Option<VolumeId>,
    /// The volume that is reported to users as not attached.
    pub tells_not_attached: Option<VolumeId>,
    /// An overdue operation's pod and volume.
    pub overdue: Option<(VolumeId, Option<PodId>)>,
    /// The unresolved volumes, and why, before their source reported again.
    pub new_reasons: u32,
    pub started: Vec<(VolumeId, Option<PodId>, &'static str)>,
    pub said: Said,
    pub armed: Option<Time>,
    /// Volumes and pods that may have changed, as bits.
    pub volumes: u32,
    pub pods: u8,
}

pub const ALL_VOLUMES: u32 = (1 << VOLUMES) - 1;
pub const ALL_PODS: u8 = (1 << PODS) - 1;

impl<'a> Sim<'a> {
    pub fn new(catalog: &'a Catalog, settings: Settings) -> Self {
        let config = Config { host_attaches: settings.host_attaches };
        Self {
            catalog,
            settings,
            config,
            now: 1_700_000_000 * SECOND,
            world: World::new(),
            live: [None; PODS],
            versions: [0; PODS],
            quarantined: [false; crate::kinds::PLUGINS],
            status: [false; VOLUMES],
            next_waiter: 1,
            steps: 0,
            met: BTreeSet::new(),
            life: Life::new(config, &settings),
            trace: VecDeque::new(),
        }
    }

    /// Lets all of it happen, then lets it come to rest.
    pub fn run(&mut self, actions: &[Timed]) -> Result<(), Broken> {
        actions.iter().try_for_each(|timed| self.act(timed))?;
        self.converge()
    }

    /// The trace of the run, if one was kept.
    pub fn trace(&self) -> String {
        self.trace.iter().map(|line| format!("{line}\n")).collect()
    }

    pub fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if !self.settings.traced {
            return;
        }
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        let at = self.now % (100_000 * SECOND);
        let line = format!("{:>12.3} {}", at as f64 / 1e6, line(self));
        self.trace.push_back(line);
    }

    /// Lets one thing happen.
    pub fn act(&mut self, timed: &Timed) -> Check {
        self.now += Time::from(timed.after);
        self.happen(timed.action)
    }

    /// The source's current report on the pod, as the machine gets it.
    pub fn desired_pod(&self, pod: PodId, pod_report: &PodReport) -> DesiredPod {
        let mut volumes = Vec::new();
        let mut unresolved = Vec::new();
        let mut used = Vec::new();
        for (kind_id, kind) in KINDS.iter().enumerate() {
            let outer_name = self.catalog.outer(kind_id).clone();
            match pod_report.demands[kind_id] {
                Demand::Nothing => continue,
                Demand::Unresolved(reason) => {
                    let reason = if reason == 0 { "claim not bound" } else { "claim not found" };
                    unresolved.push(UnresolvedVolume::new(outer_name.clone(), reason));
                }
                Demand::Wanted { handle, variant, size } => {
                    let volume = self.catalog.volume_of(pod, kind_id, handle);
                    volumes.push(DesiredVolume {
                        outer_name: outer_name.clone(),
                        unique_name: self.catalog.volumes[volume].name.clone(),
                        plugin: self.catalog.plugin_of(volume).clone(),
                        spec: self.catalog.spec(kind_id, handle, variant, size).clone(),
                        attachable: kind.attachable,
                        stageable: kind.stageable,
                        follows_source: kind.follows_source,
                        expandable: kind.expandable,
                        attach_limit: kind.attach_limit,
                        attach_limit_of: None,
                        refreshed: false,
                        container_mounts: self.catalog.parts(if kind.parts { size } else { 0 }).clone(),
                        needs: self.catalog.needs(volume).clone(),
                        blocked: None,
                        is_pending: false,
                        declared: None,
                    });
                }
            }
            used.push(outer_name);
        }
        DesiredPod { pod: self.catalog.pod(pod, pod_report.label, used), volumes, unresolved }
    }

    /// The volumes that an event about the pod may concern, as bits.
    pub fn volumes_of(&self, pod: PodId) -> u32 {
        let mut bits = 0;
        for volume in 0..VOLUMES {
            let concerned =
                self.life.said(self.catalog, pod, volume).is_some() || self.life.known[volume].mounts[pod].is_some();
            let concerned = concerned || self.life.led_to[pod].contains(&Some(volume));
            bits |= u32::from(concerned) << volume;
        }
        bits
    }

    /// Sends the machine one event, checks its commands one by one, then its state.
    pub fn step(&mut self, event: Event, mut turn: Turn) -> Check {
        self.steps += 1;
        self.note(|sim| brief::event(sim, &event));
        if event == Event::Timer {
            self.life.armed = None;
        }
        self.life.now = self.life.now.max(self.now);
        self.mark_due_changed(&mut turn);
        for command in self.life.core.step(self.now, event) {
            match command {
                CoreCommand::Start(operation) => self.started(operation, &mut turn)?,
                CoreCommand::ArmTimer(at) => {
                    self.note(|_| format!("      arm the timer for {:.3}", (at % (100_000 * SECOND)) as f64 / 1e6));
                    if self.life.armed.is_some_and(|armed| armed <= at) {
                        return broken(Rule::Timer, format!("it was armed again for {at}, which is not earlier"));
                    }
                    self.life.armed = Some(at);
                    turn.armed = Some(at);
                }
                CoreCommand::Answer { waiter, result } => self.answered(waiter, &result)?,
                CoreCommand::Publish(notice) => self.published(notice, &mut turn)?,
            }
        }
        if self.steps.is_multiple_of(STEPS_TO_LOOK) {
            (turn.volumes, turn.pods) = (ALL_VOLUMES, ALL_PODS);
        }
        self.check_after(&turn)
    }

    /// A due retry may be started by any event.
    fn mark_due_changed(&self, turn: &mut Turn) {
        for (volume, known) in self.life.known.iter().enumerate() {
            let due = known.failures.iter().flatten().any(|failed| failed.retry_at <= self.life.now);
            turn.volumes |= u32::from(due) << volume;
        }
    }

    fn started(&mut self, operation: Operation, turn: &mut Turn) -> Check {
        let volume = self.catalog.volume_id(&operation.volume);
        let pod = operation.pod_uid.as_ref().map(Catalog::pod_id);
        self.note(|_| {
            let pod = operation.pod_uid.as_ref().map(|uid| format!(" of {uid}")).unwrap_or_default();
            format!("      start {}: {:?} {}{pod}", operation.id, operation.kind, operation.volume)
        });
        let kind = self.catalog.volumes[volume].kind;
        let alone = match operation.kind {
            OperationKind::Mount { .. } | OperationKind::Map { .. } => kind.attachable || kind.stageable,
            OperationKind::Unmount | OperationKind::Unmap => false,
            _ => true,
        };
        let starting = Running {
            volume,
            pod,
            key_pod: pod.filter(|_| !alone),
            version: pod.map_or(0, |pod| self.versions[pod]),
            hung: false,
            vanished: false,
            device_vanished: false,
            operation,
        };
        self.check_start(&starting, turn)?;
        self.life.last_id = starting.operation.id;
        turn.started.push((volume, pod, starting.operation.kind.name().as_str()));
        turn.volumes |= 1 << volume;
        self.life.running.push(starting);
        Ok(())
    }
}

/// The actions of a seed, and the settings of its run.
pub fn script(seed: u64, length: usize, mutation: Option<Mutation>) -> (Settings, Vec<Timed>) {
    let mut random = Random::new(seed);
    let host_attaches = random.chance(50);
    let lies = random.chance(25);
    let actions = (0..length).map(|_| Timed::any(&mut random, lies)).collect();
    let compared = seed.is_multiple_of(SEEDS_A_COMPARISON);
    (Settings { host_attaches, mutation, compared, traced: false }, actions)
}
