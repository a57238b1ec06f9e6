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
use crate::engine::layout;
use crate::engine::operation::Workshop;

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
pub(super) fn measure(workshop: &Workshop, volume: &StandingVolume, plugin_time: Duration) -> Found {
    let standing = match look(workshop, volume) {
        Ok(Some(standing)) => standing,
        Ok(None) => return Found::failed("nothing stands in the pod's folder"),
        Err(error) => return Found::failed(error),
    };
    let mut found = Found::default();
    let own = match standing {
        // Of a folder this is what it shares with others: what is left to all.
        Standing::Mount | Standing::Folder => file_system(workshop, volume),
        Standing::Device => device(workshop, volume),
    };
    found.measured = found.keep(own).unwrap_or_default();
    if matches!(standing, Standing::Folder) {
        // What others have written to the same file system is not this volume's.
        (found.measured.used, found.measured.inodes_used) = (None, None);
    }
    let plugin = workshop.plugins.for_tear_down(&volume.plugin, None);
    if let Some(plugin) = plugin.filter(|plugin| plugin.exports(Capability::Stats)) {
        let name = layout::volume_name(&volume.plugin, &volume.volume);
        let asked = target(workshop, volume, &standing).map_err(|error| error.to_string()).and_then(|target| {
            let answer = plugin.measure(&workshop.plugins.call(plugin_time), name, target);
            answer.map_err(|error: CallError| error.message())
        });
        if let Some(said) = found.keep(asked) {
            prefer(&mut found.measured, said);
        }
    }
    if matches!(standing, Standing::Folder) && found.measured.used.is_none() {
        let sum = found.keep(files(workshop, volume));
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

fn look(workshop: &Workshop, volume: &StandingVolume) -> Result<Option<Standing>, KernelError> {
    let name = OsStr::new(volume.spec_name.as_str());
    if let Some(folder) = workshop.open_if_there(&layout::plugin_folder(&volume.pod, &volume.plugin))? {
        match workshop.kernel.entry(&folder, name)? {
            Entry::Mount(_) => return Ok(Some(Standing::Mount)),
            Entry::Folder => return Ok(Some(Standing::Folder)),
            _ => {}
        }
    }
    let maps = workshop.open_if_there(&layout::map_folder(&volume.plugin, &volume.volume))?;
    let Some(maps) = maps else { return Ok(None) };
    let mapped = workshop.kernel.mapped_device(&maps, OsStr::new(volume.pod.as_str()))?;
    Ok(mapped.map(|_| Standing::Device))
}

fn file_system(workshop: &Workshop, volume: &StandingVolume) -> Result<Measured, KernelError> {
    let folder = workshop.kernel.walk(&workshop.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?;
    let usage = workshop.kernel.usage(&folder, OsStr::new(volume.spec_name.as_str()))?;
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

fn files(workshop: &Workshop, volume: &StandingVolume) -> Result<DiskUsage, KernelError> {
    let folder = workshop.kernel.walk(&workshop.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?;
    workshop.kernel.disk_usage(&folder, OsStr::new(volume.spec_name.as_str()))
}

fn device(workshop: &Workshop, volume: &StandingVolume) -> Result<Measured, KernelError> {
    let links = workshop.kernel.walk(&workshop.root, &layout::pod_device_folder(&volume.pod, &volume.plugin))?;
    let path = workshop.kernel.linked_device(&links, OsStr::new(volume.spec_name.as_str()))?;
    let device = workshop.kernel.open_block_device(path.as_deref().unwrap_or(Path::new("")))?;
    Ok(Measured { capacity: Some(workshop.kernel.device_size(&device)?), ..Measured::default() })
}

fn target(workshop: &Workshop, volume: &StandingVolume, standing: &Standing) -> Result<Option<Target>, KernelError> {
    if matches!(standing, Standing::Device) {
        return Ok(None);
    }
    Ok(Some(Target {
        parent: workshop.kernel.walk(&workshop.root, &layout::plugin_folder(&volume.pod, &volume.plugin))?,
        name: volume.spec_name.as_str().into(),
        pod_uid: Some(volume.pod.clone()),
        spec_name: volume.spec_name.clone(),
        device_mount: None,
        private: None,
        sharers: None,
        needed: Vec::new(),
    }))
}
