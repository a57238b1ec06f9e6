//! External drivers: FlexVolume executables and registered CSI drivers that appear, change or go.
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;

use volhost_core::{Core, Event};
use volhost_csi::DriverNote;
use volhost_driver_table::DriverTable;
use volhost_flex_drivers::{DriverChange, DriverEvent};
use volhost_model::view::{DriverKind, DriverView, EventKind};
use volhost_model::{PluginName, UniqueVolumeName};
use volhost_plugin_folder::PluginRegistry;

use super::provisioning::Provisioning;
use super::sources::Sources;
use super::world::World;

/// The interface by which a plugin calls CSI drivers.
const INTERFACE: &str = "grpc";
/// The field of a volume's source that names its driver.
const DRIVER: &str = "driver";

/// The external drivers of the node.
#[derive(Debug)]
pub(super) struct NodeDrivers {
    table: Arc<DriverTable>,
    plugins: Arc<PluginRegistry>,
}

impl NodeDrivers {
    /// Creates the drivers of a node. No driver is known before it is in the table.
    pub(super) const fn new(table: Arc<DriverTable>, plugins: Arc<PluginRegistry>) -> Self {
        Self { table, plugins }
    }

    /// Returns the drivers for listing.
    pub(super) fn views(&self) -> Vec<DriverView> {
        let served = |source: &str| self.plugins.serving(source).map(|plugin| plugin.info().name.to_string());
        self.table.views(served)
    }

    /// Handles a change of a FlexVolume driver. Returns the plugin whose failed volumes are to be
    /// retried when the pods have been resolved again.
    pub(super) fn flex_changed(
        &self,
        event: DriverEvent,
        world: &mut World,
        sources: &mut Sources,
    ) -> Option<PluginName> {
        let DriverEvent { driver, change } = event;
        let object = format!("driver {driver}");
        // A plugin's answer about a volume may depend on the driver.
        self.plugins.forget_identified();
        match change {
            DriverChange::Failed(reason) => {
                world.emit(EventKind::Warning, "DriverFailed", &object, &reason);
                None
            }
            DriverChange::Removed => {
                let message = "it is not there any more; its mounted volumes stay mounted";
                world.emit(EventKind::Warning, "DriverRemoved", &object, message);
                None
            }
            DriverChange::Ready => {
                world.emit(EventKind::Normal, "DriverReady", &object, "it can be used from now on");
                sources.resolve_all();
                let source = DriverKind::Flex.source();
                let own = self.plugins.serving(&format!("{source}:{driver}"));
                let plugin = own.or_else(|| self.plugins.serving(source))?;
                Some(plugin.info().name.clone())
            }
        }
    }

    /// Resolves the pods again when a CSI driver is new or its information about this node has
    /// changed, and retries the provisioning jobs that waited for it.
    pub(super) fn csi_changed(
        &self,
        note: &DriverNote,
        sources: &mut Sources,
        provisioning: Option<&mut Provisioning>,
    ) {
        if note.kind == EventKind::Warning {
            return;
        }
        if note.answers_again() {
            if let Some(provisioning) = provisioning {
                provisioning.retry_now_by(&note.driver);
            }
            return;
        }
        // The driver's answers are part of what volumes are, and of which volumes the node may use.
        self.plugins.forget_identified();
        sources.add_topology(self.table.topology());
        sources.resolve_all();
        if let Some(provisioning) = provisioning {
            provisioning.retry_now();
        }
    }

    /// Emits the note of a CSI driver as an event, and retries the operations that waited for the
    /// driver.
    pub(super) fn retry_operations(&self, note: &DriverNote, world: &mut World) {
        world.emit(note.kind, note.reason, &format!("driver {}", note.driver), &note.message);
        // A retry with a driver that cannot be used would fail again.
        if note.kind == EventKind::Warning {
            return;
        }
        let plugins = self.plugins.importers(INTERFACE);
        if note.answers_again() {
            let volumes = failed_volumes(world.core(), &plugins, &note.driver);
            return world.dispatch(Event::StorageAnswers(volumes));
        }
        for plugin in plugins {
            world.dispatch(Event::PluginChanged { plugin });
        }
    }
}

/// Returns the failed volumes of these plugins that are, or may be, the driver's.
fn failed_volumes(core: &Core, plugins: &[PluginName], driver: &str) -> Vec<UniqueVolumeName> {
    let failed = core.failed_volumes().filter(|(_, plugin, _)| plugins.contains(plugin));
    let of_driver = failed.filter(|(_, _, spec)| {
        spec.and_then(|spec| spec.parameter(DRIVER)).is_none_or(|of_volume| of_volume == driver)
    });
    of_driver.map(|(name, _, _)| name.clone()).collect()
}
