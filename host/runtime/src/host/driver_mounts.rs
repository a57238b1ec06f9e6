//! `driver-mounts`: paths for external drivers, and the look at what they did there.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use volhost_kernel::{Directory, Entry, Kernel, KernelError, MountInfo};
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::driver_mounts::{Found, Host, HostDevicePlace, HostDriverPlace, Leaf};
use crate::bindings::volhost::plugin::types;
use crate::handles::{BlockDevice, DevicePlace, DriverPlace, MountTarget};
use crate::private::PrivateFolder;
use crate::target::{Place, Target};

/// The mode of the folders that a driver finds, as the kubelet's.
const FOLDER_MODE: u32 = 0o750;
/// How many of the mounts that appeared at other paths a message names.
const NAMED: usize = 3;

/// The longest note, in bytes.
const NOTE_BYTES: usize = 4096;

fn private_of(target: &Target) -> Result<&PrivateFolder, HostError> {
    target
        .private
        .as_ref()
        .ok_or_else(|| HostError::Plugin(types::Error::Unsupported("no note can be kept with this target".to_owned())))
}

/// The path of a name in a folder, for a program.
fn path_of(kernel: &dyn Kernel, parent: &Directory, name: &OsStr) -> Result<String, HostError> {
    let path = kernel.absolute_path(parent)?.join(name);
    path.into_os_string().into_string().map_err(|path| {
        let text =
            format!("{} is not UTF-8, and a driver can only be given a path that is", Path::new(&path).display());
        HostError::Plugin(types::Error::Unsupported(text))
    })
}

/// Puts at a path what the driver expects there. What is there already stays if it is of that type.
fn make_ready(kernel: &dyn Kernel, parent: &Directory, name: &OsStr, leaf: Leaf) -> Result<Entry, HostError> {
    let entry = kernel.entry(parent, name)?;
    match (entry, leaf) {
        (Entry::Mount(_), _) | (Entry::Absent, Leaf::Absent) | (Entry::Folder, Leaf::Folder) => {}
        (_, Leaf::Absent) => kernel.clear_place(parent, name)?,
        (_, Leaf::Folder) => kernel.make_folder(parent, name, FOLDER_MODE, None)?,
    }
    Ok(entry)
}

/// Returns whether the plain folder at a target has anything in it.
fn is_filled(kernel: &dyn Kernel, target: &Target) -> Result<bool, HostError> {
    let folder = kernel.walk(&target.parent, Path::new(&target.name))?;
    Ok(!kernel.names(&folder)?.is_empty())
}

/// Why there is no mount where a driver says it has mounted.
fn nothing_mounted(path: &str, entry: Entry, appeared: &[MountInfo]) -> types::Error {
    let below: Vec<&MountInfo> = appeared.iter().filter(|mount| mount.point.starts_with(path)).collect();
    if let Some(mount) = below.first() {
        let text = format!(
            "the driver has mounted {} at {}, which is below {path} and not at it",
            mount.fs_type,
            mount.point.display()
        );
        return types::Error::Conflict(text);
    }
    let found = match entry {
        Entry::Absent => "nothing is there",
        Entry::Folder => "a plain folder is there",
        Entry::File => "a file is there",
        Entry::Symlink => "a symbolic link is there",
        Entry::Other | Entry::Mount(_) => "something else is there",
    };
    let named: Vec<String> =
        appeared.iter().take(NAMED).map(|mount| format!("{} at {}", mount.fs_type, mount.point.display())).collect();
    let others = match appeared.len() {
        0 => String::new(),
        count if count > NAMED => {
            format!(
                "; meanwhile appeared at other paths: {} and {} more",
                named.join(", "),
                count.saturating_sub(NAMED)
            )
        }
        _ => format!("; meanwhile appeared at other paths: {}", named.join(", ")),
    };
    types::Error::NotFound(format!("the driver has mounted nothing at {path}: {found}{others}"))
}

