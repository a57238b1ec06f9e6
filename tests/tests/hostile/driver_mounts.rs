//! Volumes that an external driver mounts for a plugin: the host hands out paths and checks what is
//! mounted there afterwards.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use volhost_kernel::{BlockDevices, Directory, Entry, FsOption, Kernel, Propagation};
use volhost_model::view::EventKind;
use volhost_model::{FailureClass, Pod, PodUid, SpecName, VolumeSpec};
use volhost_runtime::{
    Call, CallError, CallSink, Compiler, DevicePlaces, ErrorCase, FolderKind, Limits, LogLevel, Plugin, PrivateFolder,
    Runtime, RuntimeConfig, Target,
};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;

const ROOT: &str = "/var/lib/volhost";

/// What the driver does when it is asked to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    AsTold,
    Nothing,
    Below,
    Elsewhere,
}

/// A driver that hears of its work from the plugin's log, and keeps what else it hears.
#[derive(Debug)]
struct Driver {
    kernel: Arc<InMemoryKernel>,
    does: Mutex<Does>,
    heard: Mutex<Vec<String>>,
}

impl Driver {
    fn tmpfs(&self, path: &Path) {
        let parent = self.kernel.open_directory(path.parent().unwrap()).unwrap();
        let mount = self.kernel.tmpfs(&[FsOption::new("size", "1m")]).unwrap();
        self.kernel.attach(mount, &parent, path.file_name().unwrap()).unwrap();
    }

    fn is_mounted(&self, path: &Path) -> bool {
        let parent = self.kernel.open_directory(path.parent().unwrap()).unwrap();
        matches!(self.kernel.entry(&parent, path.file_name().unwrap()).unwrap(), Entry::Mount(_))
    }

    fn mount(&self, path: &Path) {
        match *self.does.lock().unwrap() {
            Does::AsTold if self.is_mounted(path) => {}
            Does::AsTold => self.tmpfs(path),
            Does::Nothing => {}
            Does::Below => self.tmpfs(&path.join("inner")),
            Does::Elsewhere => self.tmpfs(Path::new("/elsewhere")),
        }
    }
}

impl CallSink for Driver {
    fn log(&self, _: LogLevel, message: &str) {
        match message.split_once(' ') {
            Some(("mount", path)) => self.mount(Path::new(path)),
            Some(("show", path)) => {
                let path = Path::new(path);
                let parent = self.kernel.open_directory(path.parent().unwrap()).unwrap();
                let disk = self.kernel.open_block_device(Path::new("/dev/vdb")).unwrap();
                self.kernel.map_device(&disk, &parent, path.file_name().unwrap()).unwrap();
            }
            Some(("unmount", _)) => {}
            _ => self.heard.lock().unwrap().push(message.to_owned()),
        }
    }

    fn event(&self, _: EventKind, _: &str, _: &str) {}
}

struct Host {
    kernel: Arc<InMemoryKernel>,
    root: Arc<Directory>,
    plugin: Arc<Plugin>,
    driver: Arc<Driver>,
    _folder: TempDir,
}

impl Host {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = RuntimeConfig {
            cache_dir: folder.path().join("cache"),
            limits: Limits::default(),
            compiler: Compiler {
                program: artifacts::volhost(),
                args: vec!["internal".into(), "compile-plugin".into()],
            },
            grants: toml::from_str("[\"fixture.volhost/driven\"]\ninterfaces = [\"driver-mounts\"]").unwrap(),
        };
        let kernel = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new(ROOT), Propagation::Private).unwrap();
        kernel.make_dirs(&root, Path::new("pods/uid-1/volumes"), 0o750).unwrap();
        kernel.add_disk("/dev/vdb", 1 << 20).unwrap();
        let runtime = Runtime::new(config, Arc::clone(&kernel) as Arc<dyn Kernel>).unwrap();
        let plugin = runtime.load(&artifacts::fixture("fixture-driven")).unwrap_or_else(|error| panic!("{error}"));
        let driver = Driver { kernel: kernel.clone(), does: Mutex::new(Does::AsTold), heard: Mutex::default() };
        Self { kernel, root: Arc::new(root), plugin, driver: Arc::new(driver), _folder: folder }
    }

    fn call(&self) -> Call {
        let places = DevicePlaces::in_folder(self.root.clone(), "plugins/driven".into());
        self.call_without_places().with_device_places(places)
    }

    fn call_without_places(&self) -> Call {
        Call::bare(Duration::from_secs(60)).with_sink(self.driver.clone())
    }

    fn target(&self) -> Target {
        let private = PrivateFolder {
            root: self.root.clone(),
            parent: "pods/uid-1/plugins".into(),
            name: "vol".into(),
            kind: FolderKind::Apart,
        };
        Target {
            parent: self.kernel.walk(&self.root, Path::new("pods/uid-1/volumes")).unwrap(),
            name: "vol".into(),
            pod_uid: Some(PodUid::new("uid-1").unwrap()),
            spec_name: SpecName::new("vol").unwrap(),
            staging_mount: None,
            private: Some(private),
            other_pods: None,
            needed: Vec::new(),
        }
    }

    fn publish(&self, does: Does) -> Result<(), CallError> {
        self.set_up_on(does, "folder")
    }

    fn set_up_on(&self, does: Does, leaf: &str) -> Result<(), CallError> {
        *self.driver.does.lock().unwrap() = does;
        let spec = spec(leaf);
        self.plugin.publish(&self.call(), &spec, &pod(), self.target()).map(drop)
    }

    fn entry(&self) -> Entry {
        let folder = self.kernel.walk(&self.root, Path::new("pods/uid-1/volumes")).unwrap();
        self.kernel.entry(&folder, OsStr::new("vol")).unwrap()
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.driver.heard.lock().unwrap())
    }
}

