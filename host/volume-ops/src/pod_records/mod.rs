//! The file with the records of one pod's volumes: what is in it, line by line.
//!
//! ```text
//! {"pod":{"version":2,"pod":{...}}}              the pod of the volumes that follow
//! {"volume":{"plugin":...,"spec":{...},...}}     a volume was published; replaces an earlier line of it
//! {"gone":{"plugin":...,"name":...}}             it was unpublished
//! ```
//!
//! Lines are appended. A death in the middle of an append leaves a last line without its end, which
//! counts as never written. Any other line that cannot be read makes the whole file unusable: it
//! may have been the one by which an earlier line no longer counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volhost_model::Pod;
use volhost_model::names::{PluginName, PodUid, SpecName};

use super::records::{MountRecord, RecordedVolume, Unusable, VolumeKey};

/// Bumped when a field changes its meaning; another version's file counts as missing. Version 1 was
/// a file for each volume.
const VERSION: u32 = 2;

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum WrittenLine<'a> {
    Pod { version: u32, pod: &'a Pod },
    Volume(&'a RecordedVolume),
    Gone { plugin: &'a PluginName, name: &'a SpecName },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadLine {
    Pod { version: u32, pod: Box<Pod> },
    Volume(RecordedVolume),
    Gone { plugin: PluginName, name: SpecName },
}

/// The records of one pod's volumes, as they were read.
#[derive(Debug, Default)]
pub(super) struct PodRecords {
    volumes: BTreeMap<VolumeKey, MountRecord>,
    has_torn_end: bool,
}

/// Lines that are to be appended at once.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Lines for a file that may end in the middle of one.
    pub(super) fn after_unknown_end() -> Self {
        Self(b"\n".to_vec())
    }

    /// Adds the pod of the volumes that follow.
    pub(super) fn pod(self, pod: &Pod) -> Result<Self, serde_json::Error> {
        self.line(&WrittenLine::Pod { version: VERSION, pod })
    }

    /// Adds a volume that was published.
    pub(super) fn volume(self, volume: &RecordedVolume) -> Result<Self, serde_json::Error> {
        self.line(&WrittenLine::Volume(volume))
    }

    /// Adds that a volume was unpublished.
    pub(super) fn gone(self, plugin: &PluginName, name: &SpecName) -> Result<Self, serde_json::Error> {
        self.line(&WrittenLine::Gone { plugin, name })
    }

    fn line(mut self, line: &WrittenLine<'_>) -> Result<Self, serde_json::Error> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.push(b'\n');
        Ok(self)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PodRecords {
    /// Reads a pod's file.
    pub(super) fn parse(uid: &PodUid, bytes: &[u8]) -> Result<Self, Unusable> {
        let mut records = Self::default();
        let mut pod: Option<Arc<Pod>> = None;
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        records.has_torn_end = lines.pop().is_some_and(|end| !end.is_empty());
        for (number, line) in (1..).zip(lines).filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_slice(line).map_err(|source| Unusable::Line { number, source })? {
                ReadLine::Pod { version, .. } if version != VERSION => return Err(Unusable::Version(version)),
                ReadLine::Pod { pod: read, .. } if read.uid != *uid => return Err(Unusable::OtherPod),
                ReadLine::Pod { pod: read, .. } => pod = Some(Arc::from(read)),
                ReadLine::Volume(volume) => {
                    let pod = Arc::clone(pod.as_ref().ok_or(Unusable::NoPod)?);
                    records.add(MountRecord { pod, volume });
                }
                ReadLine::Gone { plugin, name } => drop(records.volumes.remove(&(plugin, name))),
            }
        }
        Ok(records)
    }

    /// Adds a record; it replaces an earlier one of its volume.
    pub(super) fn add(&mut self, record: MountRecord) {
        self.volumes.insert(record.volume.key(), record);
    }

    pub(super) fn contains(&self, key: &VolumeKey) -> bool {
        self.volumes.contains_key(key)
    }

    pub(super) fn take(&mut self, key: &VolumeKey) -> Option<MountRecord> {
        self.volumes.remove(key)
    }

    pub(super) fn get(&self, key: &VolumeKey) -> Option<&MountRecord> {
        self.volumes.get(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &VolumeKey> {
        self.volumes.keys()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    /// Returns whether the last write was interrupted.
    pub(super) fn has_torn_end(&self) -> bool {
        self.has_torn_end
    }

    /// Removes the records of all other volumes.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&VolumeKey) -> bool) {
        self.volumes.retain(|key, _| is_kept(key));
    }

    /// Returns the shortest file that says the same.
    pub(super) fn lines(&self) -> Result<Lines, serde_json::Error> {
        let mut lines = Lines::default();
        let mut pod: Option<&Arc<Pod>> = None;
        for record in self.volumes.values() {
            if pod.is_none_or(|pod| **pod != *record.pod) {
                lines = lines.pod(&record.pod)?;
                pod = Some(&record.pod);
            }
            lines = lines.volume(&record.volume)?;
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests;
