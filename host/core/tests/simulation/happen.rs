//! Executes one action: changes the world, and sends the machine the resulting event.

use volhost_core::{Event, OperationReport};
use volhost_model::FailureClass;

use crate::action::{Action, Choice, OperationEnd};
use crate::kinds::{Demand, KINDS, PODS, PodId, PodReport, VOLUMES, VolumeId};
use crate::life::{Ended, Running, Waiter};
use crate::rules::{Check, Rule, ensure};
use crate::sim::{ALL_PODS, ALL_VOLUMES, SECOND, Sim, Turn};

/// A turn that may concern everything.
pub fn everything() -> Turn {
    Turn { volumes: ALL_VOLUMES, pods: ALL_PODS, ..Turn::default() }
}

impl Sim<'_> {
    /// One of the running operations that are `fit`. Which one does not depend on those that are
    /// not chosen, so that a run stays the same when what does not matter to it is left out.
    fn choose(&self, pick: u16, fit: impl Fn(&Running) -> bool) -> Option<usize> {
        let lot = |running: &Running| {
            let place = running.volume * (PODS + 1) + running.pod.map_or(PODS, |pod| pod);
            (place as u64 + 1).wrapping_mul(u64::from(pick) * 2 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
        };
        let running = self.life.running.iter().enumerate().filter(|(_, running)| fit(running));
        running.min_by_key(|(_, running)| lot(running)).map(|(at, _)| at)
    }

    pub fn happen(&mut self, action: Action) -> Check {
        match action {
            Action::ReportPod { pod, choices, label } => {
                let pod_report = self.choices(pod, &choices, label);
                self.live[pod] = Some(pod_report);
                self.report_pod(pod, pod_report)
            }
            Action::Gone { pod } => self.gone(pod),
            Action::End { pick, fate, luck } => {
                self.choose(pick, |running| !running.hung).map_or(Ok(()), |at| self.end(at, fate, luck))
            }
            Action::Late { pick } => self.late(pick),
            Action::Overdue { pick } => self.overdue(pick),
            Action::Hang { pick } => {
                if let Some(at) = self.choose(pick, |_| true) {
                    self.life.running[at].hung = true;
                }
                Ok(())
            }
            Action::Release => {
                self.life.running.iter_mut().for_each(|running| running.hung = false);
                Ok(())
            }
            Action::Timer => self.timer(),
            Action::Pass { micros } => {
                self.now += u64::from(micros);
                Ok(())
            }
            Action::Jump { back, seconds } => self.jump(back, u64::from(seconds) * SECOND),
            Action::SourceChanged { pod } => {
                self.versions[pod] += 1;
                let mut turn = Turn { volumes: self.volumes_of(pod), pods: 1 << pod, ..Turn::default() };
                turn.source_changed = Some(pod);
                self.step(Event::SourceChanged { uid: self.catalog.uids[pod].clone() }, turn)
            }
            Action::Quarantine { plugin } => {
                self.quarantined[plugin] ^= true;
                if self.quarantined[plugin] {
                    return Ok(());
                }
                self.plugin_changed(plugin)
            }
            Action::PluginChanged { plugin } => self.plugin_changed(plugin),
            Action::Wait { pod, mounted, seconds } => self.wait(pod, mounted, u64::from(seconds) * SECOND),
            Action::Cancel { pick } => self.cancel(pick),
            Action::Status => self.write_status(),
            Action::Controller { pick } => {
                self.controller_acts(usize::from(pick) % VOLUMES);
                Ok(())
            }
            Action::Report => self.controller_reports(),
            Action::Elsewhere { pick } => {
                let volume = usize::from(pick) % VOLUMES;
                self.world.on_other_node[volume] ^= true;
                Ok(())
            }
            Action::Vanish { pick } => self.vanish(pick),
            Action::VanishDevice { pick } => self.vanish_device(pick),
            Action::NotAttached { pick, gone } => self.not_attached(pick, gone),
            Action::Source => self.source_goes_on(),
            Action::Crash { luck } => self.crash(luck),
            Action::Drain => {
                self.life.draining = true;
                self.step(Event::Drain, everything())
            }
            Action::DrainEnded => {
                self.life.draining = false;
                self.step(Event::DrainEnded, everything())
            }
            Action::Idle => self.idle(),
            Action::Echo { pick } => self.echo(pick),
            Action::Look => self.check_views(),
        }
    }

    fn choices(&self, pod: PodId, choices: &[Choice; KINDS.len()], label: u8) -> PodReport {
        let before = self.live[pod].unwrap_or(PodReport::EMPTY);
        let demands = std::array::from_fn(|kind| match choices[kind] {
            Choice::Keep => before.demands[kind],
            Choice::Drop => Demand::Nothing,
            Choice::Unresolve(reason) => Demand::Unresolved(reason),
            Choice::Take { handle, variant, size } => {
                let handles = KINDS[kind].handles;
                let handle = if usize::from(handle) < handles { handle } else { 0 };
                Demand::Wanted { handle, variant, size }
            }
        });
        PodReport { demands, label }.with_bases()
    }

    pub fn report_pod(&mut self, pod: PodId, pod_report: PodReport) -> Check {
        let before = self.life.pod_reports[pod];
        let was = |kind: usize| before.map_or(Demand::Nothing, |before| before.demands[kind]);
        let new = (0..KINDS.len()).filter(|kind| {
            matches!(pod_report.demands[*kind], Demand::Unresolved(_)) && pod_report.demands[*kind] != was(*kind)
        });
        let mut turn = Turn { new_reasons: u32::try_from(new.count()).unwrap(), pods: 1 << pod, ..Turn::default() };
        turn.volumes = self.volumes_of(pod);
        self.life.pod_reports[pod] = Some(pod_report);
        for kind in 0..KINDS.len() {
            self.life.led_to[pod][kind] = match pod_report.demands[kind] {
                Demand::Nothing => None,
                Demand::Unresolved(_) => self.life.led_to[pod][kind],
                Demand::Wanted { handle, .. } => Some(self.catalog.volume_of(pod, kind, handle)),
            };
        }
        turn.volumes |= self.volumes_of(pod);
        self.forget_turns(pod);
        self.step(Event::PodDesired(self.desired_pod(pod, &pod_report)), turn)
    }

    fn gone(&mut self, pod: PodId) -> Check {
        self.live[pod] = None;
        let turn = Turn { volumes: self.volumes_of(pod), pods: 1 << pod, ..Turn::default() };
        self.life.pod_reports[pod] = None;
        self.life.led_to[pod] = [None; KINDS.len()];
        self.forget_turns(pod);
        self.step(Event::PodGone { uid: self.catalog.uids[pod].clone() }, turn)
    }

    /// Who wants anew has not been served yet.
    fn forget_turns(&mut self, pod: PodId) {
        for overtaken in self.life.overtaken_by.iter_mut().flatten() {
            *overtaken &= !(1 << pod);
        }
    }

    pub fn end(&mut self, at: usize, fate: OperationEnd, luck: u8) -> Check {
        let running = self.life.running.remove(at);
        let plugin = self.catalog.volumes[running.volume].kind.plugin;
        let fate = if self.quarantined[plugin] { OperationEnd::Transient } else { fate };
        let place = (running.volume, running.pod);
        let report = self.world.end(self.catalog, &running.operation, place, running.version, fate, luck);
        let ended = Ended {
            volume: running.volume,
            pod: running.pod,
            name: running.operation.kind.name().as_str(),
            failed: report.result.as_ref().err().map(|failure| failure.class),
        };
        let end = match (ended.failed, fate) {
            (None, OperationEnd::Lie) => "lie",
            (None, _) => "done",
            (Some(FailureClass::Final), _) => "final",
            (Some(FailureClass::Uncertain), _) => "uncertain",
            (Some(FailureClass::Transient), _) => "transient",
        };
        self.met.insert((ended.name, end));
        if report.other_node.is_some() {
            self.met.insert(("attached", "on_other_node"));
        }
        let mut turn = Turn { ended: Some(ended), ..self.about(running.volume, running.pod) };
        turn.tells_vanished = self.comes_out_as_vanished(&running, &ended);
        turn.tells_device_vanished = self.comes_out_without_device(&running, &report);
        self.step(Event::OperationDone { id: running.operation.id, report }, turn)
    }

    /// What an operation on the volume may concern: its users, and the volumes that wait for its
    /// folder.
    pub fn about(&self, volume: VolumeId, pod: Option<PodId>) -> Turn {
        let mut turn = Turn { volumes: 1 << volume, pods: pod.map_or(ALL_PODS, |pod| 1 << pod), ..Turn::default() };
        let kind = self.catalog.volumes[volume].kind_id;
        let layers = [self.catalog.base_of(volume), self.catalog.top_of(volume)];
        layers.into_iter().flatten().for_each(|other| turn.volumes |= 1 << other);
        if KINDS[kind].attach_limit.is_some() {
            for (other, of) in self.catalog.volumes.iter().enumerate() {
                turn.volumes |= u32::from(of.kind.plugin == KINDS[kind].plugin) << other;
            }
        }
        if KINDS[kind].handles > 1 {
            for (other, of) in self.catalog.volumes.iter().enumerate() {
                turn.volumes |= u32::from(of.kind_id == kind) << other;
            }
        }
        turn
    }

    /// The effect of an operation of uncertain end happens late, without a report to the host.
    fn late(&mut self, pick: u16) -> Check {
        let volume = usize::from(pick) % VOLUMES;
        let world = &mut self.world;
        for mount in &mut world.mounts[volume] {
            if let Some(late) = mount.late.take() {
                mount.real = late;
            }
        }
        for thing in [&mut world.devices[volume], &mut world.attached[volume]] {
            if let Some(late) = thing.late.take() {
                thing.real = late;
            }
        }
        self.note(|sim| format!("    * what was late at {} has come true", sim.catalog.volumes[volume].name));
        Ok(())
    }

    fn overdue(&mut self, pick: u16) -> Check {
        let Some(at) = self.choose(pick, |_| true) else {
            return Ok(());
        };
        let running = &self.life.running[at];
        let (id, name) = (running.operation.id, running.operation.kind.name().as_str());
        self.met.insert((name, "overdue"));
        let running = &self.life.running[at];
        let turn = Turn { overdue: Some((running.volume, running.pod)), ..self.about(running.volume, running.pod) };
        self.step(Event::OperationOverdue { id, message: "it hangs".to_owned() }, turn)
    }

    fn timer(&mut self) -> Check {
        let Some(at) = self.life.armed else {
            self.now += SECOND / 4;
            return Ok(());
        };
        self.now = self.now.max(at);
        self.step(Event::Timer, everything())
    }

    /// Forward, time has passed; backward, the host ignores it.
    fn jump(&mut self, back: bool, by: u64) -> Check {
        if !back {
            self.now += by;
            return self.step(Event::WaitCancelled { waiter: 0 }, everything());
        }
        let now = self.now;
        self.now -= by;
        let result = self.step(Event::WaitCancelled { waiter: 0 }, everything());
        self.now = now;
        result
    }

    pub fn plugin_changed(&mut self, plugin: usize) -> Check {
        let turn = Turn { plugin_changed: Some(plugin), ..everything() };
        self.step(Event::PluginChanged { plugin: self.catalog.plugins[plugin].clone() }, turn)
    }

    fn wait(&mut self, pod: PodId, mounted: bool, time: u64) -> Check {
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        let (uid, deadline) = (self.catalog.uids[pod].clone(), self.now + time);
        self.life.waiting.push(Waiter { id: waiter, pod, mounted, deadline });
        let turn = Turn { pods: 1 << pod, ..Turn::default() };
        let event = if mounted {
            Event::WaitMounted { waiter, uid, deadline }
        } else {
            Event::WaitUnmounted { waiter, uid, deadline }
        };
        self.step(event, turn)
    }

    fn cancel(&mut self, pick: u16) -> Check {
        let count = self.life.waiting.len();
        if count == 0 {
            return Ok(());
        }
        let waiter = self.life.waiting.swap_remove(usize::from(pick) % count).id;
        self.step(Event::WaitCancelled { waiter }, Turn::default())
    }

    /// The node's status is written as soon as the host knows what is in use.
    pub fn write_status(&mut self) -> Check {
        if !self.life.core.states_synced() {
            return Ok(());
        }
        let in_use = self.life.core.volumes_in_use();
        self.status = [false; VOLUMES];
        in_use.iter().for_each(|name| self.status[self.catalog.volume_id(name)] = true);
        self.life.reported = self.status;
        self.step(Event::ReportedInUse(in_use), everything())
    }

    /// The controller looks at one volume: what the status says is in use it attaches, unless
    /// another node has it; the rest it detaches.
    pub fn controller_acts(&mut self, volume: VolumeId) {
        if !self.config.host_attaches && self.catalog.volumes[volume].kind.attachable {
            let attached = &mut self.world.attached[volume];
            let before = attached.real;
            attached.real = self.status[volume] && (before || !self.world.on_other_node[volume]);
            self.life.taken_away[volume] |= before && !attached.real;
        }
    }

    pub fn controller_reports(&mut self) -> Check {
        if self.config.host_attaches {
            return Ok(());
        }
        let attached: [bool; VOLUMES] = std::array::from_fn(|volume| self.world.attached[volume].real);
        self.life.attachments = Some(attached);
        self.life.taken_away = [false; VOLUMES];
        let names = (0..VOLUMES).filter(|volume| attached[*volume]);
        let report = names.map(|volume| (self.catalog.volumes[volume].name.clone(), "/dev/sim".to_owned())).collect();
        self.step(Event::NodeAttachments(report), everything())
    }

    /// After a start, sources report one pod after the other, and then that they have reported all.
    pub fn source_goes_on(&mut self) -> Check {
        let unreported =
            (0..self.live.len()).find(|pod| self.live[*pod].is_some() && self.life.pod_reports[*pod].is_none());
        if let Some((pod, pod_report)) = unreported.and_then(|pod| Some((pod, self.live[pod]?))) {
            return self.report_pod(pod, pod_report);
        }
        self.life.synced = true;
        self.step(Event::SourcesSynced, everything())
    }

    /// An event that changes nothing, at a time at which nothing is due, is answered with nothing.
    fn idle(&mut self) -> Check {
        if self.life.armed.is_some_and(|at| at <= self.now) || self.life.now > self.now {
            return Ok(());
        }
        self.steps += 1;
        self.life.now = self.now;
        let answer = self.life.core.step(self.now, Event::WaitCancelled { waiter: 0 });
        ensure(answer.is_empty(), Rule::Quiet, || format!("nothing happened, and it answers {answer:?}"))
    }

    /// Answers of operations that do not run change nothing.
    fn echo(&mut self, pick: u16) -> Check {
        let id = u64::from(pick) % (self.life.last_id + 3);
        if self.life.running.iter().any(|running| running.operation.id == id)
            || self.life.armed.is_some_and(|at| at <= self.now)
            || self.life.now > self.now
        {
            return Ok(());
        }
        self.steps += 2;
        self.life.now = self.now;
        let before = self.life.core.operations();
        let mut answer = self.life.core.step(self.now, Event::OperationDone { id, report: OperationReport::done() });
        answer.extend(self.life.core.step(self.now, Event::OperationOverdue { id, message: String::new() }));
        ensure(answer.is_empty() && before == self.life.core.operations(), Rule::Quiet, || {
            format!("an answer for operation {id}, which does not run, changed something: {answer:?}")
        })?;
        self.check_after(&everything())
    }
}
