//! The engine's task: one thing after another, whatever comes first.
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_core::Event;
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::{DriverKind, EventKind};

use super::controller_reports::ControllerReports;
use super::executor::FromOperation;
use super::keeping::Keeping;
use super::periodic::{Period, REFRESH_EVERY};
use super::provisioning::Provisioning;
use super::requests::{PodSelector, Request};
use super::sources::{Effects, Sources};
use super::sweep::{Cleaning, Found, Sweep};
use super::turns::Turns;
use super::vanished;
use super::world::{WaitAnswer, World};
use volhost_driver_table::DriverTable;
use volhost_flex_drivers::{DriverChange, DriverEvent};
use volhost_objects::Changes;
use volhost_plugin_folder::{Answer, Meaning, PluginChanges, PluginRegistry, QuestionKey};
use volhost_volume_ops::recovery::Recovery;

/// How many things of one kind are taken before the others get their turn, so that a flood of one starves none.
const BATCH: usize = 256;

/// What comes in.
#[derive(Debug)]
pub struct Inputs {
    /// Requests from the API.
    pub requests: mpsc::Receiver<Request>,
    /// What the manifest folder has brought.
    pub manifests: mpsc::Receiver<Changes>,
    /// What the plugin folder has brought.
    pub plugins: mpsc::Receiver<PluginChanges>,
    /// What has become of drivers outside.
    pub drivers: mpsc::Receiver<DriverEvent>,
    /// What operations report.
    pub operations: mpsc::UnboundedReceiver<FromOperation>,
}

/// What a start knows of the manifest folder.
#[derive(Debug)]
pub enum FirstManifests {
    /// There is no manifest folder.
    NoFolder,
    /// What its first reading has brought.
    Read(Changes),
    /// The folder has not answered yet. Its first reading comes later, and until then nothing is
    /// unmounted for want of a manifest.
    Unread(std::path::PathBuf),
}

/// The engine: the world, its sources, its plugins.
#[derive(Debug)]
pub struct Engine {
    pub(super) world: World,
    pub(super) sources: Sources,
    pub(super) plugins: Arc<PluginRegistry>,
    pub(super) root: std::path::PathBuf,
    pub(super) volume_ops: Arc<volhost_volume_ops::volume_ops::VolumeOps>,
    pub(super) draining: Vec<Draining>,
    pub(super) drained: bool,
    pub(super) expected: Vec<Expected>,
    pub(super) sweep: Sweep,
    pub(super) drivers: Option<Arc<DriverTable>>,
    pub(super) reports: ControllerReports,
    /// What makes volumes for claims, if anybody does.
    pub(super) provisioning: Option<Provisioning>,
    /// Requests that change objects.
    pub(super) keeping: Keeping,
    /// Every source has been read completely.
    pub(super) sources_complete: bool,
    /// Every plugin file that was there at the start has been loaded or refused.
    pub(super) plugins_complete: bool,
    /// Compiled plugins that nobody needs have been removed.
    cache_pruned: bool,
    /// The digests of the plugins that had volumes at the start.
    digests: std::collections::BTreeSet<String>,
    synced: bool,
    /// Plugins are asked which volumes are attached.
    pub(super) verify: Period,
    /// Volumes are set up again that want it from time to time.
    pub(super) refresh: Period,
}

/// A caller that waits for the end of a drain.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) deadline: Instant,
    pub(super) answer: tokio::sync::oneshot::Sender<Vec<String>>,
}

/// A caller that waits for a pod that nobody has named yet: its manifest may be on its way.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) pod: PodSelector,
    pub(super) deadline: Instant,
    pub(super) answer: WaitAnswer,
}

