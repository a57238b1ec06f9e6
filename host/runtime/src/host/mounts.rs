//! `mounts`: handles over what the kernel holds. A detached mount that is dropped is discarded by the kernel, so that whatever ends
//! a call, nothing stays but what was attached.

use volhost_kernel::{Detach, Entry};
use wasmtime::component::Resource;

use super::{DetachedMount, HostError, MountSource, MountTarget, State};
use crate::bindings::volhost::plugin::mounts::{
    Host, HostDetachedMount, HostMountSource, HostMountTarget, TargetState,
};

/// What dropping a handle means: the object behind it goes, and with it what the kernel holds for it.
fn dropped<T: 'static>(state: &mut State, handle: Resource<T>) -> wasmtime::Result<()> {
    drop(state.table.delete(handle)?);
    Ok(())
}

impl Host for State {}

impl HostMountSource for State {
    fn kind(&mut self, source: Resource<MountSource>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&source)?.0.kind().as_str().to_owned())
    }

    fn bind(&mut self, source: Resource<MountSource>, recursive: bool) -> Result<Resource<DetachedMount>, HostError> {
        self.step("mount-source.bind", |state| {
            let mount = state.kernel.bind(&state.table.get(&source)?.0, recursive)?;
            Ok(state.push(DetachedMount(mount))?)
        })
    }

    fn drop(&mut self, source: Resource<MountSource>) -> wasmtime::Result<()> {
        dropped(self, source)
    }
}

impl HostDetachedMount for State {
    fn set_options(
        &mut self,
        mount: Resource<DetachedMount>,
        options: Vec<String>,
        recursive: bool,
    ) -> Result<(), HostError> {
        self.step("detached-mount.set-options", |state| {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            Ok(state.kernel.set_options(&state.table.get(&mount)?.0, &options, recursive)?)
        })
    }

    fn drop(&mut self, mount: Resource<DetachedMount>) -> wasmtime::Result<()> {
        dropped(self, mount)
    }
}

impl HostMountTarget for State {
    fn pod_uid(&mut self, target: Resource<MountTarget>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&target)?.0.pod_uid.as_str().to_owned())
    }

    fn spec_name(&mut self, target: Resource<MountTarget>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&target)?.0.spec_name.as_str().to_owned())
    }

    fn state(&mut self, target: Resource<MountTarget>) -> Result<TargetState, HostError> {
        self.step("mount-target.state", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(match state.kernel.entry(&target.parent, &target.name)? {
                Entry::Absent => TargetState::Absent,
                Entry::Mount(_) => TargetState::Mounted,
                Entry::Folder | Entry::File | Entry::Symlink | Entry::Other => TargetState::Plain,
            })
        })
    }

    fn mounted_type(&mut self, target: Resource<MountTarget>) -> Result<Option<String>, HostError> {
        self.step("mount-target.mounted-type", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.mount_at(&target.parent, &target.name)?.map(|mount| mount.fs_type))
        })
    }

    fn attach(&mut self, target: Resource<MountTarget>, mount: Resource<DetachedMount>) -> Result<(), HostError> {
        self.change("mount-target.attach", |state| {
            // Taken first: whatever follows, the handle is used up, as the contract says.
            let mount = state.table.delete(mount)?.0;
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.attach(mount, &target.parent, &target.name)?)
        })
    }

    fn make_folder(&mut self, target: Resource<MountTarget>, mode: u32, group: Option<u32>) -> Result<(), HostError> {
        self.change("mount-target.make-folder", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.make_folder(&target.parent, &target.name, mode, group)?)
        })
    }

    fn detach(&mut self, target: Resource<MountTarget>) -> Result<(), HostError> {
        self.change("mount-target.detach", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.detach(&target.parent, &target.name, Detach::Normal)?)
        })
    }

    fn delete_folder(&mut self, target: Resource<MountTarget>) -> Result<(), HostError> {
        self.change("mount-target.delete-folder", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.delete_folder(&target.parent, &target.name)?)
        })
    }

    fn drop(&mut self, target: Resource<MountTarget>) -> wasmtime::Result<()> {
        dropped(self, target)
    }
}
