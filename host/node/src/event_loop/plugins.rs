//! The plugin folder's changes, and the questions that plugins are asked about volumes.
#![deny(clippy::disallowed_methods)]

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use volhost_core::{Core, Event};
use volhost_model::names::PluginName;
use volhost_model::view::{EventKind, PluginState, PluginView};
use volhost_plugin_folder::{AnswerEffect, IdentifyAnswer, PluginChanges, PluginRegistry, QuestionKey};

use super::sources::Sources;
use super::world::World;

/// The loaded plugins.
#[derive(Debug)]
pub(super) struct Plugins {
    registry: Arc<PluginRegistry>,
    /// Every plugin file of the start has been loaded or refused.
    is_complete: bool,
    /// Compiled plugins that no volume needs have been removed from the cache.
    is_cache_pruned: bool,
    /// The digests of the plugins that had volumes at the start.
    digests: BTreeSet<String>,
}

impl Plugins {
    /// Creates the plugins of a node whose folder has not been read.
    pub(super) const fn new(registry: Arc<PluginRegistry>) -> Self {
        Self { registry, is_complete: false, is_cache_pruned: false, digests: BTreeSet::new() }
    }

    /// Sets the digests of the plugins that had volumes at the start.
    pub(super) fn set_digests(&mut self, digests: BTreeSet<String>) {
        self.digests = digests;
    }

    /// Whether every plugin file of the start has been loaded or refused.
    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether a plugin has been asked about a volume and has not answered.
    pub(super) fn is_asking(&self) -> bool {
        self.registry.is_asking()
    }

    /// Returns the plugins for listing.
    pub(super) fn views(&self, core: &Core) -> Vec<PluginView> {
        let volumes = core.volumes_by_plugin();
        self.registry.views(|name| volumes.get(name).copied().unwrap_or_default())
    }

    /// Counts the plugins by state.
    pub(super) fn counts(&self) -> BTreeMap<PluginState, u64> {
        self.registry.counts()
    }

    /// Returns when a plugin is to be asked again.
    pub(super) fn next_question(&self) -> Option<Instant> {
        self.registry.next_question()
    }

    /// Emits the events of a change of the plugin folder, and resolves every pod again: another
    /// plugin may serve a volume now. [`Plugins::retry_operations`] follows when the state machine
    /// knows the pods.
    pub(super) fn changed(&mut self, changes: &PluginChanges, world: &mut World, sources: &mut Sources) {
        for file in &changes.compiling {
            let message = "its plugin is being compiled in the background; volumes that need it wait";
            world.emit(EventKind::Normal, "PluginCompiling", &format!("file {}", file.display()), message);
        }
        if changes.is_complete {
            self.prune_cache();
        }
        for (file, error) in &changes.failed {
            world.emit(EventKind::Warning, "PluginNotLoaded", &format!("file {}", file.display()), error);
        }
        for name in &changes.retired {
            let message = "its file is gone: it unmounts its volumes and mounts no new ones";
            world.emit(EventKind::Normal, "PluginRetired", &format!("plugin {name}"), message);
        }
        for name in &changes.ready {
            let loaded = self.registry.ready(name);
            let version = loaded.map(|plugin| plugin.info().version.clone()).unwrap_or_default();
            let message = format!("version {version} serves volumes from now on");
            world.emit(EventKind::Normal, "PluginLoaded", &format!("plugin {name}"), &message);
        }
        sources.resolve_all();
    }

    /// Retries the operations of changed plugins. Returns whether this is the first complete
    /// reading of the folder.
    pub(super) fn retry_operations(&mut self, changes: PluginChanges, world: &mut World) -> bool {
        let is_first = changes.is_complete && !self.is_complete;
        self.is_complete = changes.is_complete;
        for plugin in changes.ready.into_iter().chain(changes.retired) {
            world.executor().resize(&plugin);
            world.dispatch(Event::PluginChanged { plugin });
        }
        self.forget_unused(world.core());
        is_first
    }

    /// Notifies watchers. After the first complete reading of the folder also emits an event.
    pub(super) fn announce(&self, is_first: bool, world: &mut World) {
        world.notify_plugins_changed();
        if is_first {
            world.emit(EventKind::Normal, "PluginsLoaded", "node", &self.registry.describe_first_look());
        }
    }

    /// Forgets retired plugins that have no volume any more.
    pub(super) fn forget_unused(&self, core: &Core) {
        // There seldom is a retired plugin.
        let volumes = OnceCell::new();
        let in_use = |name: &PluginName| volumes.get_or_init(|| core.volumes_by_plugin()).contains_key(name);
        self.registry.forget_unused(in_use);
    }

    /// Handles the answer of a plugin about a volume. Returns the question if the pods that wait
    /// for it are to be resolved again.
    pub(super) fn identified(
        &self,
        answer: IdentifyAnswer,
        world: &mut World,
        sources: &mut Sources,
    ) -> Option<QuestionKey> {
        let plugin = answer.plugin().clone();
        let (key, meaning, quarantined) = self.registry.take_answer(answer);
        if quarantined {
            let message = "it misbehaves with one volume after another when it is asked what they are, and is asked no more; replace its file, or send SIGHUP to try it again";
            world.emit(EventKind::Warning, "PluginQuarantined", &format!("plugin {plugin}"), message);
        }
        match meaning {
            AnswerEffect::New => Some(key),
            AnswerEffect::Same => {
                sources.forget_question(&key);
                None
            }
            AnswerEffect::SameRefusal => None,
        }
    }

    /// Resolves again the pods whose plugin refused an answer a while ago, which asks the plugin
    /// again.
    pub(super) fn repeat_questions(&self, sources: &mut Sources) {
        let due = self.registry.due_questions(Instant::now());
        if !due.is_empty() {
            sources.resolve_waiting(due);
        }
    }

    /// Asks plugins the new questions, on their worker threads.
    pub(super) fn ask(&self, world: &mut World) {
        for question in self.registry.take_questions() {
            world.executor_mut().ask(question);
        }
    }

    /// Removes compiled plugins that no volume needs from the cache, once. Not while a file could
    /// not be loaded: it may be repaired, and may have volumes.
    fn prune_cache(&mut self) {
        if self.is_cache_pruned || !self.registry.failures().is_empty() {
            return;
        }
        self.is_cache_pruned = true;
        let (registry, needed) = (self.registry.clone(), std::mem::take(&mut self.digests));
        tokio::task::spawn_blocking(move || registry.prune_cache(needed));
    }
}