fn spec(leaf: &str) -> Arc<VolumeSpec> {
    let fields = serde_json::json!({ "leaf": leaf });
    Arc::new(VolumeSpec {
        selinux_label: None,
        name: SpecName::new("vol").unwrap(),
        source: "driven".into(),
        fields: fields.as_object().unwrap().clone().into(),
        read_only: false,
        persistent_volume: None,
    })
}

fn pod() -> Arc<Pod> {
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
        containers: Vec::new(),
        resources: Default::default(),
        nested_mounts: [].into(),
        memory_limit: None,
        ephemeral_storage_limit: None,
        used_volumes: Vec::new(),
    })
}

/// The plugin's own answer, passed on from the host.
fn case_and_text(error: CallError) -> (ErrorCase, String) {
    assert_eq!(error.class(), FailureClass::Final, "{error}");
    match error {
        CallError::Plugin(error) => (error.case, error.message),
        other => panic!("{other}"),
    }
}

#[test]
fn a_drivers_mount_is_taken_over_and_unmounted() {
    let host = Host::start();
    host.publish(Does::AsTold).unwrap();
    assert!(matches!(host.entry(), Entry::Mount(_)));
    assert_eq!(host.heard(), ["found a new mount"]);
    host.publish(Does::AsTold).unwrap();
    assert_eq!(host.heard(), ["found the same mount"], "a repeated call finds the mount");
    // The driver leaves its mount behind: the host unmounts it.
    host.plugin.unpublish(&host.call(), host.target()).unwrap();
    assert_eq!(host.entry(), Entry::Absent);
    assert_eq!(host.heard(), ["noted kept by publish"]);
    host.target().private.unwrap().remove(&*host.kernel).unwrap();
    host.plugin.unpublish(&host.call(), host.target()).unwrap();
    assert_eq!(host.heard(), ["noted nothing"], "the note goes with the volume");
}

#[test]
fn a_driver_finds_a_folder_or_nothing_as_the_plugin_wants() {
    let host = Host::start();
    host.publish(Does::Nothing).unwrap_err();
    assert_eq!(host.entry(), Entry::Folder);
    assert_eq!(host.kernel.mode_and_group(format!("{ROOT}/pods/uid-1/volumes/vol")).unwrap().0, 0o750);
    host.set_up_on(Does::Nothing, "absent").unwrap_err();
    assert_eq!(host.entry(), Entry::Absent);
    host.kernel.add_folder(format!("{ROOT}/pods/uid-1/volumes/vol/data")).unwrap();
    let (case, text) = case_and_text(host.set_up_on(Does::AsTold, "absent").unwrap_err());
    assert_eq!(case, ErrorCase::Conflict, "{text}");
    assert_eq!(host.entry(), Entry::Folder, "data stays");
}

#[test]
fn a_driver_that_mounted_nothing_is_reported_with_what_appeared_instead() {
    let host = Host::start();
    let path = format!("{ROOT}/pods/uid-1/volumes/vol");
    let (case, text) = case_and_text(host.publish(Does::Nothing).unwrap_err());
    assert_eq!(case, ErrorCase::NotFound);
    assert_eq!(text, format!("the driver has mounted nothing at {path}: a plain folder is there"));
    let (case, text) = case_and_text(host.publish(Does::Elsewhere).unwrap_err());
    assert_eq!(case, ErrorCase::NotFound);
    assert!(text.ends_with("; meanwhile appeared at other paths: tmpfs at /elsewhere"), "{text}");
    let (case, text) = case_and_text(host.publish(Does::Below).unwrap_err());
    assert_eq!(case, ErrorCase::Conflict);
    assert!(text.contains(&format!("{path}/inner")), "{text}");
}

#[test]
fn a_device_that_a_driver_shows_is_the_volumes_device() {
    let host = Host::start();
    let device = host.plugin.stage_device(&host.call(), &spec("folder"), None).unwrap().unwrap();
    let disk = host.kernel.open_block_device(Path::new("/dev/vdb")).unwrap();
    assert_eq!(device.number(), disk.number());
    host.plugin.unstage_device(&host.call(), "the-volume").unwrap();
    assert_eq!(host.kernel.list(format!("{ROOT}/plugins/driven")).unwrap(), Vec::<std::ffi::OsString>::new());
    let elsewhere = host.call_without_places();
    let (case, text) =
        case_and_text(host.plugin.stage_device(&elsewhere, &spec("folder"), None).map(drop).unwrap_err());
    assert_eq!(case, ErrorCase::Unsupported, "{text}");
}