impl Host for State {
    fn prepare(&mut self, target: Resource<MountTarget>, leaf: Leaf) -> Result<Resource<DriverPlace>, HostError> {
        self.change("driver-mounts.prepare", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let entry = make_ready(&*state.kernel, &target.parent, &target.name, leaf)?;
            let before = if let Entry::Mount(id) = entry { Some(id) } else { None };
            let path = path_of(&*state.kernel, &target.parent, &target.name)?;
            let known = state.kernel.mounts_now()?;
            Ok(state.push(DriverPlace { target, path, before, known })?)
        })
    }

    fn node_path(&mut self, target: Resource<MountTarget>) -> Result<Option<String>, HostError> {
        self.step("driver-mounts.node-path", |state| {
            let target = &state.table.get(&target)?.0;
            let node = target.staging_mount.as_ref();
            node.map(|node| path_of(&*state.kernel, &node.parent, &node.name)).transpose()
        })
    }

    fn attached_as(&mut self) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(self.call.attached_as().map(str::to_owned))
    }

    fn attachment_metadata(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.count()?;
        Ok(self.call.attachment_metadata().clone().into_iter().collect())
    }

    fn is_refresh(&mut self) -> wasmtime::Result<bool> {
        self.count()?;
        Ok(self.call.is_refresh())
    }

    fn keep_note(&mut self, target: Resource<MountTarget>, note: String) -> Result<(), HostError> {
        self.change("driver-mounts.keep-note", |state| {
            if note.len() > NOTE_BYTES {
                let text = format!("a note has {NOTE_BYTES} bytes at most, and this one has {}", note.len());
                return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
            }
            state.budget.charge_written(1, note.len())?;
            let target = Arc::clone(&state.table.get(&target)?.0);
            if note.is_empty() {
                return Ok(private_of(&target)?.remove_note(&*state.kernel)?);
            }
            Ok(private_of(&target)?.write_note(&*state.kernel, note.as_bytes())?)
        })
    }

    fn note(&mut self, target: Resource<MountTarget>) -> Result<Option<String>, HostError> {
        self.step("driver-mounts.note", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let Some(private) = &target.private else { return Ok(None) };
            // An invalid note counts as none: the volume is then unmounted as one without a note.
            match private.read_note(&*state.kernel, NOTE_BYTES) {
                Ok(bytes) => Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok())),
                Err(
                    KernelError::TooLarge { .. } | KernelError::SymbolicLink { .. } | KernelError::WrongType { .. },
                ) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn device_places(&mut self) -> Result<Vec<String>, HostError> {
        let Some(places) = self.call.device_places().cloned() else { return Err(no_places()) };
        self.step("driver-mounts.device-places", |state| {
            let kernel = &*state.kernel;
            let mut names = Vec::new();
            if let Some(folder) = open_if_there(kernel, &places.root, &places.folder)? {
                // Whatever is no text was not named by a plugin.
                let texts = kernel.names(&folder)?.into_iter().filter_map(|name| name.into_string().ok());
                names.extend(texts.map(|name| format!("{}{name}", places.prefix)));
            }
            for (name, path) in &places.others {
                let (Some(parent), Some(leaf)) = (path.parent(), path.file_name()) else { continue };
                if let Some(parent) = open_if_there(kernel, &places.root, parent)?
                    && kernel.entry(&parent, leaf)? != Entry::Absent
                {
                    names.push((*name).to_owned());
                }
            }
            names.sort();
            Ok(names)
        })
    }

    fn prepare_device(&mut self, name: String, leaf: Leaf) -> Result<Resource<DevicePlace>, HostError> {
        let Some(places) = self.call.device_places().cloned() else { return Err(no_places()) };
        self.change("driver-mounts.prepare-device", |state| {
            let Some((folder, leaf_name)) = places.at(&name) else {
                let text = format!("a device of this plugin has no place {name:?}");
                return Err(HostError::Plugin(types::Error::Unsupported(text)));
            };
            let parent = state.kernel.make_dirs(&places.root, folder, FOLDER_MODE)?;
            let place = Place { parent, name: leaf_name.to_owned() };
            make_ready(&*state.kernel, &place.parent, &place.name, leaf)?;
            let path = path_of(&*state.kernel, &place.parent, &place.name)?;
            Ok(state.push(DevicePlace { place, path })?)
        })
    }
}

/// Opens a folder below the root; none if it does not exist.
fn open_if_there(kernel: &dyn Kernel, root: &Directory, path: &Path) -> Result<Option<Directory>, HostError> {
    match kernel.walk(root, path) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == volhost_kernel::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn no_places() -> HostError {
    let text = "a device has a place for its driver only in the functions of block-mapper".to_owned();
    HostError::Plugin(types::Error::Unsupported(text))
}

impl HostDriverPlace for State {
    fn may_be_folder(&mut self, place: Resource<DriverPlace>) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get(&place)?;
        self.folder_is_enough = true;
        Ok(())
    }

    fn path(&mut self, place: Resource<DriverPlace>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&place)?.path.clone())
    }

    fn take_over(&mut self, place: Resource<DriverPlace>) -> Result<Found, HostError> {
        self.step("driver-place.take-over", |state| {
            let folder_is_enough = state.folder_is_enough;
            let place = state.table.get(&place)?;
            let target = &place.target;
            let entry = state.kernel.entry(&target.parent, &target.name)?;
            let Entry::Mount(id) = entry else {
                let appeared = state.kernel.mounts_besides(&place.known)?;
                let is_below = |mount: &MountInfo| mount.point.starts_with(&place.path);
                if folder_is_enough
                    && entry == Entry::Folder
                    && !appeared.iter().any(is_below)
                    && is_filled(&*state.kernel, target)?
                {
                    return Ok(Found::FilledFolder);
                }
                return Err(HostError::Plugin(nothing_mounted(&place.path, entry, &appeared)));
            };
            Ok(if place.before == Some(id) { Found::SameMount } else { Found::NewMount })
        })
    }

    fn drop(&mut self, place: Resource<DriverPlace>) -> wasmtime::Result<()> {
        dropped(self, place)
    }
}

impl HostDevicePlace for State {
    fn path(&mut self, place: Resource<DevicePlace>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&place)?.path.clone())
    }

    fn device(&mut self, place: Resource<DevicePlace>) -> Result<Option<Resource<BlockDevice>>, HostError> {
        self.step("device-place.device", |state| {
            let Place { parent, name } = &state.table.get(&place)?.place;
            let device = state.kernel.device_at(parent, name)?;
            device.map(|device| Ok(state.push(BlockDevice(Arc::new(device)))?)).transpose()
        })
    }

    fn clear(&mut self, place: Resource<DevicePlace>) -> Result<(), HostError> {
        self.change("device-place.clear", |state| {
            let Place { parent, name } = &state.table.get(&place)?.place;
            Ok(state.kernel.clear_place(parent, name)?)
        })
    }

    fn drop(&mut self, place: Resource<DevicePlace>) -> wasmtime::Result<()> {
        dropped(self, place)
    }
}
