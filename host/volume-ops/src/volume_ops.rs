//! The operations of one node. Each runs completely on one thread, which may block.
//!
//! After a crash the node has one of: nothing, folders without a volume, a volume without a record,
//! a volume with its record. Recovery distinguishes them by the kernel's tables, so no step here
//! has to be undone for it. Before a volume is attached or staged, a record says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use volhost_core::{Operation, OperationKind, OperationReport};
use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Directory, Kernel, KernelError, MountInfo};
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::{Failure, FailureClass};
use volhost_runtime::Call;

use super::attaching::VolumeAttacher;
use super::block_mapping::BlockMapping;
use super::device_records::DeviceRecords;
use super::expansion::Expansion;
use super::expected_mounts::{ExpectedMounts, NodePlace, VanishedMounts, VolumePlace};
use super::failures::kernel_failure;
use super::findings::Findings;
use super::forced::{self, Forced};
use super::found_modes::FoundModes;
use super::layout;
use super::mount_records::{MountRecords, PodFile};
use super::node_folders::NodeFolders;
use super::orphans::{self, Orphan};
use super::other_node::OtherNodes;
use super::plugin_calls::PluginCalls;
use super::plugins::PluginSource;
use super::pod_folders::PodFolders;
use super::publishing::{VolumePublisher, new_record};
use super::records::RecordedTarget;
use super::recovered::Recovery;
use super::recovery::PodScan;
use super::recovery_devices::DeviceScan;
use super::size_watch::SizeWatch;
use super::staging::VolumeStager;
use super::volume_sizes::VolumeSizes;

/// What the operations of a node work with.
#[derive(Debug)]
pub struct NodeParts {
    /// The primitives.
    pub kernel: Arc<dyn Kernel>,
    /// The root folder, inside its own mount.
    pub root: Directory,
    /// The folder for records, on a tmpfs.
    pub state: Directory,
    /// The plugins.
    pub plugins: Arc<dyn PluginSource>,
    /// The FUSE servers of volumes.
    pub fuse_servers: FuseServerProcesses,
    /// Nodes that are out of service, by the storage's names for them: volumes are detached from
    /// there.
    pub nodes_out_of_service: BTreeSet<String>,
}

/// Keeps open what operations of one pod need.
#[derive(Debug)]
pub struct OpenPod {
    _records: Arc<PodFile>,
    _folders: Arc<PodFolders>,
}

/// Executes the operations of one node.
#[derive(Debug)]
pub struct VolumeOps {
    folders: NodeFolders,
    state: Arc<Directory>,
    records: Arc<MountRecords>,
    plugins: PluginCalls,
    fuse_servers: FuseServerProcesses,
    expected: Arc<ExpectedMounts>,
    sizes: Arc<SizeWatch>,
    volume_sizes: Arc<VolumeSizes>,
    attaching: VolumeAttacher,
    staging: VolumeStager,
    publishing: VolumePublisher,
    blocks: Arc<BlockMapping>,
    expansion: Expansion,
    scan: PodScan,
}

