//! Custom resources that belong together: watched while the cluster has all their definitions.
//!
//! ```text
//!  definitions --all there--> watches --all listed--> known: they are worked on
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

use crate::cache::Cache;

/// How long the start waits for the resources. Without the permission to see their definitions,
/// they are never known, and the controller does its other work.
const FIRST_LOOK: Duration = Duration::from_secs(10);

type Definition = Cache<PartialObjectMeta<CustomResourceDefinition>>;

/// Custom resources that belong together.
pub(crate) trait ResourceSet: Clone + Send + Sync + 'static {
    /// What is called with changes.
    type Handlers: Clone + Send + Sync + 'static;
    /// What they are for, for the log.
    const TITLE: &'static str;
    /// The names of their definitions.
    const DEFINITIONS: [&'static str; 3];

    /// Starts the watches. Needs a tokio runtime.
    fn start(client: &Client, handlers: &Self::Handlers) -> Self;

    /// Waits until all objects are known. Returns false if a watch has ended.
    fn wait_ready(&self) -> impl Future<Output = bool> + Send;

    /// Calls the handlers with each object.
    fn report(&self, handlers: &Self::Handlers);
}

/// The objects, if their definitions exist. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Known<S> {
    caches: Arc<RwLock<Option<S>>>,
    looked: Option<watch::Receiver<bool>>,
}

impl<S: ResourceSet> fmt::Debug for Known<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Known").field("are_known", &self.get().is_some()).finish()
    }
}

impl<S: ResourceSet> Known<S> {
    /// Watches the definitions, and the resources while there are definitions. Needs a tokio
    /// runtime.
    pub(crate) fn start(client: &Client, handlers: S::Handlers) -> Self {
        let (looked, first_look) = watch::channel(false);
        let known = Self { caches: Arc::default(), looked: Some(first_look) };
        tokio::spawn(follow(client.clone(), handlers, Arc::clone(&known.caches), looked));
        known
    }

    /// The objects. `None` while one of the definitions is missing.
    pub(crate) fn get(&self) -> Option<S> {
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
async fn follow<S: ResourceSet>(
    client: Client,
    handlers: S::Handlers,
    published: Arc<RwLock<Option<S>>>,
    looked: watch::Sender<bool>,
) {
    let publish = |caches| *published.write().unwrap_or_else(PoisonError::into_inner) = caches;
    let (changed, mut changes) = watch::channel(());
    let definitions = S::DEFINITIONS.map(|name| {
        let changed = changed.clone();
        Definition::start_for(&client, name, Box::new(move |_, _| changed.send_replace(())))
    });
    for definition in &definitions {
        if definition.wait_ready().await.is_err() {
            return;
        }
    }
    loop {
        if !exist::<S>(&definitions) {
            looked.send_replace(true);
        }
        if changes.wait_for(|()| exist::<S>(&definitions)).await.is_err() {
            return;
        }
        let caches = S::start(&client, &handlers);
        let is_ready = tokio::select! {
            is_ready = caches.wait_ready() => is_ready,
            _ = changes.wait_for(|()| !exist::<S>(&definitions)) => false,
        };
        if !is_ready {
            continue;
        }
        info!("the cluster has the custom resources of {}", S::TITLE);
        publish(Some(caches.clone()));
        // What was reported before was worked on without them.
        caches.report(&handlers);
        drop(caches);
        looked.send_replace(true);
        if changes.wait_for(|()| !exist::<S>(&definitions)).await.is_err() {
            return;
        }
        info!("the cluster has the custom resources of {} no more", S::TITLE);
        publish(None);
    }
}

fn exist<S: ResourceSet>(definitions: &[Definition]) -> bool {
    definitions.iter().zip(S::DEFINITIONS).all(|(definition, name)| {
        definition.get(&ObjectRef::new(name)).is_some_and(|found| found.metadata.deletion_timestamp.is_none())
    })
}
