//! What the plugin `csi` costs over a bare client, of one driver: `csi-serve` with `loop`.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Endpoint, Uri};
use volhost_proto::csi::controller_client::ControllerClient;
use volhost_proto::csi::identity_client::IdentityClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use volhost_proto::csi::{
    CapacityRange, CreateVolumeRequest, GetPluginInfoRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use volhost_tests::artifacts;
use volhost_tests::benchmark::Figure;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::csi_adapter::Adapter;
use crate::report::{Report, Times, tail};

/// How many times each call is timed.
const ROUNDS: usize = 500;

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let folder = tempfile::tempdir_in(scratch).expect("a folder");
    let _devices = LoopDevices::below(folder.path());
    let [images, staging, pods] = ["images", "staging", "pods"].map(|name| folder.path().join(name));
    for made in [&images, &staging, &pods] {
        std::fs::create_dir(made).expect("a folder");
    }
    let config = folder.path().join("volhost.toml");
    let grants = "[grants.\"volhost.io/loop\"]\ninterfaces = [\"id-maps\"]\nloop-files = [\"IMAGES\"]\n";
    std::fs::write(&config, grants.replace("IMAGES", &images.display().to_string())).expect("the grants are written");
    let socket = folder.path().join("csi.sock");
    let mut driver = Command::new(artifacts::volhostd())
        .args(["csi-serve", "--node-id", "bench-node", "--log-level", "warn", "--plugin"])
        .arg(artifacts::plugin("loop"))
        .arg("--endpoint")
        .arg(&socket)
        .arg("--state-dir")
        .arg(folder.path().join("state"))
        .arg("--kubelet-dir")
        .arg(folder.path())
        .arg("--cache-dir")
        .arg(folder.path().join("cache"))
        .arg("--registration-dir")
        .arg(folder.path().join("registry"))
        .arg("--config")
        .arg(&config)
        .stdin(Stdio::null())
        .spawn()
        .expect("volhost runs");
    assert!(eventually(|| StdUnixStream::connect(&socket).is_ok()), "the driver does not serve");
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
    let (mut controller, mut node) = (ControllerClient::new(channel.clone()), NodeClient::new(channel.clone()));

    let capability = VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() })),
        access_mode: Some(AccessMode { mode: 1 }),
    };
    let wanted = CreateVolumeRequest {
        name: "bench".to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 64 << 20, limit_bytes: 0 }),
        volume_capabilities: vec![capability.clone()],
        ..CreateVolumeRequest::default()
    };
    let volume = controller.create_volume(wanted).await.expect("it is created").into_inner().volume.expect("a volume");
    let staging_target_path = staging.display().to_string();
    let stage = NodeStageVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: staging_target_path.clone(),
        volume_capability: Some(capability.clone()),
        volume_context: volume.volume_context.clone(),
        ..NodeStageVolumeRequest::default()
    };
    node.node_stage_volume(stage).await.expect("it is staged");
    let target_path = pods.join("target").display().to_string();
    let publish = NodePublishVolumeRequest {
        volume_id: volume.volume_id.clone(),
        staging_target_path: staging_target_path.clone(),
        target_path: target_path.clone(),
        volume_capability: Some(capability),
        volume_context: volume.volume_context.clone(),
        ..NodePublishVolumeRequest::default()
    };
    let unpublish =
        NodeUnpublishVolumeRequest { volume_id: volume.volume_id.clone(), target_path: target_path.clone() };
    let registry = folder.path().join("registry");
    let identity = IdentityClient::new(channel).get_plugin_info(GetPluginInfoRequest {}).await;
    let name = identity.expect("it answers").into_inner().name;
    let adapter = Adapter::new(folder.path(), &registry, &name, &volume.volume_id, &volume.volume_context).await;
    let adapter = Arc::new(adapter);
    let figures = NodeGetVolumeStatsRequest {
        volume_id: volume.volume_id.clone(),
        volume_path: target_path.clone(),
        ..NodeGetVolumeStatsRequest::default()
    };
    let (mut pairs, mut stats) = (Vec::new(), Vec::new());
    let (mut adapted_pairs, mut adapted_stats) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        node.node_publish_volume(publish.clone()).await.expect("it is published");
        let published = begun.elapsed();
        let begun = Instant::now();
        node.node_get_volume_stats(figures.clone()).await.expect("it is measured");
        stats.push(begun.elapsed());
        let begun = Instant::now();
        node.node_unpublish_volume(unpublish.clone()).await.expect("it is unpublished");
        pairs.push(published + begun.elapsed());
        // As in the daemon: on a thread that may block, beside the one that waits for answers.
        let adapter = adapter.clone();
        let took = tokio::task::spawn_blocking(move || adapter.once()).await.expect("it does not panic");
        adapted_pairs.push(took.pair);
        adapted_stats.push(took.stats);
    }
    drop(adapter);
    let unstage = NodeUnstageVolumeRequest { volume_id: volume.volume_id, staging_target_path };
    node.node_unstage_volume(unstage).await.expect("it is unstaged");
    driver.kill().expect("it runs");
    driver.wait().expect("it can be waited for");
    let (pairs, stats) = (Times::new(pairs), Times::new(stats));
    let (adapted_pairs, adapted_stats) = (Times::new(adapted_pairs), Times::new(adapted_stats));
    let what = "NodePublish and NodeUnpublish of that driver through the plugin `csi`";
    let figure = Figure::new("csi-client-publish", what, adapted_pairs.median());
    report.add(figure.beside("a bare client", pairs.median()).aim_ratio(1.3));
    report.add(tail("csi-client-publish", what, adapted_pairs.p99()).beside("a bare client", pairs.p99()));
    let what = "the same: NodeGetVolumeStats";
    let figure = Figure::new("csi-client-stats", what, adapted_stats.median());
    report.add(figure.beside("a bare client", stats.median()));
    report.add(tail("csi-client-stats", what, adapted_stats.p99()).beside("a bare client", stats.p99()));
}
