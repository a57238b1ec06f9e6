//! `mounts`: handles of kernel objects. A detached mount that is dropped is discarded by the
//! kernel, so that whatever ends a call, nothing stays but what was attached.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use volhost_kernel::{Detach, Entry, ErrorKind, KernelError, OwnershipPolicy, OwnershipProgress, OwnershipRequest};
use volhost_model::FsGroupChangePolicy;
use volhost_model::view::EventKind;
use wasmtime::component::Resource;

use super::State;
use super::slow_walk::SlowWalk;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::mounts::{
    Host, HostDetachedMount, HostMountSource, HostMountTarget, TargetState,
};
use crate::bindings::volhost::plugin::types;
use crate::call_error::PluginError;
use crate::fuse_servers::SettledServer;
use crate::handles::{DetachedMount, MountSource, MountTarget, PodHandle};
use crate::private::{FolderKind, PrivateFolder};

/// Threads of one walk over a volume's files; more wait for one another on one disk.
const WALKERS: usize = 4;

/// Dropping a handle drops the object behind it, and with it what the kernel keeps for it.
pub(super) fn dropped<T: 'static>(state: &mut State, handle: Resource<T>) -> wasmtime::Result<()> {
    drop(state.table.delete(handle)?);
    Ok(())
}

/// The prefix of the types of FUSE file systems.
const FUSE: &str = "fuse.";
/// The reason of the event when a FUSE server did not end by itself after the unmount.
const LOST_WRITES: &str = "PossiblyLostWrites";

impl Host for State {}

