//! Staging: a volume is attached, and mounted once for the node or made ready as a device; and taken back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use volhost_kernel::{BlockDevice, Detach, Directory, Entry, ErrorKind};
use volhost_model::VolumeSpec;
use volhost_runtime::{Attachment, Capability, Place, Target};

use crate::check::shown;
use crate::driver::{Driver, OWN_STAGING};
use crate::in_flight::Claim;
use crate::publications::ATTACHED_AS;
use crate::records::{OnNode, Staged};
use crate::refusal::{Refusal, Result};
use crate::secrets::Secrets;
use crate::source::{Asked, name_of};
use crate::usage::Usage;
use volhost_proto::csi::NodeStageVolumeRequest;

/// What stands in the staging folder, which is the CO's own: the node's mount of the volume.
pub(crate) const MOUNT: &str = "mount";
/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "nodeStageSecretRef";
pub(crate) const STAGING_PATH: &str = "staging_target_path";
/// The mode of folders of the driver's own.
const FOLDER_MODE: u32 = 0o700;

impl Driver {
    /// Stages the volume. Staged so already: done.
    ///
    /// # Errors
    /// [`Refusal`]; unless it is final, something may have been left, which the next call or an unstage deals with.
    pub(crate) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<()> {
        let (id, path) = (request.volume_id.as_str(), request.staging_target_path.as_str());
        self.co.below(STAGING_PATH, path)?;
        let usage = Usage::read(request.volume_capability.as_ref())?;
        let secrets = Secrets::read(&request.secrets)?;
        let _claim = self.in_flight.claim([crate::node::volume(id)])?;
        self.check_usage(&usage)?;
        let folder = self.co.open(&*self.kernel, STAGING_PATH, path)?.ok_or_else(|| {
            Refusal::field(STAGING_PATH, format!("there is no folder {}; the CO makes it", shown(path)))
        })?;
        let asked = Asked { volume_id: id, context: &request.volume_context, usage: &usage, read_only: false };
        let spec = self.source.spec(&asked)?;
        let staged = Staged { path: path.to_owned(), usage: usage.for_any_group(), done: false };
        let publish_context = request.publish_context.clone().into_iter().collect();
        let find = || self.find(id, &secrets);
        self.stage_in(id, &folder, staged, &spec, publish_context, &secrets, find).map(drop)
    }

    /// Stages a volume that a pod describes itself, in a folder of the driver's own: the CO only publishes it. It is unstaged with its
    /// last publication.
    ///
    /// # Errors
    /// As [`Driver::stage`].
    pub(crate) fn stage_own(&self, id: &str, usage: &Usage, spec: &VolumeSpec, secrets: &Secrets) -> Result<OnNode> {
        let path = own_folder(id);
        let folder = self.kernel.make_dirs(&self.state, &path, FOLDER_MODE);
        let folder = folder.map_err(|source| Refusal::kernel("staging", shown(id), source))?;
        let staged = Staged { path: String::new(), usage: usage.for_any_group(), done: false };
        self.stage_in(id, &folder, staged, spec, BTreeMap::new(), secrets, || Ok(()))
    }

