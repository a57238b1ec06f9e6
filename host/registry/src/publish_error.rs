//! Why a plugin was not published.

use thiserror::Error;

use crate::session::SessionError;
use volhost_model::oci::Digest;
use volhost_model::oci::Reference;

/// Why a plugin was not published. Its tag is unchanged then.
#[derive(Debug, Error)]
pub enum PublishError {
    /// The registry.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It would have no name.
    #[error("{0} names no version: write HOST/NAME:TAG")]
    NoTag(Reference),
    /// A digest is what publishing gives, not what it takes.
    #[error("{0} is pinned to a digest; a plugin is published under a tag, and its digest comes of that")]
    Pinned(Reference),
    /// The tag has another plugin.
    #[error(
        "{reference} is there already, with other content ({present}): choose another tag, or replace it with --force"
    )]
    Taken {
        /// The tag.
        reference: Reference,
        /// The manifest there.
        present: Digest,
    },
    /// The signature is none.
    #[error("the signature is none of minisign's: {0}")]
    Signature(String),
    /// A manifest cannot be written.
    #[error("the manifest cannot be written")]
    Encode(#[from] serde_json::Error),
}
