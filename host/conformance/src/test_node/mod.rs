//! A node on which the host's own steps mount and unmount one volume, and checked after
//! each.

mod calls;
mod other_nodes;
mod provisioning;
mod steps;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use volhost_fuse_servers::FuseServerProcesses;
use volhost_images::{ImageStore, ImageStoreOptions, RegistryProgram};
use volhost_kernel::{Kernel, LinuxKernel, MountId, Propagation};
use volhost_model::csi_layout;
use volhost_model::spec::VolumeMode;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{CallError, Capability, ErrorCase, Place, Plugin};
use volhost_volume_ops::layout;
use volhost_volume_ops::node_folders::NodeFolders;

use crate::case_error::CaseError;
use crate::case_file::CaseFile;
use crate::lifecycle::{Lifecycle, LifecycleStep};
use crate::look::{NodeSnapshot, TargetView, view};
use crate::objects::CaseObjects;
use crate::storage;
use crate::subject::HostServices;
use crate::verdict::{Verdict, fail, not_applicable};

/// The host's root folder in the scratch file system.
const ROOT: &str = "root";
/// The mode of the folders below the root.
const FOLDER_MODE: u32 = 0o750;

/// The scratch node.
#[derive(Debug)]
pub(crate) struct TestNode {
    pub(crate) kernel: Arc<LinuxKernel>,
    pub(crate) scratch: PathBuf,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) case: CaseFile,
    pub(crate) objects: Arc<CaseObjects>,
    folders: NodeFolders,
    services: HostServices,
    fuse_servers: FuseServerProcesses,
    images: Arc<ImageStore>,
    /// The images' folder: not on the node, where nothing may be left.
    _image_folder: TempDir,
    /// What the volume is attached as, as the host's record has it.
    attached: Mutex<Option<String>>,
}

impl TestNode {
    /// A node on the scratch file system, with the volume's storage in it.
    pub(crate) fn new(
        kernel: Arc<LinuxKernel>,
        scratch: &Path,
        plugin: Arc<Plugin>,
        case: CaseFile,
        services: HostServices,
    ) -> Result<Self, CaseError> {
        let root = kernel.prepare_root(&scratch.join(ROOT), Propagation::Private)?;
        // As a running daemon has them: cleanup leaves these two.
        for folder in [layout::PODS, layout::PLUGINS] {
            kernel.make_dirs(&root, Path::new(folder), FOLDER_MODE)?;
        }
        storage::make_anew(&kernel, scratch, ROOT, &case.files)?;
        let image_folder = tempfile::tempdir().map_err(CaseError::Images)?;
        let options = ImageStoreOptions { folder: image_folder.path().join("images"), high: 100, low: 100 };
        // The suite asks no registry: case files name image layouts.
        let client = RegistryProgram::new(PathBuf::new(), Vec::new());
        let images = Arc::new(ImageStore::new(kernel.clone(), root.clone(), client, options));
        let objects = Arc::new(CaseObjects::new(case.objects.clone()));
        Ok(Self {
            kernel: kernel.clone(),
            scratch: scratch.to_owned(),
            plugin,
            case,
            objects,
            folders: NodeFolders::new(kernel.clone(), Arc::new(root)),
            fuse_servers: FuseServerProcesses::new(kernel, services.launcher.clone(), None),
            services,
            images,
            _image_folder: image_folder,
            attached: Mutex::default(),
        })
    }

    /// The volume of the case file.
    pub(crate) fn spec(&self) -> Verdict<VolumeSpec> {
        self.case.spec(self.plugin.info()).or_else(|why| fail("read the case file", "a volume", why.to_string()))
    }

    /// The pod of this name.
    pub(crate) fn pod(&self, name: &str) -> Verdict<Arc<Pod>> {
        self.case.pod(name).map(Arc::new).or_else(|why| fail("made a pod", "a pod", why.to_string()))
    }

    /// The case file's other volume, of other storage.
    pub(crate) fn other(&self) -> Verdict<VolumeSpec> {
        let other =
            self.case.other().or_else(|why| fail("read the case file's `other`", "a volume", why.to_string()))?;
        other.map_or_else(|| not_applicable("the case file names no `other` volume"), Ok)
    }

    /// Returns the lifecycle of the volume as a file system.
    pub(crate) fn lifecycle(&self) -> Verdict<Lifecycle> {
        self.lifecycle_of(self.spec()?)
    }

    /// Returns the lifecycle of the volume as a device.
    pub(crate) fn block_lifecycle(&self) -> Verdict<Lifecycle> {
        if !self.plugin.exports(Capability::BlockMapper) {
            return not_applicable("the plugin does not export block-mapper");
        }
        if self.case.expect.block == Some(false) {
            return not_applicable("the case file says that the volume is no device");
        }
        self.block_lifecycle_of(self.spec()?)
    }

    /// Returns the lifecycle of a PersistentVolume as a device.
    pub(crate) fn block_lifecycle_of(&self, mut spec: VolumeSpec) -> Verdict<Lifecycle> {
        match &mut spec.persistent_volume {
            Some(of) => of.volume_mode = VolumeMode::Block,
            None => return not_applicable("only a PersistentVolume is handed over as a device"),
        }
        self.lifecycle_of(spec)
    }

