//! What the driver's CSIDriver object in a Kubernetes cluster has to say.
//!
//! CSI has no call for it: the answer to `GetPluginInfo` carries it in its manifest, for
//! `volhost controller`, which makes the object. A node needs no permission then.

use serde_json::json;

use crate::driver::ServedPlugin;

/// The key in the manifest. The value is the object's `spec` as JSON.
pub(crate) const MANIFEST_KEY: &str = "storage.k8s.io/csidriver";

impl ServedPlugin {
    /// The `spec` of the CSIDriver object, as JSON.
    pub(crate) fn driver_object(&self) -> String {
        let plugin = self.plugin.info();
        let imports = |interface: &str| plugin.imports.iter().any(|import| import == interface);
        json!({
            "attachRequired": self.attach,
            // By it the driver knows the volumes that pods describe themselves.
            "podInfoOnMount": true,
            "fsGroupPolicy": if plugin.gives_to_group { "File" } else { "None" },
            // A repeated call renews content that has changed, and replaces a FUSE server that ended.
            "requiresRepublish": plugin.follows_its_source || imports("fuse-servers"),
            "seLinuxMount": plugin.selinux_mount,
            "storageCapacity": self.provisions() && !self.topology.is_empty(),
            "volumeLifecycleModes": ["Persistent"],
        })
        .to_string()
    }
}
