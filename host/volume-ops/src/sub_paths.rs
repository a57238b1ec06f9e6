//! Sub-paths of a volume for containers (`subPath` and `subPathExpr`), bound below the pod's
//! folder.
//!
//! A sub-path is opened and bound by handle, so a pod that renames folders in its volume meanwhile
//! cannot lead the host out of the volume. All binds are unmounted at once before the volume is
//! unpublished. After a crash, recovery finds them at their places.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use tracing::instrument;
use volhost_core::Operation;
use volhost_kernel::{Detach, Entry, ErrorKind, Kernel, KernelError, MissingSubPath, SubPathBind};
use volhost_model::view::EventKind;
use volhost_model::{ContainerMount, Failure, FailureClass, MountPropagation, PodUid, VolumeSpec};
use volhost_runtime::{Call, Place};

use super::failures::kernel_failure;
use super::layout;
use super::node_folders::NodeFolders;
use super::records::RecordedVolume;

const PREPARE: &str = "MountVolume.PrepareSubPath";
const CLEAN: &str = "UnmountVolume.CleanSubPaths";
/// How many failed sub-paths a message names: the rest mostly fail for the same reason.
const NAMED: usize = 5;

/// Binds and unmounts sub-paths.
#[derive(Debug, Clone)]
pub(super) struct SubPathOps {
    folders: NodeFolders,
}

impl SubPathOps {
    pub(super) fn new(folders: NodeFolders) -> Self {
        Self { folders }
    }

    fn kernel(&self) -> &dyn Kernel {
        self.folders.kernel().as_ref()
    }

