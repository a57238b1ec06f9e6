//! A plugin as a CSI driver: publishing and unpublishing a staged volume of `loop`, beside a call that does nothing.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Endpoint, Uri};
use volhost::csi::pb::csi::controller_client::ControllerClient;
use volhost::csi::pb::csi::node_client::NodeClient;
use volhost::csi::pb::csi::volume_capability::{AccessMode, AccessType, MountVolume};
use volhost::csi::pb::csi::{
    CapacityRange, CreateVolumeRequest, NodeGetInfoRequest, NodePublishVolumeRequest, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use volhost_tests::artifacts;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::report::{Report, Times, us};
use crate::setting;

pub(crate) async fn measure(report: &mut Report, scratch: &Path) {
    let rounds = setting("VOLHOST_BENCH_CSI_CALLS", 500);
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
    let mut driver = Command::new(artifacts::volhost())
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
    let (mut controller, mut node) = (ControllerClient::new(channel.clone()), NodeClient::new(channel));

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
        volume_context: volume.volume_context,
        ..NodePublishVolumeRequest::default()
    };
    let unpublish = NodeUnpublishVolumeRequest { volume_id: volume.volume_id.clone(), target_path };
    let (mut asked, mut pairs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        node.node_get_info(NodeGetInfoRequest {}).await.expect("it answers");
        asked.push(begun.elapsed());
        let begun = Instant::now();
        node.node_publish_volume(publish.clone()).await.expect("it is published");
        node.node_unpublish_volume(unpublish.clone()).await.expect("it is unpublished");
        pairs.push(begun.elapsed());
    }
    let unstage = NodeUnstageVolumeRequest { volume_id: volume.volume_id, staging_target_path };
    node.node_unstage_volume(unstage).await.expect("it is unstaged");
    driver.kill().expect("it runs");
    driver.wait().expect("it can be waited for");
    let (asked, pairs) = (Times::new(asked), Times::new(pairs));
    report.add(
        format!("csi-serve with `loop`: NodePublish and NodeUnpublish ({rounds} of each): median, p99"),
        format!("{}, {}", us(pairs.median()), us(pairs.quantile(0.99))),
        format!("a call that does nothing {}, {}: socket and gRPC alone", us(asked.median()), us(asked.quantile(0.99))),
    );
}
