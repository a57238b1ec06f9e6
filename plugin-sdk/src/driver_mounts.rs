//! Volumes that an external driver mounts for the plugin: the driver gets a path and mounts there,
//! and the host checks the result.
//!
//! A plugin that calls one of these needs the grant `driver-mounts`; one that calls none does not
//! request it. [`MountTarget::detach`] unmounts what a driver leaves mounted.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::driver_mounts::{DevicePlace, DriverPlace, Found, Leaf};
//!
//! /// Has a driver mount a pod's volume.
//! fn publish(target: &MountTarget, ask_driver: impl Fn(&str, Option<String>) -> Result<()>) -> Result<()> {
//!     if driver_mounts::is_refresh() {
//!         return Ok(());
//!     }
//!     // Whatever ends this call, `unpublish` finds the note.
//!     driver_mounts::keep_note(target, "acme volume-1")?;
//!     let place: DriverPlace = driver_mounts::prepare(target, Leaf::Folder)?;
//!     place.may_be_folder();
//!     log::debug(format_args!("the controller reported {:?}", driver_mounts::attachment_metadata()));
//!     ask_driver(&place.path(), driver_mounts::node_path(target)?.or_else(driver_mounts::attached_as))?;
//!     match place.take_over()? {
//!         Found::NewMount => log::info("the driver has mounted it"),
//!         Found::SameMount => log::debug("it is mounted already"),
//!         Found::FilledFolder => log::info("the driver has put files into the folder"),
//!     }
//!     Ok(())
//! }
//!
//! /// Has a driver make the volume's device appear.
//! fn device(ask_driver: impl Fn(&str) -> Result<()>) -> Result<BlockDevice> {
//!     let place: DevicePlace = driver_mounts::prepare_device("dev", Leaf::Absent)?;
//!     log::debug(format_args!("device places: {:?}", driver_mounts::device_places()?));
//!     ask_driver(&place.path())?;
//!     match place.device()? {
//!         Some(device) => Ok(device),
//!         None => {
//!             place.clear()?;
//!             Err(Error::retryable("the driver has made no device"))
//!         }
//!     }
//! }
//!
//! # use volhost_plugin_sdk::testing::{TestDriver, TestHost, TestMount};
//! # let host = TestHost::new();
//! # let target = host.target("data");
//! # publish(&target.handle(), |path, _| { TestDriver::mount(path, TestMount::of_type("nfs4")); Ok(()) })?;
//! assert_eq!(driver_mounts::note(&target.handle())?.as_deref(), Some("acme volume-1"));
//! # let _ = || device(|_| Ok(()));
//! # Ok::<(), Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;

use crate::backend;
use crate::devices::BlockDevice;
use crate::error::Result;
use crate::mounts::MountTarget;

/// The host's preparation of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// Nothing: the driver creates the mount point.
    Absent,
    /// A folder, with mode 0750 if the host makes it.
    Folder,
}

/// The content of a place after the driver's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A mount that was not there when the place was prepared.
    NewMount,
    /// The mount that was there already.
    SameMount,
    /// No mount, but files that the driver put into the folder. Only after
    /// [`DriverPlace::may_be_folder`].
    FilledFolder,
}

/// A mount target at which a driver mounts.
pub struct DriverPlace(backend::DriverPlace);

impl DriverPlace {
    /// Its absolute path on the host, for the driver.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Looks at the place after the driver has reported success. May be called again.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when nothing is mounted there: the text says what is
    /// there instead, and which mounts have appeared at other paths meanwhile.
    /// [`Conflict`](crate::Error::Conflict) when a mount has appeared below the place and not at
    /// it.
    pub fn take_over(&self) -> Result<Found> {
        self.0.take_over().map(backend::found_in).map_err(backend::error_in)
    }

    /// Declares that the driver need not mount anything here: a folder counts as the volume too.
    /// [`DriverPlace::take_over`] then answers
    /// [`Found::FilledFolder`] when there is no mount and the folder is not empty.
    pub fn may_be_folder(&self) {
        self.0.may_be_folder();
    }
}

impl fmt::Debug for DriverPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriverPlace({})", self.path())
    }
}

