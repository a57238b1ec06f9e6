//! A loaded plugin and its calls.

use std::path::PathBuf;
use std::sync::Arc;

use volhost_kernel::{Entry, MountId};
use volhost_model::names::MAX_VOLUME_NAME_BYTES;
use volhost_model::{PluginName, Pod, VolumeSpec};
use wasmtime::component::Resource;

use crate::abort::Abort;
use crate::call::Call;
use crate::call_error::{CallError, ErrorCase, Function, PluginError};
use crate::exports::Exports;
use crate::grants::Reach;
use crate::handles::{Description, Identity, MountTarget, PodHandle, VolumeHandle};
use crate::sandbox::{Sandbox, SandboxShared};
use crate::settings::DeclaredSetting;
use crate::target::Target;

/// Why a read-only volume that is a folder, and no mount, is not given to a pod.
const WRITABLE_FOLDER: &str = "the volume is read-only, and what was set up is files in a folder of the pod that any \
    container can write: a plain folder cannot be made so; use a plugin or driver that mounts, or remove `readOnly` \
    from the volume and set it in each container's volumeMounts";

/// A plugin's capability: an interface that it exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Names volumes.
    Plugin,
    /// Sets volumes up in pods and tears them down.
    Publisher,
    /// Attaches volumes to the node.
    Attacher,
    /// Names the other node that has a volume, and detaches it there.
    OtherNodes,
    /// Mounts a device once a node, for all pods.
    Stager,
    /// Hands volumes over as block devices.
    BlockMapper,
    /// Grows volumes.
    Expander,
    /// Measures volumes.
    Stats,
    /// Makes and deletes volumes.
    Controller,
    /// Makes snapshots.
    Snapshotter,
    /// Changes what volumes are like.
    Modifier,
    /// Makes snapshots of several volumes at one moment.
    GroupSnapshotter,
    /// Finds volumes again after a restart.
    Recovery,
}

impl Capability {
    /// The interface of the contract.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Publisher => "publisher",
            Self::Attacher => "attacher",
            Self::OtherNodes => "other-nodes",
            Self::Stager => "stager",
            Self::BlockMapper => "block-mapper",
            Self::Expander => "expander",
            Self::Stats => "stats",
            Self::Controller => "controller",
            Self::Snapshotter => "snapshotter",
            Self::Modifier => "modifier",
            Self::GroupSnapshotter => "group-snapshotter",
            Self::Recovery => "recovery",
        }
    }
}

/// Facts of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its name, as it says.
    pub name: PluginName,
    /// Its own version, as it says.
    pub version: String,
    /// The volume sources it serves.
    pub sources: Vec<String>,
    /// It passes PersistentVolume mount options on.
    pub accepts_mount_options: bool,
    /// Its volumes' content follows their source: publish is called again when that may have
    /// changed.
    pub follows_its_source: bool,
    /// Pods can only read its volumes' content.
    pub read_only: bool,
    /// The values that the operator may give it.
    pub settings: Vec<DeclaredSetting>,
    /// It can give a volume's files to a pod's group: it imports `mount-target.apply-fs-group`.
    pub gives_to_group: bool,
    /// Volumes of it can be mounted with an SELinux label: it imports `identity.selinux-mount`.
    pub selinux_mount: bool,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The version of the contract that it was built for.
    pub abi: String,
    /// What built it, as it says; none when it does not.
    pub sdk: Option<String>,
    /// The interfaces of the contract that it exports, sorted: what it can do.
    pub exports: Vec<String>,
    /// The interfaces of the contract that it imports, sorted: what it may ask for.
    pub imports: Vec<String>,
    /// The file it was loaded from.
    pub file: PathBuf,
}

/// A plugin's description of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identified {
    /// The volume's own name; none for a volume that is named by its pod.
    pub name: Option<String>,
    /// Whether it must be attached, if the plugin says so; otherwise its exports decide.
    pub attachable: Option<bool>,
    /// Whether it is mounted for the node first, likewise.
    pub stageable: Option<bool>,
    /// The pod's other volumes that it is made of, by their names in the pod.
    pub needs: Vec<String>,
    /// Whether it can be mounted with an SELinux label.
    pub selinux_mount: bool,
    /// How many volumes of the plugin may be attached to the node at once, if the plugin says so.
    pub attach_limit: Option<u32>,
    /// How many of those whose names begin so, if the plugin says so.
    pub attach_limit_of: Option<(String, u32)>,
    /// It is set up again from time to time.
    pub refreshed: bool,
}

/// The result of publishing a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Publish {
    /// The size in bytes beyond which the host emits an event for the pod; none when the plugin did
    /// not ask for it.
    pub watched_size: Option<u64>,
    /// The mount at the target; none where the plugin published a plain folder.
    pub mount: Option<MountId>,
}

