//! The custom resources of snapshots in the cluster: watched while their definitions exist.
//!
//! ```text
//!  definitions --all there--> watches --all listed--> known: snapshots are worked on
//!       ^                                               |
//!       '------------------- one is gone ---------------'
//! ```

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::watch;
use tracing::info;

use super::objects::{DEFINITIONS, VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use crate::cache::Cache;

/// How long the start waits for the resources. Without the permission to see their definitions,
/// they are never known, and the controller does its other work.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// What is called with each object that was added, changed or deleted (then with `true`).
type OnChange<K> = Arc<dyn Fn(&K, bool) + Send + Sync>;
type Definition = Cache<PartialObjectMeta<CustomResourceDefinition>>;

/// What is called with changes.
#[derive(Clone)]
pub(crate) struct SnapshotHandlers {
    /// Of snapshots.
    pub(crate) snapshots: OnChange<VolumeSnapshot>,
    /// Of contents.
    pub(crate) contents: OnChange<VolumeSnapshotContent>,
    /// Of classes.
    pub(crate) classes: OnChange<VolumeSnapshotClass>,
}

/// The objects.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotCaches {
    snapshots: Cache<VolumeSnapshot>,
    contents: Cache<VolumeSnapshotContent>,
    classes: Cache<VolumeSnapshotClass>,
}

impl SnapshotCaches {
    fn start(client: &Client, handlers: &SnapshotHandlers) -> Self {
        let SnapshotHandlers { snapshots, contents, classes } = handlers.clone();
        Self {
            snapshots: Cache::start(client, Box::new(move |object, is_gone| snapshots(object, is_gone))),
            contents: Cache::start(client, Box::new(move |object, is_gone| contents(object, is_gone))),
            classes: Cache::start(client, Box::new(move |object, is_gone| classes(object, is_gone))),
        }
    }

    async fn wait_ready(&self) -> bool {
        let ready =
            tokio::try_join!(self.snapshots.wait_ready(), self.contents.wait_ready(), self.classes.wait_ready());
        ready.is_ok()
    }

    /// Calls the handlers with each object.
    fn report(&self, handlers: &SnapshotHandlers) {
        self.classes.all().iter().for_each(|class| (handlers.classes)(class, false));
        self.contents.all().iter().for_each(|content| (handlers.contents)(content, false));
        self.snapshots.all().iter().for_each(|snapshot| (handlers.snapshots)(snapshot, false));
    }

    /// The snapshot of this name.
    pub(crate) fn snapshot(&self, namespace: &str, name: &str) -> Option<Arc<VolumeSnapshot>> {
        self.snapshots.get(&ObjectRef::new(name).within(namespace))
    }

    /// Whether there is a snapshot for which this holds.
    pub(crate) fn has_snapshot(&self, predicate: impl Fn(&VolumeSnapshot) -> bool) -> bool {
        self.snapshots.find(predicate).is_some()
    }

    /// The content of this name.
    pub(crate) fn content(&self, name: &str) -> Option<Arc<VolumeSnapshotContent>> {
        self.contents.get(&ObjectRef::new(name))
    }

    /// The class of this name.
    pub(crate) fn class(&self, name: &str) -> Option<Arc<VolumeSnapshotClass>> {
        self.classes.get(&ObjectRef::new(name))
    }

    /// All classes.
    pub(crate) fn classes(&self) -> Vec<Arc<VolumeSnapshotClass>> {
        self.classes.all()
    }

    /// A snapshot is now this: the API server's answer to a write.
    pub(crate) fn wrote_snapshot(&self, snapshot: VolumeSnapshot) {
        self.snapshots.wrote(snapshot);
    }

    /// A content is now this: the API server's answer to a write.
    pub(crate) fn wrote_content(&self, content: VolumeSnapshotContent) {
        self.contents.wrote(content);
    }

    /// A content was made, and is this.
    pub(crate) fn created_content(&self, content: VolumeSnapshotContent) {
        self.contents.created(content);
    }
}

/// The objects, if their definitions exist. Cloning is cheap.
#[derive(Clone, Default)]
pub(crate) struct KnownSnapshots {
    caches: Arc<RwLock<Option<SnapshotCaches>>>,
    looked: Option<watch::Receiver<bool>>,
}

impl fmt::Debug for KnownSnapshots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KnownSnapshots").field("are_known", &self.get().is_some()).finish()
    }
}

impl KnownSnapshots {
    /// Watches the definitions, and the resources while there are definitions. Needs a tokio
    /// runtime.
    pub(crate) fn start(client: &Client, handlers: SnapshotHandlers) -> Self {
        let (looked, first_look) = watch::channel(false);
        let known = Self { caches: Arc::default(), looked: Some(first_look) };
        tokio::spawn(follow(client.clone(), handlers, Arc::clone(&known.caches), looked));
        known
    }

    /// The objects. `None` while one of the definitions is missing.
    pub(crate) fn get(&self) -> Option<SnapshotCaches> {
        self.caches.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for some time until it is known whether there are definitions, and for the objects.
    pub(crate) async fn wait_first_look(&self) {
        if let Some(mut looked) = self.looked.clone() {
            let _ = tokio::time::timeout(FIRST_LOOK, looked.wait_for(|looked| *looked)).await;
        }
    }
}

/// Publishes the objects while their definitions exist.
async fn follow(
    client: Client,
    handlers: SnapshotHandlers,
    published: Arc<RwLock<Option<SnapshotCaches>>>,
    looked: watch::Sender<bool>,
) {
    let publish = |caches| *published.write().unwrap_or_else(PoisonError::into_inner) = caches;
    let (changed, mut changes) = watch::channel(());
    let definitions = DEFINITIONS.map(|name| {
        let changed = changed.clone();
        Definition::start_for(&client, name, Box::new(move |_, _| changed.send_replace(())))
    });
    for definition in &definitions {
        if definition.wait_ready().await.is_err() {
            return;
        }
    }
    loop {
        if !exist(&definitions) {
            looked.send_replace(true);
        }
        if changes.wait_for(|()| exist(&definitions)).await.is_err() {
            return;
        }
        let caches = SnapshotCaches::start(&client, &handlers);
        let is_ready = tokio::select! {
            is_ready = caches.wait_ready() => is_ready,
            _ = changes.wait_for(|()| !exist(&definitions)) => false,
        };
        if !is_ready {
            continue;
        }
        info!("the cluster has the custom resources of snapshots");
        publish(Some(caches.clone()));
        // What was reported before was worked on without them.
        caches.report(&handlers);
        drop(caches);
        looked.send_replace(true);
        if changes.wait_for(|()| !exist(&definitions)).await.is_err() {
            return;
        }
        info!("the cluster has the custom resources of snapshots no more");
        publish(None);
    }
}

fn exist(definitions: &[Definition]) -> bool {
    definitions.iter().zip(DEFINITIONS).all(|(definition, name)| {
        definition.get(&ObjectRef::new(name)).is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    })
}