impl VolumeOps {
    /// Creates the operations of a node. Reads the sizes that volumes had before.
    pub fn new(parts: NodeParts) -> Self {
        let NodeParts { kernel, root, state, plugins, fuse_servers, nodes_out_of_service } = parts;
        let volume_sizes = Arc::new(VolumeSizes::restore(kernel.clone(), root.clone()));
        let folders = NodeFolders::new(kernel.clone(), Arc::new(root));
        let state = Arc::new(state);
        let records = Arc::new(MountRecords::new(kernel.clone(), Arc::clone(&state)));
        let devices = DeviceRecords::new(kernel, Arc::clone(&state));
        let (expected, sizes) = (Arc::<ExpectedMounts>::default(), Arc::<SizeWatch>::default());
        let plugins = PluginCalls::new(plugins, Arc::clone(&records), devices.clone());
        let other_nodes = OtherNodes::new(plugins.clone(), nodes_out_of_service);
        let blocks =
            Arc::new(BlockMapping::new(folders.clone(), plugins.clone(), Arc::clone(&records), devices.clone()));
        let scan = DeviceScan::new(folders.clone(), devices.clone(), Arc::clone(&expected));
        Self {
            attaching: VolumeAttacher::new(folders.clone(), plugins.clone(), devices.clone(), other_nodes),
            staging: VolumeStager::new(folders.clone(), plugins.clone(), devices, Arc::clone(&expected)),
            publishing: VolumePublisher::new(
                folders.clone(),
                plugins.clone(),
                Arc::clone(&records),
                Arc::clone(&expected),
                Arc::clone(&sizes),
            ),
            expansion: Expansion::new(folders.clone(), plugins.clone(), Arc::clone(&volume_sizes), Arc::clone(&blocks)),
            scan: PodScan::new(
                folders.clone(),
                Arc::clone(&records),
                scan,
                Arc::clone(&expected),
                Arc::clone(&sizes),
                Arc::clone(&volume_sizes),
            ),
            folders,
            state,
            records,
            plugins,
            fuse_servers,
            expected,
            sizes,
            volume_sizes,
            blocks,
        }
    }

    /// Keeps what operations open for the pod until the returned value is dropped: the next one
    /// finds it open.
    #[must_use]
    pub fn keep_open(&self, pod: &PodUid) -> OpenPod {
        OpenPod { _records: self.records.file(pod), _folders: self.folders.of(pod) }
    }

    /// Executes the operation. Blocks as long as the storage does.
    ///
    /// # Guarantees
    /// The report says "done" only after the plugin said so and the host checked the target.
    pub fn execute(&self, operation: &Operation, call: &Call) -> OperationReport {
        let mut found = Findings::default();
        let outcome = match operation.kind {
            OperationKind::Attach => self.attaching.attach(operation, call, &mut found),
            OperationKind::Detach => self.detach(operation, call),
            OperationKind::VerifyControllerAttached => self.attaching.verify(operation, call),
            OperationKind::Mount { .. } => self.mount(operation, call, &mut found),
            OperationKind::Unmount if operation.spec.is_none() => self.unpublish_found(operation, call),
            OperationKind::Unmount => self.publishing.unpublish(operation, call),
            OperationKind::UnmountDevice if operation.spec.is_none() => self.unstage_found(operation, call),
            OperationKind::UnmountDevice => self.staging.unstage(operation, call),
            OperationKind::Map { .. } => self.map(operation, call, &mut found),
            OperationKind::Unmap => self.blocks.unmap(operation, call),
            OperationKind::UnmapDevice => self.unmap_device(operation, call),
            OperationKind::Expand { to, .. } => self.expand(operation, call, to, &mut found),
        };
        OperationReport {
            device_path: found.device_path,
            device: found.device,
            size: found.size,
            refused_size: found.refused_size,
            other_node: found.other_node,
            cancelled: call.cancellation().is_cancelled(),
            result: outcome.map_err(|failure| failure.by(operation.plugin.as_str())),
        }
    }

    fn detach(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        self.attaching.detach(operation, call, |record| {
            if record.spec.is_block() {
                self.unmap_device(operation, call)
            } else {
                self.staging.unstage(operation, call)
            }
        })
    }

    /// Finds the volume's device if it is attached, stages the volume if it has to be, publishes it
    /// for the pod, and grows it to the size of its PersistentVolume.
    fn mount(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        let (Some(pod), Some(spec)) = (&operation.pod, &operation.spec) else {
            return Err(Failure::new(FailureClass::Transient, "MountVolume", "the pod's object is not known"));
        };
        let plugin = &self.plugins.ready(operation, "MountVolume")?;
        let attached = self.attaching.attachment(operation, call, plugin, "MountVolume.WaitForAttach")?;
        let attached = attached.as_ref();
        let call = call.clone().with_attachment(attached).with_mount_group(pod.fs_group);
        let call = &call.with_mount_namespace(&pod.namespace);
        if operation.stageable {
            self.staging.stage(operation, call, plugin, attached, found)?;
        }
        let (place, published) = self.publishing.publish(operation, call, plugin, (pod, spec))?;
        self.expansion.expand_while_mounting(operation, call, plugin, attached, found);
        self.publishing.finish(operation, call, plugin, (pod, spec), (&place, &published))
    }

