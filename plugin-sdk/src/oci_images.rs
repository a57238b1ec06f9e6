//! OCI images as read-only mounts.
//!
//! A plugin that calls one of these needs the grant `image-registries` or `image-layouts`; one that
//! calls none does not request it. A reference is read as container runtimes read it, or is
//! `oci:/FOLDER[:TAG][@DIGEST]` for an OCI image layout.
//!
//! ```
//! use volhost_plugin_sdk::oci_images::Image;
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant_image_registry("r.example").registry_image("r.example/app:1", 1 << 20);
//! # let pod = Pod::builder();
//! # let pod = pod.handle();
//! assert!(!oci_images::is_latest("r.example/app:1")?);
//! let image: Image = match oci_images::find("r.example/app:1", &pod)? {
//!     Some(image) => image,
//!     None => oci_images::pull("r.example/app:1", &pod)?,
//! };
//! assert!(image.digest().starts_with("sha256:") && image.size() == 1 << 20);
//! let mount = image.mount()?;
//! # drop(mount);
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::Pod;
use crate::backend;
use crate::error::Result;
use crate::mounts::DetachedMount;

/// An image that the node has. The host does not remove it during the call that got this.
pub struct Image(backend::Image);

impl Image {
    /// The digest of its manifest, `sha256:...`.
    #[must_use]
    pub fn digest(&self) -> String {
        self.0.digest()
    }

    /// What its layers have on the node's disk, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Its files as a detached mount, read-only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn mount(&self) -> Result<DetachedMount> {
        self.0.mount().map(DetachedMount::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.digest()).finish()
    }
}

/// The image of this reference, if the node has it and the pod may use it: it was pulled without a
/// login, or for a pod of the same namespace. Asks no registry.
///
/// # Errors
/// [`InvalidArgument`](crate::Error::InvalidArgument) for what is no reference,
/// [`PermissionDenied`](crate::Error::PermissionDenied) outside the grant.
pub fn find(reference: &str, pod: &Pod) -> Result<Option<Image>> {
    let found = backend::oci_images::find(reference, pod.handle()).map_err(backend::error_in)?;
    Ok(found.map(Image))
}

/// Asks the registry or layout which image has this reference now, and fetches what the node lacks
/// of it, with the pod's pull secrets. May take minutes; may be repeated.
///
/// # Errors
/// As [`find`]; [`NotFound`](crate::Error::NotFound) when there is no such image,
/// [`PermissionDenied`](crate::Error::PermissionDenied) when the registry refuses the login,
/// [`Retryable`](crate::Error::Retryable) when it does not answer or the disk is full,
/// [`Corrupt`](crate::Error::Corrupt) when something does not match its digest,
/// [`Unsupported`](crate::Error::Unsupported) when it is no image that can be a volume here.
pub fn pull(reference: &str, pod: &Pod) -> Result<Image> {
    backend::oci_images::pull(reference, pod.handle()).map(Image).map_err(backend::error_in)
}

/// Whether the reference has neither a digest nor a tag other than `latest`: another image may get
/// the name at any time.
///
/// # Errors
/// As [`find`].
pub fn is_latest(reference: &str) -> Result<bool> {
    backend::oci_images::is_latest(reference).map_err(backend::error_in)
}
