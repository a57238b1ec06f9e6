//! A plugin as a CSI driver: publishing and unpublishing a staged volume of `loop`, beside a call
//! that does nothing, and beside another driver that does the same in turn, if one is named.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use volhost_proto::csi::controller_client::ControllerClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use volhost_proto::csi::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, NodeGetInfoRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use volhost_tests::artifacts;
use volhost_tests::benchmark::Figure;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::report::{Report, Times, tail};

/// The command of another driver. FOLDER in it is replaced by a folder of its own; it listens at
/// FOLDER/csi.sock.
const AGAINST: &str = "VOLHOST_BENCH_CSI_AGAINST";
/// How many times a volume is published in all.
const CALLS: usize = 500;
/// How many times a volume is published for each time that it is staged.
const PUBLISHED_A_STAGE: usize = 10;

/// A driver with a volume, and the calls that are timed.
struct Driven {
    name: &'static str,
    process: Child,
    node: NodeClient<Channel>,
    controller: ControllerClient<Channel>,
    stage: NodeStageVolumeRequest,
    publish: NodePublishVolumeRequest,
    asked: Vec<Duration>,
    staged: Vec<Duration>,
    published: Vec<Duration>,
}

fn volhost(folder: &Path) -> Command {
    let images = folder.join("images");
    std::fs::create_dir(&images).expect("a folder");
    let config = folder.join("volhost.toml");
    let grants = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"IMAGES\"]\n";
    std::fs::write(&config, grants.replace("IMAGES", &images.display().to_string())).expect("the grants are written");
    let mut command = Command::new(artifacts::volhostd());
    command.args(["csi-serve", "--node-id", "bench-node", "--log-level", "warn", "--plugin"]);
    command.arg(artifacts::plugin("loop")).arg("--endpoint").arg(folder.join("csi.sock"));
    command.arg("--state-dir").arg(folder.join("state")).arg("--kubelet-dir").arg(folder);
    command.arg("--cache-dir").arg(folder.join("cache")).arg("--config").arg(config);
    command
}

