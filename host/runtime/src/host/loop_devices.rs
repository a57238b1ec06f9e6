//! `loop-devices`: image files within the operator's grant, and loop devices over them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{ErrorKind, MountSource};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::loop_devices::Host;
use crate::bindings::volhost::plugin::types;
use crate::handles::BlockDevice;
use crate::text::tame;

/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

/// Names of images that one call returns: what it hands over stays far below what a call may.
const MAX_NAMES: u32 = 2_000;
/// Images that one call copies: while it does, no one can write to them.
const MAX_TOGETHER: usize = 64;

impl State {
    fn image(&self, path: &str) -> Result<MountSource, HostError> {
        Ok(self.kernel.open_host_path(Path::new(path), &self.reach.loop_files)?)
    }

    fn push_device(&mut self, device: volhost_kernel::BlockDevice) -> Result<Resource<BlockDevice>, HostError> {
        Ok(self.push(BlockDevice(Arc::new(device)))?)
    }
}

/// A call as the progress shows it.
fn at(what: &str, path: &str) -> String {
    format!("{what} {}", tame(path, SHOWN_BYTES))
}

impl Host for State {
    fn folders(&mut self) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(self.reach.loop_files.iter().map(|folder| folder.to_string_lossy().into_owned()).collect())
    }

    fn ensure_image(&mut self, path: String, size: u64) -> Result<u64, HostError> {
        self.change(at("loop-devices.ensure-image", &path), |state| {
            let file = state.kernel.create_image(Path::new(&path), &state.reach.loop_files, size)?;
            let size = state.kernel.set_file_size(&file, size)?;
            if let Some(device) = state.kernel.find_loop(&file)? {
                state.kernel.refresh_loop_size(&device)?;
            }
            Ok(size)
        })
    }

    fn create(&mut self, path: String, read_only: bool) -> Result<Resource<BlockDevice>, HostError> {
        self.change(at("loop-devices.create", &path), |state| {
            let file = state.image(&path)?;
            state.reach.take_loop(&path).map_err(|error| HostError::Plugin(types::Error::Retryable(error.to_string())))?;
            let device = match state.kernel.attach_loop(&file, read_only) {
                Ok(device) => device,
                Err(error) => {
                    state.reach.give_loop_back(&path);
                    return Err(error.into());
                }
            };
            if read_only && !state.kernel.device_read_only(&device)? {
                let text = format!(
                    "{}: {} over it is writable, and a read-only device is asked for; its creator has to remove it first",
                    tame(&path, SHOWN_BYTES),
                    device.path().display()
                );
                return Err(HostError::Plugin(types::Error::Conflict(text)));
            }
            state.push_device(device)
        })
    }

    fn find(&mut self, path: String) -> Result<Option<Resource<BlockDevice>>, HostError> {
        self.step(at("loop-devices.find", &path), |state| {
            let file = state.image(&path)?;
            let Some(device) = state.kernel.find_loop(&file)? else {
                state.reach.give_loop_back(&path);
                return Ok(None);
            };
            // One that an earlier volhost made counts once it is found; it is there whether or not
            // it fits.
            let _ = state.reach.take_loop(&path);
            Ok(Some(state.push_device(device)?))
        })
    }

    fn remove(&mut self, path: String) -> Result<(), HostError> {
        self.change(at("loop-devices.remove", &path), |state| {
            match state.kernel.open_host_path(Path::new(&path), &state.reach.loop_files) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                file => state.kernel.detach_loop(&file?)?,
            }
            state.kernel.detach_removed_loops(Path::new(&path), &state.reach.loop_files)?;
            state.reach.give_loop_back(&path);
            Ok(())
        })
    }

    fn names(&mut self, folder: String, after: String, most: u32) -> Result<Vec<String>, HostError> {
        self.step(at("loop-devices.names", &folder), |state| {
            let names = state.kernel.image_names(Path::new(&folder), &state.reach.loop_files)?;
            let most = usize::try_from(most.min(MAX_NAMES)).unwrap_or_default();
            Ok(names.into_iter().filter(|name| *name > after).take(most).collect())
        })
    }

    fn facts(&mut self, path: String) -> Result<(u64, u64), HostError> {
        self.step(at("loop-devices.facts", &path), |state| {
            let facts = state.kernel.image_facts(&state.image(&path)?)?;
            Ok((facts.size, facts.modified))
        })
    }

    fn copy(&mut self, image: String, to: String) -> Result<u64, HostError> {
        self.change(at("loop-devices.copy", &image), |state| {
            let source = state.image(&image)?;
            Ok(state.kernel.copy_image(&source, Path::new(&to), &state.reach.loop_files)?)
        })
    }

    fn copy_together(&mut self, copies: Vec<(String, String)>) -> Result<(), HostError> {
        let shown = copies.first().map_or("", |(image, _)| image.as_str());
        self.change(at("loop-devices.copy-together", shown), |state| {
            if copies.len() > MAX_TOGETHER {
                let text =
                    format!("{} images are to be copied together, of which there can be {MAX_TOGETHER}", copies.len());
                return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
            }
            let copies: Vec<(MountSource, PathBuf)> = copies
                .into_iter()
                .map(|(image, to)| Ok((state.image(&image)?, PathBuf::from(to))))
                .collect::<Result<_, HostError>>()?;
            Ok(state.kernel.copy_images_together(&copies, &state.reach.loop_files)?)
        })
    }

    fn reserve(&mut self, path: String, size: u64) -> Result<u64, HostError> {
        self.change(at("loop-devices.reserve", &path), |state| {
            let file = state.image(&path)?;
            let size = state.kernel.reserve_image(&file, size).map_err(|error| match error.kind() {
                ErrorKind::NoSpace => {
                    let message = error.to_string();
                    HostError::Plugin(types::Error::Other(types::OtherError { code: "ENOSPC".to_owned(), message }))
                }
                _ => error.into(),
            })?;
            if let Some(device) = state.kernel.find_loop(&file)? {
                state.kernel.refresh_loop_size(&device)?;
            }
            Ok(size)
        })
    }

    fn release(&mut self, path: String) -> Result<(), HostError> {
        self.change(at("loop-devices.release", &path), |state| {
            let file = state.image(&path)?;
            Ok(state.kernel.release_image(&file)?)
        })
    }

    fn taken(&mut self, path: String) -> Result<u64, HostError> {
        self.step(at("loop-devices.taken", &path), |state| Ok(state.kernel.image_facts(&state.image(&path)?)?.taken))
    }

    fn discard(&mut self, path: String) -> Result<(), HostError> {
        self.change(at("loop-devices.discard", &path), |state| {
            Ok(state.kernel.remove_image(Path::new(&path), &state.reach.loop_files)?)
        })
    }

    fn free_space(&mut self, folder: String) -> Result<u64, HostError> {
        self.step(at("loop-devices.free-space", &folder), |state| {
            Ok(state.kernel.free_space(Path::new(&folder), &state.reach.loop_files)?)
        })
    }
}
