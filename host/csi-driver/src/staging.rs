//! Stages a volume: attaches it, and stages it on the node as a mount or a device. And unstages it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use volhost_kernel::{BlockDevice, Detach, Directory, Entry, ErrorKind};
use volhost_model::VolumeSpec;
use volhost_runtime::{Attachment, Capability, Place};

use crate::check::{shown, volume};
use crate::driver::{OWN_STAGING, ServedPlugin};
use crate::in_flight::InFlightGuard;
use crate::node_publishing::ATTACHED_AS;
use crate::places::CoPaths;
use crate::records::{ServedVolume, StagedUse};
use crate::refusal::{Refusal, Result};
use crate::secrets::RequestSecrets;
use crate::source::{RequestedVolume, name_of};
use crate::usage::RequestedUsage;
use volhost_proto::csi::NodeStageVolumeRequest;
use volhost_volume_ops::places::StagingPlace;

/// The staging mount in the staging folder, which is the CO's own.
pub(crate) const MOUNT: &str = "mount";
/// The field of a PersistentVolume's source that refers to the secrets of this call.
const SECRETS: &str = "nodeStageSecretRef";
pub(crate) const STAGING_PATH: &str = "staging_target_path";
/// The mode of folders of the driver's own.
const FOLDER_MODE: u32 = 0o700;

impl ServedPlugin {
    /// Stages the volume. A volume that is staged already stays as it is.
    ///
    /// # Errors
    /// [`Refusal`]; unless it is final, something may be left, which the next call completes or an
    /// unstage undoes.
    pub(crate) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<()> {
        let (id, path) = (request.volume_id.as_str(), request.staging_target_path.as_str());
        let co = self.co();
        co.below(STAGING_PATH, path)?;
        let usage = RequestedUsage::read(request.volume_capability.as_ref())?;
        let secrets = RequestSecrets::read(&request.secrets)?;
        let _claim = self.in_flight.claim([volume(id)])?;
        self.check_usage(&usage)?;
        let folder = co.open(STAGING_PATH, path)?.ok_or_else(|| {
            Refusal::field(STAGING_PATH, format!("there is no folder {}; the CO makes it", shown(path)))
        })?;
        let asked =
            RequestedVolume { volume_id: id, context: &request.volume_context, usage: &usage, read_only: false };
        let spec = self.source.spec(&asked)?;
        let staged = StagedUse { path: path.to_owned(), usage: usage.for_any_group(), done: false };
        let publish_context = request.publish_context.clone().into_iter().collect();
        let find = || self.find(id, &secrets);
        let place = self.staging_in(id, &spec, folder);
        self.stage_in(id, &place, staged, &spec, publish_context, &secrets, find).map(drop)
    }

    /// Stages an inline volume of a pod in a folder of the driver's own: the CO only publishes it.
    /// It is unstaged with its last target.
    ///
    /// # Errors
    /// As [`ServedPlugin::stage`].
    pub(crate) fn stage_own(
        &self,
        id: &str,
        usage: &RequestedUsage,
        spec: &VolumeSpec,
        secrets: &RequestSecrets,
    ) -> Result<ServedVolume> {
        let path = own_folder(id);
        let folder = self.kernel.make_dirs(&self.state, &path, FOLDER_MODE);
        let folder = folder.map_err(|source| Refusal::kernel("staging", shown(id), source))?;
        let staged = StagedUse { path: String::new(), usage: usage.for_any_group(), done: false };
        let place = self.staging_in(id, spec, folder);
        self.stage_in(id, &place, staged, spec, BTreeMap::new(), secrets, || Ok(()))
    }

