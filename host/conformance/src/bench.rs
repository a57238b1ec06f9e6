//! A node on which one volume goes up and down, called as the daemon's engine calls it, and looked at after each step.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use volhost_kernel::{BlockDevice, Directory, Entry, Kernel, KernelError, LinuxKernel, MountId, Propagation};
use volhost_model::spec::VolumeMode;
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::{
    Attachment, CallContext, CallError, DevicePlaces, Identified, Measured, NodeFacts, Place, Plugin, PrivateFolder,
    Progress, Sharers, Target,
};

use crate::ladder::{Ladder, Rung};
use crate::look::{Node, Standing, standing};
use crate::objects::CaseObjects;
use crate::storage;
use crate::subject::{CaseFile, Surroundings};
pub(crate) use crate::watch::Plan;
use crate::watch::{HostCall, Watch};

/// The host's root folder in the scratch file system.
const ROOT: &str = "root";
/// The mode of the folders between the root and a volume.
const FOLDER_MODE: u32 = 0o750;
/// How long a plugin's own code may run: the daemon's default.
const PLUGIN_TIME: Duration = Duration::from_secs(10);
/// The name of the node's own mount in its folder.
const GLOBAL_MOUNT: &str = "globalmount";
/// How much of a volume's name is in its folder's.
const FOLDER_NAME_BYTES: usize = 64;

/// Why a case did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It says nothing of this plugin, or of this volume.
    NotApplicable(String),
    /// The plugin, or the suite, failed.
    Failed(Failure),
}

/// What was done, what was expected, what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) did: String,
    pub(crate) expected: String,
    pub(crate) happened: String,
}

/// How a case, or a step of it, went.
pub(crate) type Verdict<T = ()> = Result<T, Stop>;

/// A failure.
pub(crate) fn fail<T>(did: impl Into<String>, expected: impl Into<String>, happened: impl Into<String>) -> Verdict<T> {
    Err(Stop::Failed(Failure { did: did.into(), expected: expected.into(), happened: happened.into() }))
}

/// The case says nothing of this volume.
pub(crate) fn not_applicable<T>(why: impl Into<String>) -> Verdict<T> {
    Err(Stop::NotApplicable(why.into()))
}

/// What a call of the plugin came to.
#[derive(Debug)]
pub(crate) struct Called<T = ()> {
    pub(crate) result: Result<T, CallError>,
    /// The host calls that it made.
    pub(crate) calls: Vec<HostCall>,
    /// What it logged and told.
    pub(crate) lines: Vec<String>,
}

impl<T> Called<T> {
    /// The result, which has to be ok.
    pub(crate) fn expect(self, did: &str) -> Verdict<T> {
        self.result.or_else(|error| fail(did, "ok", error.message()))
    }
}

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
    /// What the volume is attached as, as the host's record has it.
    attached: Mutex<Option<String>>,
}

/// The other pods that have a volume.
#[derive(Debug)]
struct OtherPods {
    kernel: Arc<LinuxKernel>,
    root: Arc<Directory>,
    own: PathBuf,
}

