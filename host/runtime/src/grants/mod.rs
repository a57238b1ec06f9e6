//! What the operator allows each plugin. A plugin's right is what it imports *and* what it is granted.

mod builtin;
mod fuse;
mod reach;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use volhost_model::PluginName;

use crate::abi::GRANTABLE_INTERFACES;

use fuse::FuseHelpersTable;
pub(crate) use fuse::{FuseHelper, MOUNT_SLOT, WordPart};
pub(crate) use reach::Reach;
use words::{CallTime, Digest, DriverName, FlexDriverName, Interface, Memory, MountWord, Root};

/// The grant for every driver outside.
pub(crate) const EVERY_FLEX_DRIVER: &str = "*";
/// Stands for all drivers.
const EVERY_DRIVER: &str = "*";

/// The grants of all plugins, by plugin name: the `[grants]` table of the configuration file.
///
/// ```toml
/// [grants."example.com/archive"]
/// interfaces = ["host-paths"]
/// host-paths = ["/srv/archive"]
/// # Folders for image files and loop devices over them; imply the interface `loop-devices`.
/// loop-files = ["/srv/images"]
/// # Folders of images to mount read-only; imply the interface `image-files`.
/// image-files = ["/srv/images"]
/// # Block devices, or folders of them; imply the interface `block-devices`.
/// block-devices = ["/dev/disk/by-id/archive"]
/// # CSI drivers that it may call, `*` for all; imply the interface `grpc`.
/// csi-drivers = ["csi.example.com"]
/// # Drivers outside that it may run, by name, or `*` for all; imply the interface `driver-exec`.
/// flex-drivers = ["acme/lun"]
/// # Programs that may serve FUSE file systems for it, by name, each in a table of its own; imply the interface `fuse-helpers`.
/// fuse-helpers.cow = { program = "/usr/bin/fuse-overlayfs", arguments = ["-f", "{mount}"] }
/// # Optional: the only types of file systems it may make and mount, and the only options it may mount with.
/// filesystems = ["ext4"]
/// mount-options = ["noatime", "nosuid", "nodev"]
/// # Optional: how many loop devices it may have at once.
/// loop-devices = 16
/// # Optional: memory of one call (256Mi at the most), how long its code may run in one call, and how many of its operations at once.
/// memory = "128Mi"
/// call-time = "10s"
/// concurrency = 4
/// # Optional: only the plugin with this content may use the grant.
/// sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct GrantPolicy {
    grants: BTreeMap<PluginName, Grant>,
}

/// What one plugin may do beyond what every plugin may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Grant {
    interfaces: BTreeSet<Interface>,
    host_paths: Vec<Root>,
    loop_files: Vec<Root>,
    image_files: Vec<Root>,
    block_devices: Vec<Root>,
    csi_drivers: Vec<DriverName>,
    flex_drivers: Vec<FlexDriverName>,
    fuse_helpers: FuseHelpersTable,
    filesystems: Option<BTreeSet<MountWord>>,
    mount_options: Option<BTreeSet<MountWord>>,
    loop_devices: Option<usize>,
    memory: Option<Memory>,
    call_time: Option<CallTime>,
    concurrency: Option<std::num::NonZeroUsize>,
    sha256: Vec<Digest>,
}

impl GrantPolicy {
    /// These grants, with each plugin that `other` names as `other` says.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.grants.extend(other.grants);
        self
    }

    /// The interfaces that the plugin of this name is granted, whatever its content, in the contract's order.
    #[must_use]
    pub fn granted_to(&self, name: &PluginName) -> Vec<&'static str> {
        let Some(grant) = self.grants.get(name) else { return Vec::new() };
        GRANTABLE_INTERFACES.iter().copied().filter(|interface| grant.covers(interface)).collect()
    }

    /// The plugins whose grants are not the same in both.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<PluginName> {
        let names: BTreeSet<&PluginName> = self.grants.keys().chain(before.grants.keys()).collect();
        names.into_iter().filter(|name| self.grants.get(name) != before.grants.get(name)).cloned().collect()
    }

    /// Whether a grant is for this content by its digest.
    pub(crate) fn pins(&self, digest: &str) -> bool {
        self.grants.values().any(|grant| grant.sha256.iter().any(|pinned| pinned.0 == digest))
    }

    /// What the plugin of this name and content is granted; nothing when the operator did not name it, or named another content.
    pub(crate) fn of(&self, name: &PluginName, digest: &str) -> Granted<'_> {
        match self.grants.get(name) {
            None => Granted::Nothing,
            Some(grant) if grant.sha256.is_empty() || grant.sha256.iter().any(|d| d.0 == digest) => Granted::To(grant),
            Some(_) => Granted::ToAnotherContent,
        }
    }
}

/// The answer of [`GrantPolicy::of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granted<'a> {
    /// The operator granted nothing to this name.
    Nothing,
    /// The operator granted this to the name, for another content of the plugin.
    ToAnotherContent,
    /// This.
    To(&'a Grant),
}

