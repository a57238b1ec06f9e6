//! A plugin from a registry.

use hyper::{Method, StatusCode};
use thiserror::Error;

use crate::access::Access;
use crate::artifact::{
    ArtifactManifest, CREATED, Descriptor, INDEX, MANIFEST, MANIFEST_BYTES, SIGNATURE, SIGNATURE_BYTES, WASM_CONFIG,
    WASM_LAYER,
};
use crate::cosign::{self, CosignSignature};
use crate::referrers;
use crate::session::{HttpRequest, Session, SessionError};
use volhost_model::oci::Digest;
use volhost_model::oci::Reference;
use volhost_model::text::printable;

/// The first bytes of every component: the magic number, the version, and the layer "component".
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// The header with the digest of what the registry has sent.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// What a refusal may have, in bytes, where less was asked for.
const REFUSAL_BYTES: u64 = 4 << 10;

/// Why a plugin was not pulled.
#[derive(Debug, Error)]
pub enum PullError {
    /// The registry.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The reference has neither tag nor digest.
    #[error("{0} names no version: write HOST/NAME:TAG, or HOST/NAME@sha256:...")]
    NoVersion(Reference),
    /// There is none.
    #[error("{0} is not there, or this login may not see it")]
    NotFound(Reference),
    /// What came is not what was to come.
    #[error(
        "{what} does not match {by}: {expected} was expected, {found} received; the registry, or something in between, has changed it"
    )]
    Digest {
        /// What came.
        what: &'static str,
        /// The origin of the expected digest.
        by: &'static str,
        /// What was to come.
        expected: String,
        /// What came.
        found: Digest,
    },
    /// A part has another size than in the manifest.
    #[error("{what} has {found} bytes, and {expected} in the manifest")]
    Size {
        /// The part.
        what: &'static str,
        /// The manifest's.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// A manifest cannot be read.
    #[error("{what} cannot be read")]
    Malformed {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// It is something else.
    #[error("{reference} is no plugin: {why}")]
    NoPlugin {
        /// What was pulled.
        reference: Reference,
        /// What it is instead.
        why: String,
    },
    /// It is another kind of document.
    #[error("{reference} is of type {found}, and {wanted} was expected")]
    OtherType {
        /// What was pulled.
        reference: Box<Reference>,
        /// The expected type.
        wanted: String,
        /// Its type.
        found: String,
    },
    /// It may not be so large.
    #[error("{reference} has {size} bytes, and may have {limit}")]
    TooLarge {
        /// What was pulled.
        reference: Reference,
        /// Its size.
        size: u64,
        /// The bound.
        limit: u64,
    },
}

/// A plugin that was pulled. Nothing of it has been interpreted.
#[derive(Debug, Clone)]
pub struct PulledPlugin {
    /// The component.
    pub component: Vec<u8>,
    /// Its manifest: what pins it.
    pub digest: Digest,
    /// The signature that refers to it, as minisign writes it. It is verified when the plugin is
    /// loaded.
    pub signature: Option<Vec<u8>>,
    /// The manifest, which the signatures of cosign are for.
    pub manifest: Vec<u8>,
    /// The signatures that `cosign sign` has added to it.
    pub cosign: Vec<CosignSignature>,
}

/// Pulls the plugin that `reference` names, of at most `limit` bytes, with the newest signature
/// that refers to it and those of cosign. `report` is called with each step.
///
/// # Guarantees
/// The content has the reference's digest, if it has one, and the manifest's in any case. No name,
/// path or address of the registry's is used on this machine.
///
/// # Errors
/// [`PullError`].
pub async fn pull(
    access: &Access,
    reference: &Reference,
    limit: u64,
    report: &dyn Fn(&str),
) -> Result<PulledPlugin, PullError> {
    let mut session = Session::new(access, reference, "pull")?;
    let (manifest, digest, manifest_text) = manifest(&mut session, reference).await?;
    let layer = component_of(&manifest, reference)?;
    if layer.size > limit {
        return Err(PullError::TooLarge { reference: reference.clone(), size: layer.size, limit });
    }
    report(&format!("component: {} bytes", layer.size));
    let component = blob(&mut session, layer, "the component").await?;
    if !component.starts_with(COMPONENT) {
        let why = "its layer is no WebAssembly component".to_owned();
        return Err(PullError::NoPlugin { reference: reference.clone(), why });
    }
    let signature = signature(&mut session, &digest).await?;
    let cosign = cosign::signatures(&mut session, &digest).await?;
    report(match (&signature, cosign.is_empty()) {
        (Some(_), true) => "signature",
        (None, true) => "no signature",
        (None, false) => "signature of cosign",
        (Some(_), false) => "signatures of minisign and cosign",
    });
    Ok(PulledPlugin { component, digest, signature, manifest: manifest_text, cosign })
}

pub(crate) async fn manifest(
    session: &mut Session<'_>,
    reference: &Reference,
) -> Result<(ArtifactManifest, Digest, Vec<u8>), PullError> {
    let pinned = reference.digest();
    let version = match (pinned, reference.tag()) {
        (Some(digest), _) => digest.as_str(),
        (None, Some(tag)) => tag,
        (None, None) => return Err(PullError::NoVersion(reference.clone())),
    };
    let uri = session.uri(&format!("manifests/{version}"))?;
    let accept = format!("{MANIFEST}, {INDEX}");
    let answer = session
        .call(HttpRequest { accept: Some(&accept), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) })
        .await?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(PullError::NotFound(reference.clone())),
        _ => return Err(session.refused("the plugin's manifest", &answer).into()),
    }
    let found = Digest::of(&answer.body);
    let stated = pinned.map(|digest| (digest.as_str(), "the reference"));
    let stated = stated.or_else(|| answer.header(CONTENT_DIGEST).map(|header| (header, "the registry")));
    if let Some((expected, by)) = stated.filter(|(expected, _)| *expected != found.as_str()) {
        return Err(PullError::Digest { what: "the manifest", by, expected: printable(expected), found });
    }
    let kind = answer.header("content-type").unwrap_or("");
    if kind.starts_with(INDEX) {
        let why = "it is a list of several artifacts; name one by its digest".to_owned();
        return Err(PullError::NoPlugin { reference: reference.clone(), why });
    }
    let manifest =
        serde_json::from_slice(&answer.body).map_err(|source| PullError::Malformed { what: "the manifest", source })?;
    Ok((manifest, found, answer.body.into()))
}

