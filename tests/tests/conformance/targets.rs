//! An iSCSI and a Fibre Channel target for the suite: their units are files on loop devices, which
//! this machine's kernel has, and are there while they are connected. `tests/tests/vm` runs the suite
//! against the kernel's targets.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use volhost_kernel::{Errno, KernelError, LinuxKernel, LoopDevices, MountSource};
use volhost_model::fc::{FcDevices, FcError, FcUnit};
use volhost_model::iscsi::{Chap, IscsiError, IscsiSessions, LogicalUnit};
use volhost_model::scsi::UnitDevice;
use volhost_process::linux_kernel;

/// The target's units.
const UNITS: [u32; 2] = [0, 1];
const UNIT_BYTES: u64 = 16 << 20;

/// The target. Dropping it disconnects its units.
#[derive(Debug)]
pub(crate) struct Target {
    kernel: LinuxKernel,
    folder: TempDir,
}

impl Target {
    pub(crate) fn new() -> Self {
        Self { kernel: linux_kernel(), folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, lun: u32) -> PathBuf {
        self.folder.path().join(format!("unit-{lun}.img"))
    }

    fn file(&self, lun: u32) -> Result<MountSource, IscsiError> {
        if !UNITS.contains(&lun) {
            return Err(IscsiError::NotFound(format!("the target has no LUN {lun} for this node")));
        }
        self.kernel.create_image(&self.path(lun), &[self.folder.path().to_owned()], UNIT_BYTES).map_err(failed)
    }

    fn find(&self, lun: u32) -> Result<Option<UnitDevice>, IscsiError> {
        let found = self.kernel.find_loop(&self.file(lun)?).map_err(failed)?;
        Ok(found.map(|device| unit_device(device.path(), device.number().major, device.number().minor)))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        for lun in UNITS {
            let _ = self.file(lun).map(|file| self.kernel.detach_loop(&file));
        }
    }
}

fn unit_device(path: &Path, major: u32, minor: u32) -> UnitDevice {
    UnitDevice { path: path.to_owned(), number: (major, minor) }
}

fn failed(error: KernelError) -> IscsiError {
    match error.errno() {
        Some(Errno::BUSY) => IscsiError::Busy(error.to_string()),
        _ => IscsiError::Retryable(error.to_string()),
    }
}

impl IscsiSessions for Target {
    fn connect(&self, unit: &LogicalUnit, _: Option<&Chap>) -> Result<UnitDevice, IscsiError> {
        let device = self.kernel.attach_loop(&self.file(unit.lun)?, false).map_err(failed)?;
        Ok(unit_device(device.path(), device.number().major, device.number().minor))
    }

    fn rescan(&self, unit: &LogicalUnit) -> Result<UnitDevice, IscsiError> {
        self.find(unit.lun)?.ok_or_else(|| IscsiError::NotFound(format!("{unit} is not connected")))
    }

    fn disconnect(&self, unit: &LogicalUnit) -> Result<(), IscsiError> {
        self.kernel.detach_loop(&self.file(unit.lun)?).map_err(failed)
    }

    fn connected(&self) -> Result<Vec<String>, IscsiError> {
        let mut connected = Vec::new();
        for lun in UNITS {
            if fs::exists(self.path(lun)).unwrap_or_default() && self.find(lun)?.is_some() {
                connected.push(format!("LUN {lun}"));
            }
        }
        Ok(connected)
    }
}

fn lun(unit: &FcUnit) -> Result<LogicalUnit, FcError> {
    match unit {
        FcUnit::AtPorts { lun, .. } => Ok(LogicalUnit {
            target: unit.to_string(),
            lun: *lun,
            portals: Vec::new(),
            interface: String::new(),
            initiator: None,
        }),
        FcUnit::Named(_) => Err(FcError::NotFound(format!("there is no {unit}"))),
    }
}

fn of_fc(error: IscsiError) -> FcError {
    match error {
        IscsiError::NotFound(text) => FcError::NotFound(text),
        IscsiError::Busy(text) => FcError::Busy(text),
        other => FcError::Retryable(other.to_string()),
    }
}

impl FcDevices for Target {
    fn connect(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        IscsiSessions::connect(self, &lun(unit)?, None).map_err(of_fc)
    }

    fn rescan(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        IscsiSessions::rescan(self, &lun(unit)?).map_err(of_fc)
    }

    fn disconnect(&self, unit: &FcUnit) -> Result<(), FcError> {
        IscsiSessions::disconnect(self, &lun(unit)?).map_err(of_fc)
    }

    fn connected(&self) -> Result<Vec<String>, FcError> {
        IscsiSessions::connected(self).map_err(of_fc)
    }
}
