//! The driver's sockets: where it is called, and where a kubelet finds it.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::transport::Server;

use crate::controller::ControllerService;
use crate::driver::ServedPlugin;
use crate::group_controller::GroupControllerService;
use crate::identity::IdentityService;
use crate::node::NodeService;
use crate::registration::RegistrationService;
use volhost_grpc_authority::AuthorityStream;
use volhost_metrics_listener::driver_calls::{DriverCalls, ObserveLayer};
use volhost_proto::csi::controller_server::ControllerServer;
use volhost_proto::csi::group_controller_server::GroupControllerServer;
use volhost_proto::csi::identity_server::IdentityServer;
use volhost_proto::csi::node_server::NodeServer;
use volhost_proto::registration::registration_server::RegistrationServer;

/// The largest request that is read, in bytes. It is more than any request may have, so that the
/// error for a large request names the field.
const REQUEST_BYTES: usize = 32 << 20;
/// How long running calls may go on after the driver is asked to end. The CO repeats those that are
/// cut off.
const CALLS_TIME: Duration = Duration::from_secs(20);
/// How long their answers may take to be read.
const ANSWERS_TIME: Duration = Duration::from_millis(200);
/// Only the owner may connect: who can call the driver can mount.
const SOCKET_MODE: u32 = 0o600;

/// Where a driver listens.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// Its own socket.
    pub endpoint: PathBuf,
    /// The kubelet's folder of registration sockets; without, a sidecar registers the driver.
    pub registration_dir: Option<PathBuf>,
    /// The driver's own socket as the kubelet sees it, if that is another path than `endpoint`.
    pub kubelet_registration_path: Option<String>,
}

/// Why a driver cannot be served.
#[derive(Debug, Error)]
pub enum DriverServeError {
    /// Something else is at a socket's path.
    #[error("{path} is not a socket; nothing is put in its place, move it away")]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Another driver listens there.
    #[error("{path} is in use: another process answers there")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// A socket cannot be made.
    #[error("cannot listen at {path}: {source}")]
    Listen {
        /// The path.
        path: PathBuf,
        /// The kernel's words.
        #[source]
        source: io::Error,
    },
    /// Serving ended.
    #[error("serving at {path} ended: {source}")]
    Serve {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A socket that is removed when it is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    listener: Option<tokio::net::UnixListener>,
}

impl SocketFile {
    /// Makes the socket, in place of one without a listener.
    fn bind(path: &Path) -> Result<Self, DriverServeError> {
        let failed = |source| DriverServeError::Listen { path: path.to_owned(), source };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(DriverServeError::NotASocket { path: path.to_owned() });
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(DriverServeError::InUse { path: path.to_owned() });
            }
            Ok(_) => fs::remove_file(path).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let socket = |listener| Self { path: path.to_owned(), listener: Some(listener) };
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        tokio::net::UnixListener::from_std(listener).map(socket).map_err(failed)
    }

    /// Its connections; none when they were taken before. Clients may name any authority: the
    /// kubelet names the socket's path.
    fn incoming(&mut self) -> Option<impl Stream<Item = io::Result<AuthorityStream<tokio::net::UnixStream>>> + Unpin> {
        self.listener.take().map(volhost_grpc_authority::accept)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // What is left is replaced by the next one.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves the driver until what `stop` returns is done, and calls `ready` when its sockets listen. Its
/// calls are counted in `calls`.
/// Volumes stay as they are when it ends; calls that run are waited for, up to twenty seconds.
///
/// # Errors
/// [`DriverServeError`].
pub async fn serve<S>(
    driver: Arc<ServedPlugin>,
    sockets: Sockets,
    calls: Arc<DriverCalls>,
    ready: impl FnOnce(),
    stop: impl Fn() -> S,
) -> Result<(), DriverServeError>
where
    S: Future<Output = ()> + Send + 'static,
{
    let path = sockets.endpoint;
    let mut own = SocketFile::bind(&path)?;
    let registration = sockets.registration_dir.map(|folder| folder.join(format!("{}-reg.sock", driver.name())));
    let mut registration = registration.as_deref().map(SocketFile::bind).transpose()?;
    ready();
    let csi = own.incoming().map(|incoming| {
        Server::builder()
            .layer(ObserveLayer::new(driver.name(), calls))
            .add_service(
                IdentityServer::new(IdentityService(Arc::clone(&driver))).max_decoding_message_size(REQUEST_BYTES),
            )
            .add_service(
                ControllerServer::new(ControllerService(Arc::clone(&driver))).max_decoding_message_size(REQUEST_BYTES),
            )
            .add_service(
                GroupControllerServer::new(GroupControllerService(Arc::clone(&driver)))
                    .max_decoding_message_size(REQUEST_BYTES),
            )
            .add_service(NodeServer::new(NodeService(Arc::clone(&driver))).max_decoding_message_size(REQUEST_BYTES))
            .serve_with_incoming_shutdown(incoming, stop())
    });
    let endpoint = sockets.kubelet_registration_path.unwrap_or_else(|| path.display().to_string());
    let registrar = registration.as_mut().and_then(SocketFile::incoming).map(|incoming| {
        let service = RegistrationService { driver: Arc::clone(&driver), endpoint };
        Server::builder().add_service(RegistrationServer::new(service)).serve_with_incoming_shutdown(incoming, stop())
    });
    let serving = async {
        match (csi, registrar) {
            (Some(csi), Some(registrar)) => tokio::try_join!(csi, registrar).map(drop),
            (Some(csi), None) => csi.await,
            (None, _) => Ok(()),
        }
    };
    tokio::pin!(serving);
    let asked_to_end = async {
        stop().await;
        timeout(CALLS_TIME, driver.running.none()).await
    };
    let ended = tokio::select! {
        ended = &mut serving => ended,
        // A client that keeps its connection keeps nothing here from ending.
        _ = asked_to_end => timeout(ANSWERS_TIME, serving).await.unwrap_or(Ok(())),
    };
    ended.map_err(|source| DriverServeError::Serve { path, source })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[tokio::test]
    async fn a_socket_that_nobody_answers_at_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        drop(UnixListener::bind(&path).unwrap());
        let served = SocketFile::bind(&path).unwrap();
        assert!(matches!(SocketFile::bind(&path), Err(DriverServeError::InUse { .. })));
        drop(served);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert!(matches!(SocketFile::bind(&path), Err(DriverServeError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
    }
}
