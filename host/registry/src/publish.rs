//! A plugin into a registry.

use hyper::{Method, StatusCode, Uri};

use crate::access::Access;
use crate::artifact::{
    ArtifactManifest, CREATED, Component, Descriptor, EMPTY, EMPTY_CONTENT, INDEX, MANIFEST, MANIFEST_BYTES, SIGNATURE,
    SIGNATURE_BYTES, WASM_CONFIG, WASM_LAYER, WasmConfig,
};
pub use crate::publish_error::PublishError;
use crate::referrers;
use crate::session::{HttpRequest, Session, SessionError, escape};
use volhost_model::oci::Digest;
use volhost_model::oci::Reference;

/// The largest answer to a push, in bytes: only a refusal has a body.
const ANSWER_BYTES: u64 = 64 << 10;

/// What is published.
#[derive(Debug, Clone, Copy)]
pub struct PluginArtifact<'a> {
    /// The component.
    pub component: &'a [u8],
    /// What it exports, by its full names.
    pub exports: &'a [String],
    /// What it imports, likewise.
    pub imports: &'a [String],
    /// When it was created, in RFC 3339. Publishing the same content again publishes nothing.
    pub created: &'a str,
    /// Its maker's signature, as minisign writes it.
    pub signature: Option<&'a [u8]>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedArtifact {
    /// The manifest: what pins the plugin.
    pub digest: Digest,
}

/// Publishes a plugin under the tag of `reference`, with its signature. `report` is called with
/// each step.
///
/// # Guarantees
/// The tag changes last, and at once: a pull gets the old plugin, or the new one with its
/// signature. A tag that has other content is not replaced without `force`. Repeating it is
/// harmless.
///
/// # Errors
/// [`PublishError`].
pub async fn publish(
    access: &Access,
    reference: &Reference,
    plugin: PluginArtifact<'_>,
    force: bool,
    report: &dyn Fn(&str),
) -> Result<PublishedArtifact, PublishError> {
    let tag = checked_tag(reference)?;
    if let Some(signature) = plugin.signature {
        check_signature(signature)?;
    }
    let mut session = Session::new(access, reference, "pull,push")?;
    let layer = Descriptor::of(WASM_LAYER, plugin.component);
    let config = serde_json::to_vec(&WasmConfig {
        created: plugin.created,
        architecture: "wasm",
        // The guidance's name for whatever is a component, whether or not it uses WASI.
        os: "wasip2",
        layer_digests: vec![layer.digest.clone()],
        component: Component { exports: plugin.exports, imports: plugin.imports },
    })?;
    let manifest = serde_json::to_vec(&manifest(None, Descriptor::of(WASM_CONFIG, &config), layer, None, None))?;
    let digest = Digest::of(&manifest);
    match present(&mut session, tag).await? {
        Some(present) if present != digest && !force => {
            return Err(PublishError::Taken { reference: reference.clone(), present });
        }
        _ => {}
    }
    report(&format!("component: {} bytes", plugin.component.len()));
    push_blob(&mut session, plugin.component).await?;
    push_blob(&mut session, &config).await?;
    push_manifest(&mut session, digest.as_str(), &manifest).await?;
    if let Some(signature) = plugin.signature {
        report("signature");
        let subject = Descriptor::of(MANIFEST, &manifest);
        push_signature(&mut session, signature, &digest, subject, plugin.created).await?;
    }
    report(&format!("tag: {tag}"));
    push_manifest(&mut session, tag, &manifest).await?;
    Ok(PublishedArtifact { digest })
}

/// The tag to publish under.
pub(crate) fn checked_tag(reference: &Reference) -> Result<&str, PublishError> {
    if reference.digest().is_some() {
        return Err(PublishError::Pinned(reference.clone()));
    }
    reference.tag().ok_or_else(|| PublishError::NoTag(reference.clone()))
}

pub(crate) fn manifest(
    artifact_type: Option<&str>,
    config: Descriptor,
    layer: Descriptor,
    subject: Option<Descriptor>,
    created: Option<&str>,
) -> ArtifactManifest {
    ArtifactManifest {
        schema_version: 2,
        media_type: MANIFEST.to_owned(),
        artifact_type: artifact_type.map(str::to_owned),
        config,
        layers: vec![layer],
        subject,
        annotations: created.map(|created| [(CREATED.to_owned(), created.to_owned())].into()),
    }
}

