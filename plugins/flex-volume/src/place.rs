//! A place that a driver mounts at, before and after its calls: what counts as the volume, and what
//! is taken back.

use volhost_plugin_sdk::driver_exec::Arguments;
use volhost_plugin_sdk::driver_mounts::{DriverPlace, Found, Leaf};
use volhost_plugin_sdk::prelude::*;

use crate::call::{Caller, Said};
use crate::note::{Confirmed, Note};

/// Whether the volume is mounted at the target as its driver has confirmed. What a call of
/// uncertain end has left is taken back first, with the driver's `call` (`unmount` or
/// `unmountdevice`): half a volume may be anything, the plain disk below an encrypted one included.
///
/// A mount without a note is left alone: this plugin notes its own before it begins.
///
/// # Errors
/// `uncertain` when it could not be taken back; else as the host says.
pub(crate) fn stands(target: &MountTarget, call: &str) -> Result<bool> {
    let state = target.state()?;
    let note = Note::read(target)?;
    match (state, note) {
        (TargetState::Mounted, None) => Ok(true),
        (TargetState::Mounted, Some(note)) if note.confirmed == Confirmed::Mount => Ok(true),
        (TargetState::Mounted, Some(note)) => {
            take_back(target, &note.driver, call).map_err(|error| Error::uncertain(error.message().to_owned()))?;
            Ok(false)
        }
        // A pod's folder can be older than the machine's last start, which the driver may have to
        // undo: it is asked again, as by the kubelet.
        (TargetState::Plain, Some(note)) if note.confirmed == Confirmed::Folder && target.pod_uid().is_empty() => {
            driver_mounts::prepare(target, Leaf::Folder)?.may_be_folder();
            Ok(true)
        }
        (TargetState::Plain | TargetState::Absent, _) => Ok(false),
    }
}

/// What the driver has done at the place when it answers that it has succeeded.
///
/// # Errors
/// As [`undone`], when it has done nothing there.
pub(crate) fn confirmed(target: &MountTarget, place: &DriverPlace, driver: &str, call: &str) -> Result<Confirmed> {
    match place.take_over() {
        Ok(Found::FilledFolder) => Ok(Confirmed::Folder),
        Ok(Found::NewMount | Found::SameMount) => Ok(Confirmed::Mount),
        Err(error) => undone(target, error.context(format_args!("driver {driver} answered \"Success\" to {call}"))),
    }
}

/// Takes away what a call that failed has left, so that a pod never finds half a volume.
///
/// # Errors
/// The one given; `uncertain` when something is left.
pub(crate) fn undone<T>(target: &MountTarget, error: Error) -> Result<T> {
    match target.detach() {
        Ok(()) => Err(error),
        Err(left) => {
            Err(Error::uncertain(error.and(&left.context("what it left could not be taken away")).to_string()))
        }
    }
}

/// Has the driver take back what it began, for it knows what else it made, and unmounts what it
/// leaves.
fn take_back(target: &MountTarget, driver: &str, call: &str) -> Result<()> {
    let answer = driver_mounts::prepare(target, Leaf::Folder).and_then(|place| {
        let caller = Caller::open(driver)?;
        caller.call(call, Arguments::new(call).text(&place.path())?)
    });
    match answer {
        Ok(_) => {}
        Err(error @ (Error::NotFound(_) | Error::Retryable(_))) => log::warn(format_args!(
            "driver {driver} could not take back what a call of uncertain end has left: {error}"
        )),
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

/// Has the driver unmount what it mounted, and takes away what it leaves.
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
        Ok(Said::NotSupported) => {}
        Ok(Said::Done(_)) if target.is_mounted()? => events::warning(
            "DriverLeftMount",
            format_args!(
                "driver {driver} answered \"Success\" to {call} and left its mount; volhost has taken it away"
            ),
        ),
        Ok(Said::Done(_)) => {}
        Err(Error::NotFound(why)) => events::warning(
            "DriverMissing",
            format_args!("{why}; volhost takes its mount away without it, and what else it made may be left"),
        ),
        // It never mounted here, and says so in its way.
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
