//! A PersistentVolume's mount options, as the kernel takes them.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

use crate::version::Version;

/// Words of fstab(5) and of mount.nfs(8) that ask for what is so anyway: volhost waits for the
/// network and tries again by itself.
const OF_NO_EFFECT: &[&str] = &[
    "_netdev", "async", "atime", "auto", "bg", "defaults", "dev", "exec", "fg", "noauto", "nofail", "retry", "rw",
    "suid",
];
/// The names of the option for the version.
const VERSION: &[&str] = &["vers", "nfsvers"];
const MINOR_VERSION: &str = "minorversion";
/// Options that say who keeps the locks of NFS 3.
const LOCKING: &[&str] = &["lock", "nolock", "local_lock"];
/// Locks within the node: those of the server need rpc.statd on the node.
const NO_LOCK: &str = "nolock";

/// Checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Per-mount options.
    pub(crate) of_mount: Vec<String>,
    /// The versions to try, in this order.
    pub(crate) versions: Vec<Version>,
    /// The others, without the version.
    of_nfs: Vec<(String, Option<String>)>,
}

impl Default for Options {
    /// Those of a volume without any.
    fn default() -> Self {
        Self { of_mount: Vec::new(), versions: Version::ALL.to_vec(), of_nfs: Vec::new() }
    }
}

impl Options {
    /// Reads the options of a volume. The kernel primitive checks those that this does not know.
    ///
    /// # Errors
    /// `invalid-argument` naming the option.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let MountOptions { of_mount, of_file_system, .. } = MountOptions::read(volume);
        let (mut version, mut minor, mut of_nfs) = (None, None, Vec::new());
        for (key, value) in of_file_system {
            let slot = match key.as_str() {
                word if OF_NO_EFFECT.contains(&word) => continue,
                word if VERSION.contains(&word) => &mut version,
                MINOR_VERSION => &mut minor,
                _ => {
                    of_nfs.push((key, value));
                    continue;
                }
            };
            let value = value.unwrap_or_default();
            if let Some(other) = slot.replace(value.clone())
                && other != value
            {
                return Err(Error::invalid_argument(format!(
                    "spec.mountOptions: {key} is given twice, as {} and as {}; remove one",
                    quoted(&other),
                    quoted(&value)
                )));
            }
        }
        Ok(Self { of_mount, versions: Version::asked(version.as_deref(), minor.as_deref())?, of_nfs })
    }

    /// The options of the file system for one version.
    pub(crate) fn of_version(&self, version: Version) -> Vec<(&str, Option<&str>)> {
        let mut options = vec![("vers", Some(version.word()))];
        if self.locks_within_the_node(version) {
            options.push((NO_LOCK, None));
        }
        options.extend(self.of_nfs.iter().map(|(key, value)| (key.as_str(), value.as_deref())));
        options
    }

    /// What a user must know who gets this version without having asked for it.
    pub(crate) fn warning(&self, version: Version) -> &'static str {
        if self.locks_within_the_node(version) { "; locks of files count within this node alone" } else { "" }
    }

    fn locks_within_the_node(&self, version: Version) -> bool {
        version == Version::V3 && !self.of_nfs.iter().any(|(key, _)| LOCKING.contains(&key.as_str()))
    }
}