    /// Unstages an inline volume. Storage that another volume uses too stays attached.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unstage_own(&self, record: &ServedVolume) -> Result<()> {
        let id = record.volume_id.as_str();
        let failed = |source| Refusal::kernel("unstaging", shown(id), source);
        let _storage = self.claim_storage(record)?;
        if let Some(folder) = self.open_own(id)? {
            self.unstage_at(record, &self.staging_in(id, &record.spec, folder))?;
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
    fn claim_storage(&self, record: &ServedVolume) -> Result<Option<InFlightGuard>> {
        record.name.as_ref().map(|name| self.in_flight.claim([format!("storage {name}")])).transpose()
    }

    /// Returns whether another volume of the node is of the same storage, which it may show.
    fn is_shared(&self, record: &ServedVolume) -> Result<bool> {
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
    fn staging_folder(&self, co: &CoPaths<'_>, id: &str, staged: &StagedUse) -> Result<Option<Directory>> {
        if staged.is_own() { self.open_own(id) } else { co.open(STAGING_PATH, &staged.path) }
    }

    /// Returns where the volume of the record is staged; none if the folder does not exist.
    pub(crate) fn staging(
        &self,
        co: &CoPaths<'_>,
        record: &ServedVolume,
        staged: &StagedUse,
    ) -> Result<Option<StagingPlace>> {
        let folder = self.staging_folder(co, &record.volume_id, staged)?;
        Ok(folder.map(|folder| self.staging_in(&record.volume_id, &record.spec, folder)))
    }

    fn staging_in(&self, id: &str, spec: &VolumeSpec, folder: Directory) -> StagingPlace {
        StagingPlace { folder, name: MOUNT.into(), spec_name: spec.name.clone(), note: self.private(id, MOUNT) }
    }

    #[expect(clippy::too_many_arguments, reason = "what is staged, where, how, and with what; two callers")]
    fn stage_in(
        &self,
        id: &str,
        place: &StagingPlace,
        staged: StagedUse,
        spec: &VolumeSpec,
        publish_context: BTreeMap<String, String>,
        secrets: &RequestSecrets,
        find: impl FnOnce() -> Result<()>,
    ) -> Result<ServedVolume> {
        let mut record = match self.on_node.read(id)? {
            Some(record) => {
                check_same(&record, &staged, id)?;
                if record.staged.as_ref().is_some_and(|staged| staged.done) && self.is_staged(&record, place)? {
                    return Ok(record);
                }
                ServedVolume { staged: Some(staged), ..record }
            }
            None => {
                find()?;
                self.new_record(id, spec, &secrets.referred(&self.plugin, spec, SECRETS), Some(staged))?
            }
        };
        let _storage = self.claim_storage(&record)?;
        record.spec = spec.clone();
        // Before the first step: without a record, nothing would undo it after a crash.
        self.on_node.write(record.clone())?;
        match self.stage_at(&mut record, publish_context, place, secrets) {
            Ok(()) => {
                if let Some(staged) = &mut record.staged {
                    staged.done = true;
                }
                self.on_node.write(record.clone())?;
                Ok(record)
            }
            Err(refusal) if refusal.is_final() => {
                // The CO forgets the volume now, and asks for no unstage.
                match self.unstage_at(&record, place) {
                    Ok(()) => self.on_node.remove(id)?,
                    Err(error) => warn!(volume = id, %error, "a failed stage could not be undone"),
                }
                Err(refusal)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Unstages the volume. A volume that is not staged stays so.
    ///
    /// # Errors
    /// [`Refusal`]; repeat it.
    pub(crate) fn unstage(&self, id: &str, path: &str) -> Result<()> {
        let co = self.co();
        co.below(STAGING_PATH, path)?;
        let _claim = self.in_flight.claim([volume(id)])?;
        let record = self.on_node.read(id)?;
        if let Some(record) = &record {
            if let Some(staged) = record.staged.as_ref().filter(|staged| staged.path != path) {
                let why = format!("it is staged at {}", shown(&staged.path));
                return Err(Refusal::Precondition(format!("{}: {why}", volume(id))));
            }
            self.check_unpublished(&co, id, record)?;
        }
        let folder = co.open(STAGING_PATH, path)?;
        let record = match record {
            Some(record) => record,
            None => match self.guessed_record(id) {
                Some(record) => record,
                // The plugin does not know the volume; a mount at its place is unmounted all the
                // same.
                None => {
                    let unmount = |folder: Directory| self.clear_mount(id, &folder, OsStr::new(MOUNT));
                    return folder.map_or(Ok(()), unmount);
                }
            },
        };
        let _storage = self.claim_storage(&record)?;
        match folder {
            Some(folder) => self.unstage_at(&record, &self.staging_in(id, &record.spec, folder))?,
            None if self.is_shared(&record)? => {}
            None => self.detach(&record)?,
        }
        self.on_node.remove(id)
    }

    /// Asks the plugin what a volume is, of which nothing exists on the node yet. `referred` is the
    /// volume with a reference to the request's secrets, which the record does not keep.
    pub(crate) fn new_record(
        &self,
        id: &str,
        spec: &VolumeSpec,
        referred: &Arc<VolumeSpec>,
        staged: Option<StagedUse>,
    ) -> Result<ServedVolume> {
        let identified = self.did("naming", id, self.plugin.identify(&self.call(id), referred))?;
        if !identified.needs.is_empty() {
            let why = "it is made of other volumes of its pod, and a CO does not name those to a CSI driver";
            return Err(Refusal::field("volume_context", why));
        }
        if spec.selinux_label.is_some() && !identified.selinux_mount {
            let why = "`mount_flags`: the plugin mounts this volume without an SELinux label; leave `context` out";
            return Err(Refusal::field("volume_capability", why));
        }
        let exports = |capability| self.can(capability);
        Ok(ServedVolume {
            volume_id: id.to_owned(),
            attachable: exports(Capability::Attacher) && identified.attachable.unwrap_or(true),
            stageable: exports(Capability::Stager) && identified.stageable.unwrap_or(true),
            name: identified.name,
            spec: spec.clone(),
            attached_as: None,
            by_controller: false,
            staged,
            published: BTreeMap::new(),
        })
    }

    /// Makes a record from what the plugin knows of a volume by its handle alone.
    fn guessed_record(&self, id: &str) -> Option<ServedVolume> {
        let unknown = ServedVolume::unknown(id, &self.source).ok()?;
        self.new_record(id, &unknown.spec, &Arc::new(unknown.spec.clone()), None).ok()
    }

    /// Refuses a use that the plugin cannot serve.
    pub(crate) fn check_usage(&self, usage: &RequestedUsage) -> Result<()> {
        if usage.block && !self.can(Capability::BlockMapper) {
            let why = "the plugin does not hand volumes over as devices; ask for `mount`";
            return Err(Refusal::field("volume_capability", why));
        }
        if usage.mount_group.is_some() && !self.plugin.info().gives_to_group {
            let why = "`volume_mount_group`: the plugin does not give files to a group; the CO does that itself";
            return Err(Refusal::field("volume_capability", why));
        }
        if usage.selinux_label.is_some() && !self.plugin.info().selinux_mount {
            let why = "`mount_flags`: the plugin mounts without an SELinux label; leave `context` out";
            return Err(Refusal::field("volume_capability", why));
        }
        if !usage.mount_flags.is_empty() && !self.plugin.info().accepts_mount_options {
            return Err(Refusal::field("volume_capability", "`mount_flags`: the plugin takes no mount options"));
        }
        Ok(())
    }

    /// Returns whether the volume is attached and staged as its record says.
    fn is_staged(&self, record: &ServedVolume, place: &StagingPlace) -> Result<bool> {
        let call = self.call(&record.volume_id);
        let name = record.name.as_ref().filter(|_| record.attachable);
        if name.is_some_and(|name| self.steps(&call).is_attached(name) == Some(false)) {
            return Ok(false);
        }
        if !record.stageable || record.spec.is_block() {
            return Ok(true);
        }
        let is_mounted = place.is_mounted(&*self.kernel).map_err(|source| failed(record, source))?;
        Ok(is_mounted && !self.take_dead_away(&place.folder, &place.name)?)
    }

    fn stage_at(
        &self,
        record: &mut ServedVolume,
        publish_context: BTreeMap<String, String>,
        place: &StagingPlace,
        secrets: &RequestSecrets,
    ) -> Result<()> {
        let id = record.volume_id.clone();
        let spec = secrets.referred(&self.plugin, &record.spec, SECRETS);
        let call = self.call_with(&id, secrets);
        let steps = self.steps(&call);
        if let Some(attached_as) = publish_context.get(ATTACHED_AS).filter(|_| record.attachable) {
            record.attached_as = Some(attached_as.clone());
            record.by_controller = true;
            self.on_node.write(record.clone())?;
        } else if record.attachable {
            let attached = steps.attach(&spec, record.name.as_deref());
            record.attached_as = Some(self.stepped("attaching", &id, attached)?);
            self.on_node.write(record.clone())?;
        }
        let attached = self.attachment(record, publish_context)?;
        if spec.is_block() {
            self.did("staging the device of", &id, steps.stage_device(&spec, attached.as_ref()))?;
        } else if record.stageable {
            self.stepped("staging", &id, steps.stage(&spec, attached.as_ref(), place))?;
        }
        Ok(())
    }

    /// Returns what is known of the attached volume, its device found; none for a volume that is
    /// not attached.
    pub(crate) fn attachment(
        &self,
        record: &ServedVolume,
        metadata: BTreeMap<String, String>,
    ) -> Result<Option<Attachment>> {
        let Some(attached_as) = record.attached_as.clone().filter(|_| record.attachable) else { return Ok(None) };
        let spec = Arc::new(record.spec.clone());
        let call = self.call(&record.volume_id);
        let attached = self.steps(&call).wait_for_attach(&spec, attached_as, metadata);
        self.did("finding the device of", &record.volume_id, attached).map(Some)
    }

    /// Returns the device of a staged volume; none if each pod has a device of its own.
    pub(crate) fn device(&self, record: &ServedVolume) -> Result<Option<Arc<BlockDevice>>> {
        let attached = self.attachment(record, BTreeMap::new())?;
        let spec = Arc::new(record.spec.clone());
        let call = self.call(&record.volume_id);
        let device = self.steps(&call).stage_device(&spec, attached.as_ref());
        self.did("staging the device of", &record.volume_id, device)
    }

    /// Undoes everything that staging may have done. If another volume is of the same storage, only
    /// unmounts: the device and the attachment are the other's too.
    ///
    /// # Assumptions
    /// The caller has the claim of the storage.
    fn unstage_at(&self, record: &ServedVolume, place: &StagingPlace) -> Result<()> {
        let id = record.volume_id.as_str();
        let remove_note = || place.note.remove(&*self.kernel).map_err(|source| failed(record, source));
        if self.is_shared(record)? {
            self.clear_mount(id, &place.folder, &place.name)?;
            return remove_note();
        }
        let call = self.call(id);
        let steps = self.steps(&call);
        match &record.name {
            Some(name) if record.stageable => {
                self.stepped("unstaging", id, steps.unstage(name, place))?;
                remove_note()?;
            }
            _ => self.clear_mount(id, &place.folder, &place.name)?,
        }
        if let Some(name) = &record.name {
            self.stepped("unstaging the device of", id, steps.unstage_device(name))?;
        }
        self.detach(record)
    }

    fn detach(&self, record: &ServedVolume) -> Result<()> {
        match record.name.as_ref().filter(|_| record.attachable && !record.by_controller) {
            Some(name) => {
                let call = self.call(&record.volume_id);
                self.stepped("detaching", &record.volume_id, self.steps(&call).detach(name))
            }
            None => Ok(()),
        }
    }

    /// Unmounts without asking the plugin: the host made every mount at that place.
    fn clear_mount(&self, id: &str, folder: &Directory, name: &OsStr) -> Result<()> {
        let failed = |source| Refusal::kernel("unstaging", shown(id), source);
        match self.kernel.entry(folder, name).map_err(failed)? {
            Entry::Mount(_) | Entry::Folder => self.kernel.detach(folder, name, Detach::Normal).map_err(failed),
            _ => Ok(()),
        }
    }

    /// Returns the staging mount of a staged volume; none for a volume that has none.
    pub(crate) fn node_place(&self, co: &CoPaths<'_>, record: &ServedVolume) -> Result<Option<Place>> {
        let Some(staged) = record.staged.as_ref().filter(|_| record.stageable) else { return Ok(None) };
        let folder = self.staging_folder(co, &record.volume_id, staged)?;
        Ok(folder.map(|parent| Place { parent, name: MOUNT.into() }))
    }

    /// Refuses to unstage a volume that is still published.
    fn check_unpublished(&self, co: &CoPaths<'_>, id: &str, record: &ServedVolume) -> Result<()> {
        for target in record.published.keys() {
            let place = co.place("target_path", target)?;
            let found = place.map(|place| self.kernel.entry(&place.parent, &place.name)).transpose();
            if matches!(found.map_err(|source| failed(record, source))?, Some(Entry::Mount(_))) {
                return Err(Refusal::Precondition(format!(
                    "{} is still published at {}; unpublish it first",
                    volume(id),
                    shown(target)
                )));
            }
        }
        Ok(())
    }
}

/// Returns where an inline volume is staged, below the folder of records.
fn own_folder(id: &str) -> PathBuf {
    Path::new(OWN_STAGING).join(name_of(id))
}

fn failed(record: &ServedVolume, source: volhost_kernel::KernelError) -> Refusal {
    Refusal::kernel("looking at", shown(&record.volume_id), source)
}

/// A volume is staged in one way at one place.
fn check_same(record: &ServedVolume, wanted: &StagedUse, id: &str) -> Result<()> {
    match &record.staged {
        Some(staged) if staged.path != wanted.path => {
            Err(Refusal::Conflict(format!("{} is staged at {} already", volume(id), shown(&staged.path))))
        }
        Some(staged) if staged.usage != wanted.usage => {
            Err(Refusal::Conflict(format!("{} is staged with another capability; unstage it first", volume(id))))
        }
        _ => Ok(()),
    }
}