impl Sharers for OtherPods {
    fn other_pods(&self) -> Result<u32, KernelError> {
        let mounts = self.kernel.mounts_below(&self.root)?;
        let others =
            mounts.iter().filter(|mount| mount.point.starts_with("pods") && !mount.point.starts_with(&self.own));
        Ok(u32::try_from(others.count()).unwrap_or(u32::MAX))
    }
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
            kernel,
            scratch: scratch.to_owned(),
            plugin,
            case,
            objects,
            root: Arc::new(root),
            surroundings,
            attached: Mutex::default(),
        })
    }

    // What there is.

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
        use volhost_runtime::Capability;
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
        let identified = self.identify(&spec).expect("identify of the volume")?;
        Ok(Ladder::new(&self.plugin, spec, &identified))
    }

    /// What there is on the node beside the volume's content.
    pub(crate) fn node(&self) -> Verdict<Node> {
        Node::look(&self.kernel, &self.scratch, ROOT)
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

    // Calls.

    /// What surrounds a call that is watched so.
    fn context(&self, watch: &Arc<Watch>, ladder: Option<&Ladder>) -> CallContext {
        CallContext {
            node: Arc::new(self.case.node()),
            objects: self.objects.clone(),
            drivers: self.surroundings.drivers.clone(),
            programs: self.surroundings.programs.clone(),
            sink: watch.clone(),
            deadline: PLUGIN_TIME,
            progress: Arc::new(Progress::default()),
            device_places: ladder.filter(|ladder| ladder.spec.is_block()).map(|ladder| DevicePlaces {
                root: Arc::clone(&self.root),
                folder: self.plugin_folder("driverDevices").join(folder_name(&ladder.name)),
            }),
            attached_as: self.attached_as(),
            host_calls: Some(watch.clone()),
        }
    }

    fn watched<T>(
        &self,
        plan: Plan,
        ladder: Option<&Ladder>,
        call: impl FnOnce(&CallContext) -> Result<T, CallError>,
    ) -> Called<T> {
        let watch = Arc::new(Watch::new(plan));
        let result = call(&self.context(&watch, ladder));
        Called { result, calls: watch.calls(), lines: watch.lines() }
    }

    /// `describe`, on a node with these facts.
    pub(crate) fn describe(&self, node: NodeFacts) -> Called<volhost_runtime::PluginInfo> {
        self.watched(Plan::Watch, None, |call| {
            self.plugin.describe(&CallContext { node: Arc::new(node), ..call.clone() })
        })
    }

    /// `identify`.
    pub(crate) fn identify(&self, spec: &Arc<VolumeSpec>) -> Called<Identified> {
        self.watched(Plan::Watch, None, |call| self.plugin.identify(call, spec))
    }

    /// `are-attached`.
    pub(crate) fn are_attached(&self, names: &[String]) -> Called<Vec<bool>> {
        self.watched(Plan::Watch, None, |call| self.plugin.are_attached(call, names))
    }

    /// `wait-for-attach`, of a volume that is attached.
    pub(crate) fn attachment(&self, ladder: &Ladder) -> Result<Option<Attachment>, CallError> {
        let Some(attached_as) = self.attached_as().filter(|_| ladder.has(Rung::Attach)) else { return Ok(None) };
        let mut attached = Attachment { attached_as, metadata: Default::default(), device: None };
        attached.device = self.wait_for_attach(ladder, &attached).result?;
        Ok(Some(attached))
    }

    /// `wait-for-attach`, of a volume that is or was attached so.
    pub(crate) fn wait_for_attach(&self, ladder: &Ladder, attached: &Attachment) -> Called<Option<Arc<BlockDevice>>> {
        self.watched(Plan::Watch, Some(ladder), |call| self.plugin.wait_for_attach(call, &ladder.spec, attached))
    }

    /// `set-up-device`, for its device.
    pub(crate) fn device(&self, ladder: &Ladder) -> Verdict<Called<Arc<BlockDevice>>> {
        let attached = self.attached(ladder)?;
        Ok(self.watched(Plan::Watch, Some(ladder), |call| {
            self.plugin.set_up_device(call, &ladder.spec, attached.as_ref())
        }))
    }

    /// `expand`, of a volume that is up.
    pub(crate) fn expand(&self, ladder: &Ladder, pod: &Pod, to: u64, plan: Plan) -> Verdict<Called<u64>> {
        let attached = self.attached(ladder)?;
        let target = match ladder.rungs.last() {
            Some(Rung::Pod) if ladder.has(Rung::Node) => Some(self.node_target(ladder)?),
            Some(Rung::Pod) => Some(self.pod_target(ladder, pod)?),
            _ => None,
        };
        Ok(self
            .watched(plan, Some(ladder), |call| self.plugin.expand(call, &ladder.spec, attached.as_ref(), target, to)))
    }

    /// `measure`; of a pod's mount, or without one.
    pub(crate) fn measure(&self, ladder: &Ladder, pod: Option<&Pod>) -> Verdict<Called<Measured>> {
        let target = pod.map(|pod| self.pod_target(ladder, pod)).transpose()?;
        Ok(self.watched(Plan::Watch, Some(ladder), |call| self.plugin.measure(call, &ladder.name, target)))
    }

    /// The same, which has to be ok.
    fn attached(&self, ladder: &Ladder) -> Verdict<Option<Attachment>> {
        let found = self.attachment(ladder);
        found.or_else(|error| fail("wait-for-attach of a volume that is attached", "its device", error.message()))
    }

    /// What the volume is attached as.
    pub(crate) fn attached_as(&self) -> Option<String> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the volume up to a rung from the one below it.
    pub(crate) fn up(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>, plan: Plan) -> Verdict<Called> {
        let spec = &ladder.spec;
        if rung == Rung::Attach {
            let called = self.watched(plan, Some(ladder), |call| self.plugin.attach(call, spec));
            if let Ok(attached_as) = &called.result {
                *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = Some(attached_as.clone());
            }
            return Ok(Called { result: called.result.map(|_| ()), calls: called.calls, lines: called.lines });
        }
        let attached = self.attached(ladder)?;
        let attached = attached.as_ref();
        Ok(match rung {
            Rung::Node => {
                let target = self.node_target(ladder)?;
                self.watched(plan, Some(ladder), |call| {
                    self.plugin.mount_device(call, spec, attached, target).map(|_| ())
                })
            }
            Rung::Device => {
                self.watched(plan, Some(ladder), |call| self.plugin.set_up_device(call, spec, attached).map(|_| ()))
            }
            Rung::PodDevice => {
                let device = self.device(ladder)?.expect("set-up-device of a device that is ready")?;
                self.watched(plan, Some(ladder), |call| {
                    self.plugin.map_pod_device(call, spec, pod, &device).map(|_| ())
                })
            }
            Rung::Pod | Rung::Attach => {
                let target = self.pod_target(ladder, pod)?;
                self.watched(plan, Some(ladder), |call| self.plugin.set_up(call, spec, pod, target).map(|_| ()))
            }
        })
    }

    /// Takes the volume down from a rung.
    pub(crate) fn down(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>, plan: Plan) -> Verdict<Called> {
        let name = ladder.name.as_str();
        let called = match rung {
            Rung::Attach => self.watched(plan, Some(ladder), |call| self.plugin.detach(call, name)),
            Rung::Node => {
                let target = self.node_target(ladder)?;
                self.watched(plan, Some(ladder), |call| self.plugin.unmount_device(call, name, target))
            }
            Rung::Device => self.watched(plan, Some(ladder), |call| self.plugin.tear_down_device(call, name)),
            Rung::PodDevice => {
                self.watched(plan, Some(ladder), |call| self.plugin.unmap_pod_device(call, name, &pod.uid))
            }
            Rung::Pod => {
                let target = self.pod_target(ladder, pod)?;
                self.watched(plan, Some(ladder), |call| self.plugin.tear_down(call, target))
            }
        };
        if called.result.is_ok() {
            match rung {
                Rung::Attach => *self.attached.lock().unwrap_or_else(PoisonError::into_inner) = None,
                Rung::Pod => self
                    .private_folder(ladder, pod)
                    .remove(&*self.kernel)
                    .or_else(|error| fail("removed the volume's private folder", "ok", error.to_string()))?,
                _ => {}
            }
        }
        self.remove_empty_folders(ladder, pod);
        Ok(called)
    }

    /// Takes the volume up to the rung below this one.
    pub(crate) fn climb_below(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>) -> Verdict {
        for lower in ladder.below(rung) {
            self.up(ladder, lower, pod, Plan::Watch)?.expect(lower.up())?;
        }
        Ok(())
    }

    /// Takes the volume all the way up.
    pub(crate) fn climb(&self, ladder: &Ladder, pod: &Arc<Pod>) -> Verdict {
        for rung in &ladder.rungs {
            self.up(ladder, *rung, pod, Plan::Watch)?.expect(rung.up())?;
        }
        Ok(())
    }

    /// Takes the volume all the way down. What is down already is taken down once more, which the contract allows.
    pub(crate) fn descend(&self, ladder: &Ladder, pod: &Arc<Pod>) -> Verdict {
        for rung in ladder.rungs.iter().rev() {
            self.down(ladder, *rung, pod, Plan::Watch)?.expect(rung.down())?;
        }
        Ok(())
    }

    /// Takes the volume down, makes its storage anew, and takes it up to the rung below this one.
    pub(crate) fn fresh(&self, ladder: &Ladder, rung: Rung, pod: &Arc<Pod>) -> Verdict {
        self.descend(ladder, pod)?;
        self.make_storage_anew()?;
        self.climb_below(ladder, rung, pod)
    }

    /// Makes the volume's storage anew. Nothing of the volume may stand.
    pub(crate) fn make_storage_anew(&self) -> Verdict {
        storage::make_anew(&self.kernel, &self.scratch, ROOT, &self.case.files)
            .or_else(|why| fail("made the volume's storage anew", "ok", why))
    }

    /// Whether the volume is up on a rung, as far as that can be seen: by the kernel, or for an attachment by `are-attached`.
    pub(crate) fn is_up(&self, ladder: &Ladder, rung: Rung, pod: &Pod) -> Verdict<Option<bool>> {
        match rung {
            Rung::Pod | Rung::Node => Ok(Some(self.standing(ladder, rung, pod)?.is_some())),
            Rung::Attach => match self.are_attached(std::slice::from_ref(&ladder.name)).result {
                Ok(attached) => Ok(attached.first().copied()),
                Err(CallError::Plugin(said)) if said.case == volhost_runtime::ErrorCase::Unsupported => Ok(None),
                Err(error) => fail("are-attached of the volume", "an answer, or unsupported", error.message()),
            },
            Rung::Device | Rung::PodDevice => Ok(None),
        }
    }

    // Places.

    /// The volume's target in the pod's folder.
    pub(crate) fn pod_target(&self, ladder: &Ladder, pod: &Pod) -> Verdict<Target> {
        let place = self.volume_place(ladder, pod)?;
        let own = Path::new("pods").join(pod.uid.as_str());
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: Some(pod.uid.clone()),
            spec_name: ladder.spec.name.clone(),
            device_mount: self.device_mount(ladder)?,
            private: Some(self.private_folder(ladder, pod)),
            sharers: Some(Arc::new(OtherPods { kernel: self.kernel.clone(), root: self.root.clone(), own })),
            needed: Vec::new(),
        })
    }

    /// The node's own target of the volume.
    pub(crate) fn node_target(&self, ladder: &Ladder) -> Verdict<Target> {
        let place = self.place(&self.node_folder(ladder), GLOBAL_MOUNT)?;
        Ok(Target {
            parent: place.parent,
            name: place.name,
            pod_uid: None,
            spec_name: ladder.spec.name.clone(),
            device_mount: None,
            private: None,
            sharers: None,
            needed: Vec::new(),
        })
    }

    fn device_mount(&self, ladder: &Ladder) -> Verdict<Option<Place>> {
        if !ladder.has(Rung::Node) {
            return Ok(None);
        }
        self.place(&self.node_folder(ladder), GLOBAL_MOUNT).map(Some)
    }

    fn private_folder(&self, ladder: &Ladder, pod: &Pod) -> PrivateFolder {
        let parent = Path::new("pods").join(pod.uid.as_str()).join("plugins").join(self.plugin.info().name.escaped());
        PrivateFolder { root: Arc::clone(&self.root), parent, name: ladder.spec.name.as_str().into() }
    }

    fn pod_folder(&self, pod: &Pod) -> PathBuf {
        Path::new("pods").join(pod.uid.as_str()).join("volumes").join(self.plugin.info().name.escaped())
    }

    fn plugin_folder(&self, what: &str) -> PathBuf {
        Path::new("plugins").join(self.plugin.info().name.as_str()).join(what)
    }

    fn node_folder(&self, ladder: &Ladder) -> PathBuf {
        self.plugin_folder("mounts").join(folder_name(&ladder.name))
    }

    fn place(&self, folder: &Path, name: &str) -> Verdict<Place> {
        let parent = self
            .kernel
            .make_dirs(&self.root, folder, FOLDER_MODE)
            .or_else(|error| fail("made the volume's folder", "ok", error.to_string()))?;
        Ok(Place { parent, name: name.into() })
    }

    /// Removes the folders above the volume's places that are empty, as the host does.
    fn remove_empty_folders(&self, ladder: &Ladder, pod: &Pod) {
        let private = self.private_folder(ladder, pod).parent;
        let driver = self.plugin_folder("driverDevices").join(folder_name(&ladder.name));
        for folder in [self.pod_folder(pod), private, self.node_folder(ladder), driver] {
            let mut at = folder.as_path();
            while let (Some(parent), Some(name)) = (at.parent(), at.file_name()) {
                if !self.remove_if_empty(parent, name) {
                    break;
                }
                at = parent;
            }
        }
    }

    /// Whether it is gone.
    fn remove_if_empty(&self, parent: &Path, name: &OsStr) -> bool {
        match self.kernel.walk(&self.root, parent) {
            Ok(parent) => {
                self.kernel.remove_empty_dir(&parent, name).is_ok()
                    && matches!(self.kernel.entry(&parent, name), Ok(Entry::Absent))
            }
            // What is above may be there still.
            Err(_) => true,
        }
    }
}

/// A volume's name as a folder's.
fn folder_name(volume: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = volume.chars().map(plain).take(FOLDER_NAME_BYTES).collect();
    format!("v{name}")
}
