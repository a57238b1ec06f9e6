//! The runtime's calls of what plugins may be able to do besides mounting, with a plugin that does
//! them, and lies and fails as asked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use volhost_kernel::{BlockDevice, Directory, Entry, Kernel, Propagation};
use volhost_model::{FailureClass, Pod, PodUid, SpecName, VolumeSpec};
use volhost_runtime::{
    Attachment, Call, CallError, Capability, Compiler, ErrorCase, Limits, Place, Plugin, Runtime, RuntimeConfig, Target,
};
use volhost_testing_kernel::InMemoryKernel;
use volhost_tests::artifacts;

struct Host {
    kernel: Arc<InMemoryKernel>,
    root: Directory,
    plugin: Arc<Plugin>,
    _folder: TempDir,
}

impl Host {
    fn start() -> Self {
        Self::with(&artifacts::fixture("fixture-lying-devices"))
    }

    fn with(file: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = RuntimeConfig {
            cache_dir: folder.path().join("cache"),
            limits: Limits::default(),
            compiler: Compiler {
                program: artifacts::volhost(),
                args: vec!["internal".into(), "compile-plugin".into()],
            },
            grants: toml::from_str("[\"fixture.volhost/lying-devices\"]\nloop-files = [\"/images\"]").unwrap(),
        };
        let kernel = Arc::new(InMemoryKernel::new());
        let root = kernel.prepare_root(Path::new("/var/lib/volhost"), Propagation::Private).unwrap();
        kernel.add_folder("/images").unwrap();
        let runtime = Runtime::new(config, Arc::clone(&kernel) as Arc<dyn Kernel>).unwrap();
        let plugin = runtime.load(file).unwrap_or_else(|error| panic!("{}", error.message()));
        Self { kernel, root, plugin, _folder: folder }
    }

    fn call(&self) -> Call {
        Call::bare(Duration::from_secs(5))
    }

    fn target(&self, name: &str) -> Target {
        Target {
            parent: self.root.clone(),
            name: name.into(),
            pod_uid: None,
            spec_name: SpecName::new("vol").unwrap(),
            staging_mount: None,
            private: None,
            other_pods: None,
            needed: Vec::new(),
        }
    }

    fn pod_target(&self, name: &str, node: &str) -> Target {
        let place = Place { parent: self.root.clone(), name: node.into() };
        Target { pod_uid: Some(PodUid::new("uid-1").unwrap()), staging_mount: Some(place), ..self.target(name) }
    }

    fn attached(&self, spec: &Arc<VolumeSpec>) -> Attachment {
        let attached_as = self.plugin.attach(&self.call(), spec).unwrap();
        let mut attached = Attachment { attached_as, metadata: BTreeMap::new(), device: None };
        attached.device = self.plugin.wait_for_attach(&self.call(), spec, &attached).unwrap();
        assert!(attached.device.is_some());
        attached
    }

    fn stage(&self, spec: &Arc<VolumeSpec>) -> Result<(), CallError> {
        let attached = self.attached(spec);
        self.plugin.stage(&self.call(), spec, Some(&attached), self.target("node")).map(drop)
    }

    fn entry(&self, name: &str) -> Entry {
        self.kernel.entry(&self.root, OsStr::new(name)).unwrap()
    }
}

fn misbehaving(at: &str, how: &str) -> Arc<VolumeSpec> {
    let fields = serde_json::json!({ "at": at, "how": how });
    Arc::new(VolumeSpec {
        selinux_label: None,
        name: SpecName::new("vol").unwrap(),
        source: "lyingDevices".into(),
        fields: fields.as_object().unwrap().clone().into(),
        read_only: false,
        persistent_volume: None,
    })
}

