//! The configuration, and one connection for all requests and watches.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Builder};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::{InvalidBackoff, RetryPolicy};
use kube::client::{Body, ConfigExt as _};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower::retry::RetryLayer;
use tower::{Service, ServiceBuilder};

use crate::starts::{Starts, in_turns};

/// How often a connection that is used is asked whether it still is one, and how long the answer
/// may take: a watch whose API server has vanished ends after both.
const ASKED_EVERY: Duration = Duration::from_secs(20);
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How often a request that the API server does not take now (429, 503, 504) is sent again. It comes
/// back after the time that the server names; without one, after a time that doubles. A request
/// must not wait for long after the server is back.
const MOST_RETRIES: u32 = 6;
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(3);

/// What sends requests.
type Transport = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// Two clients that share their connections.
#[derive(Clone)]
pub struct Connection {
    /// For single requests: one that the server does not take now is sent again a few times.
    pub requests: Client,
    /// For watches, which begin again by themselves: they learn of each failure.
    pub watches: Client,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The kubeconfig file cannot be used.
    #[error("cannot use the kubeconfig file {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// No file was named, and there is no service account.
    #[error("no API server is known; run in a pod with a service account, or give --kubeconfig: {0}")]
    NoCluster(#[source] InferConfigError),
    /// The configuration cannot be used.
    #[error("cannot make a client of the API server: {0}")]
    Client(#[source] Box<kube::Error>),
    /// The times between retries are not in order.
    #[error("cannot make a client of the API server: {0}")]
    Retries(#[source] InvalidBackoff),
}

/// Reads the kubeconfig file at this path; without one, KUBECONFIG or the service account of this
/// pod.
///
/// # Errors
/// [`ConnectionError`].
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectionError> {
    let Some(path) = kubeconfig else { return Config::infer().await.map_err(ConnectionError::NoCluster) };
    let failed = |source| ConnectionError::Kubeconfig { path: path.to_owned(), source };
    let file = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)
}

/// The configuration of kubectl's user: the file at this path; without one, those of KUBECONFIG or
/// ~/.kube/config. `options` choose a context, a cluster or a user of it.
///
/// # Errors
/// [`ConnectionError`].
pub async fn configuration_of_user(
    kubeconfig: Option<&Path>,
    options: &KubeConfigOptions,
) -> Result<Config, ConnectionError> {
    let (path, file) = match kubeconfig {
        Some(path) => (path.to_owned(), Kubeconfig::read_from(path)),
        None => (std::env::var_os("KUBECONFIG").unwrap_or_else(|| "~/.kube/config".into()).into(), Kubeconfig::read()),
    };
    let failed = |source| ConnectionError::Kubeconfig { path: path.clone(), source };
    Config::from_custom_kubeconfig(file.map_err(failed)?, options).await.map_err(failed)
}

/// Makes clients. `agent`: who asks, for the operator who reads the API server's log. Needs a
/// tokio runtime. Nothing is sent before the first request.
///
/// All requests share one HTTP/2 connection, as the kubelet's do: the watches of many objects cost
/// no connection each. An API server takes 100 at once; more wait until others have ended.
///
/// # Errors
/// [`ConnectionError::Client`].
pub fn connect(config: Config, agent: &str) -> Result<Connection, ConnectionError> {
    let (config, client) = transport(config, agent)?;
    let retries = RetryPolicy::new(FIRST_RETRY, LONGEST_RETRY, MOST_RETRIES, true).map_err(ConnectionError::Retries)?;
    Ok(Connection { requests: over(&config, client.clone(), Some(retries))?, watches: over(&config, client, None)? })
}

/// Makes a client for watches of single objects, which begin in turns. Needs a tokio runtime.
///
/// # Errors
/// [`ConnectionError::Client`].
pub fn connect_in_turns(config: Config, agent: &str, starts: &Starts) -> Result<Client, ConnectionError> {
    let (config, client) = transport(config, agent)?;
    over(&config, in_turns(client, starts), None)
}

/// What sends requests over one connection, and the configuration with who asks.
fn transport(mut config: Config, agent: &str) -> Result<(Config, Transport), ConnectionError> {
    config.headers.extend(HeaderValue::from_str(agent).ok().map(|agent| (USER_AGENT, agent)));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config().map_err(failed)?)
        .https_or_http()
        .enable_all_versions()
        .build();
    let client = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(ASKED_EVERY)
        .http2_keep_alive_timeout(ANSWER_TIME)
        .build(connector);
    Ok((config, client))
}

/// A client that sends its requests by this service.
fn over<S, F>(config: &Config, service: S, retries: Option<RetryPolicy>) -> Result<Client, ConnectionError>
where
    S: Service<Request<Body>, Response = Response<Incoming>, Future = F> + Clone + Send + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<Response<Incoming>, S::Error>> + Send + 'static,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries.map(RetryLayer::new))
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .map_err(tower::BoxError::from)
        .service(service);
    Ok(Client::new(service, config.default_namespace.clone()))
}

fn failed(error: kube::Error) -> ConnectionError {
    ConnectionError::Client(Box::new(error))
}