/// Prepares the target's path and remembers what is mounted on the node. An existing mount there is
/// left alone. With [`Leaf::Absent`], an empty folder or file there is removed.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when there is data at the path; else the kernel's error.
pub fn prepare(target: &MountTarget<'_>, leaf: Leaf) -> Result<DriverPlace> {
    backend::driver_mounts::prepare(target.handle(), backend::leaf_out(leaf))
        .map(DriverPlace)
        .map_err(backend::error_in)
}

/// The staging path of the volume whose pod's target this is, for a driver; none when the volume is
/// not staged.
///
/// # Errors
/// The kernel's error.
pub fn node_path(target: &MountTarget<'_>) -> Result<Option<String>> {
    backend::driver_mounts::node_path(target.handle()).map_err(backend::error_in)
}

/// [`Attachment::attached_as`](crate::Attachment::attached_as) of the volume of this call; none
/// when it is not attached.
#[must_use]
pub fn attached_as() -> Option<String> {
    backend::driver_mounts::attached_as()
}

/// [`Attachment::metadata`](crate::Attachment::metadata) of the volume of this call; empty when it
/// is not attached.
#[must_use]
pub fn attachment_metadata() -> BTreeMap<String, String> {
    backend::driver_mounts::attachment_metadata().into_iter().collect()
}

/// Returns whether `publish` refreshes the volume of this call: the host knows that it is published
/// for the pod. False at the first publication, and whenever a mount may be at the target that no
/// driver has confirmed: ask the driver again.
#[must_use]
pub fn is_refresh() -> bool {
    backend::driver_mounts::is_refresh()
}

/// Stores a note with the volume at the target, in place of an earlier one: which driver has it.
/// Never a secret. An empty note removes it. Call it before the driver: whatever ends the call,
/// [`note`] returns it until the volume has been unpublished or unstaged. The note of a staging
/// target ends with the machine, as the mount does.
///
/// # Errors
/// [`InvalidArgument`](crate::Error::InvalidArgument) beyond 4,096 bytes; else the kernel's error.
pub fn keep_note(target: &MountTarget<'_>, note: &str) -> Result<()> {
    backend::driver_mounts::keep_note(target.handle(), note).map_err(backend::error_in)
}

/// The note of the target's volume; none when there is none.
///
/// # Errors
/// The kernel's error.
pub fn note(target: &MountTarget<'_>) -> Result<Option<String>> {
    backend::driver_mounts::note(target.handle()).map_err(backend::error_in)
}

/// A path, for this volume alone, at which a driver stages a device or makes it appear.
pub struct DevicePlace(backend::DevicePlace);

impl DevicePlace {
    /// Its absolute path on the host, for the driver.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// The device at the path, as a node or as a mount of one; none when the path is absent.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) when it is something else; a symbolic link is not
    /// followed.
    pub fn device(&self) -> Result<Option<BlockDevice>> {
        Ok(self.0.device().map_err(backend::error_in)?.map(BlockDevice::new))
    }

    /// Removes what a driver left: a mount, a device's node, an empty file or folder. Nothing
    /// there: ok.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) when it is data, [`Busy`](crate::Error::Busy) while it
    /// is used.
    pub fn clear(&self) -> Result<()> {
        self.0.clear().map_err(backend::error_in)
    }
}

impl fmt::Debug for DevicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePlace({})", self.path())
    }
}

/// The names of the device places of the volume of this call, sorted: those that [`prepare_device`]
/// made and that were not cleared.
///
/// # Errors
/// As [`prepare_device`].
pub fn device_places() -> Result<Vec<String>> {
    backend::driver_mounts::device_places().map_err(backend::error_in)
}

/// Prepares the device place of this name, one path component, for the volume of this call. The
/// host clears it when the volume has been unstaged.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) outside of the functions of
/// [`BlockMapper`](crate::BlockMapper) and of [`Expander::expand`](crate::Expander::expand) of a
/// device; else as [`prepare`].
pub fn prepare_device(name: &str, leaf: Leaf) -> Result<DevicePlace> {
    backend::driver_mounts::prepare_device(name, backend::leaf_out(leaf)).map(DevicePlace).map_err(backend::error_in)
}
