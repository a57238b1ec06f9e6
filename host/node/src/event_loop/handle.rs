//! A handle to the event loop for other threads. Cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot};
use volhost_core::WaitFailure;
use volhost_model::view::{DriverView, EventView, OperationView, PastOperationView, PluginView, UsageView};
use volhost_recording::Recording;

use super::manifest_text::{FieldValidation, Manifest};
use super::requests::{
    Added, AddedObject, Claims, Compared, ForceTarget, MountView, MountedVolume, NodeStatus, Planned, PodSelector,
    Request, RequestError, Snapshot,
};
use volhost_metrics::Exposition;
use volhost_model::view::Change;
use volhost_objects::ObjectKey;
use volhost_objects::payload::TokenClients;
use volhost_volume_ops::forced::Forced;
use volhost_volume_ops::stats::MeteredVolume;

/// A manifest of this size or more is parsed on a thread of its own: that takes longer than
/// changing threads.
const SPAWN_BYTES: usize = 16 << 10;

/// A handle to the event loop. Every call is cancel-safe: dropping it abandons the answer, not the
/// request.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    requests: mpsc::Sender<Request>,
    changes: broadcast::Sender<Change>,
    exposition: Arc<Exposition>,
    token_clients: Arc<TokenClients>,
}

impl NodeHandle {
    /// Creates a handle that sends its requests into this channel; the loop announces changes in
    /// `changes`.
    pub fn new(requests: mpsc::Sender<Request>, changes: broadcast::Sender<Change>) -> Self {
        Self { requests, changes, exposition: Arc::default(), token_clients: Arc::default() }
    }

    /// Sets the metrics.
    #[must_use]
    pub fn with_exposition(self, exposition: Exposition) -> Self {
        Self { exposition: Arc::new(exposition), ..self }
    }

    /// Sets the client that is asked for tokens.
    #[must_use]
    pub fn with_token_clients(self, token_clients: Arc<TokenClients>) -> Self {
        Self { token_clients, ..self }
    }

