//! What the operator allows each plugin. A plugin's right is what it imports *and* what it is granted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use volhost_model::PluginName;

use crate::abi::GRANTABLE_INTERFACES;
use crate::digest::is_digest;

/// The grant for every driver outside.
pub(crate) const EVERY_FLEX_DRIVER: &str = "*";
/// Where the plugin `loop` keeps images unless the operator says otherwise.
const LOOP_FILES: &str = "/var/lib/volhost-loop";
/// Where the plugin `image-file` looks for images unless the operator says otherwise.
const IMAGE_FILES: &str = "/var/lib/volhost-images";
/// Where the devices are that FlexVolume drivers name.
const DEVICES: &str = "/dev";
/// Where the plugin `overlay` looks for bases and tops unless the operator says otherwise.
const OVERLAYS: &str = "/var/lib/volhost-overlay";

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
    sha256: Vec<Digest>,
}

/// The places of the host that one plugin may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Folders within which it may open paths.
    pub(crate) host_paths: Vec<PathBuf>,
    /// Folders within which it may keep image files and make loop devices over them.
    pub(crate) loop_files: Vec<PathBuf>,
    /// Folders whose image files it may mount.
    pub(crate) image_files: Vec<PathBuf>,
    /// Block devices it may open, or folders within which it may open them.
    pub(crate) block_devices: Vec<PathBuf>,
    /// Names of drivers that it may call, `*` for all.
    pub(crate) csi_drivers: Vec<String>,
    /// Drivers outside that it may run; `*` for all.
    pub(crate) flex_drivers: Vec<String>,
}

impl Reach {
    /// Whether the plugin may call the driver of this name.
    pub(crate) fn calls(&self, driver: &str) -> bool {
        self.csi_drivers.iter().any(|granted| granted == driver || granted == EVERY_DRIVER)
    }
}

/// An interface that needs a grant; any other word is refused when the configuration is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Interface(String);

/// A folder of the host: an absolute path without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PathBuf")]
struct Root(PathBuf);

/// The name of a CSI driver, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct DriverName(String);
/// A driver's name, or `*`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct FlexDriverName(String);

/// A SHA-256 in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Digest(String);

impl TryFrom<String> for Interface {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        if GRANTABLE_INTERFACES.contains(&name.as_str()) {
            return Ok(Self(name));
        }
        Err(format!("there is no interface {name:?} to grant; there is: {}", GRANTABLE_INTERFACES.join(", ")))
    }
}

impl TryFrom<PathBuf> for Root {
    type Error = String;
    fn try_from(path: PathBuf) -> Result<Self, String> {
        if path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))) && path.is_absolute()
        {
            return Ok(Self(path));
        }
        Err(format!("{} is not an absolute path without `.` and `..`", path.display()))
    }
}

impl TryFrom<String> for DriverName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if plain || name == EVERY_DRIVER {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is no CSI driver's name such as `csi.example.com`, nor `*` for all"))
    }
}

impl TryFrom<String> for FlexDriverName {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        let parts: Vec<&str> = name.split('/').collect();
        if name == EVERY_FLEX_DRIVER
            || (parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && *part != EVERY_FLEX_DRIVER))
        {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is no driver's name; write vendor/driver, or {EVERY_FLEX_DRIVER} for all"))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(digest: String) -> Result<Self, String> {
        if is_digest(&digest) {
            return Ok(Self(digest));
        }
        Err(format!("{digest:?} is not a SHA-256: 64 digits of lower-case hex, as sha256sum prints it"))
    }
}

impl GrantPolicy {
    /// What the plugins that come with volhost need to do what Kubernetes says they do: `hostPath` and `local` volumes
    /// may name any path of the host, the kinds that show objects may open those that
    /// a volume names; `csi` may call every CSI driver that has registered, and `flex-volume` run every driver that the operator has installed;
    /// the plugins `loop`, `image-file` and `overlay` have a folder of their own each, `/var/lib/volhost-loop`, `/var/lib/volhost-images` and
    /// `/var/lib/volhost-overlay`. Restrict them with grants of your own under the
    /// same names.
    #[must_use]
    pub fn builtin() -> Self {
        let named = |names: &[&str]| names.iter().map(|name| Interface((*name).to_owned())).collect();
        let interfaces = |names: &[&str]| Grant { interfaces: named(names), ..Grant::default() };
        let root = || vec![Root(PathBuf::from("/"))];
        let whole_host = Grant { host_paths: root(), ..Grant::default() };
        let local = Grant { block_devices: root(), interfaces: named(&["id-maps"]), ..whole_host.clone() };
        let maps = || named(&["id-maps"]);
        let read_images =
            Grant { image_files: vec![Root(PathBuf::from(IMAGE_FILES))], interfaces: maps(), ..Grant::default() };
        let overlays = Grant {
            interfaces: named(&["overlays", "pod-volumes"]),
            host_paths: vec![Root(PathBuf::from(OVERLAYS))],
            ..Grant::default()
        };
        let images =
            Grant { loop_files: vec![Root(PathBuf::from(LOOP_FILES))], interfaces: maps(), ..Grant::default() };
        let csi = Grant {
            interfaces: named(&["files", "secrets", "service-account-tokens", "csi-driver-objects", "driver-mounts"]),
            csi_drivers: vec![DriverName(EVERY_DRIVER.to_owned())],
            ..Grant::default()
        };
        let flex = Grant {
            interfaces: named(&["driver-mounts"]),
            flex_drivers: vec![FlexDriverName(EVERY_FLEX_DRIVER.to_owned())],
            block_devices: vec![Root(PathBuf::from(DEVICES))],
            ..Grant::default()
        };
        let grants = [
            ("kubernetes.io/csi", csi),
            ("volhost.io/flex-volume", flex),
            ("kubernetes.io/host-path", whole_host),
            ("kubernetes.io/local-volume", local),
            ("volhost.io/loop", images),
            ("volhost.io/image-file", read_images),
            ("volhost.io/overlay", overlays),
            ("kubernetes.io/configmap", interfaces(&["files", "config-maps"])),
            ("kubernetes.io/secret", interfaces(&["files", "secrets"])),
            ("kubernetes.io/downward-api", interfaces(&["files"])),
            ("kubernetes.io/empty-dir", interfaces(&["huge-pages", "quotas"])),
            (
                "kubernetes.io/projected",
                interfaces(&["files", "config-maps", "secrets", "service-account-tokens", "cluster-trust-bundles"]),
            ),
        ];
        let grants = grants.into_iter().filter_map(|(name, grant)| Some((PluginName::new(name).ok()?, grant)));
        Self { grants: grants.collect() }
    }

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
            || self.interfaces.iter().any(|i| i.0 == interface)
    }

    /// The places of the host that the plugin may reach.
    pub(crate) fn reach(&self) -> Reach {
        Reach {
            host_paths: self.host_paths(),
            loop_files: paths(&self.loop_files),
            image_files: paths(&self.image_files),
            block_devices: paths(&self.block_devices),
            csi_drivers: self.csi_drivers.iter().map(|name| name.0.clone()).collect(),
            flex_drivers: self.flex_drivers.iter().map(|driver| driver.0.clone()).collect(),
        }
    }

    /// The folders within which the plugin may open paths of the host.
    #[must_use]
    pub fn host_paths(&self) -> Vec<PathBuf> {
        paths(&self.host_paths)
    }
}

fn paths(roots: &[Root]) -> Vec<PathBuf> {
    roots.iter().map(|root| Path::to_path_buf(&root.0)).collect()
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
