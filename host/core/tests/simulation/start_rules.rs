//! The rules for the start of an operation.

use volhost_core::OperationKind;

use crate::kinds::{PODS, PodId, VOLUMES, VolumeId};
use crate::life::{Life, Running};
use crate::rules::{Check, Rule, broken, ensure};
use crate::sim::{Sim, Turn};

fn keys_match(a: Option<PodId>, b: Option<PodId>) -> bool {
    a.is_none() || b.is_none() || a == b
}

impl Sim<'_> {
    pub fn check_start(&self, starting: &Running, turn: &Turn) -> Check {
        let life = &self.life;
        let (volume, operation) = (starting.volume, &starting.operation);
        let kind = self.catalog.volumes[volume].kind;
        ensure(operation.id > life.last_id, Rule::OneAtATime, || format!("id {} was used before", operation.id))?;
        for other in life.running.iter().filter(|other| other.volume == volume) {
            ensure(!keys_match(other.key_pod, starting.key_pod), Rule::OneAtATime, || {
                format!("operation {} was started while {} runs", operation.id, other.operation.id)
            })?;
        }
        self.check_wait(starting, turn)?;
        match operation.kind {
            OperationKind::Unmount | OperationKind::Unmap => self.check_unmount(starting),
            OperationKind::UnmountDevice | OperationKind::UnmapDevice => self.check_release(volume, Rule::DeviceInUse),
            OperationKind::Detach => {
                ensure(life.core_has_no_device(self, volume), Rule::AttachmentInUse, || {
                    format!("{} is detached while its device is, or may be, mounted", operation.volume)
                })?;
                self.check_release(volume, Rule::AttachmentInUse)
            }
            OperationKind::Mount { .. } | OperationKind::Map { .. } => self.check_mount(starting),
            OperationKind::Attach if !self.config.host_attaches => {
                broken(Rule::AttachFirst, "the host attaches, though a controller does")
            }
            OperationKind::Attach if kind.attach_limit.is_some() => self.check_limit(volume),
            OperationKind::VerifyControllerAttached | OperationKind::Attach => {
                ensure(kind.attachable, Rule::AttachFirst, || {
                    "a volume that needs no attachment is attached".to_owned()
                })
            }
            OperationKind::Expand { from, to } => ensure(kind.expandable && from < to, Rule::OnlyWanted, || {
                format!("{} is expanded from {from} to {to}", operation.volume)
            }),
        }
    }

    /// With this one no more are attached, or may be, than may be.
    fn check_limit(&self, volume: VolumeId) -> Check {
        let of = &self.catalog.volumes[volume];
        let others = (0..VOLUMES).filter(|other| *other != volume);
        let of_plugin = others.filter(|other| self.catalog.volumes[*other].kind.plugin == of.kind.plugin);
        let attached = of_plugin.filter(|other| {
            let (there, life) = (&self.world.attached[*other], &self.life);
            let attaching =
                |other| life.running.iter().any(|r| r.volume == other && r.operation.kind == OperationKind::Attach);
            !there.lied && (there.real || there.late == Some(true) || attaching(*other))
        });
        let count = attached.count();
        // A volume that may be attached already takes no further place.
        let again = self.life.look(self.catalog, volume).attach.may_exist();
        ensure(again || of.kind.attach_limit.is_none_or(|limit| count < limit as usize), Rule::WithinLimit, || {
            format!("{} is attached, and {count} others of its plugin are", of.name)
        })
    }

    /// The base of the volume is mounted as the pod wants it.
    fn check_base(&self, volume: VolumeId, pod: PodId) -> Check {
        let Some(base) = self.catalog.base_of(volume) else { return Ok(()) };
        let (thing, wanted) = (&self.world.mounts[base][pod], self.life.wants(self.catalog, pod, base));
        let right =
            |real: crate::world::Real| wanted.is_some_and(|(variant, _)| real.complete && real.variant == variant);
        ensure(thing.lied || thing.real.is_some_and(right), Rule::BaseFirst, || {
            let names = (&self.catalog.volumes[volume].name, &self.catalog.volumes[base].name);
            format!("{} is mounted, and {} that it is made of is not, or not as it is wanted", names.0, names.1)
        })
    }

    /// Nothing that is known to lie over the volume exists, or may.
    fn check_top(&self, volume: VolumeId, pod: PodId) -> Check {
        let Some(top) = self.catalog.top_of(volume) else { return Ok(()) };
        let known = self.life.look(self.catalog, top).mounts[pod];
        let thing = &self.world.mounts[top][pod];
        // The bases of a volume without a record are unknown.
        let exists = (thing.real.is_some() || thing.late.flatten().is_some()) && !thing.lied;
        let has_bases = known.is_none_or(|known| known.needs > 0);
        ensure(!(exists && has_bases) && known.is_none_or(|known| known.needs == 0), Rule::BaseLast, || {
            let names = (&self.catalog.volumes[volume].name, &self.catalog.volumes[top].name);
            format!("{} is unmounted below {} of pod{pod}", names.0, names.1)
        })
    }

    /// A failed key is not tried again before its time, unless something has wiped its failure in
    /// this very step.
    fn check_wait(&self, starting: &Running, turn: &Turn) -> Check {
        let life = &self.life;
        let (volume, name) = (starting.volume, starting.operation.kind.name().as_str());
        let plugin = self.catalog.volumes[volume].kind.plugin;
        let followed = turn.source_changed.is_some() && turn.source_changed == starting.pod;
        let follows = self.catalog.volumes[volume].kind.follows_source;
        let vanished = turn.vanished.is_some_and(|at| starting.pod.is_some_and(|pod| at == (volume, pod)));
        let vanished = vanished || turn.device_vanished == Some(volume);
        if turn.plugin_changed == Some(plugin) || (followed && follows) || vanished {
            return Ok(());
        }
        let ended = turn.ended.filter(|ended| ended.volume == volume && ended.name == name);
        if ended.is_some_and(|ended| ended.failed.is_some() && ended.pod == starting.pod) {
            return broken(Rule::BackOff, format!("{name} on {} is tried again at once", starting.operation.volume));
        }
        let mut known = life.known[volume];
        if let Some(ended) = ended.filter(|ended| ended.failed.is_none()) {
            known.failures[PODS] = None;
            known.failures[ended.pod.unwrap_or(PODS)] = None;
        }
        ensure(!known.is_waiting(starting.pod, name, life.now), Rule::BackOff, || {
            format!("{name} on {} is tried again before its time", starting.operation.volume)
        })
    }

    fn check_unmount(&self, starting: &Running) -> Check {
        let life = &self.life;
        let (volume, operation) = (starting.volume, &starting.operation);
        let of = &self.catalog.volumes[volume];
        let Some(pod) = starting.pod else {
            return broken(Rule::OnlyWanted, "an unmount without a pod");
        };
        self.check_top(volume, pod)?;
        if life.draining {
            return Ok(());
        }
        let Some(mount) = life.look(self.catalog, volume).mounts[pod] else {
            return broken(Rule::OnlyWanted, format!("{} is unmounted, and was not there", operation.volume));
        };
        ensure(life.synced || !mount.state.recovered, Rule::HalfKnowledge, || {
            format!("{} was recovered, and not every source has spoken", operation.volume)
        })?;
        let Some((variant, _)) = life.wants(self.catalog, pod, volume) else {
            let pod_report = life.pod_reports[pod];
            let unresolved = pod_report.is_some_and(|pod_report| {
                matches!(pod_report.demands[of.kind_id], crate::kinds::Demand::Unresolved(_))
                    || (pod_report.any_unresolved() && !mount.named)
            });
            return ensure(!unresolved, Rule::HalfKnowledge, || {
                format!("{} may be wanted by pod{pod}, it is unresolved", operation.volume)
            });
        };
        let other = mount.variant.is_none() && life.look(self.catalog, volume).has_other_label(of.kind, pod, variant);
        // As it is now: the end of an operation on the base may have reported its content in this
        // step.
        let lost = self
            .catalog
            .base_of(volume)
            .filter(|_| mount.needs > 0)
            .is_some_and(|base| life.is_lost(self.catalog, pod, base, life.look(self.catalog, base).mounts[pod]));
        let as_made = of.kind.edited || mount.variant.is_none_or(|made_with| made_with == variant);
        let same = as_made && !other && !lost;
        ensure(!same && !of.kind.follows_source, Rule::HalfKnowledge, || {
            format!("{} is unmounted though pod{pod} wants it as it is", operation.volume)
        })
    }

    /// The device is unstaged, or the volume is detached.
    fn check_release(&self, volume: usize, rule: Rule) -> Check {
        let (life, name) = (&self.life, &self.catalog.volumes[volume].name);
        let known = life.look(self.catalog, volume);
        let really = self.world.is_mounted(volume) && !self.world.any_mount_lied(volume);
        ensure(!known.has_mounts() && !really, rule, || {
            format!("{name} is taken from the node while a pod may have it mounted")
        })?;
        let wanted = (0..PODS).any(|pod| life.wants(self.catalog, pod, volume).is_some());
        let relabelled = rule == Rule::DeviceInUse && life.is_relabelled(self.catalog, volume, &known);
        ensure(life.draining || relabelled || !life.is_awaited(self.catalog, volume), Rule::HalfKnowledge, || {
            format!("{name} is taken from the node, and may be a volume of a pod that cannot be resolved")
        })?;
        ensure(!wanted || relabelled, rule, || format!("{name} is taken from the node while a pod wants it"))?;
        let recovered = if rule == Rule::DeviceInUse { known.device.recovered } else { known.attach.recovered };
        ensure(!recovered || life.may_take_recovered(), Rule::HalfKnowledge, || {
            format!("{name} was recovered on the node, and not every source has spoken")
        })
    }

    fn check_mount(&self, starting: &Running) -> Check {
        let (life, volume, operation) = (&self.life, starting.volume, &starting.operation);
        let of = &self.catalog.volumes[volume];
        let wanted = starting.pod.and_then(|pod| Some((pod, life.wants(self.catalog, pod, volume)?)));
        let Some((pod, (variant, _))) = wanted else {
            return broken(Rule::OnlyWanted, format!("{} is mounted, and no pod wants it", operation.volume));
        };
        // A volume that is only refreshed keeps the state of its PersistentVolume before an edit.
        let remount = matches!(operation.kind, OperationKind::Mount { remount: true, .. });
        let right = operation.spec.as_ref().map(|spec| crate::kinds::variant_of(spec));
        let right = right.is_some_and(|mounted| mounted == variant || (of.kind.edited && remount));
        ensure(right && operation.pod.is_some(), Rule::OnlyWanted, || {
            format!("{} is mounted for pod{pod} from another source than it wants", operation.volume)
        })?;
        self.check_base(volume, pod)?;
        let device = &self.world.devices[volume];
        // The label of a volume from before this life may not be recorded.
        let staged = (device.real || device.late == Some(true)) && !device.lied && !device.old;
        let other_label = of.kind.labelled && staged && self.world.labels[volume] != variant;
        ensure(!other_label, Rule::OneLabel, || {
            format!("{} is mounted for pod{pod} from a mount of the node that has another label", operation.volume)
        })?;
        let lied = self.world.any_mount_lied(volume);
        let in_other_pod = (0..PODS).any(|other| other != pod && self.world.mounts[volume][other].real.is_some());
        ensure(!of.kind.single_pod || !in_other_pod || lied, Rule::OnePodOneFolder, || {
            format!("{} is mounted for a second pod", operation.volume)
        })?;
        for (other, other_volume) in self.catalog.volumes.iter().enumerate() {
            let taken = other != volume
                && other_volume.kind_id == of.kind_id
                && self.world.mounts[other][pod].real.is_some()
                && !self.world.mounts[other][pod].lied;
            ensure(!taken, Rule::OnePodOneFolder, || {
                format!("{} is mounted where {} is still", operation.volume, other_volume.name)
            })?;
        }
        let attached = &self.world.attached[volume];
        ensure(!of.kind.attachable || attached.real || attached.lied, Rule::AttachFirst, || {
            format!("{} is mounted before it is attached", operation.volume)
        })
    }
}

impl Life {
    fn core_has_no_device(&self, sim: &Sim<'_>, volume: usize) -> bool {
        !self.look(sim.catalog, volume).device.may_exist()
    }
}
