//! `filesystems`: what is on a device, and mounting it. The handle of the device is the right to do so.

use std::path::Path;
use std::sync::Arc;

use volhost_kernel::Contents;
use wasmtime::component::Resource;

use super::{BlockDevice, DetachedMount, HostError, MountTarget, State};
use crate::bindings::volhost::plugin::filesystems::Host;
use crate::bindings::volhost::plugin::tmpfs::FsOption as WitOption;

/// The contract's word for a partition table.
const PARTITIONS: &str = "partitions";

impl Host for State {
    fn probe(&mut self, device: Resource<BlockDevice>) -> Result<Option<String>, HostError> {
        self.step("filesystems.probe", |state| {
            Ok(match state.kernel.probe(&*state.device(&device)?)? {
                Contents::Blank => None,
                Contents::Filesystem { fs_type, .. } => Some(fs_type),
                Contents::Partitions => Some(PARTITIONS.to_owned()),
                Contents::Other(what) => Some(what),
            })
        })
    }

    fn format(
        &mut self,
        device: Resource<BlockDevice>,
        fs_type: String,
        options: Vec<String>,
    ) -> Result<(), HostError> {
        self.may_mount(Some(&fs_type), [])?;
        self.change("filesystems.format", |state| {
            Ok(state.kernel.format(&*state.device(&device)?, &fs_type, &options)?)
        })
    }

    fn mount(
        &mut self,
        device: Resource<BlockDevice>,
        fs_type: String,
        options: Vec<WitOption>,
        read_only: bool,
    ) -> Result<Resource<DetachedMount>, HostError> {
        let options = self.labelled(&fs_type, options)?;
        if !read_only {
            self.change("filesystems.mount: checking", |state| -> Result<(), HostError> {
                state.kernel.check(&*state.device(&device)?, &fs_type)?;
                Ok(())
            })?;
        }
        self.step("filesystems.mount", |state| {
            let device = state.device(&device)?;
            let mount = state.kernel.mount_filesystem(&device, &fs_type, &options, read_only)?;
            state.mounted_device = Some(device.path().to_owned());
            Ok(state.push(DetachedMount(mount))?)
        })
    }

    fn grow(&mut self, device: Resource<BlockDevice>, target: Resource<MountTarget>) -> Result<u64, HostError> {
        self.change("filesystems.grow", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let mounted = state.kernel.walk(&target.parent, Path::new(&target.name))?;
            Ok(state.kernel.grow_filesystem(&*state.device(&device)?, &mounted)?)
        })
    }
}
