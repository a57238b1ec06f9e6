use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use volhost_model::view::Change;
use volhost_model::view::{DriverKind, DriverState, DriverView, OperationView, VolumeState};
use volhost_model::{Failure, FailureClass};
use volhost_node::event_loop::requests::MountView;

use crate::daemon::{Daemon, finish};
use crate::world::{World, a_while_ago, event, pod, two_pods};

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_listed_in_a_table() {
    let daemon = Daemon::start(two_pods());
    let ran = daemon.run(&["get", "pods"]).await;
    let expected = "\
NAMESPACE   NAME         STATUS     READY   TOOK     AGE   REASON
default     web          Mounted    2/2     1.84ms   90s   -
shop        database-0   Mounting   1/2     -        90s   -
";
    assert_eq!((ran.out.as_str(), ran.err.as_str(), ran.code), (expected, "", 0));
    let wide = daemon.run(&["get", "pod", "web", "-o", "wide"]).await.out;
    assert_eq!(
        wide,
        "NAMESPACE   NAME   STATUS    READY   TOOK     AGE   REASON   UID       ERRORS\ndefault     web    Mounted   2/2     1.84ms   90s   -        uid-web   -\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_plugins_and_operations_have_their_columns() {
    let mut world = two_pods();
    world.operations.push(OperationView {
        id: 0,
        name: "volume_mount".into(),
        volume: "kubernetes.io/empty-dir/u-v1".into(),
        pod: "shop/database-0".into(),
        plugin: "kubernetes.io/empty-dir".into(),
        running: false,
        step: String::new(),
        since: a_while_ago(),
        overdue: false,
        failures: 3,
        retry_at: Some(1),
        failure: Some(Failure::new(FailureClass::Final, "MountVolume.SetUp", "no space\nleft")),
    });
    let daemon = Daemon::start(world);
    let volumes = daemon.run(&["get", "volumes", "-n", "default"]).await.out;
    assert_eq!(
        volumes,
        "POD           VOLUME   PLUGIN                    STATE     TOOK     AGE   REASON\n\
         default/web   v0       kubernetes.io/empty-dir   Mounted   0.84ms   90s   -\n\
         default/web   v1       kubernetes.io/empty-dir   Mounted   0.84ms   90s   -\n"
    );
    let plugins = daemon.run(&["get", "plugins"]).await.out;
    assert_eq!(
        plugins,
        "NAME                      VERSION   STATE   SOURCES    VOLUMES   WAITS FOR\n\
         kubernetes.io/empty-dir   0.1.0     Ready   emptyDir   2         -\n"
    );
    let operations = daemon.run(&["get", "operations"]).await.out;
    let row = operations.lines().nth(1).unwrap();
    assert!(operations.starts_with("OPERATION      VOLUME"), "{operations}");
    assert!(row.ends_with("3          now        MountVolume.SetUp failed: no space left"), "{row:?}");
}

fn driver(name: &str, kind: DriverKind, state: DriverState) -> DriverView {
    DriverView {
        name: name.into(),
        kind,
        plugin: "volhost.io/flex-volume".into(),
        version: String::new(),
        state,
        error: if state == DriverState::Failed { "init: no such device".into() } else { String::new() },
        since: a_while_ago(),
        capabilities: vec!["attach".into(), "fsGroup".into()],
        location: format!("/drivers/{name}"),
        node_id: String::new(),
        volume_limit: (kind == DriverKind::Csi).then_some(8),
        topology: Default::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drivers_are_listed_described_and_watched() {
    let world = World {
        drivers: vec![
            driver("acme/lun", DriverKind::Flex, DriverState::Ready),
            driver("acme/old", DriverKind::Flex, DriverState::Failed),
        ],
        events: vec![event(1, "driver acme/old", "init: no such device")],
        ..World::default()
    };
    let daemon = Daemon::start(world);
    let table = "\
NAME       KIND   PLUGIN                   VERSION   STATE    AGE
acme/lun   flex   volhost.io/flex-volume   -         Ready    90s
acme/old   flex   volhost.io/flex-volume   -         Failed   90s
";
    assert_eq!(daemon.run(&["get", "drivers"]).await.out, table);
    let wide = daemon.run(&["get", "driver", "acme/old", "-o", "wide"]).await.out;
    assert!(wide.contains("attach,fsGroup   /drivers/acme/old   init: no such device"), "{wide}");
    let json: Value = serde_json::from_str(&daemon.run(&["get", "drivers", "-o", "json"]).await.out).unwrap();
    let shown = &json["items"][1];
    assert_eq!((&shown["metadata"]["name"], &shown["kind"]), (&"acme/old".into(), &"Driver".into()));
    assert_eq!((&shown["status"]["protocol"], &shown["status"]["state"]), (&"Flex".into(), &"Failed".into()));
    let described = daemon.run(&["describe", "driver", "acme/old"]).await.out;
    for part in ["State:        Failed\n", "Error:        init: no such device\n", "FailedMount   driver acme/old"] {
        assert!(described.contains(part), "{part:?} is not in\n{described}");
    }
    let mut child = daemon.command(&["get", "drivers", "-w"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next_line().await.unwrap().unwrap();
    }
    daemon.fake.change(Change::Drivers, |world| world.drivers[1].state = DriverState::Ready);
    assert!(
        lines
            .next_line()
            .await
            .unwrap()
            .unwrap()
            .contains("acme/old   flex   volhost.io/flex-volume   -         Ready")
    );
    daemon.stop.cancel();
    assert_eq!(child.wait().await.unwrap().code(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_and_yaml_are_kubernetes_style_objects() {
    let daemon = Daemon::start(two_pods());
    let json: Value = serde_json::from_str(&daemon.run(&["get", "pods", "-o", "json"]).await.out).unwrap();
    assert_eq!((&json["kind"], &json["apiVersion"]), (&"List".into(), &"v1".into()));
    let names: Vec<&Value> = json["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["web", "database-0"]);
    let one: Value =
        serde_json::from_str(&daemon.run(&["get", "pod", "shop/database-0", "-o", "json"]).await.out).unwrap();
    assert_eq!(one, json["items"][1]);
    assert_eq!(
        (&one["metadata"]["namespace"], &one["metadata"]["uid"], &one["status"]["phase"], &one["status"]["ready"]),
        (&"shop".into(), &"uid-database-0".into(), &"Mounting".into(), &1.into())
    );
    let volume = &one["status"]["volumes"][0];
    assert_eq!((&volume["podUid"], &volume["readOnly"]), (&"u".into(), &false.into()));
    for time in [&one["metadata"]["creationTimestamp"], &volume["readyAt"]] {
        let time = time.as_str().unwrap();
        assert!(time.starts_with("20") && time.contains('T') && time.ends_with('Z'), "{time}");
    }
    let yaml: Value = serde_saphyr::from_str(&daemon.run(&["get", "pods", "-o", "yaml"]).await.out).unwrap();
    assert_eq!(yaml, json);
    let empty = Daemon::start(World::default()).run(&["get", "pods", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&empty.out).unwrap();
    assert_eq!((&list["items"], empty.err.as_str()), (&Value::Array(vec![]), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_found_is_said_on_standard_error() {
    let daemon = Daemon::start(World::default());
    let none = daemon.run(&["get", "pods"]).await;
    assert_eq!((none.out.as_str(), none.err.as_str(), none.code), ("", "No pods found.\n", 0));
    let none = daemon.run(&["get", "volumes", "-n", "shop"]).await;
    assert_eq!((none.err.as_str(), none.code), ("No volumes found in namespace shop.\n", 0));
    let missing = daemon.run(&["get", "pod", "web"]).await;
    assert_eq!((missing.out.as_str(), missing.code), ("", 1));
    assert_eq!(missing.err, "Error: no pod web found; `volhost get pods` lists all\n");
    assert_eq!(daemon.run(&["describe", "plugin", "a/b"]).await.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn colour_is_for_terminals_unless_asked_for() {
    let daemon = Daemon::start(two_pods());
    assert!(!daemon.run(&["get", "pods"]).await.out.contains('\u{1b}'));
    let always = daemon.run(&["get", "pods", "--color", "always"]).await.out;
    assert!(
        always.contains("\u{1b}[32mMounted\u{1b}[0m    2/2") && always.contains("\u{1b}[33mMounting\u{1b}[0m"),
        "{always:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_changed_rows_below_the_table() {
    let daemon = Daemon::start(two_pods());
    let mut child = daemon.command(&["get", "pods", "-w"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next_line().await.unwrap().unwrap();
    }
    daemon
        .fake
        .change(Change::World, |world| world.snapshot.pods[1] = pod("shop", "database-0", &[VolumeState::Mounted; 2]));
    assert_eq!(
        lines.next_line().await.unwrap().unwrap(),
        "shop        database-0   Mounted    2/2     1.84ms   90s   -"
    );
    daemon.fake.change(Change::World, |world| drop(world.snapshot.pods.remove(0)));
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("default     web          Gone"));
    daemon.stop.cancel();
    let status = child.wait().await.unwrap();
    assert_eq!(status.code(), Some(3), "the daemon ended the watch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_in_json_prints_an_object_a_line() {
    let daemon = Daemon::start(two_pods());
    let mut child = daemon.command(&["get", "pods", "-w", "-o", "json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((first["type"].as_str(), first["object"]["metadata"]["name"].as_str()), (Some("ADDED"), Some("web")));
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_read_enough_is_no_error() {
    let mut world = World::default();
    world.snapshot.pods = (0..5000).map(|at| pod("default", &format!("pod-{at}"), &[])).collect();
    let daemon = Daemon::start(world);
    let mut command = daemon.command(&["get", "pods"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdout(Stdio::from(writer));
    drop(reader);
    let ran = finish_with_closed_output(command).await;
    assert_eq!(ran, (0, String::new()));
}

async fn finish_with_closed_output(mut command: tokio::process::Command) -> (i32, String) {
    let child = command.spawn().unwrap();
    drop(command);
    let output = child.wait_with_output().await.unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_described_pod_tells_state_cause_next_try_mounts_and_events() {
    let mut world = two_pods();
    let volume = &mut world.snapshot.pods[1].volumes[1];
    volume.failure = Some(
        Failure::new(FailureClass::Uncertain, "MountVolume.SetUp", "No space left on device")
            .by("kubernetes.io/empty-dir"),
    );
    volume.retry_at = Some(a_while_ago() + 95_000_000);
    volume.failures = 2;
    world.snapshot.pods[1].errors.push("volume \"cache\": PVC shop/cache is not bound".into());
    world.mounts.push(MountView {
        point: "pods/u/volumes/x/v0".into(),
        fs_type: "tmpfs".into(),
        source: "tmpfs".into(),
        root: "/".into(),
        options: "rw,nosuid".into(),
    });
    world.events = vec![
        event(1, "pod shop/database-0", "MountVolume.SetUp failed for volume \"v1\""),
        event(2, "pod default/web", "other"),
    ];
    let daemon = Daemon::start(world);
    let ran = daemon.run(&["describe", "pod", "shop/database-0"]).await;
    assert_eq!((ran.err.as_str(), ran.code), ("", 0));
    for part in [
        "Name:         database-0\n",
        "Status:       Mounting, 1 of 2 volumes ready\n",
        "volume \"cache\": PVC shop/cache is not bound\n",
        "  v1:\n    State:        Pending\n",
        "      Cause:        No space left on device\n",
        "      Outcome:      uncertain: it may have happened",
        "      Failures:     2 in a row\n",
        "    Next try:     in ",
        "pods/u/volumes/x/v0   tmpfs   tmpfs    /      rw,nosuid\n",
        "FailedMount   pod shop/database-0   3",
    ] {
        assert!(ran.out.contains(part), "{part:?} is not in\n{}", ran.out);
    }
    assert!(!ran.out.contains("other"));
    let volume = daemon.run(&["describe", "volume", "shop/database-0/v1"]).await.out;
    assert!(volume.contains("Cause:        No space left on device") && volume.contains("FailedMount"), "{volume}");
    let plugin = daemon.run(&["describe", "plugin", "kubernetes.io/empty-dir"]).await.out;
    assert!(plugin.contains("Imports:      mounts, tmpfs\n") && plugin.contains("Used by:\n"), "{plugin}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_can_be_narrowed_to_an_object() {
    let mut world = two_pods();
    world.events = vec![event(1, "pod default/web", "one"), event(2, "plugin a.b/c", "two")];
    let daemon = Daemon::start(world);
    let all = daemon.run(&["events"]).await.out;
    assert!(all.starts_with("LAST SEEN   TYPE      REASON        OBJECT            COUNT   MESSAGE\n90s         Warning   FailedMount   pod default/web   3       one\n"), "{all}");
    let narrowed = daemon.run(&["events", "--for", "plugin/a.b/c"]).await.out;
    assert!(narrowed.contains("two") && !narrowed.contains("one"), "{narrowed}");
    let wrong = finish(daemon.command(&["events", "--for", "nonsense"])).await;
    assert_eq!(wrong.code, 2);
}
