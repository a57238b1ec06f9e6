//! The real mounts, staging mounts and attachments, and how the end of each operation changes them.

use volhost_core::{DeviceReport, Operation, OperationKind, OperationReport};
use volhost_model::{Failure, FailureClass};

use crate::action::OperationEnd;
use crate::kinds::{Catalog, PODS, PodId, SMALLEST, VOLUMES, VolumeId, capacity_of, variant_of};

/// One pod's mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Real {
    pub variant: u8,
    /// The version of the source that it shows.
    pub version: u32,
    /// Every step of mounting was taken.
    pub complete: bool,
    /// The parts of it that are shown.
    pub parts: usize,
}

/// A mount or attachment that may exist, and what is undecided about it.
#[derive(Clone, Copy, Default)]
pub struct Thing<T> {
    pub real: T,
    /// An operation of uncertain end may yet bring it to this.
    pub late: Option<T>,
    /// It existed before this life of the host, and no operation on it has ended since: a failed
    /// mount may leave it.
    pub old: bool,
    /// The last report on it was a lie: the host's state of it proves nothing about the host.
    pub lied: bool,
}

impl<T: Copy> Thing<T> {
    /// An operation has brought it to this, for certain.
    fn settle(&mut self, real: T) {
        *self = Self { real, late: None, old: false, lied: false };
    }

    /// An operation may have brought it to this, or may yet.
    fn perhaps(&mut self, real: T, now: bool, later: bool) {
        if now {
            self.real = real;
        }
        self.late = later.then_some(real);
        self.lied = false;
    }
}

#[derive(Clone)]
pub struct World {
    pub mounts: [[Thing<Option<Real>>; PODS]; VOLUMES],
    pub devices: [Thing<bool>; VOLUMES],
    pub attached: [Thing<bool>; VOLUMES],
    pub sizes: [Option<u64>; VOLUMES],
    /// The variant whose label each device has, where it is mounted.
    pub labels: [u8; VOLUMES],
    /// Another node has it.
    pub on_other_node: [bool; VOLUMES],
    /// The last attempt to attach it that has ended for certain has found that.
    pub found_on_other_node: [bool; VOLUMES],
}

/// Chance decides by these bits of an action's luck.
const DEVICE_NOW: u8 = 1;
const DEVICE_LATER: u8 = 2;
const NOW: u8 = 4;
const LATER: u8 = 8;
const SAYS: u8 = 16;
const COMPLETE: u8 = 32;

pub const CAUSE: &str = "as fate would have it";

fn failed(class: FailureClass) -> OperationReport {
    OperationReport::failed(Failure::new(class, "sim", CAUSE))
}

impl World {
    pub fn new() -> Self {
        Self {
            mounts: [[Thing::default(); PODS]; VOLUMES],
            devices: [Thing::default(); VOLUMES],
            attached: [Thing::default(); VOLUMES],
            sizes: [None; VOLUMES],
            labels: [0; VOLUMES],
            on_other_node: [false; VOLUMES],
            found_on_other_node: [false; VOLUMES],
        }
    }

    pub fn is_mounted(&self, volume: VolumeId) -> bool {
        self.mounts[volume].iter().any(|mount| mount.real.is_some())
    }

    pub fn any_mount_lied(&self, volume: VolumeId) -> bool {
        self.mounts[volume].iter().any(|mount| mount.lied)
    }

    pub fn anything_lied(&self) -> bool {
        (0..VOLUMES)
            .any(|volume| self.any_mount_lied(volume) || self.devices[volume].lied || self.attached[volume].lied)
    }

