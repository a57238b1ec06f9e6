//! The custom resources of plugins that come from the cluster (`volhost.io/v1alpha1`).
//!
//! ```text
//!  user ---spec---> VolumePlugin <---status--- plugin-controller
//!                                                   |
//!                                                  spec
//!                                                   v
//!                                              NodePlugins, one a node
//!                                                   ^
//!                                                 status
//!                                                   |
//!                                              node-agent of that node
//! ```
//!
//! Each part has one writer. The definitions in `deploy/plugins` have these fields, and the API
//! server checks them; what is read here is lenient where an older definition may lack a field.
//!
//! | module | its job |
//! |---|---|
//! | `volume_plugin` | `VolumePlugin` |
//! | `node_plugins` | `NodePlugins` |
//! | `revision` | what is installed, and its name |

mod node_plugins;
mod revision;
mod volume_plugin;

pub use node_plugins::{AssignedPlugin, NodePlugins, NodePluginsSpec, NodePluginsStatus, PluginReport, PluginState};
pub use revision::{Revision, StoredRevision};
pub use volume_plugin::{
    FailedRevision, MaxUnavailable, NodeCounts, Rollout, VolumePlugin, VolumePluginSpec, VolumePluginStatus,
};

/// The group of the resources.
pub const GROUP: &str = "volhost.io";
/// The version of the group.
pub const VERSION: &str = "v1alpha1";
/// Keeps a deleted `VolumePlugin` until no node has its plugin.
pub const FINALIZER: &str = "volhost.io/nodes";

/// The names of a cluster-scoped custom resource.
macro_rules! resource {
    ($type:ident, $plural:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::ClusterResourceScope;

            fn kind(&(): &()) -> std::borrow::Cow<'_, str> {
                stringify!($type).into()
            }

            fn group(&(): &()) -> std::borrow::Cow<'_, str> {
                super::GROUP.into()
            }

            fn version(&(): &()) -> std::borrow::Cow<'_, str> {
                super::VERSION.into()
            }

            fn plural(&(): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
use resource;
