//! Each call of the plugin API as a call of volhost's.

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tonic::transport::Channel;
use tonic::{Code, Status};
use volhost_api::pb;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;

use crate::messages::{CallRequest, VolumeAnswer};

/// Milliseconds that a mount or unmount may take. Docker waits for it; Podman gives up after 5 s.
const MOUNT_MS: u64 = 60_000;

/// The daemon.
pub(crate) type Daemon = NamedVolumesClient<Channel>;

/// Answers a call. `None`: there is no such call.
pub(crate) async fn answer(daemon: Daemon, call: &str, request: CallRequest) -> Option<Result<Value, String>> {
    let answered = match call {
        "/Plugin.Activate" => Ok(json!({ "Implements": ["VolumeDriver"] })),
        "/VolumeDriver.Capabilities" => Ok(json!({ "Capabilities": { "Scope": "local" } })),
        "/VolumeDriver.Create" => create(daemon, request).await,
        "/VolumeDriver.Get" => get(daemon, request).await.map(|volume| json!({ "Volume": volume, "Err": "" })),
        "/VolumeDriver.List" => list(daemon).await,
        "/VolumeDriver.Mount" => mount(daemon, request).await,
        "/VolumeDriver.Unmount" => unmount(daemon, request.name, request.id).await,
        "/VolumeDriver.Path" => path(daemon, request).await,
        "/VolumeDriver.Remove" => remove(daemon, request).await,
        _ => return None,
    };
    Some(answered.map_err(|status| words(&status)))
}

fn words(status: &Status) -> String {
    match status.code() {
        Code::Unavailable | Code::Unknown => {
            format!("volhost does not answer ({}); is the daemon running (volhost run)?", status.message())
        }
        Code::Unimplemented => "the daemon is older than `volhost docker`, and has no named volumes".to_owned(),
        _ => status.message().to_owned(),
    }
}

fn done() -> Value {
    json!({ "Err": "" })
}

async fn create(mut daemon: Daemon, request: CallRequest) -> Result<Value, Status> {
    let options = request.opts.unwrap_or_default();
    daemon.create_named_volume(pb::CreateNamedVolumeRequest { name: request.name, options }).await?;
    Ok(done())
}

async fn get(mut daemon: Daemon, request: CallRequest) -> Result<VolumeAnswer, Status> {
    let name = request.name;
    if name.is_empty() {
        return Err(Status::invalid_argument("Name: it is missing"));
    }
    let listed = daemon.list_named_volumes(pb::ListNamedVolumesRequest { name: name.clone() }).await?.into_inner();
    let volume = listed.volumes.into_iter().next();
    volume.map(Into::into).ok_or_else(|| Status::not_found(format!("there is no volume {name:?}")))
}

async fn list(mut daemon: Daemon) -> Result<Value, Status> {
    let listed = daemon.list_named_volumes(pb::ListNamedVolumesRequest::default()).await?.into_inner();
    let volumes: Vec<VolumeAnswer> = listed.volumes.into_iter().map(Into::into).collect();
    Ok(json!({ "Volumes": volumes, "Err": "" }))
}

async fn mount(mut daemon: Daemon, request: CallRequest) -> Result<Value, Status> {
    let CallRequest { name, id, .. } = request;
    let listed = daemon.list_named_volumes(pb::ListNamedVolumesRequest { name: name.clone() }).await?.into_inner();
    // A user that has the volume keeps it, whatever becomes of this call: Podman has one id for all.
    let is_new = !listed.volumes.iter().flat_map(|volume| &volume.users).any(|user| user.id == id);
    let user = is_new.then(|| (name.clone(), id.clone()));
    let mut abandoned = AbandonedMount { daemon: daemon.clone(), user };
    let mounted = daemon.mount_named_volume(pb::MountNamedVolumeRequest { name, id, timeout_ms: MOUNT_MS }).await;
    abandoned.user = None;
    Ok(json!({ "Mountpoint": mounted?.into_inner().path, "Err": "" }))
}

async fn unmount(mut daemon: Daemon, name: String, id: String) -> Result<Value, Status> {
    daemon.unmount_named_volume(pb::UnmountNamedVolumeRequest { name, id, timeout_ms: MOUNT_MS }).await?;
    Ok(done())
}

async fn path(daemon: Daemon, request: CallRequest) -> Result<Value, Status> {
    let volume = get(daemon, request).await?;
    Ok(json!({ "Mountpoint": volume.mountpoint(), "Err": "" }))
}

async fn remove(mut daemon: Daemon, request: CallRequest) -> Result<Value, Status> {
    daemon.remove_named_volume(pb::RemoveNamedVolumeRequest { name: request.name }).await?;
    Ok(done())
}

/// Unmounts the volume of a new user again if the engine closes the connection before it has the
/// answer: the engine counts the mount as failed, and never unmounts it.
#[derive(Debug)]
struct AbandonedMount {
    daemon: Daemon,
    user: Option<(String, String)>,
}

impl Drop for AbandonedMount {
    fn drop(&mut self) {
        let (Some((name, id)), Ok(runtime)) = (self.user.take(), Handle::try_current()) else { return };
        let daemon = self.daemon.clone();
        // The daemon goes on unmounting after an error; there is no caller to report it to.
        runtime.spawn(async move { drop(unmount(daemon, name, id).await) });
    }
}