    /// Ends the operation, in the world and in the report of it. `version` is what the operation
    /// saw of the source.
    pub fn end(
        &mut self,
        catalog: &Catalog,
        operation: &Operation,
        (volume, pod): (VolumeId, Option<PodId>),
        version: u32,
        fate: OperationEnd,
        luck: u8,
    ) -> OperationReport {
        match operation.kind {
            OperationKind::Mount { staged, remount } => {
                let needs_device = catalog.volumes[volume].kind.stageable && !staged;
                self.end_mount(operation, (volume, pod.unwrap()), needs_device, remount, version, fate, luck)
            }
            OperationKind::Map { staged } => {
                self.end_mount(operation, (volume, pod.unwrap()), !staged, false, version, fate, luck)
            }
            OperationKind::Unmount | OperationKind::Unmap => {
                let mount = &mut self.mounts[volume][pod.unwrap()];
                let report = end_removal(mount, None, fate, luck);
                if let (Some(real), true, true) = (&mut mount.real, report.result.is_err(), luck & COMPLETE == 0) {
                    real.complete &= fate == OperationEnd::Transient;
                }
                report
            }
            // The kernel, and the plugin, refuse what is in use.
            OperationKind::UnmountDevice | OperationKind::UnmapDevice if self.is_mounted(volume) => {
                self.devices[volume].old = false;
                failed(FailureClass::Final)
            }
            OperationKind::Detach if self.devices[volume].real => {
                self.attached[volume].old = false;
                failed(FailureClass::Final)
            }
            OperationKind::UnmountDevice | OperationKind::UnmapDevice => {
                end_removal(&mut self.devices[volume], false, fate, luck)
            }
            OperationKind::Detach => end_removal(&mut self.attached[volume], false, fate, luck),
            OperationKind::Attach => self.end_attach(volume, fate, luck),
            OperationKind::VerifyControllerAttached => match fate {
                OperationEnd::Done if self.attached[volume].real => OperationReport::done(),
                OperationEnd::Lie => {
                    self.attached[volume].lied = !self.attached[volume].real;
                    OperationReport::done()
                }
                OperationEnd::Transient => failed(FailureClass::Transient),
                OperationEnd::Uncertain => failed(FailureClass::Uncertain),
                _ => failed(FailureClass::Final),
            },
            OperationKind::Expand { to, .. } => match fate {
                OperationEnd::Done | OperationEnd::Lie => {
                    self.sizes[volume] = Some(to);
                    let size = (luck & SAYS != 0).then_some(to);
                    OperationReport { size, ..OperationReport::done() }
                }
                OperationEnd::Uncertain | OperationEnd::UncertainAtDevice => {
                    if luck & NOW != 0 {
                        self.sizes[volume] = Some(to);
                    }
                    failed(FailureClass::Uncertain)
                }
                OperationEnd::Transient => failed(FailureClass::Transient),
                _ => failed(FailureClass::Final),
            },
        }
    }

