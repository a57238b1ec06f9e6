//! What is really mounted, staged and attached, and what the end of each operation does to it.

use std::collections::{BTreeMap, BTreeSet};

use volhost_core::{DeviceReport, Operation, OperationKind, OperationReport};
use volhost_model::names::{PodUid, UniqueVolumeName};
use volhost_model::{Failure, FailureClass};

use crate::random::Random;
use crate::volumes::{kind_of, variant_of};

pub type Place = (PodUid, UniqueVolumeName);

#[derive(Default)]
pub struct Truth {
    /// Mounts, with the variant of the spec they were made with and the source's version they show.
    pub mounts: BTreeMap<Place, Real>,
    pub devices: BTreeSet<UniqueVolumeName>,
    pub attached: BTreeSet<UniqueVolumeName>,
    pub sizes: BTreeMap<UniqueVolumeName, u64>,
    /// Stood before this life of the machine, and no operation on it has ended since: a failure of set-up may leave it.
    pub old_mounts: BTreeSet<Place>,
    pub old_devices: BTreeSet<UniqueVolumeName>,
    pub old_attached: BTreeSet<UniqueVolumeName>,
}

#[derive(Clone, Copy)]
pub struct Real {
    pub variant: u64,
    pub version: u64,
}

/// How an operation is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Done,
    Final,
    /// The device fails, before the pod's mount is tried.
    FinalAtDevice,
    Uncertain,
    Transient,
}

pub fn any_fate(random: &mut Random) -> Fate {
    match random.below(10) {
        0..=4 => Fate::Done,
        5 => Fate::Final,
        6 => Fate::FinalAtDevice,
        7 | 8 => Fate::Uncertain,
        _ => Fate::Transient,
    }
}

fn failed(class: FailureClass) -> OperationReport {
    OperationReport::failed(Failure::new(class, "sim", "as fate would have it"))
}

impl Truth {
    /// Ends the operation, in the world and in the report of it. `version` is what the operation saw of the source.
    pub fn end(&mut self, operation: &Operation, version: u64, fate: Fate, random: &mut Random) -> OperationReport {
        let volume = operation.volume.clone();
        let place = operation.pod_uid.clone().map(|pod| (pod, volume.clone()));
        match operation.kind {
            OperationKind::Mount { device_mounted, remount } => {
                self.end_mount(operation, device_mounted, remount, version, fate, random)
            }
            OperationKind::Map { device_mounted } => {
                self.end_mount(operation, device_mounted, false, version, fate, random)
            }
            OperationKind::Unmount | OperationKind::Unmap => {
                let place = place.unwrap();
                self.old_mounts.remove(&place);
                end_removal(fate, random, || self.mounts.remove(&place).is_some())
            }
            OperationKind::UnmountDevice | OperationKind::UnmapDevice => {
                self.old_devices.remove(&volume);
                end_removal(fate, random, || self.devices.remove(&volume))
            }
            OperationKind::Detach => {
                self.old_attached.remove(&volume);
                end_removal(fate, random, || self.attached.remove(&volume))
            }
            OperationKind::Attach => match fate {
                Fate::Done => {
                    self.old_attached.remove(&volume);
                    self.attached.insert(volume);
                    OperationReport { device_path: Some("/dev/sim".to_owned()), ..OperationReport::done() }
                }
                Fate::Final | Fate::FinalAtDevice => {
                    if !self.old_attached.contains(&volume) {
                        self.attached.remove(&volume);
                    }
                    failed(FailureClass::Final)
                }
                Fate::Uncertain => {
                    if random.chance(50) {
                        self.attached.insert(volume);
                    }
                    failed(FailureClass::Uncertain)
                }
                Fate::Transient => failed(FailureClass::Transient),
            },
            OperationKind::VerifyControllerAttached => match fate {
                Fate::Done if self.attached.contains(&volume) => OperationReport::done(),
                Fate::Transient => failed(FailureClass::Transient),
                _ => failed(FailureClass::Final),
            },
            OperationKind::Expand { to, .. } => match fate {
                Fate::Done => {
                    self.sizes.insert(volume, to);
                    OperationReport { size: Some(to), ..OperationReport::done() }
                }
                Fate::Uncertain => failed(FailureClass::Uncertain),
                _ => failed(FailureClass::Final),
            },
        }
    }

    fn end_mount(
        &mut self,
        operation: &Operation,
        device_mounted: bool,
        remount: bool,
        version: u64,
        fate: Fate,
        random: &mut Random,
    ) -> OperationReport {
        let volume = operation.volume.clone();
        let place = (operation.pod_uid.clone().unwrap(), volume.clone());
        let spec = operation.spec.clone().unwrap();
        let real = Real { variant: variant_of(&spec), version };
        let needs_device = kind_of(&volume).device_mountable && !device_mounted;
        let (old_mount, old_device) = (self.old_mounts.contains(&place), self.old_devices.contains(&volume));
        match fate {
            Fate::Transient => failed(FailureClass::Transient),
            Fate::Done => {
                if needs_device {
                    self.devices.insert(volume.clone());
                    self.old_devices.remove(&volume);
                }
                let size = self.sizes.entry(volume).or_default();
                *size = (*size).max(spec.persistent_volume.as_ref().and_then(|pv| pv.capacity).unwrap_or(0));
                self.old_mounts.remove(&place);
                self.mounts.insert(place, real);
                let device = (needs_device && random.chance(50)).then_some(DeviceReport::Mounted);
                OperationReport { device, ..OperationReport::done() }
            }
            Fate::FinalAtDevice if needs_device => {
                if !old_device {
                    self.devices.remove(&volume);
                }
                self.final_mount(&place, remount, old_mount);
                OperationReport { device: Some(DeviceReport::Unmounted), ..failed(FailureClass::Final) }
            }
            Fate::Final | Fate::FinalAtDevice => {
                self.final_mount(&place, remount, old_mount);
                if !needs_device {
                    return failed(FailureClass::Final);
                }
                self.devices.insert(volume);
                OperationReport { device: Some(DeviceReport::Mounted), ..failed(FailureClass::Final) }
            }
            Fate::Uncertain => {
                if needs_device && random.chance(50) {
                    self.devices.insert(volume.clone());
                    if random.chance(50) {
                        self.mounts.insert(place, real);
                        return OperationReport {
                            device: Some(DeviceReport::Mounted),
                            ..failed(FailureClass::Uncertain)
                        };
                    }
                } else if !needs_device && random.chance(50) {
                    self.mounts.insert(place, real);
                }
                failed(FailureClass::Uncertain)
            }
        }
    }

    /// A set-up that ended without success has left nothing, unless something was there that it only refreshed or never saw.
    fn final_mount(&mut self, place: &Place, remount: bool, old: bool) {
        if !remount && !old {
            self.mounts.remove(place);
        }
    }
}

fn end_removal(fate: Fate, random: &mut Random, remove: impl FnOnce() -> bool) -> OperationReport {
    match fate {
        Fate::Done => {
            remove();
            OperationReport::done()
        }
        Fate::Transient => failed(FailureClass::Transient),
        Fate::Final | Fate::FinalAtDevice | Fate::Uncertain => {
            if random.chance(50) {
                remove();
            }
            failed(if fate == Fate::Uncertain { FailureClass::Uncertain } else { FailureClass::Final })
        }
    }
}
