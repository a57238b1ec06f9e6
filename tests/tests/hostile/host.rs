//! A machine in memory with the real runtime on it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use volhost_kernel::{Directory, Entry, Kernel, Propagation};
use volhost_model::view::EventKind;
use volhost_model::{Pod, PodUid, SpecName, VolumeSpec};
use volhost_runtime::{
    Call, CallError, CallSink, Compiler, Limits, LoadError, LogLevel, Plugin, Runtime, RuntimeConfig, Target,
};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;

/// What plugins said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) lines: Mutex<Vec<(LogLevel, String)>>,
    pub(crate) events: Mutex<Vec<String>>,
}

impl CallSink for Said {
    fn log(&self, level: LogLevel, message: &str) {
        self.lines.lock().unwrap().push((level, message.to_owned()));
    }

    fn event(&self, _kind: EventKind, reason: &str, message: &str) {
        self.events.lock().unwrap().push(format!("{reason}: {message}"));
    }
}

pub(crate) struct Host {
    _folder: TempDir,
    kernel: Arc<dyn Kernel>,
    machine: Option<Arc<InMemoryKernel>>,
    pub(crate) runtime: Runtime,
    pub(crate) root: Directory,
    pub(crate) said: Arc<Said>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::granting("")
    }

    /// On a machine in memory, with these grants beside the built-in ones.
    pub(crate) fn granting(grants: &str) -> Self {
        let machine = Arc::new(InMemoryKernel::new());
        let root = machine.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        Self { machine: Some(machine.clone()), ..Self::over(machine, root, grants) }
    }

    /// On this kernel, with the volumes in this folder.
    pub(crate) fn over(kernel: Arc<dyn Kernel>, root: Directory, grants: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let args = vec!["internal".into(), "compile-plugin".into()];
        let config = RuntimeConfig {
            cache_dir: folder.path().join("cache"),
            limits: Limits::default(),
            compiler: Compiler { program: artifacts::volhost(), args },
            grants: artifacts::builtin_grants().overridden_by(toml::from_str(grants).unwrap()),
        };
        let runtime = Runtime::new(config, Arc::clone(&kernel)).unwrap();
        Self { _folder: folder, kernel, machine: None, runtime, root, said: Arc::default() }
    }

    /// The machine in memory.
    pub(crate) fn machine(&self) -> &InMemoryKernel {
        self.machine.as_ref().unwrap()
    }

    pub(crate) fn fixture(&self, name: &str) -> Arc<Plugin> {
        self.load(&artifacts::fixture(name)).unwrap_or_else(|error| panic!("{}", error.message()))
    }

    pub(crate) fn load(&self, file: &Path) -> Result<Arc<Plugin>, LoadError> {
        self.runtime.load(file)
    }

    pub(crate) fn call(&self) -> Call {
        Call::bare(Duration::from_secs(2)).with_sink(Arc::clone(&self.said) as Arc<dyn CallSink>)
    }

    pub(crate) fn target(&self, name: &str) -> Target {
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

    pub(crate) fn publish(&self, plugin: &Plugin, name: &str, fields: serde_json::Value) -> Result<(), CallError> {
        plugin.publish(&self.call(), &spec(fields), &pod(), self.target(name)).map(drop)
    }

    pub(crate) fn entry(&self, name: &str) -> Entry {
        self.kernel.entry(&self.root, name.as_ref()).unwrap()
    }

    /// The lines that were logged since this was asked last.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said.lines.lock().unwrap().drain(..).map(|(_, line)| line).collect()
    }
}

pub(crate) fn spec(fields: serde_json::Value) -> Arc<VolumeSpec> {
    Arc::new(VolumeSpec {
        selinux_label: None,
        name: SpecName::new("vol").unwrap(),
        source: "guest".into(),
        fields: fields.as_object().unwrap().clone().into(),
        read_only: false,
        persistent_volume: None,
    })
}

pub(crate) fn pod() -> Arc<Pod> {
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
