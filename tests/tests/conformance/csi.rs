//! A CSI driver for the suite, in this process: it binds folders, on the thread that runs the case,
//! so that they are mounted on its node.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use prost::Message;
use volhost_kernel::{Detach, ErrorKind, Kernel, KernelError, LinuxKernel};
use volhost_model::drivers::{DriverFailure, Drivers};
use volhost_proto::csi::node_service_capability::rpc::Type as Ability;
use volhost_proto::csi::node_service_capability::{Rpc, Type};
use volhost_proto::csi::volume_capability::AccessType;
use volhost_proto::csi::*;

/// The field of `volumeAttributes` that names the volume's folder.
const FOLDER: &str = "folder";

// gRPC's numbers.
const INVALID_ARGUMENT: u32 = 3;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;

/// A driver that stages and publishes folders.
pub(crate) struct FolderDriver(pub(crate) LinuxKernel);

impl fmt::Debug for FolderDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FolderDriver")
    }
}

fn status(error: &KernelError) -> DriverFailure {
    let code = if error.kind() == ErrorKind::InvalidArgument { INVALID_ARGUMENT } else { INTERNAL };
    DriverFailure::Status { code, message: error.to_string() }
}

impl FolderDriver {
    /// Binds a folder at a path, unless something is mounted there.
    fn bind(&self, source: &str, at: &str, flags: &[String], read_only: bool) -> Result<(), KernelError> {
        let at = Path::new(at);
        let (parent, name) = (self.0.open_directory(at.parent().unwrap())?, at.file_name().unwrap());
        if self.0.mount_at(&parent, name)?.is_some() {
            return Ok(());
        }
        let mount = self.0.bind(&self.0.open_host_path(Path::new(source), &["/".into()])?, false)?;
        let mut options: Vec<&str> = flags.iter().map(String::as_str).collect();
        options.extend(read_only.then_some("ro"));
        if !options.is_empty() {
            self.0.set_options(&mount, &options, false)?;
        }
        self.0.attach(mount, &parent, name)
    }

    fn unbind(&self, at: &str) -> Result<(), KernelError> {
        let at = Path::new(at);
        self.0.detach(&self.0.open_directory(at.parent().unwrap())?, at.file_name().unwrap(), Detach::Normal)
    }

    fn answer(&self, method: &str, request: &[u8]) -> Result<Vec<u8>, DriverFailure> {
        match method {
            "/csi.v1.Node/NodeGetCapabilities" => {
                let ability = Type::Rpc(Rpc { r#type: Ability::StageUnstageVolume.into() });
                let capabilities = vec![NodeServiceCapability { r#type: Some(ability) }];
                Ok(NodeGetCapabilitiesResponse { capabilities }.encode_to_vec())
            }
            "/csi.v1.Node/NodeStageVolume" => {
                let asked = NodeStageVolumeRequest::decode(request).unwrap();
                let folder = asked.volume_context.get(FOLDER).cloned().unwrap_or_default();
                done(self.bind(&folder, &asked.staging_target_path, &[], false))
            }
            "/csi.v1.Node/NodeUnstageVolume" => {
                let asked = NodeUnstageVolumeRequest::decode(request).unwrap();
                done(self.unbind(&asked.staging_target_path))
            }
            "/csi.v1.Node/NodePublishVolume" => {
                let asked = NodePublishVolumeRequest::decode(request).unwrap();
                let flags = match asked.volume_capability.and_then(|capability| capability.access_type) {
                    Some(AccessType::Mount(mount)) => mount.mount_flags,
                    _ => Vec::new(),
                };
                done(self.bind(&asked.staging_target_path, &asked.target_path, &flags, asked.readonly))
            }
            "/csi.v1.Node/NodeUnpublishVolume" => {
                let asked = NodeUnpublishVolumeRequest::decode(request).unwrap();
                done(self.unbind(&asked.target_path))
            }
            _ => Err(DriverFailure::Status { code: UNIMPLEMENTED, message: format!("{method} is not there") }),
        }
    }
}

/// Every answer that says no more than ok is empty.
fn done(outcome: Result<(), KernelError>) -> Result<Vec<u8>, DriverFailure> {
    outcome.map(|()| Vec::new()).map_err(|error| status(&error))
}

impl Drivers for FolderDriver {
    fn call(&self, _: &str, method: &str, request: Vec<u8>, _: Duration) -> Result<Vec<u8>, DriverFailure> {
        self.answer(method, &request)
    }

    fn node_id(&self, _: &str) -> Option<String> {
        Some("conformance".to_owned())
    }
}