    async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, RequestError> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(make(answer)).await.map_err(|_| RequestError::Stopping)?;
        answered.await.map_err(|_| RequestError::Stopping)
    }

    /// Returns a receiver of the changes from now on. A receiver that lags has missed changes: list
    /// again.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Adds or replaces the objects of a manifest. All or nothing. `validation` decides about
    /// fields that their kinds lack.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] names line and field; [`RequestError::Conflict`] when a manifest file has the object;
    /// [`RequestError::NotKept`] when the objects cannot be kept for the next start.
    pub async fn add_objects(&self, manifest: String, validation: FieldValidation) -> Result<Added, RequestError> {
        let manifest = Self::read(manifest, validation).await?;
        self.ask(|answer| Request::AddObjects { manifest, answer }).await?
    }

    /// Checks whether the objects of a manifest could be added, and adds nothing. Returns what
    /// [`NodeHandle::add_objects`] would.
    ///
    /// # Errors
    /// As [`NodeHandle::add_objects`], except that the disk is not asked.
    pub async fn check_objects(&self, manifest: String, validation: FieldValidation) -> Result<Added, RequestError> {
        let manifest = Self::read(manifest, validation).await?;
        self.ask(|answer| Request::CheckObjects { manifest, answer }).await?
    }

    /// Checks objects as [`NodeHandle::check_objects`] does, and returns each as it is and as it
    /// would be.
    ///
    /// # Errors
    /// As [`NodeHandle::check_objects`]; [`RequestError::Failed`] when the present form of an object
    /// cannot be read.
    pub async fn compare_objects(
        &self,
        manifest: String,
        validation: FieldValidation,
    ) -> Result<Compared, RequestError> {
        let manifest = Self::read(manifest, validation).await?;
        self.ask(|answer| Request::CompareObjects { manifest, answer }).await?
    }

    /// Checks likewise, and returns what would be mounted and unmounted.
    ///
    /// # Errors
    /// As [`NodeHandle::check_objects`], and [`RequestError::Precondition`] on a node with too many
    /// objects.
    pub async fn plan_objects(&self, manifest: String, validation: FieldValidation) -> Result<Planned, RequestError> {
        let manifest = Self::read(manifest, validation).await?;
        self.ask(|answer| Request::PlanObjects { manifest, answer }).await?
    }

    /// Returns what a drain would unmount.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn plan_drain(&self) -> Result<Planned, RequestError> {
        self.ask(Request::PlanDrain).await?
    }

    async fn read(manifest: String, validation: FieldValidation) -> Result<Manifest, RequestError> {
        if manifest.len() < SPAWN_BYTES {
            return Ok(Manifest::read(manifest, validation));
        }
        let read = tokio::task::spawn_blocking(move || Manifest::read(manifest, validation));
        read.await.map_err(|_| RequestError::Stopping)
    }

    /// Returns the objects that [`NodeHandle::add_objects`] added, by key: also to an earlier run,
    /// but for its secrets.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn added_objects(&self) -> Result<Vec<AddedObject>, RequestError> {
        self.ask(Request::Objects).await
    }

    /// Sets the labels that the cluster gives this node, in place of those set before.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn set_node_labels(&self, labels: BTreeMap<String, String>) -> Result<(), RequestError> {
        self.ask(|answer| Request::SetNodeLabels { labels, answer }).await
    }

    /// Returns the client that is asked for tokens of service accounts.
    pub fn token_clients(&self) -> Arc<TokenClients> {
        Arc::clone(&self.token_clients)
    }

    /// Forgets a pod that [`NodeHandle::add_objects`] added; its volumes are unmounted.
    ///
    /// # Errors
    /// [`RequestError::UnknownPod`]; [`RequestError::Conflict`] when the pod comes from a manifest file; [`RequestError::NotKept`] when its
    /// file cannot be removed, so that a restart would bring it back.
    pub async fn remove_pod(&self, pod: PodSelector) -> Result<(), RequestError> {
        self.ask(|answer| Request::RemovePod { pod, answer }).await?
    }

    /// Notes that clients have added all their pods: pods that no source names do not exist.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn sources_ready(&self) -> Result<(), RequestError> {
        self.ask(Request::SourcesReady).await
    }

    /// Ends a drain: volumes are mounted again for the pods that want them.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn end_drain(&self) -> Result<bool, RequestError> {
        self.ask(Request::EndDrain).await
    }

    /// Forgets an object that [`NodeHandle::add_objects`] added, a missing claim, or a released
    /// volume. Returns what happens now, for the user.
    ///
    /// # Errors
    /// [`RequestError::UnknownObject`]; [`RequestError::Conflict`] when it comes from a manifest file, or a claim still needs it.
    pub async fn remove_object(&self, key: ObjectKey) -> Result<String, RequestError> {
        self.ask(|answer| Request::RemoveObject { key, answer }).await?
    }

    /// Waits until every volume the pod uses is mounted. The pod may be one that no source has
    /// named yet.
    ///
    /// # Errors
    /// The inner error has the state of each volume; [`RequestError::UnknownPod`] when the pod was
    /// not named in time.
    pub async fn wait_mounted(
        &self,
        pod: PodSelector,
        timeout: Duration,
    ) -> Result<Result<(), WaitFailure>, RequestError> {
        self.ask(|answer| Request::WaitMounted { pod, timeout, answer }).await?
    }

    /// Waits until nothing of the pod is mounted, or may be.
    ///
    /// # Errors
    /// The inner error has the state of each volume.
    pub async fn wait_unmounted(
        &self,
        pod: PodSelector,
        timeout: Duration,
    ) -> Result<Result<(), WaitFailure>, RequestError> {
        self.ask(|answer| Request::WaitUnmounted { pod, timeout, answer }).await?
    }

    /// Returns the pods and volumes at one moment. The work grows with their number.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn snapshot(&self) -> Result<Snapshot, RequestError> {
        self.ask(Request::Snapshot).await
    }

    /// Returns the operations that run or wait for a retry.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn operations(&self) -> Result<Vec<OperationView>, RequestError> {
        self.ask(Request::Operations).await
    }

    /// Returns the plugins.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn plugins(&self) -> Result<Vec<PluginView>, RequestError> {
        self.ask(Request::Plugins).await
    }

    /// Returns the external drivers.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn drivers(&self) -> Result<Vec<DriverView>, RequestError> {
        self.ask(Request::Drivers).await
    }

    /// Returns what is known of the node as a whole.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn status(&self) -> Result<NodeStatus, RequestError> {
        self.ask(Request::Status).await
    }

    /// Returns the last steps of the state machine.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn recording(&self) -> Result<Recording, RequestError> {
        self.ask(Request::Recording).await
    }

    /// Returns the last operations that have ended, oldest first; a bounded number of them.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn history(&self) -> Result<Vec<PastOperationView>, RequestError> {
        self.ask(Request::History).await
    }

    /// Returns the claims and the PersistentVolumes at one moment.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn claims(&self) -> Result<Claims, RequestError> {
        self.ask(Request::Claims).await
    }

    /// Returns the metrics in the OpenMetrics text format. Volumes that hang are left out and delay
    /// the others only briefly.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn metrics(&self) -> Result<String, RequestError> {
        let counts = self.ask(Request::Counts).await?;
        let exposition = self.exposition.clone();
        // Reading the usage of volumes may take a while, and a node with thousands of claims has a
        // long text.
        tokio::task::spawn_blocking(move || exposition.text(&counts)).await.map_err(|_| RequestError::Stopping)
    }

    /// Returns the usage of these volumes, in their order. A volume that hangs is shown with its
    /// last usage, and delays no other.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn volume_stats(
        &self,
        volumes: Vec<MeteredVolume>,
    ) -> Result<Vec<(MeteredVolume, UsageView)>, RequestError> {
        let exposition = self.exposition.clone();
        tokio::task::spawn_blocking(move || exposition.volume_stats(volumes)).await.map_err(|_| RequestError::Stopping)
    }

    /// Returns the events after this sequence number, oldest first; 0 for all that are in memory.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn events(&self, after: u64) -> Result<Vec<EventView>, RequestError> {
        self.ask(|answer| Request::Events { after, answer }).await
    }

    /// Returns the pod's mounts as the kernel reports them.
    ///
    /// # Errors
    /// [`RequestError::UnknownPod`].
    pub async fn mounts(&self, pod: PodSelector) -> Result<Vec<MountView>, RequestError> {
        self.ask(|answer| Request::Mounts { pod, answer }).await?
    }

    /// Returns the pod's mounted volumes; with `possibly`, also those that may be mounted.
    ///
    /// # Errors
    /// [`RequestError::UnknownPod`].
    pub async fn mounted_volumes(&self, pod: PodSelector, possibly: bool) -> Result<Vec<MountedVolume>, RequestError> {
        self.ask(|answer| Request::MountedVolumes { pod, possibly, answer }).await?
    }

    /// Returns the groups that the pod's PersistentVolumes ask for, without those it has already.
    ///
    /// # Errors
    /// [`RequestError::UnknownPod`].
    pub async fn extra_supplemental_groups(&self, pod: PodSelector) -> Result<Vec<i64>, RequestError> {
        self.ask(|answer| Request::ExtraSupplementalGroups { pod, answer }).await?
    }

    /// Returns the unique names of the attachable volumes that are wanted or attached, sorted.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn volumes_in_use(&self) -> Result<Vec<String>, RequestError> {
        self.ask(Request::VolumesInUse).await
    }

    /// Sets the volumes that the node's status reports as in use.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] for an invalid unique volume name.
    pub async fn mark_reported_in_use(&self, volumes: Vec<String>) -> Result<(), RequestError> {
        self.ask(|answer| Request::MarkReportedInUse { volumes, answer }).await?
    }

    /// Sets the volumes that a controller has attached to this node, each with its device path.
    ///
    /// # Errors
    /// [`RequestError::Precondition`] where the host attaches, [`RequestError::Invalid`] for an invalid unique volume name.
    pub async fn set_node_attachments(&self, attachments: Vec<(String, String)>) -> Result<(), RequestError> {
        self.ask(|answer| Request::SetNodeAttachments { attachments, answer }).await?
    }

    /// Whether the volume is attached.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn volume_is_attached(&self, volume: String) -> Result<bool, RequestError> {
        self.ask(|answer| Request::VolumeIsAttached { volume, answer }).await
    }

    /// Whether recovery is complete and every source has been read once.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn states_synced(&self) -> Result<bool, RequestError> {
        self.ask(Request::StatesSynced).await
    }

    /// Unmounts a volume lazily, even if it is in use; with `end_server`, ends the connection to
    /// its FUSE server first.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] when there is no such volume, or a pod that still wants it has it mounted; [`RequestError::Failed`] with the kernel's message.
    pub async fn force_unmount(&self, target: ForceTarget, end_server: bool) -> Result<Forced, RequestError> {
        self.ask(|answer| Request::ForceUnmount { target, end_server, answer }).await?
    }

    /// Unmounts every volume. Returns what is left when the time is over; empty when nothing is.
    ///
    /// # Errors
    /// [`RequestError::Stopping`].
    pub async fn drain(&self, timeout: Duration) -> Result<Vec<String>, RequestError> {
        self.ask(|answer| Request::Drain { timeout, answer }).await
    }
}
