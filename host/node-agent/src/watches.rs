//! The watches: of all objects of a kind, and of single ones by name.
//!
//! A watch begins with a list, of one object for a single one, and goes on from there; none asks
//! again while the API server answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Client};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use volhost_cluster_client::{ConnectionError, Starts, is_undefined, watch_all, watch_one};
use volhost_objects::{Kind, ObjectKey};

use crate::cluster_object::ClusterObject;
use crate::known::{News, all_of};

/// How many watches one connection has: an API server takes 100 requests at once over one, and the
/// next waits until another has ended, which a watch does not.
const WATCHES_PER_CONNECTION: usize = 80;
/// How many watches of single objects begin at once.
const STARTS: usize = 4;

/// Makes clients with connections of their own, for watches that begin in turns.
pub(crate) type Connect = Box<dyn Fn(&Starts) -> Result<Client, ConnectionError> + Send + Sync>;

/// The watches. Dropping it ends them.
pub(crate) struct Watches {
    /// For the watches of all objects of a kind.
    first: Client,
    connect: Connect,
    node: Arc<str>,
    /// For the others, each with the number of its watches.
    clients: Vec<(Client, Arc<AtomicUsize>)>,
    news: mpsc::UnboundedSender<News>,
    tasks: JoinSet<()>,
    starts: Starts,
    named: BTreeMap<ObjectKey, AbortHandle>,
    bundles: Option<AbortHandle>,
}

impl Watches {
    /// Watches the pods of this node, and the CSIDrivers. Needs a tokio runtime.
    pub(crate) fn start(client: &Client, connect: Connect, node: &str, news: mpsc::UnboundedSender<News>) -> Self {
        let mut watches = Self {
            first: client.clone(),
            connect,
            node: node.into(),
            clients: Vec::new(),
            news,
            tasks: JoinSet::new(),
            starts: Starts::new(STARTS),
            named: BTreeMap::new(),
            bundles: None,
        };
        watches.watch_all_of(Kind::Pod, Config::default().fields(&format!("spec.nodeName={node}")));
        watches.watch_all_of(Kind::CsiDriver, Config::default());
        watches
    }

    fn watch_all_of(&mut self, kind: Kind, config: Config) -> AbortHandle {
        self.tasks.spawn(all(self.first.clone(), kind, config, Arc::clone(&self.node), self.news.clone()))
    }

    /// Watches these single objects, and no others any more.
    pub(crate) fn set_named(&mut self, wanted: &BTreeSet<ObjectKey>) {
        self.named.retain(|key, watch| {
            let is_wanted = wanted.contains(key);
            if !is_wanted {
                watch.abort();
            }
            is_wanted
        });
        for key in wanted {
            if !self.named.contains_key(key) {
                let (client, place) = self.client();
                let (key, news) = (key.clone(), self.news.clone());
                let watching = one(client, key.clone(), Arc::clone(&self.node), news);
                let watch = self.tasks.spawn(async move {
                    let _place = place;
                    watching.await;
                });
                self.named.insert(key, watch);
            }
        }
        while self.tasks.try_join_next().is_some() {}
    }

    /// A client with room for one more watch, and the watch's place on its connection.
    fn client(&mut self) -> (Client, Place) {
        let has_room =
            |(_, watches): &&(Client, Arc<AtomicUsize>)| watches.load(Ordering::Relaxed) < WATCHES_PER_CONNECTION;
        if let Some((client, watches)) = self.clients.iter().find(has_room) {
            return (client.clone(), Place::take(watches));
        }
        // It was made from the same configuration before.
        let client = (self.connect)(&self.starts).unwrap_or_else(|_| self.first.clone());
        let watches = Arc::default();
        let place = Place::take(&watches);
        self.clients.push((client.clone(), watches));
        (client, place)
    }

    /// Watches the ClusterTrustBundles, from the first time that it is asked for.
    pub(crate) fn watch_bundles(&mut self) {
        if self.bundles.is_none() {
            self.bundles = Some(self.watch_all_of(Kind::ClusterTrustBundle, Config::default()));
        }
    }
}

