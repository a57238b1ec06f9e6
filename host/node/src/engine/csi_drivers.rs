//! What changes for volumes when a CSI driver registers, goes, or answers again.

use volhost_core::Event;
use volhost_model::UniqueVolumeName;
use volhost_model::view::EventKind;

use super::serve::Engine;
use super::world::World;
use volhost_csi::DriverNote;

/// The interface by which a plugin calls CSI drivers.
const INTERFACE: &str = "grpc";
/// The field of a volume's source that names its driver.
const DRIVER: &str = "driver";

impl Engine {
    /// Resolves the pods' volumes anew when a driver is new or says something new of this node. One
    /// that only answers again changes nothing but what waits for it.
    pub(super) fn csi_driver_noted(&mut self, note: &DriverNote) {
        if note.kind == EventKind::Warning {
            return;
        }
        if note.answers_again() {
            return self.hurry_provisioning_by(&note.driver);
        }
        self.csi_driver_changed();
        self.hurry_provisioning();
    }

    /// Uses what CSI drivers say of this node: it is part of what volumes are, and of which the node
    /// may use.
    fn csi_driver_changed(&mut self) {
        self.plugins.forget_identified();
        if let Some(drivers) = &self.drivers {
            self.sources.node_is_in(drivers.topology());
        }
        let effects = self.sources.resolve_all();
        self.carry_out(effects);
    }
}

impl World {
    /// Shows the note to users, and retries the operations that waited for the driver.
    pub(super) fn driver_noted(&mut self, note: &DriverNote) {
        self.tell(note.kind, note.reason, &format!("driver {}", note.driver), &note.message);
        // What waits for a driver that cannot be used gains nothing by another try.
        if note.kind == EventKind::Warning {
            return;
        }
        if note.answers_again() {
            let volumes = self.waiting_for(&note.driver);
            return self.feed(Event::StorageAnswers(volumes));
        }
        for plugin in self.executor.plugins().importers(INTERFACE) {
            self.feed(Event::PluginChanged { plugin });
        }
    }

    /// The failed volumes that are, or may be, the driver's.
    fn waiting_for(&self, driver: &str) -> Vec<UniqueVolumeName> {
        let plugins = self.executor.plugins().importers(INTERFACE);
        let failed = self.core.failed_volumes().filter(|(_, plugin, _)| plugins.contains(plugin));
        let of_driver = failed.filter(|(_, _, spec)| {
            spec.and_then(|spec| spec.parameter(DRIVER)).is_none_or(|of_volume| of_volume == driver)
        });
        of_driver.map(|(name, _, _)| name.clone()).collect()
    }
}