    fn end_attach(&mut self, volume: VolumeId, fate: OperationEnd, luck: u8) -> OperationReport {
        let on_other_node = self.on_other_node[volume];
        let attached = &mut self.attached[volume];
        match fate {
            OperationEnd::Done if !on_other_node => {
                attached.settle(true);
                self.found_on_other_node[volume] = false;
                OperationReport { device_path: Some("/dev/sim".to_owned()), ..OperationReport::done() }
            }
            OperationEnd::Uncertain | OperationEnd::UncertainAtDevice => {
                attached.perhaps(true, luck & NOW != 0, luck & LATER != 0);
                failed(FailureClass::Uncertain)
            }
            OperationEnd::Transient => failed(FailureClass::Transient),
            OperationEnd::Lie => {
                attached.lied = !attached.real || attached.late.is_some();
                self.found_on_other_node[volume] = false;
                OperationReport::done()
            }
            _ => {
                if !attached.old {
                    attached.settle(false);
                }
                self.found_on_other_node[volume] = on_other_node;
                let on_other_node = on_other_node.then(|| "other".to_owned());
                OperationReport { other_node: on_other_node, ..failed(FailureClass::Final) }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of them decide how it ends")]
    fn end_mount(
        &mut self,
        operation: &Operation,
        (volume, pod): (VolumeId, PodId),
        needs_device: bool,
        remount: bool,
        version: u32,
        fate: OperationEnd,
        luck: u8,
    ) -> OperationReport {
        let spec = operation.spec.as_ref().unwrap();
        let variant = variant_of(spec);
        let parts = operation.container_mounts.len();
        let (device, mount) = (&mut self.devices[volume], &mut self.mounts[volume][pod]);
        if needs_device && (!device.real || device.lied || device.old) {
            self.labels[volume] = variant;
        }
        match fate {
            OperationEnd::Transient => failed(FailureClass::Transient),
            OperationEnd::Done => {
                // The node's mount is looked at each time, and made where it is missing.
                if operation.stageable {
                    device.settle(true);
                }
                let size = self.sizes[volume].unwrap_or(SMALLEST).max(capacity_of(spec));
                self.sizes[volume] = Some(size);
                mount.settle(Some(Real { variant, version, complete: true, parts }));
                let device = (needs_device && luck & SAYS != 0).then_some(DeviceReport::Mounted);
                OperationReport { device, ..OperationReport::done() }
            }
            OperationEnd::FinalAtDevice if needs_device => {
                if !device.old {
                    device.settle(false);
                }
                let device = (luck & SAYS != 0).then_some(DeviceReport::Unmounted);
                OperationReport { device, ..failed(FailureClass::Final) }
            }
            OperationEnd::UncertainAtDevice if needs_device => {
                device.perhaps(true, luck & DEVICE_NOW != 0, luck & DEVICE_LATER != 0);
                OperationReport { device: Some(DeviceReport::Uncertain), ..failed(FailureClass::Uncertain) }
            }
            OperationEnd::Final | OperationEnd::FinalAtDevice => {
                // A mount operation that ended without success has left nothing, unless it only
                // refreshed an existing mount, or never saw it.
                if !remount && !mount.old {
                    mount.settle(None);
                }
                if !needs_device {
                    return failed(FailureClass::Final);
                }
                device.settle(true);
                OperationReport { device: Some(DeviceReport::Mounted), ..failed(FailureClass::Final) }
            }
            OperationEnd::Uncertain | OperationEnd::UncertainAtDevice => {
                let complete = mount.real.map_or(luck & COMPLETE != 0, |real| real.complete);
                let real = Some(Real { variant, version, complete, parts });
                if needs_device {
                    device.perhaps(true, luck & DEVICE_NOW != 0, luck & DEVICE_LATER != 0);
                }
                let there = device.real;
                let reaches = !needs_device || there;
                if remount {
                    // It exists; only its content is undecided.
                    if luck & NOW != 0 {
                        mount.real = mount.real.and(real);
                    }
                } else {
                    mount.perhaps(real, reaches && luck & NOW != 0, reaches && luck & LATER != 0);
                }
                let device = (needs_device && there && luck & SAYS != 0).then_some(DeviceReport::Mounted);
                OperationReport { device, ..failed(FailureClass::Uncertain) }
            }
            OperationEnd::Lie => {
                let as_reported = |real: Real| {
                    real.complete && real.variant == variant && real.version == version && real.parts == parts
                };
                mount.lied |= !mount.real.is_some_and(as_reported) || mount.late.is_some();
                device.lied |= operation.stageable && (!device.real || (needs_device && device.late.is_some()));
                OperationReport::done()
            }
        }
    }
}

fn end_removal<T: Copy + PartialEq>(thing: &mut Thing<T>, gone: T, fate: OperationEnd, luck: u8) -> OperationReport {
    match fate {
        OperationEnd::Done => {
            thing.settle(gone);
            OperationReport::done()
        }
        OperationEnd::Transient => failed(FailureClass::Transient),
        OperationEnd::Lie => {
            thing.lied = thing.real != gone || thing.late.is_some();
            thing.old = false;
            OperationReport::done()
        }
        OperationEnd::Final | OperationEnd::FinalAtDevice => {
            thing.perhaps(gone, luck & NOW != 0, false);
            thing.old = false;
            failed(FailureClass::Final)
        }
        OperationEnd::Uncertain | OperationEnd::UncertainAtDevice => {
            thing.perhaps(gone, luck & NOW != 0, luck & LATER != 0);
            thing.old = false;
            failed(FailureClass::Uncertain)
        }
    }
}
