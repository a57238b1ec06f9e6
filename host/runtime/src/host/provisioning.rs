//! `provisioning`: what a plugin is asked to make, and the forms in which it answers.

use wasmtime::component::Resource;

use super::{SnapshotPage, SnapshotRequest, State, VolumeAnswer, VolumePage, VolumeRequest};
use crate::abort::Abort;
use crate::bindings::volhost::plugin::provisioning::{
    Host, HostSnapshotPage, HostSnapshotRequest, HostVolumeAnswer, HostVolumePage, HostVolumeRequest,
};
use crate::provision::{MadeSnapshot, MadeVolume, WantedSnapshot, WantedVolume};

/// The most entries of a page.
const MAX_ENTRIES: usize = 10_000;
/// The most fields that a volume's mounting can need.
const MAX_ATTRIBUTES: usize = 64;

impl Host for State {}

impl State {
    fn wanted(&mut self, request: &Resource<VolumeRequest>) -> wasmtime::Result<&WantedVolume> {
        self.count()?;
        Ok(&self.table.get(request)?.0)
    }

    fn wanted_snapshot(&mut self, request: &Resource<SnapshotRequest>) -> wasmtime::Result<&WantedSnapshot> {
        self.count()?;
        Ok(&self.table.get(request)?.0)
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

    fn drop(&mut self, request: Resource<SnapshotRequest>) -> wasmtime::Result<()> {
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
        page.entries.push(MadeSnapshot { id, volume_id, bytes, made });
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