impl HostMountSource for State {
    fn kind(&mut self, source: Resource<MountSource>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&source)?.source.kind().as_str().to_owned())
    }

    fn bind(&mut self, source: Resource<MountSource>, recursive: bool) -> Result<Resource<DetachedMount>, HostError> {
        self.step("mount-source.bind", |state| {
            let source = state.table.get(&source)?;
            let mount = state.kernel.bind(&source.source, recursive)?;
            if source.read_only {
                state.kernel.set_options(&mount, &["ro"], recursive)?;
            }
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
        self.may_mount(None, options.iter().map(String::as_str))?;
        self.step("detached-mount.set-options", |state| {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            Ok(state.kernel.set_options(&state.table.get(&mount)?.0, &options, recursive)?)
        })
    }

    fn source(&mut self, mount: Resource<DetachedMount>) -> Result<Resource<MountSource>, HostError> {
        self.step("detached-mount.source", |state| {
            let source = state.kernel.root_of(&state.table.get(&mount)?.0)?;
            Ok(state.push(MountSource::writable(source))?)
        })
    }

    fn drop(&mut self, mount: Resource<DetachedMount>) -> wasmtime::Result<()> {
        dropped(self, mount)
    }
}

impl HostMountTarget for State {
    fn pod_uid(&mut self, target: Resource<MountTarget>) -> wasmtime::Result<String> {
        self.count()?;
        let pod = self.table.get(&target)?.0.pod_uid.as_ref();
        Ok(pod.map(|uid| uid.as_str().to_owned()).unwrap_or_default())
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

    fn mounted_options(&mut self, target: Resource<MountTarget>) -> Result<Vec<String>, HostError> {
        self.step("mount-target.mounted-options", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.mount_at(&target.parent, &target.name)?.map(|mount| mount.options).unwrap_or_default())
        })
    }

    fn staging_mount(&mut self, target: Resource<MountTarget>) -> Result<Option<Resource<MountSource>>, HostError> {
        self.step("mount-target.staging-mount", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let Some(place) = &target.staging_mount else {
                return Ok(None);
            };
            // A folder without a mount must never be taken for the volume.
            if !matches!(state.kernel.entry(&place.parent, &place.name)?, Entry::Mount(_)) {
                return Ok(None);
            }
            let root = state.kernel.walk(&place.parent, Path::new(&place.name))?;
            // Gone since: what was opened may be the folder below.
            if !matches!(state.kernel.entry(&place.parent, &place.name)?, Entry::Mount(_)) {
                return Ok(None);
            }
            let source = state.kernel.source(&root)?;
            Ok(Some(state.push(MountSource::writable(source))?))
        })
    }

    fn attach(&mut self, target: Resource<MountTarget>, mount: Resource<DetachedMount>) -> Result<(), HostError> {
        self.change("mount-target.attach", |state| {
            // Taken first: whatever follows, the handle is used up, as the contract says.
            let mount = state.table.delete(mount)?.0;
            let target = &state.table.get(&target)?.0;
            state.kernel.attach(mount, &target.parent, &target.name)?;
            // One that ended before it was seen is not found by a search for what it served.
            if let Err(ended) = state.fuse_servers.still_serve() {
                state.kernel.detach(&target.parent, &target.name, Detach::Lazy)?;
                return Err(ended.into());
            }
            Ok(())
        })
    }

    fn make_folder(&mut self, target: Resource<MountTarget>, mode: u32, group: Option<u32>) -> Result<(), HostError> {
        self.change("mount-target.make-folder", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.make_folder(&target.parent, &target.name, mode, group)?)
        })
    }

    fn make_inner_folder(&mut self, target: Resource<MountTarget>, path: String, mode: u32) -> Result<(), HostError> {
        self.change("mount-target.make-inner-folder", |state| {
            let target = &state.table.get(&target)?.0;
            let (volume, path) = (state.kernel.walk(&target.parent, Path::new(&target.name))?, Path::new(&path));
            match state.kernel.walk(&volume, path) {
                // An existing folder costs nothing: publish may be repeated for ever.
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            state.budget.charge_volume_folders(state.call.account(), path.components().count())?;
            state.kernel.make_dirs(&volume, path, mode)?;
            Ok(())
        })
    }

    fn apply_fs_group(
        &mut self,
        target: Resource<MountTarget>,
        pod: Resource<PodHandle>,
        read_only: bool,
    ) -> Result<(), HostError> {
        let applied = self.change("mount-target.apply-fs-group", |state| {
            let (pod, target) = (Arc::clone(&state.table.get(&pod)?.0), Arc::clone(&state.table.get(&target)?.0));
            let Some(group) = pod.fs_group else { return Ok(()) };
            let policy = match pod.fs_group_change_policy {
                FsGroupChangePolicy::Always => OwnershipPolicy::Always,
                FsGroupChangePolicy::OnRootMismatch => OwnershipPolicy::OnRootMismatch,
            };
            let request = OwnershipRequest { group, policy, read_only, threads: WALKERS };
            let teller = SlowWalk::new(Arc::clone(state.call.sink()), &target);
            let cancellation = Arc::clone(state.call.cancellation());
            let progress = |progress: OwnershipProgress| {
                teller.hear(progress.visited);
                if cancellation.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            match state.kernel.apply_ownership(&target.parent, &target.name, &request, &progress) {
                Err(KernelError::Cancelled { .. }) => Err(Abort::Cancelled.into()),
                applied => Ok(applied.map(drop)?),
            }
        });
        // The kernel may have changed some files before it failed.
        applied.map_err(|error| match error {
            HostError::Plugin(error) => HostError::Plugin(types::Error::Uncertain(PluginError::from(error).message)),
            abort => abort,
        })
    }

    fn group(&mut self, target: Resource<MountTarget>) -> Result<u32, HostError> {
        self.step("mount-target.group", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.group_at(&target.parent, &target.name)?)
        })
    }

    fn other_pods(&mut self, target: Resource<MountTarget>) -> Result<u32, HostError> {
        self.step("mount-target.other-pods", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            Ok(target.other_pods.as_ref().map(|pods| pods.other_pods()).transpose()?.unwrap_or(0))
        })
    }

    fn detach(&mut self, target: Resource<MountTarget>) -> Result<(), HostError> {
        self.change("mount-target.detach", |state| {
            let target = &state.table.get(&target)?.0;
            let has_servers = state.call.environment().fuse_servers().has_servers();
            let mounted = if has_servers { state.kernel.mount_at(&target.parent, &target.name)? } else { None };
            state.kernel.detach(&target.parent, &target.name, Detach::Normal)?;
            if let Some(mount) = mounted.filter(|mount| mount.fs_type.starts_with(FUSE)) {
                let servers = Arc::clone(state.call.environment().fuse_servers());
                if let SettledServer::Failed(why) = servers.settle(&mount.source.to_string_lossy()) {
                    let text = format!("what was written to the volume last may be lost: {why}");
                    state.emit(EventKind::Warning, LOST_WRITES, &text)?;
                }
            }
            Ok(())
        })
    }

    fn delete_folder(&mut self, target: Resource<MountTarget>) -> Result<(), HostError> {
        self.change("mount-target.delete-folder", |state| {
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.delete_folder(&target.parent, &target.name)?)
        })
    }

    fn private_folder(&mut self, target: Resource<MountTarget>) -> Result<Resource<MountSource>, HostError> {
        self.change("mount-target.private-folder", |state| {
            let target = Arc::clone(&state.table.get(&target)?.0);
            let is_apart = |private: &&PrivateFolder| private.kind == FolderKind::Apart;
            let Some(private) = target.private.as_ref().filter(is_apart).filter(|_| target.pod_uid.is_some()) else {
                let text = "a staging target, and a target of a CSI driver, have no private folder".to_owned();
                return Err(HostError::Plugin(types::Error::Unsupported(text)));
            };
            let source = private.make(&*state.kernel)?;
            Ok(state.push(MountSource::writable(source))?)
        })
    }

    fn drop(&mut self, target: Resource<MountTarget>) -> wasmtime::Result<()> {
        dropped(self, target)
    }
}
