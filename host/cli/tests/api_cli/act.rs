use std::fs;

use volhost_core::{VolumeStatus, WaitFailure};
use volhost_model::view::Change;
use volhost_model::view::VolumeState;
use volhost_model::{Failure, FailureClass};

use crate::daemon::Daemon;
use crate::world::two_pods;

fn failure() -> WaitFailure {
    let status = |name: &str| VolumeStatus {
        name: name.into(),
        state: VolumeState::Pending,
        step: String::new(),
        failure: None,
        reason: String::new(),
        retry_at: None,
        running: None,
    };
    WaitFailure {
        pod: "default/web".into(),
        timed_out: true,
        unknown_pod: false,
        volumes: vec![
            VolumeStatus {
                step: "MountVolume.SetUp".into(),
                failure: Some(Failure::new(FailureClass::Final, "mount", "No such device")),
                retry_at: Some(1),
                ..status("data")
            },
            VolumeStatus {
                state: VolumeState::Unresolved,
                reason: "PVC default/cache is not bound".into(),
                ..status("cache")
            },
        ],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_reaches_its_goal_says_so() {
    let daemon = Daemon::start(two_pods());
    daemon.fake.world.lock().unwrap().wait = Some(Ok(()));
    let ran = daemon.run(&["wait", "pod", "web", "--timeout", "1m30s"]).await;
    assert_eq!((ran.out.as_str(), ran.code), ("pod default/web is mounted\n", 0));
    let ran = daemon.run(&["wait", "pod", "default/web", "--for", "unmounted"]).await;
    assert_eq!((ran.out.as_str(), ran.code), ("pod default/web is unmounted\n", 0));
    let timeouts: Vec<_> =
        daemon.fake.world.lock().unwrap().timeouts.iter().map(std::time::Duration::as_secs).collect();
    assert_eq!(timeouts, [90, 123]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_fails_tells_each_volumes_step_and_cause() {
    let daemon = Daemon::start(two_pods());
    daemon.fake.world.lock().unwrap().wait = Some(Err(failure()));
    let ran = daemon.run(&["wait", "pod", "web", "--timeout", "5s"]).await;
    assert_eq!(
        ran.err,
        "Error: pod default/web is not mounted after 5s\n  \
         data: Pending at MountVolume.SetUp: mount failed: No such device; next try in 0ms\n  \
         cache: Unresolved: PVC default/cache is not bound\n"
    );
    assert_eq!((ran.out.as_str(), ran.code), ("", 1));
    let unknown = daemon.run(&["wait", "pod", "nobody"]).await;
    assert_eq!(
        (unknown.err.as_str(), unknown.code),
        ("Error: no pod default/nobody is known on this node; `volhost get pods` lists them\n", 1)
    );
    for bad in [["wait", "pod", "a/b/c"], ["wait", "pod", "--timeout=5"], ["wait", "plugin", "x"]] {
        assert_eq!(daemon.run(&bad).await.code, 2, "{bad:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_is_applied_and_its_pod_deleted() {
    let daemon = Daemon::start(two_pods());
    let file = |name: &str, text: &[u8]| {
        let path = daemon.folder().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let ran = daemon.run(&["apply", "-f", &file("good.yaml", b"good"), "-f", &file("volume.yaml", b"volume")]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.starts_with("pod default/web applied\n") && ran.out.ends_with("volume.yaml applied; it has no pods\n"),
        "{ran:?}"
    );
    let bad = daemon.run(&["apply", "-f", &file("bad.yaml", b"bad")]).await;
    assert!(bad.code == 1 && bad.err.ends_with("bad.yaml: line 1: this is no object\n"), "{bad:?}");
    let taken = daemon.run(&["apply", "-f", &file("taken.yaml", b"taken")]).await;
    assert!(taken.code == 1 && taken.err.contains("comes from the file web.yaml"), "{taken:?}");
    let binary = daemon.run(&["apply", "-f", &file("x.bin", &[0xff, 0xfe])]).await;
    assert!(binary.code == 1 && binary.err.contains("not text in UTF-8"), "{binary:?}");
    let missing = daemon.run(&["apply", "-f", "/nowhere.yaml"]).await;
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (1, "Error: /nowhere.yaml: No such file or directory (os error 2)\n")
    );

    let deleted = daemon.run(&["delete", "pod", "default/web"]).await;
    assert!(deleted.code == 0 && deleted.out.starts_with("pod default/web removed"), "{deleted:?}");
    assert_eq!(daemon.run(&["delete", "pod", "nobody"]).await.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_with_nothing_left_or_says_what_is() {
    let daemon = Daemon::start(two_pods());
    daemon.fake.world.lock().unwrap().drain = Some(vec![]);
    let ran = daemon.run(&["drain", "--timeout", "3s"]).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str(), ran.code), ("no volume is left on this node\n", "", 0));
    daemon
        .fake
        .change(Change::World, |world| world.drain = Some(vec!["default/web: data: Device or resource busy".into()]));
    let ran = daemon.run(&["drain", "--timeout", "3s"]).await;
    assert_eq!(
        (ran.err.as_str(), ran.code),
        ("Error: not everything is unmounted after 3s:\n  default/web: data: Device or resource busy\n", 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_drain_tells_what_is_left_meanwhile() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let daemon = Daemon::start(two_pods());
    let mut child = daemon.command(&["drain"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "1s: 2 pods with 3 volumes left");
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_are_shown() {
    let daemon = Daemon::start(two_pods());
    let ran = daemon.run(&["version"]).await;
    assert!(
        ran.code == 0 && ran.out.contains("Client: 0.1.0") && ran.out.contains("Server: 0.1.0 (API volhost.v1"),
        "{ran:?}"
    );
}
