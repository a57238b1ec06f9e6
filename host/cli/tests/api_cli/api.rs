use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use volhost_api::pb::inspect_client::InspectClient;
use volhost_api::pb::volume_manager_client::VolumeManagerClient;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_api::pb::{self, PodSelector};
use volhost_model::view::Change;
use volhost_model::view::VolumeState;

use crate::daemon::Daemon;
use crate::world::{event, pod, two_pods};

async fn channel(daemon: &Daemon) -> Channel {
    let socket = daemon.socket();
    let endpoint = Endpoint::from_static("http://volhost");
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    endpoint.connect_with_connector(connector).await.unwrap()
}

fn web() -> Option<PodSelector> {
    Some(PodSelector { name: "web".into(), ..PodSelector::default() })
}

fn nobody() -> Option<PodSelector> {
    Some(PodSelector { name: "nobody".into(), ..PodSelector::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_the_volume_manager_is_answered() {
    let daemon = Daemon::start(two_pods());
    daemon.fake.world.lock().unwrap().wait = Some(Ok(()));
    let mut manager = VolumeManagerClient::new(channel(&daemon).await);
    let request = || pb::PodRequest { pod: web() };
    let wait = || pb::WaitRequest { pod: web(), timeout_ms: 1500 };

    let added = manager
        .add_pods(pb::AddPodsRequest { manifest: "good".into(), wait_ms: 0, field_validation: 0, dry_run: false })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(added.pods[0].full_name, "default/web");
    manager.remove_pod(pb::RemovePodRequest { pod: web() }).await.unwrap();
    assert_eq!(manager.wait_for_attach_and_mount(wait()).await.unwrap().into_inner().failure, None);
    assert_eq!(
        manager.wait_for_unmount(pb::WaitRequest { timeout_ms: 0, ..wait() }).await.unwrap().into_inner().failure,
        None
    );
    assert_eq!(daemon.fake.world.lock().unwrap().timeouts, [Duration::from_millis(1500), Duration::from_secs(123)]);
    let all = pb::WaitForAllPodsUnmountRequest { pods: vec![web().unwrap()], timeout_ms: 5 };
    assert!(manager.wait_for_all_pods_unmount(all).await.unwrap().into_inner().failures.is_empty());
    assert_eq!(manager.get_mounted_volumes_for_pod(request()).await.unwrap().into_inner().volumes.len(), 1);
    assert_eq!(manager.get_possibly_mounted_volumes_for_pod(request()).await.unwrap().into_inner().volumes.len(), 2);
    assert!(manager.has_possibly_mounted_volumes_for_pod(request()).await.unwrap().into_inner().possibly_mounted);
    assert_eq!(manager.get_extra_supplemental_groups_for_pod(request()).await.unwrap().into_inner().groups, [5, 7]);
    let in_use = manager.get_volumes_in_use(pb::GetVolumesInUseRequest {}).await.unwrap().into_inner();
    assert_eq!(in_use.volumes, ["a.b/c/v"]);
    manager.mark_volumes_as_reported_in_use(in_use).await.unwrap();
    assert_eq!(daemon.fake.world.lock().unwrap().reported, ["a.b/c/v"]);
    assert!(
        manager
            .volume_is_attached(pb::VolumeIsAttachedRequest { volume: "a.b/c/v".into() })
            .await
            .unwrap()
            .into_inner()
            .attached
    );
    assert!(manager.states_synced(pb::StatesSyncedRequest {}).await.unwrap().into_inner().synced);
    assert!(manager.get_mounts(request()).await.unwrap().into_inner().mounts.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_codes_for_programs() {
    let daemon = Daemon::start(two_pods());
    let mut manager = VolumeManagerClient::new(channel(&daemon).await).max_encoding_message_size(usize::MAX);
    let mut add = async |manifest: &str| {
        manager
            .add_pods(pb::AddPodsRequest { manifest: manifest.into(), wait_ms: 0, field_validation: 0, dry_run: false })
            .await
            .unwrap_err()
    };
    assert_eq!(add("bad").await.code(), Code::InvalidArgument);
    assert_eq!(add("taken").await.code(), Code::AlreadyExists);
    let too_large = add(&"x".repeat(volhost_api::MAX_MANIFEST_BYTES + 1)).await;
    assert_eq!(too_large.code(), Code::InvalidArgument);
    assert!(too_large.message().contains("8388608 at most"), "{too_large}");
    assert!(!matches!(add(&"x".repeat(volhost_api::MAX_MANIFEST_BYTES * 2)).await.code(), Code::Ok | Code::Internal));
    assert_eq!(manager.get_mounts(pb::PodRequest { pod: nobody() }).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(manager.get_mounts(pb::PodRequest { pod: None }).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_by_namespace_and_name() {
    let daemon = Daemon::start(two_pods());
    let mut inspect = InspectClient::new(channel(&daemon).await);
    let list = |namespace: &str, name: &str| pb::ListRequest {
        namespace: namespace.into(),
        name: name.into(),
        ..pb::ListRequest::default()
    };
    assert_eq!(inspect.list_pods(list("", "")).await.unwrap().into_inner().pods.len(), 2);
    assert_eq!(inspect.list_pods(list("shop", "")).await.unwrap().into_inner().pods[0].name, "database-0");
    assert_eq!(inspect.list_pods(list("", "default/web")).await.unwrap().into_inner().pods.len(), 1);
    assert!(inspect.list_pods(list("", "shop/web")).await.unwrap().into_inner().pods.is_empty());
    assert_eq!(inspect.list_volumes(list("", "shop/database-0/v1")).await.unwrap().into_inner().volumes.len(), 1);
    assert_eq!(inspect.list_volumes(list("default", "v0")).await.unwrap().into_inner().volumes.len(), 1);
    assert_eq!(inspect.list_plugins(list("", "kubernetes.io/empty-dir")).await.unwrap().into_inner().plugins.len(), 1);
    assert!(inspect.list_operations(list("", "")).await.unwrap().into_inner().operations.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sends_what_there_is_then_what_changes() {
    let daemon = Daemon::start(two_pods());
    let mut inspect = InspectClient::new(channel(&daemon).await);
    let request = pb::WatchRequest { kind: pb::Kind::Pods.into(), ..pb::WatchRequest::default() };
    let mut watch = inspect.watch(request).await.unwrap().into_inner();
    let mut next = async || {
        let update = watch.message().await.unwrap().unwrap();
        let name = match &update.object {
            Some(Object::Pod(pod)) => format!("{} {}/{}", pod.name, pod.ready, pod.total),
            _ => String::new(),
        };
        (update.r#type(), name)
    };
    assert_eq!(next().await, (Type::Added, "web 2/2".into()));
    assert_eq!(next().await, (Type::Added, "database-0 1/2".into()));
    assert_eq!(next().await, (Type::Synced, String::new()));
    daemon
        .fake
        .change(Change::World, |world| world.snapshot.pods[1] = pod("shop", "database-0", &[VolumeState::Mounted; 2]));
    assert_eq!(next().await, (Type::Modified, "database-0 2/2".into()));
    daemon.fake.change(Change::World, |world| drop(world.snapshot.pods.remove(0)));
    assert_eq!(next().await, (Type::Deleted, "web 2/2".into()));
    let nothing = inspect.watch(pb::WatchRequest::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_watches_all_the_time_lists_no_pods() {
    let daemon = Daemon::start(two_pods());
    let mut manager = VolumeManagerClient::new(channel(&daemon).await);
    let mut lists = manager.watch_volumes_in_use(pb::WatchVolumesInUseRequest {}).await.unwrap().into_inner();
    let mut next = async || lists.message().await.unwrap().unwrap().volumes;
    assert_eq!(next().await, ["a.b/c/v"]);
    let mut inspect = InspectClient::new(channel(&daemon).await);
    let mut watches = Vec::new();
    for kind in [pb::Kind::Plugins, pb::Kind::Drivers] {
        let request = pb::WatchRequest { kind: kind.into(), ..pb::WatchRequest::default() };
        let mut watch = inspect.watch(request).await.unwrap().into_inner();
        while watch.message().await.unwrap().unwrap().r#type() != Type::Synced {}
        watches.push(watch);
    }
    // A change of something else is followed by no list.
    daemon.fake.change(Change::World, |world| drop(world.snapshot.pods.remove(0)));
    while daemon.fake.world.lock().unwrap().in_use_lists < 2 {
        tokio::task::yield_now().await;
    }
    daemon.fake.change(Change::World, |world| {
        world.in_use.push("a.b/c/w".into());
        world.plugins[0].volumes += 1;
    });
    assert_eq!(next().await, ["a.b/c/v", "a.b/c/w"]);
    assert_eq!(watches[0].message().await.unwrap().unwrap().r#type(), Type::Modified);
    assert_eq!(daemon.fake.world.lock().unwrap().snapshots, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_events_sends_each_once() {
    let daemon = Daemon::start(two_pods());
    daemon.fake.world.lock().unwrap().events =
        vec![event(1, "pod default/web", "a"), event(2, "pod default/web2", "b")];
    let mut inspect = InspectClient::new(channel(&daemon).await);
    let events = Some(pb::ListEventsRequest { after: 0, object: "pod default/web".into() });
    let request = pb::WatchRequest { kind: pb::Kind::Events.into(), events, ..pb::WatchRequest::default() };
    let mut watch = inspect.watch(request).await.unwrap().into_inner();
    let mut next = async || match watch.message().await.unwrap().unwrap().object {
        Some(Object::Event(event)) => event.message,
        _ => "synced".into(),
    };
    assert_eq!(next().await, "a");
    assert_eq!(next().await, "synced");
    daemon.fake.change(Change::Events, |world| {
        world.events.extend([event(3, "plugin a.b/c", "c"), event(4, "pod default/web volume data", "d")])
    });
    assert_eq!(next().await, "d");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_volhost_ends_waits_and_watches_and_removes_the_socket() {
    let daemon = Daemon::start(two_pods());
    let mut manager = VolumeManagerClient::new(channel(&daemon).await);
    let mut inspect = InspectClient::new(channel(&daemon).await);
    let request = pb::WatchRequest { kind: pb::Kind::Pods.into(), ..pb::WatchRequest::default() };
    let mut watch = inspect.watch(request).await.unwrap().into_inner();
    let waiting =
        tokio::spawn(
            async move { manager.wait_for_attach_and_mount(pb::WaitRequest { pod: web(), timeout_ms: 0 }).await },
        );
    while daemon.fake.world.lock().unwrap().timeouts.is_empty() {
        tokio::task::yield_now().await;
    }
    daemon.stop.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Unavailable);
    let ended = loop {
        match watch.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the watch ended without a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable);
    let socket = daemon.socket();
    drop((watch, inspect));
    daemon.serving.await.unwrap().unwrap();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_tells_how_far_it_is_and_what_is_left() {
    let daemon = Daemon::start(two_pods());
    let mut manager = VolumeManagerClient::new(channel(&daemon).await);
    let mut drain = manager.drain(pb::DrainRequest { timeout_ms: 100 }).await.unwrap().into_inner();
    let first = drain.message().await.unwrap().unwrap();
    assert_eq!((first.pods_left, first.volumes_left, first.done), (2, 3, false));
    daemon.fake.change(Change::World, |world| world.snapshot.pods.truncate(1));
    let second = drain.message().await.unwrap().unwrap();
    assert_eq!((second.pods_left, second.volumes_left, second.done), (1, 2, false));
}
