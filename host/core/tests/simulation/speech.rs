//! The machine's output: answers to waiting callers, and notices to users.

use volhost_core::{Notice, WaitFailure};
use volhost_model::view::EventKind;

use crate::kinds::{Catalog, Demand, KINDS, PODS, PodId, VOLUMES, VolumeId, parts_of};
use crate::rules::{Check, Rule, broken, ensure};
use crate::sim::{Sim, Turn};
use crate::world::CAUSE;

/// A warning: its reason, its pod and its volume.
type Warning = (&'static str, Option<PodId>, Option<VolumeId>);

/// The warnings of one step, by what they are about.
#[derive(Default)]
pub struct Said {
    failures: Vec<Warning>,
    overdue: Vec<Warning>,
    hindrances: Vec<(VolumeId, PodId, String)>,
    vanished: Vec<Warning>,
    not_attached: Vec<Warning>,
    unresolved: u32,
    successes: u32,
}

fn reason_of(name: &str) -> &'static str {
    match name {
        "volume_attach" | "verify_controller_attached_volume" => "FailedAttachVolume",
        "volume_detach" => "FailedDetachVolume",
        "volume_mount" => "FailedMount",
        "map_volume" => "FailedMapVolume",
        "volume_unmount" | "unmap_volume" => "FailedUnmount",
        "unmount_device" | "unmap_device" => "FailedUnmountDevice",
        _ => "VolumeResizeFailed",
    }
}

