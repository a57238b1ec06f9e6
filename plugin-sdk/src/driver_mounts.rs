//! Volumes that a driver outside of the sandbox mounts in the plugin's stead: the driver is told a
//! path, mounts there, and the host looks at what it did.
//!
//! A plugin that calls one of these needs the grant `driver-mounts`; one that calls none does not
//! ask for it. What a driver leaves mounted, [`MountTarget::detach`] takes away.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::driver_mounts::{DevicePlace, DriverPlace, Found, Leaf};
//!
//! /// Has a driver mount a pod's volume.
//! fn publish(target: &MountTarget, ask_driver: impl Fn(&str, Option<String>) -> Result<()>) -> Result<()> {
//!     // Whatever ends this call: the unpublish knows whose it is.
//!     driver_mounts::keep_note(target, "acme volume-1")?;
//!     let place: DriverPlace = driver_mounts::prepare(target, Leaf::Folder)?;
//!     place.may_be_folder();
//!     log::debug(format_args!("the controller said {:?}", driver_mounts::attachment_metadata()));
//!     ask_driver(&place.path(), driver_mounts::node_path(target)?.or_else(driver_mounts::attached_as))?;
//!     match place.take_over()? {
//!         Found::NewMount => log::info("the driver has mounted it"),
//!         Found::SameMount => log::debug("it stands already"),
//!         Found::FilledFolder => log::info("the driver has put files into the folder"),
//!     }
//!     Ok(())
//! }
//!
//! /// Has a driver make the volume's device appear.
//! fn device(ask_driver: impl Fn(&str) -> Result<()>) -> Result<BlockDevice> {
//!     let place: DevicePlace = driver_mounts::prepare_device("dev", Leaf::Absent)?;
//!     log::debug(format_args!("there are {:?}", driver_mounts::device_places()?));
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

/// What the driver is to find at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// Nothing: the driver makes what it mounts on.
    Absent,
    /// A folder, with mode 0750 if the host makes it.
    Folder,
}

/// What the host found at a place after the driver.
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

/// A mount target that a driver is to mount at.
pub struct DriverPlace(backend::DriverPlace);

impl DriverPlace {
    /// Its absolute path on the host, for the driver.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Looks at the place after the driver has said that it is done. May be asked again.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when nothing is mounted there: the text says what stands there instead, and which mounts have
    /// appeared elsewhere. [`Conflict`](crate::Error::Conflict) when a mount has appeared below the
    /// place and not at it.
    pub fn take_over(&self) -> Result<Found> {
        self.0.take_over().map(backend::found_in).map_err(backend::error_in)
    }

    /// The driver need not mount anything here: a folder counts as the volume too.
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

/// Prepares the target's place and notes what is mounted on the node. A mount that stands there is
/// left alone. With [`Leaf::Absent`], an empty folder or file that stands there is removed.
///
/// # Errors
/// [`Conflict`](crate::Error::Conflict) when data is in the way; else as the kernel says.
pub fn prepare(target: &MountTarget<'_>, leaf: Leaf) -> Result<DriverPlace> {
    backend::driver_mounts::prepare(target.handle(), backend::leaf_out(leaf))
        .map(DriverPlace)
        .map_err(backend::error_in)
}

/// The path of the node's own place for the volume whose pod's target this is; none when the volume
/// has no such place.
///
/// # Errors
/// As the kernel says.
pub fn node_path(target: &MountTarget<'_>) -> Result<Option<String>> {
    backend::driver_mounts::node_path(target.handle()).map_err(backend::error_in)
}

/// What the volume of this call is attached as; none when it is not attached.
#[must_use]
pub fn attached_as() -> Option<String> {
    backend::driver_mounts::attached_as()
}

/// What the controller's report says of that attachment; empty when the volume is not attached.
#[must_use]
pub fn attachment_metadata() -> BTreeMap<String, String> {
    backend::driver_mounts::attachment_metadata().into_iter().collect()
}

/// Keeps a few words with what is mounted at the target, in place of those kept before: which
/// driver has it, and whether the driver has confirmed it. Never a secret. Empty words are none:
/// what was kept goes. Call it before the driver: whatever ends the call, [`note`] has the words
/// until the volume has been torn down. The words of the node's own mount go with the machine, as
/// the mount does.
///
/// # Errors
/// [`InvalidArgument`](crate::Error::InvalidArgument) beyond 4,096 bytes; else as the kernel says.
pub fn keep_note(target: &MountTarget<'_>, note: &str) -> Result<()> {
    backend::driver_mounts::keep_note(target.handle(), note).map_err(backend::error_in)
}

/// The words kept with the target's volume; none when there are none.
///
/// # Errors
/// As the kernel says.
pub fn note(target: &MountTarget<'_>) -> Result<Option<String>> {
    backend::driver_mounts::note(target.handle()).map_err(backend::error_in)
}

/// A place of the volume's own where a driver stages a device or makes it appear.
pub struct DevicePlace(backend::DevicePlace);

impl DevicePlace {
    /// Its absolute path on the host, for the driver.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// The device that stands there, as a node or as a mount of one; none when nothing stands
    /// there.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) when it is something else; a symbolic link is not followed.
    pub fn device(&self) -> Result<Option<BlockDevice>> {
        Ok(self.0.device().map_err(backend::error_in)?.map(BlockDevice::new))
    }

    /// Removes what a driver left: a mount, a device's node, an empty file or folder. Nothing
    /// there: done.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) when it is data, [`Busy`](crate::Error::Busy) while it is used.
    pub fn clear(&self) -> Result<()> {
        self.0.clear().map_err(backend::error_in)
    }
}

impl fmt::Debug for DevicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevicePlace({})", self.path())
    }
}

/// Returns the names of the places that drivers have of the volume which the call is about, sorted:
/// those that [`prepare_device`] made and that were not cleared.
///
/// # Errors
/// As [`prepare_device`].
pub fn device_places() -> Result<Vec<String>> {
    backend::driver_mounts::device_places().map_err(backend::error_in)
}

/// Prepares the place of this name, one path component, for the volume that the call is about. The
/// host clears it when the volume has been torn down.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) in other functions than those of [`BlockMapper`](crate::BlockMapper); else as [`prepare`].
pub fn prepare_device(name: &str, leaf: Leaf) -> Result<DevicePlace> {
    backend::driver_mounts::prepare_device(name, backend::leaf_out(leaf)).map(DevicePlace).map_err(backend::error_in)
}
