//! The approvals of this node: which content uses a grant that names none, and which plugin serves
//! a source that several could claim. They outlive the daemon and the machine, so that the order of
//! a start decides nothing again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_model::PluginName;
use volhost_runtime::GrantBindings;

/// The folder of the record, below the root folder. Only root enters it.
const FOLDER: &str = "approvals";
/// The record's file.
const FILE: &str = "plugins.json";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest record that is read, in bytes. A plugin takes some hundred.
const RECORD_BYTES: usize = 4 << 20;

/// Why what was settled cannot be kept.
#[derive(Debug, Error)]
pub enum ApprovalsError {
    /// A file operation failed.
    #[error("the record {FOLDER}/{FILE} of approved plugins: {0}")]
    Kernel(#[source] Arc<KernelError>),
    /// It cannot be written down.
    #[error("the record {FOLDER}/{FILE} of approved plugins cannot be written: {0}")]
    Content(#[source] serde_json::Error),
    /// The record could not be read before. It can be read now, and differs.
    #[error("by the record {FOLDER}/{FILE} the grant belongs to another content (sha256 {0})")]
    Bound(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ApprovedContent {
    /// The content that uses the grant of a plugin: the first that did.
    bound: BTreeMap<String, String>,
    /// The content that had a plugin's name last.
    contents: BTreeMap<String, String>,
    /// The plugin that serves a source.
    sources: BTreeMap<String, String>,
}

/// The approvals of this node.
#[derive(Debug)]
pub struct Approvals {
    kernel: Arc<dyn Kernel>,
    /// The root folder; an error if it could not be opened a second time.
    root: Directory,
    record: Mutex<ApprovalRecord>,
}

/// The record, and where it is kept.
#[derive(Debug)]
struct ApprovalRecord {
    /// Why it cannot be kept, if it cannot: it is opened again before the next change.
    folder: Result<Directory, Arc<KernelError>>,
    settled: ApprovedContent,
}

impl ApprovalRecord {
    /// Reads the record. If it cannot be read, nothing is settled.
    fn open(kernel: &dyn Kernel, root: &Directory) -> Self {
        match Self::read(kernel, root) {
            Ok((folder, settled)) => Self { folder: Ok(folder), settled },
            Err(error) => {
                warn!(%error, "the record of approved plugins, {FOLDER}/{FILE}, cannot be used");
                Self { folder: Err(Arc::new(error)), settled: ApprovedContent::default() }
            }
        }
    }

    fn read(kernel: &dyn Kernel, root: &Directory) -> Result<(Directory, ApprovedContent), KernelError> {
        let folder = kernel.make_dirs(root, Path::new(FOLDER), FOLDER_MODE)?;
        for name in kernel.names(&folder)?.iter().filter(|name| volhost_kernel::is_temporary(name)) {
            kernel.remove_file(&folder, name)?;
        }
        let bytes = kernel.read_file(&folder, OsStr::new(FILE), RECORD_BYTES)?;
        let settled = bytes.map_or_else(ApprovedContent::default, |bytes| {
            serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                warn!(%error, "{FOLDER}/{FILE} is damaged: grants without sha256 are bound to the plugins that are there now");
                ApprovedContent::default()
            })
        });
        Ok((folder, settled))
    }
}

impl Approvals {
    /// Reads what was settled before, below this root. A damaged record is reported, and counts as
    /// empty. Where the folder cannot be read or made, nothing is settled, so that no grant without
    /// `sha256` can be used.
    pub fn open(kernel: Arc<dyn Kernel>, root: &Directory) -> Self {
        let record = ApprovalRecord::open(&*kernel, root);
        Self { kernel, root: root.clone(), record: Mutex::new(record) }
    }

    fn record(&self) -> MutexGuard<'_, ApprovalRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record, opened again if it could not be used before: the disk may have been full.
    fn usable_record(&self) -> MutexGuard<'_, ApprovalRecord> {
        let mut record = self.record();
        if record.folder.is_err() {
            *record = ApprovalRecord::open(&*self.kernel, &self.root);
        }
        record
    }

    /// The content that had the plugin's name last.
    pub(super) fn content(&self, plugin: &PluginName) -> Option<String> {
        self.record().settled.contents.get(plugin.as_str()).cloned()
    }

    /// The plugin that serves the source, loaded or not.
    pub(super) fn owner(&self, source: &str) -> Option<PluginName> {
        self.record().settled.sources.get(source).and_then(|name| PluginName::new(name.clone()).ok())
    }

    /// The plugins that serve sources, loaded or not, by source.
    pub(super) fn owners(&self) -> BTreeMap<String, String> {
        self.record().settled.sources.clone()
    }

    /// Keeps that the plugin of this content is in service and serves these sources. `binds`: it
    /// uses a grant that names no content.
    ///
    /// # Errors
    /// [`ApprovalsError`]; then nothing is settled.
    pub(super) fn settle<'a>(
        &self,
        plugin: &PluginName,
        digest: &str,
        binds: bool,
        sources: impl Iterator<Item = &'a String>,
    ) -> Result<(), ApprovalsError> {
        let mut record = self.usable_record();
        let mut new = record.settled.clone();
        let name = plugin.as_str().to_owned();
        if binds {
            let bound = new.bound.entry(name.clone()).or_insert_with(|| digest.to_owned());
            if bound != digest {
                return Err(ApprovalsError::Bound(bound.clone()));
            }
        }
        new.contents.insert(name.clone(), digest.to_owned());
        new.sources.extend(sources.map(|source| (source.clone(), name.clone())));
        self.replace(&mut record, new)
    }

