use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};
use volhost_model::drivers::DriverFailure;

use super::call_observer::{CallObserver, ObservedDriver};
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

/// Answers for its capabilities with a number of its own.
struct Numbered(usize);

#[tonic::async_trait]
impl Identity for Numbered {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse::default()))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let capabilities = vec![PluginCapability::default(); self.0];
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse::default()))
    }
}

/// Serves in a runtime of its own, so that dropping it ends the driver with its connections.
fn serve_alone(socket: &Path, number: usize) -> tokio::runtime::Runtime {
    let _ = std::fs::remove_file(socket);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = runtime.enter();
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    drop(entered);
    let server = tonic::transport::Server::builder().add_service(IdentityServer::new(Numbered(number)));
    runtime.spawn(async move { drop(server.serve_with_incoming(incoming).await) });
    runtime
}

#[tokio::test]
async fn capabilities_are_asked_for_once_a_connection_and_again_of_the_next_driver() {
    let (_folder, socket) = socket();
    let connection = DriverConnection::new(&socket);
    let known = || connection.known_answer("/csi.v1.Identity/GetPluginCapabilities", &[]);
    for number in 1..4 {
        let driver = serve_alone(&socket, number);
        assert_eq!(known(), None);
        // Whether the end of the connection before has been noticed by the first call is chance.
        let mut answer = ask(&connection, "GetPluginCapabilities", LONG).await;
        while answer.is_err() {
            answer = ask(&connection, "GetPluginCapabilities", LONG).await;
        }
        // An empty capability has two bytes: its field and its length.
        assert_eq!(answer.as_ref().map(Vec::len), Ok(2 * number));
        assert_eq!(known(), answer.ok(), "it is known now");
        ask(&connection, "Probe", LONG).await.unwrap();
        assert!(known().is_some(), "another call changes nothing");
        driver.shutdown_background();
        let forgotten = async {
            while known().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, forgotten).await.expect("the end of the connection is noticed without a call");
    }
}

/// Writes down the calls that have ended.
#[derive(Debug, Default)]
struct Ended(Mutex<Vec<(String, String, &'static str)>>);

impl CallObserver for Ended {
    fn call_ended(&self, driver: &str, method: &str, code: &'static str, _: Duration) {
        let method = method.rsplit('/').next().unwrap().to_owned();
        self.0.lock().unwrap().push((driver.to_owned(), method, code));
    }
}

#[tokio::test]
async fn every_end_of_a_call_is_observed_by_the_kubelets_name_of_its_status() {
    let (_folder, socket) = socket();
    let ended = Arc::new(Ended::default());
    let observed = || Some(ObservedDriver::new("x", ended.clone()));
    let last = || ended.0.lock().unwrap().pop().unwrap().2;
    let connection = DriverConnection::new(&socket).with_observed(observed());
    ask(&connection, "Probe", LONG).await.unwrap_err();
    assert_eq!(last(), "Unavailable", "no driver listens");
    let silent = UnixListener::bind(&socket).unwrap();
    for _ in 0..8 {
        // tonic's clock or ours may be first.
        ask(&connection, "Probe", Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(last(), "DeadlineExceeded");
    }
    drop(silent);
    std::fs::remove_file(&socket).unwrap();
    let _server = serve(&socket);
    let connection = DriverConnection::new(&socket).with_observed(observed());
    for (call, code) in [("GetPluginInfo", "OK"), ("Probe", "FailedPrecondition"), ("NoSuchCall", "Unimplemented")] {
        let _ = ask(&connection, call, LONG).await;
        let noted = ended.0.lock().unwrap().pop().unwrap();
        assert_eq!(noted, ("x".to_owned(), call.to_owned(), code));
    }
    assert!(ended.0.lock().unwrap().is_empty(), "one call counts once");
}