    /// Returns a lifecycle that has this step.
    pub(crate) fn lifecycle_to(&self, step: LifecycleStep) -> Verdict<Lifecycle> {
        let lifecycle = match self.lifecycle() {
            Ok(lifecycle) if lifecycle.has(step) => return Ok(lifecycle),
            Ok(_) if step.is_block() => self.block_lifecycle()?,
            other => other?,
        };
        if lifecycle.has(step) { Ok(lifecycle) } else { not_applicable(format!("the volume needs no {}", step.up())) }
    }

    /// Returns the lifecycle of a volume.
    pub(crate) fn lifecycle_of(&self, spec: VolumeSpec) -> Verdict<Lifecycle> {
        let spec = Arc::new(spec);
        let identified = self.identify(&spec).or_fail("identify of the volume")?;
        Lifecycle::new(&self.plugin, spec, &identified)
    }

    /// Takes a snapshot of what exists on the node besides the volume's content.
    pub(crate) fn snapshot(&self) -> Verdict<NodeSnapshot> {
        self.fuse_servers.settle_all();
        let connected = self.services.iscsi.connected();
        let connected = connected.or_else(|error| fail("looked at the iSCSI sessions", "ok", error.to_string()))?;
        let units = self.services.fc.connected();
        let units = units.or_else(|error| fail("looked at the FC units", "ok", error.to_string()))?;
        let running = self.fuse_servers.running();
        NodeSnapshot::take(&self.kernel, &self.scratch, ROOT)
            .map(|snapshot| snapshot.with_fuse_servers(running).with_iscsi(connected).with_fc(units))
            .or_else(|error| fail("looked at the node", "an answer", error.to_string()))
    }

    /// How many mounts there are on the node.
    pub(crate) fn mounts(&self) -> Verdict<usize> {
        let mounts = self.kernel.mounts_below(self.folders.root());
        mounts.map(|mounts| mounts.len()).or_else(|error| fail("listed the node's mounts", "ok", error.to_string()))
    }

    /// Returns the volume after a step, as a pod sees it; none when nothing is there, or when the
    /// step shows nothing.
    pub(crate) fn target(
        &self,
        lifecycle: &Lifecycle,
        step: LifecycleStep,
        pod: &Pod,
    ) -> Verdict<Option<(TargetView, Vec<MountId>)>> {
        let (folder, name) = match step {
            LifecycleStep::Publish => self.pod_path(lifecycle, pod),
            LifecycleStep::Stage => {
                let volume = lifecycle.volume();
                (layout::mount_folder(volume.plugin, volume.volume), layout::GLOBAL_MOUNT.to_owned())
            }
            LifecycleStep::Attach | LifecycleStep::StageDevice | LifecycleStep::MapDevice => return Ok(None),
        };
        let parent = match self.kernel.walk(self.folders.root(), &folder) {
            Ok(parent) => parent,
            Err(_) => return Ok(None),
        };
        let path = self.scratch.join(ROOT).join(&folder).join(&name);
        view(&self.kernel, &parent, &name, &path)
            .or_else(|error| fail("looked at the target", "an answer", error.to_string()))
    }

    /// The volume's path in the pod's folder.
    pub(crate) fn volume_path(&self, lifecycle: &Lifecycle, pod: &Pod) -> PathBuf {
        let (folder, name) = self.pod_path(lifecycle, pod);
        self.scratch.join(ROOT).join(folder).join(name)
    }

    /// The pod's folder, and the name of its volume in it.
    pub(crate) fn volume_place(&self, lifecycle: &Lifecycle, pod: &Pod) -> Verdict<Place> {
        let place = self.publish_place(lifecycle, pod)?;
        Ok(Place { parent: place.folder, name: place.name })
    }

    /// The folder of the volume's target below the root, and the target's name in it.
    fn pod_path(&self, lifecycle: &Lifecycle, pod: &Pod) -> (PathBuf, String) {
        let plugin = &self.plugin.info().name;
        let (folder, name) = (layout::plugin_folder(&pod.uid, plugin), lifecycle.spec.name.as_str());
        match csi_layout::mount_in_folder(plugin) {
            Some(inner) => (folder.join(name), inner.to_owned()),
            None => (folder, name.to_owned()),
        }
    }

    /// Returns whether the step is taken, by the kernel's tables, or for an attachment by
    /// `are-attached`; none if that cannot be seen.
    pub(crate) fn is_up(&self, lifecycle: &Lifecycle, step: LifecycleStep, pod: &Pod) -> Verdict<Option<bool>> {
        match step {
            LifecycleStep::Publish | LifecycleStep::Stage => Ok(Some(self.target(lifecycle, step, pod)?.is_some())),
            LifecycleStep::Attach => match self.are_attached(std::slice::from_ref(&lifecycle.name)).result {
                Ok(attached) => Ok(attached.first().copied()),
                Err(CallError::Plugin(said)) if said.case == ErrorCase::Unsupported => Ok(None),
                Err(error) => fail("are-attached of the volume", "an answer, or unsupported", error.message()),
            },
            LifecycleStep::StageDevice | LifecycleStep::MapDevice => Ok(None),
        }
    }
}