impl Engine {
    /// An engine that has done nothing yet.
    pub fn new(
        world: World,
        sources: Sources,
        plugins: Arc<PluginRegistry>,
        root: std::path::PathBuf,
        volume_ops: Arc<volhost_volume_ops::volume_ops::VolumeOps>,
        verify_every: Duration,
    ) -> Self {
        Self {
            world,
            sources,
            plugins,
            root,
            volume_ops,
            draining: Vec::new(),
            drained: false,
            expected: Vec::new(),
            sweep: Sweep::default(),
            drivers: None,
            reports: ControllerReports::default(),
            provisioning: None,
            keeping: Keeping::default(),
            sources_complete: false,
            plugins_complete: false,
            cache_pruned: false,
            digests: std::collections::BTreeSet::new(),
            synced: false,
            verify: Period::new(verify_every),
            refresh: Period::new(REFRESH_EVERY),
        }
    }

    /// The same, showing these drivers.
    #[must_use]
    pub fn with_drivers(mut self, drivers: Arc<DriverTable>) -> Self {
        self.drivers = Some(drivers);
        self
    }

    /// The same, making volumes for claims.
    #[must_use]
    pub fn provisioning(mut self, provisioning: Option<Provisioning>) -> Self {
        self.provisioning = provisioning;
        self
    }

    /// What makes the engine look at once for what gone pods have left.
    pub fn sweeping(&self) -> Arc<Notify> {
        self.sweep.asked.clone()
    }

    /// Takes over what recovery found. To be called before anything else happens.
    pub fn take_over(&mut self, recovery: Recovery) {
        self.world.operations.reconstructed(recovery.volumes.len(), recovery.problems.len());
        for (what, why) in recovery.problems {
            self.world.tell(EventKind::Warning, "RecoveryProblem", &format!("path {what}"), &why);
        }
        self.digests = recovery.digests;
        let count = recovery.volumes.len();
        for volume in recovery.volumes {
            self.world.feed(Event::Recovered(volume));
        }
        for device in recovery.devices {
            self.world.feed(Event::RecoveredDevice(device));
        }
        if count > 0 {
            info!(volumes = count, "volumes of an earlier run found");
        }
    }

    /// Takes the first reading of plugins and of every source, before anything is served.
    pub fn begin(&mut self, plugins: PluginChanges, manifests: FirstManifests) {
        self.plugins_changed(plugins);
        self.begin_provisioning();
        let stored = self.sources.restore();
        self.carry_out(stored);
        match manifests {
            FirstManifests::Read(changes) => self.manifests_changed(changes),
            FirstManifests::Unread(folder) => {
                let message = "the manifest folder does not answer: volhost serves without it; what is mounted stays, and pods of it come and go once it has been read";
                let object = format!("path {}", folder.display());
                self.world.tell(EventKind::Warning, "ManifestsNotRead", &object, message);
            }
            FirstManifests::NoFolder => {
                self.sources.set_complete();
                self.reports.set_complete();
                self.sources_complete = true;
            }
        }
        self.tidy();
    }

