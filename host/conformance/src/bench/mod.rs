//! A node on which one volume goes up and down, called as the daemon's engine calls it, and looked at after each step.

mod calls;
mod climbing;
mod other_nodes;
mod places;
mod provisioning;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use volhost_fuse_servers::FuseServerProcesses;
use volhost_kernel::{Directory, Kernel, LinuxKernel, MountId, Propagation};
use volhost_model::spec::VolumeMode;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{CallError, Capability, ErrorCase, Place, Plugin};

use crate::case_file::CaseFile;
use crate::ladder::{Ladder, Rung};
use crate::look::{Node, Standing, standing};
use crate::objects::CaseObjects;
use crate::storage;
use crate::subject::Surroundings;
use crate::verdict::{Verdict, fail, not_applicable};

/// The host's root folder in the scratch file system.
const ROOT: &str = "root";
/// The name of the node's own mount in its folder.
const GLOBAL_MOUNT: &str = "globalmount";

/// The scratch node.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) kernel: Arc<LinuxKernel>,
    pub(crate) scratch: PathBuf,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) case: CaseFile,
    pub(crate) objects: Arc<CaseObjects>,
    root: Arc<Directory>,
    surroundings: Surroundings,
    fuse_servers: FuseServerProcesses,
    /// What the volume is attached as, as the host's record has it.
    attached: Mutex<Option<String>>,
}

impl Bench {
    /// A node on the scratch file system, with the volume's storage in it.
    pub(crate) fn new(
        kernel: Arc<LinuxKernel>,
        scratch: &Path,
        plugin: Arc<Plugin>,
        case: CaseFile,
        surroundings: Surroundings,
    ) -> Result<Self, String> {
        let root = kernel.prepare_root(&scratch.join(ROOT), Propagation::Private).map_err(|error| error.to_string())?;
        storage::make_anew(&kernel, scratch, ROOT, &case.files)?;
        let objects = Arc::new(CaseObjects::new(case.objects.clone()));
        Ok(Self {
            kernel: kernel.clone(),
            scratch: scratch.to_owned(),
            plugin,
            case,
            objects,
            root: Arc::new(root),
            fuse_servers: FuseServerProcesses::new(kernel, surroundings.launcher.clone(), None),
            surroundings,
            attached: Mutex::default(),
        })
    }

    /// The volume of the case file.
    pub(crate) fn spec(&self) -> Verdict<VolumeSpec> {
        self.case.spec(self.plugin.info()).or_else(|why| fail("read the case file", "a volume", why))
    }

    /// The pod of this name.
    pub(crate) fn pod(&self, name: &str) -> Verdict<Arc<Pod>> {
        self.case.pod(name).map(Arc::new).or_else(|why| fail("made a pod", "a pod", why))
    }

    /// The volume as a file system, and its way up.
    pub(crate) fn ladder(&self) -> Verdict<Ladder> {
        self.ladder_of(self.spec()?)
    }

    /// The volume as a device, and its way up.
    pub(crate) fn block_ladder(&self) -> Verdict<Ladder> {
        if !self.plugin.exports(Capability::BlockMapper) {
            return not_applicable("the plugin does not export block-mapper");
        }
        if self.case.expect.block == Some(false) {
            return not_applicable("the case file says that the volume is no device");
        }
        let mut spec = self.spec()?;
        match &mut spec.persistent_volume {
            Some(of) => of.volume_mode = VolumeMode::Block,
            None => return not_applicable("only a PersistentVolume is handed over as a device"),
        }
        self.ladder_of(spec)
    }

    /// The way up to this rung.
    pub(crate) fn ladder_to(&self, rung: Rung) -> Verdict<Ladder> {
        let ladder = match self.ladder() {
            Ok(ladder) if ladder.has(rung) => return Ok(ladder),
            Ok(_) if rung.is_block() => self.block_ladder()?,
            other => other?,
        };
        if ladder.has(rung) { Ok(ladder) } else { not_applicable(format!("the volume needs no {}", rung.up())) }
    }

    /// The way up of a volume.
    pub(crate) fn ladder_of(&self, spec: VolumeSpec) -> Verdict<Ladder> {
        let spec = Arc::new(spec);
        let identified = self.identify(&spec).or_fail("identify of the volume")?;
        Ok(Ladder::new(&self.plugin, spec, &identified))
    }

    /// What there is on the node beside the volume's content.
    pub(crate) fn node(&self) -> Verdict<Node> {
        self.fuse_servers.settle_all();
        Node::look(&self.kernel, &self.scratch, ROOT, self.fuse_servers.running())
            .or_else(|error| fail("looked at the node", "an answer", error.to_string()))
    }

    /// How many mounts there are on the node.
    pub(crate) fn mounts(&self) -> Verdict<usize> {
        let mounts = self.kernel.mounts_below(&self.root);
        mounts.map(|mounts| mounts.len()).or_else(|error| fail("listed the node's mounts", "ok", error.to_string()))
    }

    /// The volume at a rung, as a pod sees it: none when nothing stands there, or when there is nothing to see.
    pub(crate) fn standing(&self, ladder: &Ladder, rung: Rung, pod: &Pod) -> Verdict<Option<(Standing, Vec<MountId>)>> {
        let (folder, name) = match rung {
            Rung::Pod => (self.pod_folder(pod), ladder.spec.name.as_str().to_owned()),
            Rung::Node => (self.node_folder(ladder), GLOBAL_MOUNT.to_owned()),
            Rung::Attach | Rung::Device | Rung::PodDevice => return Ok(None),
        };
        let parent = match self.kernel.walk(&self.root, &folder) {
            Ok(parent) => parent,
            Err(_) => return Ok(None),
        };
        let path = self.scratch.join(ROOT).join(&folder).join(&name);
        standing(&self.kernel, &parent, &name, &path)
            .or_else(|error| fail("looked at the target", "an answer", error.to_string()))
    }

    /// The volume's path in the pod's folder.
    pub(crate) fn volume_path(&self, ladder: &Ladder, pod: &Pod) -> PathBuf {
        self.scratch.join(ROOT).join(self.pod_folder(pod)).join(ladder.spec.name.as_str())
    }

    /// The pod's folder, and the name of its volume in it.
    pub(crate) fn volume_place(&self, ladder: &Ladder, pod: &Pod) -> Verdict<Place> {
        self.place(&self.pod_folder(pod), ladder.spec.name.as_str())
    }

    /// Whether the volume is up on a rung, as far as that can be seen: by the kernel, or for an attachment by `are-attached`.
    pub(crate) fn is_up(&self, ladder: &Ladder, rung: Rung, pod: &Pod) -> Verdict<Option<bool>> {
        match rung {
            Rung::Pod | Rung::Node => Ok(Some(self.standing(ladder, rung, pod)?.is_some())),
            Rung::Attach => match self.are_attached(std::slice::from_ref(&ladder.name)).result {
                Ok(attached) => Ok(attached.first().copied()),
                Err(CallError::Plugin(said)) if said.case == ErrorCase::Unsupported => Ok(None),
                Err(error) => fail("are-attached of the volume", "an answer, or unsupported", error.message()),
            },
            Rung::Device | Rung::PodDevice => Ok(None),
        }
    }
}
