//! The folder of plugins that the cluster installs, below the root folder.
//!
//! ```text
//!  cluster-plugins/vendor~name.wasm     the component, whose name must be vendor/name
//!                  vendor~name.json     its record: revision, digests, grants, settings
//!                  vendor~name.wasm.*   its signatures
//! ```
//!
//! The node's operator decides whether there is one, and bounds what the cluster may grant. The
//! folder's plugins are checked as those of the operator's folder are: signatures included.
//!
//! # Guarantees
//! - The content is what the digest names: the component's digest is in the manifest, and the
//!   manifest's is the digest.
//! - A plugin of the operator's, or of volhost's own, is never replaced.
//! - The record is written before the component, so that no content is ever loaded with the grants
//!   of another revision. It names the content before, too, which runs until the new one is loaded.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tracing::warn;
use volhost_kernel::{Directory, Durability, Kernel, KernelError};
use volhost_model::PluginName;
use volhost_model::oci::Digest;
use volhost_model::text::lower_hex;
use volhost_runtime::{
    ArtifactSignatures, ClusterGrant, ClusterGrantError, ClusterGrants, Grant, Limits, is_reserved_name,
    signature_files,
};

/// The folder's name below the root folder.
const FOLDER: &str = "cluster-plugins";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The largest record that is read, in bytes: the API server takes no larger object.
const RECORD_BYTES: usize = 2 << 20;
/// The suffix of components.
const WASM: &str = "wasm";
/// The suffix of records.
const RECORD: &str = "json";

/// Why a plugin of the cluster's is not installed or removed.
#[derive(Debug, Error)]
pub enum ClusterPluginError {
    /// The grants or settings.
    #[error("plugin {plugin}: {source}")]
    Grant {
        /// The plugin.
        plugin: PluginName,
        /// Why.
        #[source]
        source: ClusterGrantError,
    },
    /// The name belongs to volhost's own plugins.
    #[error("plugin {0}: names of the vendors volhost.io and kubernetes.io are for plugins that come with volhost")]
    Reserved(PluginName),
    /// The operator's configuration names the plugin, or the operator's folder has it.
    #[error(
        "plugin {plugin} is the node operator's: {how}; the cluster does not replace it. Remove it there, or leave this node out by spec.nodeSelector"
    )]
    NotOurs {
        /// The plugin.
        plugin: PluginName,
        /// How it is the operator's.
        how: String,
    },
    /// The content is not what the digest names.
    #[error("plugin {plugin}: {why}; the registry, or something in between, has changed it")]
    Content {
        /// The plugin.
        plugin: PluginName,
        /// What does not match.
        why: String,
    },
    /// The component is needed: another one is installed.
    #[error("plugin {0}: the content of this digest is not installed yet")]
    NoContent(PluginName),
    /// A file operation failed.
    #[error("the folder {FOLDER} of plugins from the cluster: {0}")]
    Kernel(#[from] KernelError),
    /// It cannot be written down.
    #[error("the record of plugin {plugin} cannot be written: {source}")]
    Record {
        /// The plugin.
        plugin: PluginName,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// What is installed of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterRecord {
    /// The name of the revision, as the cluster has it; empty if it has to be installed again.
    pub revision: String,
    /// The reference that it came from.
    pub image: String,
    /// The digest of its manifest.
    pub digest: String,
    /// SHA-256 of its component, in hex.
    pub sha256: String,
    /// SHA-256 of the component before, in hex; empty without one.
    before: String,
    grants: Map<String, Value>,
    settings: Map<String, Value>,
}

/// A plugin that is to be installed.
#[derive(Debug, Clone, Default)]
pub struct ClusterInstall {
    /// The name of the revision.
    pub revision: String,
    /// The reference that it comes from.
    pub image: String,
    /// The digest of its manifest.
    pub digest: String,
    /// The grants in JSON.
    pub grants: String,
    /// The settings in JSON.
    pub settings: String,
    /// The content; none if the content of this digest is installed.
    pub content: Option<ClusterContent>,
}

/// A plugin's content, as it was pulled.
#[derive(Debug, Clone, Default)]
pub struct ClusterContent {
    /// The manifest.
    pub manifest: Vec<u8>,
    /// The component.
    pub component: Vec<u8>,
    /// The signature of minisign, if there is one.
    pub minisign: Option<Vec<u8>>,
    /// The signatures of cosign, if there are any.
    pub cosign: Option<ArtifactSignatures>,
}

/// The folder.
#[derive(Debug)]
pub struct ClusterFolder {
    kernel: Arc<dyn Kernel>,
    path: PathBuf,
    folder: Directory,
    /// The most that the cluster may grant.
    bound: Grant,
    /// Also excludes two installations at once.
    records: Mutex<BTreeMap<PluginName, ClusterRecord>>,
}

/// A manifest, as far as it matters here.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    digest: String,
}

