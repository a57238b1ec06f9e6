//! The connection to the daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::error::CliError;
use volhost_api::pb::inspect_client::InspectClient;
use volhost_api::pb::named_volumes_client::NamedVolumesClient;
use volhost_api::pb::volume_manager_client::VolumeManagerClient;

/// How long the daemon may take for an answer without a wait. It takes milliseconds even with tens
/// of thousands of volumes.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How often a command that waits tries to connect to a daemon that does not listen yet.
const CONNECT_EVERY: Duration = Duration::from_millis(50);

/// The daemon's services over one connection.
#[derive(Debug)]
pub(super) struct Client {
    /// The volume manager.
    pub(super) manager: VolumeManagerClient<Channel>,
    /// Lists and watches.
    pub(super) inspect: InspectClient<Channel>,
    /// Named volumes.
    pub(super) named: NamedVolumesClient<Channel>,
    socket: PathBuf,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`CliError::Unreachable`] has what was found at the path and the way out.
    pub(super) async fn connect(socket: &Path) -> Result<Self, CliError> {
        let unreachable = |why: String| CliError::Unreachable { socket: socket.to_path_buf(), why };
        // Connected here and passed on, so that the kernel's error is not wrapped in the
        // transport's.
        let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(explain(&error)))?;
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_| {
            let stream =
                stream.take().ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the connection was closed"));
            async move { stream }
        });
        // The name is never resolved: the connector has the connection.
        let endpoint = Endpoint::from_static("http://volhost");
        let connecting = endpoint.connect_with_connector(connector);
        let channel = match tokio::time::timeout(ANSWER_TIME, connecting).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(_)) => {
                return Err(unreachable("the program that listens there is not volhost; is --socket right?".into()));
            }
            Err(_) => return Err(unreachable(no_answer())),
        };
        // The daemon is trusted, and a node's list may be long.
        Ok(Self {
            manager: VolumeManagerClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            named: NamedVolumesClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            inspect: InspectClient::new(channel).max_decoding_message_size(usize::MAX),
            socket: socket.to_path_buf(),
        })
    }

    /// Connects as soon as the daemon listens, for a command that waits anyway: `volhost run &` and
    /// the next line of a script run at the same time. Calls `not_yet` once if it does not listen
    /// at first.
    ///
    /// # Errors
    /// As [`Client::connect`], when the daemon does not listen after this long.
    pub(super) async fn connect_within(
        socket: &Path,
        timeout: Duration,
        not_yet: impl FnOnce(),
    ) -> Result<Self, CliError> {
        let mut not_yet = Some(not_yet);
        let mut tries = tokio::time::interval(CONNECT_EVERY);
        let listens = async {
            while let Err(error) = UnixStream::connect(socket).await {
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
                    return;
                }
                if let Some(not_yet) = not_yet.take() {
                    not_yet();
                }
                tries.tick().await;
            }
        };
        // If it still does not listen, the connection returns the error.
        let _ = tokio::time::timeout(timeout, listens).await;
        Self::connect(socket).await
    }

    /// The failure behind a status.
    pub(super) fn failed(&self, status: &Status) -> CliError {
        CliError::from_status(status, &self.socket)
    }
}

/// Awaits an answer for at most this long.
///
/// # Errors
/// The daemon's refusal, or that no answer came.
pub(super) async fn within<T>(
    time: Duration,
    socket: &Path,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CliError> {
    match tokio::time::timeout(time, call).await {
        Ok(answer) => answer.map(Response::into_inner).map_err(|status| CliError::from_status(&status, socket)),
        Err(_) => Err(CliError::Unreachable { socket: socket.to_path_buf(), why: no_answer() }),
    }
}

fn no_answer() -> String {
    "it does not answer; its log may say why (journalctl -u volhost)".to_owned()
}

/// Explains the kernel's error of `connect`.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no socket; is the daemon running (volhost run)? If it listens on another socket, \
             name that with --socket or VOLHOST_SOCKET"
                .to_owned()
        }
        io::ErrorKind::ConnectionRefused => {
            "no program listens there: the daemon has ended, or the file is no socket; start it with `volhost run`"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; run this command as root or as the user volhost runs as".to_owned()
        }
        io::ErrorKind::WouldBlock => {
            "too many callers wait for it already; its log may say why (journalctl -u volhost)".to_owned()
        }
        _ => format!("{error}"),
    }
}
