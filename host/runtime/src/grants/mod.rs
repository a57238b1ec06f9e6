//! What the operator allows each plugin. A plugin's right is what it imports *and* what it is
//! granted. The values that the operator gives it belong to the same content.

mod builtin;
mod cluster;
mod fuse;
mod reach;
mod servers;
mod shipped;
mod sources;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use volhost_model::PluginName;

use crate::abi::GRANTABLE_INTERFACES;
use crate::settings::{PluginSettings, Values};

pub use cluster::{ClusterGrant, ClusterGrantError, ClusterGrants, is_reserved_name};
use fuse::FuseServersTable;
pub(crate) use fuse::{FuseServer, MOUNT_SLOT, Word, WordPart};
pub(crate) use reach::{MountNotGranted, Reach};
use servers::{FcTargets, Portals, Servers};
pub use shipped::{NotShipped, SHIPPED_LIST, ShippedListError, ShippedPlugins};
pub(crate) use shipped::{is_reserved, vendor};
use sources::SourceName;
pub use sources::SourceRight;
pub(crate) use sources::is_source;
pub(crate) use words::EVERY_FLEX_DRIVER;
use words::{
    ByteCount, CallTime, DriverName, FlexDriverName, Interface, Memory, MountWord, RegistryHost, Root, Sha256Hex,
};

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
/// # Servers to mount from over the network, by name, address or network, `*` for all; imply the interface `network-mounts`.
/// network-servers = ["nas.example.com", "192.0.2.0/24"]
/// # Portals of iSCSI targets, by address or network, `*` for all; imply the interface `iscsi-sessions`.
/// iscsi-portals = ["192.0.2.0/24"]
/// # Ports (WWNs) and units (WWIDs) of Fibre Channel targets, `*` for all; imply the interface `fc-devices`.
/// fc-targets = ["50060e801049cfd1", "3600508b400105e210000900000490000"]
/// # Registries to take OCI images from, `*` for all, and folders with image layouts; imply the interface `oci-images`.
/// image-registries = ["registry.example.com"]
/// image-layouts = ["/srv/layouts"]
/// # Optional: the most that an image may have on disk (32Gi without it).
/// image-size = "10Gi"
/// # Block devices, or folders of them; imply the interface `block-devices`.
/// block-devices = ["/dev/disk/by-id/archive"]
/// # CSI drivers that it may call, `*` for all; imply the interface `grpc`.
/// csi-drivers = ["csi.example.com"]
/// # Drivers outside that it may run, by name, or `*` for all; imply the interface `driver-exec`.
/// flex-drivers = ["acme/lun"]
/// # Programs that may serve FUSE file systems for it, by name, each in a table of its own; imply the interface `fuse-servers`.
/// fuse-servers.cow = { program = "/usr/bin/fuse-overlayfs", arguments = ["-f", "{mount}"] }
/// # Optional: the only types of file systems it may make and mount, and the only options it may mount with.
/// filesystems = ["ext4"]
/// mount-options = ["noatime", "nosuid", "nodev"]
/// # Optional: how many loop devices it may have at once.
/// loop-devices = 16
/// # Optional: memory of one call (256Mi at the most), how long its code may run in one call, and how many of its operations at once.
/// memory = "128Mi"
/// call-time = "10s"
/// concurrency = 4
/// # Volume sources that it may serve although they are Kubernetes' own or name a driver.
/// sources = ["csi:archive.example.com"]
/// # Optional: only the plugin with this content may use the grant. Without it, the first content that uses the grant keeps it.
/// sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct GrantPolicy {
    /// The operator's.
    grants: BTreeMap<PluginName, Grant>,
    /// Those of the plugins that come with volhost.
    #[serde(skip)]
    builtin: BTreeMap<PluginName, Grant>,
    /// Which files those plugins are.
    #[serde(skip)]
    shipped: ShippedPlugins,
    /// The table `[settings]`.
    #[serde(skip)]
    settings: PluginSettings,
    /// Those of plugins that the cluster installs, but those that the operator names.
    #[serde(skip)]
    cluster: ClusterGrants,
}

/// A program that a grant names as a FUSE server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedProgram {
    /// The plugin.
    pub plugin: PluginName,
    /// The server's name in the grant.
    pub server: String,
    /// The program.
    pub program: PathBuf,
}

