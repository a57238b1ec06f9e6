//! The state of the double.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::clients::{TestEvent, TestLine};
use super::devices::Devices;
use super::drivers::Driven;
use super::fabric::Fabric;
use super::flex::FlexDrivers;
use super::grpc::Drivers;
use super::images::OciImages;
use super::objects::Objects;
use super::provisioning_calls::ProvisioningCall;
use super::target::TargetContent;
use super::targets::Targets;
use super::tree::Tree;
use crate::error::{Error, Result};

/// The calls of the contract that can fail, and so can be made to.
pub const CALLS: &[&str] = &[
    "apply-fs-group",
    "attach",
    "attachment.open",
    "bind",
    "block-devices.open",
    "cluster-trust-bundles.named",
    "cluster-trust-bundles.signed-by",
    "config-maps.open",
    "create-directory",
    "create-file",
    "csi-driver-objects.spec",
    "delete-folder",
    "detach",
    "staging-mount",
    "device-place.clear",
    "device-place.device",
    "driver-exec.open",
    "driver-mounts.keep-note",
    "driver-mounts.node-path",
    "driver-mounts.note",
    "driver-mounts.prepare",
    "driver-mounts.prepare-device",
    "driver-place.take-over",
    "driver.run",
    "fc-devices.connect",
    "fc-devices.disconnect",
    "fc-devices.rescan",
    "filesystems.mount",
    "format",
    "fuse-servers.open",
    "fuse-servers.serve",
    "group",
    "grow",
    "grpc.send",
    "huge-pages.create",
    "id-maps.map-group",
    "image-files.mount",
    "image.mount",
    "iscsi-sessions.connect",
    "iscsi-sessions.disconnect",
    "iscsi-sessions.rescan",
    "loop-devices.copy",
    "loop-devices.copy-together",
    "loop-devices.create",
    "loop-devices.discard",
    "loop-devices.ensure-image",
    "loop-devices.facts",
    "loop-devices.find",
    "loop-devices.free-space",
    "loop-devices.names",
    "loop-devices.release",
    "loop-devices.remove",
    "loop-devices.reserve",
    "loop-devices.taken",
    "make-folder",
    "make-inner-folder",
    "make-limited-folder",
    "mounted-options",
    "mounted-type",
    "network-mounts.mount",
    "oci-images.find",
    "oci-images.pull",
    "open",
    "other-pods",
    "overlays.mount",
    "pod-volumes.open",
    "private-folder",
    "probe",
    "provisioning-calls.class-secret",
    "publish",
    "secrets.of-mount",
    "secrets.open",
    "secrets.referenced",
    "service-account-tokens.request",
    "set-options",
    "settings.secret",
    "share-folders.make",
    "share-folders.names",
    "share-folders.read-file",
    "share-folders.remove",
    "share-folders.remove-file",
    "share-folders.rename",
    "share-folders.write-file",
    "source",
    "state",
    "tmpfs.create",
];

/// A world that its host and all handles share.
pub(crate) type Shared = Rc<RefCell<World>>;

