//! What volhost would mount and unmount, in which order, if something happened now.
//!
//! A copy of the state machine handles the events. Each operation that it starts is answered
//! as a success at once, and nothing is executed. What then is not as it is wanted waits for
//! something else.
//!
//! # Assumptions
//! - Every operation succeeds, those that run now included, except one that has passed its deadline.
//! - Time stands still: an operation that waits for its next try goes on waiting.
//! - Nothing comes from outside: no controller attaches, no volume is made for a claim.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use volhost_core::{
    Core, CoreCommand, Event, Operation, OperationId, OperationKind, OperationName, OperationReport, Time,
};
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::view::{OperationView, PodPhase, PodView, VolumeState, VolumeView};

/// The most operations of a plan: those of a drain of 40,000 mounts fit, with their devices.
const MAX_OPERATIONS: usize = 200_000;

/// What would happen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The operations, in the order in which they would begin.
    pub operations: Vec<PlannedOperation>,
    /// The pods that it concerns, as they would be afterwards, by namespace and name.
    pub pods: Vec<PlannedPod>,
    /// The volumes that would not be as they are wanted afterwards.
    pub waiting: Vec<WaitingVolume>,
    /// How many operations run now and are assumed to succeed.
    pub running: usize,
    /// There are more operations than a plan has.
    pub is_cut: bool,
}

/// An operation that would begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedOperation {
    /// From 1: operations of one round run side by side, each after what it needs of the rounds
    /// before.
    pub round: u32,
    /// Its name.
    pub name: OperationName,
    /// It refreshes what is mounted.
    pub is_again: bool,
    /// The volume.
    pub volume: UniqueVolumeName,
    /// The name in the pod's folder.
    pub spec_name: String,
    /// The pod, `namespace/name`, or its uid; empty for an operation on the volume alone.
    pub pod: String,
    /// The plugin.
    pub plugin: PluginName,
}

/// A pod afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPod {
    /// `namespace/name`, or its uid.
    pub name: String,
    /// Its phase; none if nothing of it is left.
    pub phase: Option<PodPhase>,
    /// Its volumes that would be ready.
    pub ready: u32,
    /// Its volumes.
    pub total: u32,
}

/// A volume that would not be as it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingVolume {
    /// The pod, `namespace/name`, or its uid; empty for a volume that no pod uses.
    pub pod: String,
    /// Its name in the pod, or in the pod's folder, or its unique name.
    pub volume: String,
    /// Its state.
    pub state: VolumeState,
    /// What it waits for.
    pub reason: String,
    /// When its next try is due.
    pub retry_at: Option<Time>,
}

/// Returns what would happen after these events, if they happened now. `machine` is a copy of the
/// state machine.
pub fn plan(machine: Core, now: Time, events: Vec<Event>) -> Plan {
    let mut planner = Planner { machine, now, plan: Plan::default(), pods: BTreeSet::new(), started: Vec::new() };
    planner.settle_running();
    planner.pods.extend(events.iter().filter_map(pod_of));
    if events.contains(&Event::Drain) {
        planner.pods.extend(planner.machine.pods().into_iter().filter_map(|pod| PodUid::new(pod.uid).ok()));
    }
    // A pod that is gone afterwards has no name any more.
    let before = planner.machine.pods();
    for event in events {
        planner.step(event);
    }
    planner.follow();
    planner.finish(&before)
}

/// A plan that is being made.
#[derive(Debug)]
struct Planner {
    machine: Core,
    now: Time,
    plan: Plan,
    /// The pods that it concerns.
    pods: BTreeSet<PodUid>,
    /// What has begun and was not answered.
    started: Vec<Operation>,
}

impl Planner {
    /// Lets what runs now succeed, and what that leads to: no part of the plan.
    fn settle_running(&mut self) {
        let running = |view: &OperationView| view.running && !view.overdue;
        let mut ids: Vec<OperationId> =
            self.machine.operations().iter().filter(|view| running(view)).map(|view| view.id).collect();
        self.plan.running = ids.len();
        let mut answered = 0;
        while !ids.is_empty() && answered < MAX_OPERATIONS {
            for id in std::mem::take(&mut ids) {
                self.step(succeeded(id));
                answered += 1;
            }
            ids.extend(self.started.drain(..).map(|operation| operation.id));
        }
    }

