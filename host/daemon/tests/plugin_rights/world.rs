//! A registry over a kernel in memory, and plugins of few bytes to load into it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use volhost_kernel::{Directory, Kernel, Propagation};
use volhost_model::PluginName;
use volhost_plugin_folder::{Approvals, PluginRegistry, RegistryError};
use volhost_runtime::{Compiler, GrantPolicy, Limits, Runtime, RuntimeConfig, ShippedPlugins};
use volhost_testing_kernel::InMemoryKernel;

use crate::guest::{Guest, OPEN};

/// A node whose daemon can be started again and again.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) kernel: Arc<InMemoryKernel>,
    root: Directory,
}

impl World {
    pub(crate) fn new() -> Self {
        let kernel = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), kernel, root }
    }

    /// Puts a plugin file into the folder.
    pub(crate) fn file(&self, name: &str, guest: &Guest) -> PathBuf {
        let path = self.folder.path().join(name);
        guest.write(&path);
        path
    }

    /// A registry as the daemon has it after a start, before any file is loaded.
    pub(crate) fn start(&self, grants: GrantPolicy) -> PluginRegistry {
        let compiler = Compiler {
            program: PathBuf::from(env!("CARGO_BIN_EXE_volhostd")),
            args: vec!["internal".into(), "compile-plugin".into()],
        };
        let config =
            RuntimeConfig { cache_dir: self.folder.path().join("cache"), limits: Limits::default(), compiler, grants };
        let kernel = || Arc::clone(&self.kernel) as Arc<dyn Kernel>;
        let runtime = Runtime::new(config, kernel()).unwrap();
        PluginRegistry::new(runtime, Arc::new(Approvals::open(kernel(), &self.root)))
    }
}

/// The operator's grants, with `shipped` as the only content that comes with volhost.
pub(crate) fn grants(text: &str, shipped: &[&Guest]) -> GrantPolicy {
    let digests = shipped.iter().map(|guest| digest(guest)).collect();
    GrantPolicy::builtin(ShippedPlugins::Known(digests)).overridden_by(toml::from_str(text).unwrap())
}

pub(crate) fn digest(guest: &Guest) -> String {
    <sha2::Sha256 as sha2::Digest>::digest(guest.component()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn plugin(name: &str, sources: &[&str]) -> Guest {
    let sources = sources.iter().map(|source| (*source).to_owned()).collect();
    Guest { name: name.to_owned(), sources, ..Guest::default() }
}

/// The plugin asks for `host-paths`, too.
pub(crate) fn reaching(mut guest: Guest) -> Guest {
    guest.imports.push(OPEN);
    guest
}

pub(crate) fn name(text: &str) -> PluginName {
    PluginName::new(text).unwrap()
}

/// Loads the files one after the other and settles, as a look at the folder does. Retires plugins
/// that may not run any more.
pub(crate) fn load(registry: &PluginRegistry, files: &[&PathBuf]) {
    let retire = |file: &Path, error: Option<RegistryError>| {
        if let Some(error) = error {
            registry.retire_ungranted(file, &error);
        }
    };
    for file in files {
        retire(file, registry.load(file).err());
    }
    for (file, outcome) in registry.settle() {
        retire(&file, outcome.err());
    }
}

/// Which plugin serves each of these sources; empty for none.
pub(crate) fn serving(registry: &PluginRegistry, sources: &[&str]) -> Vec<String> {
    let name = |source: &&str| registry.serving(source).map(|plugin| plugin.info().name.to_string());
    sources.iter().map(|source| name(source).unwrap_or_default()).collect()
}
