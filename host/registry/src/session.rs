//! Requests to one repository: authentication, redirects, and what refusals mean.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode, Uri};
use serde::Deserialize;
use thiserror::Error;

use crate::access::Access;
use crate::challenge::{self, Challenge};
use crate::credentials::Credentials;
use crate::transport::{HttpResponse, Take, Transport, TransportError};
use volhost_model::oci::Reference;
use volhost_model::text::printable;

/// Registries send to where they store; storage may send on once more.
const REDIRECTS: usize = 5;
/// The largest answer that gives a token, in bytes: tokens have some thousand.
const TOKEN_BYTES: u64 = 256 << 10;

/// Why a registry did not do what it was asked for.
#[derive(Debug, Error)]
pub enum SessionError {
    /// There was no answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// It requires a login.
    #[error(
        "{host} wants a login for {name}: `docker login {host}`, or set VOLHOST_REGISTRY_USER and VOLHOST_REGISTRY_PASSWORD"
    )]
    LoginNeeded {
        /// The registry.
        host: String,
        /// The repository.
        name: String,
    },
    /// The login has no right to do that.
    #[error("{host} does not let this login do that with {name}: {words}")]
    Denied {
        /// The registry.
        host: String,
        /// The repository.
        name: String,
        /// The registry's message.
        words: String,
    },
    /// How it asks for a login cannot be understood or trusted.
    #[error("{host} asks for a login in a way that volhost does not follow: {why}")]
    Challenge {
        /// The registry.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// It sends on and on.
    #[error("{host} redirects more than {REDIRECTS} times")]
    Redirects {
        /// The registry.
        host: String,
    },
    /// It sends to no address.
    #[error("{host} redirects to '{to}', which is no address")]
    Redirect {
        /// The registry.
        host: String,
        /// Where to.
        to: String,
    },
    /// It refuses.
    #[error("{host} answers {status} to {what}: {words}")]
    Refused {
        /// The registry.
        host: String,
        /// HTTP's code.
        status: u16,
        /// What it was asked for.
        what: String,
        /// The registry's message.
        words: String,
    },
}

/// A request.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) accept: Option<&'a str>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) body: Bytes,
    /// The largest answer, in bytes.
    pub(crate) limit: u64,
}

impl HttpRequest<'_> {
    pub(crate) fn new(method: Method, uri: Uri, limit: u64) -> Self {
        Self { method, uri, accept: None, content_type: None, body: Bytes::new(), limit }
    }
}

