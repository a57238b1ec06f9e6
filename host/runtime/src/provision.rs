//! The calls that make and list volumes and snapshots. Each is [`CallError::Lacks`] when the plugin
//! does not export it.

use std::collections::{BTreeMap, BTreeSet};

use wasmtime::component::Resource;

use crate::call::Call;
use crate::call_error::{CallError, Function, PluginError};
use crate::handles::{GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest};
use crate::plugin::{Plugin, put};
use crate::provisioned::{MadeGroup, MadeSnapshot, MadeVolume, Page, WantedGroup, WantedSnapshot, WantedVolume};

/// The longest handle of a volume or snapshot, and the longest token, in bytes: CSI's limit for a
/// text.
const ID_BYTES: usize = 128;

/// The functions of an optional interface, or that it is lacking.
macro_rules! guest {
    ($self:ident, $sandbox:ident, $function:expr, $field:ident, $interface:literal) => {{
        let lacks = CallError::Lacks { function: $function, interface: $interface };
        let indices = $self.exports.$field.as_ref().ok_or(lacks)?;
        $sandbox.load(|store, instance| indices.load(store, instance))?
    }};
}

impl Plugin {
    /// Makes a volume. One of the name that fits: the same answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn create_volume(&self, call: &Call, wanted: &WantedVolume) -> Result<MadeVolume, CallError> {
        const FUNCTION: Function = Function::CreateVolume;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let request = put(&mut sandbox, FUNCTION, VolumeRequest(wanted.clone()))?;
        let form = put(&mut sandbox, FUNCTION, VolumeAnswer::default())?;
        let (answer, mut state) = sandbox.call(|store| {
            guest.call_create(store, Resource::new_borrow(request.rep()), Resource::new_borrow(form.rep()))
        })?;
        answer.map_err(PluginError::from)?;
        let mut made = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        made.reachable_from = std::mem::take(&mut state.reachable_from);
        check_made(FUNCTION, made, state.changed)
    }

    /// Deletes a volume with its data. None there: done.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn delete_volume(&self, call: &Call, volume_id: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::DeleteVolume;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let (answer, _) = sandbox.call(|store| guest.call_delete(store, volume_id))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Returns what a volume is.
    ///
    /// # Errors
    /// [`CallError`]; `not-found` when there is none.
    pub fn find_volume(&self, call: &Call, volume_id: &str) -> Result<MadeVolume, CallError> {
        const FUNCTION: Function = Function::FindVolume;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let form = put(&mut sandbox, FUNCTION, VolumeAnswer::default())?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_find(store, volume_id, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        let mut found = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        if found.id.is_empty() {
            found.id = volume_id.to_owned();
        }
        check_made(FUNCTION, found, state.changed)
    }

    /// Gives a volume at least `to` bytes; the size it has then.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn expand_volume(&self, call: &Call, volume_id: &str, to: u64, limit: Option<u64>) -> Result<u64, CallError> {
        const FUNCTION: Function = Function::ExpandVolume;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let (answer, _) = sandbox.call(|store| guest.call_expand(store, volume_id, to, limit))?;
        let size = answer.map_err(PluginError::from)?;
        if size < to {
            let found = format!("the size it reports, {size} bytes, is less than the {to} bytes asked for");
            return Err(CallError::Lied { function: FUNCTION, found });
        }
        Ok(size)
    }

    /// A page of the volumes that there are, at most `most`, from the one that `start` is the token
    /// of.
    ///
    /// # Errors
    /// [`CallError`]; `invalid-argument` for a token that was never given.
    pub fn list_volumes(&self, call: &Call, start: &str, most: u32) -> Result<Page<MadeVolume>, CallError> {
        const FUNCTION: Function = Function::ListVolumes;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let form = put(&mut sandbox, FUNCTION, VolumePage::default())?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_list_volumes(store, start, most, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        let ids = page.entries.iter().map(|volume| volume.id.as_str());
        check_page(FUNCTION, ids, &page.next, most)?;
        Ok(page)
    }

    /// Returns how many bytes a volume can have now that is like what is asked; none when the
    /// plugin does not know.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn free_space(&self, call: &Call, wanted: &WantedVolume) -> Result<Option<u64>, CallError> {
        const FUNCTION: Function = Function::FreeSpace;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, controller, "controller");
        let request = put(&mut sandbox, FUNCTION, VolumeRequest(wanted.clone()))?;
        let (answer, _) = sandbox.call(|store| guest.call_free_space(store, Resource::new_borrow(request.rep())))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Makes a snapshot. One of the name, of the same volume: the same answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn create_snapshot(&self, call: &Call, wanted: &WantedSnapshot) -> Result<MadeSnapshot, CallError> {
        const FUNCTION: Function = Function::CreateSnapshot;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, snapshotter, "snapshotter");
        let request = put(&mut sandbox, FUNCTION, SnapshotRequest(wanted.clone()))?;
        let form = put(&mut sandbox, FUNCTION, SnapshotPage::default())?;
        let (answer, mut state) = sandbox.call(|store| {
            guest.call_create_snapshot(store, Resource::new_borrow(request.rep()), Resource::new_borrow(form.rep()))
        })?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        only(FUNCTION, page, state.changed)
    }

    /// Deletes a snapshot. None there: done.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn delete_snapshot(&self, call: &Call, snapshot_id: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::DeleteSnapshot;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, snapshotter, "snapshotter");
        let (answer, _) = sandbox.call(|store| guest.call_delete_snapshot(store, snapshot_id))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Returns what a snapshot is.
    ///
    /// # Errors
    /// [`CallError`]; `not-found` when there is none.
    pub fn find_snapshot(&self, call: &Call, snapshot_id: &str) -> Result<MadeSnapshot, CallError> {
        const FUNCTION: Function = Function::FindSnapshot;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, snapshotter, "snapshotter");
        let form = put(&mut sandbox, FUNCTION, SnapshotPage::default())?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_find_snapshot(store, snapshot_id, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        only(FUNCTION, page, state.changed)
    }

    /// A page of the snapshots of this volume, or of all.
    ///
    /// # Errors
    /// As [`Plugin::list_volumes`].
    pub fn list_snapshots(
        &self,
        call: &Call,
        volume_id: Option<&str>,
        start: &str,
        most: u32,
    ) -> Result<Page<MadeSnapshot>, CallError> {
        const FUNCTION: Function = Function::ListSnapshots;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, snapshotter, "snapshotter");
        let form = put(&mut sandbox, FUNCTION, SnapshotPage::default())?;
        let (answer, mut state) = sandbox
            .call(|store| guest.call_list_snapshots(store, volume_id, start, most, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        let ids = page.entries.iter().flat_map(|snapshot| [snapshot.id.as_str(), snapshot.volume_id.as_str()]);
        check_page(FUNCTION, ids, &page.next, most)?;
        page.entries.iter().try_for_each(|snapshot| check_group(FUNCTION, snapshot, false))?;
        Ok(page)
    }

    /// Gives a volume these mutable parameters, all or none, and leaves the others as they are.
    ///
    /// # Errors
    /// [`CallError`]; `invalid-argument` for one that it cannot have.
    pub fn modify_volume(
        &self,
        call: &Call,
        volume_id: &str,
        mutable_parameters: &BTreeMap<String, String>,
    ) -> Result<(), CallError> {
        const FUNCTION: Function = Function::ModifyVolume;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, modifier, "modifier");
        let wanted = WantedVolume { mutable_parameters: mutable_parameters.clone(), ..WantedVolume::default() };
        let request = put(&mut sandbox, FUNCTION, VolumeRequest(wanted))?;
        let (answer, _) =
            sandbox.call(|store| guest.call_modify(store, volume_id, Resource::new_borrow(request.rep())))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// Makes snapshots of several volumes, of one moment. A group of the name, of the same volumes:
    /// the same answer.
    ///
    /// # Errors
    /// [`CallError`]; it broke the contract if the answer is not one snapshot for each of the volumes.
    pub fn create_group(&self, call: &Call, wanted: &WantedGroup) -> Result<MadeGroup, CallError> {
        const FUNCTION: Function = Function::CreateGroup;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, group_snapshotter, "group-snapshotter");
        let request = put(&mut sandbox, FUNCTION, GroupRequest(wanted.clone()))?;
        let form = put(&mut sandbox, FUNCTION, SnapshotPage::default())?;
        let (answer, mut state) = sandbox.call(|store| {
            guest.call_create_group(store, Resource::new_borrow(request.rep()), Resource::new_borrow(form.rep()))
        })?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        let made = group_of(FUNCTION, page, state.changed)?;
        let of: BTreeSet<&str> = made.snapshots.iter().map(|snapshot| snapshot.volume_id.as_str()).collect();
        if of.len() != made.snapshots.len() || !of.into_iter().eq(wanted.volume_ids.iter().map(String::as_str)) {
            let what = "it did not answer with one snapshot for each volume of the group".to_owned();
            return Err(broke(FUNCTION, what, state.changed));
        }
        Ok(made)
    }

    /// Deletes a group of snapshots, all of them. None there: done.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn delete_group(&self, call: &Call, group_id: &str) -> Result<(), CallError> {
        const FUNCTION: Function = Function::DeleteGroup;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, group_snapshotter, "group-snapshotter");
        let (answer, _) = sandbox.call(|store| guest.call_delete_group(store, group_id))?;
        Ok(answer.map_err(PluginError::from)?)
    }

    /// The snapshots of a group.
    ///
    /// # Errors
    /// [`CallError`]; `not-found` when there is none that is whole.
    pub fn find_group(&self, call: &Call, group_id: &str) -> Result<MadeGroup, CallError> {
        const FUNCTION: Function = Function::FindGroup;
        let mut sandbox = self.sandbox(FUNCTION, call)?;
        let guest = guest!(self, sandbox, FUNCTION, group_snapshotter, "group-snapshotter");
        let form = put(&mut sandbox, FUNCTION, SnapshotPage::default())?;
        let (answer, mut state) =
            sandbox.call(|store| guest.call_find_group(store, group_id, Resource::new_borrow(form.rep())))?;
        answer.map_err(PluginError::from)?;
        let page = state.table.get_mut(&form).map(|form| std::mem::take(&mut form.0)).unwrap_or_default();
        let found = group_of(FUNCTION, page, state.changed)?;
        if found.id != group_id {
            return Err(broke(FUNCTION, "it answered with another group".to_owned(), state.changed));
        }
        Ok(found)
    }
}

