//! Calls of the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::service_fn;
use volhost_api::pb;
use volhost_api::pb::cluster_plugins_client::ClusterPluginsClient;
use volhost_api::pb::inspect_client::InspectClient;
use volhost_api::pb::install_cluster_plugin_request::Part;
use volhost_api::pb::volume_manager_client::VolumeManagerClient;
use volhost_objects::{Kind, ObjectKey};

use crate::cluster_object::ClusterObject;
use crate::plan::{Held, HeldObjects};

/// Bytes of a component in one message.
const PART_BYTES: usize = 1 << 20;
/// How long the daemon may take to answer a call that does not wait.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The daemon does not take this object, and why. It may take others.
    Refused(String),
    /// The daemon is not there, or is another one by now.
    Lost(Status),
}

impl From<Status> for CallError {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::ResourceExhausted
            | Code::OutOfRange => Self::Refused(status.message().to_owned()),
            _ => Self::Lost(status),
        }
    }
}

/// The daemon at a socket. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    manager: VolumeManagerClient<Channel>,
    inspect: InspectClient<Channel>,
    plugins: ClusterPluginsClient<Channel>,
}

/// The attachable volumes that the daemon wants or has, list after list.
#[derive(Debug)]
pub(crate) struct VolumesInUse(tonic::Streaming<pb::VolumesInUse>);

impl VolumesInUse {
    /// The next list; the first comes at once. Cancel-safe.
    ///
    /// # Errors
    /// The daemon is lost.
    pub(crate) async fn next(&mut self) -> Result<BTreeSet<String>, Status> {
        let list = self.0.message().await?.ok_or_else(daemon_ends)?;
        Ok(list.volumes.into_iter().collect())
    }
}

/// The end of what the daemon streams.
pub(crate) fn daemon_ends() -> Status {
    Status::cancelled("the daemon ends")
}