    /// Serves until `shutdown`, then lets running operations end for at most `grace`. Returns whether everything was drained, and
    /// nothing is kept for the next start on the mount of the records.
    pub async fn run(mut self, mut inputs: Inputs, shutdown: CancellationToken, grace: Duration) -> bool {
        let mut reports = Vec::with_capacity(BATCH);
        let (answers, mut found) = mpsc::unbounded_channel();
        self.watch_mounts(answers.clone());
        self.sweep.answers = Some(answers);
        let (written, mut kept) = mpsc::unbounded_channel();
        self.keeping.written = Some(written);
        let asked = self.sweep.asked.clone();
        self.tidy();
        let mut turns = Turns::default();
        loop {
            let wake = self.next_wake();
            let begun;
            let input = tokio::select! {
                () = shutdown.cancelled() => break,
                _ = inputs.operations.recv_many(&mut reports, BATCH) => {
                    begun = std::time::Instant::now();
                    let (mut answered, mut unmounted) = (Vec::new(), Vec::new());
                    for report in reports.drain(..) {
                        if let FromOperation::Identified(answer) = report {
                            answered.extend(self.identified(*answer));
                            continue;
                        }
                        if let FromOperation::Provisioned { name, outcome } = report {
                            self.provisioned(&name, outcome);
                            continue;
                        }
                        if let FromOperation::Driver(note) = &report {
                            self.csi_driver_noted(note);
                        }
                        unmounted.extend(self.world.from_operation(report));
                    }
                    self.unmounted_from(unmounted);
                    if !answered.is_empty() {
                        let effects = self.sources.resolve_waiting(answered);
                        self.carry_out(effects);
                    }
                    "what operations have reported"
                }
                Some(request) = inputs.requests.recv() => {
                    begun = std::time::Instant::now();
                    self.answer(request);
                    for _ in 1..BATCH {
                        let Ok(request) = inputs.requests.try_recv() else { break };
                        self.answer(request);
                    }
                    "requests"
                }
                Some(changes) = inputs.manifests.recv() => {
                    begun = std::time::Instant::now();
                    self.manifests_changed(changes);
                    "changed manifests"
                }
                Some(changes) = inputs.plugins.recv() => {
                    begun = std::time::Instant::now();
                    self.plugins_changed(changes);
                    "changed plugins"
                }
                Some(event) = inputs.drivers.recv() => {
                    begun = std::time::Instant::now();
                    self.driver_event(event);
                    "a changed driver"
                }
                Some(found) = found.recv() => {
                    begun = std::time::Instant::now();
                    self.swept(found);
                    "what was found in folders"
                }
                Some(written) = kept.recv() => {
                    begun = std::time::Instant::now();
                    self.kept(written);
                    "files of objects"
                }
                () = asked.notified() => {
                    begun = std::time::Instant::now();
                    self.sweep_now();
                    "a reload"
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    begun = std::time::Instant::now();
                    self.world.wake();
                    "what was due"
                }
            };
            self.tidy();
            if let Some(slow) = turns.ended(input, begun.elapsed(), std::time::Instant::now()) {
                warn!("{slow}");
            }
        }
        self.finish(inputs, grace).await
    }

    /// Has mounts told that go away without an operation.
    fn watch_mounts(&self, answers: mpsc::UnboundedSender<Found>) {
        let changes = match self.volume_ops.kernel().mount_changes() {
            Ok(Some(changes)) => changes,
            Ok(None) => return,
            Err(error) => return warn!(%error, "mounts that others take away will not be noticed"),
        };
        let watching = vanished::watch(changes, Arc::downgrade(&self.volume_ops), answers);
        tokio::spawn(async move {
            if let Err(error) = watching.await {
                warn!(%error, "mounts that others take away are not noticed any more");
            }
        });
    }

    async fn finish(mut self, mut inputs: Inputs, grace: Duration) -> bool {
        // What waits for an answer gets none: the connection ends with the process.
        inputs.requests.close();
        let deadline = Instant::now() + grace;
        while self.world.executor.running() > 0 {
            match timeout_at(deadline, inputs.operations.recv()).await {
                // The state machine is not asked any more, so nothing new is started.
                Ok(Some(FromOperation::Done(id, _))) => drop(self.world.executor.ended(id)),
                Ok(Some(
                    FromOperation::Event(_)
                    | FromOperation::Driver(_)
                    | FromOperation::SourceChanged(_)
                    | FromOperation::Provisioned { .. }
                    | FromOperation::Identified(_)
                    | FromOperation::Verified { .. },
                )) => {}
                Ok(None) => break,
                Err(_) => {
                    let running = self.world.executor.running();
                    warn!(
                        running,
                        "operations did not end in time and are abandoned; the next start finds what they left"
                    );
                    break;
                }
            }
        }
        let drained = self.drained && self.world.executor.running() == 0;
        if drained && self.sources.needs_state() {
            info!("the mount of the records stays: objects were added by request, and the next start needs them");
            return false;
        }
        drained
    }

