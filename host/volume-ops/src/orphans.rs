//! The folder of a pod that nobody knows (any more): cleaned of what holds no data, and looked through for what does.

use std::ffi::OsStr;
use std::path::Path;

use volhost_core::RecoveredVolume;
use volhost_kernel::{Detach, Directory, Entry, KernelError};
use volhost_model::names::PodUid;

use super::layout;
use super::recovery::Recovery;
use super::recovery_devices::FoundDevices;
use super::volume_ops::VolumeOps;

/// How deep a folder is looked into. The kubelet's own folders of a pod are four deep.
const DEPTH: usize = 8;
/// How many things that are left a message names; looking ends there.
const NAMED: usize = 8;

/// What the folder of a pod that nobody knows still holds. Both empty: the folder is gone.
#[derive(Debug, Default, PartialEq)]
pub struct Orphan {
    /// Volumes, which their plugins are to take away.
    pub volumes: Vec<RecoveredVolume>,
    /// What is not volhost's, or could not be removed: a path and a word for it. Some of it, if it is much.
    pub left: Vec<String>,
}

impl VolumeOps {
    /// Looks through the folder of a pod that nobody wants or unmounts. Without volumes in it, what volhost mounted there of parts of volumes is
    /// unmounted, and empty folders are removed.
    ///
    /// # Guarantees
    /// No file is removed, and no folder that is not empty; nothing that is mounted is entered. A pod of this uid may come meanwhile: its
    /// volumes' folders are not touched, but for a private one that is still empty, which the next try makes again.
    pub fn clean_orphan(&self, pod: &PodUid) -> Orphan {
        let mut found = Recovery::default();
        self.recover_volumes_of(pod, &FoundDevices::default(), &mut found);
        if !found.volumes.is_empty() {
            return Orphan { volumes: found.volumes, left: Vec::new() };
        }
        let mut left = Left::default();
        for (path, why) in found.problems {
            left.note(Path::new(&path), why);
        }
        if let Err(error) = self.sweep_folder(pod, &mut left) {
            left.note(&Path::new(layout::PODS).join(pod.as_str()), error);
        }
        Orphan { volumes: Vec::new(), left: left.0 }
    }

    fn sweep_folder(&self, pod: &PodUid, left: &mut Left) -> Result<(), KernelError> {
        let path = Path::new(layout::PODS).join(pod.as_str());
        if let Some(folder) = self.open_if_there(&path)? {
            if let Err(error) = self.kernel.detach_tree(&folder, OsStr::new(layout::SUB_PATHS), Detach::Normal) {
                left.note(&path.join(layout::SUB_PATHS), error);
            }
            for name in self.kernel.names(&folder)? {
                // What stands in these are volumes, or will be.
                let of_volumes = [layout::VOLUMES, layout::VOLUME_DEVICES, layout::SUB_PATHS];
                if !of_volumes.iter().any(|kind| name == *kind) {
                    self.prune(&folder, &name, &path.join(&name), DEPTH, left);
                }
            }
        }
        self.forget_pod(pod)
    }

    /// Removes the folder at a name, and those in it, as far as they are empty.
    fn prune(&self, parent: &Directory, name: &OsStr, path: &Path, depth: usize, left: &mut Left) {
        if left.is_full() {
            return;
        }
        let entry = match self.kernel.entry(parent, name) {
            Ok(entry) => entry,
            Err(error) => return left.note(path, error),
        };
        match entry {
            Entry::Absent => {}
            Entry::Mount(_) => left.note(path, "a mount"),
            Entry::File => left.note(path, "a file"),
            Entry::Symlink => left.note(path, "a symbolic link"),
            Entry::Other => left.note(path, "a socket, pipe or device"),
            Entry::Folder if depth == 0 => left.note(path, "a folder"),
            Entry::Folder => {
                let below = self.kernel.walk(parent, Path::new(name)).and_then(|folder| {
                    let names = self.kernel.names(&folder)?;
                    Ok((folder, names))
                });
                match below {
                    Ok((folder, names)) => {
                        for inner in names {
                            self.prune(&folder, &inner, &path.join(&inner), depth - 1, left);
                        }
                    }
                    Err(error) => return left.note(path, error),
                }
                if let Err(error) = self.remove_if_empty(parent, name) {
                    left.note(path, error);
                }
            }
        }
    }
}

/// What is left, up to a number of things.
#[derive(Default)]
struct Left(Vec<String>);

impl Left {
    fn is_full(&self) -> bool {
        self.0.len() >= NAMED
    }

    fn note(&mut self, path: &Path, what: impl std::fmt::Display) {
        if !self.is_full() {
            self.0.push(format!("{} ({what})", path.display()));
        }
    }
}
