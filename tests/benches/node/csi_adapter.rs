//! The plugin `csi` between the host and a driver: calls of one driver, by a bare client and
//! through the plugin in its sandbox.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use volhost_csi::CsiDrivers;
use volhost_driver_table::DriverTable;
use volhost_kernel::{Directory, Kernel, LinuxKernel};
use volhost_model::clock::Clock;
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::{Pod, PodUid, SpecName, VolumeSpec};
use volhost_objects::payload::SharedObjects;
use volhost_process::linux_kernel;
use volhost_runtime::{
    Call, Compiler, Environment, FolderKind, Limits, Place, Plugin, PrivateFolder, Runtime, RuntimeConfig, Target,
};
use volhost_tests::artifacts;

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(60);
const POD: &str = "bench-pod";
const NAME: &str = "adapted";

/// The plugin, and the driver behind it.
#[derive(Debug)]
pub(crate) struct Adapter {
    plugin: Arc<Plugin>,
    kernel: Arc<LinuxKernel>,
    drivers: Arc<CsiDrivers>,
    folder: PathBuf,
    root: Arc<Directory>,
    spec: Arc<VolumeSpec>,
    pod: Arc<Pod>,
    volume_name: String,
    stop: CancellationToken,
}

/// How long each of them took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// Published and unpublished.
    pub(crate) pair: Duration,
    /// The volume's figures.
    pub(crate) stats: Duration,
}

impl Adapter {
    /// The plugin before the driver that registers in this folder; `folder` has the pods' places
    /// and the staging folder `staging`.
    pub(crate) async fn new(
        folder: &Path,
        registry: &Path,
        driver: &str,
        handle: &str,
        context: &HashMap<String, String>,
    ) -> Self {
        let (changes, _) = broadcast::channel(16);
        let (registered, mut ready) = mpsc::unbounded_channel();
        let (renewals, _) = mpsc::unbounded_channel();
        let objects = Arc::new(SharedObjects::new(None, renewals));
        objects.set_complete(true);
        let table = Arc::new(DriverTable::new(changes, Clock::start()));
        let drivers = Arc::new(CsiDrivers::new(Some(registry.to_owned()), table, objects, registered));
        let stop = CancellationToken::new();
        tokio::spawn(volhost_csi::watch(registry.to_owned(), drivers.clone(), stop.clone()));
        ready.recv().await.expect("the driver registers");

        let kernel = Arc::new(linux_kernel());
        let compiler =
            Compiler { program: artifacts::volhost(), args: vec!["internal".into(), "compile-plugin".into()] };
        let (cache_dir, limits) = (folder.join("cache"), Limits::default());
        let config = RuntimeConfig { cache_dir, limits, compiler, grants: artifacts::builtin_grants() };
        let runtime = Runtime::new(config, kernel.clone()).expect("a runtime");
        let plugin = runtime.load(&artifacts::plugin("csi")).expect("the plugin loads");
        let fields = serde_json::json!({ "driver": driver, "volumeHandle": handle, "fsType": "ext4", "volumeAttributes": context });
        let name = SpecName::new(NAME).expect("a name");
        let spec = VolumeSpec {
            name,
            source: "csi".to_owned(),
            fields: fields.as_object().cloned().unwrap_or_default().into(),
            read_only: false,
            selinux_label: None,
            persistent_volume: Some(Box::new(PersistentVolume {
                name: NAME.to_owned(),
                claim: format!("default/{NAME}"),
                capacity: Some(64 << 20),
                claim_capacity: None,
                access_modes: vec!["ReadWriteOnce".to_owned()],
                mount_options: Vec::new(),
                volume_mode: VolumeMode::Filesystem,
                node_affinity: None,
                gid: None,
                annotations: Default::default(),
            })),
        };
        let root = Arc::new(kernel.open_directory(folder).expect("the folder opens"));
        let pod = Pod {
            uid: PodUid::new(POD).expect("a uid"),
            namespace: "default".to_owned(),
            name: POD.to_owned(),
            service_account: String::new(),
            image_pull_secrets: Vec::new(),
            labels: Default::default(),
            annotations: Default::default(),
            fs_group: None,
            fs_group_change_policy: Default::default(),
            fs_user: None,
            supplemental_groups: Vec::new(),
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes: Vec::new(),
            containers: Vec::new(),
            resources: Default::default(),
            nested_mounts: Default::default(),
        };
        let volume_name = format!("{driver}^{handle}");
        let (spec, pod, folder) = (Arc::new(spec), Arc::new(pod), folder.to_owned());
        Self { plugin, kernel, drivers, folder, root, spec, pod, volume_name, stop }
    }

    fn target(&self) -> Target {
        let open = |folder: &Path| self.kernel.open_directory(folder).expect("the folder opens");
        Target {
            parent: open(&self.folder.join("pods")),
            name: NAME.into(),
            pod_uid: Some(PodUid::new(POD).expect("a uid")),
            spec_name: self.spec.name.clone(),
            staging_mount: Some(Place { parent: open(&self.folder), name: "staging".into() }),
            private: Some(PrivateFolder {
                root: self.root.clone(),
                parent: "private".into(),
                name: NAME.into(),
                kind: FolderKind::Apart,
            }),
            other_pods: None,
            needed: Vec::new(),
        }
    }

    /// Publishes, asks for the figures, and unpublishes.
    pub(crate) fn once(&self) -> Took {
        let call = Call::new(Arc::new(Environment::default().with_drivers(self.drivers.clone())), DEADLINE);
        let target = self.target();
        let begun = Instant::now();
        self.plugin.publish(&call, &self.spec, &self.pod, target).expect("it is published");
        let published = begun.elapsed();
        let target = self.target();
        let begun = Instant::now();
        self.plugin.measure(&call, &self.volume_name, Some(target)).expect("it is measured");
        let stats = begun.elapsed();
        let target = self.target();
        let begun = Instant::now();
        self.plugin.unpublish(&call, target).expect("it is unpublished");
        Took { pair: published + begun.elapsed(), stats }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