fn broke(function: Function, what: String, changed: bool) -> CallError {
    CallError::BrokeContract { function, what, changed }
}

fn check_id(function: Function, id: &str, changed: bool) -> Result<(), CallError> {
    if id.is_empty() || id.len() > ID_BYTES || id.chars().any(char::is_control) {
        let what =
            format!("it answered a handle or token of {} bytes that is not 1 to {ID_BYTES} bytes of text", id.len());
        return Err(broke(function, what, changed));
    }
    Ok(())
}

fn check_made(function: Function, made: MadeVolume, changed: bool) -> Result<MadeVolume, CallError> {
    check_id(function, &made.id, changed)?;
    Ok(made)
}

fn check_page<'a>(
    function: Function,
    mut ids: impl Iterator<Item = &'a str>,
    next: &'a Option<String>,
    most: u32,
) -> Result<(), CallError> {
    let mut count = 0_u64;
    ids.try_for_each(|id| {
        count += 1;
        check_id(function, id, false)
    })?;
    // A snapshot has two handles.
    if count > u64::from(most) * 2 {
        return Err(broke(function, format!("it put {count} entries on a page of {most}"), false));
    }
    next.as_deref().map_or(Ok(()), |next| check_id(function, next, false))
}

fn check_group(function: Function, snapshot: &MadeSnapshot, changed: bool) -> Result<(), CallError> {
    snapshot.group.as_deref().map_or(Ok(()), |group| check_id(function, group, changed))
}