/// A plugin, ready to be called from any thread, by many at once. Every call has a sandbox of its
/// own and blocks its thread.
pub struct Plugin {
    pub(crate) info: PluginInfo,
    pub(crate) exports: Exports,
    pub(crate) reach: Arc<Reach>,
    pub(crate) shared: Arc<SandboxShared>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("info", &self.info).finish_non_exhaustive()
    }
}

impl Plugin {
    /// Returns what is known of it.
    #[must_use]
    pub fn info(&self) -> &PluginInfo {
        &self.info
    }

    /// Returns whether it can do this.
    #[must_use]
    pub fn exports(&self, capability: Capability) -> bool {
        self.info.exports.iter().any(|name| name == capability.interface())
    }

    /// Asks the plugin again to describe itself, in this environment and with its grants. Its
    /// capabilities do not change and are not asked for.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::BrokeContract`] when its name is none.
    pub fn describe(&self, call: &Call) -> Result<PluginInfo, CallError> {
        let said = describe(&self.shared, &self.exports, call, &self.reach)?;
        let name = PluginName::new(said.name).map_err(|error| CallError::BrokeContract {
            function: Function::Describe,
            what: error.to_string(),
            changed: false,
        })?;
        Ok(PluginInfo {
            name,
            version: crate::text::tame(&said.version, said.version.len()),
            sources: said.sources,
            accepts_mount_options: said.accepts_mount_options,
            follows_its_source: said.follows_its_source,
            read_only: said.read_only,
            settings: said.settings,
            ..self.info.clone()
        })
    }

    /// Returns how many of its operations may run at once, if the operator bounds them for this
    /// plugin.
    #[must_use]
    pub fn concurrency(&self) -> Option<usize> {
        self.reach.concurrency
    }

    /// Asks the plugin to check the volume and name it. Changes nothing.
    ///
    /// # Errors
    /// [`CallError`]; a volume that the plugin refuses is [`CallError::Plugin`].
    pub fn identify(&self, call: &Call, spec: &Arc<VolumeSpec>) -> Result<Identified, CallError> {
        let mut sandbox = self.sandbox(Function::Identify, call)?;
        let plugin = sandbox.load(|store, instance| self.exports.plugin.load(store, instance))?;
        let volume = put(&mut sandbox, Function::Identify, VolumeHandle(Arc::clone(spec)))?;
        let form = put(&mut sandbox, Function::Identify, Identity::default())?;
        let (answer, mut state) = sandbox.call(|store| {
            plugin.call_identify(store, Resource::new_borrow(volume.rep()), Resource::new_borrow(form.rep()))
        })?;
        answer.map_err(PluginError::from)?;
        let said = state.table.get_mut(&form).map(std::mem::take).unwrap_or_default();
        let Identity { name, attachable, stageable, selinux_mount, attach_limit, attach_limit_of, refreshed, needs } =
            said;
        if let Some(name) = &name {
            check_volume_name(name)?;
        }
        if let Some((names, _)) = &attach_limit_of {
            check_limited_names(names, name.as_deref())?;
        }
        Ok(Identified { name, attachable, stageable, selinux_mount, attach_limit, attach_limit_of, refreshed, needs })
    }