impl ClusterFolder {
    /// Opens the folder below `root`, whose path is `path`, and reads its records. A record that
    /// cannot be read is reported, and counts as none: the plugin has no grants then. Blocking.
    ///
    /// # Errors
    /// The folder cannot be opened or made.
    pub fn open(kernel: Arc<dyn Kernel>, root: &Directory, path: &Path, bound: Grant) -> Result<Self, KernelError> {
        let folder = kernel.make_dirs(root, Path::new(FOLDER), FOLDER_MODE)?;
        let mut records: BTreeMap<PluginName, ClusterRecord> = BTreeMap::new();
        for name in kernel.names(&folder)? {
            if volhost_kernel::is_temporary(&name) {
                kernel.remove_file(&folder, &name)?;
                continue;
            }
            let path = Path::new(&name);
            let Some(plugin) = plugin_of(path).filter(|_| path.extension() == Some(OsStr::new(RECORD))) else {
                continue;
            };
            let bytes = kernel.read_file(&folder, &name, RECORD_BYTES)?;
            match serde_json::from_slice(&bytes.unwrap_or_default()) {
                Ok(record) => drop(records.insert(plugin, record)),
                Err(error) => {
                    warn!(%plugin, %error, "the record of a plugin from the cluster is damaged; it has no grants until it is installed again")
                }
            }
        }
        let opened = Self { kernel, path: path.join(FOLDER), folder, bound, records: Mutex::default() };
        for (plugin, record) in &mut records {
            if !opened.is_whole(plugin, record) {
                record.revision.clear();
            }
        }
        *opened.lock() = records;
        Ok(opened)
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is installed, by plugin.
    #[must_use]
    pub fn records(&self) -> BTreeMap<PluginName, ClusterRecord> {
        self.lock().clone()
    }

    /// The file of a plugin.
    #[must_use]
    pub fn file_of(&self, plugin: &PluginName) -> PathBuf {
        self.path.join(file_name(plugin, WASM))
    }

    /// What the cluster grants. A grant that goes beyond the bound, which may have changed, counts
    /// as none.
    #[must_use]
    pub fn grants(&self) -> ClusterGrants {
        let records = self.lock();
        let grants = records.iter().filter_map(|(plugin, record)| {
            let contents = [&record.sha256, &record.before].into_iter().filter(|digest| !digest.is_empty()).cloned();
            match self.read_grant(&record.grants, &record.settings) {
                Ok(grant) => Some((plugin.clone(), grant.for_contents(contents.collect()))),
                Err(error) => {
                    warn!(%plugin, %error, "the cluster's grant is not in force");
                    None
                }
            }
        });
        grants.collect()
    }

    fn read_grant(
        &self,
        grants: &Map<String, Value>,
        settings: &Map<String, Value>,
    ) -> Result<ClusterGrant, ClusterGrantError> {
        let text = |map: &Map<String, Value>| Value::Object(map.clone()).to_string();
        ClusterGrant::read(&text(grants), &text(settings), &self.bound)
    }

    /// The name that the plugin of a file must have; none for a file outside of the folder.
    pub(super) fn name_of(&self, file: &Path) -> Option<Result<PluginName, String>> {
        if file.parent() != Some(self.path.as_path()) {
            return None;
        }
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Some(plugin_of(file).ok_or(name))
    }

    /// Installs a plugin, or replaces it. It is loaded afterwards, as any other. Blocking.
    ///
    /// # Errors
    /// [`ClusterPluginError`]; then what was installed before stays as it is.
    pub fn install(&self, plugin: &PluginName, install: ClusterInstall) -> Result<(), ClusterPluginError> {
        let ClusterInstall { revision, image, digest, grants, settings, content } = install;
        if is_reserved_name(plugin) {
            return Err(ClusterPluginError::Reserved(plugin.clone()));
        }
        let refused = |source| ClusterPluginError::Grant { plugin: plugin.clone(), source };
        let grants: Map<String, Value> =
            serde_json::from_str(&grants).map_err(|error| refused(ClusterGrantError::Grants(error)))?;
        let settings: Map<String, Value> =
            serde_json::from_str(&settings).map_err(|error| refused(ClusterGrantError::Settings(error)))?;
        self.read_grant(&grants, &settings).map_err(refused)?;
        let mut records = self.lock();
        let has = records.get(plugin).cloned().unwrap_or_default();
        let (sha256, before) = match &content {
            Some(content) => {
                let sha256 = content.check(plugin, &digest)?;
                let before = if has.sha256 == sha256 { has.before.clone() } else { has.sha256.clone() };
                (sha256, before)
            }
            None if has.digest == digest && !has.sha256.is_empty() => (has.sha256.clone(), has.before.clone()),
            None => return Err(ClusterPluginError::NoContent(plugin.clone())),
        };
        let record = ClusterRecord { revision, image, digest, sha256, before, grants, settings };
        if has != record {
            let bytes = serde_json::to_vec_pretty(&record)
                .map_err(|source| ClusterPluginError::Record { plugin: plugin.clone(), source })?;
            self.write(&file_name(plugin, RECORD), &bytes)?;
            records.insert(plugin.clone(), record);
        }
        let written = self.write_component(plugin, content);
        if written.is_err()
            && let Some(record) = records.get_mut(plugin)
        {
            // It is to be installed again.
            record.revision.clear();
        }
        written
    }

    /// Without new content, that which is installed is written again, so that it is loaded with the
    /// new grants and settings.
    fn write_component(&self, plugin: &PluginName, content: Option<ClusterContent>) -> Result<(), ClusterPluginError> {
        let Some(content) = content else {
            let bytes = self.component(plugin)?.ok_or_else(|| ClusterPluginError::NoContent(plugin.clone()))?;
            return Ok(self.write(&file_name(plugin, WASM), &bytes)?);
        };
        self.write_content(plugin, content)
    }

    fn component(&self, plugin: &PluginName) -> Result<Option<Vec<u8>>, KernelError> {
        let limit = usize::try_from(Limits::default().file_bytes).unwrap_or(usize::MAX);
        self.kernel.read_file(&self.folder, &file_name(plugin, WASM), limit)
    }

    /// Returns whether the component is the one that the record names. It is not after a power loss
    /// between the two.
    fn is_whole(&self, plugin: &PluginName, record: &ClusterRecord) -> bool {
        let component = self.component(plugin).ok().flatten();
        component.is_some_and(|bytes| lower_hex(&Sha256::digest(&bytes)) == record.sha256)
    }

    /// The signatures first, so that the component is never seen without them.
    fn write_content(&self, plugin: &PluginName, content: ClusterContent) -> Result<(), ClusterPluginError> {
        let wasm = file_name(plugin, WASM);
        let [minisign, cosign_blob, cosign] = signature_files(Path::new(&wasm));
        let put = |name: &Path, bytes: Option<&[u8]>| match bytes {
            Some(bytes) => self.write(name.as_os_str(), bytes),
            None => self.kernel.remove_file(&self.folder, name.as_os_str()),
        };
        put(&minisign, content.minisign.as_deref())?;
        put(&cosign_blob, None)?;
        let artifact = content.cosign.map(|signatures| serde_json::to_vec_pretty(&signatures)).transpose();
        let artifact = artifact.map_err(|source| ClusterPluginError::Record { plugin: plugin.clone(), source })?;
        put(&cosign, artifact.as_deref())?;
        Ok(self.write(&wasm, &content.component)?)
    }

    /// Removes a plugin: it only unmounts its volumes from then on. One that is not installed is
    /// removed already. Blocking.
    ///
    /// # Errors
    /// [`ClusterPluginError::Kernel`]; it can be tried again.
    pub fn remove(&self, plugin: &PluginName) -> Result<(), ClusterPluginError> {
        let mut records = self.lock();
        let wasm = file_name(plugin, WASM);
        self.kernel.remove_file(&self.folder, &wasm)?;
        for signature in signature_files(Path::new(&wasm)) {
            self.kernel.remove_file(&self.folder, signature.as_os_str())?;
        }
        self.kernel.remove_file(&self.folder, &file_name(plugin, RECORD))?;
        records.remove(plugin);
        Ok(())
    }

    fn write(&self, name: &OsStr, bytes: &[u8]) -> Result<(), KernelError> {
        self.kernel.write_atomic(&self.folder, name, bytes, FILE_MODE, Durability::Machine)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PluginName, ClusterRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClusterContent {
    /// Returns the component's SHA-256 in hex, if the manifest of this digest names it.
    fn check(&self, plugin: &PluginName, digest: &str) -> Result<String, ClusterPluginError> {
        let wrong = |why: String| ClusterPluginError::Content { plugin: plugin.clone(), why };
        let found = Digest::of(&self.manifest);
        if found.as_str() != digest {
            return Err(wrong(format!("the manifest has the digest {found}, and {digest} is wanted")));
        }
        let manifest: Manifest = serde_json::from_slice(&self.manifest)
            .map_err(|error| wrong(format!("the manifest cannot be read: {error}")))?;
        let component = Digest::of(&self.component);
        match manifest.layers.as_slice() {
            [one] if one.digest == component.as_str() => Ok(lower_hex(&Sha256::digest(&self.component))),
            _ => Err(wrong(format!("the component has the digest {component}, which its manifest does not name"))),
        }
    }
}

fn file_name(plugin: &PluginName, suffix: &str) -> OsString {
    format!("{}.{suffix}", plugin.escaped()).into()
}

/// The plugin that a file's name names.
fn plugin_of(file: &Path) -> Option<PluginName> {
    PluginName::from_escaped(file.file_stem()?.to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use volhost_kernel::Propagation;
    use volhost_testing_kernel::InMemoryKernel;

    use super::*;

    struct World {
        kernel: Arc<dyn Kernel>,
        root: Directory,
    }

    impl World {
        fn new() -> Self {
            let kernel: Arc<dyn Kernel> = Arc::new(InMemoryKernel::new());
            let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
            Self { kernel, root }
        }

        fn open(&self) -> ClusterFolder {
            let bound = serde_json::from_value(json!({ "host-paths": ["/srv"] })).unwrap();
            ClusterFolder::open(self.kernel.clone(), &self.root, Path::new("/var/lib/volhost"), bound).unwrap()
        }
    }

    fn name(text: &str) -> PluginName {
        PluginName::new(text).unwrap()
    }

    fn content(component: &str) -> (String, ClusterContent) {
        let layer = Digest::of(component.as_bytes());
        let manifest = json!({ "layers": [{ "digest": layer.as_str() }] }).to_string().into_bytes();
        let digest = Digest::of(&manifest).to_string();
        let component = component.as_bytes().to_vec();
        (digest, ClusterContent { manifest, component, minisign: Some(b"signed".to_vec()), cosign: None })
    }

    fn install(component: &str, grants: &str) -> ClusterInstall {
        let (digest, content) = content(component);
        ClusterInstall {
            revision: format!("of {component}"),
            image: "r.example/archive".into(),
            digest,
            grants: grants.into(),
            settings: "{}".into(),
            content: Some(content),
        }
    }

    #[test]
    fn what_is_installed_is_known_after_a_restart_and_gone_after_its_removal() {
        let world = World::new();
        let (folder, plugin) = (world.open(), name("example.com/archive"));
        folder.install(&plugin, install("one", "{\"host-paths\":[\"/srv\"]}")).unwrap();
        let again = world.open();
        assert_eq!(again.records(), folder.records());
        assert_eq!(again.grants(), folder.grants());
        assert_eq!(again.grants().len(), 1);
        assert_eq!(again.file_of(&plugin), Path::new("/var/lib/volhost/cluster-plugins/example.com~archive.wasm"));
        let mut files = world.kernel.names(&folder.folder).unwrap();
        files.sort();
        assert_eq!(files, ["example.com~archive.json", "example.com~archive.wasm", "example.com~archive.wasm.minisig"]);
        again.remove(&plugin).unwrap();
        again.remove(&plugin).unwrap();
        assert!(world.open().records().is_empty());
        assert_eq!(world.kernel.names(&folder.folder).unwrap(), [""; 0]);
    }

    #[test]
    fn new_grants_need_no_content_and_new_content_keeps_the_one_before() {
        let (folder, plugin) = (World::new().open(), name("example.com/archive"));
        let regranted = ClusterInstall { content: None, ..install("one", "{\"host-paths\":[\"/srv/a\"]}") };
        let refused = folder.install(&plugin, regranted.clone());
        assert!(matches!(refused, Err(ClusterPluginError::NoContent(_))), "{refused:?}");
        folder.install(&plugin, install("one", "{}")).unwrap();
        let first = folder.records()[&plugin].sha256.clone();
        folder.install(&plugin, regranted).unwrap();
        assert_eq!((&folder.records()[&plugin].sha256, folder.records()[&plugin].before.as_str()), (&first, ""));
        folder.install(&plugin, install("two", "{}")).unwrap();
        assert_eq!(folder.records()[&plugin].before, first);
        folder.install(&plugin, install("two", "{}")).unwrap();
        assert_eq!(folder.records()[&plugin].before, first, "the same again changes nothing");
    }

    #[test]
    fn what_the_digest_does_not_name_and_what_goes_too_far_is_refused_and_changes_nothing() {
        let (folder, plugin) = (World::new().open(), name("example.com/archive"));
        folder.install(&plugin, install("one", "{}")).unwrap();
        let before = folder.records();
        let mut other = install("two", "{}");
        other.content.as_mut().unwrap().component = b"three".to_vec();
        let mut manifest = install("two", "{}");
        manifest.content.as_mut().unwrap().manifest.push(b' ');
        for (what, words) in [
            (other, "does not name"),
            (manifest, "the manifest has the digest"),
            (install("two", "{\"host-paths\":[\"/etc\"]}"), "host-paths /etc"),
            (install("two", "[]"), "spec.grants"),
            (
                ClusterInstall { settings: "{\"a\":{\"file\":\"/etc/shadow\"}}".into(), ..install("two", "{}") },
                "spec.settings.a",
            ),
        ] {
            let error = folder.install(&plugin, what).unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = folder.install(&name("volhost.io/loop"), install("one", "{}")).unwrap_err();
        assert!(matches!(error, ClusterPluginError::Reserved(_)));
        assert_eq!(folder.records(), before);
    }

    #[test]
    fn a_component_that_is_not_the_records_is_to_be_installed_again() {
        let world = World::new();
        let (folder, plugin) = (world.open(), name("example.com/archive"));
        folder.install(&plugin, install("one", "{}")).unwrap();
        assert_eq!(world.open().records()[&plugin].revision, "of one");
        folder.write(&file_name(&plugin, WASM), b"another").unwrap();
        assert_eq!(world.open().records()[&plugin].revision, "");
    }

    #[test]
    fn a_damaged_record_grants_nothing() {
        let world = World::new();
        let (folder, plugin) = (world.open(), name("example.com/archive"));
        folder.install(&plugin, install("one", "{}")).unwrap();
        folder.write(&file_name(&plugin, RECORD), b"{").unwrap();
        assert!(world.open().grants().is_empty());
    }

    #[test]
    fn the_files_name_says_which_plugin_it_must_have() {
        let folder = World::new().open();
        let of = |file: &str| folder.name_of(&folder.path().join(file));
        assert_eq!(of("example.com~archive.wasm"), Some(Ok(name("example.com/archive"))));
        assert!(matches!(of("archive.wasm"), Some(Err(_))));
        assert_eq!(folder.name_of(Path::new("/plugins/example.com~archive.wasm")), None);
    }
}