    fn next_wake(&self) -> Option<Instant> {
        let wakes = self.world.next_wake().into_iter().chain(self.next_provisioning());
        let world = wakes.map(|at| Instant::from_std(self.world.clock.instant(at)));
        let draining = self.draining.iter().map(|draining| draining.deadline);
        let cleaned = self.sweep.next_deadline().filter(|_| !self.draining.is_empty());
        let expected = self.expected.iter().map(|expected| expected.deadline);
        let scale_up = self.world.executor.next_scale_up().map(Instant::from_std);
        let questions = self.plugins.next_question().map(Instant::from_std);
        let sweep = self.sweep.due.into_iter().chain([self.verify.next(), self.refresh.next()]);
        world.chain(draining).chain(cleaned).chain(expected).chain(scale_up).chain(questions).chain(sweep).min()
    }

    fn manifests_changed(&mut self, changes: Changes) {
        let complete = changes.complete;
        let effects = self.sources.apply_manifests(changes);
        self.carry_out(effects);
        self.sources_complete |= complete;
    }

    /// What nobody named belongs to nobody once every source has been read completely, every plugin
    /// file was looked at, and every plugin has said what the pods' volumes are (rule R2).
    pub(super) fn sync(&mut self) {
        let known = self.sources_complete && !self.sources.may_miss_pods();
        if !self.synced && known && self.plugins_complete && !self.plugins.is_asking() {
            self.synced = true;
            self.world.feed(Event::SourcesSynced);
            self.sweep.due = Some(Instant::now());
        }
    }

    /// Whether every source has been read completely.
    pub(super) fn is_synced(&self) -> bool {
        self.synced && self.world.core.states_synced()
    }

    pub(super) fn carry_out(&mut self, mut effects: Effects) {
        self.provisioning_is_due();
        self.world.touch();
        let unwanted = effects.take_unwanted(|uid| self.world.core.knows(uid));
        for (kind, reason, object, message) in effects.notices {
            self.world.tell(kind, reason, &object, &message);
        }
        if let Some(report) = effects.attachments {
            self.attachments_reported(report);
        }
        for (uid, why) in effects.unreadable {
            let pod = self.world.core.unreadable_pod(&uid, why);
            self.world.feed(Event::PodDesired(pod));
        }
        for uid in &unwanted {
            self.world.feed(Event::PodGone { uid: uid.clone() });
        }
        // One that never had a volume mounted has nothing to unmount, and may have folders.
        self.unmounted_from(unwanted);
        for pod in effects.desired {
            self.world.feed(Event::PodDesired(pod));
        }
        for uid in effects.source_changed {
            self.world.feed(Event::SourceChanged { uid });
        }
        self.meet_expected();
    }

    fn plugins_changed(&mut self, changes: PluginChanges) {
        for file in &changes.compiling {
            let message = "its plugin is being compiled in the background; volumes that need it wait";
            self.world.tell(EventKind::Normal, "PluginCompiling", &format!("file {}", file.display()), message);
        }
        if changes.is_complete {
            self.prune_cache();
        }
        let all_loaded = changes.is_complete && !std::mem::replace(&mut self.plugins_complete, changes.is_complete);
        for (file, error) in &changes.failed {
            self.world.tell(EventKind::Warning, "PluginNotLoaded", &format!("file {}", file.display()), error);
        }
        for name in &changes.retired {
            let message = "its file is gone: it takes old volumes away and serves no new ones";
            self.world.tell(EventKind::Normal, "PluginRetired", &format!("plugin {name}"), message);
        }
        for name in &changes.ready {
            let loaded = self.plugins.ready(name);
            let version = loaded.map(|plugin| plugin.info().version.clone()).unwrap_or_default();
            let message = format!("version {version} serves volumes from now on");
            self.world.tell(EventKind::Normal, "PluginLoaded", &format!("plugin {name}"), &message);
        }
        // Which plugin serves what may have changed for every pod.
        let effects = self.sources.resolve_all();
        self.carry_out(effects);
        for plugin in changes.ready.into_iter().chain(changes.retired) {
            self.world.executor.resize(&plugin);
            self.world.feed(Event::PluginChanged { plugin });
        }
        self.forget_unused_plugins();
        self.hurry_provisioning();
        self.world.announce_plugins();
        if all_loaded {
            let message = self.plugins.describe_first_look();
            self.world.tell(EventKind::Normal, "PluginsLoaded", "node", &message);
        }
    }

