//! One question to one volume. May hang as long as its storage does.
//!
//! | what stands | capacity, free | used |
//! |---|---|---|
//! | a mount | its file system's | its file system's |
//! | a plain folder, on a file system that others use too | its file system's | what its files add up to |
//! | a device | its size | |
//!
//! What the plugin says of its own comes before all of these.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use volhost_kernel::{DiskUsage, Entry, KernelError};
use volhost_runtime::{CallError, Capability, Measured, Target};

use super::StandingVolume;
use crate::layout;
use crate::volume_ops::VolumeOps;

/// What was found out, and what could not be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The figures.
    pub(super) measured: Measured,
    /// Why some, or all, are missing.
    pub(super) problem: Option<String>,
}

/// What stands for the pod.
enum Standing {
    Mount,
    Folder,
    Device,
}

/// Asks the kernel, and the plugin if it measures its volumes itself.
pub(super) fn measure(volume_ops: &VolumeOps, volume: &StandingVolume, plugin_time: Duration) -> Found {
    let standing = match look(volume_ops, volume) {
        Ok(Some(standing)) => standing,
        Ok(None) => return Found::failed("nothing stands in the pod's folder"),
        Err(error) => return Found::failed(error),
    };
    let mut found = Found::default();
    let own = match standing {
        // Of a folder this is what it shares with others: what is left to all.
        Standing::Mount | Standing::Folder => file_system(volume_ops, volume),
        Standing::Device => device(volume_ops, volume),
    };
    found.measured = found.keep(own).unwrap_or_default();
    if matches!(standing, Standing::Folder) {
        // What others have written to the same file system is not this volume's.
        (found.measured.used, found.measured.inodes_used) = (None, None);
    }
    let plugin = volume_ops.plugins.for_tear_down(&volume.plugin, None);
    if let Some(plugin) = plugin.filter(|plugin| plugin.exports(Capability::Stats)) {
        let name = layout::volume_name(&volume.plugin, &volume.volume);
        let asked = target(volume_ops, volume, &standing).map_err(|error| error.to_string()).and_then(|target| {
            let answer = plugin.measure(&volume_ops.plugins.call(plugin_time), name, target);
            answer.map_err(|error: CallError| error.message())
        });
        if let Some(said) = found.keep(asked) {
            prefer(&mut found.measured, said);
        }
    }
    if matches!(standing, Standing::Folder) && found.measured.used.is_none() {
        let sum = found.keep(files(volume_ops, volume));
        (found.measured.used, found.measured.inodes_used) = (sum.map(|sum| sum.bytes), sum.map(|sum| sum.inodes));
    }
    found
}

impl Found {
    fn failed(problem: impl ToString) -> Self {
        Self { problem: Some(problem.to_string()), ..Self::default() }
    }

    /// The first problem is told; what follows is mostly its consequence.
    fn keep<T, E: ToString>(&mut self, step: Result<T, E>) -> Option<T> {
        match step {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem.get_or_insert_with(|| error.to_string());
                None
            }
        }
    }
}

/// Puts what the plugin says in the place of what the host found out.
fn prefer(own: &mut Measured, said: Measured) {
    let Measured { capacity, available, used, inodes, inodes_free, inodes_used, abnormal } = said;
    own.capacity = capacity.or(own.capacity);
    own.available = available.or(own.available);
    own.used = used.or(own.used);
    own.inodes = inodes.or(own.inodes);
    own.inodes_free = inodes_free.or(own.inodes_free);
    own.inodes_used = inodes_used.or(own.inodes_used);
    own.abnormal = abnormal;
}

fn look(volume_ops: &VolumeOps, volume: &StandingVolume) -> Result<Option<Standing>, KernelError> {
    let name = OsStr::new(volume.spec_name.as_str());
    if let Some(folder) = volume_ops.open_if_there(&layout::plugin_folder(&volume.pod, &volume.plugin))? {
        match volume_ops.kernel.entry(&folder, name)? {
            Entry::Mount(_) => return Ok(Some(Standing::Mount)),
            Entry::Folder => return Ok(Some(Standing::Folder)),
            _ => {}
        }
    }
    let maps = volume_ops.open_if_there(&layout::map_folder(&volume.plugin, &volume.volume))?;
    let Some(maps) = maps else { return Ok(None) };
    let mapped = volume_ops.kernel.mapped_device(&maps, OsStr::new(volume.pod.as_str()))?;
    Ok(mapped.map(|_| Standing::Device))
}

fn file_system(volume_ops: &VolumeOps, volume: &StandingVolume) -> Result<Measured, KernelError> {
    let folder = volume_ops.kernel.walk(&volume_ops.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?;
    let usage = volume_ops.kernel.usage(&folder, OsStr::new(volume.spec_name.as_str()))?;
    // A file system that does not count says 0, which is not the same as none.
    let counted = usage.inodes > 0;
    Ok(Measured {
        capacity: (usage.capacity > 0).then_some(usage.capacity),
        available: (usage.capacity > 0).then_some(usage.available),
        used: (usage.capacity > 0).then_some(usage.used),
        inodes: counted.then_some(usage.inodes),
        inodes_free: counted.then_some(usage.inodes_free),
        inodes_used: counted.then_some(usage.inodes_used),
        abnormal: None,
    })
}

fn files(volume_ops: &VolumeOps, volume: &StandingVolume) -> Result<DiskUsage, KernelError> {
    let folder = volume_ops.kernel.walk(&volume_ops.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?;
    volume_ops.kernel.disk_usage(&folder, OsStr::new(volume.spec_name.as_str()))
}

fn device(volume_ops: &VolumeOps, volume: &StandingVolume) -> Result<Measured, KernelError> {
    let links = volume_ops.kernel.walk(&volume_ops.root, &layout::pod_device_folder(&volume.pod, &volume.plugin))?;
    let path = volume_ops.kernel.linked_device(&links, OsStr::new(volume.spec_name.as_str()))?;
    let device = volume_ops.kernel.open_block_device(path.as_deref().unwrap_or(Path::new("")))?;
    Ok(Measured { capacity: Some(volume_ops.kernel.device_size(&device)?), ..Measured::default() })
}

fn target(volume_ops: &VolumeOps, volume: &StandingVolume, standing: &Standing) -> Result<Option<Target>, KernelError> {
    if matches!(standing, Standing::Device) {
        return Ok(None);
    }
    Ok(Some(Target {
        parent: volume_ops.kernel.walk(&volume_ops.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?,
        name: volume.spec_name.as_str().into(),
        pod_uid: Some(volume.pod.clone()),
        spec_name: volume.spec_name.clone(),
        staging_mount: None,
        private: None,
        sharers: None,
        needed: Vec::new(),
    }))
}
