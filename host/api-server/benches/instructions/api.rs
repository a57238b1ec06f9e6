//! A call of the API: client and server on one thread, with a socket between them. The event loop's
//! part is a task that answers the same each time.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use volhost_api::pb::volume_manager_client::VolumeManagerClient;
use volhost_api::pb::{PodRequest, PodSelector};
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::{MountedVolume, Request};

/// The volumes that an answer lists.
const VOLUMES: usize = 3;

fn volume(number: usize) -> MountedVolume {
    let uid = "00000000-0000-4000-8000-000000000000";
    MountedVolume {
        outer_name: format!("volume-{number}"),
        unique_name: format!("kubernetes.io/empty-dir/{uid}/volume-{number}"),
        spec_name: format!("volume-{number}"),
        path: format!("/var/lib/volhost/pods/{uid}/volumes/kubernetes.io~empty-dir/volume-{number}"),
        read_only: false,
        container_mounts: Vec::new(),
        container_devices: Vec::new(),
    }
}

async fn answer(mut requests: mpsc::Receiver<Request>) {
    let volumes: Vec<MountedVolume> = (0..VOLUMES).map(volume).collect();
    while let Some(request) = requests.recv().await {
        let Request::MountedVolumes { answer, .. } = request else { panic!("{request:?}") };
        answer.send(Ok(volumes.clone())).unwrap();
    }
}

async fn connect(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The address is not used: the connector knows the socket.
    Endpoint::from_static("http://volhost").connect_with_connector(connector).await.unwrap()
}

async fn ask_over_socket(rounds: u64) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("volhost.sock");
    let listener = volhost_api_server::bind(&socket).unwrap();
    let (requests, asked) = mpsc::channel(1);
    let (changes, _) = broadcast::channel(1);
    let shutdown = CancellationToken::new();
    tokio::spawn(answer(asked));
    let served =
        tokio::spawn(volhost_api_server::serve(listener, NodeHandle::new(requests, changes), None, shutdown.clone()));
    let mut client = VolumeManagerClient::new(connect(socket).await);
    let pod = PodSelector { uid: "00000000-0000-4000-8000-000000000000".into(), ..PodSelector::default() };
    for _ in 0..rounds {
        let request = PodRequest { pod: Some(pod.clone()) };
        let mounted = client.get_mounted_volumes_for_pod(request).await.unwrap().into_inner();
        assert_eq!(mounted.volumes.len(), VOLUMES);
    }
    drop(client);
    shutdown.cancel();
    served.await.unwrap().unwrap();
}

/// A client asks for a pod's mounted volumes, one call after another.
pub(crate) fn ask(rounds: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask_over_socket(rounds));
}