impl Grant {
    /// Whether the interface is granted. Folders imply the interface that opens them.
    pub(crate) fn covers(&self, interface: &str) -> bool {
        (interface == "host-paths" && !self.host_paths.is_empty())
            || (interface == "loop-devices" && !self.loop_files.is_empty())
            || (interface == "image-files" && !self.image_files.is_empty())
            || (interface == "block-devices" && !self.block_devices.is_empty())
            || (interface == "grpc" && !self.csi_drivers.is_empty())
            || (interface == "driver-exec" && !self.flex_drivers.is_empty())
            || (interface == "fuse-helpers" && !self.fuse_helpers.0.is_empty())
            || self.interfaces.iter().any(|i| i.0 == interface)
    }

    /// The bounds of a plugin with this grant.
    pub(crate) fn reach(&self) -> Reach {
        let words = |words: &Option<BTreeSet<MountWord>>| {
            words.as_ref().map(|words| words.iter().map(|word| word.0.clone()).collect())
        };
        Reach {
            host_paths: self.host_paths(),
            loop_files: paths(&self.loop_files),
            image_files: paths(&self.image_files),
            block_devices: paths(&self.block_devices),
            csi_drivers: self.csi_drivers.iter().map(|name| name.0.clone()).collect(),
            flex_drivers: self.flex_drivers.iter().map(|driver| driver.0.clone()).collect(),
            fuse_helpers: self.fuse_helpers.0.clone(),
            filesystems: words(&self.filesystems),
            mount_options: words(&self.mount_options),
            loop_devices: self.loop_devices,
            looped: std::sync::Mutex::default(),
            memory: self.memory.map(|memory| memory.0),
            call_time: self.call_time.map(|time| time.0),
            concurrency: self.concurrency.map(std::num::NonZeroUsize::get),
        }
    }

    /// The folders within which the plugin may open paths of the host.
    #[must_use]
    pub fn host_paths(&self) -> Vec<PathBuf> {
        paths(&self.host_paths)
    }
}

fn paths(roots: &[Root]) -> Vec<PathBuf> {
    roots.iter().map(|root| root.0.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PluginName {
        PluginName::new(text).unwrap()
    }

    #[test]
    fn a_grant_is_read_from_the_configuration() {
        let policy: GrantPolicy = toml::from_str("[\"a.b/c\"]\nhost-paths = [\"/srv\"]").unwrap();
        let Granted::To(grant) = policy.of(&name("a.b/c"), "") else { panic!("not granted") };
        assert!(grant.covers("host-paths"));
        assert_eq!(grant.host_paths(), [PathBuf::from("/srv")]);
        assert!(!grant.covers("loop-devices"));
        assert_eq!(policy.of(&name("a.b/d"), ""), Granted::Nothing);
        let policy: GrantPolicy = toml::from_str("[\"a.b/c\"]\nloop-files = [\"/srv\"]").unwrap();
        let Granted::To(grant) = policy.of(&name("a.b/c"), "") else { panic!("not granted") };
        assert!(grant.covers("loop-devices") && !grant.covers("host-paths"));
    }

    #[test]
    fn mistakes_in_the_configuration_are_named() {
        for (text, words) in [
            ("[\"a/b\"]\ninterfaces = [\"hostpaths\"]", "there is: host-paths"),
            ("[\"a/b\"]\nhost-paths = [\"srv\"]", "srv is not an absolute path"),
            ("[\"a/b\"]\nhost-paths = [\"/srv/../etc\"]", "not an absolute path without"),
            ("[\"a/b\"]\nhost_paths = [\"/srv\"]", "unknown field"),
            ("[\"a/b\"]\nflex-drivers = [\"a/b/c\"]", "is no driver's name"),
            ("[\"a/b\"]\nsha256 = [\"abc\"]", "is not a SHA-256"),
            ("[\"a/b\"]\nfilesystems = [\"ext4,suid\"]", "is no name of a file system's type"),
            ("[\"a/b\"]\nmemory = \"1Gi\"", "is not between 64 KiB and 256 MiB"),
            ("[\"a/b\"]\ncall-time = \"1h\"", "is no time that a call may take"),
            ("[\"a/b\"]\nconcurrency = 0", "nonzero"),
            ("[\"noslash\"]\nhost-paths = [\"/srv\"]", "vendor/name"),
        ] {
            let error = toml::from_str::<GrantPolicy>(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_pinned_grant_is_for_that_content_alone() {
        let digest = "a".repeat(64);
        let policy: GrantPolicy =
            toml::from_str(&format!("[\"a/b\"]\nhost-paths = [\"/\"]\nsha256 = [\"{digest}\"]")).unwrap();
        assert!(matches!(policy.of(&name("a/b"), &digest), Granted::To(_)));
        assert_eq!(policy.of(&name("a/b"), &"b".repeat(64)), Granted::ToAnotherContent);
    }

    #[test]
    fn the_operators_grant_replaces_the_built_in_one() {
        let mine: GrantPolicy = toml::from_str("[\"kubernetes.io/host-path\"]\nhost-paths = [\"/srv\"]").unwrap();
        let policy = GrantPolicy::builtin().overridden_by(mine);
        let Granted::To(grant) = policy.of(&name("kubernetes.io/host-path"), "") else { panic!("not granted") };
        assert_eq!(grant.host_paths(), [PathBuf::from("/srv")]);
        assert!(matches!(policy.of(&name("kubernetes.io/local-volume"), ""), Granted::To(_)));
    }
}
