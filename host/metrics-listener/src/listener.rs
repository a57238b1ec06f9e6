//! The text over HTTP, for Prometheus. Plain HTTP/1.1, read-only, without TLS: it belongs on the
//! loopback or a node's own network.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::OPEN_METRICS;
use super::connections::{Connections, Undisturbed};
use super::plain_text::{self, plain_text};
use super::site::{STATE, StatusPage};

/// Connections at one time; one more takes the place of another. A node has one or two scrapers.
const CONNECTIONS: usize = 16;
/// How long an exchange that has begun keeps its connection although others wait. A scrape on the
/// node takes milliseconds. In a crowd of peers that ask and never read, a scrape gets its turn the
/// sooner the less time each of them has.
const UNDISTURBED: Undisturbed =
    Undisturbed { usually: Duration::from_secs(2), in_a_crowd: Duration::from_millis(200) };
/// How long a connection has for its one request and the whole answer. The usual timeout of a
/// scrape.
const EXCHANGE_TIME: Duration = Duration::from_secs(10);
/// The largest request header, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// How long to wait after the system refused a connection: mostly because there are too many open
/// files.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

const HINT: &str = "volhost serves its metrics at /metrics\n";

/// Why there are no metrics now: the source's own error.
pub type ScrapeError = Box<dyn std::error::Error + Send + Sync>;

type TextFuture = Pin<Box<dyn Future<Output = Result<String, ScrapeError>> + Send>>;

/// Returns the OpenMetrics text of all metrics, or why there is none now.
#[derive(Clone)]
pub struct MetricsSource(Arc<dyn Fn() -> TextFuture + Send + Sync>);

impl MetricsSource {
    /// Creates a source that calls `text` for each request.
    pub fn new<F, T>(text: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, ScrapeError>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(text())))
    }

    async fn text(&self) -> Result<String, ScrapeError> {
        (self.0)().await
    }
}

impl fmt::Debug for MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsSource")
    }
}

/// Why there is no listener.
#[derive(Debug, Error)]
#[error("cannot listen for metrics at {address}: {source}; name another address with --metrics-listen")]
pub struct MetricsBindError {
    /// Where.
    address: SocketAddr,
    /// The kernel's message.
    #[source]
    source: io::Error,
}

/// A bound listener.
#[derive(Debug)]
pub struct MetricsListener(TcpListener);

impl MetricsListener {
    /// Listens at this address. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`MetricsBindError`], mostly because another program listens there.
    pub async fn bind(address: SocketAddr) -> Result<Self, MetricsBindError> {
        TcpListener::bind(address).await.map(Self).map_err(|source| MetricsBindError { address, source })
    }

    /// Where it listens: with the port that the system chose, if it was left to it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Serves the metrics, and the status page if there is one, until `shutdown`. Connections that
    /// are open then are cut.
    pub async fn serve(self, source: MetricsSource, page: Option<StatusPage>, shutdown: CancellationToken) {
        // An address that is not known is taken for one that others reach.
        let listens = self.address().unwrap_or_else(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let site = Site { source, page, listens };
        let connections = Connections::new(CONNECTIONS, UNDISTURBED);
        loop {
            let accepted = tokio::select! {
                accepted = self.0.accept() => accepted,
                () = shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let place = tokio::select! {
                        place = connections.place() => place,
                        () = shutdown.cancelled() => return,
                    };
                    let (site, shutdown) = (site.clone(), shutdown.clone());
                    tokio::spawn(async move {
                        let exchange = timeout(EXCHANGE_TIME, converse(stream, site, place.asked()));
                        tokio::select! {
                            ended = exchange => match ended {
                                Ok(Ok(())) => {}
                                Ok(Err(error)) => debug!(%peer, %error, "a connection for metrics ended early"),
                                Err(_) => debug!(%peer, "a connection for metrics was cut: its exchange took too long"),
                            },
                            () = place.wanted() => debug!(%peer, "a connection for metrics was closed for a new one"),
                            () = shutdown.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "a connection for metrics could not be accepted");
                    tokio::time::sleep(REFUSED_PAUSE).await;
                }
            }
        }
    }
}

/// What is served.
#[derive(Debug, Clone)]
struct Site {
    source: MetricsSource,
    page: Option<StatusPage>,
    /// The listener's address.
    listens: SocketAddr,
}

/// Serves one request. The connection is closed after its answer: an idle connection would
/// occupy a place.
async fn converse(stream: TcpStream, site: Site, asked: Arc<AtomicBool>) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let site = site.clone();
        async move { Ok::<_, Infallible>(answer(&request, &site).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(EXCHANGE_TIME)
        .keep_alive(false)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer<B>(request: &Request<B>, site: &Site) -> Response<Full<Bytes>> {
    let plain = |status, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => match site.source.text().await {
            Ok(text) => {
                let (text, kind) = match accepts_open_metrics(request.headers()) {
                    true => (text, OPEN_METRICS),
                    false => (plain_text(&text), plain_text::CONTENT_TYPE),
                };
                let mut response = plain(StatusCode::OK, text);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
                headers.insert(VARY, HeaderValue::from_static("accept"));
                response
            }
            Err(error) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        },
        "/" => match &site.page {
            Some(page) => page.html(request, site.listens),
            None => plain(StatusCode::OK, HINT.to_owned()),
        },
        STATE if let Some(page) = &site.page => page.state(request, site.listens).await,
        _ => plain(StatusCode::NOT_FOUND, HINT.to_owned()),
    }
}

/// Whether a client names OpenMetrics among what it accepts, as Prometheus does. Others, such as
/// `curl` before `promtool check metrics`, get the older format, which every client reads.
fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("application/openmetrics-text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_names_open_metrics_gets_it() {
        let accepts = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            accepts_open_metrics(&headers)
        };
        assert!(accepts(&["application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"]));
        assert!(accepts(&["text/plain", "*/*, Application/OpenMetrics-Text"]));
        assert!(!accepts(&["*/*"]) && !accepts(&["text/plain;version=0.0.4"]) && !accepts(&[]));
    }
}
