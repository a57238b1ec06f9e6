//! The state that a crash of the host destroys: the machine, its input, and its observed state
//! since the start.

use volhost_core::{Config, Operation, OperationKind, Time, WaiterId};
use volhost_core_mutants::probe::{FailureProbe, Probe};
use volhost_model::FailureClass;

use crate::kinds::{
    Catalog, Demand, KINDS, Kind, PODS, PodId, PodReport, SMALLEST, VOLUMES, VolumeId, parts_of, variant_of,
};
use crate::machine::Machine;
use crate::sim::Settings;

/// An operation that runs.
pub struct Running {
    pub operation: Operation,
    pub volume: VolumeId,
    pub pod: Option<PodId>,
    /// The pod of its key, worked out from the kubelet's table.
    pub key_pod: Option<PodId>,
    /// The version of its source that it read.
    pub version: u32,
    pub hung: bool,
    /// Others took the mount away that it works on.
    pub vanished: bool,
    /// Others took the node's mount away while it ran.
    pub device_vanished: bool,
}

/// A caller that waits.
#[derive(Clone, Copy)]
pub struct Waiter {
    pub id: WaiterId,
    pub pod: PodId,
    /// Until it is mounted; otherwise until nothing is.
    pub mounted: bool,
    pub deadline: Time,
}

/// The machine's state of a pod's mount.
#[derive(Clone, Copy)]
pub struct KnownMount {
    pub state: Probe,
    pub leaving: bool,
    pub stale: bool,
    pub named: bool,
    pub variant: Option<u8>,
    /// None: not known.
    pub parts: Option<usize>,
    pub needs: usize,
}

/// The machine's state of a volume.
#[derive(Clone, Copy)]
pub struct Known {
    pub there: bool,
    pub attach: Probe,
    pub device: Probe,
    /// Another node is known to have it.
    pub on_other_node: bool,
    pub size: Option<u64>,
    /// The variant that the device was mounted with, which its label shows.
    pub label: Option<u8>,
    pub mounts: [Option<KnownMount>; PODS],
    /// By pod; the last is the volume's own.
    pub failures: [Option<FailureProbe>; PODS + 1],
}

impl Known {
    pub const NOTHING: Self = Self {
        there: false,
        attach: Probe::ABSENT,
        device: Probe::ABSENT,
        on_other_node: false,
        size: None,
        label: None,
        mounts: [None; PODS],
        failures: [None; PODS + 1],
    };

    pub fn has_mounts(&self) -> bool {
        self.mounts.iter().any(Option::is_some)
    }

    /// The node has the volume, or may, with another label than this variant's.
    pub fn has_other_label(&self, kind: &Kind, pod: PodId, variant: u8) -> bool {
        let other = || self.label.map_or(self.mounts[pod].is_none(), |label| label != variant);
        kind.labelled && self.device.may_exist() && other()
    }

    /// Whether the operation, on its pod's slot or the volume's, has to wait still.
    pub fn is_waiting(&self, pod: Option<PodId>, name: &str, now: Time) -> bool {
        let waits =
            |slot: usize| self.failures[slot].is_some_and(|failed| failed.name == name && failed.retry_at > now);
        waits(PODS) || pod.is_some_and(waits)
    }
}

/// An operation that ended in the step at hand.
#[derive(Clone, Copy)]
pub struct Ended {
    pub volume: VolumeId,
    pub pod: Option<PodId>,
    pub name: &'static str,
    /// How it failed, if it did.
    pub failed: Option<FailureClass>,
}

pub struct Life {
    pub core: Machine,
    /// The latest time given to the machine.
    pub now: Time,
    pub running: Vec<Running>,
    pub last_id: u64,
    pub pod_reports: [Option<PodReport>; PODS],
    /// The volume that each name of a pod led to when it was last resolved, while the pod wants it.
    pub led_to: [[Option<VolumeId>; KINDS.len()]; PODS],
    pub reported: [bool; VOLUMES],
    pub attachments: Option<[bool; VOLUMES]>,
    /// The volumes that the controller has detached, because the node's status did not name them,
    /// and has not reported yet.
    pub taken_away: [bool; VOLUMES],
    pub synced: bool,
    pub draining: bool,
    /// Recovery is feeding in what it finds.
    pub recovering: bool,
    pub armed: Option<Time>,
    pub waiting: Vec<Waiter>,
    pub known: [Known; VOLUMES],
    /// The reported reason why a pod cannot have a volume now; it is not reported again while it
    /// lasts.
    pub hindered: [[Option<String>; PODS]; VOLUMES],
    /// For each pod that waits for a volume's mount, the pods that were served since, as bits.
    pub overtaken_by: [[u8; PODS]; VOLUMES],
    /// Whether it does wait, as bits.
    pub in_turn: [u8; VOLUMES],
}

