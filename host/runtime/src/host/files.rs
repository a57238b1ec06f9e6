//! `files`: small files in a volume. Contents that the host keeps go from the object to the file and never into the sandbox.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use volhost_kernel::{Payload as KernelPayload, PayloadFile};
use wasmtime::component::Resource;

use super::{Content, HostError, MountTarget, Payload, State};
use crate::bindings::volhost::plugin::files::{Host, HostContent, HostPayload};
use crate::bindings::volhost::plugin::types;
use crate::text::tame;

/// Permission bits: what a file of a payload can have.
const FILE_MODES: u32 = 0o777;
/// Permission bits and setgid: what a folder of a payload can have.
const FOLDER_MODES: u32 = 0o2777;
/// The folders' mode while the plugin says no other.
const FOLDER_MODE: u32 = 0o755;
/// How much of a path a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

fn invalid(text: String) -> HostError {
    HostError::Plugin(types::Error::InvalidArgument(text))
}

impl Payload {
    /// Takes a file in, in place of one of the same path, within the limits.
    fn put(&mut self, path: String, bytes: &[u8], mode: u32, most: (usize, usize)) -> Result<(), HostError> {
        let (most_bytes, most_files) = most;
        if mode & !FILE_MODES != 0 {
            return Err(invalid(format!("file {}: {mode:o} is no mode of a file", tame(&path, SHOWN_BYTES))));
        }
        let before = self.files.get(&path).map_or(0, |file| file.bytes.len());
        let grown = self.bytes.saturating_sub(before).saturating_add(bytes.len());
        if grown > most_bytes {
            return Err(invalid(format!(
                "file {}: the volume's files are more than {} MiB together",
                tame(&path, SHOWN_BYTES),
                most_bytes >> 20
            )));
        }
        let count = self.files.len();
        match self.files.entry(path) {
            Entry::Vacant(_) if count >= most_files => {
                return Err(invalid(format!("the volume has more than {most_files} files")));
            }
            Entry::Vacant(place) => {
                let file = PayloadFile::new(place.key(), bytes, mode);
                place.insert(file);
            }
            Entry::Occupied(mut place) => {
                let file = PayloadFile::new(place.key(), bytes, mode);
                place.insert(file);
            }
        }
        self.bytes = grown;
        Ok(())
    }

    fn for_kernel(&self) -> KernelPayload {
        KernelPayload {
            files: self.files.values().cloned().collect(),
            owner: self.owner,
            group: self.group,
            folder_mode: self.folder_mode,
        }
    }
}

impl Host for State {}

impl HostContent for State {
    fn size(&mut self, content: Resource<Content>) -> wasmtime::Result<u64> {
        self.count()?;
        Ok(u64::try_from(self.table.get(&content)?.0.len()).unwrap_or(u64::MAX))
    }

    fn drop(&mut self, content: Resource<Content>) -> wasmtime::Result<()> {
        self.table.delete(content)?;
        Ok(())
    }
}

impl HostPayload for State {
    fn new(&mut self) -> wasmtime::Result<Resource<Payload>> {
        self.count()?;
        let payload = Payload { files: BTreeMap::new(), bytes: 0, owner: None, group: None, folder_mode: FOLDER_MODE };
        Ok(self.push(payload)?)
    }

    fn add(&mut self, payload: Resource<Payload>, path: String, bytes: Vec<u8>, mode: u32) -> Result<(), HostError> {
        self.count()?;
        let most = (self.payload_bytes, self.payload_files);
        self.table.get_mut(&payload)?.put(path, &bytes, mode, most)
    }

    fn add_content(
        &mut self,
        payload: Resource<Payload>,
        path: String,
        what: Resource<Content>,
        mode: u32,
    ) -> Result<(), HostError> {
        self.count()?;
        let most = (self.payload_bytes, self.payload_files);
        let content = self.table.get(&what)?.0.clone();
        self.table.get_mut(&payload)?.put(path, &content, mode, most)
    }

    fn file_owner(&mut self, payload: Resource<Payload>, path: String, user: u32) -> Result<(), HostError> {
        self.count()?;
        match self.table.get_mut(&payload)?.files.get_mut(&path) {
            Some(file) => {
                file.owner = Some(user);
                Ok(())
            }
            None => {
                let text = format!("file {} was not added", tame(&path, SHOWN_BYTES));
                Err(HostError::Plugin(types::Error::NotFound(text)))
            }
        }
    }

    fn owned_by(&mut self, payload: Resource<Payload>, user: Option<u32>, group: Option<u32>) -> wasmtime::Result<()> {
        self.count()?;
        let payload = self.table.get_mut(&payload)?;
        (payload.owner, payload.group) = (user, group);
        Ok(())
    }

    fn folder_mode(&mut self, payload: Resource<Payload>, mode: u32) -> wasmtime::Result<()> {
        self.count()?;
        self.table.get_mut(&payload)?.folder_mode = mode & FOLDER_MODES;
        Ok(())
    }

    fn publish(&mut self, payload: Resource<Payload>, target: Resource<MountTarget>) -> Result<bool, HostError> {
        self.change("payload.publish", |state| {
            let payload = state.table.get(&payload)?;
            state.budget.charge_written(payload.files.len(), payload.bytes)?;
            let payload = payload.for_kernel();
            let target = &state.table.get(&target)?.0;
            Ok(state.kernel.publish_payload(&target.parent, &target.name, &payload)?.changed)
        })
    }

    fn drop(&mut self, payload: Resource<Payload>) -> wasmtime::Result<()> {
        self.table.delete(payload)?;
        Ok(())
    }
}
