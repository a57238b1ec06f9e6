//! What the plugins that come with volhost are granted: what each needs to do what it is for, and
//! no more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use volhost_model::PluginName;

use super::servers::{FcTargets, Portals, Servers};
use super::words::{
    DriverName, EVERY_DRIVER, EVERY_FLEX_DRIVER, EVERY_REGISTRY, FlexDriverName, Interface, MountWord, RegistryHost,
    Root,
};
use super::{ClusterGrants, Grant, GrantPolicy, ShippedPlugins};
use crate::settings::PluginSettings;

/// Where the plugin `loop` keeps images unless the operator says otherwise.
const LOOP_FILES: &str = "/var/lib/volhost-loop";
/// Where the plugin `image-file` looks for images unless the operator says otherwise.
const IMAGE_FILES: &str = "/var/lib/volhost-images";
/// Where the plugin `image` looks for image layouts unless the operator says otherwise.
const IMAGE_LAYOUTS: &str = "/var/lib/volhost-images";
/// Where the devices are that FlexVolume drivers name.
const DEVICES: &str = "/dev";
/// Where the plugin `overlay` looks for bases and tops unless the operator says otherwise.
const OVERLAYS: &str = "/var/lib/volhost-overlay";
/// The file-system types that the plugin `loop` makes and mounts.
const LOOP_FILESYSTEMS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// The only file system that the plugin `nfs` mounts.
const NFS: &str = "nfs";
/// The file system of `cifs`.
const CIFS: &str = "cifs";

impl GrantPolicy {
    /// Returns what the plugins that come with volhost need to do what Kubernetes says they do:
    /// `hostPath` and `local` volumes may name any path of the host, the kinds that show objects
    /// may open those that a volume names; `nfs` may mount from every server, `iscsi` log in to every portal, `fc` use every Fibre Channel target, `image` pull from every registry; `csi` may call every
    /// CSI driver that has registered, and `flex-volume` run every driver that the operator has
    /// installed; the plugins `loop`, `image-file` and `overlay` have a folder of their own each,
    /// `/var/lib/volhost-loop`, `/var/lib/volhost-images` and `/var/lib/volhost-overlay`; `sshfs`
    /// and `s3` may open the secrets that their volumes name, and run no program. Restrict
    /// them with grants of your own under the same names.
    ///
    /// These grants, and names of the vendors `kubernetes.io` and `volhost.io`, belong to the files
    /// that `shipped` names and to no others.
    #[must_use]
    pub fn builtin(shipped: ShippedPlugins) -> Self {
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
        let images = Grant {
            loop_files: vec![Root(PathBuf::from(LOOP_FILES))],
            filesystems: Some(LOOP_FILESYSTEMS.iter().map(|name| MountWord((*name).to_owned())).collect()),
            interfaces: maps(),
            ..Grant::default()
        };
        let nfs = Grant {
            interfaces: named(&["share-folders"]),
            network_servers: vec![Servers::Every],
            filesystems: Some([MountWord(NFS.to_owned())].into()),
            ..Grant::default()
        };
        let cifs = Grant {
            interfaces: named(&["secrets"]),
            network_servers: vec![Servers::Every],
            filesystems: Some([MountWord(CIFS.to_owned())].into()),
            ..Grant::default()
        };
        let iscsi = Grant { interfaces: named(&["secrets"]), iscsi_portals: vec![Portals::EVERY], ..Grant::default() };
        let fc = Grant { fc_targets: vec![FcTargets::Every], ..Grant::default() };
        let oci_images = Grant {
            image_registries: vec![RegistryHost(EVERY_REGISTRY.to_owned())],
            image_layouts: vec![Root(PathBuf::from(IMAGE_LAYOUTS))],
            ..Grant::default()
        };
        let csi = Grant {
            interfaces: named(&[
                "secrets",
                "service-account-tokens",
                "csi-driver-objects",
                "driver-mounts",
                "provisioning-calls",
            ]),
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
            ("kubernetes.io/nfs", nfs),
            ("kubernetes.io/iscsi", iscsi),
            ("kubernetes.io/fc", fc),
            ("volhost.io/cifs", cifs),
            ("kubernetes.io/image", oci_images),
            ("volhost.io/loop", images),
            ("volhost.io/image-file", read_images),
            ("volhost.io/overlay", overlays),
            // Only the operator can name their FUSE servers.
            ("volhost.io/s3", interfaces(&["fuse-servers", "secrets"])),
            ("volhost.io/sshfs", interfaces(&["fuse-servers", "secrets"])),
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
        Self {
            grants: BTreeMap::new(),
            builtin: grants.collect(),
            shipped,
            settings: PluginSettings::default(),
            cluster: ClusterGrants::default(),
        }
    }
}