fn check_signature(signature: &[u8]) -> Result<(), PublishError> {
    let wrong = |why: &str| PublishError::Signature(why.to_owned());
    if signature.len() as u64 > SIGNATURE_BYTES {
        return Err(wrong("it is too large"));
    }
    let text = str::from_utf8(signature).map_err(|_| wrong("it is not text"))?;
    minisign_verify::Signature::decode(text).map(drop).map_err(|error| wrong(&error.to_string()))
}

/// The manifest of a tag.
pub(crate) async fn present(session: &mut Session<'_>, tag: &str) -> Result<Option<Digest>, SessionError> {
    let uri = session.uri(&format!("manifests/{tag}"))?;
    let accept = format!("{MANIFEST}, {INDEX}");
    let answer = session
        .call(HttpRequest { accept: Some(&accept), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) })
        .await?;
    match answer.status {
        StatusCode::OK => Ok(Some(Digest::of(&answer.body))),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(session.refused(format!("the question what {tag} is"), &answer)),
    }
}

async fn push_signature(
    session: &mut Session<'_>,
    signature: &[u8],
    plugin: &Digest,
    subject: Descriptor,
    created: &str,
) -> Result<(), PublishError> {
    push_blob(session, signature).await?;
    push_blob(session, EMPTY_CONTENT).await?;
    let (config, layer) = (Descriptor::of(EMPTY, EMPTY_CONTENT), Descriptor::of(SIGNATURE, signature));
    let manifest = manifest(Some(SIGNATURE), config, layer, Some(subject), Some(created));
    let content = serde_json::to_vec(&manifest)?;
    let understood = push_manifest(session, Digest::of(&content).as_str(), &content).await?;
    if !understood {
        let mut referrer = Descriptor::of(MANIFEST, &content);
        referrer.artifact_type = manifest.artifact_type;
        referrer.annotations = manifest.annotations;
        referrers::add(session, plugin, referrer).await?;
    }
    Ok(())
}

pub(crate) async fn push_blob(session: &mut Session<'_>, content: &[u8]) -> Result<(), SessionError> {
    let digest = Digest::of(content);
    let uri = session.uri(&format!("blobs/{digest}"))?;
    if session.call(HttpRequest::new(Method::HEAD, uri, ANSWER_BYTES)).await?.status == StatusCode::OK {
        return Ok(());
    }
    let uploads = session.uri("blobs/uploads/")?;
    let answer = session.call(HttpRequest::new(Method::POST, uploads.clone(), ANSWER_BYTES)).await?;
    if answer.status != StatusCode::ACCEPTED {
        return Err(session.refused("an upload", &answer));
    }
    let place = with_query(session.location(&answer, &uploads)?, &format!("digest={}", escape(digest.as_str())));
    let place = place.ok_or_else(|| session.refused("an upload", &answer))?;
    let call = HttpRequest {
        content_type: Some("application/octet-stream"),
        body: content.to_vec().into(),
        ..HttpRequest::new(Method::PUT, place, ANSWER_BYTES)
    };
    let answer = session.call(call).await?;
    if answer.status != StatusCode::CREATED {
        return Err(session.refused(format!("the upload of {digest}"), &answer));
    }
    Ok(())
}

fn with_query(uri: Uri, query: &str) -> Option<Uri> {
    let joint = if uri.query().is_some() { '&' } else { '?' };
    format!("{uri}{joint}{query}").parse().ok()
}

/// Whether the registry has understood what the manifest refers to.
pub(crate) async fn push_manifest(session: &mut Session<'_>, name: &str, content: &[u8]) -> Result<bool, SessionError> {
    let uri = session.uri(&format!("manifests/{name}"))?;
    let call = HttpRequest {
        content_type: Some(MANIFEST),
        body: content.to_vec().into(),
        ..HttpRequest::new(Method::PUT, uri, ANSWER_BYTES)
    };
    let answer = session.call(call).await?;
    if !matches!(answer.status, StatusCode::CREATED | StatusCode::OK) {
        return Err(session.refused(format!("the manifest {name}"), &answer));
    }
    Ok(answer.header(referrers::UNDERSTOOD).is_some())
}
