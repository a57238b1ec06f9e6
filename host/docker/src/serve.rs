//! Connections, limits and HTTP.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tonic::transport::Endpoint;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;

use crate::calls::{self, Daemon};
use crate::messages::CallRequest;
use crate::socket::PluginSocket;

/// The largest body of a request, in bytes: a volume's options need a few hundred.
const MAX_BODY_BYTES: usize = 64 << 10;
/// The largest header block, in bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// How long a client may take to send a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Connections at once; more wait until one ends. Docker keeps its own open.
const MAX_CONNECTIONS: usize = 1024;
/// Calls that the daemon answers at once; more wait.
const MAX_CALLS: usize = 128;
/// How long to wait after a connection that could not be accepted: descriptors are missing.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// The type of answers.
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.docker.plugins.v1.2+json");

/// Serves the plugin API until the future is dropped. `daemon` is the socket of volhost's API; a
/// daemon that restarts is connected to again.
pub async fn serve(socket: &PluginSocket, daemon: &Path) {
    let daemon = connect_lazily(daemon.to_path_buf());
    let (connections, calls) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Arc::new(Semaphore::new(MAX_CALLS)));
    loop {
        // The semaphore is never closed.
        let Ok(place) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = socket.listener.accept().await else {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        };
        let (daemon, calls) = (daemon.clone(), calls.clone());
        tokio::spawn(async move {
            // A client that breaks off needs no answer.
            let _ = converse(stream, daemon, calls).await;
            drop(place);
        });
    }
}

/// Connects at the first call, and again when the connection is lost.
fn connect_lazily(socket: PathBuf) -> Daemon {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The name is never resolved: the connector has the socket.
    let channel = Endpoint::from_static("http://volhost").connect_with_connector_lazy(connector);
    // The daemon is trusted, and a node's list may be long.
    NamedVolumesClient::new(channel).max_decoding_message_size(usize::MAX)
}

async fn converse(stream: UnixStream, daemon: Daemon, calls: Arc<Semaphore>) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let (daemon, calls) = (daemon.clone(), calls.clone());
        async move { Ok::<_, Infallible>(respond(request, daemon, &calls).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn respond(request: Request<Incoming>, daemon: Daemon, calls: &Semaphore) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return reply(StatusCode::METHOD_NOT_ALLOWED, &failure("only POST"));
    }
    let call = request.uri().path().to_owned();
    let read = tokio::time::timeout(REQUEST_TIME, Limited::new(request.into_body(), MAX_BODY_BYTES).collect());
    let body = match read.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => {
            let why = format!("the request cannot be read: {error}; {MAX_BODY_BYTES} bytes at most");
            return reply(StatusCode::BAD_REQUEST, &failure(&why));
        }
        Err(_) => return reply(StatusCode::REQUEST_TIMEOUT, &failure("the request did not arrive in time")),
    };
    let parsed = if body.is_empty() { Ok(CallRequest::default()) } else { serde_json::from_slice(&body) };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return reply(StatusCode::BAD_REQUEST, &failure(&format!("the request is not valid: {error}"))),
    };
    // The semaphore is never closed.
    let _place = calls.acquire().await;
    match calls::answer(daemon, &call, parsed).await {
        Some(Ok(answer)) => reply(StatusCode::OK, &answer),
        // The engines show `Err`, and for another status the whole body.
        Some(Err(why)) => reply(StatusCode::OK, &failure(&why)),
        None => reply(StatusCode::NOT_FOUND, &failure(&format!("there is no call {call:?}"))),
    }
}

fn failure(why: &str) -> Value {
    json!({ "Err": why })
}

fn reply(status: StatusCode, answer: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