    fn driver_event(&mut self, event: DriverEvent) {
        let DriverEvent { driver, change } = event;
        let object = format!("driver {driver}");
        // What plugins say of volumes may be what the driver said to them.
        self.plugins.forget_identified();
        match change {
            DriverChange::Failed(reason) => self.world.tell(EventKind::Warning, "DriverFailed", &object, &reason),
            DriverChange::Removed => {
                let message = "it is not there any more; what stands of its volumes stays";
                self.world.tell(EventKind::Warning, "DriverRemoved", &object, message);
            }
            DriverChange::Ready => {
                self.world.tell(EventKind::Normal, "DriverReady", &object, "it can be used from now on");
                let effects = self.sources.resolve_all();
                self.carry_out(effects);
                let source = DriverKind::Flex.source();
                let plugin =
                    self.plugins.serving(&format!("{source}:{driver}")).or_else(|| self.plugins.serving(source));
                if let Some(plugin) = plugin {
                    // What has failed for want of the driver is tried at once.
                    self.world.feed(Event::PluginChanged { plugin: plugin.info().name.clone() });
                }
            }
        }
    }

    /// Removes, once, compiled plugins that nobody needs. Not while a file could not be loaded: it
    /// may be mended, and may have volumes.
    fn prune_cache(&mut self) {
        if self.cache_pruned || !self.plugins.failures().is_empty() {
            return;
        }
        self.cache_pruned = true;
        let (plugins, needed) = (self.plugins.clone(), std::mem::take(&mut self.digests));
        tokio::task::spawn_blocking(move || plugins.prune_cache(needed));
    }

    /// A plugin has answered what a volume is. Returns the question if what waits for it is to be
    /// resolved again.
    fn identified(&mut self, answer: Answer) -> Option<QuestionKey> {
        let plugin = answer.plugin().clone();
        let (key, meaning, quarantined) = self.plugins.take_answer(answer);
        if quarantined {
            let message = "it misbehaves with one volume after another when it is asked what they are, and is asked no more; replace its file, or send SIGHUP to try it again";
            self.world.tell(EventKind::Warning, "PluginQuarantined", &format!("plugin {plugin}"), message);
        }
        match meaning {
            Meaning::New => Some(key),
            Meaning::Same => {
                self.sources.waits_no_longer(&key);
                None
            }
            Meaning::SameRefusal => None,
        }
    }

    /// Asks plugins what has come up, and again what they refused a while ago.
    fn ask_plugins(&mut self) {
        let due = self.plugins.due_questions(std::time::Instant::now());
        if !due.is_empty() {
            let effects = self.sources.resolve_waiting(due);
            self.carry_out(effects);
        }
        for question in self.plugins.take_questions() {
            self.world.executor.ask(question);
        }
    }

    fn forget_unused_plugins(&self) {
        let core = &self.world.core;
        let in_use = |name: &PluginName| core.volumes_of_plugin(name) > 0;
        self.plugins.forget_unused(in_use);
    }

    /// What is due after every turn.
    fn tidy(&mut self) {
        self.ask_plugins();
        self.sync();
        self.sweep_when_due();
        self.do_periodic();
        self.answer_drains();
        self.give_up_expected();
        self.world.forget_gone_waiters();
        self.provision();
        self.keep_bindings();
        self.world.announce();
    }

    /// A volume of each of these pods is gone: if it was the last, so are the pod's folders, and perhaps
    /// a plugin that was only kept for it.
    fn unmounted_from(&mut self, pods: Vec<PodUid>) {
        let mut is_last = false;
        for pod in pods {
            if self.world.core.pod(&pod).is_some() {
                continue;
            }
            is_last = true;
            if self.is_synced() {
                self.clean_pod_folder(&pod, Cleaning::AfterLastVolume);
            } else {
                self.world.forget_pod_folders(pod);
            }
        }
        if is_last {
            self.forget_unused_plugins();
        }
    }
}