    /// Unstages such a volume. What another one shows of the same storage stays attached.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unstage_own(&self, record: &OnNode) -> Result<()> {
        let id = record.volume_id.as_str();
        let failed = |source| Refusal::kernel("unstaging", shown(id), source);
        let _storage = self.claim_storage(record)?;
        if let Some(folder) = self.open_own(id)? {
            self.take_down_on_node(record, &folder)?;
        }
        let path = own_folder(id);
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && let Ok(parent) = self.kernel.walk(&self.state, parent)
        {
            self.kernel.remove_empty_dir(&parent, name).map_err(failed)?;
        }
        Ok(())
    }

    /// Keeps two volumes of one storage from being staged and unstaged at once.
    fn claim_storage(&self, record: &OnNode) -> Result<Option<Claim>> {
        record.name.as_ref().map(|name| self.in_flight.claim([format!("storage {name}")])).transpose()
    }

    /// Returns whether another volume of the node is of the same storage, which it may show.
    fn is_shared(&self, record: &OnNode) -> Result<bool> {
        if record.name.is_none() {
            return Ok(false);
        }
        let others = self.on_node.all()?;
        Ok(others.iter().any(|other| other.volume_id != record.volume_id && other.name == record.name))
    }

    fn open_own(&self, id: &str) -> Result<Option<Directory>> {
        match self.kernel.walk(&self.state, &own_folder(id)) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Refusal::kernel("opening the staging folder of", shown(id), source)),
        }
    }

    /// The folder that a volume is staged in; none if it is not there.
    pub(crate) fn staging_folder(&self, id: &str, staged: &Staged) -> Result<Option<Directory>> {
        if staged.is_own() { self.open_own(id) } else { self.co.open(&*self.kernel, STAGING_PATH, &staged.path) }
    }

    #[expect(clippy::too_many_arguments, reason = "what is staged, where, how, and with what; two callers")]
    fn stage_in(
        &self,
        id: &str,
        folder: &Directory,
        staged: Staged,
        spec: &VolumeSpec,
        publish_context: BTreeMap<String, String>,
        secrets: &Secrets,
        find: impl FnOnce() -> Result<()>,
    ) -> Result<OnNode> {
        let mut record = match self.on_node.read(id)? {
            Some(record) => {
                check_same(&record, &staged, id)?;
                if record.staged.as_ref().is_some_and(|staged| staged.done) && self.stands(&record, folder)? {
                    return Ok(record);
                }
                OnNode { staged: Some(staged), ..record }
            }
            None => {
                find()?;
                self.new_record(id, spec, Some(staged))?
            }
        };
        let _storage = self.claim_storage(&record)?;
        record.spec = spec.clone();
        // Before anything is done: what nobody remembers would never be taken back.
        self.on_node.write(id, &record)?;
        match self.set_up_on_node(&mut record, publish_context, folder, secrets) {
            Ok(()) => {
                if let Some(staged) = &mut record.staged {
                    staged.done = true;
                }
                self.on_node.write(id, &record)?;
                Ok(record)
            }
            Err(refusal) if refusal.is_final() => {
                // The CO forgets the volume now, and asks for no unstage.
                match self.take_down_on_node(&record, folder) {
                    Ok(()) => self.on_node.remove(id)?,
                    Err(error) => warn!(volume = id, %error, "what a failed stage left could not be taken back"),
                }
                Err(refusal)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Takes back what staging did. Not staged: done.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unstage(&self, id: &str, path: &str) -> Result<()> {
        self.co.below(STAGING_PATH, path)?;
        let _claim = self.in_flight.claim([crate::node::volume(id)])?;
        let record = self.on_node.read(id)?;
        if let Some(record) = &record {
            if let Some(staged) = record.staged.as_ref().filter(|staged| staged.path != path) {
                let why = format!("it is staged at {}", shown(&staged.path));
                return Err(Refusal::Precondition(format!("{}: {why}", crate::node::volume(id))));
            }
            self.check_unpublished(id, record)?;
        }
        let folder = self.co.open(&*self.kernel, STAGING_PATH, path)?;
        let record = match record {
            Some(record) => record,
            None => match self.guessed_record(id) {
                Some(record) => record,
                // Of such a volume the plugin knows nothing; a mount that stands there is taken away all the same.
                None => return folder.map_or(Ok(()), |folder| self.clear_mount(id, &folder)),
            },
        };
        let _storage = self.claim_storage(&record)?;
        match folder {
            Some(folder) => self.take_down_on_node(&record, &folder)?,
            None if self.is_shared(&record)? => {}
            None => self.detach(&record)?,
        }
        self.on_node.remove(id)
    }

    /// What a volume is to the plugin, as nothing of it stands yet.
    pub(crate) fn new_record(&self, id: &str, spec: &VolumeSpec, staged: Option<Staged>) -> Result<OnNode> {
        let spec = Arc::new(spec.clone());
        let identified = self.did("naming", id, self.plugin.identify(&self.call(id), &spec))?;
        if !identified.needs.is_empty() {
            let why = "it is made of other volumes of its pod, and a CSI driver is not told of those";
            return Err(Refusal::field("volume_context", why));
        }
        let exports = |capability| self.can(capability);
        Ok(OnNode {
            volume_id: id.to_owned(),
            attachable: exports(Capability::Attacher) && identified.attachable.unwrap_or(true),
            stageable: exports(Capability::Stager) && identified.stageable.unwrap_or(true),
            name: identified.name,
            spec: spec.as_ref().clone(),
            attached_as: None,
            by_controller: false,
            staged,
            published: BTreeMap::new(),
        })
    }

    /// What can be known of a volume without a record: what its handle alone tells the plugin.
    fn guessed_record(&self, id: &str) -> Option<OnNode> {
        let unknown = OnNode::unknown(id, &self.source).ok()?;
        self.new_record(id, &unknown.spec, None).ok()
    }

    /// Refuses a use that the plugin cannot serve.
    pub(crate) fn check_usage(&self, usage: &Usage) -> Result<()> {
        if usage.block && !self.can(Capability::BlockMapper) {
            let why = "the plugin does not hand volumes over as devices; ask for `mount`";
            return Err(Refusal::field("volume_capability", why));
        }
        if usage.mount_group.is_some() && !self.plugin.info().gives_to_group {
            let why = "`volume_mount_group`: the plugin does not give files to a group; the CO does that itself";
            return Err(Refusal::field("volume_capability", why));
        }
        if !usage.mount_flags.is_empty() && !self.plugin.info().accepts_mount_options {
            return Err(Refusal::field("volume_capability", "`mount_flags`: the plugin takes no mount options"));
        }
        Ok(())
    }

    /// Whether what a record says was staged stands.
    fn stands(&self, record: &OnNode, folder: &Directory) -> Result<bool> {
        let call = self.call(&record.volume_id);
        if record.attachable
            && let Some(name) = &record.name
        {
            match self.plugin.are_attached(&call, std::slice::from_ref(name)) {
                Ok(attached) if attached == [false] => return Ok(false),
                _ => {}
            }
        }
        if !record.stageable || record.spec.is_block() {
            return Ok(true);
        }
        let found = self.kernel.entry(folder, OsStr::new(MOUNT)).map_err(|source| failed(record, source))?;
        Ok(matches!(found, Entry::Mount(_)) && !self.take_dead_away(folder, OsStr::new(MOUNT))?)
    }

    fn set_up_on_node(
        &self,
        record: &mut OnNode,
        publish_context: BTreeMap<String, String>,
        folder: &Directory,
        secrets: &Secrets,
    ) -> Result<()> {
        let id = record.volume_id.clone();
        let spec = secrets.referred(&self.plugin, &record.spec, SECRETS);
        let call = self.call_with(&id, secrets);
        if let Some(attached_as) = publish_context.get(ATTACHED_AS).filter(|_| record.attachable) {
            record.attached_as = Some(attached_as.clone());
            record.by_controller = true;
            self.on_node.write(&id, record)?;
        } else if record.attachable {
            record.attached_as = Some(self.did("attaching", &id, self.plugin.attach(&call, &spec))?);
            self.on_node.write(&id, record)?;
        }
        let attached = self.attachment(record, publish_context)?;
        if spec.is_block() {
            self.did("making ready the device of", &id, self.plugin.stage_device(&call, &spec, attached.as_ref()))?;
        } else if record.stageable {
            let target = self.node_target(record, folder)?;
            let mounted = self.plugin.stage(&call, &spec, attached.as_ref(), target);
            self.did("mounting for the node", &id, mounted)?;
        }
        Ok(())
    }

    /// What is known of the attached volume, its device found; none for a volume that is not attached.
    pub(crate) fn attachment(&self, record: &OnNode, metadata: BTreeMap<String, String>) -> Result<Option<Attachment>> {
        let Some(attached_as) = record.attached_as.clone().filter(|_| record.attachable) else { return Ok(None) };
        let mut attached = Attachment { attached_as, metadata, device: None };
        let spec = Arc::new(record.spec.clone());
        let found = self.plugin.wait_for_attach(&self.call(&record.volume_id), &spec, &attached);
        attached.device = self.did("finding the device of", &record.volume_id, found)?;
        Ok(Some(attached))
    }

    /// The device of a staged volume; none if each pod has a device of its own.
    pub(crate) fn device(&self, record: &OnNode) -> Result<Option<Arc<BlockDevice>>> {
        let attached = self.attachment(record, BTreeMap::new())?;
        let spec = Arc::new(record.spec.clone());
        let device = self.plugin.stage_device(&self.call(&record.volume_id), &spec, attached.as_ref());
        self.did("making ready the device of", &record.volume_id, device)
    }

    /// Takes everything back that staging may have done. Where another volume is of the same
    /// storage, only the mount: its device and its attachment are the other's too.
    ///
    /// The caller has the claim of the storage.
    fn take_down_on_node(&self, record: &OnNode, folder: &Directory) -> Result<()> {
        let id = record.volume_id.as_str();
        if self.is_shared(record)? {
            self.clear_mount(id, folder)?;
            return self.private(id, MOUNT).remove(&*self.kernel).map_err(|source| failed(record, source));
        }
        let call = self.call(id);
        match (&record.name, record.stageable) {
            (Some(name), true) => {
                let target = self.node_target(record, folder)?;
                self.did("unmounting for the node", id, self.plugin.unstage(&call, name, target))?;
                self.private(id, MOUNT).remove(&*self.kernel).map_err(|source| failed(record, source))?;
            }
            _ => self.clear_mount(id, folder)?,
        }
        if let Some(name) = record.name.as_ref().filter(|_| self.can(Capability::BlockMapper)) {
            self.did("giving up the device of", id, self.plugin.unstage_device(&call, name))?;
        }
        self.detach(record)
    }

    fn detach(&self, record: &OnNode) -> Result<()> {
        match record.name.as_ref().filter(|_| record.attachable && !record.by_controller) {
            Some(name) => {
                let call = self.call(&record.volume_id);
                self.did("detaching", &record.volume_id, self.plugin.detach(&call, name))
            }
            None => Ok(()),
        }
    }

    /// Takes a mount away that the plugin need not be asked about: every one at that place was made by the host.
    fn clear_mount(&self, id: &str, folder: &Directory) -> Result<()> {
        let step = "unmounting for the node";
        let failed = |source| Refusal::kernel(step, shown(id), source);
        match self.kernel.entry(folder, OsStr::new(MOUNT)).map_err(failed)? {
            Entry::Mount(_) | Entry::Folder => {
                self.kernel.detach(folder, OsStr::new(MOUNT), Detach::Normal).map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Where the node's own mount of a staged volume is.
    pub(crate) fn node_target(&self, record: &OnNode, folder: &Directory) -> Result<Target> {
        let parent = self.kernel.try_clone(folder).map_err(|source| failed(record, source))?;
        Ok(Target {
            parent,
            name: MOUNT.into(),
            pod_uid: None,
            spec_name: record.spec.name.clone(),
            staging_mount: None,
            private: Some(self.private(&record.volume_id, MOUNT)),
            sharers: None,
            needed: Vec::new(),
        })
    }

    /// The same as a place to bind; none for a volume that has none.
    pub(crate) fn node_place(&self, record: &OnNode) -> Result<Option<Place>> {
        let Some(staged) = record.staged.as_ref().filter(|_| record.stageable) else { return Ok(None) };
        let folder = self.staging_folder(&record.volume_id, staged)?;
        Ok(folder.map(|parent| Place { parent, name: MOUNT.into() }))
    }

    /// Refuses to take a volume from the node that is still published there.
    fn check_unpublished(&self, id: &str, record: &OnNode) -> Result<()> {
        for target in record.published.keys() {
            let place = self.co.place(&*self.kernel, "target_path", target)?;
            let found = place.map(|place| self.kernel.entry(&place.parent, &place.name)).transpose();
            if matches!(found.map_err(|source| failed(record, source))?, Some(Entry::Mount(_))) {
                return Err(Refusal::Precondition(format!(
                    "{} is still published at {}; unpublish it first",
                    crate::node::volume(id),
                    shown(target)
                )));
            }
        }
        Ok(())
    }
}

/// Where a volume is staged that a pod describes itself, below the folder of records.
fn own_folder(id: &str) -> PathBuf {
    Path::new(OWN_STAGING).join(name_of(id))
}

fn failed(record: &OnNode, source: volhost_kernel::KernelError) -> Refusal {
    Refusal::kernel("looking at", shown(&record.volume_id), source)
}

/// A volume is staged in one way at one place.
fn check_same(record: &OnNode, wanted: &Staged, id: &str) -> Result<()> {
    match &record.staged {
        Some(staged) if staged.path != wanted.path => {
            Err(Refusal::Conflict(format!("{} is staged at {} already", crate::node::volume(id), shown(&staged.path))))
        }
        Some(staged) if staged.usage != wanted.usage => Err(Refusal::Conflict(format!(
            "{} is staged with another capability; unstage it first",
            crate::node::volume(id)
        ))),
        _ => Ok(()),
    }
}