impl Sim<'_> {
    pub fn published(&mut self, notice: Notice, turn: &mut Turn) -> Check {
        let pod = notice.pod_uid.as_ref().map(Catalog::pod_id);
        let volume = notice.volume.as_ref().map(|name| self.catalog.volume_id(name));
        if notice.reason == "VolumeEditPending" {
            self.met.insert(("edited", "while it was mounted"));
        } else if notice.kind == EventKind::Normal {
            turn.said.successes += 1;
        } else if notice.message.contains(CAUSE) {
            turn.said.failures.push((notice.reason, pod, volume));
        } else if notice.reason == "VolumeVanished" {
            turn.said.vanished.push((notice.reason, pod, volume));
        } else if notice.reason == "VolumeNotAttached" {
            turn.said.not_attached.push((notice.reason, pod, volume));
        } else if notice.reason == "VolumeOverdue" {
            turn.said.overdue.push((notice.reason, pod, volume));
        } else if notice.reason == "UnresolvedVolume" {
            turn.said.unresolved += 1;
        } else if let (Some(pod), Some(volume)) = (pod, volume) {
            turn.said.hindrances.push((volume, pod, notice.message));
        } else {
            return broken(Rule::Notices, format!("unexpected notice: {}", notice.message));
        }
        Ok(())
    }

    /// To the operation's pod; for an operation on the volume alone, to every pod that wants it, or
    /// to no pod.
    fn concerned(&self, volume: VolumeId, pod: Option<PodId>, reason: &'static str) -> Vec<Warning> {
        let mut pods: Vec<Option<PodId>> = match pod {
            Some(pod) => vec![Some(pod)],
            None => (0..PODS).filter(|pod| self.life.said(self.catalog, *pod, volume).is_some()).map(Some).collect(),
        };
        if pods.is_empty() {
            pods.push(None);
        }
        pods.into_iter().map(|pod| (reason, pod, Some(volume))).collect()
    }

    /// Every failure of the step was reported to all pods it concerns, once, and nothing else was.
    pub fn check_notices(&mut self, turn: &Turn) -> Check {
        let (said, failed) = (&turn.said, turn.ended.filter(|ended| ended.failed.is_some()));
        let expected = failed.map(|ended| self.concerned(ended.volume, ended.pod, reason_of(ended.name)));
        ensure(said.failures == expected.clone().unwrap_or_default(), Rule::Notices, || {
            format!("a failure is reported to {:?}, not {expected:?}", said.failures)
        })?;
        let expected = turn.overdue.map(|(volume, pod)| self.concerned(volume, pod, "VolumeOverdue"));
        ensure(said.overdue == expected.clone().unwrap_or_default(), Rule::Notices, || {
            format!("an overdue operation is reported to {:?}, not {expected:?}", said.overdue)
        })?;
        let of_pod = turn.tells_vanished.map(|(volume, pod)| self.concerned(volume, Some(pod), "VolumeVanished"));
        let of_node = turn.tells_device_vanished.map(|volume| self.concerned(volume, None, "VolumeVanished"));
        let expected: Vec<Warning> = of_pod.into_iter().chain(of_node).flatten().collect();
        ensure(said.vanished == expected, Rule::Notices, || {
            format!("a vanished mount is reported to {:?}, not {expected:?}", said.vanished)
        })?;
        let expected = turn.tells_not_attached.map(|volume| self.concerned(volume, None, "VolumeNotAttached"));
        ensure(said.not_attached == expected.clone().unwrap_or_default(), Rule::Notices, || {
            format!("a missing attachment is reported to {:?}, not {expected:?}", said.not_attached)
        })?;
        ensure(said.unresolved == turn.new_reasons, Rule::Notices, || {
            format!("{} volumes are said to be unresolved anew, not {}", said.unresolved, turn.new_reasons)
        })?;
        let succeeded = turn.ended.is_some_and(|ended| ended.failed.is_none());
        ensure(said.successes == 0 || succeeded, Rule::Notices, || "a success is reported that was none".to_owned())?;
        for (volume, pod, message) in &said.hindrances {
            let why = match message {
                message if message.contains("ReadWriteOncePod") => "another pod",
                message if message.contains("volumes attached to this node") => "a limit",
                _ => "folder or earlier run",
            };
            self.met.insert(("hindered by", why));
            ensure(self.is_hindered(*volume, *pod), Rule::Notices, || format!("nothing hinders, and yet: {message}"))?;
            let before = self.life.hindered[*volume][*pod].replace(message.clone());
            ensure(before.as_ref() != Some(message), Rule::Notices, || format!("reported again: {message}"))?;
        }
        Ok(())
    }

    pub fn answered(&mut self, waiter: u64, result: &Result<(), WaitFailure>) -> Check {
        self.note(|_| format!("      answer waiter {waiter}: {}", if result.is_ok() { "yes" } else { "no" }));
        let Some(at) = self.life.waiting.iter().position(|waiting| waiting.id == waiter) else {
            return broken(Rule::Answers, format!("waiter {waiter} does not wait, and is answered"));
        };
        let waiting = self.life.waiting.swap_remove(at);
        let desired = self.life.pod_reports[waiting.pod].is_some() && !self.life.draining;
        let ending = match result {
            Ok(()) => "yes",
            Err(failure) if failure.timed_out => "too late",
            Err(_) => "in vain",
        };
        self.met.insert((if waiting.mounted { "wait for mounts" } else { "wait for unmounts" }, ending));
        match result {
            Ok(()) if waiting.mounted => self.check_mounted(waiting.pod),
            Ok(()) => {
                let left = self.world.mounts.iter().any(|of_volume| {
                    let thing = &of_volume[waiting.pod];
                    !thing.lied && (thing.real.is_some() || thing.late.flatten().is_some())
                });
                ensure(!left, Rule::Answers, || format!("pod{} is said to be unmounted, and is not", waiting.pod))
            }
            Err(failure) if failure.timed_out => ensure(waiting.deadline <= self.life.now, Rule::Answers, || {
                format!("waiter {waiter} is answered before its deadline")
            }),
            Err(_) => ensure(waiting.mounted && !desired, Rule::Answers, || {
                format!("waiter {waiter} is answered that it waits in vain, and does not")
            }),
        }
    }

    /// An answer that the pod's volumes are mounted is true.
    fn check_mounted(&self, pod: PodId) -> Check {
        let Some(pod_report) = self.life.pod_reports[pod].filter(|_| !self.life.draining) else {
            return broken(Rule::Answers, format!("pod{pod} is said to be mounted, and no source wants it"));
        };
        for (kind, demand) in pod_report.demands.iter().enumerate() {
            let right = match *demand {
                Demand::Nothing => true,
                Demand::Unresolved(_) => (0..VOLUMES).any(|volume| {
                    let thing = &self.world.mounts[volume][pod];
                    self.catalog.volumes[volume].kind_id == kind
                        && (thing.real.is_some() || thing.lied || self.is_going(volume, pod))
                }),
                Demand::Wanted { handle, variant, .. } => {
                    let volume = self.catalog.volume_of(pod, kind, handle);
                    let thing = &self.world.mounts[volume][pod];
                    let leaving = self.life.running.iter().any(|running| {
                        running.volume == volume
                            && running.pod == Some(pod)
                            && running.operation.kind.name().as_str().contains("unm")
                    });
                    let as_wanted = thing.real.is_some_and(|real| {
                        KINDS[kind].follows_source || KINDS[kind].edited || real.variant == variant
                    });
                    !leaving && (as_wanted || thing.lied || self.is_going(volume, pod))
                }
            };
            self.check_parts(pod, kind)?;
            ensure(right, Rule::Answers, || {
                format!("pod{pod} is said to be mounted, and its {} is not as wanted", KINDS[kind].name)
            })?;
        }
        Ok(())
    }

    /// Every part of the volume is shown that the pod's containers name.
    pub fn check_parts(&self, pod: PodId, kind: usize) -> Check {
        let volume = self.catalog.volume_of(pod, kind, 0);
        let wanted = self.life.wants(self.catalog, pod, volume).filter(|_| KINDS[kind].parts);
        let Some((_, capacity)) = wanted else { return Ok(()) };
        let thing = &self.world.mounts[volume][pod];
        let parts = parts_of(&KINDS[kind], capacity);
        let shown = thing.lied || thing.real.is_none_or(|real| real.parts == parts);
        ensure(shown, Rule::AllParts, || format!("pod{pod} names {parts} parts of {}", KINDS[kind].name))
    }

    /// No waiter waits for what has happened, cannot happen any more, or is too late.
    pub fn check_waiters(&self, turn: &Turn) -> Check {
        let life = &self.life;
        for waiting in &life.waiting {
            ensure(waiting.deadline > life.now, Rule::Answers, || {
                format!("waiter {} is past its deadline, and was not answered", waiting.id)
            })?;
            if turn.pods & (1 << waiting.pod) == 0 {
                continue;
            }
            let over = if waiting.mounted {
                life.pod_reports[waiting.pod].is_none() || life.draining || life.is_ready(self.catalog, waiting.pod)
            } else {
                life.known.iter().all(|known| known.mounts[waiting.pod].is_none())
            };
            ensure(!over, Rule::Answers, || format!("waiter {} has nothing to wait for any more", waiting.id))?;
        }
        Ok(())
    }
}
