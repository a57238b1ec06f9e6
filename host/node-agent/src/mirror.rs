//! Carries out plans: brings the daemon to what the API server has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tracing::{info, warn};
use volhost_cluster_client::Events;
use volhost_config::PodScope;
use volhost_objects::{Kind, Object, ObjectKey};

use crate::cluster_object::ClusterObject;
use crate::daemon::{CallError, Daemon};
use crate::growth::ClaimGrowth;
use crate::known::{Known, News, WHOLE_KINDS};
use crate::plan::{Held, HeldObjects, Plan, Planner, Step};
use crate::refusals::Refusals;
use crate::waiting::WaitingPods;
use crate::watches::{Connect, Watches};

/// The reason of such an event: the kubelet's.
const FAILED_MOUNT: &str = "FailedMount";

/// The pods that the cluster has, for events: `NAMESPACE/NAME` to their references.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodReferences(Arc<RwLock<BTreeMap<String, ObjectReference>>>);

impl PodReferences {
    /// The reference to a pod of this full name.
    pub(crate) fn get(&self, full_name: &str) -> Option<ObjectReference> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(full_name).cloned()
    }

    fn set(&self, known: &Known) {
        let pods = known.of_kind(Kind::Pod).map(|pod| (pod.key.full_name(), reference(pod))).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pods;
    }
}

fn reference(object: &ClusterObject) -> ObjectReference {
    let ObjectKey { kind, namespace, name } = &object.key;
    ObjectReference {
        api_version: Some(kind.api_version().to_owned()),
        kind: Some(kind.name().to_owned()),
        name: Some(name.clone()),
        namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    }
}

/// What was read from the API server. It outlives sessions with the daemon.
pub(crate) struct Mirror {
    node: String,
    scope: PodScope,
    known: Known,
    watches: Watches,
    watched: BTreeSet<ObjectKey>,
    news: mpsc::UnboundedReceiver<News>,
    events: Events,
    pods: PodReferences,
    growing: watch::Sender<Vec<ClaimGrowth>>,
    /// The kinds of which something has changed since `pods` and `growing` were made.
    changed: BTreeSet<Kind>,
    /// The last event about each object that waits or cannot be used: it is published once.
    reported: BTreeMap<ObjectKey, String>,
    waiting: WaitingPods,
}

/// What the daemon has, in one session with it.
#[derive(Debug, Default)]
struct Session {
    held: HeldObjects,
    /// As they were added in this session.
    added: BTreeMap<ObjectKey, Arc<Object>>,
    refused: Refusals,
    is_ready: bool,
}

impl Mirror {
    /// Starts the watches. Needs a tokio runtime.
    pub(crate) fn start(
        client: &kube::Client,
        connect: Connect,
        node: &str,
        scope: PodScope,
        events: Events,
        pods: PodReferences,
    ) -> Self {
        let (sender, news) = mpsc::unbounded_channel();
        Self {
            node: node.to_owned(),
            scope,
            known: Known::default(),
            watches: Watches::start(client, connect, node, sender),
            watched: BTreeSet::new(),
            news,
            events,
            pods,
            growing: watch::Sender::default(),
            changed: BTreeSet::new(),
            reported: BTreeMap::new(),
            waiting: WaitingPods::default(),
        }
    }

    /// The claims that wait for this node to grow their volumes.
    pub(crate) fn growing(&self) -> watch::Receiver<Vec<ClaimGrowth>> {
        self.growing.subscribe()
    }