    /// Stages the device, maps it for the pod, and grows it to the size of its PersistentVolume.
    fn map(&self, operation: &Operation, call: &Call, found: &mut Findings) -> Result<(), Failure> {
        let (Some(pod), Some(spec)) = (&operation.pod, &operation.spec) else {
            return Err(Failure::new(FailureClass::Transient, "MapVolume", "the pod's object is not known"));
        };
        let plugin = &self.plugins.ready(operation, "MapVolume")?;
        let attached = self.attaching.attachment(operation, call, plugin, "MapVolume.WaitForAttach")?;
        let attached = attached.as_ref();
        let call = &call.clone().with_mount_namespace(&pod.namespace);
        self.blocks.map(operation, call, plugin, attached, (pod, spec), found)?;
        let call = &call.clone().with_attachment(attached);
        self.expansion.expand_while_mounting(operation, call, plugin, attached, found);
        let record = new_record(operation, plugin, (pod, spec), RecordedTarget::Device);
        self.publishing.write_record(&record.with_node_steps(operation.attachable, true));
        Ok(())
    }

    /// Unpublishes a volume that recovery found without a record.
    fn unpublish_found(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        const STEP: &str = "UnmountVolume.Look";
        let Some(pod) = &operation.pod_uid else {
            return Err(Failure::new(FailureClass::Transient, STEP, "no pod is named"));
        };
        let found = FoundModes::published(&self.folders, operation, pod)
            .map_err(|error| kernel_failure(STEP, FailureClass::Uncertain, &error))?;
        if found.device {
            self.blocks.unmap(operation, call)?;
        }
        if found.file_system {
            self.publishing.unpublish(operation, call)?;
        }
        Ok(())
    }

    /// Unstages a volume that recovery found without a record.
    fn unstage_found(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        let found = FoundModes::staged(&self.folders, operation)
            .map_err(|error| kernel_failure("UnmountDevice.Look", FailureClass::Uncertain, &error))?;
        if found.device {
            self.unmap_device(operation, call)?;
        }
        if found.file_system {
            self.staging.unstage(operation, call)?;
        }
        Ok(())
    }

    fn unmap_device(&self, operation: &Operation, call: &Call) -> Result<(), Failure> {
        self.blocks.unmap_device(operation, call, &self.staging)
    }

    fn expand(&self, operation: &Operation, call: &Call, to: u64, found: &mut Findings) -> Result<(), Failure> {
        self.expansion.expand(operation, call, to, found, |plugin| {
            self.attaching.attachment(operation, call, plugin, "NodeExpandVolume.WaitForAttach")
        })
    }

    /// Returns those of the plugin's volumes that it does not find attached to this node. None when
    /// the plugin is not loaded or cannot say.
    pub fn not_attached(&self, plugin: &PluginName, volumes: &[UniqueVolumeName]) -> Vec<UniqueVolumeName> {
        self.attaching.not_attached(plugin, volumes)
    }

    /// Replaces everything that controllers report about attached volumes.
    pub fn set_attachment_metadata(&self, all: BTreeMap<UniqueVolumeName, BTreeMap<String, String>>) {
        self.attaching.set_metadata(all);
    }

    /// Finds the volumes that exist on the node at the start of the process, or may exist, and
    /// removes empty folders and outlived records. Enters no mount. What cannot be read is reported
    /// and does not hide the rest.
    ///
    /// # Errors
    /// When the pods' folder itself cannot be read.
    pub fn recover(&self) -> Result<Recovery, KernelError> {
        self.scan.recover()
    }

