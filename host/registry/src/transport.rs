//! One request over one connection. Everything that comes back is bounded in size and in silence.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::tls::{self, TlsError};
use volhost_model::oci::is_loopback;

/// How we call ourselves.
const AGENT: &str = concat!("volhost/", env!("CARGO_PKG_VERSION"));

/// What a connection must at least carry, in bytes a second: a large plugin takes its time to be
/// sent.
const SLOWEST: u64 = 32 << 10;

/// Why a request got no answer that could be read.
#[derive(Debug, Error)]
pub enum TransportError {
    /// It would go over the network unprotected.
    #[error("{host} would be spoken to without TLS; that is done on this machine only, and with --plain-http")]
    Unprotected {
        /// The host.
        host: String,
    },
    /// The address is not supported.
    #[error("'{0}' is no address of a registry")]
    Address(String),
    /// No authorities.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No server listens.
    #[error("no connection to {host}")]
    Connect {
        /// The host and port.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The peer is not the registry, or does not support TLS.
    #[error("{host}: {}", tls::explain(source))]
    Handshake {
        /// The host and port.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was silent for too long.
    #[error("{host} has been silent for {} s", idle_timeout.as_secs())]
    Silent {
        /// The host and port.
        host: String,
        /// How long was waited.
        idle_timeout: Duration,
    },
    /// Its answer is not HTTP, or incomplete.
    #[error("{host} does not answer as a registry does")]
    Http {
        /// The host and port.
        host: String,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// The request cannot be built of these values.
    #[error("the request to {host} cannot be written")]
    Request {
        /// The host and port.
        host: String,
        /// Why.
        #[source]
        source: hyper::http::Error,
    },
    /// The answer is larger than such an answer may be.
    #[error("{host} answers with more than {limit} bytes")]
    TooLarge {
        /// The host and port.
        host: String,
        /// The bound.
        limit: u64,
    },
    /// The answer cannot be passed on.
    #[error("what {host} answers cannot be written")]
    Taken {
        /// The host and port.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Takes the content of an answer, piece by piece.
pub(crate) type Take<'a> = dyn FnMut(&[u8]) -> io::Result<()> + Send + 'a;

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpResponse {
    /// A header, if it is there and text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Makes connections.
pub(crate) struct Transport {
    plain_http: bool,
    idle_timeout: Duration,
    tls: Option<TlsConnector>,
}

impl Transport {
    pub(crate) fn new(plain_http: bool, idle_timeout: Duration) -> Self {
        Self { plain_http, idle_timeout, tls: None }
    }

    /// Sends `request`, whose address is absolute, and reads the answer, of which at most `limit`
    /// bytes of content. That of a success goes to `take` if that is given.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: u64,
        take: Option<&mut Take<'_>>,
    ) -> Result<HttpResponse, TransportError> {
        let peer = Peer::of(request.uri())?;
        let allowed = peer.secure || (self.plain_http && is_loopback(&peer.name));
        if !allowed {
            return Err(TransportError::Unprotected { host: peer.host });
        }
        let stream = self.patiently(&peer, TcpStream::connect((peer.address(), peer.port))).await?;
        let stream = stream.map_err(|source| TransportError::Connect { host: peer.host.clone(), source })?;
        if !peer.secure {
            return self.exchange(stream, request, &peer, (limit, take)).await;
        }
        let name = ServerName::try_from(peer.address().to_owned())
            .map_err(|_| TransportError::Address(volhost_model::text::printable(&peer.host)))?;
        let connector = match &self.tls {
            Some(connector) => connector.clone(),
            None => self.tls.insert(tls::connector()?).clone(),
        };
        let stream = self.patiently(&peer, connector.connect(name, stream)).await?;
        let stream = stream.map_err(|source| TransportError::Handshake { host: peer.host.clone(), source })?;
        self.exchange(stream, request, &peer, (limit, take)).await
    }

    async fn exchange<S>(
        &self,
        stream: S,
        mut request: Request<Full<Bytes>>,
        peer: &Peer,
        content: (u64, Option<&mut Take<'_>>),
    ) -> Result<HttpResponse, TransportError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |source| TransportError::Http { host: peer.host.clone(), source };
        let unfit = |source: hyper::http::Error| TransportError::Request { host: peer.host.clone(), source };
        let host = HeaderValue::from_str(&peer.host).map_err(|source| unfit(source.into()))?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>().map_err(|source| unfit(source.into()))?;
        let (mut sender, connection) =
            self.patiently(peer, http1::handshake(TokioIo::new(stream))).await?.map_err(failed)?;
        // It ends when both the sender and the answer are gone; the answer reports its errors, too.
        tokio::spawn(connection);
        let head = request.method() == Method::HEAD;
        let sending = Duration::from_secs(request.body().size_hint().lower() / SLOWEST);
        let answer =
            self.within(peer, self.idle_timeout + sending, sender.send_request(request)).await?.map_err(failed)?;
        self.read(answer, head, peer, content).await
    }

    async fn read(
        &self,
        answer: Response<Incoming>,
        head_only: bool,
        peer: &Peer,
        (limit, mut take): (u64, Option<&mut Take<'_>>),
    ) -> Result<HttpResponse, TransportError> {
        let too_large = || TransportError::TooLarge { host: peer.host.clone(), limit };
        let (head, mut body) = answer.into_parts();
        let announced = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        // A success that is too large is not read. The message of a refusal is shown as far as it
        // fits.
        if head.status.is_success()
            && !head_only
            && announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > limit)
        {
            return Err(too_large());
        }
        let mut content = Vec::new();
        let mut count: u64 = 0;
        while let Some(frame) = self.patiently(peer, body.frame()).await? {
            let frame = frame.map_err(|source| TransportError::Http { host: peer.host.clone(), source })?;
            let Some(data) = frame.data_ref() else { continue };
            count = count.saturating_add(data.len() as u64);
            if count > limit {
                return Err(too_large());
            }
            match take.as_mut().filter(|_| head.status.is_success()) {
                Some(take) => {
                    take(data).map_err(|source| TransportError::Taken { host: peer.host.clone(), source })?;
                }
                None => content.extend_from_slice(data),
            }
        }
        Ok(HttpResponse { status: head.status, headers: head.headers, body: content.into() })
    }

    async fn patiently<T>(&self, peer: &Peer, work: impl Future<Output = T>) -> Result<T, TransportError> {
        self.within(peer, self.idle_timeout, work).await
    }

    async fn within<T>(
        &self,
        peer: &Peer,
        idle_timeout: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, TransportError> {
        timeout(idle_timeout, work).await.map_err(|_| TransportError::Silent { host: peer.host.clone(), idle_timeout })
    }
}

/// Who is spoken to.
struct Peer {
    /// As written in the address, with the port if it is given.
    host: String,
    /// Without the port; an IPv6 address in its brackets.
    name: String,
    port: u16,
    secure: bool,
}

impl Peer {
    fn of(uri: &Uri) -> Result<Self, TransportError> {
        let wrong = || TransportError::Address(volhost_model::text::printable(&uri.to_string()));
        let authority = uri.authority().ok_or_else(wrong)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        // A name or password in an address would be shown with it.
        if authority.as_str().contains('@') {
            return Err(TransportError::Address("...@...".to_owned()));
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { host: authority.as_str().to_owned(), name: authority.host().to_owned(), port, secure })
    }

    fn address(&self) -> &str {
        self.name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&self.name)
    }
}