/// The one layer that is the component.
fn component_of<'a>(manifest: &'a ArtifactManifest, reference: &Reference) -> Result<&'a Descriptor, PullError> {
    let no_plugin = |why: String| PullError::NoPlugin { reference: reference.clone(), why };
    if manifest.config.media_type != WASM_CONFIG {
        let found = printable(&manifest.config.media_type);
        return Err(no_plugin(format!("its config is of type {found}, and a plugin's is {WASM_CONFIG}")));
    }
    match manifest.layers.as_slice() {
        [one] if one.media_type == WASM_LAYER => Ok(one),
        [one] => Err(no_plugin(format!(
            "its layer is of type {}, and a plugin's is {WASM_LAYER}",
            printable(&one.media_type)
        ))),
        several => Err(no_plugin(format!("it has {} layers, and a plugin has one", several.len()))),
    }
}

pub(crate) async fn blob(
    session: &mut Session<'_>,
    descriptor: &Descriptor,
    what: &'static str,
) -> Result<Vec<u8>, PullError> {
    // What is no digest must not become a part of an address.
    let Ok(digest) = descriptor.digest.parse::<Digest>() else {
        let expected = printable(&descriptor.digest);
        return Err(PullError::Digest { what, by: "the manifest", expected, found: Digest::of(&[]) });
    };
    let uri = session.uri(&format!("blobs/{digest}"))?;
    let answer = session.call(HttpRequest::new(Method::GET, uri, descriptor.size.max(REFUSAL_BYTES))).await?;
    if answer.status != StatusCode::OK {
        return Err(session.refused(what, &answer).into());
    }
    let (expected, found) = (descriptor.size, answer.body.len() as u64);
    if expected != found {
        return Err(PullError::Size { what, expected, found });
    }
    let found = Digest::of(&answer.body);
    if found != digest {
        return Err(PullError::Digest { what, by: "the manifest", expected: digest.to_string(), found });
    }
    Ok(answer.body.into())
}

/// The newest signature. One that cannot be pulled is an error: without it the plugin might be
/// refused, or pass as unsigned.
async fn signature(session: &mut Session<'_>, plugin: &Digest) -> Result<Option<Vec<u8>>, PullError> {
    let found = referrers::list(session, plugin, SIGNATURE).await?;
    let created = |one: &Descriptor| one.annotations.as_ref().and_then(|all| all.get(CREATED).cloned());
    let Some(newest) =
        found.into_iter().filter(|one| one.size <= MANIFEST_BYTES).max_by_key(|one| (created(one), one.digest.clone()))
    else {
        return Ok(None);
    };
    let content = manifest_of_signature(session, &newest).await?;
    let Some(layer) = content.layers.iter().find(|layer| layer.media_type == SIGNATURE) else { return Ok(None) };
    if layer.size > SIGNATURE_BYTES {
        return Err(PullError::Size { what: "the signature", expected: SIGNATURE_BYTES, found: layer.size });
    }
    blob(session, layer, "the signature").await.map(Some)
}

async fn manifest_of_signature(
    session: &mut Session<'_>,
    descriptor: &Descriptor,
) -> Result<ArtifactManifest, PullError> {
    let what = "the signature's manifest";
    let Ok(digest) = descriptor.digest.parse::<Digest>() else {
        let expected = printable(&descriptor.digest);
        return Err(PullError::Digest {
            what,
            by: "the list of what refers to the plugin",
            expected,
            found: Digest::of(&[]),
        });
    };
    let uri = session.uri(&format!("manifests/{digest}"))?;
    let answer = session
        .call(HttpRequest { accept: Some(MANIFEST), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) })
        .await?;
    if answer.status != StatusCode::OK {
        return Err(session.refused(what, &answer).into());
    }
    let found = Digest::of(&answer.body);
    if found != digest {
        return Err(PullError::Digest {
            what,
            by: "the list of what refers to the plugin",
            expected: digest.to_string(),
            found,
        });
    }
    serde_json::from_slice(&answer.body).map_err(|source| PullError::Malformed { what, source })
}
