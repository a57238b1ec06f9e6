//! A server that dies while many of its volumes are mounted.

use volhost_tests::figures;
use volhost_tests::manifests::pod;

use crate::kit::Daemon;
use crate::nfs_server::{NFS, Server, inline};

/// Volumes of the server: in ten pods.
const PODS: usize = 10;
const VOLUMES_OF_A_POD: usize = 10;

/// Puts the pod with an emptyDir into the manifests, waits until it is ready, and returns what that
/// took in milliseconds of the guest's clock, which counts instructions. The start of the programs
/// `mv` and `date` is part of it. Who looks takes no time from the daemon, which has the guest's one
/// processor for itself and for whatever else it does.
fn ready_after(daemon: &Daemon<'_>, server: &Server, name: &str) -> f64 {
    let manifest = pod(name, &format!("uid-{name}"), &["name: scratch, emptyDir: {}"]);
    let folder = daemon.folder();
    let script = format!(
        "cat >{folder}/{name}.yaml <<'END'\n{manifest}\nEND
         nice -n 19 sh -c '
             begun=$(date +%s%N)
             mv {folder}/{name}.yaml {folder}/manifests/
             while [ ! -e {folder}/root/pods/uid-{name}/volumes/kubernetes.io~empty-dir/scratch ]; do :; done
             echo $(($(date +%s%N) - begun))'"
    );
    let nanoseconds: f64 = server.guest.run(&script).trim().parse().unwrap();
    daemon.wait_mounted(&format!("default/{name}"));
    daemon.remove(&format!("{name}.yaml"));
    daemon.wait_unmounted(&format!("default/{name}"));
    nanoseconds / 1e6
}

#[test]
fn a_hundred_volumes_of_a_dead_server_delay_no_other_and_their_pods_can_be_deleted() {
    let server = Server::start();
    let guest = &server.guest;
    let daemon = server.daemon("dead");
    // The first waits for its plugin to be loaded.
    ready_after(&daemon, &server, "first");
    let healthy = ready_after(&daemon, &server, "before");
    let names: Vec<String> = (0..PODS).map(|pod| format!("n{pod}")).collect();
    let manifests: Vec<String> = names
        .iter()
        .map(|name| {
            let volumes: Vec<String> =
                (0..VOLUMES_OF_A_POD).map(|volume| inline(&format!("v{volume}"), "nas", "")).collect();
            let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
            pod(name, &format!("uid-{name}"), &volumes)
        })
        .collect();
    let mount_all = || {
        daemon.add("many.yaml", &manifests.join("\n---\n"));
        for name in &names {
            daemon.wait_mounted(&format!("default/{name}"));
        }
    };
    // As many of a server that is alive are the measure: the guest has one processor.
    mount_all();
    daemon.remove("many.yaml");
    let of_living = ready_after(&daemon, &server, "beside-a-living-server");
    for name in &names {
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    mount_all();
    assert_eq!(daemon.mounts().iter().filter(|mount| mount.contains(NFS)).count(), PODS * VOLUMES_OF_A_POD);

    // A process uses one of them when the server dies.
    let used = format!("{}/root/pods/uid-n0/volumes/{NFS}/v0", daemon.folder());
    guest.run(&format!("cd {used}; setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >/run/nfs-user.pid"));
    server.stop();
    let mounted = ready_after(&daemon, &server, "while-mounted");
    daemon.remove("many.yaml");
    let unmounting = ready_after(&daemon, &server, "while-unmounted");
    for name in names.iter().skip(1) {
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.wait_event(&["FailedUnmount", "default/n0", "v0"]);
    let forced = daemon.volhost("force-unmount n0/v0");
    assert!(forced.succeeded(), "{forced:?}");
    daemon.wait_unmounted("default/n0");
    guest.run("kill $(cat /run/nfs-user.pid)");
    daemon.add("many.yaml", &manifests.join("\n---\n"));
    daemon.wait_event(&["FailedMount", "default/n9", "port 2049"]);
    let failing = ready_after(&daemon, &server, "while-failing");
    figures::show(&format!(
        "emptyDir is ready after {healthy:.1} ms without NFS; with {} volumes of a dead server after {mounted:.1} ms \
         while they are mounted, {unmounting:.1} ms while they are unmounted ({of_living:.1} ms while as many of a \
         living server are), {failing:.1} ms while their mounts fail",
        PODS * VOLUMES_OF_A_POD
    ));
    daemon.remove("many.yaml");
    for name in &names {
        daemon.wait_unmounted(&format!("default/{name}"));
    }
    daemon.assert_clean();
    daemon.kill();
}
