//! What the machine knows of one volume. The simulation compares it with the world after every
//! step; making views would cost more than the steps do.

use volhost_model::VolumeSpec;
use volhost_model::names::{PodUid, UniqueVolumeName};

use crate::core::Core;
use crate::event::Time;
use crate::transitions::{Presence, Stage};

/// Whether something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// It stands for certain, for certain not (`Some`), or perhaps (`None`).
    pub stands: Option<bool>,
    /// Recovery alone speaks for it.
    pub recovered: bool,
}

impl Probe {
    /// Known to be absent.
    pub const ABSENT: Self = Self { stands: Some(false), recovered: false };

    const fn of(stage: Stage) -> Self {
        let stands = match stage.presence {
            Presence::Absent => Some(false),
            Presence::Present => Some(true),
            Presence::Uncertain => None,
        };
        Self { stands, recovered: stage.recovered }
    }

    /// It stands, or may.
    pub const fn may_be(self) -> bool {
        !matches!(self.stands, Some(false))
    }

    /// It stands for certain.
    pub const fn is_certain(self) -> bool {
        matches!(self.stands, Some(true))
    }
}

/// One pod's mount.
#[derive(Debug, Clone, Copy)]
pub struct MountProbe<'a> {
    /// Whether it stands.
    pub stage: Probe,
    /// It is being taken away.
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
    pub elsewhere: Option<&'a str>,
    /// Its size, as far as known.
    pub size: Option<u64>,
    /// What its device was mounted with, as far as known.
    pub label_spec: Option<&'a VolumeSpec>,
}

impl Core {
    /// What is held of the volume; its mounts go to `mount`.
    pub fn probe_volume<'a>(
        &'a self,
        name: &UniqueVolumeName,
        mut mount: impl FnMut(&'a PodUid, MountProbe<'a>),
    ) -> Option<VolumeProbe<'a>> {
        let volume = self.actual.get(name)?;
        for (pod, held) in &volume.mounts {
            let probe = MountProbe {
                stage: Probe::of(held.stage),
                leaving: held.leaving,
                stale: held.remount_required,
                named: !held.outer_names.is_empty(),
                spec: held.spec.as_deref(),
                parts: (!held.parts_unsure)
                    .then(|| held.container_mounts.iter().filter(|mount| mount.sub_path.is_some()).count()),
                needs: held.needs.len(),
            };
            mount(pod, probe);
        }
        Some(VolumeProbe {
            attach: Probe::of(volume.attach),
            device: Probe::of(volume.device),
            elsewhere: volume.elsewhere.as_deref(),
            size: volume.size,
            label_spec: volume.label_spec.as_deref(),
        })
    }

    /// The volume's failed keys, by the pod they are for.
    pub fn probe_failures<'a>(
        &'a self,
        name: &UniqueVolumeName,
    ) -> impl Iterator<Item = (Option<&'a PodUid>, FailureProbe)> + use<'a> {
        self.pending.failed_on(name).map(|(scope, failed)| {
            (
                scope.pod(),
                FailureProbe { name: failed.name.as_str(), failures: failed.failures, retry_at: failed.retry_at },
            )
        })
    }
}
