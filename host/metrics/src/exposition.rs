//! All metrics as text.

use std::sync::Arc;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_csi::CsiDrivers;
use volhost_fuse_servers::FuseServerProcesses;
use volhost_images::ImageStore;
use volhost_model::view::UsageView;
use volhost_model::visible::visible_metrics;

use super::labels::VersionLabels;
use super::operations::Operations;
use super::{
    CsiCalls, NodeCounts, NodeDisks, counts, drivers, fuse_servers, images, node, plugin_sockets, selinux, volumes,
};
use volhost_driver_table::DriverTable;
use volhost_metrics_listener::process;
use volhost_volume_ops::stats::{MeteredVolume, VolumeMeter};

/// All metrics, from their sources.
#[derive(Debug, Default)]
pub struct Exposition {
    operations: Arc<Operations>,
    volumes: Option<VolumeMeter>,
    drivers: Option<Arc<DriverTable>>,
    csi: Option<(Arc<CsiDrivers>, Arc<CsiCalls>)>,
    disks: Option<NodeDisks>,
    fuse_servers: Option<FuseServerProcesses>,
    images: Option<Arc<ImageStore>>,
}

impl Exposition {
    /// The metrics of these operations, and of volume usage if there is a meter.
    pub const fn new(operations: Arc<Operations>, volumes: Option<VolumeMeter>) -> Self {
        Self { operations, volumes, drivers: None, csi: None, disks: None, fuse_servers: None, images: None }
    }

    /// Adds the external drivers.
    #[must_use]
    pub fn with_drivers(mut self, drivers: Arc<DriverTable>) -> Self {
        self.drivers = Some(drivers);
        self
    }

    /// Adds the CSI drivers' sockets, and the calls to them.
    #[must_use]
    pub fn with_csi(mut self, drivers: Arc<CsiDrivers>, calls: Arc<CsiCalls>) -> Self {
        self.csi = Some((drivers, calls));
        self
    }

    /// Adds the room in volhost's own folders.
    #[must_use]
    pub fn with_disks(mut self, disks: NodeDisks) -> Self {
        self.disks = Some(disks);
        self
    }

    /// Adds the FUSE servers.
    #[must_use]
    pub fn with_fuse_servers(mut self, servers: FuseServerProcesses) -> Self {
        self.fuse_servers = Some(servers);
        self
    }

    /// Adds the store of OCI images.
    #[must_use]
    pub fn with_images(mut self, images: Arc<ImageStore>) -> Self {
        self.images = Some(images);
        self
    }

    /// The usage of these volumes; empty without a meter. Blocks for a bounded time.
    pub fn volume_stats(&self, volumes: Vec<MeteredVolume>) -> Vec<(MeteredVolume, UsageView)> {
        self.volumes.as_ref().map(|meter| meter.measure(volumes)).unwrap_or_default()
    }

    /// The text. Blocks for a bounded time; hung volumes are left out.
    pub fn text(&self, counts: &NodeCounts) -> String {
        let mut now = Registry::default();
        let version = Family::<VersionLabels, Gauge>::default();
        version.get_or_create(&VersionLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        now.register("volhost_build_info", "The daemon's version", version);
        counts::register(&mut now, &counts.volumes);
        node::register(&mut now, counts);
        selinux::register(&mut now, &counts.selinux);
        if let Some(drivers) = &self.drivers {
            drivers::register(&mut now, &drivers.counts());
        }
        if let Some((drivers, calls)) = &self.csi {
            plugin_sockets::register(&mut now, &drivers.sockets());
            calls.register(&mut now);
        }
        if let Some(disks) = &self.disks {
            disks.register(&mut now);
        }
        if let Some(servers) = &self.fuse_servers {
            fuse_servers::register(&mut now, servers.counts());
        }
        if let Some(store) = &self.images {
            images::register(&mut now, store.usage());
        }
        if let Some(meter) = &self.volumes {
            volumes::register(&mut now, meter, &counts.volumes.claims);
        }
        process::register(&mut now);
        let mut text = String::new();
        let written = encode_registry(&mut text, self.operations.registry())
            .and_then(|()| encode_registry(&mut text, &now))
            .and_then(|()| encode_eof(&mut text));
        if let Err(error) = written {
            // Writing into memory does not fail; if it did, a scraper must not mistake a part for
            // the whole.
            tracing::error!(%error, "the metrics could not be written");
            text.clear();
        }
        // Manifests, plugins and drivers choose names in labels.
        visible_metrics(&text).into_owned()
    }
}
