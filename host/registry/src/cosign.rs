//! Signatures that `cosign sign` has put into a registry: a manifest under a tag that names the
//! signed one, with a layer for each signature.

use hyper::{Method, StatusCode};

use crate::artifact::{ArtifactManifest, MANIFEST, MANIFEST_BYTES, SIGNATURE_BYTES};
use crate::pull::{PullError, blob};
use crate::session::{HttpRequest, Session};
use volhost_model::oci::Digest;

/// The type of a layer that is a signed payload.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of such a layer with the signature of it, in base64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// How many signatures are pulled, the newest: cosign puts the next one after the others.
const MOST: usize = 16;

/// A signature of a manifest by cosign. It is verified when the plugin is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignSignature {
    /// What is signed: JSON with the manifest's digest.
    pub payload: Vec<u8>,
    /// The signature, in base64.
    pub signature: String,
}

/// The signatures of a manifest.
///
/// # Errors
/// [`PullError`]: without one that is there the plugin might be refused, or pass as unsigned.
pub(crate) async fn signatures(session: &mut Session<'_>, signed: &Digest) -> Result<Vec<CosignSignature>, PullError> {
    let what = "the manifest of cosign's signatures";
    let uri = session.uri(&format!("manifests/sha256-{}.sig", signed.hex()))?;
    let answer = session
        .call(HttpRequest { accept: Some(MANIFEST), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) })
        .await?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(Vec::new()),
        _ => return Err(session.refused(what, &answer).into()),
    }
    let manifest: ArtifactManifest =
        serde_json::from_slice(&answer.body).map_err(|source| PullError::Malformed { what, source })?;
    let mut found = Vec::new();
    for layer in manifest.layers.iter().rev().filter(|layer| layer.media_type == PAYLOAD).take(MOST) {
        let signature = layer.annotations.as_ref().and_then(|all| all.get(SIGNATURE));
        let Some(signature) = signature.filter(|text| text.len() as u64 <= SIGNATURE_BYTES) else { continue };
        if layer.size > SIGNATURE_BYTES {
            return Err(PullError::Size { what: "cosign's payload", expected: SIGNATURE_BYTES, found: layer.size });
        }
        let payload = blob(session, layer, "cosign's payload").await?;
        found.push(CosignSignature { payload, signature: signature.clone() });
    }
    Ok(found)
}
