//! A host in memory: a runtime over an in-memory kernel, a folder of plugins, and a log to look at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use volhost_kernel::{Directory, Entry, Kernel, Propagation};
use volhost_model::objects::{Bytes, KeyedObject, NoObjects, ObjectError, Objects, TokenRequest};
use volhost_model::view::EventKind;
use volhost_model::{Pod, PodUid, SpecName, VolumeSpec};
use volhost_runtime::{
    Call, CallSink, Compiler, Environment, GrantPolicy, Limits, LoadError, LogLevel, NodeFacts, Plugin, Runtime,
    RuntimeConfig, ShippedPlugins, Target,
};
use volhost_testing_kernel::InMemoryKernel;

use super::guest::Guest;

/// What a plugin said.
#[derive(Debug, Default)]
pub struct Said {
    pub lines: Mutex<Vec<(LogLevel, String)>>,
    pub events: Mutex<Vec<(EventKind, String, String)>>,
}

impl CallSink for Said {
    fn log(&self, level: LogLevel, message: &str) {
        self.lines.lock().unwrap().push((level, message.to_owned()));
    }

    fn event(&self, kind: EventKind, reason: &str, message: &str) {
        self.events.lock().unwrap().push((kind, reason.to_owned(), message.to_owned()));
    }
}

/// Objects to open.
#[derive(Debug, Default)]
pub struct Shelf {
    pub config_maps: Mutex<BTreeMap<String, KeyedObject>>,
    pub secrets: Mutex<BTreeMap<String, KeyedObject>>,
}

fn on_shelf(shelf: &Mutex<BTreeMap<String, KeyedObject>>, ns: &str, name: &str) -> Result<KeyedObject, ObjectError> {
    let found = shelf.lock().unwrap().get(&format!("{ns}/{name}")).cloned();
    found.ok_or_else(|| ObjectError::NotFound(format!("there is no {ns}/{name}")))
}

impl Objects for Shelf {
    fn config_map(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        on_shelf(&self.config_maps, namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        on_shelf(&self.secrets, namespace, name)
    }

    fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Bytes, ObjectError> {
        NoObjects.token(pod, request)
    }

    fn trust_bundle(&self, name: &str) -> Result<Bytes, ObjectError> {
        NoObjects.trust_bundle(name)
    }

    fn trust_bundles(&self, signer: &str, label_selector: Option<&str>) -> Result<Bytes, ObjectError> {
        NoObjects.trust_bundles(signer, label_selector)
    }

    fn csi_driver(&self, name: &str) -> Result<Option<String>, ObjectError> {
        NoObjects.csi_driver(name)
    }
}

/// The host.
pub struct Host {
    pub objects: Arc<Shelf>,
    pub folder: TempDir,
    pub kernel: Arc<InMemoryKernel>,
    pub runtime: Runtime,
    pub root: Directory,
    pub said: Arc<Said>,
}

/// The compiler child of these tests.
pub fn compiler() -> Compiler {
    Compiler { program: PathBuf::from(env!("CARGO_BIN_EXE_volhost-compile-helper")), args: Vec::new() }
}

/// A compiler that always fails: a load that needs it did not use the cache.
pub fn no_compiler() -> Compiler {
    Compiler { program: PathBuf::from("/bin/false"), args: Vec::new() }
}

pub fn config(folder: &Path) -> RuntimeConfig {
    RuntimeConfig {
        cache_dir: folder.join("cache"),
        limits: Limits::default(),
        compiler: compiler(),
        grants: GrantPolicy::builtin(ShippedPlugins::default()),
    }
}

impl Host {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With the configuration changed.
    pub fn with(change: impl FnOnce(&mut RuntimeConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        let kernel = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        let runtime = Runtime::new(config, Arc::clone(&kernel) as Arc<dyn Kernel>).unwrap();
        Self { objects: Arc::default(), folder, kernel, runtime, root, said: Arc::default() }
    }

    /// Puts a file into the folder.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn load(&self, guest: &Guest) -> Arc<Plugin> {
        self.try_load(guest).unwrap_or_else(|error| panic!("{}", error.message()))
    }

    pub fn try_load(&self, guest: &Guest) -> Result<Arc<Plugin>, LoadError> {
        self.runtime.load(&self.file("guest.wasm", &guest.component()))
    }

    /// Why this content is refused.
    pub fn refusal(&self, content: &[u8]) -> String {
        let error = self.runtime.load(&self.file("bad.wasm", content)).expect_err("it was loaded");
        let message = error.message();
        assert!(message.contains("bad.wasm"), "the file is named: {message}");
        message
    }

    pub fn call(&self) -> Call {
        let node = NodeFacts { name: "node-1".into(), allocatable_memory: 1 << 30, ..NodeFacts::default() };
        let environment = Environment::default()
            .with_node(Arc::new(node))
            .with_objects(Arc::clone(&self.objects) as Arc<dyn Objects>);
        Call::new(Arc::new(environment), Duration::from_secs(2)).with_sink(Arc::clone(&self.said) as Arc<dyn CallSink>)
    }

    pub fn target(&self, name: &str) -> Target {
        Target {
            parent: self.root.clone(),
            name: OsString::from(name),
            pod_uid: Some(PodUid::new("uid-1").unwrap()),
            spec_name: SpecName::new("vol").unwrap(),
            staging_mount: None,
            private: None,
            other_pods: None,
            needed: Vec::new(),
        }
    }

    /// Returns what is at a target.
    pub fn entry(&self, name: &str) -> Entry {
        self.kernel.entry(&self.root, name.as_ref()).unwrap()
    }

    pub fn publish(&self, plugin: &Plugin, name: &str) -> Result<(), volhost_runtime::CallError> {
        plugin.publish(&self.call(), &spec(serde_json::json!({})), &pod(), self.target(name)).map(drop)
    }

    pub fn unpublish(&self, plugin: &Plugin, name: &str) -> Result<(), volhost_runtime::CallError> {
        plugin.unpublish(&self.call(), self.target(name))
    }

    pub fn lines(&self) -> Vec<(LogLevel, String)> {
        self.said.lines.lock().unwrap().clone()
    }
}

pub fn spec(fields: serde_json::Value) -> Arc<VolumeSpec> {
    Arc::new(VolumeSpec {
        selinux_label: None,
        name: SpecName::new("vol").unwrap(),
        source: "guest".into(),
        fields: fields.as_object().unwrap().clone().into(),
        read_only: false,
        persistent_volume: None,
    })
}

pub fn pod() -> Arc<Pod> {
    Arc::new(Pod {
        uid: PodUid::new("uid-1").unwrap(),
        namespace: "ns".into(),
        name: "pod".into(),
        service_account: String::new(),
        image_pull_secrets: Vec::new(),
        labels: [].into(),
        annotations: [].into(),
        fs_group: None,
        fs_group_change_policy: Default::default(),
        fs_user: None,
        supplemental_groups: Vec::new(),
        memory_limit: None,
        ephemeral_storage_limit: None,
        used_volumes: Vec::new(),
        containers: Vec::new(),
        resources: Default::default(),
        nested_mounts: [].into(),
    })
}
