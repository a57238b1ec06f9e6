//! The steps: a unit is looked for, asked for its size, removed.

use std::fs::{self, File};
use std::path::Path;

use volhost_model::fc::{FcDevices, FcError, FcUnit};
use volhost_model::scsi::UnitDevice;
use volhost_scsi::{Map, ScsiError, Unit, is_in_use};

use crate::fabric::{adapters, ports, scan};
use crate::places::Places;

/// The folder of udev's links by units' names, among the device nodes, and how those of SCSI units
/// begin.
const BY_NAME: &str = "disk/by-id/scsi-";

/// The node's Fibre Channel host adapters.
#[derive(Debug)]
pub struct HostAdapters {
    places: Places,
}

impl HostAdapters {
    /// The adapters at these places.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self { places }
    }

    /// The paths to the unit, in the order of the adapters' ports.
    fn paths(&self, unit: &FcUnit) -> Result<Vec<Unit>, ScsiError> {
        let mut paths = Vec::new();
        for port in ports(&self.places.sysfs)? {
            for found in port.units()? {
                let is_it = match unit {
                    FcUnit::AtPorts { ports, lun } => ports.contains(&port.name) && found.lun() == *lun,
                    FcUnit::Named(names) => names.iter().any(|name| self.is_named(&found, name)),
                };
                if is_it {
                    paths.push(found);
                }
            }
        }
        Ok(paths)
    }

    /// Returns whether the unit has this name: by what it says itself, or by udev's link, which may
    /// be of the map over the unit's paths.
    fn is_named(&self, unit: &Unit, name: &str) -> bool {
        if unit.identity().is_some_and(|identity| as_udev_writes(&identity).as_deref() == Some(name)) {
            return true;
        }
        let Ok(linked) = fs::canonicalize(self.places.devices.join(format!("{BY_NAME}{name}"))) else { return false };
        let is_it = |device: &UnitDevice| fs::canonicalize(&device.path).is_ok_and(|path| path == linked);
        let devices = &self.places.devices;
        unit.device(devices).is_some_and(|device| is_it(&device))
            || unit.map(devices).is_some_and(|map| is_it(map.device()))
    }

    /// How many of the ports that lead to the unit answer; none for a unit that is found by its
    /// own name, whose ports are not known.
    fn ports_online(&self, unit: &FcUnit) -> Result<Option<usize>, ScsiError> {
        let FcUnit::AtPorts { ports: names, .. } = unit else { return Ok(None) };
        let seen = ports(&self.places.sysfs)?;
        Ok(Some(seen.iter().filter(|port| names.contains(&port.name) && port.is_online()).count()))
    }

    /// The map over these paths.
    fn map(&self, paths: &[Unit]) -> Option<Map> {
        paths.iter().find_map(|path| path.map(&self.places.devices))
    }

    /// Why no path leads to the unit.
    fn why_not(&self, unit: &FcUnit) -> Result<FcError, ScsiError> {
        let FcUnit::AtPorts { ports: names, lun } = unit else {
            return Ok(FcError::NotFound(format!(
                "{unit}: no port that this node sees has a unit of that name; is it mapped to this node?"
            )));
        };
        let seen: Vec<_> = ports(&self.places.sysfs)?.into_iter().filter(|port| names.contains(&port.name)).collect();
        if seen.is_empty() {
            return Ok(FcError::Retryable(format!(
                "{unit}: no adapter of this node sees the port; look at the zoning and the cable"
            )));
        }
        match seen.iter().find(|port| !port.is_online()) {
            Some(port) if !seen.iter().any(crate::fabric::Port::is_online) => {
                Ok(FcError::Retryable(format!("{unit}: the port is {}", port.state.to_lowercase())))
            }
            _ => Ok(FcError::NotFound(format!("{unit}: the target has no LUN {lun} for this node"))),
        }
    }

    fn find(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        let failed = |error: ScsiError| of_unit(unit, &error);
        let sysfs = &self.places.sysfs;
        let adapters = adapters(sysfs).map_err(failed)?;
        if adapters.is_empty() {
            return Err(FcError::NotReady(format!(
                "{unit}: this node has no Fibre Channel host adapter, or its driver is not loaded"
            )));
        }
        let mut paths = self.paths(unit).map_err(failed)?;
        let expected = self.ports_online(unit).map_err(failed)?.unwrap_or(1);
        if paths.len() < expected.max(1) {
            let lun = match unit {
                FcUnit::AtPorts { lun, .. } => Some(*lun),
                FcUnit::Named(_) => None,
            };
            for adapter in &adapters {
                if let Err(error) = scan(sysfs, adapter, lun) {
                    tracing::warn!(%unit, %adapter, %error, "an adapter cannot look for an FC unit");
                }
            }
            paths = self.paths(unit).map_err(failed)?;
        }
        self.device(unit, &paths)
    }

    /// The device of a unit with these paths.
    fn device(&self, unit: &FcUnit, paths: &[Unit]) -> Result<UnitDevice, FcError> {
        let failed = |error: ScsiError| of_unit(unit, &error);
        if paths.is_empty() {
            return Err(self.why_not(unit).map_err(failed)?);
        }
        let mut found = Vec::new();
        let mut failure = None;
        for path in paths {
            match path.wait_for_device(&self.places.devices) {
                Ok(device) => found.push((path.is_running(), device)),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(map) = self.map(paths) {
            return Ok(map.device().clone());
        }
        // The one that is used already stays the one; otherwise one that takes commands.
        let used = found.iter().position(|(_, device)| is_in_use(device));
        let at = used.or_else(|| found.iter().position(|(running, _)| *running)).unwrap_or(0);
        match (found.into_iter().nth(at), failure) {
            (Some((_, device)), _) => Ok(device),
            (None, Some(error)) => Err(failed(error)),
            (None, None) => Err(self.why_not(unit).map_err(failed)?),
        }
    }

    fn measure(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        let failed = |error: ScsiError| of_unit(unit, &error);
        let paths = self.paths(unit).map_err(failed)?;
        if paths.is_empty() {
            return Err(FcError::NotFound(format!("{unit} is not connected to this node")));
        }
        for path in &paths {
            match path.rescan() {
                // A path that is down does not matter while another leads to the unit.
                Err(error) if path.is_running() => return Err(failed(error)),
                _ => {}
            }
        }
        if let Some(map) = self.map(&paths) {
            map.grow(&self.places.programs).map_err(failed)?;
        }
        self.device(unit, &paths)
    }

    fn remove(&self, unit: &FcUnit) -> Result<(), ScsiError> {
        let mut paths = self.paths(unit)?;
        if let Some(map) = self.map(&paths) {
            if is_in_use(map.device()) {
                return Err(ScsiError::InUse(map.device().path.clone()));
            }
            // Also those by ports that the volume does not name: multipathd would make the map
            // again over what is left.
            paths = self.paths_below(&map)?;
            flush(map.device());
            map.remove(&self.places.programs)?;
        }
        let device = |path: &Unit| path.device(&self.places.devices);
        if let Some(used) = paths.iter().filter_map(device).find(is_in_use) {
            return Err(ScsiError::InUse(used.path));
        }
        for path in &paths {
            if let Some(device) = device(path).filter(|_| path.is_running()) {
                flush(&device);
            }
            path.remove()?;
        }
        Ok(())
    }

    /// The units that are paths of this map.
    fn paths_below(&self, map: &Map) -> Result<Vec<Unit>, ScsiError> {
        let mut paths = Vec::new();
        for port in ports(&self.places.sysfs)? {
            paths.extend(port.units()?.into_iter().filter(|unit| unit.map(&self.places.devices).as_ref() == Some(map)));
        }
        Ok(paths)
    }
}

/// Writes what the kernel still has of a raw device. A file system has written its own when it was
/// unmounted.
fn flush(device: &UnitDevice) {
    if let Err(error) = File::open(&device.path).and_then(|file| file.sync_all()) {
        tracing::warn!(device = %Path::display(&device.path), %error, "an FC device could not be flushed before it was removed");
    }
}

/// The name of a unit as udev writes it: the kernel begins it with the kind of name, udev with that
/// kind's number.
fn as_udev_writes(identity: &str) -> Option<String> {
    let (kind, name) = identity.split_once('.')?;
    let number = match kind {
        "t10" => 1,
        "eui" => 2,
        "naa" => 3,
        _ => return None,
    };
    let words: Vec<&str> = name.split_whitespace().collect();
    Some(format!("{number}{}", words.join("_")))
}

/// The error of a unit from that of a step.
fn of_unit(unit: &FcUnit, error: &ScsiError) -> FcError {
    let text = format!("{unit}: {error}");
    match error {
        ScsiError::NoMultipath => FcError::NotReady(text),
        ScsiError::InUse(_) => FcError::Busy(text),
        _ => FcError::Retryable(text),
    }
}

impl FcDevices for HostAdapters {
    fn connect(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        self.find(unit)
    }

    fn rescan(&self, unit: &FcUnit) -> Result<UnitDevice, FcError> {
        self.measure(unit)
    }

    fn disconnect(&self, unit: &FcUnit) -> Result<(), FcError> {
        self.remove(unit).map_err(|error| of_unit(unit, &error))
    }

    fn connected(&self) -> Result<Vec<String>, FcError> {
        let unread = |error: ScsiError| FcError::Retryable(error.to_string());
        let mut connected = Vec::new();
        for port in ports(&self.places.sysfs).map_err(unread)? {
            let units = port.units().map_err(unread)?;
            connected.extend(units.iter().map(|unit| format!("{} at {}", unit.name(), port.name)));
        }
        Ok(connected)
    }
}
