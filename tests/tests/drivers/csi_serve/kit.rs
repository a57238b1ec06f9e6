//! A driver on a node without a daemon, and the calls that a CO makes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use volhost_proto::csi::controller_client::ControllerClient;
use volhost_proto::csi::group_controller_client::GroupControllerClient;
use volhost_proto::csi::node_client::NodeClient;
use volhost_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use volhost_proto::csi::*;
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::{Node, artifacts};

pub(crate) const MIB: i64 = 1 << 20;
pub(crate) const SINGLE_NODE_WRITER: i32 = 1;
pub(crate) const SINGLE_NODE_READER: i32 = 2;
pub(crate) const SINGLE_NODE_SINGLE_WRITER: i32 = 6;

pub(crate) struct Host {
    pub(crate) served: CsiServe,
    pub(crate) devices: LoopDevices,
    pub(crate) node: Node,
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Host {
    /// The plugin `loop`, served with these options.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::serve(&artifacts::plugin("loop"), arguments)
    }

    pub(crate) fn serve(plugin: &Path, arguments: &[&str]) -> Self {
        Self::serve_on(Node::builder().build(), plugin, arguments)
    }

    /// Serves a plugin on this node.
    pub(crate) fn serve_on(node: Node, plugin: &Path, arguments: &[&str]) -> Self {
        let served = CsiServe::start(&node, plugin, arguments);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let channel = channel_to(&runtime, served.socket());
        Self { devices: LoopDevices::below(node.folder()), served, node, runtime, channel }
    }

    /// Returns another driver of this plugin on this node and storage, with files of its own.
    pub(crate) fn beside(&self, name: &str, plugin: &Path, arguments: &[&str]) -> Beside<'_> {
        let served = CsiServe::start_in(&self.node, name, plugin, arguments);
        let channel = channel_to(&self.runtime, served.socket());
        Beside { host: self, served, channel }
    }

    /// Starts the driver again, and waits until it answers: the connection has to be made anew.
    pub(crate) fn revive(&mut self) {
        self.served.run(&self.node);
        let answers = || self.on_node(async |mut client| client.node_get_info(NodeGetInfoRequest {}).await).is_ok();
        assert!(volhost_tests::wait::eventually(answers), "{}", self.served.log());
    }

    /// A call of the Controller service.
    pub(crate) fn controller<T>(
        &self,
        call: impl AsyncFnOnce(ControllerClient<Channel>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Status> {
        self.runtime.block_on(call(ControllerClient::new(self.channel.clone()))).map(tonic::Response::into_inner)
    }

    /// A call of the GroupController service.
    pub(crate) fn of_groups<T>(
        &self,
        call: impl AsyncFnOnce(GroupControllerClient<Channel>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Status> {
        self.runtime.block_on(call(GroupControllerClient::new(self.channel.clone()))).map(tonic::Response::into_inner)
    }

    /// A call of the Node service.
    pub(crate) fn on_node<T>(
        &self,
        call: impl AsyncFnOnce(NodeClient<Channel>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Status> {
        self.runtime.block_on(call(NodeClient::new(self.channel.clone()))).map(tonic::Response::into_inner)
    }

    /// Several calls at once.
    pub(crate) fn at_once<T>(&self, calls: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T>
    where
        T: Send + 'static,
    {
        self.runtime.block_on(async {
            let mut answers = Vec::new();
            for call in calls.into_iter().map(|call| tokio::spawn(call)).collect::<Vec<_>>() {
                answers.push(call.await.unwrap());
            }
            answers
        })
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        self.controller(async move |mut client| client.create_volume(request).await)
            .map(|answer| answer.volume.unwrap())
    }

    pub(crate) fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), ..DeleteVolumeRequest::default() };
        self.controller(async move |mut client| client.delete_volume(request).await).map(drop)
    }

    /// The CO's folders for a volume: where it is staged, and the folder above a target.
    pub(crate) fn staging(&self, id: &str) -> String {
        let path = self.node.folder().join("staging").join(id);
        fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    }

    pub(crate) fn target(&self, name: &str) -> String {
        let folder = self.node.folder().join("pods");
        fs::create_dir_all(&folder).unwrap();
        folder.join(name).display().to_string()
    }

    /// A path of the CO's, as the node sees it.
    pub(crate) fn seen(&self, path: &str) -> PathBuf {
        self.node.path(Path::new(path))
    }

    pub(crate) fn stage(&self, volume: &Volume, capability: VolumeCapability) -> Result<(), Status> {
        let request = NodeStageVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.staging(&volume.volume_id),
            volume_capability: Some(capability),
            volume_context: volume.volume_context.clone(),
            ..NodeStageVolumeRequest::default()
        };
        self.on_node(async move |mut client| client.node_stage_volume(request).await).map(drop)
    }

    pub(crate) fn unstage(&self, id: &str) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest { volume_id: id.to_owned(), staging_target_path: self.staging(id) };
        self.on_node(async move |mut client| client.node_unstage_volume(request).await).map(drop)
    }

    pub(crate) fn publish_request(
        &self,
        volume: &Volume,
        capability: VolumeCapability,
        target: &str,
    ) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.volume_id.clone(),
            staging_target_path: self.staging(&volume.volume_id),
            target_path: self.target(target),
            volume_capability: Some(capability),
            volume_context: volume.volume_context.clone(),
            ..NodePublishVolumeRequest::default()
        }
    }

    pub(crate) fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.on_node(async move |mut client| client.node_publish_volume(request).await).map(drop)
    }

    pub(crate) fn unpublish(&self, id: &str, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path: self.target(target) };
        self.on_node(async move |mut client| client.node_unpublish_volume(request).await).map(drop)
    }

    pub(crate) fn figures(&self, id: &str, target: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.to_owned(),
            volume_path: self.target(target),
            ..NodeGetVolumeStatsRequest::default()
        };
        self.on_node(async move |mut client| client.node_get_volume_stats(request).await)
    }

    /// Nothing of any volume is left on the node: no mount, no device, no record, no target.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.node.all_mounts(), []);
        assert!(self.devices.all().is_empty(), "{:?}", self.devices.all());
        let left = |folder: PathBuf| {
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        assert_eq!(left(self.served.state().join("node")), [] as [PathBuf; 0]);
        assert_eq!(left(self.node.folder().join("pods")), [] as [PathBuf; 0]);
    }

    /// The image files of volumes.
    pub(crate) fn images(&self) -> Vec<String> {
        let files = fs::read_dir(self.node.folder().join("disk")).unwrap();
        let mut names: Vec<String> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn channel_to(runtime: &tokio::runtime::Runtime, socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(socket).await?)) }
    });
    runtime.block_on(async { Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector) })
}

