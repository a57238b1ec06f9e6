//! The end of a run: no more faults, everything resolved, time goes on. The world has to become
//! what is desired (rule R4).

use volhost_model::names::PodUid;
use volhost_model::view::PodPhase;

use crate::action::OperationEnd;
use crate::happen::everything;
use crate::kinds::{Catalog, Demand, KINDS, PLUGINS, PODS, SMALLEST, VOLUMES};
use crate::rules::{Check, Rule, broken, ensure};
use crate::sim::Sim;

/// More turns than any run needs; without an end something spins.
const TURNS: u32 = 20_000;
/// What a crash at the end is made of.
const LUCK: u64 = 1;

impl Sim<'_> {
    pub fn converge(&mut self) -> Check {
        self.note(|_| "*** no more faults".to_owned());
        // A lie comes out when the kernel is asked: at the next start.
        if self.world.anything_lied() {
            self.crash(LUCK)?;
        }
        self.world.on_other_node = [false; VOLUMES];
        self.life.running.iter_mut().for_each(|running| running.hung = false);
        for plugin in (0..PLUGINS).filter(|plugin| self.quarantined[*plugin]).collect::<Vec<_>>() {
            self.quarantined[plugin] = false;
            self.plugin_changed(plugin)?;
        }
        for pod in 0..PODS {
            if let Some(mut pod_report) = self.live[pod] {
                for demand in pod_report.demands.iter_mut().filter(|demand| matches!(demand, Demand::Unresolved(_))) {
                    *demand = Demand::Wanted { handle: 0, variant: 0, size: 0 };
                }
                for (kind, base) in KINDS.iter().enumerate().filter_map(|(kind, of)| Some((kind, of.base?))) {
                    if pod_report.demands[base] == Demand::Nothing {
                        pod_report.demands[kind] = Demand::Nothing;
                    }
                }
                self.live[pod] = Some(pod_report);
                self.report_pod(pod, pod_report)?;
            }
        }
        while !self.life.synced {
            self.source_goes_on()?;
        }
        self.come_to_rest()?;
        self.check_views()?;
        self.check_after(&everything())?;
        self.check_mounts()?;
        self.check_shown()
    }

    fn come_to_rest(&mut self) -> Check {
        for _ in 0..TURNS {
            if self.controller_is_due() {
                self.write_status()?;
                (0..VOLUMES).for_each(|volume| self.controller_acts(volume));
                self.controller_reports()?;
            }
            if !self.life.running.is_empty() {
                self.end(0, OperationEnd::Done, 0)?;
            } else if let Some(at) = self.life.armed {
                self.now = self.now.max(at);
                self.step(volhost_core::Event::Timer, everything())?;
            } else if !self.controller_is_due() {
                return Ok(());
            }
        }
        broken(Rule::Convergence, "the machine does not come to rest")
    }

    /// The status, what is attached, or the report of it differs from what is in use.
    fn controller_is_due(&self) -> bool {
        if self.config.host_attaches {
            return false;
        }
        let mut in_use = [false; VOLUMES];
        for name in self.life.core.volumes_in_use() {
            in_use[self.catalog.volume_id(&name)] = true;
        }
        let attached: [bool; VOLUMES] = std::array::from_fn(|volume| self.world.attached[volume].real);
        in_use != attached || in_use != self.life.reported || self.life.attachments != Some(in_use)
    }

    fn check_mounts(&self) -> Check {
        let (world, mut used) = (&self.world, [false; VOLUMES]);
        for (volume, of) in self.catalog.volumes.iter().enumerate() {
            for pod in 0..PODS {
                let (real, wanted) = (world.mounts[volume][pod].real, self.life.wants(self.catalog, pod, volume));
                used[volume] |= wanted.is_some();
                let place = || format!("{} of pod{pod}", of.name);
                let Some((variant, capacity)) = wanted else {
                    ensure(real.is_none(), Rule::Convergence, || format!("{} is left over", place()))?;
                    continue;
                };
                let Some(real) = real else {
                    ensure(self.is_blocked(pod, volume), Rule::Convergence, || {
                        format!("{} is wanted, and not mounted", place())
                    })?;
                    continue;
                };
                // A recovered mount cannot be corrected while another pod has the volume; it is not
                // reported as ready.
                if self.is_blocked(pod, volume) && !self.life.is_as_wanted(self.catalog, pod, volume) {
                    continue;
                }
                ensure(real.variant == variant || of.kind.edited, Rule::Convergence, || {
                    format!("{} has the wrong source", place())
                })?;
                let fresh = !of.kind.follows_source || real.version == self.versions[pod];
                ensure(fresh, Rule::Convergence, || format!("{} shows stale content", place()))?;
                let large = !of.kind.expandable || world.sizes[volume].unwrap_or(SMALLEST) >= capacity;
                ensure(large, Rule::Convergence, || format!("{} is too small", place()))?;
                self.check_parts(pod, of.kind_id)?;
            }
            for (thing, how) in [(&world.devices[volume], "staged"), (&world.attached[volume], "attached")] {
                ensure(!thing.real || used[volume], Rule::Convergence, || format!("{} is left {how}", of.name))?;
            }
        }
        Ok(())
    }

    /// Another pod has the volume, which is for one pod alone, or has it with another label.
    fn is_blocked(&self, pod: usize, volume: usize) -> bool {
        let (mounts, kind) = (&self.world.mounts[volume], self.catalog.volumes[volume].kind);
        let wanted = self.life.wants(self.catalog, pod, volume).map(|(variant, _)| variant);
        let blocks = |real: crate::world::Real| kind.single_pod || (kind.labelled && Some(real.variant) != wanted);
        (0..PODS).any(|other| other != pod && mounts[other].real.is_some_and(blocks))
            || (self.config.host_attaches && self.life.has_no_place(self.catalog, volume))
    }

    fn is_any_blocked(&self, pod: usize) -> bool {
        (0..VOLUMES).any(|volume| {
            self.life.wants(self.catalog, pod, volume).is_some()
                && !self.life.is_as_wanted(self.catalog, pod, volume)
                && self.is_blocked(pod, volume)
        })
    }

    fn check_shown(&self) -> Check {
        let core = &self.life.core;
        let pods = core.pods();
        let live = if self.life.draining { 0 } else { self.live.iter().flatten().count() };
        ensure(pods.len() == live, Rule::Convergence, || format!("{} pods are shown, not {live}", pods.len()))?;
        for view in &pods {
            let pod = Catalog::pod_id(&PodUid::new(&*view.uid).unwrap());
            ensure(view.phase == PodPhase::Mounted || self.is_any_blocked(pod), Rule::Convergence, || {
                format!("pod{pod} is shown as {:?}", view.phase)
            })?;
        }
        // A failure of a pod that another pod keeps from the volume is remembered until its turn
        // comes.
        let single = |volume: &str| {
            KINDS.iter().any(|kind| (kind.single_pod || kind.labelled) && volume.contains(kind.name))
                && (0..PODS).any(|pod| self.is_any_blocked(pod))
        };
        let operations: Vec<_> =
            core.operations().into_iter().filter(|view| view.running || !single(&view.volume)).collect();
        ensure(core.unused_volumes().is_empty() && operations.is_empty(), Rule::Convergence, || {
            format!("at rest, and yet: {:?} {operations:?}", core.unused_volumes())
        })?;
        ensure(self.life.waiting.is_empty(), Rule::Answers, || "a caller waits for ever".to_owned())
    }
}
