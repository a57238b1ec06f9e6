//! Measures one volume. May hang as long as its storage does.
//!
//! | target | capacity, free | used |
//! |---|---|---|
//! | a mount | its file system's | its file system's |
//! | a plain folder, on a file system that others use too | its file system's | what its files add up to |
//! | a device | its size | |
//!
//! What the plugin itself measures takes precedence.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use volhost_kernel::{Directory, DiskUsage, Entry, Kernel, KernelError};
use volhost_runtime::{CallError, Capability, Measured, Place, Target};

use super::MeteredVolume;
use crate::layout;
use crate::node_folders::VolumeRef;
use crate::steps::Steps;
use crate::volume_ops::VolumeOps;

/// The figures of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VolumeFigures {
    /// The figures.
    pub(super) measured: Measured,
    /// Why some, or all, are missing.
    pub(super) problem: Option<String>,
}

/// What is at the pod's target.
enum TargetKind {
    Mount,
    Folder,
    Device,
}

/// Asks the kernel, and the plugin if it measures its volumes itself.
pub(super) fn measure(volume_ops: &VolumeOps, volume: &MeteredVolume, plugin_time: Duration) -> VolumeFigures {
    let kind = match look(volume_ops, volume) {
        Ok(Some(kind)) => kind,
        Ok(None) => return VolumeFigures::failed("nothing is mounted in the pod's folder"),
        Err(error) => return VolumeFigures::failed(error),
    };
    let mut found = VolumeFigures::default();
    let own = match kind {
        // Of a folder this is what it shares with others: what is left to all.
        TargetKind::Mount | TargetKind::Folder => file_system(volume_ops, volume),
        TargetKind::Device => device(volume_ops, volume),
    };
    found.measured = found.keep(own).unwrap_or_default();
    if matches!(kind, TargetKind::Folder) {
        // What others have written to the same file system is not this volume's.
        (found.measured.used, found.measured.inodes_used) = (None, None);
    }
    let plugin = volume_ops.plugins().for_unmount(&volume.plugin, None);
    if let Some(plugin) = plugin.filter(|plugin| plugin.exports(Capability::Stats)) {
        let name = layout::volume_name(&volume.plugin, &volume.volume);
        let asked = target(volume_ops, volume, &kind).map_err(|error| error.to_string()).and_then(|target| {
            let call = volume_ops.plugins().call(plugin_time);
            let answer = Steps::new(volume_ops.kernel().as_ref(), &plugin, &call).measure(name, target);
            answer.map_err(|error: CallError| error.message())
        });
        if let Some(measured) = found.keep(asked).flatten() {
            prefer(&mut found.measured, measured);
        }
    }
    if matches!(kind, TargetKind::Folder) && found.measured.used.is_none() {
        let sum = found.keep(files(volume_ops, volume));
        (found.measured.used, found.measured.inodes_used) = (sum.map(|sum| sum.bytes), sum.map(|sum| sum.inodes));
    }
    found
}

impl VolumeFigures {
    fn failed(problem: impl ToString) -> Self {
        Self { problem: Some(problem.to_string()), ..Self::default() }
    }

    /// Keeps the first problem: those after it are mostly its consequences.
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

/// Replaces the host's figures with those that the plugin measured.
pub fn prefer(own: &mut Measured, plugins: Measured) {
    let Measured { capacity, available, used, inodes, inodes_free, inodes_used, abnormal } = plugins;
    own.capacity = capacity.or(own.capacity);
    own.available = available.or(own.available);
    own.used = used.or(own.used);
    own.inodes = inodes.or(own.inodes);
    own.inodes_free = inodes_free.or(own.inodes_free);
    own.inodes_used = inodes_used.or(own.inodes_used);
    own.abnormal = abnormal;
}

fn look(volume_ops: &VolumeOps, volume: &MeteredVolume) -> Result<Option<TargetKind>, KernelError> {
    if let Some(place) = volume_ops.folders().place_of(&volume.plugin, &volume.spec_name, &volume.pod)? {
        match volume_ops.kernel().entry(&place.parent, &place.name)? {
            Entry::Mount(_) => return Ok(Some(TargetKind::Mount)),
            Entry::Folder => return Ok(Some(TargetKind::Folder)),
            _ => {}
        }
    }
    let (plugin, spec_name) = (&volume.plugin, &volume.spec_name);
    let device = VolumeRef { plugin, volume: &volume.volume, spec_name, is_staged: true };
    let Some(maps) = volume_ops.folders().device(device).maps()? else { return Ok(None) };
    let mapped = volume_ops.kernel().mapped_device(&maps, OsStr::new(volume.pod.as_str()))?;
    Ok(mapped.map(|_| TargetKind::Device))
}

fn place_of(volume_ops: &VolumeOps, volume: &MeteredVolume) -> Result<Place, KernelError> {
    volume_ops.folders().existing_place(&volume.plugin, &volume.spec_name, &volume.pod)
}

fn file_system(volume_ops: &VolumeOps, volume: &MeteredVolume) -> Result<Measured, KernelError> {
    let place = place_of(volume_ops, volume)?;
    file_system_at(volume_ops.kernel().as_ref(), &place.parent, &place.name)
}

/// Returns the figures of the file system at a name in a folder.
///
/// # Errors
/// The kernel's error.
pub fn file_system_at(kernel: &dyn Kernel, folder: &Directory, name: &OsStr) -> Result<Measured, KernelError> {
    let usage = kernel.usage(folder, name)?;
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

fn files(volume_ops: &VolumeOps, volume: &MeteredVolume) -> Result<DiskUsage, KernelError> {
    let place = place_of(volume_ops, volume)?;
    volume_ops.kernel().disk_usage(&place.parent, &place.name)
}

fn device(volume_ops: &VolumeOps, volume: &MeteredVolume) -> Result<Measured, KernelError> {
    let links = volume_ops.kernel().walk(volume_ops.root(), &layout::pod_device_folder(&volume.pod, &volume.plugin))?;
    let path = volume_ops.kernel().linked_device(&links, OsStr::new(volume.spec_name.as_str()))?;
    let device = volume_ops.kernel().open_block_device(path.as_deref().unwrap_or(Path::new("")))?;
    Ok(Measured { capacity: Some(volume_ops.kernel().device_size(&device)?), ..Measured::default() })
}

fn target(volume_ops: &VolumeOps, volume: &MeteredVolume, kind: &TargetKind) -> Result<Option<Target>, KernelError> {
    if matches!(kind, TargetKind::Device) {
        return Ok(None);
    }
    let place = place_of(volume_ops, volume)?;
    Ok(Some(Target {
        parent: place.parent,
        name: place.name,
        pod_uid: Some(volume.pod.clone()),
        spec_name: volume.spec_name.clone(),
        staging_mount: None,
        private: None,
        other_pods: None,
        needed: Vec::new(),
    }))
}