/// A driver beside the host's own, as a controller is beside a node's.
pub(crate) struct Beside<'host> {
    host: &'host Host,
    served: CsiServe,
    channel: Channel,
}

impl Beside<'_> {
    /// A call of its Controller service.
    pub(crate) fn controller<T>(
        &self,
        call: impl AsyncFnOnce(ControllerClient<Channel>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Status> {
        let called = call(ControllerClient::new(self.channel.clone()));
        self.host.runtime.block_on(called).map(tonic::Response::into_inner)
    }

    pub(crate) fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        self.controller(async move |mut client| client.create_volume(request).await)
            .map(|answer| answer.volume.unwrap())
    }

    pub(crate) fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: id.to_owned(), ..DeleteVolumeRequest::default() };
        self.controller(async move |mut client| client.delete_volume(request).await).map(drop)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.served.pid()
    }

    pub(crate) fn kill(&mut self) {
        self.served.kill();
    }

    /// Starts it again, and waits until it answers.
    pub(crate) fn revive(&mut self) {
        self.served.run(&self.host.node);
        let asked = || {
            let request = ControllerGetCapabilitiesRequest {};
            self.controller(async move |mut client| client.controller_get_capabilities(request).await).is_ok()
        };
        assert!(volhost_tests::wait::eventually(asked), "{}", self.served.log());
    }
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.expect_err("it is refused").code()
}

pub(crate) fn mount(mode: i32) -> VolumeCapability {
    mount_of("ext4", mode)
}

pub(crate) fn mount_of(fs_type: &str, mode: i32) -> VolumeCapability {
    let access_type = Some(AccessType::Mount(MountVolume { fs_type: fs_type.to_owned(), ..MountVolume::default() }));
    VolumeCapability { access_type, access_mode: Some(AccessMode { mode }) }
}

pub(crate) fn block() -> VolumeCapability {
    let access_type = Some(AccessType::Block(BlockVolume {}));
    VolumeCapability { access_type, access_mode: Some(AccessMode { mode: SINGLE_NODE_WRITER }) }
}

pub(crate) fn wanted(name: &str, bytes: i64, capability: VolumeCapability) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..CreateVolumeRequest::default()
    }
}

pub(crate) fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
