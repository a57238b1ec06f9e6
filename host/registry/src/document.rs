//! A document in a registry: an artifact with one layer of a type of its own.

use volhost_model::oci::{Digest, Reference};

use crate::access::Access;
use crate::artifact::{Descriptor, EMPTY, EMPTY_CONTENT};
use crate::publish::{PublishedArtifact, checked_tag, manifest as manifest_of, present, push_blob, push_manifest};
use crate::publish_error::PublishError;
use crate::pull::{PullError, blob, manifest};
use crate::session::Session;
use volhost_model::text::printable;

/// Pulls the document of type `media_type` that `reference` names, of at most `limit` bytes.
///
/// # Guarantees
/// As [`crate::pull()`].
///
/// # Errors
/// [`PullError`].
pub async fn pull_document(
    access: &Access,
    reference: &Reference,
    media_type: &str,
    limit: u64,
) -> Result<Vec<u8>, PullError> {
    let mut session = Session::new(access, reference, "pull")?;
    let (manifest, ..) = manifest(&mut session, reference).await?;
    let other = |found: &str| PullError::OtherType {
        reference: Box::new(reference.clone()),
        wanted: media_type.to_owned(),
        found: printable(found),
    };
    let layer = match manifest.layers.as_slice() {
        [one] if one.media_type == media_type => one,
        [one] => return Err(other(&one.media_type)),
        _ => return Err(other(&manifest.config.media_type)),
    };
    if layer.size > limit {
        return Err(PullError::TooLarge { reference: reference.clone(), size: layer.size, limit });
    }
    blob(&mut session, layer, "the document").await
}

/// Publishes a document under the tag of `reference`.
///
/// # Guarantees
/// The tag changes last, and at once. A tag that has other content is not replaced without `force`.
/// Repeating it is harmless.
///
/// # Errors
/// [`PublishError`].
pub async fn publish_document(
    access: &Access,
    reference: &Reference,
    (media_type, content): (&str, &[u8]),
    force: bool,
) -> Result<PublishedArtifact, PublishError> {
    let tag = checked_tag(reference)?;
    let mut session = Session::new(access, reference, "pull,push")?;
    let (config, layer) = (Descriptor::of(EMPTY, EMPTY_CONTENT), Descriptor::of(media_type, content));
    let manifest = serde_json::to_vec(&manifest_of(Some(media_type), config, layer, None, None))?;
    let digest = Digest::of(&manifest);
    match present(&mut session, tag).await? {
        Some(present) if present != digest && !force => {
            return Err(PublishError::Taken { reference: reference.clone(), present });
        }
        _ => {}
    }
    push_blob(&mut session, content).await?;
    push_blob(&mut session, EMPTY_CONTENT).await?;
    push_manifest(&mut session, digest.as_str(), &manifest).await?;
    push_manifest(&mut session, tag, &manifest).await?;
    Ok(PublishedArtifact { digest })
}