impl Daemon {
    /// A daemon that is connected to at the first call. Needs a tokio runtime.
    pub(crate) fn new(socket: &Path) -> Self {
        let path = socket.to_owned();
        let connector = service_fn(move |_: Uri| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?)) }
        });
        // The name is never resolved: the connector knows the socket.
        let channel = Endpoint::from_static("http://volhost").connect_with_connector_lazy(connector);
        Self {
            manager: VolumeManagerClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            plugins: ClusterPluginsClient::new(channel.clone()),
            inspect: InspectClient::new(channel).max_decoding_message_size(usize::MAX),
        }
    }

    /// What the daemon has of the cluster: what clients have added that an API server has had.
    pub(crate) async fn objects(&self) -> Result<HeldObjects, Status> {
        let listed = self.manager.clone().list_objects(timed(pb::ListObjectsRequest {})).await?.into_inner().objects;
        let objects = listed.into_iter().filter(|object| !object.resource_version.is_empty());
        let objects = objects.filter_map(|object| {
            let key = ObjectKey::new(Kind::from_name(&object.kind)?, object.namespace, object.name);
            Some((key, Held { uid: object.uid, resource_version: object.resource_version }))
        });
        Ok(objects.collect())
    }

    /// Adds or replaces an object.
    pub(crate) async fn add(&self, object: &ClusterObject) -> Result<(), CallError> {
        let request = pb::AddPodsRequest {
            manifest: object.text.clone(),
            wait_ms: 0,
            // A newer API server has fields that this version does not know.
            field_validation: pb::FieldValidation::Ignore.into(),
            dry_run: false,
        };
        self.manager.clone().add_pods(timed(request)).await?;
        Ok(())
    }

    /// Removes an object. One that it does not have is no error.
    pub(crate) async fn remove(&self, key: &ObjectKey, held: &Held) -> Result<(), CallError> {
        let mut manager = self.manager.clone();
        let removed = if key.kind == Kind::Pod {
            let pod = pb::PodSelector { uid: held.uid.clone(), ..pb::PodSelector::default() };
            manager.remove_pod(timed(pb::RemovePodRequest { pod: Some(pod) })).await.map(drop)
        } else {
            let (kind, namespace, name) = (key.kind.name().to_owned(), key.namespace.clone(), key.name.clone());
            manager.remove_object(timed(pb::RemoveObjectRequest { kind, namespace, name })).await.map(drop)
        };
        match removed {
            Err(status) if status.code() != Code::NotFound => Err(status.into()),
            _ => Ok(()),
        }
    }

    /// Says that the daemon has all pods of the cluster.
    pub(crate) async fn sources_ready(&self) -> Result<(), Status> {
        self.manager.clone().sources_ready(timed(pb::SourcesReadyRequest {})).await.map(drop)
    }

    /// Sets the labels of this node.
    pub(crate) async fn set_labels(&self, labels: BTreeMap<String, String>) -> Result<(), Status> {
        let labels = pb::NodeLabels { labels: labels.into_iter().collect() };
        self.manager.clone().set_node_labels(timed(labels)).await.map(drop)
    }

    /// Watches the attachable volumes that it wants or has.
    pub(crate) async fn watch_volumes_in_use(&self) -> Result<VolumesInUse, Status> {
        let lists = self.manager.clone().watch_volumes_in_use(pb::WatchVolumesInUseRequest {}).await?;
        Ok(VolumesInUse(lists.into_inner()))
    }

    /// Says that the node's status reports these volumes as in use.
    pub(crate) async fn reported_in_use(&self, volumes: &BTreeSet<String>) -> Result<(), Status> {
        let volumes = pb::VolumesInUse { volumes: volumes.iter().cloned().collect() };
        self.manager.clone().mark_volumes_as_reported_in_use(timed(volumes)).await.map(drop)
    }

    /// Says that the cluster attaches this node's volumes, and says so by VolumeAttachments: without
    /// one, none is attached.
    pub(crate) async fn cluster_attaches(&self) -> Result<(), CallError> {
        self.manager.clone().set_node_attachments(timed(pb::NodeAttachments::default())).await?;
        Ok(())
    }

    /// The number of the last event.
    pub(crate) async fn last_event(&self) -> Result<u64, Status> {
        let events = self.inspect.clone().list_events(timed(pb::ListEventsRequest::default())).await?;
        Ok(events.into_inner().events.last().map(|event| event.sequence).unwrap_or_default())
    }

    /// Watches objects of a kind, or events after this number.
    pub(crate) async fn watch(&self, kind: pb::Kind, after: u64) -> Result<tonic::Streaming<pb::WatchUpdate>, Status> {
        let events = pb::ListEventsRequest { after, object: String::new() };
        let request = pb::WatchRequest { kind: kind.into(), filter: None, events: Some(events) };
        Ok(self.inspect.clone().watch(request).await?.into_inner())
    }

    /// What the cluster has installed; none if the node's operator does not let it.
    pub(crate) async fn cluster_plugins(&self) -> Result<Option<Vec<pb::InstalledClusterPlugin>>, Status> {
        match self.plugins.clone().list_cluster_plugins(timed(pb::ListClusterPluginsRequest {})).await {
            Ok(answer) => Ok(Some(answer.into_inner().plugins)),
            // Unimplemented: an older daemon.
            Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::Unimplemented) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Installs a plugin for the cluster; without a component, that of its digest is installed.
    pub(crate) async fn install_plugin(
        &self,
        plugin: pb::ClusterPlugin,
        component: Option<Vec<u8>>,
    ) -> Result<(), Status> {
        let first = pb::InstallClusterPluginRequest { part: Some(Part::Plugin(plugin)) };
        let parts: Vec<_> = component.iter().flat_map(|component| component.chunks(PART_BYTES)).collect();
        let parts = parts
            .into_iter()
            .map(|part| pb::InstallClusterPluginRequest { part: Some(Part::Component(part.to_vec())) });
        let parts: Vec<_> = std::iter::once(first).chain(parts).collect();
        self.plugins.clone().install_cluster_plugin(timed(tokio_stream::iter(parts))).await.map(drop)
    }

    /// Removes a plugin that the cluster has installed.
    pub(crate) async fn remove_plugin(&self, plugin: &str) -> Result<(), Status> {
        let request = pb::RemoveClusterPluginRequest { plugin: plugin.to_owned() };
        self.plugins.clone().remove_cluster_plugin(timed(request)).await.map(drop)
    }

    /// Offers to issue tokens. Returns the questions.
    pub(crate) async fn issue_tokens(
        &self,
        answers: tokio::sync::mpsc::Receiver<pb::TokenAnswer>,
    ) -> Result<tonic::Streaming<pb::TokenQuestion>, Status> {
        let answers = tokio_stream::wrappers::ReceiverStream::new(answers);
        Ok(self.manager.clone().issue_tokens(answers).await?.into_inner())
    }
}

fn timed<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(ANSWER_TIME);
    request
}