fn honest() -> Arc<VolumeSpec> {
    misbehaving("", "")
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

fn path(device: &BlockDevice) -> &Path {
    device.path()
}

#[test]
fn a_volume_is_attached_staged_bound_and_taken_back() {
    let host = Host::start();
    let (call, spec) = (host.call(), honest());
    assert_eq!(host.plugin.are_attached(&call, &["image".to_owned()]).unwrap_err().class(), FailureClass::Final);
    host.stage(&spec).unwrap();
    host.stage(&spec).unwrap();
    assert_eq!(host.kernel.loops().len(), 1, "the same device every time");
    assert_eq!(host.plugin.are_attached(&call, &["image".to_owned()]).unwrap(), [true]);
    host.plugin.publish(&call, &spec, &pod(), host.pod_target("pod", "node")).unwrap();
    assert!(matches!(host.entry("pod"), Entry::Mount(_)));
    host.plugin.unpublish(&call, host.pod_target("pod", "node")).unwrap();
    host.plugin.unstage(&call, "image", host.target("node")).unwrap();
    host.plugin.detach(&call, "image").unwrap();
    host.plugin.detach(&call, "image").unwrap();
    assert!(host.kernel.loops().is_empty() && host.kernel.detached_count() == 0);
}

#[test]
fn a_folder_at_the_nodes_place_is_not_taken_for_the_volume() {
    let host = Host::start();
    host.kernel.make_folder(&host.root, OsStr::new("node"), 0o750, None).unwrap();
    let error = host.plugin.publish(&host.call(), &honest(), &pod(), host.pod_target("pod", "node")).unwrap_err();
    let CallError::Plugin(error) = error else { panic!("{error}") };
    assert_eq!(error.case, ErrorCase::Precondition);
}

#[test]
fn a_device_is_handed_over_and_may_be_the_pods_own() {
    let host = Host::start();
    let (call, spec) = (host.call(), honest());
    let attached = host.attached(&spec);
    let device = host.plugin.stage_device(&call, &spec, Some(&attached)).unwrap().unwrap();
    assert_eq!(Some(path(&device)), attached.device.as_deref().map(path));
    let own = host.plugin.map_device(&call, &spec, &pod(), Some(&device)).unwrap();
    assert_eq!(path(&own), path(&device));
    host.plugin.unmap_device(&call, "image", &pod().uid).unwrap();
    host.plugin.unstage_device(&call, "image").unwrap();
}

#[test]
fn an_image_outside_the_grant_is_out_of_reach() {
    let host = Host::start();
    host.kernel.add_folder("/etc").unwrap();
    host.kernel.write("/etc/passwd", b"root").unwrap();
    let error = host.plugin.attach(&host.call(), &misbehaving("attach", "outside")).unwrap_err();
    let CallError::Plugin(error) = error else { panic!("{error}") };
    assert_eq!(error.case, ErrorCase::PermissionDenied);
    assert!(host.kernel.loops().is_empty());
}

#[test]
fn the_class_of_every_failure_survives() {
    let host = Host::start();
    let (call, uncertain) = (host.call(), FailureClass::Uncertain);
    for how in ["retryable", "uncertain", "panic"] {
        let class = if how == "uncertain" { uncertain } else { FailureClass::Final };
        let spec = |at: &str| misbehaving(at, how);
        let attached = host.attached(&honest());
        let errors = [
            host.plugin.attach(&call, &spec("attach")).unwrap_err(),
            host.plugin.detach(&call, &format!("detach:{how}:image")).unwrap_err(),
            host.plugin.wait_for_attach(&call, &spec("wait-for-attach"), &attached).map(drop).unwrap_err(),
            host.stage(&spec("stage")).unwrap_err(),
            host.plugin.unstage(&call, &format!("unstage:{how}:image"), host.target("node")).unwrap_err(),
            host.plugin.stage_device(&call, &spec("stage-device"), Some(&attached)).map(drop).unwrap_err(),
            host.plugin.expand(&call, &spec("expand"), Some(&attached), None, 1).map(drop).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.class(), class, "{how}: {error}");
            assert_eq!(error.is_misbehaviour(), how == "panic", "{error}");
        }
    }
}

#[test]
fn a_crash_after_something_was_changed_is_uncertain() {
    let host = Host::start();
    let error = host.plugin.attach(&host.call(), &misbehaving("attach", "panic-after")).unwrap_err();
    assert_eq!(error.class(), FailureClass::Uncertain, "{error}");
    assert_eq!(host.kernel.loops().len(), 1);
    let error = host.stage(&misbehaving("stage", "panic-after")).unwrap_err();
    assert_eq!(error.class(), FailureClass::Uncertain, "{error}");
    assert!(matches!(host.entry("node"), Entry::Mount(_)));
}

