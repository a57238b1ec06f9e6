//! `files`: small files in a volume. Contents that the host keeps go from the object to the file
//! and never into the sandbox.

use std::collections::BTreeMap;

use volhost_kernel::{Entry as KernelEntry, Payload as KernelPayload, PayloadFile};
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::files::{Host, HostPayload};
use crate::bindings::volhost::plugin::types;
use crate::bindings::volhost::plugin::types::HostContent;
use crate::handles::{Content, KeptContent, MountTarget, Payload};
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

/// The most files with one content that the host keeps. Their number must not reveal how long it
/// is.
const FILES_OF_ONE: usize = 8;
/// The smallest capacity of a mount on which contents are shown that the host keeps, in bytes:
/// twice the most that a volume can show, old files and new, however the file system rounds their
/// sizes. On a smaller one, whether it is full reveals how long they are: one in memory is grown
/// first, and on others they are not shown.
const ROOM: u64 = 512 << 20;

impl Payload {
    /// Takes in a file that the plugin wrote, in place of one of the same path, within the limits.
    fn put(&mut self, path: String, bytes: &[u8], mode: u32, most: (usize, usize)) -> Result<(), HostError> {
        let (most_bytes, most_files) = most;
        let before = if self.kept_at.contains_key(&path) { 0 } else { self.written(&path) };
        let grown = self.bytes.saturating_sub(before).saturating_add(bytes.len());
        if grown > most_bytes {
            return Err(invalid(format!(
                "file {}: the volume's files are more than {} MiB together",
                tame(&path, SHOWN_BYTES),
                most_bytes >> 20
            )));
        }
        self.insert(&path, bytes, mode, most_files)?;
        self.release(&path);
        self.bytes = grown;
        Ok(())
    }

    /// The same with a content that the host keeps. What is refused depends on which contents the
    /// plugin puts where, but for one limit: all of them together must be no more than what a
    /// volume can show.
    fn keep(&mut self, path: String, content: &Content, mode: u32, most: (usize, usize)) -> Result<(), HostError> {
        let (most_bytes, most_files) = most;
        let shown = tame(&path, SHOWN_BYTES);
        if self.kept_at.get(&path) != Some(&content.identity) {
            match self.kept.get(&content.identity) {
                Some(kept) if kept.files >= FILES_OF_ONE => {
                    return Err(invalid(format!(
                        "file {shown}: one content can be in {FILES_OF_ONE} files at the most"
                    )));
                }
                Some(_) => {}
                None => {
                    if self.kept_charge.saturating_add(content.charge) > most_bytes {
                        return Err(invalid(format!(
                            "file {shown}: the objects that the volume shows are more than {} MiB together",
                            most_bytes >> 20
                        )));
                    }
                }
            }
        }
        let before = if self.kept_at.contains_key(&path) { 0 } else { self.written(&path) };
        self.insert(&path, &content.bytes, mode, most_files)?;
        self.bytes = self.bytes.saturating_sub(before);
        self.release(&path);
        let kept = self.kept.entry(content.identity.clone());
        let kept = kept.or_insert_with(|| {
            self.kept_charge = self.kept_charge.saturating_add(content.charge);
            KeptContent { files: 0 }
        });
        kept.files = kept.files.saturating_add(1);
        self.kept_at.insert(path, content.identity.clone());
        Ok(())
    }

    /// Returns how long a file of the plugin's is.
    fn written(&self, path: &str) -> usize {
        self.files.get(path).map_or(0, |file| file.bytes.len())
    }

    /// The file no longer has a kept content. A content counts for as long as the payload is there.
    fn release(&mut self, path: &str) {
        if let Some(identity) = self.kept_at.remove(path)
            && let Some(kept) = self.kept.get_mut(&identity)
        {
            kept.files = kept.files.saturating_sub(1);
        }
    }

    fn insert(&mut self, path: &str, bytes: &[u8], mode: u32, most_files: usize) -> Result<(), HostError> {
        if mode & !FILE_MODES != 0 {
            return Err(invalid(format!("file {}: {mode:o} is no mode of a file", tame(path, SHOWN_BYTES))));
        }
        if self.files.len() >= most_files && !self.files.contains_key(path) {
            return Err(invalid(format!("the volume has more than {most_files} files")));
        }
        self.files.insert(path.to_owned(), PayloadFile::new(path, bytes, mode));
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
    fn drop(&mut self, content: Resource<Content>) -> wasmtime::Result<()> {
        self.table.delete(content)?;
        Ok(())
    }
}

impl HostPayload for State {
    fn new(&mut self) -> wasmtime::Result<Resource<Payload>> {
        self.count()?;
        let payload = Payload {
            files: BTreeMap::new(),
            bytes: 0,
            kept: BTreeMap::new(),
            kept_charge: 0,
            kept_at: BTreeMap::new(),
            owner: None,
            group: None,
            folder_mode: FOLDER_MODE,
        };
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
        let content = self.table.get(&what)?;
        let content =
            Content { bytes: content.bytes.clone(), identity: content.identity.clone(), charge: content.charge };
        self.table.get_mut(&payload)?.keep(path, &content, mode, most)
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

    fn publish(&mut self, payload: Resource<Payload>, target: Resource<MountTarget>) -> Result<(), HostError> {
        self.change("payload.publish", |state| {
            let payload = state.table.get(&payload)?;
            state.budget.charge_written(payload.files.len(), payload.bytes)?;
            let (keeps, payload) = (!payload.kept_at.is_empty(), payload.for_kernel());
            let target = &state.table.get(&target)?.0;
            if keeps && matches!(state.kernel.entry(&target.parent, &target.name)?, KernelEntry::Mount(_)) {
                let room = state.kernel.usage(&target.parent, &target.name)?.capacity;
                // An operator may have made it smaller, or an older volhost.
                if room < ROOM && !state.kernel.grow_tmpfs(&target.parent, &target.name, ROOM)? {
                    let text = format!(
                        "the mount at the volume's place can hold {} MiB, and {} MiB is the least on which the host shows what the plugin may \
                         not see",
                        room >> 20,
                        ROOM >> 20
                    );
                    return Err(HostError::Plugin(types::Error::Precondition(text)));
                }
            }
            // Whether anything changed is not for the plugin: it could guess what the files
            // contained.
            state.kernel.publish_payload(&target.parent, &target.name, &payload)?;
            Ok(())
        })
    }

    fn drop(&mut self, payload: Resource<Payload>) -> wasmtime::Result<()> {
        self.table.delete(payload)?;
        Ok(())
    }
}