/// The snapshots of a page, which are all of one group.
fn group_of(function: Function, page: Page<MadeSnapshot>, changed: bool) -> Result<MadeGroup, CallError> {
    let snapshots = page.entries;
    for snapshot in &snapshots {
        check_id(function, &snapshot.id, changed)?;
        check_id(function, &snapshot.volume_id, changed)?;
        check_group(function, snapshot, changed)?;
    }
    match snapshots.first().and_then(|first| first.group.clone()) {
        Some(id) if snapshots.iter().all(|snapshot| snapshot.group.as_deref() == Some(id.as_str())) => {
            Ok(MadeGroup { id, snapshots })
        }
        _ => Err(broke(function, "it did not answer with the snapshots of one group".to_owned(), changed)),
    }
}

/// The one snapshot of a page.
fn only(function: Function, page: Page<MadeSnapshot>, changed: bool) -> Result<MadeSnapshot, CallError> {
    let mut entries = page.entries.into_iter();
    match (entries.next(), entries.next()) {
        (Some(one), None) => {
            check_id(function, &one.id, changed)?;
            check_id(function, &one.volume_id, changed)?;
            check_group(function, &one, changed)?;
            Ok(one)
        }
        _ => Err(broke(function, "it did not answer with one snapshot".to_owned(), changed)),
    }
}
