use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};
use volhost_model::drivers::DriverFailure;

use super::connection::DriverConnection;
use volhost_proto::csi::identity_server::{Identity, IdentityServer};
use volhost_proto::csi::*;

const LONG: Duration = Duration::from_secs(60);

/// Answers with its name, is not ready, and lists too many capabilities.
struct Driver;

#[tonic::async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse { name: "x".to_owned(), ..GetPluginInfoResponse::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let capabilities = vec![PluginCapability::default(); 3 << 20];
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Err(Status::failed_precondition("a disk is missing"))
    }
}

fn socket() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("csi.sock");
    (folder, socket)
}

fn serve(socket: &Path) -> tokio::task::JoinHandle<()> {
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    let server = tonic::transport::Server::builder().add_service(IdentityServer::new(Driver));
    tokio::spawn(async move { drop(server.serve_with_incoming(incoming).await) })
}

async fn ask(connection: &DriverConnection, call: &str, deadline: Duration) -> Result<Vec<u8>, DriverFailure> {
    let method: PathAndQuery = format!("/csi.v1.Identity/{call}").parse().unwrap();
    connection.call(method, Vec::new(), deadline).await
}

#[tokio::test]
async fn an_answer_a_status_and_an_oversized_answer_are_distinguished() {
    let (_folder, socket) = socket();
    let _server = serve(&socket);
    let connection = DriverConnection::new(&socket);
    assert_eq!(ask(&connection, "GetPluginInfo", LONG).await, Ok(vec![10, 1, b'x']));
    let status = DriverFailure::Status { code: 9, message: "a disk is missing".to_owned() };
    assert_eq!(ask(&connection, "Probe", LONG).await, Err(status));
    let missing = ask(&connection, "NoSuchCall", LONG).await;
    assert!(matches!(missing, Err(DriverFailure::Status { code: 12, .. })), "{missing:?}");
    let large = ask(&connection, "GetPluginCapabilities", LONG).await;
    assert!(matches!(&large, Err(DriverFailure::Unanswered(why)) if why.contains("more than")), "{large:?}");
}

#[tokio::test]
async fn an_unsent_call_is_distinguished_from_an_unanswered_one() {
    let (_folder, socket) = socket();
    let connection = DriverConnection::new(&socket);
    let absent = ask(&connection, "Probe", LONG).await;
    assert!(matches!(&absent, Err(DriverFailure::NotSent(why)) if why.contains("No such file")), "{absent:?}");
    let silent = UnixListener::bind(&socket).unwrap();
    let waited = ask(&connection, "Probe", Duration::from_millis(50)).await;
    assert!(matches!(&waited, Err(DriverFailure::Unanswered(_))), "{waited:?}");
    let hangs_up = tokio::spawn(async move {
        loop {
            drop(silent.accept().await);
        }
    });
    let broken = ask(&DriverConnection::new(&socket), "Probe", LONG).await;
    assert!(matches!(&broken, Err(DriverFailure::Unanswered(_) | DriverFailure::NotSent(_))), "{broken:?}");
    hangs_up.abort();
    let _ = hangs_up.await;
    std::fs::remove_file(&socket).unwrap();
    // The same connection finds the driver that has come back.
    let _server = serve(&socket);
    let again = async {
        // Whether the broken connection has been noticed by the first call is chance.
        while ask(&connection, "GetPluginInfo", LONG).await.is_err() {}
    };
    tokio::time::timeout(LONG, again).await.unwrap();
}
