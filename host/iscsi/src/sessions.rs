//! The steps: a unit is connected, asked for its size, disconnected.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use volhost_model::iscsi::{Chap, IscsiError, IscsiSessions, LogicalUnit};
use volhost_model::scsi::UnitDevice;
use volhost_scsi::{Map, ScsiError, Unit, is_in_use};

use crate::error::{PortalError, combined, of_map};
use crate::login::{forget, interface_of, log_in, log_out, probe};
use crate::places::Places;
use crate::records::{self, Settings};
use crate::sysfs::{Session, sessions};

/// Locks by target.
type Locks = BTreeMap<String, Arc<Mutex<()>>>;

/// The node's open-iscsi.
#[derive(Debug)]
pub struct OpenIscsi {
    places: Places,
    /// One step at a time on a target: whether a session has another unit must not change between
    /// the question and the logout.
    locks: Mutex<Locks>,
}

/// A way to a unit.
struct Path {
    device: UnitDevice,
    portal: SocketAddr,
}

impl OpenIscsi {
    /// The initiator at these places.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self { places, locks: Mutex::default() }
    }

    fn locked<T>(&self, unit: &LogicalUnit, step: impl FnOnce() -> T) -> T {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that no step uses.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(unit.target.clone()).or_default())
        };
        let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
        step()
    }

    /// The sessions that lead to the unit, in the order of its portals.
    fn sessions_of(&self, unit: &LogicalUnit) -> Result<Vec<Session>, IscsiError> {
        let interface = interface_of(unit);
        let all = sessions(&self.places.sysfs).map_err(|error| IscsiError::Retryable(error.to_string()))?;
        let place = |session: &Session| unit.portals.iter().position(|portal| *portal == session.portal);
        let leads = |session: &Session| session.target == unit.target && session.interface == interface;
        let mut found: Vec<Session> =
            all.into_iter().filter(|session| leads(session) && place(session).is_some()).collect();
        found.sort_by_key(place);
        Ok(found)
    }

    /// Makes the sessions that are missing, with the portals that answer; returns the failures.
    fn log_in_all(
        &self,
        unit: &LogicalUnit,
        missing: &[SocketAddr],
        settings: &Settings,
    ) -> Vec<(SocketAddr, PortalError)> {
        // All at once: a dead portal takes its time.
        let probed: Vec<(SocketAddr, Result<(), PortalError>)> = thread::scope(|scope| {
            let probes: Vec<_> = missing.iter().map(|portal| (*portal, scope.spawn(|| probe(*portal)))).collect();
            let lost = || PortalError::Unreachable(std::io::ErrorKind::Other.into());
            probes.into_iter().map(|(portal, probe)| (portal, probe.join().unwrap_or_else(|_| Err(lost())))).collect()
        });
        let mut failures = Vec::new();
        for (portal, answers) in probed {
            let failed = answers.and_then(|()| log_in(&self.places, unit, portal, settings)).err();
            failures.extend(failed.map(|error| (portal, error)));
        }
        failures
    }

    /// The unit's device by this session: it appears if the target has the unit.
    fn device_by(&self, session: &Session, lun: u32) -> Result<UnitDevice, PortalError> {
        if !session.is_logged_in() {
            return Err(PortalError::Recovering(session.state.to_lowercase()));
        }
        if session.unit(lun)?.is_none() {
            session.scan(lun)?;
        }
        let found = session.unit(lun)?.ok_or(PortalError::NoUnit(lun))?;
        Ok(found.wait_for_device(&self.places.devices)?)
    }

    /// Ends the sessions of these that have no unit, if volhost made them.
    fn end_unused(&self, unit: &LogicalUnit, sessions: &[Session]) -> Result<(), PortalError> {
        for session in sessions {
            if self.is_own(session) && session.units()?.is_empty() {
                log_out(&self.places, unit, session)?;
            }
        }
        Ok(())
    }

    fn is_own(&self, session: &Session) -> bool {
        records::is_own(&self.places, &session.target, session.portal, &session.interface)
    }

    /// Removes the unit's device of a session.
    fn remove(&self, session: &Session, lun: u32) -> Result<(), PortalError> {
        let Some(found) = session.unit(lun)?.filter(|_| self.is_own(session)) else { return Ok(()) };
        if let Some(device) = found.device(&self.places.devices).filter(is_in_use) {
            return Err(ScsiError::InUse(device.path).into());
        }
        // The kernel would wait for a target that is gone; with its session the unit goes at once.
        if !session.is_logged_in() && session.units()?.len() == 1 {
            return Ok(());
        }
        Ok(found.remove()?)
    }

    /// The multipath map over the unit's paths.
    fn map(&self, sessions: &[Session], lun: u32) -> Option<Map> {
        let mut units = sessions.iter().filter_map(|session| session.unit(lun).ok().flatten());
        units.find_map(|unit| unit.map(&self.places.devices))
    }

    /// Removes the multipath map over the unit's paths, so that these can go. Returns whether the
    /// unit stays as it is: one of its paths is the administrator's.
    fn remove_map(&self, sessions: &[Session], lun: u32) -> Result<bool, PortalError> {
        let Some(map) = self.map(sessions, lun) else { return Ok(false) };
        for session in sessions {
            if !self.is_own(session) && session.unit(lun)?.is_some() {
                return Ok(true);
            }
        }
        if is_in_use(map.device()) {
            return Err(ScsiError::InUse(map.device().path.clone()).into());
        }
        map.remove(&self.places.programs)?;
        Ok(false)
    }

    fn connect_alone(&self, unit: &LogicalUnit, chap: Option<&Chap>) -> Result<UnitDevice, IscsiError> {
        let settings = Settings::new(chap)?;
        let before = self.sessions_of(unit)?;
        let missing: Vec<SocketAddr> = unit
            .portals
            .iter()
            .copied()
            .filter(|portal| !before.iter().any(|session| session.portal == *portal))
            .collect();
        let mut failures = self.log_in_all(unit, &missing, &settings);
        let sessions = self.sessions_of(unit)?;
        let mut paths = Vec::new();
        for session in &sessions {
            match self.device_by(session, unit.lun) {
                Ok(device) => paths.push(Path { device, portal: session.portal }),
                Err(error) => failures.push((session.portal, error)),
            }
        }
        if let Some(map) = self.map(&sessions, unit.lun) {
            return Ok(map.device().clone());
        }
        // The one that is used already stays the one.
        let at = paths.iter().position(|path| is_in_use(&path.device)).unwrap_or(0);
        let Some(path) = paths.into_iter().nth(at) else {
            let error = combined(unit, &failures);
            if let Err(kept) = self.end_unused(unit, &sessions) {
                tracing::warn!(%unit, error = %kept, "an iSCSI session without a unit stays");
            }
            return Err(error);
        };
        for (portal, error) in failures {
            tracing::warn!(%unit, %portal, %error, by = %path.portal, "a portal does not lead to the iSCSI unit; another one does");
        }
        Ok(path.device)
    }

    fn rescan_alone(&self, unit: &LogicalUnit) -> Result<UnitDevice, IscsiError> {
        let mut paths = Vec::new();
        let mut failures = Vec::new();
        for session in self.sessions_of(unit)? {
            let portal = session.portal;
            let rescanned = session.unit(unit.lun).and_then(|found: Option<Unit>| {
                let found = found.ok_or(PortalError::NoUnit(unit.lun))?;
                found.rescan()?;
                Ok(found.wait_for_device(&self.places.devices)?)
            });
            match rescanned {
                Ok(device) => paths.push(device),
                Err(error) => failures.push((portal, error)),
            }
        }
        if let Some(map) = self.map(&self.sessions_of(unit)?, unit.lun) {
            map.grow(&self.places.programs).map_err(|error| of_map(unit, &error.into()))?;
            return Ok(map.device().clone());
        }
        let at = paths.iter().position(is_in_use).unwrap_or(0);
        match paths.into_iter().nth(at) {
            Some(device) => Ok(device),
            None if failures.is_empty() => Err(IscsiError::NotFound(format!("{unit} is not connected to this node"))),
            None => Err(combined(unit, &failures)),
        }
    }

    fn disconnect_alone(&self, unit: &LogicalUnit) -> Result<(), IscsiError> {
        let sessions = self.sessions_of(unit)?;
        let stays = self.remove_map(&sessions, unit.lun).map_err(|error| of_map(unit, &error))?;
        if stays {
            return Ok(());
        }
        for session in &sessions {
            let removed = self.remove(session, unit.lun).and_then(|()| self.end(unit, session));
            removed.map_err(|error| combined(unit, &[(session.portal, error)]))?;
        }
        // What a login left that was interrupted.
        for portal in unit.portals.iter().filter(|portal| !sessions.iter().any(|session| session.portal == **portal)) {
            forget(&self.places, unit, *portal);
        }
        Ok(())
    }

    /// Ends the session if it has no unit but one whose target is gone.
    fn end(&self, unit: &LogicalUnit, session: &Session) -> Result<(), PortalError> {
        let only = |units: &[Unit]| units.iter().all(|other| !session.is_logged_in() && other.lun() == unit.lun);
        if self.is_own(session) && only(&session.units()?) {
            log_out(&self.places, unit, session)?;
        }
        Ok(())
    }
}

impl IscsiSessions for OpenIscsi {
    fn connect(&self, unit: &LogicalUnit, chap: Option<&Chap>) -> Result<UnitDevice, IscsiError> {
        self.locked(unit, || self.connect_alone(unit, chap))
    }

    fn rescan(&self, unit: &LogicalUnit) -> Result<UnitDevice, IscsiError> {
        self.locked(unit, || self.rescan_alone(unit))
    }

    fn disconnect(&self, unit: &LogicalUnit) -> Result<(), IscsiError> {
        self.locked(unit, || self.disconnect_alone(unit))
    }

    fn connected(&self) -> Result<Vec<String>, IscsiError> {
        let unread = |error: PortalError| IscsiError::Retryable(error.to_string());
        let mut connected = Vec::new();
        for session in sessions(&self.places.sysfs).map_err(unread)? {
            let way = format!("{} at {} by {}", session.target, session.portal, session.interface);
            connected
                .extend(session.units().map_err(unread)?.iter().map(|unit| format!("LUN {} of {way}", unit.lun())));
            connected.push(way);
        }
        Ok(connected)
    }
}
