//! The server: connections, limits, who may call, and the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use super::cluster_plugins::ClusterPluginsService;
use super::inspect::InspectService;
use super::manager::ManagerService;
use super::named_volumes::NamedVolumesService;
use super::peer::PeerCheck;
use super::socket::ApiListener;
use volhost_api::MAX_MANIFEST_BYTES;
use volhost_api::pb::cluster_plugins_server::ClusterPluginsServer;
use volhost_api::pb::inspect_server::InspectServer;
use volhost_api::pb::named_volumes_server::NamedVolumesServer;
use volhost_api::pb::volume_manager_server::VolumeManagerServer;
use volhost_node::event_loop::NodeHandle;
use volhost_plugin_folder::PluginRegistry;

/// The largest request taken, in bytes: a manifest and what wraps it.
const MAX_REQUEST_BYTES: usize = MAX_MANIFEST_BYTES + (64 << 10);
/// Calls that one connection may have open. Waits and watches are long; a caller with more opens
/// another connection.
const MAX_CALLS_PER_CONNECTION: u32 = 1024;
/// The largest header block of a call, in bytes; ours need a few hundred.
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// How long open calls may take to end once volhost is ending; then their connections are cut.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Why the server ended early.
#[derive(Debug, Error)]
pub enum ApiServeError {
    /// The listener was handed to a server before.
    #[error("the socket is served already")]
    Taken,
    /// The socket could not be handed to the runtime.
    #[error("cannot accept connections at the socket: {0}")]
    Accept(#[source] io::Error),
    /// The transport failed.
    #[error("the API server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves the API, with plugins from the cluster if there is `cluster`, until `shutdown` is cancelled: then no new call is taken, waits and watches end
/// with `UNAVAILABLE`, running calls get a few seconds to end, and the socket file is removed.
///
/// Must run in a tokio runtime. Cancel-safe: dropped, it cuts every connection and removes the
/// socket file.
///
/// # Errors
/// [`ApiServeError`] when it could not begin or the transport failed.
pub async fn serve(
    mut listener: ApiListener,
    handle: NodeHandle,
    cluster: Option<Arc<PluginRegistry>>,
    shutdown: CancellationToken,
) -> Result<(), ApiServeError> {
    let socket = listener.take_socket().ok_or(ApiServeError::Taken)?;
    let incoming = volhost_grpc_authority::accept(UnixListener::from_std(socket).map_err(ApiServeError::Accept)?);
    let peers = PeerCheck::new(rustix::process::geteuid().as_raw(), listener.has_group());
    let manager = VolumeManagerServer::new(ManagerService::new(handle.clone(), shutdown.clone()))
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(usize::MAX);
    let named = NamedVolumesServer::new(NamedVolumesService::new(handle.clone(), shutdown.clone()))
        .max_encoding_message_size(usize::MAX);
    let plugins = ClusterPluginsServer::new(ClusterPluginsService::new(handle.clone(), cluster))
        .max_decoding_message_size(MAX_REQUEST_BYTES);
    let inspect = InspectServer::new(InspectService::new(handle, shutdown.clone()))
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(usize::MAX);
    let server = Server::builder()
        .max_concurrent_streams(MAX_CALLS_PER_CONNECTION)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .add_service(InterceptedService::new(manager, peers))
        .add_service(InterceptedService::new(inspect, peers))
        .add_service(InterceptedService::new(named, peers))
        .add_service(InterceptedService::new(plugins, peers))
        .serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        ended = server => ended?,
        () = overdue => tracing::warn!("API calls were cut: they had not ended {} s after the end was asked for", SHUTDOWN_GRACE.as_secs()),
    }
    drop(listener);
    Ok(())
}