/// A conversation about one repository.
pub(crate) struct Session<'a> {
    transport: Transport,
    credentials: Option<&'a Credentials>,
    base: Uri,
    host: &'a str,
    name: &'a str,
    /// What is asked for when a token is needed: `pull` or `pull,push`.
    actions: &'static str,
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    /// Begins one, without a word to the registry yet.
    pub(crate) fn new(
        access: &'a Access,
        reference: &'a Reference,
        actions: &'static str,
    ) -> Result<Self, SessionError> {
        let host = match reference.host() {
            // Docker's registry is not where its name leads.
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        if access.plain_http && !reference.is_of_this_machine() {
            return Err(TransportError::Unprotected { host: host.to_owned() }.into());
        }
        let scheme = if access.plain_http { "http" } else { "https" };
        let base = format!("{scheme}://{host}/v2/{}", reference.name());
        Ok(Self {
            transport: Transport::new(access.plain_http, access.idle_timeout),
            credentials: access.credentials.as_ref(),
            base: base.parse().map_err(|_| TransportError::Address(printable(&base)))?,
            host: reference.host(),
            name: reference.name(),
            actions,
            authorization: None,
        })
    }

    /// An address below the repository.
    pub(crate) fn uri(&self, rest: &str) -> Result<Uri, SessionError> {
        let address = format!("{}/{rest}", self.base);
        Ok(address.parse().map_err(|_| TransportError::Address(printable(&address)))?)
    }

    /// Asks, with a login if one is wanted, wherever the answer is. The answer may be a refusal.
    pub(crate) async fn call(&mut self, call: HttpRequest<'_>) -> Result<HttpResponse, SessionError> {
        self.call_into(call, None).await
    }

    /// As [`Self::call`]. The content of a success goes to `take`, piece by piece, if that is given.
    pub(crate) async fn call_into(
        &mut self,
        call: HttpRequest<'_>,
        mut take: Option<&mut Take<'_>>,
    ) -> Result<HttpResponse, SessionError> {
        let mut uri = call.uri.clone();
        let mut asked_to_log_in = false;
        let mut hops = 0;
        loop {
            let at_home = same_origin(&uri, &self.base);
            let answer =
                self.transport.send(self.request(&call, &uri, at_home)?, call.limit, take.as_deref_mut()).await?;
            match answer.status {
                StatusCode::UNAUTHORIZED if at_home && !asked_to_log_in => {
                    asked_to_log_in = true;
                    self.log_in(&answer).await?;
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if at_home => return Err(self.denied(&answer)),
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
                    if call.method == Method::GET || call.method == Method::HEAD =>
                {
                    hops += 1;
                    if hops > REDIRECTS {
                        return Err(SessionError::Redirects { host: self.host.to_owned() });
                    }
                    uri = self.location(&answer, &uri)?;
                }
                _ => return Ok(answer),
            }
        }
    }

    fn request(&self, call: &HttpRequest<'_>, uri: &Uri, at_home: bool) -> Result<Request<Full<Bytes>>, SessionError> {
        let mut request = Request::builder().method(call.method.clone()).uri(uri.clone());
        if let Some(accept) = call.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(content_type) = call.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        // The target of a redirect gets no credentials.
        if let Some(authorization) = self.authorization.as_ref().filter(|_| at_home) {
            request = request.header(AUTHORIZATION, authorization);
        }
        let failed = |source| TransportError::Request { host: self.host.to_owned(), source };
        Ok(request.body(Full::new(call.body.clone())).map_err(failed)?)
    }

    /// Where an answer sends us: an address, or a path on the same host.
    pub(crate) fn location(&self, answer: &HttpResponse, from: &Uri) -> Result<Uri, SessionError> {
        let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("");
        let wrong = || SessionError::Redirect { host: self.host.to_owned(), to: printable(to) };
        let uri: Uri = match to.strip_prefix('/') {
            Some(rest) if !rest.starts_with('/') => {
                let (scheme, authority) = (from.scheme_str().unwrap_or("https"), from.authority().ok_or_else(wrong)?);
                format!("{scheme}://{authority}{to}").parse().map_err(|_| wrong())?
            }
            _ => to.parse().map_err(|_| wrong())?,
        };
        if uri.authority().is_some() { Ok(uri) } else { Err(wrong()) }
    }

    /// Does what the registry asks for, so that the next request may be answered.
    async fn log_in(&mut self, answer: &HttpResponse) -> Result<(), SessionError> {
        let unclear = |why: &str| SessionError::Challenge { host: self.host.to_owned(), why: why.to_owned() };
        let headers = answer.headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenge =
            challenge::parse(headers).ok_or_else(|| unclear("it answers 401 with neither Basic nor Bearer"))?;
        let value = match challenge {
            Challenge::Basic => match self.credentials {
                Some(credentials) => credentials.basic(),
                None => return Err(self.login_needed()),
            },
            Challenge::Bearer { realm, service, scope } => {
                let token = self.token(&realm, service.as_deref(), scope.as_deref()).await?;
                format!("Bearer {token}")
            }
        };
        let mut value = HeaderValue::from_str(&value).map_err(|_| unclear("its token is no text"))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(())
    }

    async fn token(&mut self, realm: &str, service: Option<&str>, scope: Option<&str>) -> Result<String, SessionError> {
        let unclear = |why: String| SessionError::Challenge { host: self.host.to_owned(), why };
        let wanted = format!("repository:{}:{}", self.name, self.actions);
        let mut address =
            format!("{realm}{}scope={}", if realm.contains('?') { '&' } else { '?' }, escape(scope.unwrap_or(&wanted)));
        if let Some(service) = service {
            address.push_str(&format!("&service={}", escape(service)));
        }
        let uri: Uri = address.parse().map_err(|_| unclear(format!("'{}' is no address", printable(realm))))?;
        let mut request = Request::builder().method(Method::GET).uri(uri);
        if let Some(credentials) = self.credentials {
            request = request.header(AUTHORIZATION, credentials.basic());
        }
        let failed = |source| TransportError::Request { host: self.host.to_owned(), source };
        let answer = self.transport.send(request.body(Full::default()).map_err(failed)?, TOKEN_BYTES, None).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.credentials.is_none() => {
                return Err(self.login_needed());
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.denied(&answer)),
            other => return Err(unclear(format!("{} gives no token but {other}", printable(realm)))),
        }
        let token: Token = serde_json::from_slice(&answer.body)
            .map_err(|_| unclear(format!("what {} gives is no token", printable(realm))))?;
        token
            .token
            .or(token.access_token)
            .ok_or_else(|| unclear(format!("what {} gives is no token", printable(realm))))
    }

    fn login_needed(&self) -> SessionError {
        SessionError::LoginNeeded { host: self.host.to_owned(), name: self.name.to_owned() }
    }

    fn denied(&self, answer: &HttpResponse) -> SessionError {
        if self.credentials.is_none() {
            return self.login_needed();
        }
        SessionError::Denied { host: self.host.to_owned(), name: self.name.to_owned(), words: words(answer) }
    }

    /// An answer that is not what was hoped for.
    pub(crate) fn refused(&self, what: impl Into<String>, answer: &HttpResponse) -> SessionError {
        SessionError::Refused {
            host: self.host.to_owned(),
            status: answer.status.as_u16(),
            what: what.into(),
            words: words(answer),
        }
    }
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// The form of a refusal, of the distribution specification.
#[derive(Deserialize)]
struct Errors {
    errors: Vec<ErrorWords>,
}

#[derive(Deserialize)]
struct ErrorWords {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

fn words(answer: &HttpResponse) -> String {
    match serde_json::from_slice::<Errors>(&answer.body) {
        Ok(Errors { errors }) if !errors.is_empty() => {
            let messages: Vec<_> = errors.iter().map(|one| format!("{} {}", one.code, one.message)).collect();
            printable(&messages.join("; "))
        }
        _ => match printable(&String::from_utf8_lossy(&answer.body)) {
            nothing if nothing.is_empty() => "without a word".to_owned(),
            text => text,
        },
    }
}

/// Whether two addresses lead to one server.
pub(crate) fn same_origin(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && one.authority() == other.authority()
}

/// Text as a part of a query (RFC 3986, section 2).
pub(crate) fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/,".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