#[test]
fn lies_are_found_out() {
    let host = Host::start();
    let (call, honest) = (host.call(), honest());
    let error = host.stage(&misbehaving("stage", "lie")).unwrap_err();
    assert_eq!(error.message(), "the plugin reported stage as done, but no mount is at the staging target");
    assert_eq!(error.class(), FailureClass::Final);
    host.stage(&honest).unwrap();
    let error = host.plugin.unstage(&call, "unstage:lie:image", host.target("node")).unwrap_err();
    assert!(error.message().contains("a mount is still"), "{error}");
    assert_eq!(error.class(), FailureClass::Uncertain);
    let attached = host.attached(&honest);
    let error = host.plugin.expand(&call, &misbehaving("expand", "lie"), Some(&attached), None, 100).unwrap_err();
    assert!(error.message().contains("99 bytes, is less than the 100 bytes asked for"), "{error}");
    let error = host.plugin.attach(&call, &misbehaving("attach", "empty")).unwrap_err();
    assert!(matches!(error, CallError::BrokeContract { .. }), "{error}");
    let error = host.plugin.are_attached(&call, &["are-attached:lie:image".to_owned()]).unwrap_err();
    assert!(error.message().contains("answered 0 times for 1 volumes"), "{error}");
}

#[test]
fn what_a_plugin_says_of_a_volume_overrides_what_it_exports() {
    let host = Host::start();
    let said = host.plugin.identify(&host.call(), &honest()).unwrap();
    assert_eq!((said.name, said.attachable, said.stageable), (None, None, None));
    let mut spec = honest().as_ref().clone();
    spec.fields.insert("attachable".into(), false.into());
    spec.fields.insert("stageable".into(), true.into());
    let said = host.plugin.identify(&host.call(), &Arc::new(spec)).unwrap();
    assert_eq!((said.attachable, said.stageable), (Some(false), Some(true)));
}

#[test]
fn a_plugin_is_only_asked_for_what_it_exports() {
    let host = Host::with(&artifacts::fixture("fixture-well-behaved"));
    assert!(!host.plugin.exports(Capability::Attacher));
    let error = host.plugin.attach(&host.call(), &honest()).unwrap_err();
    assert!(matches!(error, CallError::Lacks { interface: "attacher", .. }), "{error}");
    assert!(!error.is_misbehaviour() && error.class() == FailureClass::Final);
    let all = Host::start();
    for capability in [Capability::Attacher, Capability::Stager, Capability::BlockMapper, Capability::Expander] {
        assert!(all.plugin.exports(capability), "{capability:?}");
    }
}

#[test]
fn only_the_host_sets_a_volumes_label() {
    const LABEL: &str = "system_u:object_r:container_file_t:s0:c1,c2";
    let host = Host::start();
    let labelled = |how: &str| {
        let mut spec = misbehaving("stage", how);
        Arc::make_mut(&mut spec).selinux_label = Some(LABEL.to_owned());
        spec
    };
    // A kernel without SELinux has no such option: that it was passed is seen by its answer.
    let error = host.stage(&labelled("")).unwrap_err();
    assert!(error.message().contains("context"), "{}", error.message());
    assert_eq!(host.entry("node"), Entry::Absent);

    host.kernel.set_container_file_label("system_u:object_r:container_file_t:s0");
    host.stage(&labelled("")).unwrap();
    let mount = host.kernel.mount_at(&host.root, OsStr::new("node")).unwrap().unwrap();
    assert!(mount.options.contains(&format!("context={LABEL}")), "{:?}", mount.options);

    let forged = Host::start().stage(&labelled("label")).unwrap_err();
    assert!(forged.message().contains("a label is for the host to set"), "{}", forged.message());
}

#[test]
fn what_a_controller_said_of_an_attachment_is_what_the_plugin_reads() {
    let host = Host::start();
    let mut attached = host.attached(&honest());
    attached.metadata = [("lun".to_owned(), "4".to_owned())].into();
    let call = host.call();
    host.plugin.stage(&call, &misbehaving("stage", "report"), Some(&attached), host.target("node")).unwrap();
}