    /// Publishes the volume at the target, and checks that something is there. Repeating it changes
    /// nothing.
    ///
    /// # Errors
    /// [`CallError`], whose class says what is left: see [`CallError::class`].
    pub fn publish(
        &self,
        call: &Call,
        spec: &Arc<VolumeSpec>,
        pod: &Arc<Pod>,
        target: Target,
    ) -> Result<Publish, CallError> {
        const FUNCTION: Function = Function::Publish;
        let target = Arc::new(target);
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let publisher = sandbox.load(|store, instance| self.exports.publisher.load(store, instance))?;
        sandbox.state().call.set_mount_group(pod.fs_group);
        sandbox.state().call.set_mount_namespace(&pod.namespace);
        let volume = put(&mut sandbox, FUNCTION, VolumeHandle(Arc::clone(spec)))?;
        let pod = put(&mut sandbox, FUNCTION, PodHandle(Arc::clone(pod)))?;
        let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::clone(&target)))?;
        let (answer, state) = sandbox.call(|store| {
            publisher.call_publish(
                store,
                Resource::new_borrow(volume.rep()),
                Resource::new_borrow(pod.rep()),
                Resource::new_borrow(place.rep()),
            )
        })?;
        answer.map_err(PluginError::from)?;
        let found = self.look(call, FUNCTION, &target)?;
        let mount = match found {
            Entry::Mount(id) => Some(id),
            _ => None,
        };
        let publish = Publish { watched_size: state.watched_size, mount };
        let found = match found {
            Entry::Mount(_) if spec.read_only && !self.updates_what_pods_read() => {
                // Whether or not the plugin, or a driver behind it, honours the request: the pod
                // does not write.
                let made = self.shared.kernel.make_read_only(&target.parent, &target.name);
                return made.map(|()| publish).map_err(|source| CallError::Check { function: FUNCTION, source });
            }
            Entry::Folder if spec.read_only && !self.updates_what_pods_read() => {
                return Err(CallError::Plugin(PluginError {
                    case: ErrorCase::Uncertain,
                    message: WRITABLE_FOLDER.to_owned(),
                }));
            }
            Entry::Mount(_) | Entry::Folder => return Ok(publish),
            Entry::Absent => "nothing is at the target",
            Entry::File => "an ordinary file is at the target",
            Entry::Symlink => "a symbolic link is at the target",
            Entry::Other => "neither a folder nor a mount is at the target",
        };
        Err(CallError::Lied { function: FUNCTION, found: found.to_owned() })
    }

    /// Returns whether publish writes into a mounted volume that pods can only read, as for
    /// secrets. Such a mount stays writable for the host; a container's own mount of it is
    /// read-only.
    fn updates_what_pods_read(&self) -> bool {
        self.info.read_only && self.info.follows_its_source
    }

    /// Unmounts the volume from the target, and checks that nothing is there. Repeating it changes
    /// nothing.
    ///
    /// # Errors
    /// [`CallError`], whose class says what is left: see [`CallError::class`].
    pub fn unpublish(&self, call: &Call, target: Target) -> Result<(), CallError> {
        const FUNCTION: Function = Function::Unpublish;
        let target = Arc::new(target);
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let publisher = sandbox.load(|store, instance| self.exports.publisher.load(store, instance))?;
        let place = put(&mut sandbox, FUNCTION, MountTarget(Arc::clone(&target)))?;
        let (answer, _state) =
            sandbox.call(|store| publisher.call_unpublish(store, Resource::new_borrow(place.rep())))?;
        answer.map_err(PluginError::from)?;
        self.check_gone(call, FUNCTION, &target)
    }

    pub(crate) fn sandbox(&self, function: Function, call: &Call) -> Result<Sandbox<'_>, CallError> {
        self.shared.sandbox(&self.exports, function, call, &self.reach)
    }

    /// Nothing may be mounted at the target after an `unpublish` that the plugin reports as done.
    pub(crate) fn check_gone(&self, call: &Call, function: Function, target: &Target) -> Result<(), CallError> {
        let found = match self.look(call, function, target)? {
            Entry::Absent => return Ok(()),
            Entry::Mount(_) => "a mount is still at the target",
            Entry::Folder => "a folder is still at the target",
            Entry::File | Entry::Symlink | Entry::Other => "something is still at the target",
        };
        Err(CallError::Lied { function, found: found.to_owned() })
    }

    /// Returns what is at the target after the call, by the kernel's report, not the plugin's.
    pub(crate) fn look(&self, call: &Call, function: Function, target: &Target) -> Result<Entry, CallError> {
        call.progress().enter("checking the target");
        let found = self.shared.kernel.entry(&target.parent, &target.name);
        found.map_err(|source| CallError::Check { function, source })
    }
}

/// Asks a plugin what it is. Without any reach when it is loaded: its name, which decides on
/// grants, is not known yet.
pub(crate) fn describe(
    shared: &SandboxShared,
    exports: &Exports,
    call: &Call,
    reach: &Arc<Reach>,
) -> Result<Description, CallError> {
    let mut sandbox = shared.sandbox(exports, Function::Describe, call, reach)?;
    let plugin = sandbox.load(|store, instance| {
        exports.check(store, instance)?;
        exports.plugin.load(store, instance)
    })?;
    let form = put(&mut sandbox, Function::Describe, Description::default())?;
    let ((), mut state) = sandbox.call(|store| plugin.call_describe(store, Resource::new_borrow(form.rep())))?;
    state.table.delete(form).map_err(|error| CallError::Sandbox { reason: error.to_string() })
}

/// Puts an argument into a sandbox's table.
pub(crate) fn put<T: Send + 'static>(
    sandbox: &mut Sandbox<'_>,
    function: Function,
    object: T,
) -> Result<Resource<T>, CallError> {
    sandbox.state().push(object).map_err(|abort: Abort| CallError::LimitExceeded {
        function,
        what: abort.to_string(),
        changed: false,
    })
}

/// The limit is one of the volume itself too.
fn check_limited_names(names: &str, name: Option<&str>) -> Result<(), CallError> {
    if !names.is_empty() && name.is_some_and(|name| name.starts_with(names)) {
        return Ok(());
    }
    let what = "it limited volumes whose names begin with words that the volume's own does not begin with".to_owned();
    Err(CallError::BrokeContract { function: Function::Identify, what, changed: false })
}

fn check_volume_name(name: &str) -> Result<(), CallError> {
    let what = if name.is_empty() {
        "it named the volume with an empty name".to_owned()
    } else if name.len() > MAX_VOLUME_NAME_BYTES {
        format!("it named the volume with {} bytes, {MAX_VOLUME_NAME_BYTES} at most", name.len())
    } else if name.chars().any(char::is_control) {
        "it named the volume with control characters".to_owned()
    } else {
        return Ok(());
    };
    Err(CallError::BrokeContract { function: Function::Identify, what, changed: false })
}