/// Everything there is.
#[derive(Debug)]
pub(crate) struct World {
    /// The secrets of every call.
    pub(crate) call_secrets: BTreeMap<String, String>,
    pub(crate) node_name: String,
    pub(crate) allocatable_memory: u64,
    pub(crate) node_labels: BTreeMap<String, String>,
    /// The operator's values for the plugin.
    pub(crate) settings: BTreeMap<String, Setting>,
    pub(crate) tree: Tree,
    pub(crate) grants: Vec<String>,
    /// Folders of images to mount.
    pub(crate) image_folders: Vec<String>,
    /// FUSE servers, and their slots.
    pub(crate) fuse_servers: BTreeMap<String, BTreeSet<String>>,
    /// Images by their paths, and their content.
    pub(crate) images: BTreeMap<String, String>,
    /// What servers export, by server and path, and by which versions of the protocol.
    pub(crate) shares: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// What lies on shares, by `SERVER:PATH` and the path on it: the content of a file, none for a
    /// folder.
    pub(crate) share_files: BTreeMap<String, BTreeMap<String, Option<String>>>,
    /// Registries and images of the plugin's grant.
    pub(crate) oci: OciImages,
    /// iSCSI targets.
    pub(crate) targets_of_iscsi: Targets,
    /// Fibre Channel targets.
    pub(crate) fabric: Fabric,
    /// The private folders that were made, by pod uid and name in the pod's folder.
    pub(crate) private_folders: BTreeSet<(String, String)>,
    /// The pod's other published volumes, by their names in the pod.
    pub(crate) pod_volumes: BTreeSet<String>,
    pub(crate) unsupported_tmpfs_options: BTreeSet<String>,
    /// The sizes of huge pages that there are, in bytes.
    pub(crate) huge_pages: Vec<u64>,
    /// The file system below the targets has quotas for folders.
    pub(crate) folder_quotas: bool,
    /// The sizes that plugins asked the host to watch, by pod uid and name in the pod's folder.
    pub(crate) watched_sizes: BTreeMap<(String, String), u64>,
    /// The content of the targets, by pod uid and name in the pod's folder.
    pub(crate) targets: BTreeMap<(String, String), TargetContent>,
    /// The further inputs of calls that make volumes.
    pub(crate) provisioning: ProvisioningCall,
    /// The config maps and their like.
    pub(crate) objects: Objects,
    pub(crate) devices: Devices,
    pub(crate) drivers: Drivers,
    /// The FlexVolume drivers.
    pub(crate) flex: FlexDrivers,
    /// The state of external drivers.
    pub(crate) driven: Driven,
    /// The groups of the targets' files.
    pub(crate) groups: BTreeMap<(String, String), u32>,
    /// Mounts that exist and are not attached.
    pub(crate) detached: usize,
    pub(crate) faults: Vec<Fault>,
    pub(crate) calls: Vec<&'static str>,
    pub(crate) lines: Vec<TestLine>,
    pub(crate) events: Vec<TestEvent>,
}

/// A value that the operator gives the plugin.
#[derive(Debug)]
pub(crate) enum Setting {
    /// A text, number or boolean.
    Value(String),
    Texts(Vec<String>),
    Secret(Vec<u8>),
}

/// A call that will fail.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) error: Error,
    pub(crate) once: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            call_secrets: BTreeMap::new(),
            node_name: "node-1".to_owned(),
            allocatable_memory: 8 << 30,
            node_labels: BTreeMap::new(),
            settings: BTreeMap::new(),
            tree: Tree::default(),
            grants: Vec::new(),
            image_folders: Vec::new(),
            fuse_servers: BTreeMap::new(),
            images: BTreeMap::new(),
            shares: BTreeMap::new(),
            share_files: BTreeMap::new(),
            oci: OciImages::default(),
            targets_of_iscsi: Targets::default(),
            fabric: Fabric::default(),
            private_folders: BTreeSet::new(),
            pod_volumes: BTreeSet::new(),
            unsupported_tmpfs_options: BTreeSet::new(),
            huge_pages: vec![2 << 20, 1 << 30],
            folder_quotas: false,
            watched_sizes: BTreeMap::new(),
            targets: BTreeMap::new(),
            provisioning: ProvisioningCall::default(),
            objects: Objects::default(),
            devices: Devices::default(),
            drivers: Drivers::default(),
            flex: FlexDrivers::default(),
            driven: Driven::default(),
            groups: BTreeMap::new(),
            detached: 0,
            faults: Vec::new(),
            calls: Vec::new(),
            lines: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Notes a call, and fails it if a fault is set for it.
    pub(crate) fn called(&mut self, call: &'static str) -> Result<()> {
        self.calls.push(call);
        let Some(position) = self.faults.iter().position(|fault| fault.call == call) else {
            return Ok(());
        };
        let Some(fault) = self.faults.get(position) else {
            return Ok(());
        };
        let error = fault.error.clone();
        if fault.once {
            self.faults.remove(position);
        }
        Err(error)
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// Makes `world` the one that this thread's free functions (`tmpfs::create`, `log::info` ...) use.
pub(crate) fn install(world: &Shared) {
    CURRENT.with_borrow_mut(|current| {
        assert!(current.is_none(), "this thread has a TestHost already: drop it before making another");
        *current = Some(Rc::clone(world));
    });
}

/// Leaves this thread without a world.
pub(crate) fn uninstall() {
    CURRENT.with_borrow_mut(|current| *current = None);
}

/// This thread's world.
pub(crate) fn current() -> Shared {
    let current = CURRENT.with_borrow(Option::clone);
    assert!(current.is_some(), "there is no host to ask: make a `TestHost` on this thread first");
    current.unwrap_or_else(|| Rc::new(RefCell::new(World::new())))
}
