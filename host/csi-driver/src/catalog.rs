//! The volume catalog for a plugin that makes no volumes: requests are recorded, so that a CO can
//! create, list, validate, expand and delete as with any driver. Nothing is made before a node uses
//! the volume; its context carries the parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use volhost_runtime::{MadeVolume, Page, WantedVolume};

use crate::check::shown;
use crate::records::RecordFolder;
use crate::refusal::{Refusal, Result};

/// What tokens begin with.
const TOKEN: &str = "after/";

/// A volume that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CatalogEntry {
    /// Its name, which is its handle too.
    name: String,
    /// In bytes.
    capacity: u64,
    /// What its mounting needs.
    parameters: BTreeMap<String, String>,
}

impl From<CatalogEntry> for MadeVolume {
    fn from(entry: CatalogEntry) -> Self {
        Self { id: entry.name, capacity: entry.capacity, attributes: entry.parameters, ..Self::default() }
    }
}

/// The volumes that were asked for, by name.
#[derive(Debug)]
pub(crate) struct Catalog(RecordFolder<CatalogEntry>);

impl Catalog {
    /// Creates the catalog over its records.
    pub(crate) fn new(records: RecordFolder<CatalogEntry>) -> Self {
        Self(records)
    }

    /// Writes the volume down. One of that name that fits: the same answer.
    pub(crate) fn note(&self, wanted: &WantedVolume) -> Result<MadeVolume> {
        if wanted.source_volume.is_some() || wanted.source_snapshot.is_some() {
            return Err(Refusal::field("volume_content_source", "the plugin makes no volumes of others"));
        }
        let capacity = wanted.required_bytes.or(wanted.limit_bytes).unwrap_or_default();
        let parameters = wanted.parameters.clone();
        if let Some(found) = self.0.read(&wanted.name)? {
            let fits = found.capacity >= wanted.required_bytes.unwrap_or_default()
                && wanted.limit_bytes.is_none_or(|limit| found.capacity <= limit);
            if !fits || found.parameters != parameters {
                let why = "with another size or other parameters";
                return Err(Refusal::Conflict(format!("there is a volume {} {why}", shown(&wanted.name))));
            }
            return Ok(found.into());
        }
        let entry = CatalogEntry { name: wanted.name.clone(), capacity, parameters };
        self.0.write(&wanted.name, &entry)?;
        Ok(entry.into())
    }

    /// The volume of this handle.
    pub(crate) fn find(&self, id: &str) -> Result<MadeVolume> {
        let found = self.0.read(id)?.filter(|entry| entry.name == id);
        found.map(MadeVolume::from).ok_or_else(|| Refusal::NotFound(format!("there is no volume {}", shown(id))))
    }

    /// Writes down a greater size.
    pub(crate) fn note_size(&self, id: &str, to: u64) -> Result<u64> {
        let MadeVolume { id: name, capacity, attributes, .. } = self.find(id)?;
        let entry = CatalogEntry { name, capacity: capacity.max(to), parameters: attributes };
        self.0.write(id, &entry)?;
        Ok(entry.capacity)
    }

    /// Forgets the volume of this handle. None there: done.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        self.0.remove(id)
    }

    /// A page of the volumes, in the order of their names.
    pub(crate) fn page(&self, start: &str, most: u32) -> Result<Page<MadeVolume>> {
        let after = match start {
            "" => "",
            token => {
                token.strip_prefix(TOKEN).ok_or_else(|| Refusal::Token(format!("{} was never given", shown(token))))?
            }
        };
        let mut all = self.0.all()?;
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut entries: Vec<MadeVolume> =
            all.into_iter().filter(|entry| entry.name.as_str() > after).map(MadeVolume::from).collect();
        let more = entries.len() > most;
        entries.truncate(most);
        let next = entries.last().filter(|_| more).map(|last| format!("{TOKEN}{}", last.id));
        Ok(Page { entries, next })
    }
}
