//! Which plugin runs an operation's steps, and how it behaves.

use std::sync::Arc;

use volhost_core::Operation;
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, CallError, Plugin};

use super::device_records::DeviceRecords;
use super::mount_records::MountRecords;
use super::plugins::PluginSource;
use super::steps::StepError;

/// The loaded plugins, as operations use them.
#[derive(Debug, Clone)]
pub(super) struct PluginCalls {
    source: Arc<dyn PluginSource>,
    records: Arc<MountRecords>,
    devices: DeviceRecords,
}

impl PluginCalls {
    pub(super) fn new(source: Arc<dyn PluginSource>, records: Arc<MountRecords>, devices: DeviceRecords) -> Self {
        Self { source, records, devices }
    }

    pub(super) fn source(&self) -> &dyn PluginSource {
        self.source.as_ref()
    }

    /// Returns the plugin that may bring the volume up: loaded, and not quarantined.
    pub(super) fn ready(&self, operation: &Operation, step: &str) -> Result<Arc<Plugin>, Failure> {
        let plugin = self.source.ready(&operation.plugin).ok_or_else(|| not_loaded(&operation.plugin, step))?;
        match self.source.quarantined(&operation.plugin) {
            Some(fault) => Err(quarantined(&operation.plugin, step, &fault)),
            None => Ok(plugin),
        }
    }

    /// Returns the plugin that may unpublish the volume of this pod.
    pub(super) fn to_unpublish(&self, operation: &Operation, pod: &PodUid) -> Option<Arc<Plugin>> {
        self.to_undo(operation, || {
            let key = (operation.plugin.clone(), operation.spec_name.clone());
            Some(self.records.read(pod).ok()?.take(&key)?.volume.digest)
        })
    }

    /// Returns the plugin that may unstage or detach the volume.
    pub(super) fn to_unstage(&self, operation: &Operation) -> Option<Arc<Plugin>> {
        self.to_undo(operation, || Some(self.devices.read(operation)?.digest))
    }

    /// `recorded`: the digest of the plugin that published the volume. It is asked for only after
    /// a restart without the plugin's file.
    fn to_undo(&self, operation: &Operation, recorded: impl FnOnce() -> Option<String>) -> Option<Arc<Plugin>> {
        self.source
            .for_unmount(&operation.plugin, None)
            .or_else(|| self.source.for_unmount(&operation.plugin, Some(&recorded()?)))
    }

    /// Records how a call of the plugin went.
    pub(super) fn note(&self, operation: &Operation, call: &Call, error: Option<&CallError>) {
        if self.source.note(&operation.plugin, &operation.volume, error) {
            let message = format!(
                "plugin {} misbehaves with one volume after another and sets nothing up any more; replace its file, or send SIGHUP to try it again",
                operation.plugin
            );
            call.sink().event(EventKind::Warning, "PluginQuarantined", &message);
        }
    }

    /// Records how a step went. A step that did not reach the plugin says nothing of it.
    pub(super) fn note_step<T>(&self, operation: &Operation, call: &Call, outcome: &Result<T, StepError>) {
        match outcome {
            Ok(_) => self.note(operation, call, None),
            Err(StepError::Plugin { source, .. }) => self.note(operation, call, Some(source)),
            Err(StepError::Kernel(_)) => {}
        }
    }
}

fn quarantined(plugin: &PluginName, step: &str, fault: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        step,
        format!(
            "plugin {plugin} is quarantined: replace its file, or send SIGHUP to try it again; its last fault: {fault}"
        ),
    )
}

pub(super) fn not_loaded(plugin: &PluginName, step: &str) -> Failure {
    Failure::new(
        FailureClass::Transient,
        step,
        format!(
            "plugin {plugin} is not loaded; put its .wasm file into the plugin folder (`volhost get plugins` shows what is there)"
        ),
    )
}
