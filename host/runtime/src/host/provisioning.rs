//! `provisioning`: what a plugin is asked to make, and the forms in which it answers.

use wasmtime::component::Resource;

use super::State;
use crate::abort::Abort;
use crate::bindings::volhost::plugin::provisioning::{
    Host, HostGroupRequest, HostSnapshotPage, HostSnapshotRequest, HostVolumeAnswer, HostVolumePage, HostVolumeRequest,
};
use crate::handles::{GroupRequest, SnapshotPage, SnapshotRequest, VolumeAnswer, VolumePage, VolumeRequest};
use crate::provisioned::{MadeSnapshot, MadeVolume, WantedGroup, WantedSnapshot, WantedVolume};

/// The most entries of a page.
const MAX_ENTRIES: usize = 10_000;
/// The most fields that a volume's mounting can need.
const MAX_ATTRIBUTES: usize = 64;
/// What the log calls the secrets that came with a call: it does not know whose they are.
const CALL: &str = "(of the call)";

impl Host for State {
    fn call_secret(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        self.handed(&key)
    }

    fn call_secrets(&mut self) -> wasmtime::Result<Vec<String>> {
        self.handed_keys()
    }
}

impl State {
    fn wanted(&mut self, request: &Resource<VolumeRequest>) -> wasmtime::Result<&WantedVolume> {
        self.count()?;
        Ok(&self.table.get(request)?.0)
    }

    fn wanted_snapshot(&mut self, request: &Resource<SnapshotRequest>) -> wasmtime::Result<&WantedSnapshot> {
        self.count()?;
        Ok(&self.table.get(request)?.0)
    }

    fn wanted_group(&mut self, request: &Resource<GroupRequest>) -> wasmtime::Result<&WantedGroup> {
        self.count()?;
        Ok(&self.table.get(request)?.0)
    }

    /// A secret that came with the call. The log says that it was used, never its value (rule R10).
    fn handed(&mut self, key: &str) -> wasmtime::Result<Option<String>> {
        self.count()?;
        let Some(bytes) = self.call.secrets().get(key).cloned() else { return Ok(None) };
        self.secrets.use_value(&bytes);
        let text = String::from_utf8(bytes.to_vec())
            .map_err(|_| Abort::contract("a secret of the call that is no text was asked for as one".to_owned()))?;
        *self.secrets_used.entry(CALL.to_owned()).or_default() += 1;
        Ok(Some(text))
    }

    fn handed_keys(&mut self) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(self.call.secrets().keys().cloned().collect())
    }

    fn made(&mut self, form: &Resource<VolumeAnswer>) -> wasmtime::Result<&mut MadeVolume> {
        self.count()?;
        Ok(&mut self.table.get_mut(form)?.0)
    }
}

fn room(entries: usize) -> Result<(), Abort> {
    if entries < MAX_ENTRIES {
        return Ok(());
    }
    Err(Abort::contract(format!("it put more than {MAX_ENTRIES} entries on a page")))
}

impl HostVolumeRequest for State {
    fn name(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<String> {
        Ok(self.wanted(&request)?.name.clone())
    }

    fn required_bytes(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Option<u64>> {
        Ok(self.wanted(&request)?.required_bytes)
    }

    fn limit_bytes(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Option<u64>> {
        Ok(self.wanted(&request)?.limit_bytes)
    }

    fn parameter(&mut self, request: Resource<VolumeRequest>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted(&request)?.parameters.get(&key).cloned())
    }

    fn parameters(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted(&request)?.parameters.keys().cloned().collect())
    }

    fn fs_type(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted(&request)?.fs_type.clone())
    }

    fn as_device(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<bool> {
        Ok(self.wanted(&request)?.as_device)
    }

    fn access_modes(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted(&request)?.access_modes.clone())
    }

