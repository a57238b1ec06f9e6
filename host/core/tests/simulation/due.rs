//! The needs of each volume, computed from the machine's input and state: every operation that may
//! start must have started.

use crate::kinds::{PODS, PodId, VolumeId, parts_of};
use crate::life::KnownMount;
use crate::rules::{Check, Rule, ensure};
use crate::sim::{Sim, Turn};

/// An operation that is needed.
pub struct Needed {
    /// The pod it is for; none for the volume alone.
    pub pod: Option<PodId>,
    /// The pod of its key.
    key_pod: Option<PodId>,
    pub name: &'static str,
    /// It serves a pod that waits for its first mount.
    mounts: bool,
    /// A reason other than keys and back-off blocks it; users get an event.
    hindered: bool,
    /// It waits for a report.
    quiet: bool,
}

impl Needed {
    const fn new(pod: Option<PodId>, key_pod: Option<PodId>, name: &'static str) -> Self {
        Self { pod, key_pod, name, mounts: false, hindered: false, quiet: false }
    }

    /// A failure of this operation on this slot counts as long as it is needed.
    pub fn keeps(&self, slot: usize, name: &str) -> bool {
        self.name == name && (self.pod.unwrap_or(PODS) == slot || (slot == PODS && is_mount(self.name)))
    }
}

/// Whether the operation makes a pod's mount.
pub fn is_mount(name: &str) -> bool {
    matches!(name, "volume_mount" | "map_volume")
}

