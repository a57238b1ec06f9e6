use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tokio::io::AsyncWriteExt;

use crate::daemon::{Daemon, finish, run_at};
use crate::world::two_pods;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_socket_asks_whether_the_daemon_runs() {
    let ran = run_at(Path::new("/nowhere/v.sock"), &["get", "pods"]).await;
    assert_eq!(ran.code, 3);
    assert!(
        ran.err.contains("cannot reach volhost at /nowhere/v.sock: there is no socket; is the daemon running"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("--socket") && ran.err.contains("VOLHOST_SOCKET"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_daemons_socket_is_told_from_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("v.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let ran = run_at(&socket, &["get", "pods"]).await;
    assert!(ran.code == 3 && ran.err.contains("no program listens there: the daemon has ended"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_something_else_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("v.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let other = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"220 smtp.example.com ready\r\n").await;
        }
    });
    let ran = run_at(&socket, &["get", "pods"]).await;
    other.abort();
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.starts_with("Error: "), "{ran:?}");
}

/// Needs root, to be another user for a moment; as another user, others' rights cannot be tried.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_refused_even_when_the_socket_is_open_to_all() {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let daemon = Daemon::start(two_pods());
    // The binary may lie where nobody can reach it.
    let binary = daemon.folder().join("volhost");
    fs::copy(env!("CARGO_BIN_EXE_volhost"), &binary).unwrap();
    fs::set_permissions(daemon.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = |socket: std::path::PathBuf| {
        let mut command = tokio::process::Command::new(&binary);
        command
            .args(["get", "pods"])
            .env_clear()
            .env("VOLHOST_SOCKET", socket)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/");
        command
    };
    let closed = finish(as_nobody(daemon.socket())).await;
    assert!(closed.code == 3 && closed.err.contains("permission denied; run this command as root"), "{closed:?}");
    fs::set_permissions(daemon.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let open = finish(as_nobody(daemon.socket())).await;
    assert!(open.code == 3 && open.err.contains("user 65534 may not use this volhost"), "{open:?}");
    assert_eq!(open.out, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_ends_during_a_wait_is_told() {
    let daemon = Daemon::start(two_pods());
    let waiting = tokio::spawn(finish(daemon.command(&["wait", "pod", "web"])));
    while daemon.fake.world.lock().unwrap().timeouts.is_empty() {
        tokio::task::yield_now().await;
    }
    daemon.stop.cancel();
    let ran = waiting.await.unwrap();
    assert!(ran.code == 3 && ran.err.contains("volhost is shutting down"), "{ran:?}");
}