    fn step(&mut self, event: Event) {
        for command in self.machine.step(self.now, event) {
            if let CoreCommand::Start(operation) = command {
                self.started.push(operation);
            }
        }
    }

    /// Lets each operation succeed, round by round.
    fn follow(&mut self) {
        let mut round: u32 = 0;
        while !self.started.is_empty() {
            round = round.saturating_add(1);
            for operation in std::mem::take(&mut self.started) {
                if self.plan.operations.len() >= MAX_OPERATIONS {
                    self.plan.is_cut = true;
                    return;
                }
                let id = operation.id;
                self.add(round, operation);
                self.step(succeeded(id));
            }
        }
    }

    fn add(&mut self, round: u32, operation: Operation) {
        self.pods.extend(operation.pod_uid.clone());
        let known = operation.pod.as_ref().map(|pod| pod.full_name());
        self.plan.operations.push(PlannedOperation {
            round,
            name: operation.kind.name(),
            is_again: matches!(operation.kind, OperationKind::Mount { remount: true, .. }),
            pod: known.or_else(|| operation.pod_uid.as_ref().map(ToString::to_string)).unwrap_or_default(),
            volume: operation.volume,
            spec_name: operation.spec_name.to_string(),
            plugin: operation.plugin,
        });
    }

    fn finish(mut self, before: &[PodView]) -> Plan {
        let mut pods: Vec<(String, Option<PodView>)> = Vec::new();
        for uid in &self.pods {
            let after = self.machine.pod(uid);
            let earlier = before.iter().find(|pod| pod.uid == uid.as_str());
            // Neither before nor afterwards is there anything of it.
            if let Some(name) = after.as_ref().or(earlier).map(name_of) {
                pods.push((name, after));
            }
        }
        pods.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, pod) in pods {
            let waits = pod.iter().flat_map(|pod| &pod.volumes).filter(|volume| volume.state != VolumeState::Mounted);
            self.plan.waiting.extend(waits.map(|volume| waiting(&name, volume, pod.as_ref())));
            self.plan.pods.push(PlannedPod {
                phase: pod.as_ref().map(|pod| pod.phase),
                ready: pod.as_ref().map_or(0, |pod| pod.ready),
                total: pod.as_ref().map_or(0, |pod| pod.total),
                name,
            });
        }
        if self.machine.is_draining() {
            self.plan.waiting.extend(self.machine.unused_volumes().iter().map(|volume| waiting("", volume, None)));
        }
        self.plan
    }
}

fn succeeded(id: OperationId) -> Event {
    Event::OperationDone { id, report: OperationReport::done() }
}

/// The pod that an event is about.
fn pod_of(event: &Event) -> Option<PodUid> {
    match event {
        Event::PodDesired(desired) => Some(desired.pod.uid.clone()),
        Event::PodGone { uid } | Event::SourceChanged { uid } => Some(uid.clone()),
        _ => None,
    }
}

fn name_of(pod: &PodView) -> String {
    if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) }
}

fn waiting(pod: &str, volume: &VolumeView, of: Option<&PodView>) -> WaitingVolume {
    let names = [&volume.name, &volume.spec_name, &volume.unique_name];
    let reason = match (&volume.failure, volume.retry_at) {
        (Some(failure), Some(_)) => format!("it waits for its next try: {failure}"),
        (Some(failure), None) => failure.message.clone(),
        (None, _) if matches!(volume.state, VolumeState::Mounting | VolumeState::Unmounting) => {
            "an operation on it has passed its deadline".to_owned()
        }
        (None, _) => of.and_then(|pod| pod.errors.first().cloned()).unwrap_or_default(),
    };
    WaitingVolume {
        pod: pod.to_owned(),
        volume: names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default(),
        state: volume.state,
        reason,
        retry_at: volume.retry_at,
    }
}