impl Life {
    pub fn new(config: Config, settings: &Settings) -> Self {
        Self {
            core: Machine::new(config, settings),
            now: 0,
            running: Vec::new(),
            last_id: 0,
            pod_reports: [None; PODS],
            led_to: [[None; KINDS.len()]; PODS],
            reported: [false; VOLUMES],
            attachments: None,
            taken_away: [false; VOLUMES],
            synced: false,
            draining: false,
            recovering: false,
            armed: None,
            waiting: Vec::new(),
            known: [Known::NOTHING; VOLUMES],
            hindered: std::array::from_fn(|_| std::array::from_fn(|_| None)),
            overtaken_by: [[0; PODS]; VOLUMES],
            in_turn: [0; VOLUMES],
        }
    }

    /// The pod's last reported demand for the volume: variant and capacity. Draining changes
    /// nothing here.
    pub fn said(&self, catalog: &Catalog, pod: PodId, volume: VolumeId) -> Option<(u8, u64)> {
        let of = &catalog.volumes[volume];
        match self.pod_reports[pod]?.demands[of.kind_id] {
            Demand::Wanted { handle, variant, size }
                if of.pod.is_none_or(|owner| owner == pod) && (of.kind.handles == 0 || handle == of.handle) =>
            {
                Some((variant, SMALLEST + u64::from(size)))
            }
            _ => None,
        }
    }

    /// The pod's demand for the volume now.
    pub fn wants(&self, catalog: &Catalog, pod: PodId, volume: VolumeId) -> Option<(u8, u64)> {
        if self.draining { None } else { self.said(catalog, pod, volume) }
    }

    /// Every source has reported, or the node drains.
    pub fn may_take_recovered(&self) -> bool {
        self.synced || self.draining
    }

    /// A pod has a volume that cannot be resolved and that was this one before.
    pub fn is_awaited(&self, catalog: &Catalog, volume: VolumeId) -> bool {
        let kind = catalog.volumes[volume].kind_id;
        let unresolved = |pod_report: PodReport| matches!(pod_report.demands[kind], Demand::Unresolved(_));
        (0..PODS).any(|pod| self.led_to[pod][kind] == Some(volume) && self.pod_reports[pod].is_some_and(unresolved))
    }

    /// The node has staged the volume, or may have, as its PersistentVolume was before an edit.
    pub fn is_staged_before_edit(&self, catalog: &Catalog, volume: VolumeId, known: &Known, variant: u8) -> bool {
        let kind = catalog.volumes[volume].kind;
        kind.edited && known.device.may_exist() && known.label.is_some_and(|staged| staged != variant)
    }

    /// The mount must go before another is made in its place.
    pub fn is_replaced(&self, volume: &crate::kinds::Volume, mount: &KnownMount, variant: u8) -> bool {
        !volume.kind.follows_source
            && !volume.kind.edited
            && mount.variant.is_some_and(|made_with| made_with != variant)
    }

    /// The node's mount has to go though pods want the volume: none of them wants its label.
    pub fn is_relabelled(&self, catalog: &Catalog, volume: VolumeId, known: &Known) -> bool {
        let kind = catalog.volumes[volume].kind;
        let mut users = (0..PODS).filter_map(|pod| Some((pod, self.wants(catalog, pod, volume)?.0))).peekable();
        users.peek().is_some()
            && !known.has_mounts()
            && users.all(|(pod, variant)| {
                known.has_other_label(kind, pod, variant) || self.is_staged_before_edit(catalog, volume, known, variant)
            })
    }

    /// The mount may be a volume of the pod that cannot be resolved.
    pub fn is_kept(&self, volume: &crate::kinds::Volume, pod: PodId, mount: &KnownMount) -> bool {
        self.pod_reports[pod].is_some_and(|pod_report| {
            if mount.named {
                matches!(pod_report.demands[volume.kind_id], Demand::Unresolved(_))
            } else {
                pod_report.any_unresolved()
            }
        })
    }