    /// Cleans the folder of a pod that no source reports and no operation unmounts.
    ///
    /// # Guarantees
    /// Removes no file, and no folder that is not empty; enters no mount. A pod of this uid may
    /// come meanwhile.
    pub fn clean_orphan(&self, pod: &PodUid) -> Orphan {
        orphans::clean(&self.scan, &self.folders, pod)
    }

    /// Removes the empty folders and records of a pod that has no volumes any more. A folder that
    /// is not empty stays: a new volume may have come.
    ///
    /// # Errors
    /// The kernel's error for a folder that could not be removed, other than that it is in use.
    pub fn forget_pod(&self, pod: &PodUid) -> Result<(), KernelError> {
        self.scan.forget_pod(pod).map(drop)
    }

    /// Returns the mounts that should exist and do not. Enters no mount.
    ///
    /// # Errors
    /// When the mount table cannot be read.
    pub fn vanished(&self) -> Result<VanishedMounts, KernelError> {
        self.expected.vanished(&self.folders)
    }

    /// Unmounts a published volume lazily, whatever uses it. Before, if asked to, ends the
    /// connection to its server. A folder that is not a mount stays if it contains anything (rule
    /// R5).
    ///
    /// # Errors
    /// The kernel's error. The connection may have been ended.
    pub fn force_unmount(&self, place: &VolumePlace, end_server: bool) -> Result<Forced, KernelError> {
        forced::unmount(&self.folders, &place.paths(), end_server, || self.expected.remove_published(place))
    }

    /// Unmounts a staging mount like [`VolumeOps::force_unmount`].
    ///
    /// # Errors
    /// As [`VolumeOps::force_unmount`].
    pub fn force_unmount_of_node(&self, place: &NodePlace, end_server: bool) -> Result<Forced, KernelError> {
        forced::unmount(&self.folders, &place.paths(), end_server, || self.expected.remove_staged(place))
    }

    /// Lists the pods that have a folder.
    ///
    /// # Errors
    /// When the pods' folder cannot be read.
    pub fn pod_folders(&self) -> Result<Vec<PodUid>, KernelError> {
        let Some(pods) = self.folders.open(Path::new(layout::PODS))? else { return Ok(Vec::new()) };
        let names = self.kernel().names(&pods)?;
        Ok(names.iter().filter_map(|name| PodUid::new(name.to_str()?).ok()).collect())
    }

    /// Lists the mounts in a pod's folder, their points below it; empty for a pod without a folder.
    ///
    /// # Errors
    /// When the mount table cannot be read.
    pub fn mounts_of_pod(&self, pod: &PodUid) -> Result<Vec<MountInfo>, KernelError> {
        match self.folders.open(&Path::new(layout::PODS).join(pod.as_str()))? {
            Some(folder) => self.kernel().mounts_below(&folder),
            None => Ok(Vec::new()),
        }
    }

    /// Forgets the size of a volume whose storage was deleted, by the name of its PersistentVolume.
    /// Blocks on the disk.
    pub fn forget_size(&self, persistent_volume: &str) {
        self.volume_sizes.forget(persistent_volume);
    }

    /// Returns the known sizes by the names of the PersistentVolumes, in bytes.
    pub fn known_sizes(&self) -> BTreeMap<String, u64> {
        self.volume_sizes.by_persistent_volume()
    }

    /// Returns the kernel primitives.
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        self.folders.kernel()
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Arc<Directory> {
        self.folders.root()
    }

    /// Returns the folder for records, on a tmpfs.
    pub fn state(&self) -> &Arc<Directory> {
        &self.state
    }

    /// Returns the FUSE servers of volumes.
    pub fn fuse_servers(&self) -> &FuseServerProcesses {
        &self.fuse_servers
    }

    pub(super) fn folders(&self) -> &NodeFolders {
        &self.folders
    }

    pub(super) fn plugins(&self) -> &dyn PluginSource {
        self.plugins.source()
    }

    pub(super) fn sizes(&self) -> &SizeWatch {
        &self.sizes
    }
}
