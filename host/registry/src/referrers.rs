//! What refers to a manifest: the referrers of the distribution specification 1.1, and the fallback
//! tag on a registry that does not know them.

use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::artifact::{Descriptor, INDEX, Index, MANIFEST_BYTES};
use crate::publish_error::PublishError;
use crate::session::{HttpRequest, Session, SessionError, escape};
use volhost_model::oci::Digest;

/// The header by which a registry confirms the `subject` of a manifest.
pub(crate) const UNDERSTOOD: &str = "oci-subject";

/// The fallback tag.
fn tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

/// The manifests of a type that refer to `subject`, as the registry lists them. A list that cannot
/// be parsed counts as empty: its entries would be checked against their digests anyway, and its
/// omissions cannot be detected.
pub(crate) async fn list(
    session: &mut Session<'_>,
    subject: &Digest,
    artifact_type: &str,
) -> Result<Vec<Descriptor>, SessionError> {
    let api = session.uri(&format!("referrers/{subject}?artifactType={}", escape(artifact_type)))?;
    let answer =
        session.call(HttpRequest { accept: Some(INDEX), ..HttpRequest::new(Method::GET, api, MANIFEST_BYTES) }).await?;
    let index = match answer.status {
        StatusCode::OK => serde_json::from_slice::<Index>(&answer.body).ok(),
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => {
            stand_in(session, subject).await?
        }
        _ => return Err(session.refused("the request for the plugin's referrers", &answer)),
    };
    let descriptors = index.into_iter().flat_map(|index| index.manifests);
    let known = descriptors.filter_map(|one| serde_json::from_value::<Descriptor>(one).ok());
    Ok(known.filter(|one| one.artifact_type.as_deref() == Some(artifact_type)).collect())
}

async fn stand_in(session: &mut Session<'_>, subject: &Digest) -> Result<Option<Index>, SessionError> {
    let uri = session.uri(&format!("manifests/{}", tag(subject)))?;
    let answer =
        session.call(HttpRequest { accept: Some(INDEX), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) }).await?;
    match answer.status {
        StatusCode::OK => Ok(serde_json::from_slice(&answer.body).ok()),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(session.refused("the request for the plugin's referrers", &answer)),
    }
}

/// Adds a manifest to the fallback tag, in place of others of its type; those of other types stay.
pub(crate) async fn add(session: &mut Session<'_>, subject: &Digest, referrer: Descriptor) -> Result<(), PublishError> {
    let present = stand_in(session, subject).await?.map(|index| index.manifests).unwrap_or_default();
    let of_its_type =
        |one: &Value| one.get("artifactType").and_then(Value::as_str) == referrer.artifact_type.as_deref();
    let mut manifests: Vec<_> = present.into_iter().filter(|one| !of_its_type(one)).collect();
    manifests.push(serde_json::to_value(&referrer)?);
    let index = Index { schema_version: 2, media_type: INDEX.to_owned(), manifests };
    let body = serde_json::to_vec(&index)?;
    let uri = session.uri(&format!("manifests/{}", tag(subject)))?;
    let call = HttpRequest {
        content_type: Some(INDEX),
        body: body.into(),
        ..HttpRequest::new(Method::PUT, uri, MANIFEST_BYTES)
    };
    let answer = session.call(call).await?;
    match answer.status {
        StatusCode::CREATED | StatusCode::OK => Ok(()),
        _ => Err(session.refused("the list of what refers to the plugin", &answer).into()),
    }
}