    /// Keeps the daemon as the API server has it, until the daemon is lost.
    pub(crate) async fn keep(
        &mut self,
        daemon: &Daemon,
        mut in_use: watch::Receiver<BTreeSet<String>>,
    ) -> Result<(), Status> {
        let mut session = Session { held: daemon.objects().await?, ..Session::default() };
        loop {
            let volumes = in_use.borrow_and_update().clone();
            let next = self.carry_out(daemon, &mut session, &volumes).await?;
            tokio::select! {
                news = self.news.recv() => {
                    // The sender is here.
                    let Some(news) = news else { return Ok(()) };
                    self.take(news);
                    while let Ok(news) = self.news.try_recv() {
                        self.take(news);
                    }
                }
                changed = in_use.changed() => changed.map_err(|_| Status::cancelled("the session ends"))?,
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    fn take(&mut self, news: News) {
        match &news {
            // The last word of a watch that has ended.
            News::Object(key, _) | News::Failed(key, _)
                if !WHOLE_KINDS.contains(&key.kind) && !self.watched.contains(key) => {}
            _ => {
                self.changed.insert(news.kind());
                self.known.take(news);
            }
        }
    }

    /// Makes plans and carries them out until there is nothing to do. Returns when to try again what
    /// failed.
    async fn carry_out(
        &mut self,
        daemon: &Daemon,
        session: &mut Session,
        in_use: &BTreeSet<String>,
    ) -> Result<Option<Instant>, Status> {
        self.publish();
        loop {
            let (known, held) = (&self.known, &session.held);
            let planner = Planner { known, held, in_use, node: &self.node, scope: &self.scope };
            let mut plan = planner.plan();
            self.watch(&mut plan);
            let mut has_changed = false;
            for step in std::mem::take(&mut plan.steps) {
                has_changed |= self.step(daemon, session, step).await?;
            }
            if has_changed {
                continue;
            }
            let next = self.report_problems(&plan, session);
            let is_complete = self.known.has_pods()
                && plan.waiting.is_empty()
                && !self.known.unusable().any(|(object, _)| object.key.kind == Kind::Pod)
                && !session.refused.has_pod();
            if is_complete && !session.is_ready {
                daemon.sources_ready().await?;
                session.is_ready = true;
                info!(pods = self.known.of_kind(Kind::Pod).count(), "the daemon has all pods of this node");
            }
            return Ok(next);
        }
    }

    /// Tells the others which pods there are, and which claims grow.
    fn publish(&mut self) {
        if self.changed.remove(&Kind::Pod) {
            self.pods.set(&self.known);
        }
        if self.changed.remove(&Kind::PersistentVolumeClaim) {
            let claims = self.known.of_kind(Kind::PersistentVolumeClaim);
            let growing: Vec<ClaimGrowth> = claims.filter_map(|claim| claim.growth.as_deref().cloned()).collect();
            self.growing.send_if_modified(|known| {
                let is_new = *known != growing;
                *known = growing;
                is_new
            });
        }
    }

    fn watch(&mut self, plan: &mut Plan) {
        if plan.wants_bundles {
            self.watches.watch_bundles();
        }
        if plan.watched != self.watched {
            self.watches.set_named(&plan.watched);
            self.watched = std::mem::take(&mut plan.watched);
            self.known.retain_named(&self.watched);
            // Those that are forgotten.
            self.changed.insert(Kind::PersistentVolumeClaim);
        }
    }

    /// Returns whether the daemon has something else now.
    async fn step(&mut self, daemon: &Daemon, session: &mut Session, step: Step) -> Result<bool, Status> {
        match step {
            Step::Remove(key, held) => {
                let version = &held.resource_version;
                if session.refused.is_too_early(&key, version, Instant::now()) {
                    return Ok(false);
                }
                match daemon.remove(&key, &held).await {
                    Ok(()) => {
                        session.held.remove(&key);
                        session.added.remove(&key);
                        session.refused.remove(&key);
                        Ok(true)
                    }
                    Err(CallError::Refused(why)) => {
                        warn!("{key} is not removed, and is tried again: {why}");
                        session.refused.add(&key, version, Instant::now());
                        Ok(false)
                    }
                    Err(CallError::Lost(status)) => Err(status),
                }
            }
            Step::Add(object) => self.add(daemon, session, &object).await,
        }
    }

    async fn add(
        &mut self,
        daemon: &Daemon,
        session: &mut Session,
        object: &Arc<ClusterObject>,
    ) -> Result<bool, Status> {
        let Ok(parsed) = &object.object else { return Ok(false) };
        let key = &object.key;
        let held = Held { uid: object.uid.clone(), resource_version: object.resource_version.clone() };
        // A new version of an object is often no news for volumes: the heartbeat of a status.
        let is_same = |added: &Arc<Object>| added.uid == parsed.uid && added.content == parsed.content;
        if session.added.get(key).is_some_and(is_same) {
            session.held.insert(key.clone(), held);
            return Ok(true);
        }
        if session.refused.is_too_early(key, &object.resource_version, Instant::now()) {
            return Ok(false);
        }
        match daemon.add(object).await {
            Ok(()) => {
                session.held.insert(key.clone(), held);
                session.added.insert(key.clone(), Arc::clone(parsed));
                session.refused.remove(key);
                self.reported.remove(key);
                Ok(true)
            }
            Err(CallError::Refused(why)) => {
                session.refused.add(key, &object.resource_version, Instant::now());
                self.warn(object, "it is not taken", &why);
                Ok(false)
            }
            Err(CallError::Lost(status)) => Err(status),
        }
    }

    /// Reports what waits, and what cannot be used. Returns when there is more to do.
    fn report_problems(&mut self, plan: &Plan, session: &mut Session) -> Option<Instant> {
        let now = Instant::now();
        let unusable: Vec<_> =
            self.known.unusable().map(|(object, why)| (Arc::clone(object), why.to_owned())).collect();
        // A pod that cannot be read may be another program's.
        let unusable = unusable
            .into_iter()
            .filter(|(object, _)| object.is_in(&self.scope) || session.held.contains_key(&object.key));
        let unusable: Vec<_> = unusable.collect();
        for (object, why) in unusable {
            self.warn(&object, "it cannot be used, and what was known of it before counts", &why);
        }
        for pod in self.waiting.due(&plan.waiting, now) {
            if let Some(object) = self.known.get(&pod.key).cloned() {
                let what = match pod.is_held {
                    true => "its volumes stay as they are, and wait for what they name",
                    false => "its volumes wait for what they name",
                };
                let unread: Vec<_> = pod.unread.iter().map(|key| self.known.unread(key)).collect();
                self.warn(&object, what, &unread.join("; "));
            }
        }
        session.refused.retain(|key| self.known.get(key).is_some() || session.held.contains_key(key));
        // What is due now is tried with the next news or plan: not in a loop.
        let next = session.refused.next().into_iter().chain(self.waiting.next()).min();
        next.map(|next| next.max(now + Duration::from_millis(100)))
    }

    /// Logs it, and publishes an event, unless that was done last time.
    fn warn(&mut self, object: &ClusterObject, what: &str, why: &str) {
        let note = format!("{what}: {why}");
        if self.reported.get(&object.key) != Some(&note) {
            warn!("{}: {note}", object.key);
            self.events.warning(&reference(object), FAILED_MOUNT, &note);
            self.reported.insert(object.key.clone(), note);
        }
    }
}
