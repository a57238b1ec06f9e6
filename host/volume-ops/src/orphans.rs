//! Orphan cleanup: the folder of a pod that no source reports (any more) is cleaned of what
//! contains no data, and searched for what does.

use std::ffi::OsStr;
use std::path::Path;

use volhost_core::RecoveredVolume;
use volhost_kernel::{Detach, Directory, Entry, KernelError};
use volhost_model::names::PodUid;

use super::layout;
use super::node_folders::NodeFolders;
use super::recovered::Recovery;
use super::recovery::PodScan;
use super::recovery_devices::FoundDevices;

/// How deep a folder is searched. The kubelet's own folders of a pod are four deep.
const DEPTH: usize = 8;
/// The pod's `/etc/hosts`, as the kubelet writes it.
const HOSTS: &str = "etc-hosts";
/// The termination messages of the pod's containers, as the kubelet keeps them.
const CONTAINERS: &str = "containers";
/// How many leftovers a message names; the search ends there.
const NAMED: usize = 8;

/// What the folder of an unknown pod still contains. Both empty: the folder is gone.
#[derive(Debug, Default, PartialEq)]
pub struct Orphan {
    /// Volumes, which their plugins have to unpublish.
    pub volumes: Vec<RecoveredVolume>,
    /// What volhost did not make, or could not remove: a path and its kind. At most the first
    /// eight.
    pub left: Vec<String>,
}

/// Searches the folder of a pod that no source reports and no operation unmounts. In a folder
/// without volumes, unmounts the sub-paths that volhost mounted there, and removes empty folders.
///
/// # Guarantees
/// Removes no file, and no folder that is not empty, but what a kubelet wrote for containers in an
/// adopted root folder; enters no mount. A pod of this uid may come
/// meanwhile: its volumes' folders are not touched, except an empty private one, which the next try
/// makes again.
pub(super) fn clean(scan: &PodScan, folders: &NodeFolders, pod: &PodUid) -> Orphan {
    // Mostly its last volume was unmounted just now, and there is nothing to search.
    if matches!(scan.forget_pod(pod), Ok(true)) {
        return Orphan::default();
    }
    let mut found = Recovery::default();
    scan.recover_volumes_of(pod, &FoundDevices::default(), &mut found);
    if !found.volumes.is_empty() {
        return Orphan { volumes: found.volumes, left: Vec::new() };
    }
    let mut left = Leftovers::default();
    for (path, why) in found.problems {
        left.note(Path::new(&path), why);
    }
    let cleaned = clean_folder(folders, pod, &mut left).and_then(|()| scan.forget_pod(pod).map(drop));
    if let Err(error) = cleaned {
        left.note(&Path::new(layout::PODS).join(pod.as_str()), error);
    }
    Orphan { volumes: Vec::new(), left: left.0 }
}

fn clean_folder(folders: &NodeFolders, pod: &PodUid, left: &mut Leftovers) -> Result<(), KernelError> {
    let path = Path::new(layout::PODS).join(pod.as_str());
    let Some(folder) = folders.open(&path)? else { return Ok(()) };
    if let Err(error) = folders.kernel().detach_tree(&folder, OsStr::new(layout::SUB_PATHS), Detach::Normal) {
        left.note(&path.join(layout::SUB_PATHS), error);
    }
    if matches!(folders.kernel().entry(folders.root(), OsStr::new(layout::ADOPTED)), Ok(Entry::File)) {
        remove_files_for_containers(folders, &folder, &path, left);
    }
    for name in folders.kernel().names(&folder)? {
        // What these contain are volumes, or will be.
        let of_volumes = [layout::VOLUMES, layout::VOLUME_DEVICES, layout::SUB_PATHS];
        if !of_volumes.iter().any(|kind| name == *kind) {
            prune(folders, &folder, &name, &path.join(&name), DEPTH, left);
        }
    }
    Ok(())
}

/// Removes what a kubelet wrote into the folder of a pod for its containers: in an adopted root
/// folder, no kubelet will. The folder of an unknown pod without volumes is all that is left of it.
fn remove_files_for_containers(folders: &NodeFolders, folder: &Directory, path: &Path, left: &mut Leftovers) {
    let hosts = OsStr::new(HOSTS);
    let removed = match folders.kernel().entry(folder, hosts) {
        Ok(Entry::File) => folders.kernel().remove_file(folder, hosts),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        left.note(&path.join(HOSTS), error);
    }
    if let Err(error) = folders.kernel().delete_folder(folder, OsStr::new(CONTAINERS)) {
        left.note(&path.join(CONTAINERS), error);
    }
}

/// Removes the folder at a name, and the folders in it, as far as they are empty.
fn prune(folders: &NodeFolders, parent: &Directory, name: &OsStr, path: &Path, depth: usize, left: &mut Leftovers) {
    if left.is_full() {
        return;
    }
    let entry = match folders.kernel().entry(parent, name) {
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
            let below = folders.kernel().walk(parent, Path::new(name)).and_then(|folder| {
                let names = folders.kernel().names(&folder)?;
                Ok((folder, names))
            });
            match below {
                Ok((folder, names)) => {
                    for inner in names {
                        prune(folders, &folder, &inner, &path.join(&inner), depth - 1, left);
                    }
                }
                Err(error) => return left.note(path, error),
            }
            if let Err(error) = folders.remove_if_empty(parent, name) {
                left.note(path, error);
            }
        }
    }
}

/// The leftovers, at most [`NAMED`].
#[derive(Default)]
struct Leftovers(Vec<String>);

impl Leftovers {
    fn is_full(&self) -> bool {
        self.0.len() >= NAMED
    }

    fn note(&mut self, path: &Path, what: impl std::fmt::Display) {
        if !self.is_full() {
            self.0.push(format!("{} ({what})", path.display()));
        }
    }
}
