//! The parts of the node, and what each input does with them.
//!
//! | module | its job |
//! |---|---|
//! | [`callers`] | the requests of callers |
//! | [`worker_reports`] | what worker threads report |
#![deny(clippy::disallowed_methods)]

mod callers;
mod worker_reports;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::info;
use volhost_core::{Event, OperationId};
use volhost_driver_table::DriverTable;
use volhost_flex_drivers::DriverEvent;
use volhost_model::view::EventKind;
use volhost_objects::Changes;
use volhost_plugin_folder::{PluginChanges, PluginRegistry};
use volhost_volume_ops::recovery::Recovery;
use volhost_volume_ops::volume_ops::VolumeOps;

use super::controller_reports::ControllerReports;
use super::drains::Drains;
use super::drivers::NodeDrivers;
use super::expected_pods::ExpectedPods;
use super::free_memory::FreeMemory;
use super::object_files::StoredObjects;
use super::object_requests::ObjectRequests;
use super::orphans::OrphanCleanup;
use super::plans::Plans;
use super::plugins::Plugins;
use super::provisioning::Provisioning;
use super::reports::WorkerReport;
use super::schedule::Schedule;
use super::sources::{Effects, Sources};
use super::world::World;

/// The first reading of the manifest folder.
#[derive(Debug)]
pub(crate) enum FirstManifests {
    /// There is no manifest folder.
    NoFolder,
    /// The folder has been read.
    Read(Changes),
    /// The folder has not answered yet. Its first reading comes later, and until then no volume is
    /// unmounted because its pod's manifest is missing.
    Unread(PathBuf),
}

/// The parts that the state of a node is built from.
#[derive(Debug)]
pub(crate) struct StateParts {
    pub(crate) world: World,
    pub(crate) sources: Sources,
    pub(crate) plugins: Arc<PluginRegistry>,
    pub(crate) drivers: Arc<DriverTable>,
    /// Makes volumes for claims, if the node does.
    pub(crate) provisioning: Option<Provisioning>,
    pub(crate) volume_ops: Arc<VolumeOps>,
    /// The root folder on the host.
    pub(crate) root: PathBuf,
    /// How often plugins are asked which volumes are attached.
    pub(crate) verify_every: Duration,
    /// How often volumes are remounted whose content is to be refreshed.
    pub(crate) refresh_every: Duration,
    /// Receives the reports of worker threads.
    pub(crate) reports: mpsc::UnboundedSender<WorkerReport>,
}

/// The parts of the node. Each owns its state; a method here passes one input through them.
#[derive(Debug)]
pub(crate) struct NodeState {
    world: World,
    sources: Sources,
    plugins: Plugins,
    drivers: NodeDrivers,
    provisioning: Option<Provisioning>,
    object_requests: ObjectRequests,
    controllers: ControllerReports,
    expected_pods: ExpectedPods,
    drains: Drains,
    plans: Plans,
    orphans: OrphanCleanup,
    schedule: Schedule,
    memory: FreeMemory,
    volume_ops: Arc<VolumeOps>,
    root: PathBuf,
    reports: mpsc::UnboundedSender<WorkerReport>,
}

impl NodeState {
    /// Creates a node in which nothing has happened yet.
    pub(crate) fn new(parts: StateParts) -> Self {
        let StateParts { plugins, volume_ops, reports, .. } = parts;
        Self {
            world: parts.world,
            sources: parts.sources,
            drivers: NodeDrivers::new(parts.drivers, plugins.clone()),
            plugins: Plugins::new(plugins),
            provisioning: parts.provisioning,
            object_requests: ObjectRequests::new(reports.clone()),
            controllers: ControllerReports::default(),
            expected_pods: ExpectedPods::default(),
            drains: Drains::default(),
            plans: Plans::default(),
            orphans: OrphanCleanup::new(volume_ops.clone(), reports.clone()),
            schedule: Schedule::new(parts.verify_every, parts.refresh_every),
            memory: FreeMemory::default(),
            volume_ops,
            root: parts.root,
            reports,
        }
    }

    /// Adds the volumes that recovery found. Called before any other input.
    pub(crate) fn add_recovered(&mut self, recovery: Recovery) {
        let count = recovery.volumes.len();
        self.world.operations().reconstructed(count, recovery.problems.len());
        for (what, why) in recovery.problems {
            self.world.emit(EventKind::Warning, "RecoveryProblem", &format!("path {what}"), &why);
        }
        self.plugins.set_digests(recovery.digests);
        for volume in recovery.volumes {
            self.world.dispatch(Event::Recovered(volume));
        }
        for device in recovery.devices {
            self.world.dispatch(Event::RecoveredDevice(device));
        }
        if count > 0 {
            info!(volumes = count, "volumes of an earlier run found");
        }
    }

    /// Handles the first reading of plugins and of every source, before requests are served.
    pub(crate) fn begin(&mut self, plugins: PluginChanges, stored: StoredObjects, manifests: FirstManifests) {
        self.plugins_changed(plugins);
        if let Some(provisioning) = &mut self.provisioning {
            provisioning.begin(&mut self.world, &mut self.sources);
            self.objects_changed();
        }
        self.sources.restore(stored);
        self.objects_changed();
        match manifests {
            FirstManifests::Read(changes) => self.manifests_changed(changes),
            FirstManifests::Unread(folder) => {
                let message = "the manifest folder does not answer: volhost serves without it; mounted volumes stay mounted, and changes of its pods are applied when it has been read";
                let object = format!("path {}", folder.display());
                self.world.emit(EventKind::Warning, "ManifestsNotRead", &object, message);
            }
            FirstManifests::NoFolder => {
                self.sources.set_complete();
                self.controllers.set_complete();
            }
        }
        self.finish_turn();
    }

