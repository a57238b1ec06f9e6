//! A CSI driver for tests: folders and loop devices below one folder, and a file of orders that
//! makes it misbehave. It runs in the node's mount namespace, serves CSI and its own registration,
//! and writes down each call.
//!
//! `csi-test-driver FOLDER REGISTRY NAME [CAPABILITY...]`: capabilities are `stage`, `mounts` (it
//! mounts where it stages), `attach`, `expand`, `stats`, `group`, and of the controller `create`,
//! `clone`, `snapshot`, `grow`, `topology`. With `registered` it leaves a registration socket alone
//! that is there already, as a driver whose registrar is another process.
//!
//! What is staged and attached has a file in `FOLDER/staged` and `FOLDER/attached`.
//!
//! Each volume it has made has a file in `FOLDER/made`, with its size. A word in `FOLDER/wrong`
//! makes `CreateVolume` answer wrongly: `small`, `empty`, `long`, or `other` and the id of another
//! volume.
//!
//! `FOLDER/limit` (3 without such a file) and `FOLDER/zone` (`a`) are its answer about the node.
//! `FOLDER/orders` has orders, one a line, `CALL WORD [ARGUMENT]`, in force until the file changes:
//!
//! | word | what the call does |
//! |---|---|
//! | `answer CODE` | nothing, and answers with this gRPC status |
//! | `late CODE` | its work, and then answers with this status |
//! | `echo CODE` | nothing, and answers with this status and all that it was sent, secrets included |
//! | `idle` | nothing, and answers ok |
//! | `leave` | all but unmounting, and answers ok |
//! | `writable` | all, and mounts for writing what was to be read-only |
//! | `die` | its work, and then the process ends without an answer |
//! | `die-before` | the process ends before any work |
//! | `garbage` | nothing, and answers with what is no message |
//! | `wait` | its work, once a test opens `FOLDER/gate` for writing |
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a tool of tests")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::{BodyExt as _, Full};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Service, http};
use tonic::{Code, Request, Response, Status};
use volhost_proto::csi::controller_server::{Controller, ControllerServer};
use volhost_proto::csi::identity_server::{Identity, IdentityServer};
use volhost_proto::csi::node_server::{Node, NodeServer};
use volhost_proto::csi::*;
use volhost_proto::registration::registration_server::{Registration, RegistrationServer};
use volhost_proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

type Answer<T> = Result<Response<T>, Status>;

fn done<T: Default>() -> Answer<T> {
    Ok(Response::new(T::default()))
}

fn order_for(folder: &Path, call: &str) -> Option<String> {
    let orders = fs::read_to_string(folder.join("orders")).unwrap_or_default();
    orders.lines().find_map(|line| line.strip_prefix(call)?.strip_prefix(' ')).map(str::to_owned)
}

fn write_down(folder: &Path, line: &str) {
    let mut log = fs::File::options().create(true).append(true).open(folder.join("calls")).unwrap();
    writeln!(log, "{line}").unwrap();
}

struct TestCsiDriver {
    folder: PathBuf,
    name: String,
    capabilities: Vec<String>,
}

/// What an order leaves of a call.
#[derive(Clone, Copy, PartialEq)]
enum CallEffect {
    All,
    None,
    LeaveMount,
    Writable,
}

impl TestCsiDriver {
    fn can(&self, what: &str) -> bool {
        self.capabilities.iter().any(|capability| capability == what)
    }

    /// Writes the call down, and obeys the orders around its work.
    fn obey(&self, call: &str, request: &dyn std::fmt::Debug, work: impl FnOnce(CallEffect)) -> Result<(), Status> {
        // In this order, a test that sees the call in the list may give another order.
        let order = order_for(&self.folder, call);
        write_down(&self.folder, &format!("{call} {request:?}"));
        let mut words = order.as_deref().unwrap_or("work").split(' ');
        let word = words.next().unwrap_or_default();
        let code = words.next().map_or(2, |code| code.parse().unwrap());
        let refusal = Status::new(Code::from_i32(code), "as ordered");
        match word {
            "answer" => return Err(refusal),
            "echo" => return Err(Status::new(Code::from_i32(code), format!("cannot log in with {request:?}"))),
            "die-before" => std::process::exit(9),
            "idle" => work(CallEffect::None),
            "leave" => work(CallEffect::LeaveMount),
            "writable" => work(CallEffect::Writable),
            "late" => {
                work(CallEffect::All);
                return Err(refusal);
            }
            "die" => {
                work(CallEffect::All);
                std::process::exit(9);
            }
            "wait" => {
                let gate = self.folder.join("gate");
                run("mkfifo", &[&gate.display().to_string()]);
                drop(fs::File::open(&gate).unwrap());
                fs::remove_file(gate).unwrap();
                work(CallEffect::All);
            }
            "work" => work(CallEffect::All),
            other => panic!("no order: {other}"),
        }
        Ok(())
    }