fn other(against: &str, folder: &Path) -> Command {
    let line = against.replace("FOLDER", &folder.display().to_string());
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_else(|| panic!("{AGAINST} is empty")));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Driven {
    async fn start(name: &'static str, folder: &Path, mut command: Command) -> Self {
        let [staging, pods] = ["staging", "pods"].map(|name| folder.join(name));
        for made in [&staging, &pods] {
            std::fs::create_dir(made).expect("a folder");
        }
        let socket: PathBuf = folder.join("csi.sock");
        let process = command.stdin(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(eventually(|| StdUnixStream::connect(&socket).is_ok()), "{name} does not serve");
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        let (mut controller, node) = (ControllerClient::new(channel.clone()), NodeClient::new(channel));
        let mount = MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() };
        let capability =
            VolumeCapability { access_type: Some(AccessType::Mount(mount)), access_mode: Some(AccessMode { mode: 1 }) };
        let wanted = CreateVolumeRequest {
            name: "bench".to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: 64 << 20, limit_bytes: 0 }),
            volume_capabilities: vec![capability.clone()],
            ..CreateVolumeRequest::default()
        };
        let made = controller.create_volume(wanted).await.expect("it is created").into_inner();
        let volume = made.volume.expect("a volume");
        let stage = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: staging.display().to_string(),
            volume_capability: Some(capability.clone()),
            volume_context: volume.volume_context.clone(),
            ..NodeStageVolumeRequest::default()
        };
        let publish = NodePublishVolumeRequest {
            volume_id: volume.volume_id,
            staging_target_path: stage.staging_target_path.clone(),
            target_path: pods.join("target").display().to_string(),
            volume_capability: Some(capability),
            volume_context: volume.volume_context,
            ..NodePublishVolumeRequest::default()
        };
        let mut driven = Self {
            name,
            process,
            node,
            controller,
            stage,
            publish,
            asked: Vec::new(),
            staged: Vec::new(),
            published: Vec::new(),
        };
        // The first time it is formatted.
        driven.stage().await;
        driven.unstage().await;
        driven
    }

    async fn stage(&mut self) {
        self.node.node_stage_volume(self.stage.clone()).await.expect("it is staged");
    }

    async fn unstage(&mut self) {
        let request = NodeUnstageVolumeRequest {
            volume_id: self.stage.volume_id.clone(),
            staging_target_path: self.stage.staging_target_path.clone(),
        };
        self.node.node_unstage_volume(request).await.expect("it is unstaged");
    }

    /// One volume's life on the node, with several publications, each timed.
    async fn round(&mut self, publications: usize) {
        let begun = Instant::now();
        self.stage().await;
        let staged = begun.elapsed();
        for _ in 0..publications {
            let begun = Instant::now();
            self.node.node_get_info(NodeGetInfoRequest {}).await.expect("it answers");
            self.asked.push(begun.elapsed());
            let unpublish = NodeUnpublishVolumeRequest {
                volume_id: self.publish.volume_id.clone(),
                target_path: self.publish.target_path.clone(),
            };
            let begun = Instant::now();
            self.node.node_publish_volume(self.publish.clone()).await.expect("it is published");
            self.node.node_unpublish_volume(unpublish).await.expect("it is unpublished");
            self.published.push(begun.elapsed());
        }
        let begun = Instant::now();
        self.unstage().await;
        self.staged.push(staged + begun.elapsed());
    }

    async fn end(mut self) -> [Times; 3] {
        let delete = DeleteVolumeRequest { volume_id: self.stage.volume_id, ..DeleteVolumeRequest::default() };
        self.controller.delete_volume(delete).await.unwrap_or_else(|status| panic!("{}: {status}", self.name));
        self.process.kill().expect("it runs");
        self.process.wait().expect("it can be waited for");
        [self.asked, self.staged, self.published].map(Times::new)
    }
}

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let _devices = LoopDevices::below(folder.path());
    let [own, others] = ["volhost", "other"].map(|name| folder.path().join(name));
    for made in [&own, &others] {
        std::fs::create_dir(made).expect("a folder");
    }
    let mut all = vec![Driven::start("csi-serve", &own, volhost(&own)).await];
    if let Ok(against) = std::env::var(AGAINST) {
        all.push(Driven::start("the other driver", &others, other(&against, &others)).await);
    }
    // In turn, so that whatever else the machine does slows each of them.
    for _ in 0..CALLS.div_ceil(PUBLISHED_A_STAGE) {
        for driven in &mut all {
            driven.round(PUBLISHED_A_STAGE).await;
        }
    }
    let mut figures = Vec::new();
    for driven in all {
        figures.push(driven.end().await);
    }
    let mut figures = figures.into_iter();
    let Some([asked, staged, published]) = figures.next() else { return };
    let what = "`csi-serve` with `loop`: NodePublish and NodeUnpublish";
    let figure = Figure::new("csi-serve-publish", what, published.median());
    report.add(figure.beside("a call that does nothing", asked.median()).aim(Duration::from_micros(300)));
    report.add(tail("csi-serve-publish", what, published.p99()).beside("a call that does nothing", asked.p99()));
    let what = "the same: NodeStage and NodeUnstage, which mount and check ext4";
    report.add_times("csi-serve-stage", what, &staged);
    for [_, others_staged, others_published] in figures {
        let (id, what) = ("csi-serve-against-publish", "the same in turn with another driver");
        let figure = Figure::new(id, what, published.median()).beside("the other driver", others_published.median());
        report.add(figure.aim_ratio(1.0 / 20.0));
        report.add(tail(id, what, published.p99()).beside("the other driver", others_published.p99()));
        let what = "NodeStage and NodeUnstage in turn with another driver, which may do less";
        let figure = Figure::new("csi-serve-against-stage", what, staged.median());
        report.add(figure.beside("the other driver", others_staged.median()));
    }
}