    /// Forgets the bindings of plugins that have no such grant any more: a new grant is a new
    /// decision.
    pub(super) fn keep_bound(&self, binds: impl Fn(&PluginName) -> bool) {
        let mut record = self.usable_record();
        let mut new = record.settled.clone();
        new.bound.retain(|name, _| PluginName::new(name.clone()).is_ok_and(|name| binds(&name)));
        if let Err(error) = self.replace(&mut record, new) {
            warn!(%error, "a revoked grant is still bound to the content that used it");
        }
    }

    fn replace(&self, record: &mut ApprovalRecord, new: ApprovedContent) -> Result<(), ApprovalsError> {
        if record.settled == new {
            return Ok(());
        }
        let folder = record.folder.as_ref().map_err(|error| ApprovalsError::Kernel(Arc::clone(error)))?;
        let bytes = serde_json::to_vec_pretty(&new).map_err(ApprovalsError::Content)?;
        let written = self.kernel.write_atomic(folder, OsStr::new(FILE), &bytes, FILE_MODE, Durability::Machine);
        written.map_err(|source| ApprovalsError::Kernel(Arc::new(source)))?;
        record.settled = new;
        Ok(())
    }
}

impl GrantBindings for Approvals {
    fn bound(&self, plugin: &PluginName) -> Option<String> {
        self.record().settled.bound.get(plugin.as_str()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use volhost_kernel::Propagation;
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    #[test]
    fn what_is_settled_is_known_after_a_restart() {
        let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        let (plugin, source) = (PluginName::new("a.b/c").unwrap(), "archive".to_owned());
        let first = Approvals::open(kernel.clone(), &root);
        assert_eq!((first.bound(&plugin), first.owner(&source)), (None, None));
        first.settle(&plugin, "one", true, [source.clone()].iter()).unwrap();
        let other = first.settle(&plugin, "two", true, [].iter());
        assert!(matches!(other, Err(ApprovalsError::Bound(bound)) if bound == "one"), "the first keeps it");
        first.settle(&plugin, "two", false, [].iter()).unwrap();

        let second = Approvals::open(kernel.clone(), &root);
        assert_eq!(second.bound(&plugin).as_deref(), Some("one"), "the first keeps it");
        assert_eq!(second.content(&plugin).as_deref(), Some("two"));
        assert_eq!(second.owner(&source), Some(plugin.clone()));
        second.keep_bound(|_| false);
        assert_eq!(Approvals::open(kernel.clone(), &root).bound(&plugin), None);

        let folder = kernel.walk(&root, Path::new(FOLDER)).unwrap();
        kernel.write_atomic(&folder, OsStr::new(FILE), b"{", FILE_MODE, Durability::Process).unwrap();
        let damaged = Approvals::open(kernel, &root);
        assert_eq!(damaged.owner(&source), None, "a damaged record blocks nothing");
    }
}