/// The place of a watch on a connection. Dropping it frees the place.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(watches: &Arc<AtomicUsize>) -> Self {
        watches.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(watches))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// This node, as the API server has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeObject {
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// `status.volumesInUse`.
    pub(crate) in_use: BTreeSet<String>,
}

/// What is known of this node; none before it has been read.
pub(crate) type KnownNode = watch::Receiver<Option<NodeObject>>;

/// Watches this node.
pub(crate) async fn watch_node(client: Client, node: String, known: watch::Sender<Option<NodeObject>>) {
    let mut stream = std::pin::pin!(watch_one(Api::<Node>::all(client), &node));
    while let Some(seen) = stream.next().await {
        match seen {
            Ok(Some(seen)) => {
                let (uid, labels) = (seen.metadata.uid.unwrap_or_default(), seen.metadata.labels.unwrap_or_default());
                let in_use = seen.status.and_then(|status| status.volumes_in_use).unwrap_or_default();
                let new = Some(NodeObject { uid, labels, in_use: in_use.into_iter().collect() });
                // It also changes with each heartbeat of its status.
                known.send_if_modified(|before| {
                    let is_new = *before != new;
                    *before = new;
                    is_new
                });
            }
            Ok(None) => tracing::warn!(node, "the cluster has no Node of this name; create it, or give --node-name"),
            Err(error) => tracing::warn!(node, "the Node cannot be watched now: {error}"),
        }
    }
}

/// The resource of a kind.
fn resource(kind: Kind) -> ApiResource {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind.name()));
    resource.plural = format!("{}s", kind.name().to_ascii_lowercase());
    resource
}

fn stream(
    client: Client,
    kind: Kind,
    config: Config,
) -> impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>> + Send {
    watch_all(Api::<DynamicObject>::all_with(client, &resource(kind)), config)
}

/// Watches all objects of a kind.
async fn all(client: Client, kind: Kind, config: Config, node: Arc<str>, news: mpsc::UnboundedSender<News>) {
    let mut stream = std::pin::pin!(stream(client, kind, config));
    let mut listing = Vec::new();
    while let Some(event) = stream.next().await {
        let update = match event {
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listing.extend(ClusterObject::read(kind, object, &node));
                continue;
            }
            Ok(Event::InitDone) => News::Listed(kind, std::mem::take(&mut listing)),
            Ok(Event::Apply(object)) => match ClusterObject::read(kind, object, &node) {
                Some(object) => News::Object(object.key.clone(), Some(object)),
                None => continue,
            },
            Ok(Event::Delete(object)) => match ClusterObject::read(kind, object, &node) {
                Some(object) => News::Object(object.key, None),
                None => continue,
            },
            // A cluster without the kind has no object of it.
            Err(error) if is_undefined(&error) => News::Listed(kind, Vec::new()),
            Err(error) => failed(all_of(kind), &error),
        };
        // The receiver is gone only when the agent ends.
        let _ = news.send(update);
    }
}

/// Watches one object.
async fn one(client: Client, key: ObjectKey, node: Arc<str>, news: mpsc::UnboundedSender<News>) {
    let resource = resource(key.kind);
    let api: Api<DynamicObject> = match key.kind.is_namespaced() {
        true => Api::namespaced_with(client, &key.namespace, &resource),
        false => Api::all_with(client, &resource),
    };
    let mut stream = std::pin::pin!(watch_one(api, &key.name));
    while let Some(seen) = stream.next().await {
        let update = match seen {
            Ok(object) => {
                News::Object(key.clone(), object.and_then(|object| ClusterObject::read(key.kind, object, &node)))
            }
            Err(error) => failed(key.clone(), &error),
        };
        let _ = news.send(update);
    }
}

fn failed(key: ObjectKey, error: &watcher::Error) -> News {
    // The sentence of the API server, where it gave one.
    let why = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.message.clone(),
        error => chain(error),
    };
    tracing::debug!("{key}: {why}");
    News::Failed(key, why)
}

/// An error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
