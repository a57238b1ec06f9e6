//! A PersistentVolume's mount options, as the kernel takes them.

use volhost_plugin_sdk::MountOptions;
use volhost_plugin_sdk::prelude::*;

/// Words of fstab(5) and of mount.cifs(8) that ask for what is so anyway.
const OF_NO_EFFECT: &[&str] =
    &["_netdev", "async", "atime", "auto", "defaults", "dev", "exec", "noauto", "nodfs", "nofail", "rw", "suid"];
/// Options that would have a secret in the volume.
const CREDENTIALS: &[&str] =
    &["cred", "credentials", "dom", "domain", "pass", "password", "password2", "user", "username"];
/// mount.cifs(8)'s word for `sec=none`.
const GUEST: &str = "guest";
const SECURITY: &str = "sec";
const NONE: &str = "none";
/// The modes that files and folders are shown with: the owner's and the group's.
const MODES: [(&str, &str); 2] = [("dir_mode", "0775"), ("file_mode", "0775")];
const USER: &str = "uid";
const GROUP: &str = "gid";

/// Checked options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Per-mount options.
    pub(crate) of_mount: Vec<String>,
    /// The server is asked for no user: the volume has no secret.
    pub(crate) is_guest: bool,
    of_cifs: Vec<(String, Option<String>)>,
}

impl Options {
    /// Reads the options of a volume. The kernel primitive checks those that this does not know.
    ///
    /// # Errors
    /// `invalid-argument` naming the option.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let MountOptions { of_mount, of_file_system, .. } = MountOptions::read(volume);
        let mut options = Self { of_mount, ..Self::default() };
        for (key, value) in of_file_system {
            match (key.as_str(), value.as_deref()) {
                (word, _) if OF_NO_EFFECT.contains(&word) => {}
                (word, _) if CREDENTIALS.contains(&word) => {
                    // Without its value.
                    return Err(Error::invalid_argument(format!(
                        "spec.mountOptions: {word} does not belong there; it comes from the secret"
                    )));
                }
                (GUEST, None) | (SECURITY, Some(NONE)) => options.is_guest = true,
                _ => options.of_cifs.push((key, value)),
            }
        }
        Ok(options)
    }

    /// The options of the file system, without owners.
    pub(crate) fn of_cifs(&self) -> Vec<(&str, Option<&str>)> {
        let mut options: Vec<_> =
            MODES.iter().filter(|(key, _)| !self.has(key)).map(|(key, mode)| (*key, Some(*mode))).collect();
        if self.is_guest {
            options.push((SECURITY, Some(NONE)));
        }
        options.extend(self.of_cifs.iter().map(|(key, value)| (key.as_str(), value.as_deref())));
        options
    }

    /// The owner and group that files are shown with: the pod's, unless the volume says otherwise.
    pub(crate) fn owners(&self, user: Option<u32>, group: Option<u32>) -> Vec<(&'static str, String)> {
        [(USER, user), (GROUP, group)]
            .into_iter()
            .filter(|(key, _)| !self.has(key))
            .filter_map(|(key, id)| id.map(|id| (key, id.to_string())))
            .collect()
    }

    fn has(&self, key: &str) -> bool {
        self.of_cifs.iter().any(|(given, _)| given == key)
    }
}