    fn source_volume(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted(&request)?.source_volume.clone())
    }

    fn source_snapshot(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted(&request)?.source_snapshot.clone())
    }

    fn secret(&mut self, _request: Resource<VolumeRequest>, key: String) -> wasmtime::Result<Option<String>> {
        self.handed(&key)
    }

    fn secrets(&mut self, _request: Resource<VolumeRequest>) -> wasmtime::Result<Vec<String>> {
        self.handed_keys()
    }

    fn mutable_parameter(&mut self, request: Resource<VolumeRequest>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted(&request)?.mutable_parameters.get(&key).cloned())
    }

    fn mutable_parameters(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted(&request)?.mutable_parameters.keys().cloned().collect())
    }

    fn drop(&mut self, request: Resource<VolumeRequest>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

impl HostVolumeAnswer for State {
    fn id(&mut self, form: Resource<VolumeAnswer>, id: String) -> wasmtime::Result<()> {
        self.made(&form)?.id = id;
        Ok(())
    }

    fn capacity(&mut self, form: Resource<VolumeAnswer>, bytes: u64) -> wasmtime::Result<()> {
        self.made(&form)?.capacity = bytes;
        Ok(())
    }

    fn attribute(&mut self, form: Resource<VolumeAnswer>, key: String, value: String) -> wasmtime::Result<()> {
        let attributes = &mut self.made(&form)?.attributes;
        if attributes.len() >= MAX_ATTRIBUTES {
            return Err(Abort::contract(format!("it answered more than {MAX_ATTRIBUTES} attributes")).into());
        }
        attributes.insert(key, value);
        Ok(())
    }

    fn drop(&mut self, form: Resource<VolumeAnswer>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}

impl HostVolumePage for State {
    fn add(&mut self, form: Resource<VolumePage>, id: String, capacity: u64) -> wasmtime::Result<()> {
        self.count()?;
        let page = &mut self.table.get_mut(&form)?.0;
        room(page.entries.len())?;
        page.entries.push(MadeVolume { id, capacity, ..MadeVolume::default() });
        Ok(())
    }

    fn next(&mut self, form: Resource<VolumePage>, token: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.0.next = Some(token);
        Ok(())
    }

    fn drop(&mut self, form: Resource<VolumePage>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}

impl HostSnapshotRequest for State {
    fn name(&mut self, request: Resource<SnapshotRequest>) -> wasmtime::Result<String> {
        Ok(self.wanted_snapshot(&request)?.name.clone())
    }

    fn volume_id(&mut self, request: Resource<SnapshotRequest>) -> wasmtime::Result<String> {
        Ok(self.wanted_snapshot(&request)?.volume_id.clone())
    }

    fn parameter(&mut self, request: Resource<SnapshotRequest>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted_snapshot(&request)?.parameters.get(&key).cloned())
    }

    fn parameters(&mut self, request: Resource<SnapshotRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted_snapshot(&request)?.parameters.keys().cloned().collect())
    }

    fn secret(&mut self, _request: Resource<SnapshotRequest>, key: String) -> wasmtime::Result<Option<String>> {
        self.handed(&key)
    }

    fn secrets(&mut self, _request: Resource<SnapshotRequest>) -> wasmtime::Result<Vec<String>> {
        self.handed_keys()
    }

    fn drop(&mut self, request: Resource<SnapshotRequest>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

impl HostGroupRequest for State {
    fn name(&mut self, request: Resource<GroupRequest>) -> wasmtime::Result<String> {
        Ok(self.wanted_group(&request)?.name.clone())
    }

    fn volume_ids(&mut self, request: Resource<GroupRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted_group(&request)?.volume_ids.iter().cloned().collect())
    }

    fn parameter(&mut self, request: Resource<GroupRequest>, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.wanted_group(&request)?.parameters.get(&key).cloned())
    }

    fn parameters(&mut self, request: Resource<GroupRequest>) -> wasmtime::Result<Vec<String>> {
        Ok(self.wanted_group(&request)?.parameters.keys().cloned().collect())
    }

    fn secret(&mut self, _request: Resource<GroupRequest>, key: String) -> wasmtime::Result<Option<String>> {
        self.handed(&key)
    }

    fn secrets(&mut self, _request: Resource<GroupRequest>) -> wasmtime::Result<Vec<String>> {
        self.handed_keys()
    }

    fn drop(&mut self, request: Resource<GroupRequest>) -> wasmtime::Result<()> {
        self.table.delete(request)?;
        Ok(())
    }
}

impl HostSnapshotPage for State {
    fn add(
        &mut self,
        form: Resource<SnapshotPage>,
        id: String,
        volume_id: String,
        bytes: u64,
        made: u64,
    ) -> wasmtime::Result<()> {
        self.count()?;
        let page = &mut self.table.get_mut(&form)?.0;
        room(page.entries.len())?;
        page.entries.push(MadeSnapshot { id, volume_id, bytes, made, group: None });
        Ok(())
    }

    fn of_group(&mut self, form: Resource<SnapshotPage>, group_id: String) -> wasmtime::Result<()> {
        self.count()?;
        match self.table.get_mut(&form)?.0.entries.last_mut() {
            Some(last) => last.group = Some(group_id),
            None => {
                return Err(Abort::contract("it named the group of a snapshot before it added one".to_owned()).into());
            }
        }
        Ok(())
    }

    fn next(&mut self, form: Resource<SnapshotPage>, token: String) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&form)?.0.next = Some(token);
        Ok(())
    }

    fn drop(&mut self, form: Resource<SnapshotPage>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}
