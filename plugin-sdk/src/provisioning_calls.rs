//! Further inputs of a call of a [`Controller`](crate::Controller) or a
//! [`Snapshotter`](crate::Snapshotter), where the host provisions volumes for claims: for a plugin
//! whose volumes belong to several drivers. Needs the grants `provisioning-calls` and `secrets`.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::provisioning_calls::{self, Place};
//!
//! /// Reads the inputs that a plugin of several drivers needs to make a volume.
//! fn look() -> Result<String> {
//!     let driver = provisioning_calls::provisioner().ok_or_else(|| Error::invalid_argument("the StorageClass names no driver"))?;
//!     let secret = provisioning_calls::secret()?;
//!     let places: Vec<Place> = provisioning_calls::allowed_places();
//!     log::debug(format_args!("{} places, a secret: {}, {:?}", places.len(), secret.is_some(), provisioning_calls::mount_options()));
//!     provisioning_calls::reachable_from(&[("zone".to_owned(), "b".to_owned())]);
//!     Ok(driver)
//! }
//!
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! host.provisioner("csi.example.com").allowed_place(&[("zone", &["a", "b"])]);
//! assert_eq!(look()?, "csi.example.com");
//! assert_eq!(host.reachable_from().len(), 1);
//! host.provisioner_secret("gone");
//! assert!(matches!(look(), Err(Error::NotFound(_))));
//! # Ok::<(), Error>(())
//! ```

use crate::backend;
use crate::error::Result;
use crate::objects::Secret;

/// Where a volume may be: for each of these keys, one of its values.
pub type Place = Vec<(String, Vec<String>)>;

/// The provisioner that the StorageClass names; none where there is no StorageClass.
#[must_use]
pub fn provisioner() -> Option<String> {
    backend::provisioning_calls::provisioner()
}

/// The secret that the StorageClass names for this call, if it names one.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound) when there is no such secret,
/// [`Retryable`](crate::Error::Retryable) while the host does not know.
pub fn secret() -> Result<Option<Secret>> {
    let handle = backend::provisioning_calls::class_secret().map_err(backend::error_in)?;
    Ok(handle.map(|handle| Secret::of_call("the StorageClass's", handle)))
}

/// Where the new volume may be (`allowedTopologies`): in one of these places. None: wherever this
/// node reaches it.
#[must_use]
pub fn allowed_places() -> Vec<Place> {
    backend::provisioning_calls::allowed_places()
}

/// The mount options of the new volume.
#[must_use]
pub fn mount_options() -> Vec<String> {
    backend::provisioning_calls::mount_options()
}

/// Reports that the new volume can be reached from nodes with these labels. Called several times:
/// with those of one of the calls. Never called: from everywhere.
pub fn reachable_from(labels: &[(String, String)]) {
    backend::provisioning_calls::reachable_from(labels);
}
