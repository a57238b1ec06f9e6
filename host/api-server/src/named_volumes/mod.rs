//! The `NamedVolumes` service.
//!
//! A named volume is a claim with a StorageClass, and a user of it is a pod: the provisioner, the
//! store and the state machine do all the work, and keep all the state.
//!
//! ```text
//!  create --> StorageClass + claim --> provisioner --> PersistentVolume
//!  mount  --> pod of the user      --> core: attach, stage, publish
//!  umount --> pod removed          --> core: unpublish; for the last user unstage, detach
//!  rm     --> claim removed        --> provisioner deletes the volume
//! ```
//!
//! Adding a user and removing a volume exclude each other, so that a volume with a user stays.

mod local;
mod names;
mod options;
mod volumes;

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use volhost_api::DEFAULT_WAIT;
use volhost_api::pb;
use volhost_api::pb::named_volumes_server::NamedVolumes;
use volhost_node::event_loop::NodeHandle;

use super::status::stopping;
use names::VolumeName;
use options::VolumeOptions;
use volumes::{Volumes, VolumesError};

/// Answers from the node's claims and pods.
#[derive(Debug)]
pub(super) struct NamedVolumesService {
    volumes: Volumes,
    shutdown: CancellationToken,
}

impl NamedVolumesService {
    pub(super) fn new(node: NodeHandle, shutdown: CancellationToken) -> Self {
        Self { volumes: Volumes::new(node), shutdown }
    }

    /// Waits for the answer, or for the end of volhost.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T, VolumesError>>) -> Result<Response<T>, Status> {
        tokio::select! {
            answer = answer => answer.map(Response::new).map_err(Status::from),
            () = self.shutdown.cancelled() => Err(stopping()),
        }
    }
}

fn volume_name(name: &str) -> Result<VolumeName, Status> {
    VolumeName::new(name).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn timeout(milliseconds: u64) -> Duration {
    if milliseconds == 0 { DEFAULT_WAIT } else { Duration::from_millis(milliseconds) }
}

#[tonic::async_trait]
impl NamedVolumes for NamedVolumesService {
    async fn create_named_volume(
        &self,
        request: Request<pb::CreateNamedVolumeRequest>,
    ) -> Result<Response<pb::CreateNamedVolumeResponse>, Status> {
        let pb::CreateNamedVolumeRequest { name, options } = request.into_inner();
        let volume = volume_name(&name)?;
        let options = VolumeOptions::read(options).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.answer(async {
            self.volumes.create(&volume, &options).await?;
            Ok(pb::CreateNamedVolumeResponse {})
        })
        .await
    }

    async fn list_named_volumes(
        &self,
        request: Request<pb::ListNamedVolumesRequest>,
    ) -> Result<Response<pb::ListNamedVolumesResponse>, Status> {
        let name = request.into_inner().name;
        self.answer(async {
            let mut volumes = self.volumes.list().await?;
            volumes.retain(|volume| name.is_empty() || volume.name == name);
            Ok(pb::ListNamedVolumesResponse { volumes })
        })
        .await
    }

    async fn mount_named_volume(
        &self,
        request: Request<pb::MountNamedVolumeRequest>,
    ) -> Result<Response<pb::MountNamedVolumeResponse>, Status> {
        let pb::MountNamedVolumeRequest { name, id, timeout_ms } = request.into_inner();
        let volume = volume_name(&name)?;
        self.answer(async {
            let path = self.volumes.mount(&volume, &id, timeout(timeout_ms)).await?;
            Ok(pb::MountNamedVolumeResponse { path })
        })
        .await
    }

    async fn unmount_named_volume(
        &self,
        request: Request<pb::UnmountNamedVolumeRequest>,
    ) -> Result<Response<pb::UnmountNamedVolumeResponse>, Status> {
        let pb::UnmountNamedVolumeRequest { name, id, timeout_ms } = request.into_inner();
        let volume = volume_name(&name)?;
        self.answer(async {
            self.volumes.unmount(&volume, &id, timeout(timeout_ms)).await?;
            Ok(pb::UnmountNamedVolumeResponse {})
        })
        .await
    }

    async fn remove_named_volume(
        &self,
        request: Request<pb::RemoveNamedVolumeRequest>,
    ) -> Result<Response<pb::RemoveNamedVolumeResponse>, Status> {
        let volume = volume_name(&request.into_inner().name)?;
        self.answer(async {
            self.volumes.remove(&volume).await?;
            Ok(pb::RemoveNamedVolumeResponse {})
        })
        .await
    }

    async fn resize_named_volume(
        &self,
        request: Request<pb::ResizeNamedVolumeRequest>,
    ) -> Result<Response<pb::ResizeNamedVolumeResponse>, Status> {
        let pb::ResizeNamedVolumeRequest { name, size } = request.into_inner();
        let volume = volume_name(&name)?;
        let size = options::parse_size(&size).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.answer(async {
            self.volumes.resize(&volume, size).await?;
            Ok(pb::ResizeNamedVolumeResponse {})
        })
        .await
    }
}
