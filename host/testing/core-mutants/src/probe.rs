//! What the machine knows of one volume. The simulation compares it with the world after every
//! step; making views would cost more than the steps do.

use volhost_model::VolumeSpec;
use volhost_model::names::{PodUid, UniqueVolumeName};

use crate::core::Core;
use crate::event::Time;
use crate::transitions::{MountState, Presence};

/// Whether something exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// It exists for certain, for certain not (`Some`), or perhaps (`None`).
    pub exists: Option<bool>,
    /// Only recovery found it.
    pub recovered: bool,
}

impl Probe {
    /// Known to be absent.
    pub const ABSENT: Self = Self { exists: Some(false), recovered: false };

    const fn of(state: MountState) -> Self {
        let exists = match state.presence() {
            Presence::Absent => Some(false),
            Presence::Present => Some(true),
            Presence::Uncertain => None,
        };
        Self { exists, recovered: state.is_recovered() }
    }

    /// It exists, or may.
    pub const fn may_exist(self) -> bool {
        !matches!(self.exists, Some(false))
    }

    /// It exists for certain.
    pub const fn is_certain(self) -> bool {
        matches!(self.exists, Some(true))
    }
}

/// One pod's mount.
#[derive(Debug, Clone, Copy)]
pub struct MountProbe<'a> {
    /// Whether it exists.
    pub state: Probe,
    /// It is being unmounted.
    pub leaving: bool,
    /// Its content may be stale.
    pub stale: bool,
    /// It has a name in its pod.
    pub named: bool,
    /// What it was mounted with.
    pub spec: Option<&'a VolumeSpec>,
    /// How many parts of it were made ready; none when that is not known.
    pub parts: Option<usize>,
    /// How many volumes it is made of, as far as known.
    pub needs: usize,
}

/// A failed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureProbe {
    /// The operation.
    pub name: &'static str,
    /// Failures in a row.
    pub failures: u32,
    /// When it may be tried again.
    pub retry_at: Time,
}

/// The volume itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeProbe<'a> {
    /// Its attachment.
    pub attach: Probe,
    /// Its device mount.
    pub device: Probe,
    /// The other node that has it, as far as known.
    pub other_node: Option<&'a str>,
    /// Its size, as far as known.
    pub size: Option<u64>,
    /// What its device was mounted with, as far as known.
    pub label_spec: Option<&'a VolumeSpec>,
}

impl Core {
    /// Returns what is known of the volume; its mounts go to `mount`.
    pub fn probe_volume<'a>(
        &'a self,
        name: &UniqueVolumeName,
        mut mount: impl FnMut(&'a PodUid, MountProbe<'a>),
    ) -> Option<VolumeProbe<'a>> {
        let volume = self.actual().get(self.volume_id(name)?)?;
        for (pod, known) in volume.mounts.iter() {
            let probe = MountProbe {
                state: Probe::of(known.state),
                leaving: known.leaving,
                stale: known.remount_required,
                named: !known.outer_names.is_empty(),
                spec: known.spec.as_deref(),
                parts: (!known.parts_unsure)
                    .then(|| known.container_mounts.iter().filter(|mount| mount.sub_path.is_some()).count()),
                needs: known.needs.len(),
            };
            mount(pod.name(), probe);
        }
        Some(VolumeProbe {
            attach: Probe::of(volume.attach),
            device: Probe::of(volume.device),
            other_node: volume.other_node.as_deref(),
            size: volume.size,
            label_spec: volume.label_spec.as_deref(),
        })
    }

    /// The volume's failed keys, by the pod they are for.
    pub fn probe_failures<'a>(
        &'a self,
        name: &UniqueVolumeName,
    ) -> impl Iterator<Item = (Option<&'a PodUid>, FailureProbe)> + use<'a> {
        let volume = self.volume_id(name);
        volume.into_iter().flat_map(|volume| self.pending().failed_on(volume)).map(|(scope, failed)| {
            (
                scope.pod().map(|pod| pod.name()),
                FailureProbe { name: failed.name.as_str(), failures: failed.failures, retry_at: failed.retry_at },
            )
        })
    }
}
