//! Manifests and blobs of any image, as they are.

use std::io;

use hyper::{Method, StatusCode};
use thiserror::Error;
use volhost_model::oci::{Digest, Reference};
use volhost_model::text::error_chain;

use crate::access::Access;
use crate::artifact::MANIFEST_BYTES;
use crate::credentials::Credentials;
use crate::session::{HttpRequest, Session, SessionError};
use crate::transport::{Take, TransportError};

/// What a refusal may have, in bytes.
const REFUSAL_BYTES: u64 = 4 << 10;

/// Why it was not fetched. No text contains a secret of this program's.
#[derive(Debug, Error)]
pub enum FetchError {
    /// There is no such image.
    #[error("{0}")]
    NotFound(String),
    /// The registry wants another login, or one.
    #[error("{0}")]
    Refused(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

impl From<SessionError> for FetchError {
    fn from(error: SessionError) -> Self {
        let text = error_chain(&error);
        match error {
            SessionError::LoginNeeded { host, name } => {
                Self::Refused(format!("{host} wants a login for {name}: name a Secret in the pod's imagePullSecrets"))
            }
            SessionError::Denied { .. } => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

/// One image of a registry, with the logins to try.
#[derive(Debug)]
pub struct ImageClient {
    reference: Reference,
    logins: Vec<Credentials>,
}

impl ImageClient {
    /// A client for this image. Without logins, requests are anonymous.
    #[must_use]
    pub fn new(reference: Reference, logins: Vec<Credentials>) -> Self {
        Self { reference, logins }
    }

    /// The manifest or index of the reference's digest, or else its tag, and the index of the login
    /// that got it. Its digest is not checked.
    ///
    /// # Errors
    /// [`FetchError`], of the last login.
    pub async fn manifest(&self, accept: &[String]) -> Result<(Vec<u8>, Option<usize>), FetchError> {
        let version = match (self.reference.digest(), self.reference.tag()) {
            (Some(digest), _) => digest.as_str(),
            (None, tag) => tag.unwrap_or(volhost_model::oci::LATEST),
        };
        let path = format!("manifests/{version}");
        let accept = accept.join(", ");
        let mut refused = None;
        for (index, access) in self.accesses() {
            let request = |session: &Session<'_>| {
                let uri = session.uri(&path)?;
                Ok(HttpRequest { accept: Some(&accept), ..HttpRequest::new(Method::GET, uri, MANIFEST_BYTES) })
            };
            match self.ask(access, &path, request, None).await {
                Ok(body) => return Ok((body, index)),
                Err(error @ FetchError::Refused(_)) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| FetchError::Failed("there is no login to try".to_owned())))
    }

    /// Passes the blob of this digest on, of which at most `size` bytes. Its digest is not checked.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn blob(
        &self,
        digest: &Digest,
        size: u64,
        take: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), FetchError> {
        let path = format!("blobs/{digest}");
        let Some((_, access)) = self.accesses().next() else { return Ok(()) };
        let request =
            |session: &Session<'_>| Ok(HttpRequest::new(Method::GET, session.uri(&path)?, size.max(REFUSAL_BYTES)));
        self.ask(access, &path, request, Some(take)).await.map(drop)
    }

    /// How to ask: with each login, or without one.
    fn accesses(&self) -> impl Iterator<Item = (Option<usize>, Access)> {
        let with = |(index, login): (usize, &Credentials)| {
            (Some(index), Access { credentials: Some(login.clone()), ..Access::default() })
        };
        let anonymous = self.logins.is_empty().then(|| (None, Access::default()));
        self.logins.iter().enumerate().map(with).chain(anonymous)
    }

    /// Asks by TLS; a registry on this machine that does not speak it, without.
    async fn ask<'b>(
        &self,
        mut access: Access,
        path: &str,
        request: impl Fn(&Session<'_>) -> Result<HttpRequest<'b>, SessionError>,
        mut take: Option<&mut Take<'_>>,
    ) -> Result<Vec<u8>, FetchError> {
        loop {
            let mut session = Session::new(&access, &self.reference, "pull")?;
            let asked = request(&session)?;
            let answer = match session.call_into(asked, take.as_deref_mut()).await {
                Err(SessionError::Transport(TransportError::Handshake { source, .. }))
                    if !access.plain_http && self.reference.is_of_this_machine() && !is_certificate(&source) =>
                {
                    access.plain_http = true;
                    continue;
                }
                answered => answered?,
            };
            return match answer.status {
                StatusCode::OK => Ok(answer.body.into()),
                StatusCode::NOT_FOUND => Err(FetchError::NotFound(format!("{} has no {path}", self.reference))),
                _ => Err(session.refused(path, &answer).into()),
            };
        }
    }
}

/// The peer speaks TLS and is not to be trusted.
fn is_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)))
}
