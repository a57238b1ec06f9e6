//! A target at which a driver mounts, before and after its calls: what counts as the volume, and
//! what is rolled back.

use volhost_plugin_sdk::driver_exec::Arguments;
use volhost_plugin_sdk::driver_mounts::{DriverPlace, Found, Leaf};
use volhost_plugin_sdk::prelude::*;

use crate::call::{Caller, Reply};
use crate::note::{Confirmed, Note};

/// Whether the volume is mounted at the target as its driver has confirmed. A mount that a call of
/// unknown result has left is rolled back first, with the driver's `call` (`unmount` or
/// `unmountdevice`): it may be anything, for example the plain disk below an encrypted one.
///
/// A mount without a note is left alone: this plugin stores a note before each of its own.
///
/// # Errors
/// `uncertain` when it could not be rolled back; else the host's.
pub(crate) fn is_confirmed(target: &MountTarget, call: &str) -> Result<bool> {
    let state = target.state()?;
    let note = Note::read(target)?;
    match (state, note) {
        (TargetState::Mounted, None) => Ok(true),
        (TargetState::Mounted, Some(note)) if note.confirmed == Confirmed::Mount => Ok(true),
        (TargetState::Mounted, Some(note)) => {
            roll_back(target, &note.driver, call).map_err(|error| Error::uncertain(error.message().to_owned()))?;
            Ok(false)
        }
        // A filled folder can be older than the machine's last start, after which the driver may
        // have to fill it again: it is called again, as by the kubelet.
        (TargetState::Plain, Some(note)) if note.confirmed == Confirmed::Folder && target.pod_uid().is_empty() => {
            driver_mounts::prepare(target, Leaf::Folder)?.may_be_folder();
            Ok(true)
        }
        (TargetState::Plain | TargetState::Absent, _) => Ok(false),
    }
}

/// Checks the place after the driver has answered that it has succeeded.
///
/// # Errors
/// As [`rolled_back`], when it has done nothing there.
pub(crate) fn confirmed(target: &MountTarget, place: &DriverPlace, driver: &str, call: &str) -> Result<Confirmed> {
    match place.take_over() {
        Ok(Found::FilledFolder) => Ok(Confirmed::Folder),
        Ok(Found::NewMount | Found::SameMount) => Ok(Confirmed::Mount),
        Err(error) => {
            rolled_back(target, error.context(format_args!("driver {driver} answered \"Success\" to {call}")))
        }
    }
}

/// Unmounts the leftovers of a failed call, so that a pod never finds half a volume.
///
/// # Errors
/// The one given; `uncertain` when something is left.
pub(crate) fn rolled_back<T>(target: &MountTarget, error: Error) -> Result<T> {
    match target.detach() {
        Ok(()) => Err(error),
        Err(left) => Err(Error::uncertain(error.and(&left.context("its leftovers could not be removed")).to_string())),
    }
}

/// Makes the driver roll back, since it may have made more than the mount, and unmounts its
/// leftovers.
fn roll_back(target: &MountTarget, driver: &str, call: &str) -> Result<()> {
    let answer = driver_mounts::prepare(target, Leaf::Folder).and_then(|place| {
        let caller = Caller::open(driver)?;
        caller.call(call, Arguments::new(call).text(&place.path())?)
    });
    match answer {
        Ok(_) => {}
        Err(error @ (Error::NotFound(_) | Error::Retryable(_))) => {
            log::warn(format_args!("driver {driver} could not roll back a call of unknown result: {error}"))
        }
        Err(error) => return Err(error),
    }
    target.detach()?;
    events::warning(
        "UncertainMountUndone",
        format_args!(
            "driver {driver} left a mount when a call of it ended without an answer; volhost has unmounted it and calls the driver again"
        ),
    );
    Ok(())
}

/// Makes the driver unmount, and removes its leftovers.
///
/// # Errors
/// As [`Caller::call`]; `conflict` when the driver left files in the folder.
pub(crate) fn unmount(target: &MountTarget, driver: &str, call: &str) -> Result<()> {
    let was_mounted = match target.state()? {
        TargetState::Absent => return Ok(()),
        TargetState::Plain => false,
        TargetState::Mounted => true,
    };
    let answer = Caller::open(driver).and_then(|caller| {
        let place = driver_mounts::prepare(target, Leaf::Folder)?;
        caller.call(call, Arguments::new(call).text(&place.path())?)
    });
    match answer {
        Ok(Reply::NotSupported) => {}
        Ok(Reply::Done(_)) if target.is_mounted()? => events::warning(
            "DriverLeftMount",
            format_args!("driver {driver} answered \"Success\" to {call} and left its mount; volhost has unmounted it"),
        ),
        Ok(Reply::Done(_)) => {}
        Err(Error::NotFound(why)) => events::warning(
            "DriverMissing",
            format_args!("{why}; volhost unmounts without the driver, and other things that it made may be left"),
        ),
        // It never mounted here, and reports that as a failure.
        Err(Error::Retryable(why)) if !was_mounted => log::info(format_args!("nothing is mounted, and {why}")),
        Err(error) => return Err(error),
    }
    target.detach().map_err(|error| match error {
        Error::Conflict(_) => error.context(format_args!(
            "driver {driver} has left files in its folder, which only it or you may delete; volhost calls {call} again"
        )),
        error => error,
    })
}