    fn says(&self, file: &str, default: &str) -> String {
        fs::read_to_string(self.folder.join(file)).map_or_else(|_| default.to_owned(), |text| text.trim().to_owned())
    }

    fn keep(&self, what: &str, id: &str) {
        fs::create_dir_all(self.folder.join(what)).unwrap();
        fs::write(self.folder.join(what).join(id), "").unwrap();
    }

    fn forget(&self, what: &str, id: &str) {
        let _ = fs::remove_file(self.folder.join(what).join(id));
    }

    fn volume(&self, id: &str) -> PathBuf {
        self.folder.join("volumes").join(id)
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn is_mounted(path: &Path) -> bool {
    Command::new("mountpoint").args(["-q", &path.display().to_string()]).status().unwrap().success()
}

fn show(source: &str, target: &Path, folder: bool, read_only: bool) {
    if target.exists() && is_mounted(target) || !folder && target.exists() && fs::metadata(target).unwrap().len() > 0 {
        return;
    }
    if folder {
        fs::create_dir_all(target).unwrap();
    } else if !target.exists() {
        fs::write(target, "").unwrap();
    }
    let target = target.display().to_string();
    if !folder && run("stat", &["-c", "%F", &target]).contains("block special") {
        return;
    }
    run("mount", &["--bind", source, &target]);
    if read_only {
        run("mount", &["-o", "remount,bind,ro", &target]);
    }
}

fn hide(target: &Path, work: CallEffect) {
    if work == CallEffect::None || !target.exists() {
        return;
    }
    let path = target.display().to_string();
    if work == CallEffect::LeaveMount {
        return;
    }
    // A device's node is a mount too; `mountpoint` sees only folders.
    while Command::new("umount").arg(&path).output().unwrap().status.success() {}
    if target.is_dir() {
        fs::remove_dir(target).unwrap();
    } else {
        fs::remove_file(target).unwrap();
    }
}

fn is_block(capability: Option<&VolumeCapability>) -> bool {
    let access = capability.and_then(|capability| capability.access_type.as_ref());
    matches!(access, Some(volume_capability::AccessType::Block(_)))
}

#[tonic::async_trait]
impl Node for TestCsiDriver {
    async fn node_stage_volume(&self, request: Request<NodeStageVolumeRequest>) -> Answer<NodeStageVolumeResponse> {
        let request = request.into_inner();
        self.obey("NodeStageVolume", &request, |_| {
            self.keep("staged", &request.volume_id);
            if self.can("mounts") && !is_block(request.volume_capability.as_ref()) {
                let volume = self.volume(&request.volume_id);
                fs::create_dir_all(&volume).unwrap();
                show(&volume.display().to_string(), Path::new(&request.staging_target_path), true, false);
            }
        })?;
        done()
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Answer<NodeUnstageVolumeResponse> {
        let request = request.into_inner();
        self.obey("NodeUnstageVolume", &request, |work| {
            if self.can("mounts") {
                hide(Path::new(&request.staging_target_path), work);
            }
            self.forget("staged", &request.volume_id);
        })?;
        done()
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        let request = request.into_inner();
        self.obey("NodePublishVolume", &request, |work| {
            if work == CallEffect::None {
                return;
            }
            let (volume, target) = (self.volume(&request.volume_id), PathBuf::from(&request.target_path));
            if is_block(request.volume_capability.as_ref()) {
                fs::create_dir_all(volume.parent().unwrap()).unwrap();
                let image = volume.with_extension("img").display().to_string();
                run("truncate", &["-s", "16M", &image]);
                let known = run("losetup", &["-j", &image, "-n", "-O", "NAME"]);
                let device = if known.is_empty() { run("losetup", &["-f", "--show", &image]) } else { known };
                show(&device, &target, false, false);
            } else {
                fs::create_dir_all(&volume).unwrap();
                show(&volume.display().to_string(), &target, true, request.readonly && work != CallEffect::Writable);
            }
        })?;
        done()
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        let request = request.into_inner();
        self.obey("NodeUnpublishVolume", &request, |work| {
            hide(Path::new(&request.target_path), work);
            let image = self.volume(&request.volume_id).with_extension("img");
            // While another pod has its device, the volume is in use.
            let beside = Path::new(&request.target_path).parent().and_then(|folder| fs::read_dir(folder).ok());
            let shown = beside.into_iter().flatten().flatten().any(|entry| !entry.path().is_dir());
            if image.exists() && !shown {
                let device = run("losetup", &["-j", &image.display().to_string(), "-n", "-O", "NAME"]);
                if !device.is_empty() {
                    run("losetup", &["-d", &device]);
                }
            }
        })?;
        done()
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        self.obey("NodeGetVolumeStats", request.get_ref(), |_| {})?;
        let usage = VolumeUsage { available: 30, total: 40, used: 10, unit: volume_usage::Unit::Bytes.into() };
        let volume_condition = Some(VolumeCondition { abnormal: true, message: "a disk is slow".to_owned() });
        Ok(Response::new(NodeGetVolumeStatsResponse { usage: vec![usage], volume_condition }))
    }

    async fn node_expand_volume(&self, request: Request<NodeExpandVolumeRequest>) -> Answer<NodeExpandVolumeResponse> {
        let request = request.into_inner();
        self.obey("NodeExpandVolume", &request, |_| {})?;
        let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
        Ok(Response::new(NodeExpandVolumeResponse { capacity_bytes }))
    }

    async fn node_get_capabilities(
        &self,
        request: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        use node_service_capability::rpc::Type;
        self.obey("NodeGetCapabilities", request.get_ref(), |_| {})?;
        let all = [
            ("stage", Type::StageUnstageVolume),
            ("expand", Type::ExpandVolume),
            ("stats", Type::GetVolumeStats),
            ("stats", Type::VolumeCondition),
            ("group", Type::VolumeMountGroup),
        ];
        let can = all.into_iter().filter(|(word, _)| self.can(word));
        let capabilities = can.map(|(_, kind)| NodeServiceCapability {
            r#type: Some(node_service_capability::Type::Rpc(node_service_capability::Rpc { r#type: kind.into() })),
        });
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn node_get_info(&self, request: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        self.obey("NodeGetInfo", request.get_ref(), |_| {})?;
        Ok(Response::new(NodeGetInfoResponse {
            node_id: "test-node".to_owned(),
            max_volumes_per_node: self.says("limit", "3").parse().unwrap(),
            accessible_topology: Some(Topology { segments: [("zone".to_owned(), self.says("zone", "a"))].into() }),
        }))
    }
}

#[tonic::async_trait]
impl Identity for TestCsiDriver {
    async fn get_plugin_info(&self, _: Request<GetPluginInfoRequest>) -> Answer<GetPluginInfoResponse> {
        let response = GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: self.says("version", "7.8.9"),
            ..GetPluginInfoResponse::default()
        };
        Ok(Response::new(response))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Answer<GetPluginCapabilitiesResponse> {
        use plugin_capability::service::Type;
        let service = |kind: Type| PluginCapability {
            r#type: Some(plugin_capability::Type::Service(plugin_capability::Service { r#type: kind.into() })),
        };
        let all = [("create", Type::ControllerService), ("topology", Type::VolumeAccessibilityConstraints)];
        let capabilities = all.into_iter().filter(|(word, _)| self.can(word)).map(|(_, kind)| service(kind));
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Answer<ProbeResponse> {
        done()
    }
}

#[tonic::async_trait]
impl Controller for TestCsiDriver {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        use controller_service_capability::rpc::Type;
        let capability = |kind: Type| ControllerServiceCapability {
            r#type: Some(controller_service_capability::Type::Rpc(controller_service_capability::Rpc {
                r#type: kind.into(),
            })),
        };
        let all = [
            ("attach", Type::PublishUnpublishVolume),
            ("create", Type::CreateDeleteVolume),
            ("clone", Type::CloneVolume),
            ("snapshot", Type::CreateDeleteSnapshot),
            ("grow", Type::ExpandVolume),
        ];
        let capabilities = all.into_iter().filter(|(word, _)| self.can(word)).map(|(_, kind)| capability(kind));
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() }))
    }

    async fn create_volume(&self, request: Request<CreateVolumeRequest>) -> Answer<CreateVolumeResponse> {
        let request = request.into_inner();
        let wanted = request.capacity_range.unwrap_or_default().required_bytes;
        let file = self.folder.join("made").join(&request.name);
        self.obey("CreateVolume", &request, |_| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            if !file.exists() {
                fs::write(&file, wanted.to_string()).unwrap();
            }
        })?;
        let mut volume = Volume {
            volume_id: request.name.clone(),
            capacity_bytes: fs::read_to_string(&file).unwrap_or_default().parse().unwrap_or_default(),
            content_source: request.volume_content_source,
            ..Volume::default()
        };
        if self.can("topology") {
            volume.accessible_topology = request.accessibility_requirements.unwrap_or_default().requisite;
        }
        let wrong = fs::read_to_string(self.folder.join("wrong")).unwrap_or_default();
        match wrong.trim().split_once(' ').unwrap_or((wrong.trim(), "")) {
            ("small", _) => volume.capacity_bytes = wanted / 2,
            ("empty", _) => volume.volume_id.clear(),
            ("long", _) => volume.volume_id = "x".repeat(4096),
            ("other", id) => volume.volume_id = id.to_owned(),
            _ => {}
        }
        Ok(Response::new(CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(&self, request: Request<DeleteVolumeRequest>) -> Answer<DeleteVolumeResponse> {
        let request = request.into_inner();
        self.obey("DeleteVolume", &request, |_| {
            let _ = fs::remove_file(self.folder.join("made").join(&request.volume_id));
        })?;
        done()
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Answer<ControllerExpandVolumeResponse> {
        let request = request.into_inner();
        let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
        self.obey("ControllerExpandVolume", &request, |_| {
            fs::write(self.folder.join("made").join(&request.volume_id), capacity_bytes.to_string()).unwrap();
        })?;
        let node_expansion_required = self.can("expand");
        Ok(Response::new(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required }))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        let request = request.into_inner();
        self.obey("ControllerPublishVolume", &request, |_| self.keep("attached", &request.volume_id))?;
        let publish_context = [("lun".to_owned(), "4".to_owned())].into();
        Ok(Response::new(ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        let request = request.into_inner();
        self.obey("ControllerUnpublishVolume", &request, |_| self.forget("attached", &request.volume_id))?;
        done()
    }
}

/// Answers calls with garbage that are ordered to be; passes all others on.
#[derive(Clone)]
struct Garbler<S> {
    inner: S,
    folder: PathBuf,
}

impl<S> Service<http::Request<Body>> for Garbler<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        if order_for(&self.folder, &call).as_deref() != Some("garbage") {
            return Box::pin(self.inner.call(request));
        }
        write_down(&self.folder, &format!("{call} garbage"));
        // A message of three bytes, none of which begins a field.
        let trailers = http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let body = Full::new(Bytes::from_static(&[0, 0, 0, 0, 3, 0xff, 0xff, 0xff]));
        let body = Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers)))));
        let answer = http::Response::builder().header("content-type", "application/grpc").body(body).unwrap();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

