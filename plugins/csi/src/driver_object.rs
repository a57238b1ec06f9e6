//! The CSIDriver object of a driver: its settings for its volumes.

use serde_json::Value;
use volhost_plugin_sdk::objects::csi_driver_spec;
use volhost_plugin_sdk::prelude::*;

/// The policy by which the host applies a pod's `fsGroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FsGroupPolicy {
    None,
    File,
    ReadWriteOnceWithFsType,
}

/// A token that the driver requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenRequest {
    pub(crate) audience: String,
    pub(crate) expiration_seconds: u64,
}

/// The object's settings, with Kubernetes' defaults for missing ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DriverObject {
    /// Whether volumes are attached first.
    pub(crate) attach_required: bool,
    /// Whether the driver gets the pod's identity.
    pub(crate) pod_info: bool,
    pub(crate) fs_group_policy: FsGroupPolicy,
    /// Whether volumes are published again when their source may have changed.
    pub(crate) requires_republish: bool,
    /// Whether its mounts accept an SELinux label as an option.
    pub(crate) selinux_mount: bool,
    pub(crate) persistent: bool,
    /// Whether pods may describe volumes of the driver themselves.
    pub(crate) ephemeral: bool,
    pub(crate) tokens: Vec<TokenRequest>,
    /// Whether tokens are passed with the secrets, not in the volume's context.
    pub(crate) tokens_in_secrets: bool,
}

/// The default lifetime of a token.
const TOKEN_SECONDS: u64 = 3600;

impl DriverObject {
    /// Reads the object of the driver of this name.
    ///
    /// # Errors
    /// `retryable` while the host does not know.
    pub(crate) fn of(driver: &str) -> Result<Self> {
        let spec = match csi_driver_spec(driver)? {
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| Error::Corrupt(format!("the CSIDriver object {driver} cannot be read: {error}")))?,
            None => Value::Null,
        };
        Ok(Self::read(&spec))
    }

    fn read(spec: &Value) -> Self {
        let flag = |field: &str, default: bool| spec.get(field).and_then(Value::as_bool).unwrap_or(default);
        let list = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten();
        let modes: Vec<&str> = list("volumeLifecycleModes").filter_map(Value::as_str).collect();
        let tokens = list("tokenRequests").map(|request| TokenRequest {
            audience: request.get("audience").and_then(Value::as_str).unwrap_or_default().to_owned(),
            expiration_seconds: request.get("expirationSeconds").and_then(Value::as_u64).unwrap_or(TOKEN_SECONDS),
        });
        Self {
            attach_required: flag("attachRequired", true),
            pod_info: flag("podInfoOnMount", false),
            fs_group_policy: match spec.get("fsGroupPolicy").and_then(Value::as_str) {
                Some("None") => FsGroupPolicy::None,
                Some("File") => FsGroupPolicy::File,
                _ => FsGroupPolicy::ReadWriteOnceWithFsType,
            },
            requires_republish: flag("requiresRepublish", false),
            selinux_mount: flag("seLinuxMount", false),
            persistent: modes.is_empty() || modes.contains(&"Persistent"),
            ephemeral: modes.contains(&"Ephemeral"),
            tokens: tokens.collect(),
            tokens_in_secrets: flag("serviceAccountTokenInSecrets", false),
        }
    }

    /// Checks that the driver supports volumes of this lifecycle mode.
    ///
    /// # Errors
    /// `invalid-argument` with the field to change.
    pub(crate) fn check_lifecycle(&self, driver: &str, volume: &Volume) -> Result<()> {
        let (fits, mode) = match volume.persistent_volume() {
            Some(_) => (self.persistent, "Persistent"),
            None => (self.ephemeral, "Ephemeral"),
        };
        if fits {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "csi: the driver {driver} does not support this kind of volume: spec.volumeLifecycleModes of the CSIDriver object {driver} does not list {mode}"
        )))
    }

    /// Whether the host applies the pod's group to the volume's files.
    pub(crate) fn applies_group(&self, fs_type: &str, volume: &Volume) -> bool {
        match self.fs_group_policy {
            FsGroupPolicy::None => false,
            FsGroupPolicy::File => true,
            FsGroupPolicy::ReadWriteOnceWithFsType => {
                let once = |mode: &String| matches!(mode.as_str(), "ReadWriteOnce" | "ReadWriteOncePod");
                let once = volume.persistent_volume().is_none() || volume.access_modes().iter().any(once);
                once && !fs_type.is_empty()
            }
        }
    }
}
