//! The fields of an `image` source.

use volhost_plugin_sdk::prelude::*;

const REFERENCE: &str = "reference";
const POLICY: &str = "pullPolicy";

/// When the registry is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// The words for it in Kubernetes.
const POLICIES: &[(&str, PullPolicy)] =
    &[("Always", PullPolicy::Always), ("IfNotPresent", PullPolicy::IfNotPresent), ("Never", PullPolicy::Never)];

/// A checked source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) reference: String,
    pub(crate) policy: PullPolicy,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field; `permission-denied` for what is not granted.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&[REFERENCE, POLICY])?;
        let reference = volume.required(REFERENCE)?;
        let policy = volume.one_of(POLICY, POLICIES)?;
        let is_latest = oci_images::is_latest(&reference).context("image.reference")?;
        let default = if is_latest { PullPolicy::Always } else { PullPolicy::IfNotPresent };
        Ok(Self { reference, policy: policy.unwrap_or(default) })
    }
}