struct Registrar {
    name: String,
    endpoint: PathBuf,
    folder: PathBuf,
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Answer<PluginInfo> {
        let text = |name: &str, default: &str| {
            fs::read_to_string(self.folder.join(name))
                .map_or_else(|_| default.to_owned(), |text| text.trim().to_owned())
        };
        Ok(Response::new(PluginInfo {
            r#type: text("type", "CSIPlugin"),
            name: self.name.clone(),
            endpoint: text("endpoint", &self.endpoint.display().to_string()),
            supported_versions: text("versions", "1.0.0").split(' ').map(str::to_owned).collect(),
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Answer<RegistrationStatusResponse> {
        let RegistrationStatus { plugin_registered, error } = request.into_inner();
        let mut registered =
            fs::File::options().create(true).append(true).open(self.folder.join("registered")).unwrap();
        writeln!(registered, "{plugin_registered} {error}").unwrap();
        done()
    }
}

fn listen(socket: &Path) -> UnixListenerStream {
    let _ = fs::remove_file(socket);
    UnixListenerStream::new(UnixListener::bind(socket).unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, registry, name) = (PathBuf::from(&arguments[0]), PathBuf::from(&arguments[1]), arguments[2].clone());
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&registry).unwrap();
    let endpoint = folder.join("csi.sock");
    let driver =
        Arc::new(TestCsiDriver { folder: folder.clone(), name: name.clone(), capabilities: arguments[3..].to_vec() });
    let garbled = folder.clone();
    let csi = tonic::transport::Server::builder()
        .layer(tower::layer::layer_fn(move |inner| Garbler { inner, folder: garbled.clone() }))
        .add_service(IdentityServer::from_arc(driver.clone()))
        .add_service(NodeServer::from_arc(driver.clone()))
        .add_service(ControllerServer::from_arc(driver))
        .serve_with_incoming(listen(&endpoint));
    let registration = registry.join(format!("{name}-reg.sock"));
    if arguments[3..].iter().any(|word| word == "registered") && registration.exists() {
        return csi.await.unwrap();
    }
    let registrar = Registrar { name: name.clone(), endpoint, folder };
    let registration = tonic::transport::Server::builder()
        .add_service(RegistrationServer::new(registrar))
        .serve_with_incoming(listen(&registration));
    let (csi, registration) = tokio::join!(csi, registration);
    csi.and(registration).unwrap();
}
