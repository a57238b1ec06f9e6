//! What must hold when an operation starts.

use volhost_core::OperationKind;

use crate::kinds::{PODS, PodId};
use crate::life::{Life, Running};
use crate::rules::{Check, Rule, broken, hold};
use crate::sim::{Sim, Turn};

fn keys_match(a: Option<PodId>, b: Option<PodId>) -> bool {
    a.is_none() || b.is_none() || a == b
}

impl Sim<'_> {
    pub fn check_start(&self, starting: &Running, turn: &Turn) -> Check {
        let life = &self.life;
        let (volume, operation) = (starting.volume, &starting.operation);
        let kind = self.catalog.volumes[volume].kind;
        hold(operation.id > life.last_id, Rule::OneAtATime, || format!("id {} was used before", operation.id))?;
        for other in life.running.iter().filter(|other| other.volume == volume) {
            hold(!keys_match(other.key_pod, starting.key_pod), Rule::OneAtATime, || {
                format!("operation {} was started while {} runs", operation.id, other.operation.id)
            })?;
        }
        self.check_wait(starting, turn)?;
        match operation.kind {
            OperationKind::Unmount | OperationKind::Unmap => self.check_unmount(starting),
            OperationKind::UnmountDevice | OperationKind::UnmapDevice => self.check_release(volume, Rule::DeviceInUse),
            OperationKind::Detach => {
                hold(life.core_holds_no_device(self, volume), Rule::AttachmentInUse, || {
                    format!("{} is detached while its device is, or may be, mounted", operation.volume)
                })?;
                self.check_release(volume, Rule::AttachmentInUse)
            }
            OperationKind::Mount { .. } | OperationKind::Map { .. } => self.check_mount(starting),
            OperationKind::Attach if !self.config.host_attaches => {
                broken(Rule::AttachFirst, "the host attaches, though a controller does")
            }
            OperationKind::VerifyControllerAttached | OperationKind::Attach => {
                hold(kind.attachable, Rule::AttachFirst, || "a volume that needs no attachment is attached".to_owned())
            }
            OperationKind::Expand { from, to } => hold(kind.expandable && from < to, Rule::OnlyWanted, || {
                format!("{} is expanded from {from} to {to}", operation.volume)
            }),
        }
    }

    /// A failed key is not tried again before its time, unless something has wiped its failure in this very step.
    fn check_wait(&self, starting: &Running, turn: &Turn) -> Check {
        let life = &self.life;
        let (volume, name) = (starting.volume, starting.operation.kind.name());
        let plugin = self.catalog.volumes[volume].kind.plugin;
        let followed = turn.source_changed.is_some() && turn.source_changed == starting.pod;
        let follows = self.catalog.volumes[volume].kind.follows_source;
        if turn.plugin_changed == Some(plugin) || (followed && follows) {
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
        hold(!known.is_waiting(starting.pod, name, life.now), Rule::BackOff, || {
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
        if life.draining {
            return Ok(());
        }
        let Some(mount) = life.look(self.catalog, volume).mounts[pod] else {
            return broken(Rule::OnlyWanted, format!("{} is unmounted, and was not there", operation.volume));
        };
        hold(life.synced || !mount.stage.recovered, Rule::HalfKnowledge, || {
            format!("{} was recovered, and not every source has spoken", operation.volume)
        })?;
        let Some((variant, _)) = life.wants(self.catalog, pod, volume) else {
            let told = life.told[pod];
            let unresolved = told.is_some_and(|told| {
                matches!(told.wishes[of.kind_id], crate::kinds::Wish::Unresolved(_))
                    || (told.any_unresolved() && !mount.named)
            });
            return hold(!unresolved, Rule::HalfKnowledge, || {
                format!("{} may be wanted by pod{pod}, it is unresolved", operation.volume)
            });
        };
        let other = mount.variant.is_none() && life.look(self.catalog, volume).has_other_label(of.kind, pod, variant);
        let same = mount.variant.is_none_or(|made_with| made_with == variant) && !other;
        hold(!same && !of.kind.follows_source, Rule::HalfKnowledge, || {
            format!("{} is unmounted though pod{pod} wants it as it is", operation.volume)
        })
    }

    /// The device, or the attachment, is taken away.
    fn check_release(&self, volume: usize, rule: Rule) -> Check {
        let (life, name) = (&self.life, &self.catalog.volumes[volume].name);
        let known = life.look(self.catalog, volume);
        let really = self.world.is_mounted(volume) && !self.world.any_mount_lied(volume);
        hold(!known.has_mounts() && !really, rule, || {
            format!("{name} is taken from the node while a pod may have it mounted")
        })?;
        let wanted = (0..PODS).any(|pod| life.wants(self.catalog, pod, volume).is_some());
        let relabelled = rule == Rule::DeviceInUse && life.is_relabelled(self.catalog, volume, &known);
        hold(!wanted || relabelled, rule, || format!("{name} is taken from the node while a pod wants it"))?;
        let recovered = if rule == Rule::DeviceInUse { known.device.recovered } else { known.attach.recovered };
        hold(!recovered || life.may_take_recovered(), Rule::HalfKnowledge, || {
            format!("{name} was recovered on the node, and not every source has spoken")
        })
    }

    fn check_mount(&self, starting: &Running) -> Check {
        let (life, volume, operation) = (&self.life, starting.volume, &starting.operation);
        let of = &self.catalog.volumes[volume];
        let wanted = starting.pod.and_then(|pod| Some((pod, life.wants(self.catalog, pod, volume)?)));
        let Some((pod, (variant, _))) = wanted else {
            return broken(Rule::OnlyWanted, format!("{} is mounted, and nobody wants it", operation.volume));
        };
        let right = operation.spec.as_ref().is_some_and(|spec| crate::kinds::variant_of(spec) == variant);
        hold(right && operation.pod.is_some(), Rule::OnlyWanted, || {
            format!("{} is mounted for pod{pod} from another source than it wants", operation.volume)
        })?;
        let device = &self.world.devices[volume];
        // Of what stood before this life it may be that nobody has recorded the label.
        let staged = (device.real || device.late == Some(true)) && !device.lied && !device.old;
        let other_label = of.kind.labelled && staged && self.world.labels[volume] != variant;
        hold(!other_label, Rule::OneLabel, || {
            format!("{} is mounted for pod{pod} from a mount of the node that has another label", operation.volume)
        })?;
        let lied = self.world.any_mount_lied(volume);
        let elsewhere = (0..PODS).any(|other| other != pod && self.world.mounts[volume][other].real.is_some());
        hold(!of.kind.single_pod || !elsewhere || lied, Rule::OnePodOneFolder, || {
            format!("{} is mounted for a second pod", operation.volume)
        })?;
        for (other, other_volume) in self.catalog.volumes.iter().enumerate() {
            let taken = other != volume
                && other_volume.kind_id == of.kind_id
                && self.world.mounts[other][pod].real.is_some()
                && !self.world.mounts[other][pod].lied;
            hold(!taken, Rule::OnePodOneFolder, || {
                format!("{} is mounted where {} is still", operation.volume, other_volume.name)
            })?;
        }
        let attached = &self.world.attached[volume];
        hold(!of.kind.attachable || attached.real || attached.lied, Rule::AttachFirst, || {
            format!("{} is mounted before it is attached", operation.volume)
        })
    }
}

impl Life {
    fn core_holds_no_device(&self, sim: &Sim<'_>, volume: usize) -> bool {
        !self.look(sim.catalog, volume).device.may_be()
    }
}
