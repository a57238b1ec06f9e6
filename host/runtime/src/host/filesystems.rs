//! `filesystems`: what is on a device, and mounting it. The handle of the device is the right to do
//! so.

use std::path::Path;
use std::sync::Arc;

use volhost_kernel::Contents;
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::filesystems::{Host, HostFormatOptions};
use crate::bindings::volhost::plugin::types::FsOption as WitOption;
use crate::handles::{BlockDevice, DetachedMount, FormatOptions, MountTarget};

/// The contract's word for a partition table.
const PARTITIONS: &str = "partitions";

/// How many features one format may name: more than any type has. What is named beyond that is
/// dropped; one that no type knows is among the others then, and the format is refused.
const MAX_FEATURES: usize = 64;
/// How much of a label, a UUID or a feature's name is kept, in bytes: more than any type takes, so
/// that what is longer is refused.
const TEXT_BYTES: usize = 300;

/// The beginning of a text.
fn cut(text: String) -> String {
    if text.len() <= TEXT_BYTES {
        return text;
    }
    text.chars().take(TEXT_BYTES).collect()
}

impl State {
    fn set_format(
        &mut self,
        options: &Resource<FormatOptions>,
        set: impl FnOnce(&mut volhost_kernel::FormatOptions),
    ) -> wasmtime::Result<()> {
        self.count()?;
        set(&mut self.table.get_mut(options)?.0);
        Ok(())
    }
}

impl HostFormatOptions for State {
    fn new(&mut self) -> wasmtime::Result<Resource<FormatOptions>> {
        self.count()?;
        Ok(self.push(FormatOptions::default())?)
    }

    fn label(&mut self, options: Resource<FormatOptions>, label: String) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.label = Some(cut(label)))
    }

    fn uuid(&mut self, options: Resource<FormatOptions>, uuid: String) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.uuid = Some(cut(uuid)))
    }

    fn block_size(&mut self, options: Resource<FormatOptions>, bytes: u32) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.block_size = Some(bytes))
    }

    fn inode_size(&mut self, options: Resource<FormatOptions>, bytes: u32) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.inode_size = Some(bytes))
    }

    fn bytes_per_inode(&mut self, options: Resource<FormatOptions>, bytes: u32) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.bytes_per_inode = Some(bytes))
    }

    fn reserved_percent(&mut self, options: Resource<FormatOptions>, percent: u32) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.reserved_percent = Some(percent))
    }

    fn feature(&mut self, options: Resource<FormatOptions>, name: String, enabled: bool) -> wasmtime::Result<()> {
        self.set_format(&options, |options| {
            let name = cut(name);
            if options.features.len() < MAX_FEATURES || options.features.contains_key(&name) {
                options.features.insert(name, enabled);
            }
        })
    }

    fn keep_room(&mut self, options: Resource<FormatOptions>) -> wasmtime::Result<()> {
        self.set_format(&options, |options| options.keep_room = true)
    }

    fn drop(&mut self, options: Resource<FormatOptions>) -> wasmtime::Result<()> {
        dropped(self, options)
    }
}

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
        options: Resource<FormatOptions>,
    ) -> Result<(), HostError> {
        self.may_mount(Some(&fs_type), [])?;
        self.change("filesystems.format", |state| {
            let options = state.table.get(&options)?.0.clone();
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

    fn grow_unmounted(&mut self, device: Resource<BlockDevice>, fs_type: String) -> Result<Option<u64>, HostError> {
        self.may_mount(Some(&fs_type), [])?;
        self.change("filesystems.grow-unmounted", |state| {
            Ok(state.kernel.grow_unmounted(&*state.device(&device)?, &fs_type)?)
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
