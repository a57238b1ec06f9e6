//! The options of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use volhost_flex_drivers::DriverPolicies;
use volhost_images::RegistryProgram;
use volhost_kernel::{Kernel, Propagation};
use volhost_model::PluginName;
use volhost_objects::payload::Issuer;
use volhost_objects::populate::NodeIdentity;
use volhost_process::Launcher;
use volhost_runtime::{Grant, GrantPolicy, Signatures};

use crate::event_loop::{Bounds, Watchdog};

/// The options of a node.
#[derive(Debug)]
pub struct NodeOptions {
    /// The root folder.
    pub root: PathBuf,
    /// The plugin folder.
    pub plugins: PathBuf,
    /// The manifest folder, if there is one.
    pub manifests: Option<PathBuf>,
    /// The folder of registration sockets of CSI drivers, if any may register.
    pub plugin_registry: Option<PathBuf>,
    /// How long what vanishes from it is kept, for it may be put back.
    pub manifest_grace: Duration,
    /// The node's name and labels.
    pub identity: NodeIdentity,
    /// The grants of plugins.
    pub grants: GrantPolicy,
    /// The file that grants are read from again when it changes, if there is one.
    pub grant_file: Option<PathBuf>,
    /// The most that the cluster may grant the plugins that it installs; none if it may install none.
    pub cluster_plugins: Option<Grant>,
    /// Whose plugins are taken.
    pub signatures: Signatures,
    /// A controller attaches volumes, not the host.
    pub controller_attaches: bool,
    /// The plugins whose volumes a controller attaches in any case.
    pub controller_attaches_for: BTreeSet<PluginName>,
    /// How often plugins are asked which volumes are attached.
    pub verify_attached: Duration,
    /// How often volumes are remounted whose content is to be refreshed.
    pub refresh_period: Duration,
    /// The folder of FlexVolume drivers, if they are looked for.
    pub flex_driver_dir: Option<PathBuf>,
    /// The limits of FlexVolume drivers.
    pub flex_drivers: DriverPolicies,
    /// Nodes that are out of service, by the storage's names for them.
    pub nodes_out_of_service: BTreeSet<String>,
    /// How many volumes of a plugin may be attached at once.
    pub attach_limits: BTreeMap<PluginName, u32>,
    /// Compiled plugins are kept here.
    pub cache: PathBuf,
    /// How plugins are compiled.
    pub compiler: volhost_runtime::Compiler,
    /// How FUSE servers are started.
    pub launcher: Launcher,
    /// The program that speaks to registries of images.
    pub image_client: RegistryProgram,
    /// Whether mounts appear in the mount namespaces of containers that were started before.
    pub propagation: Propagation,
    /// The limits of operations.
    pub bounds: Bounds,
    /// The issuer of service account tokens, if there is one.
    pub tokens: Option<Issuer>,
    /// Volumes are made for claims.
    pub provision: bool,
    /// The volume of a claim that is missing and was not deleted is kept this long.
    pub reclaim_grace: Duration,
    /// A service manager that wants signs of life of the event loop, if there is one.
    pub watchdog: Option<Watchdog>,
    /// The primitives.
    pub kernel: Arc<dyn Kernel>,
}
