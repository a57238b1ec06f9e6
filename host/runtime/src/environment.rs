//! What the host provides to plugins, whatever they are asked to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_model::pod_resources::Allocatable;

use crate::fuse_servers::{FuseServers, NoFuseServers};
use volhost_model::driver_programs::{DriverPrograms, NoPrograms};
use volhost_model::drivers::{Drivers, NoDrivers};
use volhost_model::fc::{FcDevices, NoAdapters};
use volhost_model::images::{Images, NoImages};
use volhost_model::iscsi::{IscsiSessions, NoSessions};
use volhost_model::objects::{NoObjects, Objects};

/// Facts of this node that plugins may ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// Memory that pods may use, in bytes.
    pub allocatable_memory: u64,
    /// Processors that pods may use, in thousandths.
    pub allocatable_cpu_thousandths: u64,
    /// Disk that pods may use for data of their own, in bytes.
    pub allocatable_ephemeral_storage: u64,
    /// The node's labels.
    pub labels: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Returns what the node gives to pods.
    pub(crate) fn allocatable(&self) -> Allocatable {
        Allocatable {
            cpu_thousandths: self.allocatable_cpu_thousandths,
            memory: self.allocatable_memory,
            ephemeral_storage: self.allocatable_ephemeral_storage,
        }
    }
}

/// The host's services for plugins: facts of the node, objects, drivers, programs, sessions,
/// adapters and images.
///
/// A new environment has none of them.
#[derive(Debug, Clone)]
pub struct Environment {
    node: Arc<NodeFacts>,
    objects: Arc<dyn Objects>,
    drivers: Arc<dyn Drivers>,
    programs: Arc<dyn DriverPrograms>,
    fuse_servers: Arc<dyn FuseServers>,
    iscsi: Arc<dyn IscsiSessions>,
    fc: Arc<dyn FcDevices>,
    images: Arc<dyn Images>,
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            node: Arc::default(),
            objects: Arc::new(NoObjects),
            drivers: Arc::new(NoDrivers),
            programs: Arc::new(NoPrograms),
            fuse_servers: Arc::new(NoFuseServers),
            iscsi: Arc::new(NoSessions),
            fc: Arc::new(NoAdapters),
            images: Arc::new(NoImages),
        }
    }
}

impl Environment {
    /// Sets the facts of the node.
    #[must_use]
    pub fn with_node(mut self, node: Arc<NodeFacts>) -> Self {
        self.node = node;
        self
    }

    /// Sets the objects that volumes name.
    #[must_use]
    pub fn with_objects(mut self, objects: Arc<dyn Objects>) -> Self {
        self.objects = objects;
        self
    }

    /// Sets the external drivers that have registered.
    #[must_use]
    pub fn with_drivers(mut self, drivers: Arc<dyn Drivers>) -> Self {
        self.drivers = drivers;
        self
    }

    /// Sets the external drivers that are programs.
    #[must_use]
    pub fn with_driver_programs(mut self, programs: Arc<dyn DriverPrograms>) -> Self {
        self.programs = programs;
        self
    }

    /// Sets the programs that serve file systems.
    #[must_use]
    pub fn with_fuse_servers(mut self, fuse_servers: Arc<dyn FuseServers>) -> Self {
        self.fuse_servers = fuse_servers;
        self
    }

    /// Sets what makes sessions with iSCSI targets.
    #[must_use]
    pub fn with_iscsi(mut self, iscsi: Arc<dyn IscsiSessions>) -> Self {
        self.iscsi = iscsi;
        self
    }

    /// Sets the Fibre Channel host adapters.
    #[must_use]
    pub fn with_fc(mut self, fc: Arc<dyn FcDevices>) -> Self {
        self.fc = fc;
        self
    }

    /// Sets the store of OCI images.
    #[must_use]
    pub fn with_images(mut self, images: Arc<dyn Images>) -> Self {
        self.images = images;
        self
    }

    /// Returns the objects that volumes name.
    #[must_use]
    pub fn objects(&self) -> &Arc<dyn Objects> {
        &self.objects
    }

    /// Returns what calls know about the node.
    #[must_use]
    pub fn node(&self) -> &NodeFacts {
        &self.node
    }

    pub(crate) fn drivers(&self) -> &dyn Drivers {
        &*self.drivers
    }

    pub(crate) fn programs(&self) -> &dyn DriverPrograms {
        &*self.programs
    }

    pub(crate) fn fuse_servers(&self) -> &Arc<dyn FuseServers> {
        &self.fuse_servers
    }

    pub(crate) fn iscsi(&self) -> &dyn IscsiSessions {
        &*self.iscsi
    }

    pub(crate) fn fc(&self) -> &dyn FcDevices {
        &*self.fc
    }

    pub(crate) fn images(&self) -> &dyn Images {
        &*self.images
    }
}
