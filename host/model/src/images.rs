//! OCI images as folders of this node. The node implements the calls.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::objects::Bytes;
use crate::oci::{Digest, ImageLocation};

/// An image that is to be brought into the store.
#[derive(Debug, Clone, Copy)]
pub struct ImagePull<'a> {
    /// Where it comes from.
    pub location: &'a ImageLocation,
    /// The namespace of the pod that it is for.
    pub namespace: &'a str,
    /// The pull secrets of that pod.
    pub secrets: &'a [PullSecret],
    /// The folders within which image layouts may be read.
    pub layouts: &'a [PathBuf],
    /// The most that the image may have when it is unpacked, in bytes.
    pub most_bytes: u64,
}

/// A login to registries, as a Secret has it.
#[derive(Clone)]
pub enum PullSecret {
    /// The value of `.dockerconfigjson`.
    Config(Bytes),
    /// The value of `.dockercfg`.
    Legacy(Bytes),
}

impl Debug for PullSecret {
    /// Without what it says (rule R10).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PullSecret")
    }
}

/// What a pull reports while it runs, and whether it is still wanted. Called from the thread that
/// pulls.
pub trait PullWatch {
    /// Reports the step that begins, or how far it is: `layer 2 of 5: 12 of 30 MiB`.
    fn progress(&self, step: String);
    /// Returns whether the pull is to end early.
    fn is_cancelled(&self) -> bool;
}

/// An image in the store. It is not removed while this exists.
#[derive(Debug, Clone)]
pub struct StoredImage {
    /// The digest of its manifest for this node's platform.
    pub digest: Digest,
    /// What its layers have on disk, in bytes.
    pub bytes: u64,
    /// The folders to lay on one another, the uppermost first; at least two.
    pub layers: Vec<PathBuf>,
    /// The source of the mount, by which the store finds the images in use.
    pub mount_source: String,
    /// Keeps the image.
    pub lease: Arc<dyn ImageLease>,
}

/// Keeps an image from being removed until it is dropped.
pub trait ImageLease: Send + Sync + Debug {}

/// A step on an image failed. The text is for the person who reads the pod's events, and contains no
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImageError {
    /// There is no such image where it should be, or this login may not see it.
    #[error("{0}")]
    NotFound(String),
    /// The registry refuses the login, or the operator's grant the place.
    #[error("{0}")]
    Refused(String),
    /// This node lacks what it takes.
    #[error("{0}")]
    NotReady(String),
    /// It is no image that can be a volume.
    #[error("{0}")]
    Unsupported(String),
    /// What came is not what its digest, size or type says, or no archive that may be unpacked.
    #[error("{0}")]
    Corrupt(String),
    /// The node's disk has no room for it.
    #[error("{0}")]
    DiskFull(String),
    /// A failure that may pass.
    #[error("{0}")]
    Retryable(String),
    /// The pull is no longer wanted.
    #[error("the pull was cancelled")]
    Cancelled,
}

/// The images of a node. Called from threads that run calls, many at once.
pub trait Images: Send + Sync + Debug {
    /// The image of this name, if the store has it and pods of this namespace may use it: it was
    /// pulled without a login, or for a pod of the namespace.
    ///
    /// # Errors
    /// [`ImageError::Retryable`] when the store cannot be read.
    fn find(&self, location: &ImageLocation, namespace: &str) -> Result<Option<StoredImage>, ImageError>;

    /// Asks the image's place which image has the name now, and brings what the store lacks of it.
    /// A pull of the same image that runs already is waited for and shared.
    ///
    /// # Errors
    /// [`ImageError`]; then the store is as it was but for whole layers.
    fn pull(&self, pull: ImagePull<'_>, watch: &dyn PullWatch) -> Result<StoredImage, ImageError>;
}

/// No images: where the host keeps none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoImages;

impl NoImages {
    fn none<T>() -> Result<T, ImageError> {
        Err(ImageError::NotReady("this host keeps no images".to_owned()))
    }
}

impl Images for NoImages {
    fn find(&self, _: &ImageLocation, _: &str) -> Result<Option<StoredImage>, ImageError> {
        Self::none()
    }

    fn pull(&self, _: ImagePull<'_>, _: &dyn PullWatch) -> Result<StoredImage, ImageError> {
        Self::none()
    }
}