/// One plugin's rights beyond those of every plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Grant {
    interfaces: BTreeSet<Interface>,
    host_paths: Vec<Root>,
    loop_files: Vec<Root>,
    image_files: Vec<Root>,
    network_servers: Vec<Servers>,
    iscsi_portals: Vec<Portals>,
    fc_targets: Vec<FcTargets>,
    image_registries: Vec<RegistryHost>,
    image_layouts: Vec<Root>,
    image_size: Option<ByteCount>,
    block_devices: Vec<Root>,
    csi_drivers: Vec<DriverName>,
    flex_drivers: Vec<FlexDriverName>,
    fuse_servers: FuseServersTable,
    filesystems: Option<BTreeSet<MountWord>>,
    mount_options: Option<BTreeSet<MountWord>>,
    loop_devices: Option<usize>,
    memory: Option<Memory>,
    call_time: Option<CallTime>,
    concurrency: Option<std::num::NonZeroUsize>,
    sources: BTreeSet<SourceName>,
    sha256: Vec<Sha256Hex>,
}

impl GrantPolicy {
    /// These grants, with each plugin that `other` names as `other` says.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.grants.extend(other.grants);
        self.settings.extend(other.settings);
        self
    }

    /// Sets the values that the operator gives plugins.
    #[must_use]
    pub fn with_settings(mut self, settings: PluginSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds what the cluster gives the plugins that it installs. What the operator's grants or
    /// settings say of a plugin stays as it is, and so do the plugins that come with volhost. To be
    /// called last.
    #[must_use]
    pub fn with_cluster(mut self, grants: ClusterGrants) -> Self {
        self.cluster = grants;
        let (own, settings) = (&self.grants, &self.settings);
        self.cluster.retain(|name, _| !own.contains_key(name) && !settings.has(name) && !is_reserved_name(name));
        self
    }

    /// Returns whether the operator's grants or settings name the plugin.
    #[must_use]
    pub fn is_named(&self, name: &PluginName) -> bool {
        self.grants.contains_key(name) || self.settings.has(name)
    }

    /// The values that the operator, or the cluster, gives the plugin of this name.
    pub(crate) fn settings_of(&self, name: &PluginName) -> Values {
        self.cluster.get(name).map_or_else(|| self.settings.of(name), |cluster| cluster.settings().clone())
    }

    /// The interfaces that the plugin of this name is granted, whatever its content, in the
    /// contract's order.
    #[must_use]
    pub fn granted_to(&self, name: &PluginName) -> Vec<&'static str> {
        let cluster = self.cluster.get(name).map(ClusterGrant::grant);
        let Some(grant) = cluster.or_else(|| self.named(name)) else { return Vec::new() };
        GRANTABLE_INTERFACES.iter().copied().filter(|interface| grant.covers(interface)).collect()
    }

    /// The programs that grants name as FUSE servers, by plugin.
    #[must_use]
    pub fn fuse_programs(&self) -> Vec<GrantedProgram> {
        let names: BTreeSet<&PluginName> = self.grants.keys().chain(self.builtin.keys()).collect();
        let grants = names.into_iter().filter_map(|name| Some((name, self.named(name)?)));
        let programs = grants.flat_map(|(plugin, grant)| {
            grant.fuse_servers.0.iter().map(|(server, granted)| GrantedProgram {
                plugin: plugin.clone(),
                server: server.clone(),
                program: granted.program(),
            })
        });
        programs.collect()
    }

    /// The grant under this name: the operator's, else the built-in one.
    fn named(&self, name: &PluginName) -> Option<&Grant> {
        self.grants.get(name).or_else(|| self.builtin.get(name))
    }

    /// The plugins whose grants or settings are not the same in both.
    #[must_use]
    pub fn changed_since(&self, before: &Self) -> Vec<PluginName> {
        let own = self.grants.keys().chain(before.grants.keys());
        let builtin = self.builtin.keys().chain(before.builtin.keys());
        let set = self.settings.plugins().chain(before.settings.plugins());
        let cluster = self.cluster.keys().chain(before.cluster.keys());
        let names: BTreeSet<&PluginName> = own.chain(builtin).chain(set).chain(cluster).collect();
        let has_changed = |name: &&PluginName| {
            self.cluster.get(*name) != before.cluster.get(*name)
                || self.named(name) != before.named(name)
                || !self.settings.are_same_for(name, &before.settings)
        };
        names.into_iter().filter(has_changed).cloned().collect()
    }

    /// Sets which files are the plugins that come with volhost.
    #[must_use]
    pub fn with_shipped(mut self, shipped: ShippedPlugins) -> Self {
        self.shipped = shipped;
        self
    }

    /// Which files are the plugins that come with volhost.
    #[must_use]
    pub fn shipped(&self) -> &ShippedPlugins {
        &self.shipped
    }

    /// Returns whether the operator named this content in a grant, or the file comes with volhost.
    pub(crate) fn vouches_for(&self, digest: &str) -> bool {
        self.grants.values().any(|grant| grant.pins(digest)) || self.shipped.check_digest(digest).is_ok()
    }

    /// Returns whether the operator's grant or settings of this plugin are for the first content
    /// that uses them: no grant names a content.
    #[must_use]
    pub fn binds(&self, name: &PluginName) -> bool {
        let is_first_come = match self.grants.get(name) {
            Some(grant) => grant.sha256.is_empty(),
            // The cluster's is for the contents that it installs.
            None => self.settings.has(name) && !self.cluster.contains_key(name),
        };
        !is_reserved(vendor(name)) && is_first_come
    }

    /// Returns whether at most one content may have this name, so that no other file has to be
    /// waited for: the operator names one, or names none and the vendor is volhost's own.
    #[must_use]
    pub fn settles_name(&self, name: &PluginName) -> bool {
        match self.grants.get(name).map_or(0, |grant| grant.sha256.len()) {
            0 => is_reserved(vendor(name)),
            pinned => pinned == 1,
        }
    }

    /// The contents that the operator's grant of this plugin names.
    pub(crate) fn pinned_to(&self, name: &PluginName) -> String {
        let pinned: Option<Vec<&str>> =
            self.grants.get(name).map(|grant| grant.sha256.iter().map(|digest| digest.0.as_str()).collect());
        pinned.unwrap_or_default().join(", ")
    }

    /// Returns what the plugin of this name and content is granted; nothing when the operator did
    /// not name it, or named another content.
    pub(crate) fn of(&self, name: &PluginName, digest: &str) -> Granted<'_> {
        let own = self.grants.get(name);
        let pinned = own.is_some_and(|grant| grant.pins(digest));
        if is_reserved(vendor(name))
            && !pinned
            && let Err(why) = self.shipped.check_digest(digest)
        {
            return Granted::NotItsName(why);
        }
        self.of_recorded(name, digest)
    }

    /// As [`GrantPolicy::of`], for content that had the name when it mounted a volume.
    pub(crate) fn of_recorded(&self, name: &PluginName, digest: &str) -> Granted<'_> {
        let cluster = self.cluster.get(name).and_then(|cluster| cluster.of(digest));
        match cluster.or_else(|| self.named(name)) {
            None => Granted::Nothing,
            Some(grant) if grant.sha256.is_empty() || grant.pins(digest) => Granted::To(grant),
            Some(grant) => Granted::ToAnotherContent(grant),
        }
    }
}