impl Sim<'_> {
    pub fn needs(&self, volume: VolumeId) -> Vec<Needed> {
        let known = &self.life.known[volume];
        let mut needs = Vec::new();
        for pod in 0..PODS {
            let mount = known.mounts[pod];
            if let Some(mount) = mount.filter(|mount| self.is_doomed(volume, pod, mount)) {
                let name = if self.catalog.volumes[volume].kind.block { "unmap_volume" } else { "volume_unmount" };
                debug_assert!(mount.state.may_exist());
                // A volume made of it is unmounted first.
                let quiet = self.life.carries(self.catalog, pod, volume);
                needs.push(Needed { quiet, ..Needed::new(Some(pod), Some(pod), name) });
            }
            if let Some((variant, capacity)) = self.life.wants(self.catalog, pod, volume) {
                needs.extend(self.need_of_pod(volume, pod, mount, variant, capacity));
            }
        }
        needs.extend(self.release(volume));
        needs
    }

    fn is_doomed(&self, volume: VolumeId, pod: PodId, mount: &KnownMount) -> bool {
        let (life, of) = (&self.life, &self.catalog.volumes[volume]);
        if !mount.state.may_exist() || (mount.state.recovered && !life.may_take_recovered()) {
            return false;
        }
        match life.wants(self.catalog, pod, volume) {
            Some((variant, _)) => {
                let other = life.known[volume].has_other_label(of.kind, pod, variant);
                life.is_replaced(of, mount, variant)
                    || life.loses_base(self.catalog, pod, volume, mount)
                    || (mount.variant.is_none() && other)
            }
            None => life.draining || !life.is_kept(of, pod, mount),
        }
    }

    fn need_of_pod(
        &self,
        volume: VolumeId,
        pod: PodId,
        mount: Option<KnownMount>,
        variant: u8,
        capacity: u64,
    ) -> Option<Needed> {
        let (life, of) = (&self.life, &self.catalog.volumes[volume]);
        let (kind, known) = (of.kind, &life.known[volume]);
        let goes = |mount: &KnownMount| {
            life.is_replaced(of, mount, variant) || life.loses_base(self.catalog, pod, volume, mount)
        };
        if let Some(mount) = mount.filter(|mount| mount.state.may_exist() && goes(mount)) {
            let waits = mount.state.recovered && !life.may_take_recovered();
            return waits.then(|| Needed { hindered: true, ..Needed::new(Some(pod), Some(pod), "") });
        }
        let present = mount.is_some_and(|mount| mount.state.is_certain());
        let stale = mount.is_some_and(|mount| {
            (kind.follows_source && (mount.stale || mount.variant.is_some_and(|made_with| made_with != variant)))
                || mount.parts != Some(parts_of(kind, capacity))
        });
        let lost = kind.stageable && !kind.block && known.device.may_exist() && !known.device.is_certain();
        let stale = stale || (present && lost);
        let grow = kind.expandable && known.size.is_some_and(|size| size < capacity);
        if present && !stale && !grow {
            return None;
        }
        if kind.attachable && !known.attach.is_certain() {
            if self.config.host_attaches {
                if life.has_no_place(self.catalog, volume) {
                    return Some(Needed { hindered: true, ..Needed::new(Some(pod), Some(pod), "") });
                }
                return Some(Needed::new(None, None, "volume_attach"));
            }
            let reported = life.reported[volume] && life.attachments.is_none_or(|attached| attached[volume]);
            let verify = Needed::new(None, None, "verify_controller_attached_volume");
            return reported.then_some(verify);
        }
        if !present || stale {
            let name = if kind.block { "map_volume" } else { "volume_mount" };
            let key_pod = Some(pod).filter(|_| !kind.attachable && !kind.stageable);
            let hindered = self.is_kept_out(volume, pod, variant);
            // A missing base is reported for the base.
            let quiet = self.catalog.base_of(volume).is_some_and(|base| !life.is_as_wanted(self.catalog, pod, base));
            return Some(Needed { mounts: !present, hindered, quiet, ..Needed::new(Some(pod), key_pod, name) });
        }
        Some(Needed::new(Some(pod), None, "volume_fs_resize"))
    }

    /// Another pod has a volume for one pod alone, or has it with another label, or another volume
    /// has the folder.
    fn is_kept_out(&self, volume: VolumeId, pod: PodId, variant: u8) -> bool {
        let (life, of) = (&self.life, &self.catalog.volumes[volume]);
        let in_other_pod = (0..PODS).any(|other| other != pod && life.known[volume].mounts[other].is_some());
        let taken = of.kind.handles > 1
            && self.catalog.volumes.iter().enumerate().any(|(other, other_of)| {
                other != volume && other_of.kind_id == of.kind_id && life.known[other].mounts[pod].is_some()
            });
        let known = &life.known[volume];
        let restaged = of.kind.edited && life.is_relabelled(self.catalog, volume, known);
        (of.kind.single_pod && in_other_pod)
            || taken
            || restaged
            || life.known[volume].has_other_label(of.kind, pod, variant)
    }

    fn release(&self, volume: VolumeId) -> Option<Needed> {
        let (life, kind) = (&self.life, self.catalog.volumes[volume].kind);
        let known = &life.known[volume];
        let wanted = (0..PODS).any(|pod| life.wants(self.catalog, pod, volume).is_some());
        let relabelled = life.is_relabelled(self.catalog, volume, known);
        let awaited = !life.draining && life.is_awaited(self.catalog, volume) && !relabelled;
        if !known.there || known.has_mounts() || (wanted && !relabelled) {
            return None;
        }
        let (state, name) = if known.device.may_exist() {
            (known.device, if kind.block { "unmap_device" } else { "unmount_device" })
        } else if self.config.host_attaches && known.attach.may_exist() {
            (known.attach, "volume_detach")
        } else {
            return None;
        };
        let quiet = awaited || (state.recovered && !life.may_take_recovered());
        Some(Needed { quiet, ..Needed::new(None, None, name) })
    }

    /// Everything that is needed runs, or something that is allowed to keeps it from it.
    pub fn check_due(&mut self, volume: VolumeId, turn: &Turn) -> Check {
        let needs = self.needs(volume);
        let life = &mut self.life;
        let waited = std::mem::take(&mut life.in_turn[volume]);
        let mut hindered = 0_u8;
        for needed in &needs {
            let bit = needed.pod.map_or(0, |pod| 1_u8 << pod);
            if needed.hindered {
                hindered |= bit;
                continue;
            }
            if needed.mounts {
                life.in_turn[volume] |= bit;
            }
            if needed.quiet {
                if needed.mounts {
                    self.met.insert(("waits for", "what it is made of"));
                }
                continue;
            }
            let taken = life.running.iter().any(|running| {
                running.volume == volume
                    && (running.key_pod.is_none() || needed.key_pod.is_none() || running.key_pod == needed.key_pod)
            });
            let waits = life.known[volume].is_waiting(needed.pod, needed.name, life.now);
            ensure(taken || waits, Rule::Progress, || {
                let pod = needed.pod.map(|pod| format!(" of pod{pod}")).unwrap_or_default();
                format!("{} of {}{pod} is due, and is not started", needed.name, self.catalog.volumes[volume].name)
            })?;
        }
        self.check_turns(volume, waited, turn)?;
        let life = &mut self.life;
        // Who has it now is not who had it before.
        for (_, mounting, _) in turn.started.iter().filter(|(other, _, name)| *other == volume && is_mount(name)) {
            for pod in (0..PODS).filter(|pod| Some(*pod) != *mounting) {
                life.hindered[volume][pod] = None;
            }
        }
        for pod in 0..PODS {
            let bit = 1 << pod;
            if life.in_turn[volume] & bit == 0 {
                life.overtaken_by[volume][pod] = 0;
            }
            if hindered & bit == 0 {
                life.hindered[volume][pod] = None;
            }
        }
        Ok(())
    }

    /// Who has been served is not served again before those who waited then and wait still.
    fn check_turns(&mut self, volume: VolumeId, waited: u8, turn: &Turn) -> Check {
        let (life, of) = (&mut self.life, &self.catalog.volumes[volume]);
        if of.pod.is_some() {
            return Ok(());
        }
        let mounts = turn.started.iter().filter(|(other, _, name)| *other == volume && is_mount(name));
        for (pod, name) in mounts.filter_map(|(_, pod, name)| Some(((*pod)?, *name))) {
            for other in (0..PODS).filter(|other| *other != pod && waited & life.in_turn[volume] & (1 << *other) != 0) {
                let own = life.known[volume].failures[other];
                if own.is_some_and(|failed| failed.name == name && failed.retry_at > life.now) {
                    continue;
                }
                let served = &mut life.overtaken_by[volume][other];
                ensure(*served & (1 << pod) == 0, Rule::FairTurns, || {
                    format!("pod{pod} is served twice while pod{other} waits for {}", of.name)
                })?;
                *served |= 1 << pod;
            }
            life.overtaken_by[volume][pod] = 0;
        }
        Ok(())
    }

    /// Whether a reason other than keys and back-off blocks the pod's volume.
    pub fn is_hindered(&self, volume: VolumeId, pod: PodId) -> bool {
        self.needs(volume).iter().any(|needed| needed.hindered && needed.pod == Some(pod))
    }
}
