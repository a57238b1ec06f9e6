//! The places of a volume, laid out as the daemon lays them out.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volhost_kernel::{Directory, Entry, Kernel, KernelError, LinuxKernel};
use volhost_model::Pod;
use volhost_runtime::{Place, PrivateFolder, Sharers, Target};

use super::{Bench, GLOBAL_MOUNT};
use crate::ladder::{Ladder, Rung};
use crate::verdict::{Verdict, fail};

/// The mode of the folders between the root and a volume.
const FOLDER_MODE: u32 = 0o750;
/// How much of a volume's name is in its folder's.
const FOLDER_NAME_BYTES: usize = 64;

/// The other pods that have a volume.
#[derive(Debug)]
struct OtherPods {
    kernel: Arc<LinuxKernel>,
    root: Arc<Directory>,
    own: PathBuf,
}

impl Sharers for OtherPods {
    fn other_pods(&self) -> Result<u32, KernelError> {
        let mounts = self.kernel.mounts_below(&self.root)?;
        let others =
            mounts.iter().filter(|mount| mount.point.starts_with("pods") && !mount.point.starts_with(&self.own));
        Ok(u32::try_from(others.count()).unwrap_or(u32::MAX))
    }
}

impl Bench {
    /// The volume's target in the pod's folder.
    pub(crate) fn pod_target(&self, ladder: &Ladder, pod: &Pod) -> Verdict<Target> {
        let place = self.volume_place(ladder, pod)?;
        let own = Path::new("pods").join(pod.uid.as_str());
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: Some(pod.uid.clone()),
            spec_name: ladder.spec.name.clone(),
            staging_mount: self.staging_mount(ladder)?,
            private: Some(self.private_folder(ladder, pod)),
            sharers: Some(Arc::new(OtherPods { kernel: self.kernel.clone(), root: self.root.clone(), own })),
            needed: Vec::new(),
        })
    }

    /// The node's own target of the volume.
    pub(crate) fn node_target(&self, ladder: &Ladder) -> Verdict<Target> {
        let place = self.place(&self.node_folder(ladder), GLOBAL_MOUNT)?;
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: None,
            spec_name: ladder.spec.name.clone(),
            staging_mount: None,
            private: Some(self.node_note(ladder)),
            sharers: None,
            needed: Vec::new(),
        })
    }

    fn staging_mount(&self, ladder: &Ladder) -> Verdict<Option<Place>> {
        if !ladder.has(Rung::Node) {
            return Ok(None);
        }
        self.place(&self.node_folder(ladder), GLOBAL_MOUNT).map(Some)
    }

    pub(super) fn private_folder(&self, ladder: &Ladder, pod: &Pod) -> PrivateFolder {
        let parent = Path::new("pods").join(pod.uid.as_str()).join("plugins").join(self.plugin.info().name.escaped());
        PrivateFolder { root: Arc::clone(&self.root), parent, name: ladder.spec.name.as_str().into() }
    }

    /// Where the note is kept that the plugin keeps with the node's own mount.
    pub(super) fn node_note(&self, ladder: &Ladder) -> PrivateFolder {
        let name = folder_name(&ladder.name).into();
        PrivateFolder { root: Arc::clone(&self.root), parent: self.plugin_folder("notes"), name }
    }

    pub(super) fn pod_folder(&self, pod: &Pod) -> PathBuf {
        Path::new("pods").join(pod.uid.as_str()).join("volumes").join(self.plugin.info().name.escaped())
    }

    pub(super) fn plugin_folder(&self, what: &str) -> PathBuf {
        Path::new("plugins").join(self.plugin.info().name.as_str()).join(what)
    }

    pub(super) fn node_folder(&self, ladder: &Ladder) -> PathBuf {
        self.plugin_folder("mounts").join(folder_name(&ladder.name))
    }

    pub(super) fn place(&self, folder: &Path, name: &str) -> Verdict<Place> {
        let parent = self
            .kernel
            .make_dirs(&self.root, folder, FOLDER_MODE)
            .or_else(|error| fail("made the volume's folder", "ok", error.to_string()))?;
        Ok(Place { parent, name: name.into() })
    }

    /// Removes the folders above the volume's places that are empty, as the host does.
    pub(super) fn remove_empty_folders(&self, ladder: &Ladder, pod: &Pod) {
        let private = self.private_folder(ladder, pod).parent;
        let driver = self.plugin_folder("driverDevices").join(folder_name(&ladder.name));
        let notes = self.plugin_folder("notes");
        for folder in [self.pod_folder(pod), private, self.node_folder(ladder), driver, notes] {
            let mut at = folder.as_path();
            while let (Some(parent), Some(name)) = (at.parent(), at.file_name()) {
                if !self.remove_if_empty(parent, name) {
                    break;
                }
                at = parent;
            }
        }
    }

    /// Whether it is gone.
    fn remove_if_empty(&self, parent: &Path, name: &OsStr) -> bool {
        match self.kernel.walk(&self.root, parent) {
            Ok(parent) => {
                self.kernel.remove_empty_dir(&parent, name).is_ok()
                    && matches!(self.kernel.entry(&parent, name), Ok(Entry::Absent))
            }
            // What is above may be there still.
            Err(_) => true,
        }
    }
}

/// A volume's name as a folder's.
pub(super) fn folder_name(volume: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = volume.chars().map(plain).take(FOLDER_NAME_BYTES).collect();
    format!("v{name}")
}
