//! Where images come from.

pub(crate) mod layout;
pub(crate) mod registry;

use volhost_model::images::{ImageError, PullWatch};
use volhost_model::oci::Digest;

use crate::layer::BlobFile;
use crate::manifest::Blob;

/// A place that has an image.
pub(crate) trait Source {
    /// The manifest or index that the reference names, or the one of this digest. Its bytes are
    /// not checked.
    ///
    /// # Errors
    /// `NotFound`, `Refused`, `Retryable`, `Cancelled`.
    fn manifest(&mut self, digest: Option<&Digest>, watch: &dyn PullWatch) -> Result<Vec<u8>, ImageError>;

    /// Writes a blob into a file, which checks it.
    ///
    /// # Errors
    /// As [`Source::manifest`], and `Corrupt`.
    fn blob(
        &mut self,
        blob: &Blob,
        file: &mut BlobFile,
        progress: &mut dyn FnMut(u64),
        watch: &dyn PullWatch,
    ) -> Result<(), ImageError>;

    /// Whether a login was needed.
    fn used_login(&self) -> bool;
}