    /// Binds every sub-path of the published volume that a container names, and unmounts those that
    /// no container names any more. Correct binds are left alone. A failure does not stop the
    /// others.
    ///
    /// # Errors
    /// The sub-paths that failed, each with its container, place and cause. The volume itself is
    /// published.
    #[instrument(name = "PrepareSubPaths", level = "debug", skip_all)]
    pub(super) fn prepare(
        &self,
        operation: &Operation,
        call: &Call,
        pod: &PodUid,
        published: &Place,
    ) -> Result<(), Failure> {
        let parts: Vec<&ContainerMount> =
            operation.container_mounts.iter().filter(|mount| mount.sub_path.is_some()).collect();
        if parts.is_empty() && self.folders.has_no_sub_paths(pod).is_ok_and(|none| none) {
            return Ok(());
        }
        let uncertain = |error: &KernelError| kernel_failure(PREPARE, FailureClass::Uncertain, error);
        self.unmount_unwanted(operation, pod, &parts).map_err(|error| uncertain(&error))?;
        let Some(spec) = &operation.spec else { return Ok(()) };
        let mut failed = Vec::new();
        for part in parts {
            call.progress().enter(format!("sub-path of {}", part.shown()));
            let shown = match self.show(operation, pod, published, spec, part) {
                // The folders of a pod whose last volume has just gone are removed: they can vanish
                // under a new volume's parts.
                Err(error) if error.kind() == ErrorKind::NotFound => self.show(operation, pod, published, spec, part),
                shown => shown,
            };
            if let Err(error) = shown {
                failed.push(described(spec, part, &error));
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        let more = failed.len().saturating_sub(NAMED);
        failed.truncate(NAMED);
        let mut message = failed.join("; ");
        if more > 0 {
            message.push_str(&format!("; and {more} more"));
        }
        Err(Failure::new(FailureClass::Uncertain, PREPARE, message))
    }

    fn show(
        &self,
        operation: &Operation,
        pod: &PodUid,
        published: &Place,
        spec: &VolumeSpec,
        part: &ContainerMount,
    ) -> Result<(), KernelError> {
        let missing = if spec.read_only { MissingSubPath::Refuse } else { MissingSubPath::MakeFolders };
        let path = Path::new(part.sub_path.as_deref().unwrap_or_default());
        let source = self.kernel().open_sub_path(&published.parent, &published.name, path, missing)?;
        let folder = layout::container_folder(pod, &operation.spec_name, &part.container);
        self.folders.of(pod).make_sub_paths();
        let folder = self.folders.make(&folder)?;
        let how = SubPathBind {
            read_only: part.read_only || spec.read_only,
            submounts: part.propagation != MountPropagation::None,
        };
        self.kernel().bind_sub_path(&source, how, &folder, OsStr::new(&part.index.to_string())).map(drop)
    }

    /// Unmounts sub-paths that an earlier version of the pod had.
    fn unmount_unwanted(
        &self,
        operation: &Operation,
        pod: &PodUid,
        parts: &[&ContainerMount],
    ) -> Result<(), KernelError> {
        let of_volume = layout::sub_paths_folder(pod).join(operation.spec_name.as_str());
        let Some(of_volume) = self.folders.open(&of_volume)? else {
            return Ok(());
        };
        let wanted: BTreeSet<(&str, String)> =
            parts.iter().map(|part| (part.container.as_str(), part.index.to_string())).collect();
        for container in self.kernel().names(&of_volume)? {
            let folder = self.kernel().walk(&of_volume, Path::new(&container))?;
            for index in self.kernel().names(&folder)? {
                let place = container.to_str().zip(index.to_str().map(str::to_owned));
                if !place.is_some_and(|place| wanted.contains(&place)) {
                    self.kernel().detach(&folder, &index, Detach::Normal)?;
                }
            }
            drop(folder);
            self.folders.remove_if_empty(&of_volume, &container)?;
        }
        Ok(())
    }

    /// Unmounts every sub-path of the volume. Returns whether there was one. What the host did not
    /// make stays, and is reported as an event.
    ///
    /// # Errors
    /// The kernel's error for a sub-path that could not be unmounted. The volume stays published
    /// until it can.
    #[instrument(name = "CleanSubPaths", level = "debug", skip_all)]
    pub(super) fn clean(&self, operation: &Operation, call: &Call, pod: &PodUid) -> Result<bool, Failure> {
        let failed = |error: &KernelError| kernel_failure(CLEAN, FailureClass::Uncertain, error);
        if self.folders.has_no_sub_paths(pod).map_err(|error| failed(&error))? {
            return Ok(false);
        }
        let Some(folder) = self.folders.open(&layout::sub_paths_folder(pod)).map_err(|error| failed(&error))? else {
            return Ok(false);
        };
        call.progress().enter("sub-paths");
        let name = OsStr::new(operation.spec_name.as_str());
        let had_parts = self.kernel().entry(&folder, name).map_err(|error| failed(&error))? != Entry::Absent;
        match self.kernel().detach_tree(&folder, name, Detach::Normal) {
            Ok(()) => self.forget(pod).map(|()| had_parts).map_err(|error| failed(&error)),
            // Nothing is mounted there any more: the volume can be unpublished.
            Err(error @ KernelError::NotEmpty { .. }) => {
                let message = format!(
                    "volume {:?}: its sub-paths are gone, but something that volhost did not put there is left and stays: {error}",
                    operation.spec_name.as_str()
                );
                call.sink().event(EventKind::Warning, "SubPathLeftover", &message);
                Ok(true)
            }
            Err(error) => Err(failed(&error)),
        }
    }

    fn forget(&self, pod: &PodUid) -> Result<(), KernelError> {
        match self.folders.open(&Path::new(layout::PODS).join(pod.as_str()))? {
            Some(folder) => self.folders.remove_if_empty(&folder, OsStr::new(layout::SUB_PATHS)),
            None => Ok(()),
        }
    }

    /// Returns whether every sub-path in the record is still a mount.
    pub(super) fn are_mounted(&self, pod: &PodUid, record: &RecordedVolume) -> bool {
        record.container_mounts.iter().filter(|mount| mount.sub_path.is_some()).all(|part| {
            let folder = layout::container_folder(pod, &record.spec.name, &part.container);
            let entry = self
                .kernel()
                .walk(self.folders.root(), &folder)
                .and_then(|folder| self.kernel().entry(&folder, OsStr::new(&part.index.to_string())));
            matches!(entry, Ok(Entry::Mount(_)))
        })
    }
}

/// Describes a sub-path that failed: the container, the place, the path, and why.
fn described(spec: &VolumeSpec, part: &ContainerMount, error: &KernelError) -> String {
    let mut text = format!(
        "{}: subPath {:?} of volume \"{}\" is not ready: {error}",
        part.shown(),
        part.sub_path.as_deref().unwrap_or_default(),
        spec.name
    );
    if spec.read_only && error.kind() == ErrorKind::NotFound {
        text.push_str("; the volume is read-only, so it is not made");
    }
    text
}