    /// Handles a change of the manifest folder.
    pub(super) fn manifests_changed(&mut self, changes: Changes) {
        self.sources.apply_manifests(changes);
        self.objects_changed();
    }

    /// Handles a change of the plugin folder.
    pub(super) fn plugins_changed(&mut self, changes: PluginChanges) {
        self.plugins.changed(&changes, &mut self.world, &mut self.sources);
        self.objects_changed();
        let is_first = self.plugins.retry_operations(changes, &mut self.world);
        if let Some(provisioning) = &mut self.provisioning {
            provisioning.retry_now();
        }
        self.plugins.announce(is_first, &mut self.world);
    }

    /// Handles a change of a FlexVolume driver.
    pub(super) fn driver_changed(&mut self, event: DriverEvent) {
        let plugin = self.drivers.flex_changed(event, &mut self.world, &mut self.sources);
        self.objects_changed();
        if let Some(plugin) = plugin {
            // Operations that failed because the driver was missing are retried at once.
            self.world.dispatch(Event::PluginChanged { plugin });
        }
    }

    /// Searches the pods' folder for leftovers at once.
    pub(super) fn search_orphans(&mut self) {
        self.orphans.search_now();
    }

    /// Does what has become due.
    pub(super) fn wake(&mut self) {
        self.world.wake();
    }

    /// Returns when something is due although no input arrives.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let provisioning = self.provisioning.as_ref().filter(|_| self.plugins.is_complete());
        let timers = self.world.next_wake(provisioning.and_then(Provisioning::next_wake));
        let timers = timers.into_iter().chain(self.drains.next_deadline(&self.orphans));
        let timers = timers.chain(self.expected_pods.next_deadline()).chain(self.orphans.next_search());
        timers.chain(self.plugins.next_question().map(Instant::from_std)).chain([self.schedule.next()]).min()
    }

    /// Does what is due after every input.
    pub(super) fn finish_turn(&mut self) {
        self.plugins.repeat_questions(&mut self.sources);
        self.objects_changed();
        self.plugins.ask(&mut self.world);
        self.sync();
        self.orphans.search_when_due();
        self.schedule.run(&mut self.world);
        self.drains.answer(&self.world, &self.orphans);
        self.plans.run_when_known(self.plugins.is_asking(), &mut self.world, &self.sources);
        self.expected_pods.give_up(&self.world, &self.sources);
        self.world.forget_closed_waiters();
        if let Some(provisioning) = self.provisioning.as_mut().filter(|_| self.plugins.is_complete()) {
            provisioning.run_when_due(&mut self.world, &mut self.sources);
            // The provisioner need not run again for its own changes.
            while let Some(effects) = self.sources.next_effects() {
                self.apply(effects);
            }
        }
        self.object_requests.write_bindings(&mut self.sources);
        self.handle_object_requests();
        self.world.notify_watchers();
        self.memory.release_after_burst(self.running());
    }

    /// Returns how many operations are running.
    pub(super) fn running(&self) -> usize {
        self.world.executor().running()
    }

    /// Notes the end of an operation without asking the state machine, so that no new one is
    /// started.
    pub(super) fn operation_ended_at_stop(&mut self, id: OperationId) {
        drop(self.world.executor_mut().remove(id));
    }

    /// Whether the last drain left nothing, and no operation is running.
    pub(super) fn is_drained(&self) -> bool {
        self.drains.is_drained() && self.running() == 0
    }

    /// Whether the next start needs files on the mount of the records.
    pub(super) fn needs_state(&self) -> bool {
        self.sources.needs_state()
    }

    /// Treats pods that no source names as deleted, once every source has been read completely,
    /// every plugin file was loaded or refused, and every plugin has identified the pods' volumes
    /// (rule R2).
    fn sync(&mut self) {
        let known = self.sources.is_complete() && !self.sources.may_miss_pods();
        let synced = self.world.core().sources_synced();
        if !synced && known && self.plugins.is_complete() && !self.plugins.is_asking() {
            self.world.dispatch(Event::SourcesSynced);
            self.orphans.begin();
        }
    }

    /// Applies the changes of objects to the state machine.
    fn objects_changed(&mut self) {
        while let Some(effects) = self.sources.next_effects() {
            if let Some(provisioning) = &mut self.provisioning {
                provisioning.mark_due();
            }
            self.apply(effects);
        }
    }

    fn apply(&mut self, mut effects: Effects) {
        self.world.mark_changed();
        let unwanted = effects.take_unwanted(|uid| self.world.core().knows(uid));
        for event in &effects.events {
            self.world.emit_event(event);
        }
        if let Some(report) = effects.attachments {
            self.controllers.set_volume_attachments(report, &self.volume_ops, &mut self.world);
        }
        for (uid, why) in effects.unreadable {
            let pod = self.world.core().unreadable_pod(&uid, why);
            self.world.dispatch(Event::PodDesired(pod));
        }
        for uid in &unwanted {
            self.world.dispatch(Event::PodGone { uid: uid.clone() });
        }
        // A pod that never had a volume mounted has nothing to unmount, and may have folders.
        self.volumes_unmounted(unwanted);
        for pod in effects.desired {
            self.world.dispatch(Event::PodDesired(pod));
        }
        for uid in effects.source_changed {
            self.world.dispatch(Event::SourceChanged { uid });
        }
        self.expected_pods.pods_named(&mut self.world, &self.sources);
    }
}