/// The answer of [`GrantPolicy::of`].
#[derive(Debug)]
pub(crate) enum Granted<'a> {
    /// The name belongs to plugins that come with volhost, and this content is none of them: why
    /// not.
    NotItsName(NotShipped),
    /// The operator granted nothing to this name.
    Nothing,
    /// The operator granted this to the name, for another content of the plugin.
    ToAnotherContent(&'a Grant),
    /// This.
    To(&'a Grant),
}

impl Grant {
    /// Returns whether it names this content.
    fn pins(&self, digest: &str) -> bool {
        self.sha256.iter().any(|pinned| pinned.0 == digest)
    }

    /// Returns whether the interface is granted. Folders imply the interface that opens them.
    pub(crate) fn covers(&self, interface: &str) -> bool {
        (interface == "host-paths" && !self.host_paths.is_empty())
            || (interface == "loop-devices" && !self.loop_files.is_empty())
            || (interface == "image-files" && !self.image_files.is_empty())
            || (interface == "network-mounts" && !self.network_servers.is_empty())
            || (interface == "iscsi-sessions" && !self.iscsi_portals.is_empty())
            || (interface == "fc-devices" && !self.fc_targets.is_empty())
            || (interface == "oci-images" && !(self.image_registries.is_empty() && self.image_layouts.is_empty()))
            || (interface == "block-devices" && !self.block_devices.is_empty())
            || (interface == "grpc" && !self.csi_drivers.is_empty())
            || (interface == "driver-exec" && !self.flex_drivers.is_empty())
            || (interface == "fuse-servers" && !self.fuse_servers.0.is_empty())
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
            network_servers: self.network_servers.clone(),
            iscsi_portals: self.iscsi_portals.clone(),
            fc_targets: self.fc_targets.clone(),
            image_registries: self.image_registries.iter().map(|host| host.0.clone()).collect(),
            image_layouts: paths(&self.image_layouts),
            image_size: self.image_size.map(|size| size.0),
            block_devices: paths(&self.block_devices),
            csi_drivers: self.csi_drivers.iter().map(|name| name.0.clone()).collect(),
            flex_drivers: self.flex_drivers.iter().map(|driver| driver.0.clone()).collect(),
            fuse_servers: self.fuse_servers.0.clone(),
            filesystems: words(&self.filesystems),
            mount_options: words(&self.mount_options),
            loop_devices: self.loop_devices,
            looped: std::sync::Mutex::default(),
            memory: self.memory.map(|memory| memory.0),
            call_time: self.call_time.map(|time| time.0),
            concurrency: self.concurrency.map(std::num::NonZeroUsize::get),
            settings: Values::new(),
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
        assert!(matches!(policy.of(&name("a.b/d"), ""), Granted::Nothing));
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
            ("[\"a/b\"]\nnetwork-servers = [\"nas:/export\"]", "is no server"),
            ("[\"a/b\"]\niscsi-portals = [\"san.example.com\"]", "is no portal"),
            ("[\"a/b\"]\nfc-targets = [\"../disk\"]", "is no name of a Fibre Channel port"),
            ("[\"a/b\"]\nimage-registries = [\"https://r.example\"]", "is no registry"),
            ("[\"a/b\"]\nimage-size = \"10GB\"", "quantity"),
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
        assert!(matches!(policy.of(&name("a/b"), &"b".repeat(64)), Granted::ToAnotherContent(_)));
    }

    #[test]
    fn the_operators_grant_replaces_the_built_in_one() {
        let digest = "c".repeat(64);
        let shipped = || ShippedPlugins::Known([digest.clone()].into());
        let mine: GrantPolicy = toml::from_str("[\"kubernetes.io/host-path\"]\nhost-paths = [\"/srv\"]").unwrap();
        let policy = GrantPolicy::builtin(shipped()).overridden_by(mine);
        let Granted::To(grant) = policy.of(&name("kubernetes.io/host-path"), &digest) else { panic!("not granted") };
        assert_eq!(grant.host_paths(), [PathBuf::from("/srv")]);
        assert!(matches!(policy.of(&name("kubernetes.io/local-volume"), &digest), Granted::To(_)));
    }

    #[test]
    fn a_reserved_name_is_for_shipped_content_and_for_content_that_the_operator_names() {
        let (theirs, patched, foreign) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        let policy = |own: &str| {
            let own: GrantPolicy = toml::from_str(own).unwrap();
            GrantPolicy::builtin(ShippedPlugins::Known([theirs.clone()].into())).overridden_by(own)
        };
        for vendor in ["kubernetes.io", "volhost.io"] {
            // With a grant, too: it does not say whose content it is for.
            let plugin = format!("{vendor}/loop");
            let unpinned = format!("[{plugin:?}]\nhost-paths = [\"/srv\"]");
            for own in ["", unpinned.as_str()] {
                assert!(!matches!(policy(own).of(&name(&plugin), &theirs), Granted::NotItsName(_)));
                assert!(matches!(policy(own).of(&name(&plugin), &foreign), Granted::NotItsName(_)), "{own}");
            }
            let pinned = policy(&format!("[{plugin:?}]\nhost-paths = [\"/srv\"]\nsha256 = [{patched:?}]"));
            assert!(matches!(pinned.of(&name(&plugin), &patched), Granted::To(_)));
            assert!(matches!(pinned.of(&name(&plugin), &theirs), Granted::ToAnotherContent(_)));
            assert!(matches!(pinned.of(&name(&plugin), &foreign), Granted::NotItsName(_)));
        }
        assert!(matches!(policy("").of(&name("kubernetes.iox/loop"), &foreign), Granted::Nothing));
    }

    #[test]
    fn settings_are_for_one_content_and_count_as_a_change() {
        let set = |text: &str| GrantPolicy::default().with_settings(toml::from_str(text).unwrap());
        let (one, other) = (set("[\"a/b\"]\nserver = 'a'"), set("[\"a/b\"]\nserver = 'b'"));
        assert!(one.binds(&name("a/b")) && !one.binds(&name("a/c")));
        assert!(!set("[\"volhost.io/b\"]\nserver = 'a'").binds(&name("volhost.io/b")));
        let pinned: GrantPolicy = toml::from_str(&format!("[\"a/b\"]\nsha256 = [{:?}]", "a".repeat(64))).unwrap();
        assert!(!pinned.overridden_by(one.clone()).binds(&name("a/b")));
        assert_eq!(one.changed_since(&other), [name("a/b")]);
        assert_eq!(one.changed_since(&GrantPolicy::default()), [name("a/b")]);
        assert_eq!(one.changed_since(&one.clone()), []);
    }

    #[test]
    fn a_name_is_settled_if_one_content_at_most_may_have_it() {
        let (one, other) = ("a".repeat(64), "b".repeat(64));
        let settled = |plugin: &str, own: &str| {
            let own: GrantPolicy = toml::from_str(own).unwrap();
            GrantPolicy::builtin(ShippedPlugins::default()).overridden_by(own).settles_name(&name(plugin))
        };
        assert!(settled("kubernetes.io/loop", "") && !settled("a/b", ""));
        for plugin in ["kubernetes.io/loop", "a/b"] {
            let pinned = |digests: &[&String]| settled(plugin, &format!("[{plugin:?}]\nsha256 = {digests:?}"));
            assert!(pinned(&[&one]), "{plugin}");
            assert!(!pinned(&[&one, &other]), "{plugin}");
        }
    }
}