    /// The pod's volumes are as its source last said, as far as the machine knows.
    pub fn is_ready(&self, catalog: &Catalog, pod: PodId) -> bool {
        let Some(pod_report) = self.pod_reports[pod].filter(|_| !self.draining) else {
            return false;
        };
        (0..KINDS.len()).all(|kind| match pod_report.demands[kind] {
            Demand::Nothing => true,
            Demand::Unresolved(_) => (0..VOLUMES).any(|volume| {
                let usable = |mount: KnownMount| mount.named && mount.state.is_certain() && !mount.leaving;
                catalog.volumes[volume].kind_id == kind && self.known[volume].mounts[pod].is_some_and(usable)
            }),
            Demand::Wanted { handle, .. } => self.is_as_wanted(catalog, pod, catalog.volume_of(pod, kind, handle)),
        })
    }

    /// The mount exists as the pod wants it, as far as the machine knows.
    pub fn is_as_wanted(&self, catalog: &Catalog, pod: PodId, volume: VolumeId) -> bool {
        let Some((variant, capacity)) = self.wants(catalog, pod, volume) else { return false };
        self.known[volume].mounts[pod].is_some_and(|mount| {
            mount.state.is_certain()
                && !mount.leaving
                && (catalog.volumes[volume].kind.edited || mount.variant.is_none_or(|made| made == variant))
                && mount.parts == Some(parts_of(catalog.volumes[volume].kind, capacity))
        })
    }

    /// The pod's mount of the volume lies over one that has to be made anew.
    pub fn loses_base(&self, catalog: &Catalog, pod: PodId, volume: VolumeId, mount: &KnownMount) -> bool {
        let Some(base) = catalog.base_of(volume).filter(|_| mount.needs > 0) else { return false };
        self.is_lost(catalog, pod, base, self.known[base].mounts[pod])
    }

    /// The pod's mount of the base has to be made anew.
    pub fn is_lost(&self, catalog: &Catalog, pod: PodId, base: VolumeId, below: Option<KnownMount>) -> bool {
        let below = below.filter(|below| below.state.may_exist());
        let wanted = self.wants(catalog, pod, base);
        below.zip(wanted).is_some_and(|(below, (variant, _))| self.is_replaced(&catalog.volumes[base], &below, variant))
    }

    /// A mount that exists, or may, or is being made, lies over the pod's mount of the volume.
    pub fn carries(&self, catalog: &Catalog, pod: PodId, volume: VolumeId) -> bool {
        let top = catalog.top_of(volume).and_then(|top| self.known[top].mounts[pod]);
        top.is_some_and(|top| top.needs > 0)
    }

    /// As many volumes of its plugin are attached, or may be, or are being attached, as may be,
    /// this one not among them.
    pub fn has_no_place(&self, catalog: &Catalog, volume: VolumeId) -> bool {
        let counts = |volume: VolumeId| {
            let attaching =
                |running: &Running| running.volume == volume && running.operation.kind == OperationKind::Attach;
            self.known[volume].attach.may_exist() || self.running.iter().any(attaching)
        };
        let of = &catalog.volumes[volume];
        let of_plugin = (0..VOLUMES).filter(|other| catalog.volumes[*other].kind.plugin == of.kind.plugin);
        of.kind.attach_limit.is_some_and(|limit| {
            !counts(volume) && of_plugin.filter(|other| counts(*other)).count() >= usize::try_from(limit).unwrap()
        })
    }

    /// Reads the machine's state of the volume.
    pub fn look(&self, catalog: &Catalog, volume: VolumeId) -> Known {
        let name = &catalog.volumes[volume].name;
        let mut known = Known::NOTHING;
        let found = self.core.probe_volume(name, |uid, mount| {
            known.mounts[Catalog::pod_id(uid)] = Some(KnownMount {
                state: mount.state,
                leaving: mount.leaving,
                stale: mount.stale,
                named: mount.named,
                variant: mount.spec.map(variant_of),
                parts: mount.parts,
                needs: mount.needs,
            });
        });
        if let Some(found) = found {
            known.there = true;
            known.attach = found.attach;
            known.device = found.device;
            known.on_other_node = found.other_node.is_some();
            known.size = found.size;
            known.label = found.label_spec.map(variant_of);
        }
        for (pod, failed) in self.core.probe_failures(name) {
            known.failures[pod.map_or(PODS, Catalog::pod_id)] = Some(failed);
        }
        known
    }
}
